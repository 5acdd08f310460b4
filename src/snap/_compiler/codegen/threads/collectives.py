"""Collectives of `snap._compiler.ir.operations.COLLECTIVES`.

Input:      a `Collective` statement and its scope
Output:     a CUDA expression for those with one result (`value`), a statement for the others (`statement`)
Invariant:  the threads of the group are all there (the checker saw to it), so that a mask is the group: all lanes, or
            an aligned part of them; what a part of a warp decides does not depend on which other lanes are there; long
            inline assembly stays in helpers
Non-goals:  asynchronous instructions
"""

from __future__ import annotations

from snap._compiler.codegen.core import tree
from snap._compiler.codegen.core.module import Helper, Module, inline_helper
from snap._compiler.codegen.core.printer import expression
from snap._compiler.codegen.core.scope import Scope
from snap._compiler.codegen.core.spelling import COMPONENTS, make_vector, type_name
from snap._compiler.codegen.core.targets import target_lvalue
from snap._compiler.codegen.hopper import arrivals
from snap._compiler.codegen.memory import addresses
from snap._compiler.codegen.threads import at_strides, barriers, decisions, votes
from snap._compiler.codegen.values.arithmetic import binary, bitcast, call, convert
from snap._compiler.codegen.values.expressions import lower
from snap._compiler.codegen.values.mathematics import function
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.hardware import MMA_FRAGMENTS, MMA_PACKED, REGISTER_UNIT, SM_REGISTERS, WARP
from snap._compiler.ir.synced import PointKind
from snap._compiler.ir.types import (
    BF16,
    BOOL,
    F16,
    I32,
    U16,
    U32,
    U64,
    Element,
    Level,
    Privilege,
    Scalar,
    ScalarKind,
    Vector,
    as_element,
    as_scalar,
)

FULL = tree.Literal("0xffffffffu")
SHUFFLES = {
    "shfl": "__shfl_sync",
    "shfl_up": "__shfl_up_sync",
    "shfl_down": "__shfl_down_sync",
    "shfl_xor": "__shfl_xor_sync",
}
OPERATORS = {"add": "+", "and": "&", "or": "|", "xor": "^"}


def value(scope: Scope, s: ir.Collective) -> tree.Expr | None:
    """The result, where there is one."""
    module = scope.module
    args = tuple(lower(scope, arg) for arg in s.args)
    type = s.args[0].type if s.args else None
    group = s.requires.n
    mask = FULL if group >= WARP else barriers.mask(scope, s.requires)[0]
    here = FULL if scope.whole else mask  # the lanes that come by
    match s.op:
        case "shfl" | "shfl_up" | "shfl_down" | "shfl_xor" if s.requires.stride is not None:
            lane = at_strides.source_lane(module, s.op, s.requires, args[1])
            return _shuffle(module, "__shfl_sync", as_element(type), here, args[0], lane, WARP)
        case "shfl" | "shfl_up" | "shfl_down" | "shfl_xor":
            lane = _lane_of_part(s, args[1])
            return _shuffle(module, SHUFFLES[s.op], as_element(type), here, args[0], lane, s.attr("width", group))
        case "any" | "all" if group < WARP:
            return call(
                module.helper(votes.vote(s.op, scope.whole)) + votes.shape(s.requires, scope.whole), mask, *args
            )
        case "any" | "all":
            return _truth(call(f"__{s.op}_sync", mask, *args))
        case "ballot" if group < WARP:
            helper = module.helper(votes.ballot(scope.whole)) + votes.shape(s.requires, scope.whole)
            return _of_part(module, s.requires, call(helper, mask, *args))
        case "ballot":
            return call("__ballot_sync", mask, *args)
        case "match_any" | "match_all" if group < WARP:
            helper = module.helper(votes.match(module, s.op, as_scalar(type), scope.whole))
            helper += votes.shape(s.requires, scope.whole)
            return _of_part(module, s.requires, call(helper, mask, _matchable(module, args[0], as_scalar(type))))
        case "match_any":
            return call("__match_any_sync", mask, _matchable(module, args[0], as_scalar(type)))
        case "match_all":
            return call(
                module.helper(votes.match_all(module, as_scalar(type))), _matchable(module, args[0], as_scalar(type))
            )
        case "elect" if s.requires.stride is not None:
            return at_strides.first(s.requires)
        case "elect":
            return tree.Binary("==", tree.Binary("%", tree.Name("threadIdx.x"), tree.Integer(group)), tree.Integer(0))
        case "broadcast":
            return call(module.helper(_broadcast(module, as_element(type))), args[0], tree.Integer(s.attr("source", 0)))
        case "syncthreads_or" | "syncthreads_and":
            return _truth(call(f"__{s.op}", *args))
        case "syncthreads_count":
            return call("__syncthreads_count", *args)
        case _ if s.requires.level in (Level.CLUSTER, Level.GRID) and s.targets:
            return decisions.value(scope, s, args)
        case _ if s.op.startswith("reduce_"):
            op = s.op.removeprefix("reduce_")
            if group < WARP:
                strided = s.requires.stride is not None
                lanes = at_strides.arguments(s.requires) if strided else f"<{group}>"
                helper = module.helper(_butterfly_of_parts(module, op, as_scalar(type), strided))
                return call(f"{helper}{lanes}", here, args[0])
            return _reduce(module, op, as_scalar(type), args[0])
        case _:
            return None


