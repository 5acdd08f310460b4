"""Kernels of .cu files: `snap cudac names FILE`, `snap cudac run FILE:KERNEL`, `snap cudac races FILE:KERNEL`.

Input: a file of CUDA C, and for a launch the words of its arguments.  Output: what the arrays hold, or the data races.
Invariant: no GPU and no toolkit is needed; exit code 1: what the kernel does is wrong, 2: the command line, or the text
is outside the subset.  Non-goals: what the front end takes (`snap.cudac`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from snap.cli.arguments import parse_arguments, three
from snap.cli.ptx import EXTRA, Args, Grid, More
from snap.cli.reporting import usage
from snap.diag.error import SnapError
from snap.diag.render import render, wants_color

if TYPE_CHECKING:
    from snap.cudac.kernel import ForeignKernel

T = TypeVar("T")
app = typer.Typer(help="Run kernels of .cu files without a GPU, and look for their data races.", no_args_is_help=True)
CuFile = Annotated[str, typer.Argument(metavar="FILE[:KERNEL]", help="A .cu file; of a template, 'a.cu:scale<16>'.")]
BlockShape = Annotated[
    str, typer.Option("--block", metavar="T", help="Threads of a block, where the file does not say.")
]
Bytes = Annotated[int, typer.Option("--shared", min=0, help="Bytes of shared memory that the launch adds.")]
Folders = Annotated[list[str], typer.Option("-I", "--include", metavar="FOLDER", help="Where headers are.")]
Macros = Annotated[list[str], typer.Option("-D", "--define", metavar="NAME=VALUE", help="A macro.")]


def guarded(function: Callable[[], T]) -> T:
    """Print what is refused, and end with 2."""
    try:
        return function()
    except SnapError as error:
        print(render(error.diagnostic, color=wants_color(sys.stderr)), file=sys.stderr)
        raise typer.Exit(2) from None


def _defined(macros: list[str]) -> dict[str, object]:
    return {name: value or "1" for name, _, value in (macro.partition("=") for macro in macros)}


def _kernel(file: str, block: str, shared: int, include: list[str], define: list[str]) -> ForeignKernel:
    from snap.cudac.kernel import load

    path, _, kernel = file.partition(":")
    shape = usage(three, "--block", block) if block else None
    return guarded(lambda: load(path, kernel, block=shape, shared=shared, macros=_defined(define), include=include))


def _ran(function: Callable[[], T]) -> T:
    from snap.machine.errors import MachineError

    try:
        return guarded(function)
    except MachineError as error:
        print(render(error.diagnostic, color=wants_color(sys.stderr)), file=sys.stderr)
        raise typer.Exit(1) from None


@app.command()
def names(file: CuFile, include: Folders = [], define: Macros = []) -> None:  # noqa: B006
    """List the kernels of a file; templates with <...> behind their names."""
    from snap.cudac.kernel import names as found

    for name in guarded(lambda: found(file, _defined(define), include)):
        print(name)


@app.command(context_settings=EXTRA)
def run(
    file: CuFile,
    more: More = [],  # noqa: B006
    grid: Grid = "1",
    block: BlockShape = "",
    args: Args = [],  # noqa: B006
    shared: Bytes = 0,
    include: Folders = [],  # noqa: B006
    define: Macros = [],  # noqa: B006
    show: Annotated[int, typer.Option("--show", min=0, help="Elements of each array that are printed.")] = 8,
) -> None:
    """Run a kernel on the CPU machine; print what its arrays hold."""
    import numpy as np

    kernel = _kernel(file, block, shared, include, define)
    given: list[Any] = usage(parse_arguments, [*args, *more])
    _ran(lambda: kernel[usage(three, "--grid", grid)](*given))
    for parameter, array in zip(kernel.typed.params, given):
        if isinstance(array, np.ndarray):
            some = " ".join(map(str, array.reshape(-1)[:show].tolist()))
            name = getattr(parameter, "handle", parameter).name  # type: ignore[union-attr]
            end = " ..." if array.size > show else ""
            print(f"{name}  {array.dtype}[{'x'.join(map(str, array.shape))}]  {some}{end}")


@app.command(context_settings=EXTRA)
def races(
    file: CuFile,
    more: More = [],  # noqa: B006
    grid: Grid = "1",
    block: BlockShape = "",
    args: Args = [],  # noqa: B006
    shared: Bytes = 0,
    include: Folders = [],  # noqa: B006
    define: Macros = [],  # noqa: B006
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="Orders in which the threads run.")] = 8,
) -> None:
    """Run a kernel in many orders; list the data races.  Exit code 1: there are some."""
    kernel = _kernel(file, block, shared, include, define)
    given: list[Any] = usage(parse_arguments, [*args, *more])
    found = _ran(lambda: kernel.races(*given, grid=usage(three, "--grid", grid), seeds=seeds))
    for race in found:
        print(render(race.error().diagnostic, color=wants_color(sys.stdout)))
    print(
        f"{kernel.name}: {len(found)} data races in {seeds} orders"
        if found
        else f"{kernel.name}: no data race in {seeds} orders"
    )
    if found:
        raise typer.Exit(1)
