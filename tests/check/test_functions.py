"""Device functions, their calls, generic functions; and how functions are defined."""

from __future__ import annotations

import types

import numpy as np
import pytest
from check.checking import codes, execute, in_block, program

from snap.diag.error import SnapError


def call(requires: str, group: str, threads: int = 256, cluster: str = "") -> list[tuple[str, int]]:
    """Call a function that requires something from a group."""
    return codes(f"with group({group}):\n    f()", f"grid[1], {cluster}block[4], thread[{threads}]", before=f"@device\n@requires({requires})\ndef f():\n    pass")


@pytest.mark.parametrize("requires, group, refused", [
    ("thread[32]", "thread[32]", False), ("thread[32]", "thread[64]", False), ("thread[32]", "block[1]", False), ("thread[32]", "grid[1]", False),
    ("thread[32]", "thread[16]", True), ("thread[32]", "thread[1]", True), ("thread[64]", "thread[32]", True), ("thread[1]", "thread[1]", False),
    ("block[1]", "block[1]", False), ("block[1]", "block[4]", False), ("block[1]", "grid[1]", False), ("block[1]", "thread[256]", True), ("block[2]", "block[1]", True),
    ("block[1], thread[256]", "block[1]", False), ("block[1], thread[128]", "block[1]", False), ("block[1], thread[1]", "block[1]", False),
    ("block[1], thread[512]", "block[1]", True), ("block[1], thread[96]", "block[1]", True), ("block[2], thread[32]", "block[4]", False),
    ("grid[1]", "grid[1]", False), ("grid[1]", "block[1]", True), ("grid[1], thread[256]", "grid[1]", False), ("grid[1], thread[128]", "grid[1]", False), ("grid[1], thread[96]", "grid[1]", True),
    ("grid[1], block[2]", "grid[1]", False), ("grid[1], block[4]", "grid[1]", False), ("grid[1], block[3]", "grid[1]", True), ("grid[1], block[8]", "grid[1]", True),
    ("block[4], thread[256]", "grid[1]", False), ("cluster[1]", "grid[1]", True), ("thread[96]", "block[1]", True), ("warp", "warpgroup", False),
])
def test_the_caller_holds_what_is_required(requires, group, refused):
    assert call(requires, group) == ([("SNAP008", 2)] if refused else [])


def test_alignment_is_part_of_it():
    before = "@device\n@requires(thread[64])\ndef f():\n    pass"
    inside = "match split(thread):\n    case 96:\n        pass\n    case 96:\n        match split(thread):\n            case {}:\n                f()"
    assert in_block(inside.format(96), "grid[1], block[1], thread[192]", before=before) == [("SNAP008", 7)]
    # groups of 96 start at multiples of 96, of which 64 is no divisor; 96 holds no multiple of 64 anyway
    assert in_block("with group(thread[96]):\n    f()", "grid[1], block[1], thread[192]", before=before) == [("SNAP008", 2)]
    assert in_block("with group(thread[192]):\n    f()", "grid[1], block[1], thread[384]", before=before) == []
    misaligned = "with group(thread[96]):\n    match split(thread):\n        case 32:\n            pass\n        case 32:\n            g()"
    assert in_block(misaligned, "grid[1], block[1], thread[192]", before="@device\n@requires(thread[32])\ndef g():\n    pass") == []


def test_a_callee_may_rely_on_its_alignment():
    text = "@device\n@requires(thread[96])\ndef f():\n    match split(thread):\n        case {}:\n            pass"
    assert program(text.format(32)) == [] and program(text.format(96)) == [] and program(text.format(48)) == []
    assert program(text.format(64)) == [("SNAP004", 5)]
    below = "@device\n@requires(block[1], thread[96])\ndef f():\n    match split(thread):\n        case 64:\n            pass\n        case 32:\n            pass"
    assert program(below) == []


