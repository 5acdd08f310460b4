"""A parameter that is a type takes scalars and vectors: a record's fields are parameters of their own."""

from typing import NamedTuple

from snap import *


class Pair(NamedTuple):
    first: int
    second: int


@device(thread)
def cast(v: int, T: constexpr(type)) -> int:
    return int(T(v))


@kernel(threads=32)
def k(y: ptr(int)):
    with each(thread, y) as i:
        y[i] = cast(i, T=Pair)  #~ SNAP018
        y[i] = cast(i, T=[int])  #~ SNAP018
