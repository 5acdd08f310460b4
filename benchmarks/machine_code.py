"""What the machine code of a kernel consists of: how many instructions of which kind, and what it takes of each thread.

Input:      the CUDA text of a kernel, and an architecture
Output:     `Code`: its instructions by opcode, registers, spills
Invariant:  no GPU is needed; the padding behind the last branch is not counted
Non-goals:  how often an instruction is executed, and what it costs: a count is no time
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

_FUNCTION = re.compile(r"^\.text\.(\w+):", re.MULTILINE)
_INSTRUCTION = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_]*)")


@dataclass(frozen=True)
class Code:
    opcodes: Counter
    registers: int
    spills: int

    @property
    def instructions(self) -> int:
        return self.opcodes.total()

    def count(self, *names: str) -> int:
        return sum(self.opcodes[name] for name in names)


def disassembled(cubin: bytes) -> str:
    from snap.cli.artifacts import NO_DISASSEMBLER, disassembler

    program = disassembler()
    if program is None:
        raise SystemExit(NO_DISASSEMBLER)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "kernel.cubin"
        file.write_bytes(cubin)
        return subprocess.run([program, "--print-code", file], capture_output=True, text=True, check=True).stdout


def opcodes(text: str, kernel: str) -> Counter:
    """Of one function in what nvdisasm prints.  It ends in a branch to itself and NOPs, which no thread reaches."""
    starts = list(_FUNCTION.finditer(text))
    (at,) = (i for i, start in enumerate(starts) if start[1] == kernel)
    end = starts[at + 1].start() if at + 1 < len(starts) else len(text)
    found = _INSTRUCTION.findall(text[starts[at].end() : end])
    while found and found[-1] == "NOP":
        found.pop()
    if found and found[-1] == "BRA":
        found.pop()
    return Counter(found)


def code_of(text: str, kernel: str, arch: str, dynamic: int = 0) -> Code:
    from snap.host.compile.nvrtc import compile_cubin, resources

    used = resources(text, arch, kernel, dynamic)
    return Code(opcodes(disassembled(compile_cubin(text, arch)), kernel), used.registers, used.spill_stores + used.spill_loads)


def of_snap(function, arch: str) -> Code:
    """Of a Snap kernel; ToolchainError where the architecture has not what it needs."""
    used = function.resources(arch)
    name = function._the_one({}).module.kernel
    return Code(opcodes(disassembled(function.cubin(arch)), name), used.registers, used.spill_stores + used.spill_loads)
