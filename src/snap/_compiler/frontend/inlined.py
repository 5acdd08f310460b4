"""Write out functions with `@inline` where they are called.

Input: a Python function without types; the tree of a Snap function that calls such functions, and its outside names.
Output: the tree with their statements in the place of the calls, and the outside names of all of them.  Invariant:
what is checked, synchronized and generated is what it would be, had the statements been written there; no name of one
function is taken for a name of another; every statement keeps the place in the source at which it was written.
Non-goals: types and privileges, which the checker finds where the statements come to stand.

    @inline                                   for t in range(team, tiles, teams):
    def tiles_of(team, teams, tiles, wide):       row, column = t / wide, t % wide
        for t in range(team, tiles, teams):       print(row, column)
            row, column = t / wide, t % wide
            yield row, column

    for i, j in tiles_of(team, teams, tiles, wide):
        print(i, j)

An argument that is a name, or made of constants alone, takes the parameter's place; any other is evaluated once,
before the statements.
"""

from __future__ import annotations

import builtins
import types
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from itertools import chain, islice
from typing import Any, TypeGuard

from snap._compiler.frontend import tree
from snap._compiler.frontend.fields import field_of, fields_named, holds_constants
from snap._compiler.frontend.inlined_values import ValueCalls
from snap._compiler.frontend.names import assigned_names, used_names
from snap._compiler.frontend.patterns import is_constexpr
from snap._compiler.frontend.renaming import TreeRenaming, each_as, with_bodies
from snap.diag.error import Diagnostic, Label, SnapError
from snap.diag.source import written
from snap.diag.span import Span
from snap.record import record, replace

MOST = 2000  # calls that are written out in one function
DEEPEST = 50  # of them, one within the other
LARGEST = 1000  # parts of an argument that takes a parameter's place
BUILTINS = frozenset(dir(builtins))
PURE = BUILTINS - {"id", "print"}  # what they give is the same wherever they stand


@record
class WrittenCall:
    """One call that has been written out: what was called, where its text stands, and where the call does."""

    name: str
    text: Span
    call: Span

    def holds(self, span: Span) -> bool:
        """Decide whether a place is in the text of what was called."""
        return span.filename == self.text.filename and self.text.line <= span.line <= self.text.end_line


def calls_around(
    written: tuple[WrittenCall, ...], span: Span, entered: Mapping[Span, Span] = types.MappingProxyType({})
) -> list[Label]:
    """The calls that brought a statement to where it stands: of the function it was written in, and those around.
    entered: by the text of what was called, the call that it stands for now, where it stands for several.
    """
    found: dict[Span, Label] = {}
    places = [span]
    for place in places:
        for w in written:
            if w.call not in found and w.holds(place) and entered.get(w.text, w.call) == w.call:
                found[w.call] = Label(w.call, f"`{w.name}` is written out here")
                places.append(w.call)
    return list(found.values())


class Inlined:
    """Hold what `@inline` makes of a function."""

    def __init__(self, function: tree.Function, names: Mapping[str, object], python: Any):
        self.tree, self.names, self.__name__, self.__doc__ = function, names, function.name, python.__doc__
        self.own, self.used = assigned_names(function), used_names(function)  # parameters and variables; all names
        self.yields = next((s for s in tree.walk(function) if isinstance(s, tree.Yield)), None)
        assigned = {name for s in tree.walk(function) if isinstance(s, tree.Assign) for name in _gives(s)}
        self.declared = (
            self.own - assigned - {p.name for p in function.params}
        )  # by declarations, loops and scopes alone
        self.result = last if function.body and isinstance(last := function.body[-1], tree.Return) else None

    def __call__(self, *args: object, **keywords: object) -> None:
        raise TypeError(f"`{self.__name__}` is written out in the Snap functions that call it: Python cannot call it")

    def __repr__(self) -> str:
        return f"<snap inlined function {self.__name__}>"


