"""Snap: a low-level GPU language embedded in Python whose types say which threads act together."""

from snap.api import SnapFunction as SnapFunction
from snap.api import races as races
from snap.decorators import ccuda, device, inline, kernel, requires
from snap.decorators import check as check
from snap.diag.error import SnapError
from snap.diag.error import SnapWarning as SnapWarning
from snap.diag.source import register_source as register_source
from snap.surface import EXPORTED, MATHEMATICS, WORDS

__version__ = "0.1.0"

globals().update(WORDS)

__all__ = ["SnapError", "ccuda", "device", "inline", "kernel", "requires", *EXPORTED]

_MODULES = ("lib", "torch", "tune")
_ERRORS = ("GpuError", "LaunchError", "MachineError", "Stopped")


def __getattr__(name: str) -> object:
    if name in _MODULES:
        import importlib

        return importlib.import_module(f"snap.{name}")
    if name in _ERRORS:
        from snap.host.errors import GpuError, LaunchError
        from snap.machine.errors import MachineError
        from snap.machine.watching import Stopped

        return {each.__name__: each for each in (GpuError, LaunchError, MachineError, Stopped)}[name]
    if name in MATHEMATICS:
        return MATHEMATICS[name]
    raise AttributeError(f"module 'snap' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES, *_ERRORS, *MATHEMATICS})
