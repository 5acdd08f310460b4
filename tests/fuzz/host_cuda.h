// What generated CUDA text needs of CUDA, for g++: qualifiers, types, numbers, and what threads do together.
// Nothing is included, so that a file of many kernels compiles fast; host_runtime.cpp has the threads and everything that takes more than a line.
#pragma once

#define __global__
#define __device__
#define __constant__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __grid_constant__
#define __align__(n) alignas(n)

typedef unsigned long size_t;
struct dim3 { unsigned int x, y, z; };
extern dim3 threadIdx, blockIdx, blockDim, gridDim;
static const int warpSize = 32;
extern "C" int printf(const char* format, ...);

// ---- vectors

#define SNAP_VECTOR2(type, name, align) \
    struct alignas(align) name { type x, y; }; \
    static inline name make_##name(type x, type y) { return {x, y}; }
#define SNAP_VECTOR4(type, name, align) \
    struct alignas(align) name { type x, y, z, w; }; \
    static inline name make_##name(type x, type y, type z, type w) { return {x, y, z, w}; }
SNAP_VECTOR2(signed char, char2, 2) SNAP_VECTOR4(signed char, char4, 4) SNAP_VECTOR2(unsigned char, uchar2, 2) SNAP_VECTOR4(unsigned char, uchar4, 4)
SNAP_VECTOR2(short, short2, 4) SNAP_VECTOR4(short, short4, 8) SNAP_VECTOR2(unsigned short, ushort2, 4) SNAP_VECTOR4(unsigned short, ushort4, 8)
SNAP_VECTOR2(int, int2, 8) SNAP_VECTOR4(int, int4, 16) SNAP_VECTOR2(unsigned int, uint2, 8) SNAP_VECTOR4(unsigned int, uint4, 16)
SNAP_VECTOR2(long long, longlong2, 16) SNAP_VECTOR2(unsigned long long, ulonglong2, 16)
SNAP_VECTOR2(float, float2, 8) SNAP_VECTOR4(float, float4, 16) SNAP_VECTOR2(double, double2, 16)

// ---- 16-bit floats: every operation is exact and then rounded once, to nearest even

namespace snap_host {
unsigned short narrow16(double exact, int is_bf16);
unsigned short narrow16(long long exact, int is_bf16);
unsigned short narrow16(unsigned long long exact, int is_bf16);
unsigned short fma16(unsigned short a, unsigned short b, unsigned short c, int is_bf16);
float widen_half(unsigned short bits);
static inline float widen16(unsigned short bits, int is_bf16) {
    if (!is_bf16) {
        return widen_half(bits);
    }
    unsigned int wide = (unsigned int)bits << 16;
    float value;
    __builtin_memcpy(&value, &wide, 4);
    return value;
}
template <int is_bf16>
struct alignas(2) Half {
    unsigned short bits;
    operator float() const { return widen16(bits, is_bf16); }
    static Half of(double exact) { return {narrow16(exact, is_bf16)}; }
};
template <int k> static inline Half<k> operator+(Half<k> a, Half<k> b) { return Half<k>::of((double)(float)a + (float)b); }
template <int k> static inline Half<k> operator-(Half<k> a, Half<k> b) { return Half<k>::of((double)(float)a - (float)b); }
template <int k> static inline Half<k> operator*(Half<k> a, Half<k> b) { return Half<k>::of((double)(float)a * (float)b); }
template <int k> static inline Half<k> operator/(Half<k> a, Half<k> b) { return Half<k>::of((double)((float)a / (float)b)); }
template <int k> static inline Half<k> operator-(Half<k> a) { return {(unsigned short)(a.bits ^ 0x8000)}; }
template <int k> static inline Half<k> operator+(Half<k> a) { return a; }
template <int k> static inline Half<k>& operator+=(Half<k>& a, Half<k> b) { return a = a + b; }
template <int k> static inline Half<k>& operator-=(Half<k>& a, Half<k> b) { return a = a - b; }
template <int k> static inline Half<k>& operator*=(Half<k>& a, Half<k> b) { return a = a * b; }
template <int k> static inline Half<k>& operator/=(Half<k>& a, Half<k> b) { return a = a / b; }
#define SNAP_COMPARE(op) template <int k> static inline bool operator op(Half<k> a, Half<k> b) { return (float)a op (float)b; }
SNAP_COMPARE(==) SNAP_COMPARE(!=) SNAP_COMPARE(<) SNAP_COMPARE(<=) SNAP_COMPARE(>) SNAP_COMPARE(>=)
template <int k>
struct alignas(4) Half2 {
    Half<k> x, y;
    Half2() = default;
    Half2(Half<k> x, Half<k> y) : x(x), y(y) {}
};
template <class To, class From>
static inline To same_bits(From from) {
    static_assert(sizeof(To) == sizeof(From), "");
    To to;
    __builtin_memcpy(&to, &from, sizeof(To));
    return to;
}
static inline unsigned int special_clock() {
    static unsigned int now = 1;
    return now = now * 1664525 + 1013904223;
}
}  // namespace snap_host
#define memcpy __builtin_memcpy
typedef snap_host::Half<0> __half;
typedef snap_host::Half<1> __nv_bfloat16;
typedef snap_host::Half2<0> __half2;
typedef snap_host::Half2<1> __nv_bfloat162;

