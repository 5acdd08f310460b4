"""Kernels of which the compilers below once made something wrong, where the text said a little more, or a little less, than it says now.

`votes`: parts of a warp vote in a loop whose iterations all lanes begin together; `votes_apart`: in branches that
parts take alone.  `carried`: an accumulator is read while it goes on, and is in
flight where the loop ends.  `kept`: an element is kept while its accumulator goes on, and others are read before any wgmma has written them.
`touched`: a thread adds to an accumulator that is in flight on another way to the same fence.  tests/gpu/test_below_gpu.py runs them.
"""

from __future__ import annotations

import re

from snap import *


@kernel
@requires(grid[1], block[1], thread[64])
def votes(out: ptr(u32) @ grid[1], x: ptr(const(u32)) @ grid[1], n: int @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(out, p=thread[1], offset=i) as mine:
            with group(block[1]):
                v: u32 @ thread[1] = x[i]
                for k in unroll(range(n), 2):
                    intrinsic.syncthreads()
                    with group(thread[16]):
                        v = v + u32(intrinsic.all(v % 7 != 2))
                        v = v + u32(intrinsic.any(v % 7 == 2))
                    with group(thread[8]):
                        v = v * 3 + intrinsic.match_all(v / 4)
                        v = v + intrinsic.ballot(v % 5 == 0)
                        v = v + intrinsic.match_any(v % 3)
                mine[0] = v


@kernel
@requires(grid[1], block[1], thread[64])
def votes_apart(out: ptr(u32) @ grid[1], x: ptr(const(u32)) @ grid[1], n: int @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(out, p=thread[1], offset=i) as mine:
            with group(block[1]):
                v: u32 @ thread[1] = x[i]
                f: float @ thread[1] = float(v % 3) - 1.0
                for k in range(n):
                    with group(thread[8]):
                        some: u32 @ thread[8] = intrinsic.ballot(v % 3 == 0)
                        for r in unroll(range(2)):
                            if some % 5 != 1:
                                v = v + u32(intrinsic.all(v % 7 != 2))
                                v = v * 3 + intrinsic.match_all(v & 1)
                                v = v + intrinsic.match_any(f * float(v & 1))
                    with group(thread.every(2)[4]):
                        some2: u32 @ thread.every(2)[4] = intrinsic.ballot(v % 3 == 0)
                        if some2 != 1:
                            v = v + intrinsic.ballot(v % 5 == 0) * 3
                            v = v + u32(intrinsic.any(v % 7 == 2)) + intrinsic.match_any(i64(v) % 3)
                    intrinsic.syncthreads()
                mine[0] = v


def by_their_masks(text: str) -> str:
    """The votes and matches with the masks of their parts, as CUDA has it, which the assembler does not keep to."""
    return text.replace("(0xffffffffu, vote) & lanes", "(lanes, vote)").replace("(0xffffffffu, value) & lanes", "(lanes, value)")


@kernel
@requires(grid[1], block[1], thread[160])
def carried(out: ptr(float) @ grid[1], xa: ptr(const(bf16), (64, 48)) @ grid[1], xb: ptr(const(bf16), (8, 48)) @ grid[1], n: int @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(out, p=thread[1], f=lambda k: i * 4 + k) as mine:
            with group(block[1]):
                v: float @ thread[1] = 0.0
                acc: float[4] @ thread[1]
                other: float[4] @ thread[1]
                A: pipeline(shared(bf16[64, 16], swizzle=32), 2)
                B: pipeline(shared(bf16[8, 16], swizzle=32), 2)
                for j in range(n):
                    with stage(A) as a, stage(B) as b:
                        with claim(a, p=thread[32]) as ca, claim(b, p=thread[32]) as cb:
                            match split(thread, 128, 32):
                                case 0:
                                    pass
                                case 1:
                                    async_copy(ca, xa, at=(0, 16 * (j % 3)))
                                    async_copy(cb, xb, at=(0, 16 * (j % 3)))
                        with claim(a, p=thread[128]) as pa, claim(b, p=thread[128]) as pb:
                            match split(thread, 128, 32):
                                case 0:
                                    wgmma(acc, pa, pb)
                                    v = v + acc[0]
                                case 1:
                                    pass
                    for q in range(4):
                        with stage(A) as a, stage(B) as b:
                            with claim(a, p=thread[32]) as ca, claim(b, p=thread[32]) as cb:
                                match split(thread, 128, 32):
                                    case 0:
                                        pass
                                    case 1:
                                        async_copy(ca, xa, at=(0, 16 * (q % 3)))
                                        async_copy(cb, xb, at=(0, 16 * (q % 3)))
                            v = v + 1.0
                            with claim(a, p=thread[128]) as pa, claim(b, p=thread[128]) as pb:
                                match split(thread, 128, 32):
                                    case 0:
                                        wgmma(acc, pa, pb)
                                    case 1:
                                        pass
                with stage(A) as a, stage(B) as b:
                    with claim(a, p=thread[32]) as ca, claim(b, p=thread[32]) as cb:
                        match split(thread, 128, 32):
                            case 0:
                                pass
                            case 1:
                                async_copy(ca, xa, at=(0, 0))
                                async_copy(cb, xb, at=(0, 0))
                    with claim(a, p=thread[128]) as pa, claim(b, p=thread[128]) as pb:
                        match split(thread, 128, 32):
                            case 0:
                                wgmma(other, pa, pb, zero=True)
                            case 1:
                                pass
                for q in range(4):
                    match split(thread, 128, 32):
                        case 0:
                            mine[q] = acc[q] + 3.0 * other[q] + v
                        case 1:
                            pass


def named_in_flight(text: str) -> str:
    """The waits as they were: each names all accumulators, and an element that is read has no register of its own."""
    text = re.sub(r"(snap_wgmma_wait<\d+>)\([^;]*\);", r"\1(acc, other);", text)
    return copied(text).replace('asm volatile("" : "+f"(value));', "")


@kernel
@requires(grid[1], block[1], thread[128])
def kept(out: ptr(float) @ grid[1], xa: ptr(const(bf16), (64, 48)) @ grid[1], xb: ptr(const(bf16), (16, 48)) @ grid[1], n: int @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(out, p=thread[1], f=lambda k: i * 8 + k) as mine:
            with group(block[1]):
                v, acc, other, saved = registers(0.0, float[8], float[8], float[4])
                A: pipeline(shared(bf16[64, 16], swizzle=32), 3)
                B: pipeline(shared(bf16[16, 16], swizzle=32), 3)
                for j in range(3):
                    with group(warpgroup):
                        v = v + other[2]
                    for q in range(3):
                        with stage(A) as a, stage(B) as b:
                            async_copy(a, xa, at=(0, 16 * q))
                            async_copy(b, xb, at=(0, 16 * q))
                            with group(warpgroup):
                                if q == 0:
                                    wgmma(acc, a, b, zero=True)
                                    wgmma(acc, a, b)
                                    saved[0] = acc[4]
                                else:
                                    wgmma(acc, a, b)
                                    v = v + acc[3]
                with stage(A) as a, stage(B) as b:
                    async_copy(a, xa, at=(0, 0))
                    async_copy(b, xb, at=(0, 0))
                    with group(warpgroup):
                        wgmma(acc, a, b)
                        wgmma(other, a, b)
                for q in range(8):
                    with group(warpgroup):
                        mine[q] = acc[q] + other[q] + v + saved[q % 4]


@kernel
@requires(grid[1], block[1], thread[160])
def touched(out: ptr(float) @ grid[1], xa: ptr(const(bf16), (64, 48)) @ grid[1], xb: ptr(const(bf16), (8, 48)) @ grid[1], n: int @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(out, p=thread[1], f=lambda k: i * 4 + k) as mine:
            with group(block[1]):
                acc, other = registers(float[4], float[4])
                A: pipeline(shared(bf16[64, 16], swizzle=32), 2)
                B: pipeline(shared(bf16[8, 16], swizzle=32), 2)
                for j in range(n):
                    for q in range(3):
                        with stage(A) as a, stage(B) as b:
                            with claim(a, p=thread[32]) as ca, claim(b, p=thread[32]) as cb:
                                match split(thread, 128, 32):
                                    case 0:
                                        pass
                                    case 1:
                                        async_copy(ca, xa, at=(0, 16 * q))
                                        async_copy(cb, xb, at=(0, 16 * q))
                            with claim(a, p=thread[128]) as pa, claim(b, p=thread[128]) as pb:
                                match split(thread, 128, 32):
                                    case 0:
                                        wgmma(other, pa, pb)
                                        wgmma(acc, pa, pb, zero=(q == 1))
                                        acc[3] = acc[3] + 1.0
                                    case 1:
                                        pass
                    with stage(A) as a, stage(B) as b:
                        with claim(a, p=thread[32]) as ca, claim(b, p=thread[32]) as cb:
                            match split(thread, 128, 32):
                                case 0:
                                    pass
                                case 1:
                                    async_copy(ca, xa, at=(0, 0))
                                    async_copy(cb, xb, at=(0, 0))
                        with claim(a, p=thread[128]) as pa, claim(b, p=thread[128]) as pb:
                            match split(thread, 128, 32):
                                case 0:
                                    wgmma(acc, pa, pb)
                                case 1:
                                    pass
                for q in range(4):
                    match split(thread, 128, 32):
                        case 0:
                            mine[q] = acc[q] + other[q]
                        case 1:
                            pass


def copied(text: str) -> str:
    """Reads and zeros as they were: plain copies, which the assembler does not always keep apart from what a wgmma writes."""
    start, end = text.index("    float value;\n    asm volatile"), text.index("    return value;\n")
    text = text[:start] + '    float value = accumulator;\n    asm volatile("" : "+f"(value));\n' + text[end:]
    text = text.replace("    const unsigned int none = snap_none();\n", "", 1)
    return text.replace('asm volatile("and.b32 %0, %1, %2;" : "=f"(values[i]) : "r"(none), "r"(i + 1) : "memory");', 'values[i] = 0.0f; asm volatile("" : "+f"(values[i]) :: "memory");')


def read_alike(text: str) -> str:
    """Reads without the number of waits: of two of one element, one before a wgmma and one after it, the assembler makes one."""
    return text.replace("__uint_as_float(waited)", "0.0f")
