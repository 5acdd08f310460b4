"""Programs written for the CPU machine, run on the GPU: their arrays are copied there and back."""

from __future__ import annotations

import numpy as np
import torch

from snap.ir.types import BF16
from snap.runtime.arrays import ArrayInfo, as_numpy
from snap.runtime.launch import Launcher


def borrow(launches: list):
    """What stands for `Launcher._run_on_cpu`; the kernels it ran are noted in `launches`.  Seeded runs stay on the CPU."""
    on_the_cpu = Launcher._run_on_cpu

    def run(self, bound, blocks, seed):
        if seed is not None:
            return on_the_cpu(self, bound, blocks, seed)
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
        self.launch(tuple(args), blocks, target="gpu")
        torch.cuda.synchronize()
        for array, tensor in back:
            array[...] = tensor.cpu().numpy()
        launches.append(self.signature.kernel)

    return run
