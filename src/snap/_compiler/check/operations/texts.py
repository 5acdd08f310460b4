"""Bind the holes of CUDA text to operands: of `unsafe.cuda(...)`, and of an instruction of the user's own.

Input: the text, and the trees of its operands by name.  Output: an `Unsafe`, whose holes are values that the text
reads, registers that it writes, and memory.  Invariant: every hole has an operand, and every operand a hole; a text
reads and writes what is declared.  Non-goals: who may execute it, and its result (unsafe.py, instructions.py).
"""

from __future__ import annotations

import math
import string
from collections.abc import Container, Mapping
from dataclasses import dataclass, field

from snap._compiler.check.core import convert
from snap._compiler.check.core.bindings import Memory
from snap._compiler.check.core.dispatch import expression
from snap._compiler.check.core.names import as_type
from snap._compiler.check.core.operands import kept
from snap._compiler.check.core.state import PER_THREAD, Checker, ObjectUse
from snap._compiler.check.memory.accesses import access, one_value, own_memory
from snap._compiler.check.memory.storage import LocalArray, elements, fixed_registers, storage
from snap._compiler.check.operations.assignable import assignable_register, register_target
from snap._compiler.frontend import tree
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.types import THREAD1, Element, Scalar, as_array
from snap.diag.span import Span
from snap.surface import TYPES

WORDS = ("writes", "updates")  # options that name the operands which a text writes; `updates`: and reads


@dataclass
class Operands:
    """Hold what a text is given: values that it reads, registers that it writes, and memory, each by its hole.  sizes:
    of each name, how many elements it has, None if it is none of an array.
    """

    values: list[tuple[str, ir.Expr]] = field(default_factory=list)
    results: list[tuple[str, ir.Target]] = field(default_factory=list)
    memory: list[tuple[str, ir.MemAccess]] = field(default_factory=list)
    sizes: dict[str, LocalArray | None] = field(default_factory=dict)

    def unsafe(
        self, text: str, target: ir.Target | None, type: Element | None, cpu: object, span: Span, lanes: int = 0
    ) -> ir.Unsafe:
        """Make the statement."""
        values, memory, results = tuple(self.values), tuple(self.memory), tuple(self.results)
        return ir.Unsafe(text, values, memory, target, type, cpu, results, lanes, span=span)


def operands(c: Checker, named: Mapping[str, tree.Expr], writes: Mapping[str, bool], span: Span) -> Operands:
    """Check operands in the order in which they are written.  writes: those that the text writes, and whether it reads
    them before.
    """
    made = Operands()
    for name, item in named.items():
        mark = len(c.out)
        found = storage(c, item)
        made.sizes[name] = found if isinstance(found, LocalArray) else None
        if isinstance(found, Memory):
            _memory(c, made, name, item, found, name in writes, span)
        elif isinstance(found, LocalArray):
            _array(c, made, name, found, name in writes, writes.get(name, True), item.span)
        else:
            if writes.get(name, True):
                value = expression(c, item, PER_THREAD)
                value = convert.cast(value, value.type) if isinstance(value.type, Scalar) else value
                _keep(c, made, mark)
                made.values.append((name, value))
            if name in writes:
                made.results.append((name, register_target(c, item)[0]))
    return made


def _keep(c: Checker, made: Operands, mark: int) -> None:
    """Keep what came before as it was, if the evaluation of this operand has effects."""
    if len(c.out) > mark:
        made.values = list(zip((n for n, _ in made.values), kept(c, mark, *((v, THREAD1) for _, v in made.values))))
        made.memory = list(zip((n for n, _ in made.memory), kept(c, mark, *((a, THREAD1) for _, a in made.memory))))


def _memory(c: Checker, made: Operands, name: str, item: tree.Expr, found: Memory, named: bool, span: Span) -> None:
    if named:
        raise c.type_error(
            f"`{name}` is memory, which a text reads and, unless it is const, writes",
            item.span,
            help="leave it out of `writes=` and `updates=`: they name registers",
        )
    zeros = tuple(tree.Number(0, span=item.span) for _ in range(found.rank))
    made.memory.append((name, access(c, found, zeros, PER_THREAD, item.span)))
    own_memory(c, made.memory[-1][1], "`unsafe`")
    if not found.handle.const:
        one_value(c, found.handle, item.span)
        c.touches.append(ObjectUse(found.handle.obj, "`unsafe`", span))


