"""Short forms mean what they are defined by: the expansion, written out, is the same kernel."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest

import snap
from snap import SnapError
from snap.machine import MachineError

HEAD = "from __future__ import annotations\nfrom snap import *\n\n"
_numbers = itertools.count()


def defined(text: str, name: str = "k"):
    source, file = HEAD + text, f"<short {next(_numbers)}>"
    snap.register_source(file, source)
    names: dict = {}
    exec(compile(source, file, "exec"), names)
    return names[name]


def points(kernel) -> list:
    return [(p.kind, str(p.participants), p.waits, p.fence) for p in kernel.syncs()]


def instructions(text: str) -> list[str]:
    """The CUDA without comments, and without what names and declared constants are called."""
    return [re.sub(r"//.*", "", line).strip() for line in text.splitlines() if re.sub(r"//.*", "", line).strip()]


SAXPY = """
@kernel(threads=64)
def k(a: float, x: ptr(const(float)), y: ptr(float), n: int):
    with each(thread, y) as i:
        if i < n:
            y[i] = a * x[i] + y[i]
"""
RETURNS = """
@kernel(threads=64)
def k(a: float, x: ptr(const(float)), y: ptr(float), n: int):
    with each(thread, y) as i:
        if i >= n or x[i] < 0.0:
            return
        v: float = a * x[i]
        if v == 0.0:
            return
        y[i] = v + y[i]
"""
SUMS = """
@kernel(threads=64)
def k(a: float, x: ptr(const(float)), y: ptr(float), n: int):
    with each(block) as b:
        s: shared(float[64])
        with each(thread, s) as t:
            s[t] = x[b * 64 + t] if b * 64 + t < n else 0.0
        for step in range(5, -1, -1):
            with each(thread, s) as t:
                if t < 1 << step:
                    s[t] = s[t] + s[t + (1 << step)]
        with one(thread, y):
            y[b] = a * s[0]
"""
TRANSPOSED = """
@kernel(threads=64)
def k(a: float, x: ptr(const(float), (16, 16)), y: ptr(float, (16, 16)), n: int):
    with each(block, shape=(n / 8, n / 8)) as (p, q):
        s: shared(float[8, 9])
        with each(thread, s, shape=(..., 8)) as (i, j):
            s[i, j] = x[p * 8 + i, q * 8 + j]
        with each(thread, y, shape=(..., 8)) as (i, j):
            y[q * 8 + i, p * 8 + j] = a * s[j, i]
"""
PERSISTENT = """
@kernel(threads=64)
def k(a: float, x: ptr(const(float), (16, 16)), y: ptr(float, (16, 16)), n: int):
    with each(block):
        i, j = ids(thread, shape=(8, 8))
        for p, q in strided(block, shape=(n / 8, n / 8)):
            with each(thread, y):
                y[p * 8 + i, q * 8 + j] = a + x[p * 8 + i, q * 8 + j]
"""
ROLES = """
@kernel(threads=64)
def k(a: float, x: ptr(const(float)), y: ptr(float), n: int):
    with each(block) as b:
        s: shared(float[32])
        front, back = roles(32, 32)
        with front(s), each(thread, s) as t:
            s[t] = x[b * 64 + t]
        with back(), each(thread, y) as t:
            y[b * 64 + t] = a * s[31 - t]
"""
GIVEN = """
@kernel(threads=64)
def k(a: float, x: ptr(const(float)), y: ptr(float), n: int):
    with each(block) as b:
        s: shared(float[32])
        front, back = roles(32, 32)
        with front(s), each(thread, s) as t:
            s[t] = x[b * 64 + t]
        with back(y):
            with one(thread, y):
                y[b] = a * s[3]
"""
WARPS = """
@kernel(threads=64)
def k(a: float, x: ptr(const(float)), y: ptr(float), n: int):
    with each(warp, y) as w:
        lane: int @ thread[1] = id()
        total: float @ warp = intrinsic.reduce_add(x[w * 32 + lane])
        with one(thread, y):
            y[w] = a * total
"""
VECTORS = """
@kernel(threads=16)
def k(a: float, x: ptr(const(float)), y: ptr(float), n: int):
    with each(thread, y.view(float4)) as i:
        if i < n / 4:
            y[i] = float4(a, a, a, x[i])
