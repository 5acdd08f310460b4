"""Launch the programs of a batch together, and compare: one copy of all arguments to the GPU, all launches, one copy back.

Between two arrays lie guards, so a write outside an array is seen.  Whatever goes wrong in a batch (a difference, a guard, an error of the driver, no end), its programs run again,
each alone in a process of its own: what becomes of a program there is what is said of it.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np

from fuzz import campaign as campaigns
from fuzz.batches import Batch, MachineCode, Prepared, Program, batch_of, digest, stand_in, text_of
from fuzz.case import Case, generate, load, made
from fuzz.oracles import Outcome, difference
from fuzz.workers import Last, Lost, worked
from snap.host.device.contexts import OnDevice, on_device
from snap.host.device.driver import driver

GUARD = 256  # bytes between two arrays, whose addresses are multiples of it
PATTERN = 0xA5
LIMIT = 60.0  # seconds for one batch
RENEWED = 40  # batches in one process (workers.py)
AMONG = "gpu: among other programs"

Run = Callable[[list, list[Case], int], list[list[list]]]  # kernels, their programs, how often: of each program and run, the arguments after it


class Overwritten(Exception):
    """A launch wrote outside its arrays."""


# ---- memory --------------------------------------------------------------------------------------------------------------------------------


class Image:
    """The arrays of many argument lists in one piece of memory, with guards."""

    def __init__(self, lists: list[list]):
        self.lists, self.places, end = lists, [], GUARD
        for a in self.arrays():
            self.places.append(end)
            end += -(-a.nbytes // GUARD) * GUARD + GUARD
        self.bytes = np.full(end, PATTERN, np.uint8)
        for a, at in zip(self.arrays(), self.places):
            self.bytes[at:at + a.nbytes] = np.ascontiguousarray(a).reshape(-1).view(np.uint8)

    def arrays(self) -> Iterator[np.ndarray]:
        return (a for args in self.lists for a in args if isinstance(a, np.ndarray))

    def each(self, view: Callable[[np.ndarray, int], object]) -> list[list]:
        """The argument lists with `view(array, place)` for each array."""
        places = iter(self.places)
        return [[view(a, next(places)) if isinstance(a, np.ndarray) else a for a in args] for args in self.lists]

    def read(self, back: np.ndarray) -> list[list]:
        """The arguments in a copy of the memory."""
        self.check(back)
        return self.each(lambda a, at: back[at:at + a.nbytes].view(a.dtype).reshape(a.shape))

    def check(self, back: np.ndarray) -> None:
        begin = 0
        for a, at in zip([*self.arrays(), np.empty(0)], [*self.places, len(back)]):
            changed = np.flatnonzero(back[begin:at] != PATTERN)
            if len(changed):
                raise Overwritten(f"{len(changed)} bytes beside the arrays were changed, the first of them {changed[0]} bytes behind the array before it")
            begin = at + a.nbytes


class Memory:
    """Device memory that grows as it is asked for."""

    def __init__(self, on: OnDevice):
        self.on, self.at, self.size = on, 0, 0

    def of(self, size: int) -> int:
        if size > self.size:
            if self.at:
                self.on.call("cuMemFree_v2", ctypes.c_void_p(self.at))
            self.at, self.size = self.on.allocated(2 * size), 2 * size
        return self.at


class View:
    """An array on the GPU, in the form that every kernel takes whatever the type."""

    def __init__(self, array: np.ndarray, at: int):
        self.__cuda_array_interface__ = {"shape": array.shape, "typestr": array.dtype.str, "data": (at, False), "strides": None, "version": 3}


@cache
def here() -> OnDevice:
    return on_device(driver(), driver().device(driver().current_device()))


@cache
def memory() -> Memory:
    return Memory(here())


def to_gpu(at: int, data: np.ndarray) -> None:
    here().call("cuMemcpyHtoD_v2", ctypes.c_void_p(at), ctypes.c_void_p(data.ctypes.data), ctypes.c_size_t(data.nbytes))


def from_gpu(at: int, size: int) -> np.ndarray:
    """After everything that was launched."""
    found = np.empty(size, np.uint8)
    here().call("cuMemcpyDtoH_v2", ctypes.c_void_p(found.ctypes.data), ctypes.c_void_p(at), ctypes.c_size_t(size))
    return found


def on_gpu(kernels: list, cases: list[Case], runs: int) -> list[list[list]]:
    """One that is alone is waited for after each run: an error then says what it is of."""
    if len(cases) == 1 and runs > 1:
        return [[on_gpu(kernels, cases, 1)[0][0] for _ in range(runs)]]
    image = Image([made(case) for case in cases])
    size = len(image.bytes)
    with here().current():
        base = memory().of(runs * size)
        for run in range(runs):
            to_gpu(base + run * size, image.bytes)
        for run in range(runs):
            for kernel, case, args in zip(kernels, cases, image.each(lambda a, at: View(a, base + run * size + at))):
                kernel.launch(*args, blocks=case.blocks, target="gpu")
        back = from_gpu(base, runs * size).reshape(runs, size)
    found = [image.read(back[run]) for run in range(runs)]
    return [[one[number] for one in found] for number in range(len(cases))]


# ---- one batch -----------------------------------------------------------------------------------------------------------------------------


@dataclass
class Done:
    """again: programs of a batch in which something went wrong, and what."""

    outcomes: list[Outcome]
    again: list
    why: str = ""


def launched(batch: Batch, run: Run, runs: int, load_case: Callable | None) -> Done | Last:
    """load_case: gives the kernel of a case, where it is not the prepared one."""
    outcomes, kernels, code = [Outcome(generate(p.family, p.seed), "accepted") for p in batch.programs], [], MachineCode(batch.cubin)
    for o, p in zip(outcomes, batch.programs):
        if text_of(o.case) != p.text:
            o.status, o.kind = "failed", "prepared from another text"
    ready = [(o, p) for o, p in zip(outcomes, batch.programs) if o.status == "accepted"]
    alone = len(batch.programs) == 1
    try:
        kernels = [load_case(o.case) if load_case else Prepared(p, code) for o, p in ready]
        results = run(kernels, [o.case for o, _ in ready], runs) if ready else []
        for (o, p), found in zip(ready, results):
            compare(o, p, found)
        code.unload()
    except Exception as error:
        if not alone:
            return Last(Done([], split(batch), f"{type(error).__name__}: {error}"))
        outcomes[0].status, outcomes[0].kind, outcomes[0].detail = "failed", f"gpu: {type(error).__name__}", str(error)
        return Last(Done([campaigns.light(outcomes[0])], []))
    wrong = [o for o, _ in ready if o.status == "failed"]
    if wrong and not alone:
        return Done([], split(batch), "; ".join(f"{o.case.name}: {o.kind}: {o.detail}" for o in wrong))
    return Done([campaigns.light(o) for o in outcomes], [])


def compare(outcome: Outcome, program: Program, results: list[list]) -> None:
    for number, got in enumerate(results):
        if digest(got) != program.results:
            outcome.status, outcome.kind = "failed", "gpu difference"
            outcome.detail = f"run {number}: {against_reference(outcome.case, got)}"
            return


def against_reference(case: Case, got: list) -> str:
    """Which elements differ, by the reference's run on this machine."""
    load(case)[case.blocks](*(want := made(case)))
    return difference(got, want) or "as the reference gives it here, and another result than where the program was prepared"