def _lane_of_part(s: ir.Collective, lane: tree.Expr) -> tree.Expr:
    """Keep what a lane's number differs by within the part, as CUDA's `width` would not see to: an earlier part of the
    warp can be reached with it.
    """
    if s.op != "shfl_xor" or s.requires.n >= WARP:
        return lane
    if isinstance(s.args[1], ir.Const):
        return tree.Integer(int(s.args[1].value) & s.requires.n - 1)
    return tree.Binary("&", lane, tree.Integer(s.requires.n - 1))


def _of_part(module: Module, p: Privilege, lanes: tree.Expr) -> tree.Expr:
    """Bits of a part, counted from its first lane."""
    if p.stride is not None:
        return at_strides.members(module, p, lanes)
    if p.n >= WARP:
        return lanes
    return tree.Binary(">>", lanes, tree.Binary("&", tree.Name("threadIdx.x"), tree.Integer(WARP - p.n)))


def statement(scope: Scope, s: ir.Collective) -> tree.Stmt:
    module = scope.module
    match s.op:
        case "sync":
            return barriers.by_hand(scope, s)
        case "arrive" | "wait":
            return arrivals.statement(scope, s)
        case "syncwarp":
            return barriers.sync(scope, PointKind.WARP, s.requires)
        case "syncthreads":
            return barriers.sync(scope, PointKind.BLOCK, s.requires)
        case "sync_cluster":
            return barriers.sync(scope, PointKind.CLUSTER, s.requires)
        case "sync_grid":
            return barriers.sync(scope, PointKind.GRID, s.requires)
        case "setmaxnreg":
            return _registers(module, s)
        case "mma":
            results = tuple(target_lvalue(scope, target) for target in s.targets)
            return tree.Evaluate(
                call(module.helper(_product(module, s)), *results, *(lower(scope, arg) for arg in s.args))
            )
        case "ldmatrix":
            results = tuple(target_lvalue(scope, target) for target in s.targets)
            made = _load_matrix(module, as_scalar(s.accesses[0].view.elem), s.attr("count"), s.attr("trans"))
            return tree.Evaluate(call(module.helper(made), *results, addresses.address(scope, s.accesses[0])))
        case "stmatrix":
            made = _store_matrix(module, as_scalar(s.accesses[0].view.elem), s.attr("count"), s.attr("trans"))
            return tree.Evaluate(
                call(
                    module.helper(made), addresses.address(scope, s.accesses[0]), *(lower(scope, arg) for arg in s.args)
                )
            )
        case _:
            raise ValueError(f"unknown collective {s.op}")


