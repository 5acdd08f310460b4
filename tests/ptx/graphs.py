"""Drawn control-flow graphs: as PTX text, and as what one thread alone does with them.

A function is a list of blocks.  A block notes that it was reached (`path = 31 * path + number`), spends fuel, and ends somehow; decisions are bits of
a generator that each thread has for itself.  Who has no fuel left stores its path and leaves, under a guard, which is no edge of the graph; so every
program ends, whatever its graph.  `alone` walks the same blocks in Python and shares nothing with the machine.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

FUEL = 40
MASK = 0xFFFFFFFF


@dataclass
class Block:
    """end: ("goto", a), ("if", a, b), ("switch", (a, b, ...), guarded: else), ("ret",) or ("exit",).  does: "call g", "maybe call g", "maybe exit",
    "maybe ret", in this order before the end."""

    end: tuple = ("ret",)
    does: list[str] = field(default_factory=list)


@dataclass
class Program:
    """functions[0] is the kernel; each calls later ones only."""

    functions: list[list[Block]]


# ---- drawing -----------------------------------------------------------------------------------------------------------------------------------------


def unstructured(draw: Random, calls: int) -> Program:
    return Program([_any_graph(draw, k, calls) for k in range(calls + 1)])


def _any_graph(draw: Random, number: int, calls: int) -> list[Block]:
    count = draw.randint(1, 9)
    any_block = lambda: draw.randrange(count)  # noqa: E731
    blocks = []
    for _ in range(count):
        kind = draw.choice(["goto", "if", "if", "if", "if", "switch", "ret", "exit"])
        match kind:
            case "goto":
                end: tuple = ("goto", any_block())
            case "if":
                end = ("if", any_block(), any_block())
            case "switch":
                end = ("switch", tuple(any_block() for _ in range(draw.randint(1, 4))), draw.choice([None, any_block()]))
            case _:
                end = (kind,)
        blocks.append(Block(end, _does(draw, number, calls)))
    return blocks


def _does(draw: Random, number: int, calls: int) -> list[str]:
    does = []
    if number < calls and draw.random() < 0.3:
        does.append(f"{draw.choice(['call', 'maybe call'])} {draw.randint(number + 1, calls)}")
    if draw.random() < 0.08:
        does.append(draw.choice(["maybe exit", "maybe ret"]))
    return does


def structured(draw: Random, calls: int) -> Program:
    return Program([_Structured(draw, k, calls).blocks for k in range(calls + 1)])


class _Structured:
    """If and else, loops with break and continue, switches, early ends: lowered to blocks, and these put in any order."""

    def __init__(self, draw: Random, number: int, calls: int):
        self.draw, self.number, self.calls = draw, number, calls
        self.blocks: list[Block] = []
        last = self.body(self.new(), 0, [])
        if last is not None:
            self.blocks[last].end = ("ret",)
        if draw.random() < 0.5:
            self.shuffle()

    def new(self) -> int:
        self.blocks.append(Block(("ret",), _does(self.draw, self.number, self.calls)))
        return len(self.blocks) - 1

    def body(self, at: int | None, depth: int, loops: list[tuple[int, int]]) -> int | None:
        """Statements from a block on; the block they end in, or None if they lead elsewhere.  loops: where break and continue lead."""
        for _ in range(self.draw.randint(1, 3)):
            if at is None:
                return None
            kind = self.draw.choice(["plain", "if", "else", "while", "do", "forever", "switch", "leave"] if depth < 2 else ["plain", "leave"])
            at = getattr(self, kind)(at, depth + 1, loops)
        return at

    def go(self, at: int | None, to: int) -> None:
        if at is not None:
            self.blocks[at].end = ("goto", to)

    def plain(self, at, depth, loops):
        after = self.new()
        self.go(at, after)
        return after

    def leave(self, at, depth, loops):
        """In one of two ways, most of the time."""
        after, out = self.new(), self.new()
        self.blocks[at].end = ("if", out, after) if self.draw.random() < 0.5 else ("if", after, out)
        where = self.draw.choice(["ret", "exit", "break", "continue", "outer"])
        if where == "ret" or where == "exit" or not loops:
            self.blocks[out].end = (where if where == "exit" else "ret",)
        elif where == "outer":
            self.go(out, loops[0][0])
        else:
            self.go(out, loops[-1][where == "continue"])
        return after

    def otherwise(self, at, depth, loops, two: bool):
        then, after = self.new(), self.new()
        other = self.new() if two else after
        self.blocks[at].end = ("if", then, other)
        self.go(self.body(then, depth, loops), after)
        if two:
            self.go(self.body(other, depth, loops), after)
        return after

    def __getattr__(self, name):
        if name == "if":
            return lambda at, depth, loops: self.otherwise(at, depth, loops, False)
        if name == "else":
            return lambda at, depth, loops: self.otherwise(at, depth, loops, True)
        if name == "while":
            return lambda at, depth, loops: self.loop(at, depth, loops, "while")
        raise AttributeError(name)

    def do(self, at, depth, loops):
        return self.loop(at, depth, loops, "do")

    def forever(self, at, depth, loops):
        return self.loop(at, depth, loops, "forever")

    def loop(self, at, depth, loops, kind):
        head, after = self.new(), self.new()
        self.go(at, head)
        if kind == "while":
            inside = self.new()
            self.blocks[head].end = ("if", inside, after)
            self.go(self.body(inside, depth, [*loops, (after, head)]), head)
        elif kind == "do":
            test = self.new()
            self.go(self.body(head, depth, [*loops, (after, test)]), test)
            self.blocks[test].end = ("if", head, after)
        else:
            self.go(self.body(head, depth, [*loops, (after, head)]), head)
        return after

    def switch(self, at, depth, loops):
        after = self.new()
        cases = [self.new() for _ in range(self.draw.randint(2, 4))]
        self.blocks[at].end = ("switch", tuple(cases), self.draw.choice([None, after]))
        for case, following in zip(cases, [*cases[1:], after]):
            self.go(self.body(case, depth, loops), self.draw.choice([following, after]))
        return after

    def shuffle(self) -> None:
        order = list(range(1, len(self.blocks)))
        self.draw.shuffle(order)
        place = {0: 0} | {old: new + 1 for new, old in enumerate(order)}
        moved = [Block() for _ in self.blocks]
        for old, block in enumerate(self.blocks):
            match block.end:
                case ("goto", a):
                    block.end = ("goto", place[a])
                case ("if", a, b):
                    block.end = ("if", place[a], place[b])
                case ("switch", cases, other):
                    block.end = ("switch", tuple(place[c] for c in cases), None if other is None else place[other])
            moved[place[old]] = block
        self.blocks = moved


# ---- one thread ------------------------------------------------------------------------------------------------------------------------------------------


class _Left(Exception):
    pass


class _Thread:
    def __init__(self, program: Program, seed: int):
        self.program, self.state, self.path, self.fuel = program, seed & MASK, 1, FUEL

    def bit(self, sides: int = 2) -> int:
        self.state = (self.state * 1664525 + 1013904223) & MASK
        return (self.state >> 16) % sides

    def run(self, number: int) -> None:
        at = 0
        blocks = self.program.functions[number]
        while True:
            block = blocks[at]
            self.path = (self.path * 31 + 100 * number + at + 1) & MASK
            self.fuel -= 1
            if self.fuel < 0:
                raise _Left
            for what in block.does:
                match what.split():
                    case ["call", g]:
                        self.run(int(g))
                    case ["maybe", "call", g]:
                        if self.bit():
                            self.run(int(g))
                    case ["maybe", "exit"]:
                        if self.bit(4) == 0:
                            raise _Left
                    case ["maybe", "ret"]:
                        if self.bit(4) == 0:
                            return
            match block.end:
                case ("goto", a):
                    at = a
                case ("if", a, b):
                    at = a if self.bit() else b
                case ("switch", cases, other):
                    chosen = self.bit(len(cases) + (other is not None))
                    at = cases[chosen] if chosen < len(cases) else other
                case ("exit",):
                    raise _Left
                case _:
                    return


def alone(program: Program, seed: int) -> int:
    """The path of one thread."""
    thread = _Thread(program, seed)
    try:
        thread.run(0)
    except _Left:
        pass
    return thread.path


# ---- text ------------------------------------------------------------------------------------------------------------------------------------------------

REGISTERS = ".reg .pred %p<8>; .reg .b32 %r<16>; .reg .b64 %d<8>;\n"
LOAD = "ld.global.u32 %r9, [%d0]; ld.global.u32 %r5, [%d0+4]; ld.global.u32 %r6, [%d0+8];\n"
STORE = "st.global.u32 [%d0], %r9; st.global.u32 [%d0+4], %r5; st.global.u32 [%d0+8], %r6;\n"
KEEP = "st.global.u32 [%d0], %r9;\n"
BIT = "mad.lo.u32 %r5, %r5, 1664525, 1013904223; shr.u32 %r7, %r5, 16; rem.u32 %r7, %r7, {n};\n"


def text(program: Program) -> str:
    """A kernel `k` of one array: for each thread its path, its generator, its fuel."""
    head = ".version 8.8\n.target sm_90a\n.address_size 64\n"
    parts = [head, *(f".func f{k}(.param .u64 p0);\n" for k in range(1, len(program.functions)))]
    for number, blocks in enumerate(program.functions):
        begin = f".func f{number}(.param .u64 p0)" if number else ".visible .entry k(.param .u64 p0)"
        own = "" if number else "mov.u32 %r0, %tid.x; mul.wide.u32 %d1, %r0, 12; add.s64 %d0, %d0, %d1;\n"
        lines = [f"{begin}\n{{\n{REGISTERS}ld.param.u64 %d0, [p0];\n{own}{LOAD}"]
        lines += [_block(number, k, block, len(blocks)) for k, block in enumerate(blocks)]
        parts.append("".join(lines) + "}\n")
    return "".join(parts)


def _guarded(guard: str, text: str) -> str:
    return "".join(f"@{guard} {one.strip()};\n" for one in text.split(";") if one.strip())


def _block(number: int, at: int, block: Block, count: int) -> str:
    out = [f"B{at}: mad.lo.u32 %r9, %r9, 31, {100 * number + at + 1}; sub.s32 %r6, %r6, 1; setp.lt.s32 %p1, %r6, 0;\n", _guarded("%p1", KEEP + "exit;")]
    for what in block.does:
        words = what.split()
        if words[-2] == "call":
            call = "{ .param .b64 a; st.param.b64 [a], %d0; CALL f" + words[-1] + ", (a); }\n" + LOAD
            if words[0] == "maybe":
                out.append(BIT.format(n=2) + "setp.ne.u32 %p2, %r7, 0;\n" + STORE + call.replace("CALL", "@%p2 call"))
            else:
                out.append(STORE + call.replace("CALL", "call.uni"))
        else:
            out.append(BIT.format(n=4) + "setp.eq.u32 %p2, %r7, 0;\n" + _guarded("%p2", (KEEP if words[1] == "exit" else STORE) + words[1]))
    match block.end:
        case ("goto", a):
            out.append("" if a == at + 1 else f"bra.uni B{a};\n")
        case ("if", a, b):
            out.append(BIT.format(n=2) + f"setp.ne.u32 %p3, %r7, 0;\n@%p3 bra B{a};\n" + ("" if b == at + 1 else f"bra.uni B{b};\n"))
        case ("switch", cases, other):
            out.append(BIT.format(n=len(cases) + (other is not None)) + f"t{at}: .branchtargets {', '.join(f'B{c}' for c in cases)};\n")
            if other is None:
                out.append(f"brx.idx %r7, t{at};\n")
            else:
                out.append(f"setp.lt.u32 %p3, %r7, {len(cases)};\n@%p3 brx.idx %r7, t{at};\n" + ("" if other == at + 1 else f"bra.uni B{other};\n"))
        case _:
            out.append((STORE if number and block.end[0] == "ret" else KEEP) + f"{block.end[0]};\n")
    return "".join(out)
