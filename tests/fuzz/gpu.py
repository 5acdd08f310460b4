"""Generated programs on a GPU: each is compiled, launched there some times, and compared with the CPU machine bit for bit; a sample runs under compute-sanitizer.

Every process generates, checks, compiles and launches its programs in batches (launching.py), so that a kernel that stops the GPU, or does not end, costs its own process and
nothing else.  With `--fake-gpu` the CPU machine stands for the GPU; FUZZ_FAKE="boxes:7=dies,boxes:8=hangs" then makes programs go wrong, for the tests of all this.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from fuzz import batches, launching, prepared
from fuzz import campaign as campaigns
from fuzz.case import Case, generate, load, made
from fuzz.launching import View, from_gpu, here, to_gpu
from fuzz.oracles import judge
from snap.host.device.driver import driver

RUNS = 3  # of each program: what depends on timing may show in one of them
BATCH = 20  # programs in one process under compute-sanitizer
BATCH_LIMIT = 240.0
GRACE = 20.0  # seconds for what was begun when the time was over
REPORTED = 86  # its exit status where it found something


# ---- one program ---------------------------------------------------------------------------------------------------------------------------


class OnDevice(View):
    """A copy of an array in memory of its own on the GPU, whose ends compute-sanitizer knows."""

    def __init__(self, array: np.ndarray):
        with here().current():
            self.array, self.at = array, here().allocated(max(array.nbytes, 1))
            to_gpu(self.at, np.ascontiguousarray(array))
        super().__init__(array, self.at)

    def back(self) -> np.ndarray:
        return from_gpu(self.at, self.array.nbytes).view(self.array.dtype).reshape(self.array.shape)

    def free(self) -> None:
        here().call("cuMemFree_v2", ctypes.c_void_p(self.at))


def on_gpu(kernel, case: Case) -> list:
    """The arguments after one run on the GPU."""
    args = [OnDevice(a) if isinstance(a, np.ndarray) else a for a in made(case)]
    kernel.launch(*args, blocks=case.blocks, target="gpu")
    found = [a.back() if isinstance(a, OnDevice) else a for a in args]
    for a in args:
        if isinstance(a, OnDevice):
            a.free()
    return found


def faked(kernels: list, cases: list[Case], runs: int) -> list[list[list]]:
    return [[_faked(kernel, case) for _ in range(runs)] for kernel, case in zip(kernels, cases)]


def _faked(kernel, case: Case) -> list:
    match dict(entry.split("=") for entry in os.environ.get("FUZZ_FAKE", "").split(",") if entry).get(case.name):
        case "dies":
            os._exit(7)
        case "hangs":
            time.sleep(3600)
        case "fails":
            raise RuntimeError("the GPU has stopped")
        case "differs":
            args = made(case)
            args[0].reshape(-1).view(np.uint8)[0] ^= 1
            return args
    kernel[case.blocks](*(args := made(case)))
    return args


# ---- compute-sanitizer ---------------------------------------------------------------------------------------------------------------------


def sanitizer_command(tool: str, names: list[str], file: Path | None = None) -> list[str] | None:
    found = shutil.which("compute-sanitizer") or next((p for p in ("/usr/local/cuda/bin/compute-sanitizer",) if Path(p).exists()), None)
    given = ["--prepared", str(file.resolve())] if file else []
    return None if found is None else [found, "--tool", tool, "--error-exitcode", str(REPORTED), sys.executable, "-m", "fuzz.gpu", *given, *names]


def sanitized(names: list[str], command: Callable[[list[str]], list[str]], limit: float = BATCH_LIMIT, until: float = float("inf")) -> list[tuple[str, str]]:
    """Which of the programs the tool has something to say about, and what; a batch that fails is halved until the program is found, or the time is over."""
    if not names:
        return []
    try:
        found = subprocess.run(command(names), capture_output=True, text=True, timeout=limit, cwd=Path(__file__).resolve().parents[1])
        if found.returncode == 0:
            return []
        said = "\n".join(line for line in (found.stdout + found.stderr).splitlines() if line.startswith("=========") or "Error" in line)[-2000:]
        why = f"exit status {found.returncode}: {said}"
    except subprocess.TimeoutExpired:
        why = f"no end after {limit:.0f} s"
    if len(names) == 1 or time.time() > until:
        return [(" ".join(names), why)]
    half = len(names) // 2
    return sanitized(names[:half], command, limit, until) + sanitized(names[half:], command, limit, until)


def sample(families: tuple[str, ...], first: int, count: int) -> list[batches.Program]:
    """The first accepted programs of these, without what a launch needs."""
    found: list[batches.Program] = []
    for family, seed in campaigns.drawn(families, first, 3 * count, None):
        if len(found) == count:
            break
        outcome = judge(generate(family, seed), seeds=0, slow=False)
        if outcome.status == "accepted":
            found.append(batches.Program(family, seed, 0, 0, b"", b"", batches.racecheck_understands(outcome)))
    return found


def sanitize(o, first: int) -> dict[str, object]:
    """How many programs of each family each tool saw, and what it reported.  After `o.sanitize_seconds` nothing new is begun."""
    if sanitizer_command("memcheck", []) is None:
        return {"sanitizer": "not found"}
    until = time.time() + o.sanitize_seconds

    def run(tool: str, some: list[batches.Program], file: Path | None) -> tuple[str, list[batches.Program], list[tuple[str, str]]]:
        if time.time() > until:
            return tool, [], []
        limit = min(BATCH_LIMIT, until + GRACE - time.time())
        reports = sanitized([p.name for p in some], lambda names: sanitizer_command(tool, names, file), limit, until)
        print(f"{tool}: {len(some)} programs, {reports or 'nothing reported'}", flush=True)
        return tool, some, reports

    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(o.jobs) as pool:
        parts = list(_parts_of(o, first, Path(folder)))
        work = [(tool, [p for p in some if tool != "racecheck" or p.racecheck], file) for some, file in parts for tool in o.tools]
        results = list(pool.map(lambda w: run(*w), work))
    return {"sanitizer": {tool: told([(some, reports) for t, some, reports in results if t == tool]) for tool in o.tools}}


def _parts_of(o, first: int, folder: Path) -> Iterator[tuple[list[batches.Program], Path | None]]:
    """What one process sees: some programs, and the file that has them, where they are prepared."""
    if not o.prepared:
        programs = sample(o.families, first, o.sanitize)
        yield from ((programs[at:at + BATCH], None) for at in range(0, len(programs), BATCH))
        return
    for number, batch in enumerate(prepared.sample(o.prepared, o.families, o.sanitize)):
        file = folder / str(number)
        prepared.appended(file, prepared.Block.of([batch], 0, campaigns.Tally()))
        yield list(batch.programs), file


def told(results: list[tuple[list[batches.Program], list[tuple[str, str]]]]) -> dict[str, object]:
    families = Counter(p.family for some, _ in results for p in some)
    return {"programs": families.total(), "families": dict(families), "reports": [r for _, reports in results for r in reports]}


# ---- all of it ---------------------------------------------------------------------------------------------------------------------------


def campaign(o, first: int) -> tuple[campaigns.Tally, dict[str, object]]:
    """The whole sitting: the sample under the sanitizer after the programs, since it is slow."""
    os.environ.update(SNAP_CACHE_DIR="", SNAP_LINEINFO="0", CUDA_CACHE_DISABLE="1")  # each program is compiled once: nothing is kept on disk
    batches.begin()
    run, runs, load_case = (faked, 1, load) if o.fake_gpu else (launching.on_gpu, RUNS, None)
    more: dict[str, object] = {"gpu": "the CPU machine" if o.fake_gpu else device_name(), "runs of each program": runs}
    if o.prepared:
        tally, more["prepared at"] = prepared.launched(o, run, runs, load_case)
    else:
        items = batches.drawn(campaigns.drawn(o.families, first, o.count, o.seconds, batches.DEAR))
        tally = campaigns.tallied(launching.outcomes(items, launching.launching(run, runs, load_case), o.jobs), campaigns.Tally())
    if not o.fake_gpu and o.sanitize:
        more.update(sanitize(o, first))
        print(f"compute-sanitizer: {more['sanitizer']}", flush=True)
    return tally, more


def device_name() -> str:
    """Asked of a process of its own: this one forks, and must not hold a GPU.  Where there is none, all ends here."""
    found = subprocess.run([sys.executable, "-m", "fuzz.gpu", "--name"], capture_output=True, text=True, cwd=Path(__file__).resolve().parents[1])
    if found.returncode:
        raise SystemExit(f"--gpu: {found.stderr.strip().splitlines()[-1]}")
    return found.stdout.strip()


def name_here() -> str:
    name, version = ctypes.create_string_buffer(100), ctypes.c_int()
    driver().call("cuDeviceGetName", name, 100, here().device.number)
    here().call("cuDriverGetVersion", ctypes.byref(version))
    return f"{name.value.decode()}, driver for CUDA {version.value // 1000}.{version.value % 1000 // 10}"


def main(words: list[str]) -> None:
    """Run the programs named, once each: what compute-sanitizer watches."""
    if words == ["--name"]:
        print(name_here())
        return
    kernel_of = load
    if words[0] == "--prepared":
        kernel_of, words = prepared.kernels(Path(words[1])), words[2:]
    for name in words:
        family, seed = name.split(":")
        case = generate(family, int(seed))
        print(f"program {name}", flush=True)
        on_gpu(kernel_of(case), case)


if __name__ == "__main__":
    main(sys.argv[1:])
