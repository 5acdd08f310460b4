"""Runs programs of tests/ok (all, or those named) on the GPU, for a tool that watches:

    compute-sanitizer --tool racecheck --error-exitcode 1 python tests/gpu/sanitize.py hgemm boxes
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[k]) for k in (0, 1)]
from borrowed import borrow  # noqa: E402
from corpus import OK  # noqa: E402

import snap  # noqa: E402
from snap.runtime.launch import Launcher  # noqa: E402


def main(names: list[str]) -> None:
    launches: list = []
    Launcher._run_on_cpu = borrow(launches)
    snap.races = lambda *args, **options: []  # a matter of the CPU machine
    for program in OK:
        if not names or program.path.stem in names:
            before = len(launches)
            namespace = program.execute()
            (namespace.get("check") or namespace["main"])()
            print(f"{program.name}: {len(launches) - before} launches", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
