"""Memory, its lowering, what may be read and written."""

from __future__ import annotations

import numpy as np
import pytest
from check.checking import accepted, codes, errors, execute, in_block, kernel, program, refused

from snap._compiler.ir import nodes as ir
from snap._compiler.ir.walk import statements

X = "x: ptr(int) @ grid[1]"
C = "c: ptr(const(int)) @ grid[1]"


# ---- pointers ------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("param, refused", [
    ("x: ptr(int) @ grid[1]", False), ("x: ptr(const(int)) @ grid[1]", False), ("x: ptr(float4) @ grid[1]", False), ("x: ptr(int)", False), ("x: ptr(int, (4, n)) @ grid[1]", False),
    ("x: ptr(int, n) @ grid[1]", False), ("x: ptr(int, (n, n * 2 + 1)) @ grid[1]", False), ("x: ptr(int) @ block[1]", True), ("x: ptr(int) @ thread[1]", True),
    ("x: ptr(shared(int)) @ grid[1]", True), ("x: int[4] @ grid[1]", True), ("x: ref(int[4]) @ grid[1]", True), ("x: shared(int[4]) @ grid[1]", True), ("x: ptr(int[4]) @ grid[1]", True),
    ("x: ptr(ptr(int)) @ grid[1]", True), ("x: ptr() @ grid[1]", True), ("x: ptr(int, (0, 4)) @ grid[1]", True), ("x: ptr(int, ()) @ grid[1]", True), ("x: ptr(int, (1.5,)) @ grid[1]", True),
    ("x: ptr(3) @ grid[1]", True), ("x", True), ("x: int @ grid", True),
])
def test_what_a_kernel_takes(param, refused):
    found = program(f"@kernel\n@requires(thread[32])\ndef k({param}, n: int @ grid[1]):\n    pass")
    assert [code for code, _ in found] == (["SNAP018"] if refused else [])


def test_a_shape_may_not_vary():
    assert codes("pass", params="x: ptr(int, (t,)) @ grid[1], t: int @ thread[1]") == [("SNAP006", -1)] or errors("pass", params="x: ptr(int, (t,)) @ grid[1], t: int @ thread[1]")


def test_pointers_cannot_be_assigned_returned_or_stored():
    assert codes("y = x", params=X) == [("SNAP018", 1)]
    assert codes("y: ptr(int) = x", params=X) == [("SNAP018", 1)]
    assert codes("x = x", params=X) == [("SNAP018", 1)]
    assert codes("y: int = x", params=X) == [("SNAP018", 1)]
    assert codes("y: int = x + 1", params=X) == [("SNAP018", 1)]
    assert in_block("s: shared(int[4])\ny = s") == [("SNAP018", 2)]
    assert in_block("y = tile(x, 0, 4)", params=X) == [("SNAP018", 1)]
    assert in_block("y = x.view(i64)", params=X) == [("SNAP018", 1)]


def test_indices_are_as_many_as_dimensions_and_integers():
    shaped = "x: ptr(const(int), (4, n)) @ grid[1], n: int @ grid[1]"
    assert codes("y: int = x[0, 1]", params=shaped) == []
    assert codes("y: int = x[0]", params=shaped) == [("SNAP018", 1)]
    assert codes("y: int = x[0, 1, 2]", params=shaped) == [("SNAP018", 1)]
    assert codes("y: int = c[0, 1]", params=C) == [("SNAP018", 1)]
    assert codes("y: int = c[0.5]", params=C) == [("SNAP018", 1)]
    assert codes("y: int = c[True]", params=C) == [("SNAP018", 1)]
    assert codes("y: int = c[0:1]", params=C)[0][0] == "SNAP017"
    assert codes("y: int = x[4, 0]", params=shaped) == [("SNAP018", 1)]
    assert codes("y: int = x[-1, 0]", params=shaped) == [("SNAP018", 1)]


# ---- shared memory -------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("group, refused", [("grid[1]", True), ("block[1]", False), ("block[2]", True), ("thread[256]", True), ("thread[32]", True), ("thread[1]", True)])
def test_shared_memory_is_declared_at_block_1(group, refused):
    assert codes(f"with group({group}):\n    s: shared(int[4])", "grid[1], block[2], thread[256]") == ([("SNAP012", 2)] if refused else [])


def test_what_shared_memory_may_be():
    assert in_block("s: shared(float[16, 8])\nq: shared(float4[4]) @ block[1]\nr: shared(bf16[64, 64], swizzle=128)") == []
    assert in_block("s: shared(float)") == [("SNAP018", 1)]
    assert in_block("s: shared(int[4]) @ thread[1]") == [("SNAP012", 1)]
    assert in_block("s: shared(int[4]) = 0") == [("SNAP018", 1)]
    assert in_block("s: shared(int[n])", params="n: int @ grid[1]") == [("SNAP018", 1)]
    assert in_block("s: shared(int[0])") == [("SNAP018", 1)]
    assert in_block("s: shared(int[4], swizzle=7)") == [("SNAP018", 1)]
    assert in_block("s: shared(int[4], huh=7)") == [("SNAP018", 1)]
    assert in_block("s: shared(shared(int[4]))") == [("SNAP018", 1)]
    assert in_block("s: shared(int[N])", N=4) == []


