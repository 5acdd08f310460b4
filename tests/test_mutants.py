"""Corpus programs with pieces of their kernels exchanged: each is refused with a SnapError, or lowers to CUDA that compiles."""

from __future__ import annotations

import ast
import copy
import importlib.util
import warnings

from corpus import OK, Program
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from snap.api import SnapFunction
from snap.diag.error import SnapError

DECORATORS = {"kernel", "device", "ccuda"}
NUMBERS = [0, 1, 2, 3, 7, 16, 31, 32, 33, 64, 128, 256, 1023, 1024, 1025, 2**31 - 1, 2**31, 2**32, 2**63, 2**70, 1.5, 1e300, True]
OPERATORS = [ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow, ast.LShift, ast.RShift, ast.BitAnd,
             ast.BitOr, ast.BitXor, ast.MatMult]
HAS_NVRTC = importlib.util.find_spec("cuda") is not None and importlib.util.find_spec("cuda.bindings") is not None


def is_snap(node: ast.AST) -> bool:
    if not isinstance(node, ast.FunctionDef):
        return False
    called = [decorator.func if isinstance(decorator, ast.Call) else decorator for decorator in node.decorator_list]
    return any(isinstance(one, ast.Name) and one.id in DECORATORS for one in called)


class Replace(ast.NodeTransformer):
    """Puts `replacement` (a node, or statements) where `node` is."""

    def __init__(self, node: ast.AST, replacement: ast.AST | list[ast.stmt]):
        self.node, self.replacement = node, replacement

    def visit(self, node: ast.AST):
        return self.replacement if node is self.node else self.generic_visit(node)


@st.composite
def mutants(draw) -> tuple[Program, str]:
    program = draw(st.sampled_from(OK))
    tree = ast.parse(program.text)
    for _ in range(draw(st.integers(1, 3))):
        functions = [node for node in ast.walk(tree) if is_snap(node)]
        function = draw(st.sampled_from(functions))
        generic = "constexpr" in ast.unparse(function.args)  # the program itself names these parameters
        inside = [node for part in (*function.body, *([] if generic else [function.args])) for node in ast.walk(part)]
        statements = [node for node in inside if isinstance(node, ast.stmt)]
        expressions = [node for node in inside if isinstance(node, ast.expr)]
        match draw(st.sampled_from(["expression", "number", "name", "operator", "drop", "double", "move"])):
            case "expression" if expressions:
                change = Replace(draw(st.sampled_from(expressions)), copy.deepcopy(draw(st.sampled_from(expressions))))
            case "number" if numbers := [node for node in expressions if isinstance(node, ast.Constant)]:
                change = Replace(draw(st.sampled_from(numbers)), ast.Constant(draw(st.sampled_from(NUMBERS))))
            case "name" if names := [node for node in expressions if isinstance(node, ast.Name)]:
                node = draw(st.sampled_from(names))
                change = Replace(node, ast.Name(draw(st.sampled_from(names)).id, node.ctx))
            case "operator" if binary := [node for node in expressions if isinstance(node, ast.BinOp)]:
                node = draw(st.sampled_from(binary))
                change = Replace(node, ast.BinOp(node.left, draw(st.sampled_from(OPERATORS))(), node.right))
            case "drop":
                change = Replace(draw(st.sampled_from(statements)), ast.Pass())
            case "double":
                node = draw(st.sampled_from(statements))
                change = Replace(node, [node, copy.deepcopy(node)])
            case _:
                change = Replace(draw(st.sampled_from(statements)), copy.deepcopy(draw(st.sampled_from(statements))))
        tree = change.visit(tree)
    try:
        return program, ast.unparse(ast.fix_missing_locations(tree))
    except ValueError:  # a tree that no text stands for
        return program, program.text


def is_python(text: str) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            compile(text, "<mutant>", "exec", dont_inherit=True)
        except (SyntaxError, ValueError):
            return False
    return True


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(mutants().filter(lambda mutant: is_python(mutant[1])))
def test_refused_or_lowered(mutant):
    program, text = mutant
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            namespace = program.execute(text)
        kernels = [value for value in namespace.values() if isinstance(value, SnapFunction) and value.is_kernel and not value.generic]
        for kernel in kernels + namespace.get("GOLDEN", []):
            assert "__global__" in kernel.cuda()
            kernel.syncs()
            if HAS_NVRTC:
                kernel.ptx(arch="sm_90a")
    except SnapError as error:
        event("refused")
        for each in error.all:
            assert each.filename and each.lineno >= 1 and each.render()
    else:
        event("lowered")
