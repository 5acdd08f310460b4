"""A fraction that is dropped on the way to a float, in all the ways that lead there; and what is no trap."""

from __future__ import annotations

from snap import *

WIDTH = 48


@device(thread)
def half(n: int) -> float:
    return n / 2  #~ SNAP030


@kernel(threads=32)
def traps(x: ptr(float), n: int):
    with each(thread, x) as i:
        x[i] = x[i] * (1 / n)  #~ SNAP030
        x[i] += i / 2  #~ SNAP030
        x[i] += (n + i / 4) * 2.0  #~ SNAP030
        x[i] = sqrt(n / 3) + float(n / 5)  #~ SNAP030 SNAP030
        x[i] -= 2 * (1 / 3)  #~ SNAP030
        x[i] = max(x[i], WIDTH / 32)  #~ SNAP030
        quotient = n / 7  #~ SNAP030
        x[i] += 0.5 * quotient
        if x[i] < min(n / 2, 8):  #~ SNAP030
            atomic.add(x, i, n / 9)  #~ SNAP030
        x[i] = half(i)


@kernel(threads=32)
def meant(x: ptr(float), y: ptr(const(float)), n: int):
    with each(thread, x) as i:
        x[i] = x[i] * (1 // n) + WIDTH / 16 + n * 8 / 4 + n / 2.0
        row: int = i / 4
        x[i] += row + i % 3
        above, beside = i / n, i % n
        x[i] += 10.0 * above + beside
        x[i] = x[i] * (3 / 4)  # snap: ok SNAP030
        x[i] = y[i / 2 * 2]
        for k in range(n / 2):
            x[i] += k
