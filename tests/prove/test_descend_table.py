"""The table "Descend in Snap" of docs/paper.md, row by row: a program that is proved, and one that is refused by the checker, a proof, or a launch."""

from __future__ import annotations

import textwrap
from pathlib import Path

import numpy as np
import pytest
from check.checking import execute, program

from snap.host.errors import LaunchError

PAGE = Path(__file__).resolve().parents[2] / "docs" / "paper.md"


def rows() -> list[str]:
    """The left column."""
    table = PAGE.read_text().split("| in Descend | here |\n|---|---|\n")[1].split("\n\n")[0]
    return [line.split(" | ")[0].removeprefix("| ") for line in table.splitlines()]


def kernel(body: str, params: str = "x: ptr(float)", options: str = "blocks=1, where=lambda x: len(x) >= 64", threads: int = 64) -> str:
    return f"@kernel(threads={threads}, {options})\ndef k({params}):\n" + textwrap.indent(textwrap.dedent(body).strip("\n"), "    ") + "\n"


def by_view(view: str, body: str = "own[0] = 1.0", array: str = "float, (64,)", threads: int = 64) -> str:
    return kernel(f"with partition(x, p=thread[1], view={view}) as own, group(thread[1]):\n    {body}", f"x: ptr({array})", "blocks=1", threads)


TWO = """
with partition(x, p=block[1], view=views.chunks(64)) as all, group(block[1]):
    with partition(all, p=block[1], view=views.split_at(32){more}) as (a, b):
        with partition(a, p=thread[1], view=views.chunks(1)) as own, partition(b, p=thread[1], view=views.chunks(1)) as other, group(thread[1]):
            own[0] = 1.0
            other[0] = 2.0
"""

