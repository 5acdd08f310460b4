"""Memory handed on by release and acquire: by relaxed atomics and plainly, between blocks, warps and roles, once, in a chain, in rounds, and to whoever comes last."""

from __future__ import annotations

import random

from fuzz.case import HEADER
from fuzz.writer import Writer

STORES = ("store", "store", "exch", "add", "cas", "plain")
LOADS = ("load", "load", "add", "or_")
SCOPED = ', scope="block"'


class HandWriter(Writer):
    """Writes one side of a hand-over at a time.  `many`: threads of the group that hands over."""

    def __init__(self, rng: random.Random, threads: int, many: int, inside: bool):
        super().__init__(rng, threads, 4)
        self.many, self.inside = many, inside
        self.plain = False
        self.tags.add("release")

    def scope(self) -> str:
        return self.pick(["", SCOPED]) if self.inside else self.pick(["", "", ', scope="gpu"', ', scope="system"'])

    def turned(self, var: str = "t") -> str:
        """Another thread's number, for each thread one."""
        n = self.many
        return self.pick([var, f"{n - 1} - {var}", f"({var} + {1 + self.below(n)}) % {n}", f"{var} ^ {1 << self.below(3)}" if n % 8 == 0 else f"{n - 1} - {var}"])

    def stored(self, data: str, at: str, value: str) -> None:
        """To an element that holds 0."""
        match "plain" if self.plain else self.pick(STORES[:-1]):
            case "plain":
                self.say(f"{data}[{at}] = {value}")
            case "cas":
                self.say(f"atomic.cas({data}, {at}, 0, {value})")
            case op:
                self.say(f"atomic.{op}({data}, {at}, {value})")

    def loaded(self, data: str, at: str) -> str:
        if self.plain:
            return f"{data}[{at}]"
        op = self.pick(LOADS)
        return f"atomic.load({data}, {at})" if op == "load" else f"atomic.{op}({data}, {at}, 0)"

    def alone(self, body) -> None:
        """One thread of the group does it."""
        if self.chance(3):
            with self.block("with each(thread) as t:"), self.block(f"if t == {self.below(self.many)}:"):
                body()
        else:
            with self.block("with one(thread):"):
                body()

    def release(self, flag: str, at: str, value: str = "1") -> None:
        order, scope = self.pick(["release", "release", "acq_rel", "seq_cst"]), self.scope()
        store = order in ("release", "seq_cst") and self.chance(2)
        op = "store" if store else self.pick(["exch", "exch", "max"])
        self.say(f'atomic.{op}({flag}, {at}, {value}, order="{order}"{scope})')

    def acquire(self, flag: str, at: str, least: str = "1") -> None:
        order, scope = self.pick(["acquire", "acquire", "seq_cst"]), self.scope()
        got = f'atomic.load({flag}, {at}, order="{order}"{scope})' if self.chance(3) else f'atomic.{self.pick(["add", "or_", "max"])}({flag}, {at}, 0, order="acq_rel"{scope})'
        with self.block(f"while {got} < {least}:"):
            self.say("pass")

    def noise(self, data: str = "count") -> None:
        if self.chance(3):
            with self.block("with each(thread) as t:"):
                at = self.below(3)  # each operation has an element of its own: of two on one, the order would count
                self.say(f"atomic.{('add', 'max', 'xor')[at]}({data}, {8 + at}, t * {self.below(5)})")

    def speaks(self, flag: str, at: str, own: bool, body) -> None:
        """One for all, or each thread by a flag of its own."""
        if own:
            with self.block("with each(thread) as t:"):
                body(flag, f"({at}) * {self.many} + t")
        else:
            self.alone(lambda: body(flag, at))


def text(w: Writer, decorator: str, each: str) -> str:
    head = f"""@kernel({decorator})
def k(x: ptr(const(int)), data: ptr(int), flags: ptr(int), out: ptr(int), count: ptr(int)):
    {each}"""
    return HEADER + "\n\n" + "\n".join([head, *w.lines]) + "\n"


def arguments(size: int) -> tuple[str, ...]:
    return (f"np.arange({size}, dtype=np.int32) * 7 % 1013 + 1", *(f"np.zeros({size}, np.int32)" for _ in range(3)), "np.zeros(16, np.int32)")


