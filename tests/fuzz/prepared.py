"""Programs prepared ahead: a machine without a GPU checks, runs and compiles them, and the machine with one only launches and compares.

A file is a row of blocks, each compressed alone and appended when it is full, so what was written before a stop stays readable.  Of each accepted program a block has its name, a
digest of its text, its machine code, what a launch reads of a compiled kernel, and a digest of the results; arguments are made again from the seed.
"""

from __future__ import annotations

import hashlib
import lzma
import os
import pickle
import struct
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np

from fuzz import campaign as campaigns
from fuzz import gpu
from fuzz.case import Case, generate, load, made
from fuzz.oracles import Outcome, difference, judge
from fuzz.workers import Last, Lost, worked
from snap.host import launch
from snap.host.arguments.signature import Signature, shapes
from snap.host.compile import nvrtc
from snap.host.device import gpu as device
from snap.record import replace

BLOCK = 500  # programs that are compressed together: machine code of one program is much like that of another
CHUNK = 10  # programs in one message to a process that launches them
FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 9, "lc": 1, "lp": 2, "pb": 2}]
SIZE = struct.Struct("<I")
FASTER = "--minimal"  # leaves out declarations that generated text does not use: the same machine code in nine tenths of the time


class Program(NamedTuple):
    """text: a checksum of what the generator gave.  launch: pickled; unpickled where it is launched, by one of many processes."""

    family: str
    seed: int
    text: int
    results: bytes
    launch: bytes
    cubin: bytes


@dataclass
class Block:
    """last: the highest seed that was drawn so far.  tally: of all programs since the block before, those that are not in it included."""

    commit: str
    last: int
    tally: campaigns.Tally
    programs: tuple[tuple, ...]  # by column: what is alike lies together


def text_of(case: Case) -> int:
    return zlib.crc32(repr((case.source, case.arguments, case.blocks)).encode())


def digest(args: list) -> bytes:
    found = hashlib.blake2b(digest_size=8)
    for a in args:
        if isinstance(a, np.ndarray):
            found.update(a.tobytes())
    return found.digest()


# ---- files -----------------------------------------------------------------------------------------------------------------------------------


def blocks(path: Path) -> Iterator[tuple[Block, int]]:
    """Each whole block, and where it ends."""
    with open(path, "rb") as file:
        while len(head := file.read(SIZE.size)) == SIZE.size:
            data = file.read(SIZE.unpack(head)[0])
            if len(data) == SIZE.unpack(head)[0]:
                yield pickle.loads(lzma.decompress(data, lzma.FORMAT_XZ)), file.tell()


def appended(path: Path, block: Block) -> None:
    data = lzma.compress(pickle.dumps(block, protocol=4), lzma.FORMAT_XZ, filters=FILTERS)
    with open(path, "ab") as file:
        file.write(SIZE.pack(len(data)) + data)


# ---- where there is no GPU -------------------------------------------------------------------------------------------------------------------


def prepare(o, first: int) -> campaigns.Tally:
    """Draw programs, and write what launches need of them to `o.prepare`, behind what it has."""
    os.environ.update(SNAP_CACHE_DIR="", SNAP_LINEINFO="0")  # each is compiled once, and lines take half of its machine code's file
    if o.prepare.exists():
        found = [(block.last, end) for block, end in blocks(o.prepare)]
        first, end = (found[-1][0] + 1, found[-1][1]) if found else (first, 0)
        os.truncate(o.prepare, end)
        print(f"{o.prepare} has {len(found)} blocks: on from {first}", flush=True)
    results = worked(campaigns.drawn(o.families, first, o.count, o.seconds), _preparing, o.jobs, gpu.LIMIT)
    return campaigns.tallied(_written(o.prepare, results), campaigns.Tally())


def _preparing() -> Callable:
    nvrtc._OPTIONS += (FASTER,)

    def work(item: tuple[str, int]) -> Outcome:
        outcome = judge(generate(*item), seeds=0, slow=False)
        cubin = gpu.machine_code(outcome) if outcome.status == "accepted" else None
        program = cubin and Program(*item, text_of(outcome.case), digest(outcome.want), launch_of(outcome.kernel._the_one({})), cubin)
        outcome = campaigns.light(outcome)
        outcome.kernel = program
        return outcome

    return work


def _written(path: Path, results: Iterable) -> Iterator[Outcome]:
    """The outcomes; their programs go to the file, also when this is stopped."""
    commit, last, tally, programs = campaigns.commit(), 0, campaigns.Tally(), []

    def write() -> None:
        rows = sorted(programs, key=lambda p: (p.family, len(p.cubin)))
        if tally.done:
            appended(path, Block(commit, last, tally, tuple(zip(*rows))))

    try:
        for result in results:
            for outcome in campaigns.as_outcomes(result):
                program, outcome.kernel = outcome.kernel, None
                tally.add(outcome)
                last = max(last, outcome.case.seed)
                if program:
                    programs.append(program)
                if len(programs) == BLOCK:
                    write()
                    tally, programs = campaigns.Tally(), []
                yield outcome
    finally:
        write()


def launch_of(compiled) -> bytes:
    """What a launch reads of a compiled kernel, but for the text of the module, in whose place the machine code will be."""
    module = replace(compiled.module, text="", params=(), entry=(), exit=(), file=None, places=None)
    signature = replace(Signature.of(compiled.typed), dims=(), most=None)
    return pickle.dumps((signature, module, compiled.blocks), protocol=4)


