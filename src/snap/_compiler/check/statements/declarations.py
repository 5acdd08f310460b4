"""Declare memory by an assignment: `a, b = shared(float[64]), shared(int[64])`, `x, sum = registers(float[4], 0.0)`.

Input: the tree of an assignment whose right side makes memory.  Output: `Declare` in `c.out`, and the declarations it
stands for, one a name.  Invariant: the names are new; first values are evaluated before the names are there.
Non-goals: whether the memory can be declared here (check/statements/assignments.py).
"""

from __future__ import annotations

from snap._compiler.check.core.bindings import Poison, Variable
from snap._compiler.check.core.fragments import FRAGMENTS
from snap._compiler.check.core.lookups import declares_memory, is_word, names_for, new_names
from snap._compiler.check.core.names import as_type, resolve, word_called
from snap._compiler.check.core.state import Checker
from snap._compiler.check.statements.assignments import declare
from snap._compiler.check.statements.several import assign_several
from snap._compiler.frontend import tree
from snap._compiler.frontend.forms import FormPlace, privilege_node
from snap._compiler.ir.types import THREAD1

EXAMPLE = "`a, b = shared(float[64]), shared(int[64])`, or `x, sum = registers(float[4], 0.0)`"


def declarations(c: Checker, s: tree.Assign) -> tree.Body:
    """Declares what the assignment names.  Output: the declarations it stands for, one for each name."""
    names = new_names(c, s, EXAMPLE)
    for name, span in names:
        if not isinstance(c.lookup(name) or Poison(), Poison):
            raise c.type_error(f"`{name}` is declared already", span, help=f"choose another name: {EXAMPLE}")
    place, mark = FormPlace(s.span, s.value), len(c.out)
    made: list[tree.Declare] = []
    first: list[tuple[int, tree.Expr]] = []  # registers that begin with a value
    for k, ((name, span), (e, in_registers)) in enumerate(zip(names, _made(c, s, len(names)))):
        if in_registers and not _is_type(c, e):
            first.append((k, e))
        elif in_registers:
            e = tree.Binary("@", e, privilege_node(THREAD1, place), span=e.span)
        made.append(tree.Declare(name, e, None, span, span=s.span))
    if first:
        targets = tuple(tree.Name(*names[k][:1], span=names[k][1]) for k, _ in first)
        given = tree.Sequence(tuple(e for _, e in first), span=s.value.span)
        values = assign_several(c, tree.Assign(tree.Sequence(targets, span=s.target.span), given, span=s.span), THREAD1)
        for (k, e), value in zip(first, values):
            type = tree.Known(value.type, str(value.type), span=e.span)
            annotation = tree.Binary("@", type, privilege_node(THREAD1, place), span=e.span)
            made[k] = tree.Declare(made[k].name, annotation, e, made[k].name_span, span=s.span)
    valued = c.out[mark:]
    if len(valued) == len(first):  # nothing but the declarations: all of them stand in the order of the names
        del c.out[mark:]
    at = {k: one for (k, _), one in zip(first, valued)} if len(valued) == len(first) else {}
    for k, one in enumerate(made):
        if k in at:
            c.out.append(at[k])
        elif one.value is None:
            declare(c, one)
    return tuple(made)


def _made(c: Checker, s: tree.Assign, names: int) -> list[tuple[tree.Expr, bool]]:
    """List what is made for each name: a type or a first value, and whether it lies in registers."""
    several, items = (True, s.value.items) if isinstance(s.value, tree.Sequence) else (False, (s.value,))
    found: list[tuple[tree.Expr, bool]] = []
    for e in items:
        if not declares_memory(c, e) or not isinstance(e, tree.Call):
            raise c.type_error(
                "memory is declared here, and this is not memory", e.span, help=f"declare it apart: {EXAMPLE}"
            )
        if not is_word(c, e, "registers"):
            found.append((e, False))
        elif e.keywords or not e.args or several and len(e.args) > 1:
            raise c.type_error("`registers` takes a type or a first value for each name", e.span, help=EXAMPLE)
        else:
            found += ((given, True) for given in e.args)
    if len(found) != names:
        raise c.type_error(names_for(names, len(found), "declaration"), s.span, help=EXAMPLE)
    return found


def _is_type(c: Checker, e: tree.Expr) -> bool:
    named = e.value if isinstance(e, tree.Subscript) else e
    if word_called(c, named) in FRAGMENTS:
        return True
    if isinstance(named, tree.Name) and isinstance(c.lookup(named.id), Variable):
        return False
    return isinstance(named, (tree.Name, tree.Attribute)) and as_type(resolve(c, named)) is not None
