"""Data privileges, targets, control flow that keeps groups together."""

from __future__ import annotations

import pytest
from check.checking import codes, in_block, kernel, program

from snap._compiler.ir import nodes as ir
from snap._compiler.ir.walk import statements

# ---- declaring and assigning ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("privilege, refused", [
    ("block[1]", None), ("thread[1]", None), ("thread[32]", None), ("thread[256]", None), ("warp", None), ("thread[128]", None),
    ("thread[3]", "SNAP005"), ("thread[512]", "SNAP005"), ("block[2]", "SNAP005"), ("grid[1]", "SNAP005"), ("cluster[1]", "SNAP005"), ("thread", "SNAP018"), ("3", "SNAP018"),
])
def test_a_declared_privilege_divides_what_the_code_holds(privilege, refused):
    assert in_block(f"x: int @ {privilege} = 0") == ([(refused, 1)] if refused else [])


def test_without_a_privilege_it_is_the_codes():
    k = kernel("with group(grid[1]):\n    a: int = 0\n    with group(block[1]):\n        b: int = 0\n        with group(thread[32]):\n            c = 0")
    found = {s.var.name: str(s.var.privilege) for s in statements(k._the_one({}).typed.body) if isinstance(s, ir.Declare)}
    assert found == {"a": "grid[1]", "b": "block[1]", "c": "thread[32]"}


@pytest.mark.parametrize("group, refused", [("block[1]", False), ("thread[64]", False), ("thread[32]", False), ("thread[16]", True), ("thread[1]", True)])
def test_assigning_needs_the_codes_privilege_to_be_at_least_the_datas(group, refused):
    text = f"x: int @ thread[32] = 0\nwith group({group}):\n    x = 1\n    x += 1"
    assert in_block(text) == ([("SNAP005", 3), ("SNAP005", 4)] if refused else [])


def test_a_split_branch_cannot_assign_what_belongs_to_the_block():
    assert in_block("x: int = 0\nmatch split(thread):\n    case 128:\n        x = 1") == [("SNAP005", 4)]
    assert in_block("x: int @ thread[128] = 0\nmatch split(thread):\n    case 128:\n        x = 1") == []
    assert in_block("x: int @ thread[96] = 0\nmatch split(thread):\n    case 64:\n        x = 1", "grid[1], block[1], thread[96]") == [("SNAP005", 4)]


def test_elements_and_components_of_variables_are_assigned_like_variables():
    assert in_block("x: int[4] @ thread[32]\nx[0] = 1\nwith group(thread[1]):\n    x[1] = 1") == [("SNAP005", 4)]
    assert in_block("x: float4 @ thread[32] = float4(0.0)\nx.x = 1.0\nwith group(thread[1]):\n    x.y = 1.0") == [("SNAP005", 4)]


# ---- what is read, for whom ----------------------------------------------------------------------------------------------------------------

LOW = """
t: int @ thread[1] = id()
w: int @ thread[32] = id()
"""


def low(text: str, **options) -> list[tuple[str, int]]:
    return [(code, line - 2) for code, line in in_block(LOW + text, **options)]


@pytest.mark.parametrize("value, target, refused", [
    ("t", "thread[1]", False), ("w", "thread[1]", False), ("w", "thread[32]", False), ("w", "thread[16]", False), ("w", "thread[64]", True), ("t", "thread[32]", True),
    ("w", "block[1]", True), ("n", "block[1]", False), ("1 + n", "block[1]", False), ("1 + t", "block[1]", True), ("-t", "block[1]", True), ("not t", "block[1]", True),
    ("t < 3", "block[1]", True), ("n if n < 3 else 4", "block[1]", False), ("n if t < 3 else 4", "block[1]", True), ("t if n < 3 else 4", "block[1]", True),
    ("n < 3 and t < 3", "block[1]", True), ("t < 3 or n < 3", "block[1]", True), ("max(n, t)", "block[1]", True), ("int(float(t))", "block[1]", True),
    ("id()", "thread[1]", False), ("id()", "block[1]", False), ("c[n]", "block[1]", False), ("c[t]", "thread[1]", False), ("c[t]", "block[1]", True), ("c[w]", "thread[32]", False),
    ("v.x", "thread[1]", False), ("v.x", "block[1]", True), ("a[0]", "thread[1]", False), ("a[0]", "block[1]", True), ("b[t % 4]", "thread[1]", False), ("b[t % 4]", "block[1]", True),
    ("b[n]", "block[1]", False), ("intrinsic.bitcast(t, u32)", "block[1]", True), ("count(thread[1])", "block[1]", False), ("float2(float(t), 0.0).x", "block[1]", True),
])
def test_every_leaf_is_at_least_the_target(value, target, refused):
    text = f"v: int2 @ thread[1] = int2(t, t)\na: int[4] @ thread[1]\nb: int[4]\nx: {'float' if 'float2' in value else 'int'} @ {target} = {value}"
    assert low(text, params="n: int @ grid[1], c: ptr(const(int)) @ grid[1]") == ([("SNAP006", 4)] if refused else [])


