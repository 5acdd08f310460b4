"""A function's source is found wherever it was defined, and its spans are those of the real file."""

from __future__ import annotations

import ast
import doctest
import importlib.util
import linecache
import os
import select
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import snap
from snap._compiler.frontend import tree
from snap._compiler.frontend.parse import parse_function
from snap._compiler.frontend.passes import READ
from snap._compiler.ir.passes import run
from snap.diag.error import SnapError
from snap.diag.source import register_source, source_line


def text_of(span) -> str:
    assert span.line == span.end_line
    return source_line(span.filename, span.line)[span.column:span.end_column]


def load(path, text: str, name: str = "loaded_program"):
    path.write_text(textwrap.dedent(text), encoding="utf-8")
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def same(function):
    return function


def test_function_of_this_file():
    @same
    @same
    def nested(n: int):
        größe = "ü" if n else n  # noqa: F841
        return größe + n

    def plain(n: int):
        größe = n; return größe + n  # noqa: E702

    with pytest.raises(SnapError) as caught:
        parse_function(nested)
    assert text_of(caught.value.diagnostic.span) == '"ü"'
    function = parse_function(plain)
    first, last = function.body
    assert text_of(first.target.span) == "größe" and text_of(last.value.span) == "größe + n"
    assert text_of(function.head) == "def plain(n: int):"
    assert text_of(function.params[0].span) == "n: int"
    assert function.span.filename == __file__


class Holder:
    if True:
        def method(self, __private):
            return __private


def test_function_in_a_class_and_in_an_if():
    function = parse_function(Holder.method)
    assert text_of(function.body[0].span) == "return __private"
    assert parse_function(Holder().method) == function


def test_two_functions_of_one_name(define):
    names = define("""
        if True:
            def f(a): return a + 1
        first = f
        def f(a): return a + 2
    """)
    assert parse_function(names["first"]).body[0].value.right.value == 1
    assert parse_function(names["f"]).body[0].value.right.value == 2


def test_decorators_have_spans(define):
    names = define("""
        import types
        snap = types.SimpleNamespace(requires=lambda *a: lambda f: f, kernel=lambda f: f)
        @snap.kernel
        @snap.requires(1,
                       2)
        @(lambda f: f)
        def f(): pass
    """)
    spans = run(READ, names["f"]).decorators
    assert text_of(spans["kernel"]) == "snap.kernel"
    assert (spans["requires"].line, spans["requires"].end_line) == (4, 5)
    assert set(spans) == {"kernel", "requires"}


def test_exec_with_text_in_linecache():
    text = "def f(n):\n    return n + 1\n"
    linecache.cache["<ipython-input-7-abc>"] = (len(text), None, text.splitlines(True), "<ipython-input-7-abc>")
    namespace = {}
    exec(compile(text, "<ipython-input-7-abc>", "exec"), namespace)
    assert text_of(parse_function(namespace["f"]).body[0].span) == "return n + 1"


def test_exec_without_source():
    namespace = {}
    exec(compile("\n\ndef f(n):\n    return n\n", "<no text>", "exec"), namespace)
    with pytest.raises(SnapError) as caught:
        parse_function(namespace["f"])
    error = caught.value
    assert (error.code, error.filename, error.lineno) == ("SNAP017", "<no text>", 3)
    assert "snap.register_source" in error.diagnostic.help and callable(snap.register_source)


def test_another_text_under_a_registered_name():
    register_source("<shared name>", "def f(n):\n    return n + 1\n")
    namespace = {}
    exec(compile("def f(n):\n    return n + 2\n", "<shared name>", "exec"), namespace)
    with pytest.raises(SnapError, match="not what was loaded"):
        parse_function(namespace["f"])


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="no terminals here")
def test_typed_at_the_prompt():
    """In a real interactive Python, whose inputs have to be found whatever its version."""
    pytest.importorskip("readline")
    source = os.path.dirname(os.path.dirname(os.path.abspath(snap.__file__)))
    typed = """\
from snap._compiler.frontend.parse import parse_function
def same(f): print("value", parse_function(f).body[-1].value.right.value); return f

@same
def f(n):
    n += 1
    n += 1
    return n + 8

@same
def f(n):
    n += 2
    return n + 16

exit()
"""
    screen = run_in_terminal([sys.executable, "-q", "-i"], typed, {**os.environ, "PYTHONPATH": source, "TERM": "dumb", "PYTHON_BASIC_REPL": "1"})
    assert "value 16" in screen
    # readline drops a line that repeats the one before: then the text is not the function's, and that is noticed
    assert "value 8" in screen or "is not what was loaded" in screen


