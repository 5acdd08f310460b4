"""Run the tests of a mutant.

Input: a mutant.  Output: a `Verdict`.  Invariant: the tests are those of the real folder, the sources those with the mutant; a test that cannot be run
catches nothing.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from mutants.mutant import ROOT, Mutant

FAILED = 1  # what pytest says where tests failed; more is an error of another kind
VERIFIER = "snap._compiler.ir.verify.BrokenIR"  # which may refuse a program already where a file of tests defines it
MOST_SECONDS = 300


@dataclass(frozen=True, slots=True)
class Verdict:
    """caught: whether one of its tests failed; why: what was seen where none did."""

    mutant: Mutant
    caught: bool
    seconds: float
    why: str = ""


def run(mutant: Mutant) -> Verdict:
    start = time.perf_counter()
    if mutant.found != 1:
        return Verdict(mutant, False, 0.0, f"its old text stands {mutant.found} times in {mutant.file}")
    with tempfile.TemporaryDirectory() as folder:
        mutant.put_into(Path(folder))
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--tb=short"]
        command += ["-o", f"pythonpath={folder} tests", *mutant.caught_by]
        environment = {**os.environ, "PYTHONPATH": folder, "SNAP_CACHE_DIR": str(Path(folder) / "cache")}  # no proof of before
        try:
            ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=MOST_SECONDS)
        except subprocess.TimeoutExpired:  # a program that does not end is wrong, too
            return Verdict(mutant, True, time.perf_counter() - start)
    caught = ended.returncode == FAILED or ended.returncode != 0 and VERIFIER in ended.stdout
    why = "" if caught else "its tests pass" if ended.returncode == 0 else (ended.stdout + ended.stderr)[-2000:]
    return Verdict(mutant, caught, time.perf_counter() - start, why)
