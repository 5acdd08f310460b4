"""What the tests of the stack mode share: kernels, and watchers that look at a warp's states."""

from __future__ import annotations

from snap.ptx import load, parse
from snap.ptx.program.inject import with_control
from snap.ptx.program.resolve import Code, Program, Several
from snap.ptx.watch.observer import Watch

HEAD = ".version 8.8\n.target sm_90a\n.address_size 64\n"
REGISTERS = ".reg .pred %p<9>; .reg .b32 %r<32>; .reg .b64 %d<9>;\nmov.u32 %r0, %tid.x;\n"


def kernel(body: str, before: str = "") -> str:
    return f"{HEAD}{before}.visible .entry k(.param .u64 p0)\n{{\n{REGISTERS}{body}\nret;\n}}\n"


def controlled(text: str) -> Program:
    return with_control(load(parse(text)))


def names(program: Program) -> list[str]:
    """Each instruction's name, with the addresses that it names."""
    found = []
    for one in program.instructions:
        codes = [c for o in one.operands for c in (o.items if isinstance(o, Several) else (o,)) if isinstance(c, Code)]
        guard = "" if one.guard is None else f"@{'!' * one.negated}p{one.guard.index} "
        found.append(" ".join([guard + one.name, *(str(c.address) for c in codes)]))
    return found


def recorder(seen: list, warp: int = 0, choose=None):
    """A watcher that keeps a warp's steps: the address, and the state after it."""

    class Recorder(Watch):
        def __init__(self, machine):
            super().__init__(machine)
            if choose is not None:
                machine.choose = choose

        def stepped(self, pc, warps):
            if warp in warps:
                seen.append((pc, self.machine.warp_state(warp)))

    return Recorder
