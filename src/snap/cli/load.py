"""Run a user's file, and find the kernels in it.

Input:      a path, or PATH:KERNEL
Output:     the module's names and the errors of its Snap functions
Invariant:  whatever the file raises is reported as its own, without a frame of ours; sys.path, sys.argv and sys.modules
            are as before afterwards
Non-goals:  protecting against what the file's top-level code does: it is run, as Python runs it
"""

from __future__ import annotations

import contextlib
import difflib
import os
import sys
import traceback
import types
import unicodedata
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from snap.diag.error import SnapError, SnapWarning, UseOfRefused
from snap.diag.source import register_source

PACKAGE = str(Path(__file__).resolve().parents[1]) + os.sep


class Failure(Exception):
    """Say why the user's file could not be run to its end, ready to print."""

    def __init__(self, text: str, line: int = 1):
        super().__init__(text)
        self.line = line


class UsageError(Exception):
    """Say that the command line itself is wrong."""


@dataclass(frozen=True, slots=True)
class NamedFile:
    """Hold `FILE` or `FILE:kernel`."""

    path: Path
    kernel: str | None


def parse_target(text: str) -> NamedFile:
    path, kernel = text, None
    if not os.path.exists(text) and ":" in text:
        path, _, kernel = text.rpartition(":")
        if not kernel.isidentifier():
            raise UsageError(f"{text}: what follows the colon is the name of a kernel, and {kernel!r} is none")
    return NamedFile(check_path(path), kernel and unicodedata.normalize("NFKC", kernel))  # as Python reads names


def check_path(text: str) -> Path:
    if not text:
        raise UsageError("the name of a file is empty")
    path = Path(text)
    if path.is_dir():
        raise UsageError(f"{text} is a folder; name the files")
    if not path.is_file():
        raise UsageError(f"{text}: no such file")
    return path


def run_file(path: Path, name: str, args: tuple[str, ...] = ()) -> dict[str, object]:
    """Run the file as the module `name`, and give the names that it binds.  SnapError and SystemExit pass; anything
    else becomes a Failure.
    """
    filename = str(path)
    try:
        text = _decoded(path)
        code = compile(text, filename, "exec", dont_inherit=True)
    except SyntaxError as error:
        raise Failure("".join(traceback.format_exception_only(error)).rstrip(), error.lineno or 1) from None
    except (OSError, ValueError) as error:
        raise Failure(f"{filename}: {error}") from None
    register_source(filename, text)
    module = types.ModuleType(name)
    module.__file__ = filename
    with _standing_for(module, path, (filename, *args)):
        try:
            exec(code, module.__dict__)
        except (SnapError, SystemExit, KeyboardInterrupt, UseOfRefused):
            raise
        except BaseException as error:
            raise Failure(report(error), _line_in(error, filename)) from None
    return module.__dict__


def _decoded(path: Path) -> str:
    """Decode by the file's own coding line."""
    import tokenize

    with tokenize.open(path) as file:
        return file.read()


@contextlib.contextmanager
def _standing_for(module: types.ModuleType, path: Path, argv: tuple[str, ...]) -> Iterator[None]:
    before = sys.modules.get(module.__name__), sys.path[:], sys.argv
    sys.modules[module.__name__] = module
    sys.path.insert(0, str(path.resolve().parent))
    sys.argv = list(argv)
    try:
        yield
    finally:
        replaced, sys.path[:], sys.argv = before
        if replaced is None:
            sys.modules.pop(module.__name__, None)
        else:
            sys.modules[module.__name__] = replaced


def report(error: BaseException) -> str:
    """Return Python's own report, from the user's file on and without frames of ours."""
    described = traceback.TracebackException.from_exception(error)
    _strip(described, set())
    told = "".join(described.format()).rstrip()
    from snap import __all__ as words

    name = error.name if isinstance(error, NameError) else None
    close = difflib.get_close_matches(name, words, n=1, cutoff=0.8) if name else []
    return f"{told}\nhelp: did you mean `{close[0]}`?" if close else told


def _strip(described: traceback.TracebackException, seen: set[int]) -> None:
    if id(described) in seen:
        return
    seen.add(id(described))
    kept = [
        frame
        for frame in described.stack
        if not frame.filename.startswith((PACKAGE, "<frozen importlib", "<launch of", "<snap "))
    ]
    described.stack = traceback.StackSummary.from_list(kept)
    for chained in (described.__cause__, described.__context__):
        if chained is not None:
            _strip(chained, seen)


def _line_in(error: BaseException, filename: str) -> int:
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == filename]
    return (lines[-1] if lines else None) or 1


# ---- checking -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Unchecked:
    """Name a generic kernel that was not checked for want of values: its line, and how to check it."""

    line: int
    note: str


@dataclass(frozen=True, slots=True)
class Checked:
    """Hold a file and its errors.  failure: the file itself could not be run to its end (functions before that point
    are checked all the same).
    """

    path: Path
    names: dict[str, object]
    errors: tuple[SnapError, ...]
    failure: Failure | None
    unchecked: tuple[Unchecked, ...] = ()
    warnings: tuple[SnapWarning, ...] = ()


def check_file(path: Path) -> Checked:
    """Check every Snap function of the file as it is defined; errors are collected, not raised."""
    from snap import decorators

    names: dict[str, object] = {}
    raised: list[SnapError] = []
    failure = None
    with decorators.collecting() as collected, warnings.catch_warnings():
        warnings.simplefilter("ignore", SnapWarning)  # asked for when all is defined (kernels.py)
        try:
            with contextlib.redirect_stdout(sys.stderr):  # what the file prints is not our answer
                names = run_file(path, f"__snap_{path.stem}__")
            halves = {id(value): value for value in names.values() if isinstance(value, decorators.Pending)}
            raised += [SnapError(half.unfinished()) for half in halves.values()]
        except SnapError as error:
            raised.append(error)
        except SystemExit as stop:
            if stop.code not in (None, 0):
                failure = Failure(f"{path}: stopped by `sys.exit({stop.code!r})` at its top level")
        except UseOfRefused:
            pass  # what was refused is among the collected errors
        except Failure as stopped:
            failure = stopped
    return Checked(path, names, in_order((*collected, *raised)), failure)


def in_order(errors: Iterable[SnapError]) -> tuple[SnapError, ...]:
    """Sort the errors as the text has them, each once."""
    distinct = {
        (error.diagnostic.code, error.diagnostic.span, error.message): error for first in errors for error in first.all
    }
    return tuple(
        sorted(distinct.values(), key=lambda error: (error.diagnostic.span.line, error.diagnostic.span.column))
    )
