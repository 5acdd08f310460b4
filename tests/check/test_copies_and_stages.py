"""Copies in the background and the stages of a pipeline: what is accepted, and what is not."""

from __future__ import annotations

import numpy as np
import pytest
from check.checking import codes, execute, in_block

PARAMS = "x: ptr(const(int)) @ grid[1], y: ptr(int) @ grid[1], n: int @ grid[1]"
DECLARED = "q: pipeline(shared(int[256]), 2)\ns: shared(int[256])\nt: int @ thread[1] = id()\n"


def use(code: str) -> list[tuple[str, int]]:
    return [(found, line - 3) for found, line in in_block(DECLARED + code, params=PARAMS)]


def test_a_copy_goes_from_global_to_shared_memory_that_the_thread_owns():
    mine = "with partition({}, p=thread[1], offset=t) as m:\n    async_copy({})"
    assert use(mine.format("s", "m[0], x[t]")) == [] and use(mine.format("s", "m[0], y[t]")) == []
    assert use(mine.format("s", "m[0], m[1]")) == [("SNAP018", 2)]
    assert use("async_copy(s[0], x[0])") == [("SNAP009", 1)]
    assert use("async_copy(y[0], x[0])") == [("SNAP009", 1)]
    for wrong in ("m[0]", "m[0], x", "m, x[0]", "m[0], 3", "m[0], x[0], 4", "m[0], x[0], huh=3", "m[0], t", "m[0], x[0, 0]", "m[0.5], x[0]"):
        assert use(mine.format("s", wrong)) == [("SNAP018", 2)], wrong
    assert use(mine.format("s", "m[0], x[0], at=3")) == [("SNAP018", 2)]
    for condition in ("t < n", "n", "x[t]", "True", "t < n and x[t] > 0", "intrinsic.any(t < n)"):
        assert use(mine.format("s", f"m[0], x[t], valid={condition}")) == [], condition
    for wrong in ("valid=x", "valid=s", "valid=t < n, at=3", "valid=t < n, huh=3"):
        assert use(mine.format("s", f"m[0], x[t], {wrong}"))[0][0] in ("SNAP018", "SNAP017"), wrong
    assert use(mine.format("s", "m[0], m[1], valid=t < n")) == [("SNAP018", 2)]
    assert use("z: int @ thread[1] = async_copy(s[0], x[0])")[0][0] in ("SNAP009", "SNAP018")


@pytest.mark.parametrize("type, accepted", [("int", True), ("i64", True), ("int4", True), ("float", True), ("int2", True), ("i8", False), ("f16", False), ("i16", False)])
def test_a_copy_moves_4_8_or_16_bytes(type, accepted):
    text = f"with partition(s.view({type}), p=thread[1], offset=0) as m:\n    async_copy(m[0], x.view({type})[0])"
    assert use(text) == ([] if accepted else [("SNAP018", 2)])
    assert use("with partition(s.view(float), p=thread[1], offset=0) as m:\n    async_copy(m[0], x[0])") == [("SNAP018", 2)]


@pytest.mark.parametrize("type, refused", [
    ("pipeline(shared(int[64]), 3)", None), ("pipeline(shared(int[64]), 1)", None), ("pipeline(shared(int[64]), 0)", "SNAP018"), ("pipeline(shared(int[64]), n)", "SNAP018"), ("pipeline(int[64], 2)", "SNAP018"),
    ("pipeline(shared(int[64]))", "SNAP018"), ("pipeline(shared(int), 2)", "SNAP018"), ("pipeline(shared(int[64]), 2) @ thread[1]", "SNAP012"), ("pipeline(shared(i8[64]), 10000)", "SNAP013"),
])
def test_pipelines(type, refused):
    assert use(f"z: {type}") == ([(refused, 1)] if refused else [])
    assert codes("z: pipeline(shared(int[64]), 2)") == [("SNAP012", 1)]


@pytest.mark.parametrize("head, refused", [
    ("stage(q) as a", None), ("stage(q, 0) as a", None), ("stage(q, n) as a", None), ("stage(q, n + 1) as a", None), ("stage(q, x[0]) as a", None), ("stage(q, -1) as a", "SNAP021"), ("stage(q, t) as a", "SNAP006"),
    ("stage(q, y[0]) as a", "SNAP006"), ("stage(q, 1.5) as a", "SNAP018"), ("stage(s) as a", "SNAP018"), ("stage(q)", "SNAP018"), ("stage(q, 1, 2) as a", "SNAP018"), ("stage() as a", "SNAP018"), ("stage(3) as a", "SNAP018"),
    ("stage(q, k=3) as a", "SNAP018"),
])
def test_stages(head, refused):
    assert use(f"with {head}:\n    pass") == ([(refused, 1)] if refused else [])


def test_a_pipeline_is_used_through_its_stages():
    for wrong in ("z: int = q[0]", "z: int = q[0, 1]", "z = q", "q = 3", "atomic.add(q, 0, 1)", "with partition(q, p=thread[1]) as m:\n    pass", "with claim(q, p=thread[32]) as m:\n    pass", "z: int = tile(q, (0, 0), (1, 1))[0, 0]"):
        assert [code for code, _ in use(wrong)] == ["SNAP018"], wrong


def test_a_stage_is_taken_where_the_block_acts_as_one():
    assert use("with group(thread[32]):\n    with stage(q) as a:\n        pass") == [("SNAP005", 2)]
    assert use("with stage(q, 0) as a:\n    with group(thread[32]):\n        z: int @ thread[1] = a[t]") == []
    assert use("with stage(q, 0) as a:\n    z: int = a[0]") == []
    assert use("with stage(q) as a:\n    z: int = a[0]") == [("SNAP021", 1)]  # the next fill, and nothing is put into it
    assert use("with stage(q) as a:\n    a[0] = 1") == [("SNAP009", 2)]
    assert use("with stage(q) as a:\n    z: int = a[0, 0]") == [("SNAP018", 2)]


@pytest.mark.parametrize("type, fill", [("int", 7), ("i64", 2**40), ("u32", 7), ("u64", 2**40), ("i8", 7), ("u8", 7)])
def test_a_fill_is_any_integer(type, fill):
    text = f"""
@kernel
@requires(grid[1], block[1], thread[64])
def k(out: ptr(int) @ grid[1], n: {type} @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(out, p=thread[1], offset=i) as mine:
            with group(block[1]):
                q: pipeline(shared(int[64]), 3)
                t: int @ thread[1] = id()
                with stage(q, n) as a:
                    with partition(a, p=thread[1], offset=t) as m:
                        m[0] = t
                with stage(q, n + 3) as a:
                    mine[0] = a[63 - t]
"""
    out = np.zeros(64, np.int32)
    execute(text)["k"][1](out, fill)
    np.testing.assert_array_equal(out, 63 - np.arange(64))