def _registers(module: Module, s: ir.Collective) -> tree.Stmt:
    """Threads start with equal shares of all registers; those of a warpgroup then take more, or give some back."""
    module.fixed_registers = True
    wanted = s.attr("n")
    more = wanted > SM_REGISTERS // module.threads // REGISTER_UNIT * REGISTER_UNIT
    helper = Helper(
        f"snap_{'more' if more else 'fewer'}_registers",
        f"""\
template <int count>  // registers per thread, from here on
static __device__ __forceinline__ void snap_{"more" if more else "fewer"}_registers() {{
    asm volatile("setmaxnreg.{"inc" if more else "dec"}.sync.aligned.u32 %0;" :: "n"(count));
}}""",
        min_arch=90,
        arch_specific=True,
    )
    return tree.Evaluate(call(f"{module.helper(helper)}<{wanted}>"))


def _truth(e: tree.Expr) -> tree.Expr:
    return tree.Binary("!=", e, tree.Integer(0))


# ---- shuffles, votes, reductions ------------------------------------------------------------------------------------


def _shuffle(
    module: Module, name: str, type: Element, mask: tree.Expr, what: tree.Expr, lane: tree.Expr, width: int
) -> tree.Expr:
    match type:
        case Vector(elem, lanes):
            return make_vector(
                module,
                type,
                tuple(
                    _shuffle(module, name, elem, mask, tree.Member(what, COMPONENTS[i]), lane, width)
                    for i in range(lanes)
                ),
            )
        case Scalar():
            tail = () if width == WARP else (tree.Integer(width),)
            if type == BOOL:
                return _truth(call(name, mask, tree.Cast("int", what), lane, *tail))
            moved = call(name, mask, what, lane, *tail)
            return (
                tree.Cast(type_name(module, type), moved, implicit=True)
                if type.is_integer and type.bits < 32
                else moved
            )
        case _:
            raise TypeError(type)


def _matchable(module: Module, what: tree.Expr, type: Scalar) -> tree.Expr:
    """16-bit floats have no match of their own: their bits do."""
    if type.is_float and type.bits == 16:
        return tree.Cast("unsigned int", bitcast(module, what, type, U16))
    return convert(module, what, type, I32) if type.bits < 32 else what


def _reduce(module: Module, op: str, type: Scalar, what: tree.Expr) -> tree.Expr:
    if type.is_float or type.bits == 64:
        return call(module.helper(_butterfly(module, op, type)), what)
    signed = type.kind is ScalarKind.INT or type == BOOL
    if op in ("add", "min", "max"):
        # Narrow types are widened by C++ itself, but to `int` always: for the unsigned ones that is as good.
        result = call(f"__reduce_{op}_sync", FULL, what if type.bits == 32 else tree.Cast("int", what))
        if type == BOOL:
            return _truth(result)
        return result if type.bits == 32 else tree.Cast(type_name(module, type), result, implicit=True)
    result = call(f"__reduce_{op}_sync", FULL, tree.Cast("unsigned int", what) if type != U32 else what)
    if type == BOOL:
        return _truth(result)
    return tree.Cast(type_name(module, type), result, implicit=True) if signed or type.bits < 32 else result


def _combined(module: Module, op: str, type: Scalar) -> str:
    mine, other = tree.Name("value"), tree.Name("other")
    return expression(
        binary(module, OPERATORS[op], mine, other, type)
        if op in OPERATORS
        else function(module, op, (mine, other), type, False)
    )


def _butterfly(module: Module, op: str, type: Scalar) -> Helper:
    name, spelled = f"snap_reduce_{op}_{type}", type_name(module, type)
    return inline_helper(
        f"{spelled} {name}({spelled} value)",
        f"""\
    #pragma unroll
    for (int mask = 16; mask > 0; mask /= 2) {{
        const {spelled} other = __shfl_xor_sync(0xffffffffu, value, mask);
        value = {_combined(module, op, type)};
    }}
    return value;""",
    )