def test_levels_that_are_not_named_are_the_callers():
    text = "@device\n@requires(block[1])\ndef f():\n    {}"
    assert program(text.format("with group(thread[1]):\n        pass")) == []
    assert program(text.format("with group(thread[32]):\n        pass")) == [("SNAP002", 4)]
    assert program(text.format("match split(thread):\n        case 1:\n            pass")) == [("SNAP003", 4)]
    assert program(text.format("x: int @ thread[1] = id()")) == []
    assert program(text.format("n: int = count(thread[1])")) == []
    assert program(text.format("n: int[count(thread[1])] @ thread[1]")) == [("SNAP018", 4)]
    assert program(text.format("intrinsic.syncwarp()")) == [("SNAP016", 4)]


# ---- arguments -------------------------------------------------------------------------------------------------------------------------------


def argument(param: str, given: str, requires: str = "thread[32]", group: str = "thread[32]") -> list[tuple[str, int]]:
    before = f"@device\n@requires({requires})\ndef f(p: {param}):\n    pass"
    body = "s: shared(int[256])\nt: int @ thread[1] = id()\nw: int @ thread[32] = id()\na: int[4] @ thread[1]\nb: int[4] @ thread[32]\nz: int[4]\nh: f16 @ thread[1] = f16(1.0)\n"
    body += f"with group({group}):\n    f({given})"
    return [(code, line - 8) for code, line in in_block(body, before=before, params="x: ptr(int) @ grid[1], c: ptr(const(int)) @ grid[1], y: ptr(float) @ grid[1]")]


@pytest.mark.parametrize("param, given, refused", [
    ("int @ thread[1]", "t", None), ("int @ thread[1]", "w", None), ("int @ thread[32]", "w", None), ("int @ thread[32]", "t", "SNAP015"), ("int", "w", None), ("int", "t", "SNAP015"),
    ("int @ thread[32]", "3", None), ("int @ thread[1]", "1.5", "SNAP018"), ("float @ thread[1]", "t", None), ("f16 @ thread[1]", "1.0", None), ("int @ thread[1]", "h", "SNAP018"),
    ("int @ thread[1]", "a", "SNAP018"), ("int @ thread[1]", "s", "SNAP018"), ("int @ thread[1]", "a[0]", None), ("int @ thread[32]", "a[0]", "SNAP015"), ("int @ thread[32]", "s[w]", None),
    ("int @ thread[32]", "s[t]", "SNAP015"), ("int2 @ thread[1]", "t", "SNAP018"), ("int2 @ thread[1]", "int2(t, t)", None),
    ("int[4] @ thread[1]", "a", None), ("int[4] @ thread[1]", "b", None), ("int[4] @ thread[32]", "b", None), ("int[4] @ thread[32]", "a", "SNAP015"), ("int[3] @ thread[1]", "a", "SNAP018"),
    ("float[4] @ thread[1]", "a", "SNAP018"), ("float[4] @ thread[1]", "a.view(float)", None), ("int[4] @ thread[1]", "t", "SNAP018"), ("int[2, 2] @ thread[1]", "a", "SNAP018"),
    ("ref(int[4]) @ thread[1]", "a", None), ("ref(int[4]) @ thread[1]", "b", "SNAP015"), ("ref(int[4]) @ thread[32]", "b", None), ("ref(int[4]) @ thread[32]", "a", "SNAP015"),
    ("ref(int[4]) @ thread[1]", "t", "SNAP018"), ("ref(int[4]) @ thread[1]", "s", "SNAP018"), ("ref(int[8]) @ thread[1]", "a", "SNAP018"), ("ref(float[4]) @ thread[1]", "a", "SNAP018"),
    ("ref(int[4]) @ thread[32]", "z", "SNAP015"),
    ("ptr(const(int)) @ thread[32]", "s", None), ("ptr(const(int)) @ block[1]", "s", None), ("ptr(const(int)) @ thread[1]", "s", None), ("ptr(const(int)) @ grid[1]", "s", "SNAP015"),
    ("ptr(const(int)) @ grid[1]", "c", None), ("ptr(const(int)) @ thread[32]", "c", None), ("ptr(const(int)) @ thread[32]", "x", None), ("ptr(const(float)) @ thread[32]", "s", "SNAP018"),
    ("ptr(const(float)) @ thread[32]", "s.view(float)", None), ("ptr(const(int)) @ thread[32]", "t", "SNAP018"), ("ptr(const(int)) @ thread[32]", "a", "SNAP018"),
    ("ptr(int) @ block[1]", "s", None), ("ptr(int) @ thread[32]", "s", "SNAP015"), ("ptr(int) @ thread[1]", "s", "SNAP015"), ("ptr(int) @ grid[1]", "x", None), ("ptr(int) @ grid[1]", "c", "SNAP015"),
    ("ptr(shared(int)) @ block[1]", "s", None), ("ptr(shared(int)) @ grid[1]", "x", "SNAP018"), ("ptr(shared(const(int))) @ thread[32]", "s", None), ("ptr(float) @ grid[1]", "y", None),
])
def test_arguments_fit_parameters(param, given, refused):
    assert argument(param, given) == ([(refused, 1)] if refused else [])


