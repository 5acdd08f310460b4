"""What runs, compares and shrinks generated programs: planted faults are found, named and made small, and nothing that dies or hangs takes others with it."""

from __future__ import annotations

import ctypes
import importlib.util
import json
import os
import struct
import sys
import time
from types import SimpleNamespace

import numpy as np
import pytest
from host.test_contexts import Cuda

from fuzz import batches, gpu, launching, prepared
from fuzz.__main__ import main, options
from fuzz.campaign import Tally, alone, as_outcomes, commit, drawn, run, tallied
from fuzz.case import HEADER, Case, generate, load, made
from fuzz.oracles import Outcome, difference, hosted, judge
from fuzz.shrink import shrunk
from fuzz.workers import Last, Lost, worked
from snap.host import launch
from snap.host.arguments import arrays
from snap.host.arguments.signature import Signature
from snap.host.device import gpu as device
from snap.host.device.driver import Driver
from snap.host.device.gpu import formats_of


@pytest.fixture(autouse=True)
def environment():
    """A command sets variables for its process, which with one job is this one."""
    kept = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(kept)


def case(body: str, arguments: tuple[str, ...] = ("np.zeros(64, np.uint32)",), threads: int = 64, tags: frozenset = frozenset()) -> Case:
    """A kernel of one block whose threads have `mine` and `t`."""
    lines = "\n".join("                " + line for line in body.splitlines())
    source = f"""{HEADER}
@kernel
@requires(grid[1], block[1], thread[{threads}])
def k(out: ptr(u32) @ grid[1]):
    with group(grid[1]):
        t: int @ thread[1] = id()
        with partition(out, p=thread[1], offset=t) as mine:
            with group(block[1]):
{lines}
"""
    return Case(0, "memory", source, arguments, 1, tags)


RIGHT = """s: shared(u32[64])
with partition(s, p=thread[1], offset=t) as m:
    m[0] = u32(t)
mine[0] = s[63 - t]"""


def test_right_refused_and_wrong():
    assert judge(case(RIGHT)).status == "accepted"
    refused = judge(case("mine[0] = s[0]"))
    assert (refused.status, refused.kind) == ("refused", "SNAP019")
    assert judge(case("mine[64] = 1")).kind == "reference: out of bounds"
    both = RIGHT.replace("offset=t", "f=lambda k: t / 2").replace("63 - t", "t / 2")
    assert judge(case(both)).kind == "race of a statement with itself"


def test_what_does_not_end_is_stopped():
    endless = judge(case("u: int = 0\nwhile u == 0:\n    u = 0\nmine[0] = 1"), limit=1.0)
    assert endless.kind in ("takes too long", "reference: no progress")


def test_folding_is_compared():
    wrong = case("mine[0] = u32(t % 2)", tags=frozenset({"folded"}))
    assert judge(wrong).kind == "folding"


def test_differences_are_found_by_their_bits():
    a, b = np.zeros(3, np.float32), np.array([0, -0.0, 0], np.float32)
    assert "the first at 1" in difference([a, 3], [b, 3]) and not difference([a], [a.copy()])


def test_a_program_is_made_smaller():
    body = "u: u32 @ thread[1] = u32(t)\nfor i in range(3):\n    u = u + 1\n    if i > 1:\n        u = u * 3\n" + RIGHT.replace("mine[0] =", "mine[0] = u +") + "\nmine[70] = u"
    outcome = judge(case(body))
    assert outcome.kind == "reference: out of bounds"
    smaller = shrunk(outcome, seconds=60, seeds=1)
    assert smaller.source.count("\n") < 12 and "for" not in smaller.source and "shared" not in smaller.source
    assert judge(smaller).kind == outcome.kind


def test_a_saved_program_runs_alone(tmp_path):
    program = generate("memory", 1)
    path = tmp_path / "alone.py"
    path.write_text(alone(program, Outcome(program, "failed", "a difference")))
    namespace = {"__name__": "__main__"}
    exec(compile(path.read_text(), str(path), "exec", dont_inherit=True), namespace)
    assert namespace["want"][0].any()


