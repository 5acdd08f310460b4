"""Copies of boxes: what is accepted becomes a `BoxCopy`, and what is refused says why."""

from __future__ import annotations

import textwrap

import pytest
from check.checking import accepted, refused

from snap._compiler.ir import nodes as ir
from snap._compiler.ir.types import BLOCK1, Level, Privilege
from snap._compiler.ir.walk import statements

PARAMS = ("A: ptr(const(bf16), (M, K)) @ grid[1], X: ptr(float, (M, K)) @ grid[1], V: ptr(const(float), (K,)) @ grid[1], T: ptr(float, (4, M, K)) @ grid[1], "
          "P: ptr(float) @ grid[1], O: ptr(float, (8, 33)) @ grid[1], U: ptr(u8, (M, K)) @ grid[1], M: int @ grid[1], K: int @ grid[1]")
DECLARED = "s: shared(bf16[64, 64], swizzle=128)\nf: shared(float[32, 32])\nq: pipeline(shared(float[32, 32]), 3)\nt: int @ thread[1] = id()\nw: int @ warp = id()\n"


def block(code: str) -> str:
    return "with group(grid[1]):\n    r: int @ block[1] = id()\n    with group(block[1]):\n" + textwrap.indent(DECLARED + textwrap.dedent(code), "        ")


def copies(code: str, requires: str = "grid[1], block[1], thread[256]") -> list[ir.BoxCopy]:
    return [s for s in statements(accepted(block(code), params=PARAMS, requires=requires).body) if isinstance(s, ir.BoxCopy)]


def wrong(code: str, expected: str, *fragments: str) -> None:
    refused(block(code), expected, *fragments, params=PARAMS)


def test_a_load_by_the_block():
    [copy] = copies("async_copy(s, A, at=(r * 64, 0))")
    assert (copy.op, copy.box, copy.tile.shape, copy.place.privilege) == ("load", (64, 64), (64, 64), BLOCK1)
    assert copy.origin.handle.name == "A" and len(copy.origin.index) == 2 and all(i.type.name == "i32" for i in copy.origin.index)
    assert copy.tile.access.handle.name == "s" and [i.value for i in copy.tile.access.index] == [0, 0]


def test_f32_may_be_rounded_while_it_is_loaded():
    rounded, given = copies('async_copy(f, X, at=(0, 0), type="tf32")\nasync_copy(f, X, at=(0, 0))')
    assert rounded.tf32 and not given.tf32
    wrong('async_copy(s, A, at=(0, 0), type="tf32")', "SNAP018", "only f32 is rounded to tf32, and `A` holds `bf16`")
    wrong('async_copy(f, X, at=(0, 0), type="bf16")', "SNAP018", "`type` is one of tf32")
    wrong('async_copy(f, X, at=(0, 0), kind="tf32")', "SNAP018", "no option `kind`", 'type="tf32"')
    part = 'with partition(X, p=block[1], f=lambda i, j: (32 * r + i, j)) as x:\n    with group(block[1]):\n        f: shared(float[32, 32])\n        async_copy(x, f, at=(0, 0), type="tf32")'
    refused("with group(grid[1]):\n    r: int @ block[1] = id()\n" + textwrap.indent(part, "    "), "SNAP018", "a TMA load rounds to tf32, a TMA store does not", params=PARAMS)


def test_panels_are_one_box_each():
    first, second = copies("p: shared(bf16[2, 64, 64], swizzle=128)\nasync_copy(p, A, at=(r * 64, 128))")
    assert [c.box for c in (first, second)] == [(64, 64)] * 2 and [c.tile.shape for c in (first, second)] == [(1, 64, 64)] * 2
    assert [c.tile.access.index[0].value for c in (first, second)] == [0, 1] and [c.origin.index[1].value for c in (first, second)] == [128, 192]
    assert len(copies("p: pipeline(shared(float[3, 16, 32]), 2)\nwith stage(p) as s:\n    async_copy(s, X, at=(0, 0))")) == 3
    assert len(copies("p: shared(float[3, 16, 32])\nasync_copy(p, T, at=(0, 0, 0))")) == 1  # as many dimensions as the array
    wrong("p: shared(float[2, 2, 16, 32])\nasync_copy(p, X, at=(0, 0))", "SNAP018", "box of 2 x 2 x 16 x 32, and `X` has 2 dimensions")
    wrong("p: shared(float[2, 32])\nasync_copy(p, V, at=0)", "SNAP018", "box of 2 x 32, and `V` has 1 dimension")
    wrong("p: shared(bf16[2, 64, 32], swizzle=128)\nasync_copy(p, A, at=(0, 0))", "SNAP018", "as long as its swizzle")


