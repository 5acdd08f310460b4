"""The typed IR: what a checked kernel means, and the one thing every later stage consumes.

*Evaluation.*  Expressions are pure: reading memory (`Load`) has no effect, and nothing in an expression can diverge,
block or write.  All effects are statements, run in order.  Calls, collectives and atomics are statements that assign
their results; the checker takes them out of the expressions they were written in, left to right, before the statement
that uses them (`While.pre` holds those of a loop's condition, and runs before each test).  `Logical` and `Select` are
C's: the operand not chosen is not evaluated.  Types are explicit: both operands of `Binary` and `Compare` have one type
(shifts: the left one's), every conversion is a `Cast`, every index is an integer.  Integer arithmetic is CUDA's: two's
complement that wraps, `/` and `%` truncate toward zero, `//` and `mod` round down.

*Threads.*  A statement is executed by every thread of the current group.  `Group` replicates its body over groups,
`Split` gives disjoint units different bodies that run in parallel; in both, the body's `place` is the privilege class
inside.  Positions are relative: entering `Group(l[n])` takes the index at level l modulo n, entering a split case
subtracts its offset, and a call enters its callee as if in a group of what the callee requires.  `UnitId(p)` is then:
start with the index at the place's highest level, and on the way down to p's level multiply by the count there and add
the index there; at the end divide by p.n.  (At grid level the index is 0; the highest level's own index is the relative
one.)  For groups at a stride, `strides.py` says what stands for the remainder and the quotient: which member of its
group a unit is, and the group's number.

*Names.*  `Var` is one declaration (identity is its uid, not its name).  Scopes are the blocks: a variable declared in a
body ends with it. A variable of privilege p holds one value per unit of p; the checker has proved that all threads of a
unit store the same one.

*Memory.*  `MemObject` is storage: a kernel's array, a shared array, or, inside a device function, whatever the call
binds to its pointer parameter.  `Handle` is a name for it at a privilege: the object itself, or what `partition`,
`claim`, `tile` or `.view` called it.  Index functions are already applied: `MemAccess.index` addresses
`MemAccess.view`, the object seen as an array of `view.elem` with shape `view.shape` (row-major), or as one dimension
where shape is None.  The handle says through which name, and so at which privilege, the access is made.

*Synchronization.*  The typed IR holds no barrier of the compiler's; the synchronized IR (`synced.py`) is the same tree
with more statements in it.  What the user asked for (`intrinsic.syncthreads()`) is a `Collective` in both.

*Grammar.*  Printed from the records by `docs/make_system.py`.  `*` is a sequence, and `?` may be None; `inserted` are
the statements of `synced.py`.

    any      = AnyFunction(int uid, str name, bool kernel, param* params, element? returns, place, stmt* body, int
               smem, bool cooperative, bool uses_unsafe, int? resident, int* axes, frozenset[tuple[span, span]]
               apart, stmt* text)
    function = Function(Any..., set[int] watched, tuple[span, str]* trusted, contract? contract, diagnostic*
               warnings, tuple[str, str]* constants) | Function(Any..., mbarrier* mbarriers)
    param    = ValueParam(var) | RefParam(var) | MemParam(handle, recordlayout? layout)
    stmt     = Declare(var, expr? init, bool zero) | DeclareShared(memobject obj, handle)
               | Assign(target, expr value) | If(expr cond, stmt* then, stmt* other)
               | While(stmt* pre, expr cond, stmt* body)
               | For(var, expr start, expr stop, expr step, stmt* body, int unroll) | Break() | Continue()
               | Return(expr? value) | Assert(expr cond, str message)
               | Group(privilege, place outer, place, stmt* body) | Split(level, place outer, case* cases)
               | Partition(handle base, handle, place, stmt* body, expr? fill, bool counted, division* divisions)
               | Claim(handle base, handle, place, stmt* body) | Turn(place outer, place, stmt* body)
               | Collective(str op, privilege requires, place, target* targets, expr* args, memaccess* accesses,
               tuple[str, object]* attrs) | Atomic(str op, memaccess access, expr* args, target? target, memoryorder
               order, memoryscope scope) | Sleep(expr nanoseconds)
               | AsyncCopy(memaccess target, memaccess source, expr? valid, str l2, expr? elements)
               | Prefetch(memaccess access, str level)
               | BoxCopy(boxop op, tile, memaccess origin, int* box, place, bool tf32, str l2)
               | BoxPrefetch(memaccess origin, int* box, int swizzle, place) | Wgmma(str type, arrayref acc,
               tile|arrayref a, tile b, int n, int k, bool a_transposed, bool b_transposed, expr? zero, place)
               | StoreAcc(tile, arrayref acc, expr first, place) | Unsafe(str text, tuple[str, expr]* values,
               tuple[str, memaccess]* memory, target? target, element? type, object cpu, tuple[str, target]*
               results, int lanes) | Print(str* texts, expr* args, expr? lead, privilege) | Call(anyfunction
               function, expr|arrayref|memview* args, handle?* handles, target? target, place, int smem_offset)
    inserted = Sync(syncpoint point, place, synchalf part) | AsyncCommit(engine, place? place)
               | MBarrierWait(mbarrier barrier, expr slot, expr phase, place, syncpoint point)
               | MBarrierArrive(mbarrier barrier, expr slot, privilege by, place, syncpoint point, int bytes, bool
               copies) | MBarrierExpect(mbarrier barrier, expr slot, int bytes, place) | Elect(place, stmt* body)
               | CountedLoad(BoxCopy..., mbarrier barrier, expr slot) | FencedWgmma(Wgmma...)
    case     = Case(int offset, int size, bool rest, place, stmt* body)
    expr     = Const(int|float|bool value, scalar type, bool weak) | Read(var, valuetype type)
               | Elem(arrayref array, expr* index, element type) | ArrayValue(arrayref array, array type)
               | Component(expr value, int lane, scalar type) | MakeVector(expr* items, valuetype type)
               | Load(memaccess access, element type, str cache, str l2) | Lookup(table, expr* index, scalar type)
               | Unary(str op, expr value, element type)
               | Binary(str op, expr left, expr right, element type, bool exact)
               | Compare(str op, expr left, expr right, scalar type)
               | Logical(str op, expr left, expr right, scalar type)
               | Select(expr cond, expr then, expr other, element type) | Cast(expr value, element type)
               | Bitcast(expr value, scalar type) | Math(str op, expr* args, element type, bool fast)
               | UnitId(privilege target, place, scalar type) | UnitCount(privilege target, place, scalar type)
               | Lane(int among, scalar type)
    target   = VarTarget(var) | ElemTarget(arrayref array, expr* index)
               | MemTarget(memaccess access, str cache, str l2)
               | ComponentTarget(vartarget|elemtarget|memtarget of, int lane)
    memory   = MemObject(int uid, str name, element elem, expr*? shape, bool const, space, privilege, int offset,
               int swizzle, spread, int depth, int? lag, expr? extent, tuple[int, int]? part) | Handle(int uid, str
               name, memobject obj, privilege, bool const, origin, handle? base, bool disjoint)
               | MemView(memobject obj, element elem, expr*? shape)
               | MemAccess(memview view, expr* index, handle, expr? block) | Tile(memaccess access, int* shape)
               | ArrayRef(var, element elem, int* shape, expr* at)
               | Table(str name, scalar elem, int* shape, str digest, bytes data)
               | MBarrier(int uid, str name, int slots, int count, bool everywhere)
    variable = Var(int uid, str name, valuetype type, privilege, bool temp)

*Nodes.*  Every node is immutable and has a span; spans, and the numbers of statements, do not count in comparisons.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import field

from snap._compiler.ir.acts import (  # noqa: F401  (all of them are found here)
    Act,
    AsyncCopy,
    Atomic,
    BoxCopy,
    BoxOp,
    BoxPrefetch,
    Collective,
    Executed,
    Named,
    Prefetch,
    Printing,
    Sleep,
    Statement,
    StoreAcc,
    Unsafe,
    Wgmma,
)
from snap._compiler.ir.contracts import Contract
from snap._compiler.ir.expressions import (  # noqa: F401  (all of them are found here)
    AT_LAUNCH,
    ArrayRef,
    ArrayValue,
    Binary,
    Bitcast,
    Cast,
    Compare,
    Component,
    ComponentTarget,
    Const,
    Elem,
    ElemTarget,
    Expr,
    Handle,
    Lane,
    Load,
    Logical,
    Lookup,
    MakeVector,
    Math,
    MemAccess,
    MemObject,
    MemTarget,
    MemView,
    Origin,
    Read,
    Select,
    Spread,
    Table,
    Target,
    Tile,
    Unary,
    UnitCount,
    UnitId,
    Var,
    VarTarget,
    extents,
)
from snap._compiler.ir.types import Element, Level, Place, Privilege, Scalar
from snap.diag.error import Diagnostic
from snap.diag.span import Span
from snap.record import record as node

# ---- statements -----------------------------------------------------------------------------------------------------

Body = tuple["Stmt", ...]


@node
class Declare(Statement):
    """A new variable.  Without `init`: zero where `zero` is set (arrays, and data above thread[1]), else
    uninitialized.
    """

    var: Var
    init: Expr | None
    zero: bool = False


@node
class DeclareShared(Statement):
    """A shared array comes to life, uninitialized, until the end of the enclosing body."""

    obj: MemObject
    handle: Handle


@node
class Assign(Statement):
    target: Target
    value: Expr


@node
class If(Statement):
    cond: Expr
    then: Body
    other: Body


@node
class While(Statement):
    """pre; while cond: body; pre.  `continue` goes to pre."""

    pre: Body
    cond: Expr
    body: Body


@node
class For(Statement):
    """Python's range: start, stop and step are evaluated once; a step of 0 runs no iteration.  unroll: 0 no wish, -1
    fully, n by n.
    """

    var: Var
    start: Expr
    stop: Expr
    step: Expr
    body: Body
    unroll: int = 0


@node
class Break(Statement):
    pass


@node
class Continue(Statement):
    pass


@node
class Return(Statement):
    value: Expr | None


@node
class Assert(Statement):
    """The machine traps where cond is false; CUDA's assert on the GPU."""

    cond: Expr
    message: str


