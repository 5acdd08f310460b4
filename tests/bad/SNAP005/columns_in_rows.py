"""What a column agrees on is nothing that code of a row could hold."""

from __future__ import annotations

from snap import *

column = thread.every(16)[8]


@kernel(threads=128)
def example(y: ptr(int)):
    with group(thread[16]):
        i: int @ column = id()  #~ SNAP005
    with group(column):
        j: int @ thread[16] = id()  #~ SNAP005
        k: int @ thread.every(32)[3] = id()  #~ SNAP005
