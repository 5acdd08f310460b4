"""Votes, matches and reductions of parts of a warp, in PTX and in SASS.

`ptx`: none has the mask of a part.  The assembler lets all lanes vote that have just met again, whatever the mask says, and sends one part after the
other through the code behind the vote (WARPSYNC.EXCLUSIVE).  `apart` looks whether they are together again, on every way, where an instruction wants
the whole warp: a barrier of the block, a product, a matrix that is loaded.  They are after a BSYNC of what was opened (BSSY) while they were together,
and after a WARPSYNC.ALL.
"""

from __future__ import annotations

import re

from codegen.flow import Instruction, forward

ALL = {"-1", "0xffffffff", "4294967295"}


def findings(ptx: list[Instruction], sass: list[Instruction] = ()) -> list[str]:
    masks = _masks(ptx)
    return [
        *(
            f"looks at lanes beyond its mask, where there are any: {one.text}"
            for one in ptx
            if _votes(one) and _partial(one, masks)
        ),
        *(f"parts of a warp come one by one: {one.text}" for one in apart(sass)),
    ]


def _votes(one: Instruction) -> bool:
    return ".sync" in one.op and one.op.startswith(("vote", "match", "redux"))


def _masks(code: list[Instruction]) -> dict[str, set[str]]:
    """What is written into each register by plain moves; "" for anything else."""
    found: dict[str, set[str]] = {}
    for one in code:
        for register in one.defs:
            found.setdefault(register, set()).add(one.operands[1] if one.op.startswith("mov") else "")
    return found


def _partial(one: Instruction, masks: dict[str, set[str]]) -> bool:
    mask = one.operands[-1]
    return not (mask in ALL or (mask in masks and masks[mask] <= ALL))


_OF_WARPS = re.compile(r"BAR|[A-Z]*MMA|LDSM|STSM|USETMAXREG|ELECT")


def apart(code: list[Instruction]) -> list[Instruction]:
    """List the instructions that want a whole warp, where its parts may come one by one."""
    before = (
        forward(
            code,
            (False, frozenset()),
            lambda at, held: _together(code[at], held),
            lambda a, b: (a[0] or b[0], a[1] & b[1]),
        )
        if code
        else []
    )
    return [one for one, held in zip(code, before) if held is not None and held[0] and _OF_WARPS.match(one.op)]


def _together(one: Instruction, held: tuple[bool, frozenset[str]]) -> tuple[bool, frozenset[str]]:
    """Return whether parts are apart, and what was opened while they were not."""
    parts, opened = held
    where = one.operands[0].strip() if one.operands else ""
    match one.op.split("."):
        case ["WARPSYNC", "EXCLUSIVE", *_]:
            return True, opened
        case ["WARPSYNC", "ALL", *_]:
            return False, opened
        case ["BSSY", *_]:
            return parts, opened - {where} if parts else opened | {where}
        case ["BSYNC", *_]:
            return parts and where not in opened, opened
    return held