# ---- views and tiles -----------------------------------------------------------------------------------------------------------------------


def test_a_view_is_the_same_memory():
    assert in_block("s: shared(float[8])\ny: float4 = s.view(float4)[1]\nz: u32 = s.view(u32)[7]") == []
    assert in_block("s: shared(float[8])\ny: float4 = s.view(float4)[2]") == [("SNAP018", 2)]
    assert in_block("s: shared(float[6])\ny: float4 = s.view(float4)[0]") == [("SNAP018", 2)]
    assert in_block("s: shared(float[8])\ny = s.view(3)[0]") == [("SNAP018", 2)]
    assert in_block("s: shared(float[8])\ny = s.view(float4, 2)[0]") == [("SNAP018", 2)]
    assert in_block("s: shared(float[256])\nt: int @ thread[1] = id()\nwith partition(s, p=thread[1], offset=t) as m:\n    m.view(u32)[0] = u32(1)") == []
    assert in_block("s: shared(float[8])\nwith partition(s.view(float4), p=thread[1], offset=0) as m:\n    y: float = s[0]") == [("SNAP010", 3)]


def test_a_view_of_a_part_needs_consecutive_elements():
    part = "s: shared(int[8, 8])\nt: int @ thread[1] = id()\nwith partition(s, p=thread[1], f={}) as m:\n    y: int4 @ thread[1] = m.view(int4)[{}]"
    assert in_block(part.format("lambda j: (t % 8, j)", "0")) == []
    assert in_block(part.format("lambda j: (j, t % 8)", "0")) == [("SNAP018", 4)]
    assert in_block(part.format("lambda j: (t % 8, 2 * j)", "0")) == [("SNAP018", 4)]
    assert in_block(part.format("lambda i, j: (i, j)", "0, 1")) == []
    assert in_block(part.format("lambda j: (t % 8, 7 - j)", "0")) == [("SNAP018", 4)]


def test_views_of_local_arrays():
    assert in_block("a: float[8] @ thread[1]\nb: float4 @ thread[1] = a.view(float4)[1]\na.view(u32)[0] = u32(0)") == []
    assert in_block("a: float[6] @ thread[1]\nb: float4 @ thread[1] = a.view(float4)[0]") == [("SNAP018", 2)]


def test_a_tile_is_a_part_of_the_same_memory():
    assert in_block("s: shared(int[16, 16])\ny: int = tile(s, (4, 4), (8, 8))[7, 7]") == []
    assert in_block("s: shared(int[16, 16])\ny: int = tile(s, (4, 4), (8, 8))[8, 0]") == [("SNAP018", 2)]
    assert in_block("s: shared(int[16, 16])\ny: int = tile(s, 4, 8)[0]") == [("SNAP018", 2)]
    assert in_block("s: shared(int[16, 16])\ny: int = tile(s, (4, 4))[0, 0]") == [("SNAP018", 2)]
    assert in_block("y: int = tile(3, (4, 4), (1, 1))[0, 0]") == [("SNAP018", 1)]
    assert in_block("s: shared(int[16, 16])\nt: int @ thread[1] = id()\ny: int = tile(s, (t, 4), (8, 8))[0, 0]") == [("SNAP006", 3)]
    assert in_block("s: shared(int[16, 16])\nt: int @ thread[1] = id()\ny: int @ thread[1] = tile(s, (t % 8, 4), (8, 8))[0, 0]") == []


# ---- reading -------------------------------------------------------------------------------------------------------------------------------


def test_reading_needs_the_memorys_privilege_to_be_at_least_the_targets():
    part = "s: shared(int[256])\nw: int @ thread[32] = id()\nt: int @ thread[1] = id()\nwith partition(s, p=thread[32], offset=32 * w) as m:\n    y: int @ {} = m[{}]"
    assert in_block(part.format("thread[32]", "w")) == []
    assert in_block(part.format("thread[1]", "t % 32")) == []
    assert in_block(part.format("thread[64]", "0")) == [("SNAP006", 5)]
    assert in_block(part.format("block[1]", "0")) == [("SNAP006", 5)]


def test_memory_read_above_thread_1_is_stable():
    assert in_block("y: int = c[0]", params=C) == []
    assert in_block("y: int = x[0]", params=X) == [("SNAP006", 1)]
    assert in_block("y: int @ thread[1] = x[0]", params=X) == []
    assert in_block("s: shared(int[4])\ny: int = s[0]") == []
    assert codes("with group(grid[1]):\n    with partition(x, p=block[1], offset=0, disjoint=True) as m:\n        y: int @ block[1] = m[0]", params=X) == []
    part = "with group(grid[1]):\n    with partition(x, p=block[1], {}) as m:\n        y: int @ block[1] = m[0]"
    written = part + "\n        with partition(m, p=thread[1], offset=0) as one:\n            one[0] = 1"
    assert codes(part.format("offset=0"), params=X) == []  # which nobody writes meanwhile
    for promise in ("offset=0", "offset=0, disjoint=False"):
        assert codes(written.format(promise), params=X) == [("SNAP006", 3)]
    assert codes(written.format("offset=0, disjoint=True"), params=X) == []
    nested = "with group(grid[1]):\n    with partition(x, p=block[1], offset=0, disjoint=True) as m:\n        with partition(m, p=thread[32], offset=0) as n:\n            y: int @ thread[32] = n[0]"
    assert codes(nested, params=X) == []
    assert codes(nested + "\n            with partition(n, p=thread[1], offset=0) as one:\n                one[0] = 1", params=X) == [("SNAP006", 4)]


