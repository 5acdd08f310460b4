"""Launches of a program, each made twice: by the CPU machine, and by the slow interpreter on copies of the arguments."""

from __future__ import annotations

import ast
import inspect
import linecache
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from fuzz import slow
from fuzz.slow_expressions import Fixed, Scope
from fuzz.slow_text import BUILTIN, Function, Lambda, Module, Table, Unknown, Word, constant_type, evaluate, is_snap
from snap.api import SnapFunction

NUMBERS = (bool, int, float, np.generic)


@dataclass
class Seen:
    """Launches that both made, the ones that were Unsupported with what they asked for, and where the two differ."""

    agreed: list[str] = field(default_factory=list)
    unsupported: list[tuple[str, str]] = field(default_factory=list)
    differ: list[tuple[str, str]] = field(default_factory=list)


class Reader:
    """Snap functions as the slow interpreter takes them: their files read once, and what they captured from Python functions around them."""

    def __init__(self, text: str | None):
        self.text, self.modules, self.functions = text, {}, {}

    def module(self, python) -> Module:
        return self.read(python.__code__.co_filename)

    def read(self, name: str) -> Module:
        if name not in self.modules:
            self.modules[name] = Module("".join(linecache.getlines(name)) if self.text is None else self.text)
        return self.modules[name]

    def function(self, snap_function: SnapFunction) -> Function:
        python = snap_function.__wrapped__
        if id(snap_function) not in self.functions:
            module = self.module(python)
            lines = inspect.unwrap(python).__code__.co_firstlineno
            nodes = [n for n in ast.walk(module.tree) if isinstance(n, ast.FunctionDef) and n.name == python.__name__ and is_snap(n)]
            node = min(nodes, key=lambda n: abs(n.lineno - lines))
            captured = self.around(snap_function, {} if "<locals>" in python.__qualname__ else module.names_at(node))
            required = snap_function.definition.requires.privileges
            required = () if callable(required) else tuple(self.value(p) for p in required)
            self.functions[id(snap_function)] = Function(module, node, tuple((name, self.value(v)) for name, v in snap_function.bound.items()), captured, required)
        return self.functions[id(snap_function)]

    def around(self, snap_function: SnapFunction, told: dict) -> dict:
        """Names whose values the text alone does not tell: what was imported, and what Python functions made."""
        names = snap_function.definition.names
        found = {name: self.value(v) for name, v in names.items() if isinstance(told.get(name, Unknown()), Unknown)}
        return {name: value for name, value in found.items() if not isinstance(value, Unknown) and value != Word(name)}

    def closure(self, python) -> dict:
        return {name: self.value(cell.cell_contents) for name, cell in zip(python.__code__.co_freevars, python.__closure__ or ())}

    def value(self, v):
        if isinstance(v, NUMBERS):
            return v
        if isinstance(v, SnapFunction):
            return self.function(v)
        if isinstance(v, np.ndarray):
            nested = lambda x: tuple(map(nested, x)) if isinstance(x, list) else x  # noqa: E731
            return Table(v.dtype.name.replace("uint", "u").replace("float", "f").replace("int", "i"), nested(v.tolist()))
        if v in (int, float, bool):
            return BUILTIN[v.__name__]
        if type(v).__name__ == "Scalar":
            return BUILTIN[v.name]
        if type(v).__name__ == "Marker":
            return Word(v.word)
        if type(v).__name__ == "Inlined":
            return self.read(v.tree.span.filename).final().get(v.__name__, Unknown())
        if inspect.isfunction(v) and v.__name__ == "<lambda>":
            nodes = [n for n in ast.walk(self.module(v).tree) if isinstance(n, ast.Lambda) and n.lineno == v.__code__.co_firstlineno]
            return Lambda(nodes[0], scope_of(self.closure(v))) if len(nodes) == 1 else Unknown()
        try:
            return evaluate(ast.parse(repr(v), mode="eval").body, lambda name: BUILTIN.get(name, Unknown()))
        except (SyntaxError, slow.Unsupported):
            return Unknown()


def scope_of(names: dict) -> Scope:
    scope = Scope(None)
    scope.names = {name: Fixed(v, constant_type(v)) for name, v in names.items() if isinstance(v, (bool, int, float))}
    return scope


def copied(arguments: list) -> list:
    return [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]


def difference(ours: list, theirs: list, rtol: float = 0.0) -> str:
    """The first place where two launches left something else; empty where there is none."""
    for number, (a, b) in enumerate(zip(ours, theirs)):
        if not isinstance(a, np.ndarray):
            continue
        equal = np.isclose(a, b, rtol=rtol, atol=0, equal_nan=True) if rtol and a.dtype.kind == "f" else (a == b) | (a != a) & (b != b)
        if not equal.all():
            at = np.unravel_index(int(np.argmin(equal)), a.shape)
            return f"argument {number} at {tuple(map(int, at))}: the slow interpreter has {a[at]}, the CPU machine {b[at]} ({int((~equal).sum())} differ)"
    return ""


@contextmanager
def watched(text: str | None = None, rtol: float = 0.0, alone: bool = False, most: int | None = None) -> Iterator[Seen]:
    """While this lasts, launches on NumPy arrays are made by the slow interpreter too.

    text: of the program, where Python does not know it; alone: by it and not by the CPU machine; most: so many launches of each kernel only."""
    seen, reader, launch, item = Seen(), Reader(text), SnapFunction.launch, SnapFunction.__getitem__
    made: Counter = Counter()

    def both(kernel: SnapFunction, *arguments, blocks, **keywords):
        if not all(isinstance(a, (np.ndarray, *NUMBERS)) for a in arguments):
            return launch(kernel, *arguments, blocks=blocks, **keywords)
        name = kernel.__wrapped__.__name__
        ours = list(arguments) if alone else copied(arguments)
        if not alone:
            launch(kernel, *arguments, blocks=blocks, **keywords)
        made[name] += 1
        if most is not None and made[name] > most:
            return None
        try:
            slow.launch(reader.function(kernel), blocks, ours)
        except slow.Unsupported as reason:
            seen.unsupported.append((name, str(reason)))
            return None
        except slow.Trap as reason:
            seen.differ.append((name, f"the slow interpreter stopped: {reason}"))
            return None
        found = difference(ours, arguments, rtol)
        if found:
            seen.differ.append((name, found))
        else:
            seen.agreed.append(name)
        return None

    SnapFunction.launch = both
    SnapFunction.__getitem__ = lambda kernel, blocks: lambda *arguments, **keywords: both(kernel, *arguments, blocks=blocks, **keywords)
    try:
        yield seen
    finally:
        SnapFunction.launch, SnapFunction.__getitem__ = launch, item
