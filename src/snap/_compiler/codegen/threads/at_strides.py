"""Collectives of parts of a warp whose lanes are at a stride.

Input:      the group, and what a collective of neighbors is given: the number of a lane, bits of lanes, a value
Output:     CUDA expressions and helpers
Invariant:  what users see is numbered by member, 0, 1, ..., as in a part whose lanes follow one another; what the
            hardware is told are lanes of the warp
Non-goals:  masks (`barriers.mask`), and parts whose lanes follow one another (`collectives.py`)
"""

from __future__ import annotations

from snap._compiler.codegen.core import tree
from snap._compiler.codegen.core.module import Helper, Module
from snap._compiler.ir.types import Privilege

# In `threads` lanes in runs of `run` at a step of `step`, all powers of two, the bits of `last` are those that members
# differ in.
LANE_OF = Helper(
    "snap_lane_of",
    """\
template <int threads, int run, int step>
static __device__ __forceinline__ int snap_lane_of(int member) {
    constexpr int last = (threads / run - 1) * step + run - 1;
    return ((int)threadIdx.x & 31 & ~last) + member / run * step + member % run;
}""",
)

MEMBER = Helper(
    "snap_member",
    """\
template <int threads, int run, int step>
static __device__ __forceinline__ int snap_member() {
    return (int)threadIdx.x % (threads / run * step) / step * run + (int)threadIdx.x % run;
}""",
)

MEMBERS = Helper(
    "snap_members",
    """\
template <int threads, int run, int step>
static __device__ __forceinline__ unsigned int snap_members(unsigned int lanes) {
    unsigned int found = 0;
    #pragma unroll
    for (int k = 0; k < threads; k++) {
        found |= (lanes >> snap_lane_of<threads, run, step>(k) & 1u) << k;
    }
    return found;
}""",
    needs=(LANE_OF,),
)

_SOURCES = {
    "shfl": "lane & (threads - 1)",
    "shfl_xor": "member ^ (lane & (threads - 1))",
    "shfl_up": "member >= (lane & 31) ? member - (lane & 31) : member",
    "shfl_down": "member + (lane & 31) < threads ? member + (lane & 31) : member",
}


def _source(op: str) -> Helper:
    own = "" if op == "shfl" else "    const int member = snap_member<threads, run, step>();\n"
    return Helper(
        f"snap_{op}_lane",
        f"""\
template <int threads, int run, int step>
static __device__ __forceinline__ int snap_{op}_lane(int lane) {{
{own}    return snap_lane_of<threads, run, step>({_SOURCES[op]});
}}""",
        needs=(LANE_OF, MEMBER) if op != "shfl" else (LANE_OF,),
    )


def source_lane(module: Module, op: str, p: Privilege, lane: tree.Expr) -> tree.Expr:
    """Find the lane of the warp that a shuffle reads."""
    return _of_shape(module, _source(op), p, lane)


def members(module: Module, p: Privilege, lanes: tree.Expr) -> tree.Expr:
    """Make bits of members of bits of lanes."""
    return _of_shape(module, MEMBERS, p, lanes)


def first(p: Privilege) -> tree.Expr:
    """Return the condition that singles out the first member."""
    bits = tree.Integer(p.shape.members[-1])
    return tree.Binary("==", tree.Binary("&", tree.Name("threadIdx.x"), bits), tree.Integer(0))


def arguments(p: Privilege) -> str:
    """Return the template arguments that say how the lanes lie."""
    assert p.stride is not None
    return f"<{p.n}, {p.stride.run}, {p.stride.step}>"


def _of_shape(module: Module, helper: Helper, p: Privilege, *args: tree.Expr) -> tree.Expr:
    return tree.Call(f"{module.helper(helper)}{arguments(p)}", args)
