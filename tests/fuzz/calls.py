"""Device functions: memory, references, arrays by value, results at several privileges, early returns, constexprs; called in every place an expression has."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from fuzz.memory import MemoryWriter, arguments, block_program
from fuzz.writer import Here, Memory, Unit


@dataclass(frozen=True)
class Function:
    """size, cols, elem, shared: of its memory parameter; ref, value: whether it takes the local array so; generic: whether its last parameter is a constexpr."""

    name: str
    unit: Unit
    memory: Memory | None
    const: bool
    ref: bool
    value: bool
    generic: bool
    result: str


class CallWriter(MemoryWriter):
    weights = dict(write=6, read=5, uniform_read=2, register=2, alone=1, lower=1, collective=3, view_read=1, call=14, again=8, helper=6, uniform=3, turning=2, branching=4, spelled=2, zeros=1,
                   loop_=4, branch_=3, narrow_=4, claim_=2, scratch_=2, carry_=1, roles_=2, toggle_=1)

    def __init__(self, rng: random.Random, threads: int, indent: int = 4):
        super().__init__(rng, threads, indent)
        self.known: list[Function] = []
        self.array = False
        self.uniform_before = ""  # a call of an earlier one

    # ---- functions of threads

    def helper(self, here: Here) -> None:
        """A function of one thread, or of a warp, on values and local arrays alone."""
        warp = here.unit.size % 32 == 0 and here.unit.word.startswith(("thread", "block")) and self.chance(3)
        word, f = ("thread[32]", self.fresh("h")) if warp else ("thread[1]", self.fresh("h"))
        ref, value, generic = self.chance(2), self.chance(2), self.chance(3)
        result = "thread[1]" if not warp else self.pick(["thread[1]", "thread[32]", "thread[64]" if self.chance(3) else "thread[32]"])
        self.functions.append(self.small(f, word, ref, value, generic, result))
        self.tags.add("call")
        arguments = ["v", *(["a"] if ref else []), *(["a"] if value else []), *([str(1 + self.below(3))] if generic else [])]
        self.needs_array()
        call = f"{f}({', '.join(arguments)})"
        if warp:
            with self.block("with group(thread[32]):"):
                if result == "thread[1]":
                    self.say(f"v = v + {call}")
                else:
                    x = self.fresh("x")
                    self.say(f"{x}: u32 @ {result} = {call}")
                    with self.block(f"if {x} % 2 == 0:"):
                        self.say("v = v + intrinsic.shfl_xor(v, 1)")
            return
        again = f"{f}({', '.join(['v + 1', *arguments[1:]])})"
        nested = f"{f}({', '.join([call, *arguments[1:]])})"
        options = [f"v = {call}", f"v = v * 3 + {call}", f"v = a[0] * 5 + {call}", f"v = {call} + a[0] * 5", f"v = a[1] + {call} * a[1]", f"v = {call} - {again}", f"v = {nested}",
                   f"v = v + ({call} if {here.unit.same} % 2 == 0 else v)", f"a[int({call} & 3)] = v", f"a[2] += {call}", f"v = max({call}, a[3])", f"v = src[int({call} & 255)]"]
        line = self.pick(options)
        if self.chance(4):
            with self.block("with group(thread[1]):"):
                with self.block(f"if {self.pick([f'{call} % 3 == 1', f'0 < {call} % 8 <= 5', f'v % 2 == 0 and {call} % 2 == 1'])}:"):
                    self.say("v = v + a[0]")
                if self.chance(2):
                    with self.block("else:"):
                        self.say(line)
        else:
            self.say(line)

    def needs_array(self) -> None:
        self.array = True

    def small(self, f: str, word: str, ref: bool, value: bool, generic: bool, result: str) -> str:
        params = ["x: u32 @ thread[1]", *(["r: ref(u32[4]) @ thread[1]"] if ref else []), *(["w: u32[4] @ thread[1]"] if value else []), *(["N: constexpr(int)"] if generic else [])]
        lines = [f"@device\n@requires({word})\ndef {f}({', '.join(params)}) -> u32 @ {result}:"]
        turns = "N" if generic else str(2 + self.below(2))
        arrays = [*(["r"] if ref else []), *(["w"] if value else [])]
        if arrays and self.chance(2):
            lines += [f"    {self.pick(arrays)}[{self.below(4)}] {self.pick(['=', '+='])} x + {self.below(9)}"]
        if arrays:
            lines += [f"    for q in range({turns}):", f"        x = x * 3 + {self.pick(arrays)}[q]"]
        if ref and value and self.chance(2):
            lines += ["    r[0] = r[0] + 10", "    x = x + w[0]"]
        if word == "thread[32]":
            lines += [f"    y: u32 = intrinsic.reduce_{self.pick(['add', 'max', 'xor'])}(x)"]
            if self.chance(2):
                lines += [f"    if y % 2 == {self.below(2)}:", "        return y + 1"]
            return "\n".join([*lines, "    return y"])
        match self.below(4):
            case 0:
                lines += [f"    if x % {2 + self.below(3)} == 0:", f"        return x + {self.below(9)}"]
            case 1:
                lines += [f"    for p in range({turns} + 1):", "        x = x * 5 + u32(p)", f"        if x % 3 == {self.below(3)}:", "            return x"]
            case 2:
                lines += ["    if x > 100:", "        return x - 100", "    else:", "        x = x + 1"]
        return "\n".join([*lines, "    return x"])

    def uniform(self, here: Here) -> None:
        """A function that does nothing but compute, of what the whole unit agrees on, and of what each thread has."""
        f, same, word = self.fresh("h"), here.unit.same, here.unit.word
        turns = self.pick(["    for q in range(y % 3):\n        x = x * 3 + q", "    while x > y:\n        x = x // 2", "    if x % 2 == 0:\n        return y + 1", "    x = min(x, 7) if y > 1 else x + y"])
        inner = self.pick(["x + y", "max(x - y, 0)", f"{self.uniform_before} + y" if self.uniform_before else "x * y"])
        self.functions.append(f"@device\n@requires(thread[1])\ndef {f}(x: int @ thread[1], y: int @ thread[1]) -> int @ thread[1]:\n{turns}\n    return {inner}")
        self.uniform_before = f"{f}(y, 3)"
        call = f"{f}({same} & 7, {1 + self.below(4)})"
        self.tags.add("pure call")
        how = self.below(4)
        if how == 0:
            self.say(f"{same} = {call} & 7")
        elif how == 1:
            x, own = self.fresh("x"), self.pick([f"{same} & 3", "id() & 3"])
            self.say(f"{x}: int @ {word} = {f}({same} & 7, 2)" if word == "grid[1]" or here.called else f"{x}: int @ {self.pick([word, 'thread[1]'])} = {f}({own}, 2)" if own == f"{same} & 3" else
                     f"{x}: int @ thread[1] = {f}({own}, 2)")
            self.say(f"v = v * 3 + u32({x})")
        elif how == 2:
            with self.block(f"for {self.fresh('i')} in range({call} % 3):"):
                self.statements(replace(here.deeper(), breakable=False), 2)
        else:
            with self.block(f"if {call} % 2 == {self.below(2)}:"):
                self.statements(here.deeper(), 2)

    def turning(self, here: Here) -> None:
        """A function whose warps take turns, with an array by value and by reference: it is put in place of its call."""
        if here.unit.word != "block[1]" or here.called or self.threads % 32 or self.threads == 32:
            return self.helper(here)
        f, order = self.fresh("fn"), self.pick([("r[0] = 5 + r[1]", "x = x + w[0]"), ("w[1] = x", "r[1] = r[1] + w[1] + w[0]"), ("r[2] = w[0]", "w[0] = r[0] + 1")])
        self.tags.add("turn")
        self.needs_array()
        self.functions.append(f"""@device