"""
FIRST = """
@kernel(threads=64)
def k(a: float, x: ptr(const(float)), y: ptr(float), n: int):
    with one(block), one(thread, y):
        y[0] = a
"""
HISTOGRAM = """
@kernel(threads=64)
def k(a: float, x: ptr(const(float)), y: ptr(float), n: int):
    with each(thread, y) as i:
        if i < n:
            atomic.add(y, (int(x[i]) + 3) % 7, 1.0)
"""
KERNELS = {
    "saxpy": SAXPY, "early returns": RETURNS, "sums": SUMS, "transposed": TRANSPOSED, "persistent": PERSISTENT, "roles": ROLES, "given to a role": GIVEN, "warps": WARPS,
    "vectors": VECTORS, "first": FIRST, "histogram": HISTOGRAM,
}  # fmt: skip


def arguments(flat: bool) -> list:
    x = (np.arange(256) ** 2 % 37 - 3).astype(np.float32)
    return [2.0, x if flat else x.reshape(16, 16), np.zeros(256 if flat else (16, 16), np.float32), 16 if not flat else 250]


@pytest.mark.parametrize("name", KERNELS)
def test_the_expansion_is_the_same_kernel(name):
    short = defined(KERNELS[name])
    long = defined(short.core())
    assert "each" not in short.core() and "roles" not in short.core() and "one(" not in short.core()
    results = []
    for kernel in (short, long):
        args = arguments("16, 16" not in KERNELS[name])
        kernel[4](*args)
        results.append(args[2])
        assert not kernel.races(*arguments("16, 16" not in KERNELS[name]), blocks=4, seeds=3)
    np.testing.assert_array_equal(*results)
    assert results[0].any()
    assert points(short) == points(long)
    if name not in ("transposed", "persistent"):  # which keep the extents of a shape in variables
        assert instructions(short.cuda()) == instructions(long.cuda())


def test_a_return_reads_as_the_guard_it_is():
    text = SAXPY.replace("if i < n:\n            y[i]", "if i >= n:\n            return\n        y[i]")
    assert instructions(defined(text).cuda()) == instructions(defined(SAXPY).cuda())


def test_an_index_is_declared_once():
    assert defined(SUMS).cuda().count("= threadIdx.x;") == 2  # before the loop, and in it


# ---- decorators --------------------------------------------------------------------------------------------------------------------------------


def test_a_launch_that_counts_its_own_blocks():
    k = defined(SAXPY.replace("threads=64", "threads=64, blocks=lambda n: -(-n // 64)"))
    args = arguments(True)
    k(*args)
    np.testing.assert_array_equal(args[2][:250], 2 * args[1][:250])
    assert not args[2][250:].any()
    args[2][:] = 0
    k(2.0, n=250, y=args[2], x=args[1])
    assert args[2][:250].any()


def test_threads_from_constexpr_parameters():
    text = """
@kernel(threads=lambda T: T * T)
def k(y: ptr(int), T: constexpr(int)):
    with each(thread, y) as i:
        y[i] = T
"""
    y = np.zeros(32, np.int32)
    defined(text)[2](y, T=4)
    assert (y == 4).all()


def test_options_of_a_kernel():
    k = defined(SAXPY.replace("threads=64", "threads=64, cluster=2, resident=2"))
    assert "__launch_bounds__(64, 2)" in k.cuda() and "__cluster_dims__(2" in k.cuda()


def test_a_device_function_says_who_calls_it():
    text = """
@device(warp)
def total(x: float @ thread[1]) -> float:
    return intrinsic.reduce_add(x)

@device(thread)
def doubled(v: ref(float[2])):
    v[0] = 2.0 * v[0]

@kernel(threads=64)
def k(y: ptr(float)):
    with each(warp, y) as w:
        sum: float = total(1.0)
        with one(thread, y):
            v: float[2]
            v[0] = sum
            doubled(v)
            y[w] = v[0]
