"""Roles taken out of loops: what each thread does stays the same, and each role holds what it needs."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from sync.small import agree, compiled

import snap
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.types import Level
from snap._compiler.ir.walk import statements
from snap.diag.source import register_source

_numbers = itertools.count()
PROGRAM = """from __future__ import annotations
from snap import *

@device(block)
def twice(u: int) -> int:
    return 2 * u if u > 3 else u

@device(block)
def mixed(k: int, u: int) -> int:
    w: int[2] = [k, u]
    for i in range(k):
        w[i % 2] += i * twice(u)
    return (w[0] + w[1]) % 17

@device(block)
def found(x: ptr(const(int)) @ grid[1], k: int) -> int:
    return x[k] % 5 + 1

@device(block, thread[128])
def numbered(k: int) -> int @ thread[1]:
    own: int @ thread[1] = id()
    return own + k

@device(block)
def raised(a: ref(int[2]) @ block[1], k: int) -> int:
    a[0] += k
    return a[0]

@device(block)
def sum_of(x: ptr(const(int)) @ thread[1], k: int) -> int @ thread[1]:
    return x[k]

@kernel
@requires(grid[1], block[1], thread[128])
def k(x: ptr(const(int)) @ grid[1], y: ptr(int) @ grid[1], n: int @ grid[1]):
    with group(grid[1]):
        b: int @ block[1] = id()
        with partition(y, p=block[1], f=lambda i: b * 128 + i) as out:
            with group(block[1]):
                q: pipeline(shared(int[32]), 2)
                t: int @ thread[1] = id()
                v: int @ thread[1] = 0
                u: int = 1
{body}
                with partition(out, p=thread[1], f=lambda i: t + i) as cell:
                    cell[0] = v + 1000 * u
"""
HAND_OVER = """with stage(q) as s:
    with claim(s, p=thread[32]) as fill:
        match split(thread, 64, 32):
            case 0:
                pass
            case 1:
                l: int @ thread[1] = id()
                with partition(fill, p=thread[1], f=lambda i: l + i) as c:
                    c[0] = x[32 * k + l] + u
    with claim(s, p=thread[64]) as use:
        match split(thread, 64, 32):
            case 0:
                v += use[t % 32]
            case 1:
                pass
"""


def define(body: str):
    text = PROGRAM.replace("{body}", "".join(" " * 16 + line for line in body.splitlines(keepends=True)))
    filename = f"<roles {next(_numbers)}>"
    register_source(filename, text)
    namespace: dict = {"__name__": "roles"}
    exec(compile(text, filename, "exec", dont_inherit=True), namespace)
    return namespace["k"]


def in_loop(*parts: str) -> str:
    return "for k in range(n):\n" + "".join("    " + line for part in parts for line in part.splitlines(keepends=True))


def roles_of(kernel) -> dict[tuple[int, int], ir.Body]:
    """The cases of the one split of the block's threads that holds loops."""
    splits = [s for s in statements(kernel._the_one({}).synced.body) if isinstance(s, ir.Split) and s.outer.top > Level.THREAD]
    (found,) = [s for s in splits if any(isinstance(x, (ir.For, ir.While)) for c in s.cases for x in statements(c.body))]
    return {(c.offset, c.size): c.body for c in found.cases}


# Calls that do more than compute.
BY_THE_BLOCK = {
    "a call that asks where its threads are": in_loop(HAND_OVER, "v += numbered(k)\n"),
    "a call that changes an array": "a: int[2]\n" + in_loop("u = raised(a, k) % 7\n", HAND_OVER),
    "a call that reads what somebody writes": in_loop(HAND_OVER, "v += sum_of(out, k)\n"),
}
CASES = {
    "plain": in_loop(HAND_OVER),
    "uniform code that all need": in_loop("u = u * 3 % 17\n", HAND_OVER),
    "uniform code that one needs": in_loop("w: int = k * 2\n", HAND_OVER, "match split(thread, 64):\n    case 0:\n        v += w\n"),
    "uniform code that reads what nobody writes": in_loop("u = x[k] % 5 + 1\n", HAND_OVER),
    "thread's code between": in_loop(HAND_OVER, "v += t\n"),
    "positions": in_loop("p: int @ warp = id()\n", HAND_OVER, "v += p\n"),
    "a call that all need": in_loop("u = mixed(k, u)\n", HAND_OVER),
    "a call that one needs": in_loop("w: int = mixed(k, 5)\n", HAND_OVER, "match split(thread, 64):\n    case 0:\n        v += w\n"),
    "a call that reads what nobody writes": in_loop("u = found(x, k) + mixed(k, u)\n", HAND_OVER),
    **BY_THE_BLOCK,
    "a condition": in_loop("if k % 2 == 0:\n    u += 1\n", HAND_OVER),
    "left early": in_loop("if k == 3:\n    break\n", HAND_OVER),
    "skipped": in_loop("if k == 2:\n    continue\n", HAND_OVER),
    "nested loops": "for i in range(2):\n" + "".join("    " + line for line in in_loop(HAND_OVER, "u += i\n").splitlines(keepends=True)),
    "while": "k: int = 0\nwhile k < n:\n" + "".join("    " + line for line in HAND_OVER.splitlines(keepends=True)) + "    k += 1\n",
    "part of a role": in_loop(HAND_OVER, "match split(thread, 32):\n    case 0:\n        v += 5\n"),
}


