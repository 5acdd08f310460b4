"""The same programs on a GPU: each is compiled, run there some times, and compared with the CPU machine bit for bit; a sample runs under compute-sanitizer.

Every process generates, checks, compiles and runs its programs alone, one after the other, so that a kernel that stops the GPU, or does not end, costs its own process and
nothing else: the program that a process was at when it was lost is known.  With `--fake-gpu` the CPU machine stands for the GPU; FUZZ_FAKE="boxes:7=dies,boxes:8=hangs" then
makes programs go wrong, for the tests of all this.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from fuzz import campaign as campaigns
from fuzz.case import Case, generate, load, made
from fuzz.oracles import Outcome, difference, judge
from fuzz.workers import Last

RUNS = 3  # of each program: what depends on timing may show in one of them
LIMIT = 60.0  # seconds for one program, the compiler included
BATCH = 20  # programs in one process under compute-sanitizer
PREPARED_BATCH = 100  # of those that need only be launched
BATCH_LIMIT = 240.0
REPORTED = 86  # its exit status where it found something
ARCH = "sm_90a"


# ---- one program ---------------------------------------------------------------------------------------------------------------------------


class OnDevice:
    """A copy of an array on the GPU, in the form that every kernel takes whatever the type."""

    def __init__(self, array: np.ndarray):
        import torch

        self.array = array
        self.bytes = torch.from_numpy(array.reshape(-1).view(np.uint8).copy()).cuda()
        self.__cuda_array_interface__ = {"shape": array.shape, "typestr": array.dtype.str, "data": (self.bytes.data_ptr(), False), "strides": None, "version": 3}

    def back(self) -> np.ndarray:
        return self.bytes.cpu().numpy().view(self.array.dtype).reshape(self.array.shape)


def on_gpu(kernel, case: Case) -> list:
    """The arguments after one run on the GPU."""
    import torch

    args = [OnDevice(a) if isinstance(a, np.ndarray) else a for a in made(case)]
    kernel.launch(*args, blocks=case.blocks, target="gpu")
    torch.cuda.synchronize()
    return [a.back() if isinstance(a, OnDevice) else a for a in args]


def faked(kernel, case: Case) -> list:
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


def comparing(run: Callable, runs: int = RUNS, compiles: bool = True):
    """For `worked`: one (family, seed), on the CPU machine and by `run`."""

    def start():
        def work(item: tuple[str, int]) -> Outcome | Last:
            outcome = judge(generate(*item), seeds=0, slow=False)
            if outcome.status != "accepted":
                return campaigns.light(outcome)
            lost = _compared(outcome, run, runs, compiles)
            return Last(campaigns.light(outcome)) if lost else campaigns.light(outcome)

        return work

    return start


def _compared(outcome: Outcome, run: Callable, runs: int, compiles: bool) -> bool:
    """Whether the process can do no more on its GPU."""
    want = outcome.want
    if compiles and machine_code(outcome) is None:
        return False
    return differs(outcome, outcome.kernel, run, runs, lambda got: difference(got, want))


def machine_code(outcome: Outcome) -> bytes | None:
    """None where there is none, which is entered in the outcome."""
    try:
        return outcome.kernel.cubin(ARCH)
    except Exception as error:
        outcome.status, outcome.kind, outcome.detail = "failed", f"gpu: does not compile: {type(error).__name__}", str(error)
        return None


def differs(outcome: Outcome, kernel, run: Callable, runs: int, told: Callable[[list], str]) -> bool:
    """Run the kernel some times; told: what is wrong with the results.  Whether the process can do no more on its GPU."""
    try:
        for number in range(runs):
            found = told(run(kernel, outcome.case))
            if found:
                outcome.status, outcome.kind, outcome.detail = "failed", "gpu difference", f"run {number}: {found}"
                return False
    except Exception as error:
        outcome.status, outcome.kind, outcome.detail = "failed", f"gpu: {type(error).__name__}", str(error)
        return True
    return False


# ---- compute-sanitizer ---------------------------------------------------------------------------------------------------------------------


def sanitizer_command(tool: str, names: list[str], prepared: Path | None = None) -> list[str] | None:
    found = shutil.which("compute-sanitizer") or next((p for p in ("/usr/local/cuda/bin/compute-sanitizer",) if Path(p).exists()), None)
    return None if found is None else [found, "--tool", tool, "--error-exitcode", str(REPORTED), sys.executable, "-m", "fuzz.gpu", *(["--prepared", str(prepared.resolve())] if prepared else []), *names]


def sanitized(names: list[str], command: Callable[[list[str]], list[str]], limit: float = BATCH_LIMIT) -> list[tuple[str, str]]:
    """Which of the programs the tool has something to say about, and what; a batch that fails is halved until the program is found."""
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
    if len(names) == 1:
        return [(names[0], why)]
    half = len(names) // 2
    return sanitized(names[:half], command, limit) + sanitized(names[half:], command, limit)


def racecheck_understands(outcome: Outcome) -> bool:
    """Not so where some only arrive, or one lane arrives for its warp: it reports hazards there that are none (docs/sanitizers.md)."""
    return not outcome.coverage["some only arrive"] and not outcome.coverage["MBarrierArrive"]


def sample(items: Iterable[tuple[str, int]], count: int) -> list[Outcome]:
    """The first accepted programs of these."""
    found: list[Outcome] = []
    for item in items:
        if len(found) == count:
            break
        outcome = judge(generate(*item), seeds=0, slow=False)
        if outcome.status == "accepted":
            found.append(outcome)
    return found


def sanitize(o, first: int) -> dict[str, object]:
    """How many programs each tool saw, and what it reported."""
    if sanitizer_command("memcheck", []) is None:
        return {"sanitizer": "not found"}
    if o.prepared:
        from fuzz import prepared

        programs, batch = prepared.sample(o), PREPARED_BATCH
    else:
        programs, batch = sample(campaigns.drawn(o.families, first, 3 * o.sanitize, None), o.sanitize), BATCH
    work = []
    for tool in o.tools:
        names = [p.case.name for p in programs if tool != "racecheck" or racecheck_understands(p)]
        work += [(tool, names[k:k + batch]) for k in range(0, len(names), batch)]

    def run(tool: str, names: list[str]) -> tuple[str, int, list[tuple[str, str]]]:
        reports = sanitized(names, lambda names: sanitizer_command(tool, names, o.prepared))
        print(f"{tool}: {len(names)} programs, {reports or 'nothing reported'}", flush=True)
        return tool, len(names), reports

    with ThreadPoolExecutor(max(1, o.jobs // 2)) as pool:
        results = list(pool.map(lambda w: run(*w), work))
    return {"sanitizer": {tool: {"programs": sum(n for t, n, _ in results if t == tool), "reports": [r for t, _, found in results if t == tool for r in found]} for tool in o.tools}}


# ---- all of it ---------------------------------------------------------------------------------------------------------------------------


def campaign(o, first: int) -> tuple[campaigns.Tally, dict[str, object]]:
    """The whole sitting: the sample under the sanitizer after the programs, since it is slow."""
    fake = o.fake_gpu
    if not fake:
        os.environ["SNAP_CACHE_DIR"] = ""  # each program is compiled once: nothing is kept on disk
        import torch  # noqa: F401  (once, before the processes are made: they share it)
    run, runs = (faked, 1) if fake else (on_gpu, RUNS)
    if o.prepared:
        from fuzz import prepared

        tally = prepared.launched(o, run, runs, load if fake else None)
    else:
        tally = campaigns.run(o.families, first, o.count, o.seconds, o.jobs, start=comparing(run, runs, compiles=not fake), limit=LIMIT)
    more: dict[str, object] = {"gpu": "the CPU machine" if fake else device_name(), "runs of each program": runs}
    if not fake and o.sanitize:
        more.update(sanitize(o, first))
        print(f"compute-sanitizer: {more['sanitizer']}", flush=True)
    return tally, more


def device_name() -> str:
    """Asked of a process of its own: this one forks, and must not hold a GPU."""
    asked = "import torch; print(torch.cuda.get_device_name(), torch.version.cuda, torch.__version__)"
    return subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True).stdout.strip() or "unknown"


def main(words: list[str]) -> None:
    """Run the programs named, once each: what compute-sanitizer watches."""
    kernel_of = load
    if words[0] == "--prepared":
        from fuzz import prepared

        kernel_of, words = prepared.kernels(Path(words[1]), words[2:]), words[2:]
    for name in words:
        family, seed = name.split(":")
        case = generate(family, int(seed))
        print(f"program {name}", flush=True)
        on_gpu(kernel_of(case), case)


if __name__ == "__main__":
    main(sys.argv[1:])