def test_an_object_that_is_written_appears_once():
    before = "@device\n@requires(block[1])\ndef f(p: {}, q: {}):\n    pass"
    two = lambda p, q, given: in_block(f"s: shared(int[4])\nu: shared(int[4])\nf({given})", before=before.format(p, q))
    const, plain = "ptr(const(int)) @ block[1]", "ptr(int) @ block[1]"
    assert two(const, const, "s, s") == []
    assert two(plain, const, "s, s") == [("SNAP015", 3)]
    assert two(const, plain, "s, s") == [("SNAP015", 3)]
    assert two(plain, plain, "s, s") == [("SNAP015", 3)]
    assert two(plain, plain, "s, u") == []
    assert two(plain, const, "tile(s, 0, 2), tile(s, 2, 2)") == [("SNAP015", 3)]
    assert two(const, "int @ thread[1]", "s, s[0]") == []
    refs = "@device\n@requires(thread[1])\ndef f(p: ref(int[4]) @ thread[1], q: {}):\n    pass"
    assert in_block("a: int[4] @ thread[1]\nf(a, a)", before=refs.format("ref(int[4]) @ thread[1]")) == [("SNAP015", 2)]
    assert in_block("a: int[4] @ thread[1]\nf(a, a)", before=refs.format("int[4] @ thread[1]")) == []
    assert in_block("a: int[4] @ thread[1]\nf(a, a[0])", before=refs.format("int @ thread[1]")) == []


def test_arguments_are_bound_as_pythons_are():
    before = "@device\n@requires(thread[1])\ndef f(p: int @ thread[1], q: int @ thread[1]):\n    pass"
    given = lambda text: in_block(f"f({text})", before=before)
    assert given("1, 2") == [] and given("1, q=2") == [] and given("q=1, p=2") == []
    for wrong in ("1", "1, 2, 3", "1, p=2", "1, r=2", "*x", "1, 2, **x"):
        assert given(wrong)[0][0] in ("SNAP017", "SNAP018", "SNAP019")


def test_defaults_are_for_constexprs():
    assert program("@device\n@requires(thread[1])\ndef f(p: int @ thread[1] = 3):\n    pass")[0][0] == "SNAP017"
    assert program("@device\n@requires(thread[1])\ndef f(p: constexpr(int) = 3):\n    pass") == []


def test_results():
    before = "@device\n@requires(thread[32])\ndef f(v: int @ thread[1]) -> int @ {}:\n    return {}\n@device\n@requires(thread[32])\ndef g():\n    pass"
    low, high = before.format("thread[1]", "v"), before.format("thread[32]", "3")
    assert in_block("with group(thread[32]):\n    x: int @ thread[1] = f(3) + f(4)", before=low) == []
    of_threads = "t: int @ thread[1] = id()\nwith group(thread[32]):\n    "
    assert in_block(of_threads + "x: int = f(t)", before=low) == [("SNAP006", 3)]
    assert in_block("with group(thread[32]):\n    x: int = f(3)", before=low) == []
    assert in_block("with group(thread[32]):\n    x: int = f(3)", before=high) == []
    assert in_block("with group(thread[32]):\n    if f(3) > 2:\n        pass", before=high) == []
    assert in_block("with group(thread[32]):\n    if f(3) > 2:\n        pass", before=low) == []
    assert in_block(of_threads + "if f(t) > 2:\n        pass", before=low) == [("SNAP006", 3)]
    assert in_block("with group(thread[32]):\n    f(3)", before=low) == []
    assert in_block("with group(thread[32]):\n    x: int @ thread[1] = g()", before=low) == [("SNAP018", 2)]
    assert program("@device\n@requires(thread[1])\ndef f() -> int[4] @ thread[1]:\n    pass")[0][0] == "SNAP018"
    assert program("@device\n@requires(thread[1])\ndef f(p: ptr(int) @ thread[1]) -> ptr(int) @ thread[1]:\n    return p")[0][0] == "SNAP018"


