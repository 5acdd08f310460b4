"""Check declarations, assignments and returns of records.

Input: the tree of a statement.  Output: one `Declare` or `Assign` for each value of a record, in `c.out`; or the
statement with fields in terms of what there is without records.  Invariant: as in Python, the whole value is read
before the first field is written.  Non-goals: what a record's value is (check/operations/records.py).
"""

from __future__ import annotations

from snap._compiler.check.core import convert
from snap._compiler.check.core.annotations import annotation, of_values
from snap._compiler.check.core.bindings import IndexFunction, Memory, Poison, Variable
from snap._compiler.check.core.dispatch import body, expression
from snap._compiler.check.core.explain import write_up
from snap._compiler.check.core.operands import kept
from snap._compiler.check.core.records import RecordName, RecordType, elements
from snap._compiler.check.core.specs import SpecKind
from snap._compiler.check.core.state import Abort, Checker, Want
from snap._compiler.check.memory.accesses import access, writable
from snap._compiler.check.memory.records import RecordPlace, leaf_tree, place, plain, vector_of, whole_view
from snap._compiler.check.operations.assignable import target_of
from snap._compiler.check.operations.record_types import type_of
from snap._compiler.check.operations.record_words import RecordValue, as_vector
from snap._compiler.check.operations.records import hold, settled, values
from snap._compiler.check.statements.assignments import first_value, wanted_by
from snap._compiler.check.statements.several import kept_in_turn
from snap._compiler.frontend import tree
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.types import THREAD1, Array, Privilege
from snap.diag.span import Span
from snap.record import replace

Gives = tree.Declare | tree.Assign | tree.Augment


def gives_record(c: Checker, s: Gives) -> Gives | None:
    """Check a statement that is about whole records, and give None; else the statement without their fields."""
    match s:
        case tree.Declare():
            return None if declare_record(c, s) else s
        case tree.Assign(tree.Sequence(items), tree.Sequence(given)) if len(items) == len(given) and any(
            type_of(c, e) is not None for e in given
        ):
            _in_turn(c, s, items, given)
            return None
        case tree.Assign(tree.Sequence(items)):
            items = tuple(plain(c, item) or item for item in items)
            if not isinstance(s.value, tree.Sequence) and (type := type_of(c, s.value)) is not None:
                s = _dealt_out(c, s, type)
            return replace(s, target=replace(s.target, items=items))
        case tree.Assign(target, value):
            at = place(c, target)
            if at is not None and (isinstance(at.type, RecordType)):
                _assign(c, s, at, at.type)
                return None
            if at is None and isinstance(target, tree.Name) and c.lookup(target.id) is None:
                return None if _first(c, s, target) else s
            if at is None and c.records and (type := type_of(c, value)) is not None:
                name = f"`{target.id}`" if isinstance(target, tree.Name) else "this"
                raise c.type_error(f"{name} is not a record, and is given a `{type}`", s.span, help=_fields_help(type))
            return s if at is None else replace(s, target=leaf_tree(c, at, "", ()))
        case tree.Augment(target):
            at = place(c, target)
            if at is None:
                return s
            if isinstance(at.type, RecordType):
                raise c.type_error(
                    f"`{at.spelled}` is a `{at.type}`, and `{s.op}=` works on numbers",
                    s.span,
                    help=f"a function says what that means: `{at.spelled} = combined({at.spelled}, ...)`, with"
                    " `@inline` or `@device(thread)` above its `def`",
                )
            return replace(s, target=leaf_tree(c, at, "", ()))


def _in_turn(c: Checker, s: tree.Assign, items: tuple[tree.Expr, ...], given: tuple[tree.Expr, ...]) -> None:
    """`w, u = u, w`: all values, and then the targets."""
    held = tuple(_held(c, e) for e in given)
    body(c, tuple(tree.Assign(to, e, span=s.span) for to, e in zip(items, held)), False)


def _held(c: Checker, e: tree.Expr) -> tree.Expr:
    """A value that is kept while others are evaluated."""
    name = tree.Name("value", span=e.span)
    if type_of(c, e) is None and not isinstance(e, tree.Sequence):
        value, p = first_value(c, name, e, lambda want: convert.settled(expression(c, e, want)))
        return tree.Known(Variable(c.remembered("value", value, p, e.span).var), "value", span=e.span)
    record, p = first_value(c, name, e, lambda want: values(c, e, want))
    return tree.Known(hold(c, record.type, record, p, "value", e.span), "value", span=e.span)


