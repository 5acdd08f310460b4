"""Random programs, and an interpreter that runs them one thread after the other in plain Python: what any order of lanes must agree with.

Programs use i32 variables, a local array, an input array and each thread's own part of an output array; control flow is anything that ends.
"""

from __future__ import annotations

import random

from machine import build as b

from snap._compiler.ir import nodes as ir
from snap._compiler.ir.types import BLOCK1, BOOL, GRID1, I32, THREAD1, Array, Held, Level, Place

THREADS, SLOTS, INPUTS = 40, 8, 32


class Leave(Exception):
    pass


class BreakLoop(Leave):
    pass


class ContinueLoop(Leave):
    pass


class ReturnValue(Leave):
    def __init__(self, value):
        self.value = value


def wrap(v):
    v &= 0xFFFFFFFF
    return v - (1 << 32) if v >> 31 else v


def truncated(a, c):
    return abs(a) // abs(c) * (1 if (a < 0) == (c < 0) else -1)


OPERATIONS = {
    "+": lambda a, c: a + c, "-": lambda a, c: a - c, "*": lambda a, c: a * c,
    "&": lambda a, c: a & c, "|": lambda a, c: a | c, "^": lambda a, c: a ^ c,
    "/": lambda a, c: -1 if c == 0 else truncated(a, c), "%": lambda a, c: a if c == 0 else a - truncated(a, c) * c,
    "//": lambda a, c: -1 if c == 0 else a // c, "mod": lambda a, c: a if c == 0 else a % c,
    "<<": lambda a, c: a << c if 0 <= c < 32 else 0, ">>": lambda a, c: a >> (c if 0 <= c < 32 else 31),
}
COMPARISONS = {"<": lambda a, c: a < c, "<=": lambda a, c: a <= c, "==": lambda a, c: a == c, "!=": lambda a, c: a != c, ">": lambda a, c: a > c}


# ---- programs --------------------------------------------------------------------------------------------------------------------------------