@pytest.mark.parametrize(
    "body",
    [
        "t: int @ thread[1] = id()\n    return v + t",
        "return v + intrinsic.reduce_add(1)",
        "return other(v)",
    ],
)
def test_the_result_of_a_function_that_does_more_than_compute_is_a_threads(body):
    other = "@device\n@requires(thread[32])\ndef other(v: int @ thread[1]) -> int @ thread[1]:\n    t: int @ thread[1] = id()\n    return t\n\n"
    f = f"{other}@device\n@requires(thread[32])\ndef f(v: int @ thread[1]) -> int @ thread[1]:\n    {body}"
    assert in_block("with group(thread[32]):\n    x: int = f(3)", before=f) == [("SNAP006", 2)]


def test_recursion_is_refused():
    assert program("@device\n@requires(thread[1])\ndef f():\n    f()") == [("SNAP017", 4)]
    later = "@device\n@requires(thread[1])\ndef f():\n    pass\n\n@device\n@requires(thread[1])\ndef g():\n    f()\n\n@device\n@requires(thread[1])\ndef f():\n    g()"
    assert program(later) == []  # another function of the same name, bound to the old one


def test_a_function_of_the_callees_name_is_another_function():
    text = """
    @device
    @requires(thread[1])
    def f() -> int @ thread[1]:
        return 1

    @device
    @requires(thread[1])
    def other() -> int @ thread[1]:
        return f()

    @device
    @requires(thread[1])
    def f() -> int @ thread[1]:
        return other()
    """
    assert program(text) == []


def test_kernels_are_not_called_and_other_things_neither():
    kernel = "@kernel\n@requires(thread[32])\ndef other():\n    pass"
    assert codes("other()", "thread[32]", before=kernel) == [("SNAP018", 1)]
    assert codes("len(3)", "thread[32]")[0][0] in ("SNAP018", "SNAP019", "SNAP017")
    assert codes("helper()", "thread[32]", before="def helper():\n    pass") == [("SNAP018", 1)]
    assert codes("open(3)", "thread[32]")[0][0] in ("SNAP017", "SNAP018")


def test_calls_are_checked_by_signature_alone():
    # the callee's body is refused where it is defined, not where it is called
    bad = "@device\n@requires(thread[1])\ndef f():\n    x: int @ block[1] = 0\n\n@kernel\n@requires(thread[32])\ndef k():\n    f()"
    assert program(bad) == [("SNAP005", 4)]


# ---- generic functions -----------------------------------------------------------------------------------------------------------------------

GENERIC = """
@kernel
@requires(lambda T: (grid[1], block[1], thread[T]))
def k(out: ptr(int) @ grid[1], T: constexpr(int), N: constexpr(int) = 2):
    with group(grid[1]):
        i: int @ thread[1] = id()
        a: int[N] @ thread[1]
        for j in range(N):
            a[j] = i + j
        with partition(out, p=thread[1], offset=i) as mine:
            mine[0] = a[N - 1] * T
"""


def test_a_generic_kernel_is_made_for_each_value():
    k = execute(GENERIC)["k"]
    for threads, n in ((32, 2), (64, 5)):
        out = np.zeros(threads, np.int32)
        k[1](out, threads, n)
        np.testing.assert_array_equal(out, (np.arange(threads) + n - 1) * threads)
    out = np.zeros(32, np.int32)
    k[1](out, T=32)
    np.testing.assert_array_equal(out, (np.arange(32) + 1) * 32)
    k.specialize(T=32)[1](out)
    assert "thread[64]" in str(k.specialize(T=64)._the_one({}).typed.place)


