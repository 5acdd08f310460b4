"""Tensor maps and clusters on a real GPU: modules written by hand, launched as the compiler's own are.

The kernels' Snap definitions give the signatures; the CUDA text is replaced.
"""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from snap import *
from snap._compiler.codegen import CudaModule, TensorMap
from snap._compiler.ir.types import BF16, F32
from snap.host.errors import LaunchError
from snap.host.launch import launcher

pytestmark = pytest.mark.skipif(torch.cuda.get_device_capability()[0] < 9, reason="boxes and clusters need sm_90")

HEAD = """
struct alignas(64) Map { unsigned long long words[16]; };
static __device__ unsigned address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
static __device__ void load(void* to, const Map* map, int x, int y, void* bar) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                 :: "r"(address(to)), "l"(map), "r"(x), "r"(y), "r"(address(bar)) : "memory");
}
static __device__ void store(const Map* map, int x, int y, const void* from) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];"
                 "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;" :: "l"(map), "r"(x), "r"(y), "r"(address(from)) : "memory");
}
static __device__ void begin(void* bar, int bytes) {
    asm volatile("mbarrier.init.shared.b64 [%0], 1; fence.mbarrier_init.release.cluster; mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;"
                 :: "r"(address(bar)), "r"(bytes) : "memory");
}
static __device__ void finish(void* bar) {
    unsigned done = 0;
    while (!done)
        asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], 0; selp.u32 %0, 1, 0, p;}"
                     : "=r"(done) : "r"(address(bar)) : "memory");
}
"""

# Each block moves one box of 32 x 32: adds 1 to what it loaded, finding each element where the swizzle put it, and sums it all, zeros included.
COPY = HEAD + """
extern "C" __global__ void __launch_bounds__(32) moved(const float* x, float* y, float* sums, int m, int n,
                                                      const __grid_constant__ Map in, const __grid_constant__ Map out) {
    __shared__ alignas(1024) float tile[32 * 32];
    __shared__ alignas(8) unsigned long long bar;
    int across = (n + 31) / 32, row = blockIdx.x / across * 32, column = blockIdx.x % across * 32, t = threadIdx.x;
    if (t == 0) { begin(&bar, 4096); load(tile, &in, column, row, &bar); }
    __syncwarp();
    finish(&bar);
    float sum = 0;
    for (int i = 0; i < 32; ++i) {
        float& element = tile[i * 32 + (t / 4 ^ i % 8) * 4 + t % 4];
        sum += element * (i + 1) * (t + 1);
        element += 1;
    }
    atomicAdd(&sums[blockIdx.x], sum);
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncwarp();
    if (t == 0) store(&out, column, row, tile);
}
"""


def with_text(kernel, text, **changes):
    """The compiled kernel with another module: what a launch sees is the same."""
    compiled = kernel._the_one({})
    given = dict(text=text, kernel=kernel.definition.tree.name, params=(), threads=32, cluster=0, smem=0, dynamic_smem=0, cooperative=False,
                 grid_barrier=False, min_arch=90)
    return launcher(SimpleNamespace(typed=compiled.typed, synced=compiled.typed, lined="", module=CudaModule(**{**given, **changes})))


@kernel
@requires(grid[1], block[1], thread[32])
def moved(x: ptr(const(float), (m, n)) @ grid[1], y: ptr(float, (m, n)) @ grid[1], sums: ptr(float) @ grid[1], m: int @ grid[1], n: int @ grid[1]):
    nothing: int = 0


BOXES = (TensorMap(0, F32, (32, 32), 128), TensorMap(1, F32, (32, 32), 128))


@pytest.fixture
def copy():
    return with_text(moved, COPY, tensors=BOXES)


def arrays(m, n):
    blocks = (m + 31) // 32 * ((n + 31) // 32)
    x = torch.arange(m * n, device="cuda", dtype=torch.float32).reshape(m, n) % 97 - 40
    return blocks, x, torch.full_like(x, -1), torch.zeros(blocks, device="cuda")


