"""`where=` of a kernel's decorator, at a launch.

Input:      the function that the decorator was given, the arguments of a launch by name, and its number of blocks
Output:     nothing, or a LaunchError that says which condition does not hold
Invariant:  it takes as long for large arrays as for small ones: of an array, only its length is asked for
Non-goals:  what follows from the conditions (prove/)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from snap.host.arguments.arrays import ArrayInfo
from snap.host.arguments.byname import wanted
from snap.host.arguments.records import RecordFields
from snap.host.arguments.signature import Pointer, Signature
from snap.host.errors import LaunchError


class Sized:
    """Give what `where` may ask of an array: how many elements of its parameter's type it has; of one with a shape, the
    first extent.
    """

    __slots__ = ("_length",)

    def __init__(self, length: int):
        self._length = length

    def __len__(self) -> int:
        return self._length

    def __repr__(self) -> str:
        return f"{self._length} elements"


class Precondition:
    """The conditions of one specialized kernel.  texts: gives the text of each, when one does not hold."""

    def __init__(
        self,
        function: Callable[..., object],
        constexprs: Mapping[str, object],
        signature: Signature,
        texts: Callable[[], list[str]],
    ):
        self.function, self.signature, self.texts = function, signature, texts
        asked = [name for name, _ in wanted(function)]
        self.constants = {name: value for name, value in constexprs.items() if name in asked}
        self.at = [
            (name, k) for k, name in enumerate(p.name for p in signature.params) if name.partition(".")[0] in asked
        ]
        self.extents = (
            _extents(signature) if "grid" in asked and "grid" not in {p.name for p in signature.params} else []
        )
        self.at += self.extents
        self.of_records = any("." in name for name, _ in self.at)
        self.counts_blocks = "blocks" in asked and "blocks" not in {name for name, _ in self.at}

    def check(self, args: tuple[object, ...], blocks: int) -> None:
        """args: as `bind` gives them."""
        given: dict[str, Any] = dict(self.constants)
        for name, k in self.at:
            arg, param = args[k], self.signature.params[k]
            given[name] = self._sized(k, param, arg, args) if isinstance(arg, ArrayInfo) else arg
        self._holds(self._with_grid(given, blocks))

    def quick(self, blocks: int, *args: Any) -> bool:
        """Say whether they hold.  Arrays are given as their lengths; `check` explains what fails here."""
        given: dict[str, Any] = dict(self.constants)
        for name, k in self.at:
            given[name] = Sized(args[k]) if isinstance(self.signature.params[k], Pointer) else args[k]
        found = self.function(**self._with_grid(given, blocks))
        return all(found) if isinstance(found, (tuple, list)) else bool(found)

    def _with_grid(self, given: dict[str, Any], blocks: int) -> dict[str, Any]:
        if self.extents:
            given["grid"] = tuple(given.pop(name) for name, _ in self.extents)
        if self.counts_blocks:
            given["blocks"] = blocks
        return RecordFields.of(given) if self.of_records else given

    def _sized(self, k: int, param: object, arg: ArrayInfo, args: tuple[object, ...]) -> Sized:
        assert isinstance(param, Pointer)
        dims = self.signature.dims[k]
        return Sized(arg.size // (param.lanes * param.units) if dims is None else dims(*args)[0])

    def _holds(self, given: dict[str, Any]) -> None:
        kernel = self.signature.kernel
        try:
            found = self.function(**given)
            kept = [bool(one) for one in (found if isinstance(found, (tuple, list)) else (found,))]
        except Exception as error:  # whatever the user's function does
            problem = f"its `where=` fails for these arguments: {type(error).__name__}: {error}"
            if "'Sized'" in str(error):
                problem += "; of an array it can ask for the length alone, `len(x)`"
            raise LaunchError(kernel, problem) from error
        if all(kept):
            return
        at = kept.index(False)
        shown = ", ".join(f"{n} = {v}" for n, v in given.items())
        texts = self.texts()
        text = f"`{texts[at]}`" if at < len(texts) else f"condition {at + 1} of it"
        raise LaunchError(kernel, f"its `where=` asks for {text}, and here {shown}")


def _extents(signature: Signature) -> list[tuple[str, int]]:
    """The last parameters: the extents of the grid."""
    first = len(signature.params) - len(signature.axes)
    return [(p.name, k) for k, p in enumerate(signature.params) if k >= first]
