"""`//` and `%` are Python's, of signed integers too, and `/` is C's: all who evaluate integers agree, whatever the signs are."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
from fuzz import host
from fuzz.slow_values import operation

import snap
from snap import *
from snap._compiler.analysis import concrete
from snap._compiler.analysis.exact.ladder import Ladder
from snap._compiler.analysis.exact.terms import Poly, Terms, evaluated, holds
from snap._compiler.analysis.linear import forms
from snap._compiler.analysis.linear.values import Values, form
from snap._compiler.analysis.syntactic import Text, divisor, natural
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.integers import wrap
from snap._compiler.ir.types import GRID1, I32, I64
from snap._compiler.walk.evaluate import Walk
from snap.diag.span import Span
from snap.host.arguments.signature import HELPERS, python_text

LEAST = -(2**31)
HERE = Span("?", 1, 0, 1, 1)
X, Y = (ir.Read(ir.Var(k, name, I32, GRID1, span=HERE), I32, span=HERE) for k, name in enumerate("xy"))
CONSTANTS = [1, 2, 3, 8, 100, 2**31 - 1, -1, -2, -3, -8, LEAST]
NUMBERS = [0, 1, 2, 7, 8, 31, -1, -2, -7, -8, -9, 2**31 - 1, LEAST, LEAST + 1, *(random.Random(26).randrange(LEAST, 2**31) for _ in range(20))]
PAIRS = [(x, y) for x, y in itertools.product(NUMBERS, [*CONSTANTS, 0, 5, -12345]) if y]


def meant(op: str, x: int, y: int) -> int:
    """As Python computes it; C's quotient by way of fractions."""
    if op in ("//", "mod"):
        return wrap(x // y if op == "//" else x % y, I32)
    quotient = abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
    return wrap(quotient if op == "/" else x - quotient * y, I32)


def binary(op: str, left: ir.Expr, right: ir.Expr | int) -> ir.Expr:
    return ir.Binary(op, left, right if not isinstance(right, int) else ir.Const(right, I32, span=HERE), I32, span=HERE)


OPERATIONS = ("/", "%", "//", "mod")


@pytest.mark.parametrize("op", OPERATIONS)
def test_of_numbers(op):
    for x, y in PAIRS:
        want = meant(op, x, y)
        assert concrete.value(binary(op, X, Y), {X: x, Y: y}.get) == want, (x, y)
        assert wrap(eval(python_text(binary(op, X, Y), {0: "x", 1: "y"}), {**HELPERS, "x": x, "y": y}), I32) == want, (x, y)
        if op != "%":  # of the language
            assert operation({"mod": "%"}.get(op, op), "i32")(x, y) == want, (x, y)


@pytest.mark.parametrize("op", OPERATIONS)
def test_of_forms(op):
    """A form, where there is one, is the number; what is said of one without a form holds of it."""
    formed = 0
    for y in CONSTANTS:
        e = binary(op, X, y)
        values = Values(proofs=True)
        found = form(e, values, (), None)
        atoms = forms.atoms([found])
        text = Text(lambda var: None, proofs=True)
        for x in NUMBERS:
            if all(atom[0] in (forms.VAR, forms.DIV) for atom in atoms):
                formed += 1
                assert forms.value(found, {atom: x for atom in atoms}) == meant(op, x, y), (x, y)
            assert meant(op, x, y) >= 0 or not natural(e, text), (x, y)
            assert meant(op, x, y) % (divisor(e, text) or 1) == 0, (x, y)
    assert formed or op in "/%"  # which round as forms do where nothing is negative


@pytest.mark.parametrize("least, most", [(0, 2**31 - 1), (LEAST, -1), (LEAST, 2**31 - 1)])
@pytest.mark.parametrize("op", OPERATIONS)
def test_of_text(op, least, most):
    """What a range tells: the sign, and whether it is a number from zero on."""
    for y in CONSTANTS:
        e = binary(op, ir.Math("max" if least == 0 else "min", (X, ir.Const(0 if least == 0 else most, I32, span=HERE)), I32, span=HERE), y)
        text = Text(lambda var: None, proofs=True)
        for x in (x for x in NUMBERS if least <= x <= most):
            assert meant(op, x, y) >= 0 or not natural(e, text), (x, y)


def walk() -> Walk:
    @kernel(threads=32)
    def k(out: ptr(int), x: int, y: int):
        with each(thread, out) as t:
            out[t] = x + y

    return Walk(k._the_one({}).typed, Ladder(Terms()))


@pytest.mark.parametrize("op", OPERATIONS)
def test_of_polynomials(op):
    """What a proof computes with is the number, or anything; and what it takes for granted on the way holds."""
    made = walk()
    params = [p.var for p in made.function.params if isinstance(p, ir.ValueParam)]
    x_atom, y_atom = (next(iter(made.out.params[name].atoms)) for name in "xy")
    reads = [ir.Read(var, I32, span=HERE) for var in params]
    exact = 0
    above = [ir.Math("max", (read, ir.Const(n, I32, span=HERE)), I32, span=HERE) for read, n in zip(reads, (LEAST + 1, 1))]
    cases = [((LEAST, n), (reads[0], n)) for n in CONSTANTS] + [((LEAST + 1, None), (above[0], reads[1])), ((LEAST + 1, 1), (above[0], above[1]))]
    for k, ((least, of), operands) in enumerate(cases):
        made.path.clear()
        found = made.value(binary(op, *operands))
        assert isinstance(found.term, Poly)
        for x, y in PAIRS:
            constant = of if k < len(CONSTANTS) else None
            if x < least or y != (of if k < len(CONSTANTS) else y) or k == len(cases) - 1 and y < 1:
                continue
            at = {x_atom: x, y_atom: y}
            try:
                got = evaluated(found.term, at)
            except KeyError:  # anything
                continue
            exact += 1
            assert got == meant(op, x, y), (x, y, constant)
            assert all(holds(c, dict(at)) for c in made.path), (x, y, constant)
    assert exact > 100


@pytest.mark.parametrize("y", [5, 8, -3, 1])
def test_of_proofs(y):
    """The bounds of a remainder are known, and are no tighter than they are."""
    low, high = min(0, y + 1), max(0, y - 1)

    @kernel(threads=32, blocks=1)
    def inside(x: ptr(const(int), (32,)), out: ptr(int, (8,))):
        with each(thread, out, disjoint=out) as t:
            out[x[t] % y - low] = 1

    def beyond():
        @kernel(threads=32, blocks=1)
        def k(x: ptr(const(int), (32,)), out: ptr(int, (8,))):
            with each(thread, out, disjoint=out) as t:
                out[x[t] % y - low + (8 - (high - low))] = 1

        return k

    assert inside.prove(("bounds",), progress=False).verdict == "proved"
    if low == high:  # it is outside in every launch
        with pytest.raises(snap.SnapError, match="SNAP018"):
            beyond()
    else:
        assert beyond().prove(("bounds",), progress=False).verdict != "proved"


@kernel(threads=1)
def divided(x: ptr(const(int)), y: ptr(const(int)), z: ptr(const(i64)), n: int, out: ptr(i64, (n, 20)), v: ptr(const(char4)), w: ptr(char4, (n, 2))):
    with each(thread, out, w):
        for i in range(n):
            a, b, c = x[i], y[i], z[i]
            out[i, 0], out[i, 1], out[i, 2] = i64(a // b), i64(a % b), i64(a / b)
            out[i, 3], out[i, 4], out[i, 5], out[i, 6] = i64(a // 8), i64(a % 8), i64(a // 3), i64(a % 3)
            out[i, 7], out[i, 8], out[i, 9], out[i, 10] = i64(a // -3), i64(a % -3), c // b, c % b
            q, r = divmod(a, b)
            out[i, 11], out[i, 12] = i64(q), i64(r)
            a //= b
            out[i, 13] = i64(a)
            a = x[i]
            a %= 6
            out[i, 14] = i64(a)
            out[i, 15], out[i, 16], out[i, 17] = i64(i // 3), i64(i % 3), i64(-7 // 2)
            out[i, 18], out[i, 19] = i64(x[i] % b == 0), i64(u32(x[i]) % u32(7))
            w[i, 0], w[i, 1] = v[i] // v[i + 1], v[i] % i8(5)


def columns(x: int, y: int, z: int, i: int) -> list[int]:
    return [
        wrap(x // y, I32), x % y, meant("/", x, y), x // 8, x % 8, x // 3, x % 3, x // -3, x % -3, wrap(z // y, I64), z % y, wrap(x // y, I32), x % y,
        wrap(x // y, I32), x % 6, i // 3, i % 3, -4, int(x % y == 0), x % 2**32 % 7,
    ]  # fmt: skip


def arguments() -> list:
    x, y = (np.array(v, np.int32) for v in zip(*PAIRS))
    z = np.array([x * 2**31 + 12345 for x, _ in PAIRS], np.int64)
    small = np.random.default_rng(3).choice([-128, -7, -1, 1, 2, 127], 4 * (len(x) + 1)).astype(np.int8)
    return [x, y, z, len(x), np.zeros((len(x), 20), np.int64), small, np.zeros((len(x), 2, 4), np.int8)]


def check(args: list) -> None:
    x, y, z, n, out, small, w = args
    want = [columns(a, b, c, i) for i, (a, b, c) in enumerate(zip(x.tolist(), y.tolist(), z.tolist()))]
    assert out.tolist() == want
    v = small.reshape(-1, 4).astype(np.int64)
    np.testing.assert_array_equal(w[:, 0], (v[:-1] // v[1:]).astype(np.int8))
    np.testing.assert_array_equal(w[:, 1], v[:-1] % 5)


def test_on_the_machine():
    args = arguments()
    divided[1](*args)
    check(args)


@pytest.mark.skipif(bool(host.available()), reason=host.available() or "-")
def test_of_the_generated_text():
    """The generated CUDA, run on the host, for all but INT_MIN / -1, which a CPU traps."""
    args = arguments()
    x, y, z, n = args[:4]
    keep = ~((x == LEAST) & (y == -1)) & ~((z == -(2**63)) & (y == -1))
    small = np.abs(args[5].astype(np.int16)).clip(1, 127).astype(np.int8) * np.where(np.arange(len(args[5])) % 3, 1, -1).astype(np.int8)
    kept = [x[keep], y[keep], z[keep], int(keep.sum()), args[4][keep].copy(), small[: 4 * (int(keep.sum()) + 1)], args[6][keep].copy()]
    host.run(divided, 1, kept)
    check(kept)


def test_text_of_what_is_never_negative():
    """Where no operand is negative, the text is C's plain one: indices, extents, constants, counters, and what `where=` says."""

    @kernel(threads=64, where=lambda n, m, k: (n >= 0, 1 <= m < k))
    def plain(out: ptr(int, (rows, 4)), rows: int, n: int, m: int, k: int, free: int):
        with each(thread, out) as t:
            out[t, 0] = t // 3 + t % 3 + n // 5 + n % m + rows % k
            out[t, 1] = (t + n) // m + min(m, t) % 7 + int(u32(free) % 7)
            out[t, 2] = free % 8 + free // 16
            out[t, 3] = free % 3

    text = plain.cuda()
    assert text.count("snap_floor") == 2 and "snap_floor_mod(free, 3)" in text  # the helper, and one use
    assert "(free & 7) + (free >> 4)" in text and "n / 5 + n % m + rows % k" in text and "(t + n) / m" in text


def test_where_counts_for_kernels_alone():
    """A launch looks at it; nobody looks at a contract when the function is called."""

    @device(thread, where=lambda n: n >= 1)
    def f(n: int) -> int:
        return 7 % n

    @kernel(threads=32, where=lambda n: n >= 1)
    def k(out: ptr(int), n: int):
        with each(thread, out) as t:
            out[t] = f(n) + 7 % n

    assert k.cuda().count("snap_floor_mod(7, ") == 1


def test_what_is_assigned_may_be_negative():
    """What a launch makes sure of holds of what it gives, not of what the kernel makes of it."""

    @kernel(threads=32, where=lambda n: n >= 0)
    def k(out: ptr(int), n: int):
        n -= 7
        with each(thread, out) as t:
            out[t] = n % 5

    out = np.zeros(32, np.int32)
    k[1](out, 3)
    assert out[0] == 1


def shaped() -> tuple:
    """A kernel whose parameter has as many rows as a ceiling says."""

    @kernel(threads=32)
    def k(x: ptr(int, (-(-n // 8), 8)), n: int):
        with each(thread, x) as i:
            if i < n:
                x[i // 8, i % 8] = -i // 3 + -i % 5

    return k, [np.zeros((3, 8), np.int32), 20]


def test_a_ceiling_in_a_shape():
    k, (x, n) = shaped()
    k[1](x, n)
    assert x.ravel()[:n].tolist() == [-i // 3 + -i % 5 for i in range(n)] and not x.ravel()[n:].any()
    with pytest.raises(snap.LaunchError):
        k[1](x, 25)
