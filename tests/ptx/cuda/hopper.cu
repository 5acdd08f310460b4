// What compute capability 9 has beyond the others.
#include <cuda_bf16.h>
extern "C" __global__ void __cluster_dims__(2, 1, 1) clusters(int* out) {
    __shared__ int mine; mine = blockIdx.x * 100; unsigned rank, count, at, there, v;
    asm volatile("barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;");
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank)); asm("mov.u32 %0, %%cluster_nctaid.x;" : "=r"(count));
    at = (unsigned)__cvta_generic_to_shared(&mine);
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(at), "r"(rank ^ 1u));
    asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(v) : "r"(there));
    unsigned back; asm volatile("getctarank.shared::cluster.u32 %0, %1;" : "=r"(back) : "r"(there));
    asm volatile("barrier.cluster.arrive.relaxed; barrier.cluster.wait;");
    unsigned chosen; asm volatile("{ .reg .pred p; elect.sync %0|p, 0xFFFFFFFF; @p mov.u32 %0, 99; @!p mov.u32 %0, 1; }" : "=r"(chosen));
    asm volatile("fence.mbarrier_init.release.cluster; fence.proxy.async; griddepcontrol.launch_dependents; griddepcontrol.wait;");
    out[blockIdx.x * blockDim.x + threadIdx.x] = v + rank * 1000 + count * 10000 + back * 100000 + chosen;
}
extern "C" __global__ void redux(int* out, const int* x) {
    int a = x[threadIdx.x];
    out[threadIdx.x] = __reduce_add_sync(~0u, a) + __reduce_min_sync(~0u, a) + __reduce_max_sync(~0u, a) + __reduce_and_sync(~0u, a) + __reduce_or_sync(~0u, a) + __reduce_xor_sync(~0u, a);
}
