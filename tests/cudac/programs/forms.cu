#include <cuda_runtime.h>
#define BS 128
// reduction, with shared memory and shuffles
__inline__ __device__ int warpSum(int v) {
    for (int o = warpSize / 2; o > 0; o >>= 1) v += __shfl_down_sync(0xffffffff, v, o);
    return v;
}
__global__ void __launch_bounds__(BS) reduce(const int *in, int *out, unsigned int n) {
    __shared__ int part[BS / 32];
    unsigned int i = blockIdx.x * blockDim.x * 2 + threadIdx.x;
    int mine = 0;
    while (i < n) {
        mine += in[i];
        if (i + blockDim.x < n) mine += in[i + blockDim.x];
        i += 2 * blockDim.x * gridDim.x;
    }
    int lane = threadIdx.x & 31, w = threadIdx.x >> 5;
    mine = warpSum(mine);
    if (lane == 0) part[w] = mine;
    __syncthreads();
    if (w == 0) {
        mine = lane < BS / 32 ? part[lane] : 0;
        mine = warpSum(mine);
        if (lane == 0) atomicAdd(out, mine);
    }
}
__global__ void __launch_bounds__(64) vec(const float4* __restrict__ x, float4* y, int n, float s) {
    int i = threadIdx.x + blockIdx.x * blockDim.x;
    if (i < n) {
        float4 v = x[i];
        v.x *= s; v.y += 1.f; v.z = v.x - v.w; v.w = -v.w;
        y[i] = v;
        y[i].x = fmaf(v.x, s, fminf(v.y, 2.0f));
    }
}
__device__ int find(const int* a, int n, int key) {
    for (int k = 0; k < n; k++) { if (a[k] == key) return k; if (a[k] > 1000) break; }
    return -1;
}
__global__ void __launch_bounds__(32) search(const int* a, int n, const int* keys, int* out) {
    const int* p = keys + threadIdx.x;
    int r = find(a, n, *p++);
    out[threadIdx.x] = r;
    switch (r % 4) {
        case 0: out[32 + threadIdx.x] = 10; break;
        case 1: case 2: out[32 + threadIdx.x] = 20;
        case 3: out[32 + threadIdx.x] += 5; break;
        default: out[32 + threadIdx.x] = -1;
    }
    int k = 3, total = 0;
    do { total += k--; if (total == 5) continue; total ^= 1; } while (k > 0 && total < 100);
    out[64 + threadIdx.x] = total;
    unsigned u = 7; int neg = -3; long long big = 1LL << 40;
    out[96 + threadIdx.x] = (neg < u) ? 1 : (int)(big >> 38);
}
template <int R>
__global__ void rows(float* m, int cols, volatile int* flag) {
    float acc[R] = {0};
    float t[2][3] = {{1, 2, 3}, {4, 5, 6}};
    #pragma unroll
    for (int r = 0; r < R; ++r) {
        float* row = &m[(blockIdx.x * R + r) * cols];
        for (int c = threadIdx.x; c < cols; c += blockDim.x) { acc[r] += row[c]; row[c] = t[r & 1][c % 3]; }
    }
    float s = 0; for (int r = 0; r < R; r++) s += acc[r];
    if (threadIdx.x == 0) *flag = (int)s;
}
extern __shared__ float dyn[];
__global__ void scan(float *g_odata, float *g_idata, int n) {
    int thid = threadIdx.x, pout = 0, pin = 1;
    dyn[pout*n + thid] = (thid > 0) ? g_idata[thid-1] : 0;
    __syncthreads();
    for (int offset = 1; offset < n; offset *= 2) {
        pout = 1 - pout; pin = 1 - pout;
        if (thid >= offset) dyn[pout*n+thid] = dyn[pin*n+thid] + dyn[pin*n+thid - offset];
        else dyn[pout*n+thid] = dyn[pin*n+thid];
        __syncthreads();
    }
    g_odata[thid] = dyn[pout*n+thid];
}
#define TILE 16
__global__ void __launch_bounds__(TILE * TILE) mm(const float* A, const float* B, float* C, int N) {
    __shared__ float As[TILE][TILE], Bs[TILE][TILE];
    unsigned int row = blockIdx.y * TILE + threadIdx.y, col = blockIdx.x * TILE + threadIdx.x;
    float acc = 0.0f;
    for (int m = 0; m < (N + TILE - 1) / TILE; m++) {
        if (row < N && col < N + TILE) {
            As[threadIdx.y][threadIdx.x] = A[row * N + m * TILE + threadIdx.x];
            Bs[threadIdx.y][threadIdx.x] = B[(m * TILE + threadIdx.y) * N + col % N];
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < TILE; ++k) acc += As[threadIdx.y][k] * Bs[k][threadIdx.x];
        __syncthreads();
    }
    if (row < N && col < N) C[row * N + col] = acc;
}
void host(float* a) { dim3 block(TILE, TILE); mm<<<dim3(2, 3), block>>>(a, a, a, 48); }
