"""Many programs: which, what became of them, and what is said of it."""

from __future__ import annotations

import functools
import itertools
import json
import platform
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from fuzz import coverage
from fuzz.case import Case, generate
from fuzz.oracles import LIMIT, SEEDS, Outcome, hosted, judge
from fuzz.workers import Lost, worked

ROOT = Path(__file__).resolve().parents[2]
FOUND = ROOT / "build" / "fuzz"
RARE = 4


@dataclass
class Tally:
    """Counts of all that has been run."""

    status: defaultdict[str, Counter] = field(default_factory=functools.partial(defaultdict, Counter))  # family -> status
    refused: Counter = field(default_factory=Counter)
    failures: list[Outcome] = field(default_factory=list)
    seen: Counter = field(default_factory=Counter)
    begun: float = field(default_factory=time.time)

    def add(self, outcome: Outcome) -> None:
        self.status[outcome.case.family][outcome.status] += 1
        self.seen.update(outcome.coverage)
        if outcome.status == "refused":
            self.refused[outcome.kind] += 1
        if outcome.status == "failed":
            self.failures.append(outcome)

    @property
    def done(self) -> int:
        return sum(sum(c.values()) for c in self.status.values())

    def of(self, status: str) -> int:
        return sum(c[status] for c in self.status.values())

    def line(self) -> str:
        seconds = max(time.time() - self.begun, 1e-3)
        return (f"{self.done} programs, {self.of('accepted')} accepted, {self.of('refused')} refused, {self.of('failed')} failed, "
                f"{seconds:.0f} s, {self.done / seconds:.1f} a second")

    def report(self) -> str:
        lines = [self.line(), ""]
        for family, counts in self.status.items():
            whole = max(1, sum(counts.values()))
            lines.append(f"  {family:10} {whole:7} programs, {counts['accepted'] + counts['failed']:7} accepted ({(counts['accepted'] + counts['failed']) / whole:.0%}), {counts['failed']:5} failed")
        lines += ["", "  refused: " + ", ".join(f"{code} {n}" for code, n in sorted(self.refused.items())) if self.refused else "  nothing refused"]
        missing = [kind for kind in coverage.kinds() if not self.seen[kind]]
        lines += [f"  reached: {len(coverage.kinds()) - len(missing)} of {len(coverage.kinds())} kinds" + (f"; not: {', '.join(missing)}" if missing else "")]
        sync = {kind: n for kind, n in self.seen.items() if kind.startswith(("sync ", "wait ", "proxy", "part ", "some only"))}
        lines += ["  synchronization: " + ", ".join(f"{kind} {n}" for kind, n in sorted(sync.items()))]
        for kind, n in Counter(f"{o.case.family}: {o.kind}" for o in self.failures).most_common():
            lines.append(f"  failed: {kind}: {n}")
        return "\n".join(lines)

    def as_json(self, **more: object) -> dict:
        return {"date": time.strftime("%Y-%m-%d %H:%M"), "commit": commit(), "machine": platform.processor() or platform.machine(), "python": sys.version.split()[0], **more,
                "seconds": round(time.time() - self.begun, 1), "programs": self.done, "accepted": self.of("accepted"), "refused": dict(self.refused), "failed": self.of("failed"),
                "families": {family: dict(counts) for family, counts in self.status.items()}, "coverage": dict(sorted(self.seen.items())),
                "failures": [{"program": o.case.name, "kind": o.kind, "detail": o.detail[:2000]} for o in self.failures]}


