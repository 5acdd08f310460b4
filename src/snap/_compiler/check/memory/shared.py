"""Declare shared memory: of a block, or spread over the blocks of a cluster.

Input: a declaration and its `Spec`.  Output: `DeclareShared`, and a `Memory` or `Pipeline` binding.  Invariant: an
object's offset is a multiple of what its uses need; `shape`, offset and size are those of one block.  Non-goals:
lowering (check/statements/scopes.py), stages (check/statements/stages.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from snap._compiler.check.core.bindings import IndexMap, Memory, Pipeline
from snap._compiler.check.core.names import as_definition
from snap._compiler.check.core.specs import Spec, SpecKind
from snap._compiler.check.core.state import Checker
from snap._compiler.check.memory.accesses import scalar_shape
from snap._compiler.check.memory.records import of_records
from snap._compiler.frontend import tree
from snap._compiler.frontend.definition import MOVES_BOXES, Definition
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.hardware import BOX_ALIGN, MOST_BLOCK_SHARED, SWIZZLE_PERIOD, WIDEST
from snap._compiler.ir.types import BLOCK1, CLUSTER1, GRID1, I32, Array, Level, Privilege, Space
from snap.diag.span import Span
from snap.surface import WITHOUT_IMPORT, Marker

BOX_WORDS = {"async_reduce", "wgmma", "store_acc"}


# T-Alloc-Shared: P = block[1], or x is spread and P = cluster[1] => G |- x: shared(t[n]) @ P
# Shared memory belongs to exactly one block, or is spread over the blocks of exactly one cluster.
def declare_shared(c: Checker, s: tree.Declare, spec: Spec, written: Privilege | None) -> None:
    owner = CLUSTER1 if spec.spread else BLOCK1
    if c.privilege != owner:
        raise _wrong_place(c, s, spec)
    if written not in (None, owner):
        raise c.fail(
            "SNAP012",
            f"shared memory is at `{owner}`, not `{written}`",
            s.span,
            help=f"hand it out: `with partition({s.name}, p={written}, f=...) as part:`",
        )
    if s.value is not None:
        raise c.type_error(
            "shared memory has no initial value", s.value.span, help="let the threads write it, through a partition"
        )
    if not isinstance(spec.type, Array) or spec.record is not None and len(spec.type.shape) == 1:
        raise c.type_error(
            "shared memory is an array", s.annotation.span, help=f"`shared({spec.record or spec.type}[1])`"
        )
    blocks = _parts(c, s) if spec.spread else None
    align = SWIZZLE_PERIOD if spec.swizzle else BOX_ALIGN if _moves_boxes(c.definition, set()) else WIDEST
    offset = c.room(spec.type.bytes, align) if spec.extent is None else _room_at_launch(c, s, spec)
    shape = scalar_shape(spec.type.shape, s.span)
    obj = ir.MemObject(
        c.program.uid(),
        s.name,
        spec.type.elem,
        shape,
        spec.const,
        Space.SHARED,
        owner,
        offset,
        spec.swizzle,
        spec.spread,
        spec.depth,
        spec.lag,
        spec.extent,
        None if spec.part is None or blocks is None else _part(c, spec.part, blocks, s),
        span=s.name_span,
    )
    handle = ir.Handle(c.program.uid(), s.name, obj, owner, spec.const, ir.Origin.SHARED, span=s.name_span)
    memory = Memory(handle, ir.MemView(obj, obj.elem, shape), None, shape)
    if spec.record is not None:
        memory = of_records(c, memory, spec.record, shape[:-1], s.span)
    c.smem_align = max(c.smem_align, align)
    if spec.extent is None:
        c.smem_used = offset + spec.type.bytes
        c.account(c.smem_used, s.span)
    c.out.append(ir.DeclareShared(obj, handle, span=s.span))
    if spec.kind is SpecKind.PIPELINE:
        fills = c.temp(f"{s.name}_fill", I32, owner, s.name_span)
        c.out.append(ir.Declare(fills, ir.Const(0, I32, span=s.span), span=s.span))
        c.bind(s.name, Pipeline(memory, fills, blocks if spec.spread is ir.Spread.ACROSS else None))
    else:
        spread = blocks is not None and spec.spread is ir.Spread.ACROSS
        c.bind(s.name, across(c, memory, blocks, s.span) if blocks is not None and spread else memory)


def _parts(c: Checker, s: tree.Declare) -> int:
    """Count the blocks that memory of a cluster is spread over."""
    held = c.place.held(Level.BLOCK)
    if held is None or held.count is None or held.open:
        raise c.fail(
            "SNAP012",
            "the caller decides how many blocks the cluster has, and so how many parts this memory has",
            s.span,
            help="name the blocks in `@requires`: `cluster[1], block[2]`",
        )
    return held.count


# The blocks of a cluster are divided into parts of one size, each with a value of its own.
def _part(c: Checker, part: tuple[str, int], blocks: int, s: tree.Declare) -> tuple[int, int]:
    """Say how many blocks hold copies of one value, and how far their ranks lie apart."""
    word, n = part
    if n < 1 or blocks % n or n in (1, blocks):
        written = f"copies=block[{n}]" if word == "block" else f"copies=block, every={n}"
        fitting = [str(k) for k in range(2, blocks) if blocks % k == 0]
        would = f"{' or '.join(fitting)}" if fitting else "a cluster of 4 blocks, which 2 divides"
        raise c.type_error(
            f"`{written}` is for parts of a cluster, of several blocks each, and this cluster has {blocks}"
            if n in (1, blocks)
            else f"`{written}` divides the cluster's {blocks} blocks into parts of one size, and {n} does not",
            s.annotation.span,
            help=f"{would}; or `copies=block`, one value for all blocks, or `across=block`, one for each",
        )
    return (n, 1) if word == "block" else (blocks // n, n)


# Memory whose size a launch decides lies behind all other memory of the kernel, each array in bytes of its own: which
# arrays share bytes, and what barriers that takes, does not depend on the launch.
def _room_at_launch(c: Checker, s: tree.Declare, spec: Spec) -> int:
    size = cast(Array, spec.type).bytes
    if size > MOST_BLOCK_SHARED:
        raise c.fail(
            "SNAP013",
            f"`{s.name}` may take {size} bytes of shared memory, and a block has {MOST_BLOCK_SHARED} at most",
            s.span,
            help="write a smaller `upto=`",
        )
    offset = c.smem_at_launch
    c.smem_at_launch += -(-size // SWIZZLE_PERIOD) * SWIZZLE_PERIOD
    return offset


def across(c: Checker, memory: Memory, blocks: int, span: Span) -> Memory:
    """The memory of one block, seen from the cluster: the rank of the block whose part is meant comes first among the
    indices.
    """
    rank = c.temp("b", I32, GRID1, span)
    params = (
        memory.map.params
        if memory.map is not None
        else tuple(c.temp(f"k{i}", I32, GRID1, span) for i in range(memory.rank))
    )
    results = memory.map.results if memory.map is not None else tuple(ir.Read(p, I32, span=span) for p in params)
    shape = None if memory.shape is None else (ir.Const(blocks, I32, span=span), *memory.shape)
    return Memory(
        memory.handle,
        memory.view,
        IndexMap((rank, *params), results, ir.Read(rank, I32, span=span)),
        shape,
        record=memory.record,
    )


def own_part(memory: Memory) -> Memory | None:
    """Show memory that is across a cluster as one block sees it, without the rank as an index. None where the name does
    not show whole parts.
    """
    map = memory.map
    if map is None or map.block is None:
        return memory
    rank = map.params[0]
    if not (isinstance(map.block, ir.Read) and map.block.var == rank):
        return None
    shape = None if memory.shape is None else memory.shape[1:]
    return Memory(
        memory.handle,
        memory.view,
        IndexMap(map.params[1:], map.results),
        shape,
        memory.lowered,
        memory.claim,
        memory.record,
    )


def _wrong_place(c: Checker, s: tree.Declare, spec: Spec) -> Exception:
    clusters = c.constructs[0].place.held(Level.CLUSTER) is not None
    if not spec.spread:
        belongs, help = "one block", "declare it directly in `with each(block):`"
        if c.privilege == CLUSTER1:
            help += "; or spread it over the cluster: `shared(float[256], across=block)`"
    else:
        belongs = "one cluster"
        help = (
            "declare it directly in `with each(cluster):`"
            if clusters
            else ("require clusters, `@kernel(threads=256, cluster=2)`, and declare it in `with each(cluster):`")
        )
    return c.fail(
        "SNAP012",
        f"{'shared memory' if not spec.spread else f'shared memory with `{spec.spread}=block`'} belongs to {belongs}, "
        f"and this code runs at `{c.privilege}`",
        s.span,
        "declared here",
        (c.holding,),
        help=help,
    )


def _moves_boxes(definition: Definition, seen: set[int]) -> bool:
    """Decide whether the function, or one that it calls, moves boxes or multiplies tiles: then shared memory begins
    where boxes may. That is the same for all that call it.
    """
    known = definition.made.get(MOVES_BOXES)
    if known is not None:
        return bool(known)
    if id(definition) in seen:
        return False
    seen.add(id(definition))
    for e in _calls(definition.tree.body):
        match e.function:
            case tree.Name(name):
                found = definition.names.get(name, WITHOUT_IMPORT.get(name))
            case tree.Attribute(_, name):
                found = WITHOUT_IMPORT.get(name)
            case _:
                continue
        marked = isinstance(found, Marker) and (
            found.word in BOX_WORDS or found.word == "async_copy" and "at" in dict(e.keywords)
        )
        callee = as_definition(found)
        if marked or callee is not None and _moves_boxes(callee, seen):
            definition.made[MOVES_BOXES] = True
            return True
    definition.made[MOVES_BOXES] = False
    return False


def _calls(body: tree.Body) -> Iterator[tree.Call]:
    """All calls in there, in no order; this is much of the time that a definition takes."""
    left: list[Any] = list(body)
    while left:
        node = left.pop()
        if type(node) is tree.Call:
            yield node
        left += tree.children(node)
