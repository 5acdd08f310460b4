"""Programs with functions, several in a kernel, against counting, as honest.py has it: *proved* and a failing launch never meet.

    PYTHONPATH=src:tests python tests/prove/honest_ways.py --family ways --count 1000 [--first 0]

Three families. `ways`: each program calls a function that leaves numbers in an array that it was given by reference, and returns in branches and loops,
through other functions; shifts by drawn amounts are among its numbers. `lines`: several accesses stand in one line, and some are outside: what is refuted fails
itself in the launch that is shown. `lean`: kernels with `lean=True`, of which the machine looks for races in all small launches.
"""

from __future__ import annotations

import argparse
import ast
import itertools
import random
import textwrap

import numpy as np

import snap
from prove.honest import (
    PROGRAMS,
    THREADS,
    WILD,
    Counted,
    counted,
    divided,
    failing,
    held,
    proved,
    rest,
)
from snap._compiler.sync import conflicting_places, synchronize
from snap.prove.properties import needless
from snap.prove.verdict import Verdict
from snap.record import replace

HEAD = ["from __future__ import annotations", "from snap import *", ""]


class Text:
    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.names = itertools.count()

    def pick(self, *choices):
        return self.random.choice(choices)


class Function(Text):
    """f(a, n, m): what it leaves in a[0] and a[1], and how it is left."""

    def __init__(self, random_: random.Random, name: str, earlier: list[str]):
        self.random, self.names, self.name, self.earlier = random_, itertools.count(), name, earlier

    def number(self, loops: tuple[str, ...]) -> str:
        known = ["n", "m", "a[0]", "a[1]", "1", "2", "0", *loops, *loops]
        one = self.pick(*known)
        if self.pick(True, True, False):
            return self.pick("0", "1", "2", "m")
        return self.pick(one, one, one, f"{one} + 1", f"{one} - {self.pick(*known)}", f"min({one}, {self.pick(*known)})", f"{one} % 3",
                         f"{self.pick('6', 'n', '1000')} >> {one}", f"1 << {one}" if loops or one in "nm12" else one)  # fmt: skip

    def condition(self, loops: tuple[str, ...]) -> str:
        return f"{self.pick('n', 'm', 'a[0]', *loops)} {self.pick('<', '<=', '>', '==', '!=')} {self.pick('0', '1', '2', '3', 'm', 'n')}"

    def body(self, deep: int, loops: tuple[str, ...]) -> list[str]:
        lines: list[str] = []
        for _ in range(self.pick(1, 1, 2) if deep else 1):
            lines += self.statement(deep, loops)
        return lines

    def statement(self, deep: int, loops: tuple[str, ...]) -> list[str]:
        kind = self.pick("store", "if", "if", "leave", "leave", "for", "while", "call") if deep else "store"
        if kind == "call" and self.earlier:
            return [f"{self.pick(*self.earlier)}(a, {self.pick('n', 'm', '3')}, m)"]
        if kind == "if":
            lines = [f"if {self.condition(loops)}:", *self.indented(self.body(deep - 1, loops))]
            return lines + (["else:", *self.indented(self.body(deep - 1, loops))] if self.pick(True, False) else [])
        if kind == "leave":
            way = self.pick("return", "return", *(("break", "continue") if loops and not loops[-1].startswith("w") else ()), *(("break",) if loops else ()))
            before = [f"a[{self.pick(0, 0, 1)}] = {self.pick('0', '1', '3', '40', self.number(loops))}"]
            return [f"if {self.condition(loops)}:", *self.indented([*before[: self.pick(0, 1, 1)], way])]
        if kind == "for":
            v = f"j{next(self.names)}"
            return [f"for {v} in range({self.pick('n', 'm', '3', '2')}):", *self.indented(self.body(deep - 1, (*loops, v)))]
        if kind == "while":
            v = f"w{next(self.names)}"
            return [f"{v} = 0", f"while {v} < {self.pick('n', 'm', '3')}:", *self.indented([*self.body(deep - 1, (*loops, v)), f"{v} += 1"])]
        return [f"a[{self.pick(0, 0, 1)}] = {self.number(loops)}"]

    def indented(self, lines: list[str]) -> list[str]:
        return ["    " + line for line in lines]

    def text(self) -> list[str]:
        body = [*self.body(2, ()), *self.statement(2, ()), f"a[0] = {self.pick('0', '1', '2', 'm')}", *self.statement(0, ())][: -self.pick(1, 1, 2) or None]
        return ["@device(thread)", f"def {self.name}(a: ref(int[2]), n: int, m: int):", *self.indented(body), ""]


