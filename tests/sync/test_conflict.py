"""Which pairs of accesses must be ordered, and for whom: the rule by itself, line by line of its table (_compiler/sync/conflicts/conflict.py).

A block of 256 threads has an array `s`; thread t uses the elements that each line says.
"""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from snap._compiler.analysis.linear import forms
from snap._compiler.analysis.linear.overlap import Memo, Overlap
from snap._compiler.analysis.linear.values import Values
from snap._compiler.ir.effects import Kind
from snap._compiler.ir.engines import Engine
from snap._compiler.ir.types import BLOCK1, F32, THREAD1, WARP1, WARPGROUP1, Level, Privilege
from snap._compiler.sync.conflicts.conflict import Why, concurrent_conflict, conflict
from snap._compiler.sync.conflicts.tokens import Name, Said, Token, altered
from snap.diag.span import Span

T = forms.unknown(("thread",))
SIZE = forms.number(256)
SPAN = Span("conflict.py", 1, 1, 1, 2)
WHOLE = Name(((), 1), BLOCK1)  # the array itself
OWN = Name(((), 2), THREAD1)  # a part of it, for each thread
WARPS = Name(((), 3), WARP1)  # for each warp
OBJECT = ((), 1)

ELEMENT = T  # its own
MIRRORED = forms.subtract(forms.number(255), T)  # one that belongs to another thread
NEIGHBOUR = forms.add(forms.times(forms.quotient(T, 2), 2), forms.subtract(forms.number(1), forms.remainder(T, 2)))  # of its pair
EVERYWHERE = None

read = dict(kind=Kind.READ)
write = dict(kind=Kind.WRITE)
add = dict(kind=Kind.COMBINE, atomic="add")
look = dict(kind=Kind.READ, atomic="load")
copied_to = dict(kind=Kind.WRITE, engine=Engine.COPIES)
copied_from = dict(kind=Kind.READ, engine=Engine.COPIES)
loaded = dict(kind=Kind.WRITE, engine=Engine.BOXES, loading=True)
stored_from = dict(kind=Kind.READ, engine=Engine.BOXES, issuer=BLOCK1)
stored_to = dict(kind=Kind.WRITE, engine=Engine.BOXES, issuer=BLOCK1)
added_to = dict(kind=Kind.COMBINE, engine=Engine.BOXES, issuer=BLOCK1, atomic="add")
least_of = {**added_to, "atomic": "min"}
multiplied = dict(kind=Kind.READ, engine=Engine.PRODUCTS)


@pytest.fixture
def context():
    values = Values(threads=256)
    memo = Memo()
    values.systems = memo.systems
    overlap = Overlap(values, 256, False, (Privilege(Level.THREAD, 128),), memo)
    return SimpleNamespace(overlap=overlap, memo=memo, pipelined=SimpleNamespace(numbered=set()), function=SimpleNamespace(apart=frozenset()))


def token(context, index, names=(WHOLE,), **parts) -> Token:
    footprint = context.memo.footprint(F32, (SIZE,), None if index is None else (index,), ())
    return Token(((), 1, parts["kind"]), OBJECT, parts.pop("kind"), names, footprint, "s", SPAN, 0, **parts)


def found(context, a, at, b, then, names=((WHOLE,), (WHOLE,)), rule=conflict):
    result = rule(token(context, at, names[0], **a), token(context, then, names[1], **b), context)
    return None if result is None else (result.participants, result.why)


OTHERS, ITSELF, OPERATIONS = Why.OTHERS, Why.ITSELF, Why.OPERATIONS


@pytest.mark.parametrize(
    "a, at, b, then, expected",
    [
        # one of them writes, and another thread can touch the element
        (write, ELEMENT, read, MIRRORED, (BLOCK1, OTHERS)),
        (read, MIRRORED, write, ELEMENT, (BLOCK1, OTHERS)),
        (write, ELEMENT, write, MIRRORED, (BLOCK1, OTHERS)),
        (read, ELEMENT, read, MIRRORED, None),
        (write, ELEMENT, read, ELEMENT, None),
        (write, ELEMENT, read, EVERYWHERE, (BLOCK1, OTHERS)),
        # the smallest group that holds all such pairs
        (write, ELEMENT, read, NEIGHBOUR, (WARP1, OTHERS)),
        # atomics
        (add, EVERYWHERE, add, EVERYWHERE, None),
        (add, EVERYWHERE, look, EVERYWHERE, None),
        (add, EVERYWHERE, read, MIRRORED, (BLOCK1, OTHERS)),
        (look, EVERYWHERE, write, ELEMENT, (BLOCK1, OTHERS)),
        # who asked for a copy waits for it, too
        (copied_to, ELEMENT, read, ELEMENT, (THREAD1, ITSELF)),
        (copied_from, ELEMENT, write, ELEMENT, (THREAD1, ITSELF)),
        (copied_from, ELEMENT, read, ELEMENT, None),
        (copied_to, ELEMENT, read, MIRRORED, (BLOCK1, OTHERS)),
        # units that copy boxes and multiply see what threads did behind a fence, even their own
        (write, ELEMENT, stored_from, ELEMENT, (THREAD1, ITSELF)),
        (read, ELEMENT, loaded, ELEMENT, (THREAD1, ITSELF)),
        (write, ELEMENT, multiplied, EVERYWHERE, (BLOCK1, OTHERS)),
        # whoever uses a load waits for it
        (loaded, EVERYWHERE, read, EVERYWHERE, None),
        (loaded, EVERYWHERE, loaded, EVERYWHERE, (BLOCK1, OTHERS)),
        # one thread issues both
        (stored_from, EVERYWHERE, stored_to, EVERYWHERE, (THREAD1, OTHERS)),
        (stored_from, EVERYWHERE, write, EVERYWHERE, (BLOCK1, OTHERS)),
        (added_to, EVERYWHERE, added_to, EVERYWHERE, None),
        (added_to, EVERYWHERE, least_of, EVERYWHERE, (THREAD1, OPERATIONS)),
        (added_to, EVERYWHERE, add, EVERYWHERE, None),
    ],
)  # fmt: skip
def test_one_after_the_other(context, a, at, b, then, expected):
    assert found(context, a, at, b, then) == expected


