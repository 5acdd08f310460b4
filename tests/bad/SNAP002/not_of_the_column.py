"""Neighbors are not in one column: code of a column is divided into threads of the column."""

from __future__ import annotations

from snap import *

column = thread.every(16)[8]


@kernel(threads=128)
def example(y: ptr(int)):
    with group(column):
        with group(thread[2]):  #~ SNAP002
            pass
    with group(column):
        with group(thread.every(8)[2]):  #~ SNAP002
            pass
