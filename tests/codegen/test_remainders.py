"""Remainders and quotients of counters are counted along: when, and that nothing changes by it."""

from __future__ import annotations

import numpy as np
import pytest

from snap import *


@kernel(threads=32)
def both(out: ptr(int), n: int):
    with each(thread, out) as t:
        c: int = 7
        for i in range(n):
            if i % 3 != t % 3:
                k: int = c
                c += 1
                out[32 * i + t] = (k % 5) * 10000 + (k / 5) * 100 + c % 3
        out[32 * n + t] = c


@kernel(threads=32)
def changed_otherwise(out: ptr(int), n: int):
    with each(thread, out) as t:
        c: int = 0
        for i in range(n):
            c += 1
            if i == t:
                c = 2
            out[32 * i + t] = c % 5


@kernel(threads=32)
def begins_below_zero(out: ptr(int), n: int):
    with each(thread, out) as t:
        c: int = -7
        for i in range(n):
            c += 1
            out[32 * i + t] = c % 5 + c / 5


@kernel(threads=32)
def copy_changes(out: ptr(int), n: int):
    with each(thread, out) as t:
        c: int = 0
        for i in range(n):
            k: int = c
            c += 1
            if i > 2:
                k = t
            out[32 * i + t] = k % 5


@kernel(threads=32)
def also_moved(out: ptr(int), n: int):
    with each(thread, out) as t:
        c: int = 0
        for i in range(n):
            c += 1
            c += t
            out[32 * i + t] = c % 5


@kernel(threads=32)
def begins_anew(out: ptr(int), n: int):
    with each(thread, out) as t:
        for i in range(n):
            c: int = 2
            for j in range(i):
                c += 1
            out[32 * i + t] = c % 7 + c / 7


KERNELS = (both, changed_otherwise, begins_below_zero, copy_changes, also_moved, begins_anew)


@pytest.mark.parametrize("k", KERNELS, ids=lambda k: k.__name__)
def test_the_text_computes_what_the_program_says(k):
    """PTX that was made of the text, beside the program on the CPU machine, which knows nothing of this."""
    n = 12
    said, done = np.full(32 * (n + 1), -1, np.int32), np.full(32 * (n + 1), -1, np.int32)
    k.launch(said, n, blocks=1)
    k.launch(done, n, blocks=1, target="ptx")
    assert (said == done).all()


def test_remainder_and_quotient_are_counted_where_the_counter_is():
    text = both.cuda()
    for line in (
        "int c = 7;",
        "int c_mod_5 = 2;",
        "int c_div_5 = 1;",
        "int c_mod_3 = 1;",
        "const int k_mod_5 = c_mod_5;",
        "const int k_div_5 = c_div_5;",
        "++c;",
        "c_div_5 += c_mod_5 == 4 ? 1 : 0;",
        "c_mod_5 = c_mod_5 == 4 ? 0 : c_mod_5 + 1;",
        "c_mod_3 = c_mod_3 == 2 ? 0 : c_mod_3 + 1;",
    ):
        assert line in text, line
    assert "% 5" not in text and "/ 5" not in text
    assert "c_div_3" not in text  # nobody asks for it
    assert text.index("const int k_mod_5") < text.index("++c;")


def test_a_counter_that_nobody_else_asks_for_is_gone():
    text = begins_anew.cuda()
    assert "int c_mod_7 = 2;" in text and "int c = " not in text and "++c" not in text


@pytest.mark.parametrize("k", (changed_otherwise, begins_below_zero, copy_changes, also_moved), ids=lambda k: k.__name__)
def test_what_is_no_counter_is_divided(k):
    assert "_mod_5" not in k.cuda()
