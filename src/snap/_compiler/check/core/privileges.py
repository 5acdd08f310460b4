"""Read privileges: `thread[32]`, `warp`, `block[1]`, `thread.every(4)[8]`, and levels of the user's own.

Input: the tree of an expression.  Output: the `Privilege` that it denotes, None where it denotes something else.
Invariant: the count is a positive constant.  Non-goals: whether the privilege is allowed there
(check/statements/control.py).
"""

from __future__ import annotations

import types

from snap._compiler.check.core.constants import constant_int
from snap._compiler.check.core.names import resolve
from snap._compiler.check.core.outside import describe_object
from snap._compiler.check.core.state import Checker
from snap._compiler.frontend import tree
from snap._compiler.frontend.printer import expression as expression_text
from snap._compiler.ir.types import Every, Privilege, at_stride, several
from snap.diag.decorating import one_dimension, stride_refused
from snap.diag.span import Span
from snap.surface import LEVEL_WORDS, LevelName


def privilege_of(c: Checker, e: tree.Expr) -> Privilege | None:
    """The privilege an expression denotes, None if it denotes something else."""
    match e:
        case tree.Call():
            _counted_level(c, e)
            return None
        case tree.Name() | tree.Attribute() | tree.Known():
            _counted_level(c, e)
            found = resolve(c, e)
            if isinstance(found, Privilege):
                return found
            if isinstance(found, LevelName):
                if found.units == 1:
                    raise c.type_error(
                        f"`{found}` is a level, and a privilege says how many of its units",
                        e.span,
                        help=f"write `{found}[1]`",
                    )
                return Privilege(found.level, found.units)
            return None
        case tree.Subscript(value):
            stride = every_named(c, value)
            of = unit_named(c, value) if stride is None else stride.of
            if of is None:
                return None
            n = _counted(c, e, expression_text(value))
            if stride is not None:
                return at_stride(of, stride.apart, n)
            return several(of, n) or _between(c, of, n, e.span)
        case _:
            return None


def _counted(c: Checker, e: tree.Subscript, word: str) -> int:
    """Read the count of a privilege, `word[n]`."""
    if len(e.index) > 1:
        counts = tuple(n.value if isinstance(n, tree.Number) else None for n in e.index)
        raise c.type_error(
            "the count of a privilege is one positive constant", e.span, help=one_dimension(word, counts)
        )
    n = constant_int(c, e.index[0], f"the count of `{word}[...]`")
    if n < 1:
        raise c.type_error(
            "the count of a privilege is one positive constant",
            e.span,
            help=f"write `{word}[1]`, or another positive constant",
        )
    return n


def _between(c: Checker, of: Privilege, n: int, span: Span) -> Privilege:
    """Refuse several groups at a stride that make up no shape."""
    apart = 1 if of.stride is None else of.stride.apart
    raise c.type_error(
        f"{n} groups of `{of}` are neither neighbors nor at one stride: {apart} of them lie between each other",
        span,
        help=f"a count that divides {apart}",
    )


def every_named(c: Checker, e: tree.Expr) -> Every | None:
    """Find the level at a stride that an expression names: `thread.every(4)`; None for anything else."""
    match e:
        case tree.Call(tree.Attribute(value, "every"), args, keywords) if (of := unit_named(c, value)) is not None:
            if len(args) != 1 or keywords:
                raise c.type_error("`every` takes one number, the stride", e.span, help=f"`{of.unit or of}.every(2)`")
            s = constant_int(c, args[0], "the stride of a level")
            if s < 1 or of.stride is not None:
                message, help = stride_refused(of.unit or str(of), str(s), of.stride is not None)
                raise c.type_error(message, e.span, help=help)
            return Every(of, s)
        case tree.Name() | tree.Attribute() | tree.Known():
            found = resolve(c, e)
            return found if isinstance(found, Every) else None
        case _:
            return None


def unit_named(c: Checker, e: tree.Expr) -> Privilege | None:
    """One unit of the level that an expression names: `thread`, `warp`, or a level of the user's own, `quad =
    thread[4]`; None if it names something else.
    """
    if isinstance(e, tree.Subscript):
        return privilege_of(c, e)
    _counted_level(c, e)
    found = resolve(c, e) if isinstance(e, (tree.Name, tree.Attribute, tree.Known)) else None
    if isinstance(found, LevelName):
        return Privilege(found.level, found.units)
    return found if isinstance(found, Privilege) else None


def _counted_level(c: Checker, e: tree.Expr) -> None:
    """Refuse a level at a stride that does not say how many of its units make a group."""
    stride = every_named(c, e)
    if stride is not None:
        raise c.type_error(
            f"`{stride}` says which {stride.of.level.word}s, and not how many make a group",
            e.span,
            help=f"write how many: `{stride}[{_as_many_as_fit(c, stride)}]`",
        )


def _as_many_as_fit(c: Checker, stride: Every) -> int:
    """Count the units of a group at that stride that goes through all that the code holds."""
    held, step = c.place.held(stride.of.level), stride.of.n * stride.apart
    count = 0 if held is None or held.count is None else held.count
    return count // step if count > step and not count % step else 2


def wanted_privilege(c: Checker, e: tree.Expr, where: str) -> Privilege:
    p = privilege_of(c, e)
    if p is None:
        _not_hidden(c, e.value if isinstance(e, tree.Subscript) else e)
        raise c.type_error(
            f"{where} takes a privilege, such as `thread[32]`",
            e.span,
            help="`thread[1]`, `warp`, `block[1]`: a level, and in brackets how many units of it",
        )
    return p


def _not_hidden(c: Checker, e: tree.Expr) -> None:
    """Refuse the word of a level where it names something else: `from snap.lib import block` hides `block`."""
    if not isinstance(e, tree.Name) or e.id not in LEVEL_WORDS:
        return
    found = resolve(c, e)
    if isinstance(found, types.ModuleType):
        parent, _, name = found.__name__.rpartition(".")
        help = f"import the module under another name: `{f'from {parent} ' * bool(parent)}import {name} as of_{name}`"
    else:
        help = f"give that another name, so that `{e.id}` is the level again"
    own = c.lookup(e.id) is not None
    what = "a name of this function's own" if own else describe_object(found)
    raise c.type_error(f"`{e.id}` is not the level here: it is {what}", e.span, help=help)
