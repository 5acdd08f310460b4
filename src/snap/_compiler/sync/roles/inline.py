"""Calls replaced by what they call.

Input:      a checked kernel (typed IR)
Output:     the same kernel, in which no call is left whose callee begins async work, takes turns, fills stages or
            splits a block into roles: these are synchronized over the whole kernel, so they must stand in it
Invariant:  the meaning is the same; every statement of the result is an object of its own, and no variable, object or
            handle is declared twice. What nothing changed is returned as the same object

The callee runs as if in a group of what it requires, so its body becomes a `Group`: this keeps positions, and ends the
scope of what it declares. Arguments are evaluated before it, at the caller's position.
"""

from __future__ import annotations

from typing import Any

from snap._compiler.ir import nodes as ir
from snap._compiler.ir.effects import Extent, effects
from snap._compiler.ir.engines import Engine
from snap._compiler.ir.hardware import WARP
from snap._compiler.ir.numbering import Numbers, declared
from snap._compiler.ir.rewrite import with_bodies, with_parts
from snap._compiler.ir.types import BOOL, I32, Array, Level, Privilege
from snap._compiler.ir.walk import callees, statements
from snap.record import replace

RETURNED = 0  # the number of the variable that notes a `return`; those of the checker begin at 1


def inline_calls(function: ir.Function, numbers: Numbers, every: bool = False) -> ir.Function:
    """`every`: all calls, not only those that synchronization needs in one piece."""
    if not any(isinstance(s, ir.Call) and _is_wanted(s.function, every) for s in statements(function.body)):
        return function
    found = _Inliner(function, numbers, every)
    body = found.body(function.body, found.kernel)
    return function if body is function.body else replace(function, body=body)


# ---- which calls ----------------------------------------------------------------------------------------------------


def _is_wanted(function: ir.AnyFunction, every: bool) -> bool:
    known = function.place.levels[0][1].count is not None
    return known and not function.text and (every or must_be_inlined(function))


def must_be_inlined(function: ir.AnyFunction) -> bool:
    """Return whether the function, or one that it calls, holds what is synchronized over the whole kernel."""
    return any(_needs_the_kernel(s) for f in callees(function) for s in statements(f.body))


def _needs_the_kernel(s: ir.Stmt) -> bool:
    match s:
        case ir.Turn():
            return True
        case ir.Partition(fill=fill):
            return fill is not None
        case ir.Claim(body=body):
            return any(isinstance(inner, ir.Split) and _into_roles(inner) for inner in statements(body))
        case _:
            return any(e.engine in _OF_THE_KERNEL or e.extent is Extent.FRAGMENT for e in effects(s))


_OF_THE_KERNEL = (Engine.BOXES, Engine.PRODUCTS)


def _into_roles(s: ir.Split) -> bool:
    """Whole warps of a block, which run different programs and hand memory to each other."""
    return s.level is Level.THREAD and s.outer.top >= Level.BLOCK and any(case.size % WARP == 0 for case in s.cases)


# ---- returns --------------------------------------------------------------------------------------------------------


# What follows `if c: return x` becomes the other branch.  Elsewhere a `return` notes that it was there: a loop is left
# by `break`, and what follows asks.  Code that can return runs as one (else the checker refuses it), so one note for
# all of the function's threads will do.
def returning_last(body: ir.Body, privilege: Privilege) -> ir.Body:
    """A body in which nothing happens behind a `return` on its path, so that it need not leave anything.  `privilege`:
    that of the code.
    """
    returns = [s for s in statements(body) if isinstance(s, ir.Return)]
    if not returns:
        return body
    span = returns[0].span
    note = ir.Var(RETURNED, "returned", BOOL, privilege, temp=True, span=span)
    made = _ending(body, (), note)
    if not any(isinstance(s, ir.Assign) and s.target == ir.VarTarget(note, span=span) for s in statements(made)):
        return made
    return ir.Declare(note, ir.Const(False, BOOL, span=span), span=span), *made


