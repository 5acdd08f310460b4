"""`wmma`: what a warp loads, multiplies and stores is the product, whatever the layout, the place, and who holds what; and what ptxas refuses is refused."""

from __future__ import annotations

import numpy as np
import pytest
from ptx.test_machine import kernel

from snap.ptx import PtxError, PtxFault, load, parse, run

HALVES = ("m16n16k16", "m8n32k16", "m32n8k16")
COUNTS = {  # of a and b
    **{(t, s): (8, 8) for t in ("f16",) for s in HALVES},
    **{("bf16", s): n for s, n in zip(HALVES, ((4, 4), (2, 8), (8, 2)))},
    **{(t, s): n for t in ("s8", "u8") for s, n in zip(HALVES, ((2, 2), (1, 4), (4, 1)))},
    ("tf32", "m16n16k8"): (4, 4),
    ("f64", "m8n8k4"): (1, 1),
}
SUMS = {"bf16": ("f32",), "tf32": ("f32",), "f64": ("f64",), "s8": ("s32",), "u8": ("s32",), "f16": ("f16", "f32")}
NUMPY = {"f16": np.float16, "bf16": np.uint16, "tf32": np.float32, "f64": np.float64, "s8": np.int8, "u8": np.uint8, "f32": np.float32, "s32": np.int32}
CASES = [(t, s, d) for (t, s) in COUNTS for d in SUMS[t]]


def registers(type: str, count: int, first: int) -> str:
    kind = {"f64": "g", "f32": "f"}.get(type, "r")
    return "{" + ", ".join(f"%{kind}{first + k}" for k in range(count)) + "}"


def sums(type: str, first: int = 0) -> str:
    return registers(type, {"f16": 4, "f64": 2}.get(type, 8), first)


def extents(shape: str) -> tuple[int, int, int]:
    rows, rest = shape[1:].split("n")
    return int(rows), *map(int, rest.split("k"))


def laid(values: np.ndarray, layout: str, more: int) -> np.ndarray:
    """With some elements behind each row, or column."""
    lines = values if layout == "row" else values.T
    return np.pad(lines, ((0, 0), (0, more)))


def stored(values: np.ndarray, type: str) -> np.ndarray:
    return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16) if type == "bf16" else values.astype(NUMPY[type])


def program(type: str, shape: str, d: str, a: str, b: str, c: str, strides: tuple[int, int, int]) -> str:
    first, second = COUNTS[type, shape]
    left, right = registers(type, first, 8), registers(type, second, 20 if type != "f64" else 5)
    types = f"{d}.{d}" if type == "f16" else f"{d}.{type}.{type}.{d}"
    return kernel(
        "ld.param.u64 %d0, [p0]; ld.param.u64 %d1, [p1]; ld.param.u64 %d2, [p2]; mov.u32 %r1, " + f"{strides[1]}; "
        f"wmma.load.a.sync.aligned.{a}.{shape}.global.{type} {left}, [%d0], {strides[0]};"
        f"wmma.load.b.sync.aligned.{b}.{shape}.{type} {right}, [%d1], %r1;"
        f"wmma.load.c.sync.aligned.{c}.{shape}.global.{d} {sums(d, 0 if d != 's32' and d != 'f16' else 40)}, [%d2], {strides[2]};"
        f"wmma.mma.sync.aligned.{a}.{b}.{shape}.{types} {sums(d, 0 if d != 's32' and d != 'f16' else 40)}, {left}, {right}, {sums(d, 0 if d != 's32' and d != 'f16' else 40)};"
        f"wmma.store.d.sync.aligned.{c}.{shape}.global.{d} [%d2], {sums(d, 0 if d != 's32' and d != 'f16' else 40)}, {strides[2]};",
        3,
    ).replace("%r<32>", "%r<64>")


@pytest.mark.parametrize("type, shape, d", CASES)
def test_a_product_is_the_product(type, shape, d):
    draw = np.random.default_rng(1)
    m, n, k = extents(shape)
    for case, (a, b, c) in enumerate((("row", "col", "row"), ("col", "row", "col"), ("row", "row", "row"))):
        left, right = (draw.integers(0 if type == "u8" else -4, 5, size) for size in ((m, k), (k, n)))
        begun = draw.integers(-9, 10, (m, n))
        x, y = (np.ascontiguousarray(laid(stored(v, type), layout, 16)) for v, layout in ((left, a), (right, b)))
        z = np.ascontiguousarray(laid(begun.astype(NUMPY[d]), c, 8))
        run(program(type, shape, d, a, b, c, (x.shape[1], y.shape[1], z.shape[1])), "k", 1, 32, [x, y, z], seed=(None, 1, 2)[case])
        expected = laid((left @ right + begun).astype(NUMPY[d]), c, 8)
        np.testing.assert_array_equal(z, expected)


