"""Mixes of sums and differences over several words, drawn: which CC.CF each leaves, by one adder's rule in Python's whole numbers.

The machine is held against it (test_carries.py), and a GPU (tests/gpu/test_ptx_gpu.py).
"""

from __future__ import annotations

import numpy as np

FIRST = ("add.cc", "sub.cc", "mad.lo.cc", "mad.hi.cc")
THEN = ("addc.cc", "subc.cc", "madc.lo.cc", "madc.hi.cc", "add.cc", "sub.cc")
LAST = ("addc", "subc", "madc.lo", "madc.hi")
LENGTH, ROWS, MIXES = 6, 32, 24

Mix = tuple[str, ...]


def mixes(bits: int) -> list[Mix]:
    """So many, each of LENGTH instructions: the first writes CC, the last reads it; the same ones at any time."""
    rng = np.random.default_rng(26 + bits)
    drawn = [(*rng.choice(FIRST, 1), *rng.choice(THEN, LENGTH - 2), *rng.choice(LAST, 1)) for _ in range(MIXES)]
    pairs = [(first, *["addc.cc"] * (LENGTH - 2), last) for first in FIRST for last in LAST]
    return [tuple(map(str, mix)) for mix in (*drawn, *pairs)]


def words(bits: int) -> np.ndarray:
    """By row: three operands of each instruction."""
    rng = np.random.default_rng(62 + bits)
    kind = np.dtype(f"u{bits // 8}")
    edge = np.array([0, 1, 2, (1 << bits) - 1, (1 << bits) - 2, 1 << bits - 1], kind)
    anything = rng.integers(0, 1 << bits, (ROWS, LENGTH, 3), dtype=kind, endpoint=False)
    return np.where(rng.integers(0, 3, anything.shape) > 0, rng.choice(edge, anything.shape), anything)


def text(mix: Mix, bits: int) -> str:
    """A thread a row; what each instruction gives is stored."""
    r, size = ("%r", 4) if bits == 32 else ("%e", 8)
    body = []
    for k, name in enumerate(mix):
        given = [f"{r}{3 * k + j}" for j in range(3)]
        body += [f"ld.global.u{bits} {g}, [%d0+{(3 * k + j) * size}];" for j, g in enumerate(given)]
    for k, name in enumerate(mix):  # nothing but these between the first and the last
        given = [f"{r}{3 * k + j}" for j in range(3 if name.startswith("mad") else 2)]
        body.append(f"{name}.u{bits} {r}{40 + k}, {', '.join(given)};")
    body += [f"st.global.u{bits} [%d1+{k * size}], {r}{40 + k};" for k in range(len(mix))]
    return f""".version 8.0
.target sm_75
.address_size 64
.visible .entry k(.param .u64 x, .param .u64 y)
{{
.reg .b32 %r<60>; .reg .b64 %d<4>, %e<60>;
mov.u32 %r50, %tid.x; ld.param.u64 %d0, [x]; ld.param.u64 %d1, [y];
mad.wide.u32 %d0, %r50, {3 * LENGTH * size}, %d0; mad.wide.u32 %d1, %r50, {LENGTH * size}, %d1;
{chr(10).join(body)}
ret;
}}
"""


def expected(mix: Mix, row: np.ndarray, bits: int) -> list[int]:
    """What one thread's instructions give: one adder, to which a difference gives b's bits inverted."""
    full, carry, found = 1 << bits, 0, []
    for name, (x, y, z) in zip(mix, row.tolist()):
        a, b = (x * y % full if ".lo" in name else x * y // full, z) if name.startswith("mad") else (x, y)
        minus = name.startswith("sub")
        into = carry if name.split(".")[0] in ("addc", "subc", "madc") else int(minus)
        total = a + (full - 1 - b if minus else b) + into
        found.append(total % full)
        carry = total // full if name.endswith(".cc") else carry
    return found
