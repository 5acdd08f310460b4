// What CUDA C++ has that PTX shows: functions and calls, switches, recursion, function pointers, virtual functions, statics, constants,
// structures by value, printf, assertions, local arrays, dynamic shared memory, loops with pragmas.
#include <cuda_fp16.h>

struct Pair { int a; double b; };
struct Big { int values[9]; };

__constant__ int table[8] = {3, 1, 4, 1, 5, 9, 2, 6};
__device__ int counter = 7;
__device__ float row[4] = {1.5f, -2.0f, 0.0f, 3.25f};
__device__ int* where = &counter;
__device__ const char* name = "a \"name\"\n";
extern __shared__ float dynamic_memory[];

__noinline__ __device__ int twice(int x) { return x + x; }
__noinline__ __device__ Pair both(int x, double y) { Pair p; p.a = x * 3; p.b = y / 2; return p; }
__noinline__ __device__ Big many(Big b, int k) { b.values[k % 9] += k; return b; }
__noinline__ __device__ int factorial(int n) { return n <= 1 ? 1 : n * factorial(n - 1); }
__noinline__ __device__ int odd(int n);
__noinline__ __device__ int even(int n) { return n == 0 ? 1 : odd(n - 1); }
__noinline__ __device__ int odd(int n) { return n == 0 ? 0 : even(n - 1); }
__noinline__ __device__ int plus_one(int x) { return x + 1; }
__noinline__ __device__ int times_five(int x) { return 5 * x; }
typedef int (*Function)(int);
__device__ Function functions[3] = {twice, plus_one, times_five};

struct Shape { __device__ virtual float area() const = 0; };
struct Square : Shape { float s; __device__ Square(float s) : s(s) {} __device__ float area() const override { return s * s; } };
struct Circle : Shape { float r; __device__ Circle(float r) : r(r) {} __device__ float area() const override { return 3.0f * r * r; } };

extern "C" __global__ void calls(int* out, const int* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    Pair p = both(x[i], 3.0 * i);
    Big b = {};
    b = many(b, i);
    out[i] = twice(x[i]) + p.a + (int)p.b + b.values[i % 9];
}

extern "C" __global__ void recursion(int* out) { out[threadIdx.x] = factorial(threadIdx.x % 8) + even(threadIdx.x); }

extern "C" __global__ void pointers(int* out, const int* x) { out[threadIdx.x] = functions[x[threadIdx.x] % 3](threadIdx.x); }

extern "C" __global__ void shapes(float* out) {
    Square s(1.0f + threadIdx.x); Circle c(threadIdx.x);
    Shape* p = threadIdx.x & 1 ? (Shape*)&s : (Shape*)&c;
    out[threadIdx.x] = p->area();
}

extern "C" __global__ void branches(int* out, const int* x) {
    int v = x[threadIdx.x], r;
    switch (v & 15) {
        case 0: r = 3 * v; break; case 1: r = v - 7; break; case 2: r = v ^ 99; break; case 3: r = twice(v); break;
        case 4: r = v / 3; break; case 5: r = v % 7; break; case 6: r = -v; break; case 7: r = ~v; break;
        case 8: r = v << 3; break; case 9: r = v >> 2; break; case 10: r = v * v; break; case 11: r = v | 64; break;
        default: r = 1000;
    }
    out[threadIdx.x] = r;
}

extern "C" __global__ void statics(int* out, float* f) {
    out[threadIdx.x] = table[threadIdx.x & 7] + *where + name[threadIdx.x & 3];
    f[threadIdx.x] = row[threadIdx.x & 3];
}

extern "C" __global__ void locals(int* out, int n) {
    int a[20];
    for (int k = 0; k < 20; k++) a[k] = k * threadIdx.x;
    #pragma unroll 1
    for (int k = 0; k < n; k++) a[(k * 7) % 20] += a[(k + 3) % 20];
    out[threadIdx.x] = a[n % 20];
}

extern "C" __global__ void shared(float* out, const float* x) {
    __shared__ float s[64];
    s[threadIdx.x] = x[threadIdx.x];
    dynamic_memory[threadIdx.x] = 2 * x[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = s[63 - threadIdx.x] + dynamic_memory[(threadIdx.x + 1) % 64];
}

extern "C" __global__ void by_value(Big b, Pair p, char c, short s, __half h, double* out) {
    out[threadIdx.x] = b.values[threadIdx.x % 9] + p.a + p.b + c + s + (float)h;
}

extern "C" __global__ void __launch_bounds__(128, 2) bounded(float* x) { x[threadIdx.x] += 1.0f; }