def test_negative_and_far_coordinates_are_fine():
    assert len(copies("async_copy(f, X, at=(-5, 100000))")) == 1


@pytest.mark.parametrize("tile, array, at, box", [
    ("f", "X", "(0, 0)", (32, 32)), ("f", "T", "(1, r, 0)", (1, 32, 32)), ("tile(f, (8, 0), (16, 32))", "X", "(0, 0)", (16, 32)), ("tile(f, (3, 0), (1, 32))", "X", "(0, 0)", (1, 32)),
    ("tile(f, (3, 0), (1, 32))", "V", "r", (32,)), ("tile(s, (8, 0), (8, 64))", "A", "(0, 0)", (8, 64)),
])
def test_tiles_and_ranks(tile, array, at, box):
    [copy] = copies(f"async_copy({tile}, {array}, at={at})")
    assert copy.box == box


def test_a_stage_is_a_tile():
    [copy] = copies("with stage(q) as a:\n    async_copy(a, X, at=(0, 0))")
    assert copy.tile.shape == (1, 32, 32) and copy.box == (32, 32) and copy.tile.access.view.obj.depth == 3


def test_a_claim_is_copied_by_its_group():
    [copy] = copies("with claim(s, p=thread[32]) as mine:\n    match split(thread):\n        case 32:\n            async_copy(mine, A, at=(0, 0))")
    assert copy.place.privilege == Privilege(Level.THREAD, 32)


def test_a_partition_shows_whole_rows():
    [copy] = copies("with partition(q2, p=warp, f=lambda i, j: (w, i, j)) as mine:\n    with group(warp):\n        async_copy(mine, X, at=(w * 32, 0))".replace(
        "with partition(q2", "q2: shared(float[8, 4, 32])\nwith partition(q2"))
    assert copy.tile.shape == (1, 4, 32) and copy.box == (4, 32)


def test_a_store_goes_through_a_moved_part():
    code = """
    with partition(X, p=block[1], f=lambda i, j: (r * 32 + i, 32 + j)) as Xb:
        with group(block[1]):
            f: shared(float[32, 32])
            async_copy(Xb, f, at=(0, 8))
            async_copy(f, Xb, at=(1, 8))
    """
    found = accepted("with group(grid[1]):\n    r: int @ block[1] = id()\n" + textwrap.indent(textwrap.dedent(code), "    "), params=PARAMS)
    store, load = [s for s in statements(found.body) if isinstance(s, ir.BoxCopy)]
    assert store.op == "store" and store.origin.index[1].value == 40 and isinstance(store.origin.index[0], ir.Binary)
    assert load.op == "load" and load.origin.handle.name == "Xb"
    swapped = code.replace("(r * 32 + i, 32 + j)", "(r * 32 + j, 32 + i)")
    refused("with group(grid[1]):\n    r: int @ block[1] = id()\n" + textwrap.indent(textwrap.dedent(swapped), "    ").rsplit("\n", 2)[0], "SNAP018", "is not a shifted part of its array", params=PARAMS)


def test_who_writes_must_own():
    wrong("with group(warp):\n    async_copy(s, A, at=(0, 0))", "SNAP009", "is at `block[1]`, and this code at `thread[32]`", "claim")
    wrong("with partition(f, p=warp, f=lambda i, j: (w, j)) as m:\n    async_copy(m, X, at=(0, 0))", "SNAP009", "copy it in `with group(thread[32]):`")
    wrong("async_copy(X, f, at=(0, 0))", "SNAP009", "`X` is at `grid[1]`")
    wrong("async_copy(A, s, at=(0, 0))", "SNAP009", "const")
    refused("with group(grid[1]):\n    async_copy(X, X, at=(0, 0))", "SNAP016", "runs at `grid[1]`", params=PARAMS)


