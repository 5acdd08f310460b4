"""The names a user imports.  They carry no behaviour: the front end reads a kernel's source, and the checker recognises
these objects in it.

Python itself evaluates only decorators and, without `from __future__ import annotations`, the annotations of a
signature; these objects are inert enough for that.  Used as statements outside a Snap function they say so.
"""

from __future__ import annotations

import math
import sys

from snap.diag.error import Diagnostic, SnapError
from snap.diag.span import Span
from snap.ir.hardware import WARP, WARPGROUP
from snap.ir.operations import MATH
from snap.ir.types import SCALARS, VECTORS, Element, Level, Privilege


def caller_span(depth: int = 2) -> Span:
    """The line of Python code that called into us: the best place there is for what was written in a decorator."""
    frame = sys._getframe(depth)
    line = frame.f_lineno
    return Span(frame.f_code.co_filename, line, 0, line, 0)


def one_dimension(word: str, counts: tuple[object, ...]) -> str:
    """What to write instead of `word[8, 8]`."""
    numbers = [n for n in counts if type(n) is int and n > 0]
    total, inner = (math.prod(numbers), numbers[-1]) if len(numbers) == len(counts) > 1 else ("m * n", "n")
    return (
        f"grids and blocks have one dimension: `{word}[{total}]`, and `id() / {inner}` and `id() % {inner}` are a"
        " unit's row and column"
    )


class LevelName:
    """`grid`, `cluster`, `block`, `thread`, and the groupings `warp` and `warpgroup`; `[n]` makes a privilege."""

    def __init__(self, word: str, level: Level, units: int = 1):
        self.word, self.level, self.units = word, level, units

    def __getitem__(self, n: int) -> Privilege:
        if isinstance(n, bool) or not isinstance(n, int) or n < 1:
            shown = ", ".join(map(str, n)) if isinstance(n, tuple) else repr(n)
            raise SnapError(
                Diagnostic(
                    "SNAP018",
                    f"`{self.word}[{shown}]` is no privilege: the count must be a positive integer",
                    caller_span(),
                    help=(
                        one_dimension(self.word, n)
                        if isinstance(n, tuple)
                        else f"write `{self.word}[1]`, or another positive constant"
                    ),
                )
            )
        return Privilege(self.level, n * self.units)

    def __rmatmul__(self, annotated: object) -> object:
        return annotated

    def __repr__(self) -> str:
        return self.word


class TypeName:
    """A scalar or vector type: `x: u32`, `u32(x)`, `u32[4]`."""

    def __init__(self, type: Element):
        self.type = type

    def __getitem__(self, shape: object) -> TypeName:
        return self

    def __call__(self, *args: object) -> None:
        raise TypeError(
            f"`{self.type}(...)` is a cast of the Snap language: it means something only inside a Snap function"
        )

    def __repr__(self) -> str:
        return str(self.type)


class Marker:
    """A word of the language, recognised by identity of `word`."""

    def __init__(self, word: str, annotation: bool = False):
        self.word, self.annotation = word, annotation

    def __call__(self, *args: object, **keywords: object) -> Marker:
        if not self.annotation:
            raise TypeError(
                f"`{self.word}(...)` means something only inside a Snap function (decorate it with @kernel or @device"
                " and @requires)"
            )
        return self

    def __repr__(self) -> str:
        return self.word


class Namespace:
    """`intrinsic`, `atomic`, `fast`, `unsafe`: any attribute is a marker; the checker knows which exist."""

    def __init__(self, word: str):
        self.word = word

    def __getattr__(self, name: str) -> Marker:
        if name.startswith("__"):
            raise AttributeError(name)
        return Marker(f"{self.word}.{name}")

    def __repr__(self) -> str:
        return self.word


LEVELS = {
    "grid": LevelName("grid", Level.GRID),
    "cluster": LevelName("cluster", Level.CLUSTER),
    "block": LevelName("block", Level.BLOCK),
    "thread": LevelName("thread", Level.THREAD),
    "warp": LevelName("warp", Level.THREAD, WARP),
    "warpgroup": LevelName("warpgroup", Level.THREAD, WARPGROUP),
}
TYPES = {name: TypeName(type) for name, type in (SCALARS | VECTORS).items() if name != "bool"}
STATEMENTS = {
    word: Marker(word)
    for word in (
        "group",
        "split",
        "partition",
        "claim",
        "each",
        "one",
        "roles",
        "strided",
        "ids",
        "stage",
        "turn",
        "tile",
        "id",
        "count",
        "unroll",
        "async_copy",
        "async_reduce",
        "wgmma",
        "store_acc",
    )
}
ANNOTATIONS = {
    word: Marker(word, annotation=True) for word in ("ptr", "const", "ref", "shared", "pipeline", "constexpr")
}
NAMESPACES = {word: Namespace(word) for word in ("intrinsic", "atomic", "fast", "unsafe")}
EXPORTED: dict[str, object] = {**LEVELS, **TYPES, **STATEMENTS, **ANNOTATIONS, **NAMESPACES}

PYTHON_TYPES = {int: SCALARS["i32"], float: SCALARS["f32"], bool: SCALARS["bool"]}
# Words that need no import: Python's own names with a meaning here, and the mathematical functions.
WITHOUT_IMPORT: dict[str, object] = {
    **EXPORTED,
    "int": int,
    "float": float,
    "bool": bool,
    "range": Marker("range"),
    "print": Marker("print"),
    "divmod": Marker("divmod"),
    **{name: Marker(f"math.{name}") for name in MATH},
}