def _ending(body: ir.Body, leave: ir.Body, note: ir.Var) -> ir.Body:
    """`leave`: what a `return` does then: note that it was there, leave the loop, both, or neither."""
    at = next((k for k, s in enumerate(body) if _returns(s)), None)
    if at is None:
        return body
    before, s, after = body[:at], body[at], body[at + 1 :]
    in_loop = any(isinstance(way_out, ir.Break) for way_out in leave)
    noted = ir.Assign(ir.VarTarget(note, span=s.span), ir.Const(True, BOOL, span=s.span), span=s.span)
    was_there = ir.Read(note, BOOL, span=s.span)
    match s:
        case ir.Return():
            return *before, s, *leave
        case ir.For() | ir.While():
            leave_it = ir.Break(span=s.span)
            s = replace(s, body=_ending(s.body, (noted, leave_it) if after or leave else (leave_it,), note))
            if in_loop:
                return *before, s, ir.If(was_there, (leave_it,), (), span=s.span), *_ending(after, leave, note)
        case ir.If(_, then, other):
            if after and not in_loop and _always_returns(then) and _movable(other):
                other, after = other + after, ()
            elif after and not in_loop and _always_returns(other) and _movable(then):
                then, after = then + after, ()
            then, other = (_ending(arm, (noted,) if after and not in_loop else leave, note) for arm in (then, other))
            s = replace(s, then=then, other=other)
            if in_loop:
                return *before, s, *_ending(after, leave, note)
        case _:
            s = with_bodies(s, lambda inner: _ending(inner, leave, note))
    if not after:
        return *before, s
    return (
        *before,
        s,
        ir.If(ir.Unary("not", was_there, BOOL, span=s.span), _ending(after, leave, note), (), span=s.span),
    )


def _returns(s: ir.Stmt) -> bool:
    return any(isinstance(inner, ir.Return) for inner in statements((s,)))


def _always_returns(body: ir.Body) -> bool:
    match body[-1] if body else None:
        case ir.Return():
            return True
        case ir.If(_, then, other):
            return _always_returns(then) and _always_returns(other)
        case ir.Group(body=inner) | ir.Partition(body=inner) | ir.Claim(body=inner):
            return _always_returns(inner)
        case _:
            return False


def _movable(body: ir.Body) -> bool:
    """Return whether more may follow in this body: the shared memory that it declares would stay alive, and its bytes
    may be promised to what follows.
    """
    return not any(isinstance(s, ir.DeclareShared) for s in body)


# ---- copies ---------------------------------------------------------------------------------------------------------


class _Names:
    """Map the names of one function to those of the kernel.

    vars, objects, handles   parameters bound to what the caller gave; what the function declares is added, with a fresh
    number, when it is met
    values                   parameters that stand for an expression of the caller's, which nothing changes during the
    call
    windows                  parameters that are a window of an array in `vars`: its leading indices, which nothing
    changes either
    offset                   where the function's shared memory begins in the kernel's
    target                   what a `return` assigns
    """

    def __init__(self, offset: int, target: ir.Var | None):
        self.vars: dict[int, ir.Var] = {}
        self.objects: dict[int, ir.MemObject] = {}
        self.handles: dict[int, ir.Handle] = {}
        self.values: dict[int, ir.Expr] = {}
        self.windows: dict[int, tuple[ir.Expr, ...]] = {}
        self.offset = offset
        self.target = target

    def given_array(self, param: ir.Var, array: ir.ArrayRef) -> None:
        self.vars[param.uid] = array.var
        if array.at:
            self.windows[param.uid] = array.at


