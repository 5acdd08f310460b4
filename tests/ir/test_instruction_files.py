"""An instruction is known to its row, its check, its machine and its lowering, and to no other file of the compiler: analyses, synchronization, proofs
and listings ask the class and the table of effects.  Each is looked for by its name, so that a file which begins to name it fails here."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "src" / "snap"
# Not the compiler: PTX is a language of its own, the library is written in Snap, the stub and the words are what users read.
ELSEWHERE = {"ptx", "lib", "words.py", "member_words.py", "__init__.pyi"}

ROW, CHECK, MACHINE, LOWERING = "ir", "check", "machine", "codegen"
INSTRUCTIONS = {
    # an expression, whose check reads the row (`_compiler/check/operations/pure.py`)
    r"dp4a|dp2a": {"_compiler/ir/operations.py", "machine/lanes/functions.py", "_compiler/codegen/values/mathematics.py"},
    # a statement that touches no memory: the numbers of the hardware, its class, its row of effects; its check; what it means; its CUDA
    r"Sleep|SLEEP|nanosleep": {
        "_compiler/ir/hardware.py", "_compiler/ir/acts.py", "_compiler/ir/nodes.py", "_compiler/ir/effects.py", "_compiler/check/operations/intrinsics.py",
        "machine/source/actions.py", "machine/source/statements.py", "_compiler/codegen/core/statements.py",
    },
}  # fmt: skip
# Statements that name memory.  Of wgmma there is a form that synchronization makes (`synced.py`), and `sync/` forms their groups.
STATEMENTS: dict[str, set[str]] = {
    r"ir\.Prefetch|class Prefetch": set(),
    r"ir\.StoreAcc|class StoreAcc": set(),
    r"ir\.Wgmma|class Wgmma": {"_compiler/ir/synced.py", "_compiler/sync/pipelines/counting.py", "_compiler/sync/pipelines/release_slots.py", "_compiler/sync/pipelines/lower.py"},
}
RESERVED = {"_compiler/codegen/core/names.py"}  # every name of the C library, which no user's name may be in the CUDA


def stage(name: str) -> str:
    return name.removeprefix("_compiler/").split("/")[0]


def naming(words: str) -> set[str]:
    files = (file for file in SOURCE.rglob("*.py*") if file.suffix in (".py", ".pyi"))
    named = {str(file.relative_to(SOURCE)) for file in files if re.search(rf"\b(?:{words})", file.read_text(encoding="utf-8"))}
    return {name for name in named if stage(name) not in ELSEWHERE} - RESERVED


@pytest.mark.parametrize("words", INSTRUCTIONS)
def test_an_instruction_is_known_to_its_files_alone(words: str):
    assert naming(words) == INSTRUCTIONS[words]


@pytest.mark.parametrize("words", STATEMENTS)
def test_a_statement_is_known_to_its_stages_alone(words: str):
    found = naming(words) - STATEMENTS[words]
    assert {stage(name) for name in found} == {ROW, CHECK, MACHINE, LOWERING}
    assert {name for name in found if name.startswith("_compiler/ir/")} == {"_compiler/ir/effects.py", "_compiler/ir/acts.py"}
