"""Names, memory, expressions and targets of the typed IR; what they mean is said at the head of
`snap._compiler.ir.nodes`, which has them all.
"""

from __future__ import annotations

from dataclasses import field

from snap._compiler.ir.types import Array, Element, Place, Privilege, Scalar, Space, ValueType, told_apart
from snap._compiler.ir.word import Word
from snap.diag.span import Span
from snap.record import record as node

# ---- names ----------------------------------------------------------------------------------------------------------


@node
class Var:
    """A variable or local array; compiler temporaries have `temp` set."""

    uid: int
    name: str
    type: ValueType
    privilege: Privilege
    temp: bool = False
    span: Span = field(compare=False, kw_only=True)


class Spread(Word):
    """Name how the blocks of a cluster hold shared memory."""

    NONE = ""  # each block has its own; so it is of global memory, too
    ACROSS = "across"  # one array, of which each block has a part
    COPIES = "copies"  # one value, of which each block has a copy


@node
class MemObject:
    """Storage.  `offset` is the byte offset of a shared array in its function's frame; `shape` None means one dimension
    of unknown length.

    spread: how the blocks of a cluster hold it.  `shape`, `offset` and the size are those of one block's part, or copy.
    depth: of a pipeline, how many slots it has (its leading dimension); 0 for plain memory.  lag: how many stages may
    go by before one that wgmma in flight read is released; None leaves it to the compiler.  extent: of shared memory
    whose size a launch decides, the first extent, over the kernel's parameters; in `shape` stands the most that it may
    be, which is what everyone reasons with.  Such arrays lie from AT_LAUNCH on in their kernel's frame, and share their
    bytes with no other array.  part: of copies that only some blocks of the cluster hold together, how many they are,
    and how far their ranks lie apart; the others hold other values.
    """

    uid: int
    name: str
    elem: Element
    shape: tuple[Expr, ...] | None
    const: bool
    space: Space
    privilege: Privilege
    offset: int = 0
    swizzle: int = 0
    spread: Spread = Spread.NONE
    depth: int = 0
    lag: int | None = None
    extent: Expr | None = None
    part: tuple[int, int] | None = None
    span: Span = field(compare=False, kw_only=True)


AT_LAUNCH = 1 << 24  # bytes into a frame, beyond all arrays of constant size


class Origin(Word):
    """Name the operation that made a name for memory."""

    PARAM = "param"
    SHARED = "shared"
    PARTITION = "partition"
    CLAIM = "claim"
    STAGE = "stage"


@node
class Handle:
    """A name for (a part of) an object at a privilege; `base` is what was lowered."""

    uid: int
    name: str
    obj: MemObject
    privilege: Privilege
    const: bool
    origin: Origin
    base: Handle | None = None
    disjoint: bool = False
    span: Span = field(compare=False, kw_only=True)


@node
class MemView:
    """An object seen as an array of `elem`; for another elem than the object's own, bytes are reinterpreted in
    place.
    """

    obj: MemObject
    elem: Element
    shape: tuple[Expr, ...] | None


@node
class MemAccess:
    """One element of memory: `view[index]`.  len(index) == len(view.shape), or 1 where shape is None.

    block: of memory spread over a cluster, the rank of the block whose part is meant; None for this thread's own block.
    """

    view: MemView
    index: tuple[Expr, ...]
    handle: Handle
    block: Expr | None = None
    span: Span = field(compare=False, kw_only=True)


@node
class Tile:
    """A box of shared memory: `shape` elements, one number for each dimension of `access.view`, from
    `access.index` on.
    """

    access: MemAccess
    shape: tuple[int, ...]


@node
class ArrayRef:
    """A local array seen with this element type and shape (its own, or those of `.view`).

    at: of a window, its leading indices; `shape` is then that of what is left.  Whole arrays only have elements: an
    element of a window is one of the array.
    """

    var: Var
    elem: Element
    shape: tuple[int, ...]
    at: tuple[Expr, ...] = ()

    @property
    def around(self) -> tuple[int, ...]:
        """The extents of the dimensions that `at` chooses from."""
        return self.var.type.shape[: len(self.at)] if isinstance(self.var.type, Array) else ()

    def whole(self) -> ArrayRef:
        """All of the array that a window is in."""
        return ArrayRef(self.var, self.elem, (*self.around, *self.shape)) if self.at else self

    def element(self, index: tuple[Expr, ...], span: Span) -> Elem:
        return Elem(self.whole(), (*self.at, *index), self.elem, span=span)


@node
class Table:
    """Constants captured from outside, `data` element by element, row by row, as they lie in memory.  Tables are equal
    where their contents are (`digest`).
    """

    name: str
    elem: Scalar
    shape: tuple[int, ...]
    digest: str
    data: bytes = field(compare=False, repr=False)

    @property
    def bytes(self) -> int:
        return len(self.data)


def extents(shape: tuple[Expr, ...] | None) -> tuple[int, ...]:
    """A shape that consists of constants, as that of shared memory does."""
    return tuple(int(n.value) for n in shape or () if isinstance(n, Const))


# ---- expressions ----------------------------------------------------------------------------------------------------


@node
class Const:
    """`weak` marks a literal that takes the type of what it meets; it means nothing after the checker.

    Constants are equal where a program cannot tell them apart: 0.0 and -0.0 are two, a NaN is itself.
    """

    value: int | float | bool
    type: Scalar
    weak: bool = field(default=False, compare=False)
    span: Span = field(compare=False, kw_only=True)

    def __eq__(self, other: object) -> bool:
        return (
            self.type == other.type and told_apart(self.value) == told_apart(other.value)
            if type(other) is Const
            else NotImplemented
        )

    def __hash__(self) -> int:
        return hash((told_apart(self.value), self.type))


