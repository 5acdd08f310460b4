"""The order of fills (SNAP021): the stages of a pipeline are all counted or all numbered, those that are counted fill
it, and the numbers of those that fill it do not go back.

Input: the stages of one pipeline, as they come in the text.  Output: errors, or nothing.  Invariant: what is refused is
out of order, if the loops around it run more than once.  Non-goals: proving order: a number that the text does not show
is taken as it comes.  Whether boxes come as fills 0, 1, 2, ... without a gap, and each is used before its slot is
loaded again, is another question, about the whole kernel (sync/numbered.py); what goes back or starts over is refused
here, whoever fills the pipeline, and in a device function when that is defined.
"""

from __future__ import annotations

from snap.analysis.text import direction
from snap.check import rewrite
from snap.check.bindings import Pipeline, StageUse
from snap.check.state import Checker, Frame
from snap.check.storage import unit_stride
from snap.diag.error import Label
from snap.diag.span import Span
from snap.ir import nodes as ir
from snap.ir.effects import effects, loads, passed, written
from snap.ir.types import I32
from snap.ir.walk import statements

WHY = (
    "what waits for a fill, and for its slot to be free, counts on numbers that only go up over the pipeline's lifetime"
)


def note_stage(c: Checker, pipeline: Pipeline, number: ir.Expr | None, span: Span) -> StageUse:
    """Remember the stage; one that is counted among numbered ones, or the reverse, is out of order."""
    use = StageUse(number, span, tuple(c.frames[pipeline.frames :]))
    other = next((u for u in pipeline.stages if (u.number is None) != (number is None)), None)
    name = pipeline.memory.handle.name
    if other is not None:
        here, there = (
            ("counts on", "names the fill's number")
            if number is None
            else ("names the fill's number", "takes the next fill")
        )
        c.report(
            "SNAP021",
            f"stages of `{name}` are taken both in turn and by number",
            span,
            f"{here} here",
            (Label(other.span, f"{there} here"),),
            note="the next fill is the one after those counted, whatever numbers were named in between",
            help=f"name the number everywhere, `stage({name}, k)`, or nowhere",
        )
    pipeline.stages.append(use)
    return use


def in_order(c: Checker, pipeline: Pipeline, use: StageUse, handle: ir.Handle, inside: ir.Body, complete: bool) -> None:
    """A counted stage that is used is filled, and a numbered one that fills comes after the fills before it.  complete:
    `inside` is all that the stage contains, nothing in it was refused.
    """
    use.fills = _writes(inside, handle)
    if use.number is None and not use.fills and complete and _uses(inside, handle):
        name = pipeline.memory.handle.name
        c.report(
            "SNAP021",
            f"nothing is put into this stage of `{name}`",
            use.span,
            "the next fill, which stays empty",
            note=f"`with stage({name})` is the next fill each time, around what fills it and what uses it",
            help=f"use it where it is filled; or name the fill, `stage({name}, k)`, in every stage of `{name}`",
        )
    if use.number is None or not use.fills:
        return
    if _goes_back(c, pipeline, use) or _restarts(c, pipeline, use):
        return
    for earlier in pipeline.stages[: pipeline.stages.index(use)]:
        if earlier.fills and earlier.number is not None and not _exclusive(earlier, use) and _before(c, use, earlier):
            name = pipeline.memory.handle.name
            next_round = (
                isinstance(use.number, ir.Const)
                and isinstance(earlier.number, ir.Const)
                and use.number.value > earlier.number.value
            )
            c.report(
                "SNAP021",
                f"`{name}` is filled out of order: this fill comes {'before' if next_round else 'after'} one with a "
                f"{'lower' if next_round else 'higher'} number",
                use.span,
                "in the next round of the loop, that one follows" if next_round else "a lower number",
                (Label(earlier.span, "a lower number" if next_round else "filled here before"),),
                note=WHY,
                help=f"number the fills by the loop, or leave the number out: `with stage({name}) as s:`",
            )
            return


def _report(
    c: Checker, pipeline: Pipeline, use: StageUse, message: str, label: str, frame: Frame, there: str, help: str
) -> bool:
    labels = (Label(frame.span, there), Label(pipeline.memory.handle.span, "its fills count from here on"))
    c.report("SNAP021", message, use.span, label, labels, WHY, help)
    return True


# In a loop that counts down, or a number that does.
def _goes_back(c: Checker, pipeline: Pipeline, use: StageUse) -> bool:
    for frame in _loops(use):
        if frame.var is not None and direction(use.number, frame.var, c.text) < 0:
            name = pipeline.memory.handle.name
            return _report(
                c,
                pipeline,
                use,
                f"the fills of `{name}` are numbered downwards",
                "smaller in every round",
                frame,
                "of this loop",
                f"number them upwards, or leave the number out: `with stage({name}) as s:`",
            )
    return False


