"""Products of tiles by warpgroups: shapes, types, layouts, and who may ask for them."""

from __future__ import annotations

import textwrap

import pytest
from check.checking import accepted, refused

from snap._compiler.ir import nodes as ir
from snap._compiler.ir.operations import WARPGROUP1
from snap._compiler.ir.walk import statements

PARAMS = "n: int @ grid[1]"
REQUIRES = "grid[1], block[1], thread[256]"
DECLARED = """
a: shared(bf16[128, 64], swizzle=128)
b: shared(bf16[256, 64], swizzle=128)
bt: shared(bf16[4, 64, 64], swizzle=128)
a32: shared(float[64, 32], swizzle=128)
b32: shared(float[16, 32], swizzle=128)
a8: shared(u8[64, 128], swizzle=128)
b8: shared(u8[8, 128], swizzle=128)
narrow: shared(bf16[64, 32], swizzle=64)
plain: shared(bf16[64, 64])
out: shared(float[2, 64, 64])
acc: float[128] @ thread[1]
d: float[8] @ thread[1]
e: float[4] @ thread[1]
ra: bf16[32] @ thread[1]
w: int @ warpgroup = id()
t: int @ thread[1] = id()
"""


def block(code: str) -> str:
    return "with group(grid[1]):\n    with group(block[1]):\n" + textwrap.indent(DECLARED.strip("\n") + "\n" + textwrap.dedent(code), "        ")


def in_warpgroups(code: str) -> str:
    return block("with group(warpgroup):\n" + textwrap.indent(code, "    "))


def product(code: str) -> ir.Wgmma:
    [made] = [s for s in statements(accepted(in_warpgroups(code), params=PARAMS, requires=REQUIRES).body) if isinstance(s, ir.Wgmma)]
    return made


def wrong(code: str, expected: str, *fragments: str) -> None:
    refused(in_warpgroups(code), expected, *fragments, params=PARAMS, requires=REQUIRES)


A = "tile(a, (64 * w, 0), (64, 64))"


def test_a_product():
    made = product(f"wgmma(acc, {A}, b, zero=(n == 0))")
    assert (made.type, made.n, made.k, made.a_transposed, made.b_transposed) == ("bf16", 256, 64, False, False)
    assert made.a.shape == (64, 64) and made.b.shape == (256, 64) and made.zero.type.name == "bool" and made.place.privilege == WARPGROUP1
    assert product(f"wgmma(acc, {A}, b)").zero is None


@pytest.mark.parametrize("code, type, n, k", [
    ("wgmma(d, a32, b32)", "tf32", 16, 32), ('wgmma(d, a32, b32, type="tf32")', "tf32", 16, 32), ('wgmma(e, a8, b8, type="e4m3")', "e4m3", 8, 128), ('wgmma(e, a8, b8, type="e5m2")', "e5m2", 8, 128),
    ('wgmma(e, a8, b8, type=("e5m2", "e4m3"))', "e5m2.e4m3", 8, 128), ('wgmma(e, a8, b8, type=("e5m2", "e5m2"))', "e5m2", 8, 128),
    ("wgmma(acc, ra, b)", "bf16", 256, 64), (f"wgmma(acc, {A}, bt.T)", "bf16", 256, 64), (f"wgmma(d, {A}, tile(b, (16, 0), (16, 64)))", "bf16", 16, 64),
    ("wgmma(acc, tile(a, (0, 0), (64, 64)).T, tile(bt, (0, 0, 0), (4, 64, 64)).T)", "bf16", 256, 64),
])
def test_types_and_layouts(code, type, n, k):
    made = product(code)
    assert (made.type, made.n, made.k) == (type, n, k)


