"""The instructions that only compute, form by form: how each is written, and what it takes and gives.

One list for three uses: the machine is held against exact arithmetic (test_instructions.py), a GPU's results are recorded
(tables.py), and the machine is held against these (test_tables.py).  A form is an instruction with its modifiers and types; `tail` is
what stands behind its operands (tables of `lop3`); since: the first architecture that has it.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

ROUNDING = ("rn", "rz", "rm", "rp")
WHOLE = ("u16", "u32", "u64", "s16", "s32", "s64")
WORDS = ("b16", "b32", "b64")
BITS = {**{f"{k}{n}": n for k in "ubs" for n in (8, 16, 32, 64)}, "f16": 16, "bf16": 16, "f32": 32, "f64": 64, "tf32": 32}
BITS |= {name: 32 for name in ("f16x2", "bf16x2", "u16x2", "s16x2")} | {"f32x2": 64, "pred": 32}
BITS |= {f"{name}x2": 16 for name in ("e4m3", "e5m2", "e2m3", "e3m2")} | {"e2m1x2": 8}
COUNT, HARD = 128, 64  # rows, and behind them rows of NaN, infinities and zeros


@dataclass(frozen=True)
class Form:
    name: str
    operands: tuple[str, ...]
    result: str
    tail: str = ""
    since: int = 75
    approximate: bool = False

    @property
    def words(self) -> tuple[str, ...]:
        return tuple(self.name.split("."))

    @property
    def key(self) -> str:
        return f"{self.name} {self.tail}".strip()


def _integers() -> Iterator[Form]:
    for t in WHOLE:
        for op in ("add", "sub", "mul.lo", "mul.hi", "div", "rem", "min", "max"):
            yield Form(f"{op}.{t}", (t, t), t)
        for op in ("mad.lo", "mad.hi", "sad"):
            yield Form(f"{op}.{t}", (t,) * 3, t)
        if t[1:] != "64":
            wide = f"{t[0]}{2 * int(t[1:])}"
            yield Form(f"mul.wide.{t}", (t, t), wide)
            yield Form(f"mad.wide.{t}", (t, t, wide), wide)
        if t[0] == "s":
            yield Form(f"abs.{t}", (t,), t)
            yield Form(f"neg.{t}", (t,), t)
        yield Form(f"shr.{t}", (t, "u32"), t)
    for op in ("add.sat", "sub.sat"):
        yield Form(f"{op}.s32", ("s32", "s32"), "s32")
    yield Form("mad.hi.sat.s32", ("s32",) * 3, "s32")
    for t in ("u32", "s32"):
        for half in ("lo", "hi"):
            yield Form(f"mul24.{half}.{t}", (t, t), t)
            yield Form(f"mad24.{half}.{t}", (t,) * 3, t)
        for mode in ("clamp", "wrap"):
            yield Form(f"szext.{mode}.{t}", (t, "u32"), t, since=76)
        for other in ("u32", "s32"):
            both = "s32" if "s32" in (t, other) else "u32"
            yield Form(f"dp4a.{t}.{other}", (t, other, both), both)
            for half in ("lo", "hi"):
                yield Form(f"dp2a.{half}.{t}.{other}", (t, other, both), both)
    yield Form("mad24.hi.sat.s32", ("s32",) * 3, "s32")
    for t in ("u16x2", "s16x2"):
        for op in ("add", "min", "max"):
            yield Form(f"{op}.{t}", (t, t), t, since=90)
    for op in ("min", "max"):
        for t in ("s32", "s16x2"):
            yield Form(f"{op}.relu.{t}", (t, t), t, since=90)
    for t in ("u32", "u64", "s32", "s64"):
        yield Form(f"bfind.{t}", (t,), "u32")
        yield Form(f"bfind.shiftamt.{t}", (t,), "u32")
        yield Form(f"bfe.{t}", (t, "u32", "u32"), t)


def _video() -> Iterator[Form]:
    """Of two halves, or four bytes."""
    for name in ("vadd", "vsub", "vabsdiff", "vmin", "vmax", "vavrg"):
        for count in (2, 4):
            for types in (("u32",) * 3, ("s32",) * 3, ("s32", "u32", "s32"), ("u32", "s32", "u32")):
                for more in ("", ".sat", ".add"):
                    yield Form(f"{name}{count}.{'.'.join(types)}{more}", (*types[1:], types[0]), types[0])


def _bits() -> Iterator[Form]:
    for t in WORDS:
        for op in ("and", "or", "xor"):
            yield Form(f"{op}.{t}", (t, t), t)
        for op in ("not", "cnot"):
            yield Form(f"{op}.{t}", (t,), t)
        yield Form(f"shl.{t}", (t, "u32"), t)
        yield Form(f"shr.{t}", (t, "u32"), t)
    for t in ("b32", "b64"):
        for op in ("popc", "clz"):
            yield Form(f"{op}.{t}", (t,), "u32")
        yield Form(f"brev.{t}", (t,), t)
        yield Form(f"bfi.{t}", (t, t, "u32", "u32"), t)
    yield Form("fns.b32", ("b32", "b32", "s32"), "b32")
    for mode in ("clamp", "wrap"):
        yield Form(f"bmsk.{mode}.b32", ("u32", "u32"), "b32", since=76)
        for way in "lr":
            yield Form(f"shf.{way}.{mode}.b32", ("b32", "b32", "u32"), "b32")
    for mode in ("", ".f4e", ".b4e", ".rc8", ".ecl", ".ecr", ".rc16"):
        yield Form(f"prmt.b32{mode}", ("b32",) * 3, "b32")
    for table in ("0x96", "0xE8", "0x1B"):
        yield Form("lop3.b32", ("b32",) * 3, "b32", tail=table)


def _floats() -> Iterator[Form]:
    for mode in ROUNDING:
        for op, n in (("add", 2), ("sub", 2), ("mul", 2), ("fma", 3)):
            for flags in ("", ".ftz", ".sat", ".ftz.sat"):
                yield Form(f"{op}.{mode}{flags}.f32", ("f32",) * n, "f32")
            yield Form(f"{op}.{mode}.f64", ("f64",) * n, "f64")
            if op != "mul":
                for t in ("f16", "bf16"):
                    yield Form(f"{op}.{mode}.f32.{t}", (*(t,) * (n - 1), "f32"), "f32", since=100)
        for op, n in (("div", 2), ("rcp", 1), ("sqrt", 1)):
            for flags in ("", ".ftz"):
                yield Form(f"{op}.{mode}{flags}.f32", ("f32",) * n, "f32")
            yield Form(f"{op}.{mode}.f64", ("f64",) * n, "f64")
        for op, n in (("add", 2), ("mul", 2), ("fma", 3)):
            yield Form(f"{op}.{mode}.f32x2", ("f32x2",) * n, "f32x2", since=100)
    for t in ("f16", "f16x2"):
        for flags in ("", ".ftz", ".sat", ".ftz.sat"):
            for op, n in (("add", 2), ("sub", 2), ("mul", 2), ("fma", 3)):
                yield Form(f"{op}.rn{flags}.{t}", (t,) * n, t)
        yield Form(f"fma.rn.relu.{t}", (t,) * 3, t, since=80)
        yield Form(f"fma.rn.ftz.relu.{t}", (t,) * 3, t, since=80)
    for t in ("bf16", "bf16x2"):
        for op, n in (("add", 2), ("sub", 2), ("mul", 2), ("fma", 3)):
            yield Form(f"{op}.rn.{t}", (t,) * n, t, since=80 if op == "fma" else 90)
        yield Form(f"fma.rn.relu.{t}", (t,) * 3, t, since=80)
    for t in ("f16", "f16x2", "bf16", "bf16x2", "f32", "f64"):
        since = 90 if t.startswith("bf16") else 75
        flags = ("", ".ftz") if t in ("f16", "f16x2", "f32") else ("",)
        for op in ("neg", "abs"):
            for f in flags:
                yield Form(f"{op}{f}.{t}", (t,), t, since=since)
        for op in ("min", "max"):
            for f in flags:
                for more in ("",) if t == "f64" else ("", ".NaN", ".xorsign.abs", ".NaN.xorsign.abs"):
                    yield Form(f"{op}{f}{more}.{t}", (t, t), t, since=86)
    for op in ("min", "max"):
        for more in ("", ".NaN", ".abs", ".NaN.abs"):
            yield Form(f"{op}{more}.f32", ("f32",) * 3, "f32", since=100)
    for t in ("f32", "f64"):
        yield Form(f"copysign.{t}", (t, t), t)
        for kind in ("finite", "infinite", "number", "notanumber", "normal", "subnormal"):
            yield Form(f"testp.{kind}.{t}", (t,), "pred")


def _comparisons() -> Iterator[Form]:
    plain, more = ("eq", "ne", "lt", "le", "gt", "ge"), ("equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan")
    for t in (*WHOLE, *WORDS, "f16", "bf16", "f32", "f64"):
        since = 90 if t == "bf16" else 75
        words = ("eq", "ne") if t[0] == "b" and t != "bf16" else plain + more if "f" in t else plain + ("lo", "ls", "hi", "hs") * (t[0] == "u")
        for word in words:
            yield Form(f"setp.{word}.{t}", (t, t), "pred", since=since)
        yield Form(f"setp.{words[1]}.and.{t}", (t, t, "pred"), "pred", since=since)
        yield Form(f"set.{words[0]}.u32.{t}", (t, t), "u32", since=since)
    for t in ("f32", "f16"):
        yield Form(f"setp.lt.ftz.{t}", (t, t), "pred")
        yield Form(f"setp.gtu.xor.ftz.{t}", (t, t, "pred"), "pred")
    for to in ("u32", "s32", "f32"):
        yield Form(f"set.lt.{to}.f32", ("f32", "f32"), to)
        yield Form(f"set.geu.or.{to}.f32", ("f32", "f32", "pred"), to)
        yield Form(f"set.gt.{to}.s32", ("s32", "s32"), to)
    for t in ("f16x2", "bf16x2"):
        yield Form(f"set.lt.{t}.{t}", (t, t), t, since=90)
        yield Form(f"set.geu.{t}.{t}", (t, t), t, since=90)
    for t in (*WORDS, *WHOLE, "f32", "f64"):
        yield Form(f"selp.{t}", (t, t, "pred"), t)
        yield Form(f"slct.{t}.s32", (t, t, "s32"), t)
        yield Form(f"slct.{t}.f32", (t, t, "f32"), t)
        yield Form(f"slct.ftz.{t}.f32", (t, t, "f32"), t)


def _conversions() -> Iterator[Form]:
    whole, floats = ("u8", "s8", *WHOLE), ("f16", "bf16", "f32", "f64")
    order = {"f16": 1, "bf16": 1, "f32": 2, "f64": 3}
    for source in whole:
        for to in whole:
            if to != source:
                yield Form(f"cvt.{to}.{source}", (source,), to)
                if BITS[to] <= BITS[source] or to[0] == "u" and source[0] == "s":  # else nothing is beyond its range
                    yield Form(f"cvt.sat.{to}.{source}", (source,), to)
        for to in floats:
            for mode in ROUNDING if to != "bf16" or BITS[source] > 8 else ():
                yield Form(f"cvt.{mode}.{to}.{source}", (source,), to, since=90 if to == "bf16" else 75)
    for source in floats:
        since = 90 if source == "bf16" else 75
        for to in whole if source != "bf16" else WHOLE:
            for mode in ("rni", "rzi", "rmi", "rpi"):
                yield Form(f"cvt.{mode}.{to}.{source}", (source,), to, since=since)
        for to in floats:
            if order[to] < order[source]:
                for mode in ROUNDING:
                    yield Form(f"cvt.{mode}.{to}.{source}", (source,), to, since=90 if "bf16" in (to, source) else 75)
            elif order[to] > order[source]:
                yield Form(f"cvt.{to}.{source}", (source,), to, since=90 if "bf16" in (to, source) else 75)
        for mode in ("rni", "rzi", "rmi", "rpi"):
            if source != "bf16":
                yield Form(f"cvt.{mode}.{source}.{source}", (source,), source)
    yield Form("cvt.rzi.ftz.s32.f32", ("f32",), "s32")
    yield Form("cvt.ftz.sat.f32.f32", ("f32",), "f32")
    yield Form("cvt.sat.f32.f32", ("f32",), "f32")
    yield Form("cvt.rn.ftz.f16.f32", ("f32",), "f16")
    yield Form("cvt.rn.sat.f16.f32", ("f32",), "f16")
    for to in ("f16", "bf16"):
        for mode in ("rn", "rz"):
            for more in ("", ".relu", ".satfinite", ".relu.satfinite"):
                if more:
                    yield Form(f"cvt.{mode}{more}.{to}.f32", ("f32",), to, since=90)
                yield Form(f"cvt.{mode}{more}.{to}x2.f32", ("f32", "f32"), f"{to}x2", since=90)
    yield Form("cvt.rna.tf32.f32", ("f32",), "b32", since=80)
    for mode in ("rn", "rz"):
        for more in ("", ".relu"):
            yield Form(f"cvt.{mode}{more}.tf32.f32", ("f32",), "b32", since=90)
    for kind in ("e4m3x2", "e5m2x2"):
        for more in ("", ".relu"):
            yield Form(f"cvt.rn.satfinite{more}.{kind}.f32", ("f32", "f32"), "b16", since=89)
            yield Form(f"cvt.rn.satfinite{more}.{kind}.f16x2", ("f16x2",), "b16", since=89)
            yield Form(f"cvt.rn{more}.f16x2.{kind}", ("b16",), "b32", since=89)
    for kind in ("e2m3x2", "e3m2x2"):
        yield Form(f"cvt.rn.satfinite.{kind}.f32", ("f32", "f32"), "b16", since=100)
        yield Form(f"cvt.rn.f16x2.{kind}", ("b16",), "b32", since=100)
    for to in ("u16", "s16"):
        yield Form(f"cvt.pack.sat.{to}.s32", ("s32", "s32"), "b32")
    for to in ("u8", "s8", "u4", "s4", "u2", "s2"):
        yield Form(f"cvt.pack.sat.{to}.s32.b32", ("s32", "s32", "b32"), "b32", since=75)


def _approximations() -> Iterator[Form]:
    for name in ("ex2", "lg2", "sin", "cos", "rsqrt", "rcp", "sqrt"):
        for flags in ("", ".ftz"):
            yield Form(f"{name}.approx{flags}.f32", ("f32",), "f32", approximate=True)
    for flags in ("", ".ftz"):
        yield Form(f"div.approx{flags}.f32", ("f32", "f32"), "f32", approximate=True)
        yield Form(f"div.full{flags}.f32", ("f32", "f32"), "f32", approximate=True)
    yield Form("tanh.approx.f32", ("f32",), "f32", approximate=True)
    for t in ("f16", "bf16"):
        yield Form(f"tanh.approx.{t}", (t,), t, approximate=True, since=90 if t == "bf16" else 75)
    yield Form("ex2.approx.f16", ("f16",), "f16", approximate=True)
    yield Form("ex2.approx.ftz.bf16", ("bf16",), "bf16", approximate=True, since=90)
    yield Form("rsqrt.approx.f64", ("f64",), "f64", approximate=True)
    for name in ("rcp", "rsqrt"):
        yield Form(f"{name}.approx.ftz.f64", ("f64",), "f64", approximate=True)


def _all() -> dict[str, Form]:
    made = (_integers(), _video(), _bits(), _floats(), _comparisons(), _conversions(), _approximations())
    found: dict[str, Form] = {}
    for form in (f for family in made for f in family):
        found.setdefault(f"{form.key} ({len(form.operands)})", form)
    return found


FORMS = _all()


# ---- operands ------------------------------------------------------------------------------------------------------------------------------------

_FLOAT = {"f16": (5, 10), "bf16": (8, 7), "f32": (8, 23), "f64": (11, 52)}  # bits of the exponent, of the fraction


def _specials(type: str) -> list[int]:
    """As bits."""
    bits = BITS[type]
    if type in _FLOAT:
        exponent, fraction = _FLOAT[type]
        bias, one = (1 << exponent - 1) - 1, 1 << fraction
        top = (1 << exponent) - 1
        some = [0, 1, one - 1, one, one + 1, bias * one, bias * one + 1, (bias - 1) * one, (bias + 1) * one, bias * one + one // 2]
        some += [top * one - 1, top * one, top * one + one // 2, (top + 1) * one - 1, (bias - fraction - 1) * one, (bias + fraction) * one + 1]
        return some + [1 << bits - 1 | s for s in some]
    if bits == 8:
        return [0, 1, 0x7F, 0x80, 0xFF, 0x7E]
    full = (1 << bits) - 1
    return [0, 1, 2, 31, 32, 33, 63, 64, 255, full, full - 1, full >> 1, (full >> 1) + 1, 1 << bits // 2, (1 << bits // 2) - 1]


def _column(type: str, rng: np.random.Generator, count: int) -> np.ndarray:
    if type == "pred":
        return rng.integers(0, 2, count).astype(np.uint32)
    if type in ("f16x2", "bf16x2", "u16x2", "s16x2"):
        low, high = (_column(type[:-2], rng, count).astype(np.uint32) for _ in range(2))
        return low | high << np.uint32(16)
    if type == "f32x2":
        low, high = (_column("f32", rng, count).astype(np.uint64) for _ in range(2))
        return low | high << np.uint64(32)
    bits = BITS[type]
    kind = np.dtype(f"u{bits // 8}")
    special = rng.choice(np.array(_specials(type), np.uint64), count)
    anything = rng.integers(0, 1 << 63, count, dtype=np.uint64) * np.uint64(2) + rng.integers(0, 2, count, dtype=np.uint64)
    anything >>= np.uint64(64 - bits)
    if type in _FLOAT:
        exponent, fraction = _FLOAT[type]
        near = (np.uint64((1 << exponent - 1) - 4) + rng.integers(0, 8, count, dtype=np.uint64)) << np.uint64(fraction)
        small = near | anything & np.uint64((1 << fraction) - 1) | (anything >> np.uint64(1)) & np.uint64(1 << bits - 1)
    else:
        small = rng.integers(0, 70, count, dtype=np.uint64) & np.uint64((1 << bits) - 1)
    which = rng.integers(0, 8, count)
    return np.where(which < 3, special, np.where(which < 6, small, anything)).astype(kind)


def _hard(type: str, rng: np.random.Generator, count: int) -> np.ndarray:
    """Half of them NaN: of both signs, quiet and signalling, with bits that tell which one it was."""
    if type.endswith("x2"):
        low, high = (_hard(type[:-2], rng, count) for _ in range(2))
        wide = np.dtype(f"u{2 * low.itemsize}")
        return low.astype(wide) | high.astype(wide) << wide.type(8 * low.itemsize)
    if type not in _FLOAT:
        return _column(type, rng, count)
    exponent, fraction = _FLOAT[type]
    top, bias, one = (1 << exponent) - 1, (1 << exponent - 1) - 1, 1 << fraction
    nan = top * one | rng.integers(1, one, count, dtype=np.uint64)
    few = rng.choice(np.array([top * one + 1, top * one + one // 2, top * one + one - 1, top * one + one // 4], np.uint64), count)
    plain = rng.choice(np.array([top * one, 0, bias * one, bias * one + one // 2, 1, top * one - 1], np.uint64), count)
    which = rng.integers(0, 4, count)
    found = np.where(which == 0, nan, np.where(which == 1, few, plain)) | rng.integers(0, 2, count, dtype=np.uint64) << np.uint64(BITS[type] - 1)
    return found.astype(np.dtype(f"u{BITS[type] // 8}"))


def operands(form: Form, count: int = COUNT) -> list[np.ndarray]:
    """Bits, the same ones at any time: they follow from the form's text."""
    rng = np.random.default_rng(zlib.crc32(form.key.encode()))
    found = [_column(t, rng, count) for t in form.operands]
    if any(t.removesuffix("x2") in _FLOAT for t in form.operands):
        rng = np.random.default_rng(zlib.crc32(form.key.encode()) + 1)
        found = [np.concatenate([x, _hard(t, rng, HARD)]) for x, t in zip(found, form.operands)]
    return found


