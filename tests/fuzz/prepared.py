"""Programs prepared ahead: a machine without a GPU checks, runs and compiles them, and the machine with one only launches and compares.

A file is a row of blocks, each compressed alone and appended when it is full, so what was written before a stop stays readable.  A block has some batches: their machine code, and of
each accepted program its name, digests of its text and of the results, and what a launch reads of a compiled kernel; arguments are made again from the seed.
"""

from __future__ import annotations

import lzma
import os
import pickle
import signal
import struct
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, zip_longest
from pathlib import Path

from fuzz import campaign as campaigns
from fuzz.batches import DEAR, RENEWED, Batch, MachineCode, Prepared, Program, begin, cuda_of, drawn, stand_in, text_of
from fuzz.case import Case, generate, load
from fuzz.launching import launching, outcomes
from fuzz.oracles import Outcome
from fuzz.workers import worked

BLOCK = 2000  # programs that are compressed together: machine code of one program is much like that of another
LIMIT = 600.0  # seconds for one batch, on a machine that may have much else to do
FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 9, "lc": 0, "lp": 4, "pb": 4}]  # instructions are 16 bytes
SIZE = struct.Struct("<I")


@dataclass
class Block:
    """source: the compiler, of which the machine code is a function, as git names its folder.  last: the highest seed that was drawn so far.  tally: of all programs since the
    block before, those that are not in it included.
    """

    commit: str
    source: str
    last: int
    tally: campaigns.Tally
    cubins: tuple[bytes, ...]
    programs: tuple[tuple[tuple, ...], ...]  # of each batch, by column: what is alike lies together

    @staticmethod
    def of(batches: list[Batch], last: int, tally: campaigns.Tally) -> Block:
        """What was made here."""
        columns = tuple(tuple(zip(*batch.programs)) for batch in batches)
        return Block(campaigns.commit(), campaigns.commit("HEAD:src"), last, tally, tuple(batch.cubin for batch in batches), columns)

    def batches(self) -> Iterator[Batch]:
        for cubin, columns in zip(self.cubins, self.programs):
            yield Batch(cubin, tuple(map(Program._make, zip(*columns))))


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
    print(f"at {campaigns.commit()}, src/ {campaigns.commit('HEAD:src')}", flush=True)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what is made so far is written
    os.environ.update(SNAP_CACHE_DIR="", SNAP_LINEINFO="0")  # each is compiled once, and lines take half of its machine code's file
    if o.prepare.exists():
        found = [(block.last, end) for block, end in blocks(o.prepare)]
        first, end = (found[-1][0] + 1, found[-1][1]) if found else (first, 0)
        os.truncate(o.prepare, end)
        print(f"{o.prepare} has {len(found)} blocks: on from {first}", flush=True)
    make = begin()
    results = worked(drawn(campaigns.drawn(o.families, first, o.count, o.seconds, DEAR)), lambda: make, o.jobs, LIMIT, RENEWED)
    return campaigns.tallied(_written(o.prepare, results), campaigns.Tally())


def _written(path: Path, results: Iterable) -> Iterator[Outcome]:
    """The outcomes; their programs go to the file, also when this is stopped."""
    last, tally, made = 0, campaigns.Tally(), []

    def write() -> None:
        made.sort(key=lambda batch: batch.programs[0].family)
        if tally.done:
            appended(path, Block.of(made, last, tally))

    try:
        for result in results:
            done, batch = result if isinstance(result, tuple) else (campaigns.as_outcomes(result), None)
            for outcome in done:
                tally.add(outcome)
                last = max(last, outcome.case.seed)
            made += [batch] if batch else []
            if sum(len(b.programs) for b in made) >= BLOCK:
                write()
                tally, made = campaigns.Tally(), []
            yield from done
    finally:
        write()


# ---- where there is one ----------------------------------------------------------------------------------------------------------------------


def launched(o, run: Callable, runs: int, load_case: Callable | None) -> tuple[campaigns.Tally, dict[str, int]]:
    """Launch the programs of `o.prepared`; and how many of them were prepared at which commit.  load_case: gives the kernel of a case, where it is not the prepared one."""
    tally, commits = campaigns.Tally(), Counter()
    until = float("inf") if o.seconds is None else time.time() + o.seconds
    batches = _read(o.prepared, o.families, tally, commits, o.count, until)
    return campaigns.tallied(outcomes(batches, launching(run, runs, load_case), o.jobs, until), tally), dict(commits)