# Of two nested loops inside of the pipeline's lifetime, the number follows the inner one only.
def _restarts(c: Checker, pipeline: Pipeline, use: StageUse) -> bool:
    loops = _loops(use)
    read = rewrite.variables(use.number)
    for k, inner in enumerate(loops):
        if inner.var is None or inner.var not in read:
            continue
        for outer in loops[:k]:
            moving = [
                v for v in read if v.uid > outer.first_uid and v not in [f.var for f in loops[loops.index(outer) + 1 :]]
            ]
            if (
                outer.var in read
                or moving
                or any(v.name in c.assigned for v in read if v not in [f.var for f in loops])
            ):
                continue
            name = pipeline.memory.handle.name
            return _report(
                c,
                pipeline,
                use,
                f"the fills of `{name}` start over with every round of an outer loop",
                f"numbered by `{inner.var.name}` alone",
                outer,
                "starts it over",
                f"number them over both loops; or take counted stages, `with stage({name}) as s:`, each around a fill"
                " and its uses",
            )
    return False


def _loops(use: StageUse) -> list[Frame]:
    return [frame for frame in use.frames if frame.kind == "loop"]


def _exclusive(a: StageUse, b: StageUse) -> bool:
    """Whether they stand in different branches of one `if`."""
    for one, other in zip(a.frames, b.frames):
        if one is not other:
            return one.kind == other.kind == "if" and one.span == other.span
    return False


def _before(c: Checker, use: StageUse, earlier: StageUse) -> bool:
    """Whether the number of `use` is lower than that of `earlier`, or becomes so in the next round of a loop around
    both.
    """
    common = [frame for frame, other in zip(use.frames, earlier.frames) if frame is other and frame.kind == "loop"]
    if not common:
        low, high = _value(c, use, 0), _value(c, earlier, 1)
        return low is not None and high is not None and low < high
    if isinstance(use.number, ir.Const) and isinstance(earlier.number, ir.Const):
        return use.number.value != earlier.number.value
    var = common[-1].var
    if var is None:
        return False
    here, there = (unit_stride(u.number, var) for u in (use, earlier))
    return isinstance(here, ir.Const) and isinstance(there, ir.Const) and here.value < there.value


def _value(c: Checker, use: StageUse, end: int) -> int | None:
    """The first (end 0) or last number a stage takes, where the text tells; a loop is taken to run twice where its
    bounds do not say.
    """
    known: dict[int, ir.Expr] = {}
    for frame in _loops(use):
        if frame.var is None or frame.var not in rewrite.variables(use.number):
            continue
        start, stop, step = frame.decides
        guarded = any(f.kind == "if" and frame.var in rewrite.variables(*f.decides) for f in use.frames)
        if (
            guarded
            or not isinstance(start, ir.Const)
            or not isinstance(step, ir.Const)
            or not direction(use.number, frame.var, c.text)
        ):
            return None
        rounds = (
            range(start.value, stop.value, step.value)
            if isinstance(stop, ir.Const)
            else (start.value, start.value + step.value)
        )
        if not rounds:
            return None
        known[frame.var.uid] = ir.Const(rounds[-end], I32, span=use.span)
    value = rewrite.substitute(use.number, lambda v: known.get(v.uid))
    return int(value.value) if isinstance(value, ir.Const) else None


def _named(h: ir.Handle | None, handle: ir.Handle) -> bool:
    """Whether it is the handle, or a part of it."""
    while h is not None and h.uid != handle.uid:
        h = h.base
    return h is not None


def _writes(body: ir.Body, handle: ir.Handle) -> bool:
    """Whether these statements put anything into the memory that the handle names."""
    return any(_named(h, handle) for s in statements(body) for h in _written(s))


def _uses(body: ir.Body, handle: ir.Handle) -> bool:
    """Whether these statements look at it."""
    return any(_named(h, handle) for s in statements(body) for h in _read(s))


def _read(s: ir.Stmt) -> list[ir.Handle]:
    read = (*loads(s), *(e.access for e in effects(s) if e.access is not None and e.kind.reads))
    return [*(a.handle for a in read), *(handle for _, _, handle in passed(s))]


def _written(s: ir.Stmt) -> list[ir.Handle]:
    return [*(a.handle for a in written(s)), *(h for p, _, h in passed(s) if not p.handle.const)]
