// Intrinsics of CUDA C++: what the compiler makes of each.
#include <cuda_fp16.h>
#include <cuda_bf16.h>

extern "C" __global__ void integers(int* out, const int* x, const long long* y) {
    int a = x[threadIdx.x], b = x[threadIdx.x + 32], r = 0;
    long long p = y[threadIdx.x], q = y[threadIdx.x + 32];
    r ^= __mulhi(a, b); r ^= __umulhi(a, b); r += __mul24(a, b); r += __umul24(a, b); r ^= __sad(a, b, r); r ^= __usad(a, b, r);
    r ^= __clz(a) + __clzll(p) + __popc(b) + __popcll(q) + __ffs(a) + __ffsll(p) + __brev(a) + (int)__brevll(q);
    r ^= __byte_perm(a, b, 0x3715) ^ __funnelshift_l(a, b, 5) ^ __funnelshift_r(a, b, r) ^ __funnelshift_lc(a, b, r) ^ __funnelshift_rc(a, b, 40);
    r ^= (int)(__mul64hi(p, q)) ^ (int)__umul64hi(p, q) ^ (int)(p / (q | 1)) ^ (int)(p % (q | 1)) ^ a / (b | 1) ^ a % (b | 1);
    r ^= __hadd(a, b) ^ __rhadd(a, b) ^ __uhadd(a, b) ^ min(a, b) ^ max(a, b) ^ abs(a) ^ (int)llabs(p);
    r ^= __dp4a(a, b, r) ^ __dp2a_lo(a, b, r) ^ __dp2a_hi(a, b, r);
    r ^= __vadd2(a, b) ^ __vmaxs2(a, b) ^ __vminu4(a, b) ^ __vabsdiffu4(a, b) ^ __vcmpeq2(a, b);
    r ^= (a & b) | (~a & r);
    unsigned low, high;
    asm("add.cc.u32 %0, %2, %3; addc.u32 %1, %4, 5;" : "=r"(low), "=r"(high) : "r"(a), "r"(b), "r"(r));
    out[threadIdx.x] = r ^ low ^ high;
}

extern "C" __global__ void floats(float* out, const float* x, double* d) {
    float a = x[threadIdx.x], b = x[threadIdx.x + 32], r = 0;
    r += __fadd_rz(a, b) + __fadd_ru(a, b) + __fmul_rd(a, b) + __fmaf_rz(a, b, r) + __fsub_ru(a, b);
    r += __frcp_rn(a) + __frcp_ru(b) + __fsqrt_rn(fabsf(a)) + __fsqrt_rd(fabsf(b)) + __fdiv_rn(a, b) + __fdiv_rz(a, b) + __fdividef(a, b);
    r += __expf(a) + __logf(fabsf(b)) + __sinf(a) + __cosf(b) + __powf(fabsf(a), b) + __tanf(a) + rsqrtf(fabsf(a)) + __saturatef(a);
    r += fminf(a, b) + fmaxf(a, b) + copysignf(a, b) + floorf(a) + ceilf(b) + truncf(a) + rintf(b) + roundf(a) + fmodf(a, b) + exp2f(a) + tanhf(b);
    r += isnan(a) + isinf(b) + signbit(a) + isfinite(b) + (a < b) + (a != b) + __float_as_int(a) + __int_as_float(0x3f800000);
    r += __float2int_rn(a) + __float2uint_rz(b) + __int2float_rd((int)a) + __float2ll_rn(a) + __ull2float_rz((unsigned long long)b) + (short)a + (unsigned char)b;
    double c = a, e = b;
    d[threadIdx.x] = __dadd_rz(c, e) + __dmul_ru(c, e) + __fma_rd(c, e, c) + __ddiv_rn(c, e) + __drcp_rz(c) + __dsqrt_rn(fabs(e)) + floor(c) + fmin(c, e)
        + __double2float_rz(c) + __double2int_rn(e) + __ll2double_rd((long long)c) + __hiloint2double(__double2hiint(c), __double2loint(e)) + sqrt(fabs(c)) + fabs(e);
    out[threadIdx.x] = r;
}

