"""Run or trace PTX, anyone's or that of a Snap kernel, on the PTX machine, `snap ptx run` and `snap ptx trace`; or
print it, `snap ptx FILE`.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from snap.cli.arguments import HELP, parse_arguments, three
from snap.cli.artifacts import ARCH, Arch, compiling, ptx_of
from snap.cli.load import Failure, UsageError, check_file, check_path, parse_target
from snap.cli.reporting import kernels, usage, usage_error
from snap.diag.error import SnapError
from snap.diag.render import to_json, wants_color

if TYPE_CHECKING:
    from snap.ptx.program.resolve import Function, Program

LIMIT = 100_000_000  # instructions of threads
ROWS = 1000  # steps shown


class OrFile(TyperGroup):
    """Group commands; a word that is the name of none is a file, which `print` prints."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in (*self.commands, "--help"):
            args = ["print", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=OrFile,
    no_args_is_help=True,
    help="Print the PTX of kernels: snap ptx FILE[:KERNEL]. Or run PTX without a GPU, and step through it.",
)
EXTRA = {"ignore_unknown_options": True}  # -1 is a number

File = Annotated[str, typer.Argument(metavar="FILE", help="A .ptx file, or FILE.py:kernel, which NVRTC compiles.")]
EntryOption = Annotated[
    str, typer.Option("--entry", metavar="NAME", help="The kernel; needed where the file has several.")
]
Grid = Annotated[str, typer.Option("--grid", metavar="B", help="Blocks: 4, or 4x2.")]
Block = Annotated[str, typer.Option("--block", metavar="T", help="Threads of a block: 128, or 16x16.")]
Args = Annotated[
    list[str], typer.Option("--args", metavar="ARG...", help=f"The kernel's arguments, after this option. {HELP}")
]
More = Annotated[list[str], typer.Argument(metavar="", hidden=True)]
Cluster = Annotated[int | None, typer.Option("--cluster", min=1, help="Blocks of a cluster.")]
SharedOption = Annotated[
    int, typer.Option("--shared", min=0, metavar="BYTES", help="Bytes of shared memory that the launch gives.")
]
Limit = Annotated[int, typer.Option("--limit", min=1, help="Stop after this many instructions of threads.")]
Checks = Annotated[
    list[str],
    typer.Option(
        "--check", metavar="NAME", help="races, uninitialized, nc, registers, local, barriers, shuffles, or all."
    ),
]
Mode = Annotated[
    str, typer.Option("--mode", help="independent: threads with own program counters; stack: token stack.")
]
MemoryOption = Annotated[
    str, typer.Option("--memory", help="flat, or caches: L1 and L2, in an order drawn from --seed.")
]
Seed = Annotated[int | None, typer.Option("--seed", min=0, help="Draws which threads go on, and how far.")]
Warps = Annotated[list[str], typer.Option("--warp", metavar="B.W", help="Show only this warp of that block.")]
WatchOption = Annotated[
    list[str],
    typer.Option("--watch", metavar="NAME", help="A register, %r3 or %r3:f32, by lane; or memory: what is touched."),
]
AsJson = Annotated[bool, typer.Option("--json", help="For programs: one object on standard output.")]
ValuesOption = Annotated[
    list[str], typer.Option("--set", metavar="NAME=VALUE", help="A constexpr parameter of a Snap kernel.")
]


@dataclass(slots=True)
class Job:
    """Describe a run.  hidden: arguments that a Snap kernel has besides its own."""

    program: Program
    function: Function
    grid: tuple[int, ...]
    block: tuple[int, ...]
    arguments: list[object]
    options: dict[str, object]
    hidden: int = 0


@app.command("print", hidden=True)
def printed(
    target: Annotated[str, typer.Argument(metavar="FILE[:KERNEL]", help="A file, or one kernel of it.")],
    values: ValuesOption = [],  # noqa: B006 - typer reads the defaults, nobody changes them
    arch: Arch = ARCH,
) -> None:
    """Print the PTX of a kernel, or of all kernels of a file; needs NVRTC, and no GPU."""
    if target.lower().endswith(".ptx"):
        usage(check_path, target)
        usage_error(f"{target} is PTX already: `snap ptx run {target}` runs it")
    print(compiling(ptx_of, kernels(target, values), arch), end="")


