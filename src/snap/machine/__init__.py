"""The CPU machine: what a program means is what it does here.

`run_program` runs a kernel: by `run_reference`, the typed IR, whole grids at a time, as long as that gets on;
`run_adversarial` runs the synchronized IR warp by warp in an order drawn from a seed and looks for data races.  Both
trap out-of-bounds and uninitialized reads with the source line and the thread.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOME = {
    "run_program": "run",
    "run_reference": "reference",
    "run_adversarial": "schedule.adversarial",
    "FaultKind": "errors",
    "MachineError": "errors",
    "Race": "errors",
    "RaceAccess": "errors",
}

__all__ = ["FaultKind", "MachineError", "Race", "RaceAccess", "run_adversarial", "run_program", "run_reference"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