"""
    y = np.zeros(2, np.float32)
    defined(text)[1](y)
    np.testing.assert_array_equal(y, [64, 64])


@pytest.mark.parametrize("decorator, message", [
    ("@kernel()", "declares the number of threads per block"), ("@kernel(threads=0)", "1 or more, not 0"), ("@kernel(threads=True)", "not True"), ("@kernel(threads=2000)", "at most 1024"),
    ("@kernel(threads=64, cluster=0)", "1 or more, not 0"), ("@kernel(threads=64, cluster=40)", "at most 16"), ("@kernel(threads=64, resident=0)", "1 or more"),
    ("@kernel(threads=64, smem=-1)", "a number of bytes"), ("@kernel(threads=64)\n@requires(grid[1], block[1], thread[64])", "says what `@requires` says again"),
    ("@kernel(threads=lambda Q: Q)", "asks for `Q`"), ("@kernel(threads=lambda: 'many')", "not 'many'"), ("@device()", "says who calls it"),
])  # fmt: skip
def test_decorators_that_are_refused(decorator, message):
    with pytest.raises(SnapError) as refused:
        defined(SAXPY.replace("@kernel(threads=64)", decorator))
    assert message in str(refused.value)


# ---- what is refused ---------------------------------------------------------------------------------------------------------------------------

REFUSED = {
    "own level": ("with each(thread, y) as i:\n    with each(thread):\n        y[i] = 1.0", "SNAP018", "at `thread[1]` already"),
    "grid": ("with each(grid) as g:\n    pass", "SNAP018", "at `grid[1]` already"),
    "not handed out": ("with each(thread) as i:\n    y[i] = 1.0", "SNAP009", "with each(thread, y) as i:"),
    "long outside": ("with group(block[1]):\n    with each(thread, y) as i:\n        y[i] = 1.0", "SNAP005", "with each(block[1], y):"),
    "unknown": ("with each(thread, q) as i:\n    pass", "SNAP019", "unknown name `q`"),
    "no extent": ("with each(thread, y, shape=(8, 0)) as (i, j):\n    pass", "SNAP018", "an extent is an integer, 1 or more, and this is 0"),
    "half an extent": ("with each(thread, y, shape=(1.5, 8)) as (i, j):\n    pass", "SNAP018", "an extent is an integer, 1 or more, and this is 1.5"),
    "an index twice": ("with each(thread, y, shape=(8, 8)) as (i, i):\n    pass", "SNAP018", "`i` is another index already"),
    "an index and memory": ("with each(thread, y) as y:\n    pass", "SNAP018", "`y` is the memory that is handed out already"),
    "a role twice": ("with each(block):\n    a, a = roles(32, 32)\n    with a():\n        pass", "SNAP018", "a role has a name of its own"),
    "twice": ("with each(thread, y, y) as i:\n    pass", "SNAP018", "`y` is given twice"),
    "a value": ("with each(thread, n) as i:\n    pass", "SNAP018", "is not memory"),
    "no level": ("with each(y) as i:\n    pass", "SNAP018", "takes a privilege"),
    "nothing": ("with each() as i:\n    pass", "SNAP018", "takes a level first"),
    "an option": ("with each(thread, y, offset=3) as i:\n    pass", "SNAP018", "`disjoint=` and `shape=`"),
    "names of a shape": ("with each(thread, y, shape=(4, 4)) as i:\n    pass", "SNAP018", "2 dimensions, and there is one name"),
    "names without a shape": ("with each(thread, y) as (i, j):\n    pass", "SNAP018", "a unit has one index, and there are 2 names"),
    "assigned": ("with each(thread, y) as i:\n    i = 3", "SNAP018", "`i` is an index and cannot be assigned"),
    "all disjoint": ("with each(thread, y, disjoint=True) as i:\n    pass", "SNAP018", "`disjoint=` names memory"),
    "no divisor": ("with each(thread[48], y) as i:\n    pass", "SNAP005", "does not divide"),
    "an extent a thread": ("with each(block):\n    t: int @ thread[1] = id()\n    with each(thread, shape=(t, 4)) as (i, j):\n        pass", "SNAP006", "`t`"),
    "one of many": ("with one(thread, y):\n    y[0] = 1.0", "SNAP014", "with one(block), one(thread, y):"),
    "one, numbered": ("with each(block):\n    with one(thread, y) as i:\n        y[0] = 1.0", "SNAP018", "gives no index"),
    "a group writes": ("with each(warp, y) as w:\n    y[w] = 1.0", "SNAP009", "with one(thread, y):"),
    "roles of the grid": ("a, b = roles(32, 32)", "SNAP018", "this code is at `grid[1]`"),
    "too many": ("with each(block):\n    a, b = roles(64, 32)\n    with a():\n        pass", "SNAP003", "ask for 96 threads"),
    "not aligned": ("with each(block):\n    a, b = roles(24, 40)", "SNAP004", "in no order do roles of 24, 40 threads"),
    "in another order for some": ("with each(block):\n    a, b = roles(16, 32)", "SNAP003", "48 threads, and there are 64: 16 would have no role"),
    "a size short": ("with each(block):\n    a, b = roles(32)", "SNAP018", "2 names, and 1 size"),
    "roles for some": ("with each(block):\n    a, b = roles(32, 16)", "SNAP003", "48 threads, and there are 64: 16 would have no role"),
    "no role": ("with each(block):\n    a, b = roles(64, 0)", "SNAP018", "a role takes a positive number"),
    "a role assigned": ("with each(block):\n    a, b = roles(32, 32)\n    a = 3", "SNAP018", "`a` is a role and cannot be assigned"),
    "rows that do not divide": ("with each(block):\n    with each(thread, y, shape=(..., 3)) as (i, j):\n        pass", "SNAP018", "rows of 3 do not divide the 64 threads"),
    "more places than threads": ("with each(block):\n    with each(thread, y, shape=(16, 8)) as (i, j):\n        pass", "SNAP018", "128 places, and there are 64 threads"),
    "ids beyond the shape": ("with each(block):\n    i, j = ids(thread, shape=(4, 8))", "SNAP018", "32 places, and there are 64 threads"),
    "ids of warps": ("with each(block):\n    i, j = ids(warp, shape=(2, 2))", "SNAP018", "4 places, and there are 2 units of `thread[32]`"),
    "an extent left out": ("with each(block):\n    i, j = ids(thread, shape=(8, ...))", "SNAP017", "it is the first extent"),
    "registers short": ("with each(block):\n    a, b = roles(32, 32, registers=40)", "SNAP018", "2 roles, and 1 number of registers"),
    "a role is no value": ("with each(block):\n    a, b = roles(32, 32)\n    x: int = a", "SNAP018", "`a` is a role"),
    "a role with a name": ("with each(block):\n    a, b = roles(32, 32)\n    with a() as q:\n        pass", "SNAP018", "gives no name"),
    "a return in a loop": ("for k in range(3):\n    with each(thread, y) as i:\n        if i >= n:\n            return\n        y[i] = 1.0", "SNAP007", "in the middle of `each(thread, y)`"),
    "a return before more": ("with each(thread, y) as i:\n    if i >= n:\n        return\n    y[i] = 1.0\nwith each(thread, y) as i:\n    y[i] = 2.0", "SNAP007", "leave its group behind"),
    "unpacked": ("with partition(y, p=thread[1]) as (a, b):\n    pass", "SNAP028", "makes two parts, and no other view does"),
    "strides of nobody": ("for p, q in strided(block, shape=(3, 4)):\n    pass", "SNAP018", "`with each(block):` around the loop"),
    "strides of other units": ("with each(thread):\n    for w in strided(warp, shape=(n,)):\n        pass", "SNAP018", "`with each(warp):` around the loop"),
    "strides of parts": ("with each(thread[4]):\n    for w in strided(thread[8], shape=(n,)):\n        pass", "SNAP018", "which `thread[8]` this is"),
    "out of scope": ("with each(block):\n    with each(thread, y) as i:\n        pass\n    if i > 3:\n        pass", "SNAP019", "out of scope"),
    "called": ("each(thread, y)", "SNAP017", "belongs to a `with` statement"),
    "roles called": ("with each(block):\n    roles(32, 32)", "SNAP017", "the whole right side of an assignment"),
    "tuples": ("a, b = x, y", "SNAP018", "`x` is memory, not a value"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    is_refused(*REFUSED[name])


def is_refused(body: str, code: str, words: str) -> None:
    """As the body of a kernel, first of all with this code, and these words in what is shown."""
    lines = "\n".join("    " + line for line in body.splitlines())
    with pytest.raises(SnapError) as refused:
        defined(f"@kernel(threads=64)\ndef k(x: ptr(const(float)), y: ptr(float), n: int):\n{lines}\n")
    first = refused.value.all[0]
    assert first.code == code, first.render()
    assert words in first.render(), first.render()


# ---- units that meet ---------------------------------------------------------------------------------------------------------------------------

NEIGHBOURS = """
@kernel(threads=64)
def k(y: ptr(float), n: int):
    with each(thread, y) as i:
        if i < n:
            y[i] = y[{at}] + 1.0
