"""Count the blocks of a kernel that a device runs at once.

Input:      what a block takes (threads, registers, shared memory), and a device: a GPU, or an architecture's number and
            the number of its SMs
Output:     the number of blocks of `k.most_blocks()` and of `k[fill()]`, and what limits it
Invariant:  a GPU is asked by its driver; without one, the count is that of NVIDIA's occupancy calculator.  A kernel of
            which not even one block fits is refused with the numbers
Non-goals:  how many blocks are best; clusters without a GPU are counted as if each SM could run any of
            their blocks
"""

from __future__ import annotations

from typing import Any

from snap._compiler.ir.hardware import (
    BLOCK_RESERVED,
    BLOCK_SHARED,
    FEWER_BLOCKS,
    FEWER_THREADS,
    LEAST_BLOCK_SHARED,
    SHARED_UNIT,
    SM_BLOCKS,
    SM_PARTS,
    SM_REGISTERS,
    SM_THREADS,
    WARP,
    WARP_REGISTER_UNIT,
)
from snap.host.arguments.sizes import upto_of
from snap.host.compile.nvrtc import check_arch, check_module, resources
from snap.host.errors import LaunchError
from snap.record import record
from snap.targets import Fill

MACHINE_SMS = 4  # of the CPU machine and the PTX machine, for `fill()`


@record
class BlockNeeds:
    """Say what one block takes: threads, registers of each of them, and bytes of shared memory."""

    threads: int
    registers: int
    shared: int

    def __str__(self) -> str:
        return f"{self.threads} threads of {self.registers} registers and {self.shared} bytes of shared memory"


@record
class Fit:
    """Count the blocks that fit an SM, by each of its limits."""

    threads: int
    blocks: int
    registers: int
    shared: int

    @property
    def least(self) -> int:
        return min(self.threads, self.blocks, self.registers, self.shared)

    @property
    def limit(self) -> str:
        """Name what limits the number."""
        counts = {"registers": self.registers, "shared memory": self.shared, "threads": self.threads}
        return next((what for what, count in counts.items() if count == self.least), "the number of blocks")


def fit_of(arch: int, needs: BlockNeeds) -> Fit:
    """Count the blocks that one SM of an architecture runs at a time."""
    warps = -(-needs.threads // WARP)
    of_warp = -(-needs.registers * WARP // WARP_REGISTER_UNIT) * WARP_REGISTER_UNIT
    # A block is let in if its registers fit were its warps in all parts alike.
    alike = -(-warps // SM_PARTS) * SM_PARTS
    room = SM_REGISTERS // SM_PARTS // of_warp * SM_PARTS // warps if of_warp else SM_BLOCKS
    shared = BLOCK_SHARED.get(arch, LEAST_BLOCK_SHARED)
    held = -(-(needs.shared + BLOCK_RESERVED) // SHARED_UNIT) * SHARED_UNIT
    return Fit(
        FEWER_THREADS.get(arch, SM_THREADS) // WARP // warps,
        FEWER_BLOCKS.get(arch, SM_BLOCKS),
        room if alike * of_warp <= SM_REGISTERS else 0,
        (shared + BLOCK_RESERVED) // held if needs.shared <= shared else 0,
    )


def most_blocks(compiled: Any, arch: str | None, sms: int | None, device: int | None) -> int:
    """Count the blocks that run at once on a device: a GPU, or so many SMs of an architecture."""
    kernel = compiled.module.kernel
    if arch is None and sms is None:
        return _on_gpu(compiled, device)
    if device is not None:
        raise ValueError("`device=` is a GPU of this machine, whose architecture and number of SMs are known")
    if arch is None or sms is None:
        raise ValueError('without a GPU, give both: `k.most_blocks(arch="sm_90a", sms=132)`')
    if isinstance(sms, bool) or not isinstance(sms, int) or sms < 1:
        raise ValueError(f"`sms=` is a number of them, 1 or more, not {sms!r}")
    needs = needs_of(compiled, arch)
    fit = fit_of(check_arch(arch), needs)
    if not fit.least:
        raise LaunchError(kernel, f"not one block fits an SM of {arch}: it has {needs}; {_less(fit)}")
    unit = max(compiled.module.cluster, 1)
    return fit.least * sms // unit * unit


def _less(fit: Fit) -> str:
    ways = {"registers": "`resident=1` limits the registers", "shared memory": "hold less shared memory"}
    return ways.get(fit.limit, "make the block smaller")


def needs_of(compiled: Any, arch: str) -> BlockNeeds:
    """Find what a block takes; arrays whose size a launch decides count with the most that they may have."""
    module = compiled.module
    check_module(module, arch)
    found = resources(
        module.text, arch, module.kernel, dynamic_smem=module.dynamic_smem, unsafe=compiled.typed.uses_unsafe
    )
    most = sum(-(-a.row * upto_of(a.obj) // a.align) * a.align for a in module.at_launch)
    return BlockNeeds(module.threads, found.registers, found.smem + most)


def _on_gpu(compiled: Any, device: int | None) -> int:
    from snap.host.device.driver import driver
    from snap.host.errors import GpuError, ToolchainError
    from snap.host.launch import launcher

    kernel = compiled.module.kernel
    try:
        number = driver().current_device() if device is None else device
        if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < driver().count:
            raise ValueError(f"`device=` is a GPU's number, below {driver().count}, not {device!r}")
    except (ToolchainError, GpuError) as missing:
        raise LaunchError(
            kernel,
            f'there is no GPU to ask ({missing}); `k.most_blocks(arch="sm_90a", sms=132)` counts without',
        ) from missing
    loaded = launcher(compiled).on(number)
    most = compiled.module.dynamic_smem
    most += sum(-(-a.row * upto_of(a.obj) // a.align) * a.align for a in compiled.module.at_launch)
    fit: int = loaded.room(most)
    return fit


def on_machine(fill: Fill, promised: int) -> int:
    """Count the blocks of `fill()` on the CPU and the PTX machine: at least as many as the kernel promises."""
    count = MACHINE_SMS * (fill.per_sm or 1)
    return fill.of(max(count, fill.unit(promised)), promised)


def on_device(fill: Fill, fit: int, sms: int, promised: int, kernel: str) -> int:
    """Count the blocks of `fill()` on a GPU on which `fit` of them fit at once."""
    if fill.per_sm is not None:
        fit = min(fit, fill.per_sm * sms)
    number = fill.of(fit, promised)
    if not number and fill.at_most != 0:
        raise LaunchError(
            kernel,
            f"`fill()` launches as many blocks as fit at once, {fit}, which is less than the multiple of"
            f" {fill.unit(promised)} that is asked for",
        )
    return number
