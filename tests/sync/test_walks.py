"""How often the text is walked: counting what is in flight takes no more than finding what is in conflict, and what is passed over would change nothing.

Both walk a loop again with what is new at its top, alone.  Were the counting walk to begin again with all that is there, each loop around another
would double it.
"""

from __future__ import annotations

import numpy as np
import pytest
from corpus import OK
from sync.small import compiled

from snap._compiler.sync import synchronize
from snap._compiler.sync.barriers.groups import Counter
from snap._compiler.sync.conflicts.edges import Visitor
from snap._compiler.sync.conflicts.graph import FlowWalk
from snap.api import SnapFunction

PROGRAMS = {"hgemm": "hgemm", "hgemm_cluster": "hgemm", "sgemm_pipelined": "three_stages", "attention": "attention"}


@pytest.mark.parametrize("program", PROGRAMS)
def test_counting_walks_as_often_as_finding(program, monkeypatch):
    walked = {"finding": 0, "counting": 0}
    reaches = FlowWalk._reaches  # whether a statement is walked, and not passed over

    def counted(self, *given):
        found = reaches(self, *given)
        walked["counting" if isinstance(self.visitor, Counter) else "finding"] += found
        return found

    kernel = next(p for p in OK if p.path.stem == program).namespace()[PROGRAMS[program]]
    assert isinstance(kernel, SnapFunction)
    typed = kernel._the_one({}).typed
    monkeypatch.setattr(FlowWalk, "_reaches", counted)
    synchronize(typed)
    assert 0 < walked["counting"] <= 1.25 * walked["finding"], walked


