from __future__ import annotations

import builtins
import os
import subprocess
import sys

import pytest

from snap.host.compile import nvrtc as compiling
from snap.host.compile.nvrtc import Resources, check_arch, compile_cubin, compile_ptx, parse_resources, resources
from snap.host.errors import InternalError, ToolchainError, UnsafeTextError

SAXPY = """\
extern "C" __global__ void __launch_bounds__(256) saxpy(float a, const float* x, float* y, int n) {
    __shared__ float s[128];
    int i = blockIdx.x * 256 + threadIdx.x;
    s[threadIdx.x & 127] = a;
    __syncthreads();
    if (i < n) y[i] += s[0] * x[i];
}
"""

nvrtc = pytest.mark.skipif(not compiling.include_dirs(), reason="CUDA's headers are not installed")


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("SNAP_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture
def needs_nvrtc():
    pytest.importorskip("cuda.bindings.nvrtc")


def test_ptx_and_cubin(needs_nvrtc):
    assert ".entry saxpy" in compile_ptx(SAXPY) and ".target sm_90a" in compile_ptx(SAXPY)
    assert compile_cubin(SAXPY, "sm_80").startswith(b"\x7fELF")
    assert compile_cubin(SAXPY, "sm_90a") != compile_cubin(SAXPY, "sm_80")


@nvrtc
def test_half_headers_are_found(needs_nvrtc):
    text = """\
#include <cuda_fp16.h>
#include <cuda_bf16.h>
extern "C" __global__ void k(__half* x, __nv_bfloat16* y) { x[0] = __float2half(1.0f); y[0] = __float2bfloat16(1.0f); }
"""
    assert ".entry k" in compile_ptx(text)


def test_nvrtc_writes_into_nothing_shared(needs_nvrtc):
    compile_ptx(SAXPY)  # its log is empty: one zero byte
    assert bytes([32]) == b" " == bytes(" ", "ascii") and b" "[0] == 32


def test_resources(needs_nvrtc):
    found = resources(SAXPY, "sm_90a", "saxpy")
    assert found.registers > 0 and found.smem == 512 and found.barriers == 1
    assert (found.spill_stores, found.spill_loads, found.stack) == (0, 0, 0)
    assert resources(SAXPY, "sm_90a", "saxpy", dynamic_smem=1000).smem == 1512
    with pytest.raises(InternalError, match="nothing about `other`"):
        resources(SAXPY, "sm_90a", "other")


def test_why_products_are_serialized():
    said = "(C7515) Potential Performance Loss: wgmma.mma_async instructions are serialized due to non wgmma instructions defining accumulator registers in the function '{}' in line 9\n"
    log = said.format("k") + "".join(f"Compiling entry function '{name}' for 'sm_90a'\nUsed 8 registers\n" for name in ("k", "k2"))
    assert parse_resources(log, "k").serialized == "non wgmma instructions defining accumulator registers"
    assert parse_resources(log, "k2").serialized == ""


def test_log_of_several_kernels():
    log = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'b' for 'sm_90a'
ptxas info    : Function properties for b
    24 bytes stack frame, 16 bytes spill stores, 20 bytes spill loads
ptxas info    : Used 255 registers, used 16 barriers, 24 bytes cumulative stack size, 48000 bytes smem
ptxas info    : Compiling entry function 'a' for 'sm_90a'
ptxas info    : Function properties for a
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 8 registers, used 0 barriers
"""
    assert parse_resources(log, "a") == Resources(8, 0, 0, 0, 0, 0)
    assert parse_resources(log, "b") == Resources(255, 16, 20, 48000, 16, 24)


@pytest.mark.parametrize("arch, match", [
    ("sm_75", "older than sm_80"), ("compute_90", "not of the form"), ("sm_90b", "not of the form"), ("", "form"), (90, "form"), (None, "form"),
])
def test_architectures_refused(arch, match):
    for function in (compile_ptx, compile_cubin):
        with pytest.raises(ValueError, match=match):
            function(SAXPY, arch)


def test_architecture_numbers():
    assert [check_arch(arch) for arch in ("sm_80", "sm_90", "sm_90a", "sm_100f")] == [80, 90, 90, 100]


def test_architecture_unknown_to_nvrtc(needs_nvrtc):
    with pytest.raises(ToolchainError, match="does not know sm_999; it knows sm_80"):
        compile_ptx(SAXPY, "sm_999")


def test_refused_code_is_our_bug(needs_nvrtc):
    with pytest.raises(InternalError, match="please report it") as caught:
        compile_ptx('extern "C" __global__ void k() { undefined_name; }')
    assert "undefined_name" in str(caught.value) and "error" in str(caught.value) and "generated code" in str(caught.value)


def test_refused_code_with_unsafe_text_is_not(needs_nvrtc):
    with pytest.raises(UnsafeTextError, match="most likely that text"):
        compile_cubin('extern "C" __global__ void k() { undefined_name; }', unsafe=True)


def test_missing_nvrtc_is_named(monkeypatch):
    real = builtins.__import__

    def without(name, *args, **options):
        if name.startswith("cuda"):
            raise ImportError(name)
        return real(name, *args, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ToolchainError, match=r"pip install snap-gpu\[gpu\]"):
        compile_ptx(SAXPY)


def test_the_cache_spares_nvrtc(needs_nvrtc, monkeypatch):
    first = compile_cubin(SAXPY, "sm_80")
    compiling.Cache._shared = None
    monkeypatch.setattr(compiling, "load_nvrtc", lambda: pytest.fail("NVRTC was loaded"))
    if any("libnvrtc" in part for part in compiling.compiler_identity()):
        assert compile_cubin(SAXPY, "sm_80") == first


def test_a_cached_kernel_imports_no_gpu_package(needs_nvrtc):
    if not any("libnvrtc" in part for part in compiling.compiler_identity()):
        pytest.skip("NVRTC is known to the system's loader alone")
    compile_cubin(SAXPY, "sm_80")
    text = f"""\
import sys
from snap.host.compile.nvrtc import compile_cubin
compile_cubin({SAXPY!r}, 'sm_80')
assert 'cuda' not in sys.modules and 'numpy' not in sys.modules
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    subprocess.run([sys.executable, "-c", text], check=True, timeout=60, env=environment)