def test_sums_of_f16_and_f32_may_be_mixed_and_are_scaled_in_registers():
    """d = 2 (a b + c) twice over, c in f16 and d in f32; each lane doubles what it holds, which is the same in all layouts."""
    draw = np.random.default_rng(2)
    a, b, c = (draw.integers(-3, 4, (16, 16)) for _ in range(3))
    text = kernel(
        "ld.param.u64 %d0, [p0]; ld.param.u64 %d1, [p1]; ld.param.u64 %d2, [p2]; ld.param.u64 %d3, [p3];"
        f"wmma.load.a.sync.aligned.row.m16n16k16.f16 {registers('f16', 8, 8)}, [%d0]; wmma.load.b.sync.aligned.row.m16n16k16.f16 {registers('f16', 8, 16)}, [%d1];"
        f"wmma.load.c.sync.aligned.row.m16n16k16.f16 {sums('f16', 24)}, [%d2];"
        f"wmma.mma.sync.aligned.row.row.m16n16k16.f32.f16 {sums('f32')}, {registers('f16', 8, 8)}, {registers('f16', 8, 16)}, {sums('f16', 24)};"
        + "".join(f"add.f32 %f{k}, %f{k}, %f{k};" for k in range(8))
        + f"wmma.mma.sync.aligned.row.row.m16n16k16.f16.f32 {sums('f16', 24)}, {registers('f16', 8, 8)}, {registers('f16', 8, 16)}, {sums('f32')};"
        f"wmma.store.d.sync.aligned.row.m16n16k16.f32 [%d3], {sums('f32')}; wmma.store.d.sync.aligned.row.m16n16k16.f16 [%d2], {sums('f16', 24)};",
        4,
    )
    for seed in (None, 3):
        x, y, z, out = a.astype(np.float16), b.astype(np.float16), c.astype(np.float16), np.zeros((16, 16), np.float32)
        run(text, "k", 1, 32, [x, y, z, out], seed=seed)
        np.testing.assert_array_equal(out, 2 * (a @ b + c))
        np.testing.assert_array_equal(z, 2 * (a @ b + c) + a @ b)


def test_who_depends_on_who_holds_what_gives_another_result_with_another_seed():
    text = kernel(
        f"ld.param.u64 %d0, [p0]; ld.param.u64 %d1, [p1]; wmma.load.c.sync.aligned.row.m16n16k16.f32 {sums('f32')}, [%d0];"
        "mul.wide.u32 %d2, %r0, 4; add.s64 %d1, %d1, %d2; st.global.f32 [%d1], %f0;",
        2,
    )
    seen = set()
    for seed in (None, 1, 2):
        out = np.zeros(32, np.float32)
        run(text, "k", 1, 32, [np.arange(256, dtype=np.float32), out], seed=seed)
        seen.add(tuple(out))
    assert len(seen) == 3


def test_shared_memory_and_all_lanes_alike():
    body = (
        ".shared .align 32 .b8 s[512]; ld.param.u64 %d0, [p0]; mov.u32 %r4, s; shl.b32 %r5, %r0, 4; add.u32 %r5, %r5, %r4; st.shared.v4.u32 [%r5], {%r0, %r0, %r0, %r0}; bar.warp.sync -1;"
        f"wmma.load.c.sync.aligned.row.m16n16k16.shared.f16 {sums('f16', 8)}, [{{0}}]; wmma.store.d.sync.aligned.row.m16n16k16.global.f16 [%d0], {sums('f16', 8)};"
    )
    out = np.zeros(128, np.uint32)
    run(kernel(body.replace("{0}", "%r4"), 1), "k", 1, 32, [out])
    np.testing.assert_array_equal(out, np.arange(32).repeat(4))
    with pytest.raises(PtxFault, match="lanes of a warp give wmma.load.* different addresses"):
        run(kernel(body.replace("{0}", "%r5"), 1), "k", 1, 32, [out])
    with pytest.raises(PtxFault, match="out of bounds|outside|beyond|of `s`|has 512") as caught:
        run(kernel(body.replace("{0}", "%r4+32"), 1), "k", 1, 32, [out])
    assert caught.value.kind == "out of bounds"


@pytest.mark.parametrize(
    "line",
    [
        "wmma.load.a.sync.aligned.row.m16n16k16.f16 {%r8, %r9, %r10, %r11}, [%d0];",
        "wmma.load.a.sync.row.m16n16k16.s8 {%r8, %r9}, [%d0];",
        "wmma.load.a.sync.aligned.row.m16n16k16.local.s8 {%r8, %r9}, [%d0];",
        "wmma.load.a.sync.aligned.row.m16n16k16.s8 {%r8, %r9}, [%d0], %d1;",
        "wmma.load.a.sync.aligned.row.m16n16k8.f16 " + registers("f16", 8, 8) + ", [%d0];",
        f"wmma.mma.sync.aligned.row.col.m16n16k16.s32.s8.u8.s32 {sums('s32', 8)}, {{%r8, %r9}}, {{%r8, %r9}}, {sums('s32', 8)};",
        f"wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 {sums('f16', 8)}, {registers('f16', 8, 8)}, {registers('f16', 8, 8)}, {sums('f32')};",
    ],
)
def test_what_ptxas_refuses(line):
    with pytest.raises(PtxError) as caught:
        load(parse(kernel(line, 1)), strict=True)
    assert caught.value.diagnostic.code in ("PTX004", "PTX005")
