"""A generated program (loops:6200000196) that was wrong on an H200 on 2026-11-19, as tests/gpu/test_below_gpu.py tells."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[64])
def k(out: ptr(u32) @ grid[1], space: ptr(u32) @ grid[1], src: ptr(const(u32)) @ grid[1], n: int @ grid[1], m: int @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        b: int @ block[1] = id()
        with partition(out, p=thread[1], offset=i) as mine, partition(space, p=block[1], f=lambda k: 64 * b + k) as own:
            with group(block[1]):
                t: int @ thread[1] = id()
                u: int = b
                v: u32 @ thread[1] = u32(i)
                s1: shared(u32[64])
                with partition(s1, p=thread[1], f=lambda k: (t / 8 * 8 + (7 - t % 8)) + 64 * k) as m2:
                    m2[0] = v + 0
                s3: shared(u16[64])
                with partition(s3, p=thread[1], f=lambda k: (t / 32 * 32 + (31 - t % 32)) * 1 + k) as m4:
                    m4[0] = u16(v + 0)
                with partition(s3, p=thread[1], f=lambda k: (int((u32(t) + u32(10)) % u32(64))) + 64 * k) as m5:
                    m5[0] = u16(u32(m5[0]) * 3 + v + s1[0 + t / 2])
                x6: int @ thread[1] = (t ^ 47)
                if u >= 0:
                    s7: shared(u32[128])
                    with partition(s7, p=thread[1], f=lambda k: ((t ^ 1) if u % 2 == 0 else t) * 2 + k) as m8:
                        m8[0] = v + 0
                        m8[1] = v + 1
                    with partition(s3, p=thread[1], f=lambda k: (min(t, 63)) * 1 + k) as m9:
                        m9[0] = u16(src[int(v & 1023)])
                        m9[0] = u16(intrinsic.load(src[t + 9], cache="cg") + v + s7[127 - t % 128])
                    v = v ^ u32(u)
                    x10: int @ thread[1] = (t / 2 * 2 + (1 - t % 2))
                    with partition(s7, p=thread[1], view=(views.chunks(2))[63 - (x10)]) as m11:
                        m11[1] = v ^ u32(t) + u32(s3[int(src[1023 - t] % 64)])
                    for _ in range(2):
                        with partition(s3, p=thread[1], f=lambda k: (t / 2 * 2 + (1 - t % 2)) + 64 * k) as m12:
                            m12[0] = u16(u32(t) * 7 + v)
                            m12[0] = u16(u32(m12[0]) * 3 + v)
                        with group(thread[8]):
                            v = v + u32(intrinsic.all(v % 7 != 0))
                            v = v + intrinsic.match_all(v & 1)
                        x10 = (x10 / 2 + x10 % 2 * 32)
                v = v * 7 + s1[(t * 4 + 9) % 64]
                for _ in range(2):
                    with partition(s3, p=thread[1]) as m13:
                        with group(thread[1]):
                            for j14 in range(0 + t, -1, -64):
                                m13[j14] = u16(v + u32(u))
                    x6 = x6
                with partition(s3, p=thread[1], view=(views.chunks(1))[(t * 11) % 64]) as m15:
                    m15[0] = u16(u32(t) - u32(m15[0]) + s1[(t + u) % 64])
                    m15[0] = u16(u32(t) - u32(m15[0]))
                v = v * 31 + s1[63 - t]
                v = v * 31 + u32(s3[63 - t])
                mine[0] = v

