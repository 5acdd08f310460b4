"""What a run counts: kernels so small that every number can be counted by hand."""

from __future__ import annotations

import json

import numpy as np
import pytest

import snap
from snap import *
from snap.cost.measured import Count
from snap.cost.metrics import METRICS


def line_of(k, text: str) -> int:
    """The one line of a kernel's source in which a text stands."""
    import inspect

    lines, first = inspect.getsourcelines(k.__wrapped__)
    (found,) = (n for n, line in enumerate(lines, start=first) if text in line)
    return found


def at(k, m, text: str, per: str = "warp") -> dict[str, float]:
    """The metrics of that line that are not zero, without its steps."""
    counts = m.at(line_of(k, text))
    return {name: getattr(c, per) for name, c in counts.items() if c and name != "steps"}


@kernel(threads=64)
def strided(x: ptr(const(float)), y: ptr(float), n: int, by: int):
    with each(thread, y) as i:
        if i < n:
            y[i] = x[i * by]


def test_sectors_and_bytes():
    x, y = np.zeros(4096, np.float32), np.ones(128, np.float32)
    m = strided.measure(x, y, 100, 2, blocks=2)
    assert at(strided, m, "y[i] =") == {"sectors_ld": 8, "sectors_st": 4, "bytes": 256}
    # 100 threads: three whole warps, and one of 4 lanes.
    assert at(strided, m, "y[i] =", "grid") == {"sectors_ld": 25, "sectors_st": 13, "bytes": 800}
    assert at(strided, m, "y[i] =", "block") == {"sectors_ld": 16, "sectors_st": 8, "bytes": 512}
    assert at(strided, m, "if i < n", "grid") == {"divergent": 1}
    assert m.total["sectors_ld"] == Count(8, 16, 25) and not m.total["barriers"]
    assert (m.blocks, m.threads, m.kernel) == (2, 64, "strided")
    assert (y == 1).all(), "the arrays are left alone"
    assert strided.measure(x, y, 100, 0, blocks=2).total["sectors_ld"].warp == 1
    assert strided.measure(x, y, 100, 32, blocks=2).total["sectors_ld"].warp == 32


def test_the_most_of_a_warp_is_of_one_warp():
    @kernel(threads=64)
    def two(x: ptr(float)):
        with each(thread, x) as i:
            if i < 32:
                x[i] = 1.0
            else:
                x[i] = 2.0

    m = two.measure(np.zeros(64, np.float32), blocks=1)
    assert [line.counts["sectors_st"].warp for line in m.lines if "sectors_st" in line.counts] == [4, 4]
    assert m.total["sectors_st"] == Count(4, 8, 8), "no warp stores in both lines"
    assert not m.total["divergent"], "both warps agree"


@kernel(threads=32)
def turned(out: ptr(float), PAD: constexpr(int)):
    with each(block, out):
        s: shared(float[32, 32 + PAD])
        with each(thread, s) as t:
            for k in range(32):
                s[k, t] = float(k)
        with each(thread, out) as t:
            total: float = 0.0
            for k in range(32):
                total += s[t, k]
            out[t] = total


@pytest.mark.parametrize("pad, conflicts", [(0, 31 * 32), (1, 0), (2, 32), (16, 15 * 32)])
def test_wavefronts_and_conflicts(pad, conflicts):
    m = turned.measure(np.zeros(32, np.float32), pad, blocks=1)
    assert at(turned, m, "s[k, t] =") == {"wavefronts": 32}
    assert at(turned, m, "+= s[t, k]") == {"wavefronts": 32 + conflicts, "flops": 1024} | ({"conflicts": conflicts} if conflicts else {})
    assert not m.total["barriers"], "a warp waits for itself"


@kernel(threads=64)
def reversed_rows(x: ptr(float)):
    with each(block, x):
        s: shared(float[64])
        with each(thread, s) as t:
            s[t] = x[t]
        with each(thread, x) as t:
            x[t] = s[63 - t]


def test_barriers_that_were_inferred():
    m = reversed_rows.measure(np.zeros(64, np.float32), blocks=3)
    assert len(reversed_rows.syncs()) == 1 and m.total["barriers"] == Count(1, 2, 6)


