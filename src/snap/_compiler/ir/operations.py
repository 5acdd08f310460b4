"""The operations of the language: pure functions, collectives, atomics.  The checker types them from here, the machine
and the code generator implement exactly these, and `docs/intrinsics.md` is printed from here.
"""

from __future__ import annotations

import math
from enum import Enum, auto

from snap._compiler.ir.types import (
    BF16,
    BLOCK1,
    BOOL,
    CLUSTER1,
    F16,
    F32,
    GRID1,
    I32,
    THREAD1,
    U8,
    U32,
    WARP1,
    WARPGROUP1,
    Privilege,
    Scalar,
    ScalarKind,
    Vector,
)
from snap._compiler.ir.word import Word
from snap.record import record, replace

# ---- pure functions -------------------------------------------------------------------------------------------------


class Domain(Word):
    """Name what a pure function takes."""

    FLOAT = "float"  # integers are converted to f32
    NUMBER = "number"
    INT = "int"
    WORD = "word"  # all i32, or all u32
    SINGLE = "single"  # f32, to which others than f64 are converted
    BYTE = "byte"  # u8


@record
class MathOp:
    """result: None where it is of the arguments' type.  fast: an approximate form exists."""

    name: str
    arity: int
    domain: Domain
    result: Scalar | None = None
    fast: bool = False


MATH: dict[str, MathOp] = {
    op.name: op
    for op in (
        *(
            MathOp(name, 1, Domain.FLOAT)
            for name in (
                "rsqrt cbrt exp10 expm1 log1p tan asin acos atan sinh cosh asinh acosh atanh erf erfc floor ceil round"
                " rint trunc"
            ).split()
        ),
        *(MathOp(name, 1, Domain.FLOAT, fast=True) for name in "sqrt exp exp2 log log2 log10 sin cos tanh rcp".split()),
        MathOp("pow", 2, Domain.FLOAT, fast=True),
        MathOp("div", 2, Domain.FLOAT, fast=True),
        *(MathOp(name, 2, Domain.FLOAT) for name in "atan2 fmod copysign hypot".split()),
        MathOp("fma", 3, Domain.FLOAT),
        *(MathOp(name, 1, Domain.FLOAT, BOOL) for name in "isnan isinf isfinite".split()),
        MathOp("abs", 1, Domain.NUMBER),
        MathOp("min", 2, Domain.NUMBER),
        MathOp("max", 2, Domain.NUMBER),
        *(MathOp(name, 1, Domain.INT, I32) for name in "ffs popc clz".split()),
        MathOp("brev", 1, Domain.INT),
        MathOp("mulhi", 2, Domain.INT),
        *(MathOp(name, 3, Domain.WORD) for name in "dp4a dp2a_lo dp2a_hi".split()),
        *(MathOp(name, 1, Domain.SINGLE, U8) for name in "to_e4m3 to_e5m2".split()),
        *(MathOp(name, 1, Domain.BYTE, F32) for name in "from_e4m3 from_e5m2".split()),
    )
}


# ---- collectives ----------------------------------------------------------------------------------------------------


class ResultOf(Enum):
    """Whose type a result has."""

    FIRST = auto()  # the first argument's


class SyncHalf(Word):
    """Name the part of a barrier that is at a place: it may be in two places."""

    BOTH = "both"
    ARRIVE = "arrive"
    WAIT = "wait"


