"""Batches of programs: one compilation gives the instructions of many, they are launched together, and what goes wrong is traced to the program that did it.

The driver is a stand-in whose memory is the host's and whose launches are runs of the CPU machine: everything above the driver is what runs on a GPU."""

from __future__ import annotations

import ctypes
import os
import struct
from functools import partial

import numpy as np
import pytest
from host.test_contexts import Cuda

from fuzz import launching
from fuzz.batches import Batch, batch_of, drawn, entries, machine_code, text_together
from fuzz.campaign import Tally, tallied
from fuzz.case import FAMILIES, generate, load, made
from fuzz.oracles import judge
from snap.host import launch
from snap.host.arguments import arrays
from snap.host.device import gpu as device
from snap.host.device.driver import Driver

ILLEGAL = 700  # CUDA_ERROR_ILLEGAL_ADDRESS: the process's context is lost
HEADER = struct.Struct("<IIQQQQIIQQ")  # of a section, in ELF


# ---- the machine code ----------------------------------------------------------------------------------------------------------------------


def instructions(cubin: bytes) -> dict[str, np.ndarray]:
    """Of each kernel, one row of 16 bytes for each instruction."""
    start, (count, names) = struct.unpack_from("<Q", cubin, 40)[0], struct.unpack_from("<HH", cubin, 60)
    headers = [HEADER.unpack_from(cubin, start + HEADER.size * n) for n in range(count)]
    named = [(cubin[headers[names][4] + h[0]:].split(b"\0", 1)[0].decode(), h) for h in headers]
    return {name.removeprefix(".text."): np.frombuffer(cubin, np.uint8, h[5], h[4]).reshape(-1, 16) for name, h in named if name.startswith(".text.")}


@pytest.mark.parametrize("family", FAMILIES)
def test_one_compilation_gives_the_instructions_that_each_program_has_alone(family):
    """But for one or another: functions of the compiler's own, as `min`, are inlined in another order where several kernels call them."""
    outcomes, batch = batch_of([(family, seed) for seed in range(3 if family in ("parts", "flights", "relays") else 6)])
    together = instructions(batch.cubin)
    names = entries(len(batch.programs))
    assert sorted(together) == sorted(names) and len(names) > 1 and not [o for o in outcomes if o.status == "failed"]
    others = [p.name for name, p in zip(names, batch.programs) if not alike(load(generate(p.family, p.seed))._the_one({}).module, together[name])]
    assert len(others) < len(names) / 2, f"other instructions in a batch: {others}"


def alike(module, found: np.ndarray) -> bool:
    (alone,) = instructions(machine_code([module])).values()
    if "snap_fail" in module.text:  # the places of strings, in operands
        alone, found = np.delete(alone, range(4, 8), axis=1), np.delete(found, range(4, 8), axis=1)
    return np.array_equal(alone, found)


def test_the_text_of_a_batch_has_each_kernel_as_it_is_alone():
    modules = [judge(generate("records", seed), seeds=0, slow=False).kernel._the_one({}).module for seed in range(3)]
    text = text_together(modules)
    for number, module in enumerate(modules):
        head, body = module.text[module.text.index('extern "C"'):].split(" k(", 1)
        assert f"{head} snap_program_{number}({body.rstrip()}" in text
        functions = [part for part in module.text.split("\n\n") if part.startswith(("static", "template", "struct"))]
        assert functions and all(part in text for part in functions)
    assert text_together(modules[:1]) == modules[0].text


def test_a_program_that_the_compiler_refuses_does_not_take_others_with_it(monkeypatch):
    def refusing(modules):
        if any("memory:2 " in module.text for module in modules):
            raise RuntimeError("no such instruction")
        return machine_code(modules)

    monkeypatch.setattr("fuzz.batches.machine_code", refusing)
    outcomes, batch = batch_of([("memory", seed) for seed in range(4)])
    assert [(o.case.name, o.kind) for o in outcomes if o.status == "failed"] == [("memory:2", "gpu: does not compile: RuntimeError")]
    assert [p.seed for p in batch.programs] == [o.case.seed for o in outcomes if o.status == "accepted"]


def test_a_batch_is_of_one_family():
    found = list(drawn(iter([("a", 0), ("b", 0), ("a", 1), ("b", 1), ("a", 2)]), 2))
    assert found == [[("a", 0), ("a", 1)], [("b", 0), ("b", 1)], [("a", 2)]]


# ---- launches ------------------------------------------------------------------------------------------------------------------------------