def test_a_generic_kernel_is_checked_when_it_is_specialized():
    k = execute(GENERIC)["k"]
    for wrong in ({"T": 0}, {"T": 1025}, {"T": 1.5}, {"T": 32, "N": 0}, {"T": 2**40}):
        with pytest.raises((SnapError, TypeError)):
            k.specialize(**wrong)._the_one({})
    with pytest.raises(TypeError, match="generic"):
        k.cuda()
    with pytest.raises(TypeError, match="no constexpr parameter"):
        k.specialize(Q=3)


def test_a_generic_function_with_defaults_is_checked_when_it_is_defined():
    text = "@device\n@requires(lambda T=3: (thread[T],))\ndef f(T: constexpr(int) = {}):\n    with group(thread[16]):\n        pass"
    assert program(text.format(32)) == []
    assert program(text.format(24)) == [("SNAP002", 4)]


def test_generic_device_functions():
    before = """
@device
@requires(lambda N: (thread[N],))
def f(v: int @ thread[1], N: constexpr(int), M: constexpr(int) = 2) -> int @ thread[1]:
    x: int[N * M] @ thread[1]
    return x[0] + v + N
"""
    given = lambda text, group="thread[32]": in_block(f"n: int = 32\nwith group({group}):\n    v: int @ thread[1] = f({text})", before=before)
    assert given("1, 32") == [] and given("1, N=16") == [] and given("1, 32, 3") == [] and given("1, 2 * 16") == []
    assert given("1, 64") == [("SNAP008", 3)]
    assert given("1, n") == [] and given("1, count(block[1])") != []
    assert given("1, 0")[0] == ("SNAP018", 3)
    assert given("1, 32, 0")[0][0] == "SNAP018"
    assert given("1, 2.5")[0][0] == "SNAP018"
    assert given("1")[0] == ("SNAP018", 3)


@pytest.mark.parametrize("requires", ["lambda: 3", "lambda T: thread[T] + 1", "lambda Q: thread[Q]", "lambda T: 1 / 0", "lambda T: []", "lambda T: (thread[T], thread[T])", "lambda T: None"])
def test_a_lambda_that_gives_no_privileges(requires):
    text = f"@device\n@requires({requires})\ndef f(T: constexpr(int) = 32):\n    pass"
    assert [code for code, _ in program(text)] == ["SNAP018"]


def test_a_lambda_may_give_one_privilege():
    assert program("@device\n@requires(lambda T: thread[T])\ndef f(T: constexpr(int) = 32):\n    pass") == []


# ---- by value, by reference ------------------------------------------------------------------------------------------------------------------


def test_arrays_by_value_are_copies_and_by_reference_are_not():
    text = """
@device
@requires(thread[1])
def by_value(a: int[3] @ thread[1]) -> int @ thread[1]:
    a[0] = a[0] + 100
    return a[0] + a[1] + a[2]

@device
@requires(thread[1])
def by_reference(a: ref(int[3]) @ thread[1], v: int @ thread[1]) -> int @ thread[1]:
    v += 1
    a[1] = a[1] + v
    return a[1]

@kernel
@requires(thread[32])
def k(out: ptr(int) @ grid[1]):
    i: int @ thread[1] = id()
    a: int[3] @ thread[1]
    a[0] = i
    v: int @ thread[1] = 5
    x: int @ thread[1] = by_value(a)
    y: int @ thread[1] = by_reference(a, v)
    with partition(out, p=thread[1], f=lambda k: 6 * i + k) as mine:
        mine[0] = x
        mine[1] = y
        mine[2] = a[0]
        mine[3] = a[1]
        mine[4] = v
        mine[5] = by_value(a) + by_reference(a, a[1]) * 1000
"""
    out = np.zeros((32, 6), np.int32)
    execute(text)["k"][1](out)
    i = np.arange(32)
    np.testing.assert_array_equal(out, np.stack([i + 100, 0 * i + 6, i, 0 * i + 6, 0 * i + 5, i + 100 + 6 + 13000], 1))