def test_tests_and_what_they_part():
    @kernel(threads=64)
    def loops(x: ptr(int), n: int):
        with each(thread, x) as i:
            k: int @ thread[1] = 0
            while k < i % 4:
                k += 1
            for j in range(n):
                k += j
            for j in range(i / 32):
                k += 1
            for j in range(i % 32 / 16):
                if j == 5:
                    break
            if i == 40 and k > 0:
                k = 0
            x[i] = k

    m = loops.measure(np.zeros(64, np.int32), 3, blocks=1)
    assert at(loops, m, "while k", "grid") == {"divergent": 2 * 3}, "at three of four tests"
    assert at(loops, m, "in range(n)") == {} and at(loops, m, "range(i / 32)") == {}
    assert at(loops, m, "range(i % 32 / 16)", "grid") == {"divergent": 2}
    assert at(loops, m, "if j == 5") == {}
    assert at(loops, m, "if i == 40", "grid") == {"divergent": 1}, "`and` is one test"


@kernel(threads=128)
def parts(x: ptr(int)):
    i: int @ thread[1] = id()
    with partition(x, p=thread[1], offset=i) as mine, group(block[1]):
        match split(thread):
            case 48:
                mine[0] = 1
            case 16:
                mine[0] = 2
            case 16:
                mine[0] = 3


def test_splits_part_a_warp_where_they_end_in_one():
    m = parts.measure(np.zeros(128, np.int32), blocks=1)
    # Warp 1 is in two cases, warp 2 in one and in none.
    assert at(parts, m, "match split", "grid") == {"divergent": 2} and at(parts, m, "match split", "warp") == {"divergent": 1}


@kernel(threads=64)
def bins(x: ptr(const(int)), counts: ptr(int)):
    with each(thread) as i:
        old: int = atomic.add(counts, x[i], 1)
        seen: int = atomic.load(counts, x[i])
        if old + seen < 0:
            atomic.store(counts, 0, 1)


def test_passes_of_atomics():
    x = np.r_[np.arange(32) % 8, np.zeros(32)].astype(np.int32)
    m = bins.measure(x, np.zeros(8, np.int32), blocks=1)
    # Of 32 lanes, 4 are at each of 8 counts, or all are at one: an atomic stores, but for `load`.
    assert at(bins, m, "atomic.add") == {"sectors_ld": 4, "sectors_st": 1, "bytes": 256, "atomic_passes": 32}
    assert at(bins, m, "atomic.add", "grid")["atomic_passes"] == 4 + 32
    assert at(bins, m, "atomic.load") == {"sectors_ld": 5, "bytes": 256, "atomic_passes": 32}


@kernel(threads=40)
def together(x: ptr(int), n: int):
    with each(block):
        v: int @ thread[1] = 0
        with each(thread, x) as i:
            v = x[i]
        if intrinsic.syncthreads_or(v > n):
            v += 1
        intrinsic.syncthreads()
        with each(thread, x) as i:
            x[i] = v


def test_barriers_by_hand():
    m = together.measure(np.zeros(40, np.int32), 1, blocks=3)
    assert at(together, m, "syncthreads_or") == {"barriers": 1} and m.total["barriers"] == Count(2, 4, 12)


@kernel(threads=64)
def sums(x: ptr(const(float)), y: ptr(float)):
    i: int @ thread[1] = id()
    with each(warp, y) as w:
        v: float @ thread[1] = x[i]
        for k in range(5):
            v += intrinsic.shfl_xor(v, 16 >> k)
        most = intrinsic.reduce_max(int(v))
        with one(thread, y):
            y[w] = v + float(most)


def test_shuffles():
    m = sums.measure(np.zeros(64, np.float32), np.zeros(2, np.float32), blocks=1)
    assert m.total["shuffles"] == Count(5, 10, 10), "a reduction is none"


@kernel(threads=32)
def stepped(x: ptr(float), n: int):
    with each(thread, x) as i:
        total: float = 0.0
        for k in range(0, n, 2):
            total = total * 2.0 + float(k)
        if total > x[i]:
            x[i] = total


def steps_at(m, k, text: str) -> float:
    return m.at(line_of(k, text))["steps"].warp


