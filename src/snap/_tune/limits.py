"""Know the limits of a block on a GPU, by which candidates are pruned.

Input:      a GPU of this machine, or the name of an architecture
Output:     `Limits`
Invariant:  without a GPU the numbers are those of the architecture, so that the same candidates are pruned everywhere
Non-goals:  occupancy
"""

from __future__ import annotations

from snap._compiler.ir.hardware import (
    BLOCK_SHARED,
    LEAST_BLOCK_SHARED,
    REGISTER_UNIT,
    SM_REGISTERS,
    THREAD_REGISTERS,
    WARP,
)
from snap.host.compile.nvrtc import check_arch
from snap.record import record


@record
class Limits:
    """name    of the GPU, or of the architecture if there is none
    target  the architecture to compile for
    shared  bytes per block
    """

    name: str
    target: str
    arch: int
    shared: int

    @staticmethod
    def of_arch(target: str) -> Limits:
        number = check_arch(target)
        return Limits(target, target, number, BLOCK_SHARED.get(number, LEAST_BLOCK_SHARED))

    @staticmethod
    def of_gpu(number: int) -> Limits:
        from snap.host.device.driver import driver

        device = driver().device(number)
        return Limits(gpu_name(number), device.target, device.arch, device.shared_limit)


def gpu_name(number: int) -> str:
    import ctypes

    from snap.host.device.driver import driver

    handle, text = ctypes.c_int(), ctypes.create_string_buffer(128)
    driver().call("cuDeviceGet", ctypes.byref(handle), number)
    driver().call("cuDeviceGetName", text, len(text), handle)
    return text.value.decode(errors="replace")


def registers_a_thread(threads: int) -> int:
    """Return the most registers per thread in a block of that size; they are allocated in eights."""
    warps = -(-threads // WARP)
    return min(THREAD_REGISTERS, SM_REGISTERS // (warps * WARP) // REGISTER_UNIT * REGISTER_UNIT)
