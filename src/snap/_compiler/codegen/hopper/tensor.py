"""Tensor cores of a warpgroup: wgmma on tiles of shared memory, and its accumulators back into shared memory.

Input:      `Wgmma`, `StoreAcc`, commits and waits for wgmma
Output:     CUDA statements
Invariant:  accumulators stay in registers: every instruction names all of them, and nothing that the compiler knows
            about them (a constant, an early read) can be moved between the first instruction and the wait
Non-goals:  tiles whose rows are not as long as their swizzle

A matrix descriptor says where a tile begins, how it is swizzled, and how far its pieces lie apart, all in units of 16
bytes.  The pieces are 8 rows each (8 * swizzle bytes).  A tile whose rows run along k steps along its rows, 32 bytes an
instruction, and then to its next panel; one whose rows run along m or n ('transposed') steps down its rows, and its
panels are the further columns.
"""

from __future__ import annotations

import math

from snap._compiler.codegen.core import issue, tree
from snap._compiler.codegen.core.module import Helper, Module, inline_helper
from snap._compiler.codegen.core.printer import expression
from snap._compiler.codegen.core.scope import Scope
from snap._compiler.codegen.core.spelling import type_name
from snap._compiler.codegen.hopper import accumulators
from snap._compiler.codegen.hopper.mbarriers import SHARED
from snap._compiler.codegen.memory import addresses, swizzles
from snap._compiler.codegen.values import fold
from snap._compiler.codegen.values.arithmetic import convert
from snap._compiler.codegen.values.expressions import lower
from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap._compiler.ir.hardware import DESCRIPTOR_UNIT, SWIZZLE_CHUNK, WARPGROUP, WGMMA_STEP
from snap._compiler.ir.types import BF16, F16, F32, I32, Array, Scalar, as_scalar

A_REGISTERS = 4  # of A, in one instruction
ROWS = 8  # of a piece

MATRIX = Helper(
    "snap_matrix",
    """\
template <int swizzle, int panels, int rows>  // bytes: of a row (the swizzle), leading byte offset (panel to panel), stride byte offset (8 rows)
static __device__ __forceinline__ unsigned long long snap_matrix(const void* tile) {
    const unsigned long long mode = swizzle == 128 ? 1 : swizzle == 64 ? 2 : 3;
    const unsigned int start = snap_shared(tile) % (1 << 18) / 16;  // in shared::cluster, the higher bits are the CTA
    return mode << 62 | (unsigned long long)(rows / 16) << 32 | (unsigned long long)(panels / 16) << 16 | start;
}""",
    needs=(SHARED,),
    min_arch=90,
)

COMMIT = inline_helper(
    "void snap_wgmma_commit()",
    '    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");',
    min_arch=90,
    arch_specific=True,
)


def commit(scope: Scope) -> list[tree.Stmt]:
    return [scope.module.does(COMMIT)]


# ---- products -------------------------------------------------------------------------------------------------------


def multiply(scope: Scope, s: ir.Wgmma) -> list[tree.Stmt]:
    module, namer = scope.module, scope.state.namer
    steps = s.k * _bytes(s.types[0]) // WGMMA_STEP
    helper = module.helper(_product(s, isinstance(s.a, ir.ArrayRef), s.acc.elem == F32))
    namer.open()
    counter = namer.own("step") if steps > 1 else ""
    step = tree.Name(counter) if counter else tree.Integer(0)
    tiles: list[tree.Stmt] = []
    if isinstance(s.a, ir.ArrayRef):
        words = tree.Reinterpret("const unsigned int*", addresses.start(scope, s.a))
        a = fold.binary("+", words, fold.binary("*", step, tree.Integer(A_REGISTERS), I32), I32)
    else:
        a = _operand(scope, tiles, namer.own("a_tile"), s.a, s.a_transposed, step)
    b = _operand(scope, tiles, namer.own("b_tile"), s.b, s.b_transposed, step)
    later = tree.Binary(">", step, tree.Integer(0))
    keep = _kept(scope, s.zero)
    if steps > 1:
        keep = (
            keep
            if keep == tree.Literal("true")
            else later
            if keep == tree.Literal("false")
            else tree.Binary("||", later, keep)
        )
    product: tree.Stmt = tree.Evaluate(tree.Call(helper, (accumulators.registers(scope, s.acc), a, b, keep)))
    namer.close()
    if counter:
        more = tree.Binary("<", step, tree.Integer(steps))
        product = tree.For(
            "int", counter, tree.Integer(0), more, tree.Assign(step, "+=", tree.Integer(1)), (product,), unroll=0
        )
    # Two that start from zero the assembler would merge, up to 13.1 with a wrong result.
    fenced = isinstance(s, synced.FencedWgmma) or s.zero is not None
    said = tree.Comment(s.told())
    return [*(accumulators.fence(scope, s) if fenced else []), said, tree.Block((*tiles, product))]


