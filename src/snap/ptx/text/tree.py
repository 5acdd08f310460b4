"""PTX as a tree: what a text says, in the order in which it says it.

Invariant: everything that has a meaning is here, and nothing that has none (comments, blanks, how a number was
written); names are as they stand, not looked up.  Positions are neither compared nor printed.  "PTX ISA" names the
sections of NVIDIA's document.
"""

from __future__ import annotations

from dataclasses import field
from typing import Union

from snap.diag.span import Span
from snap.record import record

DEEP = 100  # how often operands, initial values and blocks stand in one another at most


def _here() -> Span:
    return field(default=Span("", 0, 0, 0, 0), compare=False, repr=False)


# ---- operands (PTX ISA, "Instruction Operands") ---------------------------------------------------------------------


@record
class Name:
    """A register, a variable, a label, a function, or a special register; `%laneid`, `%tid.x`, `$L__BB0_1`, `_`."""

    name: str
    span: Span = _here()


@record
class Number:
    """An integer, or the bits of a float.  kind: 'int', 'f32' (0fXXXXXXXX), 'f64' (0dXXXXXXXXXXXXXXXX)."""

    value: int
    kind: str = "int"
    span: Span = _here()


@record
class Sum:
    """A name and what is added to it: of addresses, and of initial values."""

    name: str
    offset: int
    span: Span = _here()


@record
class Vector:
    """`{%r1, %r2}`."""

    items: tuple[Operand, ...]
    span: Span = _here()


@record
class Pair:
    """`%p1|%p2`: two results of one instruction."""

    first: Operand
    second: Operand
    span: Span = _here()


@record
class Not:
    """`!%p1`."""

    operand: Operand
    span: Span = _here()


@record
class Address:
    """`[base]`, `[base+offset]`; of tensors also coordinates, `[map, {%r1, %r2}]`; of loads also what stands behind."""

    parts: tuple[Operand, ...]
    span: Span = _here()


@record
class Element:
    """`table[3]`: an element of a variable that has dimensions."""

    name: str
    index: int
    span: Span = _here()


@record
class Arguments:
    """`(param0, param1)`: what a call is given, and what it gives back."""

    items: tuple[Operand, ...]
    span: Span = _here()


Operand = Name | Number | Sum | Vector | Pair | Not | Address | Element | Arguments


# ---- statements -----------------------------------------------------------------------------------------------------


@record
class Variable:
    """A declaration; PTX ISA, "Variables".

    linking  'visible', 'extern', 'weak', 'common' or ''
    space    'reg', 'param', 'shared', 'global', 'const', 'local', 'tex'
    type     'b32', 'pred', ...; vector: '', 'v2', 'v4'
    pointer  of a parameter that is an address, what is said of it: '.ptr .global .align 16' as words
    copies   of registers, `%r<10>`: so many names, from 0
    dims     extents; None: not said, as in `smem[]`
    initial  what it begins with, nested as its dimensions are
    """

    linking: str
    space: str
    align: int | None
    type: str
    name: str
    vector: str = ""
    pointer: tuple[str, ...] = ()
    copies: int | None = None
    dims: tuple[int | None, ...] = ()
    initial: Initial | None = None
    attributes: tuple[str, ...] = ()
    span: Span = _here()


Initial = Union[Name, Number, Sum, "Initials", "Masked"]


@record
class Initials:
    items: tuple[Initial, ...]
    span: Span = _here()


@record
class Masked:
    """`0xFF(name)`: one byte of an address."""

    mask: int
    of: Initial
    span: Span = _here()


@record
class Instruction:
    """`@!%p1 ld.global.v4.f32 {...}, [%rd1+16];`: guard ('' or the predicate), negated, ('ld', 'global', ...)."""

    operation: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: str = ""
    negated: bool = False
    span: Span = _here()

    @property
    def name(self) -> str:
        return ".".join(self.operation)


@record
class Label:
    name: str
    span: Span = _here()


@record
class Targets:
    """`ts: .branchtargets a, b;` and `.calltargets`: where an indirect branch or call may go."""

    label: str
    kind: str
    names: tuple[str, ...]
    span: Span = _here()


@record
class Prototype:
    """`p: .callprototype (.param .b32 _) _ (.param .b64 _);`: of a call through a register."""

    label: str
    results: tuple[Variable, ...]
    parameters: tuple[Variable, ...]
    directives: tuple[Directive, ...] = ()
    span: Span = _here()


@record
class Location:
    """`.loc file line column`, and where the code was inlined: (file, line, column) with the function's label."""

    file: int
    line: int
    column: int
    function: Operand | None = None
    inlined_at: tuple[int, int, int] | None = None
    span: Span = _here()


@record
class Directive:
    """Everything else that begins with a dot: `.version 8.8`, `.target sm_90a`, `.pragma "nounroll"`, `.maxntid 128`.
    Its words are numbers, names and texts (with their quotation marks), as they stand.
    """

    name: str
    words: tuple[str, ...] = ()
    span: Span = _here()


@record
class Section:
    """`.section .debug_str { ... }`: what debuggers read, kept as words."""

    name: str
    lines: tuple[tuple[str, ...], ...]
    span: Span = _here()


@record
class Block:
    """`{ ... }`: names declared in it are its own."""

    body: tuple[Statement, ...]
    span: Span = _here()


Statement = Variable | Instruction | Label | Targets | Prototype | Location | Directive | Section | Block


@record
class Function:
    """`.entry` or `.func`; body None: only declared."""

    linking: str
    kind: str
    name: str
    results: tuple[Variable, ...]
    parameters: tuple[Variable, ...]
    directives: tuple[Directive, ...]
    body: Block | None
    span: Span = _here()


@record
class Alias:
    """`.alias a, b;`"""

    name: str
    of: str
    span: Span = _here()


Item = Directive | Variable | Function | Section | Alias


@record
class Module:
    """Hold one text. `directives` of the head (version, target, address size) are items like the others."""

    items: tuple[Item, ...]
    filename: str = field(default="<ptx>", compare=False, repr=False)

    def functions(self) -> dict[str, Function]:
        """Return the functions that have a body, by name."""
        return {f.name: f for f in self.items if isinstance(f, Function) and f.body is not None}

    def directive(self, name: str) -> tuple[str, ...]:
        """The words of the first directive of this name, or none."""
        return next((d.words for d in self.items if isinstance(d, Directive) and d.name == name), ())
