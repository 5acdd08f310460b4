"""Write branches, loops and returns, and compute before a loop what it need not repeat.

Input: control statements.  Output: lines of source.  Invariant: `w.mask` holds the lanes that go on.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial

from snap._compiler.ir import nodes as ir
from snap._compiler.ir.effects import assigned
from snap._compiler.ir.types import Array, Vector, scalar_of
from snap._compiler.ir.walk import children, own_expressions, statements, walk
from snap.machine.source.bodies import arm, pause
from snap.machine.source.counted import stepped, tested
from snap.machine.source.expressions import added, dims, expr, hoisting, masked, of_parameters, split_index, view
from snap.machine.source.facts import GRID, continues, leaves, returns
from snap.machine.source.variables import assign
from snap.machine.source.writing import Writing

# ---- control flow ---------------------------------------------------------------------------------------------------


def assignment(w: Writing, s: ir.Assign) -> None:
    assign(w, s.target, expr(w, s.value))
    if isinstance(s.target, ir.MemTarget) or any(isinstance(part, ir.Load) for part in walk(s.value)):
        pause(w)


def asserted(w: Writing, s: ir.Assert) -> None:
    w.emit(f"C.check_assert({expr(w, s.cond)}, {w.mask}, {w.site(s.span, '')}, {s.message!r})")


def leave_loop(w: Writing, s: ir.Break) -> None:
    w.mask = "False"


def next_round(w: Writing, s: ir.Continue) -> None:
    w.emit(f"{w.loops[-1]} = union({w.loops[-1]}, {w.mask})")
    w.mask = "False"


def branch(w: Writing, s: ir.If) -> None:
    cond = expr(w, s.cond)
    leaving = leaves(s.then), leaves(s.other)
    if w.facts.varies(s.cond) == GRID:
        masks = w.mask, w.mask
        tested(w, s, w.mask, w.mask)
        heads = f"if {cond}:", "else:"
    else:
        masks = w.fresh("m"), w.fresh("m")
        w.emit(f"{masks[0]}, {masks[1]} = branch({w.mask}, {cond})")
        tested(w, s, w.mask, masks[0])
        heads = f"if {masks[0]} is not False:", f"if {masks[1]} is not False:"
    after = w.fresh("m") if any(leaving) else w.mask
    if any(leaving):
        w.emit(f"{after} = False")
    for head, body, mask in zip(heads, (s.then, s.other), masks):
        if not body and not any(leaving) and head != f"if {cond}:":
            continue
        with w.indented(head):
            end = arm(w, body, mask)
            if any(leaving):
                w.emit(f"{after} = union({after}, {end})" if end != "False" else "pass")
    w.mask = after


def loop_for(w: Writing, s: ir.For) -> None:
    start, stop, step = (w.bind(expr(w, e)) for e in (s.start, s.stop, s.step))
    name = w.variable(s.var)
    uniform = max(map(w.facts.varies, (s.start, s.stop, s.step))) == GRID
    leaving = leaves(s.body)
    alive = w.bind(w.mask, "m") if leaving else w.mask
    asked = w.bind(w.mask, "m") if w.counted else w.mask
    with invariants(w, s):
        if uniform:
            head = f"for {name} in span({start}, {stop}, {step}, {w.dtype(scalar_of(s.var.type))}):"
            running = alive
        else:
            running = w.fresh("m")
            head = (
                f"for {name}, {running} in loop({w.mask}, {start}, {stop}, {step}, {w.dtype(scalar_of(s.var.type))}):"
            )
        w.declared[s.var.uid] = running
        with w.indented(head):
            if leaving and not uniform:
                w.emit(f"{running} = overlap({running}, {alive})")
            tested(w, s, asked, running, again=True)
            if leaving and not uniform:
                with w.indented(f"if {running} is False:"):
                    w.emit("continue")
            pause(w)
            end = loop_body(w, s.body, running)
            stepped(w, s, end, asked)
            if leaving:
                w.emit(f"{alive} = {end}" if uniform else f"{alive} = minus({alive}, minus({running}, {end}))")
                with w.indented(f"if {alive} is False:"):
                    w.emit("break")
    tested(w, s, asked, "False")
    after_loop(w, s.body)


def loop_body(w: Writing, body: ir.Body, mask: str) -> str:
    """Emit it; returns the lanes that go on to the next iteration."""
    goes_on = continues(body)
    kept = w.bind("False", "m") if goes_on else ""
    w.loops.append(kept)
    end = arm(w, body, mask)
    w.loops.pop()
    return f"union({end}, {kept})" if goes_on else end


def after_loop(w: Writing, body: ir.Body) -> None:
    if returns(body):
        w.mask = w.bind(f"minus({w.mask}, done)", "m")


def loop_while(w: Writing, s: ir.While) -> None:
    uniform = w.facts.varies(s.cond) == GRID and not leaves(s.body)
    count, seen = w.bind("0", "n"), w.bind("None", "n")
    going = w.mask if uniform else w.bind(w.mask, "m")
    outside = {v.uid: v for t in statements((s,)) for v in assigned(t) if v.uid in w.declared}
    state = [f"tuple({w.variable(v)})" if isinstance(v.type, Array) else w.variable(v) for v in outside.values()]
    with invariants(w, s), w.indented("while True:"):
        pause(w)
        arm(w, s.pre, going)
        with masked(w, going):
            cond = expr(w, s.cond)
        if uniform:
            tested(w, s, going, going)
            with w.indented(f"if not {cond}:"):
                w.emit("break")
            running = going
        else:
            running = w.bind(f"narrow({going}, {cond})", "m")
            tested(w, s, going, running)
            with w.indented(f"if {running} is False:"):
                w.emit("break")
        w.emit(f"{count} += 1")
        with w.indented(f"if {count} > C.{'alertness' if s.number in w.waiting else 'patience'}:"):
            waits, kept = s.number in w.waiting, ", ".join((running, *state))
            watched = f"{waits}, {w.site(s.span, '')}, ({kept},), {seen}"
            w.emit(f"{seen} = C.watch({count}, {watched})")
        end = loop_body(w, s.body, running)
        if not uniform:
            w.emit(f"{going} = {end}")
            with w.indented(f"if {going} is False:"):
                w.emit("break")
    after_loop(w, s.body)


def leave(w: Writing, s: ir.Return) -> None:
    value = None if s.value is None else expr(w, s.value)
    if w.single_return:
        w.emit(f"return {value}")
    else:
        w.emit(f"done = union(done, {w.mask})")
        if s.value is not None:
            w.emit(f"result = select{'_vector' if isinstance(s.value.type, Vector) else ''}({w.mask}, {value}, result)")
    w.mask = "False"


# ---- work that a loop need not repeat -------------------------------------------------------------------------------


@contextmanager
def invariants(w: Writing, loop: ir.For | ir.While):
    """Compute what does not change in the loop before it, and prepare the indices of its loads."""
    inside = list(statements((loop,)))
    changed = {v.uid for s in inside for v in assigned(s)}
    born = {s.obj.uid for s in inside if isinstance(s, ir.DeclareShared)}
    found: dict[int, str] = {}
    loads: list[ir.Load] = []

    def visit(e: ir.Expr) -> None:
        if id(e) in w.hoisted or id(e) in found or isinstance(e, (ir.Const, ir.Read, ir.UnitId, ir.UnitCount, ir.Lane)):
            return
        if w.facts.invariant(e, changed):
            found[id(e)] = w.bind(expr(w, e), "h")
            return
        if isinstance(e, ir.Load) and e.access.view.obj.uid not in born:
            loads.append(e)
        for child in children(e):
            visit(child)

    for s in inside:
        if s is not loop or isinstance(loop, ir.While):
            for e in own_expressions(s):
                visit(e)
    before = w.prepared
    w.prepared = dict(before)
    with hoisting(w, found):
        if w.prepares:
            for e in loads:
                prepare(w, e, changed)
        yield
    w.prepared = before


def prepare(w: Writing, e: ir.Load, changed: set[int]) -> None:
    """Check and linearise the part of a load's index that the loop does not change."""
    a = e.access
    if id(e) in w.prepared or a.block is not None or not (a.view.shape is None or of_parameters(w, a.view.shape)):
        return
    split = [split_index(w, i, lambda term: w.facts.invariant(term, changed)) for i in a.index]
    found = [pair for pair in split if pair is not None]
    if len(found) < len(split) or not any(kept for kept, _ in found):
        return
    kept = ", ".join(added(w, terms, partial(expr, w)) if terms else "None" for terms, _ in found)
    name = w.bind(f"{view(w, a.view)}.prepare(({kept},), {dims(w, a.view)}, {w.mask})", "p")
    w.prepared[id(e)] = (name, [terms for _, terms in found])
