"""The commands.  Exit codes: 0 all is well, 1 the program has errors, 2 the command line has."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import Annotated, Any, NoReturn, TextIO, cast

import typer

from snap.cli.kernels import ChosenKernel, check_generic, choose
from snap.cli.load import Checked, Failure, UsageError, check_file, check_path, parse_target, run_file
from snap.cli.ptx import app as ptx_app
from snap.diag.error import SnapError, SnapWarning
from snap.diag.render import to_json, wants_color

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Check, explain, compile and run Snap programs.",
)

app.add_typer(ptx_app, name="ptx")

ValuesGiven = Annotated[
    list[str], typer.Option("--set", "-s", metavar="NAME=VALUE", help="A constexpr parameter of a generic kernel.")
]
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
    paths = [_usage(check_path, file) for file in files]
    checked = _usage(check_generic, [check_file(path) for path in paths], values, proofs)
    if as_json:
        print(json.dumps([entry for one in checked for entry in _json_entries(one)], indent=2))
    else:
        _print_errors(checked, sys.stdout)
        for one in checked:
            for unchecked in one.unchecked:
                print(f"{one.path}:{unchecked.line}: {unchecked.note}", file=sys.stderr)
        errors = _counted(sum(len(one.errors) + (one.failure is not None) for one in checked), "error")
        warned = sum(len(one.warnings) for one in checked)
        where = f"{len(checked)} file{'s' if len(checked) > 1 else ''}"
        and_warnings = f", {_counted(warned, 'warning')}" if warned else ""
        print(f"{where}: {errors}{and_warnings}", file=sys.stderr)
    if any(one.errors or one.failure for one in checked):
        raise typer.Exit(1)


@app.command()
def cuda(target: OneTarget, values: ValuesGiven = []) -> None:  # noqa: B006
    """Print the CUDA C++ of a kernel, or of every kernel of a file."""
    for chosen in _kernels(target, values):
        _show_code(chosen.text())


@app.command()
def explain(
    target: OneTarget,
    values: ValuesGiven = [],  # noqa: B006
    core: Annotated[bool, typer.Option("--core", help="The source, with its short forms expanded.")] = False,
    as_ir: Annotated[bool, typer.Option("--ir", help="The synchronized IR instead: the program, as text.")] = False,
    passes: Annotated[
        bool, typer.Option("--passes", help="The IR after the checker, and after each pass that changed it.")
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

    for chosen in _kernels(target, values):
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
        for one in _kernels(target, values):
            proofs.append(one.function.prove(properties or None, seconds=seconds or None, **cast(Any, one.values)))
            if proofs[-1].stopped == CTRL_C:
                break
    except ValueError as wrong:
        _usage_error(str(wrong))
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

    path = _usage(check_path, file)
    try:
        with until(seconds):
            run_file(path, "__main__", tuple(context.args))
    except Stopped as stopped:
        print(stopped, file=sys.stderr)
        raise typer.Exit(130) from None
    except SnapError as error:
        _print_snap_errors(error.all, sys.stderr)
        raise typer.Exit(1) from None
    except Failure as failure:
        print(failure, file=sys.stderr)
        raise typer.Exit(1) from None


def _draw(target: str, values: list[str], to: str) -> None:
    """One picture shows one kernel."""
    if not to.lower().endswith(".svg"):
        _usage_error(f"--graph writes an SVG: {to!r} does not end in .svg")
    kernels = _kernels(target, values)
    if len(kernels) > 1:
        names = [chosen.function.definition.tree.name for chosen in kernels]
        file = _usage(parse_target, target).path
        _usage_error(f"--graph draws one kernel, and {file} has {', '.join(names)}: say which, `{file}:{names[0]}`")
    drawn = kernels[0].graph()
    try:
        with open(to, "w", encoding="utf-8") as out:
            out.write(drawn)
    except OSError as error:
        _usage_error(f"cannot write {to}: {error.strerror}")


def _kernels(text: str, values: list[str]) -> list[ChosenKernel]:
    """The kernels asked for; errors of the file are printed, and end the command."""
    target = _usage(parse_target, text)
    checked = check_file(target.path)
    if checked.errors or checked.failure:
        _print_errors([checked], sys.stderr)
        raise typer.Exit(1)
    kernels, skipped = _usage(choose, checked, target.kernel, values)
    for note in skipped:
        print(note, file=sys.stderr)
    try:
        for kernel in kernels:
            kernel.stages()  # a generic kernel is only checked now
    except SnapError as error:
        _print_snap_errors(error.all, sys.stderr)
        raise typer.Exit(1) from None
    return kernels


def _usage(function, *args):
    try:
        return function(*args)
    except UsageError as wrong:
        _usage_error(str(wrong))


def _usage_error(text: str) -> NoReturn:
    print(f"error: {text}", file=sys.stderr)
    raise typer.Exit(2)


# ---- output ---------------------------------------------------------------------------------------------------------


def _print_errors(checked: list[Checked], stream: TextIO) -> None:
    for one in checked:
        _print_snap_errors(one.errors, stream)
        _print_snap_errors(one.warnings, stream)
        if one.failure:
            print(one.failure, end="\n\n", file=stream)


def _counted(n: int, what: str) -> str:
    return f"{n or 'no'} {what}{'s' * (n != 1)}"


def _print_snap_errors(errors: Iterable[SnapError] | Iterable[SnapWarning], stream: TextIO) -> None:
    color = wants_color(stream)
    for error in errors:
        print(error.render(color=color), end="\n\n", file=stream)


def _json_entries(checked: Checked) -> list[dict]:
    entries = [to_json(error.diagnostic) for error in checked.errors]
    entries += [to_json(one.diagnostic) for one in checked.warnings if one.diagnostic is not None]
    if checked.failure:
        entries.append(_json_entry(checked, checked.failure.line, "error", str(checked.failure)))
    return entries + [
        _json_entry(checked, unchecked.line, "information", unchecked.note) for unchecked in checked.unchecked
    ]


def _json_entry(checked: Checked, line: int, severity: str, message: str) -> dict:
    """What has no code of an error."""
    place = {"line": line, "column": 1}
    return {
        "file": str(checked.path),
        "range": {"start": place, "end": place},
        "code": None,
        "severity": severity,
        "message": message,
        "label": "",
        "related": [],
        "note": "",
        "help": "",
    }


def _show_code(text: str) -> None:
    from snap.cli.show import show_code

    show_code(text)
