"""Snap: a low-level GPU language embedded in Python whose types say which threads act together."""

from snap.api import SnapFunction as SnapFunction
from snap.api import races as races
from snap.decorators import ccuda, device, inline, instruction, kernel, requires
from snap.decorators import check as check
from snap.diag.error import SnapError
from snap.diag.error import SnapWarning as SnapWarning
from snap.diag.source import register_source as register_source
from snap.surface import EXPORTED, MATHEMATICS, WORDS
from snap.targets import PTX as PTX
from snap.targets import fill as fill

__version__ = "0.1.0"

globals().update(WORDS)

__all__ = ["SnapError", "ccuda", "device", "inline", "instruction", "kernel", "requires", *EXPORTED]

_MODULES = ("cudac", "lib", "torch")
_LATER = {  # where `import snap` does not look yet
    **dict.fromkeys(("GpuError", "LaunchError"), "snap.host.errors"),
    **dict.fromkeys(("Disagreement", "check_instruction"), "snap.instruction_checks"),
    "MachineError": "snap.machine.errors",
    "measure": "snap.cost.measuring",
    "Stopped": "snap.machine.watching",
    **dict.fromkeys(("Trial", "TuneError", "Tuned", "Tuner", "tune"), "snap._tune.search"),
}


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name in _MODULES:
        return import_module(f"snap.{name}")
    if name in _LATER:
        return getattr(import_module(_LATER[name]), name)
    if name in MATHEMATICS:
        return MATHEMATICS[name]
    raise AttributeError(f"module 'snap' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES, *_LATER, *MATHEMATICS})