@record
class CollectiveOp:
    """One collective.

    requires  the group that executes it together
    parts     of a warp's: whether an aligned part of a warp (thread[2], thread[4], thread[8], thread[16]) can execute
              it instead, where that is what the code holds; what the row says of thread[32] is then the part's (`by`)
    args      the privilege each argument is evaluated for (the last one repeats)
    result    None, a scalar type, or that of the first argument
    returns   the privilege of the result
    reads     whether it reads the elements that it is given (`Collective.accesses`), as rows of 16 bytes, one a lane
    writes    whether it writes them
    barrier   whether its group waits for all of itself, and memory is ordered by that
    half      of a barrier, the part that it is: behind both parts memory is ordered
    own       whether the group whose code it stands in executes it, whatever that is (`requires` says how it reads in
              code of a block)
    doc       one line for the published table

    What the operands of `Collective` are, where the table does not say it all:

    shfl(v, lane), shfl_up(v, delta), shfl_down(v, delta), shfl_xor(v, mask)
                  CUDA's with width 32, or that of the part (attr 'width' otherwise: 2, 4, 8, 16); a lane whose source
                  is out of range keeps its own value; of a part's `mask`, what is below its size counts
    ballot, match_any, match_all
                  bit k is thread k of the group
    reduce_*      butterfly over the group, xor 16, 8, 4, 2, 1 in that order (a part begins with half of its size), so
                  that floats agree bit for bit everywhere
    broadcast*(v) the value of thread attr 'source' (default 0, index in the group)
    mma           attr 'kind' is 'tf32' (m16n8k8: a 4, b 2, c 4 scalars of f32), 'f16' or 'bf16' (m16n8k16: a 8, b 4
                  scalars of that type, c 4 of f32); args are a, b, c flattened, targets the results.  Fragments lie in
                  registers as PTX lays them out; 16-bit ones in pairs, low half first.  Kind 'f64' has an attr 'shape'
                  (m, n, k).  So have packed operands, whose kind names both: 's8.u8' (words u32, c i32; attr 'saturate'
                  where the sums end at the ends of i32), 's4.s4' likewise, 'e4m3.e5m2' (words u32, c f32); the first
                  element lies in the lowest bits
    ldmatrix      accesses[0] is this lane's row (16 bytes of shared memory), targets the elements received, 2 of 16
                  bits a matrix; attrs 'count' 1, 2, 4 and 'trans'
    stmatrix      accesses[0] is this lane's row, args the elements stored, attrs as for ldmatrix
    sync          attr 'number' in a synchronized program: the first of the named barriers of groups of this size
    arrive, wait  attr 'barrier': which barrier, a number for each piece of code that one group executes
    """

    name: str
    requires: Privilege
    args: tuple[Privilege, ...] = ()
    result: Scalar | ResultOf | None = None
    returns: Privilege = THREAD1
    reads: bool = False
    writes: bool = False
    barrier: bool = False
    parts: bool = False
    half: SyncHalf = SyncHalf.BOTH
    own: bool = False
    doc: str = ""

    @property
    def votes(self) -> bool:
        """Return whether it takes a condition of each thread."""
        return self.args == (THREAD1,) and (
            self.result == BOOL or self.name.startswith(("ballot", "count_", "syncthreads_"))
        )

    def by(self, part: Privilege) -> CollectiveOp:
        """The same, executed by another group: a part of a warp, or the code's own."""
        args = tuple(part if p == self.requires else p for p in self.args)
        returns = part if self.returns == self.requires else self.returns
        return replace(self, requires=part, args=args, returns=returns)


