"""Accesses of one warp to shared memory, pattern by pattern: what a wavefront is, asked of the GPU itself.

A pattern is the byte each lane touches (or that it does not act) and how many bytes it takes.  One kernel a pattern loads once and stores
once; counters.py runs all of them under ncu and on the PTX machine.  Patterns follow from fixed seeds.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

Pattern: TypeAlias = tuple[str, int, np.ndarray]  # name, width, where each lane is
NOBODY = 0xFFFFFFFF
ROOM = 32768


def kernel(width: int) -> str:
    words = max(width // 4, 1)
    names = ", ".join(f"%r{10 + k}" for k in range(words))
    type = {1: "u8", 2: "u16", 4: "u32", 8: "v2.u32", 16: "v4.u32"}[width]
    values = f"{{{names}}}" if words > 1 else names
    return f""".version 8.1
.target sm_90a
.address_size 64
.visible .entry pattern{width}(.param .u64 p0, .param .u64 p1)
{{
.reg .pred %p; .reg .b32 %r<40>; .reg .b64 %d<9>; .shared .align 128 .b8 s[{ROOM}];
mov.u32 %r0, %tid.x; ld.param.u64 %d0, [p0]; mad.wide.u32 %d0, %r0, 4, %d0; ld.global.u32 %r1, [%d0];
setp.ne.u32 %p, %r1, {NOBODY}; mov.u32 %r2, s; add.u32 %r3, %r1, %r2;
mov.u32 %r10, 0; mov.u32 %r11, 0; mov.u32 %r12, 0; mov.u32 %r13, 0;
@%p ld.shared.{type} {values}, [%r3];
xor.b32 %r14, %r10, %r11; xor.b32 %r14, %r14, %r12; xor.b32 %r14, %r14, %r13;
ld.param.u64 %d1, [p1]; mad.wide.u32 %d1, %r0, 4, %d1; st.global.u32 [%d1], %r14;
@%p st.shared.{type} [%r3], {values};
ret;
}}
"""


def _some(width: int) -> dict[str, np.ndarray]:
    lane = np.arange(32)
    found = {f"stride {n}": lane * n * width for n in (1, 2, 3, 4, 8, 16, 32)}
    found |= {f"groups of {n}": lane // n * width for n in (2, 4, 8, 16, 32)}
    found |= {f"groups of {n}, far": lane // n * 128 for n in (2, 4, 8, 16)}
    found |= {f"again after {n}": lane % n * width for n in (2, 4, 8, 16)}
    found |= {f"again after {n}, far": lane % n * 128 for n in (2, 4)}
    found["halves beside"] = lane // 16 * 64 + lane % 2 * 16
    found["quarters beside"] = lane // 8 * 16
    found["quarters, one bank"] = lane // 8 * 256
    found["reversed"] = (31 - lane) * width
    found["exchanged"] = (lane ^ 9) * width
    for n in (1, 2, 8, 9, 16, 17, 24):
        found[f"the first {n}"] = np.where(lane < n, lane * width, NOBODY)
    found["every second"] = np.where(lane % 2 == 0, lane * width, NOBODY)
    found["every fourth"] = np.where(lane % 4 == 0, lane * width, NOBODY)
    found["every eighth, far"] = np.where(lane % 8 == 0, lane * 128, NOBODY)
    return found


def thought_of() -> list[Pattern]:
    made = [(name, width, at) for width in (16, 8) for name, at in _some(width).items()]
    some = ("stride 1", "stride 2", "stride 3", "stride 32", "groups of 2", "every second")
    made += [(name, width, at) for width in (4, 2, 1) for name, at in _some(width).items() if name in some]
    return _fitting(made)


def drawn() -> list[Pattern]:
    made: list[Pattern] = []
    rng = np.random.default_rng(7)
    for k in range(36):
        for width in (16, 8):
            slots = (2, 3, 4, 8, 16, 40, 200, ROOM // width)[k % 8]
            at = rng.integers(0, slots, 32) * width
            if k % 3 == 1:
                at = np.where(rng.integers(0, 3, 32) > 0, at, NOBODY)
            if k % 3 == 2:
                at = np.repeat(at[::2], 2) if k % 2 else np.tile(at[:16], 2)
            if k % 9 == 8:
                at = at[np.arange(32) // 4 * 2 + np.arange(32) % 2]  # a lane, and the one two behind it
            made.append((f"drawn {k}", width, at))
    return _fitting(made)


def _fitting(made: list[Pattern]) -> list[Pattern]:
    return [(name, width, at.astype(np.uint32)) for name, width, at in made if at[at != NOBODY].max() < ROOM]


SETS = {"patterns": thought_of, "drawn": drawn}


def on_machine(which: str) -> list[dict]:
    from snap.ptx import run

    found = []
    for name, width, at in SETS[which]():
        counters = run(kernel(width), f"pattern{width}", 1, 32, [at, np.zeros(32, np.uint32)], count_memory=True)
        found.append({"kernel": f"pattern{width}", "pattern": name, "metrics": counters.metrics()})
    return found


def on_gpu(which: str) -> None:
    """Under ncu."""
    from ptx.tables import Gpu

    gpu = Gpu()
    for _, width, at in SETS[which]():
        gpu.run(kernel(width), [at], np.zeros(32, np.uint32), 1, 32, f"pattern{width}")