class Ways(Text):
    """A kernel of several programs, each with a function and an array of its own."""

    def __init__(self, seed: int):
        super().__init__(seed)
        self.where = ["0 <= n <= 9", f"m {self.pick('>= 1', '>= 1', '>= 0')}", "m <= 3", *self.pick([], ["blocks == 1"], ["n <= 3"], ["n > 3"])]
        functions = [Function(self.random, f"f{k}", [f"f{j}" for j in range(max(0, k - 3), k)]).text() for k in range(PROGRAMS)]
        self.functions = functions
        self.parts = [self.part(k) for k in range(PROGRAMS)]

    def part(self, k: int) -> tuple[str, list[str], str]:
        name = f"x{k}"
        start = [f"a[0] = {self.pick(0, 1, 2)}", f"a[1] = {self.pick(0, 1, 'm')}"]
        call, index = [f"f{k}(a, {self.pick('n', 'n', 'm')}, m)"], self.pick("i + a[0]", "i + a[0]", "i * 3 + a[0]", "i + a[1]", "a[0] + a[1] + i", "i * 2 + a[0] - a[1]")
        lines = [f"{name}[{index}] = 1"]
        guard = self.pick("", "", "", "", "0 <= a[0] < 3", "0 <= a[0] <= n", "a[0] == 1", "0 <= a[1] < 2 and 0 <= a[0] < 2", "a[0] >= 0 and a[1] >= 0")
        if guard:
            lines = [f"if {guard}:", *("    " + line for line in lines)]
        if self.pick(True, False, False):
            lines = [f"for r in range({self.pick('m', '2')}):", *("    " + line for line in (*call, *lines))]
        else:
            lines = [*call, *lines]
        room = self.pick(f"{THREADS} * blocks + 3", f"{THREADS} * blocks + 3", f"3 * {THREADS} * blocks + 9", f"{THREADS} * blocks + 1000", f"{THREADS} * blocks + n + 3")
        return name, ["a: int[2]", *start, *lines], f"len({name}) >= {room}"

    def kernel(self) -> tuple[str, dict[str, list[range]]]:
        lines, at = list(HEAD), {}
        for k, function in enumerate(self.functions):
            at[f"x{k}"] = [range(len(lines) + 1, len(lines) + len(function) + 1)]
            lines += function
        names = [name for name, _, _ in self.parts]
        lines.append(f"@kernel(threads={THREADS}, where=lambda {', '.join(names)}, n, m, blocks: ({', '.join([*self.where, *(one for _, _, one in self.parts)])}))")
        lines.append(f"def k({', '.join(f'{name}: ptr(int)' for name in names)}, n: int, m: int):")
        for name, body, _ in self.parts:
            lines.append(f"    with each(thread, {name}) as i:")
            at[name].append(range(len(lines) + 1, len(lines) + len(body) + 1))
            lines += ["        " + line for line in body]
        return "\n".join([*lines, ""]), at

    def faults(self, k: int):
        name, body, asked = self.parts[k]
        run = runner(self.functions[: k + 1], body, name)
        kept = eval(f"lambda {name}, n, m, blocks: all(({', '.join([*self.where, asked])},))")
        for n, m, blocks in itertools.product(range(10), range(4), (1, 2)):
            T = THREADS * blocks
            for length in sorted({T + 3, 3 * T + 9, T + 1000, T + n + 3}):
                if kept(range(length), n, m, blocks):
                    yield (n, m, blocks, length), failing(run, n, m, blocks, length)
                    break  # a longer one fails where this one does, or nowhere