def run_in_terminal(command: list[str], typed: str, environment: dict[str, str]) -> str:
    ours, theirs = os.openpty()
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, close_fds=True, start_new_session=True)
    os.close(theirs)
    screen = b""
    try:
        for line in ["", *typed.splitlines()]:
            if line or screen:
                os.write(ours, line.encode() + b"\n")
            screen += read_until_quiet(ours)
        process.wait(timeout=20)
        screen += read_until_quiet(ours)
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    return screen.decode(errors="replace")


def read_until_quiet(descriptor: int) -> bytes:
    """What a prompt answers: until it shows a prompt again, or has nothing to say for a while."""
    answer = b""
    while select.select([descriptor], [], [], 5)[0]:
        try:
            piece = os.read(descriptor, 4096)
        except OSError:  # the other side has gone
            return answer
        answer += piece
        if not piece or answer.endswith((b">>> ", b"... ")):
            return answer
    return answer


def test_doctests():
    examples = doctest.DocTestParser().get_doctest(">>> def f(n):\n...     return n + 1\n>>> parse_function(f).body[0].value.right.value\n1\n",
                                                   {"parse_function": parse_function}, "in a doctest", "doc.txt", 0)
    assert doctest.DocTestRunner().run(examples).failed == 0


def test_interactive_inputs_that_only_inspect_finds(monkeypatch):
    namespace = {}
    text = "def f(n):\n    return n + 1\n"
    exec(compile(text, "<python-input-0>", "exec"), namespace)
    monkeypatch.setattr("inspect.findsource", lambda function: (text.splitlines(True), 0))
    assert text_of(parse_function(namespace["f"]).body[0].span) == "return n + 1"


def test_file_that_does_not_parse_as_a_whole(tmp_path):
    path = tmp_path / "broken.py"
    text = "if True:\n    def f(n):\n        größe = n\n        return größe\n"
    namespace = {}
    exec(compile(text, str(path), "exec"), namespace)
    path.write_text(text + "\n%magic line\n", encoding="utf-8")
    # Only a file older than the process is trusted without compiling it, which this one cannot be.
    os.utime(path, (1, 1))
    function = parse_function(namespace["f"])
    assert (function.head.line, function.head.column) == (2, 4)
    assert text_of(function.body[1].value.span) == "größe"


def test_file_changed_after_loading(tmp_path):
    path = tmp_path / "changing.py"
    module = load(path, "def f(n):\n    return n + 8\n")
    before = parse_function(module.f)
    path.write_text("def f(n):\n    return n + 16\n", encoding="utf-8")
    os.utime(path, (2e9, 2e9))
    assert parse_function(module.f) == before  # what was read earlier still fits


def test_file_changed_before_it_was_read(tmp_path):
    path = tmp_path / "changed.py"
    module = load(path, "def f(n):\n    return n + 8\n")
    path.write_text("def f(n):\n    return n + 16\n", encoding="utf-8")
    os.utime(path, (2e9, 2e9))
    with pytest.raises(SnapError, match="not what was loaded"):
        parse_function(module.f)


def test_file_changed_and_reloaded(tmp_path):
    path = tmp_path / "reloading.py"
    old = load(path, "def f(n):\n    return n + 8\n")
    parse_function(old.f)
    module = load(path, "def f(n):\n    return n + 16\n")
    os.utime(path, (2e9, 2e9))
    assert parse_function(module.f).body[0].value.right.value == 16
    assert text_of(parse_function(module.f).body[0].span) == "return n + 16"


def test_function_moved_in_its_file(tmp_path):
    path = tmp_path / "moved.py"
    module = load(path, "def f(n):\n    return n\n")
    path.write_text("# a line more\n\ndef f(n):\n    return n\n", encoding="utf-8")
    linecache.clearcache()
    with pytest.raises(SnapError, match="not what was loaded"):
        parse_function(module.f)


