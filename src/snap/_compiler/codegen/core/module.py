"""Hold what one CUDA file needs, collected while its functions are lowered: headers, structs, helpers, and facts about
the launch.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from snap._compiler.codegen.core import tree
from snap._compiler.codegen.core.names import Namer, at_file_scope
from snap._compiler.codegen.hopper.in_flight import RegistersInFlight
from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap._compiler.ir.hardware import WIDEST
from snap._compiler.ir.printed import Assertion
from snap._compiler.ir.types import Privilege
from snap.diag.span import Span
from snap.record import record

# By identity of a statement or function of the tree: itself, so that the identity stays its own, and where it was written.
Places = dict[int, tuple[tree.Stmt | tree.Function, Span]]


@record
class Helper:
    """A small device function given as text; `static_bytes` is the shared memory it declares for itself.

    arch_specific: it uses instructions that exist on `min_arch` alone.  older: its text in a file that is to run on
    GPUs before sm_90 as well, where that is another one.  feature: what needs `min_arch`, in words, where its
    PTX does not say it.
    """

    name: str
    text: str
    needs: tuple[Helper, ...] = ()
    min_arch: int = 80
    static_bytes: int = 0
    arch_specific: bool = False
    older: str = ""
    feature: str = ""


def inline_helper(head: str, body: str, **options: Any) -> Helper:
    """Make a helper of one function that is always inlined.  head: `void name(int x)`.  body: its lines."""
    name = head.partition("(")[0].split()[-1]
    return Helper(name, f"static __device__ __forceinline__ {head} {{\n{body}\n}}", **options)


@record
class LaunchArray:
    """Shared memory of which the launch gives so many rows of `row` bytes; the next array begins at a multiple of
    `align`.
    """

    obj: ir.MemObject
    row: int
    align: int


@dataclass(slots=True)
class Module:
    """threads: of a block.  cluster: blocks a cluster, 0 without clusters.  swizzled: whether an object of shared
    memory is.

    barriers: the first number of the named barriers for each kind of group; rounds, round_count: the same for barriers
    made of shared memory. arrivals: of barriers by hand in two parts, by number: the first mbarrier, how many there are,
    and how many threads arrive at each. buffer: bytes of the block's one shared buffer, mbarriers included; dynamic: it is given at
    launch. fixed_registers: threads start with an equal share of the registers, which `setmaxnreg` then moves between
    them. global_fences: boxes and threads may meet in global memory, or in that of another block. entry, exit: the
    kernel's barriers before and behind what the program says. accumulators: local arrays that products go into
    somewhere, each as (id of the function, uid); accumulators_read: those of them
    whose elements are read into registers of their own; in_flight: by id of the function, where arrays of wgmma are in
    flight.  tables: of constants, and what they are called.
    printed: texts of functions, by name.
    """

    threads: int
    cluster: int
    includes: set[str] = field(default_factory=set)
    structs: dict[str, tree.Struct] = field(default_factory=dict)
    helpers: dict[str, Helper] = field(default_factory=dict)
    functions: list[tree.Function] = field(default_factory=list)
    printed: dict[str, str] = field(default_factory=dict)
    names: Namer = field(default_factory=lambda: Namer(at_file_scope))
    barriers: dict[Privilege, int] = field(default_factory=dict)
    rounds: dict[Privilege, int] = field(default_factory=dict)
    round_count: int = 0
    arrivals: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    min_arch: int = 80
    feature: str = "clusters"
    arch_specific: bool = False
    swizzled: bool = False
    buffer: int = 0
    dynamic: bool = False
    fixed_registers: bool = False
    global_fences: bool = False
    entry: list[synced.SyncPoint] = field(default_factory=list)
    exit: list[synced.SyncPoint] = field(default_factory=list)
    accumulators: set[tuple[int, int]] = field(default_factory=set)
    accumulators_read: set[tuple[int, int]] = field(default_factory=set)
    in_flight: dict[int, RegistersInFlight] = field(default_factory=dict)
    at_launch: list[LaunchArray] = field(default_factory=list)
    asserts: list[Assertion] = field(default_factory=list)
    places: Places = field(default_factory=dict)
    tables: dict[ir.Table, str] = field(default_factory=dict)

    def written(self, made: Iterable[tree.Stmt | tree.Function], span: Span) -> None:
        """Note what was made of something in the source; of parts of it that is known already."""
        for one in made:
            self.places.setdefault(id(one), (one, span))

    def helper(self, helper: Helper) -> str:
        """The helper's name; from now on it is part of the file."""
        for needed in helper.needs:
            self.helper(needed)
        self.helpers.setdefault(helper.name, helper)
        if helper.min_arch > self.min_arch:
            self.min_arch, self.feature = helper.min_arch, helper.feature or _family(helper.text)
        self.arch_specific |= helper.arch_specific
        return helper.name

    def does(self, helper: Helper, *args: tree.Expr) -> tree.Stmt:
        """The call of a helper, as a statement."""
        return tree.Evaluate(tree.Call(self.helper(helper), args))

    def texts(self) -> tuple[str, ...]:
        """Return the texts of the helpers, once all that the file needs is known."""
        older = self.min_arch < 90
        return tuple(helper.older if older and helper.older else helper.text for helper in self.helpers.values())

    @property
    def static_bytes(self) -> int:
        """Shared memory that the generated code declares for itself.  Words of mbarriers take whole units of the widest
        access, to which the block's buffer behind them is aligned.
        """
        own = sum(helper.static_bytes for helper in self.helpers.values())
        return own + 4 * self.round_count + -(-8 * self.arrival_count // WIDEST) * WIDEST

    @property
    def arrival_count(self) -> int:
        """Count the mbarriers of barriers by hand."""
        return sum(groups for _, groups, _ in self.arrivals.values())


# By the beginning of a PTX instruction: the word that people use for what it belongs to.
_FAMILIES = {
    "cp.async.bulk": "TMA",
    "cp.reduce.async.bulk": "TMA",
    "fence.proxy.async": "TMA",
    "mbarrier.arrive.expect_tx": "TMA",
    "wgmma": "wgmma",
    "barrier.cluster": "clusters",
    "mapa": "clusters",
    "fence.mbarrier_init": "clusters",
    "mbarrier": "mbarriers",
    "setmaxnreg": "setmaxnreg",
    "stmatrix": "stmatrix",
}


def _family(text: str) -> str:
    """Find what a helper's PTX belongs to."""
    found = (word for start, word in _FAMILIES.items() if re.search(rf"\b{re.escape(start)}", text))
    return next(found, "clusters, TMA, wgmma")