@functools.cache
def commit(what: str = "HEAD") -> str:
    """As it is when it is first asked: that is what this process has loaded."""
    try:
        return subprocess.run(["git", "rev-parse", "--short", what], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def drawn(families: tuple[str, ...], first: int, count: int | None, seconds: float | None, dear: tuple[str, ...] = ()) -> Iterator[tuple[str, int]]:
    """Families in turn, seeds one after the other; the dear ones in one round of RARE."""
    begun, number, dear = time.time(), 0, dear if set(families) - set(dear) else ()
    for seed in itertools.count(first):
        for family in families:
            if family in dear and (seed - first) % RARE:
                continue
            if number == count or seconds is not None and time.time() - begun >= seconds:
                return
            yield family, seed
            number += 1


def judging(seeds: int = SEEDS):
    """For `worked`: judges one (family, seed)."""

    def start():
        def work(item: tuple[str, int]) -> Outcome:
            return light(judge(generate(*item), seeds=seeds))

        return work

    return start


CHUNK = 25  # programs that the host's compiler gets at a time


def chunks(items: Iterator[tuple[str, int]]) -> Iterator[list[tuple[str, int]]]:
    while found := list(itertools.islice(items, CHUNK)):
        yield found


def hosting(seeds: int = SEEDS):
    """For `worked`: judges some (family, seed), the CUDA text on the host included."""

    def start():
        def work(items: list[tuple[str, int]]) -> list[Outcome]:
            outcomes = [judge(generate(*item), seeds=seeds) for item in items]
            hosted(outcomes)
            return [light(o) for o in outcomes]

        return work

    return start


def light(outcome: Outcome) -> Outcome:
    """Without what need not travel: the text, which the seed gives back, where nothing is wrong with it."""
    outcome.kernel = outcome.want = None
    if outcome.status != "failed":
        outcome.case = Case(outcome.case.seed, outcome.case.family, "", (), 0)
    return outcome


def as_outcomes(result: object) -> list[Outcome]:
    """Of a chunk that was lost, its first program stands for all: which of them it was is found by running them alone."""
    if isinstance(result, Lost):
        first = result.item[0] if isinstance(result.item, list) else result.item
        return [Outcome(generate(*first), "failed", result.why, f"of {result.item}")]
    return result if isinstance(result, list) else [result]


def run(families: tuple[str, ...], first: int, count: int | None, seconds: float | None, jobs: int, seeds: int = SEEDS, start=None, limit: float = 20 * LIMIT, every: float = 10.0,
        host: bool = False) -> Tally:
    """A campaign, with a line of progress now and then."""
    items = drawn(families, first, count, seconds)
    results = worked(chunks(items), hosting(seeds), jobs, CHUNK * limit) if host else worked(items, start or judging(seeds), jobs, limit)
    return tallied(itertools.chain.from_iterable(map(as_outcomes, results)), Tally(), every)


def tallied(outcomes: Iterable[Outcome], tally: Tally, every: float = 10.0) -> Tally:
    """Count the outcomes as they come; failures are told at once."""
    said = time.time()
    for outcome in outcomes:
        tally.add(outcome)
        if outcome.status == "failed":
            print(f"  {outcome.case.name}: {outcome.kind}", flush=True)
        if time.time() - said > every:
            said = time.time()
            print(tally.line(), flush=True)
    return tally


def save(outcome: Outcome, smaller: Case | None = None, folder: Path = FOUND) -> Path:
    """A file that runs alone, and says what is expected and what happens."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{outcome.case.family}-{outcome.case.seed}.py"
    path.write_text(alone(smaller or outcome.case, outcome))
    return path


def alone(case: Case, outcome: Outcome) -> str:
    """The program as a file of its own."""
    head, *rest = case.source.split("\n", 1)
    return f'''"""Generated, {case.name}: {outcome.kind}"""
{head}
import numpy as np
import snap
{rest[0].rstrip()}


if __name__ == "__main__":
    blocks, made = {case.blocks}, lambda: [{", ".join(case.arguments)}]
    k[blocks](*(want := made()))
    print("expected: every schedule gives what the reference gives, and nothing races; found: {outcome.kind}")
    for seed in range(8):
        try:
            k.launch(*(got := made()), blocks=blocks, seed=seed)
            print("seed", seed, [int((a != b).sum()) for a, b in zip(got, want) if isinstance(a, np.ndarray)], "elements differ")
        except snap.MachineError as error:
            print("seed", seed, error)
    print(k.cuda())
'''


def write_json(path: Path, tally: Tally, **more: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(tally.as_json(**more), indent=1) + "\n")