# By row: what is proved; what is refused, and how: a code of the checker, "proof" or "launch".
CASES: dict[str, tuple[str, str, str]] = {
    "execution resources, `sched(X) block in grid`": (
        kernel("with each(block, x), each(thread, x) as t:\n    x[t] = 1.0"),
        kernel("with group(thread[1]), group(block[1]):\n    pass"),
        "SNAP001",
    ),
    "`split(X) block.threads at k`": (
        kernel("with partition(x, p=thread[1], view=views.chunks(1)) as own, group(block[1]):\n    match split(thread):\n        case 32:\n            own[0] = 1.0\n        case 32:\n            own[0] = 2.0"),
        kernel("with group(block[1]):\n    match split(thread):\n        case 32:\n            intrinsic.syncthreads()\n        case _:\n            pass"),
        "SNAP016",
    ),
    "select, `p[[thread]]`": (by_view("views.chunks(1)"), by_view("views.chunks(2)[0]"), "proof"),
    "`group::<k>`": (by_view("views.chunks(2)", "own[1] = 1.0", threads=32), by_view("views.chunks(3)", "own[1] = 1.0", threads=32), "SNAP028"),
    "`transpose`, `reverse`, `map(v)`": (
        by_view("views.transposed() >> views.mapped(views.backwards())", array="float, (8, 64)"),
        by_view("views.transposed()", array="float, (64,)"),
        "SNAP028",
    ),
    "`take_left::<k>`, `take_right::<k>`": (by_view("views.upto(32) >> views.chunks(1)", threads=32), by_view("views.after(96) >> views.chunks(1)"), "SNAP028"),
    "two parts of one array": (
        kernel(TWO.format(more=""), "x: ptr(float, (64,))", "blocks=1", 32),
        kernel(TWO.format(more=" >> views.joined()"), "x: ptr(float, (64,))", "blocks=1", 32),
        "SNAP028",
    ),
    "`group_by_tile::<m, n>`, `group_by_row`": (
        by_view("views.tiles(2, 2)", "own[1, 1] = 1.0", "float, (16, 16)"),
        by_view("views.tiles(3, 2)", "own[1, 1] = 1.0", "float, (16, 16)"),
        "SNAP028",
    ),
    "(not there)": (
        by_view("views.interleaved(32)", "own[1] = 1.0", threads=32),
        by_view("views.windows(2, 1)", "own[1] = 1.0", threads=32),
        "SNAP028",
    ),
    "views are injective by construction": (
        by_view("views.banded(2) >> views.chunks(4)", "own[3] = 1.0", "float, (16, 16)"),
        kernel("with each(block, x) as b, each(thread, x) as t:\n    x[t / 2 * by] = 1.0", "x: ptr(float), by: int", "blocks=1, where=lambda x, by: (0 <= by <= 2, len(x) >= 64)"),
        "proof",
    ),
    "place expressions": (
        kernel("with partition(x, p=block[1], view=views.chunks(64)) as part, group(block[1]):\n    with partition(part, p=thread[1], view=views.chunks(1)) as own, group(thread[1]):\n        own[0] = 1.0", options="where=lambda x, blocks: (len(x) >= 64 * blocks, blocks <= 2**20)"),
        kernel("with partition(x, p=block[1], view=views.chunks(64)) as part, group(block[1]):\n    with partition(part, p=thread[1], view=views.chunks(1)) as own, group(thread[1]):\n        own[0] = part[0]", options="where=lambda x, blocks: (len(x) >= 64 * blocks, blocks <= 2**20)"),
        "SNAP010",
    ),
    "narrowing": (
        kernel("with each(block, x) as b, each(thread, x) as t:\n    x[64 * b + t] = 1.0", options="where=lambda x, blocks: (len(x) >= 64 * blocks, blocks <= 2**20)"),
        kernel("with each(block, x) as b, each(thread, x) as t:\n    x[t] = 1.0", options="where=lambda x: len(x) >= 64"),
        "proof",
    ),
    "`&uniq` and `&shrd` borrows": (
        kernel("with each(thread, x) as t:\n    x[t] = y[63 - t]", "x: ptr(float), y: ptr(const(float))", "blocks=1, where=lambda x, y: (len(x) >= 64, len(y) >= 64)"),
        kernel("with each(thread) as t:\n    x[t] = 1.0"),
        "SNAP009",
    ),
    "aliasing, lifetimes": (
        kernel("with each(thread, x) as t:\n    x[t] = y[t]", "x: ptr(float), y: ptr(const(float))", "blocks=1, where=lambda x, y: (len(x) >= 64, len(y) >= 64)"),
        kernel("with each(thread, x) as t:\n    x[t] = y[63 - t]", "x: ptr(float), y: ptr(const(float))", "blocks=1"),
        "launch: overlap",
    ),
    "`sync`": (
        kernel("with each(block, x):\n    s: shared(float[64])\n    with each(thread, s) as t:\n        s[t] = 1.0\n    with each(thread, x) as t:\n        x[t] = s[63 - t]"),
        kernel("with each(block, x):\n    t: int @ thread[1] = id()\n    if t < 32:\n        intrinsic.syncthreads()"),
        "SNAP006",
    ),
    "`unsafe`": (
        kernel("with each(thread, x) as t:\n    j: int = at[t]\n    assert 0 <= j < 64\n    with trust(\"no two are equal\"):\n        x[j] = 1.0", "x: ptr(float), at: ptr(const(int))", "blocks=1, where=lambda x, at: (len(x) >= 64, len(at) >= 64)"),
        "@device(thread)\ndef write(x: ptr(float)):\n    unsafe.cuda(\"{x}[0] = 1.0f\", x=x)\n\n" + kernel("with each(thread, x):\n    write(x)"),
        "proof",
    ),
    "atomics": (
        kernel("with each(thread) as t:\n    atomic.add(x, 0, 1.0)"),
        kernel("with each(thread, x) as t:\n    atomic.add(x, 0, 1.0)\n    x[t] = 1.0"),
        "proof",
    ),
    "`gpu.global`, `gpu.shared`, `cpu.mem`": (
        kernel("with each(block, x):\n    s: shared(float[64])\n    with each(thread, s, x) as t:\n        s[t] = 1.0\n        x[t] = s[t]"),
        kernel("with each(thread, x) as t:\n    x[t] = 1.0"),
        "launch: in the CPU's memory",
    ),
    "the grid in a function's type, sizes as naturals": (
        kernel("with each(thread, x) as t:\n    x[t] = 1.0", "x: ptr(float, (n,)), n: int", "where=lambda n, blocks: (n == 64 * blocks, blocks <= 2**20)"),
        kernel("with each(thread, x) as t:\n    x[t] = 1.0", "x: ptr(float, (n,)), n: int", "where=lambda n, blocks: (n == 64 * blocks, blocks <= 2**20)"),
        "launch: 64 \\* blocks",
    ),
    "divisibility of sizes": (
        kernel("with partition(x, p=thread[1], view=views.chunks(2)) as own, group(thread[1]):\n    own[1] = 1.0", "x: ptr(float, (n,)), n: int", "where=lambda n, blocks: (n % 2 == 0, n >= 128 * blocks, blocks <= 2**20)"),
        by_view("views.chunks(3)"),
        "SNAP028",
    ),
}


def test_every_row_has_its_case():
    assert rows() == list(CASES), [row for row in (*rows(), *CASES) if row not in CASES or row not in rows()]


@pytest.mark.parametrize("row", CASES)
def test_proved(row):
    pytest.importorskip("z3"), pytest.importorskip("islpy")
    found = execute(CASES[row][0])["k"].prove(["races"])
    assert found.verdict == "proved", found.render()


def overlapping(k):
    memory = np.zeros(96, np.float32)
    k(memory[:64], memory[32:])


LAUNCHES = {
    "overlap": overlapping,
    "in the CPU's memory": lambda k: k.launch(np.zeros(64, np.float32), blocks=1, target="gpu"),
    "64 \\* blocks": lambda k: k[8](np.zeros(64, np.float32), 64),
}


@pytest.mark.parametrize("row", CASES)
def test_refused(row):
    _, text, how = CASES[row]
    if how == "proof":
        pytest.importorskip("z3"), pytest.importorskip("islpy")
        found = execute(text)["k"].prove(["races"])
        assert found.verdict != "proved" and any(o.kind in ("races", "bounds") for o in found.open), found.render()
    elif how.startswith("launch: "):
        with pytest.raises(LaunchError, match=how.removeprefix("launch: ")):
            LAUNCHES[how.removeprefix("launch: ")](execute(text)["k"])
    else:
        found = program(text)
        assert found and found[0][0] == how, found
