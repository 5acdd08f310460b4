"""Whole grids: cooperative ones that exchange memory, blocks that hand values on by release and acquire, atomics of all kinds, orders and scopes."""

from __future__ import annotations

import random

from fuzz.case import HEADER
from fuzz.memory import SOURCE_ARRAY, MemoryWriter
from fuzz.writer import Here, Memory, Unit, Writer

ATOMICS = ("add", "min", "max", "and_", "or_", "xor")


class GridWriter(MemoryWriter):
    weights = dict(write=8, read=6, atomic=2, register=2, alone=2, lower=3, loop_=6, branch_=3, narrow_=8, tree_=1, carry_=2)
    cooperative = True

    def copies(self, here: Here, m: Memory) -> bool:
        return False

    def register(self, here: Here) -> None:
        if here.unit.word == "grid[1]" and self.cooperative and self.chance(2):
            return self.say(self.pick([self.pick(["intrinsic.sync_grid()", "intrinsic.sync()"]), self.decision(here, "grid")]))
        super().register(here)

    def sizes(self, here: Here) -> list[tuple[str, int]]:
        if here.unit.word == "grid[1]":
            return [("block[1]", self.threads), ("block[1]", self.threads), ("thread[32]", 32)]
        return super().sizes(here)


def exchange(rng: random.Random):
    """Memory of the whole grid, taken back at its level."""
    threads, blocks, cooperative = rng.choice([32, 32, 64]), rng.choice([2, 2, 3]), rng.random() < 0.85
    w = GridWriter(rng, threads, 2)
    w.cooperative = cooperative
    w.most = 16
    unit = Unit("grid[1]", blocks * threads, "t", "u")
    size = blocks * threads * rng.choice([1, 2])
    here = Here(unit, (Memory("space", size, stable=False, shared=False),), 2)
    w.prologue(unit, "1")
    w.say("v: u32 @ thread[1] = u32(t)")
    w.write(here)
    w.statements(here, 3)
    w.say(f"v = v * 31 + space[{size - 1} - t]")
    with w.block("with partition(out, p=thread[1], offset=t) as mine:"):
        w.say("mine[0] = v")
    head = f"""@kernel
@requires(grid[1], block[1], thread[{threads}]{', cooperative=True' if cooperative else ''})
def k(out: ptr(u32) @ grid[1], space: ptr(u32) @ grid[1], src: ptr(const(u32)) @ grid[1], n: int @ grid[1], m: int @ grid[1]):
    with group(grid[1]):"""
    source = "\n\n\n".join([HEADER, *w.functions, "\n".join([head, *w.lines])]) + "\n"
    return source, (f"np.zeros({threads * blocks}, np.uint32)", f"np.arange({size}, dtype=np.uint32)", SOURCE_ARRAY, "3", "2"), blocks, {"cooperative", *w.tags}


def handed_on(rng: random.Random):
    """Each block waits for the one before it: what that wrote before its release is read after the acquire."""
    w = Writer(rng, rng.choice([32, 64]), 4)
    blocks, t = rng.choice([2, 3]), w.threads
    scope = w.pick(["", ', scope="gpu"', ', scope="system"'])
    kind = w.pick(["flag", "ticket", "all"])
    w.say("t: int @ thread[1] = id()")
    w.say("v: u32 @ thread[1] = u32(t) * 3 + u32(b)")
    w.say(f"s: shared(u32[{t}])")
    with w.block("with partition(s, p=thread[1], offset=t) as m:"):
        w.say("m[0] = v")
    if w.chance(2):
        w.say(f"v = v + s[{t - 1} - t]")
    if kind == "flag":  # one thread writes and releases, one thread waits and reads
        with w.block("with claim(s, p=thread[1]) as c:"):
            with w.block("match split(thread):"):
                with w.block("case 1:"):
                    w.say("before: u32 @ thread[1] = 1")
                    with w.block("if b > 0:"):
                        with w.block(f"while atomic.load(flag, b - 1, order=\"acquire\"{scope}) == 0:"):
                            w.say("pass")
                        w.say(w.pick(["before = atomic.load(data, b - 1)", f"before = atomic.add(data, b - 1, {w.below(2)})"]))
                    w.say("atomic.store(data, b, before * 3 + c[5])")
                    w.say(f"atomic.store(flag, b, 1, order=\"{w.pick(['release', 'release', 'seq_cst'])}\"{scope})")
                    w.say("c[0] = before")
        w.say("v = v + s[0]")
    elif kind == "ticket":  # every block adds its share; who comes last takes the sum
        with w.block("with claim(s, p=thread[1]) as c:"):
            with w.block("match split(thread):"):
                with w.block("case 1:"):
                    w.say("atomic.add(data, 0, c[3] & 255)")
                    w.say(f"number: u32 @ thread[1] = atomic.add(flag, 0, 1, order=\"acq_rel\"{scope})")
                    with w.block(f"if number == {blocks - 1}:"):
                        w.say("atomic.store(data, 1, atomic.load(data, 0) + 7)")
        w.say("v = v + s[1]")
    else:  # the group's writes, published by one of its threads
        with w.block("with partition(own, p=thread[1], offset=t) as m:"):
            w.say("m[0] = v + 5")
        with w.block("with claim(s, p=thread[1]) as c:"):
            with w.block("match split(thread):"):
                with w.block("case 1:"):
                    w.say(f"c[0] = c[0] + (atomic.add(flag, 0, 1, order=\"acq_rel\"{scope}) & 0)")
        w.say("v = v + own[0] + s[0]")
    w.say("mine[0] = v")
    head = f"""@kernel
@requires(grid[1], block[1], thread[{t}])
def k(out: ptr(u32) @ grid[1], part: ptr(u32) @ grid[1], data: ptr(u32) @ grid[1], flag: ptr(u32) @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        b: int @ block[1] = id()
        with partition(out, p=thread[1], offset=i) as mine, partition(part, p=block[1], f=lambda k: {t} * b + k) as own:
            with group(block[1]):"""
    arguments = (f"np.zeros({t * blocks}, np.uint32)", f"np.zeros({t * blocks}, np.uint32)", "np.zeros(8, np.uint32)", "np.zeros(8, np.uint32)")
    return HEADER + "\n\n" + "\n".join([head, *w.lines]) + "\n", arguments, blocks, {"release", kind}