# ---- decorators ------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("decorators", ["@kernel\n@requires(thread[32])", "@requires(thread[32])\n@kernel", "@ccuda('global')\n@requires(thread[32])", "@requires(thread[32])\n@ccuda('global')"])
def test_decorators_stack_in_either_order(decorators):
    assert program(f"{decorators}\ndef k():\n    pass") == []
    assert program(f"{decorators}\ndef k():\n    x: int @ thread[1] = y")[0][0] == "SNAP019"


@pytest.mark.parametrize("decorators", [
    "@kernel\n@kernel\n@requires(thread[32])", "@kernel\n@device\n@requires(thread[32])", "@requires(thread[32])\n@requires(thread[32])\n@kernel", "@ccuda('huh')\n@requires(thread[32])",
    "@kernel\n@requires()", "@requires(thread[32])\n@kernel\n@requires(thread[32])",
])
def test_decorators_that_do_not_fit(decorators):
    assert [code for code, _ in program(f"{decorators}\ndef k():\n    pass")] == ["SNAP018"]


def test_half_a_decoration_is_not_checked_and_says_so_when_used():
    for half in ("@kernel", "@requires(thread[32])"):
        k = execute(f"{half}\ndef k():\n    x: int @ thread[1] = y")["k"]
        with pytest.raises(TypeError):
            k[1]()
        with pytest.raises(TypeError):
            k()


@pytest.mark.parametrize("thing", ["class k:\n    pass", "async def k():\n    pass", "def k(*args):\n    pass", "def k(**args):\n    pass", "def k(x, /):\n    pass", "def k(*, x: int @ grid[1]):\n    pass"])
def test_only_plain_functions_are_decorated(thing):
    found = program(f"@kernel\n@requires(thread[32])\n{thing}")
    assert [code for code, _ in found][:1] in (["SNAP017"], ["SNAP018"])


def test_other_decorators_below_are_refused_or_seen_through():
    with pytest.raises((SnapError, TypeError)):
        execute("import functools\n@kernel\n@requires(thread[32])\n@functools.partial\ndef k():\n    pass")


def test_functions_defined_in_functions_capture_their_variables():
    text = """
def make(n, wide):
    @kernel
    @requires(grid[1], block[1], thread[32])
    def k(out: ptr(int) @ grid[1]):
        with group(grid[1]):
            i: int @ thread[1] = id()
            with partition(out, p=thread[1], offset=i) as mine:
                if wide:
                    mine[0] = n
                else:
                    mine[0] = -n
    return k
"""
    make = execute(text)["make"]
    for n, wide, expected in ((3, True, 3), (4, False, -4)):
        out = np.zeros(32, np.int32)
        make(n, wide)[1](out)
        np.testing.assert_array_equal(out, np.full(32, expected))


def test_constants_are_taken_when_the_function_is_defined():
    text = "N = 3\n@kernel\n@requires(thread[32])\ndef k(out: ptr(int) @ grid[1]):\n    i: int @ thread[1] = id()\n    with partition(out, p=thread[1], offset=i) as mine:\n        mine[0] = N\nN = 4"
    out = np.zeros(32, np.int32)
    execute(text)["k"][1](out)
    assert (out == 3).all()


def test_device_functions_may_be_specialized_before_they_are_called():
    text = """
@device
@requires(thread[1])
def scaled(x: int @ thread[1], N: constexpr(int), M: constexpr(int)) -> int @ thread[1]:
    return x * N + M

by_three = scaled.specialize(N=3)

@kernel
@requires(thread[32])
def k(out: ptr(int) @ grid[1]):
    i: int @ thread[1] = id()
    with partition(out, p=thread[1], offset=i) as mine:
        mine[0] = CALL
"""
    out = np.zeros(32, np.int32)
    execute(text.replace("CALL", "by_three(i, 7)"))["k"][1](out)
    np.testing.assert_array_equal(out, 3 * np.arange(32) + 7)
    with pytest.raises(SnapError, match="has no parameter `N`"):
        execute(text.replace("CALL", "by_three(i, 7, N=4)"))
    with pytest.raises(SnapError, match="is missing `M`"):
        execute(text.replace("CALL", "by_three(i)"))


