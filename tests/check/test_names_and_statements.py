"""Statements, scopes, names, constants, and how errors present themselves."""

from __future__ import annotations

import pickle
import textwrap

import numpy as np
import pytest
from check.checking import HEADER, codes, errors, execute, in_block, kernel, program

import snap
from snap.diag.error import SnapError

ONE = "grid[1], block[1], thread[1]"


# ---- scopes ----------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text, refused", [
    ("x: int = 1\ny: int = x", None), ("y: int = x\nx: int = 1", ("SNAP019", 1)), ("if True:\n    x: int = 1\ny: int = x", ("SNAP019", 3)), ("if True:\n    x = 1\ny: int = x", ("SNAP019", 3)),
    ("for i in range(3):\n    pass\ny: int = i", ("SNAP019", 3)), ("for i in range(3):\n    x: int = i\ny: int = x", ("SNAP019", 3)), ("while False:\n    x = 1\ny = x", ("SNAP019", 3)),
    ("x: int = 1\nif True:\n    x = 2\ny: int = x", None), ("x: int = 1\nif True:\n    x: float = 2.5\ny: int = x", None), ("x: int = 1\nx: int = 2", ("SNAP018", 2)), ("x: int = 1\nx: float = 2.5", ("SNAP018", 2)),
    ("x: int = 1\nx = 2.5", ("SNAP018", 2)), ("x = 1\nx = 2.5", ("SNAP018", 2)), ("with group(thread[1]):\n    x = 1\ny = x", ("SNAP019", 3)), ("match split(thread):\n    case 1:\n        x = 1\ny = x", ("SNAP019", 4)),
    ("x += 1", ("SNAP019", 1)), ("x[0] = 1", ("SNAP019", 1)), ("x.y = 1", ("SNAP019", 1)), ("for i in range(3):\n    i = 2", ("SNAP018", 2)), ("for i in range(3):\n    i += 2", ("SNAP018", 2)),
    ("for i in range(3):\n    i: int = 2", ("SNAP018", 2)), ("x: const(int) = 1\nx = 2", ("SNAP018", 2)), ("x: const(int)", ("SNAP018", 1)), ("x: int\nx = 3", None), ("int = 3", None), ("x: int = 1\nx: int", ("SNAP018", 2)),
])
def test_scopes_are_blocks_as_in_c(text, refused):
    assert codes(text, ONE) == ([refused] if refused else [])


def test_shadowing():
    text = """
x: int = 1
if True:
    x: int = x + 10
    for x in range(5, 6):
        mine[0] = x
    mine[1] = x
    while x < 13:
        x += 1
    mine[2] = x
mine[3] = x
min: int = 7
mine[4] = min
"""
    body = "with partition(out, p=thread[1], offset=0) as mine:\n" + "\n".join("    " + line for line in text.strip().splitlines())
    out = np.zeros(5, np.int32)
    kernel(body, ONE, "out: ptr(int) @ grid[1]")[1](out)
    np.testing.assert_array_equal(out, [5, 11, 13, 1, 7])


def test_parameters_may_be_assigned_and_hidden():
    assert codes("n += 1\nif n > 3:\n    n: float = 2.5", ONE, "n: int @ grid[1]") == []
    assert codes("n: int = 3", ONE, "n: int @ grid[1]") in ([], [("SNAP018", 1)])
    assert codes("n = 3", ONE, "n: const(int) @ grid[1]") == [("SNAP018", 1)]
    assert program("@kernel\n@requires(thread[1])\ndef k(n: int @ grid[1], N: constexpr(int) = 3):\n    N = 4") == [("SNAP018", 4)]


def test_what_is_reported_once_is_not_reported_again():
    assert codes("x: int = y\nz: int = x + x\nx = 3", ONE) == [("SNAP019", 1)]
    assert codes("x = y\nz: int = x + x", ONE) == [("SNAP019", 1)]
    assert codes("x: huh = 3\nz: int = x", ONE) == [("SNAP019", 1)]


