"""Registers that say which operand they hold: where their elements lie, what takes them, and that a plain array is taken everywhere."""

from __future__ import annotations

import numpy as np
import pytest
from check.test_values import defined

from snap import SnapError
from snap._compiler.check.core.fragments import Fragment, FragmentRole, exists, fragments_of
from snap._compiler.ir.hardware import MMA_FRAGMENTS
from snap._compiler.ir.types import BF16, F32, F64, I8, SCALARS

rng = np.random.default_rng(12)
A, B, C = FragmentRole


def bits(x: np.ndarray) -> np.ndarray:
    return (np.ascontiguousarray(x, np.float32).view(np.uint32) >> 16).astype(np.uint16)


# ---- where elements lie: matrices that are filled, multiplied and emptied by that -----------------------------------

KINDS = [  # type, type of the accumulator, m, n, k, NumPy's type
    *[("float", "float", *shape, np.float32) for shape in MMA_FRAGMENTS["tf32"]],
    *[("f16", "float", *shape, np.float16) for shape in MMA_FRAGMENTS["f16"]],
    *[("bf16", "float", *shape, np.uint16) for shape in MMA_FRAGMENTS["bf16"]],
    *[("f64", "f64", *shape, np.float64) for shape in MMA_FRAGMENTS["f64"]],
    *[(word, "int", *shape, dtype) for shape in MMA_FRAGMENTS["int8"] for word, dtype in (("i8", np.int8), ("u8", np.uint8))],
]
MULTIPLIES = """
@kernel(threads=32, blocks=1)
def k(a: ptr(const({t}), ({m}, {k})), b: ptr(const({t}), ({k}, {n})), c: ptr({s}, ({m}, {n}))):
    with each(warp, c):
        fa, fb, fc = registers(fragment.A({t}[{m}, {k}]), fragment.B({t}[{k}, {n}]), fragment.C({s}[{m}, {n}]))
        for i in range({m} * {k} / 32):
            fa[i] = a[fragment.row(fa, i), fragment.column(fa, i)]
        for i in range({k} * {n} / 32):
            fb[i] = b[fragment.row(fb, i), fragment.column(fb, i)]
        intrinsic.mma(fa, fb, fc, out=fc)
        with each(thread, c):
            for i in range({m} * {n} / 32):
                c[fragment.row(fc, i), fragment.column(fc, i)] = fc[i]
"""


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind[0]}-m{kind[2]}n{kind[3]}k{kind[4]}")
def test_elements_lie_where_mma_has_them(kind):
    t, s, m, n, k, dtype = kind
    kernel = defined(MULTIPLIES.format(t=t, s=s, m=m, n=n, k=k))
    a, b = rng.integers(0, 4, (m, k)), rng.integers(0, 4, (k, n))
    c = np.zeros((m, n), {"float": np.float32, "f64": np.float64, "int": np.int32}[s])
    kernel(*((bits(x) if t == "bf16" else x.astype(dtype)) for x in (a, b)), c)
    np.testing.assert_array_equal(c, a @ b)


WORDS = """
@kernel(threads=32, blocks=1)
def k(a: ptr(const(u32), (16, 8)), b: ptr(const(u32), (8, 8)), c: ptr(int, (16, 8))):
    with each(warp, c):
        fa, fb, fc = registers(fragment.A(u32[16, 8]), fragment.B(u32[8, 8]), fragment.C(int[16, 8]))
        for i in range(4):
            fa[i] = a[fragment.row(fa, i), fragment.column(fa, i)]
        for i in range(2):
            fb[i] = b[fragment.row(fb, i), fragment.column(fb, i)]
        intrinsic.mma(fa, fb, fc, out=fc, type="u4")
        with each(thread, c):
            for i in range(4):
                c[fragment.row(fc, i), fragment.column(fc, i)] = fc[i]
"""


