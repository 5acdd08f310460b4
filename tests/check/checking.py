"""Programs as text: what is accepted, and what is refused with which code on which line."""

from __future__ import annotations

import itertools
import textwrap

from snap._compiler.check import check
from snap.decorators import define
from snap.diag.error import SnapError
from snap.diag.source import register_source

_numbers = itertools.count()
HEADER = "from __future__ import annotations\nfrom snap import *\n"


def execute(text: str, **bound: object) -> dict:
    """The namespace that the text leaves; the names of the language are there."""
    text = HEADER + text
    filename = f"<checked {next(_numbers)}>"
    register_source(filename, text)
    namespace = {"__name__": "checked", **bound}
    exec(compile(text, filename, "exec", dont_inherit=True), namespace)
    return namespace


def program(text: str, **bound: object) -> list[tuple[str, int]]:
    """The errors of a whole program, with lines counted from 1; none if it is accepted."""
    try:
        execute(textwrap.dedent(text).strip("\n"), **bound)
    except SnapError as error:
        return [(each.code, each.lineno - HEADER.count("\n")) for each in error.all]
    return []


def kernel_text(code: str, requires: str, params: str, before: str) -> tuple[str, int]:
    code = textwrap.indent(textwrap.dedent(code).strip("\n"), "    ")
    head = f"{textwrap.dedent(before).strip()}\n\n@kernel\n@requires({requires})\ndef k({params}):\n"
    return head + code + "\n", HEADER.count("\n") + head.count("\n")


def errors(code: str, requires: str = "grid[1], block[1], thread[256]", params: str = "", before: str = "", **bound: object) -> list[SnapError]:
    """The errors of a kernel with this body."""
    try:
        execute(kernel_text(code, requires, params, before)[0], **bound)
    except SnapError as error:
        return error.all
    return []


def codes(code: str, requires: str = "grid[1], block[1], thread[256]", params: str = "", before: str = "", **bound: object) -> list[tuple[str, int]]:
    """The same as (code, line of the body)."""
    skipped = kernel_text(code, requires, params, before)[1]
    return [(error.code, error.lineno - skipped) for error in errors(code, requires, params, before, **bound)]


def kernel(code: str, requires: str = "grid[1], block[1], thread[256]", params: str = "", before: str = "", **bound: object):
    """The kernel itself."""
    return execute(kernel_text(code, requires, params, before)[0], **bound)["k"]


class Alone:
    """A device function that only the checker has seen."""

    def __init__(self, pending):
        self.definition = define(pending.python, False, pending.requires)
        check(self.definition)


def kernel_alone(pending):
    """Instead of `@kernel`: the typed IR, which no later stage has seen."""
    return check(define(pending.python, "global", pending.requires))


ALONE = HEADER.replace("import *", "import *; from check.checking import kernel_alone as kernel, Alone as device")


def typed(code: str, requires: str = "grid[1], block[1], thread[256]", params: str = "", before: str = "", **bound: object):
    """What the checker alone makes of a kernel with this body: its typed IR, or all its errors."""
    text = ALONE + kernel_text(code, requires, params, before)[0]
    filename = f"<checked {next(_numbers)}>"
    register_source(filename, text)
    namespace = {"__name__": "checked", **bound}
    try:
        exec(compile(text, filename, "exec", dont_inherit=True), namespace)
    except SnapError as error:
        return error.all
    return namespace["k"]


def refused(code: str, expected: str, *fragments: str, **options: object) -> None:
    """The checker alone refuses this body with exactly one error, of this code, whose text has these fragments."""
    found = typed(code, **options)
    assert isinstance(found, list), f"accepted:\n{code}"
    rendered = "\n".join(error.render() for error in found)
    assert [error.code for error in found] == [expected], rendered
    assert all(fragment in rendered for fragment in fragments), rendered


def accepted(code: str, **options: object):
    """The typed IR of this body, which the checker alone accepts."""
    found = typed(code, **options)
    assert not isinstance(found, list), "\n".join(error.render() for error in found)
    return found


IN_BLOCK = "with group(grid[1]):\n    with group(block[1]):\n"


def in_block(code: str, requires: str = "grid[1], block[1], thread[256]", params: str = "", before: str = "", **bound: object) -> list[tuple[str, int]]:
    """`codes` for what stands in group(block[1])."""
    body = IN_BLOCK + textwrap.indent(textwrap.dedent(code).strip("\n"), "        ")
    return [(found, line - 2) for found, line in codes(body, requires, params, before, **bound)]