@requires(block[1], thread[{self.threads}])
def {f}(w: u32[4] @ thread[1], r: ref(u32[4]) @ thread[1], x: u32 @ thread[1]) -> u32 @ thread[1]:
    with group(thread[32]):
        with turn():
            {order[0]}
            {order[1]}
            x = x * 3 + w[0] + r[0]
    return x""")
        self.say(self.pick([f"v = {f}(a, a, v)", f"v = v + {f}(a, a, v) * 2", f"v = a[0] + {f}(a, a, v)"]))

    def branching(self, here: Here) -> None:
        """What a function returns follows from where it returns: a result above the group that chooses is refused."""
        if not (here.unit.word == "block[1]" and here.unit.size % 64 == 0) or here.called:
            return self.helper(here)
        f, x, w = self.fresh("fn"), self.fresh("x"), self.fresh("w")
        result = self.pick(["thread[32]", "thread[64]", "thread[64]", "thread[64]", "block[1]"])
        chooses, group = self.pick([("thread[32]", "thread[32]"), ("thread[32]", "thread[64]"), ("thread[32]", "thread[64]"), ("thread[64]", "thread[64]")])
        how = self.pick([["    if w % 2 == 0:", "        return 1", "    return 2"], ["    for q in range(3):", "        if q == w % 3:", "            return q", "    return 7"],
                         ["    if w == 1:", "        return 5", "    else:", "        return 6"]])
        self.functions.append("\n".join([f"@device\n@requires({chooses})\ndef {f}(w: int @ {chooses}) -> int @ {result}:", *how]))
        self.say(f"{w}: int @ {chooses} = id()")
        whole = [m for m in here.memory if m.elem == "u32" and not m.cols and m.size == here.unit.size and m.shared]
        if group == "thread[32]" or not whole:
            with self.block(f"with group({group}):"):
                self.say(f"{x}: int @ {self.pick([result, chooses])} = {f}({w})")
                with self.block(f"if {x} == {self.pick([1, 2, 5])}:"):
                    self.say("v = v + 17")
            return
        g, part, r, cell = (self.fresh(stem) for stem in "gprc")
        self.say(f"{g}: int @ {group} = id()")
        with self.block(f"with partition({self.pick(whole).name}, p={group}, offset=64 * {g}, disjoint=True) as {part}:"):
            with self.block(f"with group({group}):"):
                self.say(f"{r}: int @ thread[1] = id()")
                self.say(f"{x}: int @ {group} = {f}({w})")
                with self.block(f"if {x} == {self.pick([1, 2])}:"):
                    with self.block(f"with partition({part}, p=thread[1], offset={r}) as {cell}:"):
                        self.say(f"{cell}[0] = v")
                    self.say(f"v = v + {part}[63 - {r}]")

    def spelled(self, here: Here) -> None:
        """CUDA text, with a Python function that stands for it."""
        if here.called:
            return self.helper(here)
        f = self.fresh("fn")
        self.tags.add("unsafe")
        self.functions.append(f"""def {f}_cpu(x):
    return x * 3 + 1


