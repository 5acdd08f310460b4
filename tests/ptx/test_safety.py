"""Safety (the report's chapter 6): a warp's execution of each thread is that thread's alone, in both modes, whatever the control-flow graph.

Graphs are drawn: any at all; and nested ifs, loops and switches, with break, continue and early ends, in any order of the text.  Functions call others,
some threads alone.  In the stack mode the conditions of 6.2 and 6.4 are looked at after every control instruction.
"""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from ptx.graphs import FUEL, Block, Program, alone, structured, text, unstructured

from snap.ptx import load, parse, run
from snap.ptx.watch.observer import Watch

THREADS = 40
DRAWN = settings(derandomize=True, deadline=None, phases=(Phase.explicit, Phase.generate))  # what fails is small already


class Verifying(Watch):
    def __init__(self, machine):
        super().__init__(machine)
        machine.verify = True


def held(program: Program, spread: int, choose: Random | None = None) -> None:
    """spread: how many threads decide alike."""
    seeds = [12345 + 7919 * (t // spread) for t in range(THREADS)]
    expected = [alone(program, seed) for seed in seeds]
    source = text(program)
    loaded = load(parse(source))

    class Choosing(Verifying):
        def __init__(self, machine):
            super().__init__(machine)
            if choose is not None:
                machine.choose = lambda targets: choose.choice(sorted(targets))

    for mode in ("independent", "stack"):
        state = np.zeros((THREADS, 3), np.uint32)
        state[:, 0], state[:, 1], state[:, 2] = 1, seeds, FUEL
        run(loaded, "k", 1, THREADS, [state], mode=mode, limit=1_000_000, watchers=[Choosing] if mode == "stack" else [])
        assert state[:, 0].tolist() == expected, (mode, source)


@settings(DRAWN, max_examples=40)
@given(st.randoms(use_true_random=False), st.integers(0, 2), st.sampled_from([1, 2, 8, 64]))
def test_any_graph(draw, calls, spread):
    held(unstructured(draw, calls), spread, draw)


@settings(DRAWN, max_examples=30)
@given(st.randoms(use_true_random=False), st.integers(0, 2), st.sampled_from([1, 2, 8, 64]))
def test_nested_ifs_loops_and_switches(draw, calls, spread):
    held(structured(draw, calls), spread)


@pytest.mark.parametrize(
    "blocks",
    [
        [Block(("if", 1, 2)), Block(("if", 0, 2)), Block(("if", 1, 3)), Block()],  # a loop that is entered at two places
        [Block(("if", 1, 2)), Block(("if", 3, 2)), Block(("goto", 4)), Block(("goto", 4)), Block()],  # a || b
        [Block(("if", 0, 1)), Block(("if", 0, 2)), Block(("if", 1, 3)), Block()],  # loops that share their end
        [Block(("if", 1, 4)), Block(("if", 2, 4)), Block(("if", 3, 1)), Block(("goto", 0)), Block()],  # out of two loops at once
        [Block(("goto", 0))],  # no end at all
        [Block(("if", 0, 0))],
        [Block(("switch", (0, 1, 1), 1)), Block(("switch", (1,), 0))],
        [Block(("if", 1, 2)), Block(("exit",)), Block(("if", 0, 3)), Block(("ret",))],
    ],
)
def test_graphs_that_were_thought_of(blocks):
    held(Program([blocks]), 1)
