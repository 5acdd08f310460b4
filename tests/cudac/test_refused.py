"""What is outside of the subset, or no CUDA C: an error with a code, a place and a way out; the file's other kernels still work."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("clang.cindex", reason="libclang is not installed")

from snap import SnapError, cudac  # noqa: E402

HEAD = "__device__ int again(int n) { return n ? again(n - 1) : 0; }\nstruct Bits { int a : 3; };\nunion Both { int i; float f; };\nstruct Made { int x; __device__ Made() { x = 5; } };\nstruct Set { int x = 5; };\nstruct Row { int v[2]; int y; };\n"


def kernel(body: str, parameters: str = "int* a, int n", head: str = "") -> str:
    return f"{HEAD}{head}\n__global__ void __launch_bounds__(64) k({parameters}) {{\n{body}\n}}\n__global__ void __launch_bounds__(64) fine(int* a) {{ a[threadIdx.x] = 1; }}\n"


REFUSED = {
    "recursion": ("a[0] = again(n);", "which calls itself"),
    "goto": ("again: a[0] = 1; goto again;", "statement"),
    "assembly": ('asm("nop;");', "statement"),
    "a union": ("Both b; b.i = 1; a[0] = b.i;", "`Both`"),
    "bit fields": ("Bits b; b.a = 1;", "`Bits`"),
    "two bases": ("__shared__ int s[4]; int* p = n ? a : s; a[0] = *p;", "into two arrays"),
    "a pointer that moves over": ("__shared__ int s[4]; int* p = a; p = s; a[0] = *p;", "changes the array"),
    "an array of any length": ("int v[n]; a[0] = v[0];", "variable-length"),
    "the address of a variable": ("int x = 0; int* p = &x; *p = 1; a[0] = x;", "the address of a variable"),
    "some lanes": ("a[0] = __shfl_down_sync(0xff, n, 1);", "a mask of some lanes"),
    "a pointer as a number": ("a[0] = (int)(long long)a;", "`int *`"),
    "a lambda": ("auto f = [](int x) { return x; }; a[0] = f(n);", ""),
    "a constructor": ("Made m; a[0] = m.x;", "`Made`"),
    "a first value of a field": ("Set s; a[0] = s.x;", "`Set`"),
    "a static variable": ("static int x; a[0] = x;", "static"),
    "an array in an initializer": ("Row r = {{1, 2}, 3}; a[0] = r.y;", "initializer"),
    "new": ("int* p = new int[4]; a[0] = p[0];", ""),
}


@pytest.mark.parametrize("what", REFUSED)
def test_outside_the_subset(what, tmp_path):
    body, says = REFUSED[what]
    file = tmp_path / "a.cu"
    file.write_text(kernel(body))
    with pytest.raises(SnapError) as refused:
        cudac.load(file, "k")
    error = refused.value.diagnostic
    assert error.code in ("CUDAC001", "CUDAC003") and says in error.message, error.message
    assert error.span.filename == str(file) and 1 <= error.span.line <= 12
    out = np.zeros(64, np.int32)
    cudac.load(file, "fine")[1](out)
    assert out.all()


WRONG = {
    "broken": ("__global__ void k(int* a) { a[0] = ; }\n", "k", "CUDAC001"),
    "unknown": ("__global__ void k(int* a) { a[0] = TILE; }\n", "k", "CUDAC001"),
    "host code alone": ("int main() { return 0; }\n", "", "CUDAC005"),
    "no such kernel": ("__global__ void k(int* a) {}\n", "m", "CUDAC005"),
    "which one": ("__global__ void k(int* a) {}\n__global__ void m(int* a) {}\n", "", "CUDAC005"),
    "a template": ("template <int N> __global__ void k(int* a) { a[0] = N; }\n", "k", "CUDAC004"),
    "an instance of nothing": ("__global__ void k(int* a) {}\n", "m<3>", "CUDAC005"),
    "a value that is missing": ("template <int N, typename T> __global__ void k(T* a) { a[0] = N; }\n", "k<3>", "CUDAC004"),
    "no shape": ("__global__ void k(int* a) {}\n", "k", "CUDAC004"),
    "empty": ("", "", "CUDAC005"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_cannot_be_loaded(what, tmp_path):
    text, name, code = WRONG[what]
    file = tmp_path / "a.cu"
    file.write_text(text)
    with pytest.raises(SnapError) as refused:
        cudac.load(file, name)
    assert refused.value.code == code, str(refused.value)


def test_files_that_are_none(tmp_path):
    (tmp_path / "b.cu").write_bytes(bytes(range(256)) * 10)
    for path in (tmp_path / "missing.cu", tmp_path, tmp_path / "b.cu", "a\0b"):
        with pytest.raises(SnapError):
            cudac.load(path, "k", block=32)


@pytest.mark.parametrize("block", [0, -1, 2048, (32, 64), (1, 1, 1, 1), (0, 4), ()])
def test_blocks_that_cannot_be(block, tmp_path):
    file = tmp_path / "a.cu"
    file.write_text("__global__ void k(int* a) { a[0] = 1; }\n")
    with pytest.raises(SnapError) as refused:
        cudac.load(file, "k", block=block)
    assert refused.value.code == "CUDAC004"


LAUNCHES = {
    "too few": lambda k: k[1](),
    "too many": lambda k: k[1](np.zeros(64, np.int32), 1, 2),
    "another type": lambda k: k[1](np.zeros(64), 1),
    "no array": lambda k: k[1]([1, 2], 1),
    "strides": lambda k: k[1](np.zeros(128, np.int32)[::2], 1),
    "a float for an int": lambda k: k[1](np.zeros(64, np.int32), 1.5),
    "no grid": lambda k: k[0](np.zeros(64, np.int32), 1),
    "a word for a grid": lambda k: k["1"](np.zeros(64, np.int32), 1),
    "a name that is nobody's": lambda k: k[1](np.zeros(64, np.int32), 1, x=1),
}


@pytest.mark.parametrize("what", LAUNCHES)
def test_launches_that_do_not_fit(what, tmp_path):
    file = tmp_path / "a.cu"
    file.write_text(kernel("a[threadIdx.x] = n;"))
    with pytest.raises(SnapError) as refused:
        LAUNCHES[what](cudac.load(file, "k"))
    assert refused.value.code == "CUDAC006"


def test_headers_that_are_missing_are_taken_for_empty(tmp_path):
    file = tmp_path / "a.cu"
    file.write_text('#include <nowhere.h>\n#include "nor/here.cuh"\n' + kernel("a[threadIdx.x] = n;"))
    out = np.zeros(64, np.int32)
    cudac.load(file, "k")[1](out, 3)
    assert (out == 3).all()