def test_what_atomics_touch_is_not_stable():
    assert in_block("s: shared(int[4])\natomic.add(s, 0, 1)\ny: int = s[0]") == [("SNAP006", 3)]
    assert in_block("s: shared(int[4])\ny: int = s[0]\natomic.add(s, 0, 1)") == [("SNAP006", 2)]
    assert in_block("s: shared(int[4])\natomic.add(s, 0, 1)\ny: int @ thread[1] = s[0]") == []
    assert in_block("s: shared(int[4])\natomic.add(s, 0, 1)\ny: int = intrinsic.broadcast(s[0])") == []
    assert in_block("s: shared(int[4])\nq: shared(int[4])\natomic.add(q, 0, 1)\ny: int = s[0]") == []
    text = "with group(grid[1]):\n    with partition(x, p=block[1], offset=0, disjoint=True) as m:\n        y: int @ block[1] = m[0]\n        atomic.add(m, 0, 1)"
    assert codes(text, params=X) == [("SNAP006", 3)]


CALLEES = """
@device
@requires(block[1], thread[256])
def bump(p: ptr(int) @ block[1]):
    atomic.add(p, 0, 1)

@device
@requires(block[1], thread[256])
def bump_twice(p: ptr(int) @ block[1]):
    bump(p)
    bump(p)

@device
@requires(block[1], thread[256])
def first(p: ptr(const(int)) @ block[1]) -> int @ block[1]:
    return p[0]

@device
@requires(block[1], thread[256])
def poke(p: ptr(int) @ block[1]):
    unsafe.cuda("{p}[0] = 1", p=p)
"""


def test_an_atomic_in_a_callee_counts():
    assert in_block("s: shared(int[4])\nbump(s)\ny: int = s[0]", before=CALLEES) == [("SNAP006", 3)]
    assert in_block("s: shared(int[4])\nbump_twice(s)\ny: int = s[0]", before=CALLEES) == [("SNAP006", 3)]
    assert in_block("s: shared(int[4])\npoke(s)\ny: int = s[0]", before=CALLEES) == [("SNAP006", 3)]
    assert in_block("s: shared(int[4])\ny: int = s[0]\nwith group(thread[1]):\n    pass", before=CALLEES) == []


def test_a_read_in_a_callee_counts():
    assert in_block("s: shared(int[4])\ny: int = first(s)", before=CALLEES) == []
    assert in_block("s: shared(int[4])\natomic.add(s, 0, 1)\ny: int = first(s)", before=CALLEES) == [("SNAP006", 3)]
    assert in_block("s: shared(int[4])\nbump(s)\ny: int = first(s)", before=CALLEES) == [("SNAP006", 3)]
    assert in_block("s: shared(int[4])\ny: int = first(s)\nbump(s)", before=CALLEES) == [("SNAP006", 2)]
    assert in_block("y: int = first(c)", params=C, before=CALLEES) == []
    assert in_block("y: int = first(x)", params=X, before=CALLEES) == [("SNAP006", 1)]
    text = "with group(grid[1]):\n    with partition(x, p=block[1], offset=0, disjoint={}) as m:\n        with group(block[1]):\n            y: int = first(m)" + \
        "\n            with partition(m, p=thread[1], offset=0) as one:\n                one[0] = 1"
    assert codes(text.format(True), params=X, before=CALLEES) == []
    assert codes(text.format(False), params=X, before=CALLEES) == [("SNAP006", 4)]


# ---- writing -------------------------------------------------------------------------------------------------------------------------------


def test_an_element_is_written_at_exactly_thread_1():
    part = "s: shared(int[256])\nwith partition(s, p={}, offset=0) as m:\n    m[0] = 1\n    m[0] += 1"
    assert in_block(part.format("thread[1]")) == []
    assert in_block(part.format("thread[32]")) == [("SNAP009", 3), ("SNAP009", 4)]
    assert in_block("s: shared(int[256])\ns[0] = 1") == [("SNAP009", 2)]
    assert in_block("x[0] = 1", params=X) == [("SNAP009", 1)]
    assert in_block("with group(thread[1]):\n    x[0] = 1", params=X) == [("SNAP009", 2)]


def test_the_code_that_writes_may_be_higher():
    part = "s: shared(int[256])\nwith partition(s, p=thread[1], offset=0) as m:\n    with group({}):\n        m[0] = 1"
    for group in ("block[1]", "thread[256]", "thread[32]", "thread[1]"):
        assert in_block(part.format(group)) == []


def test_nothing_is_written_through_const():
    text = "with group(grid[1]):\n    with partition(c, p=thread[1], offset=0) as m:\n        m[0] = 1"
    assert codes(text, params=C) == [("SNAP009", 3)]
    assert codes("atomic.add(c, 0, 1)", params=C) == [("SNAP009", 1)]
    assert codes("y: int @ thread[1] = atomic.load(c, 0)", params=C) == []


