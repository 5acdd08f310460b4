"""Every operation for every type it can have is accepted by the compiler: what the checker lets through never fails later."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from codegen import codegen_kernels as k

from snap._compiler.codegen import emit
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.hardware import MMA_FRAGMENTS, MMA_PACKED
from snap._compiler.ir.operations import (
    ADDED,
    ATOMICS,
    L2_EVICTION,
    LOAD_CACHES,
    MATH,
    ORDERS,
    PREFETCHED,
    SCOPES,
    STORE_CACHES,
)
from snap._compiler.ir.types import (
    BF16,
    BLOCK1,
    BOOL,
    CLUSTER1,
    F16,
    F32,
    F64,
    GRID1,
    I8,
    I16,
    I32,
    I64,
    SCALARS,
    U8,
    U16,
    U32,
    VECTORS,
    WARP1,
    Array,
    Space,
)

TYPES = list(SCALARS.values())
NUMBERS = [t for t in TYPES if t != BOOL]
INTEGERS = [t for t in TYPES if t.is_integer]
FLOATS = [t for t in TYPES if t.is_float]
named = pytest.mark.parametrize


def same(t):
    return str(t)


# ---- expressions ---------------------------------------------------------------------------------------------------------------------------


def domain(op):
    return {"float": FLOATS, "number": NUMBERS, "int": INTEGERS, "word": [I32, U32], "single": [F32], "byte": [U8]}[op.domain]


@named("t", NUMBERS, ids=same)
def test_functions(t, compiles):
    x, out = k.memory("x", t, const=True), {None: k.memory("y", t), BOOL: k.memory("flags", BOOL), I32: k.memory("counts", I32), U8: k.memory("bytes", U8), F32: k.memory("singles", F32)}
    body = []
    for op in MATH.values():
        if t not in domain(op):
            continue
        for fast in (False, True) if op.fast else (False,):
            type = t if op.result is None else op.result
            body.append(k.store(out[op.result], len(body), k.math(op.name, *(k.load(x, i) for i in range(op.arity)), type=type, fast=fast)))
    compiles(k.kernel([x, *out.values()], body))


@named("t", TYPES, ids=same)
def test_conversions(t, compiles):
    x = k.memory("x", t, const=True)
    outs = [k.memory(f"to_{u}", u) for u in TYPES]
    body = [k.store(out, 0, k.cast(k.load(x, 0), out.obj.elem)) for out in outs]
    for out in outs:
        if out.obj.elem.bits == t.bits:
            body.append(k.store(out, 1, ir.Bitcast(k.load(x, 1), out.obj.elem, span=k.SPAN)))
    compiles(k.kernel([x, *outs], body))


@named("t", NUMBERS, ids=same)
def test_operators(t, compiles):
    x, y, flags = k.memory("x", t, const=True), k.memory("y", t), k.memory("flags", BOOL)
    a, b = k.var("a", t), k.var("b", t)
    ops = "+ - * /".split() + ([] if t.is_float else "% << >> & | ^".split())
    body = [k.declare(a, k.load(x, 0)), k.declare(b, k.load(x, 1))]
    body += [k.store(y, i, k.binary(op, k.read(a), k.read(b))) for i, op in enumerate(ops)]
    body += [k.store(y, 20 + i, k.binary(op, k.load(y, 20 + i), k.read(b))) for i, op in enumerate(ops)]
    body += [k.store(flags, i, k.compare(op, k.read(a), k.read(b))) for i, op in enumerate("< <= > >= == !=".split())]
    body += [k.store(y, 40 + i, ir.Unary(op, k.read(a), t, span=k.SPAN)) for i, op in enumerate("-" if t.is_float else "-~")]
    chosen = ir.Select(k.compare("<", k.read(a), k.read(b)), k.read(a), k.read(b), t, span=k.SPAN)
    either = ir.Logical("or", ir.Unary("not", k.load(flags, 0), BOOL, span=k.SPAN), k.load(flags, 1), BOOL, span=k.SPAN)
    body += [k.store(y, 50, chosen), k.store(flags, 9, ir.Logical("and", either, k.load(flags, 2), BOOL, span=k.SPAN))]
    compiles(k.kernel([x, y, flags], body), "sm_80")


def extremes(t):
    if t == BOOL:
        return [True, False]
    if t.is_integer:
        signed = t in (I8, I16, I32, I64)
        return [0, 1, -1 if signed else 1, -(1 << (t.bits - 1)) if signed else 0, (1 << (t.bits - signed)) - 1]
    return [0.0, -0.0, 1.0, -2.5, 0.1, 1e30, 1e-42, 3.4028234663852886e38, float("inf"), float("-inf"), float("nan"), 65504.0, 2.0**-24]


@named("t", TYPES, ids=same)
def test_constants(t, compiles):
    y = k.memory("y", t)
    body = []
    for value in extremes(t):
        for e in (
            k.const_(value, t),
            *(() if t == BOOL else (k.binary("-", k.load(y, 0), k.const_(value, t)), ir.Unary("-", k.const_(value, t), t, span=k.SPAN))),
        ):
            body.append(k.store(y, len(body), e))
    zeroed = k.var("zeroed", t)
    body += [k.declare(zeroed, zero=True), k.assign(zeroed, k.load(y, 3)), k.store(y, 99, k.read(zeroed))]
    compiles(k.kernel([y], body), "sm_80")


@named("v", VECTORS.values(), ids=same)
def test_vectors(v, compiles):
    x, y, z = k.memory("x", v, const=True), k.memory("y", v), k.memory("z", v.elem)
    a, parts = k.var("a", v), k.var("parts", Array(v.elem, (2 * v.lanes,)))
    made = ir.MakeVector(tuple(ir.Component(k.read(a), v.lanes - 1 - i, v.elem, span=k.SPAN) for i in range(v.lanes)), v, span=k.SPAN)
    seen = ir.ArrayRef(parts, v, (2,))
    body = [
        k.declare(a, k.load(x, 0)),
        k.store(y, 0, made),
        k.store(y, 1, k.load(z, 3, elem=v)),
        ir.Assign(ir.ComponentTarget(ir.VarTarget(a, span=k.SPAN), 1, span=k.SPAN), k.load(z, 0), span=k.SPAN),
        ir.Assign(ir.ComponentTarget(ir.MemTarget(k.access(y, 2), span=k.SPAN), 0, span=k.SPAN), k.load(z, 1), span=k.SPAN),
        k.store(y, 3, ir.Select(k.compare("==", k.load(z, 5), k.load(z, 6)), k.read(a), made, v, span=k.SPAN)),
        k.declare(parts, zero=True),
        ir.Assign(ir.ElemTarget(seen, (k.const_(0),), span=k.SPAN), k.read(a), span=k.SPAN),
        k.store(y, 4, ir.Elem(seen, (k.const_(1),), v, span=k.SPAN)),
        k.store(z, 0, k.elem(parts, 1)),
    ]
    zeroed = k.var("zeroed", v)
    body += [k.declare(zeroed, zero=True), k.assign(zeroed, k.read(a)), k.store(y, 5, k.read(zeroed))]
    compiles(k.kernel([x, y, z], body))


# ---- collectives ---------------------------------------------------------------------------------------------------------------------------


def collected(op, requires, type, result, out, *args, **attrs):
    v = k.var("v", result, temp=True)
    return [k.declare(v), k.collective(op, requires, k.place(), [ir.VarTarget(v, span=k.SPAN)], args, **attrs), k.store(out, 0, k.read(v))]


@named("t", TYPES, ids=same)
def test_warp_collectives(t, compiles):
    x, y, masks, flags = k.memory("x", t, const=True), k.memory("y", t), k.memory("masks", U32), k.memory("flags", BOOL)
    lane = k.var("lane", I32)
    body = []
    for op in ("shfl", "shfl_up", "shfl_down", "shfl_xor"):
        body += collected(op, WARP1, t, t, y, k.load(x, 0), k.read(lane)) + collected(op, WARP1, t, t, y, k.load(x, 0), k.const_(3), width=8)
    for op in ("match_any", "match_all"):
        body += collected(op, WARP1, t, U32, masks, k.load(x, 0))
    for op in ("add", "min", "max") + (() if t.is_float else ("and", "or", "xor")):
        body += collected(f"reduce_{op}", WARP1, t, t, y, k.load(x, 0))
    body += collected("broadcast", BLOCK1, t, t, y, k.load(x, 0)) + collected("broadcast", BLOCK1, t, t, y, k.load(x, 1), source=5)
    if t == BOOL:
        body += [s for op in ("any", "all") for s in collected(op, WARP1, t, BOOL, flags, k.load(x, 0))] + collected(
            "ballot", WARP1, t, U32, masks, k.load(x, 0)
        )
        body += [s for op in ("or", "and") for s in collected(f"syncthreads_{op}", BLOCK1, t, BOOL, flags, k.load(x, 0))]
        body += collected("syncthreads_count", BLOCK1, t, I32, k.memory("counts", I32), k.load(x, 0))[:2] + collected("elect", WARP1, t, BOOL, flags)
    compiles(k.kernel([x, y, masks, flags, lane], body))


def test_barriers_for_experts(compiles):
    where = k.place(128, cluster=2)
    body = [
        k.collective(op, need, where) for op, need in (("syncwarp", WARP1), ("syncthreads", BLOCK1), ("sync_cluster", CLUSTER1), ("sync_grid", GRID1))
    ]
    module = compiles(k.kernel([], body, where, cooperative=True))
    assert module.grid_barrier and module.cooperative and module.cluster == 2 and module.min_arch == 90


@named("kind, t, na, nb", [("tf32", F32, 4, 2), ("f16", F16, 8, 4), ("bf16", BF16, 8, 4)])
def test_mma(kind, t, na, nb, compiles):
    out, a, b, c = k.memory("out", F32), k.var("a", Array(t, (na,))), k.var("b", Array(t, (nb,))), k.var("c", Array(F32, (4,)))
    d = k.var("d", F32)
    args = [*(k.elem(a, i) for i in range(na)), *(k.elem(b, i) for i in range(nb)), *(k.elem(c, i) for i in range(4))]
    targets = [k.elem_target(c, 0), k.elem_target(c, 1), k.elem_target(c, 2), ir.VarTarget(d, span=k.SPAN)]
    body = [
        k.declare(a, zero=True),
        k.declare(b, zero=True),
        k.declare(c, zero=True),
        k.declare(d),
        k.collective("mma", WARP1, k.place(), targets, args, kind=kind),
        k.store(out, 0, k.elem(c, 1)),
        k.store(out, 1, k.read(d)),
    ]
    module = compiles(k.kernel([out], body))
    assert module.min_arch == 80


@named("t", [F16, BF16, I16, U16], ids=same)
def test_matrices(t, compiles):
    tile = k.memory("tile", t, (16, 16), space=Space.SHARED, swizzle=32)
    out = k.memory("out", t)
    body = [ir.DeclareShared(tile.obj, tile, span=k.SPAN)]
    for count in (1, 2, 4):
        for trans in (False, True):
            f = k.var("f", Array(t, (2 * count,)))
            body += [
                k.declare(f, zero=True),
                k.collective(
                    "ldmatrix",
                    WARP1,
                    k.place(),
                    [k.elem_target(f, i) for i in range(2 * count)],
                    accesses=[k.access(tile, 1, 8)],
                    count=count,
                    trans=trans,
                ),
                k.collective(
                    "stmatrix",
                    WARP1,
                    k.place(),
                    args=[k.elem(f, i) for i in range(2 * count)],
                    accesses=[k.access(tile, 0, 0)],
                    count=count,
                    trans=trans,
                ),
                k.store(out, 0, k.elem(f, 0)),
            ]
    assert compiles(k.kernel([out], body, smem=512)).min_arch == 90


# ---- atomics -------------------------------------------------------------------------------------------------------------------------------


def atomic_body(t, order, scope):
    x, y = k.memory("x", t), k.memory("y", t)
    shared = k.memory("bins", t, (4,), space=Space.SHARED)
    body = [ir.DeclareShared(shared.obj, shared, span=k.SPAN)]
    for op, row in ATOMICS.items():
        if (
            op in ("and", "or", "xor")
            and not t.is_integer
            or op in ("inc", "dec")
            and t != U32
            or (op, order) in (("load", "release"), ("load", "acq_rel"), ("store", "acquire"), ("store", "acq_rel"))
        ):
            continue
        for at in (x, shared):
            old = k.var("old", t, temp=True)
            args = tuple(k.load(y, 1 + i) for i in range(row.values))
            target = None if op == "store" else ir.VarTarget(old, span=k.SPAN)
            body += [k.declare(old), ir.Atomic(op, k.access(at, 3), args, target, order, scope, span=k.SPAN)] + (
                [] if op == "store" else [k.store(y, 0, k.read(old))]
            )
        body.append(ir.Atomic(op, k.access(x, 1), args, None, order, scope, span=k.SPAN))
    return [x, y], body


@named("t", list(ADDED), ids=str)
def test_atomics_of_vectors(t, compiles):
    for scope in SCOPES:
        x, y, old = k.memory("x", t), k.memory("y", t), k.var("old", t)
        body = [k.declare(old, k.load(y, 0))]
        for order in ORDERS:
            for target in (None, ir.VarTarget(old, span=k.SPAN)):
                body.append(ir.Atomic("add", k.access(x, 1), (k.load(y, 1),), target, order, scope, span=k.SPAN))
        module = compiles(k.kernel([x, y], [*body, k.store(y, 0, k.read(old))]), "sm_80", "sm_90a", "sm_100", "sm_120")
        assert module.min_arch == (90 if ADDED[t][0] == 90 or t.elem == BF16 or scope == "cluster" else 80)


@named("scope", SCOPES)
@named("t", NUMBERS, ids=same)
def test_atomics(t, scope, compiles):
    params, body = [], []
    for order in ORDERS:
        more, statements = atomic_body(t, order, scope)
        params += more
        body += [ir.Group(GRID1, k.place(), k.place(), tuple(statements), span=k.SPAN)]
    module = compiles(k.kernel(params, body, smem=32), "sm_90a" if scope == "cluster" else "sm_80")
    assert module.min_arch == (90 if scope == "cluster" else 80)


# ---- the other compiler --------------------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not installed")
@named("t", [F16, BF16, F64, U8, I64], ids=same)
def test_nvcc(t, tmp_path):
    params, body = atomic_body(t, "acq_rel", "system")
    x, y = k.memory("x", t, const=True), k.memory("y", t)
    body += [
        k.store(y, 0, k.math(op.name, *(k.load(x, i) for i in range(op.arity)), type=t))
        for op in MATH.values()
        if t in domain(op) and op.result is None
    ]
    for op in ("shfl_up", "reduce_max"):
        body += collected(op, WARP1, t, t, y, k.load(x, 0), *([k.const_(1)] if op == "shfl_up" else []))
    module = emit(k.kernel([*params, x, y], body, smem=32))
    source = tmp_path / "kernel.cu"
    source.write_text(module.text)
    done = subprocess.run(
        ["nvcc", "-arch=sm_80", "--std=c++17", "-cubin", "-o", str(tmp_path / "kernel.cubin"), str(source)], capture_output=True, text=True
    )
    assert done.returncode == 0 and not done.stderr, f"{done.stderr}\n{module.text}"


# ---- caches ----------------------------------------------------------------------------------------------------------------------------------


@named("l2", ("", *L2_EVICTION))
@named("elem", [I8, F16, I32, F64, *(v for v in VECTORS.values() if v.elem in (BF16, F32, F64))], ids=same)
def test_cache_hints(elem, l2, compiles):
    x, y = k.memory("x", elem, const=True), k.memory("y", elem)
    body = [ir.Prefetch(k.access(x, 0), level, span=k.SPAN) for level in PREFETCHED]
    for cache in (*LOAD_CACHES, *([""] if l2 else [])):
        for of in (x, y):
            body.append(k.store(y, len(body), ir.Load(k.access(of, len(body)), elem, cache, l2, span=k.SPAN)))
    for cache in (*STORE_CACHES, *([""] if l2 else [])):
        body.append(ir.Assign(ir.MemTarget(k.access(y, len(body)), cache, l2, span=k.SPAN), k.load(x, 0), span=k.SPAN))
    compiles(k.kernel([x, y], body))


def hinted(text: str) -> str:
    """The CUDA of a kernel that calls `loaded`."""
    from snap.diag.source import register_source

    text = "from __future__ import annotations\nfrom snap import *\n" + text
    register_source("<hinted>", text)
    namespace: dict = {}
    exec(compile(text, "<hinted>", "exec"), namespace)
    return namespace["k"].cuda()


COHERENT = 'asm volatile("ld.global.cg.b32 %0, [%1];" : "=r"(words[0]) : "l"(place) : "memory")'


def test_a_load_with_a_hint_stays_between_its_barriers():
    """Of memory that is written nothing may move or merge it; a kernel's const array is read past coherence."""
    text = hinted("""
@kernel(threads=64)
def k(x: ptr(const(int)), y: ptr(int)):
    with each(thread, y) as i:
        y[i] = intrinsic.load(x[i], cache="cg") + intrinsic.load(y[i], cache="cg")
""")
    assert 'asm("ld.global.cg.nc.b32' in text and COHERENT in text


