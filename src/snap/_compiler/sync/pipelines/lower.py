"""Put the operations of channels, groups of asynchronous work, and turns into the text.

Input: a kernel and its channels.  Output: the kernel with mbarriers, their waits and arrivals (producer_consumer.py,
turns.py), commits of products and stores; and for the graph of accesses, the statements at which a channel's memory
passes from one episode to the next.
"""

from __future__ import annotations

import math

from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap._compiler.ir.effects import begins, effects
from snap._compiler.ir.engines import Engine
from snap._compiler.ir.numbering import Numbers
from snap._compiler.ir.rewrite import with_bodies
from snap._compiler.ir.walk import statements
from snap._compiler.sync.pipelines.channels import Channel
from snap._compiler.sync.pipelines.counting import box_bytes
from snap._compiler.sync.pipelines.lowered import Additions, Pipelined
from snap._compiler.sync.pipelines.producer_consumer import ProducerConsumer
from snap._compiler.sync.pipelines.turns import Turns, takes_turns
from snap.record import replace


def lower_pipelines(function: synced.Function, channels: list[Channel], numbers: Numbers) -> Pipelined:
    added, pipelined = Additions(numbers), Pipelined(function)
    if channels:
        orders = ProducerConsumer(function, added, pipelined)
        for channel in channels:
            orders.channel(channel)
    elif not any(map(_is_lowered, statements(function.body))):
        return pipelined
    body = _Lowering(function, added).body(function.body)
    if added.top or added.mbarriers or body is not function.body:
        top = numbers.given(added.top)
        pipelined.function = replace(function, body=(*top, *body), mbarriers=tuple(added.mbarriers))
    return pipelined


_OF_UNITS = (Engine.BOXES, Engine.PRODUCTS)


def _is_lowered(s: ir.Stmt) -> bool:
    """Return whether something is put beside it, or in its place, even without channels."""
    return isinstance(s, ir.Turn) or begins(s) in _OF_UNITS


class _Lowering:
    def __init__(self, function: synced.Function, added: Additions):
        self.added, self.turns = added, Turns(function, added)

    def body(self, body: ir.Body) -> ir.Body:
        out: list[ir.Stmt] = []
        multiplies = [*(begins(s) is Engine.PRODUCTS for s in body), False]
        begin = _groups(body) if any(multiplies) else set()
        for k, s in enumerate(body):
            if s.number in self.added.dropped:
                continue
            out += self.added.before.get(s.number, ())
            counted = self.added.loads.get(s.number)
            if isinstance(s, ir.BoxCopy) and counted is not None and not counted.announced:
                out.append(synced.MBarrierExpect(counted.barrier, counted.slot, box_bytes(s), s.place, span=s.span))
            if takes_turns(s):
                out.append(self.turns.unit(s))
            if isinstance(s, ir.Turn):
                wait, arrive = self.turns.taken(s)
                out += [*wait, *self.body(s.body), *arrive]
                continue
            new = self.statement(s)
            if k in begin and isinstance(new, ir.Wgmma):
                new = synced.fenced(new)
            out.append(new)
            if isinstance(s, ir.Wgmma) and (not multiplies[k + 1] or k + 1 in begin):
                out.append(synced.AsyncCommit(Engine.PRODUCTS, s.place, span=s.span))
            if isinstance(s, ir.BoxCopy) and not s.is_load:  # a group of its own: the next one may have to wait for it
                out.append(synced.AsyncCommit(Engine.BOXES, s.place, span=s.span))
            out += self.added.after.get(s.number, ())
        if len(out) == len(body) and all(a is b for a, b in zip(out, body)):
            return body
        return self.added.numbers.given(out)

    def statement(self, s: ir.Stmt) -> ir.Stmt:
        match s:
            case ir.BoxCopy() if (counted := self.added.loads.get(s.number)) is not None:
                return synced.counted(s, counted.barrier, counted.slot)
            case ir.Group() if s.number in self.turns.unit_of:
                self.turns.units.append(self.turns.unit_of[s.number])
                new = with_bodies(s, self.body)
                self.turns.units.pop()
                return new
            case _:
                return with_bodies(s, self.body)


__all__ = ["Pipelined", "lower_pipelines"]


def _groups(body: ir.Body) -> set[int]:
    """Find where groups of wgmma begin that are committed together: wgmma in a row, until one has to wait for another
    one of them, since it uses registers that the other writes, or writes what the other reads.
    """
    found: set[int] = set()
    group: list[ir.Stmt] = []
    for k, s in enumerate(body):
        if begins(s) is not Engine.PRODUCTS:
            group = []
            continue
        if not group or any(_in_the_way(other, s) for other in group):
            found.add(k)
            group = []
        group.append(s)
    return found


def _in_the_way(a: ir.Stmt, b: ir.Stmt) -> bool:
    """Two that add to one array do so in order, if they add to as many of its registers."""
    mine, theirs = ([e for e in effects(s) if e.var is not None] for s in (a, b))
    return any(
        x.var == y.var
        and (x.kind.writes or y.kind.writes)
        and (x.kind is not y.kind or math.prod(x.box or ()) != math.prod(y.box or ()))
        for x in mine
        for y in theirs
    )
