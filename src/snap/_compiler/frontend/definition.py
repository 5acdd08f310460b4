"""Describe a decorated Python function to the compiler: its tree, the outside names it uses, and what it requires.

Input: a tree and the arguments of a decorator. Output: a `Definition`. Invariant: it does not change, but for `made`,
in which later stages keep what they have made of it. Non-goals: types.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from snap._compiler.frontend.inlined import WrittenCall
from snap._compiler.frontend.records import RecordSignature
from snap._compiler.frontend.tree import Function
from snap._compiler.ir.types import Privilege, told_apart
from snap.diag.error import UseOfRefused
from snap.diag.span import Span
from snap.record import record
from snap.targets import Fill


@record
class InstructionText:
    """Hold what an instruction of the user's own is in CUDA, and in NumPy where the body does not say it.

    text     CUDA text, with holes for the parameters and for the result
    meaning  a function of NumPy arrays, one row for each group; None if the body is the meaning
    writes   the `ref` parameters that the text writes without reading them
    """

    text: str
    meaning: Callable[..., object] | None = None
    writes: tuple[str, ...] = ()


@record
class Requires:
    """`@requires(...)`: privileges, or a function from constexpr parameters (by name) to a tuple of them.

    resident: how many blocks of a kernel are to fit one multiprocessor at a time; None where it is the compiler's
    choice.  word: the decorator that says it.  blocks: how many blocks a launch has, from its arguments by name.
    where: what every launch keeps, a function of arguments by name to one condition or a tuple of them; of a device
    function, every call.  proved: whether the kernel is refused unless it is proved.  ensures, pairs, calls: what a
    device function promises (ir/contracts.py).  lean: whether barriers are left out that a proof makes needless.
    instruction: of a device function that is an instruction of the user's own, the text that stands for its body.
    """

    privileges: tuple[Privilege, ...] | Callable[..., object]
    smem: int | None = None
    cooperative: bool = False
    resident: int | None = None
    span: Span | None = field(default=None, compare=False)
    word: str = "requires"
    blocks: int | tuple[int, ...] | Fill | Callable[..., int | tuple[int, ...] | Fill] | None = None
    where: Callable[..., object] | None = None
    proved: bool = False
    ensures: Callable[..., object] | None = None
    pairs: Callable[..., object] | None = None
    calls: Callable[..., object] | None = None
    lean: bool = False
    instruction: InstructionText | None = None


MOVES_BOXES = "moves boxes"  # in `made`: whether it, or what it calls, moves boxes or multiplies tiles
INSTANCES = "instances"  # in `made`: the choices of constexpr values for which it was checked as it stands, by identity
EXPANSIONS = "expansions"  # with a choice of constexpr values, in `made`: what each short form stands for, by its node


@dataclass(frozen=True, eq=False, slots=True)
class Definition:
    """One Snap function as defined.

    kernel  whether it is a kernel, not a device function
    names   what the function's free names were bound to when it was defined (closure first, then globals; builtins not
            included)
    made    what the checker has made of it, for all that call it alike: it lives as long as the function
    written the calls of inlined functions that stand written out in the tree
    records what of its signature was records, where the tree has their fields; None if nothing was
    uses_records  whether it may have records
    """

    tree: Function
    kernel: bool
    requires: Requires
    names: Mapping[str, object]
    made: dict[object, Any] = field(default_factory=dict)
    written: tuple[WrittenCall, ...] = ()
    records: RecordSignature | None = None
    uses_records: bool = False

    def instances(self, bound: Mapping[str, object]) -> list[dict[str, object]]:
        """List the values for which it was checked, of those that are bound so."""
        made = self.made.get(INSTANCES, {}).values()
        return [values for values in made if all(values[name] == value for name, value in bound.items())]


@record
class Specialization:
    """A definition with values for its constexpr parameters: what the checker is given."""

    definition: Definition
    constexprs: Mapping[str, object]


def identity(constexprs: Mapping[str, object]) -> tuple[object, ...]:
    """Tell one choice of constexpr values from another: 1, 1.0 and True are three, and so are 0.0, -0.0 and a NaN."""
    return tuple((name, type(constexprs[name]), told_apart(constexprs[name])) for name in sorted(constexprs))


class Refused:
    """Stands in for a function whose definition was refused, where errors are collected instead of raised."""

    def __init__(self, name: str):
        self.name = name

    def __call__(self, *args: object, **keywords: object) -> None:
        raise UseOfRefused(self.name)

    __getitem__ = __call__

    def __getattr__(self, name: str) -> None:
        if name.startswith("__"):
            raise AttributeError(name)  # Python asks for these
        raise UseOfRefused(self.name)
