"""Find the functions of a module that may be entered again before they have ended.

Rule: a function calls those that its calls name; a call through a register, every function whose address is taken
somewhere (in an operand that is no call's, in a variable's initial value).
"""

from __future__ import annotations

from collections.abc import Iterator

from snap.ptx.text import tree


def recursive(module: tree.Module) -> set[str]:
    bodies = {f.name: f.body for f in module.items if isinstance(f, tree.Function) and f.body is not None}
    calls: dict[str, set[str]] = {}
    indirect: set[str] = set()
    taken: set[str] = {
        n for v in module.items if isinstance(v, tree.Variable) and v.initial for n in initial_names(v.initial)
    }
    for name, body in bodies.items():
        calls[name] = set()
        for one in _instructions(body):
            if one.operation[0] == "call":
                called = {o.name for o in one.operands if isinstance(o, tree.Name)}
                calls[name] |= called & set(bodies)
                if called and not called & set(bodies):
                    indirect.add(name)
            else:
                taken |= {o.name for o in one.operands if isinstance(o, tree.Name)}
    for name in indirect:
        calls[name] |= taken & set(bodies)
    return {name for name in bodies if name in _reached(calls, calls[name])}


def _reached(calls: dict[str, set[str]], first: set[str]) -> set[str]:
    seen: set[str] = set()
    left = list(first)
    while left:
        name = left.pop()
        if name not in seen:
            seen.add(name)
            left += calls[name]
    return seen


def _instructions(body: tree.Block) -> Iterator[tree.Instruction]:
    left: list[tree.Statement] = [body]
    while left:
        s = left.pop()
        if isinstance(s, tree.Instruction):
            yield s
        elif isinstance(s, tree.Block):
            left += s.body


def initial_names(value: tree.Initial) -> Iterator[str]:
    match value:
        case tree.Initials(items):
            for item in items:
                yield from initial_names(item)
        case tree.Masked(_, of):
            yield from initial_names(of)
        case tree.Name(name) | tree.Sum(name):
            yield name[len("generic(") : -1] if name.startswith("generic(") else name
