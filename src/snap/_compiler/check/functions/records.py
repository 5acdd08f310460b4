"""Give a function its records: an argument for each field, and a variable for each field of the result.

Input: the arguments of a call by the names that the function's author wrote.  Output: those by the names that its tree
has, the record that holds the result, and statements right before and behind the call.  Invariant: a record that is
given by reference is not given twice, so that copying it in and out is what a reference means.  Non-goals: whether a
field fits its parameter (check/functions/arguments.py).
"""

from __future__ import annotations

import dataclasses

from snap._compiler.check.core import convert
from snap._compiler.check.core.annotations import record_of
from snap._compiler.check.core.bindings import Memory, Variable
from snap._compiler.check.core.dispatch import expression
from snap._compiler.check.core.operands import kept
from snap._compiler.check.core.records import RecordLeaf, RecordName, RecordType, indices_of
from snap._compiler.check.core.specs import SpecKind
from snap._compiler.check.core.state import Checker, Want
from snap._compiler.check.functions.signatures import Header
from snap._compiler.check.memory.records import RecordPlace, leaf_tree, place, taken
from snap._compiler.check.memory.storage import LocalArray, storage
from snap._compiler.check.operations.assignable import target_of
from snap._compiler.check.operations.expressions import has_effect
from snap._compiler.check.operations.record_types import type_of
from snap._compiler.check.operations.records import hold, settled, values
from snap._compiler.frontend import tree
from snap._compiler.frontend.definition import Definition
from snap._compiler.frontend.records import RecordParameter
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.types import I32, Array, Privilege
from snap.diag.error import Label
from snap.diag.span import Span
from snap.record import replace


def as_written(definition: Definition) -> Definition:
    """The function with the parameters that its author wrote."""
    if definition.records is None:
        return definition
    return dataclasses.replace(definition, tree=replace(definition.tree, params=definition.records.written))


def fields_given(
    c: Checker, header: Header, given: dict[str, tree.Expr], span: Span
) -> tuple[dict[str, tree.Expr], RecordName | None, list[ir.Stmt], list[ir.Stmt]]:
    """The arguments of a call, field by field; what holds the result; what copies references, and copies them back."""
    call = _CallByField(c, header, span)
    for name, e in given.items():
        call.take(name, e)
    return call.flat, call.result(), call.before, call.after


