"""The autotuner without a GPU: candidates, pruning and its reasons, compiling, a clock of our own, and what is kept on disk."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import numpy as np
import pytest

import snap
from snap import *
from snap import TuneError, Tuner
from snap._tune.candidates import Pruned, expand, prepare
from snap._tune.estimate import array_registers
from snap._tune.family import Family
from snap._tune.limits import Limits, registers_a_thread
from snap._tune.rounds import fastest
from snap._tune.store import shape_class
from snap.host.compile.cache import Cache

H200 = Limits.of_arch("sm_90a")
A10 = Limits.of_arch("sm_86")


@kernel
@requires(lambda B: (grid[1], block[1], thread[B]))
def stamp(y: ptr(float) @ grid[1], n: int @ grid[1], B: constexpr(int), R: constexpr(int) = 1):
    """Every element becomes 100*B + R."""
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(y, p=thread[1], f=lambda k: i * R + k, disjoint=True) as mine:
            with group(thread[1]):
                for r in range(R):
                    if i * R + r < n:
                        mine[r] = float(B * 100 + R)


@kernel
@requires(lambda B: (grid[1], block[1], thread[B]))
def buffered(y: ptr(float) @ grid[1], B: constexpr(int), S: constexpr(int), A: constexpr(int)):
    """S floats of shared memory a block, A floats of registers a thread."""
    with group(block[1]):
        s: shared(float[S])
        t: int @ thread[1] = id()
        with partition(s, p=thread[1], f=lambda k: t + k) as mine:
            mine[0] = float(t)
        acc: float[A] @ thread[1]
        for a in range(A):
            acc[a] = s[(t + a) % S]
        with group(thread[1]):
            total: float = 0.0
            for a in range(A):
                total += acc[a] * acc[A - 1 - a]
            atomic.add(y, 0, total)


@kernel
@requires(grid[1], block[1], thread[32])
def vectors(y: ptr(float4) @ grid[1], V: constexpr(int)):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(y, p=thread[1], f=lambda k: i + k) as mine:
            with group(thread[1]):
                mine[0] = float4(float(V), 0.0, 0.0, 0.0)


def blocks(n, B, R):
    return -(-n // (B * R))


def memory() -> Cache:
    return Cache(None)


def clock_of(speeds, seen=None):
    """A clock for `stamp`: runs it for real, and tells a time by the number that it wrote into the array that `watch` was shown."""
    watched = []

    def watch(y):
        watched[:] = [y]
        y[...] = 0

    def clock(run, runs, before):
        before()
        run()
        number = int(watched[0][0])
        if seen is not None:
            seen.extend([number] * runs)
        return [speeds[number]] * runs

    return clock, watch


def tuned_stamp(speeds, candidates, cache=None, seen=None, n=300, **options):
    y = np.full(n, -1, np.float32)
    clock, watch = clock_of(speeds, seen)
    made = snap.tune(stamp, candidates, y, n, blocks=blocks, timer=clock, reset=watch, cache=cache or memory(), quiet=True, **options)
    assert (y == -1).all(), "the user's array was touched"
    return made


# ---- candidates --------------------------------------------------------------------------------------------------------------------------


def test_a_dict_means_all_combinations_in_order():
    assert expand(Family(stamp), {"B": [32, 64], "R": (1, 2)}) == [{"B": 32, "R": 1}, {"B": 32, "R": 2}, {"B": 64, "R": 1}, {"B": 64, "R": 2}]


def test_a_list_keeps_its_order_loses_repetitions_and_gets_defaults():
    assert expand(Family(stamp), [{"B": 64}, {"R": 2, "B": np.int64(32)}, {"B": 64, "R": 1}]) == [{"B": 64, "R": 1}, {"B": 32, "R": 2}]


@pytest.mark.parametrize("kernel_, candidates, error, text", [
    (stamp, {}, TypeError, "lacks `B`"),
    (stamp, {"B": []}, ValueError, "no candidates"),
    (stamp, [], ValueError, "no candidates"),
    (stamp, {"B": 64}, TypeError, "takes a list of values"),
    (stamp, {"B": [64], "Q": [1]}, TypeError, "no constexpr parameter `Q` \\(it has B, R\\)"),
    (stamp, [{"R": 1}], TypeError, "lacks `B`: R=1"),
    (stamp, 7, TypeError, "a dict of lists or a list of dicts"),
    (stamp, [7], TypeError, "one item is a int"),
    (7, {"B": [1]}, TypeError, "takes a generic kernel, or a function that makes kernels"),
    (lambda *B: stamp, {"B": [1]}, TypeError, "names each value it wants"),
    (lambda B: stamp, {"C": [1]}, TypeError, "has no parameter `C` \\(it has B\\)"),
    (stamp.specialize(B=32, R=1), {"B": [1]}, TypeError, "nothing to choose"),
])
def test_what_are_no_candidates(kernel_, candidates, error, text):
    with pytest.raises(error, match=text):
        expand(Family(kernel_), candidates)


@pytest.mark.parametrize("options, text", [
    ({"blocks": lambda m: m}, "`blocks` asks for `m`; there is `y`, `n`, `B`, `R`"),
    ({"key": lambda B: B}, "`key` asks for `B`; there is `y`, `n`"),
    ({"reset": lambda *all: None}, "must name each argument"),
])
def test_functions_of_arguments_name_what_there_is(options, text):
    with pytest.raises(TypeError, match=text):
        Tuner(stamp, {"B": [32]}, **options)


# ---- pruning -----------------------------------------------------------------------------------------------------------------------------


def reason(kernel_, config, *args, blocks=None, where=None, limits=H200):
    with pytest.raises(Pruned) as why:
        prepare(Family(kernel_), config, args, blocks, where, limits)
    return str(why.value)


@pytest.fixture
def no_compiler(monkeypatch):
    def compile(*args):
        raise AssertionError("pruning compiled something")

    monkeypatch.setattr("snap.host.compile.nvrtc._nvrtc", compile)


Y = np.zeros(4096, np.float32)


@pytest.mark.parametrize("config, limits, text", [
    ({"B": 2048, "S": 64, "A": 1}, H200, "SNAP018: a block has at most 1024 threads"),
    ({"B": 64, "S": 60_000, "A": 1}, H200, "SNAP013: 240000 bytes of shared memory"),
    ({"B": 64, "S": 30_000, "A": 1}, A10, "120000 bytes of shared memory per block; sm_86 has 101376"),
    ({"B": 64, "S": 64, "A": 300}, H200, "local arrays alone fill 300 registers per thread; a thread of a block of 64 has at most 255"),
    ({"B": 1024, "S": 1024, "A": 65}, H200, "local arrays alone fill 65 registers per thread; a thread of a block of 1024 has at most 64"),
])
def test_pruned_by_what_a_block_may_hold(no_compiler, config, limits, text):
    assert text in reason(buffered, config, Y, limits=limits)


def test_blocks_that_are_resident_share_registers(no_compiler):
    def made(B: int):
        @kernel
        @requires(grid[1], block[1], thread[128], resident=B)
        def held(y: ptr(float) @ grid[1]):
            with group(grid[1]):
                i: int @ thread[1] = id()
                acc: float[80] @ thread[1]
                with partition(y, p=thread[1], offset=i) as mine:
                    mine[0] = acc[i % 80]

        return held

    assert prepare(Family(made), {"B": 4}, (), None, None, H200)
    assert "a thread of 8 blocks of 128 has at most 64" in reason(made, {"B": 8})


def test_what_fits_is_not_pruned(no_compiler):
    ready = prepare(Family(buffered), {"B": 1024, "S": 1024, "A": 64}, (Y,), 3, None, H200)
    assert ready.number == 3 and "float acc[64]" in ready.text


def test_pruned_by_alignment_and_sizes(no_compiler):
    odd = np.zeros(4097, np.float32)
    assert "address that is a multiple of 16" in reason(vectors, {"V": 1}, odd[1:])
    assert "not a multiple of 4" in reason(vectors, {"V": 1}, odd)


def test_pruned_by_the_number_of_blocks(no_compiler):
    assert "cannot be negative" in reason(stamp, {"B": 32, "R": 1}, Y, 5, blocks=lambda B: -B)


def test_pruned_by_the_user(no_compiler):
    assert reason(stamp, {"B": 32, "R": 4}, Y, 5, where=lambda B, R: B > 8 * R) == "`where` is false"
    assert reason(stamp, {"B": 32, "R": 4}, Y, 5, where=lambda n: "odd" if n % 2 else True) == "odd"


def test_registers_count_arrays_while_they_live():
    @kernel
    @requires(grid[1], block[1], thread[32])
    def lives(y: ptr(float) @ grid[1], P: constexpr(int)):
        with group(thread[1]):
            a: float[10]
            for i in range(10):
                a[i] = float(i)
            total: float = a[3]
            if P > 0:
                b: bf16[40]
                for i in range(40):
                    b[i] = bf16(float(i))
                total += float(b[7])
            c: float[12]
            for i in range(12):
                c[i] = total
            atomic.add(y, 0, c[5] + (a[1] if P > 1 else 0.0))

    def needed(value):
        return array_registers(lives.specialize(P=value)._specialized({}).typed)

    assert needed(1) == 20  # b alone: a is not read again, c not yet there
    assert needed(2) == 30  # a lives to the end: b and a, then c and a


def test_registers_of_a_block_are_shared_out_in_eights():
    assert [registers_a_thread(n) for n in (32, 256, 384, 512, 1000, 1024)] == [255, 255, 168, 128, 64, 64]


# ---- without timing ----------------------------------------------------------------------------------------------------------------------


def test_without_a_gpu_the_first_that_can_be_used_is_taken_and_compiled():
    y = np.zeros(300, np.float32)
    made = snap.tune(stamp, {"B": [4096, 64, 32]}, y, 300, blocks=blocks)
    assert made.config == {"B": 64, "R": 1} and made.seconds is None and not made.cached
    assert [trial.outcome for trial in made.trials] == ["pruned", "compiled", "untried"]
    made(y, 300)
    assert (y == 6401).all()
    assert "* B=64, R=1" in made.report() and "at most 1024 threads" in made.report()


def test_timing_off_is_deterministic_and_keeps_nothing(monkeypatch, tmp_path):
    monkeypatch.setenv("SNAP_TUNE", "off")
    cache = Cache(tmp_path / "cache")
    for _ in range(2):
        made = tuned_stamp({3201: 1.0, 6401: 0.1}, {"B": [32, 64]}, cache)
        assert made.config["B"] == 32 and made.seconds is None
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_candidate_that_the_compiler_refuses_is_passed_over(monkeypatch):
    from snap.host.errors import InternalError

    def refuse(what, text, arch, options, unsafe, **others):
        if "__launch_bounds__(64)" in text:
            raise InternalError("NVRTC refused this\n\nlong log")
        return b"cubin"

    monkeypatch.setattr("snap.host.compile.nvrtc._nvrtc", refuse)
    monkeypatch.setenv("SNAP_CACHE_DIR", "")
    made = snap.tune(stamp, {"B": [64, 32]}, Y, 300, blocks=blocks)
    assert made.config["B"] == 32
    assert made.trials[0].outcome == "refused" and made.trials[0].reason == "NVRTC refused this"
    timed = tuned_stamp({3201: 1.0}, {"B": [64, 32]})
    assert timed.config["B"] == 32 and timed.trials[0].reason == "NVRTC refused this"


def test_without_a_compiler_nothing_is_compiled(monkeypatch):
    from snap.host.errors import ToolchainError

    def missing(*args, **others):
        raise ToolchainError("NVRTC is not installed")

    monkeypatch.setattr("snap.host.compile.nvrtc._nvrtc", missing)
    monkeypatch.setenv("SNAP_CACHE_DIR", "")
    made = snap.tune(stamp, {"B": [64, 32]}, Y, 300, blocks=blocks)
    assert made.config["B"] == 64 and made.trials[0].reason == "not compiled: NVRTC is not installed"
    with pytest.raises(ToolchainError):
        tuned_stamp({6401: 1.0}, {"B": [64]})


def test_no_candidate_left_says_why_each_and_says_the_same_once():
    with pytest.raises(TuneError) as caught:
        snap.tune(stamp, {"B": [2048, 4096, 32], "R": [1, 2]}, np.zeros(8), 8, blocks=blocks)
    lines = str(caught.value).splitlines()
    assert lines[0] == "no candidate of `stamp` can be used" and len(lines) == 4
    assert re.fullmatch(r"  B=2048, R=1 and 1 more: SNAP018: .* \(.*test_tune\.py:\d+\)", lines[1])
    assert "parameter `y` of `stamp`: takes f32, the array holds float64" in lines[3]
    assert len(caught.value.trials) == 6


def test_timing_that_cannot_be_is_refused():
    with pytest.raises(snap.LaunchError, match="needs arrays on a GPU"):
        snap.tune(stamp, {"B": [32]}, Y, 300, blocks=blocks, timing=True)
    with pytest.raises(TypeError, match="needs `blocks=`"):
        snap.tune(stamp, {"B": [32]}, Y, 300, timer=lambda run, runs, before: [1.0] * runs)
    with pytest.raises(TypeError, match="launching `stamp` needs `blocks=`"):
        snap.tune(stamp, {"B": [32]}, Y, 300)
    with pytest.raises(TypeError, match="give snap.tune `blocks=`"):
        snap.tune(stamp, {"B": [32]})(Y, 300)


# ---- with a clock ------------------------------------------------------------------------------------------------------------------------


def test_the_fastest_is_chosen():
    made = tuned_stamp({3201: 3.0, 6401: 1.0, 12801: 2.0}, {"B": [32, 64, 128]})
    assert made.config == {"B": 64, "R": 1} and made.seconds == 1.0
    assert [(t.outcome, t.seconds) for t in made.trials] == [("timed", 3.0), ("timed", 1.0), ("timed", 2.0)]


def test_of_equals_the_first_is_chosen():
    assert tuned_stamp({3201: 1.0, 6401: 1.0}, {"B": [64, 32]}).config["B"] == 64


def test_close_ones_are_timed_again_in_turns():
    seen = []
    tuned_stamp({3201: 1.0, 6401: 1.1, 12801: 5.0}, {"B": [32, 64, 128]}, seen=seen)
    first = [3201] * 7 + [6401] * 7 + [12801] * 7
    assert seen[:21] == first
    assert seen[21:] == ([3201] * 5 + [6401] * 5 + [6401] * 5 + [3201] * 5) * 2


def test_the_final_decides():
    """A run that was lucky in the first round loses the final."""
    times = {"a": iter([[1.0], [1.0]] + [[1.2]] * 4), "b": iter([[1.1], [1.1]] + [[1.05]] * 4)}
    best, answers = fastest([lambda: "a", lambda: "b"], lambda run, runs, before: next(times[run()]), None, lambda: None)
    assert best == 1 and answers == [1.2, 1.05]


def test_a_launch_that_the_device_refuses_is_passed_over():
    def clock(run, runs, before):
        if run() == "large":
            raise snap.LaunchError("k", "no room for the cluster")
        return [1.0] * runs

    assert fastest([lambda: "large", lambda: "small"], clock, None, lambda: None) == (1, ["`k`: no room for the cluster", 1.0])
    assert fastest([lambda: "large"], clock, None, lambda: None) == (None, ["`k`: no room for the cluster"])


def test_arrays_may_be_timed_in_place():
    y = np.zeros(300, np.float32)
    snap.tune(stamp, {"B": [32]}, y, 300, blocks=blocks, timer=lambda run, runs, before: run() or [1.0] * runs, preserve=False, cache=memory())
    assert (y == 3201).all()


# ---- what is kept ------------------------------------------------------------------------------------------------------------------------


def test_a_choice_is_kept_on_disk_and_found_again(tmp_path):
    speeds = {3201: 3.0, 6401: 1.0}
    folder = tmp_path / "cache"
    assert not tuned_stamp(speeds, {"B": [32, 64]}, Cache(folder)).cached
    assert len(list(folder.glob("*.bin"))) == 1
    again = tuned_stamp({}, {"B": [32, 64]}, Cache(folder))  # the clock knows no speeds: nothing may be timed
    assert again.cached and again.config["B"] == 64 and again.seconds == 1.0


def test_other_candidates_shapes_and_gpus_are_other_choices(tmp_path, monkeypatch):
    speeds = {3201: 3.0, 6401: 1.0, 12801: 9.0}
    cache = Cache(tmp_path / "cache")
    tuned_stamp(speeds, {"B": [32, 64]}, cache)
    assert tuned_stamp({}, {"B": [32, 64]}, cache, n=500).cached  # up to 512, as 300
    assert not tuned_stamp(speeds, {"B": [32, 64]}, cache, n=600).cached
    assert not tuned_stamp(speeds, {"B": [32, 64, 128]}, cache).cached
    assert not tuned_stamp(speeds, {"B": [32, 64]}, cache, key="mine").cached
    assert tuned_stamp({}, {"B": [32, 64]}, cache, key="mine", n=600).cached
    assert not tuned_stamp(speeds, {"B": [32, 64]}, cache, arch="sm_100").cached


def test_a_damaged_or_foreign_entry_is_made_anew(tmp_path):
    speeds = {3201: 3.0, 6401: 1.0}
    folder = tmp_path / "cache"
    tuned_stamp(speeds, {"B": [32, 64]}, Cache(folder))
    (path,) = folder.glob("*.bin")
    content = path.read_bytes()
    path.write_bytes(content[:-4] + b"oops")
    assert not tuned_stamp(speeds, {"B": [32, 64]}, Cache(folder)).cached
    for entry in (b"no json", b"[]", b"{}", json.dumps({"config": json.dumps({"B": 7, "R": 1}), "seconds": 1, "code": ""}).encode(),
                  json.dumps({"config": json.dumps({"B": 32, "R": 1}), "seconds": 1, "code": "that of another text"}).encode()):
        Cache(folder).put(path.stem, entry)
        assert not tuned_stamp(speeds, {"B": [32, 64]}, Cache(folder)).cached, entry


CHANGED = """
from __future__ import annotations
import sys
import numpy as np
import snap
from snap import *
{comment}
@device
@requires(thread[1])
def value(b: int @ thread[1]) -> float @ thread[1]:
    return float(b) {more}