static inline float __half2float(__half x) { return x; }
static inline float __bfloat162float(__nv_bfloat16 x) { return x; }
static inline unsigned short __half_as_ushort(__half x) { return x.bits; }
static inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 x) { return x.bits; }
static inline __half __ushort_as_half(unsigned short x) { return {x}; }
static inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short x) { return {x}; }
#define SNAP_NARROW(from, half, bf16, wide) \
    static inline __half half(from x) { return {snap_host::narrow16((wide)x, 0)}; } \
    static inline __nv_bfloat16 bf16(from x) { return {snap_host::narrow16((wide)x, 1)}; }
SNAP_NARROW(float, __float2half, __float2bfloat16, double)
SNAP_NARROW(double, __double2half, __double2bfloat16, double)
SNAP_NARROW(int, __int2half_rn, __int2bfloat16_rn, long long)
SNAP_NARROW(unsigned int, __uint2half_rn, __uint2bfloat16_rn, long long)
SNAP_NARROW(long long, __ll2half_rn, __ll2bfloat16_rn, long long)
SNAP_NARROW(unsigned long long, __ull2half_rn, __ull2bfloat16_rn, unsigned long long)
static inline __half2 __floats2half2_rn(float x, float y) { return {__float2half(x), __float2half(y)}; }
static inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y) { return {__float2bfloat16(x), __float2bfloat16(y)}; }
template <int k> static inline snap_host::Half<k> __hmin(snap_host::Half<k> a, snap_host::Half<k> b) {
    return snap_host::Half<k>::of(__builtin_fminf(a, b));
}
template <int k> static inline snap_host::Half<k> __hmax(snap_host::Half<k> a, snap_host::Half<k> b) {
    return snap_host::Half<k>::of(__builtin_fmaxf(a, b));
}
template <int k> static inline snap_host::Half<k> __habs(snap_host::Half<k> a) { return {(unsigned short)(a.bits & 0x7fff)}; }
template <int k> static inline snap_host::Half<k> __hfma(snap_host::Half<k> a, snap_host::Half<k> b, snap_host::Half<k> c) {
    return {snap_host::fma16(a.bits, b.bits, c.bits, k)};
}

static inline unsigned int __float_as_uint(float x) { return snap_host::same_bits<unsigned int>(x); }
static inline int __float_as_int(float x) { return snap_host::same_bits<int>(x); }
static inline float __uint_as_float(unsigned int x) { return snap_host::same_bits<float>(x); }
static inline float __int_as_float(int x) { return snap_host::same_bits<float>(x); }
static inline long long __double_as_longlong(double x) { return snap_host::same_bits<long long>(x); }
static inline double __longlong_as_double(long long x) { return snap_host::same_bits<double>(x); }

// ---- functions

