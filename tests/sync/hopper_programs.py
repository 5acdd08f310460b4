"""Small programs with boxes, products, roles and clusters, each quick enough to be run hundreds of times: slots are used again, turns come round.

Each is (kernel, its arguments, what the last of them must be, blocks).
"""

from __future__ import annotations

import numpy as np
from sync.small import compiled

HEAD = "from __future__ import annotations\nfrom snap import *\n\n"


def bf16(x: np.ndarray) -> np.ndarray:
    return (x.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


def from_bf16(x: np.ndarray) -> np.ndarray:
    return (x.astype(np.uint32) << 16).view(np.float32)


def matrices(*shapes) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.integers(-2, 3, shape).astype(np.float32) for shape in shapes]


GEMM = HEAD + """
@kernel
@requires(grid[1], {cluster}thread[256])
def k(A: ptr(const(bf16), (M, K)) @ grid[1], B: ptr(const(bf16), (16, K)) @ grid[1], C: ptr(float, (M, 16)) @ grid[1], M: int @ grid[1],
      K: int @ grid[1]):
    with group(grid[1]):
        with partition(C, p={top}, f=lambda i, j: (i, j), disjoint=True) as Cb:
            with group({top}):
                a: pipeline(shared(bf16[64, 16], swizzle=32{across}), 2{lag})
                b: pipeline(shared(bf16[16, 16], swizzle=32{copies}), 2{lag})
                c: pipeline(shared(float[64, 8], swizzle=32{across}), 2)
                rank: int @ block[1] = {rank}
                acc: float[8] @ thread[1]
                for t in range(M / {rows}):
                    m0: int @ block[1] = t * {rows} + 64 * rank
                    for q in range(K / 16):
                        with stage(a) as an, stage(b) as bn:
                            with claim(an, p=thread[128]) as ap, claim(bn, p=thread[128]) as bp:
                                match split(thread):
                                    case 128:
                                        pass
                                    case 128:
                                        async_copy(ap, A, at=(m0, q * 16))
                                        async_copy(bp, B, at=(0, q * 16))
                            with claim(an, p=thread[128]) as ac, claim(bn, p=thread[128]) as bc:
                                match split(thread):
                                    case 128:
                                        wgmma(acc, ac, bc, zero=(q == 0))
                                    case 128:
                                        pass
                    with partition(Cb, p=warpgroup, f=lambda i, j: (m0 + i, j), disjoint=True) as cg:
                        for h in unroll(range(2)):
                            with stage(c) as cs:
                                with partition(cs, p=warpgroup, f=lambda i, j: ({part}i, j)) as mine:
                                    match split(thread):
                                        case 128:
                                            store_acc(mine, acc, first=8 * h)
                                            async_copy(cg, mine, at=(0, 8 * h))
                                        case 128:
                                            pass
"""


def gemm(cluster: bool = False, lag: str = ""):
    words = (dict(cluster="cluster[1], block[2], ", top="cluster[1]", across=", across=block", copies=", copies=block", rank="id()", rows=128, part="rank, ")
             if cluster else dict(cluster="block[1], ", top="block[1]", across="", copies="", rank="0", rows=64, part=""))
    blocks = 2 if cluster else 1
    m, k = 128 * blocks, 48  # an odd number of fills, so that each slot comes last once
    x, y = matrices((m, k), (16, k))
    return compiled(GEMM.format(lag=lag, **words)), [bf16(x), bf16(y), np.zeros((m, 16), np.float32), m, k], (2, x @ y.T), blocks


STENCIL = HEAD + """
@kernel
@requires(grid[1], cluster[1], block[2], thread[64])
def k(y: ptr(int, (128,)) @ grid[1], steps: int @ grid[1]):
    with group(grid[1]):
        with partition(y, p=cluster[1], f=lambda i: i) as yc:
            with group(cluster[1]):
                edge: pipeline(shared(int[64], across=block), 2)
                b: int @ block[1] = id()
                t: int @ thread[1] = id() % 64
                v: int @ thread[1] = 100 * b + t
                for s in range(steps):
                    with stage(edge, s) as e:
                        with partition(e, p=thread[1], f=lambda i: (b, t + i)) as mine:
                            mine[0] = v
                        w: int @ thread[1] = 1000
                        with group(block[1]):
                            w += e[1 - b, 63 - t]
                        v = w
                with partition(yc, p=thread[1], f=lambda i: 64 * b + t + i) as out:
                    out[0] = v
"""