def test_arguments_are_fresh():
    program = generate("products", 3)
    first, second = made(program), made(program)
    first[0][:] = 7
    assert not (second[0] == 7).all() and load(program).is_kernel


# ---- processes


def start():
    def work(item):
        match item:
            case "dies":
                os._exit(3)
            case "hangs":
                time.sleep(600)
            case "last":
                return Last((item, os.getpid()))
        return item, os.getpid()

    return work


def test_processes_that_die_or_hang_cost_one_item():
    results = list(worked(["a", "dies", "b", "hangs", "last", "c", "d"], start, 2, limit=2.0))
    lost = {result.item: result.why for result in results if isinstance(result, Lost)}
    assert lost == {"dies": "the process ended with 3", "hangs": "no end after 2 s"}
    assert sorted(result[0] for result in results if not isinstance(result, Lost)) == ["a", "b", "c", "d", "last"]


def test_a_lost_program_is_a_failure():
    (outcome,) = as_outcomes(Lost(("grid", 5), "no end after 60 s"))
    assert (outcome.status, outcome.kind, outcome.case.name) == ("failed", "no end after 60 s", "grid:5")


def test_families_are_drawn_in_turn_and_dear_ones_now_and_then():
    assert list(drawn(("a", "b"), 7, 3, None)) == [("a", 7), ("b", 7), ("a", 8)]
    assert list(drawn(("a", "b"), 0, 9, None, ("b",))) == [("a", 0), ("b", 0), ("a", 1), ("a", 2), ("a", 3), ("a", 4), ("b", 4), ("a", 5), ("a", 6)]
    assert list(drawn(("b",), 0, 2, None, ("b",))) == [("b", 0), ("b", 1)], "who asks for nothing else gets all"
    assert not list(drawn(("a",), 0, None, 0.0))


# ---- the CUDA text on the host


class Host:
    """Stands for the host's emulation: what it says of a program is given by the program's seed."""

    class Unsupported(Exception):
        pass

    @staticmethod
    def available() -> str:
        return ""

    @classmethod
    def run_many(cls, cases, seed):
        if seed:
            return [cls.Unsupported("an order")] * len(cases)
        for kernel, blocks, arguments in cases:
            kernel[blocks](*arguments)
        cases[1][2][0].reshape(-1).view(np.uint8)[0] ^= 1
        return [None, None, cls.Unsupported("a word"), RuntimeError("deadlock")]


def test_the_host_s_answers_are_entered(monkeypatch):
    monkeypatch.setattr("fuzz.oracles.available", lambda name: Host if name == "host" else None)
    outcomes = [judge(generate("scalars", seed), seeds=0) for seed in range(4)]
    hosted(outcomes)
    assert [o.kind for o in outcomes] == ["", "host difference", "", "host: RuntimeError"]
    assert [o.coverage["agreed on the host"] for o in outcomes] == [1, 0, 0, 0]


def test_chunks_are_worked_on_together(monkeypatch):
    monkeypatch.setattr("fuzz.oracles.available", lambda name: None)
    tally = run(("scalars",), 0, 30, None, 2, host=True)
    assert tally.done == 30 and not tally.failures


# ---- the GPU's part, with the CPU machine in its place


def test_a_sitting(monkeypatch):
    monkeypatch.setenv("FUZZ_FAKE", "scalars:1=dies,scalars:2=differs,scalars:3=fails,scalars:4=hangs")
    items = [[("scalars", seed) for seed in some] for some in (range(5), range(5, 8))]
    tally = tallied(launching.outcomes(items, launching.launching(gpu.faked, 1, load), 2, limit=8.0), Tally())
    kinds = {o.case.seed: o.kind for o in tally.failures}
    assert kinds == {1: "the process ended with 7", 2: "gpu difference", 3: "gpu: RuntimeError", 4: "no end after 8 s"}
    assert tally.of("accepted") == 4


