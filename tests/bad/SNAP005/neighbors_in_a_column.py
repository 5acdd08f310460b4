"""The threads of a column lie at a stride: two neighbors are in two columns."""

from snap import *

column = thread.every(8)[4]


@kernel(threads=32, blocks=1)
def k(y: ptr(float, (32,))):
    with each(block, y):
        with each(column, y) as i:
            half: int @ thread[2] = id()  #~ SNAP005
            with partition(y, p=thread[2]) as part:  #~ SNAP005
                pass
            with each(thread, y) as t:
                y[8 * t + i] = float(half)