# ---- statements ------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [
    "import math", "from math import pi", "global x", "nonlocal x", "del x", "raise ValueError", "try:\n    pass\nexcept:\n    pass", "def f():\n    pass", "class C:\n    pass", "yield 3", "x = yield", "await x",
    "with open('x') as f:\n    pass", "async for i in x:\n    pass", "for i in [1, 2]:\n    pass", "for i, j in range(3):\n    pass", "for i in range(3):\n    pass\nelse:\n    pass", "while False:\n    pass\nelse:\n    pass",
    "a = b = 3", "a, b = 1", "(a) = 3, 'b'", "(a) = [3, 4]", "(a) = ()", "[a] = 3", "a: int = (yield)", "x = [i for i in range(3)]", "x = {1, 2}", "x = {1: 2}", "x = (i for i in range(3))", "x = f'{3}'", "x = 'text'", "x = (y := 3)", "x = not_called.attr",
    "x = 1 if True else 'b'", "x = 3 is 3", "x = 3 in 3", "x = None", "x = ...", "open(3)", "3", "x = *y,", "x = 1 @ 2", "x = 2 ** 3", "x = a[1:2]", "lambda: 3", "match 3:\n    case 3:\n        pass", "x = b'bytes'",
    "x = 3j", "assert 3, 4", "return 3", "type X = int", "with group(thread[1]), 3:\n    pass", "for group in 3:\n    pass", "x: int = 3, 4", "x: 'nonsense(' = 3", "x: lambda k: k = 3", "x: int @ thread[1] @ thread[1] = 3", "x = snap",
])
def test_other_python_is_refused(text):
    try:
        found = errors(text, ONE)
    except SyntaxError as error:
        assert not isinstance(error, SnapError)  # not Python either, or not in this version
        return
    assert found and {error.code for error in found} <= {"SNAP017", "SNAP018", "SNAP019", "SNAP007"}
    for error in found:
        assert error.render() and error.lineno >= 1


@pytest.mark.parametrize("bounds, expected", [("4", [0, 1, 2, 3]), ("2, 5", [2, 3, 4]), ("0, 7, 3", [0, 3, 6]), ("5, 0, -2", [5, 3, 1]), ("3, 3", []), ("5, 3", []), ("0, 3, n", [0, 2]), ("n, n + 2", [2, 3])])
def test_ranges_are_pythons(bounds, expected):
    out = np.full(8, -1, np.int32)
    body = f"with partition(out, p=thread[1], offset=0) as m:\n    j: int = 0\n    for i in range({bounds}):\n        m[j] = i\n        j += 1"
    kernel(body, ONE, "out: ptr(int) @ grid[1], n: int @ grid[1]")[1](out, 2)
    assert out[out >= 0].tolist() == expected


def test_bounds_are_evaluated_once():
    out = np.zeros(1, np.int32)
    body = "with partition(out, p=thread[1], offset=0) as m:\n    n: int = 3\n    for i in range(n):\n        n = 100\n        m[0] += 1"
    kernel(body, ONE, "out: ptr(int) @ grid[1]")[1](out)
    assert out[0] == 3


@pytest.mark.parametrize("iterable", ["range()", "range(1, 2, 3, 4)", "range(1.5)", "range(0, 4, 0)", "range(stop=3)", "unroll(3)", "unroll(range(3), 0)", "unroll(range(3), n)", "unroll()", "n", "3", "range", "enumerate(range(3))"])
def test_ranges_that_are_not(iterable):
    found = errors(f"for i in {iterable}:\n    pass", ONE, "n: int @ grid[1]")
    assert found and {error.code for error in found} <= {"SNAP017", "SNAP018", "SNAP019"}


def test_unrolling():
    assert codes("a: int[8] @ thread[1]\nfor i in unroll(range(8)):\n    a[i] = i\nfor i in unroll(range(n), 4):\n    a[0] += i", ONE, "n: int @ grid[1]") == []


# ---- short circuit ---------------------------------------------------------------------------------------------------------------------------

COUNTED = """
@device
@requires(thread[1])
def yes(calls: ref(int[1]) @ thread[1], result: bool @ thread[1]) -> bool @ thread[1]:
    calls[0] += 1
    return result
"""


@pytest.mark.parametrize("expression, value, calls", [
    ("yes(c, True) and yes(c, True)", 1, 2), ("yes(c, False) and yes(c, True)", 0, 1), ("yes(c, True) or yes(c, False)", 1, 1), ("yes(c, False) or yes(c, True)", 1, 2),
    ("yes(c, True) if yes(c, True) else yes(c, False)", 1, 2), ("yes(c, True) if yes(c, False) else yes(c, False)", 0, 2), ("not yes(c, True) and yes(c, True)", 0, 1),
    ("(yes(c, False) and yes(c, True)) or (yes(c, True) and not yes(c, False))", 1, 3), ("False and yes(c, True)", 0, 0), ("True or yes(c, True)", 1, 0), ("1 if True else (2 if yes(c, True) else 3)", 1, 0),
    ("yes(c, True) < yes(c, False) < yes(c, True)", 0, 2),
])
def test_operands_that_are_skipped_do_nothing(expression, value, calls):
    body = f"with partition(out, p=thread[1], offset=0) as m:\n    c: int[1] @ thread[1]\n    with group(thread[1]):\n        m[0] = int({expression})\n        m[1] = c[0]"
    out = np.zeros(2, np.int32)
    kernel(body, ONE, "out: ptr(int) @ grid[1]", COUNTED)[1](out)
    assert out.tolist() == [value, calls]


