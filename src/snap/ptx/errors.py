"""Report what is wrong with a PTX text, and where."""

from __future__ import annotations

from typing import TYPE_CHECKING

from snap._compiler.ir.word import Word
from snap.diag.error import Diagnostic, Label, SnapError
from snap.diag.render import render
from snap.diag.span import Span

if TYPE_CHECKING:
    from snap.ptx.program.resolve import Instruction


class PtxError(SnapError):
    """A PTX text that cannot be read, or that asks for something that does not exist.

    code: 'PTX001' no such token, 'PTX002' not the grammar of PTX, 'PTX003' a name that is unknown or declared twice,
    'PTX004' an instruction that the machine does not have (`load(module, strict=True)`), 'PTX005' operands of types
    that an instruction does not take, or too many or too few.
    """

    __module__ = "snap.ptx"

    def __init__(self, code: str, message: str, span: Span, label: str = "", help: str = ""):
        super().__init__(Diagnostic(code, message, span, label, help=help))

    def __reduce__(self):
        d = self.diagnostic
        return type(self), (d.code, d.message, d.span, d.label, d.help)


def from_line(at: Instruction, files: dict[int, str]) -> str:
    """The line of the source that an instruction was made of, and the calls by which it was inlined, where the PTX says
    it.
    """
    if at.line is None:
        return ""
    first, *calls = (f"{files.get(file, '?')}:{line}" for file, line in zip(at.line[::2], at.line[1::2]))
    return ", inlined at ".join([f"from {first}", *calls])


class PtxFaultKind(Word):
    """Name what a program did that has no meaning, or why it cannot go on; the last four only where a check was asked
    for. Equal to its word: `fault.kind == "race"`.
    """

    OUT_OF_BOUNDS = "out of bounds"
    MISALIGNED = "misaligned"
    DEADLOCK = "deadlock"
    BARRIER_MISMATCH = "barrier mismatch"
    TRAP = "trap"
    TOO_LONG = "too long"
    UNKNOWN = "unknown"
    IN_FLIGHT = "in flight"
    RACE = "race"
    UNINITIALISED = "uninitialized"
    NOT_COHERENT = "not coherent"
    INACTIVE_LANE = "inactive lane"
    INCONSISTENT = "inconsistent"


class PtxFault(RuntimeError):
    """A program did something that has no meaning, or cannot go on.

    block, thread: the first it happened to.  line: (file, line) of the source, where the PTX says it.  also: others of
    the same run, such as further races.
    """

    __module__ = "snap.ptx"

    def __init__(
        self,
        kind: PtxFaultKind,
        message: str,
        at: Instruction,
        files: dict[int, str],
        block: int | None = None,
        thread: int | None = None,
        *,
        label: str = "",
        secondary: tuple[Label, ...] = (),
        note: str = "",
        help: str = "",
    ):
        self.kind, self.block, self.thread, self.span = kind, block, thread, at.span
        self.also: list[PtxFault] = []
        self.line = None if at.line is None else (files.get(at.line[0], "?"), at.line[1])
        who = "" if block is None else f"block {block}, thread {thread}"
        self.diagnostic = Diagnostic(
            kind, message, at.span, label or who, secondary, note or from_line(at, files), help
        )
        super().__init__(render(self.diagnostic))

    def __str__(self) -> str:
        more = len(self.also)
        return super().__str__() + (f"\n  = and {more} more, in `also`" if more else "")