def test_words_are_matrices_of_words():
    a, b, c = rng.integers(0, 16, (16, 64)), rng.integers(0, 16, (64, 8)), np.zeros((16, 8), np.int32)
    packed = lambda x: np.array(sum(x.reshape(-1, 8, 8)[:, :, i].astype(np.uint32) << np.uint32(4 * i) for i in range(8)), np.uint32)
    defined(WORDS)(packed(a), np.ascontiguousarray(packed(b.T.copy()).T), c)
    np.testing.assert_array_equal(c, a @ b)


OF_WARPGROUPS = """
@kernel(threads=128, blocks=1)
def k(a: ptr(const({t}), (64, {k})), b: ptr(const({t}), (32, {k})), c: ptr(float, (64, 32))):
    with each(block, c):
        tile_b: shared({t}[32, {k}], swizzle=128)
        async_copy(tile_b, b, at=(0, 0))
        fa, fc = registers(fragment.A({t}[64, {k}]), fragment.C(float[64, 32]))
        for i in range({k} / 2):
            fa[i] = a[fragment.row(fa, i), fragment.column(fa, i)]
        wgmma(fc, fa, tile_b{kind})
        with each(thread, c):
            for i in range(16):
                c[fragment.row(fc, i), fragment.column(fc, i)] = fc[i]
"""