def expected_sums(x):
    m, n = x.shape
    padded = torch.zeros((m + 31) // 32 * 32, (n + 31) // 32 * 32, device="cuda")
    padded[:m, :n] = x
    weights = torch.arange(1, 33, device="cuda", dtype=torch.float32)
    return torch.einsum("aibj,i,j->ab", padded.reshape(padded.shape[0] // 32, 32, -1, 32), weights, weights).flatten()


@pytest.mark.parametrize("m, n", [(32, 32), (64, 128), (70, 100), (1, 4), (33, 1000)])
def test_boxes_are_moved(copy, m, n):
    blocks, x, y, sums = arrays(m, n)
    for _ in range(2):  # the whole way, then the fast path
        y.fill_(-1)
        sums.zero_()
        copy.at[blocks](x, y, sums, m, n)
        assert torch.equal(y, x + 1)
        assert torch.allclose(sums, expected_sums(x), rtol=1e-4, atol=1)


def test_maps_are_made_once_for_each_array(copy):
    blocks, x, y, sums = arrays(64, 64)
    other = torch.full_like(y, -1)
    for _ in range(5):
        copy.at[blocks](x, y, sums, 64, 64)
        copy.at[blocks](x, other, sums, 64, 64)
    assert torch.equal(y, x + 1) and torch.equal(other, x + 1)
    assert [len(maps) for maps in copy._kernels[0].maps] == [1, 2]


def test_flat_arrays_have_their_declared_shape(copy):
    blocks, x, y, sums = arrays(70, 100)
    copy.at[blocks](x.flatten(), y.view(-1), sums, 70, 100)
    assert torch.equal(y, x + 1)


def test_what_is_refused(copy):
    blocks, x, y, sums = arrays(64, 64)
    copy.at[blocks](x, y, sums, 64, 64)
    y.fill_(-1)
    shifted = torch.zeros(64 * 64 + 1, device="cuda")[1:].view(64, 64)
    with pytest.raises(LaunchError, match="multiple of 16 bytes.*copy of it is aligned") as caught:
        copy.at[blocks](shifted, y, sums, 64, 64)
    assert caught.value.parameter == "x"
    narrow = torch.zeros(64, 30, device="cuda")
    with pytest.raises(LaunchError, match="pad the array's rows to 32 elements"):
        copy.at[blocks](narrow, torch.zeros_like(narrow), sums, 64, 30)
    empty = torch.zeros(0, 64, device="cuda")
    with pytest.raises(LaunchError, match="empty"):
        copy.at[blocks](empty, torch.zeros_like(empty), sums, 0, 64)
    torch.cuda.synchronize()
    assert (y == -1).all()


@kernel
@requires(grid[1], block[1], thread[32])
def halves(x: ptr(const(bf16), (3, 64, 64)) @ grid[1], y: ptr(bf16, (3, 64, 64)) @ grid[1]):
    nothing: int = 0


def test_three_dimensions_in_halves():
    text = HEAD + """
extern "C" __global__ void halves(const void* x, void* y, const __grid_constant__ Map in, const __grid_constant__ Map out) {
    __shared__ alignas(1024) char tile[2 * 8 * 64 * 2];
    __shared__ alignas(8) unsigned long long bar;
    if (threadIdx.x == 0) {
        begin(&bar, sizeof(tile));
        asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], [%5];"
                     :: "r"(address(tile)), "l"(&in), "r"(0), "r"(16), "r"(1), "r"(address(&bar)) : "memory");
        finish(&bar);
        asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%1, %2, %3}], [%4];"
                     "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"
                     :: "l"(&out), "r"(0), "r"(8), "r"(0), "r"(address(tile)) : "memory");
    }
}
"""
    launch = with_text(halves, text, tensors=(TensorMap(0, BF16, (2, 8, 64), 128), TensorMap(1, BF16, (2, 8, 64), 128)))
    x = torch.randn(3, 64, 64, device="cuda").bfloat16()
    y = torch.zeros_like(x)
    launch.at[1](x, y)
    expected = torch.zeros_like(x)
    expected[0:2, 8:16] = x[1:3, 16:24]
    assert torch.equal(y, expected)


@kernel
@requires(grid[1], cluster[1], block[16], thread[32])
def ring(out: ptr(int) @ grid[1]):
    nothing: int = 0


def ring_module(cluster, dynamic):
    """Every block leaves its number at the end of its shared memory and reads that of the next block of its cluster."""
    text = HEAD + f"""
extern "C" __global__ void __cluster_dims__({cluster}, 1, 1) __launch_bounds__(32) ring(int* out) {{
    extern __shared__ int memory[];
    int* last = &memory[{dynamic // 4 - 1}];
    unsigned rank = blockIdx.x % {cluster}, there;
    if (threadIdx.x == 0) *last = blockIdx.x;
    asm volatile("barrier.cluster.arrive.release; barrier.cluster.wait.acquire;" ::: "memory");
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address(last)), "r"((rank + 1) % {cluster}));
    int value;
    asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(value) : "r"(there) : "memory");
    if (threadIdx.x == 0) out[blockIdx.x] = value;
    asm volatile("barrier.cluster.arrive.release; barrier.cluster.wait.acquire;" ::: "memory");
}}
"""
    return dict(text=text, cluster=cluster, dynamic_smem=dynamic, smem=dynamic)


@pytest.mark.parametrize("cluster, dynamic", [(2, 64 * 1024), (8, 227 * 1024), (16, 100 * 1024), (16, 227 * 1024)])
def test_clusters_with_much_shared_memory(cluster, dynamic):
    launch = with_text(ring, **ring_module(cluster, dynamic))
    out = torch.full((64,), -1, device="cuda", dtype=torch.int32)
    for _ in range(2):
        out.fill_(-1)
        launch.at[64](out)
        blocks = torch.arange(64, device="cuda", dtype=torch.int32)
        assert torch.equal(out, blocks // cluster * cluster + (blocks % cluster + 1) % cluster)


def test_blocks_come_in_whole_clusters():
    with pytest.raises(LaunchError, match=r"multiple of 16 blocks \(clusters of 16\), but 24 were asked for; launch 16 or 32"):
        with_text(ring, **ring_module(16, 1024)).at[24](torch.zeros(24, device="cuda", dtype=torch.int32))


def test_a_warm_launch_with_maps_is_nearly_as_cheap(copy):
    """A map costs a lookup and 128 bytes more to copy."""
    import time

    blocks, x, y, sums = arrays(32, 32)
    plain = with_text(moved, """
extern "C" __global__ void moved(const float* x, float* y, float* sums, int m, int n) {}
""")

    def cost(launch):
        launch = launch.at
        launch[blocks](x, y, sums, 32, 32)
        launch[blocks](x, y, sums, 32, 32)
        best = float("inf")
        for _ in range(20):
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(100):
                launch[blocks](x, y, sums, 32, 32)
            best = min(best, time.perf_counter() - start)
        return best / 100

    without, with_maps = cost(plain), cost(copy)
    print(f"without maps {without * 1e6:.2f} us, with two {with_maps * 1e6:.2f} us")
    assert with_maps < without + 5e-6
