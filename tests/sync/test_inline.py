"""Calls replaced by what they call: the same results on the CPU machine, in program order and, synchronized, in orders drawn from seeds."""

from __future__ import annotations

import builtins
import sys

import numpy as np
import pytest
from corpus import OK, ROOT, Program
from sync.small import agree, compiled

from snap import *
from snap import machine
from snap._compiler.codegen import emit
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.numbering import Numbers
from snap._compiler.ir.synced import Stage
from snap._compiler.ir.types import BF16, BLOCK1, GRID1, I32, THREAD1, Array, Held, Level, Place, Space
from snap._compiler.ir.verify import verify
from snap._compiler.ir.walk import statements
from snap._compiler.sync import synchronize
from snap._compiler.sync.roles.inline import inline_calls, must_be_inlined, returning_last
from snap.diag.span import Span

CALLING = [program for program in OK if "@device" in program.text or 'ccuda("device")' in program.text]
EXAMPLES = [Program(path) for path in sorted((ROOT / "examples").glob("[a-z]*.py")) if "@device" in path.read_text(encoding="utf-8")]
SPAN = Span("kernel.py", 1, 0, 1, 1)


def calls(function):
    return [s.function.name for s in statements(function.body) if isinstance(s, ir.Call)]


@pytest.fixture
def compare(monkeypatch):
    """`compare(main)`: every launch runs both ways, and the arrays must be equal bit by bit; which calls were replaced, and which were left."""
    reference, adversarial = machine.run_reference, machine.run_adversarial
    replaced, left, made = set(), set(), {}

    def both(function, args, blocks, say=None, only=None):
        key = builtins.id(function)
        if key not in made:
            flat = inline_calls(function, Numbers(), every=True)
            verify("inline calls", flat, Stage.TYPED)
            made[key] = function, flat, synchronize(flat)
            replaced.update(set(calls(function)) - set(calls(flat)))
            left.update(calls(flat))
            assert f"{flat.name}(" in emit(made[key][2]).text
        _, flat, synced = made[key]
        in_order, scheduled = ([arg.copy() if isinstance(arg, np.ndarray) else arg for arg in args] for _ in range(2))
        lines: list[list[str]] = [[], []]
        told = [one.append for one in lines] if say is not None else [None, None]
        for f, given, tell in ((function, args, told[0]), (flat, in_order, told[1])):
            reference(f, given, blocks, tell)
        assert lines[0] == lines[1]
        for line in lines[0]:
            say(line)
        races: list = []
        adversarial(synced, scheduled, blocks, 1, races)
        assert not races, races[0]
        for arg, *same in zip(args, in_order, scheduled):
            if isinstance(arg, np.ndarray):
                assert all(arg.tobytes() == other.tobytes() for other in same)

    def compare(main):
        monkeypatch.setattr("snap.machine.run.run_reference", both)
        monkeypatch.setattr("snap.api.SnapFunction.races", lambda *args, **options: [])  # looked for in every launch
        main()
        return replaced, left

    return compare


@pytest.mark.parametrize("program", CALLING, ids=lambda program: program.name)
def test_corpus(program, compare):
    namespace = program.namespace()
    replaced, left = compare(namespace.get("check") or namespace["main"])
    assert replaced and not left


