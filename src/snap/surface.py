"""Define the names that users import.  They have no behavior: the front end reads a kernel's source, and the checker
recognizes these objects in it.

Python itself evaluates only decorators and, without `from __future__ import annotations`, the annotations of a
signature; these objects are inert enough for that.  Used as statements outside a Snap function they say so.
"""

from __future__ import annotations

import builtins
import math
from typing import TYPE_CHECKING, cast

from snap._compiler.ir.hardware import WARP, WARPGROUP
from snap._compiler.ir.operations import MATH
from snap._compiler.ir.types import SCALARS, VECTORS, Element, Every, Level, Privilege, Scalar, Vector
from snap.diag.decorating import caller_span, is_count, wrong_count
from snap.diag.error import Diagnostic, SnapError
from snap.diag.wording import counted
from snap.member_words import mathematics, members
from snap.words import ANNOTATIONS as ANNOTATION_WORDS
from snap.words import LEVELS as LEVEL_WORDS
from snap.words import NAMESPACES as NAMESPACE_WORDS
from snap.words import STATEMENTS as STATEMENT_WORDS

if TYPE_CHECKING:
    import inspect


def several(counts: tuple[object, ...] | list[object]) -> str:
    """Say what to write instead of `threads=(8, 8)`."""
    numbers = [n for n in counts if type(n) is int and n > 0]
    known = len(numbers) == len(counts) > 0
    total, shape = (math.prod(numbers), ", ".join(map(str, numbers))) if known else ("m * n", "m, n")
    names = ", ".join("zyx"[-len(counts) :] if 1 < len(counts) < 4 else "yx")
    return f"`@kernel(threads={total})`, and `{names} = ids(thread, shape=({shape}))` in `with each(block):`"


class LevelName:
    """Name a level: `grid`, `cluster`, `block`, `thread`, and the groupings `warp` and `warpgroup`; `[n]` makes a
    privilege.
    """

    def __init__(self, word: str, level: Level, units: int = 1):
        self.word, self.level, self.units = word, level, units
        self.__doc__ = LEVEL_WORDS[word]

    def __getitem__(self, n: int) -> Privilege:
        if not is_count(n):
            return cast(Privilege, wrong_count(self.word, n))
        return Privilege(self.level, n * self.units)

    def every(self, s: int) -> Every:
        """Take one unit of every s, `thread.every(4)`; `[n]` says how many."""
        return Privilege(self.level, self.units).every(s)

    def __rmatmul__(self, annotated: object) -> object:
        return annotated

    def __repr__(self) -> str:
        return self.word


class TypeName:
    """Name a scalar or vector type: `x: u32`, `u32(x)`, `u32[4]`."""

    def __init__(self, type: Element):
        self.type = type
        self.__doc__ = type_doc(type)

    def __getitem__(self, shape: object) -> TypeName:
        return self

    def __call__(self, *args: object) -> None:
        raise TypeError(
            f"`{self.type}(...)` is a cast of the Snap language: it means something only inside a Snap function"
        )

    def __repr__(self) -> str:
        return str(self.type)


def type_doc(type: Element) -> str:
    if isinstance(type, Vector):
        parts = ", ".join("abcd"[: type.lanes])
        components = " ".join(f".{part}" for part in "xyzw"[: type.lanes])
        return f"A vector of {type.lanes} `{type.elem}`, components {components}; `{type}({parts})` makes one."
    kind = {"f": "A floating-point number", "b": "A floating-point number (bfloat16)", "i": "A signed integer"}.get(
        type.name[0], "An unsigned integer"
    )
    return f"{kind} of {type.bits} bits. `{type}(x)` converts, `{type}[4]` is a local array."


class Shown:
    """Print the text of a signature as it is."""

    def __init__(self, text: str):
        self.text = text

    def __repr__(self) -> str:
        return self.text


def python_signature(text: str) -> inspect.Signature:
    """Make a signature of words.py one of Python's `inspect`; its annotations are text."""
    import ast
    import inspect

    def shown(node: ast.expr | None) -> object:
        return inspect.Parameter.empty if node is None else Shown(ast.unparse(node))

    function = ast.parse(f"def f{text}: ...").body[0]
    assert isinstance(function, ast.FunctionDef)
    args = function.args
    missing: list[ast.expr | None] = [None] * (len(args.args) - len(args.defaults))
    kinds = inspect.Parameter
    params = [
        *((a, d, kinds.POSITIONAL_OR_KEYWORD) for a, d in zip(args.args, [*missing, *args.defaults])),
        *((a, None, kinds.VAR_POSITIONAL) for a in [args.vararg] if a),
        *((a, d, kinds.KEYWORD_ONLY) for a, d in zip(args.kwonlyargs, args.kw_defaults)),
        *((a, None, kinds.VAR_KEYWORD) for a in [args.kwarg] if a),
    ]
    return inspect.Signature(
        [kinds(a.arg, kind, default=shown(d), annotation=shown(a.annotation)) for a, d, kind in params],
        return_annotation=shown(function.returns),
    )


