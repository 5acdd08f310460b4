"""Tell mypy to leave Snap functions to Snap.

    [tool.mypy]
    plugins = ["snap.mypy_plugin"]

Input: the tree of a file, before mypy looks for the meaning of its names.  Output: the same tree, in which functions
decorated with `@kernel`, `@device`, `@instruction`, `@inline`, `@requires` or `@ccuda` of snap have parameters of any
type and no body.
Invariant: nothing else in the file changes, and files that do not import snap do not change.  Non-goals: checking Snap
(`snap check`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from mypy.nodes import (
    Block,
    CallExpr,
    ClassDef,
    Decorator,
    Expression,
    ForStmt,
    FuncDef,
    IfStmt,
    Import,
    ImportAll,
    ImportFrom,
    MatchStmt,
    MemberExpr,
    MypyFile,
    NameExpr,
    PassStmt,
    Statement,
    TryStmt,
    WhileStmt,
    WithStmt,
)
from mypy.plugin import Plugin, ReportConfigContext
from mypy.types import AnyType, CallableType, TypeOfAny

IMPORTS_SNAP = re.compile(rb"^\s*(from\s+snap\s+import|import\s.*\bsnap\b)", re.MULTILINE)
DECORATORS = ("kernel", "device", "instruction", "inline", "requires", "ccuda")


def statements(body: Iterable[Statement]) -> Iterator[Statement]:
    """Yield these statements and those inside them, the outer ones first."""
    for one in body:
        yield one
        for block in _blocks(one):
            yield from statements(block.body if block is not None else ())


def _blocks(s: Statement) -> Iterable[Block | None]:
    match s:
        case FuncDef():
            return (s.body,)
        case Decorator():
            return (s.func.body,)
        case ClassDef():
            return (s.defs,)
        case IfStmt():
            return (*s.body, s.else_body)
        case ForStmt() | WhileStmt():
            return (s.body, s.else_body)
        case WithStmt():
            return (s.body,)
        case TryStmt():
            return (s.body, *s.handlers, s.else_body, s.finally_body)
        case MatchStmt():
            return s.bodies
    return ()


def decorators_of_snap(body: Iterable[Statement]) -> tuple[set[str], set[str]]:
    """Find the names that a file gives snap's decorators and the module, wherever it imports them."""
    decorators: set[str] = set()
    modules: set[str] = set()
    for s in body:
        match s:
            case ImportAll(id="snap"):
                decorators.update(DECORATORS)
            case ImportFrom(id="snap", names=names):
                decorators.update(alias or name for name, alias in names if name in DECORATORS)
            case Import(ids=ids):
                modules.update(alias or name for name, alias in ids if name == "snap")
    return decorators, modules


def is_snap(e: Expression, decorators: set[str], modules: set[str]) -> bool:
    match e:
        case CallExpr(callee=callee):
            return is_snap(callee, decorators, modules)
        case NameExpr(name=name):
            return name in decorators
        case MemberExpr(expr=NameExpr(name=module), name=name):
            return module in modules and name in DECORATORS
    return False


def empty(function: FuncDef) -> None:
    anything = AnyType(TypeOfAny.special_form)
    for argument in function.arguments:
        argument.type_annotation = anything if argument.type_annotation is not None else None
    given = function.unanalyzed_type
    if isinstance(given, CallableType):
        function.type = given.copy_modified(arg_types=[anything] * len(given.arg_types), ret_type=anything)
        function.unanalyzed_type = function.type
    function.body = Block([PassStmt()])


class SnapPlugin(Plugin):
    def report_config_data(self, ctx: ReportConfigContext) -> object:
        """Return the data that mypy keeps with the cached result of a file, and compares.

        mypy calls `get_additional_deps` only for files without a result, and may parse others as well, so results of
        files that import snap are not used.
        """
        if not ctx.is_check or not ctx.path.endswith(".py"):
            return None
        try:
            return "not from the cache" if IMPORTS_SNAP.search(Path(ctx.path).read_bytes()) else None
        except OSError:
            return None

    def get_additional_deps(self, file: MypyFile) -> list[tuple[int, str, int]]:
        decorators, modules = decorators_of_snap(file.imports)  # wherever they stand
        if decorators or modules:
            for s in statements(file.defs):
                if isinstance(s, Decorator) and any(is_snap(e, decorators, modules) for e in s.original_decorators):
                    empty(s.func)
        return []


def plugin(version: str) -> type[Plugin]:
    return SnapPlugin