def _butterfly_of_parts(module: Module, op: str, type: Scalar, strided: bool) -> Helper:
    """Shuffles serve all parts of a warp at once; the instruction that reduces 32 lanes would take them one after the
    other.
    """
    name, spelled = f"snap_reduce_{op}_{type}_{'at' if strided else 'of'}", type_name(module, type)
    shape, lane = ("int threads, int run, int step", votes.APART) if strided else ("int threads", "mask")
    carried = "value" if type.bits >= 32 or type.is_float else "(int)value"
    combined = _combined(module, op, type)
    if op == "add" and type.kind is ScalarKind.INT and type.bits >= 32:  # sums wrap, as those of a whole warp do
        wraps = type_name(module, U32 if type.bits == 32 else U64)
        combined = f"({spelled})(({wraps})value + ({wraps})other)"
    return Helper(
        name,
        f"""\
template <{shape}>
static __device__ __forceinline__ {spelled} {name}(unsigned int lanes, {spelled} value) {{
    #pragma unroll
    for (int mask = threads / 2; mask > 0; mask /= 2) {{
        const {spelled} other = ({spelled})__shfl_xor_sync(lanes, {carried}, {lane}{"" if strided else ", threads"});
        value = {combined};
    }}
    return value;
}}""",
    )


def _broadcast(module: Module, type: Element) -> Helper:
    """The slot is free again when the helper returns: everyone has read it."""
    name, spelled = f"snap_broadcast_{type}", type_name(module, type)
    return inline_helper(
        f"{spelled} {name}({spelled} value, int source)",
        f"""\
    __shared__ __align__(16) unsigned char slot[{type.bytes}];
    if ((int)threadIdx.x == source) {{
        *reinterpret_cast<{spelled}*>(slot) = value;
    }}
    __syncthreads();
    value = *reinterpret_cast<{spelled}*>(slot);
    __syncthreads();
    return value;""",
        static_bytes=max(16, type.bytes),
    )


# ---- tensor cores ---------------------------------------------------------------------------------------------------


def _pack(module: Module, type: Scalar) -> Helper:
    name, spelled = f"snap_pack_{type}", type_name(module, type)
    low, high = (
        expression(tree.Cast("unsigned int", bitcast(module, tree.Name(n), type, U16))) for n in ("low", "high")
    )
    return inline_helper(f"unsigned int {name}({spelled} low, {spelled} high)", f"    return {low} | {high} << 16;")


def _listed(form: str, count: int) -> str:
    return ", ".join(form.format(i) for i in range(count))


def _operands(start: int, count: int) -> str:
    return "{" + _listed("%{}", start + count).split(", ", start)[-1] + "}"


MMA_OPERANDS = ", ".join((_operands(0, 4), _operands(4, 4), _operands(8, 2), _operands(10, 4)))  # d, a, b, c


def _product(module: Module, s: ir.Collective) -> Helper:
    kind, shape = s.attr("kind"), s.attr("shape")
    return _mma(module, kind) if shape is None else _shaped(kind, shape, bool(s.attr("saturate")))


def _shaped(kind: str, shape: tuple[int, int, int], saturate: bool) -> Helper:
    """Make the helper for an mma of f64, or of types that are packed in words."""
    of_a, _, of_b = kind.partition(".")
    family, of_b = MMA_PACKED.get(of_a, of_a), of_b or of_a
    na, nb, nc = MMA_FRAGMENTS[family][shape]
    given, letter = ("double", "d") if family == "f64" else ("unsigned int", "r")
    sums, into, spelled = {"f64": ("double", "d", "f64"), "fp8": ("float", "f", "f32")}.get(family, ("int", "r", "s32"))
    text = f"m{shape[0]}n{shape[1]}k{shape[2]}"
    types = f"{spelled}.{of_a}.{of_b}.{spelled}"
    name = f"snap_mma_{text}_{kind.replace('.', '_')}{'_saturated' if saturate else ''}"
    starts = (0, nc, nc + na, nc + na + nb)
    operands = ", ".join(_operands(start, count) for start, count in zip(starts, (nc, na, nb, nc)))
    return Helper(
        name,
        f"""\
static __device__ __forceinline__ void {name}({_listed(sums + "& d{}", nc)}, {_listed(given + " a{}", na)},
        {_listed(given + " b{}", nb)}, {_listed(sums + " c{}", nc)}) {{
    asm volatile("mma.sync.aligned.{text}.row.col{".satfinite" if saturate else ""}.{types} {operands};"
                 : {_listed(f'"={into}"(d{{}})', nc)}
                 : {_listed(f'"{letter}"(a{{}})', na)}, {_listed(f'"{letter}"(b{{}})', nb)}, {_listed(f'"{into}"(c{{}})', nc)});
}}""",
        min_arch={"fp8": 89, "f64": 90}.get(family, 80) if shape != (8, 8, 4) else 80,
        feature={"fp8": "`mma` of e4m3 and e5m2", "f64": f"`mma` of f64 with {text}; m8n8k4 is older"}.get(family, ""),
    )


