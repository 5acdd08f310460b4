"""The CUDA tree: the small part of CUDA C++ that generated code consists of.

Types are CUDA type names; expressions carry no types.  `printer.py` gives the tree its only textual form, parentheses
included.
"""

from __future__ import annotations

from dataclasses import field
from typing import Protocol

from snap.record import record as node

# ---- expressions ----------------------------------------------------------------------------------------------------


@node
class Name:
    """An identifier, or a builtin such as `threadIdx.x`."""

    text: str


@node
class Literal:
    """A token that is no integer: `1.5f`, `true`."""

    text: str


@node
class Integer:
    """An integer literal; suffix '', 'u', 'll' or 'ull'."""

    value: int
    suffix: str = ""


@node
class Unary:
    """op: - ~ ! & *"""

    op: str
    value: Expr


@node
class Binary:
    op: str
    left: Expr
    right: Expr


@node
class Ternary:
    cond: Expr
    then: Expr
    other: Expr


@node
class Call:
    function: str
    args: tuple[Expr, ...]


@node
class Index:
    base: Expr
    index: Expr


@node
class Member:
    value: Expr
    name: str


@node
class Cast:
    """`(type)value`; `implicit` says that a variable of this type may be initialized or assigned without writing the
    cast.
    """

    type: str
    value: Expr
    implicit: bool = False


@node
class Reinterpret:
    type: str
    value: Expr


@node
class Braces:
    """`type{items}`; without a type, an initializer."""

    type: str
    items: tuple[Expr, ...]


@node
class Raw:
    """Text of the user's (`unsafe`), taken as it is, with expressions in its holes."""

    parts: tuple[str | Expr, ...]


class Cell(Protocol):
    """Something whose spelling is known only after its scope has been lowered."""

    def expression(self, signed: bool) -> Expr: ...


@node
class Deferred:
    """Whatever the cell turns out to be: a name where it was worth one, else the expression itself."""

    cell: Cell = field(compare=False)
    signed: bool = True


Expr = (
    Name
    | Literal
    | Integer
    | Unary
    | Binary
    | Ternary
    | Call
    | Index
    | Member
    | Cast
    | Reinterpret
    | Braces
    | Raw
    | Deferred
)

# ---- statements -----------------------------------------------------------------------------------------------------

Body = tuple["Stmt", ...]


@node
class Declare:
    """`const type name[dims] = init;`"""

    type: str
    name: str
    init: Expr | None = None
    const: bool = False
    dims: tuple[int, ...] = ()
    align: int = 0


@node
class SharedBuffer:
    """The block's shared memory: static with a size, dynamic (given at launch) without."""

    name: str
    size: int | None
    align: int


@node
class Assign:
    """op: = += -= *= ..."""

    target: Expr
    op: str
    value: Expr


@node
class Evaluate:
    value: Expr


@node
class If:
    cond: Expr
    then: Body
    other: Body = ()


@node
class For:
    """`unroll`: None says nothing, 0 fully, n by n."""

    type: str
    name: str
    start: Expr
    cond: Expr
    step: Stmt
    body: Body
    unroll: int | None = None


@node
class While:
    cond: Expr
    body: Body


@node
class Block:
    body: Body


@node
class Break:
    pass


@node
class Continue:
    pass


@node
class Return:
    value: Expr | None = None


@node
class Comment:
    text: str


@node
class RawStatement:
    """Text of the user's (`unsafe`) that stands as a statement."""

    text: Raw


Stmt = (
    Declare
    | SharedBuffer
    | Assign
    | Evaluate
    | If
    | For
    | While
    | Block
    | Break
    | Continue
    | Return
    | Comment
    | RawStatement
)

# ---- declarations ---------------------------------------------------------------------------------------------------


@node
class Param:
    """`type name`, or with dims a reference to an array: `type (&name)[dims]`."""

    type: str
    name: str
    dims: tuple[int, ...] = ()


@node
class Function:
    """`specifiers returns bounds name(params) { body }`; `bounds` are launch bounds and cluster size."""

    specifiers: str
    returns: str
    bounds: str
    name: str
    params: tuple[Param, ...]
    body: Body


@node
class Struct:
    """An aligned aggregate of members (type, name, dims)."""

    name: str
    align: int
    members: tuple[tuple[str, str, tuple[int, ...]], ...]


@node
class Module:
    """helpers are texts of whole functions, each used by something below it."""

    header: tuple[str, ...]
    includes: tuple[str, ...]
    structs: tuple[Struct, ...]
    helpers: tuple[str, ...]
    functions: tuple[Function, ...]