@pytest.mark.parametrize(
    "names, expected",
    [
        (((OWN, WHOLE), (OWN, WHOLE)), None),  # of one thread each
        (((WARPS, WHOLE), (WARPS, WHOLE)), (WARP1, OTHERS)),  # the part of a warp
        (((OWN, WHOLE), (WHOLE,)), (BLOCK1, OTHERS)),
        (((WARPS, WHOLE), (OWN, WARPS, WHOLE)), (WARP1, OTHERS)),
        (((), (WHOLE,)), None),  # nothing in common
    ],
)
def test_the_owner_is_the_lowest_name_of_both(context, names, expected):
    assert found(context, write, EVERYWHERE, read, EVERYWHERE, names) == expected


@pytest.mark.parametrize(
    "parts, expected",
    [
        ({}, (BLOCK1, OTHERS)),
        (dict(ordered=BLOCK1), None),  # all have met
        (dict(ordered=WARP1), (BLOCK1, OTHERS)),  # a warp has
        (dict(passed=True), None),  # by an mbarrier
        (dict(fills=1, slots=3), None),  # another slot
        (dict(fills=3, slots=3), (BLOCK1, OTHERS)),  # the same one again
        (dict(settled=Engine.BOXES), (BLOCK1, OTHERS)),  # others do not know yet
    ],
)
def test_what_has_come_between(context, parts, expected):
    assert found(context, {**write, **parts}, ELEMENT, read, MIRRORED) == expected


def test_who_waited_knows(context):
    over = dict(kind=Kind.READ, issuer=BLOCK1, settled=Engine.BOXES)
    assert found(context, over, EVERYWHERE, stored_to, EVERYWHERE) is None


def test_work_in_flight_is_not_over_at_a_barrier_of_the_program(context):
    assert found(context, {**copied_to, "ordered": BLOCK1}, ELEMENT, read, MIRRORED) == (BLOCK1, OTHERS)


def test_a_barrier_of_the_program_is_no_fence(context):
    assert found(context, {**write, "ordered": BLOCK1}, ELEMENT, multiplied, EVERYWHERE) == (BLOCK1, OTHERS)


@pytest.mark.parametrize("role", [None, (0, 128)])
def test_boxes_of_another_role_are_another_threads(context, role):
    expected = (THREAD1 if role is None else BLOCK1, OTHERS)
    assert found(context, stored_from, EVERYWHERE, {**stored_to, "role": role}, EVERYWHERE) == expected


def test_a_warpgroup_multiplies_as_one(context):
    group = Name(((), 4), WARPGROUP1)
    assert found(context, multiplied, EVERYWHERE, write, EVERYWHERE, ((group,), (group,))) == (THREAD1, OTHERS)
    assert found(context, multiplied, EVERYWHERE, write, EVERYWHERE) == (BLOCK1, OTHERS)


def test_numbered_loads_follow_their_numbers(context):
    context.pipelined.numbered.add(OBJECT[1])
    assert found(context, loaded, EVERYWHERE, loaded, EVERYWHERE) is None


def test_equal_tiles_of_an_accumulator(context):
    part = {**write, "fragment": ("tile", 0)}
    assert found(context, part, EVERYWHERE, part, EVERYWHERE) is None
    assert found(context, part, EVERYWHERE, {**write, "fragment": ("tile", 64)}, EVERYWHERE) == (BLOCK1, OTHERS)


def test_units_of_a_scope_that_share_no_element(context):
    """Once it has ended, its accesses are the base's; entered again, each unit still has its own."""
    ended = {**write, "disjoint": (WARPS,)}
    assert found(context, ended, EVERYWHERE, read, EVERYWHERE, ((WHOLE,), (WARPS, WHOLE))) == (WARP1, OTHERS)


@pytest.mark.parametrize("unit, expected", [(WARP1, (BLOCK1, OTHERS)), (BLOCK1, None), (Privilege(Level.THREAD, 2), (BLOCK1, OTHERS))])
def test_side_by_side(context, unit, expected):
    assert found(context, write, ELEMENT, read, MIRRORED, rule=lambda a, b, c: concurrent_conflict(a, b, unit, c)) == expected


def test_whether_all_that_share_the_owner_take_part(context):
    a, b = token(context, ELEMENT, **write), token(context, MIRRORED, **read)
    assert conflict(a, b, context).whole
    assert not conflict(a, token(context, NEIGHBOUR, **read), context).whole
    assert not conflict(altered(a, disjoint=(WHOLE,)), b, context).whole


def test_to_have_waited_is_over(context):
    """That a load was waited for is no access: it orders others only."""
    a = altered(token(context, ELEMENT, (OWN, WHOLE), **read), site=((), 1, Said.WAITED))
    assert a.known_to_be_over and not a.by_threads
