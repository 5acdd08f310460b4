"""SASS by the flow of its registers: what the assembler made of the products (wgmma) of a kernel.

`unwritten`: an instruction reads a register that nothing wrote.  `products`: the code has as many products as its PTX, in the same order, and each
value that is stored, or that a product starts from, comes from the same elements of the same products.
"""

from __future__ import annotations

import re

from codegen import flow
from codegen.flow import Instruction

_LINE = re.compile(r"^\s+/\*[0-9a-f]+\*/\s+(?:@(!?U?P\w+) )?\s*([\w.]+)\s*([^;]*);\s*(?://(.*))?$")
_LABEL = re.compile(r"^([.$][\w$]+):")  # `.L_x_1`, and functions of the assembler's own: `$__internal_0_$__cuda_sm20_div_s64`
_FILES = {"GPR": "R", "PRED": "P", "UGPR": "UR", "UPRED": "UP"}
_TITLES = re.compile(r"// \|((?:\s+U?(?:GPR|PRED)\s+\|)+)")  # which files of registers have columns,
_NUMBERS = re.compile(r"// \|(\s+# 0.*)$")  # and where each begins
_USUAL = (("R", 4), ("P", 4), ("UR", 4), ("UP", 4))  # where there is no heading
GRID = -1
_LEAVES = ("EXIT", "KILL", "RET", "RTT", "BPT")


def parse(text: str) -> list[Instruction]:
    """The code of a cubin's kernel, with the functions that it calls, as nvdisasm prints it."""
    code: list[Instruction] = []
    labels: dict[str, int] = {}
    files, titles = _USUAL, []
    for line in text.splitlines():
        if label := _LABEL.match(line):
            labels[label.group(1)] = len(code)
        elif heading := _TITLES.search(line):
            titles = heading[1].split("|")
        elif heading := _NUMBERS.search(line):
            files = tuple((_FILES[title.strip()], column.index("#") + 2) for title, column in zip(titles, heading[1].split("|")) if "#" in column)
        elif found := _LINE.match(line):
            guard, op, operands, columns = found.groups()
            defs, uses = _registers(columns or "", files)
            code.append(Instruction(op, f"{op} {operands.strip()}", defs, uses, guard is not None, tuple(re.findall(r"[^,]+", operands))))
    code.append(Instruction("end", ""))
    calls = [at for at, one in enumerate(code) if one.op.startswith("CALL")]
    for at, one in enumerate(code[:-1]):
        targets = tuple(labels[label] for label in re.findall(r"`\(([.$][\w$]+)\)", one.text) if label in labels)
        kind = one.op.split(".")[0]
        if kind in ("BRA", "JMP", "BRX", "CALL"):
            alone = not one.guarded and len(one.operands) == 1 and ".DIV" not in one.op and "ANY" not in one.op
            one.next = targets if alone else (at + 1, *targets)
            if kind == "CALL" and not targets:  # a function of another section
                one.next = (at + 1,)
        elif kind == "RET" and not one.guarded:
            one.next = tuple(call + 1 for call in calls)
        else:
            one.next = () if kind in _LEAVES and not one.guarded else (at + 1,)
    return code


