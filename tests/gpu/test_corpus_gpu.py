"""Every program of tests/ok, run on the GPU: where it would run on the CPU machine, its arrays are copied there and back."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from snap.ir.types import BF16
from snap.runtime.arrays import ArrayInfo, as_numpy
from snap.runtime.launch import Launcher

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from corpus import OK  # noqa: E402


@pytest.fixture
def on_the_gpu(monkeypatch):
    launches = []
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

    monkeypatch.setattr(Launcher, "_run_on_cpu", run)
    return launches


@pytest.mark.parametrize("program", OK, ids=lambda program: program.name)
def test_ok_program(program, on_the_gpu):
    namespace = program.execute()
    (namespace.get("check") or namespace.get("main"))()
    assert on_the_gpu, "nothing ran on the GPU"