"""


@pytest.mark.parametrize("at, meet", [("i", False), ("i + 1", True), ("i - i % 2", True), ("i + 64", True), ("i ^ 1", True)])
def test_units_of_one_scope_do_not_meet(at, meet):
    k = defined(NEIGHBOURS.format(at=at))
    if meet:
        with pytest.raises(MachineError, match="in one scope, and one of them writes it") as found:
            k[2](np.zeros(256, np.float32), 128)
        assert found.value.diagnostic.secondary  # the other one's line
    else:
        k[2](np.zeros(256, np.float32), 128)


VIEWS = {
    "of four": ("y.view(int4)[i] = int4(1, 2, 3, 4)", "y[i] = n"),
    "of four, later": ("y[i] = n", "y.view(int4)[i] = int4(1, 2, 3, 4)"),
    "the last of four": ("y.view(int4)[i] = int4(1, 2, 3, 4)", "y[(4 * i + 7) % 256] = n"),
    "the last of four, later": ("y[(4 * i + 7) % 256] = n", "y.view(int4)[i] = int4(1, 2, 3, 4)"),
    "of a byte": ("y.view(i8)[i] = i8(n)", "y[i] = n"),
    "of one size": ("y.view(u32)[63 - i] = u32(n)", "y[i] = n"),
    "read": ("v: int2 = y.view(int2)[i]", "y[i] = n + v.x"),
}
SEEN = "@kernel(threads=64)\ndef k(y: ptr(int), n: int):\n{memory}    with {scope}:\n        {first}\n        {then}\n"
SCOPES = {
    "each": ("", "each(thread, y) as i"),
    "promised": ("    i: int @ thread[1] = id()\n", "partition(y, p=thread[1], f=lambda j: j, disjoint=True) as y, group(thread[1])"),
}


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("view", VIEWS)
def test_units_do_not_meet_in_views_of_other_elements(view, scope):
    """An element of one view is bytes of others: who touches them is one question."""
    memory, head = SCOPES[scope]
    head = head.replace(" as y", " as z")
    first, then = (text.replace("y[", "z[").replace("y.", "z.") if memory else text for text in VIEWS[view])
    k = defined(SEEN.format(memory=memory, scope=head, first=first, then=then))
    with pytest.raises(MachineError, match="meet in one element of `y`|touch one element") as found:
        k[1](np.zeros(256, np.int32), 5)
    assert found.value.diagnostic.span.line >= 6


def test_units_that_stay_in_their_bytes_are_told_apart_in_views_of_all_sizes():
    body = "y.view(int4)[i] = int4(1, 2, 3, 4)\n        y[4 * i + n] = 7\n        y.view(i16)[8 * i + 7] = i16(n)\n        y.view(int2)[2 * i] = int2(n, n)"
    y = np.zeros(256, np.int32)
    defined(SEEN.format(memory="", scope=SCOPES["each"][1], first=body, then="y[4 * i + 2] = i"))[1](y, 3)
    assert y.reshape(64, 4)[5].tolist() == [3, 3, 5, 7 | 3 << 16]


@pytest.mark.parametrize("by", [0, 1, 33])
def test_what_all_units_read_none_of_them_writes(by):
    k = defined("@kernel(threads=64)\ndef k(y: ptr(float), n: int):\n    with each(thread, y) as i:\n        y[(i + n) % 64] = y[0] + 1.0\n")
    with pytest.raises(MachineError, match="two units of thread.1. meet in one element of `y`"):
        k[1](np.zeros(64, np.float32), by)


@pytest.mark.parametrize("body, meet", [
    ("y[i] = y[i + 1]", "thread 0 reads what thread 1 writes"), ("y[i / 2] = 1.0", "thread 1 writes what thread 0 writes"), ("y[i ^ 1] = y[i]", "reads what thread"),
    ("y[3] = 1.0", "thread 1 writes what thread 0 writes"), ("y[i] = y[i] + 1.0", ""), ("y[2 * i] = y[2 * i + 1]", ""), ("y[i] = y[i + n]", ""), ("y[i] = y[i + 64]", ""),
    ("y[n] = 1.0", "thread 1 writes what thread 0 writes"), ("y[n + i] = y[n + i + 1]", "thread 0 reads what thread 1 writes"), ("y[n * i] = 1.0", ""),
    ("if n > 2:\n            y[i] = y[i + 1]", ""), ("for k in range(n):\n            y[i] = y[i + 1]", ""), ("y[i] = y[i + 1] if n > 2 else 0.0", ""), ("atomic.add(y, 0, 1.0)", ""),
])  # fmt: skip
def test_threads_that_certainly_meet_are_refused(body, meet):
    """For every launch: with as few threads as a block has, whatever the arguments are."""
    text = NEIGHBOURS.replace("        if i < n:\n            y[i] = y[{at}] + 1.0\n", f"        {body}\n")
    if not meet:
        defined(text)
        return
    with pytest.raises(SnapError) as refused:
        defined(text)
    assert refused.value.code == "SNAP010" and meet in str(refused.value)


@pytest.mark.parametrize("body", [
    "with back(s), each(thread, s) as t:\n            s[t % 32] = 1.0", "with each(warp, s) as w, each(thread, s) as l:\n            s[32 * w + l] = 1.0",
    "if n > 2:\n            with each(thread, s) as t:\n                s[t] = 1.0", "with each(thread, s, shape=(32, 2)) as (i, j):\n            s[i + 32 * j] = 1.0 * j",
])  # fmt: skip
def test_threads_that_may_not_meet_are_not_refused(body):
    defined(f"@kernel(threads=64)\ndef k(y: ptr(float), n: int):\n    with each(block):\n        s: shared(float[64])\n        front, back = roles(32, 32)\n        {body}\n")


def test_what_is_shown_to_be_apart_is_not_watched():
    assert not defined(NEIGHBOURS.format(at="i"))._the_one({}).typed.watched
    assert defined(NEIGHBOURS.format(at="i + 1"))._the_one({}).typed.watched


def test_scopes_one_after_the_other_may_meet():
    k = defined(SUMS.replace("if t < 1 << step:\n                    s[t]", "if n > 3:\n                    s[t]").replace("s[t + (1 << step)]", "s[(t + 1) % 64]"))
    with pytest.raises(MachineError, match="in one scope"):
        k[1](*arguments(True))
    args = arguments(True)
    defined(SUMS)[4](*args)  # what another scope wrote is read
    assert args[2][:4].any()


def test_a_promise_is_of_the_memory_it_names():
    text = NEIGHBOURS.format(at="i + 1").replace("each(thread, y)", "each(thread, y, disjoint=y)")
    with pytest.raises(MachineError, match="declared disjoint"):
        defined(text)[2](np.zeros(256, np.float32), 128)


# ---- names -------------------------------------------------------------------------------------------------------------------------------------


def test_variables_hide_no_word_of_an_expansion():
    text = SAXPY.replace("    with each", "    id: int = 3\n    group: int = 4\n    partition: int = id + group\n    with each").replace("a * x", "(a + float(partition - 7)) * x")
    args = arguments(True)
    defined(text)[4](*args)
    np.testing.assert_array_equal(args[2][:250], 2 * args[1][:250])


def test_a_form_may_be_named_by_its_module():
    source = SAXPY.replace("with each(", "with snap.each(").replace("@kernel", "import snap\n@kernel")
    assert defined(source).cuda()


def test_ones_own_variables_may_have_a_forms_name():
    text = SAXPY.replace("a: float,", "a: float, one: float,").replace("y[i] = a", "each: float = one\n            y[i] = each")
    text = text.replace("with each(", "with snap.each(").replace("@kernel", "import snap\n@kernel")
    args = arguments(True)
    defined(text)[4](args[0], 2.0, *args[1:])
    np.testing.assert_array_equal(args[2][:250], 2 * args[1][:250])


# ---- another reading ---------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", KERNELS)
def test_the_slow_interpreter_agrees(name):
    """It expands the forms by rules of its own (tests/fuzz/slow_short.py)."""
    from fuzz import slow

    flat = "16, 16" not in KERNELS[name]
    ours, theirs = arguments(flat), arguments(flat)
    slow.run(HEAD + KERNELS[name], "k", 4, theirs)
    defined(KERNELS[name])[4](*ours)
    np.testing.assert_array_equal(ours[2], theirs[2])


def test_each_specialization_has_its_own_expansion():
    """The forms of a generic kernel stand for what its values make of them, whichever was asked for last."""
    text = """
