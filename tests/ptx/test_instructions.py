"""Every form of the instructions that compute (forms.py) against exact arithmetic (oracle.py), with random and special operands."""

from __future__ import annotations

from itertools import groupby

import numpy as np
import pytest
from ptx.forms import FORMS, Form, kernel, operands, result_type
from ptx.oracle import LAYOUT, NAN, decoded, expected

from snap.ptx import run

ROWS = 32


def results(form: Form, count: int = ROWS) -> tuple[list[np.ndarray], np.ndarray]:
    given = [x[:count] for x in operands(form)]
    out = np.zeros(count, result_type(form))
    run(kernel(form), "k", 1, count, [*given, out])
    return given, out


def same(form: Form, found: int, right: int) -> bool:
    """f64 has many NaN, and which one comes out is not said."""
    if form.result == "f64" and decoded(right, "f64")[1] == NAN:
        return decoded(found, "f64")[1] == NAN
    return found == right


GROUPS = {name: list(group) for name, group in groupby(sorted(FORMS), key=lambda key: FORMS[key].words[0])}


@pytest.mark.parametrize("name", GROUPS)
def test_instructions_give_what_exact_arithmetic_gives(name):
    compared = 0
    for key in GROUPS[name]:
        form = FORMS[key]
        given, found = results(form, ROWS if form.result in LAYOUT else 4 * ROWS)
        for row in zip(*(x.tolist() for x in given), found.tolist()):
            right = expected(form, list(row[:-1]))
            if right is not None:
                compared += 1
                assert same(form, row[-1], right), f"{key}: {[hex(v) for v in row[:-1]]} gave {row[-1]:#x}, not {right:#x}"
    assert compared or all(FORMS[key].approximate for key in GROUPS[name])


# ---- approximations ---------------------------------------------------------------------------------------------------------------------------------

# What the ISA promises: how far a result may be from the exact one, of its size and beside it (of what is far smaller).
BOUNDS = {
    "ex2.approx.f32": (2**-22, 0),
    "lg2.approx.f32": (2**-22, 2**-22),
    "sin.approx.f32": (0, 2**-20.5),
    "cos.approx.f32": (0, 2**-20.5),
    "tanh.approx.f32": (2**-11, 0),
    "rcp.approx.f32": (2**-23, 0),
    "rsqrt.approx.f32": (2**-22.9, 0),
    "sqrt.approx.f32": (2**-23, 0),
    "div.approx.f32": (2**-22, 0),
    "div.full.f32": (2**-22, 0),
    "ex2.approx.f16": (2**-9.9, 0),
    "ex2.approx.bf16": (2**-7, 0),
    "tanh.approx.f16": (0, 2**-10.9),
    "tanh.approx.bf16": (0, 2**-8),  # the ISA calls it relative; an H200's largest absolute one is 2^-8.000, its largest relative one 2^-7.01
    "rsqrt.approx.f64": (2**-52, 0),
    "rcp.approx.f64": (2**-20, 0),
}
EXACT = {
    "ex2": np.exp2,
    "lg2": np.log2,
    "sin": np.sin,
    "cos": np.cos,
    "tanh": np.tanh,
    "rcp": lambda x: 1 / x,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sqrt": np.sqrt,
    "div": lambda a, b: a / b,
}
SMALLEST = {"f16": 2.0**-24, "bf16": 2.0**-126, "f32": 2.0**-126, "f64": 2.0**-1022}


def value(bits: np.ndarray, type: str) -> np.ndarray:
    if type == "bf16":
        bits, type = bits.astype(np.uint32) << np.uint32(16), "f32"
    with np.errstate(all="ignore"):
        return bits.view({"f16": "f2", "f32": "f4", "f64": "f8"}[type]).astype(np.longdouble)


def within(form: Form, given: list[np.ndarray], found: np.ndarray) -> np.ndarray:
    """Which results are as near as the ISA promises (and which of them it says something about)."""
    name, type = form.words[0], form.result
    bound, beside = BOUNDS[f"{name}.{form.words[1]}.{type}"]
    if form.name == "rsqrt.approx.ftz.f64":
        bound = 2**-20
    with np.errstate(all="ignore"):
        xs = [value(x, type) for x in given]
        right = EXACT[name](*xs)
        open_ = (np.abs(xs[0]) > 3.14159) if name in ("sin", "cos") else np.zeros(len(found), bool)
        if name == "div":
            open_ |= (np.abs(xs[1]) > 2.0**126) | (np.abs(xs[1]) < 2.0**-126)
        if "ftz" in form.words or name == "rcp" or name == "rsqrt" or type == "f64":  # subnormal operands, results
            open_ |= np.any([(np.abs(x) < SMALLEST[type]) & (x != 0) for x in xs], axis=0)
        large = np.abs(right) > {"f16": 65504, "bf16": 2.0**127, "f32": 2.0**127, "f64": 2.0**1023}[type]
        got = value(found, type)
        near = np.abs(got - right) <= bound * np.abs(right) + beside + SMALLEST[type]
        same_kind = np.isnan(right) & np.isnan(got) | np.isinf(right) & (got == right)
        return open_ | large | near | same_kind


@pytest.mark.parametrize("key", [key for key, form in FORMS.items() if form.approximate])
def test_approximations_are_within_their_bounds(key):
    form = FORMS[key]
    given, found = results(form, 128)
    good = within(form, given, found)
    assert good.all(), [([hex(int(x[k])) for x in given], hex(int(found[k]))) for k in np.flatnonzero(~good)[:4]]