def stencil():
    v = 100 * np.arange(2)[:, None] + np.arange(64)
    for _ in range(5):
        v = v[::-1, ::-1] + 1000
    return compiled(STENCIL), [np.zeros(128, np.int32), 5], (0, v.reshape(-1)), 2


COPIES = HEAD + """
@kernel
@requires(grid[1], block[1], thread[64])
def k(x: ptr(const(int)) @ grid[1], y: ptr(int) @ grid[1], n: int @ grid[1]):
    with group(grid[1]):
        with partition(y, p=block[1], f=lambda i: i) as yb:
            with group(block[1]):
                s: pipeline(shared(int[64]), 3)
                t: int @ thread[1] = id()
                total: int @ thread[1] = 0
                for q in range(n + 2):
                    if q < n:
                        with stage(s, q) as d:
                            with partition(d, p=thread[1], offset=t) as mine:
                                async_copy(mine[0], x[64 * q + t])
                    if q >= 2:
                        with stage(s, q - 2) as u:
                            total = total * 3 + u[63 - t]
                with partition(yb, p=thread[1], offset=t) as out:
                    out[0] = total
"""


def copies():
    x = np.arange(6 * 64, dtype=np.int32) % 97
    total = np.zeros(64, np.int32)
    for row in x.reshape(6, 64):
        total = total * 3 + row[::-1]
    return compiled(COPIES), [x, np.zeros(64, np.int32), 6], (1, total), 1


RELAY = HEAD + """
@kernel
@requires(grid[1], block[1], thread[96])
def k(x: ptr(const(int)) @ grid[1], y: ptr(int) @ grid[1], n: int @ grid[1]):
    with group(grid[1]):
        with partition(y, p=block[1], f=lambda i: i) as yb:
            with group(block[1]):
                q: pipeline(shared(int[64]), 2)
                t: int @ thread[1] = id()
                with partition(yb, p=thread[1], f=lambda i: 64 * i + t) as mine:
                    for k in range(n):
                        with stage(q) as s:
                            with claim(s, p=thread[32]) as fill:
                                match split(thread, 64, 32):
                                    case 0:
                                        pass
                                    case 1:
                                        l: int @ thread[1] = id()
                                        with partition(fill, p=thread[1], f=lambda i: 32 * i + l) as cell:
                                            cell[0] = x[64 * k + l] + 1
                                            cell[1] = x[64 * k + 32 + l] + 1
                            with claim(s, p=thread[64]) as use:
                                match split(thread, 64, 32):
                                    case 0:
                                        mine[k] = use[63 - t]
                                    case 1:
                                        pass
"""


def relay():
    x = np.arange(5 * 64, dtype=np.int32) % 97
    return compiled(RELAY), [x, np.zeros(5 * 64, np.int32), 5], (1, x.reshape(5, 64)[:, ::-1].reshape(-1) + 1), 1


SLOTS = HEAD + """
@kernel
@requires(grid[1], block[1], thread[96])
def k(x: ptr(const(float), (M, 64)) @ grid[1], y: ptr(float, (M, 64)) @ grid[1], M: int @ grid[1]):
    with group(grid[1]):
        with partition(y, p=block[1], f=lambda i, j: (i, j)) as yb:
            with group(block[1]):
                even: shared(float[2, 64])
                odd: shared(float[2, 64])
                t: int @ thread[1] = id()
                with partition(yb, p=thread[1], f=lambda i: (i, t)) as mine:
                    for q in range(0, M, 4):
                        with claim(even, p=thread[32]) as e, claim(odd, p=thread[32]) as o:
                            match split(thread, 64, 32):
                                case 0:
                                    pass
                                case 1:
                                    async_copy(e, x, at=(q, 0))
                                    async_copy(o, x, at=(q + 2, 0))
                        with claim(even, p=thread[64]) as e:
                            match split(thread, 64, 32):
                                case 0:
                                    for i in range(2):
                                        mine[q + i] = 2.0 * e[i, 63 - t]
                                case 1:
                                    pass
                        with claim(odd, p=thread[64]) as o:
                            match split(thread, 64, 32):
                                case 0:
                                    for i in range(2):
                                        mine[q + 2 + i] = 3.0 * o[i, 63 - t]
                                case 1:
                                    pass
"""


