"""Find what a loop does to variables, from its text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from snap._compiler.analysis import concrete
from snap._compiler.analysis.linear import forms
from snap._compiler.analysis.linear.forms import Form
from snap._compiler.analysis.linear.values import is_integer
from snap._compiler.ir import effects
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.engines import Engine
from snap._compiler.ir.operations import COLLECTIVES
from snap._compiler.ir.walk import bodies, loop_values, statements, variables, walk

MOST_STEP = 1 << 16  # beyond, an index may wrap
MOST_VALUES = 8  # of a loop whose iterations are looked at one by one, and of a variable that comes around


def assigned(s: ir.While | ir.For) -> set[int]:
    return {uid for body in bodies(s) for inner in statements(body) for uid in _assigned(inner)}


def _assigned(s: ir.Stmt) -> list[int]:
    """The variables that a statement gives another value: what it declares is new in each iteration."""
    return [] if isinstance(s, (ir.Declare, ir.For)) else [v.uid for v in effects.assigned(s)]


def growing(s: ir.While | ir.For) -> dict[int, int]:
    """Variables that every iteration increases once, by a constant, and not so fast that they wrap soon: uid ->
    constant.
    """
    every = list(statements(s.body))
    if any(isinstance(inner, ir.Continue) for inner in every):
        return {}
    written = Counter(uid for inner in every for uid in _assigned(inner))
    found: dict[int, int] = {}
    left = list(s.body)
    while left:
        match left.pop():
            case ir.Group(body=inner) | ir.Partition(body=inner) | ir.Claim(body=inner):
                left += inner
            case ir.Assign(ir.VarTarget(var), ir.Binary("+", ir.Read(read), ir.Const(int(step)))) if (
                read == var and written[var.uid] == 1 and abs(step) < MOST_STEP
            ):
                found[var.uid] = step
    return found


Setting = tuple[ir.Expr | None, ir.Expr]  # on which condition a variable is set, and to what


def cycling(s: ir.While | ir.For) -> dict[int, tuple[Setting, ...]]:
    """Variables that every iteration sets once more from what they were and nothing else, `b = 1 - b`, `b ^= 1`, `b =
    (b + 1) % 3`, or `b += 1` and `if b == 3: b = 0` after it: uid -> the steps that do it.
    """
    every = list(statements(s.body))
    if any(isinstance(inner, ir.Continue) for inner in every):
        return {}
    written = Counter(uid for inner in every for uid in _assigned(inner))
    found: dict[int, list[Setting]] = {}
    left = list(reversed(s.body))
    while left:
        match left.pop():
            case ir.Group(body=body) | ir.Partition(body=body) | ir.Claim(body=body):
                left += reversed(body)
            case ir.Assign(ir.VarTarget(var), value) if _only_from(var, value):
                found.setdefault(var.uid, []).append((None, value))
            case ir.If(cond, (ir.Assign(ir.VarTarget(var), value),), ()) if _only_from(var, cond) and _only_from(
                var, value
            ):
                found.setdefault(var.uid, []).append((cond, value))
    return {uid: tuple(steps) for uid, steps in found.items() if len(steps) == written[uid]}


def _only_from(var: ir.Var, e: ir.Expr) -> bool:
    """Return whether the expression is arithmetic on constants and the variable itself."""
    if not is_integer(var.type) or var.type.bits < 32:
        return False
    return all(
        part.var == var if isinstance(part, ir.Read) else isinstance(part, (ir.Const, ir.Binary, ir.Compare, ir.Select))
        for part in walk(e)
    )


def cycle(steps: tuple[Setting, ...], start: int, trip: Form) -> Form | None:
    """Find what a variable is after that many trips, where its values from `start` on come around to it in few steps,
    in one of two ways: a constant apart, or counted modulo their number.
    """
    now, values = start, list[int]()
    while len(values) <= MOST_VALUES:
        values.append(now)
        for cond, value in steps:
            known = lambda e, now=now: now if isinstance(e, ir.Read) else None  # noqa: E731
            taken = cond is None or concrete.value(cond, known)
            new = concrete.value(value, known) if taken else now
            if taken is None or new is None:
                return None
            now = int(new)
        if now == start:
            break
    count = len(values)
    if now != start or count == 1:
        return None
    apart = values[1] - start
    if all(value == start + apart * k for k, value in enumerate(values)):
        return forms.add(forms.number(start), forms.remainder(trip, count), apart)
    if all(value == (start + apart * k) % count for k, value in enumerate(values)):
        return forms.remainder(forms.add(forms.number(start), trip, apart % count), count)
    return None


# Buffers that are taken in turn are told apart by the first index.
def copies_in_turn(s: ir.While | ir.For, counting: Iterable[int]) -> bool:
    """Return whether iterations copy elements to a buffer that depends on which iteration it is; `counting` are the
    variables that tell.
    """
    inside = list(statements(s.body))
    if not any(isinstance(inner, ir.AsyncCopy) for inner in inside):
        return False
    depends = {*counting, *([s.var.uid] if isinstance(s, ir.For) else ())}
    for inner in inside:
        if isinstance(inner, ir.Declare) and inner.init is not None and _reads(inner.init, depends):
            depends.add(inner.var.uid)
    return any(
        isinstance(inner, ir.AsyncCopy) and len(inner.target.index) > 1 and _reads(inner.target.index[0], depends)
        for inner in inside
    )


def _reads(e: ir.Expr, uids: set[int]) -> bool:
    return any(v.uid in uids for v in variables(e))


def few(s: ir.Stmt) -> range | None:
    """The same, where there are few of them, but several."""
    values = loop_values(s)
    return values if values is not None and 2 <= len(values) <= MOST_VALUES else None


def writes(of: ir.For | ir.AnyFunction, known: dict[int, bool]) -> bool:
    """Return whether something in a loop or a function, calls included, writes memory or orders it, or takes a stage of
    a pipeline, by which earlier fills become older.  `known` keeps what has been found of functions.
    """
    if isinstance(of, ir.For):
        return any(_writes(s, known) for s in statements(of.body))
    if of.uid not in known:
        known[of.uid] = any(_writes(s, known) for s in statements(of.body))
    return known[of.uid]


def _writes(s: ir.Stmt, known: dict[int, bool]) -> bool:
    match s:
        case ir.DeclareShared() | ir.Unsafe():
            return True
        case ir.Partition() if s.counted:
            return True
        case ir.Collective(op) if COLLECTIVES[op].barrier:
            return True
        case ir.Call(function):
            return writes(function, known)
        case _:
            return any(
                e.engine is not Engine.THREADS or e.access is not None and (e.kind.writes or e.atomic)
                for e in effects.effects(s)
            )