def inlined(function: tree.Function, names: Mapping[str, object], python: Any) -> Inlined:
    """The function, whose text stands for itself; what it could never mean is refused."""
    errors = list(_wrong_heads(function))
    params = {p.name for p in function.params}
    yields: list[Span] = []
    for s in tree.walk(function):
        if isinstance(s, tree.Yield):
            yields.append(s.span)
        if isinstance(s, tree.Return) and s is not function.body[-1]:
            help = "make it the last statement, and put what follows a condition into an `if`"
            errors.append(_refusal("`return` must be the last statement of an inlined function", s.span, help))
        for name in sorted(params.intersection(_gives(s))):
            message = f"`{name}` is a parameter: an inlined function does not give it another value"
            errors.append(_refusal(message, s.span, f"take a variable: `own = {name}`; elements may be assigned"))
    for name in sorted(names.keys() & assigned_names(function)):
        message = f"`{name}` is a variable here, and an annotation means what is called so outside"
        errors.append(_refusal(message, function.head, f"another name for the variable: `own_{name}`"))
    if len(yields) > 1 or yields and isinstance(function.body[-1], tree.Return):
        message = "an inlined function that yields does so at one place, and returns nothing"
        errors.append(_refusal(message, yields[-1], "the statements around the call stand where the `yield` does"))
    if errors:
        raise SnapError(errors[0], tuple(errors[1:]))
    return Inlined(function, names, python)


def _wrong_heads(function: tree.Function) -> Iterator[Diagnostic]:
    for p in function.params:
        if p.annotation is not None:
            message = f"`{p.name}` is what the call gives it: a parameter of an inlined function has no type"
            yield _refusal(message, p.span, "leave the annotation out; `@device(...)` has parameters with types")
        number = p.default.value if isinstance(p.default, tree.Unary) else p.default
        if number is not None and not isinstance(number, tree.Number):
            yield _refusal(f"the default of `{p.name}` is not a number", p.span, "pass it in the call")
    if function.returns is not None:
        message = "an inlined function returns what its `return` says, and declares no result"
        yield _refusal(message, function.returns.span, "leave the annotation out")


def _gives(s: Any) -> Iterator[str]:
    """The names that a statement itself binds or assigns."""
    match s:
        case tree.Declare(name) | tree.Assign(tree.Name(name)) | tree.Augment(tree.Name(name)):
            yield name
        case tree.Assign(tree.Sequence(items)):
            yield from (e.id for e in items if isinstance(e, tree.Name))
        case tree.For(name, names=several) | tree.With(_, name, names=several):
            yield from (name or "", *(one for one, _ in several))


def _refusal(message: str, span: Span, help: str, at: tuple[Label, ...] = (), code: str = "SNAP017") -> Diagnostic:
    return Diagnostic(code, message, span, secondary=at, help=help)


# ---- writing out ----------------------------------------------------------------------------------------------------


def written_out(
    function: tree.Function, names: dict[str, object]
) -> tuple[tree.Function, dict[str, object], tuple[WrittenCall, ...]]:
    """The function without calls of inlined functions, the outside names it has now, and which calls those were."""
    inlines = any(map(_has_pieces, names.values()))
    if not inlines and not any(map(holds_constants, names.values())):
        return function, names, ()
    writer = _Writer(function, names)
    made = replace(function, body=writer.body(function.body)) if inlines else function
    return *fields_named(made, writer.names, writer.no_piece), tuple(writer.written)


def _has_pieces(found: Any) -> bool:
    """Decide whether an outside name may lead to an inlined function."""
    if isinstance(found, types.ModuleType):
        return any(type(one) is Inlined for one in vars(found).values())
    return type(found) is Inlined or holds_constants(found)


