"""What the driver reports, in words."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from snap.host.device.contexts import OnDevice
from snap.host.device.driver import Device, Driver
from snap.host.device.gpu import GpuKernel
from snap.host.errors import GpuError, LostGpuError, ToolchainError


def failing(result):
    """A driver all of whose calls fail in the same way."""
    return Driver(SimpleNamespace(cuGetErrorName=lambda *a: 0, cuGetErrorString=lambda *a: 0, cuLaunchKernelEx=lambda *a: result, cuCtxGetCurrent=lambda *a: 0, cuCtxSetCurrent=lambda *a: 0,
                                  cuModuleLoadData=lambda *a: result))


@pytest.mark.parametrize(("result", "words", "machine"), [
    (700, "an index out of bounds", True), (716, "a copy of it is aligned", False), (710, "an `assert` that did not hold", True),
])
def test_what_an_earlier_kernel_left_behind(result, words, machine):
    error = failing(result).launch_failure(result, "k")
    assert isinstance(error, LostGpuError) and "a kernel that ran before `k`" in str(error) and words in str(error)
    assert ("CPU machine" in str(error)) == machine  # copies of the arrays would be aligned there


def test_a_launch_that_failed_itself():
    error = failing(1).launch_failure(1, "k")
    assert type(error) is GpuError and "the launch of `k` failed" in str(error)


@pytest.mark.parametrize(("result", "kind", "words"), [(716, LostGpuError, "a kernel that ran before `k`"), (209, ToolchainError, "did not load `k`")])
def test_loading_tells_an_earlier_failure_from_its_own(monkeypatch, result, kind, words):
    from snap.host.device import gpu

    monkeypatch.setattr(gpu, "compile_cubin", lambda *a, **options: b"")
    kernel = object.__new__(GpuKernel)
    kernel.driver = OnDevice(failing(result), Device(0, 90, 132, 232448, True, 1))
    compiled = SimpleNamespace(module=SimpleNamespace(text="", kernel="k", dynamic_smem=0, cluster=0, asserts=(), prints=False), lined="", typed=SimpleNamespace(uses_unsafe=False))
    with pytest.raises(kind, match=words):
        kernel._load(compiled, SimpleNamespace(target="sm_90a"))
