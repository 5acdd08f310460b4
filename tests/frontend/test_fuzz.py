"""Whatever the text: parsing gives a tree, or a SnapError with a place."""

from __future__ import annotations

import ast
import copy
import itertools
import warnings

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from snap._compiler.frontend.lambdas import lambda_tree
from snap._compiler.frontend.parse import parse_definition_names, parse_function
from snap._compiler.frontend.passes import READ
from snap._compiler.frontend.source import as_function
from snap._compiler.frontend.tree import walk
from snap._compiler.ir.passes import run
from snap.diag.error import SnapError
from snap.diag.source import register_source

PROGRAM = '''\
import contextlib
N = 4
@contextlib.contextmanager
def kernel(a: "ptr(float, (N, n)) @ grid[1]", n: "int @ grid[1]" = 3, *rest, k=N) -> "float @ thread[1]":
    """What it does: größe."""
    with group(grid[1]), partition(a, p=thread[1], f=lambda i, j: (i + N, j)) as mine:
        x: float[4] @ thread[1]
        i: int @ thread[1] = id() % 32  # index
        if 0 <= i < n and not (i == 3 or n > 4):
            mine[0, i] = a[i] * x[1] if i else -x[2] ** 2
        elif i & 1:
            x[0] += 1.5e3 // 2
        else:
            größe = [i, (n, 3)]
        for q in range(n):
            while q << 2 != ~i:
                break
            continue
        match split(thread):
            case 32:
                intrinsic.shfl(i, n, width="16")
            case sizes.P | 3 if n:
                pass
            case _:
                return x[1:2]
        try:
            print(f"{x}", *rest, **k)
        except ValueError:
            y = {1: 2, **k}, {1}, [z for z in x if z in y]
        assert i is not None, "message"
        (lambda t=3: (yield t))(z := 3j)
        del y
'''
TOKENS = sorted({*PROGRAM.split(), "(", ")", "[", "]", ":", "=", ",", "\n", "    ", "'", '"', "#", "\\", "\0", "\x0c", "\t", "变量", "\r", "*", "**",
                 "@", "...", "await ", "async ", "lambda: ", "'int @ '", "None", "0x", "1_0", "global N\n", "class C: pass\n", "else:\n", "if 1:\n"})
_numbers = itertools.count()


@st.composite
def mutated(draw) -> str:
    """The program with a few pieces cut out, doubled, moved or replaced."""
    text = PROGRAM
    for _ in range(draw(st.integers(1, 6))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 12)))
        text = text[:start] + draw(st.sampled_from(["", text[start:end] * 2, draw(st.sampled_from(TOKENS))])) + text[end:]
    return text


@st.composite
def with_lines_changed(draw) -> str:
    """Whole lines dropped, repeated or exchanged: more of these still compile."""
    lines = PROGRAM.splitlines()
    for _ in range(draw(st.integers(1, 5))):
        i, j = draw(st.integers(5, len(lines) - 1)), draw(st.integers(5, len(lines) - 1))
        lines[i:i + draw(st.integers(0, 1))] = [lines[j]] * draw(st.integers(0, 2))
    return "\n".join(lines)


class _Replace(ast.NodeTransformer):
    def __init__(self, node: ast.AST, replacement: ast.AST):
        self.node, self.replacement = node, replacement

    def visit(self, node: ast.AST) -> ast.AST:
        return self.replacement if node is self.node else self.generic_visit(node)


@st.composite
def with_nodes_changed(draw) -> str:
    """Expressions and statements of the program put in each other's places."""
    tree = ast.parse(PROGRAM)
    for _ in range(draw(st.integers(1, 4))):
        kind = draw(st.sampled_from([ast.expr, ast.stmt]))
        nodes = [node for node in ast.walk(tree.body[-1]) if isinstance(node, kind)][1:]
        if nodes:
            tree = _Replace(draw(st.sampled_from(nodes)), copy.deepcopy(draw(st.sampled_from(nodes)))).visit(tree)
    try:
        return ast.unparse(tree)
    except ValueError:  # a tree that no text stands for
        return ""


def parse_all(text: str) -> int:
    """Parse every function the text defines, without running it; how many there were."""
    filename = f"<mutant {next(_numbers) % 50}>"
    register_source(filename, text)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            code = compile(text, filename, "exec", dont_inherit=True)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return 0
    functions = 0
    pending = [code]
    while pending:
        current = pending.pop()
        pending += [const for const in current.co_consts if hasattr(const, "co_code")]
        if current is not code and not current.co_freevars:
            functions += 1
            parse_one(type(parse_all)(current, {"N": 4}))
    return functions


def parse_one(function) -> None:
    for parse in (parse_function, lambda_tree, lambda f: run(READ, as_function(f))):
        try:
            result = parse(function)
        except SnapError as error:
            for each in error.all:
                assert each.code == "SNAP017" and each.lineno >= 1
                assert each.render()
        else:
            if parse is parse_function:
                assert all(node.span.line >= 1 and node.span.column >= 0 for node in walk(result))
                assert parse_definition_names(result, function).keys() <= {"N"}


def test_the_program_itself_is_read():
    assert parse_all(PROGRAM) >= 2


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.one_of(mutated(), with_lines_changed(), with_nodes_changed()))
def test_mutated_programs(text):
    parse_all(text)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(TOKENS), max_size=12).map("".join))
def test_token_soup_in_a_body(soup):
    parse_all("def f(x):\n    " + soup.replace("\n", "\n    ") + "\n    pass\n")
    parse_all(f"def f(x):\n    y = {soup}\n")


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=30), st.text(max_size=30))
def test_any_text_as_annotation_and_as_source(annotation, source):
    parse_all(f"def f(x: {annotation!r}):\n    y: {annotation!r} = 3\n")
    namespace: dict = {}
    filename = f"<unrelated {next(_numbers) % 50}>"
    register_source(filename, source)
    exec(compile("def f(x): return x", filename, "exec"), namespace)
    parse_one(namespace["f"])