def test_the_sanitizer_s_reports_are_traced_to_their_program():
    def command(names: list[str]) -> list[str]:
        return [sys.executable, "-c", f"import sys, time; names = {names!r}; 'slow' in names and time.sleep(60); sys.exit(86 if 'bad' in names else 0)"]

    names = [f"n{k}" for k in range(5)] + ["bad"] + [f"m{k}" for k in range(4)]
    assert [name for name, _ in gpu.sanitized(names, command)] == ["bad"]
    assert gpu.sanitized(["slow"], command, limit=1.0) == [("slow", "no end after 1 s")]
    ((which, _),) = gpu.sanitized(["n", "bad"], command, until=0.0)
    assert which == "n bad", "there was no time to find which"


def test_racecheck_is_not_asked_where_it_errs():
    quiet, roles = judge(case(RIGHT)), judge(generate("roles", 0), seeds=0)
    assert batches.racecheck_understands(quiet)
    roles.coverage["MBarrierArrive"] += 1
    assert not batches.racecheck_understands(roles)


def test_programs_for_the_sanitizer_that_are_made_here():
    assert [(p.family, p.seed) for p in gpu.sample(("scalars", "clusters"), 4, 3)] == [("scalars", 4), ("clusters", 4), ("scalars", 5)]


def test_the_sanitizer_sees_prepared_programs_of_each_family(tmp_path, monkeypatch):
    """Each process gets a file with its own programs; which are run is what the names say."""
    path, seen = tmp_path / "programs", []
    made = [batches.batch_of([(family, seed) for seed in range(3)])[1] for family in ("scalars", "clusters", "roles")]
    told = [batch._replace(programs=tuple(p._replace(racecheck=understood) for p in batch.programs)) for batch, understood in zip(made, (True, True, False))]
    prepared.appended(path, prepared.Block.of(told, 0, Tally()))

    def command(tool: str, names: list[str], file=None) -> list[str]:
        held = [p.name for block, _ in prepared.blocks(file) for batch in block.batches() for p in batch.programs] if file else []
        seen.append((tool, names, held))
        return [sys.executable, "-c", "import sys; sys.exit(86 if 'clusters:1' in sys.argv else 0)", *names]

    monkeypatch.setattr(gpu, "sanitizer_command", command)
    o = SimpleNamespace(prepared=[path], families=("scalars", "clusters", "roles"), sanitize=6, sanitize_seconds=60.0, tools=("racecheck", "synccheck"), jobs=1)
    found = gpu.sanitize(o, 0)["sanitizer"]
    assert found["racecheck"]["families"] == {"scalars": 2, "clusters": 2} and found["synccheck"]["families"] == {"scalars": 2, "clusters": 2, "roles": 2}
    assert [name for name, _ in found["racecheck"]["reports"]] == [name for name, _ in found["synccheck"]["reports"]] == ["clusters:1"]
    assert all(set(names) <= set(held) for _, names, held in seen if names)
    assert gpu.sanitize(SimpleNamespace(**{**vars(o), "sanitize_seconds": -1.0}), 0)["sanitizer"]["synccheck"]["programs"] == 0


def test_what_the_sanitizer_found_is_told_by_family():
    some = gpu.sample(("scalars", "clusters"), 4, 3)
    assert gpu.told([(some, []), (some[:1], [("scalars:4", "a hazard")])]) == {"programs": 4, "families": {"scalars": 3, "clusters": 1}, "reports": [("scalars:4", "a hazard")]}


# ---- programs prepared ahead


def sitting(path, *more: str) -> int:
    return main(["--fake-gpu", "--prepared", str(path), "--families", "scalars", "--jobs", "2", "--most", "0", *more])


