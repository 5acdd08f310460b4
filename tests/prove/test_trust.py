"""`with trust("why"):` what is not shown inside is listed; nothing else changes."""

from __future__ import annotations

import numpy as np
import pytest

import snap
from snap import *
from snap.prove.verdict import Verdict

T = 32
W = lambda x, at, y, blocks: (len(x) >= 32, len(y) >= 32, len(at) >= 32, blocks == 1)


@kernel(threads=T, proved=True, where=W)
def scattered(x: ptr(const(int)), at: ptr(const(int)), y: ptr(int)):
    with each(thread, y) as i:
        j: int = at[i]
        assert 0 <= j < T
        with trust("no two elements of `at` are equal"):
            y[j] = x[i]


@kernel(threads=T, where=W)
def half_of_it(x: ptr(const(int)), at: ptr(const(int)), y: ptr(int)):
    with each(thread, y) as i:
        with trust("no two elements of `at` are equal"):
            j: int = at[i]
            y[j] = x[i]
        y[at[i]] = 2


@kernel(threads=T, where=lambda x, y, m, blocks: (1 <= m <= 4, len(x) >= 32, len(y) >= 32, blocks == 1))
def wrong(x: ptr(const(int)), y: ptr(int), m: int):
    with each(thread, y) as i:
        with trust("I know"):
            y[i / m] = x[i]


@device(thread[1])
def put(y: ptr(int), j: int, v: int):
    with trust("the caller knows"):
        y[j] = v


@kernel(threads=T, where=W)
def by_a_function(x: ptr(const(int)), at: ptr(const(int)), y: ptr(int)):
    with each(thread, y) as i:
        put(y, at[i], x[i])


@device(thread[1])
def put_there(y: ptr(int), j: int, v: int):
    y[j + 1 - 1] = v


@kernel(threads=T, where=W)
def by_a_call(x: ptr(const(int)), at: ptr(const(int)), y: ptr(int)):
    with each(thread, y) as i:
        with trust("`at` has every number below 32 once"):
            put_there(y, at[i], x[i])


@kernel(threads=T, where=W)
def by_another_call(x: ptr(const(int)), at: ptr(const(int)), y: ptr(int)):
    with each(thread, y) as i:
        with trust("`at` has every number below 32 once"):
            put_there(y, at[i], x[i])
        put_there(y, at[i], 2)


@kernel(threads=T, where=W)
def beside_a_call(x: ptr(const(int)), at: ptr(const(int)), y: ptr(int)):
    with each(thread, y) as i:
        with trust("`at` has every number below 32 once"):
            put_there(y, at[i], x[i])
        put_there(y, i, 2)


@kernel(threads=T, where=W)
def with_memory(x: ptr(const(int)), at: ptr(const(int)), y: ptr(int)):
    with each(block, y):
        with trust("nothing here needs it"):
            s: shared(int[T])
            with each(thread, s) as t:
                s[t] = x[t]
            with each(thread, y) as t:
                y[t] = s[T - 1 - t]
        u: shared(int[T])
        with each(thread, u) as t:
            u[t] = 1
        with each(thread, y) as t:
            y[t] += u[T - 1 - t]


def test_listed():
    found = scattered.prove()
    assert found.verdict is Verdict.PROVED
    told = [text for text in found.assumed if "trusted" in text]
    assert told and all(text.endswith("(trusted: no two elements of `at` are equal)") for text in told)
    assert told[0].startswith("it does not happen that two threads write one element of `y`, line 22 ")
    assert f"assumed: {told[0]}" in found.render()


def test_inside_alone():
    found = half_of_it.prove(["races"])
    assert found.verdict is Verdict.UNKNOWN
    assert {o.span.line for o in found.open} == {31}


def test_what_is_refuted_stays_so():
    assert wrong.prove(["races"]).verdict is Verdict.REFUTED


def test_in_a_function():
    assert by_a_function.prove().verdict is Verdict.PROVED


def test_around_a_call():
    """The call, and no other of the same function: its places are vouched for once, and open once."""
    assert by_a_call.prove().verdict is Verdict.PROVED
    told = [text for text in by_a_call.prove().assumed if text.endswith("(trusted: `at` has every number below 32 once)")]
    assert len(told) == 3 and all(", line 55 " in text for text in told), told  # outside, a sum, and two threads that meet
    found = by_another_call.prove()
    assert {o.kind for o in found.open} == {"bounds", "overflow", "races"} and len(found.open) == 3
    assert sum(o.reason.startswith("trusted") for o in found.obligations) == 3


def test_two_calls_of_which_one_is_trusted():
    """It is vouched for what the calls inside touch, not for what another one does that meets them."""
    assert {o.kind for o in beside_a_call.prove().open} == {"races"}


def test_the_program_is_the_same():
    assert "trust" not in scattered.cuda().replace("test_trust", "")
    x, y = np.arange(T, dtype=np.int32), np.zeros(T, np.int32)
    with_memory[1](x, x, y)
    np.testing.assert_array_equal(y, x[::-1] + 1)
    assert not with_memory.races(x, x, y, blocks=1)
    assert with_memory.prove().verdict is Verdict.PROVED
    assert "with trust('nothing here needs it'):" in with_memory.core()


@pytest.mark.parametrize("given", ["", '""', "3", '"a", "b"', 'why="x"'])
def test_a_reason_is_given(given):
    text = (
        "from __future__ import annotations\nfrom snap import *\n\n"
        f"@kernel(threads=32)\ndef k(x: ptr(int)):\n    with each(thread, x) as i:\n        with trust({given}):\n            x[i] = 1\n"
    )
    name = f"<trust {given}>"
    snap.register_source(name, text)
    with pytest.raises(snap.SnapError, match="`trust` takes a text that says why"):
        exec(compile(text, name, "exec"), {})
