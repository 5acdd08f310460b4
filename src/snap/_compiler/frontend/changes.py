"""Say which variables statements may change, and which loops they may leave, by their text alone.

Input: statements of the untyped tree.  Output: names, or the `break` that leaves.  Invariant: it errs on the safe side:
a variable that may be changed, a loop that may be left.  Non-goals: types, and what names stand for.
"""

from __future__ import annotations

from collections.abc import Iterator

from snap._compiler.frontend import tree


def leaves_early(body: tree.Body) -> bool:
    """Decide whether a loop with this body can be left, or an iteration cut short, before it ends."""
    for s in body:
        match s:
            case tree.Break() | tree.Continue():
                return True
            case tree.If(_, then, other) if leaves_early(then) or leaves_early(other):
                return True
            case tree.With(tree.Call(tree.Name("group" | "turn"))):  # which nothing may leave (SNAP007)
                continue
            case tree.With(body=inner) if leaves_early(inner):
                return True
    return False


def left_by(body: tree.Body) -> tree.Break | None:
    """The `break` that leaves a loop with this body."""
    for s in body:
        match s:
            case tree.Break():
                return s
            case tree.If(_, then, other) if found := left_by(then) or left_by(other):
                return found
            case tree.With(body=inner) if found := left_by(inner):
                return found
            case tree.Match(cases=cases) if found := next(filter(None, (left_by(case.body) for case in cases)), None):
                return found
    return None


def reassigned_names(statements: tree.Body, known: set[str]) -> Iterator[str]:
    """The variables that these statements may give another value than their first.  known: the names that are there
    before.  An assignment to a name that is not is its declaration, as `x: T = e` is.
    """
    known = set(known)
    for s in statements:
        match s:
            case tree.Assign(target):
                for e in target.items if isinstance(target, tree.Sequence) else (target,):
                    if isinstance(e, tree.Name) and e.id not in known:
                        known.add(e.id)
                    else:
                        yield from _root(e)
            case tree.Declare(name):
                known.add(name)
            case tree.If(_, then, other):
                yield from reassigned_names(then, known)
                yield from reassigned_names(other, known)
            case tree.For(name, _, inner, names=names) | tree.With(_, name, inner, names=names):
                yield from reassigned_names(inner, known | {name or "", *(one for one, _ in names)})
            case tree.While(body=inner) | tree.Block(inner):
                yield from reassigned_names(inner, known)
            case tree.Match(cases=cases):
                for case in cases:
                    yield from reassigned_names(case.body, known)
            case _:
                yield from assigned_names((s,))


def assigned_names(statements: tree.Body) -> Iterator[str]:
    """The variables that these statements may give a value, or a part of one."""
    for s in statements:
        match s:
            case tree.Assign(target) | tree.Augment(target):
                yield from _root(target)
            case tree.Evaluate(tree.Call(keywords=keywords)):  # `intrinsic.mma(..., out=[x, y])`
                for name, value in keywords:
                    if name == "at" and isinstance(value, tree.Sequence):  # coordinates, and no reference
                        continue
                    for item in value.items if isinstance(value, tree.Sequence) else (value,):
                        yield from _root(item)
            case tree.If(_, then, other):
                yield from assigned_names(then)
                yield from assigned_names(other)
            case tree.While(body=inner) | tree.For(body=inner) | tree.With(body=inner) | tree.Block(inner):
                yield from assigned_names(inner)
            case tree.Match(cases=cases):
                for case in cases:
                    yield from assigned_names(case.body)


def _root(e: tree.Expr) -> Iterator[str]:
    while isinstance(e, (tree.Attribute, tree.Subscript)):
        e = e.value
    match e:
        case tree.Name(name):
            yield name
        case tree.Sequence(items):  # `a, b = b, a`
            for item in items:
                yield from _root(item)
