"""Writes the table of passes and the grammar of the IR into docs/system.md, and the grammar to the head of
`src/snap/_compiler/ir/nodes.py`: what the pages say is what the compiler's records are.
"""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from types import FunctionType
from typing import get_args

from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap._compiler.passes import PASSES

PAGE = Path(__file__).with_name("system.md")
NODES = Path(__file__).parents[1] / "src" / "snap" / "_compiler" / "ir" / "nodes.py"
WIDTH = 112
UNTOLD = ("span", "number")  # every node has them

# What a field holds, by its annotation: the name of the sort in the grammar.
SORTS = {"Expr": "expr", "Body": "stmt*", "Target": "target", "Param": "param", "bool": "bool", "int": "int", "str": "str"}
RULES: tuple[tuple[str, tuple[type, ...]], ...] = (
    ("function", (ir.Function, synced.Function)),
    ("param", get_args(ir.Param)),
    ("stmt", (*get_args(ir.Plain), *get_args(ir.Opening), *get_args(ir.Acting))),
    ("inserted", get_args(synced.OnlySynced)),
    ("case", (ir.Case,)),
    ("expr", get_args(ir.Expr)),
    ("target", get_args(ir.Target)),
    ("memory", (ir.MemObject, ir.Handle, ir.MemView, ir.MemAccess, ir.Tile, ir.ArrayRef, ir.Table, synced.MBarrier)),
    ("variable", (ir.Var,)),
)


def sort(annotation: str) -> str:
    """`tuple[Expr, ...] | None` as `expr*?`."""
    kind = annotation.removesuffix(" | None")
    asked = "?" if kind != annotation else ""
    several = re.fullmatch(r"tuple\[(.*), \.\.\.\]", kind)
    if several:
        return f"{sort(several.group(1))}*{asked}"
    return SORTS.get(kind.removeprefix("ir."), kind.removeprefix("ir.").replace(" | ", "|").lower()) + asked


def annotations(cls: type) -> dict[str, str]:
    found: dict[str, str] = {}
    for one in reversed(cls.__mro__):
        found |= getattr(one, "__annotations__", {})
    return found


def node(cls: type, inherits: type | None = None) -> str:
    said = annotations(cls)
    named = [name for name in cls._declared if name not in UNTOLD]
    own = [name for name in named if inherits is None or name not in inherits._declared]
    fields = ", ".join(f"{sort(said[name])} {name}" if sort(said[name]) != name else name for name in own)
    return f"{cls.__name__}({'...' * (inherits is not None)}{', ' * bool(inherits is not None and fields)}{fields})"


def written(cls: type, rule: str) -> str:
    """A node; of one that stands on another node of the grammar, what it adds."""
    base = cls.__mro__[1]
    if base in (ir.BoxCopy, ir.Wgmma):
        return node(cls, base).replace("(...", f"({base.__name__}...")
    if rule == "function":
        return node(cls, ir.AnyFunction).replace("(...", "(Any...")
    return node(cls)


def grammar() -> str:
    lines = []
    for name, classes in (("any", (ir.AnyFunction,)), *RULES):
        nodes = [written(cls, name) for cls in classes]
        kept = (node.replace(" ", "~") if len(node) <= WIDTH - 15 else node for node in nodes)  # a node stays in one line
        text = " | ".join(kept).replace(" | ", " |~")
        wrapped = textwrap.wrap(text.replace(" |~", " |~"), WIDTH - 11, break_long_words=False, break_on_hyphens=False)
        lines += [f"{name if k == 0 else '':8} {'=' if k == 0 else ' '} {line}".rstrip() for k, line in enumerate(wrapped)]
    return "\n".join(lines).replace("~", " ")


def type_name(t: type) -> str:
    if t in (ir.Function, synced.Function):
        return f"`{'ir' if t is ir.Function else 'synced'}.Function`"
    return f"`{'FunctionType' if t is FunctionType else t.__name__}`"


def table() -> str:
    rows = ["| pass | what it does | from | to | may refuse with |", "|---|---|---|---|---|"]
    for one in PASSES:
        refuses = codes(one.refuses)
        cells = (one.name, one.does, type_name(one.takes), type_name(one.gives))
        rows.append(f"| {' | '.join(cells)} | {refuses}{' ' * bool(refuses)}|")
    return "\n".join(rows)


def codes(refuses: tuple[str, ...]) -> str:
    """Codes in a row as `SNAP001 to SNAP021`."""
    runs: list[list[int]] = []
    for number in (int(code.removeprefix("SNAP")) for code in refuses):
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    ends = (run if len(run) < 3 else [run[0], 0, run[-1]] for run in runs)
    return ", ".join(", ".join(f"SNAP{n:03}" for n in run).replace(", SNAP000, ", " to ") for run in ends)


def page(text: str) -> str:
    """docs/system.md with what is printed in it."""
    text = re.sub(r"(### The passes\n.*?\n\n)\|.*?(?=\n\n)", lambda m: m.group(1) + table(), text, count=1, flags=re.DOTALL)
    return re.sub(r"(### The grammar of the IR\n.*?\n\n```\n).*?(?=\n```)", lambda m: m.group(1) + grammar(), text, count=1, flags=re.DOTALL)


def nodes(text: str) -> str:
    """ir/nodes.py with the grammar at its head."""
    said = textwrap.indent(grammar(), "    ")
    return re.sub(r"(\*Grammar\.\*.*?\n\n).*?(?=\n\n\*)", lambda m: m.group(1) + said, text, count=1, flags=re.DOTALL)


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
    NODES.write_text(nodes(NODES.read_text()))
