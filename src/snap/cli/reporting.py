"""End a command: print its errors, for people or for programs, and set the exit code.

Input: files that were checked, or a command line that is wrong.  Output: text on standard error, or JSON on standard
output.  Invariant: the exit code is 1 for errors of the program, 2 for errors of the command line.  Non-goals: the
commands.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable
from typing import NoReturn, ParamSpec, TextIO, TypeVar

import typer

from snap.cli.kernels import ChosenKernel, choose
from snap.cli.load import Checked, UsageError, check_file, parse_target
from snap.diag.error import SnapError, SnapWarning
from snap.diag.render import to_json, wants_color

P = ParamSpec("P")
T = TypeVar("T")


def kernels(text: str, values: list[str], as_json: bool = False, instances: bool = False) -> list[ChosenKernel]:
    """Find the kernels that are asked for; errors of the file are printed, and end the command.  instances: also those
    of generic kernels that the file has made.
    """
    target = usage(parse_target, text)
    checked = check_file(target.path)
    if checked.errors or checked.failure:
        _refused(as_json, json_entries(checked), lambda: print_errors([checked], sys.stderr))
    found, skipped = usage(choose, checked, target.kernel, values, instances)
    for note in skipped:
        print(note, file=sys.stderr)
    try:
        for kernel in found:
            kernel.stages()  # a generic kernel is only checked now
    except SnapError as error:
        every = error.all
        entries = [to_json(one.diagnostic) for one in every]
        _refused(as_json, entries, lambda: print_snap_errors(every, sys.stderr))
    return found


def _refused(as_json: bool, entries: list[dict], show: Callable[[], None]) -> NoReturn:
    if as_json:
        print(json.dumps(entries, indent=2))
    else:
        show()
    raise typer.Exit(1)


def usage(function: Callable[P, T], *args: P.args, **keywords: P.kwargs) -> T:
    """Call what may refuse the command line."""
    try:
        return function(*args, **keywords)
    except UsageError as wrong:
        usage_error(str(wrong))


def usage_error(text: str) -> NoReturn:
    print(f"error: {text}", file=sys.stderr)
    raise typer.Exit(2)


def failed(text: object) -> NoReturn:
    print(f"error: {text}", file=sys.stderr)
    raise typer.Exit(1)


def print_errors(checked: list[Checked], stream: TextIO) -> None:
    for one in checked:
        print_snap_errors(one.errors, stream)
        print_snap_errors(one.warnings, stream)
        if one.failure:
            print(one.failure, end="\n\n", file=stream)


def counted(n: int, what: str) -> str:
    return f"{n or 'no'} {what}{'s' * (n != 1)}"


def print_snap_errors(errors: Iterable[SnapError] | Iterable[SnapWarning], stream: TextIO) -> None:
    color = wants_color(stream)
    for error in errors:
        print(error.render(color=color), end="\n\n", file=stream)


def json_entries(checked: Checked) -> list[dict]:
    entries = [to_json(error.diagnostic) for error in checked.errors]
    entries += [to_json(one.diagnostic) for one in checked.warnings if one.diagnostic is not None]
    if checked.failure:
        entries.append(_json_entry(checked, checked.failure.line, "error", str(checked.failure)))
    return entries + [
        _json_entry(checked, unchecked.line, "information", unchecked.note) for unchecked in checked.unchecked
    ]


def _json_entry(checked: Checked, line: int, severity: str, message: str) -> dict:
    """Make the entry of an error without a code."""
    place = {"line": line, "column": 1}
    return {
        "file": str(checked.path),
        "range": {"start": place, "end": place},
        "code": None,
        "severity": severity,
        "message": message,
        "label": "",
        "related": [],
        "note": "",
        "help": "",
    }