@node
class Read:
    """The value of a scalar or vector variable."""

    var: Var
    type: ValueType
    span: Span = field(compare=False, kw_only=True)


@node
class Elem:
    """One element of a local array."""

    array: ArrayRef
    index: tuple[Expr, ...]
    type: Element
    span: Span = field(compare=False, kw_only=True)


@node
class ArrayValue:
    """A whole local array, as an argument passed by value."""

    array: ArrayRef
    type: Array
    span: Span = field(compare=False, kw_only=True)


@node
class Component:
    """x, y, z or w of a vector."""

    value: Expr
    lane: int
    type: Scalar
    span: Span = field(compare=False, kw_only=True)


@node
class MakeVector:
    """A vector of its components; or a local array of all its elements, row by row, as the first value of a
    declaration.
    """

    items: tuple[Expr, ...]
    type: ValueType
    span: Span = field(compare=False, kw_only=True)


@node
class Load:
    """cache, l2: how the caches should treat it (`ir.operations`: LOAD_CACHES, L2_EVICTION); '' for no wish."""

    access: MemAccess
    type: Element
    cache: str = ""
    l2: str = ""
    span: Span = field(compare=False, kw_only=True)


@node
class Lookup:
    """One element of a table: nobody writes it, so this is as pure as a number."""

    table: Table
    index: tuple[Expr, ...]
    type: Scalar
    span: Span = field(compare=False, kw_only=True)


@node
class Unary:
    """op: '-', '~', 'not'; '-' and '~' of a vector, component by component."""

    op: str
    value: Expr
    type: Element
    span: Span = field(compare=False, kw_only=True)


@node
class Binary:
    """op: + - * / % // mod << >> & | ^ ; operands and result have `type` (a shift's right operand is any integer).
    Vectors are taken component by component: an operand is of `type`, or a scalar that meets every component.

    Of integers `/` rounds toward zero, and `%` is what it leaves, as in C; `//` rounds down, and `mod` is what that
    leaves, as Python's `//` and `%` do.  The checker writes the latter only where a signed operand may be negative.

    exact: of the division that says where a wide view of a part begins.  What is left over makes the access misaligned.
    """

    op: str
    left: Expr
    right: Expr
    type: Element
    exact: bool = False
    span: Span = field(compare=False, kw_only=True)


@node
class Compare:
    """op: < <= > >= == != ; the operands share one type, the result is bool."""

    op: str
    left: Expr
    right: Expr
    type: Scalar
    span: Span = field(compare=False, kw_only=True)


@node
class Logical:
    """op: 'and', 'or'; operands are bool; the right one is evaluated only where it decides."""

    op: str
    left: Expr
    right: Expr
    type: Scalar
    span: Span = field(compare=False, kw_only=True)


@node
class Select:
    """`then if cond else other`; only the chosen operand is evaluated."""

    cond: Expr
    then: Expr
    other: Expr
    type: Element
    span: Span = field(compare=False, kw_only=True)


@node
class Cast:
    """Value conversion, C's rules: float to integer truncates, integer to narrower wraps, anything to bool is `!= 0`,
    to narrower float rounds to even.  Of a vector, component by component.
    """

    value: Expr
    type: Element
    span: Span = field(compare=False, kw_only=True)


@node
class Bitcast:
    """The same bits as another type of the same size."""

    value: Expr
    type: Scalar
    span: Span = field(compare=False, kw_only=True)


@node
class Math:
    """A pure function of `snap._compiler.ir.operations.MATH`; `fast` asks for the approximate form.  Of vectors,
    component by component, as in `Binary`.
    """

    op: str
    args: tuple[Expr, ...]
    type: Element
    fast: bool = False
    span: Span = field(compare=False, kw_only=True)


@node
class UnitId:
    """Index of `target`'s unit within the current group; the head of `nodes.py` says how it is computed."""

    target: Privilege
    place: Place
    type: Scalar
    span: Span = field(compare=False, kw_only=True)


@node
class Lane:
    """Index of the thread within its `among` threads of the block, whose first one's number is a multiple of that: in a
    warp or a warpgroup, whatever the current group is.
    """

    among: int
    type: Scalar
    span: Span = field(compare=False, kw_only=True)


@node
class UnitCount:
    """Number of `target`'s units in the current group; only for counts that are known at launch."""

    target: Privilege
    place: Place
    type: Scalar
    span: Span = field(compare=False, kw_only=True)


Expr = (
    Const
    | Read
    | Elem
    | ArrayValue
    | Component
    | MakeVector
    | Load
    | Lookup
    | Unary
    | Binary
    | Compare
    | Logical
    | Select
    | Cast
    | Bitcast
    | Math
    | UnitId
    | UnitCount
    | Lane
)


# ---- targets of assignment ------------------------------------------------------------------------------------------


@node
class VarTarget:
    var: Var
    span: Span = field(compare=False, kw_only=True)


@node
class ElemTarget:
    array: ArrayRef
    index: tuple[Expr, ...]
    span: Span = field(compare=False, kw_only=True)


@node
class MemTarget:
    """cache, l2: how the caches should treat it (`ir.operations`: STORE_CACHES, L2_EVICTION); '' for no wish."""

    access: MemAccess
    cache: str = ""
    l2: str = ""
    span: Span = field(compare=False, kw_only=True)


@node
class ComponentTarget:
    """One component of a vector that is itself a target."""

    of: VarTarget | ElemTarget | MemTarget
    lane: int
    span: Span = field(compare=False, kw_only=True)


Target = VarTarget | ElemTarget | MemTarget | ComponentTarget