@pytest.mark.parametrize("code, n, of_b", [
    (f"wgmma(acc, {A}, b, columns=192)", 192, (192, 64)), (f"wgmma(acc, {A}, b, columns=256)", 256, (256, 64)),
    (f"wgmma(acc, {A}, bt.T, columns=192)", 192, (3, 64, 64)), (f"wgmma(acc, {A}, bt.T, columns=136)", 136, (3, 64, 64)),
    (f"wgmma(d, {A}, b, columns=16)", 16, (16, 64)), ("wgmma(d, a32, b32, columns=8)", 8, (8, 32)),
    (f"x: float[2, 64] @ thread[1]\nwgmma(x[1], {A}, b, columns=64)", 64, (64, 64)),
])
def test_the_first_columns(code, n, of_b):
    made = product(code)
    assert (made.n, made.acc.shape, made.b.shape) == (n, (n // 2,), of_b)


@pytest.mark.parametrize("case", [
    (f"wgmma(acc, {A}, b, columns=n)", "`columns` must be a compile-time constant"), (f"wgmma(acc, {A}, b, columns=t)", "`columns` must be a compile-time constant"),
    (f"wgmma(acc, {A}, b, columns=16.0)", "`columns` must be an integer"), (f"wgmma(acc, {A}, b, columns=True)", "`columns` must be an integer"),
    (f"wgmma(acc, {A}, b, columns=100)", "`columns` is a multiple of 8, at most 256 of this b, and not 100"), (f"wgmma(acc, {A}, b, columns=264)", "not 264"),
    (f"wgmma(acc, {A}, tile(b, (0, 0), (20, 64)), columns=24)", "at most 16 of this b, and not 24", "`columns=16`"),
    (f"wgmma(acc, {A}, tile(b, (0, 0), (4, 64)), columns=8)", "at most 0 of this b", "let b have at least 8 columns"),
    (f"wgmma(acc, {A}, b, cols=8)", "`zero=`, `type=`, `columns=`", "`columns=128` for the first 128"),
    (f"wgmma(acc, {A}, b, columns=0)", "not 0"), (f"wgmma(acc, {A}, b, columns=-8)", "not -8"),
    (f"wgmma(d, {A}, b, columns=32)", "the accumulator of a 64 x 32 wgmma is 16 floats per thread, and `d` has 8"),
    (f"wgmma(acc, {A}, tile(b, (0, 0), (64, 64)))", "the accumulator of a 64 x 64 wgmma is 32 floats per thread, and `acc` has 128"),
])
def test_columns_that_are_not_there(case):
    code, *fragments = case
    wrong(code, "SNAP018", *fragments)


def test_panels_lie_side_by_side():
    made = product("x: float[32] @ thread[1]\nwgmma(x, tile(bt, (0, 0, 0), (2, 64, 64)), tile(bt, (2, 0, 0), (2, 64, 64)))")
    assert (made.n, made.k) == (64, 128)


@pytest.mark.parametrize("code, fragment", [
    (f"wgmma(d, {A}, b)", "the accumulator of a 64 x 256 wgmma is 128 floats per thread, and `d` has 8"),
    ("wgmma(acc, a, b)", "a is [128, 64]"),
    ("wgmma(d, narrow, tile(b, (0, 0), (16, 64)))", "a is [64, 32]"),
    ("wgmma(acc, plain, b)", "its swizzle is none"),
    ("wgmma(acc, tile(a, (0, 0), (64, 32)), b)", "a row of `a` has 64 bytes, its swizzle is 128"),
    (f"wgmma(d, {A}, tile(b, (4, 0), (16, 64)))", "must be a multiple of 8"),
    ("wgmma(d, tile(a, (n, 0), (64, 64)), tile(b, (0, 0), (16, 64)))", "show it in the text"),
    ("wgmma(e, a8, b8)", "can be e4m3 or e5m2: say which"),
    ('wgmma(e, a8, b8, type="bf16")', "cannot be multiplied as bf16"),
    ('wgmma(e, a8, b8, type="fp8")', "`type` is one of"),
    ('wgmma(e, a8, b8, type=("e4m3", "bf16"))', "cannot be multiplied as bf16"),
    ('wgmma(e, a8, b8, type=("e4m3", "e5m2", "e4m3"))', "`type` is one of"),
    ('wgmma(e, a8, b8, type=("e4m3", 3))', "`type` is one of"),
    ('wgmma(e, a8, b8, type=n)', "`type` is one of"),
    ("wgmma(d, a32, b)", "a holds `f32`, and b `bf16`"),
    ("wgmma(d, a32, b32.T)", "only 16-bit elements can lie transposed"),
    ("wgmma(d, d, tile(b, (0, 0), (16, 64)))", "`a` in registers is 32 values of `bf16`"),
    ("wgmma(ra, ra, b)", "a local array of float"),
    ("wgmma(acc, ra, acc)", "takes memory"),
    ("wgmma(acc, ra)", "takes an accumulator, a and b"),
    ("wgmma(acc, ra, b, huh=3)", "takes an accumulator, a and b"),
    ("wgmma(acc, ra, out)", "rows as long as its swizzle"),
    ("z: int = wgmma(acc, ra, b)", "returns nothing"),
    ("x: float[2] @ thread[1]\nwgmma(x, ra, tile(b, (0, 0), (4, 64)))", "8, 16, ... 256 columns, and this b has 4"),
])
def test_products_the_hardware_does_not_have(code, fragment):
    wrong(code, "SNAP018", fragment)


def test_who_multiplies():
    refused(block("with group(warp):\n    wgmma(acc, ra, b)"), "SNAP016", "executed by thread[128] together", params=PARAMS, requires=REQUIRES)
    wrong("wgmma(acc, ra, b, zero=t == 0)", "SNAP006", "`t` may differ")
    wrong("wgmma(acc, tile(a, (8 * t, 0), (64, 64)), b)", "SNAP006", "`t` may differ")
    refused(block("with partition(b, p=thread[32], f=lambda i, j: (i, j)) as m:\n    with group(warpgroup):\n        wgmma(acc, ra, m)"), "SNAP006", "an operand of a warpgroup", params=PARAMS, requires=REQUIRES)


def test_code_of_several_warpgroups_is_a_group_of_each():
    found = accepted(block(f"wgmma(acc, {A}, b, zero=w == 1)"), params=PARAMS, requires=REQUIRES)
    [group] = [s for s in statements(found.body) if isinstance(s, ir.Group) and isinstance(s.body[0], ir.Wgmma)]
    assert group.privilege == WARPGROUP1 and group.body[0].place == group.place
    assert isinstance(group.body[0].a.access.index[0], ir.Read) and isinstance(group.body[0].zero, ir.Read)


STORE = "with partition(out, p=warpgroup, f=lambda i, j: (w, i, j)) as mine:\n    with group(warpgroup):\n        {}"


def test_the_accumulator_is_stored():
    found = accepted(block(STORE.format("store_acc(mine, acc, first=64)")), params=PARAMS, requires=REQUIRES)
    [store] = [s for s in statements(found.body) if isinstance(s, ir.StoreAcc)]
    assert store.tile.shape == (1, 64, 64) and store.first.value == 64 and store.place.privilege == WARPGROUP1
    found = accepted(block(STORE.format("for q in range(4):\n            store_acc(mine, acc, first=64 * q)")), params=PARAMS, requires=REQUIRES)
    [loop] = [s for s in statements(found.body) if isinstance(s, ir.For)]
    assert loop.unroll == -1, "columns are registers: the loop is unrolled"


@pytest.mark.parametrize("code, expected, fragment", [
    ("store_acc(mine, acc, first=200)", "SNAP018", "columns 200 to 263 are not among the 256"), ("store_acc(mine, acc, first=4)", "SNAP018", "multiple of 8"), ("store_acc(mine, d)", "SNAP018", "8, 16, ... 16 columns"),
    ("store_acc(tile(mine, (0, 0), (32, 64)), acc)", "SNAP018", "64 rows"), ("store_acc(mine, acc, first=t)", "SNAP006", "`t` may differ"), ("store_acc(mine, acc, 3)", "SNAP018", "takes a tile and an accumulator"),
    ("store_acc(a8, acc)", "SNAP009", "memory of the warpgroup: `a8` is at `block[1]`"), ("store_acc(acc, acc)", "SNAP018", "takes memory"), ("store_acc(mine, mine)", "SNAP018", "a local array of float"),
    ("store_acc(mine, acc, first=0.5)", "SNAP018", "the number of a column"),
])
def test_stores_that_are_refused(code, expected, fragment):
    refused(block(STORE.format(code)), expected, fragment, params=PARAMS, requires=REQUIRES)


def test_registers_are_moved_between_warpgroups():
    found = accepted(block("match split(thread):\n    case 128:\n        intrinsic.setmaxnreg(240)\n    case 128:\n        intrinsic.setmaxnreg(24)"), params=PARAMS, requires=REQUIRES)
    assert [s.attr("n") for s in statements(found.body) if isinstance(s, ir.Collective)] == [240, 24]
    for n in ("20", "23", "25", "264", "257"):
        wrong(f"intrinsic.setmaxnreg({n})", "SNAP018", "a multiple of 8, not " + n)
    wrong("intrinsic.setmaxnreg(n)", "SNAP018", "compile-time constant")
    wrong("intrinsic.setmaxnreg()", "SNAP018", "the number of registers")
    refused(block("with group(warp):\n    intrinsic.setmaxnreg(24)"), "SNAP016", "thread[128]", params=PARAMS, requires=REQUIRES)


STEP = """
@device
@requires(thread[128])
def step(acc: ref(float[128]) @ thread[1], x: ptr(shared(bf16), (64, 64)) @ thread[128], y: ptr(const(shared(bf16)), (256, 64)) @ thread[128]):
    wgmma(acc, x, y)
"""


def test_in_a_function():
    code = "with partition(a, p=warpgroup, f=lambda i, j: (64 * w + i, j)) as m:\n    with group(warpgroup):\n        step(acc, m, b)"
    found = accepted(block(code), params=PARAMS, requires=REQUIRES, before=STEP)
    [call] = [s for s in statements(found.body) if isinstance(s, ir.Call)]
    [made] = [s for s in statements(call.function.body) if isinstance(s, ir.Wgmma)]
    assert made.a.access.view.obj.swizzle == 128 and made.n == 256


BUMP = """
@device
@requires(thread[128])
def bump(p: ref(int[1]) @ thread[128]) -> int @ thread[128]:
    p[0] = p[0] + 1
    return p[0]
"""


def test_operands_are_evaluated_from_left_to_right():
    """a, b, then `zero`: each call stands where it is written, and what is read between two calls is read there."""
    code = """
    q: int[1] @ warpgroup
    wgmma(acc, tile(a, (64 * bump(q), 0), (64, 64)), tile(b, (8 * q[0], 0), (256, 64)), zero=(bump(q) == 2))
    store_acc(tile(mine, (q[0], 0), (64, 64)), acc, first=8 * bump(q))
    """
    inside = "with partition(out, p=warpgroup, f=lambda i, j: (w, i, j)) as mine:\n    with group(warpgroup):\n"
    made = accepted(block(inside + textwrap.indent(textwrap.dedent(code), "        ")), params=PARAMS, requires=REQUIRES, before=BUMP)
    kinds = (ir.Call, ir.Wgmma, ir.StoreAcc)
    order = [type(s).__name__ if isinstance(s, kinds) else "read" for s in statements(made.body)
             if isinstance(s, kinds) or isinstance(s, ir.Declare) and s.var.name == "at"]
    assert order == ["Call", "read", "Call", "Wgmma", "read", "Call", "StoreAcc"]


@pytest.mark.parametrize("declared, call, fragment", [
    ("z: shared(bf16[264, 64], swizzle=128)\nx: float[132] @ thread[1]", f"wgmma(x, {A}, z)", "has 8, 16, ... 256 columns, and this b has 264"),
    ("r: bf16[4] @ thread[1]", "wgmma(acc, r, tile(bt, (0, 0, 0), (4, 8, 64)).T)", "for bf16, k is a multiple of 16, and here it is 8"),
    ("pass", f"wgmma(acc, {A}, tile(b, (0, 0), (16, 64)))", "the accumulator of a 64 x 16 wgmma is 8 floats per thread, and `acc` has 128"),
    ("x: float[8] @ warpgroup", f"wgmma(x, {A}, tile(b, (0, 0), (16, 64)))", "and `x` is at `thread[128]`"),
    ("x: float[32] @ warpgroup", "store_acc(tile(out, (w, 0, 0), (1, 64, 64)), x)", "at `block[1]`"),
])
def test_sizes_that_only_look_right(declared: str, call: str, fragment: str):
    code = "SNAP009" if "store_acc" in call else "SNAP018"
    refused(block(f"{declared}\nwith group(warpgroup):\n    {call}"), code, fragment, params=PARAMS, requires=REQUIRES)