#ifndef SNAP_HOST_RUNTIME  // which has the library's own
extern "C" {
#define SNAP_MATH1(name) double name(double) noexcept; float name##f(float) noexcept;
#define SNAP_MATH2(name) double name(double, double) noexcept; float name##f(float, float) noexcept;
SNAP_MATH1(sqrt) SNAP_MATH1(cbrt) SNAP_MATH1(exp) SNAP_MATH1(exp2) SNAP_MATH1(exp10) SNAP_MATH1(expm1) SNAP_MATH1(log) SNAP_MATH1(log2)
SNAP_MATH1(log10) SNAP_MATH1(log1p) SNAP_MATH1(sin) SNAP_MATH1(cos) SNAP_MATH1(tan) SNAP_MATH1(asin) SNAP_MATH1(acos) SNAP_MATH1(atan)
SNAP_MATH1(sinh) SNAP_MATH1(cosh) SNAP_MATH1(tanh) SNAP_MATH1(asinh) SNAP_MATH1(acosh) SNAP_MATH1(atanh) SNAP_MATH1(erf) SNAP_MATH1(erfc)
SNAP_MATH1(tgamma) SNAP_MATH1(lgamma) SNAP_MATH1(floor) SNAP_MATH1(ceil) SNAP_MATH1(trunc) SNAP_MATH1(round) SNAP_MATH1(rint) SNAP_MATH1(fabs)
SNAP_MATH2(pow) SNAP_MATH2(atan2) SNAP_MATH2(fmod) SNAP_MATH2(hypot) SNAP_MATH2(fmin) SNAP_MATH2(fmax) SNAP_MATH2(copysign)
double fma(double, double, double) noexcept;
float fmaf(float, float, float) noexcept;
}
static inline float rsqrtf(float x) { return (float)(1.0 / sqrt((double)x)); }
static inline double rsqrt(double x) { return 1.0 / sqrt(x); }
static inline float __expf(float x) { return expf(x); }
static inline float __logf(float x) { return logf(x); }
static inline float __log2f(float x) { return log2f(x); }
static inline float __log10f(float x) { return log10f(x); }
static inline float __sinf(float x) { return sinf(x); }
static inline float __cosf(float x) { return cosf(x); }
static inline float __powf(float x, float y) { return powf(x, y); }
static inline float __fdividef(float x, float y) { return x / y; }
static inline int isnan(double x) { return x != x; }
static inline int isinf(double x) { return __builtin_isinf(x) != 0; }
static inline int isfinite(double x) { return __builtin_isfinite(x); }
static inline int abs(int x) { return x < 0 ? (int)(0u - (unsigned int)x) : x; }
static inline long long llabs(long long x) { return x < 0 ? (long long)(0ull - (unsigned long long)x) : x; }
#define SNAP_MIN_MAX(type) \
    static inline type min(type a, type b) { return b < a ? b : a; } \
    static inline type max(type a, type b) { return a < b ? b : a; }
SNAP_MIN_MAX(int) SNAP_MIN_MAX(unsigned int) SNAP_MIN_MAX(long long) SNAP_MIN_MAX(unsigned long long)
static inline unsigned int min(int a, unsigned int b) { return min((unsigned int)a, b); }
static inline unsigned int min(unsigned int a, int b) { return min(a, (unsigned int)b); }
static inline unsigned int max(int a, unsigned int b) { return max((unsigned int)a, b); }
static inline unsigned int max(unsigned int a, int b) { return max(a, (unsigned int)b); }
static inline int __ffs(int x) { return __builtin_ffs(x); }
static inline int __ffsll(long long x) { return __builtin_ffsll(x); }
static inline int __popc(unsigned int x) { return __builtin_popcount(x); }
static inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
static inline int __clz(int x) { return x ? __builtin_clz(x) : 32; }
static inline int __clzll(long long x) { return x ? __builtin_clzll(x) : 64; }
static inline unsigned long long __brevll(unsigned long long x) {
    unsigned long long out = 0;
    for (int i = 0; i < 64; ++i) {
        out |= (x >> i & 1) << (63 - i);
    }
    return out;
}
static inline unsigned int __brev(unsigned int x) { return (unsigned int)(__brevll(x) >> 32); }
static inline int __mulhi(int a, int b) { return (int)((long long)a * b >> 32); }
static inline unsigned int __umulhi(unsigned int a, unsigned int b) { return (unsigned int)((unsigned long long)a * b >> 32); }
static inline long long __mul64hi(long long a, long long b) { return (long long)((__int128)a * b >> 64); }
static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) { return (unsigned long long)((unsigned __int128)a * b >> 64); }
#define SNAP_DOT(name, word, half, byte, bits, first)                                                                       \
    static inline word name(word a, word b, word c) {                                                                      \
        unsigned int sum = (unsigned int)c;                                                                                \
        for (int k = 0; k < 32 / bits; ++k) {                                                                              \
            sum += (unsigned int)((int)(half)(a >> k * bits) * (int)(byte)(b >> 8 * (first + k)));                         \
        }                                                                                                                  \
        return (word)sum;                                                                                                  \
    }
