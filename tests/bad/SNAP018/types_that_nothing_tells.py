"""A call leaves out what its arguments tell; what they do not tell, or tell twice, it has to say."""

from __future__ import annotations

from snap import *


@device(thread)
def zero(T: constexpr(type)) -> T:
    return 0


@device(thread)
def first(x: ptr(const(T), (N,)), v: T, T: constexpr(type), N: constexpr(int)) -> T:
    return x[N - 1] + v


@device(thread)
def apart(a: ref(T[N]), b: ref(T[N]), T: constexpr(type), N: constexpr(int)):
    a[0] = b[0]


@kernel(threads=32)
def example(x: ptr(const(float)), n: int):
    with each(thread):
        a, b, c = registers(int[2], int[3], float[2])
        v: float = zero()  #~ SNAP018
        w: float = first(x, 1)  #~ SNAP018
        apart(a, b)  #~ SNAP018
        apart(a, c)  #~ SNAP018
        u: float = first(x, 1, T=3)  #~ SNAP018
        z: float = zero(T=n)  #~ SNAP018
