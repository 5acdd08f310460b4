"""What users hold: a Snap function (decorators.py makes it).

The pipeline is `Compiled`: one attribute a stage, each computed when first asked for.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

from snap._compiler.frontend.definition import Definition, identity
from snap._compiler.ir.depth import deep
from snap._compiler.ir.synced import SyncPoint
from snap._compiler.ir.types import Privilege
from snap.byname import ByName
from snap.compiled import Compiled
from snap.diag.error import SnapError, SnapWarning

if TYPE_CHECKING:
    from snap.prove.verdict import Proof

Method = TypeVar("Method", bound=Callable[..., Any])


def _told(method: Method) -> Method:
    """A method whose SnapErrors come without the compiler's own frames, which say nothing to a user."""

    @functools.wraps(method)
    def told(*args: Any, **keywords: Any) -> Any:
        try:
            return method(*args, **keywords)
        except SnapError as error:
            raise error.without_frames() from None

    return cast(Method, told)


_WRAPPED = tuple(name for name in functools.WRAPPER_ASSIGNMENTS if name != "__doc__")  # which is `_Help`'s


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
        self.compiled: dict[tuple, Compiled] = {}
        # Attributes and no properties: `k[blocks]` is looked up at every launch.
        self._ready: dict[int, Callable] = {}
        self._at: dict = _Unlaunched(self)
        functools.update_wrapper(self, python, _WRAPPED, ())
        defaults = self._defaults()
        # It is checked now; a generic one without defaults is checked when it is specialised.
        if all(n in defaults for n in self.generic):
            self._specialised({n: defaults[n] for n in self.generic})

    def _defaults(self) -> dict[str, object]:
        from snap._compiler.frontend import tree

        return {p.name: p.default.value for p in self.definition.tree.params if isinstance(p.default, tree.Number)}

    @property
    def is_kernel(self) -> bool:
        return self.definition.kernel

    def _specialised(self, constexprs: dict[str, object]) -> Compiled:
        values = {**self.bound, **constexprs}
        key = identity(values)
        found = self.compiled.get(key)
        if found is None:
            found = self.compiled[key] = Compiled(self.definition, values).checked()
        return found

    @_told
    def specialize(self, **constexprs: object) -> SnapFunction:
        """This function with some constexpr parameters fixed; checked now if all of them are."""
        unknown = sorted(set(constexprs) - set(self.generic))
        if unknown:
            raise TypeError(
                f"`{self.definition.tree.name}` has no constexpr parameter `{unknown[0]}`"
                + (f" (it has {', '.join(self.generic)})" if self.generic else "")
            )
        constexprs = {name: _number(name, value) for name, value in constexprs.items()}
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
        return self._specialised({n: _number(n, constexprs.get(n, defaults.get(n))) for n in self.generic})

    def _kernel_only(self, what: str) -> None:
        if not self.is_kernel:
            raise TypeError(f"`{self.definition.tree.name}` is a device function: only kernels {what}")

    # -- stages

    @_told
    def core(self, **constexprs: object) -> str:
        """The function as text, its short forms expanded into the words that define them."""
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
        """The synchronization points of the generated code, in the order of the text, calls included: those that were
        inferred, those that collectives bring along, and a kernel's first and last.
        """
        from snap._compiler.ir.points import points

        compiled = self._the_one(constexprs)
        found = points(compiled.synced, collectives=True)
        return [*compiled.module.entry, *found, *compiled.module.exit] if self.is_kernel else found

    @_told
    def warnings(self, *, proofs: bool = False, **constexprs: object) -> list[SnapWarning]:
        """What is not wrong, and probably not meant; a line allows it by a comment, `# snap: ok SNAP030`.  `proofs`:
        also barriers that a proof shows to be needless, which may take some seconds to find.
        """
        return [SnapWarning(found) for found in self._the_one(constexprs).warnings(proofs)]

    @_told
    def left_out(self, **constexprs: object) -> tuple[list[SyncPoint], str]:
        """Of a kernel with `lean=True`: the barriers that were inferred, and left out since a proof shows that nobody
        meets there; where there are none, why.
        """
        return self._the_one(constexprs).left_out()

    @_told
    def ir(self, stage: str = "synchronized", /, **constexprs: object) -> str:
        """The program as text, as the compiler has it: "typed", as the checker leaves it, or "synchronized"."""
        from snap._compiler.ir.printer import text

        if stage not in ("typed", "synchronized"):
            raise ValueError(f"the IR is 'typed' or 'synchronized', not {stage!r}")
        compiled = self._the_one(constexprs)
        return text(compiled.typed if stage == "typed" else compiled.synced)

    @_told
    def passes(self, **constexprs: object) -> list[tuple[str, str, str]]:
        """The program as text after the checker, and after each pass of synchronization that changed it: (name of the
        pass, what it does, text).
        """
        from snap._compiler.ir.printer import text
        from snap._compiler.sync import PASSES, synchronize

        does = {"check": "the typed IR, as the checker leaves it", **{one.name: one.does for one in PASSES}}
        found: list[tuple[str, str, str]] = []

        def seen(name: str, function: Any, stage: object) -> None:
            shown = text(function)
            if not found or found[-1][2] != shown:
                found.append((name, does[name], shown))

        synchronize(self._the_one(constexprs).typed, seen)
        return found

    def _graph(self, **constexprs: object):
        """What `snap explain --graph` draws: the program before roles are taken apart, and its dependences."""
        from snap._compiler.sync import dependence_graph

        return dependence_graph(self._the_one(constexprs).typed)

    @_told
    def cuda(self, **constexprs: object) -> str:
        """The generated CUDA C++, as text that nvcc compiles, too."""
        self._kernel_only("have CUDA text of their own")
        return self._the_one(constexprs).module.text

    def _text_for(self, arch: str, constexprs: dict[str, object]) -> str:
        from snap.host.compile import check_module

        self._kernel_only("are compiled")
        module = self._the_one(constexprs).module
        check_module(module, arch)
        return module.text

    @_told
    def ptx(self, arch: str = "sm_90a", **constexprs: object) -> str:
        """NVRTC's PTX for an architecture; no GPU is needed."""
        from snap.host.compile import compile_ptx

        text, compiled = self._text_for(arch, constexprs), self._the_one(constexprs)
        return compile_ptx(text, arch, unsafe=compiled.typed.uses_unsafe, lined=compiled.lined)

    @_told
    def cubin(self, arch: str = "sm_90a", **constexprs: object) -> bytes:
        """The machine code for an architecture; no GPU is needed."""
        from snap.host.compile import compile_cubin

        text, compiled = self._text_for(arch, constexprs), self._the_one(constexprs)
        return compile_cubin(text, arch, unsafe=compiled.typed.uses_unsafe, lined=compiled.lined)

    @_told
    def resources(self, arch: str = "sm_90a", **constexprs: object):
        """Registers, spills and shared memory of the machine code for an architecture."""
        from snap.host.compile import resources

        text = self._text_for(arch, constexprs)
        compiled = self._the_one(constexprs)
        module = compiled.module
        return resources(text, arch, module.kernel, dynamic_smem=module.dynamic_smem, unsafe=compiled.typed.uses_unsafe)

    @_told
    def prove(
        self,
        properties: Iterable[str] | None = None,
        *,
        progress: bool | None = None,
        seconds: float | str | None = "usual",
        **constexprs: object,
    ) -> Proof:
        """What can be shown of every launch that keeps the kernel's `where=`: no races, no index out of bounds, nothing
        read before it is written, everything ordered.  properties: some of "bounds", "races", "init", "order"; None for
        all that there are.  `print(k.prove())` says what is open, and why.  seconds: after which it says what was
        shown until then, as after Ctrl-C: 10, unless told otherwise; None for no limit.

        Of a device function: what every call that keeps its `where=` may count on, its promises and its indices.
        """
        from snap.prove import prove, prove_function

        if not self.is_kernel:
            if properties is not None and tuple(properties) != ("bounds",):
                self._kernel_only("have properties besides `bounds`, which includes the contract")
            return prove_function(self._the_one(constexprs).typed, progress, seconds)
        return prove(self._the_one(constexprs).task, properties, progress, seconds)

    # -- launching

    @_told
    def split_arguments(self, args: tuple, keywords: dict[str, object]) -> tuple[Compiled, list]:
        """Take the constexpr parameters out of the arguments: the specialisation, and what is left for it."""
        params = [p.name for p in self.definition.tree.params if p.name not in self.bound]
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
        missing = [n for n in params if n not in given]
        if missing:
            raise TypeError(
                f"`{self.definition.tree.name}` is missing {', '.join(f'`{m}`' for m in missing)}: give it by name,"
                f" `{missing[0]}=...`"
            )
        for name in self.generic:
            given[name] = _number(name, given[name])
        return self._specialised({n: given[n] for n in self.generic}), [
            given[n] for n in params if n not in self.generic
        ]

    @_told
    def launch(
        self,
        *args: object,
        blocks: int | tuple[int, ...],
        target: str = "auto",
        stream: object = None,
        seed: int | None = None,
        seconds: float | None = None,
        checks: Sequence[str] = (),
        memory: str | None = None,
        mode: str | None = None,
        limit: int | None = None,
        **keywords: object,
    ) -> None:
        """Runs the kernel; `k[blocks](*args)` is short for `k.launch(*args, blocks=blocks)`.

        blocks: a number, or the shape of the grid.  target: where, "cpu", "gpu", "ptx" (what NVRTC makes of it, without
        a GPU) or, by the arrays, "auto".  stream: of a GPU.  seed: a schedule of the CPU or the PTX machine.
        seconds: how long they may take.  checks: what else target="ptx" looks for: "races", "uninitialised"
        (shared memory), "nc" (memory that is written, read past coherence); its memory: "flat" or "caches"; its mode:
        "independent" threads or the "stack" of a warp; its limit: instructions of threads.
        """
        from snap.host.launch import launch

        self._kernel_only("are launched")
        compiled, rest = (
            (self._specialised({}), args) if not self.generic and not keywords else self.split_arguments(args, keywords)
        )
        asked = (("checks", checks), ("memory", memory), ("mode", mode), ("limit", limit))
        of_ptx = {name: value for name, value in asked if value is not None and value != ()}
        launch(compiled, rest, blocks, target, stream, seed, seconds, of_ptx)

    def __getitem__(self, blocks: object):
        """What launches with that number of blocks, or a grid of that shape: `k[x, y]`.  This is the hot path: a plain
        dict, filled by the runtime; what it does not have is made by another.
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

    @property
    def launches(self) -> dict:
        """From a number of blocks to what launches with it, as it is now: after a launch, the fast path."""
        return self._at

    def __call__(self, *args: object, **keywords: object) -> None:
        name, blocks = self.definition.tree.name, self.definition.requires.blocks
        if blocks is not None and self.is_kernel:
            self.launch(*args, blocks=self._blocks(blocks, args, keywords), **cast(Any, keywords))
            return
        if not self.is_kernel:
            raise TypeError(f"`{name}` is a device function: call it in a kernel, which Python launches")
        from snap.host.errors import LaunchError

        problem = f"how many blocks? Launch it as `{name}[blocks](...)`, or give its decorator `blocks=lambda n: ...`"
        raise LaunchError(name, problem)

    def _blocks(self, blocks: object, args: tuple, keywords: dict[str, object]) -> int | tuple[int, ...]:
        """What `blocks=` of the decorator makes of the arguments."""
        from snap.host.byname import resolve, wanted
        from snap.host.errors import LaunchError

        name = self.definition.tree.name
        given = dict(zip((p.name for p in self.definition.tree.params if p.name not in self.bound), args))
        given = {**self._defaults(), **self.bound, **given, **keywords}
        missing = [n for n, needed in wanted(blocks) if needed and n not in given] if callable(blocks) else ()
        if missing:
            raise LaunchError(name, f"`blocks=` of its decorator asks for `{missing[0]}`, which is not given")
        try:
            return resolve(blocks, given)
        except Exception as error:
            raise LaunchError(name, f"`blocks=` of its decorator failed: {type(error).__name__}: {error}") from error

    def __repr__(self) -> str:
        return f"<snap {'kernel' if self.is_kernel else 'device function'} {self.definition.tree.name}>"


def _described(definition: Definition) -> str:
    """The signature as `help()` shows it, with the privileges that were left out."""
    from snap._compiler.frontend import tree
    from snap._compiler.frontend.printer import expression

    own = "grid[1]"
    if not definition.kernel:
        given = definition.requires.privileges
        needs = [p for p in given if isinstance(p, Privilege)] if isinstance(given, tuple) else []
        own = str(max(needs, key=lambda p: (p.level, p.n))) if needs else ""

    def written(e: Any) -> str:
        text = expression(e)
        constexpr = isinstance(e, tree.Call) and isinstance(e.function, tree.Name) and e.function.id == "constexpr"
        if isinstance(e, tree.Binary) and e.op == "@" or constexpr:
            return text
        at = "thread[1]" if text.startswith("ref(") else own
        return f"{text} @ {at}" if at else text

    function = definition.tree
    params = ", ".join(
        p.name
        + ("" if p.annotation is None else f": {written(p.annotation)}")
        + ("" if p.default is None else f" = {expression(p.default)}")
        for p in function.params
    )
    returns = "" if function.returns is None else f" -> {written(function.returns)}"
    return f"{function.name}{'[blocks]' * (definition.kernel)}({params}){returns}"


class _Help:
    """What `help(k)` shows: written when somebody asks."""

    def __init__(self, of_class: str | None):
        self.of_class = of_class

    def __get__(self, function: SnapFunction | None, cls: type) -> str | None:
        if function is None:
            return self.of_class
        with deep():
            text = f"{_described(function.definition)}\n\n{function.__wrapped__.__doc__ or ''}".rstrip()
        function.__dict__["__doc__"] = text
        return text


SnapFunction.__doc__ = _Help(SnapFunction.__doc__)  # type: ignore[assignment]


class _Unlaunched(dict):
    """blocks -> function, until the first launch brings the runtime's own table; a generic kernel keeps it: its
    arguments say what is launched.
    """

    def __init__(self, function: SnapFunction):
        super().__init__()
        self.function = function

    def __missing__(self, blocks: int | tuple[int, ...]):
        function = self.function
        function._kernel_only("are launched")
        if function.generic:
            if len(self) >= _MOST_KEPT:
                self.clear()
                function._ready.clear()
            made = self[blocks] = _generic(function, blocks)
            if type(blocks) is int:
                function._ready[blocks] = made
            return made
        from snap.host.launch import launcher

        launches = launcher(function._specialised({}))
        function._ready, function._at = launches.ready, launches.at
        return function._at[blocks]


def _generic(function: SnapFunction, blocks: int | tuple[int, ...]) -> Callable:
    """Launches of a generic kernel.  Where its constexpr parameters are the last ones, those of a specialisation that
    was launched before ask its table at once.
    """
    from snap.host import generic
    from snap.host.launch import launcher

    names = [p.name for p in function.definition.tree.params if p.name not in function.bound]
    count = len(names) - len(function.generic)
    whole = functools.partial(function.launch, blocks=blocks)
    if set(names[count:]) != set(function.generic):
        return whole
    return generic.launches(
        function.definition.tree.name,
        count,
        names[count:],
        function._defaults(),
        blocks,
        whole,
        lambda values: launcher(function._specialised(values)).at,
    )


_MOST_KEPT = 1024  # of numbers of blocks


def _number(name: str, value: Any) -> bool | int | float:
    """The value of a constexpr parameter: Python's, or NumPy's."""
    value = value.item() if callable(getattr(value, "item", None)) and getattr(value, "shape", None) == () else value
    if not isinstance(value, (bool, int, float)):
        raise TypeError(f"constexpr parameter `{name}` takes a number, not {type(value).__name__}")
    return value


def races(
    k: SnapFunction,
    *args: object,
    blocks: int | tuple[int, ...],
    seeds: object = 8,
    seconds: float | None = None,
    progress: bool | None = None,
    **keywords: object,
) -> list:
    """Data races that runs of the synchronized kernel show, on copies of the arrays.

    `seeds`: how many orders, or which.  `seconds`: when to stop looking; what was seen until then is returned, with a
    warning.  `progress`: whether a line on standard error says how far it is; None where that is a terminal.  Ctrl-C
    raises `snap.Stopped`, whose `found` has the races so far.
    """
    from snap.host.launch import races as find

    if not isinstance(k, SnapFunction) or not k.is_kernel:
        raise TypeError("snap.races takes a kernel and its arguments")
    compiled, rest = k.split_arguments(args, keywords)
    return find(compiled, rest, blocks, seeds, seconds, progress)
