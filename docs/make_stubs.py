"""Write src/snap/__init__.pyi, which editors and type checkers read, and docs/words.md, from the tables of `snap.words`:
what an editor shows, what `help(word)` says and what the page says is one text.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import textwrap
from pathlib import Path

import snap
from snap import decorators, member_words, words
from snap._compiler.ir.operations import MATH
from snap.surface import TYPES, type_doc

STUB = Path(snap.__file__).with_name("__init__.pyi")
PAGE = Path(__file__).with_name("words.md")

HEAD = '''# Printed by `python docs/make_stubs.py`, from src/snap/words.py.
#
# The body of a Snap function is Snap, not Python, and annotations hold privileges.  So that type checkers leave both alone,
# what the decorators give back is a `no_type_check` (typing_extensions.pyi): the default of `_types` says so to pyright,
# and snap/mypy_plugin.py to mypy.  All other code of the file is looked at, and a kernel is a `SnapFunction`.
from collections.abc import Callable
from typing import Any, overload

from typing_extensions import TypeVar

from snap import lib as lib
from snap import torch as torch
from snap._compiler.ir.types import Privilege
from snap._tune import search as _search
from snap._tune.search import Trial as Trial
from snap._tune.search import Tuned as Tuned
from snap._tune.search import TuneError as TuneError
from snap._tune.search import Tuner as Tuner
from snap.api import SnapFunction as SnapFunction
from snap.api import races as races
from snap.cost.measuring import measure as measure
from snap.diag.error import SnapError as SnapError
from snap.diag.error import SnapWarning as SnapWarning
from snap.diag.source import register_source as register_source
from snap.host.errors import GpuError as GpuError
from snap.host.errors import LaunchError as LaunchError
from snap.instruction_checks import Disagreement as Disagreement
from snap.instruction_checks import check_instruction as check_instruction
from snap.machine.errors import MachineError as MachineError
from snap.machine.watching import Stopped as Stopped
from snap.surface import LevelName, TypeName
from snap.targets import PTX as PTX
from snap.targets import Fill
from snap.targets import fill as fill
from snap.typing_extensions import no_type_check

_T = TypeVar("_T", default=Callable[[object], SnapFunction])

__version__: str


class _Tune:  # a function, with the names that belong to it
    Trial = _search.Trial
    TuneError = _search.TuneError
    Tuned = _search.Tuned
    Tuner = _search.Tuner

    def __call__(self, kernel: object, candidates: object, *args: object, **options: Any) -> _search.Tuned:
        """snap.tune(kernel, candidates, *args, blocks=...)

        Choose the constexpr values, of those given, that are fastest for these arguments.
        """


tune: _Tune
'''

CONTRACT = "".join(f" {word}: Callable[..., object] | None = None," for word in ("where", "ensures", "pairs", "calls"))
DECORATORS = {
    "kernel": (
        "(function: object, /) -> SnapFunction",
        "(*, threads: int | Callable[..., int], cluster: int | None = None, smem: int | None = None, cooperative: bool = False,"
        " resident: int | None = None, blocks: int | tuple[int, ...] | Fill | Callable[..., int | tuple[int, ...] | Fill] | None = None,"
        " where: Callable[..., object] | None = None, proved: bool = False, lean: bool = False, _types: _T = no_type_check) -> _T",
    ),
    "device": (
        "(function: Callable[..., Any], /) -> SnapFunction",
        "(*privileges: LevelName | Privilege | Callable[..., Any], smem: int | None = None, cooperative: bool = False," + CONTRACT
        + " _types: _T = no_type_check) -> _T",
    ),
    "instruction": (
        "(*privileges: LevelName | Privilege | Callable[..., Any], text: str, meaning: Callable[..., object] | None = None,"
        " writes: str | tuple[str, ...] = (), where: Callable[..., object] | None = None,"
        " ensures: Callable[..., object] | None = None, _types: _T = no_type_check) -> _T",
    ),
    "inline": ("(function: Callable[..., Any], /) -> Any",),
    "requires": (
        "(*privileges: LevelName | Privilege | Callable[..., Any], smem: int | None = None, cooperative: bool = False,"
        " resident: int | None = None, blocks: int | tuple[int, ...] | Fill | Callable[..., int | tuple[int, ...] | Fill] | None = None,"
        " proved: bool = False, lean: bool = False," + CONTRACT + " _types: _T = no_type_check) -> _T",
    ),
    "ccuda": ("(kind: str, _types: _T = no_type_check) -> _T",),
    "check": ('(function: object, *privileges: LevelName | Privilege, kind: str = "global") -> list[SnapError]',),
}


def docstring(text: str, indent: str) -> str:
    paragraphs = [textwrap.fill(" ".join(part.split()), 110 - len(indent)) for part in text.strip().split("\n\n")]
    body = "\n\n".join(paragraphs).replace("\\", "\\\\").replace('"""', "'''")
    end = "\n" if "\n" in body or body.endswith('"') else ""
    return textwrap.indent(f'"""{body}{end}"""', indent) + "\n"