@pytest.mark.parametrize("statement, refused", [
    ("if n > 0:\n    pass", False), ("if t > 0:\n    pass", True), ("if w > 0:\n    pass", True), ("while t < 0:\n    pass", True), ("while n < 0:\n    pass", False),
    ("for i in range(t):\n    pass", True), ("for i in range(0, t):\n    pass", True), ("for i in range(0, 4, t):\n    pass", True), ("for i in range(n):\n    pass", False),
    ("if n > 0 and t > 0:\n    pass", True), ("with group(thread[32]):\n    if w > 0:\n        pass", False), ("with group(thread[32]):\n    if t > 0:\n        pass", True),
    ("with group(thread[1]):\n    if t > 0:\n        pass", False), ("if a[0] > 0:\n    pass", True), ("if c[n] > 0:\n    pass", False), ("if c[t] > 0:\n    pass", True),
    ("assert t < 256", False),
])
def test_what_decides_control_flow_is_for_the_codes_own_privilege(statement, refused):
    text = "a: int[4] @ thread[1]\n" + statement
    found = low(text, params="n: int @ grid[1], c: ptr(const(int)) @ grid[1]")
    assert [code for code, _ in found] == (["SNAP006"] if refused else [])


def test_subscripts_on_the_left_are_for_the_destination():
    assert low("a: int[4] @ thread[1]\na[t % 4] = 1") == []
    assert low("a: int[4] @ thread[32]\na[t % 4] = 1") == [("SNAP006", 2)]
    assert low("a: int[4] @ thread[32]\na[w % 4] = 1") == []


def test_a_loop_variable_has_the_codes_privilege():
    assert low("x: int = 0\nfor i in range(4):\n    x = x + i") == []
    assert low("x: i64 = 0\nfor i in range(-4611686018427387904, 4611686018427387904):\n    x = x + i") == []  # 2^63 iterations
    assert low("with group(thread[32]):\n    for i in range(w):\n        y: int @ thread[32] = i\n        z: int @ thread[1] = i") == []


def test_an_index_for_a_high_target_is_high():
    assert low("s: shared(int[256])\nx: int @ thread[32] = s[w]") == []
    assert low("s: shared(int[256])\nx: int @ thread[32] = s[t]") == [("SNAP006", 2)]


def test_several_errors_are_all_reported_the_first_is_raised():
    assert low("x: int = t\ny: int = w\nz: int = 0\nif t < 3:\n    q: int = t") == [("SNAP006", 1), ("SNAP006", 2), ("SNAP006", 4), ("SNAP006", 5)]


# ---- leaving ---------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("word", ["break", "continue"])
def test_break_and_continue_stay_in_their_group(word):
    assert in_block(f"for i in range(4):\n    {word}") == []
    assert in_block(f"for i in range(4):\n    if i == 2:\n        {word}") == []
    assert in_block(f"while True:\n    if True:\n        {word}\n    break") == []
    assert in_block(f"for i in range(4):\n    with group(thread[32]):\n        {word}") == [("SNAP007", 3)]
    assert in_block(f"for i in range(4):\n    match split(thread):\n        case 32:\n            {word}") == [("SNAP007", 4)]
    assert in_block(f"with group(thread[32]):\n    for i in range(4):\n        {word}") == []


