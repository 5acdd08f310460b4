"""Refusals that name the way out for the program at hand: its sizes, its indices, the group it should stand in."""

from __future__ import annotations

import ast
import textwrap
from pathlib import Path

import pytest
from check import test_boxes, test_tensor
from check.checking import accepted, errors, refused

import snap
from snap.lib import block, warp

B = "tile(b, (0, 0), (64, 64))"
ROWS = "rows: pipeline(shared(bf16[64, 64], swizzle=128), 3)\nwith stage(rows) as row:\n    "
CLAIM = "with claim(s, p=thread[64]) as mine:\n    match split(thread):\n        {}:\n            async_copy(mine, A, at=({}, 0))"


def in_block(code: str, expected: str, *fragments: str, params: str = test_boxes.PARAMS) -> None:
    refused(test_boxes.block(code), expected, *fragments, params=params)


def by_warpgroups(code: str, expected: str, *fragments: str) -> None:
    refused(test_tensor.in_warpgroups(code), expected, *fragments, params=test_tensor.PARAMS)


def stored(code: str, *fragments: str) -> None:
    refused(test_tensor.block(test_tensor.STORE.format(code)), "SNAP018", *fragments, params=test_tensor.PARAMS)


# ---- products ------------------------------------------------------------------------------------------------------------------------------------


def test_an_accumulator_is_shown_with_the_size_of_this_product():
    by_warpgroups(f"x: bf16[32] @ thread[1]\nwgmma(x, {test_tensor.A}, {B})", "SNAP018",
                  "and `x` is of `bf16`", "- of `bf16`, at `thread[1]`", "declare it `x: float[32] @ thread[1]`")
    by_warpgroups(f"x: float[32]\nwgmma(x, {test_tensor.A}, {B})", "SNAP018",
                  "and `x` is at `thread[128]`", "- of `f32`, at `thread[128]`", "without `@`", "declare it `x: float[32] @ thread[1]`")
    by_warpgroups(f"wgmma(w, {test_tensor.A}, tile(b, (0, 0), (16, 64)))", "SNAP018", "declare it `acc: float[8] @ thread[1]`")
    by_warpgroups(f"wgmma(ra, {test_tensor.A}, b)", "SNAP018", "declare it `ra: float[128] @ thread[1]`")
    stored("store_acc(mine, ra)", "and `ra` is of `bf16`", "declare it `ra: float[32] @ thread[1]`")
    stored("store_acc(mine, w)", "declare it `acc: float[32] @ thread[1]`")


def test_the_columns_that_a_store_can_begin_at():
    stored("store_acc(mine, acc, first=4)", "64 columns from 4", "128 floats per thread are 256 columns", "a multiple of 8, from 0 to 192, for a tile of 64")
    stored("store_acc(mine, acc, first=0.5)", "an integer, and this is `f32`", "a multiple of 8, from 0 to 192")
    stored("x: float[32] @ thread[1]\n        store_acc(mine, x, first=8)", "leave it out: the tile takes all 64")


def test_what_a_warpgroup_agrees_on_has_no_destination():
    by_warpgroups("wgmma(acc, ra, b, zero=(acc[0] == 0.0))", "SNAP006", "it must be one value for `thread[128]`", "`intrinsic.broadcast(acc[0])`")
    by_warpgroups("wgmma(acc, tile(a, (8 * t, 0), (64, 64)), b)", "SNAP006", "compute it from values at `thread[128]` or above",
                  "each group's number in its block is `t: int @ warpgroup = id()`", "`intrinsic.broadcast(t)`")


# ---- boxes ---------------------------------------------------------------------------------------------------------------------------------------


