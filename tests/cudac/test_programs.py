"""Files of CUDA C: what a kernel writes is what the PTX machine says, of what NVRTC makes of the same text."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from cudac.second import run

pytest.importorskip("clang.cindex", reason="libclang is not installed")

from snap import cudac  # noqa: E402

HERE = Path(__file__).parent / "programs"
POINT = np.dtype([("x", "f4"), ("y", "f4"), ("tag", "i4")])
PAIR = np.dtype({"names": ["first", "weight", "kind"], "formats": [POINT, "f8", ("i2", 2)], "offsets": [0, 16, 24], "itemsize": 32})
TILE = 16


def drawn(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def whole(n, low=-50, high=50):
    return np.random.default_rng(n).integers(low, high, n).astype(np.int32)


FORMS = {
    "reduce": (3, 128, lambda: [whole(1000), np.zeros(1, np.int32), np.uint32(1000)]),
    "vec": (2, 64, lambda: [drawn(400), np.zeros(400, np.float32), np.int32(100), np.float32(0.5)]),
    "search": (1, 32, lambda: [np.arange(40, dtype=np.int32) * 3, np.int32(40), np.arange(32, dtype=np.int32) * 2, np.zeros(128, np.int32)]),
    "mm": ((2, 3), (TILE, TILE), lambda: [drawn(48, 48), drawn(48, 48, seed=1), np.zeros((48, 48), np.float32), np.int32(48)]),
}


@pytest.mark.parametrize("name", FORMS)
def test_forms(name):
    pytest.importorskip("cuda.bindings.nvrtc", reason="NVRTC is not installed")
    grid, block, make = FORMS[name]
    file = HERE / "forms.cu"
    want, got = make(), make()
    cudac.load(file, name)[grid](*got)
    text = file.read_text().partition("void host")[0].replace("#include <cuda_runtime.h>", "").replace("__global__ void", 'extern "C" __global__ void').replace('template <int R>\nextern "C" ', "template <int R>\n")
    run(text, name, grid, block, [a.reshape(-1) if isinstance(a, np.ndarray) else a for a in want])
    for a, b in zip(want, got):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_structs():
    rng = np.random.default_rng(3)
    given = np.zeros(100, POINT)
    given["x"], given["y"], given["tag"] = rng.normal(size=100), rng.normal(size=100), np.arange(100)
    out, hits = np.zeros(100, PAIR), np.zeros(1, np.int32)
    scale = np.array([10, 20, 30], np.float32)
    k = cudac.load(HERE / "structs.cu", "points")
    k[2](given, out, 100, scale=scale, hits=hits)
    # The tile of a block is read backwards; of a block's threads beyond the end, it holds the first point.
    tile = np.concatenate([given, np.repeat(given[:1], 28)]).reshape(2, 64)[:, ::-1].reshape(-1)[:100]
    i = np.arange(100)
    np.testing.assert_allclose(out["first"]["x"], tile["x"] + np.float32(0.5), rtol=1e-6)
    np.testing.assert_allclose(out["first"]["y"], np.float32(2.0) + scale[i % 3])
    assert (out["first"]["tag"] == -tile["tag"]).all()
    np.testing.assert_allclose(out["weight"], given["x"].astype(np.float64) / 3)
    assert (out["kind"][i, i & 1] == (i * 1000).astype(np.int16)).all() and (out["kind"][i, 1 - (i & 1)] == 7).all()
    assert hits[0] == (out["first"]["tag"] < -20).sum()


def test_three_floats():
    a, b, c = drawn(40, 3), drawn(40, 3, seed=5), np.zeros((40, 3), np.float32)
    cudac.load(HERE / "structs.cu", "crossed")[1](a, b, c, 40)
    np.testing.assert_allclose(c, np.cross(a, b), rtol=1e-5, atol=1e-6)


def test_templates_and_shared_memory_of_the_launch():
    m, flag = np.ones((4, 50), np.float32), np.zeros(1, np.int32)
    cudac.load(HERE / "forms.cu", "rows<2>", block=32)[2](m, 50, flag)
    assert (m[1] == np.resize([4, 5, 6], 50)).all() and (m[2] == np.resize([1, 2, 3], 50)).all() and flag[0] == 4
    x, out = drawn(64), np.zeros(64, np.float32)
    cudac.load(HERE / "forms.cu", "scan", block=64, shared=512)[1](out, x, 64)
    np.testing.assert_allclose(out[1:], np.cumsum(x)[:-1], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("left_out", [0, 1])
def test_a_barrier_that_is_left_out_is_a_race(left_out, tmp_path):
    text = (HERE / "forms.cu").read_text()
    start = text.index("void __launch_bounds__(TILE * TILE) mm")
    kernel = text[start:].split("__syncthreads();")
    assert len(kernel) >= 3
    kernel[left_out : left_out + 2] = ["".join(kernel[left_out : left_out + 2])]
    file = tmp_path / "mm.cu"
    file.write_text(text[:start] + "__syncthreads();".join(kernel))
    make = lambda: (drawn(32, 32), drawn(32, 32), np.zeros((32, 32), np.float32), 32)  # noqa: E731
    assert not cudac.load(HERE / "forms.cu", "mm").races(*make(), grid=(2, 2), seeds=2)
    found = cudac.load(file, "mm").races(*make(), grid=(2, 2), seeds=4)
    assert found and {race.object for race in found} <= {"As", "Bs"}


def test_blocks_of_three_dimensions(tmp_path):
    file = tmp_path / "a.cu"
    file.write_text("__global__ void k(int* a) { int t = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);\n"
                    "  int b = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);\n"
                    "  a[b * blockDim.x * blockDim.y * blockDim.z + t] = threadIdx.x + 100 * threadIdx.y + 10000 * blockIdx.z; }\n")  # fmt: skip
    out = np.full(2 * 2 * 3 * 60, -1, np.int32)
    cudac.load(file, "k", block=(5, 4, 3))[2, 2, 3](out)
    b, z, y, x = np.meshgrid(np.arange(12), np.arange(3), np.arange(4), np.arange(5), indexing="ij")
    assert (out.reshape(12, 3, 4, 5) == x + 100 * y + 10000 * (b // 4)).all()


def test_bounds_that_move(tmp_path):
    file = tmp_path / "a.cu"
    file.write_text("__global__ void __launch_bounds__(32) k(int* a, int n) { int s = 0; for (int i = 0; i < n; ++i) { s += n; n -= 2; } a[threadIdx.x] = s; }\n")
    out = np.zeros(32, np.int32)
    cudac.load(file, "k")[1](out, 10)
    assert (out == 10 + 8 + 6 + 4).all()


def ran(tmp_path, text: str, grid=1, n: int = 64) -> np.ndarray:
    file, out = tmp_path / "a.cu", np.full(n, -7, np.int32)
    file.write_text(text)
    cudac.load(file, "k", block=32)[grid](out)
    return out


def test_the_right_side_of_an_assignment_comes_first(tmp_path):
    body = "int i = 2; a[i++] = i; a[i++] += i * 10; a[0] = i; __syncwarp();"
    out = ran(tmp_path, f"__global__ void k(int* a) {{ if (threadIdx.x == 0) {{ a[3] = 0; }} __syncwarp(); if (threadIdx.x == 0) {{ {body.replace('__syncwarp();', '')} }} }}\n")
    assert list(out[:5]) == [4, -7, 2, 30, -7]


def test_blocks_are_numbered_row_by_row_in_any_grid(tmp_path):
    """Where the text asks for the first index alone, and where a macro hides the second one."""
    out = ran(tmp_path, "__global__ void k(int* a) { if (threadIdx.x == 0) atomicAdd(&a[blockIdx.x], 1); }\n", (2, 3))
    assert list(out[:3]) == [-4, -4, -7]
    out = ran(tmp_path, "#define ROW blockIdx.y\n__global__ void k(int* a) { if (threadIdx.x == 0) atomicAdd(&a[ROW], 1); }\n", (2, 3))
    assert list(out[:4]) == [-5, -5, -5, -7]


def test_a_function_without_arguments_gives_its_struct(tmp_path):
    text = "struct S { int x, y; };\n__device__ S made() { S s = {3, 4}; return s; }\n__global__ void k(int* a) { S s = made(); a[threadIdx.x] = s.x + s.y; }\n"
    assert (ran(tmp_path, text)[:32] == 7).all()


def test_enumerations_have_their_own_type(tmp_path):
    text = "enum E : unsigned char { A = 255 };\n__global__ void k(int* a) { E e = A; a[threadIdx.x] = (E)(e + 2); }\n"
    assert (ran(tmp_path, text)[:32] == 1).all()


def test_numbers_at_the_edge():
    pytest.importorskip("cuda.bindings.nvrtc", reason="NVRTC is not installed")
    x = np.resize(np.array([0.5, -0.5, 1.5, 2.5, np.nan, np.inf, -np.inf, 3e9, -3e9, 5e9, -0.0, 0.0, 1e-40, 7.49], np.float32), 32)
    make = lambda: [x.copy(), np.zeros(192, np.float32), np.zeros(128, np.uint32), np.int32(32)]  # noqa: E731
    want, got = make(), make()
    file = HERE / "numbers.cu"
    cudac.load(file, "numbers")[1](*got)
    run(file.read_text(), "numbers", 1, 32, want)
    for a, b in zip(want[:3], got[:3]):
        np.testing.assert_array_equal(a, b)