extern "C" __global__ void halves(__half* out, const __half* x, __half2* two, __nv_bfloat16* b, __nv_bfloat162* b2, float* f) {
    __half p = x[threadIdx.x], q = x[threadIdx.x + 32];
    out[threadIdx.x] = __hadd(p, q) + __hmul(p, q) - __hfma(p, q, p) + __hmax(p, q) + __habs(p) + hsqrt(q) + hexp2(p) + __float2half_rz(f[0]) + __int2half_rn(3) + __hadd_sat(p, q);
    __half2 u = two[threadIdx.x], v = two[threadIdx.x + 32];
    two[threadIdx.x] = __hfma2(u, v, __hadd2(u, v)) * __hmin2(u, v) + __floats2half2_rn(f[1], f[2]) + __lows2half2(u, v) + __hneg2(u);
    __nv_bfloat16 s = b[threadIdx.x], t = b[threadIdx.x + 32];
    b[threadIdx.x] = s + t * s + __float2bfloat16(f[3]);
#if __CUDA_ARCH__ >= 800
    b[threadIdx.x] += __hfma(s, t, s) + __hmax(s, t);
    b2[threadIdx.x] = __hfma2(b2[threadIdx.x], b2[threadIdx.x + 32], __floats2bfloat162_rn(f[4], f[5]));
#endif
    f[threadIdx.x] = __half2float(p) + __bfloat162float(s) + __low2float(u) + (__hgt(p, q) ? 1.0f : 0.0f) + (__heq(s, t) ? 1.0f : 2.0f) + (__hbeq2(u, v) ? 1.0f : 0.0f);
}

extern "C" __global__ void warps(int* out, const int* x) {
    int a = x[threadIdx.x], r = 0;
    r += __shfl_sync(~0u, a, 3) + __shfl_up_sync(~0u, a, 1) + __shfl_down_sync(~0u, a, 2, 16) + __shfl_xor_sync(~0u, a, 8);
    r += __any_sync(~0u, a > 5) + __all_sync(~0u, a > -5) + __ballot_sync(~0u, a & 1) + __activemask() + __popc(__match_any_sync(~0u, a & 3));
    int same; r += __match_all_sync(~0u, a, &same) + same;
    r += __syncthreads_count(a > 3) + __syncthreads_and(a) + __syncthreads_or(a); __syncwarp();
    long long w = __shfl_sync(~0u, (long long)a << 20, 5); double d = __shfl_xor_sync(~0u, (double)a, 1);
    out[threadIdx.x] = r + (int)(w >> 20) + (int)d + (int)(clock() & 0) + (int)(clock64() & 0) + threadIdx.y + gridDim.z + warpSize;
}

extern "C" __global__ void atomics(int* a, unsigned* u, unsigned long long* l, float* f, double* d, __half2* h, __half* h1, __nv_bfloat162* b) {
    __shared__ int s; if (threadIdx.x == 0) s = 0; __syncthreads();
    atomicAdd(&s, 1); __syncthreads();
    int r = atomicAdd(a, 1) + atomicSub(a + 1, 2) + atomicExch(a + 2, threadIdx.x) + atomicMin(a + 3, threadIdx.x) + atomicMax(a + 4, threadIdx.x) + atomicCAS(a + 5, 0, 7);
    r += atomicAnd(a + 6, threadIdx.x) + atomicOr(a + 7, threadIdx.x) + atomicXor(a + 8, threadIdx.x) + atomicInc(u, 20) + atomicDec(u + 1, 20);
    atomicAdd(l, 5ull); atomicMax(l + 1, 7ull); atomicCAS(l + 2, 0ull, 9ull); atomicAdd(f, 1.0f); atomicExch(f + 1, 2.0f); atomicAdd(a + 10, s);
    atomicAdd(h, __half2(1, 2)); atomicAdd_block(a + 11, 1); atomicAdd_system(a + 12, 1); atomicAdd(d, 2.0);
#if __CUDA_ARCH__ >= 700
    atomicAdd(h1, __half(1)); 
#endif
#if __CUDA_ARCH__ >= 800
    atomicAdd(b, __nv_bfloat162(__nv_bfloat16(1.0f), __nv_bfloat16(2.0f)));
#endif
    a[20 + threadIdx.x] = r & 0;
    __threadfence(); __threadfence_block(); __threadfence_system();
}

extern "C" __global__ void loads(float* out, const float* __restrict__ x, const float4* v, volatile int* w, const double2* d, const char* c) {
    float4 q = v[threadIdx.x]; double2 e = d[threadIdx.x];
    float r = __ldg(x + threadIdx.x) + __ldcg(x) + __ldca(x + 1) + __ldcs(x + 2) + __ldlu(x + 3) + __ldcv(x + 4) + q.x + q.y * q.z - q.w + (float)(e.x + e.y);
    __stcg(out + threadIdx.x, r); __stwb(out + 64, 1.0f); __stcs(out + 65, 2.0f); __stwt(out + 66, 3.0f);
    w[threadIdx.x] = w[threadIdx.x] + c[threadIdx.x];
    if (__isGlobal(x) && !__isShared(x) && !__isLocal(out) && !__isConstant(x)) out[67] = 4.0f;
    asm volatile("{ .reg .pred p; setp.ne.s32 p, %1, 0; @p st.global.f32 [%0], 0f40A00000; }" :: "l"(out + 68), "r"(1) : "memory");
    asm volatile("prefetch.global.L2 [%0];" :: "l"(x)); asm volatile("nanosleep.u32 20;"); asm volatile("pmevent 3;");
    __nanosleep(10); __prof_trigger(1);
}