def test_loop_conditions_are_evaluated_each_time():
    body = "with partition(out, p=thread[1], offset=0) as m:\n    c: int[1] @ thread[1]\n    with group(thread[1]):\n        while yes(c, c[0] < 4) and yes(c, True):\n            m[0] += 1\n            if m[0] == 1:\n                continue\n        m[1] = c[0]"
    out = np.zeros(2, np.int32)
    kernel(body, ONE, "out: ptr(int) @ grid[1]", COUNTED)[1](out)
    assert out.tolist() == [2, 5]


def test_a_branch_that_constants_rule_out_is_not_there():
    generic = """
    @kernel
    @requires(grid[1], block[1], thread[32])
    def k(out: ptr(int) @ grid[1], WIDE: constexpr(bool)):
        with group(grid[1]):
            i: int @ thread[1] = id()
            with partition(out, p=thread[1], offset=i) as mine:
                with group(block[1]):
                    if WIDE and count(thread[1]) == 32:
                        mine[0] = unknown_name
                    elif not WIDE:
                        x: int @ thread[1] = 1
                        mine[0] = x
                    if not WIDE:
                        x: int @ thread[1] = 2
                        mine[0] += x
    """
    k = execute(textwrap.dedent(generic))["k"]
    out = np.zeros(32, np.int32)
    k[1](out, False)
    assert (out == 3).all() and "if" not in k.specialize(WIDE=False).cuda().partition("{")[2]
    with pytest.raises(SnapError, match="unknown_name"):
        k[1](out, True)
    assert codes("n: int = 1\nif n == 2:\n    unknown_name()") == []
    assert codes("n: int = 1\nif n == 2:\n    unknown_name()\nn = 2") == [("SNAP019", 3)]


def test_no_collective_stands_where_it_may_be_skipped():
    for expression in ("n > 0 and intrinsic.any(n > 1)", "n > 0 or intrinsic.any(n > 1)", "intrinsic.any(n > 1) if n > 0 else False"):
        assert in_block(f"with group(thread[32]):\n    x: bool = {expression}", params="n: int @ grid[1]") == [("SNAP017", 2)]
    assert in_block("with group(thread[32]):\n    x: bool = intrinsic.any(n > 1) and n > 0", params="n: int @ grid[1]") == []
    assert in_block("with group(thread[32]):\n    x: bool = False if intrinsic.any(n > 1) else True", params="n: int @ grid[1]") == []


def test_what_decides_around_a_call_is_for_the_codes_privilege():
    before = "@device\n@requires(thread[32])\ndef f() -> bool @ thread[1]:\n    return True"
    assert in_block("t: int @ thread[1] = id()\nwith group(thread[32]):\n    x: bool @ thread[1] = t > 0 and f()", before=before) == [("SNAP006", 3)]
    assert in_block("w: int @ thread[32] = id()\nwith group(thread[32]):\n    x: bool @ thread[1] = w > 0 and f()", before=before) == []
    assert in_block("t: int @ thread[1] = id()\nwith group(thread[32]):\n    x: bool @ thread[1] = f() and t > 0", before=before) == []


# ---- names from outside ----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value, accepted", [
    (3, True), (2.5, True), (True, True), (np.int32(3), True), (np.float32(2.5), True), (np.bool_(True), True), (np.uint64(2**63), True), (2**70, False), ("text", False), (None, False), ([1], False),
    ((1, 2), False), (np.zeros(3), False), (np.zeros(()), True), (1j, False), (object(), False), (len, False), (float("nan"), True), (float("inf"), True), (np.float64, False), (range(3), False), ({}, False),
])
def test_what_may_be_captured_as_a_number(value, accepted):
    found = errors("x = captured", ONE, captured=value)
    assert (not found) == accepted
    assert {error.code for error in found} <= {"SNAP018"}


def test_privileges_types_and_lambdas_may_be_captured():
    from snap import f16, group, thread, warp

    assert in_block("with group(mine):\n    x: kind @ mine = kind(3.0)", mine=thread[32], kind=f16) == []
    assert in_block("with open_group(warp2):\n    pass", open_group=group, warp2=warp[2]) == []
    assert in_block("with group(level[64]):\n    pass", level=thread) == []
    assert in_block("x: number = 3", number=int) == []
    assert in_block("x: sn.f16 = sn.f16(3.0)\nwith sn.group(sn.thread[32]):\n    pass", sn=snap) == []


