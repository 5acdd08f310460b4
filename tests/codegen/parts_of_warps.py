"""Votes, matches and reductions of parts of a warp, in PTX and in SASS: what they decide does not depend on which other lanes are there.

The assembler lets all lanes vote that have just met again, whatever the mask says.  So `ptx` wants nothing of a part but bits of lanes (ballots and
matches), and these cleared of other lanes before anything else is done with them.  `sass` looks whether the assembler keeps to it: what looks at the
lanes that there are stands behind a WARPSYNC (or a BRA.DIV) for the lanes of the mask, or its bits are cleared.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from codegen.flow import Instruction, forward

ALL = {"-1", "0xffffffff", "4294967295"}
_BITS = ("ballot", "match.any")
_CLEARS = ("and", "lop3", "LOP3")


def findings(ptx: list[Instruction], sass: list[Instruction] = ()) -> list[str]:
    masks = _masks(ptx)
    return [*_in_ptx(ptx, masks), *_in_sass(ptx, sass, masks)]


def _kind(one: Instruction) -> str | None:
    """Of PTX: "vote", "ballot", "match.any", "match.all", "redux", if it has a mask."""
    if ".sync" not in one.op:
        return None
    if one.op.startswith("vote"):
        return "ballot" if "ballot" in one.op else "vote"
    return next((kind for kind in ("match.any", "match.all", "redux") if one.op.startswith(kind)), None)


# ---- PTX ---------------------------------------------------------------------------------------------------------------------------------


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


def _in_ptx(code: list[Instruction], masks: dict[str, set[str]]) -> Iterator[str]:
    for one in code:
        kind = _kind(one)
        if kind is None or not _partial(one, masks):
            continue
        if kind not in _BITS:
            yield f"looks at lanes beyond its mask, where there are any: {one.text}"
            continue
        for use in code:
            if one.defs[0] in use.uses and use is not one and not (use.op.startswith(_CLEARS) and one.operands[-1] in use.uses):
                yield f"takes lanes beyond the mask of `{one.text}`: {use.text}"


# ---- SASS --------------------------------------------------------------------------------------------------------------------------------


def _in_sass(ptx: list[Instruction], code: list[Instruction], masks: dict[str, set[str]]) -> Iterator[str]:
    """Of the kinds that the PTX has of parts alone: what is for the whole warp looks the same."""
    parts = {kind for one in ptx if (kind := _kind(one)) and _partial(one, masks)}
    whole = {kind for one in ptx if (kind := _kind(one)) and not _partial(one, masks)}
    if "ballot" in parts:
        parts.add("vote")  # which may be made of one
    guarded = forward(code, False, lambda at, held: _guards(code[at], held), lambda a, b: a and b) if parts and code else []
    for at, (one, held) in enumerate(zip(code, guarded)):
        kind = _sass_kind(one)
        if kind in parts - whole and held is False and not (kind in _BITS and _cleared(code, at)):
            yield f"looks at all lanes that are there: {one.text}"


def _sass_kind(one: Instruction) -> str | None:
    match one.op.split("."):
        case ["VOTE", *_]:
            voters = one.operands[-1].strip()
            return None if voters == "PT" else "ballot" if re.match(r"\s*U?R\d", one.operands[0]) else "vote"
        case ["MATCH", which, *_]:
            return f"match.{which.lower()}"
        case ["REDUX", which, *_]:
            return None if which == "OR" else "redux"  # by which the assembler compares masks itself
    return None


def _guards(one: Instruction, held: bool) -> bool:
    """Whether no lanes but those of a mask run from here on."""
    if one.op.startswith(("WARPSYNC.EXCLUSIVE", "WARPSYNC.COLLECTIVE", "BRA.DIV")):
        return True
    return held and not one.op.startswith(("BSYNC", "WARPSYNC", "BAR", "SYNCS", "CALL", "RET"))


def _cleared(code: list[Instruction], at: int) -> bool:
    """Whether the next use of the bits, on every way, clears some of them by another register."""
    bits = code[at].defs[0]
    seen, waiting = set(), list(code[at].next)
    while waiting:
        here = waiting.pop()
        if here in seen:
            continue
        seen.add(here)
        one = code[here]
        if bits in one.uses:
            if not (one.op.startswith(_CLEARS) and sum(use.startswith(("R", "UR")) for use in one.uses) > 1):
                return False
        elif bits not in one.defs:
            waiting += one.next
    return True