SNAP_DOT(__dp4a, int, signed char, signed char, 8, 0) SNAP_DOT(__dp4a, unsigned int, unsigned char, unsigned char, 8, 0)
SNAP_DOT(__dp2a_lo, int, short, signed char, 16, 0) SNAP_DOT(__dp2a_lo, unsigned int, unsigned short, unsigned char, 16, 0)
SNAP_DOT(__dp2a_hi, int, short, signed char, 16, 2) SNAP_DOT(__dp2a_hi, unsigned int, unsigned short, unsigned char, 16, 2)
#undef SNAP_DOT
static inline int __hadd(int a, int b) { return (int)(((long long)a + b) >> 1); }
#endif

namespace snap_host {

// C's cast of a value, except that a float which does not fit an integer saturates, and a NaN gives 0, or where either has 64 bits the integer's top bit alone.
template <class T> struct Limits;
#define SNAP_LIMITS(type, least, most) template <> struct Limits<type> { static constexpr type low = least, high = most; };
SNAP_LIMITS(int, -2147483647 - 1, 2147483647) SNAP_LIMITS(unsigned int, 0, 4294967295u)
SNAP_LIMITS(long long, -9223372036854775807ll - 1, 9223372036854775807ll) SNAP_LIMITS(unsigned long long, 0, 18446744073709551615ull)
template <class T> static inline T saturated(double x, bool wide) {
    return x != x ? (wide ? (T)(1ull << (8 * sizeof(T) - 1)) : 0) : x <= (double)Limits<T>::low ? Limits<T>::low : x >= (double)Limits<T>::high ? Limits<T>::high : (T)x;
}
template <class T, class From> struct To { static T of(From x) { return (T)x; } };
#define SNAP_TO(type) \
    template <> struct To<type, float> { static type of(float x) { return saturated<type>(x, sizeof(type) == 8); } }; \
    template <> struct To<type, double> { static type of(double x) { return saturated<type>(x, true); } };
SNAP_TO(int) SNAP_TO(unsigned int) SNAP_TO(long long) SNAP_TO(unsigned long long)
template <class T, class From> static inline T to(From x) { return To<T, From>::of(x); }

// ---- what threads do together; see host_runtime.cpp

[[noreturn]] void fail(const char* kind, const char* format, ...);
unsigned char* shared(unsigned int offset);  // of this block
unsigned int shared_address(const void* place);
unsigned long long mapa(unsigned long long here, int block);
unsigned int mapa_shared(unsigned int here, int block);
int block_barrier(const char* name, int reduction, int value);
void bar(int number, int threads, bool waits);
void warp_sync(unsigned int mask);
unsigned long long shuffle(const char* name, int mode, unsigned int mask, unsigned long long bits, int by, int width);
unsigned int vote(const char* name, unsigned int mask, bool value);
static inline unsigned int elected(unsigned int members) {  // the lane that elect.sync chooses: not the first where there are others
    return 31 - __builtin_clz(members & 0x00ffffffu ? members & 0x00ffffffu : members);
}
unsigned int reduce(const char* name, unsigned int mask, unsigned int value);
unsigned int match(const char* name, unsigned int mask, unsigned long long bits);
void spins();     // a strong load: others may have to go on before it says something else
void announces();  // a strong store or an atomic
void cluster_arrive();
void cluster_wait();
void mbarrier_init(unsigned int at, unsigned int count);
unsigned long long mbarrier_arrive(unsigned int at);
void mbarrier_expect(unsigned int at, unsigned int bytes);
bool mbarrier_try_wait(unsigned int at, unsigned int parity);
void copy_async(unsigned int to, const void* from, int bytes, int read);
void copy_commit();
void copy_wait(int younger);
void copy_arrive(unsigned int at);
void box_load(unsigned int to, const void* map, const int* at, int rank, unsigned int barrier, int blocks);
void box_store(const char* op, const void* map, const int* at, int rank, unsigned int from);
void box_commit();
void box_wait(int younger, bool read);
void load_matrix(int count, bool transposed, unsigned int row, unsigned int* const* to);
void store_matrix(int count, bool transposed, unsigned int row, const unsigned int* from);
void mma(const char* type, float* const* d, const unsigned int* a, const unsigned int* b, const float* c);
void wgmma(const char* type, const char* other, int n, void* d, bool wide, const unsigned int* registers, unsigned long long a, unsigned long long b, bool keep, int a_major, int b_major);
void wgmma_commit();
void wgmma_wait(int younger);
void mma_of(const char* left, const char* right, const char* sums, int k, int na, int nb, int nc, bool saturate, void* const* d, const void* a, const void* b, const void* c);
double small_float(const char* kind, unsigned int bits);
unsigned short small_bits(const char* kind, float x);
unsigned int tf32(float x);

template <class T> static inline unsigned long long raw(T value) {
    static_assert(sizeof(T) <= 8, "");
    unsigned long long bits = 0;
    __builtin_memcpy(&bits, &value, sizeof(T));
    return bits;
}
template <class T> static inline T unraw(unsigned long long bits) {
    T value;
    __builtin_memcpy(&value, &bits, sizeof(T));
    return value;
}
template <class T, class P> static inline T load(P address) {
    spins();
    return *(const volatile T*)(const void*)address;
}
template <class T, class P, class V> static inline void store(P address, V value) {
    *(volatile T*)(void*)address = (T)value;
    announces();
}
template <class T> static inline T add(T a, T b) { return a + b; }
static inline int add(int a, int b) { return (int)((unsigned int)a + (unsigned int)b); }
template <class T> static inline T lesser(T a, T b) { return b < a ? b : a; }
template <class T> static inline T greater(T a, T b) { return a < b ? b : a; }
template <class T> static inline T both(T a, T b) { return a & b; }
template <class T> static inline T either(T a, T b) { return a | b; }
template <class T> static inline T differs(T a, T b) { return a ^ b; }
static inline unsigned int counted_up(unsigned int a, unsigned int b) { return a >= b ? 0 : a + 1; }
static inline unsigned int counted_down(unsigned int a, unsigned int b) { return a == 0 || a > b ? b : a - 1; }
template <class T> static inline T second(T, T b) { return b; }
// An atomic that leaves its element as it was may be one of a loop that waits.
template <class T> static inline void done(T old, T now) {
    if (raw(old) == raw(now)) {
        spins();
    } else {
        announces();
    }
}
template <class T> static inline T update(T* address, T value, T (*f)(T, T)) {
    T old = *address, now = f(old, value);
    *address = now;
    done(old, now);
    return old;
}
template <class T> static inline T swap_if(T* address, T compare, T value) {
    T old = *address, now = old == compare ? value : old;
    *address = now;
    done(old, now);
    return old;
}
template <unsigned... I> struct Numbers {};
template <class T> struct Plain { typedef T type; };
template <class T> struct Plain<const T> { typedef T type; };
template <class... P, unsigned... I> static inline void call(void (*kernel)(P...), void** arguments, Numbers<I...>) {
    kernel(*(typename Plain<P>::type*)arguments[I]...);
}
template <class... P> static inline void call(void (*kernel)(P...), void** arguments) {
    call(kernel, arguments, Numbers<__integer_pack(sizeof...(P))...>());
}
}  // namespace snap_host