def blocks_in_a_row(rng: random.Random):
    """Block b takes the tile that block b - 1 has left, and leaves its own, some rounds."""
    t, blocks, rounds = rng.choice([32, 64, 64, 96]), rng.choice([2, 2, 3]), rng.choice([1, 1, 2, 3])
    w = HandWriter(rng, t, t, False)
    w.indent = 2
    w.plain, own = w.chance(3), w.chance(4)
    size = blocks * rounds * t
    slot, before = f"(r * {blocks} + b)", f"(r * {blocks} + b - 1)"
    w.noise()
    with w.block(f"for r in range({rounds}):"):
        w.say("mine: int @ thread[1] = 0")
        with w.block("if b > 0:"):
            w.speaks("flags", before, own, w.acquire)
            w.noise()
            with w.block("with each(thread) as t:"):
                w.say(f"mine = {w.loaded('data', f'{before} * {t} + ({w.turned()})')} * 3")
        w.noise()
        with w.block(f"with each(thread{', data' if w.plain else ''}) as t:"):
            w.say(f"mine += x[{slot} * {t} + t]")
            w.stored("data", f"{slot} * {t} + {w.turned() if not w.plain else 't'}", "mine")
        w.speaks("flags", slot, own, w.release)
        with w.block("with each(thread, out) as t:"):
            w.say(f"out[{slot} * {t} + t] = mine")
    each = f"with each(block, out{', data' if w.plain else ''}, disjoint=out) as b:"
    return text(w, f"threads={t}, cooperative=True", each), arguments(size), blocks, {"in a row", *w.tags}


def ring(rng: random.Random):
    """One block fills a few slots again and again, another one empties them: flags in both directions."""
    t, rounds, slots = rng.choice([32, 64]), rng.choice([3, 4, 5]), rng.choice([1, 2])
    w = HandWriter(rng, t, t, False)
    w.indent = 2
    w.plain, own = w.chance(3), w.chance(4)
    put, take = w.pick(["store", "exch"]), w.loaded("data", f"(r % {slots}) * {t} + ({w.turned()})")
    full, empty = "0", "1"
    with w.block(f"for r in range({rounds}):"):
        with w.block("if b == 0:"):
            with w.block(f"if r >= {slots}:"):
                w.speaks("flags", empty, own, lambda flag, at: w.acquire(flag, at, f"r - {slots - 1}"))
            with w.block(f"with each(thread{', data' if w.plain else ''}) as t:"):
                at = f"(r % {slots}) * {t} + t"
                w.say(f"data[{at}] = x[r * {t} + t]" if w.plain else f"atomic.{put}(data, {at}, x[r * {t} + t])")
            w.speaks("flags", full, own, lambda flag, at: w.release(flag, at, "r + 1"))
        with w.block("else:"):
            w.speaks("flags", full, own, lambda flag, at: w.acquire(flag, at, "r + 1"))
            w.say("got: int @ thread[1] = 0")
            with w.block("with each(thread) as t:"):
                w.say(f"got = {take}")
            w.speaks("flags", empty, own, lambda flag, at: w.release(flag, at, "r + 1"))
            with w.block("with each(thread, out) as t:"):
                w.say(f"out[r * {t} + t] = got")
    each = f"with each(block, out{', data' if w.plain else ''}, disjoint=out) as b:"
    return text(w, f"threads={t}, cooperative=True", each), arguments(rounds * t), 2, {"ring", *w.tags}


def last_one(rng: random.Random):
    """All blocks combine or store, each draws a ticket, and the one with the last reads what all have done."""
    t, blocks = rng.choice([32, 64]), rng.choice([1, 2, 3])
    w = HandWriter(rng, t, t, False)
    w.indent = 2
    bins = w.chance(2)
    with w.block("with each(thread) as t:"):
        if bins:
            w.say(f"atomic.{w.pick(['add', 'max', 'or_', 'xor'])}(data, x[b * {t} + t] & 7, x[t])")
        else:
            w.stored("data", f"b * {t} + {w.turned()}", f"x[b * {t} + t]")
    w.noise()
    w.say("ticket: int @ thread[1] = 0")
    with w.block("with one(thread):"):
        w.say(f'ticket = atomic.add(flags, 0, 1, order="{w.pick(["acq_rel", "acq_rel", "seq_cst"])}"{w.scope()})')
    with w.block(f"if intrinsic.broadcast(ticket) == {blocks - 1}:"):
        with w.block("with each(thread, out) as t:"):
            if bins:
                w.say(f"out[t] = {w.loaded('data', 't & 7')}")
            else:
                w.say("total = 0")
                with w.block(f"for k in range({blocks}):"):
                    w.say(f"total = total * 3 + {w.loaded('data', f'k * {t} + ({w.turned()})')}")
                w.say("out[t] = total")
    return text(w, f"threads={t}", "with each(block, out, disjoint=out) as b:"), arguments(blocks * t), blocks, {"last one", *w.tags}