@kernel(threads=64)
def k(y: ptr(int), T: constexpr(int)):
    with each(thread[T], y) as i:
        with one(thread, y):
            y[i] = T
"""
    k = defined(text)
    assert "thread[8]" in k.core(T=8) and "thread[4]" in k.core(T=4)
    assert "thread[8]" in k.core(T=8) and "thread[4]" not in k.core(T=8)


def test_strides_are_of_the_level_that_they_name():
    text = PERSISTENT.replace("with each(thread, y):", "with each(warp) as w, each(thread, y):")
    assert "warp_number" not in defined(text).cuda() and "thread_number" not in defined(text).cuda()


# ---- smaller forms -----------------------------------------------------------------------------------------------------------------------------


def test_a_promise_may_be_chosen_by_a_constant():
    text = NEIGHBOURS.format(at="i + 1").replace("each(thread, y)", "each(thread, y, disjoint=y if OWN else ())").replace("@kernel", "OWN = {}\n\n@kernel")
    for own, words in (("True", "declared disjoint"), ("False", "in one scope")):
        with pytest.raises(MachineError, match=words):
            defined(text.replace("{}", own))[2](np.zeros(256, np.float32), 128)
    with pytest.raises(SnapError, match="the condition is not a constant"):
        defined(text.replace("if OWN", "if n > 3").replace("{}", "True"))


def test_registers_may_be_chosen_by_a_constant():
    text = ROLES.replace("roles(32, 32)", "roles(32, 32, registers=(40, 24) if FEW else ())").replace("@kernel", "FEW = {}\n\n@kernel").replace("32", "128").replace("31", "127").replace("threads=64", "threads=256")
    assert "setmaxnreg" in defined(text.replace("{}", "True")).cuda() and "setmaxnreg" not in defined(text.replace("{}", "False")).cuda()


def test_registers_of_roles_in_another_order():
    text = "@kernel(threads=384)\ndef k(x: ptr(float)):\n    with each(block, x):\n        load, compute = roles({}, registers=({}))\n"
    text += "        with load(), each(thread, x) as t:\n            x[t] = 0.0\n        with compute(), each(thread, x) as t:\n            x[128 + t] = 1.0\n"
    code = defined(text.format("128, 256", "40, 232")).cuda()
    assert code.index("threadIdx.x < 256") < code.index("snap_more_registers<232>()") < code.index("snap_fewer_registers<40>()"), "256 threads first"


def test_a_role_may_be_one_warp():
    text = """
