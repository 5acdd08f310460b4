"""Choose the kernels of a file for a command."""

from __future__ import annotations

import ast
import unicodedata
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from snap._compiler.ir import nodes as ir
from snap._compiler.ir import synced
from snap.api import SnapFunction
from snap.cli.load import Checked, Unchecked, UsageError, in_order
from snap.diag.error import SnapError, SnapWarning
from snap.surface import element_of

if TYPE_CHECKING:
    from snap._compiler.codegen import CudaModule


@dataclass(frozen=True, slots=True)
class ChosenKernel:
    """Hold a kernel, and the values of its constexpr parameters."""

    function: SnapFunction
    values: dict[str, Any]

    def stages(self) -> tuple[ir.Function, synced.Function, tuple[synced.SyncPoint, ...], tuple[synced.SyncPoint, ...]]:
        """Give the kernel typed, and synchronized; its barriers before and after its program."""
        compiled = self.function._the_one(self.values)
        return compiled.typed, compiled.synced, compiled.module.entry, compiled.module.exit

    def left_out(self) -> list[str]:
        """List the barriers that `lean=True` left out, each with the reason; or the reason why none was."""
        if not self.function.definition.requires.lean:
            return []
        points, why = self.function.left_out(**self.values)
        shown = "left out, proved: no two threads touch one element by these"
        return [f"{shown}: {point!r}" for point in points] or [f"no barrier was left out: {why}"]

    def graph(self) -> str:
        """Draw its data-control-flow graph, as an SVG."""
        from snap.cli.graph import graph_svg

        _, _, entry, exit = self.stages()
        function, dependences = self.function._graph(**self.values)
        return graph_svg(self.function.definition.tree.name, function, dependences, entry, exit)

    @property
    def name(self) -> str:
        return self.function.definition.tree.name

    def module(self) -> CudaModule:
        """Generate the text, and what a launch must know of it."""
        return self.function._the_one(self.values).module

    def unsafe(self) -> bool:
        """Say whether the text holds CUDA of the user's own."""
        return self.function._the_one(self.values).typed.uses_unsafe

    def ir(self) -> str:
        return self.function.ir(**self.values)

    def passes(self) -> list[tuple[str, str, str]]:
        return self.function.passes(**self.values)


def choose(
    checked: Checked, name: str | None, values: list[str], instances: bool = False
) -> tuple[list[ChosenKernel], list[str]]:
    """Find the kernel of that name, else all kernels that the file defines; a note on each that was left out comes
    along.  instances: of a generic kernel without values, those that the file itself has made.
    """
    given = parse_values(values)
    found = {key: value for key, value in checked.names.items() if isinstance(value, SnapFunction)}
    if name is not None:
        if name not in found:
            raise UsageError(
                f"{checked.path} has no Snap function `{name}`" + (f"; it has {', '.join(found)}" if found else "")
            )
        if not found[name].is_kernel:
            raise UsageError(f"`{name}` is a device function: it has code only as part of a kernel that calls it")
        kernels = [found[name]]
    else:
        kernels = _kernels_of(checked)
        if not kernels:
            raise UsageError(f"{checked.path} defines no kernel")
    _all_known(given, kernels)
    chosen: list[ChosenKernel] = []
    notes = []
    for kernel in kernels:
        missing = _missing(kernel, given)
        made = _instances(kernel, given, kernels) if missing and instances else []
        chosen += made
        if made:
            continue
        if missing:
            notes.append(f"`{kernel.definition.tree.name}` is generic: give {_options(missing)}")
        else:
            chosen.append(_chosen(kernel, given))
    if not chosen:
        raise UsageError("; ".join(notes))
    return chosen, notes


