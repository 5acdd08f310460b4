"""A role stands where the roles were made; in the code of one of them not all of their threads are there.  And a role is no function."""

from __future__ import annotations

from snap import *


@kernel(threads=256)
def example(n: int):
    with each(block):
        compute, load = roles(128, 128)
        s: shared(float[128])
        with compute(), load(s):  #~ SNAP003
            pass
        load(s)  #~ SNAP017
        with load(n):  #~ SNAP018
            pass
        with each(thread, n) as t:  #~ SNAP018
            pass
    with load():  #~ SNAP019
        pass