@app.command(context_settings=EXTRA)
def run(
    file: File,
    more: More = [],  # noqa: B006 - typer reads the defaults, nobody changes them
    entry: EntryOption = "",
    grid: Grid = "1",
    block: Block = "",
    args: Args = [],  # noqa: B006
    cluster: Cluster = None,
    shared: SharedOption = 0,
    limit: Limit = LIMIT,
    checks: Checks = [],  # noqa: B006
    mode: Mode = "independent",
    memory: MemoryOption = "flat",
    seed: Seed = None,
    counters: Annotated[bool, typer.Option("--counters", help="Count sectors and bank conflicts, too.")] = False,
    show: Annotated[int, typer.Option("--show", min=0, help="Elements of each array that are printed.")] = 8,
    values: ValuesOption = [],  # noqa: B006
    as_json: AsJson = False,
) -> None:
    """Run a kernel; print what its arrays hold, and its counters.  Exit code 1: a report, or PTX with errors."""
    options = _options(limit, checks, mode, memory, seed) | {"count_memory": counters}
    job = _guarded(_job, as_json, file, entry, grid, block, [*args, *more], cluster, shared, options, values)
    said: list[str] = []
    found = _launched(job, said, as_json, lambda: {"printed": "".join(said)})
    if as_json:
        print(json.dumps(_result(job, said, show) | {"counters": asdict(found), "metrics": found.metrics()}, indent=2))
        return
    print("".join(said), end="")
    for name, array in _arrays(job):
        some = " ".join(map(str, array.reshape(-1)[:show].tolist()))
        print(f"{name}  {array.dtype}[{'x'.join(map(str, array.shape))}]  {some}{' ...' if array.size > show else ''}")
    _print_counters(found)


@app.command(context_settings=EXTRA)
def trace(
    file: File,
    more: More = [],  # noqa: B006
    entry: EntryOption = "",
    grid: Grid = "1",
    block: Block = "",
    args: Args = [],  # noqa: B006
    cluster: Cluster = None,
    shared: SharedOption = 0,
    limit: Limit = LIMIT,
    checks: Checks = [],  # noqa: B006
    mode: Mode = "independent",
    memory: MemoryOption = "flat",
    seed: Seed = None,
    warps: Warps = [],  # noqa: B006
    watch: WatchOption = [],  # noqa: B006
    steps: Annotated[int, typer.Option("--steps", min=1, help="Steps that are shown.")] = ROWS,
    values: ValuesOption = [],  # noqa: B006
    as_json: AsJson = False,
) -> None:
    """Step through a kernel: for each warp the instruction, which threads reached it, which executed it, its source
    line, and in the stack mode its token stack.
    """
    from snap.ptx.watch.tracing import Tracing, shown

    wanted = usage(_warps, warps)
    if "memory" in watch and memory == "caches":
        usage_error("--watch memory looks at the flat memory: leave out --memory caches")
    made: list[Tracing] = []

    def watcher(machine) -> Tracing:
        made.append(Tracing(machine, wanted, steps, watch))
        return made[0]

    options = _options(limit, checks, mode, memory, seed) | {"watchers": [watcher]}
    job = _guarded(_job, as_json, file, entry, grid, block, [*args, *more], cluster, shared, options, values)
    usage(_watchable, job, watch)
    said: list[str] = []

    def told() -> dict:
        trace = made[0] if made else None
        if not as_json and trace is not None:
            print("\n".join(shown(trace.steps)))
        return {"steps": [s.as_json() for s in trace.steps] if trace else [], "total": trace.total if trace else 0}

    _launched(job, said, as_json, told)
    if as_json:
        print(json.dumps(told(), indent=2))
        return
    told()
    if made[0].total > len(made[0].steps):
        print(f"{made[0].total - len(made[0].steps)} more steps: --steps shows more, --warp B.W those of one warp")


# ---- what is asked for ----------------------------------------------------------------------------------------------


def _options(limit: int, checks: list[str], mode: str, memory: str, seed: int | None) -> dict[str, object]:
    from snap.ptx.machine.launch import CHECKS

    wanted = list(dict.fromkeys(name for word in checks for name in (CHECKS if word == "all" else word.split(","))))
    wrong = next((name for name in wanted if name not in CHECKS), None)
    if wrong is not None:
        usage_error(f"--check {wrong}: there are {', '.join(CHECKS)}, and all")
    options: dict[str, object] = {"limit": limit, "checks": wanted}
    usual = {"mode": "independent", "memory": "flat", "seed": None}
    return options | {k: v for k, v in {"mode": mode, "memory": memory, "seed": seed}.items() if v != usual[k]}


