"""The IR as text, for people: what `k.ir()` and `snap explain --ir` print, and what golden files hold.

Input: a typed or a synchronized function.  Output: lines, the function first, then all it calls, each once.  Invariant:
the text is a function of the program alone: names stand for variables and memory, and a second `x` of one function is
`x.2`; numbers that the compiler gave (uid) do not appear.  Privileges follow `@`, the place of a body follows `at`, a
slot of a barrier stands in brackets.  Non-goals: being read back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap._compiler.ir.depth import deep
from snap._compiler.ir.engines import Wait
from snap._compiler.ir.synced import PointKind, SyncHalf
from snap._compiler.ir.types import BOOL, F32, I32, Array, Space
from snap._compiler.ir.walk import callees

INDENT = "    "
PLAIN = (I32, F32, BOOL)  # constants of these types do not say theirs


def text(function: ir.AnyFunction) -> str:
    taken: dict[str, int] = {}
    with deep():
        found = callees(function)
        names = {one.uid: _fresh(one.name, taken) for one in found}
        return "\n\n".join("\n".join(_Printer(names).function(one)) for one in found)


def line(s: ir.Stmt) -> str:
    """The statement's first line, for messages."""
    return next(_Printer({}).statement(s))


def _fresh(name: str, taken: dict[str, int]) -> str:
    taken[name] = taken.get(name, 0) + 1
    return name if taken[name] == 1 else f"{name}.{taken[name]}"


