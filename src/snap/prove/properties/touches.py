"""List what is read and written of memory that begins without a value: shared arrays, and variables.

Input: what the walk found.  Output: `Touch`es, one for each access.  Invariant: all reads of such memory are among
them; a write counts only if whoever keeps its path makes it (`When.sure`).  Arrays of registers begin with zeros, and
are not looked at; neither is global memory, which a launch brings.
"""

from __future__ import annotations

from dataclasses import dataclass

from snap._compiler.analysis.exact import kinds
from snap._compiler.analysis.exact.conditions import atoms_of, below
from snap._compiler.analysis.exact.logic import Cond
from snap._compiler.analysis.exact.terms import Poly
from snap._compiler.ir.effects import Extent
from snap._compiler.ir.expressions import Spread
from snap._compiler.ir.hardware import WARP
from snap._compiler.ir.types import BLOCK1, Vector
from snap._compiler.walk.sites import Local, Site, When
from snap.diag.span import Span
from snap.prove.properties.context import ProofContext
from snap.prove.properties.extents import sizes


@dataclass(slots=True, eq=False)
class Touch:
    """One access.

    store   which memory: equal where it is the same
    writes  it certainly gives its elements a value
    index   the first element, in the dimensions of `shape`, whose elements have so many `bytes`; none of a variable
    sizes   how many elements from there on, in each dimension
    part    of an element, the first byte that is meant, and how many; of a variable, components
    own     only the thread itself sees it: a variable
    rank    of memory spread over a cluster, the block whose part is meant
    known   whether it is known where it is; else it may be anywhere
    atomic  no barrier orders it with another one
    vague   what a thread has read, or made of that, decides where it is, or whether
    number  its place among all of the kernel, in the order of the text: the same whenever they are asked for
    """

    store: object
    name: str
    reads: bool
    writes: bool
    index: tuple[Poly, ...]
    sizes: tuple[int, ...]
    shape: tuple[Poly, ...] | None
    bytes: int
    part: tuple[int, int]
    path: tuple[Cond, ...]
    span: Span
    when: When
    life: When
    own: bool = False
    rank: Poly | None = None
    known: bool = True
    atomic: bool = False
    vague: bool = False
    number: int = -1

    def like(self, other: Touch) -> bool:
        """Return whether both count in the same elements."""
        return self.bytes == other.bytes and self.shape == other.shape and self.part == other.part


def touches(c: ProofContext) -> list[Touch]:
    """In the order of the text."""
    found = [_site(c, s) for s in c.found.sites if not s.root.is_global]
    found += [_local(one) for one in c.found.locals]
    found.sort(key=lambda one: one.when.order)
    for k, one in enumerate(found):
        one.number = k
    return found


def _site(c: ProofContext, s: Site) -> Touch:
    path = s.path
    if s.extent is Extent.ROWS and s.lanes < WARP:
        path = (*path, below(c.terms.modulo(c.walk.thread, WARP), s.lanes))
    width = s.elem.bytes
    part = (0, width)
    if s.part is not None:
        assert isinstance(s.elem, Vector)
        one = s.elem.elem.bytes
        part = (s.part * one, one)
    rank = None
    if s.root.obj.spread is Spread.ACROSS:
        rank = c.walk.block if s.block is None else s.block
    known = s.extent is not Extent.ANYWHERE
    deciding = atoms_of([one for one in path if one not in c.found.defines], s.index)
    return Touch(
        id(s.root),
        s.root.name,
        s.kind.reads,
        s.kind.writes and s.when.sure and known,
        s.index,
        sizes(s),
        s.shape,
        width,
        part,
        path,
        s.span,
        s.when,
        s.life,
        rank=rank,
        known=known,
        atomic=bool(s.atomic),
        vague=any(atom.kind is kinds.ANY and not atom.per.at_least(BLOCK1) for atom in deciding),
    )


def _local(one: Local) -> Touch:
    t = one.var.type
    whole = t.lanes if isinstance(t, Vector) else 1
    part = (0, whole) if one.part is None else (one.part, 1)
    return Touch(
        one.key,
        one.var.name,
        not one.writes,
        one.writes and one.when.sure,
        (),
        (),
        (),
        whole,
        part,
        one.path,
        one.span,
        one.when,
        one.life,
        own=True,
    )