def _job(file, entry, grid, block, words, cluster, shared, options, values) -> Job:
    arguments = parse_arguments(words)
    dims = three("--grid", grid)
    if not file.lower().endswith(".ptx") and (":" in file or file.endswith(".py")):
        return _snap_job(file, entry, dims, block, arguments, cluster, shared, options, values)
    if values:
        raise UsageError("--set is for Snap kernels, FILE.py:kernel")
    from snap.ptx import load, parse

    program = load(parse(_text(check_path(file)), file))
    function = _entry(program, entry, file)
    required = function.limits("reqntid")
    if not block and not required:
        raise UsageError(f"--block is missing: {function.name} says nothing of the threads of a block")
    options = options | {"cluster": cluster or 1, "dynamic_shared": shared}
    threads = three("--block", block) if block else tuple(required)
    return Job(program, function, dims, threads, _matched(function, arguments), options)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path} is not text, and PTX is: of a cubin, `cuobjdump --dump-ptx` prints it") from None


def _entry(program: Program, name: str, file: str) -> Function:
    from snap.ptx.text.demangle import answers, demangled

    kernels = {f.name: f for f in program.functions.values() if f.entry}
    if not kernels:
        raise UsageError(f"{file} has no kernel (`.entry`)")
    if not name and len(kernels) > 1:
        names = [demangled(one) for one in kernels]
        shown = names if len(set(names)) == len(names) else kernels
        quoted = [f"'{one}'" if set(one) & set("<> *&") else one for one in shown]
        raise UsageError(f"{file} has several kernels, say which: --entry {' or '.join(quoted)}")
    if not name:
        return next(iter(kernels.values()))
    meant = [name] if name in kernels else [one for one in kernels if answers(one, name)]
    if len(meant) != 1:
        said = ", ".join(demangled(one) for one in meant or kernels)
        raise UsageError(f"{file} has {'several kernels' if meant else 'no kernel'} `{name}`; it has {said}")
    return kernels[meant[0]]


def _snap_job(file, entry, grid, block, arguments, cluster, shared, options, values) -> Job:
    """Make a job of a Snap kernel, which has its own threads, cluster, and arguments besides the user's."""
    import numpy as np

    from snap.cli.kernels import choose
    from snap.ptx import load, parse

    target = parse_target(file)
    checked = check_file(target.path)
    if checked.errors:
        raise checked.errors[0]
    if checked.failure:
        raise checked.failure
    kernels, _ = choose(checked, target.kernel or entry or None, values)
    if len(kernels) > 1:
        names = [k.function.definition.tree.name for k in kernels]
        raise UsageError(f"{file} has several kernels, say which: {target.path}:{names[0]}")
    function = kernels[0].function
    module = function._the_one(kernels[0].values).module
    if module.tensors or module.at_launch:
        raise UsageError(f'`{module.kernel}` takes tensor maps or sizes from its arrays: launch it with target="ptx"')
    if block and three("--block", block) != (module.threads,):
        raise UsageError(f"--block {block}: `{module.kernel}` has {module.threads} threads per block")
    program = load(parse(function.ptx("sm_90a", **kernels[0].values), f"<ptx of {module.kernel}>"))
    hidden = [np.zeros(module.grid_barrier, np.uint32)] if module.grid_barrier else []
    entry_function = _entry(program, module.kernel, file)
    options = options | {"cluster": cluster or module.cluster or 1, "dynamic_shared": shared or module.dynamic_smem}
    given = _matched(entry_function, [*arguments, *hidden])
    return Job(program, entry_function, grid, (module.threads,), given, options, len(hidden))


def _matched(function: Function, arguments: list[object]) -> list[object]:
    """Match the arguments with the parameters: as many, and each of a kind that fits."""
    import numpy as np

    from snap.ptx.program.resolve import size_of

    params, of = [v for v, _ in function.parameters], function.name
    listed = ", ".join(f"{v.name} (.{v.type}{'[]' if v.dims else ''})" for v in params) or "none"
    if len(arguments) != len(params):
        raise UsageError(f"{of} takes {len(params)} arguments, and {len(arguments)} were given: {listed}; {HELP}")
    for v, given in zip(params, arguments):
        array, size, what = isinstance(given, np.ndarray), size_of(v), f"{v.name} of {of} is a .{v.type}"
        if isinstance(given, tuple):
            continue  # a struct, whose bytes are counted when it is launched
        if array and size != 8:
            raise UsageError(f"{what} of {size} bytes, no pointer; give a number")
        if not array and v.dims:
            raise UsageError(f"{what}[{size}], a struct: give its fields, struct:TYPE:VALUE,...; or use `snap.ptx.run`")
        if isinstance(given, float) and v.type[0] in "us":
            raise UsageError(f"{what}, and {given} is not a whole number")
        if isinstance(given, int) and not -(1 << 8 * size - 1) <= given < 1 << 8 * size:
            raise UsageError(f"{what}, and {given} does not fit")
    return arguments


