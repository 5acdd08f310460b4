"""Many small programs in one kernel, each with an array of its own, against counting: *proved* and a failing launch never meet.

    PYTHONPATH=src:tests python tests/prove/honest.py --count 1000 [--first 0]

A kernel has PROGRAMS of them, one scope each, and is proved once.  What a program does in a launch is counted in plain Python: its text with `/` and `%` as CUDA has
them, each access noted.  It fails where an index is outside, where two threads touch an element and one of them writes it, and where arithmetic that an index or a guard
depends on leaves 32 bits.  All launches of small sizes that keep the program's `where=` are counted.  The CPU machine is not asked: test_honest.py does that.
"""

from __future__ import annotations

import argparse
import ast
import functools
import itertools
import textwrap
import types
from dataclasses import replace
from unittest import mock

import snap
from prove.writing import Writer
from snap.prove import prove, replay
from snap.prove.properties import context
from snap.prove.verdict import Verdict

PROGRAMS, THREADS = 12, 4
SIZES = list(itertools.product((0, 1, 2, 3, 4, 5, 8, 9), (1, 2, 3), (1, 2, 3)))  # n, m, blocks
MOST_STEPS, WILD = 64, 1_000_003


class Fault(Exception):
    pass


def divided(a: int, b: int) -> int:
    """Rounded toward zero; by zero it may be anything."""
    return WILD if b == 0 else (abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1)


def rest(a: int, b: int) -> int:
    """Python's, with the sign of b."""
    return WILD if b == 0 else a % b


def held(x: int) -> int:
    if not -(2**31) <= x < 2**31:
        raise Fault(f"{x} leaves 32 bits")
    return x


class Counted(ast.NodeTransformer):
    """The text of a body as Python: see above.  deep: whether what is computed here decides about an index or a guard."""

    def __init__(self, array: str):
        self.array, self.deep = array, True

    def call(self, name: str, *args: ast.expr) -> ast.expr:
        return ast.Call(ast.Name(name, ast.Load()), list(args), [])

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        left, right = self.visit(node.left), self.visit(node.right)
        if isinstance(node.op, ast.Div):
            return self.call("divided", left, right)
        if isinstance(node.op, ast.Mod):
            return self.call("rest", left, right)
        made = ast.BinOp(left, node.op, right)
        return self.call("held", made) if self.deep else made

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        deep, self.deep = self.deep, True
        index = self.visit(node.slice)
        self.deep = deep
        return self.call("touch", index, ast.Constant(isinstance(node.ctx, ast.Store)))

    def visit_Assign(self, node: ast.Assign) -> ast.stmt:
        (target,) = node.targets
        if isinstance(target, ast.Name):
            return ast.Assign([target], self.visit(node.value))
        self.deep = False
        value = self.visit(node.value)
        self.deep = True
        return ast.Expr(ast.Tuple([value, self.visit(target)], ast.Load()))

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt:
        assert node.value is not None
        return ast.Assign([node.target], self.visit(node.value))

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.stmt:
        assert isinstance(node.target, ast.Name)
        return ast.Assign([node.target], self.visit(ast.BinOp(ast.Name(node.target.id, ast.Load()), node.op, node.value)))

    def visit_For(self, node: ast.For) -> ast.stmt:
        """A step that is not positive is none of these programs'; the step behind the last iteration counts, too."""
        node = self.generic_visit(node)
        return ast.For(node.target, self.call("counted", *node.iter.args), node.body, [])

    def visit_While(self, node: ast.While) -> ast.stmt:
        node = self.generic_visit(node)
        return ast.While(self.call("goes_on", node.test), node.body, [])


def counted(*given: int):
    found = range(*given)
    if len(given) == 3 and found:
        held(found[-1] + given[2])
    return found


def runner(body: str, array: str) -> types.FunctionType:
    """f(i, n, m, touch, goes_on): what thread i does."""
    tree = ast.parse(f"def run(i, n, m, touch, goes_on):\n{textwrap.indent(textwrap.dedent(body), '    ')}\n")
    tree.body[0].body = [Counted(array).visit(s) for s in tree.body[0].body]
    names: dict = {"divided": divided, "rest": rest, "held": held, "counted": counted}
    exec(compile(ast.fix_missing_locations(tree), f"<{array}>", "exec"), names)
    return names["run"]


def failing(run, n: int, m: int, blocks: int, length: int) -> str:
    """What goes wrong in a launch; '' for nothing."""
    written: dict[int, int] = {}
    read: dict[int, set[int]] = {}
    for i in range(THREADS * blocks):
        steps = 0

        def touch(at: int, writes: bool, i: int = i) -> int:
            if not 0 <= at < length:
                raise Fault(f"element {at} of {length}")
            others = read.setdefault(at, set())
            if written.get(at, i) != i or writes and others - {i}:
                raise Fault(f"thread {i} and another one meet in element {at}")
            others.add(i)
            if writes:
                written[at] = i
            return 0

        def goes_on(cond: bool) -> bool:
            nonlocal steps
            steps += 1
            if steps > MOST_STEPS:
                raise Fault("it does not end")
            return cond

        try:
            run(i, n, m, touch, goes_on)
        except Fault as fault:
            return str(fault)
    return ""


