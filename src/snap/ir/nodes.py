"""The typed IR: what a checked kernel means, and the one thing every later stage consumes.

*Evaluation.*  Expressions are pure: reading memory (`Load`) has no effect, and nothing in an expression can diverge, block or write.  All
effects are statements, run in order.  Calls, collectives and atomics are statements that assign their results; the checker takes them out of the
expressions they were written in, left to right, before the statement that uses them (`While.pre` holds those of a loop's condition, and runs
before each test).  `Logical` and `Select` are C's: the operand not chosen is not evaluated.  Types are explicit: both operands of `Binary` and
`Compare` have one type (shifts: the left one's), every conversion is a `Cast`, every index is an integer.  Integer arithmetic is CUDA's: two's
complement that wraps, `/` and `%` truncate toward zero.

*Threads.*  A statement is executed by every thread of the current group.  `Group` replicates its body over groups, `Split` gives disjoint units
different bodies that run in parallel; in both, the body's `place` is the privilege class inside.  Positions are relative: entering `Group(l[n])`
takes the index at level l modulo n, entering a split case subtracts its offset, and a call enters its callee as if in a group of what the
callee requires.  `UnitId(p)` is then: start with the index at the place's highest level, and on the way down to p's level multiply by the count
there and add the index there; at the end divide by p.n.  (At grid level the index is 0; the highest level's own index is the relative one.)

*Names.*  `Var` is one declaration (identity is its uid, not its name).  Scopes are the blocks: a variable declared in a body ends with it.
A variable of privilege p holds one value per unit of p; the checker has proved that all threads of a unit store the same one.

*Memory.*  `MemObject` is storage: a kernel's array, a shared array, or, inside a device function, whatever the call binds to its pointer
parameter.  `Handle` is a name for it at a privilege: the object itself, or what `partition`, `claim`, `tile` or `.view` called it.  Index
functions are already applied: `MemAccess.index` addresses `MemAccess.view`, the object seen as an array of `view.elem` with shape `view.shape`
(row-major), or as one dimension where shape is None.  The handle says through which name, and so at which privilege, the access is made.

*Synchronization.*  The typed IR holds no barrier of the compiler's; the synchronized IR is the same tree with `Sync` statements.  What the user
asked for (`intrinsic.syncthreads()`) is a `Collective` in both.

Every node is immutable and has a span; spans do not count in comparisons.
"""

from __future__ import annotations

from dataclasses import field

from snap.diag.span import Span
from snap.ir.record import record as node
from snap.ir.types import Array, Element, Level, Place, Privilege, Scalar, Space, ValueType


def _span() -> Span:
    return field(compare=False, kw_only=True)


# ---- names -------------------------------------------------------------------------------------------------------------------------------


@node
class Var:
    """A variable or local array; compiler temporaries have `temp` set."""

    uid: int
    name: str
    type: ValueType
    privilege: Privilege
    temp: bool = False
    span: Span = _span()


@node
class MemObject:
    """Storage.  `offset` is the byte offset of a shared array in its function's frame; `shape` None means one dimension of unknown length."""

    uid: int
    name: str
    elem: Element
    shape: tuple[Expr, ...] | None
    const: bool
    space: Space
    privilege: Privilege
    offset: int = 0
    swizzle: int = 0
    span: Span = _span()


@node
class Handle:
    """A name for (a part of) an object at a privilege.  origin: 'param', 'shared', 'partition', 'claim'; `base` is what was lowered."""

    uid: int
    name: str
    obj: MemObject
    privilege: Privilege
    const: bool
    origin: str
    base: Handle | None = None
    disjoint: bool = False
    span: Span = _span()


@node
class MemView:
    """An object seen as an array of `elem`; for another elem than the object's own, bytes are reinterpreted in place."""

    obj: MemObject
    elem: Element
    shape: tuple[Expr, ...] | None


@node
class MemAccess:
    """One element of memory: `view[index]`.  len(index) == len(view.shape), or 1 where shape is None."""

    view: MemView
    index: tuple[Expr, ...]
    handle: Handle
    span: Span = _span()


@node
class ArrayRef:
    """A local array seen with this element type and shape (its own, or those of `.view`)."""

    var: Var
    elem: Element
    shape: tuple[int, ...]


# ---- expressions -------------------------------------------------------------------------------------------------------------------------


@node
class Const:
    """`weak` marks a literal that takes the type of what it meets; it means nothing after the checker."""

    value: int | float | bool
    type: Scalar
    weak: bool = field(default=False, compare=False)
    span: Span = _span()


@node
class Read:
    """The value of a scalar or vector variable."""

    var: Var
    type: ValueType
    span: Span = _span()


@node
class Elem:
    """One element of a local array."""

    array: ArrayRef
    index: tuple[Expr, ...]
    type: Element
    span: Span = _span()


