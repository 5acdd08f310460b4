"""PTX: the text that NVIDIA's compilers make of a kernel, read and written.

text -> `parse` -> a module (tree.py) -> `write` -> text.  What reads back is the same module: the tests hold this for
everything that we generate.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOME = {
    "parse": "text.grammar",
    "write": "text.printer",
    "Module": "text.tree",
    "PtxError": "errors",
    "PtxFault": "errors",
    "load": "machine.loading",
    "run": "machine.launch",
}

__all__ = ["Module", "PtxError", "PtxFault", "load", "parse", "run", "write"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
