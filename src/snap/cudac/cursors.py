"""Questions to cursors that need nothing but the cursor: operators, constants, and what a text assigns to.

Input: libclang's cursors.  Output: words, numbers, sets of names.  Non-goals: the IR.
"""

from __future__ import annotations

import ctypes
from typing import Any

BINARY = dict(
    enumerate("* / % + - << >> <=> < > <= >= == != & ^ | && || = *= /= %= += -= <<= >>= &= ^= |= ,".split(), start=3)
)
UNARY = dict(enumerate("x++ x-- ++x --x & * + - ~ !".split(), start=1))


def binary_kind(cursor: Any) -> int:
    from clang import cindex

    return int(cindex.conf.lib.clang_getCursorBinaryOperatorKind(cursor))


def unary_kind(cursor: Any) -> int:
    from clang import cindex

    return int(cindex.conf.lib.clang_getCursorUnaryOperatorKind(cursor))


def peeled(cursor: Any) -> Any:
    """Without parentheses and conversions that clang put in."""
    while cursor.kind.name in ("UNEXPOSED_EXPR", "PAREN_EXPR"):
        inner = [c for c in cursor.get_children() if c.kind.is_expression()]
        if len(inner) != 1:
            return cursor
        cursor = inner[0]
    return cursor


_RESULTS = {
    "clang_EvalResult_getKind": ctypes.c_int,
    "clang_EvalResult_getAsLongLong": ctypes.c_longlong,
    "clang_EvalResult_getAsDouble": ctypes.c_double,
    "clang_EvalResult_dispose": None,
}


def evaluated(cursor: Any) -> int | float | None:
    """Return the value of a constant expression, as clang has it."""
    from clang import cindex

    library = cindex.conf.lib
    library.clang_Cursor_Evaluate.argtypes, library.clang_Cursor_Evaluate.restype = [cindex.Cursor], ctypes.c_void_p
    for name, returned in _RESULTS.items():
        getattr(library, name).argtypes, getattr(library, name).restype = [ctypes.c_void_p], returned
    found = library.clang_Cursor_Evaluate(cursor)
    if not found:
        return None
    kind = library.clang_EvalResult_getKind(found)
    result: int | float | None = None
    if kind == 1:
        result = int(library.clang_EvalResult_getAsLongLong(found))
    elif kind == 2:
        result = float(library.clang_EvalResult_getAsDouble(found))
    library.clang_EvalResult_dispose(found)
    return result


def assigned_in(cursor: Any) -> set[int]:
    """The variables that are assigned to, stepped, or of which an address or a reference is taken."""
    found: set[int] = set()
    for child in cursor.get_children() if cursor is not None else ():
        found |= assigned_in(child)
        name = child.kind.name
        parts = list(child.get_children())
        written: list[Any] = []
        if (
            name == "COMPOUND_ASSIGNMENT_OPERATOR"
            or name == "BINARY_OPERATOR"
            and BINARY.get(binary_kind(child)) == "="
        ):
            written = parts[:1]
        elif name == "UNARY_OPERATOR" and UNARY.get(unary_kind(child)) in ("x++", "x--", "++x", "--x", "&"):
            written = parts
        elif name == "CALL_EXPR":
            written = [e for e in child.get_arguments() if e is not None and e.kind.name == "DECL_REF_EXPR"]
        elif name == "VAR_DECL" and child.type.get_canonical().kind.name == "LVALUEREFERENCE":
            written = parts
        for part in written:
            part = peeled(part)
            while part.kind.name == "MEMBER_REF_EXPR" and list(part.get_children()):
                part = peeled(list(part.get_children())[0])
            if part.kind.name == "DECL_REF_EXPR" and part.referenced is not None:
                found.add(part.referenced.hash)
    return found