def test_modules_are_looked_into():
    import math

    assert codes("x: float = math.pi + math.sqrt(2.0)", ONE, math=math) == []
    assert codes("x: float = math.huh", ONE, math=math) == [("SNAP019", 1)]
    assert codes("x: float = np.pi", ONE, np=np) == []
    assert codes("x: float = np.zeros", ONE, np=np) == [("SNAP018", 1)]
    assert codes("x = math", ONE, math=math) == [("SNAP018", 1)]


def test_outside_names_are_read_when_the_function_is_defined_and_unknown_ones_are_reported():
    assert codes("x: int = later", ONE) == [("SNAP019", 1)]
    assert codes("x: int = threadIdx.x", ONE) == [("SNAP019", 1)]


def test_annotations_are_read_from_the_source():
    text = "from snap import *\n@kernel\n@requires(grid[1], block[1], thread[32])\ndef k(x: ptr(float, (N, M)) @ grid[1], N: int @ grid[1], M: int @ grid[1]):\n    y: undefined_elsewhere = 3"
    with pytest.raises(SnapError) as caught:
        execute(text)
    assert caught.value.code == "SNAP019"
    without_future = "from snap import *\n@kernel\n@requires(grid[1], block[1], thread[32])\ndef k(x: ptr(const(float)) @ grid[1], n: int @ grid[1]):\n    pass\n"
    from snap.diag.source import register_source

    register_source("<no future>", without_future)
    exec(compile(without_future, "<no future>", "exec", dont_inherit=True), {})


def test_quoted_annotations_are_read_too():
    assert codes("x: 'int @ grid[1]' = 3", ONE) == []


# ---- errors ----------------------------------------------------------------------------------------------------------------------------------


def test_an_error_carries_all_its_parts():
    found = errors("x: int = y\nz: int = w", ONE)
    first = found[0]
    assert isinstance(first, SyntaxError) and isinstance(first, snap.SnapError)
    assert first.code == "SNAP019" and "y" in first.message and first.filename.startswith("<checked") and first.offset == 14
    assert [e.code for e in found] == ["SNAP019", "SNAP019"] and found[0].all == found
    assert "x: int = y" in first.render() and "^" in first.render()
    assert isinstance(first.notes, list)
    again = pickle.loads(pickle.dumps(first))
    assert again.code == first.code and len(again.all) == 2


def test_the_caret_is_under_the_expression():
    text = HEADER + "@kernel\n@requires(grid[1], block[1], thread[32])\ndef k(n: int @ grid[1]):\n    with group(block[1]):\n        x: int = 1 + (n * missing)"
    with pytest.raises(SnapError) as caught:
        from snap.diag.source import register_source

        register_source("<caret>", text)
        exec(compile(text, "<caret>", "exec", dont_inherit=True), {})
    error = caught.value
    line = text.splitlines()[error.lineno - 1]
    assert line[error.offset - 1:].startswith("missing")


def test_snap_check_lists_errors_and_takes_plain_functions():
    def legal(n):
        pass

    namespace = execute("def good(n: int @ grid[1]):\n    x: int = n\n\ndef bad(n: int @ grid[1]):\n    x: int = m\n    y: int = q\n\n@kernel\n@requires(thread[32])\ndef k():\n    pass")
    assert snap.check(namespace["good"]) == []
    assert [error.code for error in snap.check(namespace["bad"])] == ["SNAP019", "SNAP019"]
    assert snap.check(namespace["k"]) == []


def test_undecorated_functions_may_use_any_usual_group():
    namespace = execute("def f():\n    with group(block[1]):\n        with group(thread[96]):\n            pass\n        with group(warpgroup):\n            pass")
    assert snap.check(namespace["f"]) == []


def test_a_function_that_may_end_without_its_value():
    head = "@device\n@requires(thread[1])\ndef f(a: int @ thread[1]) -> int @ thread[1]:\n"
    for body in ("if a > 0:\n        return 1", "while a > 0:\n        return 1", "while True:\n        if a > 0:\n            break\n        return 1"):
        assert [code for code, _ in program(head + "    " + body + "\n")] == ["SNAP018"]
    for body in ("if a > 0:\n        return 1\n    else:\n        return 2", "while True:\n        if a > 0:\n            return 1"):
        assert program(head + "    " + body + "\n") == []


@pytest.mark.parametrize("index", ["4", "-1"])
def test_a_constant_index_is_inside_of_its_array(index):
    assert in_block(f"x: float[4] @ thread[1]\nx[{index}] = 1.0") == [("SNAP018", 2)]
    assert in_block(f"x: float[4] @ thread[1]\ny: float @ thread[1] = x[{index}]") == [("SNAP018", 2)]
