"""Proofs that are kept on disk.

Input: a task, and a store of bytes by key (the runtime's cache, which the task brings).  Output: the proof that was
found for the same contents before, or None.  Invariant: the key holds everything that decides a proof: the program with
all that it calls and the places in its text, `where=` with the names that it takes from outside, the constants, the
properties, the number of steps, the files of Snap that decide, and the solvers.  What cannot be read back is as if it
were not there.  Non-goals: who may write to the store: it belongs to the user alone (host/compile/cache.py).
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import numbers
import os
import pickle
import re
from dataclasses import replace
from pathlib import Path
from types import BuiltinFunctionType

from snap._compiler.analysis.solvers.oracles import SOLVERS
from snap.prove.task import Store, Task
from snap.prove.verdict import Proof

FOLDERS = ("_compiler", "diag", "machine", "prove")  # what a proof depends on


def decided(task: Task) -> bool:
    """Whether the key tells all that `where=` takes from outside: of a function or an object that a launch asks, the
    text does not say what it answers.
    """
    names = {} if task.where is None else task.where[1]
    return all(isinstance(one, (numbers.Number, str, type, BuiltinFunctionType)) for one in names.values())


def key_of(task: Task, names: tuple[str, ...]) -> str:
    """Numbers that tell declarations apart are counted anew: they depend on what else a process has defined."""
    counts: dict[str, str] = {}

    def counted(found: re.Match[str]) -> str:
        return counts.setdefault(found[0], f"uid={len(counts)}")

    said = (task.typed, task.where, task.blocks, sorted(task.constants.items()))
    contents = re.sub(r"\buid=\d+", counted, repr(said))
    contents = re.sub(r" at 0x[0-9a-f]+", "", contents)
    parts = [contents, *names, str(task.steps), str(task.lean), _versions()]
    return hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()


@functools.cache
def _versions() -> str:
    """The files that decide, by name, size and time."""
    root = Path(__file__).absolute().parents[1]  # links are not followed: a file beside one may be another
    files = [path for folder in FOLDERS for path in sorted((root / folder).rglob("*.py"))]
    for solver in SOLVERS:
        spec = importlib.util.find_spec(solver)
        files += [Path(spec.origin)] if spec is not None and spec.origin else []
    told = []
    for path in files:
        status = os.stat(path)
        told.append(f"{path} {status.st_size} {status.st_mtime_ns}")
    return "\n".join(told)


def read(store: Store, key: str, task: Task) -> Proof | None:
    data = store.get(key)
    if data is None:
        return None
    try:
        return replace(pickle.loads(data), run=task.run)
    except Exception:  # whatever is there, it is no proof
        return None


def write(store: Store, key: str, proof: Proof) -> None:
    store.put(key, pickle.dumps(replace(proof, seconds=0.0, run=None)))
