"""Copies in the background: committed on every path, waited for by a barrier whose group is large enough, on the CPU machine, which keeps them in flight."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from snap.diag.source import register_source
from snap.machine import run_adversarial, run_reference

_numbers = itertools.count()
KERNEL = """from __future__ import annotations
from snap import *

@device
@requires(block[1], thread[64])
def fetch(p: ptr(shared(int)) @ block[1], x: ptr(const(int)) @ grid[1], by: int @ block[1]):
    t: int @ thread[1] = id()
    with partition(p, p=thread[1], f=lambda k: (t + by) % 64 + k) as m:
        async_copy(m[0], x[t + by])

@kernel
@requires(grid[1], block[1], thread[64])
def k(out: ptr(int) @ grid[1], x: ptr(const(int)) @ grid[1], n: int @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(out, p=thread[1], offset=i) as mine:
            with group(block[1]):
                s: shared(int[64])
                o: shared(int[64])
                q: pipeline(shared(int[64]), 3)
                t: int @ thread[1] = id()
                w: int @ warp = id()
                v: int @ thread[1] = t
                with partition(s, p=thread[1], offset=t) as first:
                    first[0] = t
{body}
                mine[0] = v
"""

LOOPS = {
    "a barrier at a loop's condition": """
r: int = 0
while r < 3:
    r += 1
    with partition(s, p=thread[1], f=lambda k: (t + r) % 64 + k) as m:
        async_copy(m[0], x[t + r])
v = s[63 - t]
""",
    "a condition that reads": """
while s[0] < n + 40:
    with partition(s, p=thread[1], f=lambda k: 63 - t + k) as m:
        with group(thread[1]):
            if t % 2 == 1:
                async_copy(m[0], x[t])
""",
    "continue out of the scope": """
for r in range(4):
    with partition(s, p=thread[1], offset=t) as m:
        async_copy(m[0], x[t + r])
        if (n + r) % 2 == 1:
            continue
        m[0] += 1
v = s[63 - t]
""",
    "break out of the scope": """
for r in range(4):
    with partition(s, p=thread[1], f=lambda k: (t + r) % 64 + k) as m:
        async_copy(m[0], x[t + r])
        if n + r == 3:
            break
        async_copy(m[0], x[t + 2 * r])
v = s[63 - t]
""",
    "break before and after": """
for r in range(4):
    if n + r == 3:
        break
    with partition(s, p=thread[1], f=lambda k: (t + r) % 64 + k) as m:
        async_copy(m[0], x[t + r])
    v += s[t]
v += s[63 - t]
""",
    "only some threads, only sometimes": """
for r in range(4):
    if (n + r) % 2 == 0:
        with partition(s, p=thread[1], offset=t) as m:
            with group(thread[1]):
                if t % 3 == r % 3:
                    async_copy(m[0], x[t + r])
    v += s[63 - t]
""",
    "a warp's barrier between is not enough": """
for r in range(3):
    with partition(s, p=thread[1], offset=t) as m:
        async_copy(m[0], x[t + r])
    with partition(o, p=thread[1], offset=63 - t) as m:
        m[0] = v
    v += o[t]
    with partition(o, p=warp, f=lambda k: 32 * w + k) as own:
        with group(warp):
            l: int @ thread[1] = id()
            with partition(own, p=thread[1], offset=l) as m:
                m[0] = v
            v += own[31 - l]
    v += s[63 - t]
""",
    "two copies to one element": """
with partition(s, p=thread[1], offset=t) as m:
    async_copy(m[0], x[t])
    async_copy(m[0], x[t + 1])
v = s[t]
""",
    "written over": """
with partition(s, p=thread[1], offset=t) as m:
    async_copy(m[0], x[t])
with partition(s, p=thread[1], f=lambda k: 63 - t + k) as m:
    m[0] = v
v = s[t]
""",
    "in a callee": """
for r in range(3):
    fetch(s, x, r)
    v += s[63 - t]
fetch(s, x, n)
v += s[t]
""",
    "a pipeline, some fills ahead": """
for r in range(7):
    if r < 5:
        with stage(q, r) as a:
            with partition(a, p=thread[1], f=lambda k: (t + r) % 64 + k) as m:
                async_copy(m[0], x[t + r])
    if r >= 2:
        with stage(q, r - 2) as a:
            v = v * 3 + a[63 - t]
""",
    "a pipeline that is left early": """
for r in range(7):
    with stage(q, r) as a:
        with partition(a, p=thread[1], offset=t) as m:
            async_copy(m[0], x[t + r])
            if n + r == 5:
                break
    if r >= 2:
        with stage(q, r - 2) as a:
            v = v * 3 + a[63 - t]
with stage(q, 4) as a:
    v += a[63 - t]
""",
    "bytes that another array takes": """
for r in range(3):
    if (n + r) % 2 == 0:
        a: shared(int[64])
        with partition(a, p=thread[1], offset=t) as m:
            async_copy(m[0], x[t + r])
        v += a[t]
    else:
        b: shared(int[64])
        with partition(b, p=thread[1], f=lambda k: 63 - t + k) as m:
            async_copy(m[0], x[t + r])
""",
}


@pytest.mark.parametrize("name", LOOPS)
@pytest.mark.parametrize("n", [1, 2])
def test_whoever_uses_an_element_finds_its_copy_finished(name, n):
    body = "\n".join("                " + line for line in LOOPS[name].strip("\n").splitlines())
    text = KERNEL.replace("{body}", body)
    filename = f"<copies {next(_numbers)}>"
    register_source(filename, text)
    namespace: dict = {"__name__": "copies"}
    exec(compile(text, filename, "exec", dont_inherit=True), namespace)
    found = namespace["k"]._the_one({})
    x = (np.arange(128, dtype=np.int32) ** 2 + 50) % 101
    expected = np.zeros(128, np.int32)
    run_reference(found.typed, [expected, x, n], 2)
    for seed in range(6):
        got, races = np.zeros(128, np.int32), []
        run_adversarial(found.synced, [got, x, n], 2, seed, races)
        assert not races, races[0]
        np.testing.assert_array_equal(got, expected)
    assert "cp.async.commit_group" in namespace["k"].cuda()
