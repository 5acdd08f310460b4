"""CUDA C, read by libclang.

Input:      a file, macros, and for a template its values
Output:     a `Unit`: the kernels by name, launches that the file makes, and the cursors of what they use
Invariant:  nothing of the file is run, and no toolkit is needed: what CUDA takes for granted is declared in include/,
            and headers that are not there are taken for empty
Non-goals:  what a construct means (expressions.py, statements.py)
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from snap.cudac.errors import NOWHERE, refusal
from snap.diag.error import SnapError
from snap.diag.source import register_source
from snap.diag.span import Span

INCLUDE = Path(__file__).parent / "include"
OPTIONS = (
    "-x cuda -nocudainc -nocudalib --cuda-device-only --cuda-gpu-arch=sm_90 -std=c++17 -nostdinc -nostdinc++ "
    "-Wno-unknown-cuda-version -ferror-limit=0"
).split()
MOST_BYTES = 20_000_000
MOST_HEADERS = 200  # that are not there, and are taken for empty
_KEEP_GOING, _ERROR = 0x200, 3
_MISSING = re.compile(r"'([^']+)' file not found")


@dataclass
class CudaFile:
    """One file, parsed.

    kernels    by name, the cursors of the definitions; templates: those that are templates
    functions  by USR, the definitions of device functions
    shapes     by kernel, the shape of a block that the file itself launches it with, where that is a constant
    bounds     by kernel, that of `__launch_bounds__`
    """

    path: str
    kernels: dict[str, Any] = field(default_factory=dict)
    templates: dict[str, Any] = field(default_factory=dict)
    functions: dict[str, Any] = field(default_factory=dict)
    shapes: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    bounds: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    held: Any = None  # what the cursors belong to


def clang() -> Any:
    """The bindings of libclang, with two functions that they leave out."""
    try:
        from clang import cindex
    except ModuleNotFoundError:
        raise refusal(
            "CUDAC002",
            "reading CUDA C needs libclang",
            NOWHERE,
            "`pip install 'snap-gpu[cudac]'`, or `pip install libclang`",
        ) from None
    library = cindex.conf.lib
    for name in ("clang_getCursorBinaryOperatorKind", "clang_getCursorUnaryOperatorKind"):
        function = getattr(library, name)
        function.argtypes, function.restype = [cindex.Cursor], ctypes.c_int
    return cindex


def parse(
    path: str | Path, macros: Mapping[str, object] = {}, instance: str = "", include: Sequence[str] = ()
) -> CudaFile:
    """instance: of a template, `name<16, float>`: its head is blanked in an unsaved copy, its parameters are bound."""
    cindex, name = clang(), str(path)
    text = _text(name)
    register_source(name, text)
    if instance:
        text = instantiated(text, instance, name)
    folders = [str(Path(name).parent), *map(str, include), str(INCLUDE / "host")]
    arguments = [
        *OPTIONS,
        *(f"-D{key}={value}" for key, value in macros.items()),
        *(part for folder in folders for part in ("-I", folder)),
        "-include",
        str(INCLUDE / "snap_cuda.h"),
    ]
    absent: dict[str, str] = {}
    while True:
        unsaved = [(name, text), *absent.items()]
        try:
            unit = cindex.Index.create().parse(name, args=arguments, unsaved_files=unsaved, options=_KEEP_GOING)
        except cindex.TranslationUnitLoadError:
            raise refusal("CUDAC001", "the file cannot be parsed", Span(name, 1, 0, 1, 0)) from None
        missing = [m[1] for d in unit.diagnostics if (m := _MISSING.fullmatch(d.spelling))]
        new = {str(INCLUDE / "host" / header): "" for header in missing}
        if not new or new.keys() <= absent.keys() or len(absent) > MOST_HEADERS:
            break
        absent |= new
    unit.snap_errors = _errors(unit, name)
    return _collected(cindex, unit, name, text)


def _text(name: str) -> str:
    try:
        data = Path(name).read_bytes()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise refusal("CUDAC002", f"`{name}` cannot be read: {why}", NOWHERE) from None
    if b"\0" in data or len(data) > MOST_BYTES:
        raise refusal("CUDAC001", f"`{name}` is not CUDA C: it is binary, or too large", Span(name, 1, 0, 1, 0))
    return data.decode("utf-8", "replace")


def _errors(unit: Any, name: str) -> list[SnapError]:
    """List what clang complains of.  Host code and missing headers cause most of it, so it is told where a kernel that
    is asked for cannot be read.
    """
    found: list[SnapError] = []
    for one in unit.diagnostics:
        if one.severity >= _ERROR:
            at = one.location
            where = at.file.name if at.file is not None else name
            span = Span(where, max(at.line, 1), max(at.column - 1, 0), max(at.line, 1), max(at.column, 1))
            found.append(refusal("CUDAC001", one.spelling, span))
    return found


def _collected(cindex: Any, unit: Any, name: str, text: str) -> CudaFile:
    made, kind = CudaFile(name, held=unit), cindex.CursorKind

    def visit(cursor: Any) -> None:
        for child in cursor.get_children():
            if child.kind in (kind.NAMESPACE, kind.LINKAGE_SPEC, kind.UNEXPOSED_DECL):
                visit(child)
            elif child.kind in (kind.FUNCTION_DECL, kind.FUNCTION_TEMPLATE) and child.is_definition():
                of_kernel = any(c.kind is kind.CUDAGLOBAL_ATTR for c in child.get_children())
                made.functions[child.get_usr()] = child
                if of_kernel and child.kind is kind.FUNCTION_TEMPLATE:
                    made.templates[child.spelling] = child
                elif of_kernel:
                    made.kernels[child.spelling] = child

    visit(unit.cursor)
    numbers = _numbers(text)
    made.shapes = launches(text, numbers)
    for found in _BOUNDS.finditer(text):
        shape = _extents(_parts(found[1])[0], numbers)
        if shape is not None:
            made.bounds[found[2]] = shape
    return made


_DIM = re.compile(r"\bdim3\s+(\w+)\s*(?:\(([^();]*)\)|=\s*dim3\s*\(([^();]*)\)|\{([^{};]*)\})")
_LAUNCH = re.compile(r"\b(\w+)\s*(?:<[^<>;(){}]*>)?\s*<<<([^;]*?)>>>")
_BOUNDS = re.compile(r"__launch_bounds__\s*\(([^()]*)\)[\s\w]*?\b(\w+)\s*\(")
_DEFINED = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+\(?[ \t]*(\d+)[ \t]*\)?[ \t]*$", re.M)
_CONST = re.compile(r"\b(?:const|constexpr)\s+(?:unsigned\s+)?(?:int|unsigned|size_t)\s+(\w+)\s*=\s*(\d+)\s*;")


def _numbers(text: str) -> dict[str, int]:
    """The constants that a file names."""
    return {name: int(value) for found in (_DEFINED, _CONST) for name, value in found.findall(text)}


def launches(text: str, numbers: Mapping[str, int]) -> dict[str, tuple[int, int, int]]:
    """The shapes of blocks that a file's own launches name by constants."""
    shapes = {m[1]: _extents(m[2] or m[3] or m[4] or "", numbers) for m in _DIM.finditer(text)}
    found: dict[str, tuple[int, int, int]] = {}
    for name, configuration in _LAUNCH.findall(text):
        parts = _parts(configuration)
        if len(parts) >= 2:
            block = parts[1].strip()
            inner = re.fullmatch(r"dim3\s*\((.*)\)", block)
            shape = _extents(inner[1], numbers) if inner else shapes.get(block) or _extents(block, numbers)
            if shape is not None:
                found.setdefault(name, shape)
    return found


