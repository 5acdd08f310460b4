"""How many elements of a vector a copy reads is an integer, counts elements of the array itself, and takes the place of `valid=`."""

from __future__ import annotations

from snap import *


@kernel(threads=64)
def example(x: ptr(const(float)), wide: ptr(const(float4)), n: int):
    with each(block):
        s: shared(float4[64])
        one: shared(float[64])
        with each(thread, s, one) as t:
            async_copy(s[t], x.view(float4)[t], elements=t < n)  #~ SNAP018
            async_copy(s[t], x.view(float4)[t], elements=float(n))  #~ SNAP018
            async_copy(s[t], x.view(float4)[t], elements=n - 4 * t, valid=t < n)  #~ SNAP018
            async_copy(one[t], wide.view(float)[t], elements=n - t)  #~ SNAP018
        box: shared(float[16, 16])
        async_copy(box, x, at=(0, 0), elements=n)  #~ SNAP018