@node
class ArrayValue:
    """A whole local array, as an argument passed by value."""

    array: ArrayRef
    type: Array
    span: Span = _span()


@node
class Component:
    """x, y, z or w of a vector."""

    value: Expr
    lane: int
    type: Scalar
    span: Span = _span()


@node
class MakeVector:
    items: tuple[Expr, ...]
    type: Element
    span: Span = _span()


@node
class Load:
    access: MemAccess
    type: Element
    span: Span = _span()


@node
class Unary:
    """op: '-', '~', 'not'."""

    op: str
    value: Expr
    type: Scalar
    span: Span = _span()


@node
class Binary:
    """op: + - * / % << >> & | ^ ; operands and result have `type` (a shift's right operand is any integer)."""

    op: str
    left: Expr
    right: Expr
    type: Scalar
    span: Span = _span()


@node
class Compare:
    """op: < <= > >= == != ; the operands share one type, the result is bool."""

    op: str
    left: Expr
    right: Expr
    type: Scalar
    span: Span = _span()


@node
class Logical:
    """op: 'and', 'or'; operands are bool; the right one is evaluated only where it decides."""

    op: str
    left: Expr
    right: Expr
    type: Scalar
    span: Span = _span()


@node
class Select:
    """`then if cond else other`; only the chosen operand is evaluated."""

    cond: Expr
    then: Expr
    other: Expr
    type: Element
    span: Span = _span()


@node
class Cast:
    """Value conversion, C's rules: float to integer truncates, integer to narrower wraps, anything to bool is `!= 0`, to narrower float rounds
    to even."""

    value: Expr
    type: Scalar
    span: Span = _span()


@node
class Bitcast:
    """The same bits as another type of the same size."""

    value: Expr
    type: Scalar
    span: Span = _span()


@node
class Math:
    """A pure function of `snap.ir.operations.MATH`; `fast` asks for the approximate form."""

    op: str
    args: tuple[Expr, ...]
    type: Scalar
    fast: bool = False
    span: Span = _span()


@node
class UnitId:
    """Index of `target`'s unit within the current group (see the head of this file)."""

    target: Privilege
    place: Place
    type: Scalar
    span: Span = _span()


@node
class UnitCount:
    """Number of `target`'s units in the current group; only for counts that are known at launch."""

    target: Privilege
    place: Place
    type: Scalar
    span: Span = _span()


Expr = (Const | Read | Elem | ArrayValue | Component | MakeVector | Load | Unary | Binary | Compare | Logical | Select | Cast | Bitcast | Math
        | UnitId | UnitCount)


# ---- targets of assignment ---------------------------------------------------------------------------------------------------------------


@node
class VarTarget:
    var: Var
    span: Span = _span()


@node
class ElemTarget:
    array: ArrayRef
    index: tuple[Expr, ...]
    span: Span = _span()


@node
class MemTarget:
    access: MemAccess
    span: Span = _span()


@node
class ComponentTarget:
    """One component of a vector that is itself a target."""

    of: VarTarget | ElemTarget | MemTarget
    lane: int
    span: Span = _span()


Target = VarTarget | ElemTarget | MemTarget | ComponentTarget


# ---- statements --------------------------------------------------------------------------------------------------------------------------

Body = tuple["Stmt", ...]


@node
class Declare:
    """A new variable.  Without `init`: zero where `zero` is set (arrays, and data above thread[1]), else uninitialised."""

    var: Var
    init: Expr | None
    zero: bool = False
    span: Span = _span()


@node
class DeclareShared:
    """A shared array comes to life, uninitialised, until the end of the enclosing body."""

    obj: MemObject
    handle: Handle
    span: Span = _span()


@node
class Assign:
    target: Target
    value: Expr
    span: Span = _span()


@node
class If:
    cond: Expr
    then: Body
    other: Body
    span: Span = _span()


@node
class While:
    """pre; while cond: body; pre.  `continue` goes to pre."""

    pre: Body
    cond: Expr
    body: Body
    span: Span = _span()


@node
class For:
    """Python's range: start, stop and step are evaluated once; a step of 0 runs no iteration.  unroll: 0 no wish, -1 fully, n by n."""

    var: Var
    start: Expr
    stop: Expr
    step: Expr
    body: Body
    unroll: int = 0
    span: Span = _span()


@node
class Break:
    span: Span = _span()


@node
class Continue:
    span: Span = _span()


@node
class Return:
    value: Expr | None
    span: Span = _span()


@node
class Assert:
    """The machine traps where cond is false; CUDA's assert on the GPU."""

    cond: Expr
    message: str
    span: Span = _span()


@node
class Group:
    privilege: Privilege
    outer: Place
    place: Place
    body: Body
    span: Span = _span()