def test_where_a_box_is_has_no_destination():
    in_block("async_copy(s, A, at=(r + t, 0))", "SNAP006", "it must be one value for `block[1]`", "`intrinsic.broadcast(t)`")
    in_block(CLAIM.replace("64", "32").format("case 32", "t"), "SNAP006", "it must be one value for `thread[32]`", "`intrinsic.shfl(t, 0)`")
    in_block("with stage(q, t) as a:\n    pass", "SNAP006", "it must be one value for `block[1]`")
    in_block("z: int @ block[1] = t", "SNAP006", "declare the destination at `thread[1]`")


def test_a_copy_by_single_threads_belongs_to_the_owner():
    in_block("with group(thread[1]):\n    async_copy(s, A, at=(0, 0))", "SNAP009", "take the copy out of `group(thread[1])`: `block[1]` does it once", "each thread acts for itself")
    in_block("with group(thread[1]):\n    if t == 0:\n        async_copy(s, A, at=(0, 0))", "SNAP009", "out of `group(thread[1])`, and of the `if`:")
    in_block("with group(thread[1]):\n    async_copy(X, f, at=(0, 0))", "SNAP009", "`X` is at `grid[1]`", "hand it out")
    one = "match split(thread):\n    case 1:\n        async_copy(s, A, at=(0, 0))"
    in_block(one, "SNAP009", "`with claim(s, p=thread[1]) as mine:`")


def test_positions_are_counted_as_they_are_written():
    in_block(ROWS + "async_copy(tile(row, (4, 0), (32, 64)), A, at=(0, 0))", "SNAP018", "index 0 of its position must be a multiple of 8", "begin at 0 or 8, not at 4")
    in_block(ROWS + "async_copy(tile(row, (r, 0), (32, 64)), A, at=(0, 0))", "SNAP018", "index 0 of its position must be", "show it in the text: `8 * i`")
    parts = "z: shared(float[8, 2, 4])\nwith partition(z, p=warp, f=lambda i, j: (w, i, j)) as m:\n    with group(warp):\n        async_copy(m, X, at=(0, 0))"
    in_block(parts, "SNAP018", "index 0 that its index function returns must be a multiple of 4")
    by_warpgroups("rows: float[8] @ thread[1]\nwgmma(rows, ra, tile(b, (12, 0), (16, 64)))", "SNAP018", "begin at 8 or 16, not at 12")


def test_the_array_of_a_box():
    const = test_boxes.PARAMS.replace("P: ptr(float)", "P: ptr(const(float))")
    in_block("async_copy(f, P, at=0)", "SNAP018", "declare it `P: ptr(const(f32), (M, N)) @ grid[1]`", params=const)
    in_block("async_reduce(P, f, at=0)", "SNAP018", "declare it `P: ptr(f32, (M, N)) @ grid[1]`")
    in_block("async_copy(s, A, at=0)", "SNAP018", "one index for each dimension: `at=(i, j)`")
    in_block("async_copy(tile(f, (0, 0), (1, 32)), V, at=(0, 0))", "SNAP018", "one index for each dimension: `at=i`")
    in_block("async_copy(s, X, at=(0, 0))", "SNAP018", "declare `s` with elements of `f32`", "`bf16(...)`", "- elements of `bf16`")
    part = "with partition(f, p=thread[1], f=lambda i: (t % 32, i)) as m:\n    async_reduce(X, m, at=(0, 0))"
    in_block(part, "SNAP006", "copy `f` itself, outside of the scope of `m`")


# ---- claims, pipelines, turns --------------------------------------------------------------------------------------------------------------------


def test_the_branch_of_a_claim():
    in_block(CLAIM.format("case 32", "0"), "SNAP014", "used in a split branch of 32 threads", "make the branch `case 64:`", "`p=thread[32]`")
    in_block(CLAIM.format("case _", "0"), "SNAP014", "whatever the other cases leave", "write the size: `case 64:`")
    in_block("with claim(s, p=thread[64]) as mine:\n    async_copy(mine, A, at=(0, 0))", "SNAP014", "use it in a `case 64:` of `match split(thread)`")


