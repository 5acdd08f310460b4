"""Take one specialization of a Snap function through the stages.

Input: a definition, and values for its constexpr parameters.  Output: one attribute per stage, each computed when it is
first needed.  Invariant: stages are imported when they are needed.  Non-goals: the object that users hold (api.py).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from snap._compiler.frontend.definition import Definition, Specialization
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.depth import roomy
from snap._compiler.ir.synced import Function as Synced
from snap._compiler.ir.synced import SyncPoint
from snap.diag.error import SnapError
from snap.diag.span import Span
from snap.record import replace

if TYPE_CHECKING:
    from snap._compiler.codegen import CudaModule
    from snap._compiler.frontend import tree
    from snap.diag.error import Diagnostic
    from snap.prove.task import Task
    from snap.prove.verdict import Launch, Seen


def _kept() -> Any:
    """Name the folder of kept proofs, beside compiled code."""
    from snap.host.compile.cache import Cache

    return Cache.default()


class Compiled:
    """Hold one specialization and the results of its stages."""

    def __init__(self, definition: Definition, constexprs: dict[str, object]):
        self.definition, self.constexprs = definition, constexprs

    @functools.cached_property
    def typed(self) -> ir.Function:
        from snap._compiler.check import PASSES
        from snap._compiler.ir.passes import run

        typed: ir.Function = run(PASSES, Specialization(self.definition, self.constexprs))
        return typed

    @functools.cached_property
    def synced(self) -> Synced:
        from snap._compiler.sync import synchronize

        return synchronize(self.ordered)

    @functools.cached_property
    def in_one_text(self) -> Synced:
        """The synchronized program before each role becomes one of its own: what is measured."""
        from snap._compiler.sync import in_one_text

        return in_one_text(self.ordered)

    @property
    def ordered(self) -> ir.Function:
        """The typed program, with the pairs of places that need no barrier where the decorator says `lean=True`."""
        return replace(self.typed, apart=self.apart[0]) if self.definition.requires.lean else self.typed

    @functools.cached_property
    def apart(self) -> tuple[frozenset[tuple[Span, Span]], str]:
        """Return the pairs of places whose barriers `lean=True` leaves out, or the reason why there are none."""
        from snap._compiler.sync import conflicting_places, synchronize
        from snap.prove.properties.needless import left_out

        return left_out(
            self.task, conflicting_places(self.typed), lambda pairs: synchronize(replace(self.typed, apart=pairs))
        )

    def warnings(self, proofs: bool = False) -> tuple[Diagnostic, ...]:
        """Return the warnings that no comment in the source allows; `proofs`: also those that need a proof."""
        from snap.diag.warned import not_allowed

        found = [*self.typed.warnings]
        if self.definition.kernel and not self.definition.requires.lean:
            from snap.advice import warnings

            found += warnings(self.typed, self.synced, self.apart[0] if proofs else frozenset())
        return not_allowed(found)

    def left_out(self) -> tuple[list[SyncPoint], str]:
        """Return the barriers that were inferred and left out; if there are none, the reason."""
        from snap._compiler.ir.points import points
        from snap._compiler.sync import synchronize

        if not self.definition.requires.lean:
            return [], "the kernel does not ask for it: `lean=True`"
        left = points(synchronize(self.typed))
        for there in points(self.synced):
            same = next((k for k, point in enumerate(left) if _alike(point) == _alike(there)), None)
            if same is not None:
                del left[same]
        return left, "" if left else self.apart[1] or "each barrier orders something else, too"

    def checked(self) -> Compiled:
        """Run every stage that can reject the program."""
        roomy(self._check)
        if self.typed.warnings:
            from snap.diag.warned import tell

            tell(self.typed.warnings)
        return self

    def _check(self) -> None:
        if not self.definition.kernel:
            from snap._compiler.sync import probe

            probe(self.typed)
        else:
            _ = self.synced
            if self.definition.requires.proved:
                from snap.prove import refuse

                refuse(self.task, self.definition.requires.span or self.typed.span)

    @functools.cached_property
    def module(self) -> CudaModule:
        from snap._compiler.codegen import emit

        return emit(self.synced)

    @functools.cached_property
    def task(self) -> Task:
        """Make the input of a proof."""
        import hashlib

        from snap.prove.task import Task

        where = None if self.where is None else self.where_tree()
        constants, lean = dict(self.constexprs), self.definition.requires.lean
        contents = repr((self.typed, where, self.blocks, self.constexprs, lean))
        key = hashlib.sha256(contents.encode("utf-8", "replace")).hexdigest()
        task = Task(self.typed, lambda: self.synced, where, constants, key, self._replayed, store=_kept, lean=lean)
        task.blocks, task.most = self.blocks, self.most_blocks
        return task

    def _replayed(self, launch: Launch, seconds: float | None) -> Seen | None:
        """Run a launch that a proof has found on the CPU machine."""
        from snap._compiler.ir.types import Level
        from snap.host.replaying import replay

        threads = self.typed.place.known(Level.THREAD)
        return replay(self, launch.blocks, cast(Any, dict(launch.args)), launch.data, threads, launch.only, seconds)

    @property
    def where(self) -> Callable[..., object] | None:
        """Return the conditions that every launch keeps."""
        return self.definition.requires.where

    @property
    def blocks(self) -> int | tuple[int, ...] | None:
        """Return the number of blocks of every launch, or the shape of its grid, if the decorator fixes it."""
        given = self.definition.requires.blocks
        grid = given if isinstance(given, tuple) else (given,)
        return given if grid and all(type(n) is int for n in grid) else None  # type: ignore[return-value]

    def where_tree(self) -> tuple[tree.Lambda, dict[str, object]]:
        """Parse `where=` of the decorator, with the names that it takes from outside."""
        from snap._compiler.frontend.conditions import condition_tree

        return condition_tree(self.where)

    @functools.cached_property
    def most_blocks(self) -> int:
        """Return the largest number of blocks of a launch."""
        from snap._compiler.frontend.conditions import bounds
        from snap._compiler.ir.launches import most_blocks

        named = any(p.var.name == "blocks" for p in self.typed.params if isinstance(p, ir.ValueParam))
        try:
            bounded = self.where is not None and not named and bounds(self.where_tree()[0], "blocks")
        except SnapError:  # its source is not to be had
            bounded = False
        return most_blocks(self.typed, bounded)

    def where_texts(self) -> list[str]:
        """Return the text of each condition of `where=`; none if its source is not available."""
        from snap._compiler.frontend import tree
        from snap._compiler.frontend.printer import expression

        try:
            body = self.where_tree()[0].body
        except SnapError:
            return []
        return [expression(one) for one in (body.items if isinstance(body, tree.Sequence) else (body,))]

    @property
    def lined(self) -> str:
        """Return the module's text with the lines of the source, as it is compiled; empty if that is switched off."""
        from snap.host.compile.lines import generated_file, source_file, wanted

        if not wanted():
            return ""
        from snap._compiler.codegen import lined

        return lined(self.module, generated_file(self.module.kernel, self.module.text), source_file)


def _alike(point: SyncPoint) -> tuple[object, ...]:
    """Identify a point by its place and group; its objects may be fewer."""
    return point.kind, point.span, point.participants