@kernel(threads=64)
def k(y: ptr(int)):
    with each(block):
        front, back = roles(32, 32)
        with front(y), each(warp, y) as w:
            with one(thread, y):
                y[w] = 7
"""
    y = np.zeros(2, np.int32)
    defined(text)[1](y)
    assert y.tolist() == [7, 0]


NOT_GIVEN = """
@kernel(threads=128)
def k(y: ptr(int), n: int):
    with each(block):
        s: shared(int[64])
        front, back = roles(64, 64)
        with front():
            {0}
"""
IN_TURN = {
    "two scopes": "with each(thread, s) as t:\n                s[t] = t\n            with each(thread, s) as t:\n                s[63 - t] += n",
    "a loop": "for k in range(n):\n                with each(thread, s) as t:\n                    s[(t + k) % 64] = t",
    "of one warp": "with each(warp) as w:\n                with each(thread, s) as t:\n                    s[32 * w + t] = t\n"
    "                with each(thread, s) as t:\n                    s[32 * w + 31 - t] = n",
    "one, then all": "with each(warp) as w, one(thread, s):\n                s[w] = n\n            with each(thread, s) as t:\n                s[t] = t",
}


@pytest.mark.parametrize("body", IN_TURN)
def test_scopes_of_a_role_are_ordered_though_it_was_not_given_the_memory(body):
    k = defined(NOT_GIVEN.format(IN_TURN[body]))
    assert k.syncs() and not k.races(np.zeros(64, np.int32), 3, blocks=1, seeds=3)


def test_what_roles_hand_out_is_watched_like_what_an_each_does():
    meet = NOT_GIVEN.replace("        with front():\n            {0}", "        with front(), each(thread, y) as t:\n            y[t * n] = t")
    defined(meet)[1](np.zeros(64, np.int32), 1)
    with pytest.raises(MachineError, match="two units of thread.1. meet in one element of `y`"):
        defined(meet)[1](np.zeros(64, np.int32), 0)


def test_one_thread_in_a_role_that_was_not_given_the_memory():
    for body, want in (("with one(thread, y):\n                y[0] = n", [3, 0]), ("with each(warp) as w, one(thread, y):\n                y[w] = n", [3, 3])):
        y = np.zeros(2, np.int32)
        defined(NOT_GIVEN.format(body))[1](y, 3)
        assert y.tolist() == want


def test_fewer_indices_than_dimensions_are_a_part_with_the_others():
    text = """
