// Kernels written by hand that ask compute-sanitizer's racecheck what it knows of barriers at which some only arrive.  docs/sanitizers.md says
// what it has answered.
//
//     nvcc -arch=sm_90a -lineinfo -o racecheck tests/gpu/racecheck.cu && compute-sanitizer --tool racecheck ./racecheck [plain | KERNEL]
//
// Without a word: two correct kernels in which it reports hazards (CUDA 13).  With "plain" every thread waits, or arrives, where one would do: the
// same order, and no report.  With the name of a kernel of a cluster (together, apart, apart_alone, early, missing): that one.  The first three are
// correct, the last two are not.

#ifndef __CUDACC_RTC__
#include <cstdio>
#include <cstring>
#endif

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

// ---- the barrier of a cluster ----------------------------------------------------------------------------------------------------------------

static __device__ __forceinline__ void cluster_arrive() { asm volatile("barrier.cluster.arrive.release;" ::: "memory"); }
static __device__ __forceinline__ void cluster_wait() { asm volatile("barrier.cluster.wait.acquire;" ::: "memory"); }

static __device__ __forceinline__ int* at_block(int* here, int block) {
    unsigned long long there;
    asm("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(here), "r"(block));
    return reinterpret_cast<int*>(there);
}

enum Order { TOGETHER, APART, APART_ALONE, EARLY, MISSING };

// Four blocks of 32 threads.  Each writes a quarter of `later` in block 3, and all read it; what differs is where they arrive at the cluster's barrier and
// where they wait for it.  `before` was written by another block, and is ordered by a barrier of its own: it may be read anywhere.
template <Order order>
static __device__ __forceinline__ void exchange(int* out) {
    __shared__ int before[32], later[32];
    const int block = blockIdx.x % 4, lane = threadIdx.x;
    cluster_arrive(), cluster_wait();  // all blocks have started
    at_block(before, block ^ 1)[lane] = 100 + lane;
    later[lane] = 0;
    cluster_arrive(), cluster_wait();
    const auto write = [&] { if (lane < 8) at_block(later, 3)[lane + 8 * block] = lane + 8 * block; };
    const auto read = [&] { return before[(lane + 11) % 32]; };
    int sum = 0;
    if (order == TOGETHER) write(), cluster_arrive(), cluster_wait(), sum = read();
    if (order == APART) write(), cluster_arrive(), sum = read(), cluster_wait();
    if (order == APART_ALONE) write(), cluster_arrive(), __nanosleep(100), cluster_wait(), sum = read();
    if (order == EARLY) cluster_arrive(), write(), cluster_wait(), sum = read();  // a race: an arrival releases what stands before it
    if (order == MISSING) write(), sum = read();                                  // a race
    out[blockIdx.x * 32 + lane] = sum + at_block(later, 3)[(lane + 31) % 32];
    cluster_arrive(), cluster_wait();  // no block exits while others read its memory
}

extern "C" __global__ void __cluster_dims__(4) together(int* out) { exchange<TOGETHER>(out); }
extern "C" __global__ void __cluster_dims__(4) apart(int* out) { exchange<APART>(out); }
extern "C" __global__ void __cluster_dims__(4) apart_alone(int* out) { exchange<APART_ALONE>(out); }
extern "C" __global__ void __cluster_dims__(4) early(int* out) { exchange<EARLY>(out); }
extern "C" __global__ void __cluster_dims__(4) missing(int* out) { exchange<MISSING>(out); }

#ifndef __CUDACC_RTC__
static int of_a_cluster(int* out, const char* name) {
    const char* const names[] = {"together", "apart", "apart_alone", "early", "missing"};
    void (*const kernels[])(int*) = {together, apart, apart_alone, early, missing};
    for (int k = 0; k < 5; ++k) {
        if (std::strcmp(name, names[k])) continue;
        static int found[16 * 32];
        kernels[k]<<<16, 32>>>(out);
        const cudaError_t status = cudaMemcpy(found, out, sizeof found, cudaMemcpyDeviceToHost);
        int wrong = 0;
        for (int i = 0; i < 16 * 32; ++i) wrong += found[i] != 100 + (i + 11) % 32 + (i + 31) % 32;
        std::printf("%s: %s, %d of %d results are not those of a correct order\n", name, cudaGetErrorString(status), wrong, 16 * 32);
        return status != cudaSuccess;
    }
    std::printf("no kernel %s\n", name);
    return 1;
}

int main(int count, char** words) {
    int* out;
    cudaMalloc(&out, 16 * 128 * sizeof(int));
    if (count > 1 && std::strcmp(words[1], "plain")) return of_a_cluster(out, words[1]);
    if (count > 1) {
        arrive<true><<<16, 128>>>(out);
        elected<true><<<16, 128>>>(out);
    } else {
        arrive<false><<<16, 128>>>(out);
        elected<false><<<16, 128>>>(out);
    }
    std::printf("%s\n", cudaGetErrorString(cudaDeviceSynchronize()));
}
#else
template __global__ void arrive<false>(int*);
template __global__ void arrive<true>(int*);
template __global__ void elected<false>(int*);
template __global__ void elected<true>(int*);
#endif