COLLECTIVES: dict[str, CollectiveOp] = {
    op.name: op
    for op in (
        CollectiveOp(
            "shfl",
            WARP1,
            (THREAD1, THREAD1),
            ResultOf.FIRST,
            THREAD1,
            parts=True,
            doc="the value of lane `lane`; of the whole group where the lane is uniform",
        ),
        CollectiveOp(
            "shfl_up", WARP1, (THREAD1, WARP1), ResultOf.FIRST, parts=True, doc="the value `delta` lanes below"
        ),
        CollectiveOp(
            "shfl_down", WARP1, (THREAD1, WARP1), ResultOf.FIRST, parts=True, doc="the value `delta` lanes above"
        ),
        CollectiveOp(
            "shfl_xor",
            WARP1,
            (THREAD1, WARP1),
            ResultOf.FIRST,
            parts=True,
            doc="the value of the lane whose number differs by `mask`",
        ),
        CollectiveOp("any", WARP1, (THREAD1,), BOOL, WARP1, parts=True, doc="whether any lane says yes"),
        CollectiveOp("all", WARP1, (THREAD1,), BOOL, WARP1, parts=True, doc="whether all lanes say yes"),
        CollectiveOp("ballot", WARP1, (THREAD1,), U32, WARP1, parts=True, doc="one bit a lane"),
        CollectiveOp(
            "match_any",
            WARP1,
            (THREAD1,),
            U32,
            THREAD1,
            parts=True,
            doc="the lanes that hold the same value as this one",
        ),
        CollectiveOp("match_all", WARP1, (THREAD1,), U32, WARP1, parts=True, doc="all lanes if they agree, else 0"),
        *(
            CollectiveOp(
                f"reduce_{name}", WARP1, (THREAD1,), ResultOf.FIRST, WARP1, parts=True, doc=f"{name} over the group"
            )
            for name in "add min max and or xor".split()
        ),
        CollectiveOp("elect", WARP1, (), BOOL, THREAD1, parts=True, doc="true in exactly one lane"),
        CollectiveOp(
            "broadcast",
            BLOCK1,
            (THREAD1,),
            ResultOf.FIRST,
            BLOCK1,
            barrier=True,
            doc="one thread's value for the whole block",
        ),
        CollectiveOp(
            "syncthreads_or", BLOCK1, (THREAD1,), BOOL, BLOCK1, barrier=True, doc="whether any thread says yes"
        ),
        CollectiveOp(
            "syncthreads_and", BLOCK1, (THREAD1,), BOOL, BLOCK1, barrier=True, doc="whether all threads say yes"
        ),
        CollectiveOp(
            "syncthreads_count", BLOCK1, (THREAD1,), I32, BLOCK1, barrier=True, doc="how many threads say yes"
        ),
        *(
            op
            for group, word in ((CLUSTER1, "cluster"), (GRID1, "grid"))
            for op in (
                CollectiveOp(
                    f"any_{word}", group, (THREAD1,), BOOL, group, barrier=True, doc="whether any thread says yes"
                ),
                CollectiveOp(
                    f"all_{word}", group, (THREAD1,), BOOL, group, barrier=True, doc="whether all threads say yes"
                ),
                CollectiveOp(
                    f"count_{word}", group, (THREAD1,), I32, group, barrier=True, doc="how many threads say yes"
                ),
                CollectiveOp(
                    f"broadcast_{word}",
                    group,
                    (THREAD1,),
                    ResultOf.FIRST,
                    group,
                    barrier=True,
                    doc=f"one thread's value for the whole {word}",
                ),
            )
        ),
        CollectiveOp("sync", BLOCK1, barrier=True, own=True, doc="barrier of the group, by hand"),
        CollectiveOp(
            "arrive",
            BLOCK1,
            barrier=True,
            half=SyncHalf.ARRIVE,
            own=True,
            doc="first part of a barrier in two parts; no thread waits here",
        ),
        CollectiveOp(
            "wait",
            BLOCK1,
            barrier=True,
            half=SyncHalf.WAIT,
            own=True,
            doc="second part; waits until all threads of the group have arrived",
        ),
        CollectiveOp("syncwarp", WARP1, barrier=True, parts=True, doc="barrier of a warp, for experts"),
        CollectiveOp("syncthreads", BLOCK1, barrier=True, doc="barrier of a block, for experts"),
        CollectiveOp("sync_cluster", CLUSTER1, barrier=True, doc="barrier of a cluster, for experts"),
        CollectiveOp(
            "sync_grid", GRID1, barrier=True, doc="barrier of the grid, for experts; needs `cooperative=True`"
        ),
        CollectiveOp(
            "mma",
            WARP1,
            (THREAD1,),
            None,
            THREAD1,
            doc="tensor-core matrix multiply-accumulate: tf32, f16, bf16, f64, packed s8, u8, s4, u4, e4m3, e5m2",
        ),
        CollectiveOp(
            "ldmatrix",
            WARP1,
            (THREAD1,),
            None,
            THREAD1,
            reads=True,
            doc="8x8 matrices of 16-bit elements from shared memory",
        ),
        CollectiveOp(
            "setmaxnreg",
            WARPGROUP1,
            doc="how many registers each thread of the warpgroup may have from here on (sm_90)",
        ),
        CollectiveOp(
            "stmatrix",
            WARP1,
            (THREAD1,),
            None,
            THREAD1,
            writes=True,
            doc="8x8 matrices of 16-bit elements to shared memory (sm_90)",
        ),
    )
}