# ---- partition -----------------------------------------------------------------------------------------------------------------------------


def test_partition_lowers_what_the_code_owns():
    at_block = "with group(grid[1]):\n    with partition(x, p=block[1], offset=0) as m:\n        with group(block[1]):\n            with partition({}, p=thread[1], offset=0) as n:\n                n[0] = 1"
    assert codes(at_block.format("m"), params=X) == []
    assert codes("with group(block[1]):\n    with partition(x, p=thread[1], offset=0) as n:\n        n[0] = 1", params=X) == [("SNAP005", 2)]
    assert codes("with group(block[1]):\n    with partition(c, p=thread[1], offset=0) as n:\n        y: int @ thread[1] = n[0]", params=C) == []


def test_the_base_is_at_least_p_and_p_is_held():
    text = "s: shared(int[256])\nwith partition(s, p=thread[32], offset=0) as m:\n    with partition(m, p={}, offset=0) as n:\n        pass"
    assert in_block(text.format("thread[32]")) == [] and in_block(text.format("thread[16]")) == []
    assert in_block(text.format("thread[64]")) == [("SNAP005", 3)]
    assert in_block(text.format("block[1]")) == [("SNAP005", 3)]
    assert in_block("s: shared(int[256])\nwith partition(s, p=thread[3], offset=0) as m:\n    pass") == [("SNAP005", 2)]
    assert in_block("s: shared(int[256])\nwith partition(s, p=cluster[1], offset=0) as m:\n    pass") == [("SNAP005", 2)]


def test_the_base_is_out_of_reach_inside():
    inside = "s: shared(int[256])\nwith partition(s, p=thread[1], offset=0) as m:\n    {}\ny: int = s[0]"
    for use in ("y: int @ thread[1] = s[0]", "atomic.add(s, 0, 1)", "z: u32 @ thread[1] = s.view(u32)[0]", "z: int @ thread[1] = tile(s, 0, 4)[0]"):
        assert in_block(inside.format(use)) == [("SNAP010", 3)]
    again = "s: shared(int[256])\nwith partition(s, p=thread[1], offset=0) as m:\n    with partition(s, p=thread[1], offset=0) as n:\n        pass"
    assert in_block(again) == [("SNAP010", 3)]
    chain = "s: shared(int[256])\nwith partition(s, p=thread[32], offset=0) as m:\n    with partition(m, p=thread[1], offset=0) as n:\n        y: int @ thread[1] = {}"
    assert in_block(chain.format("n[0]")) == []
    assert in_block(chain.format("m[0]")) == [("SNAP010", 4)]
    assert in_block(chain.format("s[0]")) == [("SNAP010", 4)]


def test_the_name_of_a_part_may_hide_its_base():
    # the base cannot be used inside anyhow
    assert in_block("s: shared(int[256])\nwith partition(s, p=thread[1], offset=0) as s:\n    s[0] = 1\ny: int = s[0]") == []


def test_the_part_ends_with_its_scope():
    assert in_block("s: shared(int[256])\nwith partition(s, p=thread[1], offset=0) as m:\n    pass\ny: int @ thread[1] = m[0]") == [("SNAP019", 4)]


def test_sibling_branches_may_not_lower_one_base():
    text = "s: shared(int[256])\nmatch split(thread):\n    case 128:\n        with partition(s, p=thread[1], offset=0) as m:\n            pass\n    case 128:\n        {}"
    assert ("SNAP011", 7) in in_block(text.format("with partition(s, p=thread[1], offset=0) as n:\n            pass"))
    owned = """
    s: shared(int[256])
    h: int @ thread[128] = id()
    with partition(s, p=thread[128], offset=128 * h) as half:
        match split(thread):
            case 128:
                with partition(half, p=thread[1], offset=0) as m:
                    m[0] = 1
            case 128:
                with partition(half, p=thread[1], offset=0) as m:
                    m[0] = 2
    """
    assert in_block(owned) == []


# ---- index functions -----------------------------------------------------------------------------------------------------------------------


def index_function(f: str) -> list[tuple[str, int]]:
    return in_block(f"s: shared(int[256])\nt: int @ thread[1] = id()\nw: int @ thread[32] = id()\na: int[4] @ thread[1]\nwith partition(s, p=thread[32], f={f}) as m:\n    pass",
                    params=f"{C}, n: int @ grid[1]", N=3, outside=lambda k: 2 * k)


@pytest.mark.parametrize("f, refused", [
    ("lambda k: k", None), ("lambda k: 32 * w + k", None), ("lambda k: N * n + k", None), ("lambda k: t + k", "SNAP006"), ("outside", None), ("lambda k: id() * 32 + k", None),
    ("lambda k: c[k]", "SNAP018"), ("lambda k: a[0] + k", "SNAP018"), ("lambda k: intrinsic.reduce_add(w) + k", "SNAP018"), ("lambda k: atomic.add(s, 0, 1)", "SNAP010 SNAP018"),
    ("lambda: 0", "SNAP018"), ("lambda k: (k, k)", "SNAP018"), ("lambda k: 1.5", "SNAP018"), ("lambda k: q", "SNAP019"), ("3", "SNAP018"), ("w", "SNAP018"),
    ("lambda k, j: 16 * k + j", None), ("lambda k=3: k", "SNAP017"), ("lambda *k: 3", "SNAP017"), ("lambda k: k if w > 3 else k + 1", None), ("lambda k: min(k, w)", None), ("lambda t: t", None),
    ("lambda k: s", "SNAP010 SNAP018"), ("lambda k: True", "SNAP018"), ("range", "SNAP018"), ("None", "SNAP017"), ("lambda k: (lambda j: j)(k)", "SNAP018"),
])
def test_what_an_index_function_holds(f, refused):
    found = index_function(f)
    assert (not found) if refused is None else found[0][0] in refused.split(), found


