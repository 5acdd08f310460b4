"""Votes, ballots and matches: helpers for a warp, and for parts of one.

Input:      which it is, and whether all lanes of the warp come by (`core/flow.py`)
Output:     helpers; those for parts take the mask of their lanes
Invariant:  what a part decides does not depend on which other lanes are there, nor does it wait for them elsewhere
Non-goals:  bits as members of a group count them (`collectives.py`)
"""

from __future__ import annotations

from snap._compiler.codegen.core.module import Helper, Module, inline_helper
from snap._compiler.codegen.core.spelling import type_name
from snap._compiler.codegen.threads import at_strides
from snap._compiler.ir.types import F32, F64, I32, U32, U64, Privilege, Scalar

# Members `mask` apart are so many lanes apart, of parts whose lanes lie in runs of `run` at a step of `step`.
_SHAPED = "template <int threads, int run, int step>\nstatic __device__ __forceinline__ "
APART = "mask / run * step + mask % run"


def _matched(type: Scalar) -> Scalar:
    return type if type.bits >= U32.bits else (U32 if type.is_float else I32)


def match_all(module: Module, type: Scalar) -> Helper:
    carrier = _matched(type)
    name = f"snap_match_all_{carrier}"
    return inline_helper(
        f"unsigned int {name}({type_name(module, carrier)} value)",
        """\
    int agree;
    return __match_all_sync(0xffffffffu, value, &agree);""",
    )


# Votes and matches of parts of a warp are made of the whole warp's instruction where all of it comes by, and of shuffles
# elsewhere.  An instruction with the mask of a part goes wrong, as seen with 13.0, 13.4 and 13.5:
# - Where the lanes of a warp have just met again, the assembler lets all of them vote, whatever the mask says.
# - It sends one part after the other through the code behind the vote (WARPSYNC.EXCLUSIVE), and some ways on never bring
#   them together again.  A later barrier of the block wants whole warps, and then lets threads pass early.
def ballot(whole: bool) -> Helper:
    """Make the bits of the lanes of a part, as lanes of the warp."""
    if whole:
        return inline_helper(
            "unsigned int snap_ballot_within(unsigned int lanes, bool vote)",
            "    return __ballot_sync(0xffffffffu, vote) & lanes;",
        )
    return Helper(
        "snap_ballot_of",
        f"""\
{_SHAPED}unsigned int snap_ballot_of(unsigned int lanes, bool vote) {{  // other lanes may be elsewhere
    unsigned int votes = (unsigned int)vote << (threadIdx.x & 31);
    #pragma unroll
    for (int mask = threads / 2; mask > 0; mask /= 2) {{
        votes |= __shfl_xor_sync(lanes, votes, {APART});
    }}
    return votes;
}}""",
    )


def vote(op: str, whole: bool) -> Helper:
    made = ballot(whole)
    decided = "!= 0" if op == "any" else "== lanes"
    if whole:
        return inline_helper(
            f"bool snap_{op}_within(unsigned int lanes, bool vote)",
            f"    return {made.name}(lanes, vote) {decided};",
            needs=(made,),
        )
    return Helper(
        f"snap_{op}_of",
        f"""\
{_SHAPED}bool snap_{op}_of(unsigned int lanes, bool vote) {{
    return {made.name}<threads, run, step>(lanes, vote) {decided};
}}""",
        needs=(made,),
    )


def match(module: Module, op: str, type: Scalar, whole: bool) -> Helper:
    carrier = _matched(type)
    name = f"snap_{op}_{carrier}_{'within' if whole else 'of'}"
    result = "same" if op == "match_any" else "same == lanes ? lanes : 0"
    head = f"unsigned int {name}(unsigned int lanes, {type_name(module, carrier)} value)"
    if whole:
        return inline_helper(
            head,
            f"""\
    const unsigned int same = __match_any_sync(0xffffffffu, value) & lanes;
    return {result};""",
        )
    bits = type_name(module, U32 if carrier.bits == U32.bits else U64)
    of_float = {F32: "__float_as_uint(value)", F64: "__double_as_longlong(value)"}
    return Helper(
        name,
        f"""\
{_SHAPED}{head} {{  // other lanes may be elsewhere
    const {bits} bits = {of_float.get(carrier, "value")};
    unsigned int same = 0;
    #pragma unroll
    for (int mask = 0; mask < threads; mask++) {{
        const int apart = {APART};
        same |= (unsigned int)(__shfl_xor_sync(lanes, bits, apart) == bits) << ((threadIdx.x & 31) ^ apart);
    }}
    return {result};
}}""",
    )


def shape(p: Privilege, whole: bool) -> str:
    """Return the template arguments of the helpers for parts whose warp may not be whole here."""
    if whole:
        return ""
    return at_strides.arguments(p) if p.stride is not None else f"<{p.n}, {p.n}, {p.n}>"