class CountedWays(Counted):
    """The same of local arrays, shifts and calls."""

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        if isinstance(node.op, (ast.LShift, ast.RShift)):
            return self.call("shifted", self.visit(node.left), self.visit(node.right), ast.Constant(isinstance(node.op, ast.LShift)))
        return super().visit_BinOp(node)

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        assert isinstance(node.value, ast.Name)
        return super().visit_Subscript(node) if node.value.id == self.array else self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> ast.stmt:
        (target,) = node.targets
        if isinstance(target, ast.Subscript) and target.value.id != self.array:
            return ast.Assign([target], self.visit(node.value))
        return super().visit_Assign(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt:
        return ast.Assign([node.target], ast.List([ast.Constant(0), ast.Constant(0)], ast.Load()))

    def visit_While(self, node: ast.While) -> ast.stmt:
        return self.generic_visit(node)


def shifted(a: int, by: int, left: bool) -> int:
    if not 0 <= by < 32:
        return WILD
    return (a << by) + 2**31 & 2**32 - 1 if left and not -(2**31) <= a << by < 2**31 else a << by if left else a >> by


def runner(functions: list[list[str]], body: list[str], array: str):
    text = "\n".join(line for function in functions for line in function[1:])
    text += f"\ndef run(i, n, m, touch, goes_on):\n{textwrap.indent(chr(10).join(body), '    ')}\n"
    tree = ast.parse(text)
    for function in tree.body:
        assert isinstance(function, ast.FunctionDef)
        function.args.args = [ast.arg(one.arg) for one in function.args.args]
        function.body = [CountedWays(array).visit(s) for s in function.body]
    names: dict = {"divided": divided, "rest": rest, "held": held, "counted": counted, "shifted": shifted}
    exec(compile(ast.fix_missing_locations(tree), f"<{array}>", "exec"), names)
    return names["run"]


def defined(text: str, name: str):
    """Its kernel, or None where the compiler refuses it."""
    snap.register_source(name, text)
    names: dict = {}
    try:
        exec(compile(text, name, "exec"), names)
    except snap.SnapError:
        return None
    return names["k"]


def ways(seed: int) -> dict[str, int]:
    several = Ways(seed)
    text, at = several.kernel()
    k = defined(text, f"<ways {seed}>")
    seen = {"programs": 0, "proved": 0, "launches": 0, "refused": int(k is None)}
    if k is None:
        return seen
    found = proved(k)
    for n, (name, body, _) in enumerate(several.parts):
        own = [o for o in found.obligations if any(o.span.line in lines for lines in at[name])]
        called = [o for o in found.obligations if any(o.span.line in at[f"x{j}"][0] for j in range(n))]
        seen["programs"] += 1
        if own and all(o.verdict is Verdict.PROVED for o in (*own, *called)):
            seen["proved"] += 1
            for launch, fault in several.faults(n):
                seen["launches"] += 1
                functions = "\n".join("\n".join(one) for one in several.functions[: n + 1])
                assert not fault, f"ways {seed}, {name}: proved, and with n, m, blocks, length = {launch}: {fault}\n{functions}\n" + "\n".join(body)
    return seen


# ---- several accesses in one line ---------------------------------------------------------------------------------------------------------


def lines(seed: int) -> dict[str, int]:
    """What is refuted fails itself: its index, in the launch that is shown, for some thread that comes there."""
    of = Text(seed)
    arrays = ["x", "y"]

    def access(own: str) -> str:
        return f"{of.pick(*arrays)}[{of.pick(own, own, f'{own} + n', f'{own} + 1', f'n - {own}', f'{own} * m', f'{own} - m', f'({own} + at) % (n + 1)', 'at')}]"

    reads = [access("i") for _ in range(of.pick(1, 2, 3))]
    target = access("i")
    guard = of.pick("i < n", "i <= n", "i < n + m", "True or i < n")
    where = ["0 <= n", "0 <= m <= 9", f"len(x) >= {of.pick('n', 'n + 1', '2 * n', 'n + m')}", f"len(y) >= {of.pick('n', 'n + 1', '2 * n', '1')}"]
    text = "\n".join([*HEAD, f"@kernel(threads={THREADS}, blocks=1, where=lambda x, y, n, m: ({', '.join(where)}))", "def k(x: ptr(int), y: ptr(int), at: int, n: int, m: int):",
                      "    with each(thread, x, y) as i:", f"        if {guard}:", f"            {target} = {' + '.join(reads)}", ""])  # fmt: skip
    k = defined(text, f"<lines {seed}>")
    seen = {"programs": int(k is not None), "refuted": 0, "proved": 0, "refused": int(k is None)}
    if k is None:
        return seen
    for o in k.prove(["bounds"], seconds=None).obligations:
        if "side of `" not in o.what:
            continue
        name, _, index = o.what.split("`")[1].partition("[")
        outside = False
        given = dict(o.launch.args) if o.launch is not None else {}
        launches = [given] if given else [{"n": n, "m": m, "at": at, "len(x)": n + m + 9, "len(y)": 2 * n + 1} for n in range(6) for m in range(4) for at in (-1, 0, 3)]
        for one in launches:
            n, m, at, size = one["n"], one["m"], one.get("at", 0), one[f"len({name})"]
            if not eval(f"all(({', '.join(where)},))", {"x": range(one["len(x)"]), "y": range(one["len(y)"]), "n": n, "m": m}):
                continue
            for i in range(THREADS):
                names = {"i": i, "n": n, "m": m, "at": at, "rest": rest, "divided": divided, "held": lambda x: x}
                if eval(guard, names):
                    found = eval(compile(ast.fix_missing_locations(ast.Expression(Counted("").visit(ast.parse(index[:-1], mode="eval").body))), "", "eval"), names)
                    outside = outside or not 0 <= found < size
        assert o.verdict is not Verdict.PROVED or not outside, f"lines {seed}: {o.what}: proved\n{text}"
        assert o.verdict is not Verdict.REFUTED or outside, f"lines {seed}: {o.what}: refuted, with {o.launch}\n{text}"
        seen["refuted"] += o.verdict is Verdict.REFUTED
        seen["proved"] += o.verdict is Verdict.PROVED
    return seen


# ---- barriers that are left out -----------------------------------------------------------------------------------------------------------


def lean(seed: int) -> dict[str, int]:
    """In no launch is a barrier missing that was left out; nor one that either of the two walks would leave out alone."""
    of = Text(seed)
    T = of.pick(32, 64)
    function = Function(of.random, "f", []).text()
    least = of.pick(T, T, T, T, T - 1, T // 2)
    shift = of.pick("0", "0", "0", "a[0]", "a[1]", "r", "m")
    inside = "0" if shift == "0" else f"min(max({shift}, 0), {of.pick(0, 1)})"
    usual = of.pick("{row} * n + t", "{row} * n + t", "({row} + d) * n + t", "n * ({row} + 1) - 1 - t", "t + n * ({row} % 2)")

    def index(row: str) -> str:
        other = of.pick("{row} * n + t + d", f"(2 * {{row}} + t) % {T}", "t * 2 + d", f"t + d * {T}", "t + d", "(3 - {row}) * n + t")
        return of.pick(usual, usual, usual, usual, other).replace("{row}", row)

    def phase(row: str) -> list[str]:
        memory = of.pick("x", "x", "s")
        read = of.pick("", "", f" + {of.pick('x', 's')}[{index(row)}]")
        return ["with each(thread, x, s) as t:", "    a: int[2]", "    f(a, n, m)", f"    d = {inside}", f"    {memory}[{index(row)}] = t{read}"]

    body = [f"for r in range({of.pick('m', '3', '2')}):", *("    " + line for _ in range(of.pick(1, 1, 2)) for line in phase("r"))]
    if of.pick(True, False, False):
        body = [*phase("m"), *body]
    room = 9 * 2 * T + 9
    lines = [*HEAD, *function, f"@kernel(threads={T}, blocks=1, lean=True, where=lambda x, n, m: ({least} <= n <= {2 * T}, 0 <= m <= 3, len(x) >= {room}))",
             "def k(x: ptr(int), n: int, m: int):", "    with each(block, x):", f"        s: shared(int[{room}])", *("        " + line for line in ["r = 0", *body]), ""]  # fmt: skip
    text = "\n".join(lines)
    k = defined(text, f"<lean {seed}>")
    seen = {"programs": int(k is not None), "left out": 0, "by the first walk": 0, "by the second walk": 0, "launches": 0, "refused": int(k is None)}
    if k is None:
        return seen
    kernels = {"left out": k} if k.left_out()[0] else {}
    seen["left out"] = len(k.left_out()[0])
    for word, walk in (("by the first walk", first), ("by the second walk", second)):
        k = defined(text.replace("lean=True, ", ""), f"<lean {seed}, {word}>")
        one = k._the_one({})
        pairs = walk(one)
        if pairs:
            seen[word], kernels[word] = 1, k
            one.__dict__["synced"] = without(one, pairs)
    if kernels:
        kernels = {"with all barriers": defined(text.replace("lean=True, ", ""), f"<lean {seed}, all>"), **kernels}
    for n, m in itertools.product(sorted({least, T - 1, T, 2 * T} & {*range(least, 2 * T + 1)}), (0, 1, 2, 3)):
        for word, k in kernels.items():
            seen["launches"] += 1
            fault = ""
            try:
                races = k.races(np.zeros(room, np.int32), n, m, blocks=1, seeds=2)
                fault = str(races[0]) if races else ""
            except snap.MachineError as error:
                fault = str(error)
            if fault and word == "with all barriers":  # units of one scope meet, an index is outside: another property's matter
                break
            assert not fault, f"lean {seed}, {word}, n, m = {n}, {m}: {fault}\n{text}"
    return seen


def without(one, pairs):
    return synchronize(replace(one.typed, apart=pairs))


def first(one) -> frozenset:
    """The pairs that the walk over the typed program names, whatever the other one says."""
    return needless.needless(one.task, conflicting_places(one.typed))[0]


def second(one) -> frozenset:
    """The pairs that the check of order can do without, whatever the other one says."""
    return needless._agreed(one.task, frozenset(needless.ordered(*pair) for pair in conflicting_places(one.typed)), lambda pairs: without(one, pairs))


FAMILIES = {"ways": ways, "lines": lines, "lean": lean}


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--family", choices=FAMILIES, default="ways")
    options.add_argument("--count", type=int, default=100)
    options.add_argument("--first", type=int, default=0)
    given = options.parse_args()
    total: dict[str, int] = {}
    for seed in range(given.first, given.first + given.count):
        for word, n in FAMILIES[given.family](seed).items():
            total[word] = total.get(word, 0) + n
    print(given.family, total)


if __name__ == "__main__":
    main()
