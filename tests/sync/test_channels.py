"""Memory that roles hand to each other: what is concluded for whole kernels, and what is refused."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from corpus import ROOT, Program
from sync import small

from snap._compiler.ir import nodes as ir
from snap._compiler.ir.engines import Wait
from snap._compiler.ir.synced import Elect, MBarrierArrive, MBarrierExpect, Sync
from snap._compiler.ir.types import Level
from snap._compiler.ir.walk import statements
from snap.diag.error import SnapError
from snap.diag.source import register_source

_numbers = itertools.count()


def kernel_of(name: str, kernel: str):
    return Program(ROOT / "tests" / "ok" / f"{name}.py").namespace()[kernel]


def synced(kernel) -> ir.Function:
    return kernel._the_one({}).synced


def barriers(f: ir.Function) -> dict[str, tuple[int, int, bool]]:
    return {b.name: (b.slots, b.count, b.everywhere) for b in f.mbarriers}


def all_of(f: ir.Function, kind: type) -> list:
    return [s for s in statements(f.body) if isinstance(s, kind)]


def depth_of(f: ir.Function, wanted: ir.Stmt) -> int:
    """Loops around a statement."""

    def look(body: ir.Body, depth: int) -> int | None:
        from snap._compiler.ir.walk import bodies

        for s in body:
            if s is wanted:
                return depth
            for inner in bodies(s):
                found = look(inner, depth + isinstance(s, (ir.For, ir.While)))
                if found is not None:
                    return found
        return None

    return look(f.body, 0)


# ---- the matrix product of the design's acid test (c) ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def hgemm():
    return synced(kernel_of("hgemm", "hgemm"))


@pytest.fixture(scope="module")
def clustered():
    return synced(kernel_of("hgemm_cluster", "hgemm"))


def test_both_operands_share_one_pair_of_barriers(hgemm):
    assert barriers(hgemm) == {"At_Bt_full": (4, 1, False), "At_Bt_empty": (4, 2, False)}  # one arrival a warpgroup
    announced = [s.bytes for s in all_of(hgemm, MBarrierArrive) if s.bytes]
    assert announced == [128 * 64 * 2 + 256 * 64 * 2]


def test_slots_are_given_back_by_both_blocks(clustered):
    assert barriers(clustered) == {"At_Bt_full": (4, 1, False), "At_Bt_empty": (4, 4, True)}
    assert [s.bytes for s in all_of(clustered, MBarrierArrive) if s.bytes] == [49152]
    assert not [s for s in all_of(clustered, Sync) if s.point.kind in ("cluster", "block")]


@pytest.mark.parametrize("name", ["hgemm", "clustered"])
def test_one_product_stays_in_flight(name, request):
    f = request.getfixturevalue(name)
    waits = [(depth_of(f, s), s.point.younger("wgmma")) for s in all_of(f, Sync) if s.point.younger("wgmma") is not None]
    assert waits == [(2, 1), (1, 0)]  # in the loop over k, and once a tile before the accumulator is read


@pytest.mark.parametrize("name", ["hgemm", "clustered"])
def test_the_staged_epilogue(name, request):
    f = request.getfixturevalue(name)
    named = [s.point for s in all_of(f, Sync) if s.point.kind == "named"]
    assert [(p.participants.n, p.waits, p.fence) for p in named] == [(128, ((Wait.BOXES_READ, 1),), False), (128, (), True)]


def test_roles_are_programs_of_their_own(hgemm):
    (split,) = [s for s in all_of(hgemm, ir.Split) if s.outer.top > Level.THREAD]
    consumers, producer = split.cases
    assert (consumers.offset, consumers.size, producer.offset, producer.size) == (0, 256, 256, 128)
    assert isinstance(producer.body[0], ir.Collective) and isinstance(producer.body[1], Elect)
    assert not [s for s in statements(producer.body) if isinstance(s, (ir.Wgmma, ir.StoreAcc, Sync))]
    assert not [s for s in statements(consumers.body) if isinstance(s, ir.BoxCopy) and s.op == "load"]
    counters = {s.var.name for s in statements(producer.body) if isinstance(s, ir.Declare)}
    assert not any(name.startswith("ct_") for name in counters)  # the epilogue's are none of the producer's business


# ---- others ------------------------------------------------------------------------------------------------------------------------------------


def test_the_stencil_of_acid_test_g():
    f = synced(kernel_of("cluster_stencil", "stencil"))
    found = [(s.point.kind, s.part, depth_of(f, s)) for s in all_of(f, Sync)]
    assert found == [("cluster", "arrive", 1), ("cluster", "wait", 1), ("cluster", "both", 0)]  # the last before the block goes


def test_slots_with_names_of_their_own():
    f = synced(kernel_of("boxes", "scaled"))
    assert barriers(f) == {"even_full": (1, 1, False), "even_empty": (1, 4, False), "odd_full": (1, 1, False), "odd_empty": (1, 4, False)}
    assert not all_of(f, Sync)


def test_no_box_and_still_roles():
    f = synced(kernel_of("boxes", "relay"))
    assert barriers(f) == {"q_full": (2, 1, False), "q_empty": (2, 2, False)} and not all_of(f, Sync)
    assert all(s.by.n == 32 and not s.point.fence for s in all_of(f, MBarrierArrive))


def test_numbered_fills():
    f = synced(kernel_of("boxes", "column_sums"))
    assert barriers(f) == {"rows_full": (2, 1, False)}
    in_loop = [s.point.kind for s in all_of(f, Sync) if depth_of(f, s)]
    assert in_loop == ["block"]  # before a slot is filled again


def test_boxes_stored_by_a_role_have_been_read_before_the_slot_is_filled_again():
    text = """with claim(a, p=thread[32]) as am:
    match split(thread, 32, 32):
        case 0:
            with partition(am, p=thread[1], f=lambda i: (i, t)) as c:
                c[0] = float(k) + x[k, t]
        case 1:
            pass