def test_offset_is_short_for_a_function():
    text = "s: shared(int[256])\nw: int @ thread[32] = id()\nwith partition(s, p=thread[32], {}) as m:\n    y: int @ thread[1] = m[3]"
    assert in_block(text.format("offset=32 * w")) == []
    assert in_block(text.format("offset=32 * w, f=lambda k: k")) == [("SNAP018", 3)]
    assert in_block(text.format("offset=1.0")) == [("SNAP018", 3)]
    assert in_block(text.format("offset=lambda k: k"))[0][0] in ("SNAP017", "SNAP018")


def test_a_base_of_several_dimensions_wants_a_tuple():
    text = "s: shared(int[16, 16])\nt: int @ thread[1] = id()\nwith partition(s, p=thread[1], f={}) as m:\n    m[{}] = 1"
    assert in_block(text.format("lambda i, j: (i, j + t % 2)", "1, 2")) == []
    assert in_block(text.format("lambda i: (i, t % 16)", "1")) == []
    assert in_block(text.format("lambda i: i", "1")) == [("SNAP018", 3)]
    assert in_block(text.format("lambda i: (i,)", "1")) == [("SNAP018", 3)]
    assert in_block(text.format("lambda i, j: (i, j, 0)", "1, 2")) == [("SNAP018", 3)]
    assert in_block(text.format("lambda i, j: (i, j)", "1")) == [("SNAP018", 4)]
    assert in_block("s: shared(int[16, 16])\nwith partition(s, p=thread[1], offset=3) as m:\n    m[0] = 1") == [("SNAP018", 2)]


def test_without_a_function_the_indices_are_the_bases():
    assert in_block("s: shared(int[16, 16])\nt: int @ thread[1] = id()\nwith partition(s, p=thread[1]) as m:\n    m[t / 16, t % 16] = 1") == []
    assert in_block("s: shared(int[16, 16])\nwith partition(s, p=thread[1]) as m:\n    m[16, 0] = 1") == [("SNAP018", 3)]


@pytest.mark.parametrize("head", [
    "partition(s) as m", "partition(s, p=thread[1])", "partition(p=thread[1], offset=0) as m", "partition(s, thread[1], p=thread[1]) as m", "partition(s, p=3) as m",
    "partition(3, p=thread[1]) as m", "partition(t, p=thread[1]) as m", "partition(s, p=thread[1], huh=3) as m", "partition(s, thread[1], lambda k: k, 3) as m", "partition() as m",
    "partition(s, p=thread[1], disjoint=t) as m", "claim(s) as m", "claim(s, p=thread[32])", "group(thread[1]) as m", "group() ", "group(thread[1], thread[1])",
])
def test_forms_that_are_not(head):
    found = in_block(f"s: shared(int[16])\nt: int @ thread[1] = id()\nwith {head}:\n    pass")
    assert [code for code, _ in found] == ["SNAP018"]


def run(code: str, n: int, params: str = "", args=(), before: str = "", blocks: int = 1, threads: int = 32) -> np.ndarray:
    """What a kernel writes to `out`, n ints a thread, as `mine`."""
    body = "\n".join("                " + line for line in code.strip("\n").splitlines())
    text = f"""{before}
@kernel
@requires(grid[1], block[1], thread[{threads}])
def k(out: ptr(int) @ grid[1]{', ' if params else ''}{params}):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(out, p=thread[1], f=lambda k: {n} * i + k) as mine:
            with group(block[1]):
                t: int @ thread[1] = id()
{body}
"""
    out = np.zeros((blocks * threads, n), np.int32)
    execute(text)["k"][blocks](out, *args)
    return out


FILL = "s: shared(int[64])\nwith partition(s, p=thread[1], f=lambda k: 2 * t + k) as m:\n    m[0] = 2 * t\n    m[1] = 2 * t + 1\n"


def test_an_index_function_means_what_its_variables_held_at_entry():
    out = run(FILL + "x: int @ thread[1] = t\nwith partition(s, p=thread[1], f=lambda k: x + k) as m:\n    mine[0] = m[0]\n    x = 0\n    mine[1] = m[0]\n    x += 5\n    mine[2] = m[1]\nmine[3] = x", 4)
    np.testing.assert_array_equal(out, np.stack([np.arange(32), np.arange(32), np.arange(32) + 1, np.full(32, 5)], 1))


def test_entry_is_each_entry():
    out = run(FILL + "x: int @ thread[1] = 0\nfor r in range(3):\n    with partition(s, p=thread[1], offset=x) as m:\n        x = x + 1 + r\n        mine[r] = m[0]", 3)
    np.testing.assert_array_equal(out, np.tile([0, 1, 3], (32, 1)))