def test_a_hint_in_a_device_function():
    """What is const there may be written by the caller."""
    text = hinted("""
@device(thread)
def loaded(x: ptr(const(int)), i: int) -> int:
    return intrinsic.load(x[i], cache="cg")

@kernel(threads=64)
def k(y: ptr(int)):
    i: int @ thread[1] = id()
    with partition(y, p=thread[1], offset=i) as mine, group(thread[1]):
        mine[0] = loaded(mine, 0) + 1
        mine[0] = loaded(mine, 0) + 2
""")
    assert COHERENT in text and ".nc" not in text


# ---- tensor cores: packed operands and f64 -----------------------------------------------------------------------------------------------------


@named("family", ["f64", "int8", "int4", "fp8"])
def test_mma_of_other_kinds(family, compiles):
    of_a, sums = {"f64": (F64, F64), "fp8": (U32, F32)}.get(family, (U32, I32))
    kinds = [a for a, f in MMA_PACKED.items() if f == family] or ["f64"]
    for shape, (na, nb, nc) in MMA_FRAGMENTS[family].items():
        words, acc = k.var("words", Array(of_a, (na + nb,))), k.var("acc", Array(sums, (nc,)))
        args = [*(k.elem(words, i) for i in range(na + nb)), *(k.elem(acc, i) for i in range(nc))]
        body = [k.declare(words, zero=True), k.declare(acc, zero=True)]
        for kind in [f"{a}.{b}" for a in kinds for b in kinds] if family != "f64" else kinds:
            for more in ({}, {"saturate": True}) if sums == I32 else ({},):
                body.append(k.collective("mma", WARP1, k.place(), [k.elem_target(acc, i) for i in range(nc)], args, kind=kind, shape=shape, **more))
        y = k.memory("y", sums)
        module = compiles(k.kernel([y], [*body, k.store(y, 0, k.elem(acc, 0))]), "sm_80", "sm_89", "sm_90a", "sm_100", "sm_120")
        assert module.min_arch == (89 if family == "fp8" else 90 if family == "f64" and shape[0] == 16 else 80)