# In each of these, what comes around, or is in flight, meets a statement that does not touch its memory and matters to it all the same.  Barriers between other
# accesses stand where they would order it on the other ways.
HEAD = """from __future__ import annotations
from snap import *

@device
@requires(block[1])
def perhaps(v: int @ thread[1], s: ptr(const(int)) @ block[1], q: ptr(int) @ block[1], n: int @ block[1]) -> int @ thread[1]:
    t: int @ thread[1] = id()
    if n > 3:
        return v
    with partition(q, p=thread[1], offset=t) as m:
        m[0] = v
    return v + q[63 - t] + s[63 - t]

@device
@requires(block[1])
def fetched(s: ptr(int) @ block[1], x: ptr(const(int)) @ grid[1]) -> int @ thread[1]:
    t: int @ thread[1] = id()
    with partition(s, p=thread[1], offset=t) as m:
        async_copy(m[0], x[t])
    v: int @ thread[1] = s[63 - t]
    return v

@kernel
@requires(grid[1], block[1], thread[64])
def k(out: ptr(int) @ grid[1], x: ptr(const(int)) @ grid[1], rows: ptr(const(int), (64, 32)) @ grid[1], flag: ptr(int) @ grid[1], n: int @ block[1]):
    with group(grid[1]):
        place: int @ thread[1] = id()
        with partition(out, p=thread[1], offset=place) as mine:
            with group(block[1]):
                t: int @ thread[1] = id()
                w: int @ thread[32] = id()
                v: int @ thread[1] = t
                p: shared(int[64])
                q: shared(int[64])
                d: shared(int[2, 64])
"""
TAIL = "mine[0] = v\n"
PASSED = {
    "arrays that take each other's bytes": """
for j in range(n):
    if n % 5 == 0:
        a: shared(int[64])
        v += p[t]
    if j > 2:
        b: shared(int[64])
        v += b[63 - t]
""",
    "a pipeline that is declared again": """
for j in range(n):
    w3: pipeline(shared(int[64]), 3)
    for i in range(n):
        with stage(w3) as a:
            with partition(a, p=thread[1], offset=t) as m:
                m[0] = v
            v += a[63 - t]
""",
    "a stage that nothing is put into": """
w3: pipeline(shared(int[64]), 3)
with stage(w3) as a:
    with partition(a, p=thread[1], offset=t) as m:
        m[0] = v
for j in range(n):
    with stage(w3) as b:
        v += 1
with stage(w3) as c:
    with partition(c, p=thread[1], offset=63 - t) as m:
        m[0] = v
""",
    "break": """
for j in range(n):
    for i in range(3):
        if n > i + j:
            break
        with partition(q, p=thread[1], offset=t) as m:
            m[0] = v
        v += q[63 - t] + p[63 - t]
    v += p[63 - t]
    with partition(p, p=thread[1], offset=t) as m:
        m[0] = v
""",
    "continue": """
for j in range(n):
    if n > 3 * j:
        continue
    v += d[j % 2, 63 - t]
    with partition(q, p=thread[1], offset=t) as m:
        m[0] = v
    v += q[63 - t] + d[1 - j % 2, 63 - t]
    with partition(q, p=thread[1], offset=t) as m:
        m[0] = v + 1
    with partition(d, p=thread[1], f=lambda i, k: (j % 2 + i, t + k)) as m:
        m[0, 0] = v
""",
    "return": """
for j in range(n):
    v = perhaps(v, p, q, n)
    v += p[63 - t]
    with partition(p, p=thread[1], offset=t) as m:
        m[0] = v
""",
    "a return that nothing is in flight at": """
v = fetched(p, x)
v += fetched(q, x)
""",
    "a barrier of the program's": """
for j in range(n):
    intrinsic.syncthreads()
    with partition(q, p=thread[1], offset=t) as m:
        m[0] = v
    v += q[63 - t]
""",
    "a release": """
with partition(p, p=thread[32], offset=32 * w) as pw, partition(q, p=thread[32], offset=32 * w) as qw:
    with group(thread[32]):
        l: int @ thread[1] = id()
        with partition(pw, p=thread[1], offset=l) as m:
            async_copy(m[0], x[l])
        with partition(qw, p=thread[1], offset=l) as m:
            m[0] = v
        v += qw[31 - l]
        match split(thread):
            case 1:
                atomic.store(flag, 0, 1, order="release")
""",
    "a role's own gaps": """
for j in range(n):
    for r in range(1):
        a: shared(int[32])
        with claim(a, p=thread[32]) as h:
            match split(thread, 32, 32):
                case 0:
                    l: int @ thread[1] = id()
                    with partition(h, p=thread[1], offset=l) as m:
                        m[0] = v
                    v += h[31 - l]
                case 1:
                    pass
        with claim(q, p=thread[32]) as h:
            match split(thread, 32, 32):
                case 0:
                    l: int @ thread[1] = id()
                    v += h[31 - l]
                case 1:
                    pass
    for r in range(1):
        b: shared(int[64])
        with partition(b, p=thread[1], offset=t) as m:
            m[0] = v
    intrinsic.syncthreads()
    with claim(q, p=thread[32]) as h:
        match split(thread, 32, 32):
            case 0:
                l: int @ thread[1] = id()
                with partition(h, p=thread[1], offset=l) as m:
                    m[0] = v
            case 1:
                pass
""",
    "a loop that is written out": """
for j in range(n):
    for r in range(1):
        a: shared(int[2, 64])
        for i in range(2):
            with partition(a, p=thread[1], f=lambda c, k: (i + c, t + k)) as m:
                async_copy(m[0, 0], x[t])
            v += a[i, 63 - t]
        v += p[63 - t]
    for r in range(1):
        b: shared(int[128])
        with partition(b, p=thread[1], offset=t) as m:
            m[0] = v
    intrinsic.syncthreads()
    with partition(p, p=thread[1], offset=t) as m:
        m[0] = v
""",
    "memory that is handed on": """
w2: pipeline(shared(int[1, 32]), 2)
for j in range(n):
    with stage(w2) as s:
        with claim(s, p=thread[32]) as h:
            match split(thread, 32, 32):
                case 0:
                    async_copy(h, rows, at=(j, 0))
                case 1:
                    pass
        v += s[0, t % 32]
""",
    "a barrier in a scope": """
with partition(p, p=thread[1], offset=t) as m:
    async_copy(m[0], x[t])
with partition(d, p=thread[1], f=lambda c, k: (c, t + k)) as m:
    with partition(q, p=thread[1], offset=t) as mq:
        mq[0] = v
    v += q[63 - t]
    m[0, 0] = v
v += p[63 - t]
""",
}
# Copies behind ways out that are gone with nothing in flight: by `break`, and by `return`.
BEHIND = """from __future__ import annotations
from snap import *

@device(block)
def chosen(x: ptr(shared(int), (64,)) @ block[1], y: ptr(const(int)), n: int) -> int @ block[1]:
    with each(thread, x) as t:
        async_copy(x[t], y[t])
    first: int = x[0]
    if n == 1:
        return 7
    return first

@kernel(threads=64)
def k(out: ptr(int), x: ptr(const(int)), n: int):
    with each(block):
        s: shared(int[64])
        j: int = 0
        while True:
            j += 1
            if j > n:
                break
        v: int = chosen(s, x, n)
        with each(thread, s) as t:
            async_copy(s[t], x[t])
        with each(thread, out) as t:
            out[t] = s[63 - t] + v
"""

