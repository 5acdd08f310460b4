"""List what the instructions that only compute do: a table.

Input: an instruction's words.  Output: the types of its operands and its result, and a function of NumPy arrays.
Everything is bit-exact where the ISA is.  None where there is no such instruction here: the machine refuses it by name
when it is reached, or (`strict`) when a program is loaded.
"""

from __future__ import annotations

import numpy as np

from snap.machine.lanes import numbers
from snap.ptx.instructions import comparisons, fields, floats, integers, video
from snap.ptx.instructions.conversions import conversion
from snap.ptx.instructions.integers import Maker, Words
from snap.ptx.instructions.operation import Operation


def lookup(parts: tuple[str, ...], count: int = 0) -> Operation | None:
    """count: of its operands; some have a form with one more."""
    if parts[0] in video.NAMES:
        return video.parts(parts)
    makers = _TABLE.get(parts[0])
    if makers is None or len(parts) < 2:
        return None
    words = parts[1:]
    if count == 3 and parts[0] in ("min", "max"):
        return floats.least_of_three(parts[0] == "max", words)
    for made in makers:
        found = made(words)
        if found is not None:
            return found
    return None


def _mov(words: Words) -> Operation | None:
    fits = len(words) == 1 and words[0] in (*integers.WORDS, *integers.WHOLE, "f32", "f64", "pred", "b128")
    return Operation(words, words[0], lambda a: a) if fits else None


_TABLE: dict[str, tuple[Maker, ...]] = {
    "add": (integers.sum("add"), floats.arithmetic("add")),
    "sub": (integers.sum("sub"), floats.arithmetic("sub")),
    "mul": (integers.mul, floats.arithmetic("mul")),
    "mad": (integers.mad, floats.fused),
    "fma": (floats.fused,),
    "mul24": (integers.mul24,),
    "mad24": (integers.mad24,),
    "sad": (integers.sad,),
    "div": (integers.div, floats.quotient),
    "rem": (integers.rem,),
    "neg": (integers.negated, floats.negated),
    "abs": (integers.absolute, floats.absolute),
    "min": (integers.least(False), floats.least(False)),
    "max": (integers.least(True), floats.least(True)),
    "dp4a": (integers.dot(8),),
    "dp2a": (integers.dot(16),),
    "and": (integers.logic(np.bitwise_and),),
    "or": (integers.logic(np.bitwise_or),),
    "xor": (integers.logic(np.bitwise_xor),),
    "not": (integers.inverted,),
    "cnot": (integers.cnot,),
    "shl": (integers.shift(True),),
    "shr": (integers.shift(False),),
    "shf": (integers.funnel,),
    "prmt": (integers.prmt,),
    "lop3": (integers.lop3,),
    "bfi": (fields.bfi,),
    "bfe": (fields.bfe,),
    "bfind": (fields.find,),
    "popc": (fields.counted(numbers.population_count),),
    "clz": (fields.counted(numbers.leading_zeros),),
    "brev": (fields.reversed_bits,),
    "fns": (fields.fns,),
    "szext": (fields.szext,),
    "bmsk": (fields.bmsk,),
    "set": (comparisons.chosen,),
    "selp": (comparisons.selp,),
    "slct": (comparisons.slct,),
    "testp": (comparisons.tested,),
    "mov": (_mov,),
    "cvt": (conversion,),
    "copysign": (floats.copied_sign,),
    "sqrt": (floats.root,),
    "rsqrt": (floats.inverse_root,),
    "rcp": (floats.reciprocal,),
    **{name: (floats.function(name),) for name in ("ex2", "lg2", "sin", "cos", "tanh")},
}
NAMES = frozenset(_TABLE) | video.NAMES
