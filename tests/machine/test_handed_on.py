"""What atomics hand on from one thread to another: which operations release and which acquire, by the races that are found without it.  The PTX machine
finds the same ones in the CUDA."""

from __future__ import annotations

from functools import cache
from itertools import product

import numpy as np
import pytest
from sync.dropping import goes_wrong, points_of, without
from sync.small import compiled

import snap
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.walk import statements
from snap.machine import MachineError
from snap.prove.order.goal import order
from snap.ptx import PtxFault

HEAD = """from __future__ import annotations
from snap import *
"""
# A thread of block 0 writes, plainly, and hands on; one of block 1 waits for that, and reads.
PLAIN = HEAD + """
@kernel(threads=32, cooperative=True)
def k(data: ptr(int), flags: ptr(int), out: ptr(int)):
    with each(block, data, out) as b:
        if b == 0:
            with one(thread, data):
                data[0] = 42
                {release}
        else:
            with one(thread, data, out):
                {acquire}
                out[0] = data[0]
"""
# By atomics, and another thread of the block than the one that hands on, and waits.
GROUP = HEAD + """
@kernel(threads=64, cooperative=True)
def k(data: ptr(int), flags: ptr(int), out: ptr(int)):
    with each(block, out, disjoint=out) as b:
        if b == 0:
            with each(thread) as t:
                if t == 40:
                    atomic.store(data, 0, 42)
            with one(thread):
                {release}
        else:
            with one(thread):
                {acquire}
            with each(thread, out) as t:
                if t == 40:
                    out[0] = atomic.load(data, 0)
"""
RELEASES = {
    "store": 'atomic.store(flags, 0, 1, order="{}")',
    "exch": 'atomic.exch(flags, 0, 1, order="{}")',
    "add": 'atomic.add(flags, 0, 1, order="{}")',
    "max": 'atomic.max(flags, 0, 1, order="{}")',
    "cas": 'atomic.cas(flags, 0, 0, 1, order="{}")',
    "load": 'x = atomic.load(flags, 0, order="{}")\n                atomic.store(flags, 0, 1)',
}
ACQUIRES = {
    "load": 'while atomic.load(flags, 0, order="{}") == 0:\n                    pass',
    "exch": 'while atomic.exch(flags, 0, 0, order="{}") == 0:\n                    pass',
    "add": 'while atomic.add(flags, 0, 0, order="{}") == 0:\n                    pass',
    "max": 'while atomic.max(flags, 0, 0, order="{}") == 0:\n                    pass',
    "cas": 'while atomic.cas(flags, 0, 1, 2, order="{}") != 1:\n                    pass',
    "store": 'while atomic.load(flags, 0) == 0:\n                    pass\n                atomic.store(flags, 0, 2, order="{}")',
}
ORDERS = ("relaxed", "acquire", "release", "acq_rel", "seq_cst")
RELEASING, ACQUIRING = ("release", "acq_rel", "seq_cst"), ("acquire", "acq_rel", "seq_cst")
REFUSED = {("load", "release"), ("load", "acq_rel"), ("store", "acquire"), ("store", "acq_rel")}


def ways(words: dict[str, str]) -> list[tuple[str, str]]:
    return [(op, order) for op, order in product(words, ORDERS) if (op, order) not in REFUSED]


# Every way to release with the plainest acquire, and the other way round; and the strongest order with itself.
PAIRS = [
    *((way, ("load", "acquire")) for way in ways(RELEASES)),
    *((("store", "release"), way) for way in ways(ACQUIRES)),
    *product((("load", "seq_cst"), ("max", "seq_cst")), (("store", "seq_cst"), ("add", "seq_cst"))),
]


def arrays() -> list[np.ndarray]:
    return [np.zeros(4, np.int32) for _ in range(3)]


@cache
def made(text: str):
    return compiled(text)


def of_pair(text: str, release: tuple[str, str], acquire: tuple[str, str]):
    return made(text.format(release=RELEASES[release[0]].format(release[1]), acquire=ACQUIRES[acquire[0]].format(acquire[1])))


def hands_on(release: tuple[str, str], acquire: tuple[str, str]) -> bool:
    """A load writes nothing, so it releases nothing; a store reads nothing, so it acquires nothing."""
    return release[0] != "load" and release[1] in RELEASING and acquire[0] != "store" and acquire[1] in ACQUIRING


def races_on_ptx(kernel, blocks: int, seeds: int = 2) -> bool:
    pytest.importorskip("cuda.bindings.nvrtc")
    found = []
    for seed in range(seeds):
        try:
            kernel.launch(*arrays(), blocks=blocks, target=snap.PTX(checks=("races",)), seed=seed)
            found.append(False)
        except PtxFault as error:
            assert error.kind == "race"
            found.append(True)
    return any(found)


