"""The commands.  Exit codes: 0 all is well, 1 the program has errors, 2 the command line has."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import Annotated, Any, cast

import typer

from snap.cli.artifacts import ARCH, Arch, compiling, cuda_of, resources_of, sass_of
from snap.cli.cudac import app as cudac_app
from snap.cli.kernels import check_generic
from snap.cli.launching import asked, launched
from snap.cli.load import Failure, check_file, check_path, parse_target, run_file
from snap.cli.ptx import EXTRA, Args, More
from snap.cli.ptx import app as ptx_app
from snap.cli.reporting import (
    counted,
    json_entries,
    kernels,
    print_errors,
    print_snap_errors,
    usage,
    usage_error,
)
from snap.cli.show import show_code
from snap.diag.error import SnapError
from snap.diag.render import render, to_json, wants_color

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Check, explain, compile and run Snap programs.",
)

app.add_typer(ptx_app, name="ptx")
app.add_typer(cudac_app, name="cudac")

ValuesGiven = Annotated[
    list[str], typer.Option("--set", "-s", metavar="NAME=VALUE", help="A constexpr parameter of a generic kernel.")
]
BlocksOption = Annotated[str, typer.Option("--blocks", "--grid", metavar="B", help="4, or 4x2; else the decorator's.")]
SecondsOption = Annotated[float | None, typer.Option(min=0.001, help="Stop after this time.")]
OneTarget = Annotated[str, typer.Argument(metavar="FILE[:KERNEL]", help="A file, or one kernel of it.")]


def _version(asked: bool) -> None:
    if asked:
        from snap import __version__

        print(f"snap {__version__}")
        raise typer.Exit()


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


@app.command()
def check(
    files: Annotated[list[str], typer.Argument(metavar="FILE", help="Python files with Snap functions.")],
    values: ValuesGiven = [],  # noqa: B006 - typer reads the default, nobody changes it
    as_json: Annotated[
        bool, typer.Option("--json", help="For editors: a list of diagnostics on standard output.")
    ] = False,
    proofs: Annotated[
        bool, typer.Option("--proofs", help="Warn, too, of barriers that a proof shows to be needless (takes longer).")
    ] = False,
) -> None:
    """Check every Snap function of the files and report all errors and warnings; generic kernels for the values that
    --set gives. 0 where there are no errors.
    """
    paths = [usage(check_path, file) for file in files]
    checked = usage(check_generic, [check_file(path) for path in paths], values, proofs)
    if as_json:
        print(json.dumps([entry for one in checked for entry in json_entries(one)], indent=2))
    else:
        print_errors(checked, sys.stdout)
        for one in checked:
            for kernel in one.unchecked:
                print(f"{one.path}:{kernel.line}: {kernel.note}", file=sys.stderr)
        errors = counted(sum(len(one.errors) + (one.failure is not None) for one in checked), "error")
        warned = sum(len(one.warnings) for one in checked)
        where = f"{len(checked)} file{'s' if len(checked) > 1 else ''}"
        and_warnings = f", {counted(warned, 'warning')}" if warned else ""
        unchecked = sum(len(one.unchecked) for one in checked)
        left_out = f", {counted(unchecked, 'kernel')} not checked" if unchecked else ""
        print(f"{where}: {errors}{and_warnings}{left_out}", file=sys.stderr)
    if any(one.errors or one.failure for one in checked):
        raise typer.Exit(1)


@app.command()
def cuda(target: OneTarget, values: ValuesGiven = []) -> None:  # noqa: B006
    """Print the CUDA C++ of a kernel, or of all kernels of a file, as one text that compiles."""
    show_code(cuda_of(kernels(target, values)), "cuda")


@app.command()
def sass(target: OneTarget, values: ValuesGiven = [], arch: Arch = ARCH) -> None:  # noqa: B006
    """Print the machine code of a kernel, or of all kernels of a file; needs NVRTC and nvdisasm, and no GPU."""
    print(compiling(sass_of, kernels(target, values), arch), end="")


@app.command()
def resources(
    target: OneTarget,
    values: ValuesGiven = [],  # noqa: B006
    arch: Arch = ARCH,
    as_json: Annotated[bool, typer.Option("--json", help="For tools: a list on standard output.")] = False,
) -> None:
    """Print the registers, spills and shared memory of each kernel; needs NVRTC, and no GPU."""
    found = compiling(resources_of, kernels(target, values, as_json), arch)
    if as_json:
        print(json.dumps([{"kernel": name, "arch": arch} | asdict(one) for name, one in found], indent=2))
        return
    for name, one in found:
        spills = f"{one.spill_stores} bytes of spill stores, {one.spill_loads} of spill loads"
        print(
            f"{name} ({arch}): {one.registers} registers per thread, {spills}, {one.stack} bytes of stack;"
            f" {one.smem} bytes of shared memory and {one.barriers} barriers per block"
        )
        if one.serialized:
            print(f"{name}: the assembler serializes wgmma: {one.serialized}")


@app.command(context_settings=EXTRA)
def races(
    target: OneTarget,
    more: More = [],  # noqa: B006
    args: Args = [],  # noqa: B006
    grid: BlocksOption = "",
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="How many orders of the warps are tried.")] = 8,
    seconds: SecondsOption = None,
    values: ValuesGiven = [],  # noqa: B006
    as_json: Annotated[bool, typer.Option("--json", help="For tools: a list of races on standard output.")] = False,
) -> None:
    """Run a kernel on the CPU machine in several orders, and report data races; 0 where there are none."""
    one = asked(kernels(target, values, as_json), [*args, *more], grid, "races are looked for in one kernel")
    found = launched(lambda: one.function.races(*one.args, blocks=one.blocks, seeds=seeds, seconds=seconds))
    if as_json:
        print(json.dumps([to_json(race.error().diagnostic) for race in found], indent=2))
    else:
        for race in found:
            print(render(race.error().diagnostic, color=wants_color(sys.stdout)), end="\n\n")
        print(f"{one.name}: {counted(len(found), 'race')} in {counted(seeds, 'order')}", file=sys.stderr)
    if found:
        raise typer.Exit(1)


@app.command(context_settings=EXTRA)
def measure(
    target: OneTarget,
    more: More = [],  # noqa: B006
    args: Args = [],  # noqa: B006
    grid: BlocksOption = "",
    per: Annotated[str, typer.Option("--per", metavar="warp|block|grid", help="Whose numbers are shown.")] = "warp",
    seconds: SecondsOption = None,
    values: ValuesGiven = [],  # noqa: B006
    as_json: Annotated[bool, typer.Option("--json", help="For tools: one object on standard output.")] = False,
) -> None:
    """Run a kernel on the CPU machine and count: sectors, bank conflicts, divergence, barriers, steps, line by line."""
    one = asked(kernels(target, values, as_json), [*args, *more], grid, "one kernel is measured")
    found = launched(lambda: one.function.measure(*one.args, blocks=one.blocks, seconds=seconds))
    try:
        print(found.json() if as_json else found.render(per))
    except ValueError as wrong:
        usage_error(f"--per {per}: {wrong}")


@app.command()
def explain(
    target: OneTarget,
    values: ValuesGiven = [],  # noqa: B006
    core: Annotated[bool, typer.Option("--core", help="The source, with its short forms expanded.")] = False,
    as_ir: Annotated[bool, typer.Option("--ir", help="The synchronized IR instead: the program, as text.")] = False,
    passes: Annotated[
        bool,
        typer.Option("--passes", help="The program after each pass that changed it, from the tree to CUDA."),
    ] = False,
    graph: Annotated[
        str, typer.Option("--graph", metavar="FILE.svg", help="Draw the kernel's data-control-flow graph into a file.")
    ] = "",
) -> None:
    """Print the source, annotated with privileges and synchronization; or the program as the compiler has it."""
    if graph:
        _draw(target, values, graph)
        return
    from snap.cli.explain import explain as explained
    from snap.cli.show import show_listing

    for chosen in kernels(target, values, instances=True):
        if core:
            print(chosen.function.core(**chosen.values), end="\n\n")
            continue
        if passes:
            for name, does, text in chosen.passes():
                print(f"# {name}: {does}\n\n{text}\n")
            continue
        if as_ir:
            print(f"{chosen.ir()}\n")
            continue
        for listing in explained(*chosen.stages()):
            show_listing(listing)
        for line in chosen.left_out():
            print(line)


@app.command()
def prove(
    target: OneTarget,
    values: ValuesGiven = [],  # noqa: B006
    properties: Annotated[
        list[str], typer.Option("--property", "-p", metavar="NAME", help="Only this; more than once for several.")
    ] = [],  # noqa: B006
    seconds: Annotated[
        float, typer.Option(min=0, help="The time for each kernel, after which it says what was shown; 0 for no limit.")
    ] = 10.0,
    as_json: Annotated[bool, typer.Option("--json", help="For tools: a list of proofs on standard output.")] = False,
) -> None:
    """Show that kernels have no races and stay in bounds, for all sizes; 0 where everything is proved."""
    from snap.prove.verdict import CTRL_C, Verdict

    try:
        proofs = []
        for one in kernels(target, values, as_json):
            proofs.append(one.function.prove(properties or None, seconds=seconds or None, **cast(Any, one.values)))
            if proofs[-1].stopped == CTRL_C:
                break
    except ValueError as wrong:
        usage_error(str(wrong))
    if as_json:
        print(json.dumps([proof.to_json() for proof in proofs], indent=2))
    else:
        for proof in proofs:
            print(proof.render(color=wants_color(sys.stdout)), end="\n\n")
    if proofs and proofs[-1].stopped == CTRL_C:
        raise typer.Exit(130)
    if any(proof.verdict is not Verdict.PROVED for proof in proofs):
        raise typer.Exit(1)


@app.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "allow_interspersed_args": False}
)
def run(
    context: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE [ARGS]...", help="A Python file, and its own arguments.")],
    seconds: Annotated[
        float | None, typer.Option(min=0.001, help="The time that its kernels may take on the CPU machine.")
    ] = None,
) -> None:
    """Run a file as Python would, with Snap's errors rendered."""
    from snap.machine.watching import Stopped, until

    path = usage(check_path, file)
    try:
        with until(seconds):
            run_file(path, "__main__", tuple(context.args))
    except Stopped as stopped:
        print(stopped, file=sys.stderr)
        raise typer.Exit(130) from None
    except SnapError as error:
        print_snap_errors(error.all, sys.stderr)
        raise typer.Exit(1) from None
    except Failure as failure:
        print(failure, file=sys.stderr)
        raise typer.Exit(1) from None


def _draw(target: str, values: list[str], to: str) -> None:
    """Draw one kernel into a file."""
    if not to.lower().endswith(".svg"):
        usage_error(f"--graph writes an SVG: {to!r} does not end in .svg")
    found = kernels(target, values)
    if len(found) > 1:
        names = [chosen.name for chosen in found]
        file = usage(parse_target, target).path
        usage_error(f"--graph draws one kernel, and {file} has {', '.join(names)}: say which, `{file}:{names[0]}`")
    drawn = found[0].graph()
    try:
        with open(to, "w", encoding="utf-8") as out:
            out.write(drawn)
    except OSError as error:
        usage_error(f"cannot write {to}: {error.strerror}")
