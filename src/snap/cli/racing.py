"""Find a kernel's data races for arguments that are written on the command line: `snap races FILE:KERNEL`.

Input: one kernel and the words of its arguments.  Output: the races that runs show.  Invariant: what the kernel itself
does wrong is reported without frames of Snap.  Non-goals: finding arguments; proofs (`snap prove`) need none.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import typer

from snap.cli.arguments import HELP, parse_arguments, three
from snap.cli.kernels import ChosenKernel
from snap.cli.reporting import usage, usage_error
from snap.diag.render import render, wants_color
from snap.helptext import described

if TYPE_CHECKING:
    from snap.machine.errors import Race


def races_of(
    kernels: list[ChosenKernel], words: list[str], grid: str, seeds: int, seconds: float | None
) -> tuple[list[Race], str]:
    """Find the races; the kernel's name comes with them."""
    from snap.machine.errors import MachineError

    if len(kernels) > 1:
        names = ", ".join(one.name for one in kernels)
        usage_error(f"races are looked for in one kernel, and the file has {names}: say which, FILE:{kernels[0].name}")
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
    try:
        blocks = dims[0] if dims and len(dims) == 1 else dims
        return function.races(*given, blocks=blocks, seeds=seeds, seconds=seconds), chosen.name
    except TypeError as wrong:  # a LaunchError is one
        usage_error(str(wrong))
    except MachineError as error:
        print(render(error.diagnostic, color=wants_color(sys.stderr)), file=sys.stderr)
        raise typer.Exit(1) from None