def test_what_is_read_must_be_one_for_the_group():
    wrong("with partition(f, p=thread[1], f=lambda i: (t % 32, i)) as m:\n    async_copy(s, m, at=(0, 0))", "SNAP018", "both of these are shared")
    code = "with group(grid[1]):\n    i: int @ thread[1] = id()\n    with partition(X, p=thread[1], f=lambda k, j: (i + k, j)) as x:\n        with group(block[1]):\n            f: shared(float[32, 32])\n            async_copy(f, x, at=(0, 0))"
    refused(code, "SNAP006", "may differ between threads", params=PARAMS)


def test_where_is_one_for_the_group():
    wrong("async_copy(s, A, at=(t, 0))", "SNAP006", "`t` may differ between threads of this block", "is a coordinate of the TMA box")
    wrong("async_copy(tile(s, (8 * t, 0), (8, 64)), A, at=(0, 0))", "SNAP006", "`t` may differ")
    wrong("async_copy(s, A, at=(0, 0, 0))", "SNAP018", "has 2 dimensions, and `at` 3")
    wrong("async_copy(s, A, at=0.5)", "SNAP018", "an index is an integer")


@pytest.mark.parametrize("code, fragment", [
    ("async_copy(f, P, at=0)", "TMA needs the shape of the array"),
    ("async_copy(f, X.view(float4), at=(0, 0))", "array's own scalar elements"),
    ("async_copy(s, X, at=(0, 0))", "`s` holds `bf16`, and `X` `f32`"),
    ("async_copy(f, V, at=0)", "a TMA box of 32 x 32, and `V` has 1 dimension"),
    ("async_copy(tile(f, (0, 0), (32, 16)), X, at=(0, 0))", "is not contiguous: it has 16 of the 32"),
    ("z: shared(float[257, 4])\nasync_copy(z, X, at=(0, 0))", "at most 256"),
    ("z: shared(float[8, 6])\nasync_copy(z, X, at=(0, 0))", "a multiple of 16 bytes, and this one has 6 x 4 = 24"),
    ("z: shared(bf16[8, 32], swizzle=128)\nasync_copy(z, A, at=(0, 0))", "as long as its swizzle: here 128 bytes, and the row has 64"),
    ("z: shared(float[8, 33])\nasync_copy(tile(z, (0, 0), (8, 33)), O, at=(0, 0))", "TMA needs a multiple of 16"),
    ("async_copy(tile(s, (4, 0), (8, 64)), A, at=(0, 0))", "index 0 of its position must be a multiple of 8"),
    ("async_copy(tile(s, (r, 0), (8, 64)), A, at=(0, 0))", "show it in the text: `8 * i`"),
    ("z: pipeline(shared(float[3, 8]), 2)\nwith stage(z) as a:\n    async_copy(a, X, at=(0, 0))", "so that a slot takes 128 bytes"),
    ("with partition(f, p=block[1], f=lambda i, j: (j, i)) as m:\n    async_copy(m, X, at=(0, 0))", "is not a box"),
    ("with partition(f, p=block[1], f=lambda i, j: (2 * i, j)) as m:\n    async_copy(m, X, at=(0, 0))", "is not a box"),
    ("with partition(f, p=block[1], f=lambda i, j: (i + 8, j)) as m:\n    async_copy(m, X, at=(0, 0))", "has to know how large `m` is"),
    ("async_copy(f.view(float4), X, at=(0, 0))", "works on scalars"),
    ("async_copy(f, X, at=(4294967297, 0))", "which cannot hold 4294967297"),
    ("async_copy(X, X, at=(0, 0))", "between global and shared memory"),
    ("async_copy(f, X, 3, at=(0, 0))", "`at=`, the TMA box's coordinates"),
    ("async_copy(f, X, at=(0, 0), huh=1)", "has no option `huh`"),
    ("async_copy(f[0, 0], X, at=(0, 0))", "takes memory"),
    ("z: int = async_copy(f, X, at=(0, 0))", "returns nothing"),
    ("async_reduce(P, f, at=0)", "needs the shape"),
    ("async_reduce(X, f)", "`at=`"),
    ("async_reduce(f, X, at=(0, 0))", "from shared to global"),
    ('async_reduce(X, f, at=(0, 0), op="max")', "cannot `max` elements of `f32`"),
    ('async_reduce(X, f, at=(0, 0), op="mul")', "`op` is one of add, min, max, and, or, xor"),
    ("h: shared(f16[64, 64], swizzle=128)\nasync_copy(h, A, at=(0, 0))", "TMA does not convert: `h` holds `f16`, and `A` `bf16`"),
    ("async_copy(f, X, at=(0, 3))", "a multiple of 16 bytes in its row, and this one of `X` at 3 x 4"),
])
def test_boxes_the_hardware_does_not_have(code, fragment):
    wrong(code, "SNAP018", fragment)