class Maker:
    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.x, self.y = b.array("x", I32, True), b.array("y", I32)
        self.n = b.var("n", I32, GRID1)
        self.local = b.var("local", Array(I32, (4,)))
        self.me = b.var("me")
        self.block = b.var("block", I32, BLOCK1)
        self.vars = []
        self.fixed = []  # loop variables, which are read only
        self.loops = 0
        self.returns = False

    def element(self):
        return ir.ArrayRef(self.local, I32, (4,))

    def expr(self, depth=3):
        rng = self.rng
        if depth == 0 or rng.random() < 0.25:
            return rng.choice([
                lambda: b.const(rng.choice([0, 1, 2, 3, 7, -1, -5, 100, 2**31 - 1])), lambda: b.read(self.me), lambda: b.read(self.block),
                lambda: b.read(self.n), lambda: b.read(rng.choice(self.vars + self.fixed)), lambda: b.read(rng.choice(self.vars + self.fixed)),
            ])()
        match rng.randrange(9):
            case 0:
                return ir.Select(self.cond(depth - 1), self.expr(depth - 1), self.expr(depth - 1), I32, span=b.SPAN)
            case 1:
                return b.load(self.x, self.small(INPUTS, depth - 1))
            case 2:
                return ir.Elem(self.element(), (self.small(4, depth - 1),), I32, span=b.SPAN)
            case 3:
                return ir.Cast(self.cond(depth - 1), I32, span=b.SPAN)
            case 4:
                return ir.Math(rng.choice(["min", "max"]), (self.expr(depth - 1), self.expr(depth - 1)), I32, span=b.SPAN)
            case _:
                return b.binary(rng.choice(list(OPERATIONS)), self.expr(depth - 1), self.expr(depth - 1))

    def small(self, limit, depth=2):
        return b.binary("&", self.expr(depth), b.const(limit - 1))

    def cond(self, depth=2):
        rng = self.rng
        if depth > 0 and rng.random() < 0.3:
            # The right operand is only safe where the left one holds.
            at = self.expr(depth - 1)
            if rng.random() < 0.5:
                inside = ir.Logical("and", b.compare("<=", b.const(0), at), b.compare("<", at, b.const(INPUTS)), BOOL, span=b.SPAN)
                return ir.Logical("and", inside, b.compare("<", b.load(self.x, at), self.expr(0)), BOOL, span=b.SPAN)
            outside = ir.Logical("or", b.compare("<", at, b.const(0)), b.compare("<=", b.const(INPUTS), at), BOOL, span=b.SPAN)
            return ir.Logical("or", outside, b.compare("<", b.load(self.x, at), self.expr(0)), BOOL, span=b.SPAN)
        return b.compare(rng.choice(list(COMPARISONS)), self.expr(depth), self.expr(depth))

    def body(self, depth, size=4):
        before = len(self.vars)
        out = []
        for _ in range(self.rng.randint(1, size)):
            out += self.statement(depth)
        del self.vars[before:]
        return tuple(out)

    def statement(self, depth):
        rng = self.rng
        choice = rng.randrange(12 if depth > 0 else 6)
        if choice == 0:
            v = b.var(f"v{len(self.vars)}")
            made = b.declare(v, self.expr())
            self.vars.append(v)
            return [made]
        if choice == 1:
            return [ir.Assign(ir.ElemTarget(self.element(), (self.small(4),), span=b.SPAN), self.expr(), span=b.SPAN)]
        if choice == 2:
            at = b.binary("+", b.binary("*", b.read(self.me), b.const(SLOTS)), self.small(SLOTS))
            return [b.store(self.y, at, self.expr())]
        if choice == 3 and self.loops and rng.random() < 0.7:
            leave = ir.Break(span=b.SPAN) if rng.random() < 0.5 else ir.Continue(span=b.SPAN)
            return [b.if_(self.cond(), [*self.body(0, 1), leave])]
        if choice == 4 and self.returns and rng.random() < 0.5:
            return [b.if_(self.cond(), [ir.Return(self.expr(), span=b.SPAN)])]
        if choice < 6:
            return [b.assign(rng.choice(self.vars), self.expr())]
        if choice < 9:
            return [b.if_(self.cond(), self.body(depth - 1), self.body(depth - 1) if rng.random() < 0.6 else ())]
        self.loops += 1
        try:
            return self.for_loop(depth) if choice < 11 else self.while_loop(depth)
        finally:
            self.loops -= 1

    def for_loop(self, depth):
        k = b.var("k")
        constant = self.rng.random() < 0.4
        start, stop = (b.const(self.rng.randint(0, 3)), b.const(self.rng.randint(0, 6))) if constant else (self.small(8), self.small(8))
        step = b.const(self.rng.choice([1, 1, 2, -1, 0])) if self.rng.random() < 0.8 else b.binary("-", self.small(4), b.const(1))
        self.fixed.append(k)
        body = self.body(depth - 1)
        self.fixed.remove(k)
        return [ir.For(k, start, stop, step, body, span=b.SPAN)]

    def while_loop(self, depth):
        c, bound = b.var("c"), b.var("bound")
        self.fixed.append(c)
        count = b.assign(c, b.binary("+", b.read(c), b.const(1)))
        if self.rng.random() < 0.5:
            pre, body = (count,), self.body(depth - 1)
        else:
            pre, body = (), (count, *self.body(depth - 1))
        self.fixed.remove(c)
        return [b.declare(c, b.const(0)), b.declare(bound, self.small(8)), ir.While(pre, b.compare("<", b.read(c), b.read(bound)), body, span=b.SPAN)]

    def program(self):
        """Part of the work is in a function that returns early."""
        place = b.place(THREADS)
        inside = place.grouped(THREAD1)
        v = b.var("v")
        self.vars = [v]
        self.returns = True
        ref = b.var("local", Array(I32, (4,)))
        kept, self.local = self.local, ref
        outer = self.me, self.block, self.n, v
        params = [b.var(w.name) for w in outer]
        self.me, self.block, self.n = params[:3]
        self.vars = [params[3]]
        x, y = b.array("x", I32, True), b.array("y", I32)
        (self.x, x), (self.y, y) = (x, self.x), (y, self.y)
        called = ir.Function(7_000_000 + self.rng.randrange(10**6), "inner", False,
                             (*(ir.ValueParam(p) for p in params), ir.RefParam(ref), ir.MemParam(self.x), ir.MemParam(self.y)), I32,
                             Place(((Level.THREAD, Held(1, 1)),)), (*self.body(2), ir.Return(self.expr(), span=b.SPAN)), 0, False, span=b.SPAN)
        self.x, self.y, self.local, self.returns = x, y, kept, False
        self.me, self.block, self.n, v = outer
        self.vars = [v]
        call = ir.Call(called, (b.read(self.me), b.read(self.block), b.read(self.n), b.read(v), ir.ArrayRef(kept, I32, (4,)), view(x), view(y)),
                       (None, None, None, None, None, x, y), ir.VarTarget(v, span=b.SPAN), inside, 0, span=b.SPAN)
        body = [b.declare(v, b.const(1)), b.declare(kept, zero=True), *self.body(3), b.if_(self.cond(), [call]), *self.body(3, 2)]
        body.append(b.store(y, b.binary("*", b.read(self.me), b.const(SLOTS)), b.read(v)))
        top = [b.declare(self.me, b.thread_id(THREADS)), b.declare(self.block, b.thread_id(THREADS, BLOCK1)),
               ir.Group(THREAD1, place, inside, tuple(body), span=b.SPAN)]
        return b.kernel([x, y, self.n], top, THREADS)