def _watchable(job: Job, words: list[str]) -> None:
    from snap.ptx.watch.values import watched

    try:
        watched(job.program, job.function, words)
    except ValueError as wrong:
        raise UsageError(f"--watch {wrong}") from None


def _warps(words: list[str]) -> frozenset[tuple[int, int]] | None:
    found = set()
    for word in words:
        block, dot, warp = word.partition(".")
        if not dot or not block.isdecimal() or not warp.isdecimal():
            raise UsageError(f"--warp {word}: a block and a warp of it, such as 0.1")
        found.add((int(block), int(warp)))
    return frozenset(found) if found else None


# ---- what comes of it -----------------------------------------------------------------------------------------------


def _launched(job: Job, said: list[str], as_json: bool, told):
    """Run the job, and give its counters; or print the report, after what `told` says, and end the command."""
    from snap.ptx import PtxFault
    from snap.ptx.machine.launch import run as launch

    options = job.options | {"out": said}
    try:
        return launch(job.program, job.function.name, job.grid, job.block, job.arguments, **options)  # type: ignore[arg-type]
    except PtxFault as fault:
        before = told()
        faults = [fault, *fault.also]
        if as_json:
            print(json.dumps(before | {"faults": [_fault_json(f) for f in faults]}, indent=2))
        else:
            print("".join(said), end="")
            for f in faults[:10]:
                print(_rendered(f.diagnostic), end="\n\n", file=sys.stderr)
            if len(faults) > 10:
                print(f"and {len(faults) - 10} more", file=sys.stderr)
        raise typer.Exit(1) from None
    except (TypeError, ValueError, MemoryError) as wrong:
        usage_error(str(wrong) or type(wrong).__name__)


def _fault_json(fault) -> dict:
    source = None if fault.line is None else {"file": fault.line[0], "line": fault.line[1]}
    return to_json(fault.diagnostic) | {"block": fault.block, "thread": fault.thread, "source": source}


def _rendered(diagnostic) -> str:
    from snap.diag.render import render

    return render(diagnostic, color=wants_color(sys.stderr))


def _guarded(function, as_json: bool, *args):
    """Print the errors of PTX, of a Snap function, or of a file that does not run to its end, and end the command."""
    try:
        return usage(function, *args)
    except SnapError as error:
        if as_json:
            print(json.dumps({"faults": [to_json(e.diagnostic) for e in error.all]}, indent=2))
        else:
            for e in error.all:
                print(_rendered(e.diagnostic), end="\n\n", file=sys.stderr)
        raise typer.Exit(1) from None
    except Failure as failure:
        print(failure, file=sys.stderr)
        raise typer.Exit(1) from None


def _arrays(job: Job) -> list:
    import numpy as np

    found = []
    for (v, _), given in zip(job.function.parameters, job.arguments[: len(job.arguments) - job.hidden]):
        fields = [(f"{v.name}.{k}", a) for k, a in enumerate(given)] if isinstance(given, tuple) else [(v.name, given)]
        found += [(name, a) for name, a in fields if isinstance(a, np.ndarray)]
    return found


def _result(job: Job, said: list[str], show: int) -> dict:
    return {
        "kernel": job.function.name,
        "grid": list(job.grid),
        "block": list(job.block),
        "arrays": [
            {"name": name, "type": str(a.dtype), "shape": list(a.shape), "values": a.reshape(-1)[:show].tolist()}
            for name, a in _arrays(job)
        ],
        "printed": "".join(said),
    }


def _print_counters(c) -> None:
    print(f"instructions  {c.thread_instructions:,} of threads, {c.warp_instructions:,} of warps")
    print(f"branches      {c.divergent_branches:,} divergent")
    for kind, found in sorted(c.accesses.items()):
        what = f"{found.sectors:,} sectors"
        if kind.startswith("shared"):
            what = f"{found.wavefronts:,} wavefronts, {found.conflicts:,} bank conflicts"
        print(f"{kind:<13} {found.requests:,} requests, {what}")
    r = c.resources
    held = f"{r.threads} threads, {r.shared_bytes:,} bytes of shared memory, {r.barriers} barriers"
    print(f"a block has   {held}; registers: ptxas chooses them")
