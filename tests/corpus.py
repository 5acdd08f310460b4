"""The corpora of whole programs: tests/ok/*.py and tests/bad/SNAPnnn/*.py.

A program is executed under its path relative to the repository, so that no golden file holds an absolute path.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from snap._compiler.ir.nodes import Function
from snap._compiler.sync import synchronize
from snap.api import SnapFunction
from snap.diag.source import register_source

TESTS = Path(__file__).resolve().parent
ROOT = TESTS.parent
_MARK = re.compile(r"#~((?:\s+SNAP\d{3})+)\s*$")


@dataclass(frozen=True)
class Program:
    path: Path

    @property
    def name(self) -> str:
        return self.path.relative_to(ROOT).as_posix()

    @property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    def execute(self, text: str | None = None) -> dict:
        """Run the program (or another text in its place) as a module would be; its namespace."""
        text = self.text if text is None else text
        register_source(self.name, text)
        namespace = {"__name__": f"corpus_{self.path.stem}", "__file__": str(self.path)}
        exec(compile(text, self.name, "exec", dont_inherit=True), namespace)
        return namespace

    def namespace(self) -> dict:
        """What the program's text gives, executed once in this process: for tests that look at its kernels or launch them, and change neither them
        nor the compiler before they are defined."""
        register_source(self.name, self.text)  # another text may have been executed in its place since
        return dict(_executed(self))

    def marks(self) -> list[tuple[int, str]]:
        """The lines that `#~ SNAPnnn` marks, with their codes; a line with several errors names each."""
        found = []
        for number, line in enumerate(self.text.splitlines(), start=1):
            mark = _MARK.search(line)
            if mark:
                found += [(number, code) for code in mark.group(1).split()]
        return found

    def golden(self, suffix: str) -> Path:
        return self.path.with_suffix(suffix)


@functools.cache
def _executed(program: Program) -> dict:
    return program.execute()


_SYNCHRONIZED: dict[int, tuple[Function, Function]] = {}  # with the typed one, so that its id stays its own


def synchronized(function: Function) -> Function:
    """A typed function with its barriers, found once in this process."""
    if id(function) not in _SYNCHRONIZED:
        _SYNCHRONIZED[id(function)] = function, synchronize(function)
    return _SYNCHRONIZED[id(function)][1]


OK = [Program(path) for path in sorted((TESTS / "ok").glob("*.py"))]
WARNED = [Program(path) for path in sorted((TESTS / "warned").glob("SNAP*/*.py"))]
BAD = [Program(path) for path in sorted((TESTS / "bad").glob("SNAP*/*.py"))]


def kernels_of(namespace: dict) -> dict[str, object]:
    """The kernels of a program by the name they are bound to; for a generic one, what the program lists in GOLDEN."""
    found: dict[str, object] = {}
    for name, value in namespace.items():
        if isinstance(value, SnapFunction) and value.is_kernel and value not in found.values():
            found[name] = value
    special = namespace.get("GOLDEN", [])
    covered = {kernel.__name__ for kernel in special}
    missing = [name for name, kernel in found.items() if kernel.generic and kernel.__name__ not in covered]
    if missing:
        pytest.fail(f"generic kernels without golden values: {', '.join(missing)}; list them, as in `GOLDEN = [{missing[0]}.specialize(...)]`")
    plain = {name: kernel for name, kernel in found.items() if not kernel.generic}
    return {**plain, **{f"{kernel.__name__} {number}": kernel for number, kernel in enumerate(special)}}


def compare(path: Path, text: str, update: bool) -> None:
    """Against the golden file, or into it."""
    assert str(ROOT) not in text, f"an absolute path got into {path.name}"
    text = text.rstrip("\n") + "\n"
    if update:
        path.write_text(text, encoding="utf-8")
        return
    if not path.exists():
        pytest.fail(f"{path.relative_to(ROOT)} is missing: write it with --update-golden, and read it")
    assert text == path.read_text(encoding="utf-8"), f"{path.relative_to(ROOT)} differs: if that is meant, rewrite it with --update-golden"