def _parts(text: str) -> list[str]:
    """Split at commas outside parentheses."""
    found, depth = [""], 0
    for c in text:
        depth += (c in "([{") - (c in ")]}")
        if c == "," and not depth:
            found.append("")
        else:
            found[-1] += c
    return found


def _extents(text: str, numbers: Mapping[str, int]) -> tuple[int, int, int] | None:
    found = []
    for part in _parts(text):
        part = part.strip()
        value = numbers.get(part) if not part.isdigit() else int(part)
        if not value:
            return None
        found.append(value)
    return (*found, *[1] * (3 - len(found)))[:3] if 1 <= len(found) <= 3 else None  # type: ignore[return-value]


def instantiated(text: str, instance: str, name: str) -> str:
    """Bind a template's parameters: its head becomes declarations of constants and types, in as many lines."""
    found = re.fullmatch(r"\s*(\w+)\s*<(.*)>\s*", instance, re.S)
    if found is None:
        raise refusal(
            "CUDAC004", f"`{instance}` is not an instance of a template", NOWHERE, "for example `scale<16, float>`"
        )
    function, given = found[1], [part.strip() for part in _parts(found[2])]
    for head in re.finditer(r"\btemplate\s*<", text):
        end, depth = head.end(), 1
        while end < len(text) and depth:
            depth += (text[end] == "<") - (text[end] == ">")
            end += 1
        if re.match(r"[^;{}]*?\b" + function + r"\s*\(", text[end:]):
            return text[: head.start()] + _bound(text[head.end() : end - 1], given, instance, name) + text[end:]
    raise refusal("CUDAC005", f"there is no template `{function}` in `{name}`", Span(name, 1, 0, 1, 0))


def _bound(parameters: str, given: list[str], instance: str, name: str) -> str:
    made = []
    for k, parameter in enumerate(_parts(parameters)):
        what, _, default = parameter.partition("=")
        value = given[k] if k < len(given) else default.strip()
        words = what.split()
        if not value or len(words) < 2:
            raise refusal("CUDAC004", f"`{instance}` gives no value for `{what.strip()}`", Span(name, 1, 0, 1, 0))
        if words[0] in ("typename", "class"):
            made.append(f"using {words[-1]} = {value};")
        else:
            made.append(f"static constexpr {' '.join(words[:-1])} {words[-1]} = {value};")
    return " ".join(made) + " " + "\n" * parameters.count("\n")
