"""Every kind of tensor on the GPU: a repeated launch, and a repeated call of the library, does with it what the first one does, which refuses it or is right.

What goes wrong here may take the process's hold on the GPU with it, end the process, or never end.  So it happens in processes of their own, one for each subject,
which write what came of each kind, line by line; where one is lost, the kind that it was at has failed, and another process goes on behind it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch
from lib.plans_of import all_of
from lib.torch_kinds import KINDS, TRANSFORMS, kinds, plain_of

import snap
from snap import *
from snap import lib
from snap.host.launch import launcher
from snap.host.plan import launches
from snap.host.plan.plans import MISS
from snap.host.torch import torchreads
from snap.lib._layers import norms
from snap.lib._torch import ops as torch_ops

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
SECONDS = 240  # for a process, which compiles kernels
# What is a plain tensor to every repetition, and what the first launch of a kernel takes besides.
PLAIN = {"plain", "parameter", "buffer", "wants a gradient", "made in inference mode", "lazy copy"}
LEAVES = {"wants a gradient"}  # what no launch may overwrite, as torch has it
TAKEN = PLAIN | {"named", "subclass", "subclass that sees functions", "subclass that sees dispatch"}


@kernel(threads=256)
def add(x: ptr(const(float)), y: ptr(float), n: int):
    with each(thread, y) as i:
        if i < n:
            y[i] = y[i] + 2.0 * x[i]


# ---- in the process of a subject ------------------------------------------------------------------------------------


def told(work):
    """What comes of it, in words and numbers: some tensors cannot be printed."""
    try:
        found = work()
        if torch.cuda.is_initialized():
            torch.cuda.synchronize()
    except snap.LaunchError as error:
        return ["refused", str(error)]
    except Exception as error:
        return ["raised", f"{type(error).__name__}: {error}"[:300]]
    try:
        plain = plain_of(found)
        looked_at, wanted = torchreads.plain_keys("CUDA" if plain.is_cuda else "CPU")
        numbers = torchreads.keys(plain) & looked_at == wanted and torchreads.has_memory(plain)
    except (RuntimeError, TypeError, NotImplementedError):  # a tensor of a transform, or of a subclass that holds others
        numbers = False
    return ["made", plain.float().cpu().reshape(-1)[:64].tolist() if numbers else type(found).__name__]


class Launches:
    """`add`, with the tensor read, or written: the first is the whole way, which every launch may take."""

    def __init__(self, written):
        self.written = written

    def plain(self, device):
        return torch.full((8, 8), 3.0, device=device)

    def by(self, launch, tensor):
        other = torch.ones(64, device=DEVICE)
        launch(*((other, tensor, 64) if self.written else (tensor, other, 64)))
        return tensor if self.written else other

    def first(self, tensor):
        return self.by(lambda *args: launcher(add._specialized({})).start(args, 1), tensor)

    def again(self, tensor):
        return self.by(add[1], tensor)


class Calls:
    """A function of the library: the first, once all that was written down is forgotten."""

    def __init__(self, function, shape, dtype, *rest):
        self.function, self.shape, self.dtype, self.rest = function, shape, dtype, rest

    def plain(self, device):
        return torch.arange(64 * 64, device=device).remainder(5).sub(2).to(self.dtype)[: self.shape[0] * self.shape[1]].view(self.shape)

    def again(self, tensor):
        return self.function(tensor, *(torch.ones(shape, dtype=self.dtype, device=DEVICE) for shape in self.rest))

    def first(self, tensor):
        forget()
        return self.again(tensor)


def forget():
    inner = [way.inner for way in torch_ops._ways.values()]
    for function in [lib.softmax, lib.gemm, norms._norm, *inner]:
        if getattr(function, "calls", None) is not None:
            function.calls.clear()


SUBJECTS = {
    "read": Launches(False),
    "written": Launches(True),
    "softmax": Calls(lib.softmax, (16, 64), torch.float32),
    "gemm": Calls(lib.gemm, (64, 64), torch.bfloat16, (64, 64)),
    "layer_norm": Calls(lib.layer_norm, (16, 64), torch.float32, (64,)),
}
DEVICE = "cuda"


def all_kinds(t):
    yield from kinds(t)
    if t.is_cuda:
        yield "in the CPU's memory", t.cpu()
        if torch.cuda.device_count() > 1:
            yield "on another GPU", t.to(f"cuda:{(t.get_device() + 1) % torch.cuda.device_count()}")


def ran_in(subject, name, plain):
    """A transform in which each of them is called; what came of each."""
    found = {}

    def inside(which):
        return TRANSFORMS[name](lambda x: found.__setitem__(which, told(lambda: getattr(subject, which)(x))[:1]), plain)

    def safely(which):
        try:
            inside(which)
        except Exception as error:
            found.setdefault(which, ["raised", f"{type(error).__name__}: {error}"[:300]])

    safely("first")
    for _ in range(3):
        subject.again(subject.plain(DEVICE))
    safely("again")
    return {"first": found.get("first"), "again": [found.get("again")], "plain": None}


def check_health():
    """A process that has lost the GPU ends, before it says what came of the kind that it is at."""
    try:
        if torch.cuda.is_initialized():
            torch.cuda.synchronize()
    except RuntimeError as error:
        sys.stderr.write(f"the GPU is lost: {error}\n")
        sys.stderr.flush()
        os._exit(3)


def work(name, done):
    """Says of each kind that is not done when it begins, and what came of it."""
    subject = SUBJECTS[name]
    plain = subject.plain(DEVICE)
    for _ in range(3):
        subject.again(subject.plain(DEVICE))
    for kind, tensor in all_kinds(plain):
        if kind in done:
            continue
        print(json.dumps({"begun": kind}), flush=True)
        first = told(lambda: subject.first(tensor))  # noqa: B023
        said = {"first": first}
        for _ in range(3):
            subject.again(subject.plain(DEVICE))
        if subject is SUBJECTS["written"]:  # each adds to it
            fresh = [dict(kinds(plain, {kind})).get(kind, tensor) for _ in range(3)]
        else:
            fresh = [tensor] * 3
        said["again"] = [told(lambda: subject.again(one)) for one in fresh]  # noqa: B023
        said["plain"] = told(lambda: subject.again(subject.plain(DEVICE)))
        check_health()
        print(json.dumps({"kind": kind, **said}), flush=True)
    for transform in TRANSFORMS:
        kind = f"in {transform}"
        if kind not in done:
            print(json.dumps({"begun": kind}), flush=True)
            said = ran_in(subject, transform, subject.plain(DEVICE))
            check_health()
            print(json.dumps({"kind": kind, **said}), flush=True)
    print(json.dumps({"ended": True}), flush=True)


# ---- here -----------------------------------------------------------------------------------------------------------


def gone_through(name, device="cuda"):
    """What the processes of a subject say, by kind; of a kind at which one was lost: how it ended."""
    found, lost = {}, {}
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    for _ in range(4):
        command = [sys.executable, str(Path(__file__)), name, device, json.dumps([*found, *lost])]
        try:
            ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=SECONDS)
            said, how = ended.stdout, f"the process ended with {ended.returncode}: {ended.stderr[-600:]}"
        except subprocess.TimeoutExpired as late:
            said, how = (late.stdout or b"").decode() if isinstance(late.stdout, bytes) else late.stdout or "", f"nothing after {SECONDS} s"
        lines = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
        found |= {line["kind"]: line for line in lines if "kind" in line}
        if any("ended" in line for line in lines):
            return found, lost
        begun = [line["begun"] for line in lines if "begun" in line and line["begun"] not in found]
        if not begun:
            pytest.fail(f"{name}: {how}")
        lost[begun[-1]] = how
    return found, lost


def same(one, other):
    """Words, or numbers: a call with a gradient may be made by another kernel."""
    if type(one[-1]) is list and type(other[-1]) is list:
        return one[0] == other[0] and len(one[1]) == len(other[1]) and all(abs(x - y) <= 1e-5 * (1 + abs(y)) for x, y in zip(one[1], other[1]))
    return one == other


# What every torch makes on a GPU.
CERTAIN = PLAIN | {"lazily negated", "zeros without memory", "storage that is gone", "part of a storage that is gone", "sparse", "nested", "fake", "meta",
                   "subclass", "subclass without memory", "leaked from vmap", "in the CPU's memory"}


@pytest.mark.parametrize("name", SUBJECTS)
def test_a_repetition_does_with_each_kind_of_tensor_what_the_first_does(name):
    found, lost = gone_through(name)
    assert not lost
    assert len(found) >= len(KINDS) - 3 and set(found) >= CERTAIN | {f"in {transform}" for transform in TRANSFORMS}
    for kind, said in found.items():
        assert all(same(one, said["first"]) for one in said["again"]), (kind, said["first"], said["again"])
        assert said["plain"] is None or same(said["plain"], found["plain"]["first"]), f"a plain tensor after {kind}"
        if kind in LEAVES and name == "written":
            assert said["first"][0] == "refused" and "is a leaf that requires grad" in said["first"][1], kind
            continue
        assert said["first"][0] != "raised" or kind.startswith("in ") or "subclass" in kind or kind in RAISED_BY_TORCH, (kind, said["first"])
        if kind in PLAIN:
            assert same(said["first"], found["plain"]["first"]) and said["first"][0] == "made", kind
    if name in ("read", "written"):
        taken = TAKEN - LEAVES if name == "written" else TAKEN
        assert {kind for kind, said in found.items() if said["first"][0] == "made"} == taken & set(found)
        assert all(same(said["first"], found["plain"]["first"]) for kind, said in found.items() if kind in taken)


# The library leaves these to torch's dispatcher, which asks the subclass.
RAISED_BY_TORCH = {"nested, one after the other", "uninitialized parameter", "fake"}


def test_a_plain_tensor_on_a_gpu_has_the_keys_that_are_expected():
    """Else every launch takes the whole way: right, and slow."""
    looked_at, wanted = torchreads.plain_keys("CUDA")
    x = torch.ones(64, device="cuda")
    with torch.inference_mode():
        inside = torch.ones(64, device="cuda")
    for tensor in (x, inside, torch.nn.Parameter(x), x.requires_grad_(), x.detach()[3:]):
        assert torchreads.asked_keys(tensor) & looked_at == wanted and torchreads.keys(tensor) == torchreads.asked_keys(tensor)
    assert torchreads.asked_keys(torch._neg_view(x)) & looked_at != wanted


def test_plain_tensors_do_not_take_the_whole_way(monkeypatch):
    if launches.reason():
        pytest.skip(f"launches are not native: {launches.reason()}")
    x, y = torch.ones(64, device="cuda"), torch.ones(64, device="cuda")
    add[1](x, y, 64)
    monkeypatch.setattr(launcher(add._specialized({})), "start", None)  # who asks for it fails
    with torch.inference_mode():
        inside = torch.ones(64, device="cuda")
    for tensor in (x, inside, torch.nn.Parameter(x), x[8:], torch.ones(1, device="cuda")):
        add[1](tensor, y, tensor.numel())
    with pytest.raises(TypeError):
        add[1](torch._neg_view(x), y, 64)


def test_plain_tensors_take_a_plan():
    x = torch.rand(16, 64, device="cuda")
    for _ in range(3):
        lib.softmax(x)
    plan = lib.softmax.calls.plans.last
    gone = torch.rand(17, 64, device="cuda")[1:]
    took = [plan.run(*all_of(lib.softmax, one)) is not MISS for one in (x, x.clone(), gone)]
    assert took == [True] * 3
    gone.untyped_storage().resize_(0)
    took = [plan.run(*all_of(lib.softmax, one)) is not MISS for one in (gone, torch._neg_view(x), torch._efficientzerotensor((16, 64), device="cuda"))]
    assert took == [False] * 3


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    DEVICE = sys.argv[2]
    work(sys.argv[1], set(json.loads(sys.argv[3])))