def _kept(scope: Scope, zero: ir.Expr | None) -> tree.Expr:
    """Return whether the products are added to what the accumulators hold."""
    match None if zero is None else lower(scope, zero):
        case None | tree.Literal("false"):
            return tree.Literal("true")
        case tree.Literal("true"):
            return tree.Literal("false")
        case tree.Binary("==", left, right):
            return tree.Binary("!=", left, right)
        case found:
            return tree.Unary("!", found)


def _operand(
    scope: Scope, out: list[tree.Stmt], name: str, tile: ir.Tile, transposed: bool, step: tree.Expr
) -> tree.Expr:
    """Declares the tile's descriptor, and gives the one of this step."""
    view = tile.access.view
    swizzle, width = view.obj.swizzle, tile.shape[-1] * view.elem.bytes
    panel = math.prod(ir.extents(view.shape)[-2:]) * view.elem.bytes
    args = f"<{swizzle}, {panel if transposed else 0}, {ROWS * swizzle}>"
    made = tree.Call(f"{scope.module.helper(MATRIX)}{args}", (addresses.tile_start(scope, tile),))
    out.append(tree.Declare("unsigned long long", name, made, const=True))
    if transposed:
        rows = WGMMA_STEP // view.elem.bytes
        offset = fold.binary("*", step, tree.Integer(rows * swizzle // DESCRIPTOR_UNIT), I32)
    else:
        offset = _along(step, width // WGMMA_STEP, panel // DESCRIPTOR_UNIT, panels=math.prod(tile.shape[:-2]))
    return fold.binary("+", tree.Name(name), offset, I32)


def _along(step: tree.Expr, per_panel: int, panel: int, panels: int) -> tree.Expr:
    if panels == 1:
        return fold.binary("*", step, tree.Integer(WGMMA_STEP // DESCRIPTOR_UNIT), I32)
    inside = fold.binary(
        "*", fold.binary("%", step, tree.Integer(per_panel), I32), tree.Integer(WGMMA_STEP // DESCRIPTOR_UNIT), I32
    )
    return fold.binary(
        "+",
        fold.binary("*", fold.binary("/", step, tree.Integer(per_panel), I32), tree.Integer(panel), I32),
        inside,
        I32,
    )


def _bytes(type: str) -> int:
    return {"bf16": 2, "f16": 2, "tf32": 4, "e4m3": 1, "e5m2": 1}[type]


def _product(s: ir.Wgmma, from_registers: bool, wide: bool) -> Helper:
    """One instruction.  tf32 operands are taken as they are: the hardware reads the upper 19 bits."""
    k = WGMMA_STEP // _bytes(s.types[0])
    shape, sides = f"m64n{s.n}k{k}", f"{'t' if s.a_transposed else ''}{'u' if s.b_transposed else ''}"
    result = "f32" if wide else "f16"
    name = f"snap_wgmma_{shape}_{result}_{s.type.replace('.', '_')}{'_registers' if from_registers else ''}"
    name += {"": "", "t": "_a_transposed", "u": "_b_transposed", "tu": "_both_transposed"}[sides]
    count = s.n // 2 if wide else s.n // 4
    a_count = A_REGISTERS if from_registers else 1
    listed = [f"%{i}" for i in range(count + a_count + 2)]
    a = "{" + ", ".join(listed[count : count + a_count]) + "}" if from_registers else listed[count]
    b, keep = listed[-2:]
    majors = ""
    if _bytes(s.types[0]) == 2:
        majors = f", {int(s.b_transposed)}" if from_registers else f", {int(s.a_transposed)}, {int(s.b_transposed)}"
    element, letter = ("float", "f") if wide else ("unsigned int", "r")
    given = "const unsigned int* a" if from_registers else "unsigned long long a"
    operands = ", ".join(f'"r"(a[{i}])' for i in range(A_REGISTERS)) if from_registers else '"l"(a)'
    return inline_helper(
        f"void {name}({element} (&d)[{count}], {given}, unsigned long long b, bool keep)",
        f"""\
    asm volatile("{{.reg .pred keep; setp.ne.b32 keep, {keep}, 0; wgmma.mma_async.sync.aligned.{shape}.{result}.{".".join(s.types)} "
{_wrapped("{" + ", ".join(listed[:count]) + "}, ")}
                 "{a}, {b}, keep, 1, 1{majors};}}"
{_wrapped_operands(f'"+{letter}"(d[{{}}])', count)}
                 : {operands}, "l"(b), "r"((int)keep));""",
        min_arch=90,
        arch_specific=True,
    )


def _wrapped(text: str) -> str:
    """String literals on lines of their own."""
    lines, line = [], ""
    for word in text.split(" "):
        if line and len(line) + len(word) >= 110:
            lines.append(line)
            line = ""
        line += f"{word} "
    lines.append(line[:-1])
    return "\n".join(f'                 "{line}"' for line in lines)


def _wrapped_operands(form: str, count: int) -> str:
    items = [form.format(i) for i in range(count)]
    lines = [", ".join(items[at : at + 8]) for at in range(0, count, 8)]
    return "                 : " + ",\n                   ".join(lines)


# ---- accumulators into shared memory --------------------------------------------------------------------------------


def store(scope: Scope, s: ir.StoreAcc) -> list[tree.Stmt]:
    module, view = scope.module, s.tile.access.view
    width, pitch = s.tile.shape[-1], ir.extents(view.shape)[-1]
    helper = module.helper(_store(module, as_scalar(view.elem), view.obj.swizzle, as_scalar(s.acc.elem)))
    name = f"{helper}<{width}, {pitch}>"
    start = addresses.linear(scope, view, s.tile.access.index)
    flat = addresses.whole(scope, s.acc, Array(s.acc.elem, (math.prod(s.acc.shape),)), const=False)
    return [
        tree.Evaluate(
            tree.Call(
                name,
                (
                    addresses.base(scope, s.tile.access),
                    start,
                    flat,
                    lower(scope, s.first),
                    issue.index(scope, WARPGROUP),
                ),
            )
        )
    ]


def _store(module: Module, elem: Scalar, swizzle: int, given: Scalar) -> Helper:
    """A thread holds, of every 8 columns, two of row lane / 4 of its warp's 16 rows and two of the row 8 below."""
    name = f"snap_store_{given}_as_{elem}_{swizzle}" if swizzle else f"snap_store_{given}_as_{elem}"
    place = "start + row * pitch + column + j"
    needs: tuple[Helper, ...] = ()
    if swizzle:
        permute = swizzles.swizzle(swizzle)
        needs, place = (permute,), f"{permute.name}<{SWIZZLE_CHUNK // elem.bytes}>({place})"
    body, more = _matrices(module, elem, place) if elem in (BF16, F16) else _elements(module, elem, given, place)
    return Helper(
        name,
        f"""\
template <int width, int pitch, int size>  // columns, row pitch in elements, accumulator registers
static __device__ __forceinline__ void {name}(
        {type_name(module, elem)}* memory, int start, const {type_name(module, given)} (&acc)[size], int first, int thread) {{
{body}
}}""",
        needs=(*needs, *more),
        min_arch=90 if elem in (BF16, F16) else 80,
    )


def _pair(module: Module, elem: Scalar) -> Helper:
    name = f"snap_pair_{elem}"
    made = "__nv_bfloat162 pair = __floats2bfloat162_rn" if elem == BF16 else "__half2 pair = __floats2half2_rn"
    type_name(module, elem)  # its header
    return inline_helper(
        f"unsigned int {name}(float low, float high)",
        f"""\
    const {made}(low, high);
    return *reinterpret_cast<const unsigned int*>(&pair);""",
    )


def _matrices(module: Module, elem: Scalar, place: str) -> tuple[str, tuple[Helper, ...]]:
    """Four (at an odd end, two) 8x8 matrices at a time; lane l says where row l % 16 of the columns from 8 * (l / 16)
    on goes.
    """
    pair = _pair(module, elem)

    def stored(count: int) -> str:
        values = [f'"r"({pair.name}(acc[at + {2 * i}], acc[at + {2 * i + 1}]))' for i in range(count)]
        registers = ", ".join(f"%{i + 1}" for i in range(count))
        return f"""\
        const int at = (first + j) / 2;
        asm volatile("stmatrix.sync.aligned.m8n8.x{count}.shared.b16 [%0], {{{registers}}};"
                     :: "r"(snap_shared(memory + {place})),
                        {", ".join(values)} : "memory");"""

    return (
        f"""\
    const int row = thread / 32 * 16 + thread % 16, column = thread % 32 / 16 * 8;
    #pragma unroll
    for (int j = 0; j < width - 8; j += 16) {{
{stored(4)}
    }}
    if (width % 16) {{
        const int j = width - 8 - column;
{stored(2).replace("(first + j)", "(first + width - 8)")}
    }}""",
        (pair, SHARED),
    )


def _elements(module: Module, elem: Scalar, given: Scalar, place: str) -> tuple[str, tuple[Helper, ...]]:
    if elem == F32:
        value = "(float)acc[at], (float)acc[at + 1]" if given != F32 else "acc[at], acc[at + 1]"
        write = f"*reinterpret_cast<float2*>(memory + {place}) = make_float2({value});"
    else:
        one = [expression(convert(module, tree.Name(f"acc[at{after}]"), given, elem)) for after in ("", " + 1")]
        write = (
            f"memory[{place}] = {one[0]};\n            memory[{place.replace('column + j', 'column + j + 1')}] ="
            f" {one[1]};"
        )
    return (
        f"""\
    const int column = thread % 4 * 2;
    #pragma unroll
    for (int j = 0; j < width; j += 8) {{
        #pragma unroll
        for (int half = 0; half < 2; ++half) {{
            const int row = thread / 32 * 16 + thread % 32 / 4 + half * 8, at = (first + j) / 2 + half * 2;
            {write}
        }}
    }}""",
        (),
    )