def test_a_function_may_call_another_of_its_own_name():
    """Imported under another name, or named through its module; its own name is itself."""
    first = execute("@device\n@requires(thread[1])\ndef total(v: int @ thread[1]) -> int @ thread[1]:\n    return v + 1")["total"]
    module = types.ModuleType("other")
    module.total = first
    text = """
@device
@requires(thread[1])
def total(v: int @ thread[1]) -> int @ thread[1]:
    return 10 * CALL(v)

inner = total

@kernel
@requires(thread[32])
def total(y: ptr(int) @ grid[1]):
    i: int @ thread[1] = id()
    with partition(y, p=thread[1], offset=i) as mine:
        with group(thread[1]):
            mine[0] = inner(i)
"""
    for call in ("other_total", "module.total"):
        y = np.zeros(32, np.int32)
        total = execute(text.replace("CALL", call), other_total=first, module=module)["total"]
        total[1](y)
        np.testing.assert_array_equal(y, 10 * (np.arange(32) + 1))
        assert "__launch_bounds__(32) total(int* y)" in total.cuda() and " total_1(" in total.cuda() and " total_2(" in total.cuda()
    assert program(text.replace("CALL", "total"), total=first)[0][0] == "SNAP017"


SIGNS = """
@device
@requires(thread[1])
def sign(Z: constexpr(float)) -> float @ thread[1]:
    return copysign(1.0, Z)

@kernel
@requires(thread[1])
def k(y: ptr(float) @ grid[1], Z: constexpr(float)):
    i: int @ thread[1] = id()
    with partition(y, p=thread[1], offset=i) as mine:
        with group(thread[1]):
            mine[0] = copysign(1.0, Z)
            mine[1] = sign(Z=0.0) + 10.0 * sign(Z=-0.0) + 100.0 * sign(Z=Z)
"""


def test_values_that_python_takes_for_equal_are_told_apart():
    k = execute(SIGNS)["k"]
    for given, shown in ((0.0, 1), (-0.0, -1), (0, 1), (-1.0, -1), (False, 1)):
        y = np.zeros(2, np.float32)
        k[1](y, given)
        assert y.tolist() == [shown, 1 - 10 + 100 * shown]
    before = len(k.compiled)
    for _ in range(3):
        k[1](y, float("nan"))
    assert len(k.compiled) == before + 1


# ---- functions that do nothing but compute -----------------------------------------------------------------------------------------------------

GRID = "grid[1], block[4], thread[64]"


def returned(body: str, use: str, params: str = "a: int, b: int", before: str = "") -> list[tuple[str, int]]:
    """Use the result of a function of one thread in the code of a block, where t is a thread's, w a warp's, m the block's, and n the grid's."""
    indented = "\n".join(f"    {line}" for line in body.splitlines())
    before = f"{before}\n@device(thread)\ndef f({params}) -> int:\n{indented}\n"
    start = "with each(block) as m:\n    t: int @ thread[1] = id()\n    w: int @ thread[32] = id()\n    v: int[2] @ thread[1]\n    u: int[2]\n    s: shared(int[64])\n"
    code = start + "\n".join(f"    {line}" for line in use.splitlines())
    return [(found, line - 6) for found, line in codes(code, GRID, params="n: int, c: ptr(const(int))", before=before)]