# ---- the kernel -----------------------------------------------------------------------------------------------------------------------------------


def kernel(form: Form) -> str:
    """One thread, one row: loads its operands, executes the form once, stores the result."""
    version, target = ("8.8", "sm_100a") if form.since >= 100 else ("8.1", "sm_90a")
    lines, names = [], []
    for k, t in enumerate(form.operands):
        bits = BITS[t]
        register = f"%{'d' if bits == 64 else 'h' if bits <= 16 else 'r'}{10 + k}"
        lines.append(f"ld.param.u64 %d0, [p{k}]; mad.wide.u32 %d0, %r0, {max(bits // 8, 1)}, %d0; ld.global.b{bits} {register}, [%d0];")
        if t == "pred":
            lines.append(f"setp.ne.u32 %p{k + 1}, {register}, 0;")
            register = f"%p{k + 1}"
        names.append(register)
    bits = BITS[form.result]
    target_register = f"%{'d' if bits == 64 else 'h' if bits <= 16 else 'r'}20"
    written = "%p0" if form.result == "pred" else target_register
    lines.append(f"{form.name} {', '.join([written, *names, *([form.tail] if form.tail else [])])};")
    if form.result == "pred":
        lines.append(f"selp.u32 {target_register}, 1, 0, %p0;")
    lines.append(f"ld.param.u64 %d0, [p{len(names)}]; mad.wide.u32 %d0, %r0, {max(bits // 8, 1)}, %d0; st.global.b{bits} [%d0], {target_register};")
    parameters = ", ".join(f".param .u64 p{k}" for k in range(len(names) + 1))
    body = "\n".join(lines)
    return f""".version {version}
.target {target}
.address_size 64
.visible .entry k({parameters})
{{
.reg .pred %p<9>; .reg .b16 %h<32>; .reg .b32 %r<32>; .reg .b64 %d<32>;
mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mad.lo.s32 %r0, %r1, %r2, %r0;
{body}
ret;
}}
"""


def result_type(form: Form) -> np.dtype:
    return np.dtype(f"u{max(BITS[form.result], 8) // 8}")