class Several(Writer):
    """A kernel of several programs."""

    def __init__(self, seed: int):
        super().__init__(seed)
        self.threads = THREADS
        self.where += self.pick([], [], ["blocks == 1"], [f"n == {THREADS} * blocks"], [f"n <= {THREADS} * blocks"], ["blocks <= 3"])
        self.parts = [self.part(f"x{k}") for k in range(PROGRAMS)]

    def part(self, name: str) -> tuple[str, str, list[str]]:
        """Its array, its text, and what it asks for."""
        common = len(self.where)
        asked = [f"len({name}) {self.pick('>=', '==')} {self.pick('n', 'n + 1', 'n + m', 'n * m', f'{THREADS} * blocks')}"]
        body = "\n".join(self.body("i", name, ""))
        more, self.where = self.where[common:], self.where[:common]
        lengths = [one.replace("len(x)", f"len({name})") for one in more if "len(" in one]
        return name, body, lengths or asked  # one of them: two might contradict each other, and then everything is proved

    def body(self, own: str, name: str, indent: str) -> list[str]:
        """Half of them are made of digits: of numbers, of a size that is none, and of rows that begin anywhere."""
        kind = self.pick("", "", "", "parts", "size", "words")
        if not kind:
            return super().body(own, name, indent)
        self.where += [self.pick("len(x) >= n * m", f"len(x) >= {THREADS} * blocks", "len(x) >= n * m + 2")]
        if kind == "parts":
            thread = self.pick(f"{own} % 2 * 2 + {own} / 2 % 2", f"{own} % 2 + {own} / 2 % 2 * 2", f"{own} % 2 * 2 + {own} / 2 % 2 + 1", f"{own} % 2 + {own} / 2 % 2")
            index = f"{own} / {THREADS} * {self.pick(4, 4, 3, 5)} + {thread}"
            return [f"{indent}if {self.guard(index)}:", f"{indent}    {name}[{index}] = 1"]
        lines = [f"{indent}if {own} < n:", f"{indent}    for k in range({self.pick('m + 1', '3', 'm')}):"]
        more = self.pick("", "", " + 1", " - 1")
        if kind == "size":
            lines.append(f"{indent}        p: int = k - {own} % 2 * {self.pick('(n % 2)', 'n')} {self.pick('% 2', '% 2', '% 3')}")
            return [*lines, f"{indent}        if p >= {self.pick(0, 0, 0, -1)} and p < m{more}:", f"{indent}            {name}[{own} * m + p] = 1"]
        lines.append(f"{indent}        w: int = {own} * m / 2 + k")
        return [*lines, f"{indent}        if w * 2 >= {own} * m{self.pick('', '', ' - 1')} and w * 2 + 2 <= {own} * m + m{more}:", f"{indent}            {name}[w] = 1"]

    def kernel(self) -> tuple[str, dict[str, tuple[int, int]]]:
        """The text, and by array the first line of its program and the line behind it."""
        names = [name for name, _, _ in self.parts]
        asked = [*self.where, *(one for _, _, more in self.parts for one in more)]
        lines = ["from __future__ import annotations", "from snap import *", ""]
        lines.append(f"@kernel(threads={THREADS}, where=lambda {', '.join(names)}, n, m, blocks: ({', '.join(asked)}))")
        lines.append(f"def k({', '.join(f'{name}: ptr(int)' for name in names)}, n: int, m: int):")
        at = {}
        for name, body, _ in self.parts:
            lines.append(f"    with each(thread, {name}) as i:")
            first = len(lines)
            lines += textwrap.indent(body, " " * 8).splitlines()
            at[name] = (first, len(lines) + 1)
        return "\n".join([*lines, ""]), at

    def faults(self, name: str, body: str, asked: list[str]):
        """Of one program, in every launch that keeps its `where=`."""
        run = runner(body, name)
        kept = eval(f"lambda {name}, n, m, blocks: all(({', '.join([*self.where, *asked])},))")
        for n, m, blocks in SIZES:
            for length in sorted({n, n + 1, n + m, n * m, THREADS * blocks, n + 9}):
                if kept(range(length), n, m, blocks):
                    yield (n, m, blocks, length), failing(run, n, m, blocks, length)


def proved(k):
    """Without what makes a verdict good to read: launches that refute it, the smallest numbers as an example, preconditions that are missing; and without z3, which is
    asked little here, and whose answers test_ladder.py looks at.
    """
    with mock.patch.object(context, "Ladder", functools.partial(context.Ladder, steps=(0, 0))), mock.patch.object(replay, "SIZES", ()):
        return prove(replace(k._the_one({}).task, run=None, key=""), ["races"], seconds=None)


def tried(seed: int) -> dict[str, int]:
    """How many programs were proved, and how many launches of them were counted; a program that is proved and fails is an error."""
    several = Several(seed)
    text, at = several.kernel()
    name = f"<honest {seed}>"
    snap.register_source(name, text)
    names: dict = {}
    seen = {"programs": 0, "proved": 0, "launches": 0, "refused": 0}
    try:
        exec(compile(text, name, "exec"), names)
    except snap.SnapError:  # one of them is refused by the checker
        return {**seen, "refused": 1}
    found = proved(names["k"])
    for array, body, asked in several.parts:
        first, last = at[array]
        own = [o for o in found.obligations if first <= o.span.line < last]
        seen["programs"] += 1
        if own and all(o.verdict is Verdict.PROVED for o in own):
            seen["proved"] += 1
            for launch, fault in several.faults(array, body, asked):
                seen["launches"] += 1
                assert not fault, f"seed {seed}, {array}: proved, and with n, m, blocks, length = {launch}: {fault}\n{body}\nwhere {several.where + asked}"
    return seen


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--count", type=int, default=100)
    options.add_argument("--first", type=int, default=0)
    given = options.parse_args()
    total: dict[str, int] = {}
    for seed in range(given.first, given.first + given.count):
        for word, n in tried(seed).items():
            total[word] = total.get(word, 0) + n
    print(total)


if __name__ == "__main__":
    main()