@pytest.mark.parametrize("release, acquire", PAIRS, ids=str)
def test_what_is_written_before_a_release_is_read_behind_an_acquire(release, acquire):
    kernel = of_pair(PLAIN, release, acquire)
    found = kernel.races(*arrays(), blocks=2, seeds=3)
    assert {race.object for race in found} == (set() if hands_on(release, acquire) else {"data"})


# `seq_cst` is a fence before the instruction, with which a relaxed store behind a load releases, and a relaxed load
# before a store acquires: PTX promises more than Snap does.
@pytest.mark.parametrize("release, acquire", [p for p in PAIRS if p[0] != ("load", "seq_cst") and p[1] != ("store", "seq_cst")], ids=str)
def test_the_ptx_machine_finds_the_same(release, acquire):
    assert races_on_ptx(of_pair(PLAIN, release, acquire), 2) != hands_on(release, acquire)


@pytest.mark.parametrize("release, acquire", PAIRS, ids=str)
def test_a_group_meets_where_one_thread_releases_or_acquires_and_nowhere_else(release, acquire):
    """Barriers are inferred for what is handed on, *order* and the race detector ask for those, and for no more."""
    kernel = of_pair(GROUP, release, acquire)
    function = kernel._the_one({}).synced
    assert [point.object for point in kernel.syncs()] == (["data", "data"] if hands_on(release, acquire) else [])
    assert order(function).verdict == "ordered"
    assert kernel.races(*arrays(), blocks=2, seeds=3) == []
    for point in points_of(function):
        assert order(without(function, point)).verdict == "unknown", point.reason
        assert any(goes_wrong(without(function, point), arrays(), 2, seed) for seed in range(12)), point.reason


# A thread of a warp of block 0 hands on to one of another warp, of another block of its cluster, or of another cluster.
SCOPES = HEAD + """
@kernel(threads=64, cluster=2, cooperative=True)
def k(data: ptr(int), flags: ptr(int), out: ptr(int)):
    with each(block, data, out) as b:
        with each(warp, data, out) as w:
            if b == 0 and w == 0:
                with one(thread, data):
                    data[0] = 42
                    atomic.exch(flags, 0, 1, order="release", scope="{release}")
            elif b == {block} and w == 1:
                with one(thread, data, out):
                    while atomic.add(flags, 0, 0, order="acquire", scope="{acquire}") == 0:
                        pass
                    out[0] = data[0]
"""
REACH = {"block": 0, "cluster": 1, "gpu": 2, "system": 2}
FAR = {0: 0, 1: 1, 2: 2, 3: 2}  # by block, the least scope that block 0 is in


@pytest.mark.parametrize("release, acquire", [(scope, "gpu") for scope in REACH] + [("gpu", scope) for scope in REACH] + [(scope, scope) for scope in REACH if scope != "gpu"])
@pytest.mark.parametrize("block", FAR)
def test_the_scopes_of_both_sides_reach_the_other_thread(release, acquire, block):
    kernel = made(SCOPES.format(release=release, acquire=acquire, block=block))
    reaches = min(REACH[release], REACH[acquire]) >= FAR[block]
    found = kernel.races(*arrays(), blocks=4, seeds=2)
    assert {race.object for race in found} == (set() if reaches else {"data"})
    if block < 3:
        assert races_on_ptx(kernel, 4, 1) != reaches


# Block 0 hands on, block 1 says so to block 2 by the same word: {between}, where it is 1.
CHAIN = HEAD + """
@kernel(threads=32, cooperative=True)
def k(data: ptr(int), flags: ptr(int), out: ptr(int)):
    with each(block, data, out) as b:
        if b == 0:
            with one(thread, data):
                data[0] = 42
                atomic.store(flags, 0, 1, order="release")
                {after}
                atomic.store(flags, 1, 1)
        elif b == 1:
            with one(thread):
                while atomic.load(flags, 0) != 1:
                    pass
                {between}
        else:
            with one(thread, data, out):
                while atomic.load(flags, 0) != 3 or atomic.load(flags, 1) == 0:
                    pass
                if atomic.load(flags, 0, order="acquire") == 3:
                    out[0] = data[0]
"""
OWN = "while atomic.load(flags, 0) != {}:\n                    pass\n                "


