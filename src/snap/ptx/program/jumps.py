"""Check what control instructions name: labels and tables of them, which no other instruction may name.

Input: an instruction as it stands in the text, and its operands when names have been looked up (labels: `Code`).
Output: a `PtxError` with its place for what no control-flow graph could be made of.  Rules (PTX ISA, "Control Flow
Instructions"), where label(x) says that x is a label of the function:

  bra x                    label(x)
  brx.idx i, t             t is a table, `.branchtargets` of this function, and i a register
  call ..., t              t may be a table, `.calltargets`, or a prototype, and is the last operand
  any other instruction    none of its operands is a label or a table, or has one in it

Non-goals: operands of calls, whose functions may stand further down; types.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from snap.ptx.errors import PtxError
from snap.ptx.text import tree

Labels = Callable[[str], bool]


def check(s: tree.Instruction, is_label: Labels, table: Callable[[str], str]) -> None:
    """Refuse a branch without its label, and a label that is given to anything else."""
    name, operands = s.operation[0], s.operands
    if name == "bra":
        if len(operands) != 1 or not (isinstance(operands[0], tree.Name) and is_label(operands[0].name)):
            raise PtxError("PTX002", f"`{s.name}` takes one label of this function", s.span, "and this is none")
        return
    if name == "brx":
        index, targets = (*operands, None, None)[:2]
        fits = len(operands) == 2 and isinstance(index, tree.Name) and not is_label(index.name)
        if not (fits and isinstance(targets, tree.Name) and table(targets.name) == "labels"):
            raise PtxError(
                "PTX002",
                f"`{s.name}` takes a register and a table of labels",
                s.span,
                "and these are others",
                help="declare the table before it: `targets: .branchtargets first, second;`",
            )
        return
    for found in names(operands[: -1 if name == "call" else None]):
        kind = "a label" if is_label(found.name) else "a table" if table(found.name) else ""
        if kind:
            raise PtxError(
                "PTX002", f"`{found.name}` is {kind}, which `{s.name}` does not take", found.span, "given here"
            )
    for found in names(operands[-1:] if name == "call" else ()):
        if is_label(found.name) or table(found.name) == "labels":
            what = "label" if is_label(found.name) else "table of labels"
            raise PtxError("PTX002", f"`{s.name}` takes a function, and no {what}", s.span, "given here")


def names(operands: tuple[tree.Operand, ...]) -> Iterator[tree.Name]:
    """All names in some operands, those inside of vectors and addresses, too."""
    for o in operands:
        match o:
            case tree.Name():
                yield o
            case tree.Sum(name, _, span) | tree.Element(name, _, span):
                yield tree.Name(name, span)
            case tree.Vector(items) | tree.Arguments(items) | tree.Address(items):
                yield from names(items)
            case tree.Pair(first, second):
                yield from names((first, second))
            case tree.Not(inner):
                yield from names((inner,))
