"""Programs of the corpus as PTX in the stack mode: warps with one program counter compute what the CPU machine does.

The suite runs a sample, in which the report's invariant and inactive consistency are looked at after every control instruction;
`python ptx/test_corpus_in_stack_mode.py` in tests/ runs all, without these.
"""

from __future__ import annotations

import pytest
from corpus import OK
from ptx import test_corpus_on_ptx as plain

from snap.ptx.machine import launch, warps

SAMPLE = tuple(f"tests/ok/{name}.py" for name in ("conditional_calls", "device_returns", "lookback_scan", "loops", "ping_pong", "tf32_boxes", "warp_parts"))


def in_stack_mode(program, patch, verify: bool) -> None:
    run, make = launch.run, warps.StackMachine.__init__
    ran = []

    def stacked(*given, **named):
        ran.append(given)
        return run(*given, **(named | {"mode": "stack"}))

    patch.setattr(launch, "run", stacked)
    patch.setattr(warps.StackMachine, "__init__", lambda self, *given, **named: make(self, *given, **{**named, "verify": verify}))
    plain.test_the_ptx_computes_the_same(program, patch)
    assert ran


def test_the_sample_is_there():
    assert set(SAMPLE) <= {p.name for p in OK}


@pytest.mark.parametrize("program", [p for p in OK if p.name in SAMPLE], ids=lambda program: program.name)
def test_the_stack_mode_computes_the_same(program, monkeypatch):
    in_stack_mode(program, monkeypatch, True)


if __name__ == "__main__":
    for one in OK:
        if one.name not in plain.TALKS:
            with pytest.MonkeyPatch.context() as patch:
                in_stack_mode(one, patch, False)
            print("same:", one.name, flush=True)