@pytest.mark.parametrize(
    "between, after, racy",
    [
        ("atomic.store(flags, 0, 3)", "pass", True),
        ('atomic.store(flags, 0, 3, order="release")', "pass", True),
        ("atomic.store(flags, 0, 3)", OWN.format(3) + "pass", True),
        ("atomic.exch(flags, 0, 3)", "pass", False),
        ('atomic.exch(flags, 0, 3, order="release")', "pass", False),
        ("atomic.add(flags, 0, 2)", "pass", False),
        ("atomic.cas(flags, 0, 1, 3)", "pass", False),
        ("atomic.exch(flags, 0, 2)\n                atomic.store(flags, 0, 3)", "pass", True),
        ("atomic.store(flags, 0, 2)", OWN.format(2) + "atomic.store(flags, 0, 3)", False),
        ("atomic.store(flags, 0, 2)", OWN.format(2) + "atomic.add(flags, 0, 1)", False),
    ],
)
def test_another_store_ends_a_release(between, after, racy):
    """Atomics that read pass on what was released; a thread's later writes hand on what it released itself."""
    kernel = made(CHAIN.format(between=between, after=after))
    assert {race.object for race in kernel.races(*arrays(), blocks=3, seeds=4)} == ({"data"} if racy else set())
    assert races_on_ptx(kernel, 3, 4) == racy


@pytest.mark.parametrize("op, order", sorted({*ways(RELEASES), *ways(ACQUIRES)}), ids=str)
def test_what_an_atomic_of_the_ir_does(op, order):
    text = (RELEASES.get(op) or ACQUIRES[op]).format(order)
    function = made(PLAIN.format(release=text, acquire="pass"))._the_one({}).typed
    found = [s for s in statements(function.body) if isinstance(s, ir.Atomic) and s.op == op]
    assert [(s.releases, s.acquires) for s in found] == [(op != "load" and order in RELEASING, op != "store" and order in ACQUIRING)]


def test_a_wait_for_a_slot_by_a_load_is_no_release():
    """Each side of a ring waits for the other: the side that writes acquires by `seq_cst` loads, the other one releases by `seq_cst` atomics."""
    ring = HEAD + """
@kernel(threads=64, cooperative=True)
def k(x: ptr(const(int)), data: ptr(int), flags: ptr(int), out: ptr(int)):
    with each(block, out, data, disjoint=out) as b:
        for r in range(3):
            if b == 0:
                if r >= 2:
                    with one(thread):
                        while atomic.load(flags, 1, order="seq_cst") < r - 1:
                            pass
                with each(thread, data) as t:
                    data[r % 2 * 64 + t] = x[r * 64 + t]
                with each(thread) as t:
                    if t == 40:
                        atomic.store(flags, 0, r + 1, order="release")
            elif b == 1:
                with one(thread):
                    while atomic.load(flags, 0, order="acquire") < r + 1:
                        pass
                got: int @ thread[1] = 0
                with each(thread) as t:
                    got = data[r % 2 * 64 + (63 - t)]
                with each(thread) as t:
                    if t == 16:
                        atomic.max(flags, 1, r + 1, order="seq_cst")
                with each(thread, out) as t:
                    out[r * 64 + t] = got
"""
    kernel, x = compiled(ring), np.arange(192, dtype=np.int32) + 1
    for seed in (None, 0, 1, 2):
        out = np.zeros(192, np.int32)
        kernel.launch(x, np.zeros(128, np.int32), np.zeros(2, np.int32), out, blocks=2, seed=seed)
        assert (out.reshape(3, 64) == x.reshape(3, 64)[:, ::-1]).all()
    assert kernel.races(x, np.zeros(128, np.int32), np.zeros(2, np.int32), np.zeros(192, np.int32), blocks=2) == []
    assert kernel.prove("races").verdict == "unknown"  # flags alone order the slots, and no run shows anything else


def test_a_fault_is_about_what_races():
    """In lockstep two blocks meet in `data`, which is handed on; what races is `other`."""
    text = PLAIN.replace("data: ptr(int)", "data: ptr(int), other: ptr(int)").replace("each(block, data", "each(block, data, other")
    text = text.format(release=RELEASES["store"].format("release"), acquire=ACQUIRES["load"].format("acquire"))
    handed = made(text)
    handed.launch(np.zeros(4, np.int32), *arrays(), blocks=2)
    racy = made(text + "        with one(thread, other):\n            other[0] = 1\n")
    with pytest.raises(MachineError, match="data race on element 0 of `other`"):
        racy.launch(np.zeros(4, np.int32), *arrays(), blocks=2)
    unordered = made(text.replace('order="release"', 'order="relaxed"'))
    with pytest.raises(MachineError, match="two units of block.1. meet in one element of `data`"):
        unordered.launch(np.zeros(4, np.int32), *arrays(), blocks=2)