class Marker:
    """Represent a word of the language, recognized by identity of `word`; `help(word)` explains it."""

    def __init__(self, word: str, described: tuple[str, str] = ("(*args)", ""), annotation: bool = False):
        self.word, self.annotation = word, annotation
        self.signature, text = described
        name = word.removeprefix("math.")
        self.__name__, self.__doc__ = name, f"{name}{self.signature}\n\n{text}"

    def __getattr__(self, name: str) -> object:
        if name == "__signature__":  # made when it is asked for: `import snap` needs neither ast nor inspect for it
            return python_signature(self.signature)
        raise AttributeError(name)

    def __call__(self, *args: object, **keywords: object) -> Marker:
        if not self.annotation:
            raise TypeError(
                f"`{self.__name__}(...)` means something only inside a Snap function (decorate it with @kernel or"
                " @device and @requires)"
            )
        return self

    def __repr__(self) -> str:
        return self.word


class View:
    """Arrange the elements of an array, bound to a name outside kernels: the words and their numbers, in the order
    of application.  check/memory/views.py defines them.
    """

    def __init__(self, steps: tuple[tuple[str, tuple[object, ...]], ...]):
        self.steps = steps

    def __rshift__(self, other: object) -> View:
        if not isinstance(other, View):
            raise _no_view(f"`{self} >> {other!r}`: a view is followed by a view, not by a {type(other).__name__}")
        return View((*self.steps, *other.steps))

    def __repr__(self) -> str:
        return " >> ".join(f"views.{word}({', '.join(map(repr, numbers))})" for word, numbers in self.steps)


class ViewWord(Marker):
    """Make a view of constant numbers when it is called outside a kernel: `views.chunks(4)`."""

    def __call__(self, *numbers: object, **keywords: object) -> View:  # type: ignore[override]
        word = self.word.removeprefix("views.")
        wanted = View if word == "mapped" else int
        if keywords or len(numbers) != self.signature.count(":"):
            raise _no_view(
                f"`{self.word}{self.signature}` is given {counted(len(numbers) + len(keywords), 'argument')}"
            )
        for given in numbers:
            if not isinstance(given, wanted) or isinstance(given, bool):
                raise _no_view(
                    f"`{self.word}{self.signature}`: {given!r} is not {'a view' if wanted is View else 'an integer'}"
                )
        return View(((word, numbers),))


def _no_view(message: str) -> SnapError:
    way_out = "`view=views.chunks(64) >> views.transposed()`"
    return SnapError(Diagnostic("SNAP028", message, caller_span(), help=way_out))


class Namespace:
    """Give a marker for any attribute of `intrinsic`, `atomic`, `fast`, `unsafe`, `views`, `fragment`; the checker
    knows which exist, and `dir()` and completion show these.
    """

    def __init__(self, word: str):
        self.word = word
        self.__doc__ = NAMESPACE_WORDS[word]

    def __getattr__(self, name: str) -> Marker:
        if name.startswith("__"):
            raise AttributeError(name)
        described = members(self.word).get(name)
        kind = ViewWord if self.word == "views" and described is not None else Marker
        of_type = self.word == "fragment" and name in ("A", "B", "C")
        made = kind(f"{self.word}.{name}", described or ("(*args)", ""), annotation=of_type)
        if described is not None:
            self.__dict__[name] = made
        return made

    def __dir__(self) -> list[str]:
        return sorted(members(self.word))

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
STATEMENTS = {word: Marker(word, described) for word, described in STATEMENT_WORDS.items()}
ANNOTATIONS = {word: Marker(word, described, annotation=True) for word, described in ANNOTATION_WORDS.items()}
NAMESPACES = {word: Namespace(word) for word in NAMESPACE_WORDS}
WORDS: dict[str, object] = {**LEVELS, **TYPES, **STATEMENTS, **ANNOTATIONS, **NAMESPACES}
MATHEMATICS = {name: Marker(f"math.{name}", mathematics(name)) for name in MATH}
# What `from snap import *` brings.  Words that are Python's own (`id`) mean something else only inside Snap functions,
# and need no import there.
EXPORTED = {word: found for word, found in WORDS.items() if not hasattr(builtins, word)}

PYTHON_TYPES = {int: SCALARS["i32"], float: SCALARS["f32"], bool: SCALARS["bool"]}
_DTYPES = {
    **SCALARS,
    **{
        {"i": "int", "u": "uint", "f": "float"}[t.name[0]] + str(t.bits): t
        for t in SCALARS.values()
        if t.name not in ("bool", "bf16")
    },
    **{"bool_": SCALARS["bool"], "bfloat16": SCALARS["bf16"]},
}


def dtype_word(dtype: object) -> str:
    """Return the word of an element type of NumPy, ml_dtypes, CuPy or torch; a string is one already; "" for anything
    else.
    """
    if isinstance(dtype, str):
        return dtype
    kind = dtype if isinstance(dtype, type) else dtype.__class__
    if kind.__module__.partition(".")[0] not in ("numpy", "ml_dtypes", "torch"):
        return ""
    return getattr(dtype, "name", "") or getattr(dtype, "__name__", "") or str(dtype).removeprefix("torch.")


def element_of(given: object) -> Element | None:
    """Find the type that a caller names: as Snap, Python, NumPy or torch name it, or by its word."""
    if isinstance(given, (Scalar, Vector)):
        return given
    if isinstance(given, TypeName):
        return given.type
    found = PYTHON_TYPES.get(given) if isinstance(given, type) else None
    return found or _DTYPES.get(dtype_word(given))


# Words that need no import: Python's own names with a meaning here, and the mathematical functions.
WITHOUT_IMPORT: dict[str, object] = {
    **WORDS,
    "int": int,
    "float": float,
    "bool": bool,
    **MATHEMATICS,
}