class Gpu(Cuda):
    """faults: by a program's name, what it does: it writes beside its array, stops the GPU, gives another result (always, or where others run as well), ends the process."""

    def __init__(self, programs, faults=None):
        super().__init__()
        self.kernels = {entry: generate(p.family, p.seed) for p, entry in zip(programs, entries(len(programs)))}
        self.faults, self.lost, self.functions, self.held, self.modules = faults or {}, 0, [], {}, 0

    def __getattr__(self, name):
        call = super().__getattr__(name)
        return lambda *args: (0 if name.startswith("cuGetError") else self.lost) or call(*args)

    def _cuModuleLoadData(self, module, cubin):
        self.modules += 1
        module._obj.value = 7

    def _cuModuleUnload(self, module):
        self.modules -= 1

    def _cuModuleGetFunction(self, function, module, name):
        assert module.value == 7
        self.functions.append(name.decode())
        function._obj.value = len(self.functions)

    def _cuPointerGetAttribute(self, number, *given):
        number._obj.value = 0

    def _cuMemAlloc_v2(self, pointer, size):
        memory = np.zeros(size.value + 256, np.uint8)
        pointer._obj.value = at = memory.ctypes.data + -memory.ctypes.data % 256
        self.held[at] = memory

    def _cuMemFree_v2(self, pointer):
        del self.held[pointer.value]

    def _cuMemcpyHtoD_v2(self, to, source, size):
        ctypes.memmove(to, source, size.value)

    def _cuMemcpyDtoH_v2(self, to, source, size):
        ctypes.memmove(to, source, size.value)

    def _launch(self, config, function, values, extra):
        case = self.kernels[self.functions[function - 1]]
        given = struct.unpack(f"<{len(case.arguments)}Q", ctypes.string_at(values, 8 * len(case.arguments)))
        pointers = [struct.unpack("<Q", ctypes.string_at(at, 8))[0] for at in given]
        on_gpu = [np.frombuffer((ctypes.c_uint8 * a.nbytes).from_address(p), a.dtype).reshape(a.shape) if isinstance(a, np.ndarray) else a for a, p in zip(made(case), pointers)]
        load(case)[case.blocks](*on_gpu)
        match self.faults.get(case.name):
            case "beside":
                ctypes.memset(pointers[0] + on_gpu[0].nbytes + 3, 0, 1)
            case "stops":
                self.lost = ILLEGAL
            case "ends":
                os._exit(7)
            case "differs":
                on_gpu[0].reshape(-1).view(np.uint8)[0] ^= 1
            case "differs among others" if len(self.kernels) > 1 and len(self.functions) > 1:
                on_gpu[0].reshape(-1).view(np.uint8)[0] ^= 1
        self.launches.append(case.name)
        return 0


@pytest.fixture(scope="module")
def batch() -> Batch:
    return batch_of([("boxes", seed) for seed in range(2)] + [("grid", seed) for seed in range(3)] + [("clusters", 0)])[1]


def put(cuda: Gpu, monkeypatch) -> Gpu:
    """In the place of the machine's driver."""
    driver = Driver(cuda)
    for module in (arrays, device, launch, launching):
        monkeypatch.setattr(module, "driver", lambda: driver)
    launching.here.cache_clear()
    launching.memory.cache_clear()
    return cuda


def sit(batch, faults, monkeypatch, item=None) -> Tally:
    put(Gpu(batch.programs, faults), monkeypatch)
    return tallied(launching.outcomes([item or batch], launching.launching(launching.on_gpu, 2, None), 2, limit=20.0), Tally())


def test_programs_of_a_batch_are_launched_together(batch, monkeypatch):
    cuda = put(Gpu(batch.programs), monkeypatch)
    launching.stand_in(monkeypatch.setattr)
    done = launching.launched(batch, launching.on_gpu, 2, None)
    names = [p.name for p in batch.programs]
    assert [(o.case.name, o.status) for o in done.outcomes] == [(name, "accepted") for name in names] and not done.again
    assert cuda.launches == names * 2 and cuda.modules == 0
    assert [name for name, _ in cuda.calls].count("cuMemcpyDtoH_v2") == 1


@pytest.mark.parametrize(("fault", "kind"), [("beside", "gpu: Overwritten"), ("stops", "gpu: LostGpuError"), ("differs", "gpu difference"), ("ends", "the process ended with 7")])
def test_what_goes_wrong_is_traced_to_its_program(fault, kind, batch, monkeypatch):
    wrong = batch.programs[2].name
    tally = sit(batch, {wrong: fault}, monkeypatch)
    assert [(o.case.name, o.kind) for o in tally.failures] == [(wrong, kind)]
    assert tally.done == len(batch.programs)


def test_what_goes_wrong_only_among_others_is_told_as_well(batch, monkeypatch):
    wrong = batch.programs[1].name
    tally = sit(batch, {wrong: "differs among others"}, monkeypatch)
    (failure,) = tally.failures
    assert failure.kind == launching.AMONG and f"{wrong}: gpu difference: run 0: argument 0" in failure.detail
    assert tally.done == len(batch.programs)


def test_programs_made_where_they_are_launched(monkeypatch):
    """As with `--gpu` and nothing prepared: refused ones are counted, too."""
    items = [("memory", seed) for seed in range(6)]
    outcomes, batch = batch_of(items)
    tally = sit(batch, {batch.programs[0].name: "differs"}, monkeypatch, items)
    assert tally.done == 6 and [o.case.name for o in tally.failures] == [batch.programs[0].name]
    assert tally.of("refused") == sum(o.status == "refused" for o in outcomes)


def test_another_program_than_was_prepared_is_not_launched(batch, monkeypatch):
    other = batch._replace(programs=(batch.programs[0]._replace(text=1),))
    (failure,) = sit(other, {}, monkeypatch).failures
    assert failure.kind == "prepared from another text"


def test_time_that_is_over_is_kept_to(batch, monkeypatch):
    monkeypatch.setattr(launching, "outcomes", partial(launching.outcomes, until=0.0))
    (failure,) = sit(batch, {batch.programs[2].name: "differs"}, monkeypatch).failures
    assert failure.kind == launching.AMONG and f"{batch.programs[2].name}: gpu difference" in failure.detail