def published(rng: random.Random):
    """All threads write, one of them releases for the group; the block that comes last reads what all have written."""
    t, blocks = rng.choice([32, 64]), rng.choice([2, 3])
    order = rng.choice(["acq_rel", "acq_rel", "seq_cst"])
    index = rng.choice(["t", f"{t - 1} - t", f"(t + 7) % {t}"])
    source = f"""{HEADER}

@kernel
@requires(grid[1], block[1], thread[{t}])
def k(part: ptr(u32) @ grid[1], flag: ptr(u32) @ grid[1], out: ptr(u32) @ grid[1]):
    with group(grid[1]):
        b: int @ block[1] = id()
        blocks: int = count(block[1])
        with partition(part, p=block[1]) as parts, partition(out, p=block[1]) as o:
            with group(block[1]):
                done: shared(u32[1])
                t: int @ thread[1] = id()
                with partition(parts, p=thread[1], offset={t} * b + {index}) as mine:
                    mine[0] = u32(t) * {rng.randrange(1, 9)} + u32(b)
                with claim(done, p=thread[1]) as cell:
                    match split(thread):
                        case 1:
                            cell[0] = atomic.add(flag, 0, 1, order="{order}")
                if done[0] == u32(blocks - 1):
                    with partition(o, p=thread[1], offset=t) as mine:
                        v: u32 @ thread[1] = 0
                        for i in range(blocks):
                            v += parts[{t} * i + t]
                        mine[0] = v
"""
    return source, (f"np.zeros({t * blocks}, np.uint32)", "np.zeros(1, np.uint32)", f"np.zeros({t}, np.uint32)"), blocks, {"release", "published"}