IN_CLUSTER = "with group(cluster[1]):\n    parts: shared(float[8], across=block)\n    b: int @ block[1] = id()\n"
CLAIMED = "with claim({}, p=thread[1]) as one:\n{}    match split(thread):\n{}        case 1:\n{}            one[0] = 1.0"


def test_a_part_of_a_cluster_is_claimed_where_it_has_one_owner():
    requires = "grid[1], cluster[1], block[2], thread[32]"
    for rank in ("b", "1 - b"):
        part = f"    with partition(parts, p=block[1], f=lambda k: ({rank}, k)) as own:\n        with group(block[1]):\n            "
        accepted(IN_CLUSTER + part + CLAIMED.format("own", *[" " * 12] * 3), requires=requires)
    of_all = "    with partition(parts, p=cluster[1], f=lambda k: (0, k)) as own:\n        " + CLAIMED.format("own", *[" " * 8] * 3)
    refused(IN_CLUSTER + of_all, "SNAP018", "`with claim(parts, p=thread[1]) as mine:`, outside of the scope of `own`", requires=requires)
    window = IN_CLUSTER + "    " + CLAIMED.format("tile(parts, (0, 4), (1, 4))", *[" " * 4] * 3)
    refused(window, "SNAP018", "`with claim(parts, p=thread[1]) as mine:`, and take `tile(mine, ...)` of that", requires=requires)
    advised = IN_CLUSTER + "    " + CLAIMED.format("parts", *[" " * 4] * 3).replace("one[0] = ", "tile(one, (4,), (4,))[0] = ")
    accepted(advised, requires=requires)


@pytest.mark.parametrize("code", ["with claim(q, p=thread[32]) as m:\n    pass", "async_copy(q, X, at=(0, 0))", "async_copy(tile(q, (0, 0), (8, 32)), X, at=(0, 0))", "z: float = q[0, 0]"])
def test_a_pipeline_is_used_through_its_stages(code):
    in_block(code, "SNAP018", "`q` is a pipeline", "3 slots, declared here", "`with stage(q) as s:`")


def test_what_is_missing_around_a_turn():
    in_block("with turn():\n    pass", "SNAP020", "here the block acts as one", "open `with group(warp):`")
    refused("with group(grid[1]):\n    with turn():\n        pass", "SNAP020", "open `with group(block[1]):`, and in it `with group(warp):`")
    refused("with group(grid[1]):\n    with group(warp):\n        with turn():\n            pass", "SNAP020", "open `with group(block[1]):` around the group")


# ---- advice that is taken ------------------------------------------------------------------------------------------------------------------------