with claim(a, p=thread[32]) as au:
    match split(thread, 32, 32):
        case 0:
            pass
        case 1:
            async_reduce(w, au, at=(k, 0), op="add")
"""
    kernel = define(staged(text))
    waits = [(s.point.waits, depth_of(synced(kernel), s)) for s in all_of(synced(kernel), Sync)]
    assert waits == [(((Wait.BOXES_READ, 0),), 1)]
    assert [s.point.fence for s in all_of(synced(kernel), MBarrierArrive)].count(True) == 1  # what was written is read as a box
    x, y, w = np.arange(160, dtype=np.float32).reshape(5, 32), np.zeros(64, np.float32), np.zeros((5, 32), np.float32)
    kernel[1](x, y, w, 5)
    np.testing.assert_array_equal(w, x + np.arange(5)[:, None])
    assert not kernel.races(x, y, w, 5, blocks=1, seeds=6)


# ---- refused -------------------------------------------------------------------------------------------------------------------------------------

PROGRAM = """from __future__ import annotations
from snap import *

@kernel
@requires(grid[1], block[1], thread[64])
def k(x: ptr(const(float), (M, 32)) @ grid[1], y: ptr(float) @ grid[1], w: ptr(float, (M, 32)) @ grid[1], M: int @ grid[1]):
    with group(grid[1]):
        with partition(y, p=block[1], f=lambda i: i) as out:
            with group(block[1]):
                q: pipeline(shared(float[1, 32]), 2)
                s: shared(float[1, 32])
                t: int @ thread[1] = id() % 32
                v: float @ thread[1] = 0.0
{body}
                with partition(out, p=thread[1], f=lambda i: id_ + i) as cell:
                    cell[0] = v