def test_a_vectors_component_is_captured_too():
    out = run(FILL + "x: int2 @ thread[1] = int2(t, 0)\nwith partition(s, p=thread[1], offset=x.x) as m:\n    x.x = 0\n    mine[0] = m[0]", 1)
    np.testing.assert_array_equal(out[:, 0], np.arange(32))


def test_what_a_nested_scope_assigns_is_captured_by_the_outer():
    code = FILL + """i0: int = 4
x: int @ thread[1] = t
with partition(s, p=thread[1], f=lambda k: x + k) as m:
    y: int @ thread[1] = 1
    with partition(m, p=thread[1], f=lambda k: y + k) as q:
        x = 30
        y = 20
        mine[0] = q[0]
        if i0 > 3:
            x = 2
        for r in range(2):
            y = r
        mine[1] = q[1]
    mine[2] = m[0]
"""
    out = run(code, 3)
    np.testing.assert_array_equal(out, np.stack([np.arange(32) + 1, np.arange(32) + 2, np.arange(32)], 1))


def test_a_name_declared_anew_inside_is_another():
    code = FILL + "x: int @ thread[1] = t\nwith partition(s, p=thread[1], f=lambda k: x + k) as m:\n    x: int @ thread[1] = 7\n    x = 8\n    mine[0] = m[0] + 100 * x\nmine[1] = x"
    np.testing.assert_array_equal(run(code, 2), np.stack([np.arange(32) + 800, np.arange(32)], 1))


def test_a_named_index_function_sees_the_names_of_its_own_scope():
    code = FILL + "x: int @ thread[1] = t\ng = lambda k: x + k\nif True:\n    x: int @ thread[1] = 5\n    with partition(s, p=thread[1], f=g) as m:\n        mine[0] = m[0] + 0 * x"
    np.testing.assert_array_equal(run(code, 1)[:, 0], np.arange(32))


def test_an_index_function_is_evaluated_where_the_scope_is_entered():
    # id() inside of it is the index of p's unit where the partition stands, also in groups inside
    code = FILL + "with partition(s, p=thread[8], f=lambda k: 8 * id() + k) as m:\n    with group(thread[8]):\n        r: int @ thread[1] = id()\n        mine[0] = m[r]"
    np.testing.assert_array_equal(run(code, 1)[:, 0], np.arange(32))


