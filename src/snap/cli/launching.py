"""Run one kernel with arguments that are written on the command line: `snap races`, `snap measure`.

Input: the kernels that were asked for, the words of the arguments, the number of blocks.  Output: `AskedLaunch`, and
what a function makes of it.  Invariant: what the kernel itself does wrong is reported without frames of Snap.
Non-goals: reading words (arguments.py).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import typer

from snap.api import SnapFunction
from snap.cli.arguments import HELP, parse_arguments, three
from snap.cli.kernels import ChosenKernel
from snap.cli.reporting import usage, usage_error
from snap.diag.render import render, wants_color
from snap.helptext import described

Launched = TypeVar("Launched")


@dataclass(frozen=True, slots=True)
class AskedLaunch:
    """blocks: None where the decorator says it."""

    name: str
    function: SnapFunction
    args: list[object]
    blocks: Any


def asked(kernels: list[ChosenKernel], words: list[str], grid: str, what: str) -> AskedLaunch:
    """Match the words with the parameters of the kernel; what: what is done with one kernel."""
    if len(kernels) > 1:
        names = ", ".join(one.name for one in kernels)
        usage_error(f"{what}, and the file has {names}: say which, FILE:{kernels[0].name}")
    (chosen,) = kernels
    function = chosen.function.specialize(**chosen.values) if chosen.values else chosen.function
    given = usage(parse_arguments, words)
    wanted = [p.name for p in function.definition.tree.params if p.name not in (*function.bound, *function.generic)]
    if len(given) != len(wanted):
        takes = f"`{described(function.definition)}` takes {len(wanted)} arguments, and {len(given)} were given"
        usage_error(f"{takes}; --args: {HELP}")
    if not grid and function.definition.requires.blocks is None:
        usage_error(f"--blocks is missing: the decorator of `{chosen.name}` does not say how many blocks it has")
    dims: Any = usage(three, "--blocks", grid) if grid else None
    return AskedLaunch(chosen.name, function, given, dims[0] if dims and len(dims) == 1 else dims)


def launched(run: Callable[[], Launched]) -> Launched:
    """Run it; a launch that is refused is an error of the command line, a fault one of the program."""
    from snap.machine.errors import MachineError

    try:
        return run()
    except TypeError as wrong:  # a LaunchError is one
        usage_error(str(wrong))
    except MachineError as error:
        print(render(error.diagnostic, color=wants_color(sys.stderr)), file=sys.stderr)
        raise typer.Exit(1) from None
