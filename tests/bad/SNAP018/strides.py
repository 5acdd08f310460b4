"""What is no stride, and no group at one."""

from __future__ import annotations

from snap import *

column = thread.every(16)[8]
S = 0


@kernel(threads=128)
def example(y: ptr(int)):
    with group(thread.every(16)):  #~ SNAP018
        pass
    with group(thread.every(S)[8]):  #~ SNAP018
        pass
    with group(thread.every(2, 3)[8]):  #~ SNAP018
        pass
    with group(column.every(2)[4]):  #~ SNAP018
        pass
    with group(column[3]):  #~ SNAP018
        pass
    with group(thread.every(16)[0]):  #~ SNAP018
        pass
    match split(column):  #~ SNAP018
        case 1:
            pass
    t: int @ thread[1] = id()
    with group(thread.every(4)[8]):
        v: int @ thread[1] = intrinsic.shfl_up(t, 1, width=4)  #~ SNAP018
