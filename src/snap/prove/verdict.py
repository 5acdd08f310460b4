"""Represent what a proof says: verdicts, obligations, and the text that people and tools read.

Input: what the properties found (`Findings`).  Output: a `Proof`, and its rendering.  Invariant: a proof is *proved*
only where each obligation is and nothing is needed that the kernel does not write; it is *refuted* only where a launch
on the CPU machine has confirmed it; all else is *unknown*.  Non-goals: how anything is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import field, replace
from enum import Enum

from snap._compiler.ir.word import Word
from snap.diag.error import Diagnostic, Label
from snap.diag.render import render as render_diagnostic
from snap.diag.render import to_json as diagnostic_json
from snap.diag.span import Span
from snap.record import record


class Verdict(str, Enum):
    """Equal to its word: `k.prove().verdict == "proved"`."""

    PROVED = "proved"
    REFUTED = "refuted"
    UNKNOWN = "unknown"

    def __str__(self) -> str:
        return self.value


class Property(Word):
    """Name what an obligation is a part of. Equal to its word: `o.kind == "races"`."""

    RACES = "races"
    BOUNDS = "bounds"
    OVERFLOW = "overflow"
    INIT = "init"
    ORDER = "order"
    VIEWS = "views"
    CONTRACT = "contract"
    PRECONDITION = "precondition"


# The code of what refutes a property; of what is only not proved, `NOT_PROVED`.
NUMBERS = {
    Property.RACES: 22,
    Property.BOUNDS: 23,
    Property.OVERFLOW: 23,
    Property.INIT: 24,
    Property.ORDER: 25,
    Property.VIEWS: 28,
    Property.CONTRACT: 28,
    Property.PRECONDITION: 27,
}
CODES = {name: f"SNAP{n:03}" for name, n in NUMBERS.items()}
# Of a part of a property, the property with which it is shown.
SHOWN_WITH = {Property.OVERFLOW: "bounds", Property.VIEWS: "bounds"}
NOT_PROVED, PRECONDITION = f"SNAP{26:03}", f"SNAP{27:03}"


CTRL_C = "Ctrl-C"
MOST_LEFT = 12  # lines of what was not reached
Seen = tuple[str, str, tuple[Span, ...]]  # what the machine saw: its kind, a text, places


HeldNumber = tuple[str, tuple[int, ...], int]  # of an array: its name, the index, the number that is there


@record
class Launch:
    """A launch that shows a fault: the arguments by name (of an array its length), what is seen, and what its arrays
    hold, where that is not zero.  only: the blocks that run, where those few show it, as they may before the others
    begin; () for all.
    """

    blocks: int
    args: tuple[tuple[str, object], ...]
    seen: str = ""
    data: tuple[HeldNumber, ...] = ()
    only: tuple[int, ...] = ()

    def __str__(self) -> str:
        given = [f"{name} = {value}" for name, value in self.args]
        held = [f"{name}[{', '.join(map(str, index))}] = {n}" for name, index, n in self.data]
        *more, last = map(str, self.only or ("",))
        some = f" (of which {', '.join(more)} and {last} run)" if more else f" (of which {last} runs)" if last else ""
        return ", ".join([*given, *held, f"blocks = {self.blocks}{some}"])


@record
class Obligation:
    """One thing that has to hold, at one place.

    kind      the property
    what      what has to hold, as a sentence without a full stop: "`x[i]` is inside of `x`"
    reason    how it was shown; of what was not, why, or what is wrong
    label     what stands under the place where it is reported; '' for `reason`
    others    further places, each with what it is
    help      what would help
    launch    of a refuted one: that shows it
    needs     preconditions, in the words of `where=`, under which it is shown, where it is not shown without
    data      of a refuted one: what memory holds decides about it, too
    example   of what is open: numbers for which the solvers do not exclude it, which no run has shown
    reached   whether the time sufficed to ask
    vouched   the reason of the `trust` around the calls in which it has to hold; '' where there is none
    """

    kind: Property
    verdict: Verdict
    what: str
    span: Span
    reason: str = ""
    label: str = ""
    others: tuple[Label, ...] = field(default=())
    help: str = ""
    launch: Launch | None = None
    needs: tuple[str, ...] = field(default=())
    data: bool = False
    vouched: str = ""
    example: str = ""
    reached: bool = True

    @property
    def code(self) -> str:
        return CODES[self.kind] if self.verdict is Verdict.REFUTED else NOT_PROVED

    def diagnostic(self) -> Diagnostic:
        if self.verdict is Verdict.REFUTED:
            note = f"with {self.launch}; the CPU machine shows it: k.prove().replay()" if self.launch else ""
            return Diagnostic(self.code, self.what, self.span, self.label or self.reason, self.others, note, self.help)
        message = f"not shown: {self.what}"
        note = f"an example, unconfirmed: {self.example}" if self.example else ""
        return Diagnostic(self.code, message, self.span, self.label or self.reason, self.others, note, self.help)


def not_reached(kind: Property, what: str, span: Span) -> Obligation:
    return Obligation(kind, Verdict.UNKNOWN, what, span, "time ran out before this was decided", reached=False)


@record
class Resting:
    """State what a property takes for granted because others show it. by: those; where all of them are proved in the
    same proof, nothing is assumed.
    """

    text: str
    by: tuple[Property, ...]


@record
class Unused:
    """A condition of `where=` that launches check, and no proof uses.  why: a sentence without a full stop."""

    condition: str
    why: str
    span: Span

    def __str__(self) -> str:
        return f"where {self.condition}: {self.why}"


@record
class Findings:
    """Hold what one property found. assumed: what it takes for granted, in plain words, for people to judge. rests:
    what other properties show. unused: conditions of `where=` that are not used.
    """

    obligations: tuple[Obligation, ...] = ()
    assumed: tuple[str, ...] = ()
    rests: tuple[Resting, ...] = ()
    unused: tuple[Unused, ...] = ()


def assumptions(findings: Sequence[Findings], asked: Sequence[str]) -> tuple[str, ...]:
    """All that a proof takes for granted, less what it has shown itself.  asked: the properties that it is of."""
    found = dict.fromkeys(text for one in findings for text in one.assumed)
    not_shown = {o.kind for one in findings for o in one.obligations if o.verdict is not Verdict.PROVED}
    for rest in (rest for one in findings for rest in one.rests):
        if any(by in not_shown or SHOWN_WITH.get(by, str(by)) not in asked for by in rest.by):
            found[rest.text] = None
    return tuple(found)


@record
class Proof:
    """The answer of `k.prove()`.

    kernel       its name
    properties   that were asked about, with those that they rest on
    obligations  all of them, in the order of the text
    needs        preconditions that `where=` does not have, and with which more is shown
    assumed      what is taken for granted: `where=`, what a launch checks, `trust`
    stopped      after what it was stopped before all was asked: "10 s", "Ctrl-C"; '' where all was
    unused       conditions of `where=` that it does not use, each with the reason
    seconds      how long it took; 0 where it was known already
    """

    kernel: str
    properties: tuple[str, ...]
    obligations: tuple[Obligation, ...]
    assumed: tuple[str, ...] = ()
    seconds: float = field(default=0.0, compare=False)
    run: Callable[[Launch, float | None], Seen | None] | None = field(default=None, compare=False, repr=False)
    unused: tuple[Unused, ...] = ()
    stopped: str = ""

    @property
    def verdict(self) -> Verdict:
        found = {o.verdict for o in self.obligations}
        if Verdict.REFUTED in found:
            return Verdict.REFUTED
        return Verdict.UNKNOWN if Verdict.UNKNOWN in found or not self.properties else Verdict.PROVED

    @property
    def needs(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(need for o in self.open for need in o.needs))

    @property
    def offered(self) -> str:
        """The needs as a function that `where=` takes."""
        said = self.needs[0] if len(self.needs) == 1 else f"({', '.join(self.needs)})"
        return f"lambda {_names(self.needs)}: {said}"

    @property
    def open(self) -> tuple[Obligation, ...]:
        """Return what is not proved."""
        return tuple(o for o in self.obligations if o.verdict is not Verdict.PROVED)

    @property
    def proved_with_needs(self) -> bool:
        """Return whether `needs`, written into `where=`, are all that is missing."""
        return all(o.verdict is Verdict.UNKNOWN and o.needs for o in self.open)

    def replay(self) -> str:
        """Runs the launch that refutes it once more, on the CPU machine: what is seen there."""
        launch = next((o.launch for o in self.obligations if o.launch is not None), None)
        if launch is None or self.run is None:
            raise ValueError(f"`{self.kernel}` is {self.verdict}: there is no launch to replay")
        seen = self.run(launch, None)
        return f"with {launch}: " + ("nothing" if seen is None else f"{seen[0]}: {seen[1]}")

    def of(self, property: str) -> Proof:
        """The same of one property alone."""
        return replace(
            self, properties=(property,), obligations=tuple(o for o in self.obligations if o.kind == property)
        )

    def render(self, color: bool = False) -> str:
        count = len(self.obligations)
        shown = count - len(self.open)
        head = f"{self.kernel}: {self.verdict} ({', '.join(self.properties)}; {shown} of {count} obligations)"
        parts = [head]
        if self.verdict is Verdict.PROVED and self.assumed:
            parts[0] += "".join(f"\n  assumed: {text}" for text in self.assumed)
        parts[0] += "".join(f"\n  not used: {one}" for one in self.unused)
        parts += [render_diagnostic(o.diagnostic(), color) for o in worth_telling(self.open)]
        reached = [o for o in self.open if o.reached]
        left = len([o for o in reached if not o.needs]) - len(worth_telling(self.open))
        if left > 0 and any(o.kind is Property.PRECONDITION for o in self.open):
            parts.append(f"{left} more {'is' if left == 1 else 'are'} open, and may follow from that")
        if self.needs:
            missing = "what is missing" if self.proved_with_needs else "part of what is missing"
            parts.append(f"{missing} is this:\n  where={self.offered}")
        if self.stopped:
            parts.append(self._left())
        return "\n\n".join(parts)

    def _left(self) -> str:
        """Return what a proof that was stopped has not asked."""
        left = [f"  {o.kind}: {o.what}, line {o.span.line}" for o in self.open if not o.reached]
        more = [f"  and {len(left) - MOST_LEFT} more"] if len(left) > MOST_LEFT else []
        head = f"stopped after {self.stopped}; not reached, and neither shown nor refuted:"
        last = "allow more time: `prove(seconds=60)`, `snap prove --seconds 60`; None or 0 means no limit"
        return "\n".join([head, *left[:MOST_LEFT], *more, last])

    def to_json(self) -> dict:
        return {
            "kernel": self.kernel,
            "verdict": str(self.verdict),
            "properties": list(self.properties),
            "needs": list(self.needs),
            "assumed": list(self.assumed),
            "stopped": self.stopped or None,
            "unused": [{"condition": one.condition, "reason": one.why, "line": one.span.line} for one in self.unused],
            "seconds": round(self.seconds, 3),
            "obligations": [_json(o) for o in self.obligations],
        }

    __str__ = render


def worth_telling(found: Iterable[Obligation]) -> list[Obligation]:
    """Return what is worth a page: of an index that a precondition settles, the precondition says it all; and where a
    condition of `where=` says nothing, that comes first.
    """
    found = [o for o in found if o.reached]
    silent = [o for o in found if o.kind is Property.PRECONDITION]
    if silent:
        return silent
    return [o for o in found if not o.needs or o.kind is Property.RACES]


def _names(needs: Iterable[str]) -> str:
    import ast

    skipped = {"len", "min", "max"}
    found = {part.id for need in needs for part in ast.walk(ast.parse(need)) if isinstance(part, ast.Name)}
    return ", ".join(sorted(found - skipped))


def _json(o: Obligation) -> dict:
    told = diagnostic_json(o.diagnostic())
    told |= {"property": o.kind, "verdict": str(o.verdict), "what": o.what, "reason": o.reason}
    told["needs"] = list(o.needs)
    if not o.reached:
        told["reached"] = False
    if o.example:
        told["example"] = o.example
    if o.verdict is Verdict.PROVED:
        told |= {"code": None, "severity": "information", "message": f"shown: {o.what}"}
    if o.launch is not None:
        told["launch"] = {"blocks": o.launch.blocks, **dict(o.launch.args)}
        told["launch"] |= {f"{name}[{', '.join(map(str, index))}]": n for name, index, n in o.launch.data}
    return told
