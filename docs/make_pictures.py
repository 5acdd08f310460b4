"""Draw the pictures of the documentation, `docs/pictures/*.svg`, from what the compiler and the machine themselves say.

Input:      the levels of the language and its short forms; the kernel in `tests/ok/block_sums.py`, as `snap explain`
            annotates it; the graph of the GEMM in `tests/ok/hgemm.py`; the machine's layout of a wgmma accumulator
Output:     `python docs/make_pictures.py` writes the files; `pictures()` returns their texts, which a test compares
Invariant:  the same compiler makes the same pictures
Non-goals:  the charts of docs/performance.md, which docs/make_performance.py draws
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from xml.sax.saxutils import escape

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "pictures"
COLORS = {"grid": "#d0ebff", "cluster": "#e5dbff", "block": "#d3f9d8", "thread[32]": "#fff3bf", "thread[1]": "#f1f3f5"}
CHARACTER = 7.3  # pixels, of a monospaced font of 12

# From high to low: privilege, what CUDA calls it, the memory that is declared or used there, what it waits with.
LEVELS = (
    ("grid[1]", "grid: the kernel's launch", "global memory: pointers", "cooperative: grid barrier"),
    ("cluster[1]", "thread block cluster (sm_90)", "distributed shared memory: across=, copies=", "barrier.cluster"),
    ("block[1]", "thread block (CTA)", "shared memory: shared(...), pipeline(...)", "__syncthreads"),
    ("thread[128] = warpgroup[1]", "warpgroup (sm_90): wgmma", "claimed or partitioned shared memory", "bar.sync n"),
    ("thread[32] = warp[1]", "warp: shuffles, votes, mma", "claimed or partitioned shared memory", "__syncwarp"),
    ("thread[1]", "thread", "registers, local arrays; elements are written here", "nothing to wait for"),
)
LEVEL_COLORS = ("#d0ebff", "#e5dbff", "#d3f9d8", "#ffe8cc", "#fff3bf", "#f1f3f5")


def pictures() -> dict[str, str]:
    return {
        "hierarchy.svg": hierarchy(),
        "privileges.svg": privileges(),
        "scopes.svg": scopes(),
        "graph.svg": graph(),
        "wgmma.svg": accumulator(),
    }


def hierarchy() -> str:
    """Draw each level inside the next higher one: a group of n units of a level is `level[n]`."""
    width, row, inset = 940, 56, 16
    height = 56 + row * len(LEVELS) + inset * len(LEVELS)
    out = [_head(width, height), _text(12, 22, "Levels and privileges: level[n] is a group of n units", 14, bold=True)]
    for k, (level, cuda, memory, barrier) in enumerate(LEVELS):
        x, y = 12 + inset * k, 38 + row * k
        out.append(_box(x, y, width - 24 - 2 * inset * k, height - y - 10 - inset * k, LEVEL_COLORS[k], 8))
        out.append(_text(x + 12, y + 20, level, 13, bold=True))
        out.append(_text(x + 12, y + 38, cuda))
        out.append(_text(410, y + 20, memory))
        out.append(_text(410, y + 38, barrier, color="#c92a2a"))
    return _whole(out)


def privileges() -> str:
    """Draw a kernel's lines in the colors of who runs them, and the barrier that was inferred."""
    from snap.cli.explain import explain

    kernel = _load(ROOT / "tests" / "ok" / "block_sums.py").block_sums
    compiled = kernel._the_one({})
    [listing] = explain(compiled.typed, compiled.synced, compiled.module.entry, compiled.module.exit)
    row = 22
    width = 130 + max(len(_shown(r.text)) for r in listing.rows) * CHARACTER + 24
    height = 60 + row * len(listing.rows)
    out = [_head(width, height), _text(12, 22, "Who runs each line of a kernel", 14, bold=True)]
    for k, r in enumerate(listing.rows):
        y, barrier = 40 + row * k, r.number is None
        color = next(c for level, c in COLORS.items() if r.privilege.startswith(level))
        x = 122 + (len(r.text) - len(r.text.lstrip())) * CHARACTER
        out.append(_box(x - 6, y, width - 12 - x + 6, row, "#c92a2a" if barrier else color, 3))
        out.append(_text(12, y + 15, r.privilege, bold=barrier))
        out.append(_text(x, y + 15, _shown(r.text).strip(), color="white" if barrier else "#212529"))
    return _whole(out)


def _shown(text: str) -> str:
    """Return a barrier's line without the marks of the listing and the second half of its reason."""
    return text.replace("== ", "").split(" by a thread")[0]


