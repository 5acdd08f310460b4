"""`ldmatrix` and `stmatrix` move the matrix that a fragment is of; its elements lie where its type says."""

from __future__ import annotations

from snap import *


@kernel
@requires(grid[1], block[1], thread[32])
def example(x: ptr(const(bf16), (16, 16))):
    with group(block[1]):
        s: shared(bf16[16, 32])
        a: fragment.A(bf16[16, 16]) @ thread[1]
        two: fragment.A(bf16[16, 16])[2] @ thread[1]
        b: fragment.B(bf16[16, 8])[2] @ thread[1]
        plain: bf16[8] @ thread[1]
        with group(warp):
            intrinsic.ldmatrix(a, s)  #~ SNAP018
            intrinsic.ldmatrix(a, tile(s, (0, 0), (16, 8)))  #~ SNAP018
            intrinsic.ldmatrix(a, tile(s, (0, 0), (16, 16)), trans=True)  #~ SNAP018
            intrinsic.ldmatrix(b, tile(s, (0, 0), (8, 32)).T)  #~ SNAP018
            intrinsic.ldmatrix(plain, tile(s, (0, 0), (16, 16)))  #~ SNAP018
            intrinsic.ldmatrix(a, x)  #~ SNAP018
            intrinsic.ldmatrix(two, tile(s, (0, 0), (16, 16)))  #~ SNAP018
            n: int @ thread[1] = fragment.row(a, 8)  #~ SNAP018
            m: int @ thread[1] = fragment.column(plain, 0)  #~ SNAP018
            k: int = fragment.column(a, 0)  #~ SNAP006
            l: int @ thread[1] = fragment.place(a, 0)  #~ SNAP018
            o: int @ thread[1] = fragment.row(a, -1)  #~ SNAP018
            q: int @ thread[1] = fragment.A(bf16[16, 16])  #~ SNAP018
