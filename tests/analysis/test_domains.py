"""Every domain of `evaluate` contains what the GPU computes: drawn expressions, with values at the ends of types, negative divisors and shifts by too much."""

from __future__ import annotations

import random

import pytest
from analysis.building import HERE

from snap import *
from snap._compiler.analysis import concrete
from snap._compiler.analysis.exact.ladder import Ladder
from snap._compiler.analysis.exact.terms import Poly, Terms, evaluated, holds
from snap._compiler.analysis.linear import forms
from snap._compiler.analysis.linear.values import Values, form
from snap._compiler.analysis.syntactic import Text, divisor, natural
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.types import BOOL, GRID1, I32, I64, U32, U64
from snap._compiler.walk.evaluate import Walk
from snap._compiler.walk.state import Value

TYPES = (I32, U32, I64, U64)
ENDS = {I32: (-(2**31), 2**31 - 1), U32: (0, 2**32 - 1), I64: (-(2**63), 2**63 - 1), U64: (0, 2**64 - 1)}
SMALL = (0, 1, 2, 3, 7, 8, 31, 32, 33, 63, 64, 100)


class NoMeaning(Exception):
    """Signed arithmetic has left its type, or the operation is unspecified."""


# ---- what is meant, written without the compiler's evaluators -------------------------------------------------------


def into(type, n: int) -> int:
    low, high = ENDS[type]
    return (n - low) % (high - low + 1) + low


