"""Snap: a low-level GPU language embedded in Python whose types say which threads act together."""

from snap.api import SnapFunction as SnapFunction
from snap.api import races as races
from snap.decorators import ccuda, device, kernel, requires
from snap.diag.error import SnapError
from snap.diag.source import register_source as register_source
from snap.surface import EXPORTED

__version__ = "0.1.0"

globals().update(EXPORTED)

__all__ = ["SnapError", "ccuda", "device", "kernel", "requires", *EXPORTED]


def __getattr__(name: str) -> object:
    if name in ("check", "lib", "torch", "tune"):
        import importlib

        return importlib.import_module(f"snap.{name}")
    if name in ("LaunchError", "MachineError"):
        from snap.machine import MachineError
        from snap.runtime.errors import LaunchError

        return LaunchError if name == "LaunchError" else MachineError
    raise AttributeError(f"module 'snap' has no attribute {name!r}")
