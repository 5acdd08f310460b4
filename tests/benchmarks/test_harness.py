"""The benchmark harness with a device of our own: what is checked, who runs when on which inputs, what is written down, and the page made of it."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest

import snap  # noqa: F401
from snap import *

ROOT = Path(__file__).resolve().parents[2]


def load(path):
    name = f"under_test_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


harness = load(ROOT / "benchmarks" / "harness.py")
make_performance = load(ROOT / "docs" / "make_performance.py")


class FakeDevice:
    """Its clock moves by what each contender says it takes; everything that happens is noted."""

    name, l2 = "NVIDIA Fake", 1000

    def __init__(self):
        self.now = 0.0
        self.log = []

    def random(self, seed):
        return np.random.default_rng(seed)

    def bytes_of(self, inputs):
        return sum(value.nbytes for value in inputs)

    def hold(self, runs):
        self.log.append("hold")

    def flush(self):
        self.log.append("flush")

    def mark(self):
        return self.now

    def finish(self):
        self.log.append("finish")

    def seconds(self, start, stop):
        return stop - start

    def release(self):
        pass

    def taking(self, name, seconds, function):
        def call(x):
            self.now += seconds(x) if callable(seconds) else seconds
            self.log.append((name, float(x.flat[0])))
            return function(x)

        return call


def doubling(device, ours=lambda x: x * 2, sizes=(100,), tolerance=1e-6, **options):
    return harness.Benchmark(
        name="doubling", sizes=sizes, inputs=lambda n, random: (random.random(n, dtype=np.float32),),
        ours={"snap": device.taking("snap", 0.01, ours)}, baselines={"theirs": device.taking("theirs", 0.02, lambda x: x + x), **options.pop("more", {})},
        reference=lambda x: x.astype(np.float64) * 2, tolerance=tolerance, bytes=lambda n: 8 * n, flops=lambda n: n, **options)


# ---- checking ----------------------------------------------------------------------------------------------------------------------------


def test_the_error_is_a_part_of_the_largest_value():
    assert harness.error_of(np.float32([1, 2, 3]), np.float64([1, 2, 4])) == 0.25
    assert harness.error_of(np.float32([0, 0]), np.float64([0, 0])) == 0
    assert harness.error_of(np.array(3.0), np.array(4.0)) == 0.25
    assert harness.error_of(np.zeros(0), np.zeros(0)) == 0


def test_of_several_results_each_is_compared():
    reference = np.float64([1, 2]), np.float64([4, 8])
    assert harness.error_of((np.float32([1, 2]), np.float32([4, 6])), reference) == 0.25
    with pytest.raises(harness.Mismatch, match="2 results"):
        harness.error_of(np.float32([1, 2]), reference)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy warns of inf - inf, torch does not
def test_nan_and_infinity_stand_where_the_reference_has_them():
    nan, inf = float("nan"), float("inf")
    assert harness.error_of(np.array([1.0, nan, inf]), np.array([1.0, nan, inf])) == 0
    for wrong in ([nan, nan, inf], [1.0, 2.0, inf], [1.0, nan, -inf], [1.0, nan, 5.0]):
        assert harness.error_of(np.array(wrong), np.array([1.0, nan, inf])) == inf


def test_a_result_above_the_tolerance_is_none():
    with pytest.raises(harness.Mismatch, match="snap: the error is 0.25 of the largest value, and 0.1 is allowed"):
        harness.check(np.array([3.0]), np.array([4.0]), 0.1, "snap")
    with pytest.raises(harness.Mismatch, match="must be equal"):
        harness.check(np.array([3, 5]), np.array([3, 4]), 0, "snap")
    with pytest.raises(harness.Mismatch, match="shape"):
        harness.check(np.zeros(3), np.zeros((3, 1)), 0, "snap")
    assert harness.check(np.array([3, 4]), np.array([3, 4]), 0, "snap") == 0


def test_a_wrong_size_fails_and_the_others_go_on():
    device = FakeDevice()
    wrong = doubling(device, ours=lambda x: x * (2 if x.size == 100 else 3), sizes=(50, 100))
    lines = []
    record = harness.run(wrong, device, say=lines.append)
    assert [entry["size"] for entry in record["sizes"]] == ["100"]
    assert len(record["failed"]) == 1 and record["failed"][0].startswith("doubling 50: snap: the error is 0.5")
    assert lines[0].startswith("FAILED doubling 50")


def test_several_processes_give_the_records_of_one(monkeypatch):
    device = FakeDevice()
    monkeypatch.setitem(sys.modules, "harness", harness)
    monkeypatch.setattr(harness, "CudaDevice", lambda: device)
    several = [doubling(device, sizes=(50, 100, 200)), doubling(device, ours=lambda x: x * (2 if x.size == 100 else 3), sizes=(100, 50))]

    def breaking(x):
        raise RuntimeError("it broke")

    found = load(ROOT / "benchmarks" / "side_by_side.py").run(several, 2, 60, say=lambda text: None)
    for record, benchmark in zip(found, several):
        alone = harness.run(benchmark, device, say=lambda text: None)
        assert [entry["size"] for entry in record["sizes"]] == [entry["size"] for entry in alone["sizes"]] and record["failed"] == alone["failed"]
    broken = load(ROOT / "benchmarks" / "side_by_side.py").run([doubling(device, ours=breaking, sizes=(50, 100))], 2, 60, say=lambda text: None)
    assert [record["failed"] for record in broken] == [["doubling 50: it broke", "doubling 100: it broke"]] and not broken[0]["sizes"]


def test_a_result_that_goes_wrong_while_timing_is_found():
    device = FakeDevice()
    calls = []

    def ours(x):
        calls.append(1)
        return x * (2 if len(calls) < 5 else 7)

    with pytest.raises(harness.Mismatch):
        harness.measure(doubling(device, ours=ours), 100, device)


# ---- timing ------------------------------------------------------------------------------------------------------------------------------


def test_contenders_take_turns_on_inputs_that_change():
    device = FakeDevice()
    sets = [(np.full(1000, float(k)),) for k in range(5)]
    contenders = {name: device.taking(name, 0.001, lambda x: x) for name in ("a", "b")}
    times = harness.timed(contenders, sets, device, rounds=20)
    runs = [entry for entry in device.log if isinstance(entry, tuple)]
    assert runs[:10] == [(name, float(k)) for k in range(5) for name in "ab"]  # warm-ups
    timed = runs[10:]
    assert [name for name, _ in timed[:8]] == ["a", "b", "b", "a", "a", "b", "b", "a"]
    assert [k for _, k in timed] == [float(number % 5) for number in range(40)]
    assert {len(found) for found in times.values()} == {20} and "flush" not in device.log
    first = device.log.index("hold")
    assert [type(entry) for entry in device.log[first:first + 4]] == [str, tuple, tuple, str]  # both queued, then waited for


def test_small_inputs_are_flushed_out_of_the_cache():
    device = FakeDevice()
    harness.timed({"a": device.taking("a", 0.001, lambda x: x)}, [(np.zeros(4),), (np.zeros(4),)], device, rounds=20)
    assert device.log.count("flush") == 20


def test_how_many_inputs_and_rounds():
    assert harness.input_sets(10**9, 50 << 20) == 2
    assert harness.input_sets(16 << 20, 50 << 20) == 11  # 3 times 50 MiB, and one more
    assert harness.input_sets(4, 50 << 20) == harness.MOST_SETS
    assert harness.rounds_for(1.0) == 20 and harness.rounds_for(0.004) == 100 and harness.rounds_for(0) == 200


def test_the_median_is_reported():
    device = FakeDevice()
    slow = iter([0.01] * 7 + [1.0, 0.01, 0.03] * 100)
    benchmark = doubling(device, must=0.9)
    benchmark.ours["snap"] = device.taking("snap", lambda x: next(slow), lambda x: x * 2)
    lines = []
    record = harness.run(benchmark, device, say=lines.append)
    (entry,) = record["sizes"]
    ours, theirs = entry["contenders"]["snap"], entry["contenders"]["theirs"]
    assert ours["median_s"] == pytest.approx(0.03) and ours["runs"] >= 20 and ours["ours"] and not theirs["ours"]
    assert theirs["rate_per_s"] == pytest.approx(800 / 0.02) and entry["bytes"] == 800 and entry["flops"] == 100
    assert entry["of_baseline"] == pytest.approx(2 / 3) and "BELOW, must 90%" in lines[0]
    assert ours["error"] == 0.0


def test_a_promise_is_judged_at_the_sizes_it_was_made_for():
    device = FakeDevice()
    lines = []
    record = harness.run(doubling(device, sizes=(100, 50, 70), must=5.0, promised=2), device, say=lines.append)
    assert [entry["promised"] for entry in record["sizes"]] == [True, True, False]
    assert ["BELOW" in line for line in lines] == [True, True, False]


def test_a_baseline_that_does_something_else_is_timed_and_not_compared():
    device = FakeDevice()
    copy = device.taking("copy", 0.005, lambda x: x[:7])
    record = harness.run(doubling(device, more={"copy": copy}, unlike=["copy"]), device, say=lambda text: None)
    found = record["sizes"][0]["contenders"]
    assert found["copy"]["error"] is None and found["copy"]["median_s"] == pytest.approx(0.005) and found["theirs"]["error"] == 0


def test_baselines_that_are_not_installed_are_named():
    device = FakeDevice()

    def absent(size):
        raise ImportError("no such library")

    benchmark = doubling(device, more={"other": harness.Prepared(absent)})
    record = harness.run(benchmark, device, say=lambda text: None)
    assert record["sizes"][0]["missing"] == {"other": "no such library"}
    benchmark.ours["snap"] = harness.Prepared(absent)
    with pytest.raises(ImportError):
        harness.run(benchmark, device, say=lambda text: None)


# ---- kernels -----------------------------------------------------------------------------------------------------------------------------


def test_points_of_synchronization_are_counted_by_kind():
    @kernel
    @requires(grid[1], block[1], thread[64])
    def reverse(x: ptr(float) @ grid[1]):
        with partition(x, p=block[1], f=lambda k: k) as xb:
            with group(block[1]):
                s: shared(float[64])
                t: int @ thread[1] = id()
                with partition(s, p=thread[1], f=lambda k: t + k) as mine, partition(xb, p=thread[1], f=lambda k: t + k) as own:
                    mine[0] = own[0]
                with partition(xb, p=thread[1], f=lambda k: t + k) as own:
                    own[0] = s[63 - t]

    record = harness.static_record(reverse._specialized({}))
    assert record == {"kernel": "reverse", "constexprs": {}, "threads": 64, "cluster": 0, "syncs": {"block": 1}}


# ---- declarations and the command --------------------------------------------------------------------------------------------------------


@pytest.fixture
def runner(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(ROOT / "benchmarks"), *sys.path])
    return load(ROOT / "benchmarks" / "run.py")


def test_every_library_function_has_a_benchmark(runner):
    import snap.lib

    ops = {op.split("_")[0] for op in runner.declared()}  # gemm_bf16 measures gemm
    called = {name for path in runner.declared().values() for name in re.findall(r"\bsnap\.lib\.(\w+)", path.read_text())}
    functions = {name for name in snap.lib.__all__ if callable(getattr(snap.lib, name)) and name.split("_")[0] not in ops}
    assert functions <= called, "a library function without a benchmark"


def test_declarations_load_and_are_well_formed(runner):
    pytest.importorskip("torch", reason="torch is not installed")
    names = []
    for path in runner.declared().values():
        for benchmark in runner.load(path):
            names.append(benchmark.name)
            size = benchmark.sizes[0]
            assert benchmark.bytes(size) > 0 and isinstance(benchmark.label(size), str) and benchmark.tolerance >= 0
            assert benchmark.rate in ("bytes", "flops") and (benchmark.rate == "bytes" or benchmark.flops)
            assert benchmark.baselines and benchmark.ours
    assert len(set(names)) == len(names)


def test_an_unknown_op_is_refused_with_those_there_are(runner, capsys):
    with pytest.raises(SystemExit):
        runner.main(["nothing"])
    assert "benchmarks/nothing/bench.py" in capsys.readouterr().err
    assert runner.main(["--list"]) == 0 and "softmax" in capsys.readouterr().out.split()


CHILD = """
import os, sys, time
done = sys.argv[1:][1::2]
for name in "abcd":
    if name in done:
        continue
    print(f"benchmark: {name}", flush=True)
    if name == "b":
        os._exit(7)
    if name == "c":
        time.sleep(60)
    print(f"{name} is measured", flush=True)