class _CallByField:
    def __init__(self, c: Checker, header: Header, span: Span):
        assert header.definition.records is not None
        self.c, self.header, self.span, self.records = c, header, span, header.definition.records
        self.flat: dict[str, tree.Expr] = {}
        self.before: list[ir.Stmt] = []  # when all arguments are evaluated: they may change what is given by reference
        self.after: list[ir.Stmt] = []
        self.referred: list[RecordPlace] = []
        self.specs = {p.name: p for p in header.params}

    @property
    def name(self) -> str:
        return self.header.definition.tree.name

    def take(self, name: str, e: tree.Expr) -> None:
        p = self.records.of(name)
        if p is None:
            self.flat[name] = e
            return
        c, standing = self.c, list[tuple[str, ir.Expr]]()
        if has_effect(c, e):
            self._earlier()
            standing = self._standing()
        mark, e = len(c.out), taken(c, e)
        type = record_of(c, p.shape, e.span)
        if p.rank:
            self._array(p, type, e)
        elif p.by_reference:
            self._by_reference(p, type, e)
        else:
            self._by_value(p, type, e)
        self._keep(mark, standing)

    def _at(self, p: RecordParameter, type: RecordType) -> Privilege:
        return self.specs[f"{p.name}.{type.leaves[0].path}"].privilege

    def _earlier(self) -> None:
        """Evaluate what is written before a call now, before it."""
        for name, e in self.flat.items():
            spec = self.specs[name]
            if isinstance(e, (tree.Name, tree.Number, tree.Known)) or spec.spec.kind is not SpecKind.VALUE:
                continue
            if isinstance(spec.spec.type, Array):
                continue
            value = expression(self.c, e, self._want(name))
            if not isinstance(value, ir.Const):
                kept = self.c.remembered("before", convert.settled(value), spec.privilege)
                self.flat[name] = tree.Known(Variable(kept.var), "before", span=e.span)

    def _want(self, name: str) -> Want:
        spec = self.specs[name]
        why = f"`{name}` of `{self.name}` is one value for `{spec.privilege}`"
        return Want(spec.privilege, why, spec.span, code="SNAP015")

    def _standing(self) -> list[tuple[str, ir.Expr]]:
        """Read the variables that are given by value so far: the fields of a record, too, and whole arrays."""
        found: list[tuple[str, ir.Expr]] = []
        for name, e in self.flat.items():
            spec = self.specs[name].spec
            if spec.kind is not SpecKind.VALUE:
                continue
            if not isinstance(spec.type, Array):
                found += [(name, expression(self.c, e, self._want(name)))] if isinstance(e, tree.Name) else []
            elif isinstance(array := storage(self.c, e), LocalArray):
                found.append((name, ir.ArrayValue(array.ref, Array(array.ref.elem, array.ref.shape), span=e.span)))
        return found

    def _keep(self, mark: int, standing: list[tuple[str, ir.Expr]]) -> None:
        """Give what those held before the argument that was evaluated since then, where it changes them."""
        c = self.c
        values = kept(c, mark, *((value, self.specs[name].privilege) for name, value in standing))
        for (name, before), value in zip(standing, values):
            if value is not before:
                assert isinstance(value, (ir.Read, ir.ArrayValue))
                var = value.array.var if isinstance(value, ir.ArrayValue) else value.var
                own = f"before {c.program.uid()}"
                c.bind(own, Variable(var))
                self.flat[name] = tree.Name(own, span=before.span)

    def _fields(self, p: RecordParameter, type: RecordType, at: RecordPlace) -> None:
        for leaf in type.leaves:
            self.flat[f"{p.name}.{leaf.path}"] = leaf_tree(self.c, at, leaf.path, ())

    def _by_value(self, p: RecordParameter, type: RecordType, e: tree.Expr) -> None:
        c, q = self.c, self._at(p, type)
        at = place(c, e) if type_of(c, e) == type and isinstance(e, (tree.Name, tree.Attribute, tree.Known)) else None
        if at is None or isinstance(at.root, Memory):
            what = f"`{p.name}` of `{self.name}`"
            want = Want(
                q, f"{what} is one value for `{q}`", self.specs[f"{p.name}.{type.leaves[0].path}"].span, code="SNAP015"
            )
            made = hold(c, type, values(c, e, want, type, what), q, "given", e.span)
            at = RecordPlace(made, type, "", (), e.span)
        self._fields(p, type, at)

    def _array(self, p: RecordParameter, type: RecordType, e: tree.Expr) -> None:
        at = place(self.c, e)
        if at is None or at.type != type or not isinstance(at.root, RecordName) or at.rank != p.rank or at.index:
            raise self.c.type_error(
                f"`{p.name}` of `{self.name}` takes an array of `{type}`",
                e.span,
                help=f"declare one, `a: {type}[4]`, and pass it whole: `{self.name}(a)`",
            )
        for leaf in type.leaves:
            self.flat[f"{p.name}.{leaf.path}"] = tree.Name(f"{at.name}.{leaf.path}", span=e.span)

    def _by_reference(self, p: RecordParameter, type: RecordType, e: tree.Expr) -> None:
        c, at = self.c, place(self.c, e)
        if at is None or at.type != type or isinstance(at.root, Memory) or len(at.index) < at.rank:
            raise c.type_error(
                f"`{p.name}` of `{self.name}` takes a `{type}` by reference, which lies in registers",
                e.span,
                help=f"declare one, `w: {type} = ...`, and pass it: `{self.name}(w)`; memory is read into it first",
            )
        twice = next((other for other in self.referred if not _apart(at, other)), None)
        if twice is not None:
            raise c.fail(
                "SNAP015",
                f"`{at.spelled}` is passed twice, to be written",
                e.span,
                "a second time",
                (Label(twice.span, "the first time"),),
                note="the function could not tell that the two are the same record",
                help="pass it once",
            )
        self.referred.append(at)
        at = settled(c, at, Want(self._at(p, type), "chooses a record"), written=True)
        for leaf in type.leaves:
            self.flat[f"{p.name}.{leaf.path}"] = self._reference(at, leaf, e.span)

    def _reference(self, at: RecordPlace, leaf: RecordLeaf, span: Span) -> tree.Expr:
        c, one = self.c, leaf_tree(self.c, at, leaf.path, ())
        if (
            isinstance(one, tree.Name)
            and isinstance(found := c.lookup(one.id), Variable)
            and isinstance(found.var.type, Array)
        ):
            return one
        if isinstance(one, tree.Subscript) and at.root.by_reference and not at.rank:  # type: ignore[union-attr]
            return one.value
        type = leaf.type if isinstance(leaf.type, Array) else Array(leaf.type, (1,))
        values: list[ir.Expr] = []
        held: ir.Var | None = None
        for k, index in enumerate(indices_of(leaf.shape)):
            numbers = tuple(tree.Number(n, span=span) for n in index)
            target, _, p = target_of(c, leaf_tree(c, at, leaf.path, numbers))
            held = held or c.temp(f"{at.spelled}.{leaf.path}", type, p, span)
            values.append(expression(c, leaf_tree(c, at, leaf.path, numbers), Want(p, "is given by reference")))
            flat = ir.ArrayRef(held, type.elem, (type.size,))
            back = ir.Elem(flat, (ir.Const(k, I32, span=span),), type.elem, span=span)
            self.after.append(ir.Assign(target, back, span=span))
        assert held is not None
        self.before.append(ir.Declare(held, ir.MakeVector(tuple(values), type, span=span), span=span))
        name = f"reference {c.program.uid()}"
        c.bind(name, Variable(held))
        return tree.Name(name, span=span)

    def result(self) -> RecordName | None:
        result = self.records.result
        if result is None:
            return None
        c, span = self.c, self.span
        type = record_of(c, result.shape, span)
        made = RecordName(type, f"{self.name} {c.program.uid()}", span, by_reference=True)
        p = self._at(result, type)
        for leaf in type.leaves:
            of = leaf.type if isinstance(leaf.type, Array) else Array(leaf.type, (1,))
            var = c.temp(f"{self.name}.{leaf.path}", of, p, span)
            c.out.append(ir.Declare(var, None, zero=True, span=span))
            c.bind(f"{made.name}.{leaf.path}", Variable(var))
            self.flat[f"{result.name}.{leaf.path}"] = tree.Name(f"{made.name}.{leaf.path}", span=span)
        return made


def _apart(a: RecordPlace, b: RecordPlace) -> bool:
    """Decide whether two records have no field in common, as their names and constants show."""
    if a.root is not b.root:
        return True
    inside = f"{a.path}.".startswith(f"{b.path}.") or f"{b.path}.".startswith(f"{a.path}.") or not a.path or not b.path
    numbers = zip(a.index, b.index)
    differ = any(isinstance(i, tree.Number) and isinstance(j, tree.Number) and i.value != j.value for i, j in numbers)
    return differ or not inside