class _Printer:
    """One function.  `functions`: the names of all, by number."""

    def __init__(self, functions: dict[int, str]):
        self.functions = functions
        self.names: dict[tuple[type, int], str] = {}
        self.taken: dict[str, int] = {}

    def name(self, one: ir.Named) -> str:
        key = (type(one), one.uid)
        if key not in self.names:
            self.names[key] = _fresh(one.name, self.taken)
        return self.names[key]

    # ---- functions --------------------------------------------------------------------------------------------------

    def function(self, f: ir.AnyFunction) -> Iterator[str]:
        params = ", ".join(map(self.param, f.params))
        word = "kernel" if f.kernel else "instruction" if f.text else "function"
        yield f"{word} {self.functions[f.uid]}({params})" + (f" -> {f.returns}" if f.returns else "")
        facts = [
            str(f.place),
            *([f"{f.smem} bytes of shared memory"] if f.smem else []),
            *(["all blocks at once"] if f.cooperative else []),
            *([f"{f.resident} blocks resident"] if f.resident else []),
        ]
        yield f"{INDENT}at {'; '.join(facts)}:"
        for b in f.mbarriers if isinstance(f, synced.Function) else ():
            everywhere = ", from every block of the cluster" if b.everywhere else ""
            yield f"{INDENT}barrier {self.name(b)}: slots {b.slots}, arrivals {b.count}{everywhere}"
        yield from self.body(f.body)

    def param(self, p: ir.Param) -> str:
        match p:
            case ir.MemParam(handle):
                return f"{self.name(handle)}: {self.memory(handle.obj)} @ {handle.privilege}"
            case ir.RefParam(var):
                return f"{self.name(var)}: ref {var.type} @ {var.privilege}"
            case ir.ValueParam(var):
                return f"{self.name(var)}: {var.type} @ {var.privilege}"
        raise TypeError(type(p).__name__)

    def memory(self, obj: ir.MemObject) -> str:
        const = "const " if obj.const else ""
        facts = [
            obj.space.value,
            *([f"byte {obj.offset}"] if obj.space is Space.SHARED and obj.extent is None else []),
            *([f"{self.expr(obj.extent)} in a launch"] if obj.extent is not None else []),
            *([f"swizzle {obj.swizzle}"] if obj.swizzle else []),
            *([f"{obj.spread} the cluster's blocks"] if obj.spread else []),
            *([f"{obj.part[0]} together, {obj.part[1]} apart"] if obj.part is not None else []),
            *([f"{obj.depth} slots"] if obj.depth else []),
            *([f"lag {obj.lag}"] if obj.lag is not None else []),
        ]
        return f"{const}{obj.elem}[{self.shape(obj.shape)}] ({', '.join(facts)})"

    def shape(self, shape: tuple[ir.Expr, ...] | None) -> str:
        return "?" if shape is None else self.list(shape)

    # ---- statements -------------------------------------------------------------------------------------------------

    def body(self, body: ir.Body) -> Iterator[str]:
        for s in body:
            yield from (INDENT + one for one in self.statement(s))

    def block(self, head: str, body: ir.Body) -> Iterator[str]:
        yield head
        yield from self.body(body) if body else (f"{INDENT}pass",)

    def statement(self, s: ir.Stmt) -> Iterator[str]:
        """A statement with bodies is several lines."""
        match s:
            case ir.If(cond, then, other):
                yield from self.block(f"if {self.expr(cond)}:", then)
                if other:
                    yield from self.block("else:", other)
            case ir.While(pre, cond, body):
                if pre:
                    yield from self.block("before each test:", pre)
                yield from self.block(f"while {self.expr(cond)}:", body)
            case ir.For(var, start, stop, step, body):
                unroll = {0: "", -1: ", unrolled"}.get(s.unroll, f", unrolled by {s.unroll}")
                head = f"range({self.list((start, stop, step))})"
                yield from self.block(f"for {self.name(var)} @ {var.privilege} in {head}{unroll}:", body)
            case ir.Group(privilege, _, place, body):
                yield from self.block(f"group {privilege} at {place}:", body)
            case ir.Split(level, outer, cases):
                yield f"split {level.word} of {outer}:"
                for case in cases:
                    end = f" on, by {case.size}" if case.rest else f" to {case.offset + case.size}"
                    yield from (INDENT + x for x in self.block(f"case {case.offset}{end} at {case.place}:", case.body))
            case ir.Partition(base, handle, place, body) | ir.Claim(base, handle, place, body):
                head = f"{handle.origin} {self.name(handle)} @ {handle.privilege} of {self.name(base)}"
                if isinstance(s, ir.Partition) and s.fill is not None:
                    head += f", {'counted ' if s.counted else ''}fill {self.expr(s.fill)}"
                yield from self.block(f"{head} at {place}:", body)
            case ir.Turn(outer, place, body):
                yield from self.block(f"turn of {outer} at {place}:", body)
            case synced.Elect(place, body):
                yield from self.block(f"one thread of {place}:", body)
            case _:
                yield self.simple(s)

    def simple(self, s: ir.Stmt) -> str:
        """A statement without bodies is one line."""
        match s:
            case ir.Declare(var, init):
                value = "" if init is None and not s.zero else f" = {'0' if init is None else self.expr(init)}"
                return f"{self.name(var)}: {var.type} @ {var.privilege}{value}"
            case ir.DeclareShared(obj, handle):
                return f"{self.name(handle)}: {self.memory(obj)} @ {handle.privilege}"
            case ir.Assign(target, value):
                return f"{self.target(target)} = {self.expr(value)}"
            case ir.Break() | ir.Continue():
                return type(s).__name__.lower()
            case ir.Return(value):
                return "return" if value is None else f"return {self.expr(value)}"
            case ir.Assert(cond, message):
                return f"assert {self.expr(cond)}, {message!r}"
            case ir.Act():
                return s.line(self)
            case _:
                return self.added(s)

    def added(self, s: ir.Stmt) -> str:
        """Print what synchronization put in."""
        match s:
            case synced.Sync(point, place, part):
                return f"{'' if part is SyncHalf.BOTH else part + ' at '}{self.point(point)} at {place}"
            case synced.AsyncCommit(engine, place):
                return f"commit {Wait.all_of(engine).value}" + ("" if place is None else f" at {place}")
            case synced.MBarrierWait(barrier, slot, phase, place):
                return f"wait {self.slot(barrier, slot)} for phase {self.expr(phase)} at {place}"
            case synced.MBarrierArrive(barrier, slot, by, place, point, bytes, copies):
                besides = self.besides(point) + (f", {bytes} bytes expected" if bytes else "")
                besides += ", when its copies have come" if copies else ""
                return f"arrive {self.slot(barrier, slot)} by {by} at {place}{besides}"
            case synced.MBarrierExpect(barrier, slot, bytes, place):
                return f"expect {self.slot(barrier, slot)}, {bytes} bytes at {place}"
        raise TypeError(type(s).__name__)

    def point(self, p: synced.SyncPoint) -> str:
        """Print what the point does.  A thread alone has no barrier: it waits for what it has in flight."""
        kind = "wait" if p.kind == PointKind.THREAD else f"{p.kind} barrier"
        number = f" {p.number}" if p.kind == PointKind.NAMED else ""
        threads = f" of {p.threads} threads" if p.threads else ""
        return f"{kind}{number}{threads} by {p.participants} for {p.object}{self.besides(p)}"

    @staticmethod
    def besides(p: synced.SyncPoint) -> str:
        """Print what is waited for at the point besides other threads, and its fence."""
        waits = "".join(f", at most {n} {wait.value} in flight" for wait, n in p.waits)
        return waits + (", fence" if p.fence else "")

    def slot(self, barrier: ir.Named, slot: ir.Expr | None) -> str:
        return f"{self.name(barrier)}[{'' if slot is None else self.expr(slot)}]"

    # ---- memory, targets, arguments ---------------------------------------------------------------------------------

    def results(self, *targets: ir.Target | None) -> str:
        given = [self.target(t) for t in targets if t is not None]
        return f"{', '.join(given)} = " if given else ""

    def target(self, t: ir.Target) -> str:
        match t:
            case ir.VarTarget(var):
                return self.name(var)
            case ir.ElemTarget(array, index):
                return f"{self.array(array)}[{self.list(index)}]"
            case ir.MemTarget(access):
                return self.access(access) + _wishes(t)
            case ir.ComponentTarget(of, lane):
                return f"{self.target(of)}.{'xyzw'[lane]}"
        raise TypeError(type(t).__name__)

    def argument(self, a: ir.Expr | ir.ArrayRef | ir.MemView) -> str:
        match a:
            case ir.ArrayRef():
                return f"ref {self.array(a)}"
            case ir.MemView(obj, elem, shape):
                return f"{obj.name} as {elem}[{self.shape(shape)}]"
            case _:
                return self.expr(a)

    def callee(self, f: ir.Named) -> str:
        return self.functions.get(f.uid, f.name)

    def array(self, a: ir.ArrayRef) -> str:
        own = a.var.type == Array(a.elem, (*a.around, *a.shape))
        name = f"{self.name(a.var)}[{self.list(a.at)}]" if a.at else self.name(a.var)
        return name if own else f"({name} as {a.elem}{list(a.shape)})"

    def access(self, a: ir.MemAccess) -> str:
        name, view, obj = self.name(a.handle), a.view, a.view.obj
        if (view.elem, view.shape) != (obj.elem, obj.shape):
            name = f"({name} as {view.elem}[{self.shape(view.shape)}])"
        return f"{name}{'' if a.block is None else f' of block {self.expr(a.block)}'}[{self.list(a.index)}]"

    def tile(self, t: ir.Tile) -> str:
        return f"{self.access(t.access)}:{list(t.shape)}"

    # ---- expressions ------------------------------------------------------------------------------------------------

    def list(self, exprs: tuple[ir.Expr, ...]) -> str:
        return ", ".join(map(self.expr, exprs))

    def inner(self, e: ir.Expr) -> str:
        """As a part of another expression."""
        compound = isinstance(e, (ir.Binary, ir.Compare, ir.Logical, ir.Select))
        return f"({self.expr(e)})" if compound else self.expr(e)

    def expr(self, e: ir.Expr) -> str:
        return _EXPRESSIONS[type(e)](self, e)