def split(item: Batch | list) -> list:
    """The programs of a batch, each as a batch; those that are not made yet likewise."""
    return [Batch(item.cubin, (p,)) for p in item.programs] if isinstance(item, Batch) else [[one] for one in item]


# ---- many of them --------------------------------------------------------------------------------------------------------------------------


def launching(run: Run, runs: int, load_case: Callable | None) -> Callable:
    """For `worked`: a batch, or the names of some programs, from which one is made first."""

    def start():
        stand_in()

        def work(item: Batch | list) -> Done | Last:
            if isinstance(item, Batch):
                return launched(item, run, runs, load_case)
            outcomes, batch = batch_of(item)
            if batch is None:
                return Done(outcomes, [])
            result = launched(batch, run, runs, load_case)
            done = result.result if isinstance(result, Last) else result
            done.outcomes += [o for o in outcomes if o.status != "accepted"]
            return result

        return work

    return start


def outcomes(items: Iterable, start: Callable, jobs: int, until: float = float("inf"), limit: float = LIMIT) -> Iterator[Outcome]:
    """Of all items; those in which something went wrong are looked into at the end, as long as there is time."""
    wrong = []
    for result in worked(items, start, jobs, limit, RENEWED):
        if isinstance(result, Lost):
            wrong.append((split(result.item), result.why))
        else:
            yield from result.outcomes
            wrong += [(result.again, result.why)] if result.again else []
    for programs, why in wrong:
        yield from _one_by_one(programs, why, start, jobs if time.time() < until else 0, limit)


def _one_by_one(programs: list, why: str, start: Callable, jobs: int, limit: float) -> Iterator[Outcome]:
    """Each alone.  Where nothing goes wrong then, or there is no time for it, one of them stands for all: something was wrong."""
    found = []
    for result in worked(programs, start, jobs, limit):
        found += [_lost(result)] if isinstance(result, Lost) else result.outcomes
    if all(o.status != "failed" for o in found):
        first, *rest = found or [Outcome(generate(*_first(programs[0])), "accepted")]
        case = generate(first.case.family, first.case.seed)
        found = [Outcome(case, "failed", AMONG, f"{why}; of {[':'.join(map(str, _first(p))) for p in programs]}"), *rest]
    yield from found


def _lost(result: Lost) -> Outcome:
    return Outcome(generate(*_first(result.item)), "failed", result.why)


def _first(item: Batch | list) -> tuple[str, int]:
    return item.programs[0][:2] if isinstance(item, Batch) else item[0]
