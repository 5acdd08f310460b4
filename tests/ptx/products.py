"""What tensor cores compute, form by form: `mma.sync` and `wgmma`, with operands that show how their sums are taken.

As forms.py has instructions of one thread: the kernel of each form, and its operands, which follow from its text.  Registers are given
as they are: `given[0]` are those of A, then B (of `wgmma` the words of its tile in shared memory), then the sums, in rows of (warp,
register, lane).  Each warp (warpgroup) has operands of another kind, `KINDS`.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np

FLOAT = {"f16": (5, 10), "bf16": (8, 7), "tf32": (8, 23), "e4m3": (4, 3), "e5m2": (5, 2), "f32": (8, 23), "f64": (11, 52)}
BITS = {"f16": 16, "bf16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8, "s4": 4, "u4": 4, "f32": 32, "f64": 64, "s32": 32}
# How far exponents lie from one's, how many elements are there at all, what is special; and the sums: their exponents, or `anything`.
KINDS = ("near", "spread", "large sum", "few", "few, spread", "special", "small", "largest", "anything")


@dataclass(frozen=True)
class Product:
    """rows, columns, depth; types of the sums, of A and of B."""

    name: str
    shape: tuple[int, int, int]
    types: tuple[str, str, str]
    flags: str = ""

    @property
    def grouped(self) -> bool:
        return self.name.startswith("wgmma")

    @property
    def lanes(self) -> int:
        return 128 if self.grouped else 32

    @property
    def counts(self) -> tuple[int, int, int]:
        """Registers of a lane: of A, B, the sums; of wgmma's B: words of the tile for 64 lanes."""
        m, n, k = self.shape
        width = BITS[self.types[1]]
        word = 64 if self.types[0] == "f64" else 32
        sums = m * n * BITS[self.types[0]] // (word * self.lanes)
        return m * k * width // (word * self.lanes), 1 if self.grouped else n * k * width // (word * 32), sums