@device
@requires(thread[1])
def {f}(x: u32 @ thread[1]) -> u32 @ thread[1]:
    return unsafe.cuda("{{x}} * 3u + 1u", x=x, type=u32, cpu={f}_cpu)""")
        self.say(f"v = v + {f}(v)")

    def zeros(self, here: Here) -> None:
        """Constants that are equal and not the same."""
        if here.called:
            return self.helper(here)
        f = self.fresh("fn")
        self.functions.append(f"""@device
@requires(thread[1])
def {f}(x: u32 @ thread[1], Z: constexpr(float)) -> u32 @ thread[1]:
    return x + intrinsic.bitcast(copysign(1.0, Z), u32) / {1 + self.below(9)}""")
        self.say(f"v = {f}({f}(v, {self.pick(['0.0', '-0.0', '1.0'])}), {self.pick(['-0.0', '0.0'])})")

    # ---- functions of the unit on its memory

    def call(self, here: Here) -> None:
        """A new function for the unit at hand."""
        sized = [m for m in here.memory if m.size % here.unit.size == 0]
        if here.called or not sized or here.unit.word == "grid[1]":
            return self.read(here)
        m = self.pick(sized)
        const, shared = self.chance(3), m.shared and self.chance(2)
        ref, value, generic = self.chance(3), self.chance(4), self.chance(4)
        result = self.pick(["thread[1]", "thread[1]", here.unit.word])
        if not (const or shared) or m.elem != "u32" or "atomic" in self.tags:
            result = "thread[1]"
        f = Function(self.fresh("fn"), here.unit, m, const, ref, value, generic, result)
        self.define(f, shared, here)
        self.known.append(f)
        self.use(f, m, here)

    def define(self, f: Function, shared: bool, here: Here) -> None:
        m, unit = f.memory, Unit(f.unit.word, f.unit.size, self.fresh("r"), self.fresh("same"))
        inner = type(self)(self.rng, self.threads, 1)
        inner.names, inner.tags, inner.most = self.names, self.tags, 8
        elem = {"i32": "int", "f32": "float"}.get(m.elem, m.elem)
        elem = f"const({elem})" if f.const else elem
        elem = f"shared({elem})" if shared else elem
        shape = f", ({m.size // m.cols}, {m.cols})" if m.cols else ""
        params = [f"x: ptr({elem}{shape}) @ {unit.word}", "src: ptr(const(u32)) @ grid[1]", "v: u32 @ thread[1]", f"u: int @ {unit.word}",
                  *(["a: ref(u32[4]) @ thread[1]"] if f.ref else []), *(["w: u32[4] @ thread[1]"] if f.value else []), *(["N: constexpr(int)"] if f.generic else [])]
        requires = f"block[1], thread[{self.threads}]" if unit.word == "block[1]" else unit.word
        inner.prologue(unit, "u & 7")
        seen = replace(m, name="x", stable=shared or f.const, shared=shared)
        inside = Here(unit, (seen,), 1, called=True)
        if f.generic:
            with inner.block("for q in range(N):"):
                inner.say("v = v * 3 + u32(q)")
        if f.value:
            inner.say(f"w[{self.below(4)}] += v")
        if f.ref:
            inner.say(f"a[{self.below(4)}] {self.pick(['=', '+='])} v + 3")
        if f.value:
            inner.say("v = v + w[1] * 3")
        own = unit.word == "block[1]" and self.chance(2)
        if own:
            inside = replace(inside, memory=(*inside.memory, inner.declare(inside, "mem")))
        if f.const:
            inner.read(inside)
        else:
            inner.write(inside)
            inner.statement(inside)
        if self.chance(2):
            with inner.block(f"if {unit.same} % 2 == {self.below(2)}:"):
                inner.say("return v" if f.result == "thread[1]" else f"return u32({unit.same})")
        if self.chance(4):
            with inner.block("for z in range(3):"):
                inner.say("v = v + u32(z)")
                with inner.block(f"if z == {unit.same} % 4:"):
                    inner.say("return v" if f.result == "thread[1]" else f"return {seen.name}[0, {self.below(m.cols)}]" if m.cols else f"return {seen.name}[{self.below(m.size)}]")
        inner.say(f"return {'v' if f.result == 'thread[1]' else inner.loaded(seen, str(self.below(m.size)))}")
        head = f"@device\n@requires({requires})\ndef {f.name}({', '.join(params)}) -> u32 @ {f.result}:"
        local = ["    a: u32[4] @ thread[1]"] if inner.array and not f.ref else []
        self.functions += [*inner.functions, "\n".join([head, *local, *inner.lines])]
        self.names = inner.names

    def use(self, f: Function, m: Memory, here: Here) -> None:
        self.tags.add("call")
        self.needs_array()
        args = [m.name, "src", self.value(here), here.unit.same, *(["a"] if f.ref else []), *(["a"] if f.value else []), *([str(1 + self.below(3))] if f.generic else [])]
        call = f"{f.name}({', '.join(args)})"
        if f.result != "thread[1]":
            self.say(f"{here.unit.same} = int({call} & 7)")
            return
        self.say(self.pick([f"v = {call}", f"v = v * 3 + {call}", f"v = a[0] + {call}", f"v = {call} ^ v", f"a[1] = {call}"]))

    def again(self, here: Here) -> None:
        """A function that there is already, if it fits."""
        fitting = [(f, m) for f in self.known for m in here.memory
                   if f.unit.word == here.unit.word and (m.size, m.cols, m.elem) == (f.memory.size, f.memory.cols, f.memory.elem) and m.shared >= f.memory.shared]
        if not fitting or here.called:
            return self.call(here)
        self.use(*self.pick(fitting), here)


def make(rng: random.Random):
    threads, blocks = rng.choice([64, 64, 32, 32, 96, 128]), rng.choice([1, 1, 2])
    w = CallWriter(rng, threads)
    source = block_program(w, threads, 2)
    if w.array:
        source = source.replace("                v: u32 @ thread[1] = u32(i)\n", "                v: u32 @ thread[1] = u32(i)\n                a: u32[4] @ thread[1]\n                for e in range(4):\n"
                                "                    a[e] = u32(e) + v\n")
    return source, arguments(threads, blocks, rng.choice([3, 1]), 2), blocks, w.tags