def _read(paths: list[Path], families: tuple[str, ...], tally: campaigns.Tally, commits: Counter, count: int | None, until: float) -> Iterator[Batch]:
    """The batches; what else was drawn with them is counted: refused ones, and what all of them hold."""
    here, left = campaigns.commit("HEAD:src"), float("inf") if count is None else count
    for block, _ in chain.from_iterable(map(blocks, paths)):
        if block.commit not in commits:
            print(f"prepared at {block.commit}, whose src/ is {'this one' if block.source == here else 'another one: --same says which programs are the same'}", flush=True)
        tally.seen.update(block.tally.seen)
        tally.refused.update(block.tally.refused)
        for family, counts in block.tally.status.items():
            if counts["refused"]:
                tally.status[family]["refused"] += counts["refused"]
        for batch in block.batches():
            if left <= 0 or time.time() > until:
                return
            if batch.programs[0].family in families:
                batch = batch._replace(programs=batch.programs[:min(len(batch.programs), left)])
                commits[block.commit] += len(batch.programs)
                left -= len(batch.programs)
                yield batch


def sample(paths: list[Path], families: tuple[str, ...], count: int) -> list[Batch]:
    """Some `count` programs, as many of each family alike: first a batch of each family, then another one."""
    least, found = -(-count // len(families)), {family: [] for family in families}
    for block, _ in chain.from_iterable(map(blocks, paths)):
        for batch in block.batches():
            some = found.get(batch.programs[0].family, [])
            left = least - sum(len(one.programs) for one in some)
            some += [batch._replace(programs=batch.programs[:left])] if left > 0 else []
        if all(sum(len(one.programs) for one in some) == least for some in found.values()):
            break
    return [batch for row in zip_longest(*found.values()) for batch in row if batch]


def kernels(path: Path) -> Callable[[Case], Prepared]:
    """Give the kernels of the programs in a file by their cases."""
    stand_in()
    found = {}
    for block, _ in blocks(path):
        for batch in block.batches():
            code = MachineCode(batch.cubin)
            found.update({p.name: Prepared(p, code) for p in batch.programs})
    return lambda case: found[case.name]


# ---- whether they are still this commit's ----------------------------------------------------------------------------------------------------


def same(o) -> campaigns.Tally:
    """Check the programs of `o.same` here, all, or `o.count` of each block: whose CUDA text is another one than where they were prepared is a failure.  The others go to
    `o.keep`: what was made of the same text at another commit is what this one makes of it.
    """
    begin()
    return campaigns.tallied(chain.from_iterable(_same_of(block, o) for block, _ in chain.from_iterable(map(blocks, o.same))), campaigns.Tally())


def _same_of(block: Block, o) -> Iterator[Outcome]:
    batches = [batch for batch in block.batches() if batch.programs[0].family in o.families]
    programs = [p for batch in batches for p in batch.programs]
    step = max(1, len(programs) // max(1, o.count)) if o.count else 1
    fine: set[str] = set()
    for result in worked((p[:4] for p in programs[::step]), lambda: _same, o.jobs, LIMIT):
        for outcome in campaigns.as_outcomes(result):
            fine |= {outcome.case.name} if outcome.status == "accepted" else set()
            yield outcome
    kept = [Batch(batch.cubin, some) for batch in batches if (some := tuple(p for p in batch.programs if p.name in fine))]
    if o.keep and kept:
        appended(o.keep, Block.of(kept, block.last, campaigns.Tally()))


def _same(program: tuple[str, int, int, int]) -> Outcome:
    family, seed, text, cuda = program
    outcome = Outcome(generate(family, seed), "accepted")
    if text_of(outcome.case) != text:
        outcome.status, outcome.kind = "failed", "another program than was prepared"
        return outcome
    try:
        if cuda_of(load(outcome.case)._the_one({}).module) != cuda:
            outcome.status, outcome.kind = "failed", "another CUDA text than where it was prepared"
    except Exception as error:
        outcome.status, outcome.kind, outcome.detail = "failed", f"not accepted any more: {type(error).__name__}", str(error)
    return campaigns.light(outcome)
