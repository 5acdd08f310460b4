"""`python -m mutants` in tests/: every mutant is run, and those that no test catches are named.  `make mutants` does the same."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from mutants.rules import MUTANTS
from mutants.run import Verdict, run


def main() -> int:
    options = argparse.ArgumentParser(prog="python -m mutants", description="Weaken the rules of the compiler one by one; some test must fail.")
    options.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many run at a time")
    options.add_argument("--only", default="", metavar="TEXT", help="mutants whose name or file has this in it")
    options.add_argument("--json", type=Path, metavar="FILE", help="write what was found there")
    given = options.parse_args()
    chosen = [m for m in MUTANTS if given.only in m.name or given.only in m.file]
    if not chosen:
        print(f"no mutant has `{given.only}` in its name or file", file=sys.stderr)
        return 1
    start, verdicts = time.perf_counter(), []
    with ThreadPoolExecutor(given.jobs) as pool:
        for done in as_completed([pool.submit(run, mutant) for mutant in chosen]):
            verdicts.append(done.result())
            _say(verdicts, len(chosen))
    survivors = [v for v in verdicts if not v.caught]
    if given.json is not None:
        given.json.write_text(json.dumps([_plain(v) for v in verdicts], indent=1) + "\n")
    print(f"\n{len(chosen) - len(survivors)} of {len(chosen)} mutants are caught, in {time.perf_counter() - start:.0f} s")
    for v in survivors:
        print(f"\nSURVIVES {v.mutant.file}: {v.mutant.name}\n  tests: {' '.join(v.mutant.caught_by)}\n  {v.why}")
    return 1 if survivors else 0


def _say(verdicts: list[Verdict], total: int) -> None:
    survive = sum(not v.caught for v in verdicts)
    line = f"{len(verdicts)}/{total}, {survive} survive: {verdicts[-1].mutant.name}"
    print(f"\r{line[:120]:120}" if sys.stdout.isatty() else line, end="" if sys.stdout.isatty() else "\n", flush=True)


def _plain(v: Verdict) -> dict[str, object]:
    return {"name": v.mutant.name, "file": v.mutant.file, "caught": v.caught, "seconds": round(v.seconds, 2), "why": v.why}


if __name__ == "__main__":
    sys.exit(main())