TO_THREADS = "s: shared(int[{}])\ni: int @ thread[1] = id()\nj: int @ thread[1] = id() % 8\n"
# What is refused, with which code; the line of the help that is followed; and the program that follows it.
TAKEN = [
    ("SNAP009", TO_THREADS.format("256") + "s[i] = 1", "`with each(thread, s) as i:` for every thread",
     TO_THREADS.format("256") + "with each(thread, s) as i:\n    s[i] = 1"),
    ("SNAP009", TO_THREADS.format("256, 8") + "s[0, j] = 1", "`with one(thread, s):` for the first alone",
     TO_THREADS.format("256, 8") + "with one(thread, s):\n    s[0, 0] = 1"),
    ("SNAP009", TO_THREADS.format("256") + "with group(thread[1]):\n    s[i] = 1", "open this code with `with each(thread, s) as i:`",
     TO_THREADS.format("256") + "with each(thread, s) as i:\n    s[i] = 1"),
    ("SNAP009", TO_THREADS.format("256") + "with each(thread) as i:\n    s[i] = 1", "name it where the threads are told apart: `with each(thread, s) as i:`",
     TO_THREADS.format("256") + "with each(thread, s) as i:\n    s[i] = 1"),
    ("SNAP009", TO_THREADS.format("256") + "with each(warp), each(thread, disjoint=()) as lane:\n    s[lane] = 1", "`with each(thread, s, disjoint=()) as lane:`",
     TO_THREADS.format("256") + "with each(warp), each(thread, s, disjoint=()) as lane:\n    s[lane] = 1"),
    ("SNAP005", TO_THREADS.format("256") + "with group(thread[32]):\n    with each(thread, s) as i:\n        s[i] = 1", "`with each(thread[32], s):`",
     TO_THREADS.format("256") + "with each(thread[32], s):\n    with each(thread, s) as i:\n        s[i] = 1"),
    ("SNAP014", TO_THREADS.format("256") + "with group(thread[64]):\n    with claim(s, p=thread[32]) as c:\n        pass",
     "`with partition(s, p=thread[64], f=...) as part:`; then claim `part` here",
     TO_THREADS.format("256") + "q: int @ thread[64] = id()\nwith partition(s, p=thread[64], f=lambda k: 64 * q + k) as part:\n    with group(thread[64]):\n"
     "        with claim(part, p=thread[32]) as c:\n            match split(thread):\n                case 32:\n                    v: int = c[0]"),
    ("SNAP014", TO_THREADS.format("256") + "q: int @ thread[64] = id()\nwith partition(s, p=thread[64], f=lambda k: 64 * q + k) as part:\n"
     "    with claim(part, p=thread[32]) as c:\n        pass", "claim it in `with group(thread[64]):`",
     TO_THREADS.format("256") + "q: int @ thread[64] = id()\nwith partition(s, p=thread[64], f=lambda k: 64 * q + k) as part:\n    with group(thread[64]):\n"
     "        with claim(part, p=thread[32]) as c:\n            pass"),
    ("SNAP014", TO_THREADS.format("256") + "with claim(s, p=thread[32]) as c:\n    with group(thread[64]):\n        match split(thread):\n            case 32:\n"
     "                v: int = c[0]", "`with partition(s, p=thread[64], f=...) as part:`, and claim `part` in the group",
     TO_THREADS.format("256") + "q: int @ thread[64] = id()\nwith partition(s, p=thread[64], f=lambda k: 64 * q + k) as part:\n    with group(thread[64]):\n"
     "        with claim(part, p=thread[32]) as c:\n            match split(thread):\n                case 32:\n                    v: int = c[0]"),
    ("SNAP014", TO_THREADS.format("256") + "with claim(s, p=thread[32]) as c:\n    match split(thread):\n        case 64:\n            pass\n        case _:\n"
     "            match split(thread):\n                case 32:\n                    v: int = c[0]", "name the group that gets it: `case 64:`",
     TO_THREADS.format("256") + "with claim(s, p=thread[32]) as c:\n    match split(thread):\n        case 64:\n            pass\n        case 64:\n"
     "            match split(thread):\n                case 32:\n                    v: int = c[0]"),
    ("SNAP006", TO_THREADS.format("256") + "q: int @ thread[32] = id()\nwith partition(s, p=thread[32], offset=i / 1000 + q) as part:\n    pass",
     "or lower the memory to `thread[1]`", TO_THREADS.format("256") + "q: int @ thread[32] = id()\nwith partition(s, p=thread[1], offset=i / 1000 + q) as part:\n    pass"),
    ("SNAP006", TO_THREADS.format("256") + "atomic.add(s, 0, 1)\nif s[0] > 3:\n    pass", "agree on what one thread read: `intrinsic.broadcast(v)`",
     TO_THREADS.format("256") + "atomic.add(s, 0, 1)\nif intrinsic.broadcast(s[0]) > 3:\n    pass"),
    ("SNAP006", TO_THREADS.format("256") + "atomic.add(s, 0, 1)\nwith group(warp):\n    if s[0] > 3:\n        pass", "agree on what one thread read: `intrinsic.shfl(v, 0)`",
     TO_THREADS.format("256") + "atomic.add(s, 0, 1)\nwith group(warp):\n    if intrinsic.shfl(s[0], 0) > 3:\n        pass"),
]