def test_steps():
    m = stepped.measure(np.ones(32, np.float32), 5, blocks=1)
    assert steps_at(m, stepped, "total: float = 0.0") == 2  # a constant, an assignment
    # 0, n, 2 and an assignment; then four tests (two variables, a comparison, the test) and three steps (two variables, an
    # addition, an assignment).
    assert steps_at(m, stepped, "for k in") == 4 + 4 * 4 + 3 * 4
    assert steps_at(m, stepped, "total * 2.0") == 3 * 6  # total, 2.0, *, k, +, =; a conversion is nothing
    assert steps_at(m, stepped, "if total >") == 4 + 4  # total, i, >, the test; four sectors
    assert steps_at(m, stepped, "x[i] = total") == 2 + 4  # i, total; a store is sectors alone
    assert m.total["flops"] == Count(32 * 6, 32 * 6, 32 * 6)


@kernel(threads=32)
def vectors(x: ptr(float4), y: ptr(float4)):
    with each(thread, y) as i:
        y[i] = fma(x[i], x[i], x[i]) + x[i]


def test_flops_of_vectors():
    m = vectors.measure(np.zeros((32, 4), np.float32), np.zeros((32, 4), np.float32), blocks=1)
    assert m.total["flops"].warp == 32 * 4 * 3 and m.total["sectors_st"].warp == 16 and m.total["sectors_ld"].warp == 64


@kernel(threads=32)
def ragged(x: ptr(const(float)), y: ptr(float), n: int):
    """Each thread copies four floats, or as many as there are."""
    with each(block, y):
        s: shared(float[32, 4])
        with each(thread, s.view(float4)) as t:
            async_copy(s[t, 0], x.view(float4)[t], elements=max(0, min(4, n - 4 * t)))
        with each(thread, y) as t:
            y[t] = s[t, 0]


def test_a_copy_of_some_elements_is_one_request():
    m = ragged.measure(np.zeros(128, np.float32), np.zeros(32, np.float32), 70, blocks=1)
    assert at(ragged, m, "async_copy(") == {"sectors_ld": 9, "bytes": 280, "wavefronts": 4}


@device(thread)
def squared(v: float) -> float:
    return v * v


@kernel(threads=32)
def calls(x: ptr(float), n: int):
    with each(thread, x) as i:
        if i < n:
            x[i] = squared(x[i]) + squared(2.0)


def test_what_is_called_counts_at_its_own_lines():
    m = calls.measure(np.ones(32, np.float32), 8, blocks=1)
    assert at(squared, m, "v * v") == {"flops": 16}
    assert [f.name for f in m.functions] == ["calls", "squared"] and "return v * v" in str(m)


def test_a_metric_of_ones_own():
    x, y = np.zeros(4096, np.float32), np.zeros(128, np.float32)
    m = snap.measure(strided, x, y, 100, 1, blocks=2, metrics={"traffic": {"sector loaded": 32, "sector stored": 0.5}})
    assert m.total["traffic"].grid == 13 * 32.5 and m.total["sectors_st"].grid == 13 and list(METRICS) == list(m.total)[:-1]


@pytest.mark.parametrize(
    "metrics, said",
    [
        (3, "a dict is expected"),
        ({"two words": {}}, "named by a word"),
        ({3: {}}, "named by a word"),
        ({"steps": {"test": 1}}, "is a metric already"),
        ({"mine": 3}, "`mine` is a dict"),
        ({"mine": {"sector": 1}}, "counts 'sector', which is not an event; the events are variable, "),
        ({"mine": {("sector",): 1}}, "not an event"),
        ({"mine": {"test": "1"}}, "not a number"),
        ({"mine": {"test": True}}, "not a number"),
        ({"mine": {"test": float("nan")}}, "not a number"),
    ],
)
def test_metrics_that_cannot_be_read(metrics, said):
    with pytest.raises(snap.LaunchError, match="`strided`: metrics=") as error:
        strided.measure(np.zeros(64, np.float32), np.zeros(64, np.float32), 64, 1, blocks=1, metrics=metrics)
    assert said in str(error.value)