@pytest.mark.parametrize("use, refused", [
    ("x: int = f(n, 64)", None), ("x: int = f(m, n)", None), ("x: int @ thread[32] = f(w, m)", None), ("x: int @ thread[1] = f(t, w)", None), ("x: int = f(c[m], 1)", None),
    ("x: int = f(t, 64)", "SNAP006"), ("x: int = f(w, 64)", "SNAP006"), ("x: int @ thread[32] = f(w, t)", "SNAP006"), ("x: int = f(n, f(t, 1))", "SNAP006"), ("x: int = f(n, f(m, 1))", None),
    ("x: int = f(c[t], 1)", "SNAP006"), ("x = f(t, n)\nx = t", None), ("x = f(m, n)\nx = t", "SNAP006"), ("if f(m, n) > 3:\n    intrinsic.syncthreads()", None),
    ("if f(m, t) > 3:\n    intrinsic.syncthreads()", "SNAP006"), ("for i in range(f(n, 2)):\n    intrinsic.syncthreads()", None), ("while f(n, m) < 3:\n    n += 1", "SNAP005"),
    ("y: int = n\nwhile f(y, m) < 3:\n    y += f(1, 2)\n    intrinsic.syncthreads()", None), ("x: int = f(id(), 1)", "SNAP018"), ("x: int = s[f(n, m)]", None), ("x: int = s[f(n, t)]", "SNAP006"),
])
def test_a_function_that_only_computes_is_as_uniform_as_its_arguments(use, refused):
    found = returned("while b > 0:\n    a, b = b, a % b\n    if a == 7:\n        break\nreturn a if a > 1 else g(a)", use,
                     before="@device(thread)\ndef g(a: int) -> int:\n    r: int = 0\n    for i in range(3):\n        r += a\n    return r")
    assert [code for code, _ in found] == ([refused] if refused else []), found


@pytest.mark.parametrize("word, body", [
    ("thread", "print(a)\n    return a"), ("thread", "unsafe.cuda('nanosleep.u32 {a};', a=a)\n    return a"), ("thread", "return unsafe.cuda('clock()', type=int)"), ("thread", "return g(a)"),
    ("thread", "intrinsic.nanosleep(5)\n    return a"), ("warp", "i: int @ thread[1] = id()\n    return i + a"), ("warp", "return intrinsic.shfl_up(a, 1)"),
    ("warp", "with one(thread):\n        a += 1\n    return a"), ("block", "s: shared(int[2])\n    return a"),
])
def test_what_does_more_is_its_own(word, body):
    before = f"@device(thread)\ndef g(a: int) -> int:\n    print(a)\n    return a\n@device({word})\ndef f(a: int @ thread[1]) -> int @ thread[1]:\n    {body}"
    assert codes("with each(block):\n    x: int @ thread[1] = f(n)", GRID, "n: int", before) == []
    assert codes("with each(block):\n    x: int @ thread[16] = f(n)", GRID, "n: int", before) == [("SNAP006", 2)]


def test_memory_and_references_are_not_computed_with():
    loads = "return c[a]"
    assert returned(loads, "x: int = f(n, c)", "a: int, c: ptr(const(int)) @ grid[1]") == [("SNAP006", 1)]
    assert returned(loads, "x: int @ thread[1] = f(n, c)", "a: int, c: ptr(const(int)) @ grid[1]") == []
    assert returned("v[0] += 1\nreturn v[1] + a", "x: int = f(n, v)", "a: int, v: ref(int[2])") == [("SNAP006", 1)]
    by_value = "return v[0] + a"
    assert returned(by_value, "x: int = f(n, u)", "a: int, v: int[2]") == []
    assert returned(by_value, "x: int = f(n, v)", "a: int, v: int[2]") == [("SNAP006", 1)]


def test_functions_of_more_than_a_thread():
    before = "@device({})\ndef f(a: int) -> int:\n    {}"
    assert codes("x: int = f(n)", GRID, "n: int", before.format("block", "return a + 1")) == []
    assert codes("x: int = f(n)", GRID, "n: int", before.format("warp", "return a + 1")) == []
    assert codes("x: int = f(n)", GRID, "n: int", before.format("warp", "return intrinsic.reduce_add(a)")) == [("SNAP006", 1)]
    assert codes("x: int @ thread[48] = f(n)", "grid[1], block[1], thread[96]", "n: int", before.format("warp", "return a")) == []
    own = "y: int @ thread[48] = id()\nx: int @ thread[48] = f(y)"
    assert codes(own, "grid[1], block[1], thread[96]", "n: int", before.format("warp", "return a")) == [("SNAP006", 2)]