def _constant(e: ir.Const) -> str:
    value = repr(e.value) if isinstance(e.value, (bool, float)) else str(e.value)
    return value if e.type in PLAIN else f"{e.type}({value})"


def _infix(p: _Printer, e: ir.Binary | ir.Compare | ir.Logical) -> str:
    return f"{p.inner(e.left)} {e.op} {p.inner(e.right)}"


def _wishes(of: ir.Load | ir.MemTarget) -> str:
    return "".join(f".{wish}" for wish in (of.cache, of.l2) if wish)


def _called(name: str, *args: str) -> str:
    return f"{name}({', '.join(args)})"


_EXPRESSIONS: dict[type, Callable[[_Printer, Any], str]] = {
    ir.Const: lambda p, e: _constant(e),
    ir.Read: lambda p, e: p.name(e.var),
    ir.Elem: lambda p, e: f"{p.array(e.array)}[{p.list(e.index)}]",
    ir.ArrayValue: lambda p, e: p.array(e.array),
    ir.Component: lambda p, e: f"{p.inner(e.value)}.{'xyzw'[e.lane]}",
    ir.Lookup: lambda p, e: f"{e.table.name}[{p.list(e.index)}]",
    ir.MakeVector: lambda p, e: _called(str(e.type), p.list(e.items)),
    ir.Load: lambda p, e: p.access(e.access) + _wishes(e),
    ir.Unary: lambda p, e: f"{e.op}{' ' * e.op.isalpha()}{p.inner(e.value)}",
    ir.Binary: _infix,
    ir.Compare: _infix,
    ir.Logical: _infix,
    ir.Select: lambda p, e: f"{p.inner(e.then)} if {p.inner(e.cond)} else {p.inner(e.other)}",
    ir.Cast: lambda p, e: _called(str(e.type), p.expr(e.value)),
    ir.Bitcast: lambda p, e: _called(f"bits.{e.type}", p.expr(e.value)),
    ir.Math: lambda p, e: _called("fast." * e.fast + e.op, p.list(e.args)),
    ir.UnitId: lambda p, e: _called("id", str(e.target)),
    ir.Lane: lambda p, e: _called("lane", str(e.among)),
    ir.UnitCount: lambda p, e: _called("count", str(e.target)),
}