def slots():
    x = np.arange(16 * 64, dtype=np.float32).reshape(16, 64)
    want = x[:, ::-1] * np.where(np.arange(16) % 4 < 2, 2, 3)[:, None]
    return compiled(SLOTS), [x, np.zeros((16, 64), np.float32), 16], (1, want.astype(np.float32)), 1


STAGING = HEAD + """
@kernel
@requires(grid[1], block[1], thread[64])
def k(y: ptr(int, (N, 64)) @ grid[1], N: int @ grid[1]):
    with group(grid[1]):
        with partition(y, p=block[1], f=lambda i, j: (i, j)) as yb:
            with group(block[1]):
                s: pipeline(shared(int[1, 64]), 2)
                t: int @ thread[1] = id()
                for q in range(N):
                    with stage(s) as out:
                        with partition(out, p=thread[1], f=lambda i: (0, t + i)) as cell:
                            cell[0] = 1000 * q + t
                        async_copy(yb, out, at=(q, 0))
"""


def staging():
    return compiled(STAGING), [np.zeros((6, 64), np.int32), 6], (0, 1000 * np.arange(6)[:, None] + np.arange(64)), 1


SUMS = HEAD + """
@kernel
@requires(grid[1], block[1], thread[128])
def k(x: ptr(const(int)) @ grid[1], y: ptr(int) @ grid[1], n: int @ grid[1]):
    with group(grid[1]):
        with partition(y, p=block[1], f=lambda i: i) as yb:
            with group(block[1]):
                s: shared(int[128])
                t: int @ thread[1] = id()
                with partition(yb, p=thread[1], f=lambda i: 32 * i + t % 32) as mine:
                    for q in range(n):
                        with partition(s, p=thread[1], offset=t) as cell:
                            cell[0] = x[128 * q + t]
                        match split(thread, 96, 32):
                            case 0:
                                pass
                            case 1:
                                v: int @ thread[1] = 0
                                for i in range(4):
                                    v += s[32 * i + 127 - t]
                                mine[q] = v
"""


def sums():
    x = np.arange(4 * 128, dtype=np.int32) % 97
    return compiled(SUMS), [x, np.zeros(4 * 32, np.int32), 4], (1, x.reshape(4, 4, 32).sum(axis=1)[:, ::-1].reshape(-1)), 1


SCRATCH = HEAD + """
@kernel
@requires(grid[1], block[1], thread[192])
def k(x: ptr(const(int), (N, 128)) @ grid[1], y: ptr(int, (N, 128)) @ grid[1], N: int @ grid[1]):
    with group(grid[1]):
        with partition(y, p=block[1], f=lambda i, j: (i, j)) as yb:
            with group(block[1]):
                rows: pipeline(shared(int[1, 128]), 2)
                s: shared(int[1, 128])
                for q in range(N):
                    with stage(rows) as r:
                        with claim(r, p=thread[64]) as fill:
                            match split(thread, 128, 64):
                                case 0:
                                    pass
                                case 1:
                                    async_copy(fill, x, at=(q, 0))
                        with claim(r, p=thread[128]) as use, claim(s, p=thread[128]) as mine, claim(yb, p=thread[128]) as out:
                            match split(thread, 128, 64):
                                case 0:
                                    t: int @ thread[1] = id()
                                    with partition(mine, p=thread[1], f=lambda i: (0, t + i)) as cell:
                                        cell[0] = use[0, 127 - t] + 1
                                    async_copy(out, mine, at=(q, 0))
                                case 1:
                                    pass
"""


def scratch():
    x = np.arange(5 * 128, dtype=np.int32).reshape(5, 128)
    return compiled(SCRATCH), [x, np.zeros_like(x), 5], (1, x[:, ::-1] + 1), 1


PROGRAMS = {
    "gemm": gemm, "gemm without lag": lambda: gemm(lag=", lag=0"), "gemm of a cluster": lambda: gemm(cluster=True), "stencil": stencil, "copies": copies,
    "relay": relay, "named slots": slots, "staging": staging, "sums": sums, "scratch": scratch,
}