# ---- carries, and results besides the first ------------------------------------------------------------------------------------------------------------

HEAD = ".version 8.8\n.target sm_90a\n.address_size 64\n"
BODY = """.visible .entry k(.param .u64 p0, .param .u64 p1)
{{
.reg .pred %p<4>; .reg .b16 %h<9>; .reg .b32 %r<40>; .reg .b64 %d<20>;
mov.u32 %r0, %tid.x; ld.param.u64 %d0, [p0]; mad.wide.u32 %d0, %r0, {size}, %d0; ld.param.u64 %d1, [p1]; mad.wide.u32 %d1, %r0, {size}, %d1;
{text}
ret;
}}
"""


def by_hand(text: str, words: np.ndarray, size: int) -> np.ndarray:
    """words: a row a thread."""
    out = np.zeros((len(words), size // 4), np.uint32)
    full = np.zeros((len(words), size // 4), np.uint32)
    full[:, : words.shape[1]] = words
    run(HEAD + BODY.format(size=size, text=text), "k", 1, len(words), [full, out])
    return out


def test_sums_and_products_over_several_words():
    rng = np.random.default_rng(5)
    edge = np.array([0, 1, 0xFFFFFFFF, 0xFFFFFFFE, 0x80000000], np.uint32)
    words = np.concatenate([rng.choice(edge, (64, 8)), rng.integers(0, 1 << 32, (64, 8), dtype=np.uint32)])
    text = """
    ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%d0]; ld.global.v4.u32 {%r5, %r6, %r7, %r8}, [%d0+16];
    add.cc.u32 %r10, %r1, %r5; addc.cc.u32 %r11, %r2, %r6; addc.cc.u32 %r12, %r3, %r7; addc.u32 %r13, %r4, %r8;
    sub.cc.u32 %r14, %r1, %r5; subc.cc.u32 %r15, %r2, %r6; subc.cc.u32 %r16, %r3, %r7; subc.u32 %r17, %r4, %r8;
    mul.lo.u32 %r20, %r1, %r5; mul.hi.u32 %r21, %r1, %r5; mul.lo.u32 %r22, %r2, %r6; mul.hi.u32 %r23, %r2, %r6;
    mad.lo.cc.u32 %r21, %r1, %r6, %r21; madc.hi.cc.u32 %r22, %r1, %r6, %r22; addc.u32 %r23, %r23, 0;
    mad.lo.cc.u32 %r21, %r2, %r5, %r21; madc.hi.cc.u32 %r22, %r2, %r5, %r22; addc.u32 %r23, %r23, 0;
    st.global.v4.u32 [%d1], {%r10, %r11, %r12, %r13}; st.global.v4.u32 [%d1+16], {%r14, %r15, %r16, %r17};
    st.global.v4.u32 [%d1+32], {%r20, %r21, %r22, %r23};
    """
    found = by_hand(text, words, 48)
    number = lambda row: sum(int(w) << 32 * k for k, w in enumerate(row))  # noqa: E731
    for row, got in zip(words, found):
        a, b = number(row[:4]), number(row[4:])
        assert number(got[:4]) == (a + b) % (1 << 128)
        assert number(got[4:8]) == (a - b) % (1 << 128)
        assert number(got[8:]) == number(row[:2]) * number(row[4:6])


def test_results_besides_the_first():
    text = """
    ld.global.v2.u32 {%r1, %r2}, [%d0];
    lop3.or.b32 %r3|%p1, %r1, %r2, %r2, 0xC0, 0; selp.u32 %r4, 1, 0, %p1;
    setp.lt.and.s32 %p2|%p3, %r1, %r2, !%p1; selp.u32 %r5, 1, 0, %p2; selp.u32 %r6, 1, 0, %p3;
    setp.gt.f16x2 %p2|%p3, %r1, %r2; selp.u32 %r7, 1, 0, %p2; selp.u32 %r8, 1, 0, %p3;
    st.global.v4.u32 [%d1], {%r3, %r4, %r5, %r6}; st.global.v2.u32 [%d1+16], {%r7, %r8};
    """
    rng = np.random.default_rng(6)
    words = rng.integers(0, 1 << 32, (64, 2), dtype=np.uint32) & rng.integers(0, 1 << 32, (64, 2), dtype=np.uint32)
    words[:8] = [[0, 5], [1, 2], [0x3C000000, 0x3C000001], [0x7E00, 1], [5, 0], [0xFFFFFFFF, 0], [0, 0xFFFFFFFF], [3, 3]]
    found = by_hand(text, words, 32)
    for (a, b), got in zip(words.tolist(), found.tolist()):
        any_ = (a & b) != 0
        less = int(np.int32(np.uint32(a))) < int(np.int32(np.uint32(b)))
        x, y = np.array([a, b], np.uint32).view(np.float16).reshape(2, 2).astype(float)
        assert got[:6] == [a & b, any_, less and not any_, not less and not any_, x[0] > y[0], x[1] > y[1]]


def test_the_page_says_how_many_forms_there_are():
    from pathlib import Path

    assert f"`tests/ptx/forms.py`: {len(FORMS):,} of\nthem" in (Path(__file__).parents[2] / "docs" / "ptx.md").read_text()