def test_what_a_launch_refuses_is_refused():
    x = np.zeros(64, np.float32)
    with pytest.raises(snap.LaunchError, match="parameter `x` of `strided`"):
        strided.measure(x.astype(np.float64), x, 64, 1, blocks=1)
    with pytest.raises(snap.LaunchError, match="how many blocks"):
        strided.measure(x, x, 64, 1)
    with pytest.raises(snap.LaunchError, match="blocks"):
        strided.measure(x, x, 64, 1, blocks=-1)
    with pytest.raises(TypeError, match="missing"):
        strided.measure(x, blocks=1)
    with pytest.raises(TypeError, match="only kernels are measured"):
        squared.measure(3.0, blocks=1)
    with pytest.raises(TypeError, match="takes a kernel"):
        snap.measure(len, x)
    with pytest.raises(snap.MachineError, match="outside of its 64 elements"):
        strided.measure(x, x.copy(), 64, 2, blocks=1)
    with pytest.raises(snap.MachineError, match="time ran out"):
        strided.measure(np.zeros(1 << 22, np.float32), np.zeros(1 << 22, np.float32), 1 << 22, 1, blocks=1 << 16, seconds=0.001)


def test_a_loop_that_waits_is_not_counted():
    @kernel(threads=64)
    def relay(ready: ptr(int)):
        with each(thread) as i:
            if i == 1:
                while atomic.load(ready, 0, order="acquire") == 0:
                    pass
            if i == 0:
                atomic.store(ready, 0, 1, order="release")

    with pytest.raises(snap.LaunchError, match=f"line {line_of(relay, 'while atomic')} waits for other threads"):
        relay.measure(np.zeros(1, np.int32), blocks=1)


def test_nothing_is_launched():
    m = strided.measure(np.zeros(1, np.float32), np.zeros(1, np.float32), 1, 1, blocks=0)
    assert m.lines == () and not any(m.total.values()) and "0 blocks of 64 threads" in str(m)


def test_json():
    m = strided.measure(np.zeros(64, np.float32), np.zeros(64, np.float32), 5, 1, blocks=1)
    told = json.loads(m.json())
    assert told == m.to_dict() and told["total"]["sectors_st"] == {"warp": 1, "block": 1, "grid": 1}
    assert {"file": __file__, "line": line_of(strided, "y[i] ="), "sectors_st": {"warp": 1, "block": 1, "grid": 1}}.items() <= told["lines"][-1].items()


def test_the_text():
    m = strided.measure(np.zeros(64, np.float32), np.zeros(64, np.float32), 40, 1, blocks=1)
    shown = m.render("grid").splitlines()
    first = line_of(strided, "def strided")
    assert shown[0] == "strided: 1 block of 64 threads; beside each line, the sum of the grid; arrays at multiples of 256 bytes"
    assert shown[2] == f"test_measure.py:{first}"
    assert shown[5:7] == [
        f"{first + 2} |         if i < n:             # divergent 1",
        f"{first + 3} |             y[i] = x[i * by]  # sectors_ld 5, sectors_st 5",
    ]
    assert "sectors_ld           4        5         5" in shown
    with pytest.raises(ValueError, match="'warp', 'block', 'grid'"):
        m.render("thread")


@kernel(threads=40)
def doubled(x: ptr(float)):
    with each(thread, x) as i:
        x[i] = x[i] * 2.0


def test_blocks_of_odd_sizes():
    m = doubled.measure(np.zeros(80, np.float32), blocks=2)
    # Block 1 begins at byte 160, where a sector begins: warps of 32 and of 8 threads in each.
    assert m.total["sectors_ld"] == Count(4, 5, 10) and m.total["flops"] == Count(32, 40, 80) and not m.total["divergent"]


@kernel(threads=32)
def gathered(at: ptr(const(int)), x: ptr(const(float)), y: ptr(float)):
    with each(block, y):
        s: shared(float[32])
        with each(thread, s) as t:
            async_copy(s[t], x[at[t]], valid=t < 8)
        with each(thread, y, disjoint=y) as t:
            y[at[t]] = s[t]