@node
class Print(Act):
    """One line for each group of `privilege`, the code's own: who prints (`snap._compiler.ir.printed`), then the texts
    with the values of `args` between them, one text more than values.  Values are bool, i32, u32, i64, u64, f32 or f64.

    lead: whether this thread is its group's first, which prints; None where each thread does
    """

    texts: tuple[str, ...]
    args: tuple[Expr, ...]
    lead: Expr | None
    privilege: Privilege

    def line(self, p: Printing) -> str:
        values = (part for text, arg in zip(self.texts, self.args) for part in (repr(text), p.expr(arg)))
        return f"print {', '.join((*values, repr(self.texts[-1])))} @ {self.privilege}"

    def explained(self) -> str:
        return f"prints a line for each {self.privilege}"


@node
class Group(Statement):
    privilege: Privilege
    outer: Place
    place: Place
    body: Body

    @property
    def is_all(self) -> bool:
        """Return whether it is one group of all that the code holds, as where a function was called."""
        level, held = self.outer.levels[0]
        return level == self.privilege.level and held.count == self.privilege.n


@node
class Case:
    """Units offset .. offset+size of the level; with `rest`, all units from offset on, as groups of `size`."""

    offset: int
    size: int
    rest: bool
    place: Place
    body: Body
    span: Span = field(compare=False, kw_only=True)


