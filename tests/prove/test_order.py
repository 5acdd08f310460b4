"""Order: everything we generate is ordered as in the text and hangs nowhere, shown without the inference; and what is made wrong in one place is not shown."""

from __future__ import annotations

import functools
import importlib
import sys
from dataclasses import replace
from itertools import product
from pathlib import Path

import mutations
import numpy as np
import pytest
from corpus import OK, ROOT, Program, kernels_of

from snap import *
from snap._compiler.analysis.linear import forms
from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced, types
from snap._compiler.ir.types import I32
from snap._compiler.ir.walk import statements
from snap.api import SnapFunction
from snap.machine import MachineError, run_adversarial
from snap.prove.order.goal import order
from snap.prove.order.paces import Bounds
from snap.prove.order.reach import Reach
from snap.prove.order.report import findings
from snap.prove.order.walk import OrderWalk
from snap.prove.verdict import Verdict

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "sync"))
from sync.hopper_programs import PROGRAMS  # noqa: E402

sys.path.insert(0, str(ROOT / "benchmarks"))
from library_kernels import KERNELS, LATER, LAYERS  # noqa: E402

LIBRARY = {**KERNELS, **LATER, **LAYERS}
# Numbers in memory, in a loop that both roles run, say whether a group's last rows go through a slot of their own: how often that slot was
# filled is not known to be the same for both.
NOT_SHOWN = ("gemm, of groups of k",)

EXAMPLES = [Program(path) for path in sorted((ROOT / "examples").glob("[a-z]*.py")) if path.stem != "demo"]

CHOSEN = {"TILE": 16, "ROWS": 8}  # constexpr values of the examples


def kernels(program: Program) -> dict[str, synced.Function]:
    return {name: kernel._the_one({}).synced for name, kernel in kernels_of(program.namespace()).items()}


@kernel(threads=32, blocks=1)
def hidden_in_an_exclusive_or(x: ptr(int), n: int, m: int):
    with one(block, x), one(thread, x):
        if m < 5:
            at = (n ^ m) * m << 4
            x[at] = 1


def test_what_only_an_exclusive_or_reads_is_known_to_the_solvers():
    """`n` is in no sum that z3 sees; a model gives it some number all the same."""
    assert order(hidden_in_an_exclusive_or._the_one({}).synced).verdict == "ordered"


@pytest.mark.parametrize("program", OK, ids=lambda program: program.name)
def test_every_kernel_of_the_corpus_is_ordered(program):
    for name, kernel in kernels(program).items():
        found = order(kernel)
        assert found.verdict == "ordered", (name, found.open[:2], found.stuck[:2], found.unknown)