def _mma(module: Module, kind: str) -> Helper:
    if kind == "tf32":
        return Helper(
            "snap_mma_m16n8k8_tf32",
            f"""\
static __device__ __forceinline__ void snap_mma_m16n8k8_tf32({_listed("float& d{}", 4)}, {_listed("float a{}", 4)},
        {_listed("float b{}", 2)}, {_listed("float c{}", 4)}) {{
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {MMA_OPERANDS};"
                 : {_listed('"=f"(d{})', 4)}
                 : {_listed('"r"(snap_tf32(a{}))', 4)}, {_listed('"r"(snap_tf32(b{}))', 2)}, {_listed('"f"(c{})', 4)});
}}""",
            needs=(TF32,),
        )
    type = F16 if kind == "f16" else BF16
    name, spelled, pack = f"snap_mma_m16n8k16_{kind}", type_name(module, type), _pack(module, type)

    def pairs(letter, count):
        return ", ".join(f'"r"({pack.name}({letter}{2 * i}, {letter}{2 * i + 1}))' for i in range(count))

    return Helper(
        name,
        f"""\
static __device__ __forceinline__ void {name}({_listed("float& d{}", 4)}, {_listed(spelled + " a{}", 8)},
        {_listed(spelled + " b{}", 4)}, {_listed("float c{}", 4)}) {{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.{kind}.{kind}.f32 {MMA_OPERANDS};"
                 : {_listed('"=f"(d{})', 4)}
                 : {pairs("a", 4)},
                   {pairs("b", 2)}, {_listed('"f"(c{})', 4)});
}}""",
        needs=(pack,),
    )


TF32 = inline_helper(
    "unsigned int snap_tf32(float x)",
    """\
    unsigned int result;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(result) : "f"(x));
    return result;""",
)


def _load_matrix(module: Module, type: Scalar, count: int, trans: bool) -> Helper:
    name, spelled = f"snap_ldmatrix_x{count}{'_trans' if trans else ''}_{type}", type_name(module, type)
    unpack = "\n".join(
        f"    e{i} = {expression(bitcast(module, tree.Name(f'(unsigned short)(r{i // 2}{shift})'), U16, type))};"
        for i in range(2 * count)
        for shift in (" >> 16" if i % 2 else " & 0xffffu",)
    )
    return inline_helper(
        f"void {name}({_listed(spelled + '& e{}', 2 * count)}, const void* row)",
        f"""\
    unsigned int {_listed("r{}", count)};
    asm volatile("ldmatrix.sync.aligned.m8n8.x{count}{".trans" if trans else ""}.shared.b16 {_operands(0, count)}, [%{count}];"
                 : {_listed('"=r"(r{})', count)} : "r"((unsigned int)__cvta_generic_to_shared(row)) : "memory");
{unpack}""",
    )


def _store_matrix(module: Module, type: Scalar, count: int, trans: bool) -> Helper:
    name, spelled, pack = (
        f"snap_stmatrix_x{count}{'_trans' if trans else ''}_{type}",
        type_name(module, type),
        _pack(module, type),
    )
    packed = ", ".join(f'"r"({pack.name}(e{2 * i}, e{2 * i + 1}))' for i in range(count))
    return inline_helper(
        f"void {name}(void* row, {_listed(spelled + ' e{}', 2 * count)})",
        f"""\
    asm volatile("stmatrix.sync.aligned.m8n8.x{count}{".trans" if trans else ""}.shared.b16 [%0], {_operands(1, count)};"
                 :: "r"((unsigned int)__cvta_generic_to_shared(row)), {packed} : "memory");""",
        needs=(pack,),
        min_arch=90,
    )
