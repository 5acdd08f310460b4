"""What one thread has waited for, written, read or published, the others do not know: each kernel does the same in any order, and misses every point
that is taken out of it."""

from __future__ import annotations

import numpy as np
import pytest
from mutations import drop_fences
from sync.dropping import all_missed, copies, is_missed
from sync.small import agree, compiled

from snap._compiler.ir.engines import Wait
from snap._compiler.ir.points import points as inferred
from snap.machine import MachineError, run_adversarial

HEAD = """from __future__ import annotations
from snap import *
"""
BLOCK = HEAD + """
{before}
@kernel
@requires(grid[1], block[1], thread[{threads}])
def k(out: ptr(int) @ grid[1], y: ptr(int, (64, 32)) @ grid[1], x: ptr(const(int), (64, 32)) @ grid[1], n: int @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(out, p=thread[1], offset=i) as mine, partition(y, p=block[1], f=lambda i, j: (i, j)) as yb:
            with group(block[1]):
                t: int @ thread[1] = id()
                v: int @ thread[1] = i
{body}
                mine[0] = v
"""


def indented(text: str, by: int) -> str:
    return "\n".join(" " * by + line for line in text.strip("\n").splitlines())


def block(body: str, threads: int = 64, before: str = ""):
    return compiled(BLOCK.format(before=before, threads=threads, body=indented(body, 16)))


def arguments(threads: int, n: int) -> list:
    return [np.zeros(threads, np.int32), np.zeros((64, 32), np.int32), (np.arange(2048) ** 2 % 1013).astype(np.int32).reshape(64, 32), n]


def right(kernel, args: list, blocks: int = 1) -> None:
    """No order of threads gives anything else, and no fence can be left out."""
    agree(kernel, lambda: copies(args), blocks)
    for text, mutant in drop_fences(kernel._the_one({}).synced):
        assert any(_wrong(mutant, args, blocks, seed) for seed in range(20)), text


def _wrong(function, args: list, blocks: int, seed: int) -> bool:
    races: list = []
    try:
        run_adversarial(function, copies(args), blocks, seed, races)
    except MachineError:
        return True
    return bool(races)


# ---- two barriers at one place -------------------------------------------------------------------------------------------------------------

STORED_AND_READ = """
s: shared(int[{rows}, 32])
with partition(s, p=thread[1], f=lambda k: (t / 32, t % 32)) as m:
    m[0] = t
v = s[{first}]
async_copy(yb, s, at=(3, 0))
with partition(s, p=thread[1], f=lambda k: (t / 32, t % 32)) as m:
    m[0] = v
v = s[{second}]
"""