def _registers(columns: str, files: tuple[tuple[str, int], ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """`|  2 :x  v |` and so on: after the count of live registers, whose place the heading says, a character for each; ^ is written, v read, x both."""
    defs, uses = [], []
    for (file, start), column in zip(files, columns.split("|")[1:]):
        for number, mark in enumerate(column[start:]):
            if mark in "^x":
                defs.append(f"{file}{number}")
            if mark in "vx":
                uses.append(f"{file}{number}")
    return tuple(defs), tuple(uses)


# ---- the checks --------------------------------------------------------------------------------------------------------------------------


def check(ptx: list[Instruction], sass: list[Instruction], loops: bool = False) -> list[str]:
    return [*unwritten(sass), *products(ptx, sass, loops)]


# One half of a register, or some bits of it, may be set before the others are: what reads the register and writes it is no use of it yet.
# A call counts as reading, too, what the function writes before it reads it.
_MERGES = ("PRMT", "LOP3", "CALL")
# Whether a product reads its accumulators, a predicate says: those that `snap_fresh` has left hold nothing, and it is false then.
_FROM_ZERO = re.compile(r"GMMA.*, U?P\d")


def unwritten(code: list[Instruction]) -> list[str]:
    found = ((code[at], register) for at, register in flow.unwritten(code))
    return [f"nothing wrote {register}, which is read by {one.text}" for one, register in found
            if register not in _of_no_tile(one) and not (register in one.defs and (one.op.startswith(_MERGES) or _FROM_ZERO.search(one.text)))]


def _of_no_tile(one: Instruction) -> tuple[str, ...]:
    """Of the four registers of a product's two tiles, those of A, where A is in registers."""
    found = re.match(r"[QH]GMMA\S* R\d+, R\d+, gdesc\[UR(\d+)\]", one.text)
    return () if found is None else (f"UR{found[1]}", f"UR{int(found[1]) + 1}")


def _products(code: list[Instruction]) -> list[int]:
    """Those with a result: the assembler itself puts in products into nothing, to wait with."""
    return [at for at, one in enumerate(code) if one.defs and one.op.startswith(("wgmma.mma_async", "HGMMA", "QGMMA"))]


def _loops(code: list[Instruction], products: list[int]) -> bool:
    """Whether a product may run twice."""
    for start in products:
        seen, waiting = set(), list(code[start].next)
        while waiting:
            at = waiting.pop()
            if at == start:
                return True
            if at not in seen:
                seen.add(at)
                waiting += code[at].next
    return False


def _from_products(code: list[Instruction], products: list[int]) -> list[dict[str, frozenset] | None]:
    """(product, element) for each register that holds something of products; (GRID, 0) where it hangs on the size of the grid, as what
    `snap_overwrite` leaves does."""
    numbers = {at: number for number, at in enumerate(products)}

    def source(at: int) -> list[frozenset] | frozenset:
        if at in numbers:
            return [frozenset({(numbers[at], i)}) for i in range(len(code[at].defs))]
        return frozenset({(GRID, 0)}) if "%nctaid.x" in code[at].text or "c[0x0][0xc]" in code[at].text else frozenset()

    return flow.origins(code, source)


_PURE = ("mov", "add", "sub", "mul", "mad", "fma", "min", "max", "neg", "abs", "cvt", "selp", "and", "or", "xor", "shl", "shr", "prmt", "lop3")


def products(ptx: list[Instruction], sass: list[Instruction], loops: bool = False) -> list[str]:
    """With `loops`, of code with loops, too: for small kernels, since what other loops carry along is told apart in straight code only."""
    above, below = _products(ptx), _products(sass)
    looping = bool(above) and _loops(ptx, above)
    if not above or (looping and not loops):
        return []
    if len(above) != len(below):  # those whose results nobody reads, but to compute what nobody reads, may be left out
        pure = {at for at, one in enumerate(ptx) if one.op.split(".")[0] in _PURE and one.defs}
        above = sorted(flow.needed(ptx, {*above, *pure}).intersection(above))
    if len(above) != len(below):
        return [] if looping else [f"{len(above)} products in the PTX, {len(below)} in the SASS"]
    held_above, held_below = _from_products(ptx, above), _from_products(sass, below)
    found = []
    for number, (a, b) in enumerate(zip(above, below)):
        (wanted, wanted_a), (given, given_a) = _inputs(ptx, a, held_above), _inputs(sass, b, held_below)
        if looping and not given:  # from zero, as the assembler knows of a condition that holds on all ways
            continue
        if wanted and wanted != given and any(wanted + given):  # from zero: what the instruction names is not read
            found.append(f"product {number} starts from {_words(given)} instead of {_words(wanted)}: {sass[b].text}")
        if not all(some <= all_of for some, all_of in zip(given_a, wanted_a, strict=True)):  # in PTX, halves of a word are taken for the word
            found.append(f"product {number} takes {_words(given_a)} instead of {_words(wanted_a)}: {sass[b].text}")
    wanted, given = _stored(ptx, held_above, ("st", "red", "atom")), _stored(sass, held_below, ("ST", "RED", "ATOM"))
    if wanted != given:
        found += [f"values of {_words(one)} are stored, which the PTX does not store" for one in given - wanted]
        found += [f"values of {_words(one)} are not stored" for one in wanted - given]
    return found


def _registers_of(one: Instruction) -> tuple[list[str], list[str]]:
    """What a product starts from, none where that is zero, and what it takes as A from registers."""
    if one.op.startswith("wgmma"):
        a = one.operands[1]
        return [register for register in one.defs if register in one.uses], re.findall(r"%\w+", a) if a.startswith("{") else []
    from_registers = re.match(r"R\d+, R(\d+), ?gdesc", ", ".join(part.strip() for part in one.operands))
    start = re.search(r"gdesc\[UR\d+\](?:\.\w+)*, R(\d+)", one.text)  # `.tnspB`: B lies across k
    numbered = lambda found, count: [] if found is None else [f"R{int(found.group(1)) + i}" for i in range(count)]
    return numbered(start, len(one.defs)), numbered(from_registers, 4)


def _inputs(code: list[Instruction], at: int, held: list[dict[str, frozenset] | None]) -> tuple[list[frozenset], list[frozenset]]:
    return tuple([(held[at] or {}).get(register, frozenset()) for register in registers] for registers in _registers_of(code[at]))


def _stored(code: list[Instruction], held: list[dict[str, frozenset] | None], ops: tuple[str, ...]) -> set[frozenset]:
    """What products each stored register comes from, of those that come from any."""
    found = {here.get(use, frozenset()) for one, here in zip(code, held) if here is not None and one.op.startswith(ops) for use in one.uses}
    return found - {frozenset()}


def _words(origin: object) -> str:
    parts = [origin] if isinstance(origin, frozenset) else origin
    return "; ".join(", ".join("an overwritten one" if n == GRID else f"product {n}'s element {i}" for n, i in sorted(part)) or "none" for part in parts)