def test_nested_index_functions_compose():
    code = FILL + """w: int @ thread[8] = id()
with partition(s, p=thread[8], f=lambda i, j: 16 * w + 4 * i + j) as a:
    with partition(a, p=thread[4], f=lambda q: (q / 2, 1 + q % 2)) as b:
        with partition(tile(b, 1, 4), p=thread[1], f=lambda z: 2 * z) as c:
            mine[0] = c[0]
            mine[1] = c[1]
"""
    w = np.arange(32) // 8
    index = lambda q: 16 * w + 4 * (q // 2) + 1 + q % 2
    np.testing.assert_array_equal(run(code, 2), np.stack([index(1), index(3)], 1))


def test_views_over_parts_and_parts_of_views():
    code = FILL + """with partition(s.view(int2), p=thread[1], offset=t) as pair:
    v: int2 @ thread[1] = pair[0]
    mine[0] = v.x + 1000 * v.y
with partition(s, p=thread[1], f=lambda k: 32 + t / 2 * 2 + k) as two:
    u: int2 @ thread[1] = two.view(int2)[0]
    mine[1] = u.y
with partition(s.view(u64), p=thread[8], f=lambda k: 4 * id() + k) as wide:
    mine[2] = wide.view(int)[t % 8]
"""
    t = np.arange(32)
    np.testing.assert_array_equal(run(code, 3), np.stack([2 * t + 1000 * (2 * t + 1), 32 + t // 2 * 2 + 1, t], 1))


def test_shapes_are_what_was_passed():
    x = np.arange(64, dtype=np.int32).reshape(2, 32)
    text = """
@kernel
@requires(grid[1], block[1], thread[32])
def k(out: ptr(int) @ grid[1], x: ptr(const(int), (2, N)) @ grid[1], N: int @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        N = 3
        with partition(out, p=thread[1], offset=i) as mine:
            mine[0] = x[1, i] + 100 * N
"""
    out = np.zeros(32, np.int32)
    k = execute(text)["k"]
    k[1](out, x, 32)
    np.testing.assert_array_equal(out, x[1] + 300)
    assert "x[(long long)N + i]" in k.cuda()


# ---- claim ---------------------------------------------------------------------------------------------------------------------------------


def claim(inside: str, p: str = "thread[128]", requires: str = "grid[1], block[1], thread[256]") -> list[tuple[str, int]]:
    body = "\n".join("    " + line for line in inside.strip("\n").splitlines())
    return in_block(f"s: shared(int[256])\nwith claim(s, p={p}) as m:\n{body}", requires)


def test_claim_gives_all_to_one_branch_of_that_size():
    use = "match split(thread):\n    case 128:\n        {}\n    case 128:\n        {}"
    assert claim(use.format("y: int @ thread[1] = m[0]", "pass")) == []
    assert claim(use.format("pass", "y: int @ thread[1] = m[0]")) == []
    assert claim(use.format("y: int @ thread[1] = m[0]", "y: int @ thread[1] = m[0]")) == [("SNAP014", 7)]
    assert claim("match split(thread):\n    case 64:\n        y: int @ thread[1] = m[0]") == [("SNAP014", 5)]
    assert claim("y: int @ thread[1] = m[0]") == [("SNAP014", 3)]
    assert claim("with group(thread[128]):\n    y: int @ thread[1] = m[0]") == [("SNAP014", 4)]
    assert claim("match split(thread):\n    case _:\n        y: int @ thread[1] = m[0]", "thread[256]") == [("SNAP014", 5)]
    assert claim("pass") == []


def test_claim_in_loops_uses_one_branch():
    assert claim("for i in range(3):\n    match split(thread):\n        case 128:\n            y: int @ thread[1] = m[i]") == []
    twice = "match split(thread):\n    case 128:\n        y: int @ thread[1] = m[0]\nmatch split(thread):\n    case 128:\n        y: int @ thread[1] = m[1]"
    assert claim(twice) == []
    other = "match split(thread):\n    case 128:\n        y: int @ thread[1] = m[0]\nmatch split(thread):\n    case 128:\n        pass\n    case 128:\n        y: int @ thread[1] = m[1]"
    assert claim(other) == [("SNAP014", 10)]


def test_claim_is_made_by_the_owner_for_a_group_that_is_not_replicated():
    assert claim("pass", "thread[512]") == [("SNAP014", 2)]
    assert claim("pass", "block[1]") == []
    assert claim("pass", "cluster[1]") == [("SNAP014", 2)]
    assert codes("with group(grid[1]):\n    with claim(x, p=thread[32]) as m:\n        pass", params=X) == [("SNAP014", 2)]
    assert codes("with group(grid[1]):\n    with claim(x, p=block[1]) as m:\n        match split(block):\n            case 1:\n                pass", params=X) == []
    assert codes("with group(block[1]):\n    with claim(x, p=thread[32]) as m:\n        pass", params=X) == [("SNAP014", 2)]
    text = "with group(block[1]):\n    s: shared(int[4])\n    with group(thread[64]):\n        with claim(s, p=thread[32]) as m:\n            pass"
    assert codes(text) == [("SNAP014", 4)]


def test_the_base_of_a_claim_is_out_of_reach():
    assert claim("y: int = s[0]") == [("SNAP010", 3)]


# ---- how much shared memory ----------------------------------------------------------------------------------------------------------------


def held(body: str, requires: str = "grid[1], block[1], thread[256]", before: str = "") -> int:
    text = "with group(grid[1]):\n    with group(block[1]):\n" + "\n".join("        " + line for line in body.strip("\n").splitlines())
    return kernel(text, requires, before=before)._the_one({}).typed.smem


FRAMES = """
@device
@requires(block[1], thread[256])
def holds_1024():
    s: shared(int[256])

@device
@requires(block[1], thread[256])
def holds_2048():
    s: shared(int[256])
    holds_1024()

@device
@requires(block[1], thread[256], smem=4096)
def declares_4096():
    s: shared(int[256])
"""


def test_scopes_that_ended_give_theirs_back():
    """One thread has 16 bytes to spare, which no second place fits into."""
    smem = lambda body: held(body, "grid[1], block[1], thread[1]")  # noqa: E731
    assert smem("a: shared(int[256])") == 1024
    assert smem("a: shared(int[256])\nb: shared(int[256])") == 2048
    assert smem("n: int = 4\nn += 1\nif n > 3:\n    a: shared(int[256])\nelse:\n    b: shared(int[512])\nc: shared(int[16])") == 2048
    assert smem("if count(thread[1]) > 0:\n    a: shared(int[256])\nelse:\n    b: shared(int[512])\nc: shared(int[16])") == 1024
    assert smem("for i in range(3):\n    a: shared(int[256])\nb: shared(int[256])") == 1024
    assert smem("a: shared(int[16])\nif True:\n    b: shared(int[256])\nc: shared(int[16])") == 64 + 1024


def test_arrays_are_aligned():
    assert held("a: shared(i8[1])\nb: shared(int4[1])") == 32
    assert held("a: shared(i8[1])\nb: shared(bf16[64], swizzle=128)") == 1024 + 128


def test_calls_stack_on_what_is_held():
    assert held("holds_1024()", before=FRAMES) == 1024
    assert held("holds_2048()", before=FRAMES) == 2048
    assert held("holds_1024()\nholds_1024()", before=FRAMES) == 2048  # in turn, since there is room: no barrier between the two
    assert held("holds_1024()\nholds_1024()\nholds_1024()", before=FRAMES) == 2048
    assert held("holds_2048()\nholds_2048()\nholds_2048()", before=FRAMES) == 4096
    assert held("a: shared(int[16])\nholds_2048()\nholds_2048()", before=FRAMES) == 64 + 2048  # 256 threads have 4096 bytes to spare
    assert held("a: shared(int[256])\nholds_2048()\nb: shared(int[16])", before=FRAMES) == 3072 + 64
    assert held("if True:\n    a: shared(int[256])\nholds_2048()", before=FRAMES) == 3072


def test_a_declared_limit_holds_for_all_that_is_called():
    body = "with group(grid[1]):\n    with group(block[1]):\n        a: shared(int[256])\n        holds_2048()"
    assert codes(body, "grid[1], block[1], thread[256], smem=3072", before=FRAMES) == []
    assert codes(body, "grid[1], block[1], thread[256], smem=3071", before=FRAMES) == [("SNAP013", 4)]
    body = body.replace("holds_2048", "declares_4096")
    assert codes(body, "grid[1], block[1], thread[256], smem=5120", before=FRAMES) == []
    assert codes(body, "grid[1], block[1], thread[256], smem=5119", before=FRAMES) == [("SNAP013", 4)]


def test_the_devices_limit_holds_always():
    assert in_block("a: shared(i8[232448])") == []
    assert in_block("a: shared(i8[232449])") == [("SNAP013", 1)]
    assert codes("pass", "grid[1], block[1], thread[32], smem=232449")[0][0] == "SNAP013"
    assert codes("pass", "grid[1], block[1], thread[32], smem=0") == []
    for wrong in ("-1", "True", "1.5", "'many'"):
        assert codes("pass", f"grid[1], block[1], thread[32], smem={wrong}")[0][0] == "SNAP018"


def test_offsets_do_not_overlap_while_held():
    k = kernel("with group(grid[1]):\n    with group(block[1]):\n        a: shared(i8[3])\n        b: shared(int[5])\n        if True:\n            c: shared(float4[2])\n        d: shared(f64[2])")
    objects = {s.obj.name: s.obj for s in statements(k._the_one({}).typed.body) if isinstance(s, ir.DeclareShared)}
    ranges = {name: (o.offset, o.offset + o.shape[0].value * o.elem.bytes) for name, o in objects.items()}
    for one, other in (("a", "b"), ("a", "c"), ("b", "c"), ("a", "d"), ("b", "d")):
        assert ranges[one][1] <= ranges[other][0]


def test_a_view_begins_at_a_whole_element():
    params = "x: ptr(float) @ grid[1], n: int @ grid[1]"
    part = "with group(grid[1]):\n    i: int @ thread[1] = id()\n    with partition(x, p=thread[1], offset={}) as p:\n        with group(thread[1]):\n            z: float4 = p.view(float4)[0]"
    for offset in ("4 * i", "4 * i + 8", "i", "n * i"):
        accepted(part.format(offset), params=params)
    refused(part.format("4 * i + 1"), "SNAP018", "begins in the middle of a `float4`: 1 x `f32` after its start", "a multiple of 4", params=params)
    window = "with group(grid[1]):\n    i: int @ thread[1] = id()\n    with group(thread[1]):\n        z: float4 = tile(y, ({},), (8,)).view(float4)[0]"
    accepted(window.format("4"), params="y: ptr(const(float), (n,)) @ grid[1], n: int @ grid[1]")
    refused(window.format("2"), "SNAP018", "2 x `f32` after", params="y: ptr(const(float), (n,)) @ grid[1], n: int @ grid[1]")


@pytest.mark.parametrize("offset, fits", [
    ("b * P", True), ("i64(b) * P", True), ("b * i64(P)", True), ("u32(b) * u32(P)", True), ("u64(b) * u64(4)", True), ("i64(8 * b)", True), ("i64(b) - 4", True),
    ("i64(b) + 1 - 1", True), ("-(-i64(b))", True),
])
def test_parts_that_begin_at_an_offset_of_any_integer_are_consecutive(offset, fits):
    code = f"""
        with group(grid[1]):
            b: int @ block[1] = id()
            with partition(x, p=block[1], offset=4 * ({offset})) as row:
                with group(block[1]):
                    v: float4 @ thread[1] = row.view(float4)[0]
    """
    assert bool(codes(code, params="x: ptr(float) @ grid[1], P: int @ grid[1]")) != fits


@pytest.mark.parametrize("function", ["lambda k: i64(u32(b) + u32(k))", "lambda k: i64(2 * k)", "lambda k: i64(b) - k", "lambda k: int(i16(b + k))"])
def test_indices_that_may_jump_are_not_consecutive(function):
    code = f"""
        with group(grid[1]):
            b: int @ block[1] = id()
            with partition(x, p=block[1], f={function}) as row:
                with group(block[1]):
                    v: float4 @ thread[1] = row.view(float4)[0]
    """
    assert [code for code, _ in codes(code, params="x: ptr(float) @ grid[1]")] == ["SNAP018"]


def test_a_view_of_a_part_with_a_wide_offset_reads_its_elements():
    k = kernel("""
        with group(grid[1]):
            i: int @ thread[1] = id()
            b: i64 @ block[1] = id()
            with partition(out, p=thread[1], offset=i) as mine, partition(x, p=block[1], offset=b * P) as row:
                with group(block[1]):
                    t: int @ thread[1] = id()
                    mine[0] = row.view(int2)[t].y
    """, "grid[1], block[1], thread[8]", "out: ptr(int) @ grid[1], x: ptr(int) @ grid[1], P: int @ grid[1]")
    k[2](out := np.zeros(16, np.int32), np.arange(64, dtype=np.int32), 32)
    assert (out == np.concatenate([np.arange(1, 16, 2), np.arange(33, 48, 2)])).all()