static inline unsigned int __cvta_generic_to_shared(const void* place) { return snap_host::shared_address(place); }
static inline void __threadfence() {}
static inline void __threadfence_block() {}
static inline void __threadfence_system() {}
static inline void __trap() { snap_host::fail("trap", "the kernel traps"); }
static inline void __assert_fail(const char* text, const char*, unsigned int, const char*) { snap_host::fail("assert", text); }
static inline void __nanosleep(unsigned int) { snap_host::spins(); }
static inline void __syncthreads() { snap_host::block_barrier("__syncthreads", 0, 0); }
static inline int __syncthreads_or(int value) { return snap_host::block_barrier("__syncthreads_or", 1, value) > 0; }
static inline int __syncthreads_and(int value) { return snap_host::block_barrier("__syncthreads_and", 1, !value) == 0; }
static inline int __syncthreads_count(int value) { return snap_host::block_barrier("__syncthreads_count", 1, value); }
static inline void __syncwarp(unsigned int mask = 0xffffffffu) { snap_host::warp_sync(mask); }
#define SNAP_SHUFFLE(name, mode) \
    template <class T> static inline T name(unsigned int mask, T value, int by, int width = 32) { \
        return snap_host::unraw<T>(snap_host::shuffle(#name, mode, mask, snap_host::raw(value), by, width)); \
    }
SNAP_SHUFFLE(__shfl_sync, 0) SNAP_SHUFFLE(__shfl_up_sync, 1) SNAP_SHUFFLE(__shfl_down_sync, 2) SNAP_SHUFFLE(__shfl_xor_sync, 3)
static inline unsigned int __ballot_sync(unsigned int mask, int value) { return snap_host::vote("__ballot_sync", mask, value != 0); }
static inline int __any_sync(unsigned int mask, int value) { return snap_host::vote("__any_sync", mask, value != 0) != 0; }
static inline int __all_sync(unsigned int mask, int value) { return snap_host::vote("__all_sync", mask, value != 0) == mask; }
template <class T> static inline unsigned int __match_any_sync(unsigned int mask, T value) {
    return snap_host::match("__match_any_sync", mask, snap_host::raw(value));
}
template <class T> static inline unsigned int __match_all_sync(unsigned int mask, T value, int* agree) {
    const unsigned int same = snap_host::match("__match_all_sync", mask, snap_host::raw(value));
    *agree = same == mask;
    return *agree ? mask : 0;
}
static inline unsigned int __activemask() { return 0xffffffffu; }
#define SNAP_REDUCE(name, type) \
    static inline type name(unsigned int mask, type value) { return (type)snap_host::reduce(#name "(" #type ")", mask, (unsigned int)value); }
SNAP_REDUCE(__reduce_add_sync, int) SNAP_REDUCE(__reduce_add_sync, unsigned int) SNAP_REDUCE(__reduce_min_sync, int)
SNAP_REDUCE(__reduce_min_sync, unsigned int) SNAP_REDUCE(__reduce_max_sync, int) SNAP_REDUCE(__reduce_max_sync, unsigned int)
SNAP_REDUCE(__reduce_and_sync, unsigned int) SNAP_REDUCE(__reduce_or_sync, unsigned int) SNAP_REDUCE(__reduce_xor_sync, unsigned int)

// CUDA's own atomics, for the types that have them.
#define SNAP_ATOMIC(name, function, type) \
    static inline type name(type* address, type value) { return snap_host::update<type>(address, value, snap_host::function); }
SNAP_ATOMIC(atomicAdd, add, int) SNAP_ATOMIC(atomicAdd, add<unsigned int>, unsigned int) SNAP_ATOMIC(atomicAdd, add<unsigned long long>, unsigned long long)
SNAP_ATOMIC(atomicAdd, add<float>, float) SNAP_ATOMIC(atomicAdd, add<double>, double) SNAP_ATOMIC(atomicAdd, add<__half>, __half)
SNAP_ATOMIC(atomicAdd, add<__nv_bfloat16>, __nv_bfloat16)
template <int k>
static inline snap_host::Half2<k> atomicAdd(snap_host::Half2<k>* address, snap_host::Half2<k> value) {
    return snap_host::Half2<k>(atomicAdd(&address->x, value.x), atomicAdd(&address->y, value.y));
}
#define SNAP_ATOMICS(name, function) \
    SNAP_ATOMIC(name, function<int>, int) SNAP_ATOMIC(name, function<unsigned int>, unsigned int) \
    SNAP_ATOMIC(name, function<unsigned long long>, unsigned long long)
SNAP_ATOMICS(atomicMin, lesser) SNAP_ATOMICS(atomicMax, greater) SNAP_ATOMIC(atomicMin, lesser<long long>, long long)
SNAP_ATOMIC(atomicMax, greater<long long>, long long)
SNAP_ATOMICS(atomicAnd, both) SNAP_ATOMICS(atomicOr, either) SNAP_ATOMICS(atomicXor, differs) SNAP_ATOMICS(atomicExch, second)
SNAP_ATOMIC(atomicExch, second<float>, float)
SNAP_ATOMIC(atomicInc, counted_up, unsigned int) SNAP_ATOMIC(atomicDec, counted_down, unsigned int)
#define SNAP_SWAP(type) \
    static inline type atomicCAS(type* address, type compare, type value) { return snap_host::swap_if(address, compare, value); }
SNAP_SWAP(int) SNAP_SWAP(unsigned int) SNAP_SWAP(unsigned long long) SNAP_SWAP(unsigned short)