def atomics(rng: random.Random):
    """Every atomic, on global and shared memory, where the order of threads does not show."""
    w = Writer(rng, rng.choice([32, 64]), 4)
    t, blocks = w.threads, rng.choice([1, 2])
    elem = w.pick(["u32", "u32", "i32", "u64"])
    word = {"i32": "int"}.get(elem, elem)
    w.say("t: int @ thread[1] = id()")
    w.say(f"s: shared({word}[{t}])")
    with w.block("with partition(s, p=thread[1], offset=t) as m:"):
        w.say(f"m[0] = {word}(t)")

    def extras(shared: bool) -> str:
        order = w.pick(["", *(f', order="{o}"' for o in ("relaxed", "acquire", "release", "acq_rel", "seq_cst"))])
        return order + w.pick(["", ', scope="gpu"', ', scope="system"', *([', scope="block"', ', scope="cluster"'] if shared else [])])

    def plain(op: str, extra: str) -> str:
        """What an order of loads, or of stores, may be."""
        bad = {"load": ("release", "acq_rel"), "store": ("acquire", "acq_rel")}[op]
        return "" if any(f'"{b}"' in extra for b in bad) else extra

    places = {}  # which operation an element is combined by: others would see its order
    for _ in range(3 + w.below(4)):
        shared = w.chance(2)
        base, size = ("s", t) if shared else ("cells", 8)
        cell = w.below(size) if shared else w.below(8)
        op = places.setdefault((shared, cell), w.pick(ATOMICS))
        value = w.pick([f"{word}(t + {w.below(9)})", f"{word}(t * 5 % 64)", f"{word}({1 + w.below(100)})"])
        w.say(f"atomic.{op}({base}, {cell}, {value}{extras(shared)})")
    if elem == "u32":
        w.say(f"atomic.{w.pick(['inc', 'dec'])}(cells, 8, {5 + w.below(99)}{extras(False)})")
    if w.chance(2):
        w.say(f"old: {word} @ thread[1] = atomic.{w.pick(['exch', 'exch'])}(own, t, {word}(t + 3){extras(False)})")
        w.say("v: u32 @ thread[1] = u32(old)")
    else:
        w.say(f"old: {word} @ thread[1] = atomic.cas(own, t, {word}(t * {w.pick([0, 1])}), {word}(9){extras(False)})")
        w.say("v: u32 @ thread[1] = u32(old)")
    w.say(f"atomic.store(own, {t} + t, {word}(t){plain('store', extras(False))})")
    w.say(f"v = v + u32(atomic.load(own, {t} + t{plain('load', extras(False))}))")
    w.say("intrinsic.syncthreads()" if w.chance(3) else f"v = v + u32(s[{t - 1} - t])")
    w.say("mine[0] = v")
    head = f"""@kernel
@requires(grid[1], block[1], thread[{t}])
def k(out: ptr(u32) @ grid[1], cells: ptr({word}) @ grid[1], space: ptr({word}) @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        b: int @ block[1] = id()
        with partition(out, p=thread[1], offset=i) as mine, partition(space, p=block[1], f=lambda k: {2 * t} * b + k) as own:
            with group(block[1]):"""
    dtype = {"i32": "int32", "u32": "uint32", "u64": "uint64"}[elem]
    arguments = (f"np.zeros({t * blocks}, np.uint32)", f"np.full(9, 77, np.{dtype})", f"np.arange({2 * t * blocks}, dtype=np.{dtype})")
    return HEADER + "\n\n" + "\n".join([head, *w.lines]) + "\n", arguments, blocks, {"atomics"}


def locked(rng: random.Random):
    """One thread of each warp takes a lock, and adds to what it guards."""
    t, blocks = rng.choice([32, 64, 64]), rng.choice([1, 2, 3])
    source = f"""{HEADER}

@kernel
@requires(grid[1], block[1], thread[{t}])
def k(l: ptr(u32) @ grid[1], a: ptr(u32) @ grid[1]):
    with group(grid[1]):
        t: int @ thread[1] = id()
        with partition(a, p=thread[1]) as m:
            with group(thread[1]):
                if t % 32 == {rng.choice([0, 5])}:
                    while atomic.cas(l, 0, 0, 1, order="acquire") != 0:
                        pass
                    m[0] = m[0] + {rng.randrange(1, 9)}
                    atomic.store(l, 0, 0, order="release")
"""
    return source, ("np.zeros(1, np.uint32)", "np.zeros(1, np.uint32)"), blocks, {"lock"}


def decided(rng: random.Random):
    """What the grid decides together, and memory that it exchanges in between."""
    threads, blocks = rng.choice([32, 40, 64]), rng.choice([1, 2, 3])
    w = GridWriter(rng, threads, 2)
    here = Here(Unit("grid[1]", blocks * threads, "t", "u"), (), 2)
    size = threads * blocks
    w.say("t: int @ thread[1] = id()")
    w.say(f"v: u32 @ thread[1] = u32(t) * {rng.randrange(1, 9)}")
    w.say("u: int = 1")
    with w.block(f"for i in range({rng.choice(['2', '3', 'n'])}):"):
        for _ in range(rng.choice([1, 2, 3])):
            w.say(w.decision(here, "grid"))
        if w.chance(2):
            with w.block("with partition(space, p=thread[1], offset=t) as m:"):
                w.say("m[0] = v + u32(u)")
            w.say(f"v = v * 3 + space[{size - 1} - t]")
        with w.block(f"if u % 3 == {w.below(3)}:"):
            w.say(w.decision(here, "grid"))
        w.say("v = v * 5 + u32(u + i)")
    with w.block("with partition(out, p=thread[1], offset=t) as mine:"):
        w.say("mine[0] = v + u32(u)")
    head = f"""@kernel
@requires(grid[1], block[1], thread[{threads}], cooperative=True)
def k(out: ptr(u32) @ grid[1], space: ptr(u32) @ grid[1], n: int @ grid[1]):
    with group(grid[1]):"""
    arguments = (f"np.zeros({size}, np.uint32)", f"np.arange({size}, dtype=np.uint32)", "2")
    return HEADER + "\n\n" + "\n".join([head, *w.lines]) + "\n", arguments, blocks, {"cooperative", "decided"}


def make(rng: random.Random):
    return rng.choices([exchange, handed_on, published, atomics, locked, decided], [12, 4, 2, 6, 1, 3])[0](rng)
