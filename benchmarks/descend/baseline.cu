// The eight benchmark programs of Descend's paper (its section 5), as a CUDA programmer writes them: what tests/ok/descend.py and
// examples/shortest_paths.py are modeled on and measured against.  Same algorithms, same threads a block, same arguments; no barrier but those that are needed, and no check of any index.

// 32 x 32 elements a block of (32, 8) threads; the grid is (N / 32, N / 32).
extern "C" __global__ void __launch_bounds__(256) transpose(const float* __restrict__ x, float* __restrict__ y, int N) {
    __shared__ float tile[32][33];
    const int column = blockIdx.x * 32 + threadIdx.x, row = blockIdx.y * 32 + threadIdx.y;
    for (int i = 0; i < 32; i += 8) tile[threadIdx.y + i][threadIdx.x] = x[(size_t)(row + i) * N + column];
    __syncthreads();
    const int left = blockIdx.y * 32 + threadIdx.x, top = blockIdx.x * 32 + threadIdx.y;
    for (int i = 0; i < 32; i += 8) y[(size_t)(top + i) * N + left] = tile[threadIdx.x][threadIdx.y + i];
}

// A tree in shared memory: one sum for each 256 values.
extern "C" __global__ void __launch_bounds__(256) reduce(const int* __restrict__ x, int* __restrict__ sums) {
    __shared__ int s[256];
    const int t = threadIdx.x;
    s[t] = x[blockIdx.x * 256 + t];
    for (int k = 128; k > 0; k /= 2) {
        __syncthreads();
        if (t < k) s[t] += s[t + k];
    }
    if (t == 0) sums[blockIdx.x] = s[0];
}

// Up and down a tree: exclusive sums of 256 values a block.
extern "C" __global__ void __launch_bounds__(128) scan(const int* __restrict__ x, int* __restrict__ sums) {
    __shared__ int s[256];
    const int t = threadIdx.x, at = blockIdx.x * 256 + t;
    s[t] = x[at];
    s[t + 128] = x[at + 128];
    int step = 1;
    for (int active = 128; active > 0; active /= 2) {
        __syncthreads();
        if (t < active) s[step * (2 * t + 2) - 1] += s[step * (2 * t + 1) - 1];
        step *= 2;
    }
    if (t == 0) s[255] = 0;
    for (int active = 1; active < 256; active *= 2) {
        step /= 2;
        __syncthreads();
        if (t < active) {
            const int left = s[step * (2 * t + 1) - 1];
            s[step * (2 * t + 1) - 1] = s[step * (2 * t + 2) - 1];
            s[step * (2 * t + 2) - 1] += left;
        }
    }
    __syncthreads();
    sums[at] = s[t];
    sums[at + 128] = s[t + 128];
}

// Eight bytes a thread, counted in global memory.
extern "C" __global__ void __launch_bounds__(64) histogram(const unsigned char* __restrict__ x, int* bins) {
    const int t = blockIdx.x * 64 + threadIdx.x;
    for (int i = 0; i < 8; ++i) atomicAdd(&bins[x[t * 8 + i]], 1);
}

// One element of c a thread; neighbors have neighboring columns.
extern "C" __global__ void __launch_bounds__(256) multiply(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int M, int N, int K) {
    const int t = blockIdx.x * 256 + threadIdx.x;
    const int row = t / N, column = t % N;
    float sum = 0.0f;
    for (int k = 0; k < K; ++k) sum += a[(size_t)row * K + k] * b[(size_t)k * N + column];
    c[(size_t)row * N + column] = sum;
}

// Tiles of 16 x 16 through shared memory, by (16, 16) threads; the grid is (N / 16, M / 16).
extern "C" __global__ void __launch_bounds__(256) gemm(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int M, int N, int K) {
    __shared__ float ta[16][16], tb[16][16];
    const int i = threadIdx.y, j = threadIdx.x, row = blockIdx.y * 16 + i, column = blockIdx.x * 16 + j;
    float sum = 0.0f;
    for (int k = 0; k < K; k += 16) {
        ta[i][j] = a[(size_t)row * K + k + j];
        tb[i][j] = b[(size_t)(k + i) * N + column];
        __syncthreads();
        for (int n = 0; n < 16; ++n) sum += ta[i][n] * tb[n][j];
        __syncthreads();
    }
    c[(size_t)row * N + column] = sum;
}

static __device__ __forceinline__ float warp_sum(float value) {
    for (int mask = 16; mask > 0; mask /= 2) value += __shfl_xor_sync(0xffffffffu, value, mask);
    return value;
}

// One-sided Jacobi rotations of 16 vectors of 32 elements, a pair a warp, one block.
extern "C" __global__ void __launch_bounds__(256) jacobi(float* x, int sweeps) {
    __shared__ float s[16][32];
    const int lane = threadIdx.x % 32, w = threadIdx.x / 32;
    s[w][lane] = x[w * 32 + lane];
    s[w + 8][lane] = x[(w + 8) * 32 + lane];
    for (int round = 0; round < 16 * sweeps; ++round) {
        const int top = round % 2 + 2 * w;
        __syncthreads();
        if (top + 1 < 16) {
            const float p = s[top][lane], q = s[top + 1][lane];
            const float pp = warp_sum(p * p), qq = warp_sum(q * q), pq = warp_sum(p * q);
            float cosine = 1.0f, sine = 0.0f;
            if (fabsf(pq) > 1e-20f) {
                const float zeta = (qq - pp) / (2.0f * pq);
                const float tangent = copysignf(1.0f, zeta) / (fabsf(zeta) + sqrtf(1.0f + zeta * zeta));
                cosine = 1.0f / sqrtf(1.0f + tangent * tangent);
                sine = cosine * tangent;
            }
            s[top + 1][lane] = cosine * p - sine * q;
            s[top][lane] = sine * p + cosine * q;
        }
    }
    __syncthreads();
    x[w * 32 + lane] = s[w][lane];
    x[(w + 8) * 32 + lane] = s[w + 8][lane];
}

// One round of SSSP: a warp takes a node of the frontier, its lanes the node's edges, and who comes nearer is put into the next frontier, once.
extern "C" __global__ void __launch_bounds__(256) sssp(
        const int* __restrict__ first, const int* __restrict__ to, const unsigned short* __restrict__ weight, int* dist, int* seen,
        const int* __restrict__ size, const int* __restrict__ frontier, int* more, int* following, int n, int edges, int round) {
    const int lane = threadIdx.x % 32, warps = gridDim.x * 8, many = size[0];
    for (int k = (blockIdx.x * 256 + threadIdx.x) / 32; k < many; k += warps) {
        const int u = frontier[k], end = first[u + 1];
        const int reached = *(volatile int*)&dist[u];
        for (int e = first[u] + lane; e < end; e += 32) {
            const int v = to[e], through = reached + weight[e];
            if (through < atomicMin(&dist[v], through) && atomicMax(&seen[v], round) < round) following[atomicAdd(more, 1)] = v;
        }
    }
}
