"""Define the object that users hold, a Snap function (decorators.py makes it).

The pipeline is `Compiled`: one attribute per stage, each computed when it is first needed.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

from snap._compiler.frontend.definition import INSTANCES, Definition, identity
from snap._compiler.frontend.patterns import Hole, constant, is_constexpr, telling
from snap._compiler.ir.synced import SyncPoint
from snap.byname import ByName
from snap.compiled import Compiled
from snap.diag.error import SnapError, SnapWarning
from snap.diag.renamed import renamed
from snap.helptext import HelpText
from snap.record import replace
from snap.targets import PTX, Fill

if TYPE_CHECKING:
    from snap._compiler.ir.nodes import AnyFunction
    from snap._compiler.ir.points import Dependence
    from snap.cost.measured import Measured
    from snap.host.compile.nvrtc import Resources
    from snap.machine.errors import Race
    from snap.prove.verdict import Proof

Args: TypeAlias = tuple[object, ...]
Method = TypeVar("Method", bound=Callable[..., Any])


def _told(method: Method) -> Method:
    """Wrap a method so that its SnapErrors carry no frames of the compiler, which say nothing to a user."""

    @functools.wraps(method)
    def told(*args: Any, **keywords: Any) -> Any:
        try:
            return method(*args, **keywords)
        except SnapError as error:
            raise error.without_frames() from None

    return cast(Method, told)


_WRAPPED = tuple(name for name in functools.WRAPPER_ASSIGNMENTS if name != "__doc__")  # which is `HelpText`'s


class SnapFunction(ByName):
    """A checked Snap function.  Kernels are launched: `k[blocks](*args)`; device functions are called by other Snap
    functions.
    """

    __wrapped__: Any  # these three are the Python function's, by functools.update_wrapper
    __name__: str
    __qualname__: str

    def __init__(self, definition: Definition, python: Any, bound: dict[str, object] | None = None):
        from snap._compiler.check import constexpr_names

        self.definition = definition
        self.bound = bound or {}
        self.generic = [n for n in constexpr_names(definition) if n not in self.bound]
        self.compiled: dict[tuple[object, ...], Compiled] = {}
        # Attributes and no properties: `k[blocks]` is looked up at every launch.
        self._ready: dict[int, Callable[..., None]] = {}
        self._at: dict[Any, Callable[..., None]] = _Unlaunched(self)
        functools.update_wrapper(self, python, _WRAPPED, ())
        defaults = self._defaults()
        # It is checked now; a generic one without defaults is checked when it is specialized.
        if all(n in defaults for n in self.generic):
            self._specialized({n: defaults[n] for n in self.generic})

    def _defaults(self) -> dict[str, object]:
        records, given = self.definition.records, self.__wrapped__.__defaults__ or ()
        params = self.definition.tree.params if records is None else records.written
        found = zip(params[len(params) - len(given) :], given)
        return {p.name: constant(params, p.name, one) for p, one in found if is_constexpr(p)}

    @property
    def is_kernel(self) -> bool:
        return bool(self.definition.kernel)

    @property
    def _names(self) -> list[str]:
        """Name the parameters, as they are written, that are not fixed."""
        records = self.definition.records
        params = self.definition.tree.params if records is None else records.written
        return [p.name for p in params if p.name not in self.bound]

    @property
    def _taken_apart(self) -> bool:
        """Say whether arguments are not those of the compiled kernel: some are constants, or records."""
        return bool(self.generic) or self.definition.records is not None

    def _specialized(self, constexprs: dict[str, object]) -> Compiled:
        values = {**self.bound, **constexprs}
        key = identity(values)
        found = self.compiled.get(key)
        if found is None:
            found = self.compiled[key] = Compiled(self.definition, values).checked()
            self.definition.made.setdefault(INSTANCES, {})[key] = values
        return found

    @_told
    def specialize(self, **constexprs: object) -> SnapFunction:
        """Fix some constexpr parameters.  The result is checked now if all of them are fixed."""
        unknown = sorted(set(constexprs) - set(self.generic))
        if unknown:
            raise TypeError(
                f"`{self.definition.tree.name}` has no constexpr parameter `{unknown[0]}`"
                + (f" (it has {', '.join(self.generic)})" if self.generic else "")
            )
        params = self.definition.tree.params
        constexprs = {name: constant(params, name, value) for name, value in constexprs.items()}
        return SnapFunction(self.definition, self.__wrapped__, {**self.bound, **constexprs})

    def _the_one(self, constexprs: dict[str, object]) -> Compiled:
        defaults = self._defaults()
        missing = [n for n in self.generic if n not in constexprs and n not in defaults]
        if missing:
            raise TypeError(
                f"`{self.definition.tree.name}` is generic: give {', '.join(f'{n}=...' for n in missing)}, or call"
                " .specialize(...) first"
            )
        unknown = sorted(set(constexprs) - set(self.generic))
        if unknown:
            raise TypeError(f"`{self.definition.tree.name}` has no constexpr parameter `{unknown[0]}`")
        params = self.definition.tree.params
        return self._specialized({n: constant(params, n, constexprs.get(n, defaults.get(n))) for n in self.generic})

    def _kernel_only(self, what: str) -> None:
        if not self.is_kernel:
            raise TypeError(f"`{self.definition.tree.name}` is a device function: only kernels {what}")

    # -- stages

    @_told
    def core(self, **constexprs: object) -> str:
        """Return the function as text, with its short forms expanded into the words that define them."""
        from snap._compiler.check import required
        from snap._compiler.frontend.definition import EXPANSIONS
        from snap._compiler.frontend.printer import function_text

        compiled = self._the_one(constexprs)
        definition = compiled.definition
        privileges = ", ".join(map(str, required(definition, compiled.constexprs)))
        head = f"@{'kernel' if self.is_kernel else 'device'}\n@requires({privileges})"
        made = definition.made[EXPANSIONS, identity(compiled.constexprs)]
        return function_text(definition.tree, head, cast(Any, made))

    @_told
    def syncs(self, **constexprs: object) -> list[SyncPoint]:
        """List the synchronization points of the generated code, in the order of the text, calls included: those that
        were inferred, those that collectives contain, and a kernel's first and last.
        """
        from snap._compiler.ir.points import points

        compiled = self._the_one(constexprs)
        found = points(compiled.synced, collectives=True)
        return [*compiled.module.entry, *found, *compiled.module.exit] if self.is_kernel else found

    @_told
    def warnings(self, *, proofs: bool = False, **constexprs: object) -> list[SnapWarning]:
        """Return the warnings: legal code that is probably not intended; `# snap: ok SNAP030` on the line allows it.
        `proofs`: also barriers that a proof shows to be unnecessary, which may take some seconds to find.
        """
        return [SnapWarning(found) for found in self._the_one(constexprs).warnings(proofs)]

    @_told
    def left_out(self, **constexprs: object) -> tuple[list[SyncPoint], str]:
        """Return the barriers of a `lean=True` kernel that were left out, since a proof shows them to be unnecessary;
        if there are none, the reason.
        """
        return self._the_one(constexprs).left_out()

    @_told
    def ir(self, stage: str = "synchronized", /, **constexprs: object) -> str:
        """Print the compiler's program: "typed", as the checker leaves it, or "synchronized"."""
        from snap._compiler.ir.printer import text

        if stage not in ("typed", "synchronized"):
            raise ValueError(f"the IR is 'typed' or 'synchronized', not {stage!r}")
        compiled = self._the_one(constexprs)
        return text(compiled.typed if stage == "typed" else compiled.synced)

    @_told
    def passes(self, **constexprs: object) -> list[tuple[str, str, str]]:
        """Print the program after each pass that changed it, from the tree to CUDA: (name, what it does, text)."""
        from snap._compiler.passes import walk

        return walk(self.__wrapped__, self._the_one(constexprs).ordered)

    def _graph(self, **constexprs: object) -> tuple[AnyFunction, tuple[Dependence, ...]]:
        """Return what `snap explain --graph` draws: the program before roles are separated, and its dependences."""
        from snap._compiler.sync import dependence_graph

        return dependence_graph(self._the_one(constexprs).typed)

    @_told
    def cuda(self, **constexprs: object) -> str:
        """Return the generated CUDA C++, as text that nvcc compiles, too."""
        self._kernel_only("have CUDA text of their own")
        return str(self._the_one(constexprs).module.text)

    def _text_for(self, arch: str, constexprs: dict[str, object]) -> str:
        from snap.host.compile.nvrtc import check_module

        self._kernel_only("are compiled")
        module = self._the_one(constexprs).module
        check_module(module, arch)
        return str(module.text)

    @_told
    def ptx(self, arch: str = "sm_90a", **constexprs: object) -> str:
        """Compile to PTX for an architecture, by NVRTC; no GPU is needed."""
        from snap.host.compile.nvrtc import compile_ptx

        text, compiled = self._text_for(arch, constexprs), self._the_one(constexprs)
        return compile_ptx(text, arch, unsafe=compiled.typed.uses_unsafe, lined=compiled.lined)

    @_told
    def cubin(self, arch: str = "sm_90a", **constexprs: object) -> bytes:
        """Compile to machine code for an architecture; no GPU is needed."""
        from snap.host.compile.nvrtc import compile_cubin

        text, compiled = self._text_for(arch, constexprs), self._the_one(constexprs)
        return compile_cubin(text, arch, unsafe=compiled.typed.uses_unsafe, lined=compiled.lined)

    @_told
    def resources(self, arch: str = "sm_90a", **constexprs: object) -> Resources:
        """Report the registers, spills and shared memory of the machine code for an architecture."""
        from snap.host.compile.nvrtc import resources

        text = self._text_for(arch, constexprs)
        compiled = self._the_one(constexprs)
        module = compiled.module
        return resources(text, arch, module.kernel, dynamic_smem=module.dynamic_smem, unsafe=compiled.typed.uses_unsafe)

    @_told
    def most_blocks(
        self,
        *,
        device: int | None = None,
        arch: str | None = None,
        sms: int | None = None,
        **constexprs: object,
    ) -> int:
        """Count the blocks that a device runs at once, by the registers, shared memory and threads of the kernel: the
        most that a cooperative launch may have, and what `k[fill()]` launches.

        device: a GPU's number; the current one if omitted.  arch, sms: count without a GPU, as NVIDIA's
        occupancy calculator does: `k.most_blocks(arch="sm_90a", sms=132)`.  Shared arrays whose size a
        launch decides count with their `upto=`.
        """
        from snap.host.occupancy import most_blocks

        self._kernel_only("are launched")
        return most_blocks(self._the_one(constexprs), arch, sms, device)

    @_told
    def prove(
        self,
        properties: Iterable[str] | None = None,
        *,
        progress: bool | None = None,
        seconds: float | str | None = "usual",
        **constexprs: object,
    ) -> Proof:
        """Prove, for every launch that keeps the kernel's `where=`: no races, no index out of bounds, no read before a
        write, every conflict ordered.  properties: some of "bounds", "races", "init", "order"; None for all of
        them.  `print(k.prove())` says what is open, and why.  seconds: the time limit, after which, as after Ctrl-C,
        the proof says what was shown until then; 10 if omitted, None for no limit.

        For a device function: prove its promises and its indices for every call that keeps its `where=`.
        """
        from snap.prove import prove, prove_function

        if not self.is_kernel:
            if properties is not None and tuple(properties) != ("bounds",):
                self._kernel_only("have properties besides `bounds`, which includes the contract")
            return prove_function(self._the_one(constexprs).typed, progress, seconds)
        return prove(self._the_one(constexprs).task, properties, progress, seconds)

    def races(
        self,
        *args: object,
        blocks: int | tuple[int, ...] | Fill | None = None,
        seeds: object = 8,
        seconds: float | None = None,
        progress: bool | None = None,
        **keywords: object,
    ) -> list[Race]:
        """List data races that runs of the synchronized kernel show, on copies of the arrays.

        blocks: as in a launch; if omitted, the decorator's.  seeds: the number of orders, or the seeds.  seconds: the
        time limit; the races seen until then are returned, with a warning.  progress: show a line on standard error;
        None: if that is a terminal.  Ctrl-C raises `snap.Stopped`, whose `found` has the races so far.
        """
        from snap.host.launch import races

        self._kernel_only("are searched for races")
        compiled, rest = self._split(args, keywords)
        count = self._blocks(args, keywords) if blocks is None else blocks
        return races(compiled, rest, count, seeds, seconds, progress)

    def measure(
        self,
        *args: object,
        blocks: int | tuple[int, ...] | Fill | None = None,
        metrics: Mapping[str, Mapping[str, float]] | None = None,
        seconds: float | None = None,
        progress: bool | None = None,
        **keywords: object,
    ) -> Measured:
        """Count what a run on the CPU machine executes, on copies of the arrays: sectors, bank conflicts, divergent
        tests and more, by line.  metrics: more of them, `{"traffic": {"sector loaded": 32}}`.  The rest: as of `races`.
        """
        from snap.cost.measuring import measured

        return measured(self, args, keywords, blocks, metrics, seconds, progress)

    # -- launching

    @_told
    def _split(self, args: Args, keywords: dict[str, object]) -> tuple[Compiled, list[object]]:
        """Take the constexpr parameters out of the arguments: the specialization, and what is left for it."""
        params = self._names
        if len(args) > len(params):
            raise TypeError(f"`{self.definition.tree.name}` takes {len(params)} arguments, not {len(args)}")
        given = dict(zip(params, args))
        for name, value in keywords.items():
            if name not in params or name in given:
                raise TypeError(
                    f"`{self.definition.tree.name}` "
                    + (f"is given `{name}` twice" if name in given else f"has no parameter `{name}`")
                )
            given[name] = value
        given = {**{n: v for n, v in self._defaults().items() if n in self.generic}, **given}
        given |= self._inferred([n for n in params if n not in given], given)
        missing = [n for n in params if n not in given]
        if missing:
            raise TypeError(
                f"`{self.definition.tree.name}` is missing {', '.join(f'`{m}`' for m in missing)}: give it by name,"
                f" `{missing[0]}=...`"
            )
        for name in self.generic:
            given[name] = constant(self.definition.tree.params, name, given[name])
        values = {n: given[n] for n in params if n not in self.generic}
        if self.definition.records is not None:
            from snap.host.arguments.records import by_field

            values = by_field(self.definition.tree.name, self.definition.records, values)
        return self._specialized({n: given[n] for n in self.generic}), list(values.values())

    def _inferred(self, left: list[str], given: dict[str, object]) -> dict[str, object]:
        """Infer what constexpr parameters a launch leaves out."""
        left = [n for n in left if n in self.generic]
        if not left:
            return {}
        from snap.host.arguments.inferred import inferred

        return inferred(self.definition.tree.name, self._telling(left), given)

    def _telling(self, names: list[str]) -> list[tuple[int, str, Hole]]:
        return telling(self.definition.tree.params, names)

    @_told
    def launch(
        self,
        *args: object,
        blocks: int | tuple[int, ...] | Fill,
        target: str | PTX = "auto",
        stream: object = None,
        seed: int | None = None,
        seconds: float | None = None,
        **keywords: object,
    ) -> None:
        """Run the kernel; `k[blocks](*args)` is short for `k.launch(*args, blocks=blocks)`.

        blocks: a number, the shape of the grid, or `fill()`.  target: "cpu", "gpu", "ptx" (what NVRTC makes of it,
        without a GPU; with options, `snap.PTX(checks="races")`), or "auto", which goes by the arrays.  stream: of a
        GPU.  seed: a schedule of the CPU or the PTX machine.  seconds: the time that these may take.
        """
        from snap.host.launch import launch

        self._kernel_only("are launched")
        asked, keywords = self._without_old_options(target, keywords)
        of_ptx = {} if asked is None else asked.given()
        compiled, rest = (
            (self._specialized({}), args) if not (self._taken_apart or keywords) else self._split(args, keywords)
        )
        launch(compiled, rest, blocks, "ptx" if isinstance(target, PTX) else target, stream, seed, seconds, of_ptx)

    def _without_old_options(self, target: object, keywords: dict[str, Any]) -> tuple[PTX | None, dict[str, Any]]:
        """Move `checks=`, `memory=`, `mode=`, `limit=`, as launches took them before, into a record.  A parameter of
        the kernel that has such a name is the kernel's.
        """
        asked = target if isinstance(target, PTX) else None
        own = set(self._names) if keywords else ()
        old = {name: keywords[name] for name in ("checks", "memory", "mode", "limit") if name in keywords}
        old = {name: value for name, value in old.items() if name not in own}
        if not old:
            return asked, keywords
        renamed(f"{next(iter(old))}=", f"target=snap.PTX({', '.join(f'{name}={old[name]!r}' for name in old)})")
        left = {name: value for name, value in keywords.items() if name not in old}
        return replace(asked or PTX(), **cast(Any, old)), left

    def __getitem__(self, blocks: object) -> Callable[..., None]:
        """Return the launcher for that number of blocks, or a grid of that shape: `k[x, y]`.  This is the hot path: a
        plain dict, filled by the runtime; another one makes the launchers that it lacks.
        """
        if type(blocks) is int:
            try:
                return self._ready[blocks]
            except KeyError:
                pass
            return self._at[blocks]
        if type(blocks) is tuple and all(type(extent) is int for extent in blocks):
            return self._at[blocks]
        return functools.partial(self.launch, blocks=cast(int, blocks))  # refused there, or an integer of another kind

    if not TYPE_CHECKING:
        __iter__ = None  # or `list(k)` would ask for `k[0]`, `k[1]`, ... without an end

        def __getattr__(self, name: str) -> object:
            """Return an attribute that was public in the previous version."""
            private = {"launches": "_at", "split_arguments": "_split"}.get(name)
            if private is None:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            renamed(f"k.{name}")
            return getattr(self, private)

    def __call__(self, *args: object, **keywords: object) -> None:
        if not self.is_kernel:
            raise TypeError(
                f"`{self.definition.tree.name}` is a device function: call it in a kernel, which Python launches"
            )
        self.launch(*args, blocks=self._blocks(args, keywords), **cast(Any, keywords))

    def _blocks(self, args: Args, keywords: dict[str, object]) -> int | tuple[int, ...] | Fill:
        """Compute the number of blocks by the decorator's `blocks=`."""
        from snap.host.arguments.byname import resolve, wanted
        from snap.host.errors import LaunchError

        name, blocks = self.definition.tree.name, self.definition.requires.blocks
        if blocks is None:
            usage = f"Launch it as `{name}[blocks](...)`, or give its decorator `blocks=lambda n: ...`"
            raise LaunchError(name, f"how many blocks? {usage}")
        given = dict(zip(self._names, args))
        given = {**self._defaults(), **self.bound, **given, **keywords}
        asked = [n for n, needed in wanted(blocks) if needed] if callable(blocks) else []
        given |= self._inferred([n for n in asked if n not in given], given)
        missing = [n for n in asked if n not in given]
        if missing:
            raise LaunchError(name, f"`blocks=` of its decorator asks for `{missing[0]}`, which is not given")
        try:
            count: int | tuple[int, ...] | Fill = resolve(blocks, given)
        except Exception as error:
            raise LaunchError(name, f"`blocks=` of its decorator failed: {type(error).__name__}: {error}") from error
        return count

    def __repr__(self) -> str:
        own = self.definition.requires.instruction is not None
        word = "kernel" if self.is_kernel else "instruction" if own else "device function"
        return f"<snap {word} {self.definition.tree.name}>"