@pytest.mark.parametrize("what", CASES)
@pytest.mark.parametrize("n", [0, 5])
def test_every_thread_does_what_it_did(what, n):
    kernel = define(CASES[what])
    x = np.arange(32 * 5, dtype=np.int32) ** 2 % 101
    wanted, got = np.zeros(256, np.int32), np.zeros(256, np.int32)
    kernel.launch(x, wanted, n, blocks=2)
    for seed in range(3):
        got[:] = 0
        kernel.launch(x, got, n, blocks=2, seed=seed)
        np.testing.assert_array_equal(got, wanted)
    assert not kernel.races(x, got, n, blocks=2, seeds=2)


def test_each_role_has_a_loop_of_its_own():
    roles = roles_of(define(CASES["plain"]))
    assert list(roles) == [(0, 64), (64, 32)]
    assert all(len([s for s in statements(body) if isinstance(s, ir.For)]) == 1 for body in roles.values())
    assert not [s for body in roles.values() for s in statements(body) if isinstance(s, ir.Split)]


def test_code_that_reads_what_nobody_writes_is_each_roles_own():
    body = in_loop("u = x[k] % 5 + 1\n", HAND_OVER)
    assert list(roles_of(define(body))) == [(0, 64), (64, 32), (96, 32)]
    # What somebody writes is read once, where the text says.
    written = define(in_loop("v += out[k]\n", HAND_OVER))
    assert len([s for s in statements(written._the_one({}).synced.body) if isinstance(s, ir.For)]) == 1


def test_a_call_that_only_computes_is_each_roles_own():
    every, one, const = (roles_of(define(CASES[f"a call that {what}"])) for what in ("all need", "one needs", "reads what nobody writes"))
    calls = lambda roles: [sum(isinstance(s, ir.Call) for s in statements(body)) for body in roles.values()]  # noqa: E731
    assert calls(every) == [1, 1, 1] and list(every) == [(0, 64), (64, 32), (96, 32)]
    assert calls(one) == [1, 0]
    assert calls(const) == [2, 2, 2]


@pytest.mark.parametrize("what", BY_THE_BLOCK)
def test_what_more_than_computes_is_called_by_the_block(what):
    body = define(BY_THE_BLOCK[what])._the_one({}).synced.body
    assert len([s for s in statements(body) if isinstance(s, (ir.For, ir.While))]) == 1


def test_threads_that_no_split_names_run_the_uniform_code():
    roles = roles_of(define(CASES["thread's code between"]))
    assert list(roles) == [(0, 64), (64, 32), (96, 32)]


def test_what_a_role_does_not_need_is_left_out():
    roles = roles_of(define(CASES["uniform code that one needs"]))
    names = {role: {s.var.name for s in statements(body) if isinstance(s, ir.Declare)} for role, body in roles.items()}
    assert "w" in names[0, 64] and "w" not in names[64, 32]


def test_a_barrier_of_the_block_keeps_the_loop_together():
    kernel = define(in_loop(HAND_OVER, "u += intrinsic.syncthreads_count(v > 3)\n"))
    loops = [s for s in statements(kernel._the_one({}).synced.body) if isinstance(s, ir.For)]
    assert len(loops) == 1
    assert not kernel.races(np.arange(160, dtype=np.int32), np.zeros(128, np.int32), 5, blocks=1, seeds=3)


