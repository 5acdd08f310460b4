"""The same text gives the same barriers: neither the order of Python's sets nor where objects lie in memory decides."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from corpus import ROOT

HERE = Path(__file__).resolve().parent
SHOW = f"""
import random, sys
sys.path[:0] = {[str(HERE), str(HERE.parent), str(ROOT / "src")]!r}
taken = [object() for _ in range(int(sys.argv[1]))]  # others lie elsewhere
from sync.programs import program
from sync.test_generated import execute
for seed in range(12):
    made = execute(program(random.Random(seed).randrange, depth=3)[0])
    print("refused" if made is None else made.module.text)
"""


def texts(seed: int) -> str:
    shown = subprocess.run([sys.executable, "-c", SHOW, str(997 * seed)], capture_output=True, text=True, timeout=300,
                           env={**os.environ, "PYTHONHASHSEED": str(seed)})
    assert shown.returncode == 0, shown.stderr
    return shown.stdout


def test_no_seed_of_hashes_changes_the_text():
    first = texts(1)
    assert "__sync" in first
    assert texts(2) == first == texts(3)