"""
LOAD = "with claim({0}, p=thread[32]) as {0}m:\n    match split(thread, 32, 32):\n        case 0:\n            pass\n        case 1:\n            async_copy({0}m, {1}, at=({2}, 0))\n"
USE = "with claim({0}, p=thread[32]) as {0}u:\n    match split(thread, 32, 32):\n        case 0:\n            v += {0}u[0, t]\n        case 1:\n            pass\n"


def indent(text: str, by: str = "    ") -> str:
    return "".join(by + line for line in text.splitlines(keepends=True))


def define(body: str):
    text = PROGRAM.replace("{body}", indent(body, " " * 16)).replace("id_", "t2").replace("t: int", "t2: int @ thread[1] = id()\n                t: int")
    filename = f"<channels {next(_numbers)}>"
    register_source(filename, text)
    namespace: dict = {"__name__": "channels"}
    exec(compile(text, filename, "exec", dont_inherit=True), namespace)
    return namespace["k"]


def staged(*parts: str) -> str:
    return "for k in range(M):\n    with stage(q) as a:\n" + indent("".join(parts), " " * 8)


LOAD_A, USE_A = LOAD.format("a", "x", "k"), USE.format("a")
REFUSED = {
    "left early": (staged(LOAD_A, "if k > 1:\n    continue\n", USE_A), "SNAP021"),
    "used in another stage": ("for k in range(M):\n    with stage(q) as a:\n" + indent(LOAD_A, " " * 8) + "    with stage(q) as a:\n" + indent(USE_A, " " * 8), "SNAP021"),
    "used before it is loaded": (staged(USE_A, LOAD_A), "SNAP021"),
    "loaded and used in loops of their own": (
        "for k in range(M):\n" + indent(LOAD.format("s", "x", "k")) + "for k in range(M):\n" + indent(USE.format("s")), "SNAP020"),
    "loaded twice": (staged(LOAD_A, USE_A, LOAD_A), "SNAP021"),
    "never used": (staged(LOAD_A), "SNAP021"),
    "from memory that is written": (
        staged(LOAD.format("a", "w", "k"), USE_A) + "atomic.add(w, 0, t, v)\n", "SNAP020"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_refused(what):
    body, code = REFUSED[what]
    with pytest.raises(SnapError) as caught:
        define(body)
    assert caught.value.code in (("SNAP020", "SNAP021") if code is None else (code,)), caught.value.render()
    assert caught.value.all[0].render().count("^") >= 1


def test_both_may_depend_on_something_each_for_itself():
    """Whoever does not use a fill waits for it and gives it back all the same."""
    sometimes = define(staged("if k % 3 > 0:\n" + indent(LOAD_A), "if k % 2 == 0:\n" + indent(USE_A)))
    f = synced(sometimes)
    assert barriers(f) == {"q_full": (2, 1, False), "q_empty": (2, 1, False)} and [s.bytes for s in all_of(f, MBarrierExpect)] == [128]


def test_what_is_refused_above_is_accepted_in_order():
    assert barriers(synced(define(staged(LOAD_A, USE_A)))) == {"q_full": (2, 1, False), "q_empty": (2, 1, False)}
    plain = "for k in range(M):\n" + indent(LOAD.format("s", "x", "k") + USE.format("s"))
    assert barriers(synced(define(plain))) == {"s_full": (1, 1, False), "s_empty": (1, 1, False)}
    once = LOAD.format("s", "x", "3") + USE.format("s")
    assert barriers(synced(define(once))) == {"s_full": (1, 1, False)}  # nobody fills it again


LOADED_AND_LOOKED_AT = """from __future__ import annotations
from snap import *

@kernel
@requires(grid[1], block[1], thread[32])
def k(out: ptr(int) @ grid[1], x: ptr(int, (8, 32)) @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(out, p=thread[1], offset=i) as mine:
            with group(block[1]):
                row: shared(int[1, 32])
                t: int @ thread[1] = id()
                async_copy(row, x, at=(0, 0))
                mine[0] = row[0, 31 - t] + atomic.{op}
"""


def test_an_atomic_load_does_not_write_what_boxes_are_loaded_from():
    kernel = small.compiled(LOADED_AND_LOOKED_AT.format(op="load(x, (1, t))"))
    small.agree(kernel, lambda: (np.zeros(64, np.int32), np.arange(256, dtype=np.int32).reshape(8, 32)))
    with pytest.raises(SnapError, match="this kernel also writes it"):
        small.compiled(LOADED_AND_LOOKED_AT.format(op="add(x, (1, t), 1)"))