@pytest.mark.parametrize("threads", [64, 96, 128])
@pytest.mark.parametrize("first", ["0, (t + 7) % 32", "t / 32, 31 - t % 32"])
@pytest.mark.parametrize("second", ["t / 32, (t + 1) % 32", "0, t % 32"])
def test_barriers_of_two_groups_at_one_place(threads, first, second):
    right(block(STORED_AND_READ.format(rows=threads // 32, first=first, second=second), threads), arguments(threads, 0))


# ---- a block's own part of a cluster's memory ------------------------------------------------------------------------------------------------

GATHERED = HEAD + """
@device
@requires(block[1], thread[32])
def turned(p: ptr(shared(int)) @ block[1]) -> int @ thread[1]:
    r: int @ thread[1] = id()
    return p[31 - r]

@kernel
@requires(grid[1], cluster[1], block[{blocks}], thread[32])
def k(out: ptr(int) @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(out, p=thread[1], offset=i) as mine:
            with group(cluster[1]):
                t: int @ thread[1] = id()
                b: int @ block[1] = id()
                s: shared(int[{size}], across=block)
                with partition(s, p=thread[1], f=lambda k: (b, t % 32 + 32 * k)) as m:
                    for k in range({blocks}):
                        m[k] = -1
                with partition(s, p=thread[1], f=lambda k: ({rank}, t + k)) as m:
                    m[0] = t
                with partition(s, p=block[1], f=lambda k: (b, k)) as own:
                    with group(block[1]):
                        r: int @ thread[1] = id()
                        mine[0] = {read}
"""


@pytest.mark.parametrize("blocks", [2, 4])
@pytest.mark.parametrize("rank", ["0", "1", "(b + 1) % {blocks}"])
@pytest.mark.parametrize("read", ["own[31 - r]", "own[{last} - r]", "turned(own)"])
def test_another_block_writes_ones_own_part(blocks, rank, read):
    size = 32 * blocks
    text = GATHERED.format(blocks=blocks, size=size, rank=rank.format(blocks=blocks), read=read.format(last=size - 1))
    kernel = compiled(text)
    agree(kernel, lambda: [np.zeros(2 * size, np.int32)], 2 * blocks)
    assert any(p.kind == "cluster" for p in kernel.syncs())


# ---- pipelines that are declared again -------------------------------------------------------------------------------------------------------

AGAIN = """
for o in range(n):
    q: pipeline(shared(int[64]), {depth})
    for r in range({times}):
        with stage(q) as s:
            with partition(s, p=thread[1], offset=t) as m:
                m[0] = t + 100 * o
            v = v * 3 + s[63 - t]
"""
CALLED = """
@device
@requires(block[1], thread[64])
def inside(o: int @ block[1]) -> int @ thread[1]:
    t: int @ thread[1] = id()
    v: int @ thread[1] = 0
    q: pipeline(shared(int[64]), {depth})
    for r in range({times}):
        with stage(q) as s:
            with partition(s, p=thread[1], offset=t) as m:
                m[0] = t + 100 * o
            v = v * 3 + s[63 - t]
    return v
"""


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("times", [1, 2, 3])
@pytest.mark.parametrize("called", [False, True])
def test_a_pipeline_begins_with_its_first_slot_again(depth, times, called):
    text, values = CALLED if called else AGAIN, {"depth": depth, "times": times}
    kernel = block("for o in range(n):\n    v += inside(o)", before=text.format(**values)) if called else block(text.format(**values))
    right(kernel, arguments(64, 3))


# ---- waits by one thread -----------------------------------------------------------------------------------------------------------------------

ROLES = """
with claim(yb, p=thread[{half}]) as yc:
    q: pipeline(shared(int[2, 32]), {depth})
    s: shared(int[{rows}, 32])
    for step in range(3):
        with claim(s, p=thread[{half}]) as c:
            match split(thread, {half}, {half}):
                case 0:
                    r: int @ thread[1] = id()
                    with partition(c, p=thread[1], f=lambda k: (r / 32, r % 32)) as m:
                        m[0] = i + step
                case 1:
                    pass
        with claim(s, p=thread[{half}]) as c:
            match split(thread, {half}, {half}):
                case 0:
                    {first}
                case 1:
                    pass
        with stage(q) as a:
            with claim(a, p=thread[{half}]) as c:
                match split(thread, {half}, {half}):
                    case 0:
                        pass
                    case 1:
                        async_copy(c, x, at=(10, 0))
            with claim(a, p=thread[{half}]) as c:
                match split(thread, {half}, {half}):
                    case 0:
                        {second}
                    case 1:
                        pass
"""
STORES = ['async_reduce(yc, c, at=(step, 0), op="add")', "async_copy(yc, c, at=(16 + 4 * step, 0))", 'async_reduce(yc, c, at=(1, 0), op="max")']


@pytest.mark.parametrize("half", [32, 64])
@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("first", STORES)
@pytest.mark.parametrize("second", ["async_copy(yc, c, at=(50, 0))", 'async_reduce(yc, c, at=(40, 0), op="add")'])
def test_one_thread_waits_for_its_stores(half, depth, first, second):
    right(block(ROLES.format(half=half, rows=half // 32, depth=depth, first=first, second=second), 2 * half), arguments(2 * half, 0))


# ---- products under a condition ------------------------------------------------------------------------------------------------------------------

PRODUCTS = HEAD + """
@kernel
@requires(grid[1], block[1], thread[128])
def k(out: ptr(float) @ grid[1], xa: ptr(const(bf16), (64, 64)) @ grid[1], xb: ptr(const(bf16), (8, 64)) @ grid[1], n: int @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(out, p=thread[1], offset=i) as mine:
            with group(block[1]):
                acc: float[4] @ thread[1]
                A: pipeline(shared(bf16[64, 16], swizzle=32), {depth})
                B: pipeline(shared(bf16[8, 16], swizzle=32), {depth})
                for j in range(4):
                    with stage(A) as a, stage(B) as b:
                        async_copy(a, xa, at=(0, 16 * j))
                        async_copy(b, xb, at=(0, 16 * j))
                        with group(warpgroup):
{use}
                mine[0] = acc[0]
"""
USES = [
    "wgmma(acc, a, b)",
    "if n > 3:\n    wgmma(acc, a, b)",
    "if n + j > 3:\n    wgmma(acc, a, b)",
    "for r in range(n):\n    wgmma(acc, a, b)",
    "for r in range(2):\n    if n > r:\n        wgmma(acc, a, b)",
    "if n > 3:\n    wgmma(acc, a, b)\nelse:\n    wgmma(acc, a, b, zero=True)",
]


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("depth", [1, 2])
def test_who_loads_does_not_run_ahead_of_those_who_may_multiply(use, depth):
    kernel = compiled(PRODUCTS.format(depth=depth, use=indented(use, 28)))
    whole = not any(p.kind in ("block", "named") for p in inferred(kernel._the_one({}).synced))
    assert whole == (use in (USES[0], USES[5]))  # where they always multiply, that is meeting enough
    for n in (0, 2, 5):
        agree(kernel, lambda n=n: [np.zeros(128, np.float32), np.zeros((64, 64), np.uint16), np.zeros((8, 64), np.uint16), n], 1)


def test_who_loads_does_not_run_ahead_of_those_who_may_read():
    text = "q: pipeline(shared(int[2, 32]), {depth})\nfor j in range(4):\n    with stage(q) as a:\n        async_copy(a, x, at=(j, 0))\n{use}"
    for use in ("if n > 3:\n    v += a[0, t % 32]", "for r in range(n):\n    v = v * 3 + a[1, t % 32]", "while v < n:\n    v += a[0, 3] + 1"):
        for depth in (1, 2, 3):
            if use.startswith("while"):
                use = "u: int = 0\nwhile u < n:\n    u += 2\n    v += a[0, 3]"
            kernel = block(text.format(depth=depth, use=indented(use, 8)))
            for n in (0, 4):
                right(kernel, arguments(64, n)) if n else agree(kernel, lambda: arguments(64, 0), 1)


# ---- the ends of a kernel ------------------------------------------------------------------------------------------------------------------------

ENDS = HEAD + """
@kernel
@requires(grid[1], {cluster}block[2], thread[32])
def k(y: ptr(int, (16, 32)) @ grid[1], n: int @ grid[1]):
    b: int @ block[1] = id()
    for r in range(2):
        if n == r:
            return
        with partition(y, p=block[1], f=lambda i, j: (4 * b + i, j)) as o:
            with group({group}):
{work}
    {end}
"""
STORED = """
s: shared(int[4, 32])
t: int @ thread[1] = id()
with partition(s, p=thread[1], f=lambda k: (k, t)) as m:
    for k in range(4):
        m[k] = t + k + r
{store}
"""
REACHED = """
s: shared(int[32], across=block)
rank: int @ block[1] = id()
t: int @ thread[1] = id() % 32
with partition(s, p=thread[1], f=lambda k: (rank, t)) as m:
    m[0] = t + 100 * rank + r
with partition(o, p=thread[1], f=lambda k: (r, t)) as m:
    m[0] = s[1 - rank, t]
"""


@pytest.mark.parametrize("end", ["if n > 3:\n        return\n    assert n > 0", "if n <= 3:\n        assert n > 0\n    else:\n        return", "return"])
@pytest.mark.parametrize("work", ["async_copy(o, s, at=(0, 0))", 'async_reduce(o, s, at=(0, 0), op="add")', "cluster"])
def test_every_return_is_an_end(end, work):
    cluster = work == "cluster"
    body = REACHED if cluster else STORED.format(store=work)
    group = "cluster[1]" if cluster else "block[1]"
    kernel = compiled(ENDS.format(cluster="cluster[1], " if cluster else "", group=group, work=indented(body, 16), end=end))
    for n in (1, 2, 5):
        right(kernel, [np.zeros((16, 32), np.int32), n], 2)


def test_products_end_before_a_return():
    text = PRODUCTS.format(depth=2, use=indented("wgmma(acc, a, b)", 28))
    text = text.replace("                mine[0] = acc[0]", "    if n > 3:\n        return\n    assert n > 0")
    kernel = compiled(text)
    for n in (2, 5):
        agree(kernel, lambda n=n: [np.zeros(128, np.float32), np.zeros((64, 64), np.uint16), np.zeros((8, 64), np.uint16), n], 1)


# ---- slots that are still in use when the next is taken --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("depth", [2, 3, 4])
@pytest.mark.parametrize("store", ["async_copy(yb, a, at=(9, 0))", 'async_reduce(yb, a, at=(9, 0), op="max")'])
@pytest.mark.parametrize("then", ["v = a[0, t % 32]", "v += a[1, 31 - t % 32]"])
def test_a_slot_is_stored_while_the_next_is_taken(depth, store, then):
    body = f"q: pipeline(shared(int[2, 32]), {depth})\nwith stage(q) as a:\n    async_copy(a, x, at=(3, 0))\n    {store}\n"
    body += f"with stage(q) as a:\n    async_copy(a, x, at=(5, 0))\n    {then}"
    kernel = block(body)
    right(kernel, arguments(64, 0))
    assert all_missed(kernel, arguments(64, 0), 1)


HANDED = """
with claim(yb, p=thread[32]) as yc:
    for a in range(n):
        p: pipeline(shared(int[2, 32]), {depth})
        with stage(p) as s:
            with claim(s, p=thread[32]) as c:
                match split(thread, 64, 32):
                    case 0:
                        pass
                    case 1:
                        r: int @ thread[1] = id()
                        with partition(c, p=thread[1], f=lambda k: (k, r)) as m:
                            m[{row}] = v + r
            with claim(s, p=thread[64]) as c:
                match split(thread, 64, 32):
                    case 0:
                        r: int @ thread[1] = id()
                        v = v * 3 + c[{row}, r % 32]
                    case 1:
                        pass
    for a in range(3):
        q: {then}
        {stage}
            with claim({s}, p=thread[64]) as c:
                match split(thread, 64, 32):
                    case 0:
                        async_copy(c, x, at=(a, 0))
                    case 1:
                        pass
            with claim({s}, p=thread[32]) as c:
                match split(thread, 64, 32):
                    case 0:
                        pass
                    case 1:
                        async_reduce(yc, c, at=(a, 0), op="add")
"""


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("row", [0, 1])
@pytest.mark.parametrize("slots", [0, 1, 3])
def test_boxes_take_the_bytes_of_what_threads_handed_on(depth, row, slots, monkeypatch):
    monkeypatch.setattr("snap._compiler.check.core.state.FREE_BYTES", 0)  # there is no other room
    then = f"pipeline(shared(int[2, 32]), {slots})" if slots else "shared(int[2, 32])"
    text = HANDED.format(depth=depth, row=row, then=then, stage="with stage(q) as s:" if slots else "if n > 0:", s="s" if slots else "q")
    kernel = block(text, 96)
    assert any(p.fence for p in kernel.syncs())
    right(kernel, arguments(96, 3))


# ---- threads and boxes in one place ----------------------------------------------------------------------------------------------------------------

READ_THEN_STORED = """
s: shared(int[2, 32])
for r in range(2):
    with partition(s, p=thread[1], f=lambda k: (t / 32, t % 32)) as m:
        m[0] = v
    {first}
    {between}
    {second}
"""
BOX = {"stored": "async_copy(yb, s, at=(3, 0))", "added": 'async_reduce(yb, s, at=(3, 0), op="add")'}
TOUCH = {
    "read": "v = v * 5 + yb[3 + t / 32, t % 32]",
    "read across": "v = v * 5 + yb[4 - t / 32, 31 - t % 32]",
    "read far away": "v += yb[9, t % 32]",
    "written": "with partition(yb, p=thread[1], f=lambda k: (3 + t / 32, t % 32)) as m:\n        m[0] = r",
    "read shared": "v += s[1 - t / 32, 3]",
}


@pytest.mark.parametrize("box", BOX)
@pytest.mark.parametrize("touch", TOUCH)
def test_boxes_come_after_what_threads_read(box, touch):
    kernel = block(READ_THEN_STORED.format(first=BOX[box], between=TOUCH[touch], second=BOX["stored"]))
    right(kernel, arguments(64, 0))
    assert ("snap_fence_async();" in kernel.cuda()) == (touch != "read shared")  # else boxes alone touch global memory


LOADED = "q: pipeline(shared(int[2, 32]), {depth})\nfor j in range(5):\n    with stage(q) as a:\n        async_copy(a, x, at=(j, 0))\n        {use}"


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("use", ["v += a[0, t % 32]", "v += a[1 - t / 32, 31 - t % 32]", "if n > 2:\n            v += a[0, 5]"])
def test_boxes_are_loaded_over_what_threads_have_read(depth, use):
    kernel = block(LOADED.format(depth=depth, use=use))
    right(kernel, arguments(64, 3))
    assert any(p.fence for p in kernel.syncs())


@pytest.mark.parametrize("use", ["c[0, j] = j", "c[0, j] = yc[3, j]", "v += yc[4, j]", "yc[4, j] = 7"])
def test_a_threads_own_uses_are_fenced_too(use):
    text = "s: shared(int[2, 32])\nwith claim(yb, p=thread[1]) as yc, claim(s, p=thread[1]) as c:\n    match split(thread):\n        case 1:\n"
    text += "            for j in range(32):\n                c[0, j] = 1\n                c[1, j] = 2\n"
    text += f"            for j in range(32):\n                {use}\n            async_copy(yc, c, at=(3, 0))"
    kernel = block(text)
    assert any(p.fence for p in kernel.syncs())
    right(kernel, arguments(64, 0))


# ---- what one thread publishes -----------------------------------------------------------------------------------------------------------------------

HANDED_OVER = HEAD + """
@kernel
@requires(grid[1], block[1], thread[64])
def k(part: ptr(int) @ grid[1], flag: ptr(u32) @ grid[1], out: ptr(int) @ grid[1]):
    with group(grid[1]):
        b: int @ block[1] = id()
        blocks: int = count(block[1])
        with partition(part, p=block[1]) as parts, partition(out, p=block[1]) as o:
            with group(block[1]):
                done: shared(u32[1])
                t: int @ thread[1] = id()
                {write}
                with claim(done, p=thread[1]) as cell:
                    match split(thread):
                        case 1:
                            {publish}
                if done[0] == u32(blocks - 1):
                    v: int @ thread[1] = 0
                    {read}
                    with partition(o, p=thread[1], offset=t) as mine:
                        mine[0] = v
"""
WRITES = [
    "with partition(parts, p=thread[1], offset=64 * b + t) as mine:\n                    mine[0] = t",
    "with partition(parts, p=thread[1], offset=64 * b + 63 - t) as mine:\n                    mine[0] = t",
    "with partition(parts, p=thread[1], offset=64 * b + t) as mine:\n                    with group(thread[1]):\n"
    "                        if t > 3:\n                            mine[0] = t",
    "with partition(parts, p=thread[32], offset=64 * b) as half:\n                    with group(warp):\n"
    "                        with partition(half, p=thread[1], offset=t) as mine:\n                            mine[0] = t",
]
PUBLISHES = [
    'cell[0] = atomic.add(flag, 0, 1, order="acq_rel")',
    'atomic.add(flag, 1, 1, order="release")\n                            cell[0] = atomic.add(flag, 0, 1, order="seq_cst")',
]
READS = [
    "for i in range(blocks):\n                        v += parts[64 * i + t]",
    "v = parts[64 * (blocks - 1 - b) + 63 - t]",
]


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("publish", PUBLISHES)
@pytest.mark.parametrize("read", READS)
def test_a_thread_publishes_what_its_block_wrote(write, publish, read):
    kernel = compiled(HANDED_OVER.format(write=write, publish=publish, read=read))
    args = [np.zeros(128, np.int32), np.zeros(2, np.uint32), np.zeros(64, np.int32)]
    for seed in range(6):
        assert not _wrong(kernel._the_one({}).synced, args, 2, seed)
    assert any("published" in p.reason for p in kernel.syncs())
    assert all_missed(kernel, args, 2, 40)


BOX_HANDED_OVER = HEAD + """
@kernel
@requires(grid[1], block[1], thread[64])
def k(part: ptr(int, (8, 32)) @ grid[1], flag: ptr(u32) @ grid[1], out: ptr(int) @ grid[1]):
    with group(grid[1]):
        b: int @ block[1] = id()
        with partition(part, p=block[1], f=lambda i, j: (i, j)) as parts, partition(out, p=block[1]) as o:
            with group(block[1]):
                s: shared(int[2, 32])
                done: shared(u32[1])
                t: int @ thread[1] = id()
                with partition(s, p=thread[1], f=lambda k: (t / 32, t % 32)) as m:
                    m[0] = t + b
                {store}
                with claim(done, p=thread[1]) as cell:
                    match split(thread):
                        case 1:
                            cell[0] = atomic.add(flag, 0, 1, order="acq_rel")
                if done[0] == 1:
                    with partition(o, p=thread[1], offset=t) as mine:
                        mine[0] = parts[t / 32, t % 32] + parts[2 + t / 32, 31 - t % 32]
"""


@pytest.mark.parametrize("store", ["async_copy(parts, s, at=(2 * b, 0))", 'async_reduce(parts, s, at=(2 * b, 0), op="add")'])
def test_a_thread_publishes_the_boxes_of_its_block(store):
    kernel = compiled(BOX_HANDED_OVER.format(store=store))
    args = [np.zeros((8, 32), np.int32), np.zeros(1, np.uint32), np.zeros(64, np.int32)]
    agree(kernel, lambda: copies(args), 2)
    assert any((Wait.BOXES, 0) in p.waits and "published" in p.reason for p in kernel.syncs())


ACQUIRED = HEAD + """
@kernel
@requires(grid[1], block[1], thread[64], cooperative=True)
def k(data: ptr(int) @ grid[1], flag: ptr(u32) @ grid[1], out: ptr(int) @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        b: int @ block[1] = id()
        with partition(data, p=block[1]) as d, partition(out, p=thread[1], offset=i) as mine:
            with group(block[1]):
                t: int @ thread[1] = id()
                if b == 0:
                    with partition(d, p=thread[1], offset=t) as m:
                        m[0] = 3 * t
                    match split(thread):
                        case 1:
                            atomic.store(flag, 0, 1, order="release")
                else:
                    match split(thread):
                        case 1:
                            while atomic.load(flag, 0, order="acquire") == 0:
                                pass
                    {read}
"""


@pytest.mark.parametrize("read", [
    "mine[0] = d[63 - t]", "mine[0] = d[t]", "for r in range(3):\n                        mine[0] = d[t + r]",
    "with group(warp):\n                        mine[0] = d[5]",
])
def test_a_thread_acquires_for_its_block(read):
    kernel = compiled(ACQUIRED.format(read=read))
    args = [np.zeros(128, np.int32), np.zeros(1, np.uint32), np.zeros(128, np.int32)]
    agree(kernel, lambda: copies(args), 2)
    assert any("acquired" in p.reason for p in kernel.syncs()) and any("published" in p.reason for p in kernel.syncs())
    assert all_missed(kernel, args, 2, 40)


def test_threads_that_speak_for_themselves_do_not_meet():
    text = """
@kernel
@requires(grid[1], block[1], thread[64])
def k(data: ptr(int) @ grid[1], flag: ptr(u32) @ grid[1], out: ptr(int) @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(data, p=thread[1]) as d, partition(out, p=thread[1], offset=i) as mine:
            with group(thread[1]):
                while atomic.cas(flag, i, 0, 1, order="acquire") != 0:
                    pass
                d[i] = d[i] + 1
                atomic.store(flag, i, 0, order="release")
                mine[0] = d[i]
"""
    assert compiled(HEAD + text).syncs() == []


# ---- locks and flags within a block ------------------------------------------------------------------------------------------------------------------

LOCKED = HEAD + """
@kernel
@requires(grid[1], block[1], thread[{threads}])
def k(value: ptr(int) @ grid[1], lock: ptr(int) @ grid[1], out: ptr(int) @ grid[1]):
    with group(grid[1]):
        with partition(value, p=block[1]) as values, partition(out, p=block[1]) as o, group(block[1]):
            inside: shared(int[2])
            near: shared(int[64])
            t: int @ thread[1] = id()
            with partition(inside, p=thread[1], offset=t) as m, partition(near, p=thread[1], offset=t) as z, group(thread[1]):
                if t < 2:
                    m[0] = 0
                if t < 64:
                    z[0] = 0
            with partition({data}, p=thread[{n}]) as mine, group(thread[{n}]):
                lane: int @ thread[1] = id()
                got: int @ thread[1] = 0
                for r in range(2):
{acquire}
{work}
{release}
            with partition(o, p=thread[1], offset=t) as m, group(thread[1]):
                if t < {n}:
                    m[0] = {data}[t]
"""
FLAGS = {
    "shared, block": ("inside", ', scope="block"'), "shared": ("inside", ""), "global, block": ("lock", ', scope="block"'), "global": ("lock", ""),
}
TAKEN = {
    "case": """
match split(thread):
    case 1:
        while atomic.cas({lock}, 0, 0, 1, order="acquire"{scope}) != 0:
            pass
""",
    "both": """
match split(thread):
    case 1:
        while atomic.exch({lock}, 0, 1, order="acq_rel"{scope}) != 0:
            pass
""",
    "told": """
busy: int @ thread[{n}] = 1
while busy != 0:
    got = 1
    match split(thread):
        case 1:
            got = atomic.cas({lock}, 0, 0, 1, order="acquire"{scope})
    busy = intrinsic.shfl(got, 0)
""",
}
DONE = {
    "own": "with partition(mine, p=thread[1], offset=lane) as m:\n    m[0] = 2 * m[0] + 1",
    "across": "with partition(mine, p=thread[1], offset={n} - 1 - lane) as m:\n    m[0] += r + 1",
    "half": "with claim(mine, p=thread[16]) as half:\n    match split(thread):\n        case 16:\n            pass\n        case 16:\n"
            "            with partition(half, p=thread[1], offset=lane) as m:\n                m[0] = 5 * m[0] + 1",
}
GIVEN = {
    "stored": 'match split(thread):\n    case 1:\n        atomic.store({lock}, 0, 0, order="release"{scope})',
    "exchanged": 'match split(thread):\n    case 1:\n        atomic.exch({lock}, 0, 0, order="release"{scope})',
    "by each": 'with group(thread[1]):\n    if lane == 0:\n        atomic.store({lock}, 0, 0, order="seq_cst"{scope})',
}


def locked(flag: str, data: str, n: int, taken: str = "case", done: str = "own", given: str = "stored", threads: int = 128):
    lock, scope = FLAGS[flag]
    fill = lambda text: indented(text.format(lock=lock, scope=scope, n=n), 20)  # noqa: E731
    return compiled(LOCKED.format(threads=threads, data=data, n=n, acquire=fill(TAKEN[taken]), work=fill(DONE[done]), release=fill(GIVEN[given])))


def met_by(kernel, word: str) -> list[str]:
    return [str(p.participants) for p in kernel.syncs() if word in p.reason]


def held(kernel, n: int) -> None:
    args = [np.zeros(64, np.int32), np.zeros(1, np.int32), np.zeros(64, np.int32)]
    found = [copies(args) for _ in range(5)]
    for seed, own in enumerate(found):
        races: list = []
        run_adversarial(kernel._the_one({}).synced, own, 1, seed, races)
        assert not races, races[0]
        np.testing.assert_array_equal(own[2], found[0][2])
    assert found[0][2].any()
    assert all(f"thread[{n}]" in met_by(kernel, word) for word in ("acquired", "published"))
    synced = kernel._the_one({}).synced
    spoken = [p for p in inferred(synced) if "acquired" in p.reason or "published" in p.reason]
    assert all(is_missed(synced, p, [(args, 1)], 20) for p in spoken)


@pytest.mark.parametrize("flag", FLAGS)
@pytest.mark.parametrize("data", ["near", "values"])
@pytest.mark.parametrize("n", [32, 64])
def test_a_group_holds_a_lock(flag, data, n):
    held(locked(flag, data, n), n)


@pytest.mark.parametrize("taken", TAKEN)
@pytest.mark.parametrize("done", DONE)
@pytest.mark.parametrize("given", GIVEN)
def test_a_lock_is_taken_and_given_in_any_way(taken, done, given):
    held(locked("shared, block", "near", 32, taken, done, given), 32)


@pytest.mark.parametrize("n", [2, 8, 16])
@pytest.mark.parametrize("flag", FLAGS)
@pytest.mark.parametrize("data", ["near", "values"])
def test_parts_of_a_warp_hold_a_lock(n, flag, data):
    kernel = locked(flag, data, n)
    assert all(f"thread[{n}]" in met_by(kernel, word) for word in ("acquired", "published"))


TOLD = HEAD + """
@kernel
@requires(grid[1], block[1], thread[64])
def k(far: ptr(int) @ grid[1], flag: ptr(int) @ grid[1], out: ptr(int) @ grid[1]):
    with group(grid[1]):
        with partition(far, p=block[1]) as fars, partition(out, p=block[1]) as o, group(block[1]):
            inside: shared(int[1])
            near: shared(int[32])
            t: int @ thread[1] = id()
            with claim(inside, p=thread[1]) as m:
                match split(thread):
                    case 1:
                        m[0] = 0
            with partition({data}, p=warp) as d, partition(o, p=warp) as mine:
                match split(thread):
                    case 32:
                        with partition(d, p=thread[1], offset={to}) as m:
                            m[0] = 3 * t + 1
                        match split(thread):
                            case 1:
                                {release}
                    case 32:
                        match split(thread):
                            case 1:
                                while atomic.load({flag}, 0, order="acquire"{scope}) == 0:
                                    pass
                        with partition(mine, p=thread[1], offset=t - 32) as m:
                            m[0] = d[{at}]
"""


@pytest.mark.parametrize("flag", FLAGS)
@pytest.mark.parametrize("data", ["near", "fars"])
@pytest.mark.parametrize("release", ['atomic.store({flag}, 0, 1, order="release"{scope})', 'atomic.add({flag}, 0, 1, order="acq_rel"{scope})'])
@pytest.mark.parametrize("to, at", [("t", "63 - t"), ("31 - t", "t - 32"), ("t", "7")])
def test_a_warp_tells_another(flag, data, release, to, at):
    name, scope = FLAGS[flag]
    name = "flag" if name == "lock" else name
    kernel = compiled(TOLD.format(data=data, to=to, at=at, flag=name, scope=scope, release=release.format(flag=name, scope=scope)))
    args = [np.zeros(32, np.int32), np.zeros(1, np.int32), np.zeros(32, np.int32)]
    for seed in range(6):
        assert not _wrong(kernel._the_one({}).synced, args, 1, seed)
    assert met_by(kernel, "acquired") == met_by(kernel, "published") == ["thread[32]"]
    assert all_missed(kernel, args, 1, 20)


@pytest.mark.parametrize("flag", ["shared, block", "shared", "global, block"])
@pytest.mark.parametrize("data", ["near", "values"])
@pytest.mark.parametrize("n, threads", [(1, 128), (64, 64), (32, 32)])
def test_a_thread_or_a_whole_block_need_not_meet_for_itself(flag, data, n, threads):
    kernel = locked(flag, data, n, threads=threads)
    assert met_by(kernel, "acquired") == met_by(kernel, "published") == []


def test_what_one_group_has_claimed_is_told_to_nobody():
    text = """
s: shared(int[32])
lock: shared(int[1])
with claim(s, p=warp) as c:
    match split(thread):
        case 32:
            with partition(c, p=thread[1], offset=t) as m:
                m[0] = t
            with group(thread[1]):
                atomic.add(lock, 0, 1, order="acq_rel", scope="block")
            with partition(c, p=thread[1], offset=t) as m:
                v = m[0]
        case 32:
            pass
"""
    kernel = block(text)
    assert met_by(kernel, "acquired") == met_by(kernel, "published") == []


HELD_BY_THREADS = """
s: shared(int[32])
lock: shared(int[1])
with partition(s, p=thread[1], offset=t) as m, claim(lock, p=thread[1]) as l:
    with group(thread[1]):
        if t < 32:
            m[0] = 0
    match split(thread):
        case 1:
            l[0] = 0
with partition(s, p=thread[1], offset=t % 32) as m, group(warp):
    match split(thread):
        case 1:
            while atomic.cas(lock, 0, 0, 1, order="acquire", scope="block") != 0:
                pass
    m[0] += 1
    match split(thread):
        case 1:
            atomic.store(lock, 0, 0, order="release", scope="block")
"""


def test_a_race_says_that_atomics_order_other_threads():
    kernel = block(HELD_BY_THREADS)
    found: list = []
    for seed in range(8):
        try:
            run_adversarial(kernel._the_one({}).synced, arguments(64, 0), 1, seed, found)
        except MachineError as error:
            assert error.kind == "race" and "after the acquire" in str(error)
    assert found and {race.reason for race in found} == {"one thread"}
    assert "after the acquire" in found[0].message and "after the acquire" in str(found[0].error())


def test_parts_of_a_warp_that_wait_for_a_lock_get_on():
    kernel = locked("shared, block", "near", 8)
    for seed in range(3):
        races: list = []
        run_adversarial(kernel._the_one({}).synced, [np.zeros(64, np.int32), np.zeros(1, np.int32), np.zeros(64, np.int32)], 1, seed, races)
        assert not races


# ---- loads that not all have waited for --------------------------------------------------------------------------------------------------------

MULTIPLIED = HEAD + """
@kernel(threads=128)
def k(out: ptr(float), xa: ptr(const(bf16), (128, 64)), xb: ptr(const(bf16), (16, 64)), n: int):
    with each(block, out):
        acc: float[8] @ thread[1]
        A: pipeline(shared(bf16[128, 16], swizzle=32), {depth}, lag=0)
        B: pipeline(shared(bf16[16, 16], swizzle=32), {depth}, lag=0)
        with stage(A) as a, stage(B) as b:
            async_copy(tile(a, (0, 0), (64, 16)), xa, at=(0, 16))
            async_copy(tile(a, (64, 0), (64, 16)), xa, at=(64, 16))
            async_copy(b, xb, at=(0, 16))
            with group(warpgroup):
                if n > {least}:
                    wgmma(acc, tile(a, (64, 0), (64, 16)), b, zero=True)
        for j in range({times}):
            with stage(A) as a, stage(B) as b:
                async_copy(tile(a, (0, 0), (64, 16)), xa, at=(0, 16 * (j % 4)))
                async_copy(b, xb, at=(0, 16 * (j % 4)))
                with group(warpgroup):
                    wgmma(acc, tile(a, (0, 0), (64, 16)), b, zero=(j == 0))
        with each(thread, out) as t:
            for q in range(8):
                out[t * 8 + q] = acc[q]
"""


# Where the first product is left out, thread 0 went two phases ahead of warps that had not looked at the first load's yet: the next product, of
# another slot, counted as the proof that all had come.
@pytest.mark.parametrize("depth", [2, 3])
@pytest.mark.parametrize("times", [2, 3, 5])
@pytest.mark.parametrize("least", [0, 3])
def test_a_product_that_is_left_out_shows_nothing(depth, times, least):
    kernel = compiled(MULTIPLIED.format(depth=depth, times=times, least=least))
    numbers = np.random.default_rng(1)
    xa, xb = ((numbers.integers(-2, 3, (rows, 64)).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16) for rows in (128, 16))
    agree(kernel, lambda: [np.zeros(1024, np.float32), xa.copy(), xb.copy(), 2], 1)


# ---- groups for which there is no barrier ------------------------------------------------------------------------------------------------------

REST = """
s: shared(int[{threads}])
with partition(s, p=thread[1], offset=({threads} - 1) - t) as m:
    m[0] = i
match split(thread):
    case {first}:
        v = v * 3
    case _:
        r: int @ thread[1] = id()
        v = v * 5 + s[(r + 5) % {rest}]
"""


# Every 48 threads have no barrier of their own, so the block's is used; warp 0 need not wait there.  Two named barriers were made of it, one for
# every 48 threads, at each of which 96 were to arrive: the kernel hung.
@pytest.mark.parametrize("threads, first", [(96, 48), (192, 96), (288, 144), (160, 80), (96, 32)])
def test_the_block_waits_for_a_group_that_has_no_barrier(threads, first):
    kernel = block(REST.format(threads=threads, first=first, rest=threads - first), threads)
    right(kernel, arguments(threads, 0))
    assert all(p.participants.level.name == "BLOCK" or p.participants.n % 32 == 0 or p.kind in ("warp", "thread") for p in kernel.syncs())