def _fields_help(type: RecordType) -> str:
    return "take one of its values, `t[0]`" if type.is_tuple else f"take a field of it: `.{type.fields[0][0]}`"


# ---- declarations ---------------------------------------------------------------------------------------------------


def declare_record(c: Checker, s: tree.Declare) -> bool:
    """`w: Welford = Welford(0.0, 0.0, 0)`, `ws: Welford[4]`: a variable for each field."""
    spec, written, span = annotation(c, s.annotation)
    type = spec.record
    if type is None or spec.kind is not SpecKind.VALUE:
        return False
    of_values(c, type, s.span)
    earlier = c.scopes[-1].get(s.name)
    if earlier is not None and not isinstance(earlier, Poison):
        help = "assign to it, or choose another name"
        c.report("SNAP018", f"`{s.name}` is already declared in this block", s.name_span, help=help)
    p = written or c.privilege
    if write_up(c, p, f"`{s.name}`", span or s.name_span):
        c.bind(s.name, Poison())
        raise Abort
    c.records = True
    dims = spec.type.shape[:-1] if isinstance(spec.type, Array) else ()
    if dims:
        _declare_array(c, s, type, dims, p)
        return True
    if s.value is None and spec.const:
        raise c.type_error(f"const `{s.name}` has no value", s.span, help="give it where it is declared")
    want = Want(p, f"`{s.name}` is one value for `{p}`", s.name_span, implied=written is None)
    value = None if s.value is None else values(c, s.value, want, type, f"`{s.name}`")
    made = hold(c, type, value, p, s.name, s.name_span, s.name)
    made.read_only = "const" if spec.const else ""
    _read_only(c, made)
    return True


def _read_only(c: Checker, made: RecordName) -> None:
    for leaf in made.type.leaves:
        variable = c.scopes[-1].get(f"{made.name}.{leaf.path}")
        if isinstance(variable, Variable):
            variable.read_only = made.read_only


def _declare_array(c: Checker, s: tree.Declare, type: RecordType, dims: tuple[int, ...], p: Privilege) -> None:
    """An array of records is an array of each field; all of them start as one value, or each as its own in a list."""
    given = s.value.items if isinstance(s.value, tree.Sequence) and len(dims) == 1 else None
    first: list[RecordValue] = []
    want = Want(p, f"`{s.name}` is one value for `{p}`", s.name_span)
    if given is not None and len(given) != dims[0]:
        raise c.type_error(
            f"a list for `{type}[{dims[0]}]` has {dims[0]} items, and this has {len(given)}", s.span, help="as many"
        )
    if given is not None:
        for one in given:
            mark = len(c.out)
            value = values(c, one, want, type, "an element")
            first = [RecordValue(type, tuple(kept(c, mark, *((v, p) for v in e.items)))) for e in first] + [value]
    elif s.value is not None:
        first = [values(c, s.value, want, type, "an element")]
    name = RecordName(type, s.name, s.name_span, len(dims))
    for k, leaf in enumerate(type.leaves):
        var = c.var(f"{s.name}.{leaf.path}", Array(leaf.elem, (*dims, *leaf.shape)), p, s.name_span)
        init = None
        if first and not leaf.shape:
            flat = [one.items[_place_of(type, k)] for one in first] * (1 if given is not None else _size(dims))
            init = ir.MakeVector(tuple(flat), var.type, span=s.span)
        elif first:
            help = f"assign its elements one by one: `{s.name}[k] = ...`"
            raise c.type_error(
                f"`{leaf.path}` of `{type}` is an array itself: there is no list of them", s.span, help=help
            )
        c.out.append(ir.Declare(var, init, zero=init is None, span=s.span))
        c.bind(f"{s.name}.{leaf.path}", Variable(var))
    c.bind(s.name, name)


def _place_of(type: RecordType, k: int) -> int:
    return next(i for i, (leaf, _) in enumerate(elements(type)) if leaf is type.leaves[k])


