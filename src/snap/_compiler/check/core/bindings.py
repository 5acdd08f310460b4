"""Hold what a name stands for: a value, a constant, an index function, memory, a pipeline, a role.

Input: declarations, as they are checked.  Output: the bindings that `Checker.lookup` gives (check/core/state.py), and
what is remembered with them: how memory is lowered, claimed, and divided among the branches of a split.  Invariant: a
binding belongs to one name in one scope.  Non-goals: looking names up (check/core/names.py).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from snap._compiler.check.core.fragments import Fragment
from snap._compiler.check.core.records import RecordName, RecordType
from snap._compiler.frontend import tree
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.types import Element, Level, Privilege, Scalar
from snap.diag.error import Diagnostic
from snap.diag.span import Span
from snap.record import record
from snap.surface import TypeName


@dataclass(slots=True, eq=False)
class Variable:
    """A scalar, vector or local array.  `read_only`: a loop variable or a `const` local, and what it is called in an
    error.  meaning: of one that a short form declares, what it is, as text.  fragment: of a local array, what it holds.
    """

    var: ir.Var
    read_only: str = ""
    meaning: str = ""
    fragment: Fragment | None = None


@dataclass(slots=True, eq=False)
class Constant:
    value: ir.Const


@dataclass(slots=True, eq=False)
class IndexFunction:
    """An index lambda, with the scopes it was written in: its names are theirs, wherever it is used.

    span: its name.  type, privilege: what its annotation says of each index.  hidden: where an inner block bound its
    name again.
    """

    tree: tree.Lambda
    scopes: tuple[dict[str, Binding], ...]
    span: Span
    type: Scalar | None = None
    privilege: Privilege | None = None
    hidden: Span | None = None


@dataclass(slots=True, eq=False)
class Poison:
    """The declaration of this name was wrong; its uses are not reported again."""


@record
class IndexMap:
    """From the indices a user writes to those of the view: `results` with `params` replaced."""

    params: tuple[ir.Var, ...]
    results: tuple[ir.Expr, ...]
    # Of memory that is across a cluster: the rank of the block whose part is meant; None for the thread's own.
    block: ir.Expr | None = None


@dataclass(slots=True, eq=False)
class Memory:
    """A name for memory: a handle, the view it indexes, how, and the shape the name shows (None: one dimension, length
    unknown).
    """

    handle: ir.Handle
    view: ir.MemView
    map: IndexMap | None
    shape: tuple[ir.Expr, ...] | None
    lowered: Lowering | None = None  # set while a partition or claim of this name is open
    claim: ClaimUse | None = None
    record: RecordType | None = None  # of memory of records, whose indices are those of elements
    inner: tuple[int, ...] = ()  # extents of a field that is an array: the last indices, which are constants

    @property
    def elem(self) -> Element:
        return self.view.elem

    @property
    def rank(self) -> int:
        if self.map is not None:
            return len(self.map.params)
        return 1 if self.shape is None else len(self.shape)


@dataclass(slots=True, eq=False)
class Pipeline:
    """Stages of shared memory, used one at a time through `stage`; `fills` counts those taken in order.  memory: all
    slots of this block's part.
    """

    memory: Memory
    fills: ir.Var
    blocks: int | None  # of memory that is across a cluster: how many parts there are
    stages: list[StageUse] = field(default_factory=list)

    @property
    def depth(self) -> int:
        return self.memory.handle.obj.depth


@dataclass(slots=True, eq=False)
class StageUse:
    """One `stage(...)` of a pipeline in the text.  counted: the compiler counts the fill, else its number is given."""

    counted: bool
    span: Span


@dataclass(slots=True, eq=False)
class Lowering:
    """`base` may not be used by name while this is open."""

    verb: str
    name: str
    span: Span


@dataclass(slots=True, eq=False)
class ClaimUse:
    """Say who owns a claimed name: the group of `privilege` whose first unit is `owner` units into what the claim was
    made by. The first use decides. depth: how many constructs were open at the claim.
    """

    privilege: Privilege
    depth: int
    span: Span
    owner: int | None = None
    first_use: Span | None = None


@dataclass(slots=True, eq=False)
class SplitBranch:
    """One case of an open split; `lowered` are the bases that the branch lowers although the branch does not
    own them.
    """

    level: Level
    offset: int
    size: int
    rest: bool
    span: Span
    lowered: dict[int, tuple[Memory, Diagnostic, Span]] = field(default_factory=dict)


@record
class RoleName:
    """A name for one case of a split of a block's threads: `compute, load = roles(256, 128)`.  sizes: of all cases, in
    the order in which they lie in the block; number: which case it is.
    """

    name: str
    sizes: tuple[int, ...]
    number: int
    span: Span


def declared_at(binding: Binding) -> Span | None:
    """The place of a declaration, where the error for a use after its scope can point to it."""
    match binding:
        case Variable(var):
            return var.span
        case Memory(handle):
            return handle.span
        case RoleName(span=span) | RecordName(span=span):
            return span
        case _:
            return None


Binding = (
    Variable | Constant | IndexFunction | Memory | Pipeline | RecordName | RoleName | Privilege | TypeName | Poison
)