def test_prepared_programs(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("fuzz.prepared.BLOCK", 3)
    monkeypatch.setattr("fuzz.batches.drawn.__defaults__", (2,))
    for name in ("SNAP_CACHE_DIR", "SNAP_LINEINFO"):
        monkeypatch.setenv(name, "")
    path, out = tmp_path / "programs", tmp_path / "results.json"
    wanted = ["--prepare", str(path), "--families", "scalars", "--seed", "0", "--jobs", "1"]
    assert main([*wanted, "--count", "5"]) == 0
    with open(path, "ab") as file:
        file.write(prepared.SIZE.pack(1000) + b"cut short")
    assert main([*wanted, "--count", "2"]) == 0 and "2 blocks: on from 5" in capsys.readouterr().out
    found = [block for block, _ in prepared.blocks(path)]
    assert [[p.seed for batch in block.batches() for p in batch.programs] for block in found] == [[0, 1, 2, 3], [4], [5, 6]]
    assert [block.last for block in found] == [3, 4, 6] and {block.source for block in found} == {commit("HEAD:src")}
    monkeypatch.setattr(prepared, "stand_in", lambda: None)
    some = prepared.sample([path], ("scalars",), 5)
    assert [p.seed for batch in some for p in batch.programs] == list(range(5))
    kernel_of = prepared.kernels(path)
    assert all(kernel_of(generate(p.family, p.seed)).module.text.cubin == batch.cubin for batch in some for p in batch.programs)
    monkeypatch.setenv("FUZZ_FAKE", "scalars:1=differs,scalars:2=dies,scalars:3=fails")
    assert sitting(path, "--out", str(out)) == 1
    kinds = {failure["program"]: failure["kind"] for failure in json.loads(out.read_text())["failures"]}
    assert kinds == {"scalars:1": "gpu difference", "scalars:2": "the process ended with 7", "scalars:3": "gpu: RuntimeError"}
    assert "run 0: argument 0, " in out.read_text() and json.loads(out.read_text())["prepared at"] == {commit(): 7}
    assert sitting(path, "--count", "1") == 0 and "1 programs: none failed" in capsys.readouterr().out


def test_programs_that_are_other_ones_at_this_commit_are_told(tmp_path, capsys, monkeypatch):
    for name in ("SNAP_CACHE_DIR", "SNAP_LINEINFO"):
        monkeypatch.setenv(name, "")
    path = str(tmp_path / "programs")
    assert main(["--prepare", path, "--families", "scalars", "--seed", "0", "--jobs", "1", "--count", "3"]) == 0
    same = ["--same", path, "--jobs", "1", "--most", "0"]
    assert main(same) == 0 and main([*same, "--count", "1"]) == 0 and "\n1 programs: none failed" in capsys.readouterr().out
    true = prepared.cuda_of
    monkeypatch.setattr("fuzz.prepared.cuda_of", lambda module: true(module) if "scalars:1 " in module.text else 1)
    assert main([*same, "--keep", str(tmp_path / "kept")]) == 1 and "another CUDA text than where it was prepared: 2" in capsys.readouterr().out
    ((kept, _),) = prepared.blocks(tmp_path / "kept")
    assert [p.name for batch in kept.batches() for p in batch.programs] == ["scalars:1"] and sitting(tmp_path / "kept") == 0
    monkeypatch.setattr("fuzz.prepared.cuda_of", lambda module: 1)
    assert main(same) == 1 and "another CUDA text than where it was prepared: 3" in capsys.readouterr().out
    monkeypatch.setattr("fuzz.prepared.generate", lambda family, seed: generate(family, seed + 1))
    assert main(same) == 1 and "another program than was prepared: 3" in capsys.readouterr().out


class Recording(Cuda):
    """What the driver is given: machine code, limits, tensor maps, and of each launch its configuration and values."""

    def __init__(self, formats):
        super().__init__()
        self.formats, self.told = formats, []

    def _launch(self, config, function, values, extra):
        where = struct.unpack(f"<{len(self.formats)}Q", ctypes.string_at(values, 8 * len(self.formats)))
        passed = [ctypes.string_at(at, struct.calcsize("<" + packing)) for at, packing in zip(where, self.formats)]
        self.told.append((ctypes.string_at(config, 40), ctypes.string_at(config, 52)[48:], passed))  # between them, the address of attributes
        return super()._launch(config, function, values, extra)

    def _cuModuleLoadData(self, module, cubin):
        self.told.append(cubin)

    def _cuFuncSetAttribute(self, function, what, value):
        self.told.append((what, value.value))

    def _cuTensorMapEncodeTiled(self, where, *told):
        self.told.append([getattr(one, "value", None) or list(one) for one in told if getattr(one, "value", 1)])
        super()._cuTensorMapEncodeTiled(where, *told)

    def _cuPointerGetAttribute(self, number, *given):
        number._obj.value = 0


@pytest.mark.parametrize(("family", "seed"), [("memory", 0), ("boxes", 8), ("clusters", 1), ("grid", 1), ("products", 0)])
def test_a_prepared_launch_passes_what_the_kernel_s_own_passes(family, seed, monkeypatch):
    monkeypatch.setenv("SNAP_LINEINFO", "0")
    outcome = judge(generate(family, seed), seeds=0, slow=False)
    kernel, program = outcome.kernel, outcome.case
    compiled = kernel._the_one({})

    def launches(kernel) -> list:
        cuda = Recording(formats_of(Signature.of(compiled.typed), compiled.module))
        driver = Driver(cuda)
        for module in (arrays, device, launch):
            monkeypatch.setattr(module, "driver", lambda: driver)
        kernel.launch(*(info(a, n) if isinstance(a, np.ndarray) else a for n, a in enumerate(made(program), start=1)), blocks=program.blocks, target="gpu")
        return cuda.told

    def info(a, n):
        return SimpleNamespace(__cuda_array_interface__={"shape": a.shape, "typestr": a.dtype.str, "data": (n << 24, False), "strides": None, "version": 3})

    want = launches(kernel)
    kept = batches.Program(family, seed, 0, 0, b"", batches.launch_of(compiled, "k"), True)
    batches.stand_in(monkeypatch.setattr)
    assert outcome.status == "accepted" and len(want) > 1 and launches(batches.Prepared(kept, batches.MachineCode(kernel.cubin()))) == want


def test_without_z3_the_order_is_not_asked(monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "z3" else find(name))
    outcome = judge(generate("handover", 1), seeds=1, slow=False)
    assert outcome.status == "accepted" and outcome.coverage["order not asked: no z3"] == 1


# ---- the command


def test_the_command(tmp_path, capsys):
    out = tmp_path / "results.json"
    assert main(["--count", "4", "--families", "scalars", "--seed", "4", "--jobs", "1", "--fake-gpu", "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "seed 4" in printed and "--seed 4 --count 4 --families scalars" in printed and printed.endswith("4 programs: none failed\n")
    assert json.loads(out.read_text())["programs"] == 4


def test_the_command_refuses_unknown_families(capsys):
    with pytest.raises(SystemExit):
        options(["--families", "nonsense"])
    assert "there are memory" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["grid", "grid:", "grid:x", "nonsense:1", ":1"])
def test_the_command_refuses_what_names_no_program(name, capsys):
    with pytest.raises(SystemExit) as stopped:
        options(["--only", name])
    assert stopped.value.code == 2 and "a program is FAMILY:SEED" in capsys.readouterr().err


def test_the_command_wants_a_gpu(monkeypatch):
    monkeypatch.setattr(gpu.subprocess, "run", lambda *_, **__: SimpleNamespace(returncode=1, stdout="", stderr="Traceback\nToolchainError: there is no NVIDIA driver"))
    with pytest.raises(SystemExit, match="--gpu: ToolchainError: there is no NVIDIA driver"):
        main(["--gpu", "--count", "1"])


def test_the_gpu_is_named(monkeypatch):
    class Named(Cuda):
        def _cuDeviceGetName(self, name, size, device):
            name.value = b"a GPU"

        def _cuDriverGetVersion(self, version):
            version._obj.value = 13020

    driver = Driver(Named())
    for module in (gpu, launching):
        monkeypatch.setattr(module, "driver", lambda: driver)
    launching.here.cache_clear()
    assert gpu.name_here() == "a GPU, driver for CUDA 13.2"
    launching.here.cache_clear()