class _Writer:
    """used: every name that the function has, so that a new one is nobody's.  own: those that are its variables."""

    def __init__(self, function: tree.Function, names: dict[str, object]):
        self.names, self.written, self.depth = dict(names), list[WrittenCall](), 0
        self.own = assigned_names(function)
        self.used = {*names, *self.own, *used_names(function)}
        self.function = function
        self.constants = {p.name for p in function.params if is_constexpr(p)}
        self.values = ValueCalls(self.piece, self.expanded)

    @cached_property
    def bound(self) -> Counter[str]:
        """Count how often the function declares or assigns a name."""
        given = (name for s in tree.walk(self.function) for name in _gives(s))
        return Counter(given) + Counter(p.name for p in self.function.params)

    def body(self, statements: tree.Body) -> tree.Body:
        return each_as(statements, self.statement)

    def no_piece(self, call: tree.Call) -> None:
        """Refuse a call of an inlined function inside an expression, which has not been written out."""
        if piece := self.piece(call):
            raise _not_a_value(piece, call)

    def statement(self, s: tree.Stmt) -> tree.Body:
        s = self.values.of(s)
        match s:
            case tree.Evaluate(tree.Call() as call) if piece := self.piece(call):
                if piece.yields is not None:
                    raise _not_a_value(piece, call)
                statements, value = self.expanded(piece, call)
                return (tree.Block((*statements, *self.done(value)), span=s.span),)
            case tree.Assign(value=tree.Call() as call) | tree.Declare(value=tree.Call() as call) if (
                piece := self.piece(call)
            ):
                return self.given(piece, call, s)
            case tree.For(iterable=tree.Call() as call) | tree.With(call, bare=False) if piece := self.piece(call):
                return self.around(piece, call, s)
            case _:
                return (with_bodies(s, self.body),)

    def piece(self, call: tree.Call) -> Inlined | None:
        """The inlined function that a call is of."""
        match call.function:
            case tree.Name(name) if name not in self.own:
                found = self.names.get(name)
            case tree.Attribute(tree.Name(module), name) if isinstance(self.names.get(module), types.ModuleType):
                found = getattr(self.names[module], name, None)
            case tree.Attribute() as field:
                found = field_of({name: one for name, one in self.names.items() if name not in self.own}, field)
            case _:
                return None
        return found if isinstance(found, Inlined) else None

    def done(self, value: tree.Expr | None) -> Iterator[tree.Stmt]:
        """Keep what a piece returns and no name takes, as far as it does something: an atomic, a call of a function."""
        for e in () if value is None else _items(value):
            if all(_is_pure(f) or isinstance(f, tree.Attribute) and f.name == "view" for f in _calls(e)):
                continue
            if isinstance(e, tree.Call):
                yield tree.Evaluate(e, span=e.span)
            else:
                yield tree.Assign(tree.Name(self.fresh("unused"), span=e.span), e, span=e.span)

    def given(self, piece: Inlined, call: tree.Call, s: tree.Assign | tree.Declare) -> tree.Body:
        """`a, b = piece(...)`: its statements, and then the assignment."""
        if piece.result is None or piece.result.value is None:
            raise _not_a_value(piece, call)
        statements, value = self.expanded(piece, call)
        targets = len(s.target.items) if isinstance(s, tree.Assign) and isinstance(s.target, tree.Sequence) else 1
        values = len(value.items) if isinstance(value, tree.Sequence) else 1
        if values > 1 and values != targets:
            message = (
                f"`{piece.__name__}` returns {values} values, and {targets} {'is' if targets == 1 else 'are'} taken"
            )
            at = (Label(piece.result.span, "returned here"),)
            raise SnapError(_refusal(message, s.span, "a name for each of them", at, "SNAP018"))
        return tree.Block((), span=call.span), *statements, replace(s, value=value)  # it says whose they are

    # Names that a piece yields are the caller's names for them: nothing is copied, so that memory can be yielded too.
    def around(self, piece: Inlined, call: tree.Call, s: tree.For | tree.With) -> tree.Body:
        """`for a, b in piece(...):` and `with piece(...) as (a, b):`: the body stands where the piece yields."""
        _check_yield(piece, call, s)
        targets = s.names or (((s.name, s.name_span),) if s.name else ())
        assigned = {name for one in s.body for inner in tree.walk(one) for name in _gives(inner)}
        for e in (*call.args, *(e for _, e in call.keywords)):
            changed = [one.id for one in _items(e) if isinstance(one, tree.Name) and one.id in assigned & self.own]
            if changed:
                message = f"`{changed[0]}` is given to `{piece.__name__}`, and the body gives it another value"
                raise SnapError(_refusal(message, e.span, f"give it a copy: `own = {changed[0]}`"))
        for name, span in targets:
            if name in assigned:
                message = f"`{name}` is what `{piece.__name__}` yields: the body does not give it another value"
                raise SnapError(_refusal(message, span or s.span, f"take a variable: `own = {name}`"))

        def put(yielded: tree.Yield) -> tree.Body:
            if len(yielded.values) != len(targets):
                message = f"`{piece.__name__}` yields {len(yielded.values)} values, and there are {len(targets)} names"
                at = (Label(yielded.span, "yielded here"),)
                raise SnapError(_refusal(message, call.span, "a name for each of them", at, "SNAP018"))
            named: dict[str, tree.Expr] = {}
            first: list[tree.Stmt] = []
            for (name, span), value in zip(targets, yielded.values):
                if isinstance(value, tree.Name):
                    named[name] = value
                else:
                    named[name] = tree.Name(name if self.bound[name] == 1 else self.fresh(name), span=span or s.span)
                    first.append(tree.Assign(named[name], value, span=yielded.span))
            return *first, *TreeRenaming(named, self.fresh).body(s.body)

        return (tree.Block(self.expanded(piece, call, put, _called(piece, call, targets))[0], span=s.span),)

    def expanded(
        self,
        piece: Inlined,
        call: tree.Call,
        put: Callable[[tree.Yield], tree.Body] | None = None,
        called: Mapping[str, str] = types.MappingProxyType({}),
    ) -> tuple[tree.Body, tree.Expr | None]:
        """A piece's statements as they stand in this function, and what it returns.  called: its variables that have a
        name here.
        """
        self.written.append(WrittenCall(piece.__name__, piece.tree.span, call.span))
        if len(self.written) > MOST:
            message = f"more than {MOST} calls of inlined functions would be written out here"
            raise SnapError(_refusal(message, call.span, "make some of them `@device(...)` functions"))
        if self.depth == DEEPEST:
            message = f"more than {DEEPEST} inlined functions call one another here"
            help = "an inlined function does not call itself, and is not given itself to call"
            raise SnapError(_refusal(message, call.span, help, (Label(piece.tree.head, "defined here"),)))
        before, named = self.arguments(piece, call)
        for name in sorted(piece.own - named.keys()):
            new = called.get(name) or self.fresh(name)
            named[name] = tree.Name(new, span=piece.tree.head)
            self.own.add(new)
        for name, found in piece.names.items():
            named[name] = tree.Name(self.outside(name, found), span=piece.tree.head)
        for name in piece.used - named.keys():
            self.unbound(piece, name, call)
        renaming = TreeRenaming(named, self.fresh, put)
        body = piece.tree.body if piece.result is None else piece.tree.body[:-1]
        value = None if piece.result is None or piece.result.value is None else renaming.expr(piece.result.value)
        self.depth += 1
        value = None if value is None else self.values.expr(value)
        statements = (*before, *self.body(renaming.body(body)))
        self.depth -= 1
        return statements, value

    def arguments(self, piece: Inlined, call: tree.Call) -> tuple[list[tree.Stmt], dict[str, tree.Expr]]:
        """Find what each parameter stands for, and the statements that evaluate what is not a name."""
        given = _bound(piece, call)
        for e in given.values():
            if sum(1 for _ in islice(tree.walk(e), LARGEST + 1)) > LARGEST and (
                isinstance(e, tree.Sequence) or self.constant(e)
            ):
                message = f"this argument of `{piece.__name__}` has more than {LARGEST} parts, once it is written out"
                raise SnapError(_refusal(message, e.span, "take a variable for it before the call"))
        before: list[tree.Stmt] = []

        def of(name: str, e: tree.Expr) -> tree.Expr:
            if isinstance(e, tree.Sequence):
                return replace(e, items=tuple(of(name, item) for item in e.items))
            if isinstance(e, tree.Name) or self.constant(e):
                return e
            new = tree.Name(self.fresh(name), span=e.span)
            self.own.add(new.id)
            before.append(tree.Assign(new, e, span=e.span))
            return new

        return before, {name: of(name, e) for name, e in given.items()}

    def constant(self, e: tree.Expr) -> bool:
        """Decide whether an expression is made of constants alone, so that it is the same everywhere."""
        if type(e) is tree.Number:
            return True
        names = used_names(e) - self.constants
        if names & self.own or not all(name in self.names or name in BUILTINS for name in names):
            return False
        return all(_is_pure(f) and self.is_word(f.id) for f in _calls(e))

    def outside(self, name: str, found: object) -> str:
        """Under which name this function has what a piece found outside of itself."""
        if name in self.names and self.names[name] is found and name not in self.own:
            return name
        known = next((n for n, other in self.names.items() if other is found and n.startswith(f"{name}_")), None)
        if known is None or known in self.own:
            known = self.fresh(name)
            self.names[known] = found
        return known

    def unbound(self, piece: Inlined, name: str, call: tree.Call) -> None:
        """A name that a piece neither binds nor finds outside: a word of the language, and not a name of ours."""
        self.used.add(name)  # so that no other piece's name becomes this one
        if name == piece.__name__:
            message = f"`{name}` calls itself: it would be written out without end"
            at = (Label(piece.tree.head, "defined here"),)
            raise SnapError(_refusal(message, call.span, "write a loop", at))
        if name in self.own or not self.is_word(name):
            message = f"`{name}` in `{piece.__name__}` is none of its names, and one of the function that calls it"
            at = (Label(piece.tree.head, "written without it"),)
            raise SnapError(_refusal(message, call.span, f"pass it: a parameter `{name}`", at, "SNAP019"))

    def is_word(self, name: str) -> bool:
        """Decide whether a name has no meaning here but that of the language."""
        found = self.names.get(name)
        return found is None or found is getattr(builtins, name, None) or type(found).__module__ == "snap.surface"

    def fresh(self, name: str) -> str:
        """This name, or one like it, that nothing in the function has, and that is no word of another piece."""
        found, k = name, 0
        while found in self.used or found in BUILTINS:
            k += 1
            found = f"{name.rstrip()}_{k}"
        self.used.add(found)
        return found


