"""Instructions with wrong types, modifiers and operands, drawn: what ptxas accepts, the machine reads, and what ptxas refuses, it refuses.

`PYTHONPATH=src:tests python tests/ptx/typed.py [COUNT] [FIRST]` draws COUNT mutants (1,000) from seed FIRST on (0), asks both, and prints
each disagreement that no line of `REASONS` explains.  A mutant is one instruction of a PTX text (of tests/ptx/cuda as NVRTC compiles it, and
of forms.py) in a module of its own, with one or two changes: of a type, a modifier, a register's kind, a state space, an immediate, the
number of operands.  ptxas is found on PATH, or where PyPI's nvidia-cuda-nvcc puts it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from random import Random

from ptx import products
from ptx.forms import FORMS, kernel
from ptx.test_compilers import compiled, compiled_text

from snap.ptx import PtxError, load, parse
from snap.ptx.text import tree
from snap.ptx.text.printer import operand as operand_text

SPACES = ("global", "shared", "local", "const", "param")
TYPES = ("pred", "b16", "u16", "s16", "f16", "b32", "u32", "s32", "f32", "b64", "u64", "s64", "f64")
WORDS_OF_TYPE = ("pred", "b8", "u8", "s8", "b16", "u16", "s16", "f16", "bf16", "f16x2", "bf16x2", "b32", "u32", "s32", "f32", "b64", "u64", "s64", "f64", "b128", "tf32")
KINDS = ("global", "shared", "shared::cta", "shared::cluster", "local", "const", "param")
MODIFIERS = (
    "ftz sat rn rz rm rp rni rzi rmi rpi approx full cc lo hi wide relu NaN volatile relaxed acquire release acq_rel weak cta cluster gpu sys nc ca cg cs lu cv wb wt"
    " v2 v4 sync aligned arrive red and or xor add min max exch cas inc dec eq ne lt le gt ge ltu num uni to x2 x4 trans satfinite all any ballot popc up down bfly idx wrap clamp noftz"
).split()
IMMEDIATES = ("0", "1", "-1", "7", "33", "70000", "0x1ffffffff", "1.5", "0f3F800000", "0d3FF0000000000000")
WIDEST = 40  # registers of each type
HEAD = """.version 9.0
.target {target}
.address_size 64
.global .align 16 .b8 vglobal[64];
.const .align 16 .b8 vconst[64];
.visible .entry k(.param .u64 vparam)
{{
.shared .align 16 .b8 vshared[64];
.local .align 16 .b8 vlocal[64];
"""


# ---- ptxas -----------------------------------------------------------------------------------------------------------------------------------------


@cache
def ptxas() -> str | None:
    """Where it is."""
    found = shutil.which("ptxas")
    for name in ("nvidia.cu13", "nvidia.cuda_nvcc"):
        try:
            spec = find_spec(name)
        except ModuleNotFoundError:
            continue
        for folder in spec.submodule_search_locations or () if spec else ():
            there = Path(folder) / "bin" / "ptxas"
            found = found or (str(there) if there.exists() else None)
    return found


def asked(text: str) -> str:
    """What ptxas says against it: its first line, or nothing."""
    target = re.search(r"\.target (\w+)", text)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "k.ptx"
        file.write_text(text)
        command = [ptxas() or "ptxas", f"-arch={target[1] if target else 'sm_90a'}", "-O0", str(file), "-o", os.devnull]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    lines = [line for line in done.stderr.splitlines() if "error" in line or "fatal" in line]
    return "" if not done.returncode else re.sub(r"^ptxas \S+, ", "", lines[0] if lines else done.stderr[:200] or "crashed")


def said(text: str) -> str:
    """What the machine says against it, when it is loaded strictly."""
    try:
        load(parse(text), strict=True)
    except PtxError as error:
        return f"{error.diagnostic.code}: {error.diagnostic.message}"
    return ""


# ---- instructions ------------------------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Line:
    """One instruction: registers are named after their types, `%b32_0`, variables after their spaces."""

    words: tuple[str, ...]
    operands: tuple[str, ...]
    guard: str = ""

    def __str__(self) -> str:
        return f"{self.guard} {'.'.join(self.words)} {', '.join(self.operands)};".strip()

    def module(self) -> str:
        # wgmma is of sm_90a alone; what else there is, sm_100a has
        return module_of((self,), "sm_90a" if self.words[0] in ("wgmma", "setmaxnreg") else "sm_100a")


def module_of(lines: tuple[Line, ...], target: str) -> str:
    registers = "".join(f".reg .{t} %{t}_<{WIDEST}>;\n" for t in (*TYPES, "b128"))
    return f"{HEAD.format(target=target)}{registers}L0:\n{chr(10).join(map(str, lines))}\nL1: ret;\n}}\n"


def lines_of(text: str) -> list[Line]:
    """Each once, as far as its operands' types go.  Calls and branches to tables are left out: they name more than themselves."""
    module = parse(text)
    found: dict[Line, None] = {}
    outer = {v.name: f"v{v.space}" for v in module.items if isinstance(v, tree.Variable)}
    for f in module.items:
        if isinstance(f, tree.Function) and f.body is not None:
            names = outer | {v.name: "vparam" for v in f.parameters if f.kind == "entry"}
            _walk(f.body, names, found)
    return list(found)


def _walk(block: tree.Block, outer: dict[str, str], found: dict[Line, None]) -> None:
    names = dict(outer)
    for s in block.body:
        match s:
            case tree.Variable():
                for k in range(s.copies or 0):
                    names[f"{s.name}{k}"] = f".{s.type}"
                names[s.name] = f".{s.type}" if s.space == "reg" else f"v{s.space}" if s.space in SPACES and s.space != "param" else ""
            case tree.Label():
                names[s.name] = "L0"
        if isinstance(s, tree.Block):
            _walk(s, names, found)
    for s in block.body:
        if isinstance(s, tree.Instruction) and s.operation[0] not in ("call", "brx", "ret"):
            line = _line(s, names)
            if line is not None:
                found[line] = None


def _line(s: tree.Instruction, names: dict[str, str]) -> Line | None:
    seen: dict[str, str] = {}

    def named(match: re.Match) -> str:
        name = match[0]
        if name.startswith("%") and name.split(".")[0] not in names:
            return name  # a special register
        kind = names.get(name, "L0" if name.startswith("$") else "?" if name not in ("WARP_SZ",) else name)
        if not kind.startswith("."):
            return kind or "?"
        return seen.setdefault(name, f"%{kind[1:]}_{len(seen)}")

    operands = tuple(re.sub(r"(?<![\w.%$])[%$A-Za-z_][\w$]*(?:\.[xyzw]\b)?", named, operand_text(o)) if not isinstance(o, tree.Number) else operand_text(o) for o in s.operands)
    if any("?" in o for o in operands) or len(seen) >= WIDEST:
        return None
    return Line(s.operation, operands, f"@{'!' if s.negated else ''}%pred_39" if s.guard else "")


SEEDS = Path(__file__).parent / "tables" / "lines.txt"


@cache
def seeds() -> tuple[Line, ...]:
    return tuple(_read(line) for line in SEEDS.read_text().splitlines())


def _read(text: str) -> Line:
    guard, _, rest = text.rpartition("| ")
    words, _, operands = rest.partition(" ")
    return Line(tuple(words.split(".")), tuple(operands.split("; ")) if operands else (), guard)


def _key(line: Line) -> str:
    """Without the numbers in it, but for small ones that an instruction may ask for."""
    return re.sub(r"(?<![\w.])[-+]?(0[fd]\w+|\d{3,})|[-+]\d+(?=\])", "N", str(line))


def record() -> None:
    """The instructions of forms.py and products.py, of tests/ptx/cuda, and of every kernel of the corpus, the examples and the library."""
    from codegen import below

    texts = [kernel(form) for form in FORMS.values()] + [products.kernel(form) for form in products.PRODUCTS.values()]
    for name, architectures in (("language", ("compute_75", "compute_90")), ("intrinsics", ("compute_75", "compute_90", "compute_100")), ("hopper", ("compute_90a", "compute_100"))):
        texts += [compiled(name, architecture) for architecture in architectures]
    texts += [compiled_text(one.module.text) for one in below.texts()]
    found = {_key(line): line for text in texts for line in lines_of(text)}.values()
    written = sorted(f"{line.guard}{'| ' if line.guard else ''}{'.'.join(line.words)} {'; '.join(line.operands)}".rstrip() for line in found)
    SEEDS.write_text("\n".join(written) + "\n")
    print(f"{len(written)} instructions of {len(texts)} texts")


# ---- changes -----------------------------------------------------------------------------------------------------------------------------------------

REGISTER = re.compile(r"%(pred|b16|u16|s16|f16|b32|u32|s32|f32|b64|u64|s64|f64|b128)_\d+")


def mutant(number: int) -> Line:
    """The same one at any time."""
    rng = Random(number)
    names = sorted({line.words[0] for line in seeds()})
    name = rng.choice(names)
    line = rng.choice([line for line in seeds() if line.words[0] == name])
    for _ in range(1 if rng.random() < 0.8 else 2):
        line = rng.choice(CHANGES)(line, rng)
    return line


def _at(items: tuple[str, ...], k: int, *new: str) -> tuple[str, ...]:
    return (*items[:k], *new, *items[k + 1 :])


def other_register(line: Line, rng: Random) -> Line:
    """A register of another type."""
    places = [(k, m) for k, o in enumerate(line.operands) for m in REGISTER.finditer(o)]
    if not places:
        return another_operand(line, rng)
    k, m = rng.choice(places)
    o = line.operands[k]
    return replace(line, operands=_at(line.operands, k, f"{o[: m.start()]}%{rng.choice(TYPES)}_{rng.randrange(30, 38)}{o[m.end() :]}"))


def an_immediate(line: Line, rng: Random) -> Line:
    if not line.operands:
        return another_operand(line, rng)
    return replace(line, operands=_at(line.operands, rng.randrange(len(line.operands)), rng.choice(IMMEDIATES)))


def another_type(line: Line, rng: Random) -> Line:
    places = [k for k, w in enumerate(line.words) if k and w in WORDS_OF_TYPE]
    return replace(line, words=_at(line.words, rng.choice(places), rng.choice(WORDS_OF_TYPE))) if places else another_modifier(line, rng)


def another_space(line: Line, rng: Random) -> Line:
    places = [k for k, w in enumerate(line.words) if k and w in KINDS]
    variables = [k for k, o in enumerate(line.operands) if re.search(r"v(global|shared|local|const|param)", o)]
    if variables and (not places or rng.random() < 0.5):
        k = rng.choice(variables)
        return replace(line, operands=_at(line.operands, k, re.sub(r"v(global|shared|local|const|param)", f"v{rng.choice(SPACES)}", line.operands[k])))
    return replace(line, words=_at(line.words, rng.choice(places), rng.choice(KINDS))) if places else another_type(line, rng)


def another_modifier(line: Line, rng: Random) -> Line:
    k = rng.randrange(1, len(line.words)) if len(line.words) > 1 else 0
    way = rng.randrange(4) if k else 2
    if way == 0:
        return replace(line, words=_at(line.words, k))
    if way == 1:
        return replace(line, words=_at(line.words, k, rng.choice(MODIFIERS)))
    if way == 2:
        return replace(line, words=(*line.words[: k + 1], rng.choice(MODIFIERS), *line.words[k + 1 :]))
    j = rng.randrange(1, len(line.words))
    words = list(line.words)
    words[k], words[j] = words[j], words[k]
    return replace(line, words=tuple(words))


def another_operand(line: Line, rng: Random) -> Line:
    """One more, one less, or two exchanged."""
    k = rng.randrange(len(line.operands) + 1)
    way = rng.randrange(3) if len(line.operands) > 1 else 0
    if way == 0:
        new = rng.choice((*IMMEDIATES, *(f"%{t}_{rng.randrange(30, 38)}" for t in TYPES)))
        return replace(line, operands=(*line.operands[:k], new, *line.operands[k:]))
    if way == 1:
        return replace(line, operands=_at(line.operands, min(k, len(line.operands) - 1)))
    a, b = rng.sample(range(len(line.operands)), 2)
    operands = list(line.operands)
    operands[a], operands[b] = operands[b], operands[a]
    return replace(line, operands=tuple(operands))


def another_shape(line: Line, rng: Random) -> Line:
    """A vector for one register, an address without brackets, a special register."""
    if not line.operands:
        return another_operand(line, rng)
    k = rng.randrange(len(line.operands))
    o = line.operands[k]
    ways = [f"{{{o}}}", f"{{{o}, {o}}}", f"[{o}]", "%tid.x", "%clock64", "vshared", "vglobal", "[vshared]", "[%b64_30]", "[%b64_31+8]", "!%pred_30", "%pred_30|%pred_31"]
    new = rng.choice(ways) if o[0] not in "{[" else rng.choice([o[1:-1], *ways[3:]])
    return replace(line, operands=_at(line.operands, k, new))


def another_guard(line: Line, rng: Random) -> Line:
    return replace(line, guard=f"@%{rng.choice(TYPES)}_38")


CHANGES = (other_register, other_register, other_register, an_immediate, another_type, another_type, another_space, another_modifier, another_modifier, another_operand, another_shape, another_guard)


# ---- comparing -----------------------------------------------------------------------------------------------------------------------------------------

# (who refuses, what it says, what the instruction is): why the other does not.
REASONS: tuple[tuple[str, str, str, str], ...] = (
    ("machine", "PTX005", r"\[%[bus]16_\d+(\+\d+)?\]", "an address in a register of 16 bits: the ISA has 32 and 64, and the machine takes those"),
    ("machine", "PTX005", r"\{[^{},]+\}", "ptxas takes braces around one register where no vector is; the ISA does not say so"),
    ("machine", "PTX005", r" v(global|shared|local|const|param)\b", "ptxas takes an address without brackets where there are none in the ISA"),
    ("machine", "PTX005", r"^(@\S+ )?(atom|red)\.", "ptxas takes one operand more of an atomic, which nothing reads"),
    ("machine", "PTX004", r"^(@\S+ )?wgmma\.(?!.*aligned)", "ptxas takes wgmma without .aligned, which the ISA asks for"),
    ("ptxas", "crashed", "", "ptxas ends without an answer"),
    ("machine", "PTX004", r"^(@\S+ )?v\w+[24]\.", "the machine reads the words of video instructions in the order of the ISA"),
)


def why(line: Line, theirs: str, ours: str) -> str:
    """Why they may differ, as the table has it."""
    who, message = ("ptxas", theirs) if theirs else ("machine", ours)
    return next((reason for w, m, i, reason in REASONS if w == who and re.search(m, message) and re.search(i, str(line))), "")


def compared(lines: list[Line]) -> list[tuple[Line, str, str]]:
    """Those that one of them refuses, and the other does not."""
    with ThreadPoolExecutor(os.cpu_count()) as several:
        theirs = list(several.map(lambda line: asked(line.module()), lines))
    answers = [(line, their, said(line.module())) for line, their in zip(lines, theirs)]
    return [(line, their, our) for line, their, our in answers if bool(their) != bool(our)]


def main() -> None:
    if sys.argv[1:] == ["--record"]:
        return record()
    count, first = (int(w) for w in (*sys.argv[1:], "1000", "0")[:2]) if len(sys.argv) != 2 else (int(sys.argv[1]), 0)
    if ptxas() is None:
        sys.exit("there is no ptxas: put CUDA's bin folder on PATH, or install nvidia-cuda-nvcc")
    lines = [mutant(n) for n in range(first, first + count)]
    different = compared(lines)
    open_ = [(line, theirs, ours) for line, theirs, ours in different if not why(line, theirs, ours)]
    for line, theirs, ours in open_:
        print(f"{'ptxas refuses' if theirs else 'ptxas accepts'}  {line}\n    {theirs or ours}")
    print(f"{count} mutants of {len(seeds())} instructions; {len(different)} are judged differently, {len(open_)} of them without a reason")
    sys.exit(bool(open_))


if __name__ == "__main__":
    main()