def view(handle):
    return ir.MemView(handle.obj, handle.obj.elem, None)


# ---- the interpreter -------------------------------------------------------------------------------------------------------------------------


class Thread:
    def __init__(self, block, thread, memory):
        self.block, self.thread = block, thread
        self.memory = memory  # object -> list
        self.values = {}

    def value(self, e):
        match e:
            case ir.Const():
                return e.value
            case ir.Read(var):
                return self.values[var.uid]
            case ir.UnitId(target):
                return self.block if target == BLOCK1 else self.block * THREADS + self.thread
            case ir.Elem(array, index):
                return self.values[array.var.uid][self.value(index[0])]
            case ir.Load(access):
                return self.memory[access.view.obj.uid][self.value(access.index[0])]
            case ir.Binary(op, left, right):
                return wrap(OPERATIONS[op](self.value(left), self.value(right)))
            case ir.Compare(op, left, right):
                return COMPARISONS[op](self.value(left), self.value(right))
            case ir.Logical(op, left, right):
                return (self.value(left) and self.value(right)) if op == "and" else (self.value(left) or self.value(right))
            case ir.Select(cond, then, other):
                return self.value(then) if self.value(cond) else self.value(other)
            case ir.Cast(value):
                return int(self.value(value))
            case ir.Math(op, args):
                return {"min": min, "max": max}[op](*map(self.value, args))
            case _:
                raise TypeError(type(e).__name__)

    def run(self, body):
        for s in body:
            self.step(s)

    def loop_body(self, body):
        """Whether the loop goes on."""
        try:
            self.run(body)
        except ContinueLoop:
            pass
        except BreakLoop:
            return False
        return True

    def step(self, s):
        match s:
            case ir.Declare(var, init):
                self.values[var.uid] = [0] * 4 if isinstance(var.type, Array) else self.value(init)
            case ir.Assign(target, value):
                self.assign(target, self.value(value))
            case ir.If(cond, then, other):
                self.run(then if self.value(cond) else other)
            case ir.For(var, start, stop, step, body):
                by = self.value(step)
                for k in range(self.value(start), self.value(stop), by) if by else ():
                    self.values[var.uid] = k
                    if not self.loop_body(body):
                        break
            case ir.While(pre, cond, body):
                while True:
                    self.run(pre)
                    if not self.value(cond) or not self.loop_body(body):
                        break
            case ir.Break():
                raise BreakLoop
            case ir.Continue():
                raise ContinueLoop
            case ir.Return(value):
                raise ReturnValue(self.value(value))
            case ir.Group():
                self.run(s.body)
            case ir.Call():
                self.call(s)
            case _:
                raise TypeError(type(s).__name__)

    def assign(self, target, value):
        match target:
            case ir.VarTarget(var):
                self.values[var.uid] = value
            case ir.ElemTarget(array, index):
                self.values[array.var.uid][self.value(index[0])] = value
            case ir.MemTarget(access):
                self.memory[access.view.obj.uid][self.value(access.index[0])] = value

    def call(self, s):
        inner = Thread(self.block, self.thread, dict(self.memory))
        for param, arg in zip(s.function.params, s.args):
            match param:
                case ir.ValueParam(var):
                    inner.values[var.uid] = self.value(arg)
                case ir.RefParam(var):
                    inner.values[var.uid] = self.values[arg.var.uid]
                case ir.MemParam(handle):
                    inner.memory[handle.obj.uid] = self.memory[arg.obj.uid]
        try:
            inner.run(s.function.body)
        except ReturnValue as returned:
            self.assign(s.target, returned.value)


def interpret(kernel, x, y, n, blocks):
    """y, as a list, written in place."""
    for block in range(blocks):
        for thread in range(THREADS):
            one = Thread(block, thread, {kernel.params[0].handle.obj.uid: x, kernel.params[1].handle.obj.uid: y})
            one.values[kernel.params[2].var.uid] = n
            one.run(kernel.body)