@device(block)
def first(row: ptr(const(int), (4,))) -> int:
    return row[0]

@kernel(threads=4)
def k(y: ptr(int)):
    with each(block):
        s: shared(int[3, 2, 4])
        with each(thread, s) as t:
            for i in range(3):
                for j in range(2):
                    s[i, j, t] = 100 * i + 10 * j + t
        a: int = first(s[2, 1])
        with one(thread, y):
            y[0] = a
"""
    y = np.zeros(1, np.int32)
    defined(text)[1](y)
    assert y[0] == 210


def test_reductions_of_boxes_may_meet_as_atomics_do():
    text = """
@kernel(threads=32)
def k(y: ptr(int, (4, 8))):
    with each(block, y):
        s: shared(int[4, 8])
        with each(thread, s, shape=(4, 8)) as (i, j):
            s[i, j] = i
        async_reduce(y, s, at=(0, 0), op="add")
"""
    y = np.zeros((4, 8), np.int32)
    defined(text)[3](y)
    assert (y == 3 * np.arange(4)[:, None]).all()
    with pytest.raises(MachineError, match="declared disjoint"):
        defined(text.replace("each(block, y)", "each(block, y, disjoint=y)"))[3](y)
    with pytest.raises(MachineError, match="in one scope"):
        defined(text.replace('async_reduce(y, s, at=(0, 0), op="add")', "async_copy(y, s, at=(0, 0))"))[3](y)


BESIDE_ATOMICS = """@kernel(threads=64)
def k(y: ptr(int), n: int):
    with each(block):
        s: shared(int[64])
        with each(thread, s) as i:
            s[i] = 0
        with each(thread, s) as i:
            {first}
            {then}
        with each(thread, y) as i:
            y[i] = s[i]