def _called(piece: Inlined, call: tree.Call, targets: tuple[tuple[str, Span | None], ...]) -> dict[str, str]:
    """Name the variables that a piece yields, where no other variable of that name is meant in it: they are declared
    there, and hide it.
    """
    assert piece.yields is not None
    several = Counter(name for name, _ in targets)  # `for _, _ in f():`
    meant = {*used_names(call), *(name for name in several if several[name] > 1)}
    pairs = zip(targets, piece.yields.values)
    return {
        e.id: name
        for (name, _), e in pairs
        if isinstance(e, tree.Name) and e.id in piece.declared and name not in meant
    }


def _not_a_value(piece: Inlined, call: tree.Call) -> SnapError:
    name = piece.__name__
    if piece.yields is not None:
        message, help = f"`{name}` yields: the statements that follow stand in it", f"`for ... in {name}(...):`"
    elif piece.result is None or piece.result.value is None:
        message, help = f"`{name}` returns nothing", "call it as a statement"
    else:
        message = f"`{name}` is written out: its call cannot be part of an expression"
        help = f"`value = {written(call.span) or f'{name}(...)'}` in a line before, and then `value`"
    return SnapError(_refusal(message, call.span, help, (Label(piece.tree.head, "defined here"),)))


# A `with` goes through its body once.  It may be left early where nothing follows the `yield`: in Python, too, what
# follows would be done then.
def _check_yield(piece: Inlined, call: tree.Call, s: tree.For | tree.With) -> None:
    if piece.yields is None:
        message = f"`{piece.__name__}` does not yield: no statements can stand in it"
        raise SnapError(
            _refusal(message, call.span, "call it as a statement", (Label(piece.tree.head, "defined here"),))
        )
    if isinstance(s, tree.With) and not _once(piece.tree.body):
        message = f"`{piece.__name__}` may yield more than once, or not at all"
        at = (Label(piece.yields.span, "yields here"),)
        raise SnapError(_refusal(message, call.span, f"`for ... in {piece.__name__}(...):`", at))
    if isinstance(s, tree.With) and _ends(piece.tree.body):
        return
    returns = (one for inner in s.body for one in tree.walk(inner) if isinstance(one, tree.Return))
    left = next(chain(_leaves(s.body), returns if isinstance(s, tree.With) else ()), None)
    if left is not None:
        what = "loop" if isinstance(s, tree.For) else "scope"
        message = f"the body of a {what} that `{piece.__name__}` makes is not left early"
        help = f"an `if` around what follows; or write the {what} here"
        raise SnapError(_refusal(message, left.span, help, (Label(call.span, f"the {what}"),), "SNAP007"))


