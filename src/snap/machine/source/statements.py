"""Write a function of a program as Python source over lanes: one Python function for each.

Input: typed IR, or synchronized IR where `stepwise`.  Output: source text.  Where `stepwise` the function is a
generator that yields wherever another warp may run.  Non-goals: deciding the order of warps (schedule/adversarial.py).
"""

from __future__ import annotations

from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap.machine.lanes.printing import Line
from snap.machine.source.actions import async_copy, atomic, call, collective, evaluated, group, partition, split, unsafe
from snap.machine.source.asynchronous import (
    async_commit,
    barrier_arrive,
    barrier_expect,
    barrier_wait,
    box_copy,
    elect,
    store_acc,
    sync,
    turn,
    wgmma,
)
from snap.machine.source.bodies import pause, sequence
from snap.machine.source.control import (
    asserted,
    assignment,
    branch,
    leave,
    leave_loop,
    loop_for,
    loop_while,
    next_round,
)
from snap.machine.source.expressions import bind_views, expr, storage
from snap.machine.source.facts import returns
from snap.machine.source.variables import declare, declare_shared
from snap.machine.source.writing import Step, Writing

_ELSEWHERE = "elsewhere"  # the mask of what was declared outside of the function


def text(w: Writing) -> str:
    """The whole Python function."""
    f = w.function
    params = []
    for p in f.params:
        match p:
            case ir.MemParam(handle):
                params += [storage(w, handle.obj), f"c{handle.uid}"]
                if not f.kernel:
                    w.borrowed[handle.uid] = f"c{handle.uid}"
                w.prologue += [f"    {line}" for line in bind_views(w, handle.obj)]
            case ir.ValueParam(var):
                params.append(w.variable(var))
                w.declared[var.uid] = w.mask
            case ir.RefParam(var):
                params.append(w.variable(var))
                w.declared[var.uid] = _ELSEWHERE
            case _:
                raise TypeError(f"unknown parameter {type(p).__name__}")
    w.given = frozenset(params)
    last = bool(f.body) and isinstance(f.body[-1], ir.Return) and not returns(f.body[:-1])
    w.single_return = last
    if not last and returns(f.body):
        w.emit("done = False")
        w.emit("result = None")
    pause(w)
    sequence(w, f.body)
    if not last:
        w.emit("return result" if returns(f.body) else "return None")
    head = f"def {w.functions[f.uid]}(C, m, rc, rb, rt, frame{''.join(f', {p}' for p in params)}):"
    return "\n".join([head, *w.prologue, *w.lines, ""])


def print_line(w: Writing, s: ir.Print) -> None:
    values = "".join(f"{expr(w, a)}, " for a in s.args)
    lead = "True" if s.lead is None else expr(w, s.lead)
    line = w.intern(Line.of(s), ("line", s.texts, tuple(a.type for a in s.args), s.privilege), "L")
    w.emit(f"{line}.show(C, ({values}), {lead}, {w.mask})")
    pause(w)


# What writes each kind of statement.
STEPS: dict[type, Step] = {
    ir.Declare: declare,
    ir.DeclareShared: declare_shared,
    ir.Assign: assignment,
    ir.Assert: asserted,
    ir.Break: leave_loop,
    ir.Continue: next_round,
    ir.If: branch,
    ir.While: loop_while,
    ir.For: loop_for,
    ir.Return: leave,
    ir.Group: group,
    ir.Split: split,
    ir.Partition: partition,
    ir.Claim: partition,
    ir.Collective: collective,
    ir.Atomic: atomic,
    ir.AsyncCopy: async_copy,
    ir.Sleep: evaluated,
    ir.Prefetch: evaluated,
    ir.BoxPrefetch: evaluated,
    synced.AsyncCommit: async_commit,
    ir.BoxCopy: box_copy,
    synced.CountedLoad: box_copy,
    ir.Wgmma: wgmma,
    synced.FencedWgmma: wgmma,
    ir.StoreAcc: store_acc,
    ir.Turn: turn,
    synced.MBarrierWait: barrier_wait,
    synced.MBarrierArrive: barrier_arrive,
    synced.MBarrierExpect: barrier_expect,
    synced.Elect: elect,
    ir.Unsafe: unsafe,
    ir.Print: print_line,
    ir.Call: call,
    synced.Sync: sync,
}
