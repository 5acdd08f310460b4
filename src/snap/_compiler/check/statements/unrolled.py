"""Write out loops over constants: each iteration a copy of the body, in which the loop's variable is a constant.

Input: the tree of a loop over `unroll(...)`, and its constants: numbers, or what else a name may stand for (types,
privileges, views, index functions, functions).  Output: the statements of all iterations in `c.out`, and the copies as
what the loop stands for.  Invariant: a number has the type that a local without one would have; an iteration is a scope
of its own; errors say in which iteration they are.  Non-goals: which loops over a range need it (core/known.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from types import FunctionType
from typing import Any, get_args

from snap._compiler.check.core import convert
from snap._compiler.check.core.bindings import Binding, Constant, IndexFunction
from snap._compiler.check.core.constants import constant_int, constant_value
from snap._compiler.check.core.dispatch import body
from snap._compiler.check.core.names import (
    as_definition,
    as_type,
    constant_of,
    math_name,
    resolve,
    word_called,
)
from snap._compiler.check.core.outside import describe_object
from snap._compiler.check.core.privileges import privilege_of
from snap._compiler.check.core.state import Abort, Checker, Construct, ConstructKind
from snap._compiler.check.operations.arithmetic import cast_word
from snap._compiler.frontend import tree
from snap._compiler.frontend.forms import word_node
from snap._compiler.frontend.names import is_array
from snap._compiler.frontend.patterns import as_number
from snap._compiler.frontend.printer import expression as expression_text
from snap._compiler.frontend.renaming import TreeRenaming
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.types import BOOL, Privilege
from snap.diag.error import Label, SnapError
from snap.diag.span import Span
from snap.surface import LevelName, TypeName, View, ViewWord

MOST_COPIES = 512  # iterations that are written out in one function
_STANDS = (IndexFunction, Privilege, TypeName)  # what a local name may stand for, besides numbers
_EXAMPLE = "`for d in unroll((16, 8, 4, 2, 1)):`"


# ---- the constants --------------------------------------------------------------------------------------------------


def constants_of(c: Checker, e: tree.Expr) -> list[object] | None:
    """List the constants of `unroll((16, 8, 4))`; None for a loop over a range, and for what is no such loop."""
    if not isinstance(e, tree.Call) or word_called(c, e) != "unroll" or not e.args:
        return None
    first = e.args[0]
    if isinstance(first, tree.Call) and word_called_here(c, first) == "range":
        return None
    found = _listed(c, first)
    if found is None:
        return None
    if len(e.args) > 1 or e.keywords:
        given = (*e.args[1:], *(value for _, value in e.keywords))
        raise c.type_error("`unroll` over constants writes all of them out", given[0].span, help=_EXAMPLE)
    kinds = [_kind(c, item, first.span) for item in found]
    for kind in kinds:
        if kind != kinds[0]:
            raise c.type_error(
                f"one of these constants is {kinds[0]}, and another is {kind}",
                first.span,
                "the body is checked for each of them",
                help="write `0.5, 1.0` for `0.5, 1`"
                if {kind, kinds[0]} == {"an integer", "a float"}
                else "write a loop for each kind",
            )
    return found


def word_called_here(c: Checker, e: tree.Call) -> str | None:
    """The word that a call is of, where what it calls has a meaning."""
    if _is_sequence(c, e) or not isinstance(e.function, (tree.Name, tree.Attribute, tree.Known)):
        return None
    return word_called(c, e)


def _is_sequence(c: Checker, e: tree.Expr) -> bool:
    """Decide whether an expression is `tuple(...)` or `list(...)` of one thing."""
    match e:
        case tree.Call(tree.Name("tuple" | "list" as name), (_,), ()):
            return c.lookup(name) is None and name not in c.names
    return False


def _listed(c: Checker, e: tree.Expr) -> list[object] | None:
    match e:
        case tree.Sequence(items):
            return [_constant(c, item) for item in items]
        case tree.Call(args=(inner,)) if _is_sequence(c, e):
            return _listed(c, inner)
        case tree.Each(value, ((name, over),)):
            return _comprehended(c, value, name, over)
        case tree.Call() if word_called_here(c, e) == "range":
            return list(_range(c, e))
        case tree.Call() | tree.Name() | tree.Attribute() | tree.Known():
            found: Any = _python(c, e)
            if is_array(found):
                found = found.tolist() if getattr(found, "ndim", 0) == 1 else None
            if isinstance(found, (tuple, list, range)):
                if len(found) > MOST_COPIES:
                    raise _too_many(c, e.span)
                return [_as_constant(c, item, e.span) for item in found]
    return None


def _comprehended(c: Checker, value: tree.Expr, name: str, over: tree.Expr) -> list[object]:
    found = _listed(c, over)
    if found is None:
        raise c.type_error("this list is made of constants, and these are none", over.span, help=_EXAMPLE)
    made = []
    for item in found:
        with c.block():
            if not isinstance(item, ir.Const):
                raise c.type_error("a list of constants counts by numbers", over.span, help=_EXAMPLE)
            c.bind(name, Constant(item))
            made.append(_constant(c, value))
    return made


def _range(c: Checker, e: tree.Call) -> Sequence[ir.Const]:
    bounds = [constant_int(c, bound, "a bound of this `range`") for bound in e.args]
    try:
        found = range(*bounds)
    except (TypeError, ValueError):
        raise c.type_error("this is not a `range`", e.span, help="`range(8)`, `range(0, 8, 2)`") from None
    if len(found) > MOST_COPIES:
        raise _too_many(c, e.span)
    return [_number(c, n, e.span) for n in found]


def _constant(c: Checker, e: tree.Expr) -> object:
    """One constant, as it is written: a number, or an object that stands for itself."""
    match e:
        case tree.Lambda():
            return IndexFunction(e, tuple(c.scopes), e.span)
        case tree.Subscript():
            found: object = privilege_of(c, e)
        case tree.Name() | tree.Attribute() | tree.Known() | tree.Call() | tree.Binary(">>"):
            found = _python(c, e)
        case _:
            found = None
    if found is None or as_number(found) is not None:
        value = constant_value(c, e, "what a loop over constants goes through")
        return _number(c, value.value, e.span) if value.weak else value
    return found


def _python(c: Checker, e: tree.Expr) -> object | None:
    """The object of Python that an expression of constants is; None for a number that Snap computes."""
    match e:
        case tree.Name() | tree.Attribute() | tree.Known():
            found = resolve(c, e)
            return found if isinstance(found, _STANDS) or not isinstance(found, get_args(Binding)) else None
        case tree.Binary(">>", left, right):
            first = _python(c, left)
            second = _python(c, right) if isinstance(first, View) else None
            return first >> second if isinstance(first, View) and isinstance(second, View) else None
        case tree.Call(tree.Name() | tree.Attribute() | tree.Known() as function, args, ()) if not _is_sequence(c, e):
            found = resolve(c, function)
            if isinstance(found, ViewWord) or type(found) is FunctionType:
                return _called(c, found, args, e.span)
    return None


def _called(c: Checker, function: ViewWord | FunctionType, args: tuple[tree.Expr, ...], span: Span) -> object:
    """Give what a function of Python, or the word of a view, makes of constants when the kernel is compiled."""
    given = []
    for e in args:
        one = _constant(c, e)
        given.append(one.value if isinstance(one, ir.Const) else one)
    try:
        made = function(*given)
        return list(islice(made, MOST_COPIES + 1)) if isinstance(made, Iterator) else made
    except SnapError as error:
        raise c.fail(error.code, error.message, span, help=error.diagnostic.help) from None
    except Exception as error:
        message = f"`{function.__name__}` failed: {type(error).__name__}: {error}"
        raise c.type_error(message, span, help="Python calls it with these constants") from None


def _as_constant(c: Checker, found: object, span: Span) -> object:
    return _number(c, number, span) if (number := as_number(found)) is not None else found


def _number(c: Checker, number: int | float | bool, span: Span) -> ir.Const:
    """A number with the type of a local that is declared without one."""
    const = constant_of(c, number, span)
    assert const is not None
    settled = convert.settled(const)
    return settled if isinstance(settled, ir.Const) else const


def _kind(c: Checker, item: object, span: Span) -> str:
    """Say what a constant is, so that all iterations of a loop get the same kind."""
    match item:
        case ir.Const(type=type):
            return "a bool" if type == BOOL else "a float" if type.is_float else "an integer"
        case IndexFunction():
            return "an index function"
        case Privilege() | LevelName():
            return "a privilege"
        case View():
            return "a view"
        case _ if as_type(item) is not None:
            return "a type"
        case _ if as_definition(item) is not None or math_name(item) is not None:
            return "a function"
        case FunctionType(__name__="<lambda>"):
            return "an index function"
    raise c.type_error(
        f"a loop cannot be written out for {describe_object(item)}",
        span,
        help=f"numbers, types, privileges, views, lambdas and functions are constants: {_EXAMPLE}",
    )


def _text(item: object) -> str:
    """A constant as it would be written."""
    match item:
        case ir.Const(value):
            return repr(value)
        case IndexFunction(function):
            return f"({expression_text(function)})"
    named = as_type(item)
    return cast_word(named) if named is not None else str(getattr(item, "__name__", item))


# ---- the iterations -------------------------------------------------------------------------------------------------


# T-For-Constants: G + i = n1 |- s @ P, ..., G + i = nk |- s @ P => G |- for i in unroll((n1, ..., nk)): s @ P
# The variable is a constant in each iteration, and each iteration is checked for itself.
def write_out(c: Checker, s: tree.For, items: Sequence[object]) -> None:
    """Check each iteration of a loop with its constant."""
    c.copies += len(items)
    if c.copies > MOST_COPIES:
        raise _too_many(c, s.iterable.span)
    made: list[tree.Stmt] = []
    c.expanded(s, ())
    for item in items:
        scope, inside = _iteration(c, s, item)
        made.append(scope)
        c.expanded(s, tuple(made))
        told, mark = f"`{s.name.rstrip()}` = {_text(item)}", len(c.errors)
        with c.block() as out, c.construct(ConstructKind.COPY, s.iterable.span, "for", iteration=told) as copy:
            if isinstance(item, ir.Const):
                c.bind(s.name, Constant(item))
            body(c, inside, tail=False)
        c.skips = False
        c.out.extend(out)
        if copy.left == "break" or len(c.errors) > mark:
            break


def _iteration(c: Checker, s: tree.For, item: object) -> tuple[tree.Stmt, tree.Body]:
    """One iteration in the words that define it, and its copy of the body."""
    if not isinstance(item, ir.Const):
        _keeps_name(c, s)
        known = tree.Known(item, _text(item), span=s.name_span)
        copied = TreeRenaming({s.name: known}, lambda name: name).body(s.body)
        return _scope(s, copied), copied
    copied = TreeRenaming({}, lambda name: name).body(s.body)
    kind = tree.Known(item.type, cast_word(item.type), span=s.name_span)
    annotation = tree.Call(word_node("constexpr", s.name_span), (kind,), (), span=s.name_span)
    value = tree.Number(item.value, span=s.name_span)
    return _scope(s, (tree.Declare(s.name, annotation, value, s.name_span, span=s.span), *copied)), copied


def _scope(s: tree.For, inside: tree.Body) -> tree.Stmt:
    return tree.If(tree.Number(True, span=s.iterable.span), inside, (), span=s.span)


# What is no number takes the place of the name, which therefore means nothing else in the body.
def _keeps_name(c: Checker, s: tree.For) -> None:
    for node in (node for one in s.body for node in tree.walk(one)):
        match node:
            case tree.Declare(name=name) | tree.For(name=name) | tree.With(name=name) if name == s.name:
                pass
            case tree.Assign(tree.Name(name)) | tree.Augment(tree.Name(name)) if name == s.name:
                pass
            case _:
                continue
        raise c.type_error(
            f"`{s.name}` is a compile-time constant, and the body gives the name another meaning",
            node.span,
            secondary=(Label(s.name_span, "in each iteration one of the constants"),),
            help="choose another name",
        )


def _too_many(c: Checker, span: Span) -> Abort:
    return c.type_error(
        f"more than {MOST_COPIES} iterations would be written out in this function",
        span,
        "an iteration for each of these constants",
        note="in nested loops, an iteration of the outer one has all iterations of the inner one",
        help="go through fewer constants, with a loop over `range(...)` inside of each iteration",
    )


# T-Leave-Copy: constants decide that the iteration ends here => G |- break, continue @ P, where a loop is written out
def leave_iteration(c: Checker, copy: Construct, word: str, s: tree.Break | tree.Continue) -> None:
    """End an iteration, or the loop, where constants alone have decided it."""
    for inner in c.constructs[c.constructs.index(copy) :]:
        if inner.kind is ConstructKind.IF and not all(isinstance(e, ir.Const) for e in inner.decides):
            raise c.fail(
                "SNAP007",
                f"`{word}` would leave a loop whose iterations are written out, by a condition that is not a constant",
                s.span,
                "this is known only at run time",
                (Label(inner.span, "decided here"),),
                note="what is written out one iteration after the other cannot be left in the middle",
                help="put what follows into an `if`; constants may decide: `if d < 4: break`",
            )
    copy.left, c.skips = word, True
    c.expanded(s, ())