def _size(dims: tuple[int, ...]) -> int:
    n = 1
    for d in dims:
        n *= d
    return n


def _first(c: Checker, s: tree.Assign, target: tree.Name) -> bool:
    """`w = Welford(0.0, 0.0, 0)`, `t = (a, b)`: the first assignment declares."""
    if isinstance(c.scopes[-1].get(target.id), IndexFunction):
        return False
    if not isinstance(s.value, tree.Sequence) and (not c.records or type_of(c, s.value) is None):
        return False
    value, p = first_value(c, target, s.value, lambda want: values(c, s.value, want))
    c.records = True
    hold(c, value.type, value, p, target.id, target.span, target.id)
    return True


# ---- assignments ----------------------------------------------------------------------------------------------------


def _assign(c: Checker, s: tree.Assign, at: RecordPlace, type: RecordType) -> None:
    of_values(c, type, s.span)
    if len(at.index) < at.rank:
        raise c.type_error(
            f"`{at.name}` is an array of records, and its elements are assigned",
            s.span,
            help=f"`{at.name}[i] = ...`"
            if isinstance(at.root, RecordName)
            else f"`{at.name}[i] = ...`, by each thread",
        )
    p = THREAD1 if isinstance(at.root, Memory) else _privilege(c, at)
    value = values(c, s.value, wanted_by(s.target, p), type, f"`{at.spelled}`")
    store(c, at, value, s.span)


def _privilege(c: Checker, at: RecordPlace) -> Privilege:
    assert isinstance(at.root, RecordName)
    return c.variable(f"{at.name}.{at.root.type.leaves[0].path}").privilege


def store(c: Checker, at: RecordPlace, value: RecordValue, span: Span) -> None:
    """Write a record where it belongs: at once, or value by value."""
    if isinstance(at.root, Memory) and not at.path and (vector := vector_of(value.type)) is not None:
        whole = whole_view(c, at.root, vector, at.span)
        writable(c, whole, at.span)
        made = access(c, whole, at.index, Want(THREAD1, "is one thread's own index"), at.span)
        c.out.append(ir.Assign(ir.MemTarget(made, span=at.span), as_vector(value, vector, span), span=span))
        return
    at = settled(c, at, Want(THREAD1 if isinstance(at.root, Memory) else _privilege(c, at), ""), written=True)
    mark, ends = len(c.out), []
    for (leaf, index), item in zip(elements(value.type), value.items):
        numbers = tuple(tree.Number(k, span=at.span) for k in index)
        target, _, p = target_of(c, leaf_tree(c, at, leaf.path, numbers))
        c.out.append(ir.Assign(target, item, span=span))
        ends.append((len(c.out), p))
    kept_in_turn(c, mark, ends)


def _dealt_out(c: Checker, s: tree.Assign, type: RecordType) -> tree.Assign:
    """`a, b = f(x)`: as many names as the record has fields, which are kept first."""
    assert isinstance(s.target, tree.Sequence)
    if len(type.fields) != len(s.target.items):
        raise c.type_error(
            f"{len(s.target.items)} targets, and `{type}` has {len(type.fields)} fields", s.span, help=type.words
        )
    first = next((item for item in s.target.items if isinstance(item, tree.Name)), None)
    name = first or tree.Name("dealt", span=s.span)
    value, p = first_value(c, name, s.value, lambda want: values(c, s.value, want, type))
    made = hold(c, type, value, p, "dealt", s.value.span)
    c.records = True
    whole = tree.Known(made, "dealt", span=s.value.span)
    fields = tuple(tree.Attribute(whole, one, span=s.value.span) for one, _ in type.fields)
    return replace(s, value=tree.Sequence(fields, span=s.value.span))


# ---- results --------------------------------------------------------------------------------------------------------


def return_record(c: Checker, value: tree.Expr, p: Privilege, span: Span) -> None:
    """Give a result to the parameters that are its fields."""
    assert c.definition.records is not None and c.definition.records.result is not None
    name = c.definition.records.result.name
    made = c.lookup(name)
    if not isinstance(made, RecordName):
        raise Abort
    want = Want(p, f"the result is one value for `{p}`")
    store(c, RecordPlace(made, made.type, "", (), span), values(c, value, want, made.type, "the result"), span)