def neutral(op: str, type: Scalar) -> int | float:
    """Find the value that changes nothing when it is combined: the result of a reduction over no lanes."""
    signed = type.kind is ScalarKind.INT
    match op:
        case "add" | "or" | "xor":
            return 0.0 if type.is_float else 0
        case "min" if type.is_float:
            return math.inf
        case "max" if type.is_float:
            return -math.inf
        case "min":
            return (1 << type.bits - signed) - 1
        case "max":
            return -(1 << type.bits - 1) if signed else 0
        case "and":
            return -1 if signed else (1 << type.bits) - 1
    raise ValueError(op)


# Other names, which users may know, or guess.
ALIASES = {
    "match": "match_all",
    "any_block": "syncthreads_or",
    "all_block": "syncthreads_and",
    "count_block": "syncthreads_count",
    "broadcast_block": "broadcast",
}

# ---- atomics --------------------------------------------------------------------------------------------------------


@record
class AtomicOp:
    """values: how many operands beside the element.  reads, writes: what is done to the element; the result is the old
    one.
    """

    values: int
    reads: bool = True
    writes: bool = True


ATOMICS: dict[str, AtomicOp] = {
    "load": AtomicOp(0, writes=False),
    "store": AtomicOp(1, reads=False),
    **{name: AtomicOp(1) for name in "add min max and or xor exch inc dec".split()},
    "cas": AtomicOp(2),
}
BITWISE = ("and", "or", "xor")  # of integers; the others are of floats as well
COUNTING = ("inc", "dec")  # of u32: up to the value and back to 0, down from it
# Vectors that `add` works on, each component by itself: which GPUs can, and whether only in global memory.
ADDED = {
    **{Vector(t, 2): (80, False) for t in (F16, BF16)},
    **{Vector(t, 4): (90, True) for t in (F16, BF16)},
    **{Vector(F32, n): (90, True) for n in (2, 4)},
}


class MemoryOrder(Word):
    """Name what an atomic orders, as C++ and PTX call it."""

    RELAXED = "relaxed"
    ACQUIRE = "acquire"
    RELEASE = "release"
    ACQ_REL = "acq_rel"
    SEQ_CST = "seq_cst"


class MemoryScope(Word):
    """Among which threads it does."""

    BLOCK = "block"
    CLUSTER = "cluster"
    GPU = "gpu"
    SYSTEM = "system"


ORDERS, SCOPES = tuple(MemoryOrder), tuple(MemoryScope)

# ---- how the caches treat an access ---------------------------------------------------------------------------------

# Cache operators of PTX ("Cache Operators"), and `.L1::no_allocate`; they change no result.
LOAD_CACHES = ("ca", "cg", "cs", "lu", "cv", "no_allocate")
STORE_CACHES = ("wb", "cg", "cs", "wt", "no_allocate")
PREFETCHED = ("L1", "L2", "L2::evict_last", "L2::evict_normal")  # where `prefetch` brings a line
L2_EVICTION = ("evict_first", "evict_last", "evict_normal", "evict_unchanged")  # priorities of `createpolicy`