def test_what_is_stored_begins_inside_of_its_array():
    part = "with partition(X, p=block[1], f=lambda i, j: (32 * r + i, j)) as x:\n    with group(block[1]):\n        f: shared(float[32, 32])\n        async_copy(x, f, at=(0, -32))"
    refused("with group(grid[1]):\n    r: int @ block[1] = id()\n" + textwrap.indent(part, "    "), "SNAP018", "a TMA store starts inside of its array", params=PARAMS)


def test_positions_are_followed_through_names():
    assert len(copies("p: int = 16 * r + 8\nasync_copy(tile(s, (p, 0), (8, 64)), A, at=(0, 0))")) == 1
    assert len(copies("for i in range(0, 64, 8):\n    async_copy(tile(s, (i, 0), (8, 64)), A, at=(0, 0))")) == 1
    wrong("p: int = 8\np += 1\nasync_copy(tile(s, (p, 0), (8, 64)), A, at=(0, 0))", "SNAP018", "a multiple of 1024 bytes")


@pytest.mark.parametrize("op", ["add"])
def test_a_reduction_takes_an_array_of_any_privilege(op):
    [copy] = copies(f'async_reduce(X, f, at=(0, 0), op="{op}")')
    assert copy.op == op and copy.origin.handle.privilege.level is Level.GRID
    [default] = copies("async_reduce(X, f, at=(0, 0))")
    assert default.op == "add"


def test_what_is_reduced_into_is_not_stable():
    code = "async_reduce(Z, f, at=(0, 0))\nz: float = Z[0, 0]"
    made = block(code).replace("    with group(block[1]):\n", "    with partition(X, p=block[1], f=lambda i, j: (r + i, j), disjoint=True) as Z:\n      with group(block[1]):\n")
    refused(made, "SNAP006", "`async_reduce` changes it without order", params=PARAMS)


FETCH = """
@device
@requires(thread[32])
def fetch(to: ptr(shared(bf16), (64, 64)) @ thread[32], a: ptr(const(bf16), (M, K)) @ grid[1], M: int @ grid[1], K: int @ grid[1], row: int @ thread[32]):
    async_copy(to, a, at=(row, 0))
"""


def test_in_a_function():
    code = "with claim(s, p=thread[32]) as mine:\n    match split(thread):\n        case 32:\n            fetch(mine, A, M, K, 3)"
    found = accepted(block(code), params=PARAMS, before=FETCH)
    [call] = [s for s in statements(found.body) if isinstance(s, ir.Call)]
    [copy] = [s for s in statements(call.function.body) if isinstance(s, ir.BoxCopy)]
    assert copy.tile.access.view.obj.swizzle == 128 and copy.box == (64, 64)
    refused(block(code.replace("claim(s", "claim(z")).replace("t: int", "z: shared(bf16[64, 64], swizzle=64)\n        t: int", 1), "SNAP018", "as long as its swizzle", params=PARAMS, before=FETCH)


def test_arrays_begin_where_boxes_may():
    def offsets(code: str) -> list[int]:
        found = accepted("with group(grid[1]):\n    with group(block[1]):\n" + textwrap.indent("a: shared(int[1])\nb: shared(float[32, 32])\n" + code, "        "), params=PARAMS)
        return [s.obj.offset for s in statements(found.body) if isinstance(s, ir.DeclareShared)]

    assert offsets("pass") == [0, 16]
    assert offsets("async_copy(b, X, at=(0, 0))") == [0, 128]
    assert offsets("c: shared(bf16[8, 64], swizzle=128)") == [0, 16, 5120]


@pytest.mark.parametrize("position", ["8 * r + 4", "8 * r - 4", "4 * r", "8 if M > 3 else 4", "4 if M > 3 else 8", "i", "8 * i + 4"])
def test_positions_that_are_not_always_multiples(position):
    wrong(f"for i in range(4, 60, 8):\n    async_copy(tile(s, ({position}, 0), (8, 64)), A, at=(0, 0))", "SNAP018", "must be a multiple of 8")
