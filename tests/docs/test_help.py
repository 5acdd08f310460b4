"""Every word of the language is explained, and help(), the stub that editors read and docs/words.md say the same."""

from __future__ import annotations

import ast
import builtins
import importlib.util
import inspect
import io
import pydoc
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path

import pytest

import snap
from snap import member_words
from snap.surface import MATHEMATICS, NAMESPACES, WITHOUT_IMPORT, WORDS

ROOT = Path(__file__).resolve().parents[2]


def load(name: str):
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


make_stubs = load("make_stubs")


def every_word() -> dict[str, object]:
    """Word, as it is written in a kernel, -> what it is in Python."""
    found = {**WORDS, **MATHEMATICS}
    for name, namespace in NAMESPACES.items():
        found |= {f"{name}.{member}": getattr(namespace, member) for member in dir(namespace)}
    return found


def stub_docs() -> dict[str, str]:
    """Word -> its documentation in the stub."""
    found: dict[str, str] = {}
    body = ast.parse(make_stubs.STUB.read_text()).body
    for node, after in zip(body, [*body[1:], None]):
        match node, after:
            case ast.FunctionDef(name=name), _:
                found[name] = ast.get_docstring(node) or ""
            case ast.ClassDef(name=name, body=members), _:
                found |= {f"{name[1:]}.{m.name}": ast.get_docstring(m) or "" for m in members if isinstance(m, ast.FunctionDef)}
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                found[name] = text
    return found


def flat(text: str) -> str:
    return " ".join(text.split())


def test_the_stub_and_the_page_are_printed_from_the_words():
    assert make_stubs.STUB.read_text() == make_stubs.stub(), "run: python docs/make_stubs.py"
    assert make_stubs.PAGE.read_text() == make_stubs.page(), "run: python docs/make_stubs.py"


@pytest.mark.parametrize("word", every_word())
def test_help_explains_the_word_and_the_stub_says_the_same(word):
    meant = every_word()[word]
    doc = inspect.getdoc(meant) or ""
    assert len(flat(doc)) > 8 and flat(doc) != flat(type(meant).__doc__), f"`{word}` is not explained: add it to src/snap/words.py"
    assert flat(doc) in flat(pydoc.plain(pydoc.render_doc(meant)))
    assert flat(stub_docs()[word]) == flat(doc)


def test_every_word_of_the_language_is_there():
    assert set(WITHOUT_IMPORT) - {"int", "float", "bool"} == {word for word in every_word() if "." not in word}


@pytest.mark.parametrize("word", [w for w in every_word() if callable(every_word()[w]) and hasattr(every_word()[w], "word")])
def test_signatures_can_be_asked_for(word):
    shown = str(inspect.signature(every_word()[word]))
    assert shown.startswith("(") and ")" in shown


def test_signatures_show_privileges():
    assert str(inspect.signature(snap.intrinsic.shfl_up)) == "(v: T @ thread[1], delta: int @ thread[32], width=32) -> T @ thread[1]"
    assert str(inspect.signature(snap.intrinsic.ballot)) == "(condition: bool @ thread[1]) -> u32 @ thread[32]"
    assert str(inspect.signature(snap.partition)).endswith("-> ptr @ p")
    assert "Executed by `block[1]` together." in snap.intrinsic.broadcast.__doc__


def test_tables_have_no_row_for_what_is_not_there():
    from snap._compiler.ir.operations import ATOMICS, COLLECTIVES, MATH

    assert set(member_words.MATH_WORDS) == set(MATH)
    assert set(member_words.ATOMIC_WORDS) == set(ATOMICS)
    assert set(member_words.OPERANDS) <= set(COLLECTIVES)


def test_namespaces_list_what_they_have():
    assert {"shfl", "mma", "bitcast", "syncthreads"} <= set(dir(snap.intrinsic))
    assert {"add", "and_", "cas"} <= set(dir(snap.atomic)) and dir(snap.unsafe) == ["cuda"]
    assert "exp" in dir(snap.fast) and "erf" not in dir(snap.fast)


def test_star_import_hides_nothing_of_pythons():
    into: dict[str, object] = {}
    exec("from snap import *", into)
    assert not [name for name in snap.__all__ if hasattr(builtins, name)]
    assert "id" not in into and into["partition"] is snap.partition
    assert all(hasattr(snap, name) for name in snap.__all__)
    assert snap.id is WITHOUT_IMPORT["id"] and snap.sqrt is WITHOUT_IMPORT["sqrt"]


def test_id_is_pythons_outside_of_kernels_and_the_languages_inside(tmp_path):
    program = tmp_path / "both.py"
    program.write_text(
        "from __future__ import annotations\nimport numpy as np\nfrom snap import *\n\n\n"
        "@kernel(threads=32)\ndef numbers(out: ptr(int)):\n    i: int @ thread[1] = id()\n    with each(thread, out):\n        out[i] = i\n\n\n"
        "out = np.zeros(32, np.int32)\nnumbers[1](out)\nprint(out.sum(), id(out) == id(out))\n"
    )
    ran = subprocess.run([sys.executable, program], capture_output=True, text=True, env={"PYTHONPATH": str(ROOT / "src")})
    assert ran.stdout == "496 True\n", ran.stderr


def test_help_of_decorators():
    with redirect_stdout(io.StringIO()) as out:
        help(snap.kernel)
    assert "256 threads" in out.getvalue()


@snap.kernel(threads=lambda T: T)
def told(x: ptr(const(float), (n, 4)), acc: float, n: int @ grid[1], T: constexpr(int) = 32):
    """What it does."""


@snap.device(snap.block[1], snap.thread[64])
def called(v: float @ thread[1], acc: ref(float[4]), n: int) -> float:
    return 0.0


def test_help_of_a_kernel_shows_privileges():
    assert told.__doc__.splitlines() == [
        "told[blocks](x: ptr(const(float), (n, 4)) @ grid[1], acc: float @ grid[1], n: int @ grid[1], T: constexpr(int) = 32)", "", "What it does."]
    assert called.__doc__ == "called(v: float @ thread[1], acc: ref(float[4]) @ thread[1], n: int @ block[1]) -> float @ block[1]"
    assert "told[blocks](x" in pydoc.plain(pydoc.render_doc(told))


def test_the_stub_exports_what_the_package_does():
    body = ast.parse(make_stubs.STUB.read_text()).body
    (listed,) = (node for node in body if isinstance(node, ast.Assign) and node.targets[0].id == "__all__")
    assert ast.literal_eval(listed.value) == snap.__all__
