"""Kernels as the runtime sees them, made by hand: their parameters and their place are all that a launch looks at before it runs one."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from snap._compiler.ir import nodes as ir
from snap._compiler.ir.types import GRID1, I32, Held, Level, Place, Space
from snap.diag.span import Span

SPAN = Span("kernel.py", 1, 0, 1, 1)


class Kernel:
    """Stands for api.py's Compiled; `ran` holds what reached the CPU machine."""

    def __init__(self, typed: ir.Function, module: SimpleNamespace | None = None):
        self.typed = self.synced = typed
        self.module, self.lined = module, ""


class Maker:
    def __init__(self):
        self.uid = 0

    def value(self, name, type):
        self.uid += 1
        return ir.ValueParam(ir.Var(self.uid, name, type, GRID1, span=SPAN))

    def pointer(self, name, elem, shape=None, const=False):
        self.uid += 1
        obj = ir.MemObject(self.uid, name, elem, shape, const, Space.GLOBAL, GRID1, span=SPAN)
        return ir.MemParam(ir.Handle(self.uid, name, obj, GRID1, const, ir.Origin.PARAM, span=SPAN))

    def read(self, param):
        return ir.Read(param.var, param.var.type, span=SPAN)

    def const(self, value):
        return ir.Const(value, I32, span=SPAN)

    def binary(self, op, left, right):
        return ir.Binary(op, left, right, I32, span=SPAN)

    def write(self, pointer, elem):
        """Element 0 of the array, seen as `elem`, becomes itself."""
        obj = pointer.handle.obj
        access = ir.MemAccess(ir.MemView(obj, elem, None), (self.const(0),), pointer.handle, span=SPAN)
        return ir.Assign(ir.MemTarget(access, span=SPAN), ir.Load(access, elem, span=SPAN), span=SPAN)

    def kernel(self, *params, blocks=1, clusters=None, name="k", body=()):
        levels = [(Level.GRID, Held(1))]
        if clusters is not None:
            levels.append((Level.CLUSTER, Held(clusters, open=True)))
        levels += [(Level.BLOCK, Held(blocks, open=clusters is None)), (Level.THREAD, Held(32))]
        return Kernel(ir.Function(1, name, True, params, None, Place(tuple(levels)), body, 0, False, span=SPAN))


@pytest.fixture
def make():
    return Maker()


@pytest.fixture
def ran(monkeypatch):
    """What was handed to the CPU machine, instead of running it."""
    import snap.machine

    calls = []
    stand_ins = {
        "run_program": lambda typed, synced, args, blocks, only=None: calls.append((args, blocks)),
        "run_adversarial": lambda synced, args, blocks, seed, only=None: calls.append((args, blocks, seed)),
    }
    for name, function in stand_ins.items():
        monkeypatch.setitem(vars(snap.machine), name, function)
    return calls