@pytest.mark.parametrize("code, refusal, advice, mended", TAKEN, ids=range(len(TAKEN)))
def test_who_takes_the_advice_is_accepted(code, refusal, advice, mended):
    around = "with group(grid[1]):\n    with group(block[1]):\n"
    refused(around + textwrap.indent(refusal, "        "), code, advice)
    accepted(around + textwrap.indent(mended, "        "))


def test_a_claim_at_grid_level_is_sent_to_the_blocks():
    requires = "grid[1], cluster[1], block[2], thread[256]"
    refused("with claim(x, p=thread[32]) as c:\n    pass", "SNAP014", "`with partition(x, p=block[1], f=...) as part:`, and claim `part` in `with group(block[1]):`",
            requires=requires, params="x: ptr(int) @ grid[1]")
    accepted("b: int @ block[1] = id()\nwith partition(x, p=block[1], f=lambda k: 32 * b + k) as part:\n    with group(block[1]):\n        with claim(part, p=thread[32]) as c:\n"
             "            pass", requires=requires, params="x: ptr(int) @ grid[1]")


# ---- the library's factories ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make, said", [
    (lambda: block.reduce(float, "sum"), r"^`snap\.lib\.block\.reduce`: takes as operator one of add, mul, min, max, and, or, xor, .* not 'sum'$"),
    (lambda: warp.scan(float, "sum"), r"^`snap\.lib\.warp\.scan`: takes as operator one of add"),
    (lambda: block.load(float, 0), r"^`snap\.lib\.block\.load`: `items` is a positive integer, not 0"),
    (lambda: block.load(float), r"^`snap\.lib\.block\.load`: missing .* 'items'"),
])
def test_a_factory_refuses_in_its_own_name(make, said):
    with pytest.raises((TypeError, ValueError), match=said):
        make()


# ---- names ---------------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name, snaps", [
    ("float32", "`f32`, or `float`"), ("half", "`f16`"), ("bfloat16", "`bf16`"), ("double", "`f64`"), ("int32", "`i32`, or `int`"), ("long", "`i64`"), ("uint8", "`u8`"),
])
def test_types_of_other_libraries_are_told_as_snap_calls_them(name, snaps):
    refused(f"x: {name} = 0", "SNAP019", f"unknown name `{name}`", f"help: write {snaps}")
    refused(f"x: int = int({name}(0))", "SNAP019", f"help: write {snaps}")


def test_types_of_numpy_are_told_as_snap_calls_them():
    for name, snaps in (("float32", "`f32`, or `float`"), ("double", "`f64`"), ("uint16", "`u16`")):
        [error] = errors(f"x: np.{name} = 0", before="import numpy as np")
        assert error.code == "SNAP018" and f"help: write {snaps}; scalars: bool" in error.render()


# ---- everything that is refused has a way out ------------------------------------------------------------------------------------------------------


FORWARDED = {"_compiler/check/core/state.py", "_compiler/check/core/explain.py", "check/order.py"}  # what others give them they hand on, by position


def refusals():
    """Every place in the checker and the decorators that refuses something: file, line, and whether it says what to do."""
    source = Path(snap.__file__).parent
    for path in sorted([*(source / "_compiler" / "check").rglob("*.py"), source / "decorators.py", source / "surface.py"]):
        name = path.relative_to(source).as_posix()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            called = getattr(node, "func", None)
            if getattr(called, "attr", getattr(called, "id", "")) in ("fail", "type_error", "report", "not_opened", "Diagnostic"):
                yield name, node.lineno, any(word.arg == "help" for word in node.keywords)


def test_every_refusal_says_what_to_do():
    found = list(refusals())
    assert len(found) > 350
    assert [(name, line) for name, line, helps in found if not helps and name not in FORWARDED] == []
