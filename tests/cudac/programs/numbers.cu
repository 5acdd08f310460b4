// Numbers at the edge: NaN, halves, conversions that do not fit, words that wrap.
extern "C" __global__ void __launch_bounds__(32) numbers(const float* x, float* f, unsigned int* u, int n) {
    int i = threadIdx.x;
    float a = x[i], b = x[(i + 5) % n];
    f[i] = fminf(a, b);
    f[32 + i] = max(a, b);
    f[64 + i] = roundf(a) + rintf(b);
    f[96 + i] = truncf(a) + floorf(b) + ceilf(a);
    f[128 + i] = fabsf(a) + copysignf(2.0f, b);
    f[160 + i] = (float)(int)a;
    u[i] = (unsigned int)b;
    atomicSub(&u[32], 7u);
    atomicMax((int*)&u[33], (int)(i * 3) - 50);
    if (i < 4) atomicCAS(&u[34 + i], i == 2 ? 5u : 0u, 9u);
    u[64 + i] = __popc(i * 77u) + __clz(i) + __ffs(i) + (a != a ? 100 : 0);
    u[96 + i] = __brev(i) ^ __float_as_uint(b) ^ (unsigned int)__mulhi(i * 99999999, -7);
}