SnapFunction.__doc__ = HelpText(SnapFunction.__doc__)  # type: ignore[assignment]


_MOST_KEPT = 1024  # of numbers of blocks


class _Unlaunched(dict[Any, Callable[..., None]]):
    """Map numbers of blocks to functions until the first launch brings the runtime's own table.  A generic kernel keeps
    this map: its arguments say what is launched.
    """

    def __init__(self, function: SnapFunction):
        super().__init__()
        self.function = function

    def __missing__(self, blocks: int | tuple[int, ...]) -> Callable[..., None]:
        function = self.function
        function._kernel_only("are launched")
        if function._taken_apart:
            from snap.host.plan.generic import of

            if len(self) >= _MOST_KEPT:
                self.clear()
                function._ready.clear()
            made = self[blocks] = of(function, blocks)
            if type(blocks) is int:
                function._ready[blocks] = made
            return made
        from snap.host.launch import launcher

        launches = launcher(function._specialized({}))
        function._ready, function._at = launches.ready, launches.at
        found: Callable[..., None] = function._at[blocks]
        return found


def races(k: SnapFunction, *args: object, blocks: int | tuple[int, ...] | Fill, **options: Any) -> list[Race]:
    """Call `k.races(...)`, which has this name now."""
    if not isinstance(k, SnapFunction):
        raise TypeError("snap.races takes a kernel and its arguments")
    renamed("snap.races(k, ...)", "k.races(...)")
    return k.races(*args, blocks=blocks, **options)