@pytest.mark.parametrize("program", EXAMPLES, ids=lambda program: program.name)
def test_every_example_is_ordered(program, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    try:
        made = [value for value in program.execute().values() if isinstance(value, SnapFunction) and value.is_kernel]
        for kernel in made:
            given = {name: CHOSEN[name] for name in kernel.generic}
            found = order((kernel.specialize(**given) if given else kernel)._the_one({}).synced)
            assert found.verdict == "ordered", (found.kernel, found.open[:2], found.stuck[:2], found.unknown)
    finally:
        for name in {example.path.stem for example in EXAMPLES} & set(sys.modules):
            del sys.modules[name]


@pytest.mark.parametrize("name", sorted(LIBRARY))
def test_every_kernel_of_the_library_is_ordered(name):
    found = order(library(name))
    if name in NOT_SHOWN:
        assert found.verdict != "ordered", f"`{name}` is shown by now: take it off the list, here and in docs/proofs.md"
        return
    assert found.verdict == "ordered", (found.open[:2], found.stuck[:2], found.unknown)


# By program, mutants that do no harm, as tests/sync/test_inferred_mutants.py says, or the machine in 150 orders.
HARMLESS = {"stencil": set(), "copies": set(), "relay": set(), "staging": set(), "sums": set()}


@pytest.mark.parametrize("name", HARMLESS)
def test_what_is_made_wrong_in_one_place_is_not_shown(name):
    kernel, *_ = PROGRAMS[name]()
    function = kernel._the_one({}).synced
    assert order(function).verdict == "ordered"
    missed = {text for text, mutant in mutations.mutants(function) if order(mutant).verdict == "ordered"}
    assert missed == HARMLESS[name]


def test_the_machine_and_the_check_agree():
    """Mutants of a kernel with cp.async: whatever the machine finds fault with is refused, and nothing else is, but for the wait at the block's end:
    that all copies have been waited for in the loop follows from its guard, which order does not look into."""
    kernel, args, _, blocks = PROGRAMS["copies"]()
    function = kernel._the_one({}).synced
    for text, mutant in mutations.mutants(function):
        shown = order(mutant).verdict == "ordered" or "thread barrier" in text and "line 8" in text
        assert shown != any(_goes_wrong(mutant, args, blocks, seed) for seed in range(12)), text


def _goes_wrong(function, args, blocks, seed) -> bool:
    races: list = []
    try:
        run_adversarial(function, [a.copy() if isinstance(a, np.ndarray) else a for a in args], blocks, seed, races)
    except MachineError:
        return True
    return bool(races)


def test_who_waits_for_what_it_gives_first_is_noticed():
    """Who fills a slot waits for the phase in which it was given back, which is complete from the start; and here for the next one, too, which comes only behind its own
    arrival.  As many arrive as are waited for, so that nothing but the circle shows it."""
    kernel, args, _, blocks = PROGRAMS["relay"]()
    function = kernel._the_one({}).synced

    def and_the_next(s):
        if isinstance(s, synced.MBarrierWait) and s.barrier.name.endswith("empty"):
            later = ir.Binary("+", s.phase, ir.Const(1, I32, span=s.span), I32, span=s.span)
            yield "the next phase, too", (s, replace(s, phase=later, number=s.number + 100_000))

    ((_, wrong),) = mutations.edited(function, and_the_next)
    assert _goes_wrong(wrong, args, blocks, 0)
    assert any("for itself" in stuck.why for stuck in order(wrong).stuck)


def test_a_loop_that_polls_is_taken_to_end_and_that_is_said():
    """A launch in which nobody sets the flag makes no progress: so the proof says what it rests on, and of a loop that counts it says nothing."""
    polls = next(p for p in OK if p.path.stem == "polling").namespace()["in_a_row"]
    found = polls.prove()
    assert found.verdict is Verdict.PROVED and any("`while` in line 18 ends" in text for text in found.assumed)
    with pytest.raises(MachineError) as error:
        polls[4](np.zeros(5, np.uint32), np.zeros(256, np.int32), 1)
    assert error.value.kind == "no progress"
    assert not any("`while`" in text for text in counts_up.prove().assumed)


@kernel(threads=32, where=lambda blocks, x: (blocks == 1, len(x) >= 32))
def counts_up(x: ptr(int), n: int):
    with each(thread, x) as t:
        k: int = 0
        while k < n:
            k += 1
        x[t] = k


@kernel
@requires(grid[1], block[1], thread[64], cooperative=True)
def votes_between(x: ptr(int) @ grid[1], y: ptr(int) @ grid[1], n: int @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(x, p=thread[1], offset=i) as mine:
            mine[0] = i
        with partition(y, p=block[1], f=lambda k: k + id() * 64) as part, group(block[1]):
            t: int @ thread[1] = id()
            seen: bool = intrinsic.syncthreads_or(t > n)
            with partition(part, p=thread[1], offset=t) as own:
                if seen:
                    own[0] = x[n]


def test_a_collective_of_a_block_orders_no_other_block():
    """All blocks meet between the write and the read; a vote of each block, which is a barrier of its own, is not enough."""
    function = votes_between._the_one({}).synced
    assert order(function).verdict == "ordered"
    ((_, wrong),) = mutations.drop_points(function)
    assert order(wrong).open and not order(wrong).stuck


def test_a_count_of_arrivals_that_is_wrong_is_noticed():
    kernel, *_ = PROGRAMS["relay"]()
    function = kernel._the_one({}).synced
    for b in function.mbarriers:
        for by in (-1, 1):
            wrong = replace(function, mbarriers=tuple(replace(x, count=x.count + by) if x is b else x for x in function.mbarriers))
            assert any("count" in stuck.why for stuck in order(wrong).stuck), (b.name, by)


def test_turns():
    """Units take turns: whatever is made wrong in one place is not shown, though two of these do no harm; nor that some units take more turns than others, that they
    meet in a turn, or that a turn is counted too early."""
    function = kernels(next(p for p in OK if p.path.stem == "turns"))["queue"]
    assert all(order(mutant).verdict != "ordered" for _, mutant in mutations.mutants(function))
    unit = next(s.var for s in statements(function.body) if isinstance(s, ir.Declare) and s.var.name == "w")
    barrier = next(s for s in statements(function.body) if isinstance(s, synced.Sync))
    count = next(s for s in statements(function.body) if isinstance(s, ir.Assign) and getattr(s.target, "var", unit).name == "turns")

    def more_often(s):
        if isinstance(s, ir.For):
            yield "some take more turns", (replace(s, stop=ir.Read(unit, I32, span=s.span)),)

    def meets(s):
        if isinstance(s, synced.MBarrierArrive):
            yield "the block meets in a turn", (barrier, s)

    def too_early(s):
        if isinstance(s, synced.MBarrierWait):
            yield "a turn is counted before it is waited for", (count, s)
        elif s is count:
            yield "nor behind", ()

    said = ("as many turns", "a unit waits for others", "passed on once")
    for edit, why in zip((more_often, meets, too_early), said):
        mutant = function
        for _ in range(2 if edit is too_early else 1):
            _, mutant = [*mutations.edited(mutant, edit)][-1]
        assert any(why in stuck.why for stuck in order(mutant).stuck), why


def library(name: str) -> synced.Function:
    of, maker, arguments = LIBRARY[name]
    module = importlib.import_module(f"snap.lib.{of}")
    return eval(f"make({arguments})", {**vars(types), "module": module, "make": getattr(module, maker)})._the_one({}).synced


def test_a_role_that_waits_for_all_that_is_loaded_knows_that_it_is_over():
    """Behind their split, roles of a GEMM in slices use the bytes of its stages for something else.  Without the barriers between, nobody but who multiplies may; and
    a role that waits for one phase less, or whose loads come in a wait less, knows nothing of the last one."""
    function = library("gemm in slices")
    assert order(function).verdict == "ordered"
    loop = next(s for s in statements(function.body) if isinstance(s, ir.For) and any(isinstance(x, synced.MBarrierWait) for x in statements(s.body)))
    wait = next(s for s in statements(loop.body) if isinstance(s, synced.MBarrierWait))
    once = ir.Const(1, I32, span=loop.span)

    def one_iteration(s):
        if s is loop:
            yield "one iteration less", (replace(s, stop=ir.Binary("-", s.stop, once, I32, span=s.span)),)

    def one_phase(s):
        if s is wait:
            before = {"slot": s.slot, "phase": s.phase}
            yield "for the stage before", (replace(s, **{k: replace(e, left=ir.Binary("-", e.left, once, I32, span=s.span)) for k, e in before.items()}),)

    for less in (one_iteration, one_phase):
        [(_, mutant)] = mutations.edited(function, less)
        found = order(mutant)
        assert found.verdict != "ordered" and found.open and any("not shown to be waited for" in stuck.why for stuck in found.stuck)
    walk, uid = OrderWalk(function), wait.barrier.uid
    arrived = next(key for key in walk.paces.followed if isinstance(key[1], tuple) and key[1][:2] == ("arrived", uid))
    for waited, knows in ((4, True), (3, False)):  # stages are counted from 0 on: five were loaded
        end = ({((), ("waited", uid)): forms.number(waited)}, [])
        assert walk.mbarriers.waited_for(uid, arrived, end, [end, ({arrived: forms.number(5)}, [])]) == knows


@functools.cache
def counted(BREAKS):
    """Two counters of a loop: as large as each other behind it, unless it may be left between the two."""

    @kernel(threads=64)
    def two(x: ptr(int), n: int, m: int):
        with each(block, x):
            s: shared(int[96])
            c, d = 0, 0
            for k in range(n):
                c += 1
                if BREAKS and k == m:
                    break
                d += 1
            with each(thread, s) as t:
                s[t] = t
            with each(thread, x) as t:
                x[t] = s[t + c - d]

    return two


def test_counters_of_a_loop_go_on_together():
    for breaks in (False, True):
        function = counted(breaks)._the_one({}).synced
        assert order(function).verdict == "ordered"
        without = [mutant for _, mutant in mutations.drop_points(function)] or [function]
        assert [order(mutant).verdict == "ordered" for mutant in without] == [not breaks], breaks


def test_what_is_said():
    program = next(p for p in OK if p.path.stem == "back_edge")
    function = kernels(program)["rotate"]
    text, mutant = next(mutations.drop_points(function))
    found = findings(order(mutant), mutant.span)
    first = found.obligations[0]
    assert first.verdict is Verdict.UNKNOWN and first.kind == "order"
    assert "comes before" in first.what and "maybe before that is over" in first.label
    assert first.others and "barrier" in first.help


# ---- the parts ----------------------------------------------------------------------------------------------------------------


def test_bounds_are_what_the_facts_say():
    """Against all numbers of a small domain, for every system of two facts about three unknowns."""
    atoms = [("x",), ("y",), ("trip", 0)]
    systems = [forms.add(forms.subtract(forms.unknown(a), forms.unknown(b)), forms.number(c)) for a, b, c in product(atoms, atoms, (-1, 0, 2)) if a != b]
    points = [dict(zip(atoms, at)) for at in product(range(-3, 4), range(-3, 4), range(4))]
    for facts in product(systems, repeat=2):
        inside = [p for p in points if all(forms.value(f, p) >= 0 for f in facts)]
        for asked in systems[:6]:
            low = Bounds(facts).least(asked)
            assert low is None or all(forms.value(asked, p) >= low for p in inside)


def test_who_knows_spreads_by_groups():
    first = Reach(0b0001, (0, 0, 0, 0))
    pairs = first.met([0b0011, 0b1100])
    assert pairs.rows == (0b0011, 0, 0, 0)
    assert pairs.met([0b0110]).rows == (0b0111, 0, 0, 0)
    assert pairs.both(first).rows == (0, 0, 0, 0)
    assert first.widened(1, 0b0001, 0b1111).wide == 1
    assert first.widened(1, 0b0011, 0b1111).wide == 0  # of what unit 1 did nobody knows that it is over


def test_a_proof_says_how_many_pairs_it_is_about():
    found = order(library("gemm in slices"))
    assert found.verdict == "ordered" and found.pairs > 10
