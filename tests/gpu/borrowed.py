"""Programs written for the CPU machine, run on the GPU: their arrays are copied there and back."""

from __future__ import annotations

import math

import numpy as np
import torch

from snap._compiler.ir.types import BF16
from snap.host.arguments.arrays import ArrayInfo, as_numpy
from snap.host.launch import Launcher


def as_launched(signature, blocks: int, args: tuple) -> int | tuple[int, ...]:
    """The grid that the user gave: the extents that a kernel asks for are the last of its arguments."""
    if not signature.axes:
        return blocks
    asked = dict(zip(signature.axes, args[len(signature.names) :]))
    grid = [asked.get(axis) for axis in range(max(asked) + 1)]
    others = math.prod(extent for extent in grid if extent is not None)
    return tuple(blocks // others if extent is None else extent for extent in grid)


def borrow(launches: list):
    """What stands for `Launcher._run_on_cpu`; the kernels it ran are noted in `launches`.  Seeded runs stay on the CPU."""
    on_the_cpu = Launcher._run_on_cpu

    def run(self, bound, blocks, seed, *others):
        if seed is not None:
            return on_the_cpu(self, bound, blocks, seed, *others)
        args, back = [], []
        for param, arg in zip(self.signature.params, bound.args):
            if isinstance(arg, ArrayInfo):
                array = as_numpy(arg)
                tensor = torch.from_numpy(np.array(array)).cuda()
                args.append(tensor.view(torch.bfloat16) if param.elem == BF16 else tensor)
                if not param.const:
                    back.append((array, tensor))
            else:
                args.append(arg)
        self.launch(tuple(args[: len(self.signature.names)]), as_launched(self.signature, blocks, bound.args), target="gpu")
        torch.cuda.synchronize()
        for array, tensor in back:
            array[...] = tensor.cpu().numpy()
        launches.append(self.signature.kernel)

    return run