def test_source_in_an_archive(tmp_path, monkeypatch):
    import zipfile

    with zipfile.ZipFile(tmp_path / "programs.zip", "w") as archive:
        archive.writestr("zipped_program.py", "def f(n):\n    return n + 1\n")
    monkeypatch.syspath_prepend(str(tmp_path / "programs.zip"))
    import zipped_program

    assert parse_function(zipped_program.f).body[0].value.right.value == 1
    del sys.modules["zipped_program"]


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_line_ends_and_odd_characters(newline, tmp_path):
    path = tmp_path / "ends.py"
    text = newline.join(["# coding: utf-8", "x = '\u2028'  # separator", "def f(n):", "\tä = n", "\treturn ä", ""])
    path.write_bytes(b"\xef\xbb\xbf" + text.encode())
    namespace = {}
    exec(compile(path.read_bytes(), str(path), "exec"), namespace)
    function = parse_function(namespace["f"])
    assert text_of(function.body[1].value.span) == "ä"
    assert function.body[1].span.line == 5


@pytest.mark.parametrize("thing", [len, int, Holder, 3, None, Holder()])
def test_what_is_no_function(thing):
    with pytest.raises(SnapError, match="not a Python function"):
        parse_function(thing)


def test_lambda_is_found_by_no_name():
    with pytest.raises(SnapError):
        parse_function(lambda n: n)


def test_heads_over_several_lines(define):
    function = parse_function(define("""
        def f(a,  # first: one
              b
              ) -> int:
            with group(  # (why:
                    a):
                pass
            while (a
                   < b):
                pass
            return a
    """)["f"])
    assert (function.head.line, function.head.end_line, function.head.end_column) == (1, 3, 15)
    scope, loop, _ = function.body
    assert isinstance(scope, tree.With) and (scope.head.end_line, scope.head.end_column) == (5, 15)
    assert (loop.span.line, loop.span.end_line, loop.span.end_column) == (7, 8, 16)


def test_spans_agree_with_ast(define):
    names = define("""
        def f(ä: 'int @ thread[1]', b):
            c: float[4] = a[ä, b] + b.x * 3 if ä < b <= 3 else -f(b, k=(1, 2))
            match split(thread):
                case 32: c[0] += 1.5
                case _:
                    assert c, "message"
            return c
    """)
    from snap._compiler.frontend.tree import walk

    function = parse_function(names["f"])
    for node in walk(function):
        if hasattr(node, "span") and isinstance(node, tree.Expr):
            span = node.span
            text = text_of(span)
            ast.parse(text, mode="eval")
            if isinstance(node, tree.Name):
                assert text == node.id


def test_names_that_python_normalises_are_one_name(tmp_path):
    """Python reads a ligature, a wide, a bold or a composed letter as the plain one, in parameters, locals, keywords and lambdas."""
    text = """
        from __future__ import annotations
        from snap import *

        @device
        @requires(thread[1])
        def FIrst(FI: int @ thread[1], oFF: int @ thread[1]) -> int @ thread[1]:
            return fi - 2 * off

        @kernel
        @requires(lambda WIDE: (grid[1], block[1], thread[WIDE]))
        def k(y: ptr(int, (BOLD,)) @ grid[1], n: int @ grid[1], T: constexpr(int)):
            with group(grid[1]):
                RING: int @ thread[1] = id()
                with partition(y, p=thread[1], f=lambda FI: PLAIN + fi) as mine:
                    with group(thread[1]):
                        mine[0] = first(oFF=n, fi=PLAIN)
    """
    forms = {"FI": "\ufb01", "FF": "\ufb00", "WIDE": "\uff34", "BOLD": "\U0001d427", "RING": "\u212b", "PLAIN": "A\u030a"}
    for word, form in forms.items():
        text = text.replace(word, form)
    k = load(tmp_path / "forms.py", text).k.specialize(T=32)
    y = np.zeros(32, np.int32)
    k[1](y, 32)
    assert y.tolist() == [i - 64 for i in range(32)]