COUNTING = """from __future__ import annotations
from snap import *

@kernel
@requires(grid[1], block[1], thread[64])
def k(c: ptr(int) @ grid[1], x: ptr(const(int)) @ grid[1], n: int @ grid[1]):
    with group(grid[1]):
        with group(block[1]):
            t: int @ thread[1] = id()
            v: int @ thread[1] = 0
{body}
            last: int @ thread[1] = atomic.add(c, 1, v)
"""
ROLES = """for i in range(n):
    match split(thread):
        case 32:
            v = v + 1
{first}
        case 32:
            v = v + 2
{second}
"""
# What is given a value in a role, in the loop or behind it, and never read.
UNREAD = {
    "an atomic's old value": ("old: int @ thread[1] = atomic.add(c, 0, v)", "pass", ""),
    "declared before": ("old = atomic.add(c, 0, v)", "pass", "old: int @ thread[1] = 5\n"),
    "declared before, in both roles": ("old = atomic.add(c, 0, v)", "old = t", "old: int @ thread[1] = 5\n"),
    "what a collective gives": ("w: int @ thread[1] = intrinsic.shfl_xor(v, 1)", "pass", ""),
    "an element": ("a[i % 2] = atomic.max(c, 0, v)", "a[0] = 1", "a: int[2] @ thread[1]\n"),
    "a component": ("w.x = v", "w.y = t", "w: int2 @ thread[1] = int2(1, 2)\n"),
    "a component of an element": ("w[0].x = v", "w[1].y = t", "w: int2[2] @ thread[1]\n"),
    "what a call gives": ("u: int @ thread[1] = counted(c, v)", "pass", ""),
    "an array by reference": ("fills(a, v)", "pass", "a: int[2] @ thread[1]\n"),
    "what is loaded": ("w: int @ thread[1] = x[t]", "pass", ""),
}
CALLED = """
@device
@requires(thread[1])
def counted(c: ptr(int) @ grid[1], v: int @ thread[1]) -> int @ thread[1]:
    return atomic.add(c, 2, v)

@device
@requires(thread[1])
def fills(a: ref(int[2]) @ thread[1], v: int @ thread[1]):
    a[1] = v

@kernel"""


def counting(first: str, second: str, before: str, behind: str = ""):
    loop = ROLES.format(first=" " * 12 + first, second=" " * 12 + second)
    body = "".join(" " * 12 + line for line in (before + loop + behind).splitlines(keepends=True))
    return compiled(COUNTING.format(body=body).replace("\n@kernel", CALLED, 1))


@pytest.mark.parametrize("behind", ["", "match split(thread):\n    case 32:\n        unread: int @ thread[1] = atomic.add(c, 3, v)\n"])
@pytest.mark.parametrize("what", UNREAD)
def test_what_nobody_reads_stays_declared(what, behind):
    kernel = counting(*UNREAD[what], behind)
    agree(kernel, lambda: [np.zeros(4, np.int32), np.arange(64, dtype=np.int32), 3])
    assert "c" in kernel.cuda()


def test_declared_among_roles_and_stored_behind_them():
    behind = "late: int @ thread[1] = 0\n" + ROLES.format(first=" " * 12 + "pass", second=" " * 12 + "pass")
    kernel = counting("pass", "pass", "", behind + "intrinsic.syncthreads()\nlate = atomic.add(c, 0, t)\n")
    agree(kernel, lambda: [np.zeros(4, np.int32), np.arange(64, dtype=np.int32), 3])
    assert "atomicAdd(c, t)" in kernel.cuda()


def test_an_access_that_nobody_needs_is_made():
    kernel = counting("w: int @ thread[1] = x[t + 1000]", "pass", "")
    for seed in (None, 1):
        with pytest.raises(snap.MachineError, match="x"):
            kernel.launch(np.zeros(4, np.int32), np.arange(64, dtype=np.int32), 3, blocks=1, seed=seed)


OF_TWO_ROLES = """from __future__ import annotations
from snap import *

@kernel(threads=256)
def k(out: ptr(u32), src: ptr(const(u32)), n: int):
    with each(block):
        r0, r1, r2 = roles(64, 64, 128)
        i: int @ thread[1] = id()
        v = registers(u32(i))
        p = pipeline(shared(u32[128]), 2)
        for k in range(1, n + 1):
            with stage(p) as s:
                with r2(s), each(thread, s) as t:
                    s[t] = u32(t) * 7
                with r1(s), each(thread) as t:
                    v = v * 3 + s[t]
        with stage(p) as s:
            with r1(s), each(thread, s) as t:
                async_copy(s[127 - t], src[t + 55])
        with each(thread, out):
            out[i] = v
"""


def test_a_case_is_aligned_as_before_in_a_wider_role():
    """Threads 64 to 255 act as one, and the threads from 128 on among them are aligned as they are in the block: the verifier took the case's place for a mistake."""
    agree(compiled(OF_TWO_ROLES), lambda: [np.zeros(256, np.uint32), np.arange(256, dtype=np.uint32), 4], blocks=1)