sys.exit(2)
"""


def test_a_benchmark_that_fails_or_hangs_costs_its_own_result_alone():
    apart, lines = load(ROOT / "benchmarks" / "apart.py"), []
    problems, took = apart.run([sys.executable, "-c", CHILD], 1.5, say=lines.append)
    assert problems == ["b: the process ended with status 7", "c: took longer than 1.5 s", "a result was wrong (FAILED, above)"]
    assert list(took) == ["a", "b", "c", "d"] and [line for line in lines if "measured" in line] == ["a is measured", "d is measured"]
    problems, took = apart.run([sys.executable, "-c", "import sys; print('no GPU'); sys.exit(1)"], 10, say=lines.append)
    assert problems == ["before the first benchmark: the process ended with status 1"] and not took and "no GPU" in lines
    problems, took = apart.run([sys.executable, "-c", "print('benchmark: a', flush=True); import time; time.sleep(60)"], 60, 0.6, say=lines.append)
    assert problems == ["a: the time for all benchmarks was over"] and list(took) == ["a"]


def test_what_was_measured_before_the_end_is_kept(runner, tmp_path):
    """In a file of its own, which goes when all sizes are there; the page takes it where it has no other."""
    device, told = FakeDevice(), {"gpu": "NVIDIA H200", "driver": "1", "commit": None, "copy_bytes_per_s": 1e12}
    kept = []
    harness.run(doubling(device, sizes=(50, 100)), device, say=lambda text: None, keep=lambda record: kept.append(json.loads(json.dumps(record))))
    assert [[entry["size"] for entry in record["sizes"]] for record in kept] == [["50"], ["50", "100"]]
    runner.write("doubling", {**told, **kept[0], "date": "2026-03-01"}, tmp_path, finished=False)
    assert [len(record["sizes"]) for record in make_performance.results(tmp_path)] == [1]
    runner.write("doubling", {**told, **kept[1], "date": "2026-02-01"}, tmp_path)
    assert [len(record["sizes"]) for record in make_performance.results(tmp_path)] == [2]
    runner.write("doubling", {**told, **kept[1], "date": "2026-03-01"}, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["doubling-2026-02-01.json", "doubling-2026-03-01.json"]


# ---- the page ----------------------------------------------------------------------------------------------------------------------------


def written(folder, date="2026-01-02", **changes):
    device = FakeDevice()
    record = {**harness.run(doubling(device, must=0.95, aim=1.1), device, say=lambda text: None), "gpu": "NVIDIA H200", "driver": "580.1",
              "date": f"{date}T00:00:00+00:00", "commit": "0123456789abcdef", "modified": False, "copy_bytes_per_s": 4.2e12,
              "kernels": [{"kernel": "k", "constexprs": {"B": 64}, "threads": 64, "cluster": 0, "syncs": {"block": 2, "warp": 1}, "registers": 40,
                           "spill_stores": 0, "spill_loads": 0, "smem": 1024, "resident_blocks": 8, "occupancy": 0.25, "size": "100"}], **changes}
    (folder / f"doubling-{date}.json").write_text(json.dumps(record))


def test_the_page_is_made_of_the_newest_results(tmp_path):
    written(tmp_path, "2026-01-02", driver="579.9")
    written(tmp_path, "2026-02-01")
    (tmp_path / "compile.json").write_text("{}")
    text = make_performance.page(make_performance.results(tmp_path))
    assert "579.9" not in text
    assert "| doubling | 100 | theirs | 0.00 TB/s | 0.00 TB/s | 200% | 95% | 110% |" in text
    assert "commit 0123456789ab, driver 580.1; tolerance 1e-06" in text
    assert "| k (B=64) | 100 | 64 | 40 | 0 | 1024 | 8 | 25% | 2 block, 1 warp |" in text
    assert "moved 4.20 TB/s" in text and "(speed.svg)" in text and "(roofline.svg)" in text


def test_failures_and_missing_baselines_stay_visible(tmp_path):
    written(tmp_path, failed=["doubling 7: snap: the error is 1"])
    text = make_performance.page(make_performance.results(tmp_path))
    assert "**Failed:** doubling 7: snap: the error is 1" in text


def test_the_page_has_what_a_caller_sees(tmp_path):
    """The newest records of calls, of steps and of launches."""
    row = {"call": "gemm", "right": True, "host_us": 9.0, "torch_host_us": 18.0, "clock_us": 10.0, "torch_clock_us": 20.0}
    step = {"model": "eager", "host_ms": 3.0, "torch_host_ms": 2.0, "clock_ms": 21.0, "torch_clock_ms": 20.0, "losses_apart": 1e-4}
    whole = {"model": "GPT-2", "clock_ms": 30.0, "torch_clock_ms": 40.0, "losses_apart": 2e-3}
    for date, factor in (("2026-01-01", 2), ("2026-01-02", 1)):
        told = {"gpu": "a GPU", "date": date, "commit": "0123456789abcdef"}
        sides = {name: {"tokens_per_s": 1e6 * factor, "ms_a_step": 2.0, "losses": losses} for name, losses in (("snap", [3.0, 2.0]), ("twin", [3.0, 2.5]))}
        for kind, own in (("calls", {"calls": [{**row, "host_us": 9.0 * factor}]}), ("steps", {"steps": [step, whole]}),
                          ("training", {"model": "a model", "sides": sides}), ("launches", {"figures": {"Snap (us)": 5.0 * factor}})):
            (tmp_path / f"{kind}-{date}.json").write_text(json.dumps({**told, "kind": kind, **own}))
    text = make_performance.page([], make_performance.as_called(tmp_path))
    assert "| gemm | 9.0 | 18.0 | 0.50 | 10.0 | 20.0 | 0.50 |" in text and "18.0 | 18.0" not in text
    assert "| eager | 3.0 | 2.0 | 1.50 | 21.0 | 20.0 | 1.050 | 1e-04 |" in text and "| GPT-2 | - | - | - | 30.0 | 40.0 | 0.750 | 2e-03 |" in text
    assert "| Snap (us) | 5.000 |" in text and "10.000" not in text
    assert "| snap | 1,000,000 | 2.00 | 2.5000 |" in text and "by 0.2500 on average and by at most 0.5000" in text


def test_without_results_the_page_says_so(tmp_path):
    assert "There are no results yet." in make_performance.page(make_performance.results(tmp_path))


def test_the_charts_are_drawn(tmp_path):
    written(tmp_path)
    records = make_performance.results(tmp_path)
    assert make_performance.points(records) == [("doubling 100", 0.125, pytest.approx(100 / 0.01))]
    drawn = make_performance.charts(records)
    assert [*drawn] == ["speed.svg", "roofline.svg"] and ">doubling</text>" in drawn["roofline.svg"]
    assert make_performance.charts([]) == {}


def test_the_page_and_its_charts_are_up_to_date():
    records = make_performance.results(ROOT / "benchmarks" / "results")
    called = make_performance.as_called(ROOT / "benchmarks" / "results")
    made = {make_performance.PAGE: make_performance.page(records, called), **make_performance.charts(records)}
    for name, text in made.items():
        assert (ROOT / "docs" / name).read_text() == text, "run: python docs/make_performance.py"
