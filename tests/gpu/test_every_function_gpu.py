"""What holds for every function of the library on a GPU: streams, graphs, autograd's and other threads, torch.compile of deep models; the rest of it runs in
tests/torch_ops/test_every_function.py, there too."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from lib.torch_functions import FUNCTIONS, L, several

OF_A_GPU = list(FUNCTIONS)


def same(found, wanted):
    for one, other in zip(several(found), several(wanted), strict=True):
        torch.testing.assert_close(one.detach().double(), other.detach().double(), rtol=1e-2, atol=1e-2)


def result(name, seed=0):
    """With what it writes and its gradients."""
    function = FUNCTIONS[name]
    given = function.tensors("cuda", seed=seed)
    leaves = [one.requires_grad_() if k in function.gradients else one for k, one in enumerate(given)]
    found = several(function.call(*leaves))
    if function.gradients:
        sum(one.float().sum() for one in found).backward()
    return [one.detach() for one in found] + [given[k].grad for k in function.gradients] + [given[k] for k in function.written]


@pytest.mark.parametrize("name", OF_A_GPU)
def test_a_stream_of_its_own(name):
    wanted = result(name)
    stream = torch.cuda.Stream()
    for _ in range(4):
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            torch.cuda._sleep(100_000)  # what comes before it on the stream is not over
            found = result(name)
        stream.synchronize()
        same(found, wanted)


@pytest.mark.parametrize("name", OF_A_GPU)
def test_a_graph(name):
    """It is captured, and replayed with other numbers in the same memory."""
    function = FUNCTIONS[name]
    given = function.tensors("cuda")
    for _ in range(3):
        function.call(*given)  # compiled, and written down
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = several(function.call(*given))
    for seed in (1, 2, 3):
        fresh, plain = function.tensors("cuda", seed=seed), function.tensors("cuda", seed=seed)
        for one, other in zip(given, fresh):
            one.copy_(other)
        graph.replay()
        same(found, function.call(*plain))
        for k in function.written:
            same(given[k], plain[k])


def kept(name):
    """The bytes of what is still allocated in a pool of torch's, once the first call of a function in this process was made in it and its results are gone."""
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        result(name)
    gc.collect()
    return [block["size"] for segment in pool.snapshot() for block in segment["blocks"] if block["state"] == "active_allocated"]


def test_no_function_keeps_memory_of_its_first_call():
    """It may be a graph's: torch refuses a graph ("not tracked as outputs") whose pool holds what nobody returned."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    ended = subprocess.run([sys.executable, __file__], env=environment, capture_output=True, text=True, timeout=240)
    assert not ended.returncode, ended.stderr[-2000:]
    found = json.loads(ended.stdout.splitlines()[-1])
    assert found == dict.fromkeys(FUNCTIONS, [])


def test_threads():
    wanted = {name: result(name) for name in FUNCTIONS}
    torch.cuda.synchronize()
    with ThreadPoolExecutor(16) as pool:
        for _ in range(4):
            for name, done in {name: pool.submit(result, name) for name in FUNCTIONS}.items():
                same(done.result(), wanted[name])


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_a_deep_model_compiled(mode):
    weight = torch.rand(64, device="cuda") + 0.5
    targets = torch.arange(8, device="cuda")

    def model(x, r):
        for _ in range(40):
            x, r = L.rms_norm(x, weight, residual=r)
            x = L.gelu(x)
        return L.cross_entropy(L.swiglu(x, r), targets)

    def run(function):
        x = torch.linspace(-1, 1, 512, device="cuda").view(8, 64).requires_grad_()
        loss = function(x, torch.zeros_like(x))
        loss.backward()
        return loss.detach().clone(), x.grad.clone()

    compiled = torch.compile(model, fullgraph=True, mode=mode)
    for _ in range(4):
        same(run(compiled), run(model))


if __name__ == "__main__":
    print(json.dumps({name: kept(name) for name in FUNCTIONS}))
