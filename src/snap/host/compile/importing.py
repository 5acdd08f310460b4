"""What is done once a module is imported, whoever imports it, and never if nobody does.

Input:      the name of a module, a function
Output:     `once_imported(name, then)`: `then()` is called now if the module is there, else right after it is loaded
Invariant:  nothing is imported here.  Asking where a module is (`importlib.util.find_spec`) is not loading it
Non-goals:  modules that no loader of Python's kind loads
"""

from __future__ import annotations

import importlib.abc
import sys
from collections.abc import Callable
from typing import Any


def once_imported(name: str, then: Callable[[], None]) -> None:
    if name in sys.modules:
        then()
    else:
        sys.meta_path.insert(0, _Await(name, then))


class _Await(importlib.abc.MetaPathFinder):
    """Stands first among Python's finders until the module is loaded, and lets the others find it."""

    def __init__(self, name: str, then: Callable[[], None]):
        self.name, self.then = name, then

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name != self.name:
            return None
        spec = None
        for finder in sys.meta_path[sys.meta_path.index(self) + 1 :]:
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                break
        if spec is None or not hasattr(spec.loader, "exec_module"):
            return spec
        loader: Any = spec.loader
        load = loader.exec_module

        def loaded(module: object) -> None:
            load(module)
            if self in sys.meta_path:
                sys.meta_path.remove(self)
                self.then()

        loader.exec_module = loaded
        return spec