REGISTERS = """from __future__ import annotations
from snap import *

@kernel(threads=128)
def k(out: ptr(float), xa: ptr(const(u8), (128, 96)), xb: ptr(const(u8), (8, 96)), n: int):
    with each(block):
        acc: float[4] @ thread[1]
        tall: pipeline(shared(u8[64, 32], swizzle=32), 2)
        wide: pipeline(shared(u8[8, 32], swizzle=32), 2)
        for j in range(n):
            for c in range(4):
                acc[c] = 1.0
            with stage(tall) as a, stage(wide) as b:
                async_copy(a, xa, at=(0, 32 * j))
                async_copy(b, xb, at=(0, 32 * j))
                with group(warpgroup):
                    wgmma(acc, a, b, type="e5m2")
        with each(thread, out) as t:
            for c in range(4):
                out[4 * t + c] = acc[c]
"""


def small(body: str):
    return compiled(HEAD + "".join(" " * 16 + line + "\n" for line in (body + TAIL).strip().splitlines()))


def of_the_corpus(name: str):
    program = next(p for p in OK if p.path.stem == name)
    return next(k for k in program.namespace().values() if isinstance(k, SnapFunction) and k.is_kernel)


MADE = {name: lambda name=name: of_the_corpus(name) for name in ("sgemm_pipelined", "attention", "lookback_scan")}
MADE |= {name: lambda body=body: small(body) for name, body in PASSED.items()}
MADE |= {"registers": lambda: compiled(REGISTERS), "behind": lambda: compiled(BEHIND)}


@pytest.mark.parametrize("program", MADE)
def test_what_is_passed_over_changes_nothing(program, monkeypatch):
    """The programs are compared, waits and all: the text of a point (its `repr`) does not say what it waits for."""
    typed = MADE[program]()._the_one({}).typed
    passed_over = synchronize(typed)
    monkeypatch.setattr(Visitor, "concerned", lambda self, s, frame, paths: True)
    monkeypatch.setattr(Counter, "concerned", lambda self, s, frame, paths: True)
    assert passed_over == synchronize(typed)


@pytest.mark.parametrize("program", ["a stage that nothing is put into", "a return that nothing is in flight at"])
def test_no_walk_ends_too_early(program):
    """A loop that writes nothing takes stages, and what was put into a slot before it may be in the slot that comes
    after it.  A walk that has nothing to see at a `return` goes on behind the call.
    """
    arrays = [np.zeros(shape, np.int32) for shape in (64, 64, (64, 32), 64)]
    assert not small(PASSED[program]).races(*arrays, 2, blocks=1, seeds=4)


COPIES_WRITTEN_OUT = """from __future__ import annotations
from snap import *

@kernel(threads=64)
def k(out: ptr(int), x: ptr(const(int)), n: int):
    with each(block):
        s: shared(int[2, 64])
        for j in range(n):
            b: int = 0
            for i in range(3):
                with each(thread, s) as t:
                    async_copy(s[b, t], x[t])
                with each(thread, out) as t:
                    out[t] = s[b, 63 - t] + j
                b = 1 - b
"""


def test_copies_are_counted_in_loops_that_are_written_out_inside_of_others():
    """The walk that counts copies passes over the declaration of `b`, and is told by the first what it needs of it."""
    k = compiled(COPIES_WRITTEN_OUT)
    out, x = np.zeros(64, np.int32), np.arange(64, dtype=np.int32)
    k[1](out, x, 3)
    np.testing.assert_array_equal(out, x[::-1] + 2)
    assert not k.races(out, x, 3, blocks=1, seeds=4)
