// Two correct kernels, written by hand, in which compute-sanitizer's racecheck (CUDA 13) reports hazards; docs/sanitizers.md says more.
//
//     nvcc -arch=sm_90a -o racecheck tests/gpu/racecheck.cu && compute-sanitizer --tool racecheck ./racecheck [plain]
//
// With "plain" every thread waits, or arrives, where one would do: the same order, and no report.

#include <cstdio>
#include <cstring>

static __device__ unsigned int in_shared(const void* address) { return (unsigned int)__cvta_generic_to_shared(address); }

// Warps 1 to 3 hand their parts to warp 0 and go on; all meet at __syncthreads() before `prefix` is read.
template <bool plain>
__global__ void arrive(int* out) {
    __shared__ int parts[4], prefix[4];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (lane == 0) parts[warp] = warp;
    if (warp == 0) {
        asm volatile("bar.sync 1, 128;" ::: "memory");
        int sum = lane < 4 ? parts[lane] : 0;
        for (int step = 1; step < 4; step *= 2) {
            const int below = __shfl_up_sync(~0u, sum, step);
            if (lane >= step) sum += below;
        }
        if (lane < 4) prefix[lane] = sum;
    } else if (plain) {
        asm volatile("bar.sync 1, 128;" ::: "memory");
    } else {
        asm volatile("bar.arrive 1, 128;" ::: "memory");
    }
    __syncthreads();
    out[blockIdx.x * blockDim.x + threadIdx.x] = prefix[warp];
}

// Three warps write and arrive at an mbarrier, one lane for its warp after __syncwarp(); warp 3 waits and reads.
template <bool plain>
__global__ void elected(int* out) {
    __shared__ int values[96];
    __shared__ unsigned long long barrier;
    if (threadIdx.x == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(in_shared(&barrier)), "r"(plain ? 96 : 3) : "memory");
    __syncthreads();
    if (threadIdx.x < 96) {
        values[threadIdx.x] = threadIdx.x;
        __syncwarp();
        if (plain || threadIdx.x % 32 == 0) asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(in_shared(&barrier)) : "memory");
    } else {
        asm volatile("{.reg .pred done; again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], 0; @!done bra again;}"
                     :: "r"(in_shared(&barrier)) : "memory");
        out[blockIdx.x * 32 + threadIdx.x % 32] = values[95 - threadIdx.x % 32 * 3];
    }
}

int main(int count, char** words) {
    int* out;
    cudaMalloc(&out, 16 * 128 * sizeof(int));
    if (count > 1 && !std::strcmp(words[1], "plain")) {
        arrive<true><<<16, 128>>>(out);
        elected<true><<<16, 128>>>(out);
    } else {
        arrive<false><<<16, 128>>>(out);
        elected<false><<<16, 128>>>(out);
    }
    std::printf("%s\n", cudaGetErrorString(cudaDeviceSynchronize()));
}