def _calls(e: tree.Expr) -> Iterator[tree.Expr]:
    """List the calls in an expression."""
    return (one.function for one in tree.walk(e) if isinstance(one, tree.Call))


def _is_pure(f: tree.Expr) -> TypeGuard[tree.Name]:
    return isinstance(f, tree.Name) and f.id in PURE


def _items(e: tree.Expr) -> Iterator[tree.Expr]:
    if isinstance(e, tree.Sequence):
        for item in e.items:
            yield from _items(item)
    else:
        yield e


def _once(body: tree.Body) -> bool:
    """Decide whether these statements yield once, whatever is computed."""
    return any(isinstance(s, tree.Yield) or isinstance(s, tree.With) and _once(s.body) for s in body)


def _ends(body: tree.Body) -> bool:
    """Decide whether nothing follows the `yield` of these statements."""
    last = body[-1]
    return isinstance(last, tree.Yield) or isinstance(last, tree.With) and _ends(last.body)


def _leaves(body: tree.Body) -> Iterator[tree.Break | tree.Continue]:
    for s in body:
        if isinstance(s, (tree.Break, tree.Continue)):
            yield s
        elif not isinstance(s, (tree.For, tree.While)):
            yield from (found for inner in tree.bodies(s) for found in _leaves(inner))


def _bound(piece: Inlined, call: tree.Call) -> dict[str, tree.Expr]:
    """The arguments by name."""
    params, at = [p.name for p in piece.tree.params], (Label(piece.tree.head, "defined here"),)
    given: dict[str, tree.Expr] = {
        p.name: p.default for p in piece.tree.params if p.default is not None and p.name not in dict(call.keywords)
    }
    for name, e in (*zip(params, call.args), *call.keywords):
        if name not in params or name in dict(zip(params, call.args)) and name in dict(call.keywords):
            message = (
                f"`{piece.__name__}` has no parameter `{name}`" if name not in params else f"`{name}` is given twice"
            )
            raise SnapError(
                _refusal(message, e.span, f"its parameters are {', '.join(f'`{p}`' for p in params)}", at, "SNAP018")
            )
        given[name] = e
    missing = [name for name in params if name not in given]
    if missing or len(call.args) > len(params):
        message = (
            f"`{piece.__name__}` takes {len(params)} arguments, and this gives it {len(call.args) + len(call.keywords)}"
        )
        help = f"`{missing[0]}` is missing" if missing else "leave some out"
        raise SnapError(_refusal(message, call.span, help, at, "SNAP018"))
    return given