@pytest.mark.parametrize("t", ["bf16", "f16", "float", "u8"])
def test_elements_lie_where_wgmma_has_them(t):
    size = {"bf16": 2, "f16": 2, "float": 4, "u8": 1}[t]
    kernel = defined(OF_WARPGROUPS.format(t=t, k=128 // size, kind=', type="e4m3"' * (t == "u8")))
    a, b, c = rng.integers(0, 2, (64, 128 // size)), rng.integers(0, 2, (32, 128 // size)), np.zeros((64, 32), np.float32)
    given = {"bf16": bits, "f16": lambda x: x.astype(np.float16), "float": lambda x: x.astype(np.float32), "u8": lambda x: np.where(x, 0x38, 0).astype(np.uint8)}[t]
    kernel(given(a), given(b), c)
    np.testing.assert_array_equal(c, a @ b.T)


def test_which_fragments_there_are():
    assert list(fragments_of(A, BF16)) == [Fragment(A, BF16, 16, 16)] and list(fragments_of(B, BF16)) == [Fragment(B, BF16, 16, 8)]
    assert {(f.rows, f.columns) for f in fragments_of(A, I8)} == {(16, 16), (16, 32)} and {(f.rows, f.columns) for f in fragments_of(B, I8)} == {(16, 8), (32, 8)}
    assert {(f.rows, f.columns) for f in fragments_of(A, F64)} == {(8, 4), (16, 4), (16, 8), (16, 16)}
    assert {(f.rows, f.columns) for f in fragments_of(C, F64)} == {(8, 8), (16, 8)}
    for role in FragmentRole:
        for elem in SCALARS.values():
            assert all(f.rows * f.columns % 32 == 0 and f.each == f.rows * f.columns // 32 for f in fragments_of(role, elem))
    assert all(exists(Fragment(C, F32, 64, n)) == (n % 8 == 0 and 8 <= n <= 256) for n in range(1, 300))
    assert exists(Fragment(A, F32, 64, 8)) and not exists(Fragment(A, F32, 64, 12)) and not exists(Fragment(A, F64, 64, 8)) and not exists(Fragment(B, BF16, 64, 16))
    assert not exists(Fragment(C, F64, 64, 8)) and not exists(Fragment(C, BF16, 16, 8))


# ---- the same text, and what is refused -----------------------------------------------------------------------------

CHAIN = """
@device(warp)
def halved(acc: ref({c})):
    for i in range(4):
        acc[i] = acc[i] * 0.5


@kernel(threads=32, blocks=1)
def k(out: ptr(float, (16, 8))):
    with each(block):
        sa, sb = shared(bf16[16, 16]), shared(bf16[16, 8])
        with each(thread, sa, sb) as t:
            for i in range(8):
                sa[t / 2, t % 2 * 8 + i] = bf16(1.0)
            for i in range(4):
                sb[t / 2, t % 2 * 4 + i] = bf16(2.0)
        a, b, c = registers({a}, {b}, {c})
        with each(warp):
            l: int @ thread[1] = id()
            intrinsic.ldmatrix(a, sa[l % 16, l / 16 * 8])
            intrinsic.ldmatrix(b, sb[l % 16, 0], trans=True)
            intrinsic.mma(a, b, c, out=c)
            halved(c)
        with each(thread, out):
            for i in range(4):
                out[acc_row(i, warp), acc_column(i, warp)] = c[i]
"""
TYPED = {"a": "fragment.A(bf16[16, 16])", "b": "fragment.B(bf16[16, 8])", "c": "fragment.C(float[16, 8])"}
PLAIN = {"a": "bf16[8]", "b": "bf16[4]", "c": "float[4]"}


def text(k) -> str:
    """The CUDA text behind the line that names the file."""
    return k.cuda().partition("\n")[2]


def test_fragments_are_the_same_program_as_plain_arrays():
    typed, plain = defined(CHAIN.format(**TYPED)), defined(CHAIN.format(**PLAIN))
    assert text(typed) == text(plain) and typed.ir() == plain.ir()
    out = np.zeros((16, 8), np.float32)
    typed(out)
    assert (out == 16).all()


@pytest.mark.parametrize("plain", ["a", "b", "c", "ab", "ac", "bc"])
def test_plain_arrays_are_taken_with_fragments(plain):
    assert text(defined(CHAIN.format(**TYPED | {name: PLAIN[name] for name in plain}))) == text(defined(CHAIN.format(**PLAIN)))


def of_a_warp(*lines: str, threads: int = 32) -> str:
    body = "".join(f"        {line}\n" for line in lines)
    return f"@kernel(threads={threads})\ndef k():\n    with group(thread[{threads}]):\n{body}"


def refused(*lines: str, threads: int = 32) -> str:
    with pytest.raises(SnapError) as info:
        defined(of_a_warp(*lines, threads=threads))
    assert info.value.code == "SNAP018"
    return info.value.render()


OPERANDS = [f"{name}: {type} @ thread[1]" for name, type in TYPED.items()]


def test_a_role_is_kept():
    for wrong, says in (
        ("mma(c, b, a, out=a)", "`mma` takes operand A here, and `c` is an accumulator (C)"),
        ("mma(a, a, c, out=c)", "`mma` takes operand B here, and `a` is operand A"),
        ("mma(a, b, a, out=c)", "`mma` takes an accumulator (C) here, and `a` is operand A"),
        ("mma(a, b, c, out=b)", "`mma` takes an accumulator (C) here, and `b` is operand B"),
    ):
        assert says in refused(*OPERANDS, f"intrinsic.{wrong}"), wrong


def test_registers_one_by_one_are_plain_and_whole_operands_are_where_they_belong():
    one_by_one = ", ".join(f"b[{i}]" for i in range(4))
    defined(of_a_warp(*OPERANDS, f"intrinsic.mma(a, {one_by_one}, c, out=c)"))
    of_a = ", ".join(f"a[{i}]" for i in range(8))
    defined(of_a_warp(*OPERANDS, f"intrinsic.mma({of_a}, b, c, out=c)"))
    doubles = ["x: fragment.A(f64[16, 8]) @ thread[1]", "y: fragment.B(f64[8, 8]) @ thread[1]", "z: fragment.C(f64[16, 8]) @ thread[1]"]
    assert "takes an accumulator (C) here, and `x` is operand A" in refused(*doubles, "intrinsic.mma(z[0], z[1], z[2], z[3], y, x, out=z)")
    shifted = ", ".join(f"a[{i}]" for i in range(4))
    assert "here it is not: `mma` is given 4 registers before it" in refused(*OPERANDS, f"intrinsic.mma({shifted}, a, c, out=c)")


def test_a_view_shows_plain_registers():
    defined(of_a_warp("a: fragment.C(int[16, 8]) @ thread[1]", "x: fragment.A(u32[16, 8]) @ thread[1]", "x[0] = a.view(u32)[0]"))
    defined(of_a_warp("a: fragment.A(i8[16, 32]) @ thread[1]", "b: fragment.B(u32[8, 8]) @ thread[1]", "c: int[4] @ thread[1]",
                      'intrinsic.mma(a.view(u32), b, c, out=c, type="s8")'))
    defined(of_a_warp("a: fragment.B(u8[32, 8])[2] @ thread[1]", "b: fragment.B(u8[32, 8]) @ thread[1]", "c: fragment.C(int[16, 8]) @ thread[1]",
                      'intrinsic.mma(a.view(u32), b, c, out=c, type="s8")'.replace("a.view(u32), b", "a.view(u32)[0, 0], a.view(u32)[0, 1], a.view(u32)[1, 0], a.view(u32)[1, 1], b")))


INFERRED = """
@device(warp)
def doubled(acc: ref(fragment.C(T[M, N])), T: constexpr(type), M: constexpr(int), N: constexpr(int)):
    acc *= T(2 * (M / 16) + 0 * N)


@kernel(threads=32, blocks=1)
def k(out: ptr({t}, (16, 8))):
    with each(warp, out):
        c: {held} @ thread[1]
        c = {t}(21)
        doubled(c)
        with each(thread, out):
            for i in range(4):
                out[acc_row(i, warp), acc_column(i, warp)] = c[i]
"""


@pytest.mark.parametrize("t, dtype", [("float", np.float32), ("f64", np.float64), ("int", np.int32)])
def test_a_call_tells_type_and_extents_of_a_fragment(t, dtype):
    out = np.zeros((16, 8), dtype)
    defined(INFERRED.format(t=t, held=f"fragment.C({t}[16, 8])"))(out)
    assert (out == 42).all()


def test_a_plain_array_tells_no_extents_of_a_matrix():
    with pytest.raises(SnapError, match="is missing `M`"):
        defined(INFERRED.format(t="float", held="float[4]"))


def test_arrays_of_fragments():
    two = [*OPERANDS, "s: fragment.C(float[16, 8])[2, 2] @ thread[1]", "p: fragment.A(bf16[16, 16])[2] @ thread[1]", "q: fragment.A(bf16[16, 16])[1] @ thread[1]"]
    defined(of_a_warp(*two, "intrinsic.mma(p[1], b, s[0, 1], out=s[0, 1])", "s[1, 1] = c", "a = p[0]", "p[1] = a", "a = fragment.to_A(s[0])", "p[1] = fragment.to_A(s[1])", "c += s[0, 0]", "c *= 2.0"))
    assert "takes one fragment, and `s[...]` holds 2" in refused(*two, "intrinsic.mma(a, b, s[0], out=c)")
    assert "accumulator of 16 x 16, and `p` A of 16 x 32" in refused(*two, "p = fragment.to_A(s)")
    assert "is an accumulator of 16 x 16" in refused(*two, "q = fragment.to_A(s)")


CONVERTED = """
@kernel(threads=32, blocks=1)
def k(out: ptr(float, (2, 16, 16))):
    with each(warp, out):
        s: fragment.C(float[16, 8])[2, 2] @ thread[1]
        for h, n, e in range(shape=(2, 2, 4)):
            s[h, n, e] = float(h * 256 + fragment.row(s, e) * 16 + n * 8 + fragment.column(s, e))
        p: fragment.A({t}[16, 16])[2, 1] @ thread[1] = fragment.to_A(s)
        with each(thread, out):
            for h, e in range(shape=(2, 8)):
                out[h, fragment.row(p, e), fragment.column(p, e)] = float(p[h, 0, e])
"""


@pytest.mark.parametrize("t", ["f16", "bf16"])
def test_a_conversion_moves_no_element(t):
    out = np.zeros((2, 16, 16), np.float32)
    defined(CONVERTED.format(t=t))(out)
    want = np.arange(512, dtype=np.float32).reshape(2, 16, 16)
    rounded = want.astype(np.float16).astype(np.float32) if t == "f16" else want
    assert (np.abs(out - rounded) <= (0 if t == "f16" else 1)).all() and out[0, 3, 5] == 53


def test_conversions_are_named():
    wide = ["s: fragment.C(float[64, 32]) @ thread[1]", "p: fragment.A(bf16[64, 32]) @ thread[1]", "b: fragment.A(bf16[64, 64]) @ thread[1]", "f: fragment.A(float[64, 32]) @ thread[1]"]
    defined(of_a_warp(*wide, "p = fragment.to_A(s)", threads=128))
    assert "convert it by name: `fragment.to_A(s)`" in refused(*wide, "p = s", threads=128)
    assert "their elements lie in other threads" in refused(*wide, "f = s", threads=128)
    assert "is an accumulator of 64 x 32, and `b` A of 64 x 64" in refused(*wide, "b = fragment.to_A(s)", threads=128)
    assert "makes A of a 16-bit type" in refused(*wide, "f = fragment.to_A(s)", threads=128)
    assert "takes an accumulator of floats" in refused(*wide, "p = fragment.to_A(p)", threads=128)


MATRICES = """
@kernel(threads=32, blocks=1)
def k(x: ptr(const(f16), (2, {rows}, {columns})), y: ptr(float, ({m}, {n})), z: ptr(f16, (2, {rows}, {columns}))):
    with each(block):
        s, u = shared(f16[2, {rows}, {columns}]), shared(f16[2, {rows}, {columns}])
        with each(thread, s, u) as t:
            for i in range(t, {rows} * {columns}, 32):
                for h in range(2):
                    s[h, i / {columns}, i % {columns}] = x[h, i / {columns}, i % {columns}]
                    u[h, i / {columns}, i % {columns}] = f16(-1.0)
        a: {type} @ thread[1]
        with each(warp, u):
            intrinsic.ldmatrix(a, {source})
            intrinsic.stmatrix({target}, a)
        with each(thread, y, z) as t:
            {copies}
            for i in range(t, {rows} * {columns}, 32):
                for h in range(2):
                    z[h, i / {columns}, i % {columns}] = u[h, i / {columns}, i % {columns}]
"""


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("held", ["fragment.A(f16[16, 16])", "fragment.B(f16[16, 8])", "fragment.B(f16[16, 8])[2]"])
def test_matrices_are_moved_whole(held, transposed):
    m, n = (16, 8) if held.endswith("8])") else (16, 16)
    shape, turn = (f"({n}, {m})", ".T") if transposed else (f"({m}, {n})", "")
    at = "(1, 8, 16)"
    source, target = f"tile(s, {at}, (1, {shape[1:]}){turn}", f"tile(u, {at}, (1, {shape[1:]}){turn}"
    copies = "for j, e in range(shape=(2, 4)):\n                y[fragment.row(a, e), 8 * j + fragment.column(a, e)] = float(a[j, e])"
    if not held.endswith("[2]"):
        copies = f"for e in range({m * n // 32}):\n                y[fragment.row(a, e), fragment.column(a, e)] = float(a[e])"
    kernel = defined(MATRICES.format(rows=24, columns=32, m=m, n=n, type=held, source=source, target=target, copies=copies))
    x, y, z = np.arange(2 * 24 * 32, dtype=np.float16).reshape(2, 24, 32), np.zeros((m, n), np.float32), np.zeros((2, 24, 32), np.float16)
    kernel(x, y, z)
    part = x[1, 8:8 + (n if transposed else m), 16:16 + (m if transposed else n)]
    np.testing.assert_array_equal(y, part.T if transposed else part)
    where = np.s_[1, 8:8 + part.shape[0], 16:16 + part.shape[1]]
    np.testing.assert_array_equal(z[where], part)
    z[where] = -1
    assert (z == -1).all()