@node
class Split(Statement):
    level: Level
    outer: Place
    cases: tuple[Case, ...]


@node
class Division:
    """A view that divides a dimension of an array into parts of so many elements, if the text does not tell whether any
    are left over.

    extent: of the dimension; None: as long as the array is
    """

    dimension: int
    extent: Expr | None
    by: Expr
    span: Span = field(compare=False, kw_only=True)


@node
class Partition(Statement):
    """The scope in which `base` is lowered to `handle`; accesses inside carry the index function applied.

    fill: of a stage, its number among the fills of its pipeline, a value at the pipeline's privilege; the slot is this
    modulo the depth.  counted: the compiler counts the fills, so they come in order.  divisions: what its view divides.
    """

    base: Handle
    handle: Handle
    place: Place
    body: Body
    fill: Expr | None = None
    counted: bool = False
    divisions: tuple[Division, ...] = ()

    @property
    def number_of_fill(self) -> Expr:
        """`fill` of what is known to be a stage."""
        assert self.fill is not None
        return self.fill


@node
class Claim(Statement):
    """The scope in which one group of `handle.privilege` owns all of `base`."""

    base: Handle
    handle: Handle
    place: Place
    body: Body


@node
class Turn(Statement):
    """Units of `place`'s group, the current ones of `outer`, run the body one at a time, cyclically, unit 0 first.  It
    orders when the body is run, not memory.
    """

    outer: Place
    place: Place
    body: Body