@pytest.mark.parametrize("word", ["break", "continue"])
def test_break_and_continue_may_leave_memory_scopes(word):
    text = f"s: shared(int[256])\nt: int @ thread[1] = id()\nfor i in range(4):\n    with partition(s, p=thread[1], offset=t) as m:\n        m[0] = i\n        if i == 2:\n            {word}"
    assert in_block(text) == []


def test_return_is_last_or_outside_of_every_scope():
    assert codes("return") == []
    assert codes("with group(grid[1]):\n    return") == []
    assert codes("with group(grid[1]):\n    with group(block[1]):\n        if count(thread[1]) == 1:\n            return\n        else:\n            return") == []
    assert codes("with group(grid[1]):\n    return\nx: int = 0") == [("SNAP007", 2)]
    assert codes("with group(grid[1]):\n    if n > 0:\n        return\n    x: int = 0", params="n: int @ grid[1]") == [("SNAP007", 3)]
    assert codes("if n > 0:\n    return\nx: int = 0", params="n: int @ grid[1]") == []
    assert codes("for i in range(n):\n    return\nx: int = 0", params="n: int @ grid[1]") == []
    assert codes("for i in range(n):\n    with group(block[1]):\n        return", params="n: int @ grid[1]") == [("SNAP007", 3)]
    assert codes("with group(grid[1]):\n    match split(thread):\n        case 32:\n            return\n        case 32:\n            pass") == []
    assert codes("with group(grid[1]):\n    with partition(x, p=block[1], offset=0) as y:\n        return\n    z: int = 0", params="x: ptr(int) @ grid[1]") == [("SNAP007", 3)]
    assert codes("with group(grid[1]):\n    with partition(x, p=block[1], offset=0) as y:\n        return", params="x: ptr(int) @ grid[1]") == []


def test_a_return_in_a_loop_is_not_last():
    assert codes("with group(grid[1]):\n    for i in range(n):\n        return", params="n: int @ grid[1]") == [("SNAP007", 3)]


def test_a_function_with_a_result_returns_on_every_path():
    head = "@device\n@requires(thread[1])\ndef f(n: int @ thread[1]) -> int @ thread[1]:\n"
    assert program(head + "    return n") == []
    assert program(head + "    if n > 0:\n        return 1\n    return 2") == []
    assert program(head + "    if n > 0:\n        return 1\n    else:\n        return 2") == []
    assert program(head + "    if n > 0:\n        return 1") == [("SNAP018", 3)]
    assert program(head + "    while True:\n        return 1") == []
    assert program(head + "    while True:\n        if n > 0:\n            break\n    x: int = 0") == [("SNAP018", 3)]
    assert program(head + "    while True:\n        if n > 0:\n            break") == [("SNAP018", 3)]
    assert program(head + "    while True:\n        for i in range(3):\n            break") == []
    assert program(head + "    with group(thread[1]):\n        return 1") == []
    assert program(head + "    with group(thread[1]):\n        if n > 0:\n            return 1") == [("SNAP018", 3)]
    assert program(head + "    match split(thread):\n        case 1:\n            return 1") == [("SNAP018", 3)]
    assert program(head + "    pass") == [("SNAP018", 3)]
    assert program(head + "    return") == [("SNAP018", 4)]
    assert program(head + "    for i in range(n):\n        return 1") == [("SNAP018", 3)]


def test_a_value_is_returned_only_where_one_is_declared():
    assert program("@device\n@requires(thread[1])\ndef f(n: int @ thread[1]):\n    return n") == [("SNAP018", 4)]
    assert codes("return 3") == [("SNAP018", 1)]
    assert program("@kernel\n@requires(thread[32])\ndef k() -> int @ grid[1]:\n    return 1")[0][0] == "SNAP018"


def test_the_result_is_for_its_privilege():
    head = "@device\n@requires(thread[32])\ndef f(n: int @ thread[1]) -> int @ {}:\n    return n"
    assert program(head.format("thread[1]")) == []
    assert program(head.format("thread[32]")) == [("SNAP006", 4)]