def test_an_index_is_read_once():
    m = gathered.measure(np.arange(32, dtype=np.int32), np.zeros(32, np.float32), np.zeros(32, np.float32), blocks=1)
    # All lanes read where they would copy from, and eight copy: four sectors and one.
    assert at(gathered, m, "async_copy(") == {"sectors_ld": 5, "bytes": 128 + 32, "wavefronts": 1}
    assert m.total["sectors_ld"].warp == 5 + 4


@kernel(threads=32)
def left(x: ptr(int), n: int):
    with each(thread, x) as i:
        for k in range(n):
            if k == 2:
                break
            x[i] = k


def test_steps_of_loops_that_are_left():
    m = left.measure(np.zeros(32, np.int32), 9, blocks=1)
    assert steps_at(m, left, "for k in") == 4 + 3 * 4 + 2 * 4, "three tests, two steps"


@kernel(threads=128)
def boxed(a: ptr(const(float), (M, 64)), c: ptr(float, (M, 64)), M: int):
    with each(block, c) as b:
        s: shared(float[32, 64])
        async_copy(s, a, at=(32 * b, 0))
        async_copy(c, s, at=(32 * b, 0))


def corpus(name: str):
    from corpus import OK

    return next(p for p in OK if p.path.stem == name).namespace()


def test_tensor_cores_and_boxes():
    m = boxed.measure(np.zeros((40, 64), np.float32), np.zeros((40, 64), np.float32), 40, blocks=2)
    # The second block's box has 8 rows inside of the array; one warp issues it.
    assert at(boxed, m, "async_copy(s, a", "grid") == {"box_requests": 2, "box_bytes": 40 * 256, "box_sectors": 40 * 8}
    assert m.total["mbarrier_waits"] == Count(1, 4, 8), "all warps wait for the load"
    assert m.total["box_bytes"] == Count(2 * 32 * 256, 2 * 32 * 256, 2 * 40 * 256) and not m.total["sectors_ld"]
    hgemm, bits = corpus("hgemm")["hgemm"], [np.zeros(shape, np.uint16) for shape in ((128, 64), (256, 64), (128, 256))]
    m = hgemm.measure(*bits, 128, 256, 64, blocks=1)
    assert m.total["flops"] == Count(2 * 16 * 256 * 64, 2 * 128 * 256 * 64, 2 * 128 * 256 * 64), "a warp has 16 of 64 rows"
    assert m.total["box_bytes"].grid == 2 * (128 * 64 + 256 * 64 + 128 * 256)


def test_swizzles():
    hgemm, bits = corpus("hgemm")["hgemm"], [np.zeros(shape, np.uint16) for shape in ((128, 64), (256, 64), (128, 256))]
    m = hgemm.measure(*bits, 128, 256, 64, blocks=1)
    # 128 x 256 elements of 2 bytes, 128 bytes at a time: a warp's 8 x 8 matrices have no conflicts.
    assert m.total["wavefronts"].grid == 512 and not m.total["conflicts"]


def test_matrices(monkeypatch):
    from cost.launches import watched

    namespace = corpus("mma_bf16")
    launches = watched(monkeypatch)
    namespace["check"]()
    assert [launch.text["flops"].grid for launch in launches] == [2 * 2 * 16 * 8 * 16]


def test_a_barrier_in_two_parts_is_one():
    relay = corpus("claims")["relay"]
    from snap._compiler.ir.costs import CostEvent, of_statement
    from snap._compiler.ir.synced import Sync, SyncHalf
    from snap._compiler.ir.walk import statements

    halves = [s for s in statements(relay._the_one({}).in_one_text.body) if isinstance(s, Sync) and s.part is not SyncHalf.BOTH]
    assert {s.part for s in halves} == {SyncHalf.ARRIVE, SyncHalf.WAIT}
    assert all(dict(of_statement(s).of_warp) == ({CostEvent.BARRIER: 1} if s.part is SyncHalf.WAIT else {}) for s in halves)


@kernel(threads=32)
def wide(x: ptr(double4), y: ptr(double4)):
    with each(thread, y) as i:
        y[i] = x[i]


def test_sixteen_bytes_at_a_time():
    m = wide.measure(np.zeros((32, 4)), np.zeros((32, 4)), blocks=1)
    assert at(wide, m, "y[i] = x[i]") == {"sectors_ld": 64, "sectors_st": 64, "bytes": 2048}