@pytest.mark.parametrize("program", EXAMPLES, ids=lambda program: program.name)
def test_examples(program, compare, monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    before = set(sys.modules)
    try:
        replaced, left = compare(program.execute()["main"])
    finally:
        for name in {path.stem for path in (ROOT / "examples").glob("*.py")} & (set(sys.modules) - before):
            del sys.modules[name]
    assert replaced and not left


# ---- parameters ------------------------------------------------------------------------------------------------------------------------------


@device
@requires(thread[32])
def changes_its_parameters(a: int[2, 2] @ thread[1], n: int @ thread[32], m: int @ thread[32]) -> int @ thread[1]:
    n = n * 2
    a[1, 0] = a[0, 1] + n + m
    return a[0, 0] + a[1, 0] * 100


@device
@requires(thread[32])
def doubles(a: ref(int[2, 2]) @ thread[1], of: ptr(const(int)) @ thread[32], at: int @ thread[1]):
    for i in range(2):
        a[i, 1] += 2 * of[at + i]


@device
@requires(thread[32])
def inner_total(v: int @ thread[1], out: ptr(int) @ thread[32]) -> int @ thread[32]:
    l: int @ thread[1] = id()
    with partition(out, p=thread[1], offset=l) as mine:
        mine[0] = v
    return intrinsic.reduce_add(out[(l + 1) % 32])


@device
@requires(block[1], thread[64])
def mirrored(v: int @ thread[1]) -> int @ thread[1]:
    m: shared(int[64])
    t: int @ thread[1] = id()
    with partition(m, p=thread[1], offset=t) as mine:
        mine[0] = v
    intrinsic.syncthreads()
    return m[63 - t]


@device
@requires(block[1], thread[64])
def through_shared(v: int @ thread[1]) -> int @ thread[1]:
    s: shared(int[64])
    w: int @ thread[32] = id()
    total: int @ thread[32]
    with partition(s, p=thread[32], offset=32 * w) as part:
        total = inner_total(v, part)
    turned: int @ thread[1] = mirrored(v) + mirrored(-2 * v)
    other: int @ thread[1] = s[(32 * (1 - w))]
    return total + 1000 * other + turned


@kernel
@requires(grid[1], block[1], thread[64])
def parameters(x: ptr(const(int)) @ grid[1], out: ptr(int, (128, 4)) @ grid[1]):
    with group(grid[1]):
        g: int @ thread[1] = id()
        with partition(out, p=thread[1], f=lambda k: (g, k)) as mine:
            with group(block[1]):
                before: shared(int[8])
                with claim(before, p=thread[1]) as one:
                    match split(thread):
                        case 1:
                            one[0] = 5
                t: int @ thread[1] = id()
                a: int[2, 2] @ thread[1]
                for i in range(2):
                    for j in range(2):
                        a[i, j] = t + 2 * i + j
                n: int = 3
                r: int @ thread[1] = changes_its_parameters(a, n, 7)
                doubles(a, x, t % 32 + 1)
                for k in range(2):
                    r += through_shared(r + k)
                mine[0] = r
                mine[1] = a[0, 1]
                mine[2] = a[1, 1] + n
                mine[3] = a[1, 0] + before[0]


def test_parameters(compare):
    def main():
        out = np.zeros((128, 4), np.int32)
        parameters[2](np.arange(64, dtype=np.int32), out)
        assert (out[:, 3] == np.tile(np.arange(64), 2) + 2 + 5).all()

    assert compare(main) == ({"changes_its_parameters", "doubles", "through_shared"}, set())
    typed = parameters._the_one({}).typed
    flat = inline_calls(typed, Numbers(), every=True)
    offsets = {s.obj.name: s.obj.offset for s in statements(flat.body) if isinstance(s, ir.DeclareShared)}
    assert offsets["before"] == 0 and offsets["s"] >= 32 and offsets["m"] >= offsets["s"] + 256 and flat.smem == typed.smem
    assert not calls(flat) and inline_calls(typed, Numbers()) is typed


# ---- arrays by value and by reference --------------------------------------------------------------------------------------------------------


TAKES_BOTH = """from __future__ import annotations
import snap
from snap import *

@device
@requires(thread[1])
def spoils(r: ref(int[2]) @ thread[1], v: int @ thread[1]):
    r[0] = v

@device
@requires(block[1], thread[64])
def passes_on(b: int[2] @ thread[1], r: ref(int[2]) @ thread[1]) -> int @ thread[1]:
    with group(warp):
        with turn():
            r[1] += 1
    return b[0] + 10 * b[1]

@device
@requires(block[1], thread[64])
def f(a: int[2] @ thread[1], r: ref(int[2]) @ thread[1], n: int @ block[1]) -> int @ thread[1]:
    v: int @ thread[1] = 0
    with group(warp):
        with turn():
            {change}
            v = a[0] + 10 * a[1]
    {more}
    return v

@kernel
@requires(grid[1], block[1], thread[64])
def k(out: ptr(int) @ grid[1], n: int @ grid[1]):
    with group(grid[1]):
        g: int @ thread[1] = id()
        with partition(out, p=thread[1], offset=g) as mine:
            with group(block[1]):
                x: int[2] @ thread[1]
                z: int[2] @ thread[1]
                x[0] = g
                z[1] = 5
                {call}
                mine[0] = x[0] + 100 * x[1] + 10000 * z[0]
"""
CHANGES = {
    "through the reference": "r[0] = 5",
    "through the parameter": "a[0] = 5",
    "in a loop": "for i in range(n):\n                r[i % 2] += i",
    "by a call": "spoils(r, 5)",
    "by a result": "r[1] = intrinsic.shfl_xor(v + a[0], 1)",
    "not at all": "v = r[0]",
}
CALLS = {
    "one array twice": "z[0] = f(x, x, n)",
    "two arrays": "z[0] = f(x, z, n)",
    "the result into it": "x[1] = f(x, x, n)",
    "in a loop": "for i in range(2):\n                    z[0] += f(x, x, n + i)",
    "within an argument": "z[0] = f(x, x, 2) + f(z, x, 1)",
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("more", ["pass", "v += passes_on(a, r)", "v += passes_on(r, r)"])
def test_by_value_is_what_it_was(change, call, more):
    made = compiled(TAKES_BOTH.format(change=CHANGES[change], call=CALLS[call], more=more))
    agree(made, lambda: [np.zeros(128, np.int32), 3])
    assert not {"f", "passes_on"} & set(calls(made._the_one({}).synced))


def test_no_copy_where_nothing_changes():
    made = compiled(TAKES_BOTH.format(change=CHANGES["not at all"], call=CALLS["one array twice"], more="pass"))
    arrays = [s for s in statements(made._the_one({}).synced.body) if isinstance(s, ir.Declare) and isinstance(s.var.type, Array)]
    assert [s.var.name for s in arrays] == ["x", "z"]


# ---- returns ---------------------------------------------------------------------------------------------------------------------------------


@device
@requires(thread[1])
def classified(n: int @ thread[1]) -> int @ thread[1]:
    if n < 0:
        if n < -5:
            return -2
        else:
            return -1
    m: int = n * 2
    if n > 100:
        m += 1
    else:
        return m
    if m > 250:
        return 3
    return m


@device
@requires(thread[1])
def half_returned(n: int @ thread[1]) -> int @ thread[1]:
    if n > 3:
        if n > 10:
            return 1
        n += 5
    return n


@device
@requires(block[1], thread[64])
def searched(s: ptr(shared(int), (2, 32)) @ block[1], x: ptr(const(int), (8, 32)) @ grid[1], v: int @ thread[1], n: int @ block[1]) -> int @ thread[1]:
    t: int @ thread[1] = id()
    async_copy(s, x, at=(3, 0))
    for i in range(n):
        for j in range(3):
            v = v + s[j % 2, (t + i) % 32]
            if i * j == 2:
                return v
            if i == 4:
                break
        if i == 2:
            return v * 2
        v += 1
    k: int = 0
    while k < 9:
        k += 1
        if k == n:
            return v + 100 * k
    if n > 20:
        v += 7
        if n > 30:
            return v
        v += 1000
    return v + s[1, t % 32]


@kernel
@requires(grid[1], block[1], thread[64])
def searches(out: ptr(int) @ grid[1], x: ptr(const(int), (8, 32)) @ grid[1], n: int @ grid[1]):
    with group(grid[1]):
        g: int @ thread[1] = id()
        with partition(out, p=thread[1], offset=g) as mine:
            with group(block[1]):
                s: shared(int[2, 32])
                mine[0] = searched(s, x, g, n)


@pytest.mark.parametrize("n", [0, 1, 2, 3, 8, 21, 31])
def test_returns_from_loops_where_boxes_are_loaded(n):
    x = np.arange(256, dtype=np.int32).reshape(8, 32)
    agree(searches, lambda: [np.zeros(128, np.int32), x, n])
    assert "returned" in searches.cuda()


@device
@requires(block[1], thread[64])
def agreed(v: int @ thread[1], c: int @ block[1]) -> int @ block[1]:
    with group(warp):
        with turn():
            v = v + 1
        return c * 2


@kernel
@requires(grid[1], block[1], thread[64])
def agrees(out: ptr(int) @ grid[1], n: int @ grid[1]):
    with group(grid[1]):
        g: int @ thread[1] = id()
        with partition(out, p=thread[1], offset=g) as mine:
            with group(block[1]):
                v: int @ thread[1] = g
                for i in range(agreed(v, n)):
                    v += i
                mine[0] = v


def test_a_result_above_the_code_that_returns_it():
    agree(agrees, lambda: [np.zeros(128, np.int32), 3])
    assert not calls(agrees._the_one({}).synced)


@device
@requires(thread[1])
def is_odd(n: int @ thread[1]) -> bool @ thread[1]:
    return n % 2 != 0


@kernel
@requires(grid[1], block[1], thread[32])
def returned(x: ptr(const(int)) @ grid[1], out: ptr(int) @ grid[1]):
    with group(grid[1]):
        g: int @ thread[1] = id()
        with partition(out, p=thread[1], offset=2 * g) as mine:
            with group(thread[1]):
                v: int = x[g]
                mine[0] = classified(v)
                v += half_returned(v)
                while is_odd(v):
                    v = v / 2
                mine[1] = v


def test_early_returns(compare):
    def main():
        x = np.array([-10, -3, 0, 1, 5, 99, 100, 101, 124, 126, 200, 7, 12] + [3] * 19, np.int32)
        out = np.zeros(64, np.int32)
        returned[1](x, out)
        expected = [-2 if n < -5 else -1 if n < 0 else 2 * n if n <= 100 else 3 if 2 * n + 1 > 250 else 2 * n + 1 for n in x.tolist()]
        assert out[::2].tolist() == expected

    assert compare(main) == ({"classified", "half_returned", "is_odd"}, set())


def test_a_return_that_is_last_stays_what_it_is():
    end = ir.Return(ir.Const(1, I32, span=SPAN), span=SPAN)
    place = Place(((Level.THREAD, Held(32)),))
    group = ir.Group(THREAD1, place, place.grouped(THREAD1), (end,), span=SPAN)
    assert returning_last((group,), THREAD1) == (group,)


# ---- which calls -----------------------------------------------------------------------------------------------------------------------------


@device
@requires(block[1], thread[64])
def roles(s: ptr(shared(int)) @ block[1]):
    with claim(s, p=thread[32]) as one:
        match split(thread):
            case 32:
                pass
            case 32:
                with partition(one, p=thread[1], offset=id()) as cell:
                    cell[0] = 1


@device
@requires(block[1], thread[64])
def one_thread(s: ptr(shared(int)) @ block[1]):
    with claim(s, p=thread[1]) as one:
        match split(thread):
            case 1:
                one[40] = 2


@device
@requires(thread[64])
def below_the_block(s: ptr(shared(int)) @ thread[64]):
    with claim(s, p=thread[32]) as one:
        match split(thread):
            case 32:
                with partition(one, p=thread[1], offset=id()) as cell:
                    cell[0] += 0


@device
@requires(block[1], thread[64])
def both(s: ptr(shared(int)) @ block[1]):
    roles(s)
    one_thread(s)


@kernel
@requires(grid[1], block[1], thread[64])
def chooses(out: ptr(int) @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(out, p=thread[1], offset=i) as mine:
            with group(block[1]):
                s: shared(int[64])
                t: int @ thread[1] = id()
                with partition(s, p=thread[1], offset=t) as cell:
                    cell[0] = 0
                both(s)
                one_thread(s)
                with partition(s, p=thread[64], offset=0) as whole:
                    below_the_block(whole)
                mine[0] = s[t]


def test_only_what_synchronization_needs():
    typed = chooses._the_one({}).typed
    found = {s.function.name: must_be_inlined(s.function) for s in statements(typed.body) if isinstance(s, ir.Call)}
    assert found == {"both": True, "one_thread": False, "below_the_block": False}
    flat = inline_calls(typed, Numbers())
    verify("inline calls", flat, Stage.TYPED)
    assert calls(flat) == ["one_thread", "one_thread", "below_the_block"]
    out = np.zeros(64, np.int32)
    machine.run_reference(flat, [out], 1)
    assert out.tolist() == [1] * 32 + [0] * 8 + [2] + [0] * 23


def test_stages_and_turns_are_the_kernels():
    place = Place(((Level.BLOCK, Held(1, 1)), (Level.THREAD, Held(128))))
    obj = ir.MemObject(1, "t", BF16, (), False, Space.SHARED, BLOCK1, depth=2, span=SPAN)
    handle = ir.Handle(2, "t", obj, BLOCK1, False, ir.Origin.SHARED, span=SPAN)
    inner = ir.Handle(3, "s", obj, BLOCK1, False, ir.Origin.STAGE, handle, span=SPAN)

    def holding(*body):
        return must_be_inlined(ir.Function(9, "f", False, (), None, place, body, 0, False, span=SPAN))

    assert not holding(ir.Partition(handle, inner, place, (), span=SPAN))
    assert holding(ir.Partition(handle, inner, place, (), ir.Const(0, I32, span=SPAN), span=SPAN))
    assert holding(ir.Group(BLOCK1, place, place, (ir.Turn(place, place, (), span=SPAN),), span=SPAN))


def test_a_box_of_the_callers_memory():
    """The origin's view becomes the array's own, and the tile a part of the caller's pipeline."""
    def read(var):
        return ir.Read(var, I32, span=SPAN)

    def number(value):
        return ir.Const(value, I32, span=SPAN)

    def pointer(uid, name, shape, space, privilege):
        obj = ir.MemObject(uid, name, BF16, shape, False, space, privilege, span=SPAN)
        return obj, ir.Handle(uid + 1, name, obj, privilege, False, ir.Origin.PARAM, span=SPAN)

    rows, columns, slot, r, c, at, where = (ir.Var(uid, f"v{uid}", I32, BLOCK1, span=SPAN) for uid in range(1, 8))
    block = Place(((Level.BLOCK, Held(1, 1)), (Level.THREAD, Held(128))))
    a_inside, a_inside_handle = pointer(20, "a", (read(r), read(c)), Space.GLOBAL, BLOCK1)
    t_inside, t_inside_handle = pointer(30, "t", (number(4), number(64), number(64)), Space.SHARED, BLOCK1)
    tile = ir.Tile(ir.MemAccess(ir.MemView(t_inside, BF16, t_inside.shape), (read(at), number(0), number(0)), t_inside_handle, span=SPAN), (1, 64, 64))
    origin = ir.MemAccess(ir.MemView(a_inside, BF16, a_inside.shape), (read(where), number(8)), a_inside_handle, span=SPAN)
    copy = ir.BoxCopy(ir.BoxOp.LOAD, tile, origin, (64, 64), block, span=SPAN)
    params = (ir.MemParam(t_inside_handle), ir.MemParam(a_inside_handle), *map(ir.ValueParam, (where, at, r, c)))
    callee = ir.Function(50, "fill", False, params, None, block, (copy,), 0, False, span=SPAN)

    a, a_handle = pointer(60, "A", (read(rows), read(columns)), Space.GLOBAL, GRID1)
    shared = ir.MemObject(70, "tiles", BF16, t_inside.shape, False, Space.SHARED, BLOCK1, depth=4, span=SPAN)
    shared_handle = ir.Handle(71, "tiles", shared, BLOCK1, False, ir.Origin.SHARED, span=SPAN)
    row = ir.Binary("*", read(slot), number(64), I32, span=SPAN)
    args = (ir.MemView(shared, BF16, shared.shape), ir.MemView(a, BF16, a.shape), row, read(slot), read(rows), read(columns))
    call = ir.Call(callee, args, (shared_handle, a_handle, None, None, None, None), None, block, 0, span=SPAN)
    body = (ir.DeclareShared(shared, shared_handle, span=SPAN), call, call)
    kernel = ir.Function(51, "k", True, (*map(ir.ValueParam, (rows, columns, slot)), ir.MemParam(a_handle)), None, block, body, 4 * 64 * 64 * 2, False, span=SPAN)

    flat = inline_calls(kernel, Numbers())
    verify("inline calls", flat, Stage.TYPED)
    assert not calls(flat)
    first, second = (s for s in statements(flat.body) if isinstance(s, ir.BoxCopy))
    assert first is not second
    for made in (first, second):
        assert made.origin.view == ir.MemView(a, BF16, a.shape) and made.origin.handle is a_handle
        assert made.tile.access.view == ir.MemView(shared, BF16, shared.shape) and made.tile.access.handle is shared_handle
        assert made.tile.access.index[0] == read(slot)
    declared = [s for s in statements(flat.body) if isinstance(s, ir.Declare)]
    assert [s.init for s in declared] == [row, row] and {s.var.uid for s in declared}.isdisjoint(range(1, 72))
    assert first.origin.index[0] == read(declared[0].var) and second.origin.index[0] == read(declared[1].var)


@device
@requires(block[1], thread[128])
def fetch(t: ptr(shared(float), (8, 32)) @ block[1], a: ptr(const(float), (m, n)) @ grid[1], m: int @ grid[1], n: int @ grid[1], r: int @ block[1]):
    async_copy(t, a, at=(r, 0))


@device
@requires(block[1], thread[128])
def put(b: ptr(float, (64, 32)) @ block[1], t: ptr(shared(float), (8, 32)) @ block[1], r: int @ block[1]):
    async_copy(b, t, at=(r, 0))


def test_boxes_and_stages_through_calls():
    @kernel
    @requires(grid[1], block[1], thread[128])
    def moves(a: ptr(const(float), (m, n)) @ grid[1], b: ptr(float, (64, 32)) @ grid[1], m: int @ grid[1], n: int @ grid[1]):
        with group(grid[1]):
            block_number: int @ block[1] = id()
            with partition(b, p=block[1], f=lambda i, j: (i, j), disjoint=True) as part:
                with group(block[1]):
                    tiles: pipeline(shared(float[8, 32]), 2)
                    for i in range(4):
                        with stage(tiles) as s:
                            fetch(s, a, m, n, 32 * block_number + 8 * i)
                            put(part, s, 32 * block_number + 8 * i)

    flat = inline_calls(moves._the_one({}).typed, Numbers())
    verify("inline calls", flat, Stage.TYPED)
    assert not calls(flat)
    boxes = [s for s in statements(flat.body) if isinstance(s, ir.BoxCopy)]
    assert [(s.op, s.origin.handle.name, s.tile.access.handle.name) for s in boxes] == [("load", "a", "s"), ("store", "part", "s")]
    assert all(s.origin.view.shape == s.origin.view.obj.shape for s in boxes)
    a, b = np.random.default_rng(1).random((64, 32), np.float32), np.zeros((64, 32), np.float32)
    machine.run_reference(flat, [a, b, 64, 32], 2)
    assert (a == b).all()


@device
@requires(thread[32])
def fetch_for_a_role(t: ptr(shared(float), (8, 32)) @ thread[32], a: ptr(const(float), (m, 32)) @ grid[1], m: int @ grid[1], k: int @ thread[32]):
    async_copy(t, a, at=(8 * k, 0))


@kernel
@requires(grid[1], block[1], thread[96])
def sums_of_columns(a: ptr(const(float), (m, 32)) @ grid[1], out: ptr(float) @ grid[1], m: int @ grid[1]):
    with group(block[1]):
        rows: pipeline(shared(float[8, 32]), 2)
        t: int @ thread[1] = id()
        total: float @ thread[1] = 0.0
        for k in range(m / 8):
            with stage(rows) as s:
                with claim(s, p=thread[32]) as mine:
                    match split(thread, 64, 32):
                        case 0:
                            pass
                        case 1:
                            fetch_for_a_role(mine, a, m, k)
                with claim(s, p=thread[64]) as ours:
                    match split(thread, 64):
                        case 0:
                            for i in range(8):
                                total += ours[i, t % 32]
        atomic.add(out, t, total)


def test_a_role_that_only_calls_what_loads_runs_in_one_thread():
    assert "} else if (snap_elected()) {" in sums_of_columns.cuda()
    a, out = np.arange(24 * 32, dtype=np.float32).reshape(24, 32), np.zeros(96, np.float32)
    sums_of_columns[1](a, out, 24)
    assert (out[:64].reshape(2, 32) == a.sum(axis=0)).all() and not sums_of_columns.races(a, out, 24, blocks=1, seeds=3)