def decorator(name: str) -> str:
    forms, doc = DECORATORS[name], docstring(inspect.getdoc(getattr(decorators, name)) or "", "    ")
    overload = "@overload\n" * (len(forms) > 1)
    ignored = "  # type: ignore[assignment]"
    return "".join(f"{overload}def {name}{form}:{ignored * ('_types' in form)}\n{doc}" for form in forms)


def untyped(signature: str, first: str = "") -> str:
    """Make a signature for type checkers: the same parameters, of any type."""
    function = ast.parse(f"def f{signature}: ...").body[0]
    assert isinstance(function, ast.FunctionDef)
    args = function.args
    for arg in (*args.args, *args.kwonlyargs, args.vararg, args.kwarg):
        if arg is not None:
            arg.annotation = ast.Name("Any")
    returns = "None" if function.returns is None and first else "Any"
    return f"({ast.unparse(args)}) -> {returns}"


def function(name: str, signature: str, text: str, shown: str = "", indent: str = "") -> str:
    head = f"{indent}@staticmethod\n" * bool(indent) + f"{indent}def {name}{untyped(signature)}:\n"
    return head + docstring(f"{shown or name}{signature}\n\n{text}", indent + "    ")


def variable(name: str, type: str, text: str) -> str:
    return f"{name}: {type}\n{docstring(text, '')}"


def namespace(name: str) -> str:
    members = "".join(
        function(member, *described, f"{name}.{member}", "    ") for member, described in member_words.members(name).items()
    )
    return f"class _{name}:\n{docstring(words.NAMESPACES[name], '    ')}{members}\n" + variable(
        name, f"_{name}", words.NAMESPACES[name]
    )


def stub() -> str:
    names = ",\n".join(f'    "{name}"' for name in snap.__all__)
    functions = {**words.STATEMENTS, **words.ANNOTATIONS, **{name: member_words.mathematics(name) for name in MATH}}
    return "\n".join(
        [
            HEAD + f"__all__ = [\n{names},\n]\n",
            *map(decorator, DECORATORS),
            *(variable(name, "LevelName", text) for name, text in words.LEVELS.items()),
            *(variable(name, "TypeName", type_doc(found.type)) for name, found in TYPES.items()),
            *(function(name, *described) for name, described in functions.items()),
            *map(namespace, words.NAMESPACES),
        ]
    )


# ---- docs/words.md --------------------------------------------------------------------------------------------------

TITLE = """# Every word

This page is printed from `src/snap/words.py` by `python docs/make_stubs.py`. `help(partition)` in Python and an editor that
points at a word show the same text. [language.md](language.md) has the rules, and [intrinsics.md](intrinsics.md) the group that
executes each operation.

A signature shows types and privileges as Snap writes them: `v: T @ thread[1]` is a value that may differ between
threads, `-> T @ thread[32]` one that a warp agrees on. `level[n]` is any privilege, such as `thread[1]` or `warp`.

`from snap import *` imports all of them except Python's own names (PYTHONS) and the mathematical functions; inside a
Snap function, those need no import. Infinity is Python's `math.inf`, with `import math`.

## Editors and type checkers

A file with kernels opens in [pyright](https://github.com/microsoft/pyright) (and so in VS Code) without an error. `snap check FILE`
checks the bodies and annotations of Snap functions; `snap check --json FILE` does so for an editor. The code around them
is checked as Python, where a kernel is a `SnapFunction`. For mypy, add these lines to pyproject.toml:

```toml
[tool.mypy]
plugins = ["snap.mypy_plugin"]
```

"""


def page_entry(name: str, signature: str, text: str) -> str:
    return f"**`{name}{signature}`**: {text}\n"


def page() -> str:
    pythons = ", ".join(f"`{name}`" for name in words.STATEMENTS if hasattr(builtins, name))
    parts = [TITLE.replace("PYTHONS", pythons), "## Levels\n"]
    parts += [f"**`{name}`**: {text}\n" for name, text in words.LEVELS.items()]
    parts += ["## Statements and functions\n", *(page_entry(name, *one) for name, one in words.STATEMENTS.items())]
    parts += ["## In annotations\n", *(page_entry(name, *one) for name, one in words.ANNOTATIONS.items())]
    for name, text in words.NAMESPACES.items():
        parts += [f"## {name}\n", f"{text}\n"]
        parts += [page_entry(f"{name}.{member}", *one) for member, one in member_words.members(name).items()]
    parts += ["## Mathematical functions\n", *(page_entry(name, *member_words.mathematics(name)) for name in sorted(MATH))]
    return "\n".join(parts)


if __name__ == "__main__":
    STUB.write_text(stub())
    PAGE.write_text(page())