# The forms that hand memory out: the code, who runs the body and what each unit is called, who owns each element, and two lines of text.
# A number is a unit; None runs nothing, or is owned by no unit.
FORMS = (
    ("with each(thread, y) as i:", "thread", (0, 1, 2, 3, 4, 5, 6, 7), "y", (0, 1, 2, 3, 4, 5, 6, 7),
     "Every thread runs the body and owns the elements it indexes.", "At the end a barrier comes if other threads need them."),
    ("with one(thread, cell):", "thread", (0, *[None] * 7), "cell", (0,),
     "The first thread runs the body alone: one result, one flag.", "The others wait only if they use `cell` later."),
    ("compute, load = roles(6, 2); with load(s):", "thread", (*[None] * 6, 1, 1), "s", (1,) * 8,
     "One part of the block runs the body and owns all of `s`;", "`with compute(s):` takes it over. mbarriers are inferred."),
    ("with each(block, C, disjoint=C) as b:", "block", (0, 1, 2, 3), "C", (0, 0, 1, 1, 2, 2, 3, 3),
     "You promise: no element of `C` is ever used by two blocks.", "No barrier is inserted for it, not even in a loop."),
)


def scopes() -> str:
    """Draw who runs the body of each short form, and who owns its memory."""
    cell, high = 40, 108
    tints = ("#a5d8ff", "#ffec99", "#b2f2bb", "#ffc9c9", "#d0bfff", "#99e9f2", "#ffd8a8", "#fcc2d7")
    out = [_head(980, 30 + high * len(FORMS)), _text(12, 22, "Who runs the body, and who owns the memory", 14, bold=True)]
    for k, (code, unit, runs, name, owners, *told) in enumerate(FORMS):
        y = 44 + high * k
        out.append(_text(12, y + 12, code, 13, bold=True))
        for row, (title, units) in enumerate(((f"{unit}s", runs), (name, owners))):
            out.append(_text(12, y + 38 + 32 * row, title))
            for i, owner in enumerate(units):
                out.append(_box(84 + i * (cell + 6), y + 22 + 32 * row, cell, 24, "#f1f3f5" if owner is None else tints[owner], 3))
                out.append(_text(98 + i * (cell + 6), y + 38 + 32 * row, f"{i}"))
        out += [_text(490, y + 38 + 32 * row, line) for row, line in enumerate(told)]
    return _whole(out)


def graph() -> str:
    """Draw what `snap explain --graph` draws."""
    from snap.cli.kernels import ChosenKernel

    return ChosenKernel(_load(ROOT / "tests" / "ok" / "hgemm.py").hgemm, {}).graph()


def accumulator() -> str:
    """Draw which thread of warp 0 holds which element of the first 16 columns; the other warps follow below."""
    from snap.machine.lanes.tensor import accumulator as layout

    rows, columns = layout(16)
    held = {(int(r), int(c)): (t, i) for i in range(8) for t, (r, c) in enumerate(zip(rows[i], columns[i]))}
    cell, line, left, top = 54, 20, 70, 74
    width, height = left + 16 * cell + 16, top + 16 * line + 66
    tints = ("#d0ebff", "#a5d8ff", "#d3f9d8", "#b2f2bb", "#fff3bf", "#ffec99", "#ffe3e3", "#ffc9c9")
    out = [
        _head(width, height),
        _text(12, 22, "acc[i] of a wgmma: which thread of the warpgroup holds which element", 14, bold=True),
        _text(12, 42, "rows 0 to 15 (warp 0) and columns 0 to 15; t0: 2 is acc[2] of thread 0"),
    ]
    for r in range(16):
        out.append(_text(12, top + r * line + 14, f"row {r}"))
        for c in range(16):
            t, i = held[r, c]
            out.append(_box(left + c * cell, top + r * line, cell, line, tints[i], 0))
            out.append(_text(left + c * cell + 6, top + r * line + 14, f"t{t}: {i}"))
    out += [_text(left + c * cell + 6, top - 8, f"col {c}") for c in range(16)]
    below = top + 16 * line
    out.append(_text(12, below + 24, "row    = 16 * (t / 32) + t % 32 / 4 + 8 * (i / 2 % 2)    (warp w: rows 16w to 16w + 15)"))
    out.append(_text(12, below + 44, "column = 8 * (i / 4) + 2 * (t % 4) + i % 2               (8 more columns for every 4 values)"))
    return _whole(out)


# ---- drawing ---------------------------------------------------------------------------------------------------------


def _head(width: float, height: float) -> str:
    size = f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"'
    white = f'<rect width="{width:.0f}" height="{height:.0f}" fill="white"/>'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="monospace">\n{white}'


def _box(x: float, y: float, width: float, height: float, fill: str, round: int) -> str:
    place = f'x="{x:.0f}" y="{y:.0f}" width="{width:.0f}" height="{height:.0f}"'
    return f'<rect {place} rx="{round}" fill="{fill}" stroke="#adb5bd"/>'


def _text(x: float, y: float, text: str, size: int = 12, *, bold: bool = False, color: str = "#212529") -> str:
    weight = ' font-weight="bold"' * bold
    return f'<text x="{x:.0f}" y="{y:.0f}" font-size="{size}" fill="{color}"{weight} xml:space="preserve">{escape(text)}</text>'


def _whole(parts: list[str]) -> str:
    return "\n".join([*parts, "</svg>", ""])


def _load(path: Path):
    spec = importlib.util.spec_from_file_location(f"pictured_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    for name, text in pictures().items():
        (FOLDER / name).write_text(text)
        print(f"docs/pictures/{name}")