# ---- where there is one ----------------------------------------------------------------------------------------------------------------------


class Prepared:
    """Stands for a kernel, and for its `Compiled`, at a launch."""

    lined, where = "", None

    def __init__(self, program: Program):
        signature, module, self.blocks = pickle.loads(program.launch)
        signature = replace(signature, dims=shapes(signature.params), most=lambda: 1 << 30)
        self.typed = SimpleNamespace(signature=signature, uses_unsafe=False)
        self.module = replace(module, text=program.cubin)

    def launch(self, *args: object, blocks: int, target: str) -> None:
        launch.launch(self, args, blocks, target)


def stand_in(put: Callable = setattr) -> None:
    """Let launches take prepared kernels: the signature was made on another machine, and the module's text is machine code already."""
    signature, compile_cubin = Signature.of, device.compile_cubin
    put(launch, "Signature", SimpleNamespace(of=lambda typed, most: getattr(typed, "signature", None) or signature(typed, most)))
    put(device, "compile_cubin", lambda text, *rest, **more: text if isinstance(text, bytes) else compile_cubin(text, *rest, **more))


def launched(o, run: Callable, runs: int, load: Callable | None) -> campaigns.Tally:
    """Launch the programs of `o.prepared`.  load: gives the kernel of a case, where it is not the prepared one."""
    tally = campaigns.Tally()
    programs = islice(_read(o.prepared, o.families, tally, o.seconds), o.count)
    chunks = iter(lambda: list(islice(programs, CHUNK)), [])
    return campaigns.tallied(_outcomes(chunks, lambda: _launching(run, runs, load), o.jobs), tally)


def _read(path: Path, families: tuple[str, ...], tally: campaigns.Tally, seconds: float | None) -> Iterator[Program]:
    """The programs; what else was drawn with them is counted: refused ones, and what all of them hold."""
    begun, here, others = time.time(), campaigns.commit(), set()
    for block, _ in blocks(path):
        if block.commit != here and block.commit not in others:
            others.add(block.commit)
            print(f"prepared at {block.commit}, and this is {here}", flush=True)
        tally.seen.update(block.tally.seen)
        tally.refused.update(block.tally.refused)
        for family, counts in block.tally.status.items():
            tally.status[family]["refused"] += counts["refused"]
        for row in zip(*block.programs):
            if seconds is not None and time.time() - begun > seconds:
                return
            if row[0] in families:
                yield Program(*row)


def _outcomes(chunks: Iterable[list[Program]], start: Callable, jobs: int) -> Iterator[Outcome]:
    """Of a chunk whose process was lost, each program runs once more, alone: so it is known which it was."""
    again: list[list[Program]] = []
    for result in worked(chunks, start, jobs, gpu.LIMIT):
        if not isinstance(result, Lost):
            done, rest = result
            yield from done
            again += [rest] if rest else []
        elif len(result.item) == 1:
            yield Outcome(generate(*result.item[0][:2]), "failed", result.why)
        else:
            again += [[program] for program in result.item]
    if again:
        yield from _outcomes(again, start, jobs)


def _launching(run: Callable, runs: int, load: Callable | None) -> Callable:
    """For `worked`: what became of some programs, and those that are left where this process's GPU is lost."""
    stand_in()

    def work(programs: list[Program]) -> tuple | Last:
        done = []
        for number, program in enumerate(programs, start=1):
            outcome = Outcome(generate(program.family, program.seed), "accepted")
            lost = _differs(outcome, program, run, runs, load)
            done.append(campaigns.light(outcome))
            if lost:
                return Last((done, programs[number:]))
        return done, []

    return work


def _differs(outcome: Outcome, program: Program, run: Callable, runs: int, load: Callable | None) -> bool:
    case = outcome.case
    if text_of(case) != program.text:
        outcome.status, outcome.kind = "failed", "prepared from another text"
        return False
    kernel = load(case) if load else Prepared(program)
    return gpu.differs(outcome, kernel, run, runs, lambda got: "" if digest(got) == program.results else against_reference(case, got))


def sample(o) -> list[Outcome]:
    """As many programs of each family alike as `--sanitize` says, checked here once more: what their synchronization is made of is not in the file."""
    least, found, items = -(-o.sanitize // len(o.families)), Counter(), []
    for program in _read(o.prepared, o.families, campaigns.Tally(), None):
        if found[program.family] < least:
            items.append((program.family, program.seed))
            found[program.family] += 1
        if len(items) == least * len(o.families):
            break
    return [outcome for outcome in worked(items, _checking, o.jobs, gpu.LIMIT) if isinstance(outcome, Outcome)]


def _checking() -> Callable:
    return lambda item: campaigns.light(judge(generate(*item), seeds=0, slow=False))


def kernels(path: Path, names: list[str]) -> Callable[[Case], Prepared]:
    """Give the kernels of these programs by their cases; the file is read once."""
    stand_in()
    asked, found = set(names), {}
    for block, _ in blocks(path):
        for row in zip(*block.programs):
            name = f"{row[0]}:{row[1]}"
            if name in asked:
                found[name] = Program(*row)
        if len(found) == len(asked):
            break
    return lambda case: Prepared(found[case.name])


def against_reference(case: Case, got: list) -> str:
    """Which elements differ, by the reference's run on this machine."""
    load(case)[case.blocks](*(want := made(case)))
    return difference(got, want) or "as the reference gives it here, and another result than where the program was prepared"
