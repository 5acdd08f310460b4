"""The numbers of the hardware stand in one table (`_compiler/ir/hardware.py`): where the compiler writes one of them out, it means something else, and says so here."""

from __future__ import annotations

import ast
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "src" / "snap"
FOLDERS = ("_compiler/ir", "_compiler/analysis", "_compiler/walk", "_compiler/check", "_compiler/sync", "prove", "_compiler/codegen", "machine", "host", "_tune", "cli")
# Threads of a warp and of a warpgroup, of a block and of an SM; registers of an SM and of a thread; shared memory of a block and of an SM.
NUMBERS = {32, 128, 1024, 2048, 65_536, 255, 232_448, 233_472, 227, 228}
BITS = "bits of a number, not threads"
CHOSEN = "a limit that we chose"
REASONS = {
    "_compiler/ir/hardware.py": "the table",
    **dict.fromkeys(("_compiler/ir/types.py", "_compiler/check/operations/arithmetic.py", "_compiler/check/core/convert.py", "_compiler/check/operations/intrinsics.py", "_compiler/sync/conflicts/loops.py", "_compiler/analysis/evaluate.py"), BITS),
    **dict.fromkeys(("_compiler/codegen/values/arithmetic.py", "_compiler/codegen/memory/atomics.py", "_compiler/codegen/threads/collectives.py", "_compiler/codegen/values/mathematics.py", "_compiler/codegen/threads/unsafe.py"), BITS),
    **dict.fromkeys(("machine/lanes/matrix.py", "machine/lanes/numbers.py", "cli/arguments.py", "_compiler/ir/printed.py"), BITS),
    **dict.fromkeys(("prove/order/reach.py", "prove/replay.py", "_compiler/walk/where.py", "machine/flight/flights.py"), CHOSEN),
    **dict.fromkeys(("host/arguments/byname.py", "host/plan/conditions.py", "host/plan/generic.py", "host/launch.py", "_tune/clock.py", "_tune/limits.py"), CHOSEN),
    "_compiler/codegen/threads/decisions.py": "words and bytes of a place in memory that we laid out",
    "host/device/gpu.py": "a byte in a structure of the driver's",
}


def written_out(file: Path) -> list[int]:
    """The numbers in a file that the hardware has, too.  Texts are read with their holes: a number in words is not found."""
    nodes = ast.walk(ast.parse(file.read_text(encoding="utf-8")))
    return [node.lineno for node in nodes if isinstance(node, ast.Constant) and type(node.value) is int and node.value in NUMBERS]


def test_the_hardwares_numbers_stand_in_their_table():
    files = {str(file.relative_to(SOURCE)): written_out(file) for folder in FOLDERS for file in sorted((SOURCE / folder).rglob("*.py"))}
    assert {name: lines for name, lines in files.items() if lines and name not in REASONS} == {}
    assert {name for name in REASONS if not files[name]} == set(), "reasons that are not needed"