def _instances(kernel: SnapFunction, given: dict[str, object], among: list[SnapFunction]) -> list[ChosenKernel]:
    """List the instances of a generic kernel that the file has launched or specialized, without a name of their own."""
    made = kernel.definition.instances(kernel.bound)
    named = [one.bound for one in among if one.definition is kernel.definition and not one.generic]
    return [
        ChosenKernel(kernel, {name: values[name] for name in kernel.generic})
        for values in made
        if values not in named and all(values[name] == given[name] for name in kernel.generic if name in given)
    ]


# A generic kernel is checked for values, not as such: where nobody gives any, nothing is known of it, and the command
# says so.
def check_generic(files: list[Checked], values: list[str], proofs: bool) -> list[Checked]:
    """Check the generic kernels of files for these values.  The errors, the kernels that lack a value, and the warnings
    are added to each file.

    proofs: also warn of barriers that a proof shows to be unnecessary.
    """
    given = parse_values(values)
    # Where there were errors, the kernel that has the parameter may be the one that was refused.
    if not any(one.errors or one.failure for one in files):
        _all_known(given, [kernel for one in files for kernel in _kernels_of(one)])
    return [_with_warnings(_with_generic(one, given), given, proofs) for one in files]


def _with_warnings(checked: Checked, given: dict[str, object], proofs: bool) -> Checked:
    found: dict[tuple, SnapWarning] = {}
    for function in () if checked.errors or checked.failure else _defined(checked):
        if not _missing(function, given):
            chosen = _chosen(function, given)
            for one in function.warnings(proofs=proofs, **chosen.values):
                found.setdefault((one.code, one.diagnostic and one.diagnostic.span), one)
    return replace(checked, warnings=tuple(found.values()))


def _with_generic(checked: Checked, given: dict[str, object]) -> Checked:
    errors, unchecked = list(checked.errors), []
    for kernel in _kernels_of(checked):
        tree, missing = kernel.definition.tree, _missing(kernel, given)
        if missing:
            unchecked.append(
                Unchecked(tree.span.line, f"`{tree.name}` is generic and was not checked: give {_options(missing)}")
            )
            continue
        try:
            _chosen(kernel, given).stages()
        except SnapError as error:
            errors.append(error)
    return replace(checked, errors=in_order(errors), unchecked=tuple(unchecked))


def _kernels_of(checked: Checked) -> list[SnapFunction]:
    return [function for function in _defined(checked) if function.is_kernel]


def _defined(checked: Checked) -> list[SnapFunction]:
    """List the functions that the file itself defines."""
    found = dict.fromkeys(value for value in checked.names.values() if isinstance(value, SnapFunction))
    return [function for function in found if function.definition.tree.span.filename == str(checked.path)]


def _chosen(kernel: SnapFunction, given: dict[str, object]) -> ChosenKernel:
    return ChosenKernel(kernel, {param: given[param] for param in kernel.generic if param in given})


def _all_known(given: dict[str, object], kernels: list[SnapFunction]) -> None:
    unknown = set(given) - {param for kernel in kernels for param in kernel.generic}
    if unknown:
        raise UsageError(f"no kernel here has a constexpr parameter `{min(unknown)}`")


def _missing(kernel: SnapFunction, given: dict[str, object]) -> list[str]:
    """List the constexpr parameters that have neither a value nor a default."""
    return [param for param in kernel.generic if param not in given and param not in kernel._defaults()]


def _options(names: list[str]) -> str:
    return " ".join(f"--set {name}=..." for name in names)


def parse_values(values: list[str]) -> dict[str, object]:
    parsed: dict[str, object] = {}
    for text in values:
        name, equals, value = text.partition("=")
        if not equals or not name.isidentifier():
            raise UsageError(f"--set takes NAME=VALUE, not {text!r}")
        try:
            number = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            number = None
        number = number if isinstance(number, (bool, int, float)) else element_of(value)
        if number is None:
            raise UsageError(f"--set {text}: {value!r} is not a number, and no type")
        parsed[unicodedata.normalize("NFKC", name)] = number  # as Python reads names
    return parsed
