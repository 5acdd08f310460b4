"""Define what a launch takes besides numbers and words: a target with options, and a grid that fills the device.

Input: options.  Output: records that `target=` and `k[...]` take.  Invariant: the word "ptx" means `PTX()`.  Non-goals:
judging the options of a target, which the target does (host/simulate.py); how many blocks fit (host/occupancy.py).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

from snap.record import record


@record
class PTX:
    """Run what NVRTC makes of the kernel, without a GPU: `k.launch(x, blocks=2, target=snap.PTX(checks="races"))`.

    checks  what else to look for: "races", "uninitialized" (shared memory), "nc" (memory that is written, read past
            coherence), "registers", "local", "barriers", "shuffles"; one word, or several
    memory  "flat", or "caches": L1 and L2
    mode    "independent" threads, or the "stack" of a warp
    limit   the most instructions of threads
    """

    checks: str | Sequence[str] = ()
    memory: str | None = None
    mode: str | None = None
    limit: int | None = None

    def given(self) -> dict[str, object]:
        """Return the options that differ from the defaults."""
        options = {name: getattr(self, name) for name in ("checks", "memory", "mode", "limit")}
        return {name: value for name, value in options.items() if value is not None and value != ()}


@record
class Fill:
    """A grid of as many blocks as the device runs at once; `fill` makes it."""

    per_sm: int | None = None
    multiple: int = 1
    at_most: int | None = None

    def unit(self, promised: int = 1) -> int:
        """Return what the number of blocks is a multiple of."""
        return math.lcm(self.multiple, promised)

    def of(self, fit: int, promised: int = 1) -> int:
        """Return the number of blocks where `fit` of them fit, and the kernel promises a multiple of `promised`."""
        unit = self.unit(promised)
        most = fit // unit * unit
        return most if self.at_most is None else min(most, -(-self.at_most // unit) * unit)


def fill(*, per_sm: int | None = None, multiple: int = 1, at_most: int | None = None) -> Fill:
    """Launch as many blocks as the device runs at once: `k[fill()](...)`, or `@kernel(..., blocks=fill())`.

    How many fit depends on the kernel's registers, shared memory and threads; `k.most_blocks()` is the number.  A
    kernel of clusters, or of `block[n]`, gets a multiple of what it promises.  On the CPU and the PTX machine there are
    4 SMs, which run one block each.

    per_sm: the most blocks that one SM gets; on the CPU machine the number that it gets.
    multiple: the number of blocks is a multiple of this.  at_most: no more blocks than this, rounded up to a multiple:
    the number of tiles, say.
    """
    given: dict[str, tuple[Any, int]] = {"per_sm": (per_sm, 1), "multiple": (multiple, 1), "at_most": (at_most, 0)}
    for name, (value, least) in given.items():
        if value is None and name != "multiple":
            continue
        if isinstance(value, bool) or not hasattr(type(value), "__index__") or operator.index(value) < least:
            raise ValueError(f"`{name}=` of `fill` is an integer, {least} or more, not {value!r}")
    each, most = (None if value is None else operator.index(value) for value in (per_sm, at_most))
    return Fill(each, operator.index(multiple), most)