def meant(e: ir.Expr, at: dict[int, int], strict: bool) -> int:
    """The value; strict: where signed arithmetic leaves its type there is none, else it wraps."""

    def stays(n: int) -> int:
        if strict and e.type in (I32, I64) and into(e.type, n) != n:
            raise NoMeaning
        return into(e.type, n)

    of = [meant(part, at, strict) for part in ((e.left, e.right) if isinstance(e, (ir.Binary, ir.Compare, ir.Logical)) else e.args if isinstance(e, ir.Math) else ())]
    match e:
        case ir.Const(n):
            return int(n)
        case ir.Read(var):
            return at[var.uid]
        case ir.Cast(inner) | ir.Bitcast(inner):
            n = meant(inner, at, strict)
            return int(n != 0) if e.type == BOOL else into(e.type, n)
        case ir.Unary("not", inner):
            return 1 - meant(inner, at, strict)
        case ir.Unary("-", inner):
            return stays(-meant(inner, at, strict))
        case ir.Unary("~", inner):
            return into(e.type, -1 - meant(inner, at, strict))
        case ir.Select(cond, then, other):
            return meant(then if meant(cond, at, strict) else other, at, strict)
        case ir.Compare(op):
            a, b = of
            return int({"<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b, "==": a == b, "!=": a != b}[op])
        case ir.Logical(op):
            return min(of) if op == "and" else max(of)
        case ir.Math(op):
            return stays(abs(of[0])) if op == "abs" else min(of) if op == "min" else max(of)
        case ir.Binary(op):
            a, b = of
            if op in ("+", "-", "*"):
                return stays({"+": a + b, "-": a - b, "*": a * b}[op])
            if op in ("&", "|", "^"):
                return {"&": a & b, "|": a | b, "^": a ^ b}[op]
            if op in ("<<", ">>"):
                if not 0 <= b < (64 if e.type in (I64, U64) else 32):
                    raise NoMeaning
                return into(e.type, a << b if op == "<<" else a >> b)
            if b == 0 or b == -1 and a == ENDS[e.type][0]:
                raise NoMeaning
            toward = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
            return {"//": a // b, "mod": a % b, "/": toward, "%": a - b * toward}[op]
    raise TypeError(e)


# ---- what is drawn --------------------------------------------------------------------------------------------------

VARIABLES = {t: [ir.Var(10 * k + j, f"v{k}{j}", t, GRID1, span=HERE) for j in range(2)] for k, t in enumerate(TYPES)}
OPERATIONS = ("+", "-", "*", "/", "%", "//", "mod", "<<", ">>", "&", "|", "^")


def drawn(r: random.Random, type, deep: int) -> ir.Expr:
    if type == BOOL:
        return condition(r, deep)
    if deep == 0 or r.random() < 0.15:
        if r.random() < 0.6:
            return ir.Read(r.choice(VARIABLES[type]), type, span=HERE)
        return constant(r, type)
    match r.randrange(12):
        case 0:
            return ir.Cast(drawn(r, r.choice((*TYPES, BOOL)), deep - 1), type, span=HERE)
        case 1:
            return ir.Bitcast(drawn(r, {I32: U32, U32: I32, I64: U64, U64: I64}[type], deep - 1), type, span=HERE)
        case 2:
            return ir.Unary(r.choice("-~"), drawn(r, type, deep - 1), type, span=HERE)
        case 3:
            return ir.Select(condition(r, deep), drawn(r, type, deep - 1), drawn(r, type, deep - 1), type, span=HERE)
        case 4:
            op = r.choice(("min", "max", "abs"))
            return ir.Math(op, tuple(drawn(r, type, deep - 1) for _ in range(1 if op == "abs" else 2)), type, span=HERE)
        case _:
            op = r.choice(OPERATIONS)
            right = constant(r, type) if r.random() < 0.6 else drawn(r, type, deep - 1)
            return ir.Binary(op, drawn(r, type, deep - 1), right, type, span=HERE)


def constant(r: random.Random, type) -> ir.Const:
    low, high = ENDS[type]
    return ir.Const(r.choice((low, high, *SMALL, *(-n for n in SMALL if low < 0))), type, span=HERE)


def condition(r: random.Random, deep: int) -> ir.Expr:
    kind, deep = r.randrange(5) if deep > 1 else 4, max(deep, 1)
    if kind == 0:
        return ir.Logical(r.choice(("and", "or")), condition(r, deep - 1), condition(r, deep - 1), BOOL, span=HERE)
    if kind == 1:
        return ir.Unary("not", condition(r, deep - 1), BOOL, span=HERE)
    t = r.choice(TYPES)
    if kind == 2:
        return ir.Cast(drawn(r, t, deep - 1), BOOL, span=HERE)
    return ir.Compare(r.choice(("<", "<=", ">", ">=", "==", "!=")), drawn(r, t, deep - 1), drawn(r, t, deep - 1), BOOL, span=HERE)


def places(r: random.Random, many: int) -> list[dict[int, int]]:
    def one(t) -> int:
        low, high = ENDS[t]
        return r.choice((low, low + 1, high, high - 1, r.randint(low, high), *(n for n in SMALL), *(max(-n, low) for n in SMALL)))

    return [{var.uid: one(t) for t, of in VARIABLES.items() for var in of} for _ in range(many)]


def cases(seed: int, many: int, deep: int = 3):
    r = random.Random(seed)
    for _ in range(many):
        e = drawn(r, r.choice(TYPES), deep)
        for at in places(r, 8):
            yield e, at


def value_of(e: ir.Expr, at: dict[int, int], strict: bool = False) -> int | None:
    try:
        return meant(e, at, strict)
    except NoMeaning:
        return None


# ---- the domains ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_numbers(seed):
    said = 0
    for e, at in cases(seed, 400):
        want = value_of(e, at)
        if want is not None:
            found = concrete.value(e, lambda part: at[part.var.uid] if isinstance(part, ir.Read) else None)
            assert found == want, (e, at)
            said += 1
    assert said > 1500


@pytest.mark.parametrize("seed", range(4))
def test_forms(seed):
    """Nothing is assumed: a form is the number where signed arithmetic wraps, too; and lies where it is said to lie."""
    said, last = 0, None
    for e, at in cases(seed, 400):
        if e is not last:
            values, last = Values(proofs=True), e
            found = form(e, values, (), None)
            atoms = forms.atoms([found])
        want = value_of(e, at)
        if want is None:
            continue
        low, high = values._span(found)
        assert low <= want <= high, (e, at)
        assert want >= 0 or not values.not_negative(found), (e, at)
        if all(atom[0] in (forms.VAR, *forms.COMPOUND) for atom in atoms):
            given = {atom: at[values.uids[atom[2]]] for atom in atoms if atom[0] == forms.VAR}
            assert forms.value(found, given) == want, (e, at)
            said += 1
    assert said > 400


@pytest.mark.parametrize("seed", range(4))
def test_text(seed):
    """The text tells divisors and signs of every value that the expression may have."""
    for e, at in cases(seed + 50, 400):
        want = value_of(e, at)
        if want is not None:
            text = Text(lambda var: None, proofs=True)
            low, high = text._span(text.of(e))
            assert low <= want <= high and (want >= 0 or not natural(e, text)), (e, at)
            by = divisor(e, text)
            assert want % by == 0 if by else want == 0, (e, at, by)


@pytest.fixture(scope="module")
def walked():
    @kernel(threads=32)
    def k(out: ptr(int)):
        with each(thread, out) as t:
            out[t] = t

    return k._the_one({}).typed


@pytest.mark.parametrize("seed", range(6))
def test_polynomials(walked, seed):
    """If the arithmetic that it rests on stays in its type, the polynomial is the number, and what is defined on the way holds."""
    said, last, kept = 0, None, 0
    for e, at in cases(seed + 100, 120):
        if e is not last:
            w, last = Walk(walked, Ladder(Terms())), e
            known = {var.uid: w.terms.base("any", *ENDS[t], name=var.name) for t, of in VARIABLES.items() for var in of}
            for of in VARIABLES.values():
                for var in of:
                    w.vars[(), var.uid] = Value(known[var.uid])
            found = w.value(e)
            assert isinstance(found.term, Poly)
        want = value_of(e, at, strict=True)
        if want is None:
            continue
        low, high = w.terms.span(found.term)
        assert low <= want <= high, (e, at)
        given = {next(iter(known[uid].atoms)): n for uid, n in at.items()}
        try:
            got = evaluated(found.term, dict(given))
            kept += all(holds(c, dict(given)) for c in w.path)
        except KeyError:  # made of what may be anything
            continue
        assert got == want, (e, at, found)
        said += 1
    assert said > 250 and kept == said