@node
class Call(Act):
    """args bind `function.params` in order: Expr for a ValueParam, ArrayRef for a RefParam, MemView for a MemParam
    (with the handle it came through).

    `smem_offset`: bytes of the caller's frame that are in use at the call.
    """

    function: AnyFunction
    args: tuple[Expr | ArrayRef | MemView, ...]
    handles: tuple[Handle | None, ...]
    target: Target | None
    place: Place
    smem_offset: int

    def view(self, index: int) -> MemView:
        """Return an argument, which is known to be memory."""
        arg = self.args[index]
        assert isinstance(arg, MemView)
        return arg

    def array(self, index: int) -> ArrayRef:
        """Return an argument, which is known to be an array by reference."""
        arg = self.args[index]
        assert isinstance(arg, ArrayRef)
        return arg

    def line(self, p: Printing) -> str:
        given = ", ".join(map(p.argument, self.args))
        called = f"{p.results(self.target)}{p.callee(self.function)}({given})"
        return f"{called} at {self.place}, shared memory from byte {self.smem_offset}"

    def explained(self) -> str:
        return f"calls {self.function.name} as {self.function.place.privilege}"


@node
class Inserted(Statement):
    """A statement that only synchronization puts in; `synced.py` has its classes."""


# The statements of the typed IR; those of the synchronized one stand in the same bodies.
Plain = Declare | DeclareShared | Assign | If | While | For | Break | Continue | Return | Assert
Instructed = Collective | Atomic | Sleep | AsyncCopy | Prefetch | BoxCopy | BoxPrefetch | Wgmma | StoreAcc | Unsafe
Acting = Instructed | Print | Call
Opening = Group | Split | Partition | Claim | Turn
Typed = Plain | Opening | Acting
Stmt = Typed | Inserted


# ---- functions ------------------------------------------------------------------------------------------------------


@node
class ValueParam:
    """A scalar, vector, or local array passed by value."""

    var: Var


@node
class RefParam:
    """A local array of the caller, passed by reference."""

    var: Var


@node
class RecordLayout:
    """Say how the records lie that a pointer points to.  name: of the class.  bytes: of one.  values: the name of each,
    where it is, its type and how many of it there are.
    """

    name: str
    bytes: int
    values: tuple[tuple[str, int, Scalar, int], ...]


@node
class MemParam:
    """A pointer.  What it points to is `handle.obj`; its shape may name other parameters."""

    handle: Handle
    layout: RecordLayout | None = field(default=None, compare=False, repr=False)


Param = ValueParam | RefParam | MemParam


@node
class AnyFunction:
    """Define what a function is, typed or synchronized: a kernel, or one instance of a device function.

    Instances differ in constexpr values, in what their callers hold of levels they do not name, and in the space and
    index function of each pointer (values that an index function captured are extra ValueParams at the end).  `smem` is
    the most shared memory, in bytes, that it and all it calls hold at once.  `place` is the one it starts in.
    resident: how many blocks a kernel's registers leave room for on an SM.  axes: dimensions of the grid whose extents
    are a kernel's last parameters.  apart: pairs of places by which no two threads touch one element, as a proof has
    shown; there are none unless the kernel asks for it.  text: of an instruction of the user's own, the statements that
    stand for the body in CUDA; every other stage takes the body, which is what they mean.
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
    resident: int | None = None
    axes: tuple[int, ...] = ()
    apart: frozenset[tuple[Span, Span]] = field(default=frozenset(), compare=False)
    text: Body = ()
    span: Span = field(compare=False, kw_only=True)


@node
class Function(AnyFunction):
    """A typed function, as the checker makes it.

    watched: partitions (numbers of handles) whose units are not shown to be apart.  trusted: scopes in which proofs
    take for granted what they do not show, with the reasons.  contract: what a device function asks for and promises,
    for proofs alone.  warnings: what the checker says of its text.  constants: the values of its constexpr parameters,
    as text.
    """

    watched: Set[int] = field(default=frozenset(), compare=False, kw_only=True)
    trusted: tuple[tuple[Span, str], ...] = field(default=(), compare=False, kw_only=True)
    contract: Contract | None = field(default=None, compare=False, kw_only=True)
    warnings: tuple[Diagnostic, ...] = field(default=(), compare=False, kw_only=True)
    constants: tuple[tuple[str, str], ...] = field(default=(), compare=False, kw_only=True)
