"""What can go wrong while a kernel runs on the machine, with the place in the source and the thread."""

from __future__ import annotations

from dataclasses import dataclass

from snap.diag.error import Diagnostic, Label
from snap.diag.render import render
from snap.diag.span import Span


class MachineError(RuntimeError):
    """A kernel did something that has no meaning.

    kind: 'out of bounds', 'misaligned', 'uninitialised', 'barrier mismatch', 'overlap', 'assert', 'no progress', 'wrong
    phase', 'race', 'time limit' or 'unsafe'. `block` and `thread` are the first thread it happened to (its index in the
    block); None where no single thread did it.  met: of two that touch one element, which it is, and who they are.
    """

    def __init__(
        self,
        kind: str,
        message: str,
        span: Span,
        block: int | None = None,
        thread: int | None = None,
        *,
        label: str = "",
        secondary: tuple[tuple[Span, str], ...] = (),
        note: str = "",
        help: str = "",
        met: str = "",
    ):
        who = "" if block is None else f"block {block}" if thread is None else f"block {block}, thread {thread}"
        self.diagnostic = Diagnostic(
            kind, message, span, label or who, tuple(Label(*pair) for pair in secondary), note, help
        )
        super().__init__(render(self.diagnostic))
        self.kind, self.message, self.span, self.block, self.thread = kind, message, span, block, thread
        self.met = met
        self._rest = {"label": label, "secondary": secondary, "note": note, "help": help, "met": met}

    def __reduce__(self):
        return _rebuild, (self.kind, self.message, self.span, self.block, self.thread, self._rest)


def _rebuild(kind: str, message: str, span: Span, block: int | None, thread: int | None, rest: dict) -> MachineError:
    return MachineError(kind, message, span, block, thread, **rest)


@dataclass(frozen=True, slots=True)
class RaceAccess:
    """One side of a data race.  kind: 'read', 'write', 'atomic', 'copy to', 'copy from' or 'multiply' in the
    background, or 'exit'.
    """

    kind: str
    span: Span
    block: int
    thread: int

    def __str__(self) -> str:
        verb = {
            "read": "reads",
            "write": "writes",
            "atomic": "uses an atomic",
            "copy to": "writes it asynchronously (cp.async or TMA)",
            "copy from": "reads it asynchronously (cp.async or TMA)",
            "multiply": "uses it in an asynchronous wgmma",
            "exit": "ends",
        }[self.kind]
        return f"{self.who} {verb}"

    @property
    def who(self) -> str:
        return f"block {self.block}, thread {self.thread}"


@dataclass(frozen=True, slots=True)
class Race:
    """Two threads touch one element, one of them writes, and nothing orders them; or one touches what a copy in flight,
    `first`, reads or writes.

    reason: '' for that; 'one thread' where atomics order other threads of the two warps, but not these; 'proxy' where
    they are ordered, but the first was not fenced; 'registers' of a product in flight, or 'fence' where they were
    touched before one without a fence between; 'exit' where the block that holds the memory may be gone.
    """

    object: str
    index: int
    first: RaceAccess
    second: RaceAccess
    in_flight: bool = False
    reason: str = ""

    @property
    def message(self) -> str:
        return render(self._diagnostic())

    def error(self) -> MachineError:
        d = self._diagnostic()
        return MachineError(
            "race",
            d.message,
            d.span,
            self.second.block,
            self.second.thread,
            label=d.label,
            secondary=tuple((label.span, label.text) for label in d.secondary),
            note=d.note,
            help=d.help,
            met=f"`{self.object}[{self.index}]`: {self.first.who}, and {self.second.who}",
        )

    def _diagnostic(self) -> Diagnostic:
        note = (
            "the copy is still in flight then: its thread has not waited for it"
            if self.in_flight
            else _NOTES[self.reason]
        )
        what = "missing proxy fence" if self.reason == "proxy" else "data race"
        return Diagnostic(
            "race",
            f"{what} on element {self.index} of `{self.object}`",
            self.second.span,
            str(self.second),
            (Label(self.first.span, str(self.first)),),
            note,
            _HELP.get(self.reason, ""),
        )

    def __str__(self) -> str:
        return self.message


_NOTES = {
    "": "nothing orders these two accesses",
    "one thread": "atomics order other threads of the two warps, and these have not met those at a barrier",
    "proxy": (
        "the thread issued no proxy fence (`fence.proxy.async`) in between: the async proxy (TMA, wgmma) may not see"
        " what it did"
    ),
    "registers": "the wgmma is still in flight then: these threads have not waited for it (`wgmma.wait_group`)",
    "fence": "there is no `wgmma.fence` between the two",
    "exit": "nothing keeps the block that holds this memory until then",
}
_HELP = {
    "one thread": (
        "a release or an acquire speaks for the group that holds the memory: let it be held by the warp, and open"
        " partitions by thread after the acquire and close them before the release"
    ),
}
