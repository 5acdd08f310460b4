"""What a GPU gives one block: the numbers that candidates are pruned by.

Input:      a GPU of this machine, or the name of an architecture
Output:     `Limits`
Invariant:  without a GPU the numbers are those of the architecture, so that the same candidates are pruned everywhere
Non-goals:  occupancy
"""

from __future__ import annotations

from snap.record import record
from snap.runtime.compile import check_arch

MOST_THREADS = 1024
MOST_REGISTERS = 255  # a thread can name
BLOCK_REGISTERS = 65_536

# Shared memory that one block may ask for, in bytes; an architecture that is not here has what the smallest of its
# generation has.
_SHARED = {
    80: 166_912,
    86: 101_376,
    87: 166_912,
    89: 101_376,
    90: 232_448,
    100: 232_448,
    103: 232_448,
    110: 232_448,
    120: 101_376,
    121: 101_376,
}


@record
class Limits:
    """name    of the GPU, or of the architecture where there is none
    target  what to compile for
    shared  bytes a block
    """

    name: str
    target: str
    arch: int
    shared: int

    @staticmethod
    def of_arch(target: str) -> Limits:
        number = check_arch(target)
        return Limits(target, target, number, _SHARED.get(number, 101_376))

    @staticmethod
    def of_gpu(number: int) -> Limits:
        from snap.runtime.driver import driver

        device = driver().device(number)
        return Limits(gpu_name(number), device.target, device.arch, device.shared_limit)


def gpu_name(number: int) -> str:
    import ctypes

    from snap.runtime.driver import driver

    handle, text = ctypes.c_int(), ctypes.create_string_buffer(128)
    driver().call("cuDeviceGet", ctypes.byref(handle), number)
    driver().call("cuDeviceGetName", text, len(text), handle)
    return text.value.decode(errors="replace")


def registers_a_thread(threads: int) -> int:
    """The most registers that a thread of a block of so many can have; they are given out in eights."""
    warps = -(-threads // 32)
    return min(MOST_REGISTERS, BLOCK_REGISTERS // (warps * 32) // 8 * 8)
