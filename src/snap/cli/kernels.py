"""Which kernels of a file a command is about."""

from __future__ import annotations

import ast
import unicodedata
from dataclasses import dataclass

from snap.api import SnapFunction
from snap.cli.load import Checked, UsageError
from snap.ir import nodes as ir


@dataclass(frozen=True, slots=True)
class Chosen:
    """A kernel, and the values of its constexpr parameters."""

    function: SnapFunction
    values: dict[str, object]

    def stages(self) -> tuple[ir.Function, ir.Function, tuple[ir.SyncPoint, ...], tuple[ir.SyncPoint, ...]]:
        """The kernel typed, and synchronized; its barriers before and behind what it says."""
        compiled = self.function._the_one(self.values)
        return compiled.typed, compiled.synced, compiled.module.entry, compiled.module.exit

    def text(self) -> str:
        return self.function.cuda(**self.values)


def choose(checked: Checked, name: str | None, values: list[str]) -> tuple[list[Chosen], list[str]]:
    """The kernel of that name, else all kernels that the file defines; and a note on each that was left out."""
    given = parse_values(values)
    found = {key: value for key, value in checked.names.items() if isinstance(value, SnapFunction)}
    if name is not None:
        if name not in found:
            raise UsageError(f"{checked.path} has no Snap function `{name}`" + (f"; it has {', '.join(found)}" if found else ""))
        if not found[name].is_kernel:
            raise UsageError(f"`{name}` is a device function: it has code only as part of a kernel that calls it")
        kernels = [found[name]]
    else:
        here = str(checked.path)
        kernels = [value for value in dict.fromkeys(found.values()) if value.is_kernel and value.definition.tree.span.filename == here]
        if not kernels:
            raise UsageError(f"{checked.path} defines no kernel")
    unknown = set(given) - {param for kernel in kernels for param in kernel.generic}
    if unknown:
        raise UsageError(f"no kernel here has a constexpr parameter `{min(unknown)}`")
    chosen, notes = [], []
    for kernel in kernels:
        missing = _missing(kernel, given)
        if missing:
            notes.append(f"`{kernel.definition.tree.name}` is generic: give {_options(missing)}")
        else:
            chosen.append(Chosen(kernel, {param: given[param] for param in kernel.generic if param in given}))
    if not chosen:
        raise UsageError("; ".join(notes))
    return chosen, notes


def _missing(kernel: SnapFunction, given: dict[str, object]) -> list[str]:
    """Constexpr parameters that have neither a value nor a default."""
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
            parsed[unicodedata.normalize("NFKC", name)] = ast.literal_eval(value)  # as Python reads names
        except (ValueError, SyntaxError):
            raise UsageError(f"--set {text}: {value!r} is no number") from None
    return parsed
