"""Rename in trees.

Input: statements, and what stands for some of their names.  Output: the same statements, as new nodes.  Invariant: a
lambda's parameters, and the names that a list counts by, stay its own: they get names that nobody has.  Non-goals:
which names are free.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from operator import is_, is_not
from typing import Any

from snap._compiler.frontend import tree
from snap.record import copied, replace


def with_bodies(s: tree.Stmt, made: Callable[[tree.Body], tree.Body]) -> tree.Stmt:
    """A statement with what is made of the bodies right inside of it."""
    match s:
        case tree.If(_, then, other):
            first, second = made(then), made(other)
            return s if first is then and second is other else replace(s, then=first, other=second)
        case tree.With() | tree.While() | tree.For() | tree.Block():
            inner = made(s.body)
            return s if inner is s.body else replace(s, body=inner)
        case tree.Match(_, cases):
            return replace(s, cases=tuple(replace(case, body=made(case.body)) for case in cases))
        case _:
            return s


def each_as(statements: tree.Body, made: Callable[[tree.Stmt], tree.Body]) -> tree.Body:
    """Statements with what is made of each: the same ones, if each is made itself."""
    found = [one for s in statements for one in made(s)]
    same = len(found) == len(statements) and all(map(is_, found, statements))
    return statements if same else tuple(found)


_STATEMENTS = frozenset(tree.STATEMENTS)
_BINDING = frozenset((tree.Declare, tree.For, tree.With))
_OWN_WAYS = frozenset((tree.Subscript, tree.Lambda, tree.Each))


class TreeRenaming:
    """named: what stands for a name, another name where it is bound.  fresh: a name that nobody has.  put: what stands
    for a `yield`.
    """

    def __init__(
        self,
        named: Mapping[str, tree.Expr],
        fresh: Callable[[str], str],
        put: Callable[[tree.Yield], tree.Body] | None = None,
    ):
        self.named, self.fresh, self.put = named, fresh, put

    def body(self, statements: tree.Body) -> tree.Body:
        return each_as(statements, self.statement)

    def statement(self, s: tree.Stmt) -> tree.Body:
        if isinstance(s, tree.Yield) and self.put is not None:
            return self.put(self.parts(s))
        made = self.parts(s)
        return (copied(s) if made is s else made,)

    def parts(self, node: Any) -> Any:
        """A node with all that is in it: the same one, if nothing in it changes."""
        changed: dict[str, object] = {}
        for name in tree.holding(node):
            value = getattr(node, name)
            if type(value) is not tuple:
                if value is not None and (made := self.expr(value)) is not value:
                    changed[name] = made
            elif value and type(value[0]) in _STATEMENTS:
                if (inner := self.body(value)) is not value:
                    changed[name] = inner
            elif value and any(map(is_not, several := tuple(map(self.part, value)), value)):
                changed[name] = several
        if type(node) in _BINDING and self.named:
            if node.name and (name := self.bound(node.name)) != node.name:
                changed["name"] = name
            if type(node) is not tree.Declare and node.names:
                changed["names"] = tuple((self.bound(name), span) for name, span in node.names)
        return replace(node, **changed) if changed else node

    def part(self, value: Any) -> Any:
        if type(value) is tuple:  # a keyword argument
            made = self.part(value[1])
            return value if made is value[1] else (value[0], made)
        return self.parts(value) if type(value) is tree.MatchCase else self.expr(value)

    def expr(self, e: tree.Expr) -> Any:
        kind = type(e)
        if kind is tree.Name:  # most are
            found = self.named.get(e.id)  # type: ignore[union-attr]
            if found is None or type(found) is tree.Name and found.id == e.id:  # type: ignore[union-attr]
                return e
            return replace(found, span=e.span) if isinstance(found, (tree.Name, tree.Known)) else found
        if kind not in _OWN_WAYS:
            return self.parts(e)
        match e:
            case tree.Subscript(_, index) if any(map(self.several, index)):  # `x[at]`, where `at` is several indices
                parts = [self.expr(item).items if self.several(item) else (self.expr(item),) for item in index]
                return replace(e, value=self.expr(e.value), index=tuple(one for part in parts for one in part))
            case tree.Lambda(params, body):
                own = {name: tree.Name(self.fresh(name), span=e.span) for name in params}
                made = self.inside(own).expr(body)
                return replace(e, params=tuple(one.id for one in own.values()), body=made)
            case tree.Each(value, clauses):
                inside, counts = self, []
                for name, over in clauses:
                    counts.append((self.fresh(name), inside.expr(over)))
                    inside = inside.inside({name: tree.Name(counts[-1][0], span=e.span)})
                return replace(e, value=inside.expr(value), clauses=tuple(counts))
            case _:
                return self.parts(e)

    def several(self, e: tree.Expr) -> bool:
        """Decide whether a name stands for several values."""
        return isinstance(e, tree.Name) and isinstance(self.named.get(e.id), tree.Sequence)

    def inside(self, own: Mapping[str, tree.Expr]) -> TreeRenaming:
        """The same where further names stand for others."""
        made = copy(self)
        made.named = {**self.named, **own}
        return made

    def bound(self, name: str) -> str:
        found = self.named.get(name)
        return found.id if isinstance(found, tree.Name) else name
