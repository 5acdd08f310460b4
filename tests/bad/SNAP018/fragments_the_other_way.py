"""A matrix that lies transposed in shared memory is `tile.T`, and one that does not is not."""

from snap import *


@kernel(threads=32, blocks=1)
def k(a: ptr(const(bf16), (8, 16)), y: ptr(float, (32,))):
    with each(block, y):
        s, w = shared(bf16[8, 16]), shared(bf16[16, 8])
        fb, fc = registers(fragment.B(bf16[16, 8]), fragment.B(bf16[16, 8]))
        with each(thread, s, w) as t:
            for i in range(t, 128, 32):
                s[i / 16, i % 16] = a[i / 16, i % 16]
                w[i % 16, i / 16] = a[i / 16, i % 16]
        with each(warp):
            intrinsic.ldmatrix(fb, s)  #~ SNAP018
            intrinsic.ldmatrix(fc, w.T)  #~ SNAP018
        with each(thread, y) as t:
            y[t] = float(fb[0]) + float(fc[0])