@node
class Case:
    """Units offset .. offset+size of the level; with `rest`, all units from offset on, as groups of `size`."""

    offset: int
    size: int
    rest: bool
    place: Place
    body: Body
    span: Span = _span()


@node
class Split:
    level: Level
    outer: Place
    cases: tuple[Case, ...]
    span: Span = _span()


@node
class Partition:
    """The scope in which `base` is lowered to `handle`; accesses inside carry the index function applied."""

    base: Handle
    handle: Handle
    place: Place
    body: Body
    span: Span = _span()


@node
class Claim:
    """The scope in which one group of `handle.privilege` owns all of `base`."""

    base: Handle
    handle: Handle
    place: Place
    body: Body
    span: Span = _span()


@node
class Collective:
    """An intrinsic of `snap.ir.operations.COLLECTIVES`, executed once per group of `requires`."""

    op: str
    requires: Privilege
    place: Place
    targets: tuple[Target, ...]
    args: tuple[Expr, ...]
    accesses: tuple[MemAccess, ...] = ()
    attrs: tuple[tuple[str, object], ...] = ()
    span: Span = _span()

    def attr(self, name: str, default: object = None) -> object:
        return dict(self.attrs).get(name, default)


@node
class Atomic:
    """op: load store add min max and or xor exch cas; once per thread; `target` receives the old value (load: the value)."""

    op: str
    access: MemAccess
    args: tuple[Expr, ...]
    target: Target | None
    order: str
    scope: str
    span: Span = _span()


@node
class AsyncCopy:
    """One element of global memory into shared memory, in the background: this thread may use it after a wait, others after a barrier behind that."""

    target: MemAccess
    source: MemAccess
    span: Span = _span()


@node
class AsyncCommit:
    """Only in the synchronized IR: what this thread copied since the last one becomes a group, which a wait can name."""

    span: Span = _span()


@node
class Unsafe:
    """CUDA text with {name} holes, bound to values and memory.  `cpu` is a Python callable that stands for it on the CPU machine, or None."""

    text: str
    values: tuple[tuple[str, Expr], ...]
    memory: tuple[tuple[str, MemAccess], ...]
    target: Target | None
    type: Element | None
    cpu: object = field(default=None, compare=False)
    span: Span = _span()


@node
class Call:
    """args bind `function.params` in order: Expr for a ValueParam, ArrayRef for a RefParam, MemView for a MemParam (with the handle it came through).

    `smem_offset`: bytes of the caller's frame that are in use at the call.
    """

    function: Function
    args: tuple[Expr | ArrayRef | MemView, ...]
    handles: tuple[Handle | None, ...]
    target: Target | None
    place: Place
    smem_offset: int
    span: Span = _span()


@node
class SyncPoint:
    """One point of synchronization that the compiler put in.

    kind: 'thread' (a wait for the thread's own copies, no barrier) | 'warp' | 'block' | 'named' | 'cluster' | 'grid'; participants: the group
    that waits for each other; `object` and `reason` say why.  `pending`: before the barrier, wait until at most so many of the thread's youngest
    groups of copies are in flight.
    """

    uid: int
    kind: str
    participants: Privilege
    object: str
    reason: str
    first: Span = field(compare=False)
    second: Span = field(compare=False)
    pending: int | None = None
    span: Span = _span()


@node
class Sync:
    """Only in the synchronized IR.  `place` is the class of the code it stands in."""

    point: SyncPoint
    place: Place
    span: Span = _span()


Stmt = (Declare | DeclareShared | Assign | If | While | For | Break | Continue | Return | Assert | Group | Split | Partition | Claim
        | Collective | Atomic | AsyncCopy | AsyncCommit | Unsafe | Call | Sync)


# ---- functions ---------------------------------------------------------------------------------------------------------------------------


@node
class ValueParam:
    """A scalar, vector, or local array passed by value."""

    var: Var


@node
class RefParam:
    """A local array of the caller, passed by reference."""

    var: Var


@node
class MemParam:
    """A pointer.  What it points to is `handle.obj`; its shape may name other parameters."""

    handle: Handle


Param = ValueParam | RefParam | MemParam


@node
class Function:
    """A kernel, or one instance of a device function.

    Instances differ in constexpr values, in what their callers hold of levels they do not name, and in the space and index function of each
    pointer (values that an index function captured are extra ValueParams at the end).  `smem` is the most shared memory, in bytes, that it and
    all it calls hold at once.  `requires` is the place it starts in.
    """

    uid: int
    name: str
    kernel: bool
    params: tuple[Param, ...]
    returns: Element | None
    place: Place
    body: Body
    smem: int
    cooperative: bool
    uses_unsafe: bool = False
    span: Span = _span()