@kernel
@requires(lambda B: (grid[1], block[1], thread[B]))
def made(y: ptr(float) @ grid[1], B: constexpr(int)):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(y, p=thread[1], f=lambda k: i + k) as mine:
            with group(thread[1]):
                mine[0] = value(B)

y = np.zeros(128, np.float32)
t = snap.tune(made, {{"B": [64, 32]}}, y, blocks=lambda B: 128 // B, timer=lambda run, runs, before: [1.0] * runs)
print(t.cached)
"""


def test_a_choice_is_made_anew_when_what_the_kernel_calls_has_changed(tmp_path):
    def run(**parts):
        (tmp_path / "program.py").write_text(CHANGED.format(**parts))
        done = subprocess.run([sys.executable, str(tmp_path / "program.py")], capture_output=True, text=True, check=True,
                              env={"PYTHONPATH": ":".join(sys.path), "SNAP_CACHE_DIR": str(tmp_path / "cache"), "PATH": ""})
        return done.stdout.strip()

    assert run(comment="", more="") == "False"
    assert run(comment="# a line more", more="") == "True"
    assert run(comment="", more="+ 1.0") == "False"


def test_a_tuner_chooses_once_a_class_and_launches():
    chosen = []
    clock, watch = clock_of({3201: 3.0, 6401: 1.0}, chosen)
    tuner = Tuner(stamp, {"B": [32, 64]}, blocks=blocks, timer=clock, reset=watch, cache=memory())
    for n in (300, 340, 300):
        y = np.zeros(n, np.float32)
        tuner(y, n)
        assert (y == 6401).all()
    assert len(chosen) == 14 and len(tuner.found) == 1
    tuner(np.zeros(2000, np.float32), 2000)
    assert len(tuner.found) == 2


def makes_stamp(type, B, R=1):
    """A function that makes kernels, as the library has them."""
    if R > 8:
        raise ValueError("R above 8 was never any good")

    @kernel
    @requires(grid[1], block[1], thread[B])
    def made(y: ptr(type) @ grid[1], n: int @ grid[1]):
        with group(grid[1]):
            i: int @ thread[1] = id()
            with partition(y, p=thread[1], f=lambda k: i * R + k, disjoint=True) as mine:
                with group(thread[1]):
                    for r in range(R):
                        if i * R + r < n:
                            mine[r] = type(B * 100 + R)

    return made


def test_a_function_that_makes_kernels_is_tuned_like_a_generic_one(tmp_path):
    def tuned(speeds, **options):
        y = np.zeros(300, np.int32)
        clock, watch = clock_of(speeds)
        return snap.tune(makes_stamp, {"type": [i32, f32], "B": [32, 64, 5000], "R": [1, 16]}, y, 300, blocks=blocks, timer=clock, reset=watch,
                         cache=Cache(tmp_path / "cache"), quiet=True, key=lambda n: n, **options)

    made = tuned({3201: 2.0, 6401: 1.0})
    assert made.config == {"type": i32, "B": 64, "R": 1} and not made.cached
    reasons = {(str(t.config["type"]), t.config["B"], t.config["R"]): t.reason for t in made.trials}
    assert reasons["i32", 32, 1] == "" and reasons["i32", 32, 16] == "R above 8 was never any good"
    assert "takes f32, the array holds int32" in reasons["f32", 32, 1] and "at most 1024" in reasons["i32", 5000, 1]
    y = np.zeros(100, np.int32)
    made(y, 100)
    assert (y == 6401).all()
    assert tuned({}).cached


def test_a_function_must_make_kernels_and_names_are_checked_when_they_are_known():
    with pytest.raises(TypeError, match="it must make a kernel with no constexpr parameter left"):
        snap.tune(lambda B: stamp, {"B": [32]}, Y, 300, blocks=1)
    with pytest.raises(TypeError, match="asks for `m`; there is `y`, `n`, `type`, `B`, `R`"):
        snap.tune(makes_stamp, {"type": [f32], "B": [32]}, Y, 300, blocks=lambda m: m)


def test_alignment_is_part_of_every_class():
    whole = np.zeros((64, 68), np.float32)
    assert shape_class((whole, 64)) == shape_class((np.zeros((50, 100), np.float32), 48))
    assert shape_class((whole, 64), key=1) != shape_class((np.zeros((64, 67), np.float32), 64), key=1)
    assert shape_class((whole,), key=1) != shape_class((whole.reshape(-1)[1:1 + 68 * 63].reshape(63, 68),), key=1)
    assert shape_class((whole,)) != shape_class((whole.astype(np.float64),))
    assert shape_class((64,)) != shape_class((63,)) and shape_class((33,)) == shape_class((63,)) != shape_class((65,))


# ---- what is shown -----------------------------------------------------------------------------------------------------------------------


def test_progress_is_shown_when_asked_for_and_not_when_quiet(capfd):
    tuned_stamp({3201: 3.0, 6401: 1.0}, {"B": [32, 64]})
    assert capfd.readouterr() == ("", "")
    clock, watch = clock_of({3201: 3.0, 6401: 1.0})
    snap.tune(stamp, {"B": [32, 64, 4096]}, Y, 300, blocks=blocks, timer=clock, reset=watch, cache=memory(), quiet=False)
    shown = capfd.readouterr().err.splitlines()
    assert shown == ["stamp: checking 3 candidates", "stamp: compiling 2 candidates", "stamp: timing 2 candidates",
                     "stamp: B=64, R=1, 1000000.0 us (best of 2; 1 of 3 pruned)"]


def test_a_bar_is_drawn_on_a_terminal(monkeypatch):
    import io

    rich = pytest.importorskip("rich")
    assert rich

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    clock, watch = clock_of({3201: 3.0})
    snap.tune(stamp, {"B": [32]}, Y, 300, blocks=blocks, timer=clock, reset=watch, cache=memory())
    assert "stamp: timing" in terminal.getvalue()


def test_importing_snap_does_not_import_the_tuner():
    code = "import sys, snap; assert not [m for m in sys.modules if m.startswith(('snap._tune', 'snap.tune', 'snap.host.device.gpu', 'torch'))]; snap.tune"
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": ":".join(sys.path), "PATH": ""})


def test_the_documentation_runs():
    import importlib.util
    from pathlib import Path

    docs = Path(__file__).resolve().parents[2] / "docs"
    spec = importlib.util.spec_from_file_location("docs_run_blocks_tune", docs / "run_blocks.py")
    run_blocks = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = run_blocks
    spec.loader.exec_module(run_blocks)
    for block, printed in run_blocks.outputs(docs / "tuning.md"):
        assert block.text.rstrip() == printed.rstrip(), "run: python docs/run_blocks.py docs/tuning.md"