def _array(c: Checker, made: Operands, name: str, array: LocalArray, writes: bool, reads: bool, span: Span) -> None:
    fixed_registers(c, array, "CUDA text")
    if writes:
        assignable_register(c, array.variable, span)
    for k, one in enumerate(elements(array, span)):
        if reads:
            made.values.append((f"{name}[{k}]", one))
        if writes:
            made.results.append((f"{name}[{k}]", ir.ElemTarget(one.array, one.index, span=span)))


def written_operands(c: Checker, options: dict[str, tree.Expr]) -> dict[str, bool]:
    """Take `writes=` and `updates=` out of the options: the names that they list, and whether the text reads them."""
    found: dict[str, bool] = {}
    for word in WORDS:
        given = options.pop(word, None)
        items = given.items if isinstance(given, tree.Sequence) else () if given is None else (given,)
        for item in items:
            name = item.value if isinstance(item, tree.Text) else None
            if name is None or name not in options:
                raise c.type_error(
                    f"`{word}=` names operands of the text"
                    + (f", and none is called `{name}`" if name is not None else ""),
                    item.span,
                    help=f'`{word}="d"` for `d=d`; several: `{word}=("c", "d")`',
                )
            if name in found:
                raise c.type_error(
                    f"`{name}` is named twice as written", item.span, help="`updates=` says that it is read as well"
                )
            found[name] = word == "updates"
    return found


def check_holes(c: Checker, text: str, made: Operands, span: Span, optional: Container[str] = ()) -> None:
    """Every hole has an operand, every operand a hole, and an array one for each of its elements or words.  optional:
    operands that need none.
    """
    try:
        holes = [(name.strip(), spec) for _, name, spec, _ in string.Formatter().parse(text) if name is not None]
    except ValueError as error:
        raise c.type_error(
            f"the text's braces do not match: {error}", span, help="a brace of CUDA's own is written twice: `{{`"
        ) from None
    rows = (made.values, made.results, made.memory)
    missing: dict[str, None] = dict.fromkeys(n for row in rows for n, _ in row if n not in optional)
    words: dict[str, Scalar] = {}
    for hole, spec in holes:
        name, bracket, rest = hole.partition("[")
        array = made.sizes.get(name)
        if spec:
            words[name] = _word(c, hole, (spec or "").strip(), array, span)
        if array is not None and spec and rest.rstrip("]").isdecimal():
            per = words[name].bytes // array.ref.elem.bytes
            at = range(int(rest[:-1]) * per, int(rest[:-1]) * per + per)
        elif hole in missing or hole in found_in(made):
            missing.pop(hole, None)
            continue
        else:
            at = range(0)
        taken = [f"{name}[{k}]" for k in at]
        if not taken or not all(one in found_in(made) for one in taken):
            raise _no_operand(c, hole, name, array, span)
        for one in taken:
            missing.pop(one, None)
    if missing:
        first = next(iter(missing))
        name = first.partition("[")[0]
        raise c.type_error(
            f"`{first}` is given and the text does not use it",
            span,
            help=f"name it in the text, `{{{first}}}`, or leave `{name}` out",
        )


def found_in(made: Operands) -> set[str]:
    """List the holes that there are operands for."""
    return {name for rows in (made.values, made.results, made.memory) for name, _ in rows}


def _no_operand(c: Checker, hole: str, name: str, array: LocalArray | None, span: Span) -> Exception:
    if array is not None:
        n = math.prod(array.ref.shape)
        return c.type_error(
            f"the text names `{{{hole}}}`, and `{name}` is an array of {n} registers",
            span,
            help=f"name its elements: `{{{name}[0]}}` to `{{{name}[{n - 1}]}}`; registers have no address",
        )
    return c.type_error(
        f"the text names `{{{hole}}}`, and nothing is given for it",
        span,
        help=f"add `{hole or 'name'}=...`; a brace of CUDA's own is written twice: `{{{{`",
    )


def _word(c: Checker, hole: str, spec: str, array: LocalArray | None, span: Span) -> Scalar:
    """Read the type behind the colon of a hole: the elements of an array are seen as wider words."""
    type = as_type(TYPES.get(spec))
    own = None if array is None else array.ref.elem
    if not isinstance(type, Scalar) or not isinstance(own, Scalar) or type.bits % own.bits:
        raise c.type_error(
            f"`{{{hole}:{spec}}}` sees an element as another type, and this is not a word of several elements",
            span,
            help="`{a[0]:u32}` is the first word of an array of `f16`, `bf16`, `i8` or `u8`",
        )
    if as_array(array.ref.var.type).shape[-1] * own.bits % type.bits:  # type: ignore[union-attr]
        raise c.type_error(
            f"rows of `{hole.partition('[')[0]}` are not whole words of `{spec}`", span, help="let rows be longer"
        )
    return type