class _Inliner:
    def __init__(self, kernel: ir.Function, numbers: Numbers, every: bool):
        self.kernel = None  # the kernel's own names stay
        self._every = every
        self._numbers = numbers
        numbers.beyond(_uids(kernel))
        self._wanted: dict[int, bool] = {}

    def body(self, body: ir.Body, names: _Names | None) -> ir.Body:
        made: list[ir.Stmt] = []
        for s in body:
            match s:
                case ir.Call():
                    made += self._call(self._copied_call(s, names))
                case ir.Return(value) if names is not None:
                    if names.target is not None:
                        made.append(
                            ir.Assign(ir.VarTarget(names.target, span=s.span), self.copy(value, names), span=s.span)
                        )
                case _:
                    made.append(self.copy(s, names))
        return body if len(made) == len(body) and all(new is old for new, old in zip(made, body)) else tuple(made)

    def copy(self, part: Any, names: _Names | None) -> Any:
        """Any part of the tree.  The kernel's own parts are kept where nothing in them changed; those of a callee are
        always new.
        """
        match part:
            case tuple():
                return self.body(part, names)
            case ir.Function():
                return part
            case ir.Var():
                return part if names is None else self._var(part, names)
            case ir.MemObject():
                return part if names is None else self._object(part, names)
            case ir.Handle():
                return part if names is None else self._handle(part, names)
            case ir.Read(var) if names is not None and var.uid in names.values:
                return replace(names.values[var.uid], span=part.span)
            case ir.ArrayRef(var) if names is not None and var.uid in names.windows:
                made = with_parts(part, lambda inner: self.copy(inner, names))
                return replace(made, at=(*names.windows[var.uid], *made.at))
            case ir.Elem(array) | ir.ElemTarget(array) if names is not None and array.var.uid in names.windows:
                copied: Any = with_parts(part, lambda inner: self.copy(inner, names))
                return replace(copied, array=copied.array.whole(), index=(*copied.array.at, *copied.index))
            case _:
                made = with_parts(part, lambda inner: self.copy(inner, names))
                return made if names is None or made is not part else replace(part)

    def _var(self, var: ir.Var, names: _Names) -> ir.Var:
        if var.uid not in names.vars:
            names.vars[var.uid] = replace(var, uid=self._numbers.new())
        return names.vars[var.uid]

    def _object(self, obj: ir.MemObject, names: _Names) -> ir.MemObject:
        if obj.uid not in names.objects:
            made = with_parts(obj, lambda part: self.copy(part, names))
            names.objects[obj.uid] = replace(made, uid=self._numbers.new(), offset=obj.offset + names.offset)
        return names.objects[obj.uid]

    def _handle(self, handle: ir.Handle, names: _Names) -> ir.Handle:
        if handle.uid not in names.handles:
            base = None if handle.base is None else self._handle(handle.base, names)
            names.handles[handle.uid] = replace(
                handle, uid=self._numbers.new(), obj=self._object(handle.obj, names), base=base
            )
        return names.handles[handle.uid]

    # ---- calls ----

    def _copied_call(self, s: ir.Call, names: _Names | None) -> ir.Call:
        """The call in the kernel's names; the function that it calls has its own."""
        if names is None:
            return s
        made = with_parts(s, lambda part: self.copy(part, names))
        return replace(made, smem_offset=s.smem_offset + names.offset)

    def _call(self, s: ir.Call) -> list[ir.Stmt]:
        if not self._is_wanted(s.function):
            return [s]
        target = s.target.var if isinstance(s.target, ir.VarTarget) else None
        body = returning_last(s.function.body, s.function.place.privilege)
        before: list[ir.Stmt] = []
        after: list[ir.Stmt] = []
        if (
            s.target is not None and target is None
        ):  # evaluated at the caller's position, so not where the callee returns
            assert s.function.returns is not None
            target = ir.Var(
                self._numbers.new(),
                f"{s.function.name}_result",
                s.function.returns,
                _result_privilege(s),
                temp=True,
                span=s.span,
            )
            before.append(ir.Declare(target, None, span=s.span))
            after.append(ir.Assign(s.target, ir.Read(target, target.type, span=s.span), span=s.span))
        names = _Names(s.smem_offset, target)
        changed = _changed_arguments(s)
        for param, arg, handle in zip(s.function.params, s.args, s.handles, strict=True):
            before += self._bound(param, arg, handle, names, changed, s)
        level, place = s.function.place.top, s.function.place
        inside = ir.Group(Privilege(level, place.known(level)), s.place, place, self.body(body, names), span=s.span)
        return [*before, inside, *after]

    def _is_wanted(self, function: ir.AnyFunction) -> bool:
        if function.uid not in self._wanted:
            self._wanted[function.uid] = _is_wanted(function, self._every)
        return self._wanted[function.uid]

    def _bound(
        self,
        param: ir.Param,
        arg: ir.Expr | ir.ArrayRef | ir.MemView,
        handle: ir.Handle | None,
        names: _Names,
        changed: set[int],
        s: ir.Call,
    ) -> list[ir.Stmt]:
        """Bind one parameter: the statements that evaluate its argument."""
        match param, arg:
            case ir.MemParam(inner), ir.MemView(obj) if handle is not None:
                # The callee's object is the caller's seen as the parameter says, so views of the one are views of the
                # other.
                names.objects[inner.obj.uid] = obj
                names.handles[inner.uid] = handle
                return []
            case ir.RefParam(var), ir.ArrayRef() as whole:
                names.given_array(var, whole)
                return []
            case ir.ValueParam(var), ir.ArrayValue(array):
                if var.uid not in changed:
                    names.given_array(var, array)
                    return []
                own = self._var(var, names)
                return [ir.Declare(own, None, span=s.span), *self._array_copy(own, array, s)]
            case ir.ValueParam(var), (ir.Const() | ir.Read()) as e if var.uid not in changed and e.type == var.type:
                names.values[var.uid] = e
                return []
            case ir.ValueParam(var), _ if not isinstance(arg, (ir.ArrayRef, ir.MemView)):
                return [ir.Declare(self._var(var, names), arg, span=s.span)]
            case _:
                raise TypeError(f"{type(arg).__name__} for {type(param).__name__}")

    def _array_copy(self, own: ir.Var, array: ir.ArrayRef, s: ir.Call) -> list[ir.Stmt]:
        """Element by element, in loops over the dimensions."""
        assert isinstance(own.type, Array)
        loops = [
            ir.Var(self._numbers.new(), f"k{axis}", I32, own.privilege, temp=True, span=s.span)
            for axis in range(len(own.type.shape))
        ]
        index = tuple(ir.Read(k, I32, span=s.span) for k in loops)
        whole = ir.ArrayRef(own, own.type.elem, own.type.shape)
        made: ir.Stmt = ir.Assign(ir.ElemTarget(whole, index, span=s.span), array.element(index, s.span), span=s.span)
        for k, extent in reversed(list(zip(loops, own.type.shape))):
            start, stop, step = (ir.Const(n, I32, span=s.span) for n in (0, extent, 1))
            made = ir.For(k, start, stop, step, (made,), -1, span=s.span)
        return [made]


