"""Launches of a generic kernel: its constexpr arguments say which specialization is launched.

Input:      a generic kernel whose constexpr parameters are its last ones, a number of blocks or a grid's shape
Output:     `call(*args, **keywords)`, which launches
Invariant:  a launch asks the table of a specialization at once only where each constexpr argument is what it was when
            that one was launched, the same number of the same type, or left out, and all other arguments are given by
            position; anything else takes the whole way, which launches it or says what is wrong
Non-goals:  all other arguments (the specialization's own launches)

The function is text, with the constexpr parameters' own names: Python itself finds what is given by name.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from snap.diag.error import SnapError

_MOST_KEPT = 1024  # choices of constexpr arguments

_TEMPLATE = """\
def make({_}NOTHING, {_}other):
    {_}last = {{}}, {unknown}

    def {_}keep(found):
        nonlocal {_}last
        {_}last = found

    def {name}({params}*{_}rest, **{_}keywords):
        {_}table, {known} = {_}last
        if {same} and not {_}rest and not {_}keywords{given}:
            return {_}table[{blocks}]({args})
        return {_}other({_}keep, ({args}), ({constexprs}), {_}rest, {_}keywords)

    return {name}
"""


def source(name: str, plain: int, constexprs: Sequence[str], blocks: int | tuple[int, ...]) -> str:
    """plain: how many parameters are no constexpr.  Names of our own begin with more underscores than any other."""
    own = "_" * (1 + max(len(word) - len(word.lstrip("_")) for word in (name, *constexprs)))
    args = [f"{own}a{k}" for k in range(plain)]
    params = [f"{arg}={own}NOTHING, " for arg in args] + ["/, "] * bool(args)
    params += [f"{word}={own}NOTHING, " for word in constexprs]
    known = [f"{own}k{k}" for k in range(len(constexprs))]
    return _TEMPLATE.format(
        _=own,
        name=name,
        params="".join(params),
        unknown=", ".join([f"{own}other"] * len(constexprs)),  # no argument is that
        known=", ".join(known),
        same=" and ".join(f"{word} is {k}" for word, k in zip(constexprs, known)),
        given=f" and {args[-1]} is not {own}NOTHING" if args else "",
        blocks=repr(blocks),
        args="".join(f"{arg}, " for arg in args),
        constexprs="".join(f"{word}, " for word in constexprs),
    )


def launches(
    name: str,
    plain: int,
    constexprs: Sequence[str],
    defaults: dict[str, Any],
    blocks: int | tuple[int, ...],
    whole: Callable,
    table: Callable[[dict[str, Any]], dict],
) -> Callable:
    """whole: (*args, **keywords) launches, with every check.  table: of constexpr arguments, what launches them by
    blocks.
    """
    nothing = object()
    known: dict[tuple, dict] = {}

    def other(keep: Callable, args: tuple, values: tuple, rest: tuple, keywords: dict[str, Any]) -> None:
        fits = not rest and not keywords and (not args or args[-1] is not nothing)
        key = (*values, *map(type, values)) if fits and all(_whole(value, nothing) for value in values) else None
        found = known.get(key) if key else None
        if found is not None:
            keep((found, *values))
            return found[blocks](*args)
        given = {word: value for word, value in zip(constexprs, values) if value is not nothing}
        first = tuple(arg for arg in args if arg is not nothing)
        try:
            if len(first) == len(args) and list(given) == list(constexprs[: len(given)]):
                whole(*args, *given.values(), *rest, **keywords)
            else:
                whole(*first, **given, **keywords)
        except SnapError as error:
            raise error.without_frames() from None
        if key and all(word in given or type(defaults.get(word)) in (int, bool) for word in constexprs):
            if len(known) >= _MOST_KEPT:
                known.clear()
            found = known[key] = table({**{word: defaults[word] for word in constexprs if word not in given}, **given})
            keep((found, *values))
        return None

    names: dict[str, Any] = {}
    exec(compile(source(name, plain, constexprs, blocks), f"<launches of {name}>", "exec"), names)
    return names["make"](nothing, other)


def of(function: Any, blocks: int | tuple[int, ...]) -> Callable[..., None]:
    """Make the launches of a generic kernel.  If its constexpr parameters are the last ones, a specialization that was
    launched before is found in its table at once.
    """
    from snap.host.launch import launcher

    names, generic = function._names, function.generic
    count = len(names) - len(generic)
    whole: Callable[..., None] = functools.partial(function.launch, blocks=blocks)
    table = lambda values: launcher(function._specialized(values)).at  # noqa: E731
    defaults = function._defaults()
    if set(names[count:]) != set(generic) or function.definition.records is not None:
        return whole
    given = launches(function.definition.tree.name, count, names[count:], defaults, blocks, whole, table)
    left = [n for n in generic if n not in defaults]
    arrays = [(k, hole) for k, _, hole in function._telling(left) if not hole.scalar]
    if not left or {hole.name for _, hole in arrays} != set(left):
        return given
    deciding = [(k, hole.axis) for k, hole in arrays]
    told = lambda args: table({**defaults, **function._inferred(generic, dict(zip(names, args)))})  # noqa: E731
    return _by_arguments(count, deciding, blocks, given, told)


def _by_arguments(
    count: int,
    deciding: Sequence[tuple[int, int | None]],
    blocks: int | tuple[int, ...],
    whole: Callable[..., None],
    table: Callable[[tuple[object, ...]], Any],
) -> Callable[..., None]:
    """Make the launches of a kernel whose types and sizes its arguments tell.  whole: launches with every check.
    table: of arguments, what launches them by blocks.
    """
    known: dict[tuple[object, ...], Any] = {}

    def launch(*args: Any, **keywords: Any) -> None:
        if keywords or len(args) != count:
            return whole(*args, **keywords)
        try:
            key = tuple(args[k].dtype if axis is None else args[k].shape[axis] for k, axis in deciding)
        except (AttributeError, IndexError):
            return whole(*args)
        found = known.get(key)
        if found is not None:
            found[blocks](*args)
            return None
        whole(*args)
        if len(known) >= _MOST_KEPT:
            known.clear()
        known[key] = table(args)
        return None

    return launch


def _whole(value: object, nothing: object) -> bool:
    return value is nothing or type(value) is int or type(value) is bool