def _made() -> dict[str, Product]:
    found = []
    for sums, a, b, m, k in (
        *(("f32", t, t, 16, k) for t in ("f16", "bf16") for k in (8, 16)),
        *(("f16", "f16", "f16", 16, k) for k in (8, 16)),
        *(("f32", "tf32", "tf32", 16, k) for k in (4, 8)),
        *(("f32", a, b, 16, 32) for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2")),
        ("f64", "f64", "f64", 8, 4),
        *(("f64", "f64", "f64", 16, k) for k in (4, 8, 16)),
        *(("s32", a, b, m, k) for a, b in (("s8", "s8"), ("u8", "s8")) for m, k in ((8, 16), (16, 32))),
        *(("s32", a, b, 16, 64) for a, b in (("s4", "s4"), ("u4", "s4"))),
    ):
        for more in ("", ".satfinite") if sums == "s32" else ("",):
            found.append(Product(f"mma.sync.aligned.m{m}n8k{k}.row.col{more}.{sums}.{a}.{b}.{sums}", (m, 8, k), (sums, a, b)))
    for sums, a, b, k in (
        ("f32", "f16", "f16", 16), ("f16", "f16", "f16", 16), ("f32", "bf16", "bf16", 16), ("f32", "tf32", "tf32", 8),
        *((sums, a, b, 32) for sums in ("f32", "f16") for a, b in (("e4m3", "e4m3"), ("e5m2", "e4m3"), ("e5m2", "e5m2"))),
        ("s32", "s8", "s8", 32),
    ):  # fmt: skip
        flags = {"f16": ", p, 1, 1, 0", "bf16": ", p, 1, 1, 0", "s8": ", p"}.get(a, ", p, 1, 1")
        found.append(Product(f"wgmma.mma_async.sync.aligned.m64n8k{k}.{sums}.{a}.{b}", (64, 8, k), (sums, a, b), flags))
    return {form.name: form for form in found}


PRODUCTS = _made()


# ---- operands ------------------------------------------------------------------------------------------------------------------------------------


def _elements(type: str, kind: str, rng: np.random.Generator, count: int, sums: bool) -> np.ndarray:
    """As bits, in u64."""
    bits = BITS[type]
    anything = rng.integers(0, 1 << 64, count, dtype=np.uint64) >> np.uint64(64 - bits)
    if type not in FLOAT:
        ends = rng.choice(np.array([0, 1, (1 << bits) - 1, 1 << bits - 1, (1 << bits - 1) - 1], np.uint64), count)
        return np.where(rng.integers(0, 4, count) == 0, ends, anything)
    e, f = FLOAT[type]
    bias, top = (1 << e - 1) - 1, (1 << e) - 1
    reach = {"near": 2, "spread": 9, "large sum": 4, "few": 3, "few, spread": 14, "special": 2, "small": 2, "largest": 1}.get(kind, 0)
    middle = {"small": -bias // 2 if not sums else 2 - bias, "largest": bias // 2 if not sums else bias - 1}.get(kind, 0)
    if kind == "large sum" and sums:
        middle = min(20, bias - 5)
    lift = rng.integers(-reach, reach + 1, count) + middle + bias
    if kind == "small" and not sums:
        lift = np.where(rng.integers(0, 8, count) == 0, 0, lift)
    found = np.clip(lift, 0, top - 1).astype(np.uint64) << np.uint64(f) | anything & np.uint64((1 << f) - 1)
    found |= rng.integers(0, 2, count, dtype=np.uint64) << np.uint64(bits - 1)
    short = rng.integers(0, 3, count) == 0  # few bits, so that sums meet ties
    found = np.where(short, found & ~np.uint64((1 << max(f - 2, 0)) - 1), found)
    if kind == "anything":
        found = anything
    if kind.startswith("few") and not sums:
        found = np.where(rng.integers(0, 5, count) == 0, found, np.uint64(0))
    if kind == "special":
        ends = [0, 1 << bits - 1, top << f, top << f | 1 << bits - 1, (top << f) + (1 << f - 1), (top << f) + 1, ((top + 1 << f) - 1) | 1 << bits - 1]
        often = 40 if not sums else 6
        found = np.where(rng.integers(0, often, count) == 0, rng.choice(np.array(ends, np.uint64), count), found)
    return found


def _packed(elements: np.ndarray, bits: int, word: int) -> np.ndarray:
    """Elements of the last axis into words, the first lowest."""
    per = word // bits if word > bits else 1
    parts = elements.reshape(*elements.shape[:-1], -1, per) << np.arange(0, per * bits, bits, dtype=np.uint64)
    return np.bitwise_or.reduce(parts, axis=-1).astype(np.uint64 if word == 64 else np.uint32)


def operands(form: Product) -> list[np.ndarray]:
    rng = np.random.default_rng(zlib.crc32(form.name.encode()))
    word = 64 if form.types[0] == "f64" else 32
    found = []
    for which, (type, count) in enumerate(zip((form.types[1], form.types[2], form.types[0]), form.counts)):
        lanes = 64 if form.grouped and which == 1 else form.lanes
        rows = []
        for kind in KINDS:
            per = word // BITS[type]
            elements = _elements(type, kind, rng, count * lanes * per, which == 2)
            rows.append(_packed(elements.reshape(count, lanes, per), BITS[type], word)[..., 0])
        found.append(np.stack(rows))
    return found


def results(form: Product) -> np.ndarray:
    """Room for what comes out: (warp, register, lane)."""
    return np.zeros((len(KINDS), form.counts[2], form.lanes), np.uint64 if form.types[0] == "f64" else np.uint32)


# ---- kernels -------------------------------------------------------------------------------------------------------------------------------------

_HEAD = """.version 8.4
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p0, .param .u64 p1, .param .u64 p2, .param .u64 p3)
{{
.reg .pred p; .reg .b32 %r<90>; .reg .b64 %d<90>; .shared .align 128 .b8 s[256];
mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x;
{body}
ret;
}}
"""


def _each(form: Product, which: int, first: int, store: bool) -> list[str]:
    """Loads (stores) the registers of one operand."""
    count, (bytes_, letter) = form.counts[min(which, 2)], (8, "d") if form.types[0] == "f64" else (4, "r")
    bits = 8 * bytes_
    lines = [f"ld.param.u64 %d0, [p{which}]; mad.wide.u32 %d0, %r1, {count * form.lanes * bytes_}, %d0; mad.wide.u32 %d0, %r0, {bytes_}, %d0;"]
    for k in range(count):
        place, register = f"[%d0+{k * form.lanes * bytes_}]", f"%{letter}{first + k}"
        lines.append(f"st.global.b{bits} {place}, {register};" if store else f"ld.global.b{bits} {register}, {place};")
    return lines


def kernel(form: Product) -> str:
    letter = "d" if form.types[0] == "f64" else "r"
    names = [", ".join(f"%{letter}{first + k}" for k in range(count)) for first, count in zip((10, 30, 50), form.counts)]
    lines = [*_each(form, 0, 10, False), *_each(form, 2, 50, False)]
    if form.grouped:
        lines += [
            "setp.lt.u32 p, %r0, 64; ld.param.u64 %d1, [p1]; mad.wide.u32 %d1, %r1, 256, %d1; mad.wide.u32 %d1, %r0, 4, %d1;",
            "mov.u32 %r2, s; mad.lo.u32 %r3, %r0, 4, %r2; @p ld.global.b32 %r4, [%d1]; @p st.shared.b32 [%r3], %r4;",
            "fence.proxy.async; bar.sync 0; setp.eq.u32 p, %r0, %r0;",
            # a matrix of 8 rows of 16 bytes behind the other: 128 bytes along k; no swizzle
            "shr.u32 %r2, %r2, 4; and.b32 %r2, %r2, 0x3FFF; cvt.u64.u32 %d2, %r2; or.b64 %d2, %d2, 0x1000080000;",
            "wgmma.fence.sync.aligned;",
            f"{form.name} {{{names[2]}}}, {{{names[0]}}}, %d2{form.flags};",
            "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;",
        ]
        lines += _each(form, 3, 50, True)
    else:
        lines += _each(form, 1, 30, False)
        lines.append(f"{form.name} {{{names[2]}}}, {{{names[0]}}}, {{{names[1]}}}, {{{names[2]}}};")
        lines += _each(form, 3, 50, True)
    return _HEAD.format(body="\n".join(lines))
