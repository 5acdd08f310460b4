"""What is kept under a key is found again by the same, and by nothing else: kernels that look alike, compilers that differ."""

from __future__ import annotations

import numpy as np
import pytest

import snap
from snap import *
from snap.host.compile import nvrtc as compiling

TEXT = """from __future__ import annotations
from snap import *


@device
@requires(thread[1])
def moved(v: int) -> int:
    return v + SHIFT


@kernel
@requires(grid[1], block[1], thread[32])
def filled(y: ptr(int), n: constexpr(int) = 7):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(y, p=thread[1], offset=i) as mine:
            with group(thread[1]):
                mine[0] = moved(n)
"""


def in_one_file(shift: int, text: str = TEXT):
    """Same file, same lines, same names."""
    snap.register_source("<one file>", text)
    namespace = {"SHIFT": shift}
    exec(compile(text, "<one file>", "exec", dont_inherit=True), namespace)
    return namespace["filled"]


def enclosed(value):
    @kernel
    @requires(grid[1], block[1], thread[32])
    def filled(y: ptr(int)):
        with group(grid[1]):
            i: int @ thread[1] = id()
            with partition(y, p=thread[1], offset=i) as mine:
                mine[0] = int(value)

    return filled


def found(k, *args) -> list[int]:
    """Without a seed and with one, twice each."""
    results = []
    for seed in (None, 1, None, 1):
        y = np.zeros(32, np.int32)
        k.launch(y, *args, blocks=1, seed=seed)
        results.append(int(y[31]))
    return results


def test_kernels_that_look_alike():
    alike = [(in_one_file(1), 8), (in_one_file(2), 9), (in_one_file(1, TEXT.replace("= 7", "= 5")), 6),
             (in_one_file(1, TEXT.replace("v + SHIFT", "v - SHIFT")), 6), *((enclosed(v), int(v)) for v in (4, 5, 10.5, True))]
    for _ in range(2):
        for k, expected in alike:
            assert found(k) == [expected] * 4
    assert len({k.cuda() for k, _ in alike}) == len(alike)
    for n in (3, 4, 3):
        assert found(alike[0][0], n) == [n + 1] * 4


FIRST, SECOND = 20, -3


@device
@requires(thread[1])
def raised(v: int, by: constexpr(int) = FIRST, minus: constexpr(int) = -1, twice: constexpr(int) = 2 * SECOND) -> int:
    return v + by + 100 * minus + 1000 * twice


def test_defaults_are_what_they_were_when_the_function_was_defined():
    """Names in a default mean what they mean there, not where the function is called."""

    def calling():
        FIRST, SECOND = 0, 0

        @kernel
        @requires(grid[1], block[1], thread[32])
        def filled(y: ptr(int), n: constexpr(int) = -SECOND - 5):
            with group(grid[1]):
                i: int @ thread[1] = id()
                with partition(y, p=thread[1], offset=i) as mine:
                    with group(thread[1]):
                        mine[0] = raised(n + FIRST)

        return filled

    assert found(calling()) == [-5 + 20 - 100 - 6000] * 4
    assert found(calling(), 1) == [1 + 20 - 100 - 6000] * 4


@pytest.mark.parametrize("change", ["compiler", "options", "text", "architecture", "kind", "lines"])
def test_compiled_code_is_of_one_compiler_and_its_options(change, monkeypatch):
    monkeypatch.setenv("SNAP_CACHE_DIR", "")
    monkeypatch.setattr(compiling, "compiler_identity", lambda: ("nvrtc", "12.8"))
    made = []
    monkeypatch.setattr(compiling, "_nvrtc", lambda *of, **others: made.append(of) or f"{len(made)}".encode())
    first = text = f"// {change}"
    arch = "sm_90a"
    assert compiling.compile_cubin(first, arch) == compiling.compile_cubin(first, arch) == b"1"
    match change:
        case "compiler":
            monkeypatch.setattr(compiling, "compiler_identity", lambda: ("nvrtc", "13.0"))
        case "options":
            monkeypatch.setattr(compiling, "_OPTIONS", (*compiling._OPTIONS, "-G"))
        case "text":
            text = first + " "
        case "architecture":
            arch = "sm_90"
        case "kind":
            assert compiling.compile_ptx(text, arch) == "2"
            return
        case "lines":
            assert compiling.compile_cubin(first, arch, lined=f"#line 1\n{first}") == b"2"
            return
    assert compiling.compile_cubin(text, arch) == b"2"
