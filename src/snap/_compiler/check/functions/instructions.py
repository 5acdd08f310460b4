"""Check instructions of the user's own: a signature, a meaning, and the CUDA text that stands for it.

Input: the parameters of a function with `@instruction(...)`.  Output: the statements that its text is, which only
lowering takes; every other stage takes the meaning: the body or, where a NumPy function says it, that text with the
function beside it.  Invariant: the text has a hole for each parameter and for the result, and sees memory as the
parameter's type says.  Non-goals: whether text and meaning agree (`snap.check_instruction`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from snap._compiler.check.core import rewrite
from snap._compiler.check.core.bindings import IndexMap, Memory
from snap._compiler.check.core.specs import SpecKind
from snap._compiler.check.core.state import Abort, Checker
from snap._compiler.check.functions.signatures import ParamSpec
from snap._compiler.check.operations.texts import check_holes, found_in, operands
from snap._compiler.frontend import tree
from snap._compiler.frontend.definition import InstructionText
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.effects import effects
from snap._compiler.ir.engines import THREADS
from snap._compiler.ir.hardware import PARTS, WARP
from snap._compiler.ir.types import Array, Level
from snap._compiler.ir.walk import statements
from snap.diag.span import Span

RESULT = "result"


# T-Instruction: the text has a hole for each xi : ti @ pi, and for `result` of type t, G |- body : t @ q
#     => f : (t1 @ p1, ..., tn @ pn) -> t @ q
def text_of(c: Checker, specs: tuple[ParamSpec, ...]) -> ir.Body:
    """Make the statements of the text; none where it is wrong, which is then reported, or where there is none."""
    try:
        return _text_of(c, specs, c.definition.requires.instruction) if c.definition.requires.instruction else ()
    except Abort:
        return ()


def _text_of(c: Checker, specs: tuple[ParamSpec, ...], given: InstructionText) -> ir.Body:
    head = c.definition.tree.head
    results = set[str]() if c.definition.records is None else c.definition.records.result_names
    text = _flat_holes(given.text, specs, results)
    written = {
        p.name: p.name not in given.writes and p.name not in results for p in specs if p.spec.kind is SpecKind.REF
    }
    for name in given.writes:
        if name not in written:
            raise c.type_error(f"`writes=` names `ref` parameters, and `{name}` is none", head, help='`writes=("d",)`')
    touches = len(c.touches)
    made = operands(c, {p.name: tree.Name(p.name, span=p.span) for p in specs}, written, head)
    del c.touches[touches:]  # the meaning says what is done to memory
    for p in specs:
        if p.spec.kind is SpecKind.POINTER:
            _seen_as_declared(c, p)
    result: ir.Var | None = None
    if c.returns is not None:
        if any(p.name == RESULT for p in specs):
            help = "`{result}` is what the text gives back"
            raise c.type_error("a parameter of an instruction is not called `result`", head, help=help)
        result = c.var(RESULT, *c.returns, head)
        if re.search(r"(?<!\{)\{\s*result\b", text):
            made.results.append((RESULT, ir.VarTarget(result, span=head)))
            made.sizes[RESULT] = None
    optional = {p.name for p in specs if p.spec.kind is SpecKind.CONSTEXPR} | _extents(specs)
    check_holes(c, text, made, head, optional)
    c.uses_unsafe = True
    expression = result is not None and RESULT not in found_in(made)
    target = ir.VarTarget(result, span=head) if expression and result is not None else None
    lanes = 0
    if given.meaning is not None:
        lanes = _lanes(c, specs, head)
        c.trusted.append((head, f"`{c.definition.tree.name}` means what its NumPy function computes"))
    body: list[ir.Stmt] = [] if result is None else [ir.Declare(result, None, span=head)]
    type = c.returns[0] if expression and c.returns else None
    body.append(made.unsafe(text, target, type, given.meaning, head, lanes))
    if result is not None:
        body.append(ir.Return(ir.Read(result, result.type, span=head), span=head))
    return tuple(body)


def meaning_of(c: Checker, written: ir.Body, text: ir.Body) -> ir.Body:
    """Check the body of an instruction as its meaning; give what it lacks: the text, where a NumPy function says what
    that means.
    """
    given = c.definition.requires.instruction
    if given is None or c.errors:
        return ()
    if given.meaning is not None:
        if written:
            message = f"`{c.definition.tree.name}` has two meanings: its body, and `meaning=`"
            c.report("SNAP018", message, written[0].span, help="let the body be `pass`, or leave `meaning=` out")
        return text
    for s in statements(written):
        held = "shared memory" if isinstance(s, ir.DeclareShared) else "turns" if isinstance(s, ir.Turn) else ""
        if any(e.engine is not THREADS for e in effects(s)):
            held = "asynchronous work"
        if held:
            c.report(
                "SNAP017",
                f"the meaning of an instruction has no {held}",
                s.span,
                help="leave it to the function that uses the instruction",
            )
            break
    return ()


def _flat_holes(text: str, specs: tuple[ParamSpec, ...], results: Iterable[str]) -> str:
    """Name the fields of a result as their parameters are: `{result[0]}` and `{result.sum}`, one register each."""
    single = {p.name for p in specs if p.name in results and isinstance(p.spec.type, Array) and p.spec.type.size == 1}
    text = re.sub(
        r"\{\s*(\w+)\[(\d+)\]", lambda m: m[0] if f"{m[1]}.{m[2]}" not in results else f"{{{m[1]}.{m[2]}", text
    )
    return re.sub(r"\{\s*(\w+(?:\.\w+)+)(?!\[)", lambda m: f"{{{m[1]}[0]" if m[1] in single else m[0], text)


def _extents(specs: tuple[ParamSpec, ...]) -> set[str]:
    """Name the parameters that the shapes of others are made of: a text may do without them."""
    return {v.name for v in rewrite.variables(*(n for p in specs for n in p.spec.shape or ()))}


# The text gets an address, and counts from there: it sees what the meaning sees only where elements follow each other.
def _seen_as_declared(c: Checker, p: ParamSpec) -> None:
    memory = c.lookup(p.name)
    if not isinstance(memory, Memory):
        return
    name, map, obj = p.name, memory.map, memory.handle.obj
    lies = not obj.swizzle and obj.spread is ir.Spread.NONE
    if map is not None:
        lies &= len(map.params) == 1 and _step(map, memory.view.shape) == (
            1 if p.spec.record is None else p.spec.record.units
        )
    if not lies:
        raise c.fail(
            "SNAP015",
            f"the text of `{c.definition.tree.name}` takes `{name}` by its address, and its elements do not follow one"
            " another here",
            p.span,
            help="hand it out by `offset=`, without a swizzle, and whole where it has several dimensions",
        )


def _step(map: IndexMap, shape: tuple[ir.Expr, ...] | None) -> int | None:
    """Count the elements from what an index names to what the next one does; None where that is not always as many."""
    total, row = 0, 1  # elements of what one step of the dimension goes over; 0 where that is not known
    for k, e in reversed(list(enumerate(map.results))):
        step = _moves(e, map.params[0])
        if step is None or step and not row:
            return None
        total += step * row
        extent = None if shape is None else shape[k]
        row *= int(extent.value) if isinstance(extent, ir.Const) else 0
    return total


def _moves(e: ir.Expr, index: ir.Var) -> int | None:
    """Say by how much an expression grows with an index; None where that is not known."""
    if index not in rewrite.variables(e):
        return 0
    match e:
        case ir.Read():
            return 1
        case ir.Cast(value):
            return _moves(value, index)
        case ir.Binary("+" | "-" as op, left, right):
            of_left, of_right = _moves(left, index), _moves(right, index)
            if of_left is None or of_right is None:
                return None
            return of_left + of_right if op == "+" else of_left - of_right
        case ir.Binary("*", left, ir.Const(value=n)) if (of_left := _moves(left, index)) is not None:
            return of_left * int(n)
    return None


def _lanes(c: Checker, specs: tuple[ParamSpec, ...], span: Span) -> int:
    """Count the lanes that a meaning in NumPy is given together: those of the group that executes the instruction."""
    p = c.place.privilege
    pointer = next((one for one in specs if one.spec.kind is SpecKind.POINTER), None)
    if p.level is not Level.THREAD or p.n not in (1, *PARTS, WARP) or pointer is not None:
        what = f"`{p}` is none" if pointer is None else f"`{pointer.name}` is memory"
        raise c.type_error(
            f"a meaning in NumPy takes registers of a warp, or of a part of one, and {what}",
            span if pointer is None else pointer.span,
            help="leave `meaning=` out, and write it as the body, in Snap",
        )
    return p.n
