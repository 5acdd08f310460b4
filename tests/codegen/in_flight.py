"""Registers of wgmma in flight, in PTX and in SASS.

From a wgmma to the wait that settles its group, its accumulators are touched by nothing but wgmma of the same accumulators, and its A fragments are
written by nothing: the tensor cores read and write them at a time of their own.  And from the fence before a wgmma to the wgmma, nothing touches the
accumulators, and nothing writes the fragments.  `findings` reports what does, along all paths.

In PTX, no plain copy of an accumulator is used behind the next wgmma that writes the accumulator: the PTX would be right, and the assembler
sometimes takes what is there behind the wgmma for the copy.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from codegen.flow import Instruction, forward

OPEN = -1  # the age of a wgmma that no group holds yet; else, how many groups are younger than its group
_REGISTER = re.compile(r"%\w+")


@dataclass(frozen=True)
class Product:
    accumulators: tuple[str, ...]
    fragments: frozenset[str]


def findings(code: list[Instruction]) -> list[str]:
    products = {at: made for at, one in enumerate(code) if (made := _product(one))}
    if not products:
        return []
    ours = frozenset(register for p in products.values() for register in (*p.accumulators, *p.fragments))
    return [*_in_flight(code, products, ours), *_behind_a_fence(code, products, ours), *_outlived(code, products)]


def _product(one: Instruction) -> Product | None:
    """Those into no register are how the assembler itself waits."""
    if one.op.startswith("wgmma.mma_async"):
        a = one.operands[1]
        return Product(tuple(_REGISTER.findall(one.operands[0])), frozenset(_REGISTER.findall(a) if a.startswith("{") else ()))
    if one.op.startswith(("HGMMA", "QGMMA", "IGMMA", "BGMMA")) and one.defs:
        a = re.match(r"R(\d+)$", one.operands[1].strip()) if len(one.operands) > 1 else None
        from_registers = a is not None and "gdesc" in one.operands[2]
        return Product(tuple(r for r in one.defs if r[0] == "R"), frozenset(f"R{int(a[1]) + i}" for i in range(4)) if from_registers else frozenset())
    return None


# ---- between a wgmma and the wait for it -------------------------------------------------------------------------------------------------


def _commits(one: Instruction) -> bool:
    return one.op.startswith("wgmma.commit_group") or ("GMMA" in one.op and "gsb0" in one.text)


def _left(one: Instruction) -> int | None:
    """How many groups a wait leaves in flight."""
    if one.op.startswith("wgmma.wait_group"):
        return int(one.operands[0])
    if "DEPBAR" in one.op and "gsb0" in one.text:
        return int(one.operands[1].strip(), 16)
    return None


def _in_flight(code: list[Instruction], products: dict[int, Product], ours: frozenset[str]) -> list[str]:
    def step(at: int, ages: dict[int, int]) -> dict[int, int]:
        one = code[at]
        if (left := _left(one)) is not None:
            return {site: age for site, age in ages.items() if age < left}
        if at in products:
            ages = {**ages, at: OPEN}
        return {site: age + 1 for site, age in ages.items()} if _commits(one) else ages

    found = []
    for at, (one, ages) in enumerate(zip(code, forward(code, {}, step, _youngest))):
        for site in ages or ():
            if touched := _clash(one, products.get(at), products[site], ours):
                found.append(f"{touched} in flight ({code[site].text}) and touched by {one.text}")
                break
    return found


def _youngest(a: dict[int, int], b: dict[int, int]) -> dict[int, int]:
    return a if a == b else {site: min(a.get(site, b.get(site, 0)), b.get(site, a.get(site, 0))) for site in {*a, *b}}


def _clash(one: Instruction, product: Product | None, flying: Product, ours: frozenset[str]) -> str:
    """What the instruction touches of the registers of a wgmma in flight."""
    if product is None:
        touched = {*one.defs, *one.uses} & ours
        if not touched:
            return ""
        bad = touched.intersection(flying.accumulators) | flying.fragments.intersection(one.defs)
    else:
        bad = flying.fragments.intersection(product.accumulators) | product.fragments.intersection(flying.accumulators)
        if product.accumulators != flying.accumulators:
            bad |= set(product.accumulators).intersection(flying.accumulators)
    return ", ".join(sorted(bad))


# ---- between a fence and a wgmma ---------------------------------------------------------------------------------------------------------


def _behind_a_fence(code: list[Instruction], products: dict[int, Product], ours: frozenset[str]) -> list[str]:
    accumulators = frozenset(register for p in products.values() for register in p.accumulators)

    def step(at: int, touched: frozenset[str]) -> frozenset[str]:
        one = code[at]
        if one.op.startswith(("wgmma.fence", "WARPGROUP.ARRIVE")):
            return frozenset()
        if at in products:
            return touched.difference(products[at].accumulators)
        here = (ours.intersection(one.defs)) | (accumulators.intersection(one.uses))
        return touched | here if here else touched

    found = []
    for at, touched in enumerate(forward(code, frozenset(), step, frozenset.union)):
        if at in products and touched and (bad := touched.intersection((*products[at].accumulators, *products[at].fragments))):
            found.append(f"{', '.join(sorted(bad))} touched since the last fence, and then taken by {code[at].text}")
    return found


# ---- copies that outlive what they are copies of -----------------------------------------------------------------------------------------

_FRESH, _OLD = False, True  # whether a wgmma has written the accumulator since
Copies = dict[str, tuple[str, bool]]  # of which accumulator a register is a copy


def _outlived(code: list[Instruction], products: dict[int, Product]) -> list[str]:
    accumulators = frozenset(register for at, p in products.items() if code[at].op.startswith("wgmma") for register in p.accumulators)
    if not accumulators:
        return []  # SASS: a register is given to one value after another, and a move says nothing

    def step(at: int, copies: Copies) -> Copies:
        one = code[at]
        if at in products:
            written = frozenset(products[at].accumulators)
            return {copy: (of, old or of in written) for copy, (of, old) in copies.items() if copy not in written}
        if not one.defs:
            return copies
        after = copies if one.guarded else {copy: of for copy, of in copies.items() if copy not in one.defs}
        if one.op.startswith("mov.") and len(one.operands) == 2:
            source = one.operands[1]
            if source in accumulators:
                return {**after, one.defs[0]: (source, _FRESH)}
            if source in copies:
                return {**after, one.defs[0]: copies[source]}
        return after

    found = []
    for one, copies in zip(code, forward(code, {}, step, _either)):
        found += [f"{use} is a copy of {copies[use][0]}, which a wgmma has written since, and is read by {one.text}"
                  for use in dict.fromkeys(one.uses) if copies and use in copies and copies[use][1] and not one.op.startswith("mov.")]
    return found


def _either(a: Copies, b: Copies) -> Copies:
    """A copy on one of two ways counts; an old one more than a fresh one."""
    return a if a == b else {copy: max((of[copy] for of in (a, b) if copy in of), key=lambda found: (found[1], found[0])) for copy in {**a, **b}}
