// What CUDA C takes for granted: declarations alone, written for the front end, which knows each name.
#pragma once
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __host__ __attribute__((host))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __managed__ __attribute__((device))
#define __forceinline__ inline
#define __noinline__
#define __grid_constant__
#define __restrict__ __restrict
#define __align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
#define __cluster_dims__(...)
#define SNAP_DEV __attribute__((device))
#define SNAP_DH __attribute__((host)) __attribute__((device))
#undef assert
#define __requires(...)
#define __ensures(...)
#define __global_requires(...)
#define __global_ensures(...)
#define __requires_fresh_array(...)
#define __invariant(...)
#define __global_invariant(...)
#define __function_wide_invariant(...)
#define __function_wide_candidate_invariant(...)
#define __candidate_invariant(...)
#define __global_assert(...)
#define __assume(...)
#define __reads_from(...)
#define __writes_to(...)
#define __assert(x) snap_assert(x)
#define assert(x) snap_assert(x)
#define CUDART_INF_F __builtin_inff()
#define CUDART_INF __builtin_inf()
#define M_PI 3.14159265358979323846
#define FLT_MAX 3.402823466e+38F
#define FLT_MIN 1.175494351e-38F
#define FLT_EPSILON 1.192092896e-07F
#define DBL_MAX 1.7976931348623158e+308
#define INT_MAX 2147483647
#define INT_MIN (-2147483647 - 1)
#define UINT_MAX 4294967295u
#define INFINITY __builtin_inff()
#define NULL nullptr
typedef unsigned long size_t;
typedef long ptrdiff_t;
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long int64_t;
typedef unsigned long uint64_t;
typedef long intptr_t;
typedef unsigned long uintptr_t;
typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef int cudaError_t;
typedef long clock_t;
typedef struct CUstream_st* cudaStream_t;
enum cudaMemcpyKind { cudaMemcpyHostToHost, cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice };
struct char1 { signed char x; };
SNAP_DH char1 make_char1(signed char x);
struct char2 { signed char x, y; };
SNAP_DH char2 make_char2(signed char x, signed char y);
struct char3 { signed char x, y, z; };
SNAP_DH char3 make_char3(signed char x, signed char y, signed char z);
struct char4 { signed char x, y, z, w; };
SNAP_DH char4 make_char4(signed char x, signed char y, signed char z, signed char w);
struct uchar1 { unsigned char x; };
SNAP_DH uchar1 make_uchar1(unsigned char x);
struct uchar2 { unsigned char x, y; };
SNAP_DH uchar2 make_uchar2(unsigned char x, unsigned char y);
struct uchar3 { unsigned char x, y, z; };
SNAP_DH uchar3 make_uchar3(unsigned char x, unsigned char y, unsigned char z);
struct uchar4 { unsigned char x, y, z, w; };
SNAP_DH uchar4 make_uchar4(unsigned char x, unsigned char y, unsigned char z, unsigned char w);
struct short1 { short x; };
SNAP_DH short1 make_short1(short x);
struct short2 { short x, y; };
SNAP_DH short2 make_short2(short x, short y);
struct short3 { short x, y, z; };
SNAP_DH short3 make_short3(short x, short y, short z);
struct short4 { short x, y, z, w; };
SNAP_DH short4 make_short4(short x, short y, short z, short w);
struct ushort1 { unsigned short x; };
SNAP_DH ushort1 make_ushort1(unsigned short x);
struct ushort2 { unsigned short x, y; };
SNAP_DH ushort2 make_ushort2(unsigned short x, unsigned short y);
struct ushort3 { unsigned short x, y, z; };
SNAP_DH ushort3 make_ushort3(unsigned short x, unsigned short y, unsigned short z);
struct ushort4 { unsigned short x, y, z, w; };
SNAP_DH ushort4 make_ushort4(unsigned short x, unsigned short y, unsigned short z, unsigned short w);
struct int1 { int x; };
SNAP_DH int1 make_int1(int x);
struct int2 { int x, y; };
SNAP_DH int2 make_int2(int x, int y);
struct int3 { int x, y, z; };
SNAP_DH int3 make_int3(int x, int y, int z);
struct int4 { int x, y, z, w; };
SNAP_DH int4 make_int4(int x, int y, int z, int w);
struct uint1 { unsigned int x; };
SNAP_DH uint1 make_uint1(unsigned int x);
struct uint2 { unsigned int x, y; };
SNAP_DH uint2 make_uint2(unsigned int x, unsigned int y);
struct uint3 { unsigned int x, y, z; };
SNAP_DH uint3 make_uint3(unsigned int x, unsigned int y, unsigned int z);
struct uint4 { unsigned int x, y, z, w; };
SNAP_DH uint4 make_uint4(unsigned int x, unsigned int y, unsigned int z, unsigned int w);
struct long1 { long x; };
SNAP_DH long1 make_long1(long x);
struct long2 { long x, y; };
SNAP_DH long2 make_long2(long x, long y);
struct long3 { long x, y, z; };
SNAP_DH long3 make_long3(long x, long y, long z);
struct long4 { long x, y, z, w; };
SNAP_DH long4 make_long4(long x, long y, long z, long w);
struct ulong1 { unsigned long x; };
SNAP_DH ulong1 make_ulong1(unsigned long x);
struct ulong2 { unsigned long x, y; };
SNAP_DH ulong2 make_ulong2(unsigned long x, unsigned long y);
struct ulong3 { unsigned long x, y, z; };
SNAP_DH ulong3 make_ulong3(unsigned long x, unsigned long y, unsigned long z);
struct ulong4 { unsigned long x, y, z, w; };
SNAP_DH ulong4 make_ulong4(unsigned long x, unsigned long y, unsigned long z, unsigned long w);
struct longlong1 { long long x; };
SNAP_DH longlong1 make_longlong1(long long x);
struct longlong2 { long long x, y; };
SNAP_DH longlong2 make_longlong2(long long x, long long y);
struct longlong3 { long long x, y, z; };
SNAP_DH longlong3 make_longlong3(long long x, long long y, long long z);
struct longlong4 { long long x, y, z, w; };
SNAP_DH longlong4 make_longlong4(long long x, long long y, long long z, long long w);
struct ulonglong1 { unsigned long long x; };
SNAP_DH ulonglong1 make_ulonglong1(unsigned long long x);
struct ulonglong2 { unsigned long long x, y; };
SNAP_DH ulonglong2 make_ulonglong2(unsigned long long x, unsigned long long y);
struct ulonglong3 { unsigned long long x, y, z; };
SNAP_DH ulonglong3 make_ulonglong3(unsigned long long x, unsigned long long y, unsigned long long z);
struct ulonglong4 { unsigned long long x, y, z, w; };
SNAP_DH ulonglong4 make_ulonglong4(unsigned long long x, unsigned long long y, unsigned long long z, unsigned long long w);
struct float1 { float x; };
SNAP_DH float1 make_float1(float x);
struct float2 { float x, y; };
SNAP_DH float2 make_float2(float x, float y);
struct float3 { float x, y, z; };
SNAP_DH float3 make_float3(float x, float y, float z);
struct float4 { float x, y, z, w; };
SNAP_DH float4 make_float4(float x, float y, float z, float w);
struct double1 { double x; };
SNAP_DH double1 make_double1(double x);
struct double2 { double x, y; };
SNAP_DH double2 make_double2(double x, double y);
struct double3 { double x, y, z; };
SNAP_DH double3 make_double3(double x, double y, double z);
struct double4 { double x, y, z, w; };
SNAP_DH double4 make_double4(double x, double y, double z, double w);
struct dim3 {
    unsigned int x, y, z;
    SNAP_DH constexpr dim3(unsigned int x = 1, unsigned int y = 1, unsigned int z = 1) : x(x), y(y), z(z) {}
};
extern SNAP_DEV const uint3 threadIdx;
extern SNAP_DEV const uint3 blockIdx;
extern SNAP_DEV const uint3 blockDim;
extern SNAP_DEV const uint3 gridDim;
static constexpr int warpSize = 32;
__attribute__((host)) int cudaConfigureCall(dim3, dim3, size_t = 0, cudaStream_t = 0);
extern "C" __attribute__((host)) unsigned __cudaPushCallConfiguration(dim3, dim3, size_t = 0, void* = 0);
SNAP_DH double sqrt(double);
SNAP_DH float sqrtf(float);
SNAP_DH float sqrt(float);
SNAP_DH double rsqrt(double);
SNAP_DH float rsqrtf(float);
SNAP_DH float rsqrt(float);
SNAP_DH double cbrt(double);
SNAP_DH float cbrtf(float);
SNAP_DH float cbrt(float);
SNAP_DH double exp(double);
SNAP_DH float expf(float);
SNAP_DH float exp(float);
SNAP_DH double exp2(double);
SNAP_DH float exp2f(float);
SNAP_DH float exp2(float);
SNAP_DH double exp10(double);
SNAP_DH float exp10f(float);
SNAP_DH float exp10(float);
SNAP_DH double expm1(double);
SNAP_DH float expm1f(float);
SNAP_DH float expm1(float);
SNAP_DH double log(double);
SNAP_DH float logf(float);
SNAP_DH float log(float);
SNAP_DH double log2(double);
SNAP_DH float log2f(float);
SNAP_DH float log2(float);
SNAP_DH double log10(double);
SNAP_DH float log10f(float);
SNAP_DH float log10(float);
SNAP_DH double log1p(double);
SNAP_DH float log1pf(float);
SNAP_DH float log1p(float);
SNAP_DH double sin(double);
SNAP_DH float sinf(float);
SNAP_DH float sin(float);
SNAP_DH double cos(double);
SNAP_DH float cosf(float);
SNAP_DH float cos(float);
SNAP_DH double tan(double);
SNAP_DH float tanf(float);
SNAP_DH float tan(float);
SNAP_DH double asin(double);
SNAP_DH float asinf(float);
SNAP_DH float asin(float);
SNAP_DH double acos(double);
SNAP_DH float acosf(float);
SNAP_DH float acos(float);
SNAP_DH double atan(double);
SNAP_DH float atanf(float);
SNAP_DH float atan(float);
SNAP_DH double sinh(double);
SNAP_DH float sinhf(float);
SNAP_DH float sinh(float);
SNAP_DH double cosh(double);
SNAP_DH float coshf(float);
SNAP_DH float cosh(float);
SNAP_DH double tanh(double);
SNAP_DH float tanhf(float);
SNAP_DH float tanh(float);
SNAP_DH double asinh(double);
SNAP_DH float asinhf(float);
SNAP_DH float asinh(float);
SNAP_DH double acosh(double);
SNAP_DH float acoshf(float);
SNAP_DH float acosh(float);
SNAP_DH double atanh(double);
SNAP_DH float atanhf(float);
SNAP_DH float atanh(float);
SNAP_DH double erf(double);
SNAP_DH float erff(float);
SNAP_DH float erf(float);
SNAP_DH double erfc(double);
SNAP_DH float erfcf(float);
SNAP_DH float erfc(float);
SNAP_DH double floor(double);
SNAP_DH float floorf(float);
SNAP_DH float floor(float);
SNAP_DH double ceil(double);
SNAP_DH float ceilf(float);
SNAP_DH float ceil(float);
SNAP_DH double round(double);
SNAP_DH float roundf(float);
SNAP_DH float round(float);
SNAP_DH double rint(double);
SNAP_DH float rintf(float);
SNAP_DH float rint(float);
SNAP_DH double trunc(double);
SNAP_DH float truncf(float);
SNAP_DH float trunc(float);
SNAP_DH double fabs(double);
SNAP_DH float fabsf(float);
SNAP_DH float fabs(float);
SNAP_DH double pow(double, double);
SNAP_DH float powf(float, float);
SNAP_DH float pow(float, float);
SNAP_DH double atan2(double, double);
SNAP_DH float atan2f(float, float);
SNAP_DH float atan2(float, float);
SNAP_DH double fmod(double, double);
SNAP_DH float fmodf(float, float);
SNAP_DH float fmod(float, float);
SNAP_DH double fmin(double, double);
SNAP_DH float fminf(float, float);
SNAP_DH float fmin(float, float);
SNAP_DH double fmax(double, double);
SNAP_DH float fmaxf(float, float);
SNAP_DH float fmax(float, float);
SNAP_DH double hypot(double, double);
SNAP_DH float hypotf(float, float);
SNAP_DH float hypot(float, float);
SNAP_DH double copysign(double, double);
SNAP_DH float copysignf(float, float);
SNAP_DH float copysign(float, float);
SNAP_DH double fma(double, double, double);
SNAP_DH float fmaf(float, float, float);
SNAP_DH float fma(float, float, float);
SNAP_DEV float __expf(float);
SNAP_DEV float __exp10f(float);
SNAP_DEV float __logf(float);
SNAP_DEV float __log2f(float);
SNAP_DEV float __log10f(float);
SNAP_DEV float __sinf(float);
SNAP_DEV float __cosf(float);
SNAP_DEV float __tanf(float);
SNAP_DEV float __frcp_rn(float);
SNAP_DEV float __fsqrt_rn(float);
SNAP_DEV float __fdividef(float, float);
SNAP_DEV float __powf(float, float);
SNAP_DEV float __fadd_rn(float, float);
SNAP_DEV float __fmul_rn(float, float);
SNAP_DEV float __fsub_rn(float, float);
SNAP_DEV float __fdiv_rn(float, float);
SNAP_DEV float __fmaf_rn(float, float, float);
SNAP_DH bool isnan(float);
SNAP_DH bool isinf(float);
SNAP_DH bool isfinite(float);
SNAP_DH bool isnan(double);
SNAP_DH bool isinf(double);
SNAP_DH bool isfinite(double);
SNAP_DH int min(int, int);
SNAP_DH int max(int, int);
SNAP_DH unsigned int min(unsigned int, unsigned int);
SNAP_DH unsigned int max(unsigned int, unsigned int);
SNAP_DH long min(long, long);
SNAP_DH long max(long, long);
SNAP_DH unsigned long min(unsigned long, unsigned long);
SNAP_DH unsigned long max(unsigned long, unsigned long);
SNAP_DH long long min(long long, long long);
SNAP_DH long long max(long long, long long);
SNAP_DH unsigned long long min(unsigned long long, unsigned long long);
SNAP_DH unsigned long long max(unsigned long long, unsigned long long);
SNAP_DH float min(float, float);
SNAP_DH float max(float, float);
SNAP_DH double min(double, double);
SNAP_DH double max(double, double);
SNAP_DH int abs(int);
SNAP_DH long abs(long);
SNAP_DH long long abs(long long);
SNAP_DH float abs(float);
SNAP_DH double abs(double);
SNAP_DH long labs(long);
SNAP_DH long long llabs(long long);
SNAP_DEV int __popc(unsigned int);
SNAP_DEV int __popcll(unsigned long long);
SNAP_DEV int __clz(int);
SNAP_DEV int __clzll(long long);
SNAP_DEV int __ffs(int);
SNAP_DEV int __ffsll(long long);
SNAP_DEV unsigned int __brev(unsigned int);
SNAP_DEV int __mul24(int, int);
SNAP_DEV unsigned int __umul24(unsigned int, unsigned int);
SNAP_DEV int __mulhi(int, int);
SNAP_DEV unsigned int __umulhi(unsigned int, unsigned int);
SNAP_DEV int __float_as_int(float);
SNAP_DEV unsigned int __float_as_uint(float);
SNAP_DEV float __int_as_float(int);
SNAP_DEV float __uint_as_float(unsigned int);
SNAP_DEV long long __double_as_longlong(double);
SNAP_DEV double __longlong_as_double(long long);
SNAP_DEV void __syncthreads();
SNAP_DEV int __syncthreads_or(int);
SNAP_DEV int __syncthreads_and(int);
SNAP_DEV int __syncthreads_count(int);
SNAP_DEV void __syncwarp(unsigned int mask = 0xffffffffu);
SNAP_DEV void __threadfence();
SNAP_DEV void __threadfence_block();
SNAP_DEV void __threadfence_system();
SNAP_DEV int __any_sync(unsigned int, int);
SNAP_DEV int __all_sync(unsigned int, int);
SNAP_DEV unsigned int __ballot_sync(unsigned int, int);
SNAP_DEV unsigned int __activemask();
SNAP_DEV void __nanosleep(unsigned int);
SNAP_DEV long long clock64();
SNAP_DEV int clock();
SNAP_DEV void __trap();
extern "C" SNAP_DH int printf(const char*, ...);
SNAP_DEV void snap_assert(bool);
template <typename T> SNAP_DEV T __ldg(const T*);
template <typename T> SNAP_DEV T __ldcg(const T*);
template <typename T> SNAP_DEV T __ldca(const T*);
template <typename T> SNAP_DEV T __ldcs(const T*);
template <typename T> SNAP_DEV void __stcs(T*, T);
template <typename T> SNAP_DEV void __stcg(T*, T);
template <typename T> SNAP_DEV T __shfl_sync(unsigned int mask, T value, int lane, int width = 32);
template <typename T> SNAP_DEV T __shfl_up_sync(unsigned int mask, T value, int lane, int width = 32);
template <typename T> SNAP_DEV T __shfl_down_sync(unsigned int mask, T value, int lane, int width = 32);
template <typename T> SNAP_DEV T __shfl_xor_sync(unsigned int mask, T value, int lane, int width = 32);
SNAP_DEV int __reduce_add_sync(unsigned int, int);
SNAP_DEV unsigned int __reduce_add_sync(unsigned int, unsigned int);
SNAP_DEV int __reduce_min_sync(unsigned int, int);
SNAP_DEV unsigned int __reduce_min_sync(unsigned int, unsigned int);
SNAP_DEV int __reduce_max_sync(unsigned int, int);
SNAP_DEV unsigned int __reduce_max_sync(unsigned int, unsigned int);
SNAP_DEV int __reduce_and_sync(unsigned int, int);
SNAP_DEV unsigned int __reduce_and_sync(unsigned int, unsigned int);
SNAP_DEV int __reduce_or_sync(unsigned int, int);
SNAP_DEV unsigned int __reduce_or_sync(unsigned int, unsigned int);
SNAP_DEV int __reduce_xor_sync(unsigned int, int);
SNAP_DEV unsigned int __reduce_xor_sync(unsigned int, unsigned int);
SNAP_DEV int atomicAdd(int*, int);
SNAP_DEV unsigned int atomicAdd(unsigned int*, unsigned int);
SNAP_DEV unsigned long long atomicAdd(unsigned long long*, unsigned long long);
SNAP_DEV float atomicAdd(float*, float);
SNAP_DEV double atomicAdd(double*, double);
SNAP_DEV int atomicSub(int*, int);
SNAP_DEV unsigned int atomicSub(unsigned int*, unsigned int);
SNAP_DEV int atomicMin(int*, int);
SNAP_DEV unsigned int atomicMin(unsigned int*, unsigned int);
SNAP_DEV long long atomicMin(long long*, long long);
SNAP_DEV unsigned long long atomicMin(unsigned long long*, unsigned long long);
SNAP_DEV int atomicMax(int*, int);
SNAP_DEV unsigned int atomicMax(unsigned int*, unsigned int);
SNAP_DEV long long atomicMax(long long*, long long);
SNAP_DEV unsigned long long atomicMax(unsigned long long*, unsigned long long);
SNAP_DEV int atomicAnd(int*, int);
SNAP_DEV unsigned int atomicAnd(unsigned int*, unsigned int);
SNAP_DEV long long atomicAnd(long long*, long long);
SNAP_DEV unsigned long long atomicAnd(unsigned long long*, unsigned long long);
SNAP_DEV int atomicOr(int*, int);
SNAP_DEV unsigned int atomicOr(unsigned int*, unsigned int);
SNAP_DEV long long atomicOr(long long*, long long);
SNAP_DEV unsigned long long atomicOr(unsigned long long*, unsigned long long);
SNAP_DEV int atomicXor(int*, int);
SNAP_DEV unsigned int atomicXor(unsigned int*, unsigned int);
SNAP_DEV long long atomicXor(long long*, long long);
SNAP_DEV unsigned long long atomicXor(unsigned long long*, unsigned long long);
SNAP_DEV int atomicExch(int*, int);
SNAP_DEV unsigned int atomicExch(unsigned int*, unsigned int);
SNAP_DEV unsigned long long atomicExch(unsigned long long*, unsigned long long);
SNAP_DEV float atomicExch(float*, float);
SNAP_DEV int atomicCAS(int*, int, int);
SNAP_DEV unsigned int atomicCAS(unsigned int*, unsigned int, unsigned int);
SNAP_DEV unsigned long long atomicCAS(unsigned long long*, unsigned long long, unsigned long long);
SNAP_DEV unsigned int atomicInc(unsigned int*, unsigned int);
SNAP_DEV unsigned int atomicDec(unsigned int*, unsigned int);
SNAP_DH unsigned int umin(unsigned int, unsigned int);
SNAP_DH unsigned int umax(unsigned int, unsigned int);
SNAP_DEV int __all(int);
SNAP_DEV int __any(int);