def warps_in_a_row(rng: random.Random):
    """Within a block: each warp, or each role of warps, takes what the one before has left, in shared or global memory."""
    warps, shared, flagged = rng.choice([2, 3, 4]), rng.choice([False, True, True]), rng.choice([False, True])
    w = HandWriter(rng, 32 * warps, 32, True)
    w.indent = 2
    data, flags = "tile" if shared else "data", "ready" if flagged else "flags"
    if shared:
        w.say(f"tile: shared(int[{32 * warps}])")
    if flagged:
        w.say(f"ready: shared(int[{warps}])")
    names = ", ".join((["tile"] if shared else []) + (["ready"] if flagged else []))
    if names:
        with w.block(f"with each(thread, {names}) as t:"):
            if shared:
                w.say("tile[t] = 0")
            if flagged:
                with w.block(f"if t < {warps}:"):
                    w.say("ready[t] = 0")
    rest = w.pick(["with each(warp) as w:", "with each(warp) as w:", "with each(warp, out, disjoint=out) as w:"])
    with w.block(rest):
        w.say("mine: int @ thread[1] = 0")
        with w.block("if w > 0:"):
            w.alone(lambda: w.acquire(flags, "w - 1"))
            with w.block("with each(thread) as t:"):
                w.say(f"mine = {w.loaded(data, f'(w - 1) * 32 + ({w.turned()})')} * 3")
        with w.block("with each(thread) as t:"):
            w.say("mine += x[w * 32 + t]")
            w.stored(data, f"w * 32 + {w.turned()}", "mine")
        w.noise()
        w.alone(lambda: w.release(flags, "w"))
        if "out" in rest:
            with w.block("with each(thread, out) as t:"):
                w.say("out[w * 32 + t] = mine")
    if "out" not in rest:
        with w.block("with each(thread, out) as t:"):
            w.say(f"out[t] = {w.loaded(data, f'{32 * warps - 1} - t')}")
    return text(w, f"threads={32 * warps}, blocks=1", "with each(block, out, disjoint=out) as b:"), arguments(32 * warps), 1, {"warps in a row", *w.tags}


def roles_hand_over(rng: random.Random):
    """A role of some warps hands over to the same role of the next block, while the others do something else."""
    first, other = rng.choice([(32, 32), (64, 32), (32, 64), (96, 32)])
    blocks = rng.choice([2, 3])
    w = HandWriter(rng, first + other, first, False)
    w.indent = 2
    w.say(f"work, rest = roles({first}, {other})")
    with w.block("with work():"):
        w.say("mine: int @ thread[1] = 0")
        with w.block("if b > 0:"):
            w.alone(lambda: w.acquire("flags", "b - 1"))
            with w.block("with each(thread) as t:"):
                w.say(f"mine = {w.loaded('data', f'(b - 1) * {first} + ({w.turned()})')} * 3")
        with w.block("with each(thread) as t:"):
            w.say(f"mine += x[b * {first} + t]")
            w.stored("data", f"b * {first} + {w.turned()}", "mine")
        w.alone(lambda: w.release("flags", "b"))
        with w.block("with each(thread, out) as t:"):
            w.say(f"out[b * {first} + t] = mine")
    with w.block("with rest(), each(thread) as t:"):
        w.say(w.pick(["atomic.add(count, 3, t)", "intrinsic.nanosleep(20)"]))
    return text(w, f"threads={first + other}, cooperative=True", "with each(block, out, disjoint=out) as b:"), arguments(blocks * first), blocks, {"roles hand over", *w.tags}


def make(rng: random.Random):
    return rng.choices([blocks_in_a_row, ring, last_one, warps_in_a_row, roles_hand_over], [5, 3, 3, 4, 2])[0](rng)