def _result_privilege(s: ir.Call) -> Privilege:
    return s.target.var.privilege if isinstance(s.target, ir.VarTarget) else s.function.place.privilege


# ---- what a function holds ------------------------------------------------------------------------------------------


# Given by value, an array is what it was when the function was called, also where the function changes it by another
# name: as a `ref` of its own.
def _changed_arguments(s: ir.Call) -> set[int]:
    """Parameters whose argument may not be what it was until the function has ended."""
    changed = _changed(s.function)
    given = list(zip(s.function.params, s.args, strict=True))
    by_reference = ((param, arg.var.uid) for param, arg in given if isinstance(arg, ir.ArrayRef))
    written = {uid for param, uid in by_reference if isinstance(param, ir.RefParam) and param.var.uid in changed}
    by_value = ((param, arg.array.var.uid) for param, arg in given if isinstance(arg, ir.ArrayValue))
    return changed | {param.var.uid for param, uid in by_value if isinstance(param, ir.ValueParam) and uid in written}


def _changed(function: ir.AnyFunction) -> set[int]:
    """Variables that the function may give another value; those that asynchronous wgmma read stay as they are
    longer than the function runs.
    """
    return {
        e.var.uid
        for s in statements(function.body)
        for e in effects(s)
        if e.var is not None and (e.kind.writes or e.engine is Engine.PRODUCTS)
    }


def _uids(kernel: ir.Function) -> set[int]:
    """Collect the numbers of everything in the kernel and in all that it calls."""
    return {uid for f in callees(kernel) for uid in declared(f)}


__all__ = ["inline_calls", "must_be_inlined"]
