"""The index of an element in a swizzled object, in two parts: one that the swizzle leaves alone, and one that it moves.

Input:      the index as it would be without a swizzle, the bytes of the swizzle, the bytes of an element
Output:     the index where the element lies, as TMA lays 16-byte chunks
Invariant:  the pattern repeats every 8 rows of 128 bytes: what is shown to be a multiple of that stays outside of the
            call, so that what is inside is often the same all through a loop
Non-goals:  tiles as a whole, which units that move and multiply them swizzle by themselves
"""

from __future__ import annotations

from collections.abc import Iterator

from snap._compiler.codegen.core import tree
from snap._compiler.codegen.core.module import Helper, Module
from snap._compiler.codegen.values import fold
from snap._compiler.ir.hardware import SWIZZLE_CHUNK, SWIZZLE_PERIOD
from snap._compiler.ir.types import I32


def swizzle(width: int) -> Helper:
    """Within rows of 128 bytes, the number of a 16-byte chunk is xor-ed with the number of the row, modulo the chunks
    in `width` bytes.
    """
    return _helper(f"snap_swizzle_{width}", width, "", "index")


def _of_a_part(width: int) -> Helper:
    """The same for a part of an index, which may be negative: bits are what counts."""
    return _helper(f"snap_place_{width}", width, "(int)", "(unsigned int)index")


def _helper(name: str, width: int, back: str, index: str) -> Helper:
    return Helper(
        name,
        f"""\
template <int chunk>  // elements in 16 bytes
static __device__ __forceinline__ int {name}(int index) {{
    return index ^ {back}({index} / (8 * chunk) % {width // SWIZZLE_CHUNK} * chunk);
}}""",
    )


def place(module: Module, width: int, size: int, index: tree.Expr) -> tree.Expr:
    outside, inside = parts(index, SWIZZLE_PERIOD // size)
    helper = swizzle(width) if outside == tree.Integer(0) else _of_a_part(width)
    moved = tree.Call(f"{module.helper(helper)}<{SWIZZLE_CHUNK // size}>", (inside,))
    return fold.binary("+", outside, moved, I32)


def parts(index: tree.Expr, period: int) -> tuple[tree.Expr, tree.Expr]:
    """Two numbers whose sum is the index; the first is a multiple of the period."""
    terms = list(_terms(index, 1))
    outside = [term for term in terms if term[1] % period == 0]
    if not outside:
        return tree.Integer(0), index
    return _sum(outside), _sum([term for term in terms if term[1] % period])


def _terms(e: tree.Expr, factor: int) -> Iterator[tuple[tree.Expr, int]]:
    """Expressions and numbers whose products add up to `e` times the factor."""
    match e:
        case tree.Integer(value, ""):
            yield tree.Integer(1), value * factor
        case tree.Binary("+", a, b):
            yield from _terms(a, factor)
            yield from _terms(b, factor)
        case tree.Binary("*", a, tree.Integer(n, "")) | tree.Binary("*", tree.Integer(n, ""), a):
            yield from _terms(a, factor * n)
        case _:
            yield e, factor


def _sum(terms: list[tuple[tree.Expr, int]]) -> tree.Expr:
    total: tree.Expr = tree.Integer(0)
    for e, factor in terms:
        total = fold.binary("+", total, fold.binary("*", e, tree.Integer(factor), I32), I32)
    return total
