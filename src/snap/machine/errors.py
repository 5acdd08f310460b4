"""Report what goes wrong while a kernel runs on the machine, with the place in the source and the thread."""

from __future__ import annotations

from dataclasses import dataclass

from snap._compiler.ir.word import Word
from snap.diag.error import Diagnostic, Label
from snap.diag.render import render
from snap.diag.span import Span


class FaultKind(Word):
    """Name what a kernel did that has no meaning. Equal to its word: `error.kind == "race"`."""

    OUT_OF_BOUNDS = "out of bounds"
    MISALIGNED = "misaligned"
    UNINITIALISED = "uninitialized"
    BARRIER_MISMATCH = "barrier mismatch"
    OVERLAP = "overlap"
    ASSERT = "assert"
    NO_PROGRESS = "no progress"
    WRONG_PHASE = "wrong phase"
    RACE = "race"
    TIME_LIMIT = "time limit"
    UNSAFE = "unsafe"


class MachineError(RuntimeError):
    """A kernel did something that has no meaning.

    `block` and `thread` are the first thread it happened to (its index in the block); None where no single thread did
    it.  met: of two that touch one element, which it is, and who they are.
    """

    def __init__(
        self,
        kind: FaultKind,
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


def _rebuild(
    kind: FaultKind, message: str, span: Span, block: int | None, thread: int | None, rest: dict
) -> MachineError:
    return MachineError(kind, message, span, block, thread, **rest)


class SideKind(Word):
    """Name what one side of a data race does: it acts itself, asynchronously (copies and wgmma), or by ending."""

    READ = "read"
    WRITE = "write"
    ATOMIC = "atomic"
    COPY_TO = "copy to"
    COPY_FROM = "copy from"
    MULTIPLY = "multiply"
    EXIT = "exit"


_VERBS = {
    SideKind.READ: "reads",
    SideKind.WRITE: "writes",
    SideKind.ATOMIC: "uses an atomic",
    SideKind.COPY_TO: "writes it asynchronously (cp.async or TMA)",
    SideKind.COPY_FROM: "reads it asynchronously (cp.async or TMA)",
    SideKind.MULTIPLY: "uses it in an asynchronous wgmma",
    SideKind.EXIT: "ends",
}


@dataclass(frozen=True, slots=True)
class RaceAccess:
    """One side of a data race."""

    kind: SideKind
    span: Span
    block: int
    thread: int

    def __str__(self) -> str:
        return f"{self.who} {_VERBS[self.kind]}"

    @property
    def who(self) -> str:
        return f"block {self.block}, thread {self.thread}"


class RaceReason(Word):
    """Why two accesses are a race.

    NOTHING_ORDERS   nothing orders them
    ONE_THREAD       atomics order other threads of the two warps, but not these
    PROXY            they are ordered, but the first was not fenced
    REGISTERS        registers are touched while a wgmma is in flight on them
    FENCE            registers were touched before a wgmma, without a fence between
    GROUP            of two atomics, a group did one before a release, and a group the other after its acquire; one of
                     the two has not met at a barrier
    EXIT             the block that holds the memory may be gone
    """

    NOTHING_ORDERS = ""
    ONE_THREAD = "one thread"
    PROXY = "proxy"
    REGISTERS = "registers"
    FENCE = "fence"
    GROUP = "group"
    EXIT = "exit"


@dataclass(frozen=True, slots=True)
class Race:
    """Two threads touch one element, one of them writes, and nothing orders them; or one touches what a copy in flight,
    `first`, reads or writes.
    """

    object: str
    index: int
    first: RaceAccess
    second: RaceAccess
    in_flight: bool = False
    reason: RaceReason = RaceReason.NOTHING_ORDERS

    @property
    def message(self) -> str:
        return render(self._diagnostic())

    def error(self) -> MachineError:
        d = self._diagnostic()
        return MachineError(
            FaultKind.RACE,
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
        what = "missing proxy fence" if self.reason is RaceReason.PROXY else "data race"
        return Diagnostic(
            FaultKind.RACE,
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
    RaceReason.NOTHING_ORDERS: "nothing orders these two accesses",
    RaceReason.ONE_THREAD: "atomics order other threads of the two warps, and these have not met those at a barrier",
    RaceReason.PROXY: (
        "the thread issued no proxy fence (`fence.proxy.async`) in between: the async proxy (TMA, wgmma) may not see"
        " what it did"
    ),
    RaceReason.REGISTERS: (
        "the wgmma is still in flight then: these threads have not waited for it (`wgmma.wait_group`)"
    ),
    RaceReason.FENCE: "there is no `wgmma.fence` between the two",
    RaceReason.GROUP: (
        "one thread has released for its group, and one acquired for its own, and between these and what other threads"
        " of the two groups do by atomics here one of the groups has not met at a barrier"
    ),
    RaceReason.EXIT: "nothing keeps the block that holds this memory until then",
}
_HELP = {
    RaceReason.GROUP: "a barrier of the group before the release, and after the acquire",
    RaceReason.ONE_THREAD: (
        "a release or an acquire speaks for the group that holds the memory: let it be held by the warp, and open"
        " partitions by thread after the acquire and close them before the release"
    ),
}