"""
TOGETHER = {
    "a store, and another's atomic": ("s[i] = 0", "atomic.add(s, (i + n) % 64, 1)", True),
    "an atomic, and another's store": ("atomic.max(s, (i + n) % 64, 1)", "s[i] = 0", True),
    "an atomic, and another's read": ("atomic.add(s, (i + n) % 64, 1)", "v: int = s[i]", True),
    "a store, and another's atomic load": ("s[i] = 0", "v: int = atomic.load(s, (i + n) % 64)", True),
    "a read, and another's atomic load": ("v: int = s[i]", "w: int = atomic.load(s, (i + n) % 64)", False),
    "atomics": ("atomic.add(s, (i + n) % 64, 1)", "atomic.add(s, i, 1)", False),
    "atomics, and one looks": ("atomic.add(s, (i + n) % 64, 1)", "v: int = atomic.load(s, i)", False),
    "of one's own": ("s[i] = 0", "atomic.add(s, (i + n - 1) % 64, 1)", False),
}


@pytest.mark.parametrize("how", TOGETHER)
def test_an_atomic_and_a_plain_access_of_two_units_are_no_pair(how):
    first, then, meet = TOGETHER[how]
    k = defined(BESIDE_ATOMICS.format(first=first, then=then))
    y = np.zeros(64, np.int32)
    assert bool(k.races(y, 1, blocks=1, seeds=1)) == meet
    if meet:
        with pytest.raises(MachineError, match="two units of thread.1. meet in one element of `s`"):
            k[1](y, 1)
    else:
        k[1](y, 1)
