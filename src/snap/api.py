"""What users hold: decorators and the functions they make.

The pipeline is `Compiled`: one attribute a stage, each computed when first asked for.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, NoReturn, cast

from snap.diag.error import Diagnostic, SnapError
from snap.diag.span import Span
from snap.frontend.definition import Definition, Refused, Requires, identity
from snap.ir import nodes as ir
from snap.ir.synced import Function as Synced
from snap.ir.synced import SyncPoint
from snap.ir.types import Level, Privilege
from snap.surface import caller_span

_collected: ContextVar[list[SnapError] | None] = ContextVar("snap_collected", default=None)

# An undecorated function is checked as a kernel of one block whose threads every usual group divides.
UNDECORATED = (Privilege(Level.GRID, 1), Privilege(Level.BLOCK, 1), Privilege(Level.THREAD, 2**10 * 3**2 * 5 * 7 * 11))


class Compiled:
    """One specialisation on its way through the stages."""

    def __init__(self, definition: Definition, constexprs: dict[str, object]):
        self.definition, self.constexprs = definition, constexprs

    @functools.cached_property
    def typed(self) -> ir.Function:
        from snap.check import check

        return check(self.definition, self.constexprs)

    @functools.cached_property
    def synced(self) -> Synced:
        from snap.sync import synchronize

        return synchronize(self.typed)

    def checked(self) -> Compiled:
        """All that can refuse a program has looked at it."""
        if self.definition.kind == "device":
            from snap.sync import probe

            probe(self.typed)
        else:
            _ = self.synced
        return self

    @functools.cached_property
    def module(self):
        from snap.codegen import emit

        return emit(self.synced)


class SnapFunction:
    """A checked Snap function.  Kernels are launched: `k[blocks](*args)`; device functions are called by other Snap
    functions.
    """

    __wrapped__: Any  # these two are the Python function's, by functools.update_wrapper
    __qualname__: str

    def __init__(self, definition: Definition, python: Any, bound: dict[str, object] | None = None):
        from snap.check import constexpr_names

        self.definition = definition
        self.bound = bound or {}
        self.generic = [n for n in constexpr_names(definition) if n not in self.bound]
        self.compiled: dict[tuple, Compiled] = {}
        self._at: dict = _Unlaunched(self)  # an attribute and no property: `k[blocks]` is looked up at every launch
        functools.update_wrapper(self, python, updated=())
        defaults = self._defaults()
        if all(
            n in defaults for n in self.generic
        ):  # checked now; a generic one without defaults, when it is specialised
            self._specialised({n: defaults[n] for n in self.generic})

    def _defaults(self) -> dict[str, object]:
        from snap.frontend import tree

        return {p.name: p.default.value for p in self.definition.tree.params if isinstance(p.default, tree.Number)}

    @property
    def is_kernel(self) -> bool:
        return self.definition.kind == "global"

    def _specialised(self, constexprs: dict[str, object]) -> Compiled:
        values = {**self.bound, **constexprs}
        key = identity(values)
        found = self.compiled.get(key)
        if found is None:
            found = self.compiled[key] = Compiled(self.definition, values).checked()
        return found

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

    def syncs(self, **constexprs: object) -> list[SyncPoint]:
        """The synchronization points of the generated code, in the order of the text, calls included: those that were
        inferred, those that collectives bring along, and a kernel's first and last.
        """
        from snap.ir.points import points

        compiled = self._the_one(constexprs)
        found = points(compiled.synced, collectives=True)
        return [*compiled.module.entry, *found, *compiled.module.exit] if self.is_kernel else found

    def ir(self, stage: str = "synchronized", /, **constexprs: object) -> str:
        """The program as text, as the compiler has it: "typed", as the checker leaves it, or "synchronized"."""
        from snap.ir.text import text

        if stage not in ("typed", "synchronized"):
            raise ValueError(f"the IR is 'typed' or 'synchronized', not {stage!r}")
        compiled = self._the_one(constexprs)
        return text(compiled.typed if stage == "typed" else compiled.synced)

    def passes(self, **constexprs: object) -> list[tuple[str, str, str]]:
        """The program as text after the checker, and after each pass of synchronization that changed it: (name of the
        pass, what it does, text).
        """
        from snap.ir.text import text
        from snap.sync import PASSES, synchronize

        does = {"check": "the typed IR, as the checker leaves it", **{one.name: one.does for one in PASSES}}
        found: list[tuple[str, str, str]] = []

        def seen(name: str, function: Any, stage: object) -> None:
            shown = text(function)
            if not found or found[-1][2] != shown:
                found.append((name, does[name], shown))

        synchronize(self._the_one(constexprs).typed, seen)
        return found

    def cuda(self, **constexprs: object) -> str:
        self._kernel_only("have CUDA text of their own")
        return self._the_one(constexprs).module.text

    def _text_for(self, arch: str, constexprs: dict[str, object]) -> str:
        from snap.runtime.compile import check_module

        self._kernel_only("are compiled")
        module = self._the_one(constexprs).module
        check_module(module, arch)
        return module.text

    def ptx(self, arch: str = "sm_90a", **constexprs: object) -> str:
        from snap.runtime.compile import compile_ptx

        return compile_ptx(self._text_for(arch, constexprs), arch, unsafe=self._the_one(constexprs).typed.uses_unsafe)

    def cubin(self, arch: str = "sm_90a", **constexprs: object) -> bytes:
        from snap.runtime.compile import compile_cubin

        return compile_cubin(self._text_for(arch, constexprs), arch, unsafe=self._the_one(constexprs).typed.uses_unsafe)

    def resources(self, arch: str = "sm_90a", **constexprs: object):
        from snap.runtime.compile import resources

        text = self._text_for(arch, constexprs)
        compiled = self._the_one(constexprs)
        module = compiled.module
        return resources(text, arch, module.kernel, dynamic_smem=module.dynamic_smem, unsafe=compiled.typed.uses_unsafe)

    # -- launching

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
            raise TypeError(f"`{self.definition.tree.name}` is missing {', '.join(f'`{m}`' for m in missing)}")
        for name in self.generic:
            given[name] = _number(name, given[name])
        return self._specialised({n: given[n] for n in self.generic}), [
            given[n] for n in params if n not in self.generic
        ]

    def launch(
        self,
        *args: object,
        blocks: int,
        target: str = "auto",
        stream: object = None,
        seed: int | None = None,
        **keywords: object,
    ) -> None:
        from snap.runtime.launch import launch

        self._kernel_only("are launched")
        compiled, rest = (
            (self._specialised({}), args) if not self.generic and not keywords else self.split_arguments(args, keywords)
        )
        launch(compiled, rest, blocks, target, stream, seed)

    def __getitem__(self, blocks: object):
        """What launches with that number of blocks.  This is the hot path: one table, filled by the runtime."""
        if type(blocks) is int:
            return self._at[blocks]
        return functools.partial(self.launch, blocks=cast(int, blocks))  # refused there, or an integer of another kind

    def __call__(self, *args: object, **keywords: object) -> None:
        name = self.definition.tree.name
        raise TypeError(
            f"launch a kernel with the number of blocks: {name}[blocks](...)"
            if self.is_kernel
            else f"`{name}` is a device function: Snap functions call it"
        )

    def __repr__(self) -> str:
        return f"<snap {'kernel' if self.is_kernel else 'device function'} {self.definition.tree.name}>"


class _Unlaunched(dict):
    """blocks -> function, until the first launch brings the runtime's own table; a generic kernel keeps it: its
    arguments say what is launched.
    """

    def __init__(self, function: SnapFunction):
        super().__init__()
        self.function = function

    def __missing__(self, blocks: int):
        function = self.function
        function._kernel_only("are launched")
        if function.generic:
            return functools.partial(function.launch, blocks=blocks)
        from snap.runtime.launch import launcher

        function._at = launcher(function._specialised({})).at
        return function._at[blocks]


def _number(name: str, value: Any) -> bool | int | float:
    """The value of a constexpr parameter: Python's, or NumPy's."""
    value = value.item() if callable(getattr(value, "item", None)) and getattr(value, "shape", None) == () else value
    if not isinstance(value, (bool, int, float)):
        raise TypeError(f"constexpr parameter `{name}` takes a number, not {type(value).__name__}")
    return value


# ---- decorators -----------------------------------------------------------------------------------------------------


class Pending:
    """A function with one of its two decorators."""

    __name__: str  # the Python function's, by functools.update_wrapper

    def __init__(self, python: Any, kind: str | None = None, requires: Requires | None = None):
        self.python, self.kind, self.requires = python, kind, requires
        functools.update_wrapper(self, python, updated=())

    @property
    def missing_decorator(self) -> str:
        return "@kernel or @device" if self.kind is None else "@requires(...)"

    def __call__(self, *args: object, **keywords: object) -> None:
        example = ", such as @requires(grid[1], block[1], thread[256])" if self.kind == "global" else ""
        raise TypeError(f"`{self.__name__}` lacks {self.missing_decorator}{example}")

    __getitem__ = __call__

    def unfinished(self) -> Diagnostic:
        code = self.python.__code__
        span = Span(code.co_filename, code.co_firstlineno, 0, code.co_firstlineno, 0)
        missing = "@kernel or @device" if self.kind is None else "@requires(...)"
        return Diagnostic(
            "SNAP018",
            f"`{self.__name__}` lacks {missing}, and so is never checked",
            span,
            help="a Snap function has both: `@kernel` and `@requires(grid[1], block[1], thread[256])`",
        )


def _completed(pending: Pending):
    if pending.kind is None or pending.requires is None:
        return pending
    try:
        return SnapFunction(define(pending.python, pending.kind, pending.requires), pending.python)
    except SnapError as error:
        errors = _collected.get()
        if errors is None:
            raise error.without_frames() from None
        errors.append(error)
        return Refused(pending.__name__)


def define(python: Any, kind: str, requires: Requires) -> Definition:
    from snap.frontend.parse import decorator_spans, parse_definition_names, parse_function

    tree = parse_function(python)
    if requires.span is not None:  # the decorator itself says more than the line that called it
        requires = replace(requires, span=decorator_spans(python).get("requires", requires.span))
    tree = replace(tree, params=_with_defaults(tree.params, python.__defaults__ or ()))
    return Definition(tree, kind, requires, parse_definition_names(tree, python))


def _with_defaults(params: tuple, values: tuple) -> tuple:
    """Defaults are what Python found when the function was defined, whoever calls it later and whatever the names in
    them mean there.
    """
    from snap.frontend.tree import Number

    found = dict(enumerate(values, len(params) - len(values)))
    numbers = {k: value for k, value in found.items() if type(value) in (bool, int, float)}
    return tuple(
        replace(p, default=Number(numbers[k], span=p.default.span)) if k in numbers else p for k, p in enumerate(params)
    )


def _pending(function: object, span: Span, what: str) -> Pending:
    if isinstance(function, Pending):
        return function
    if isinstance(function, (SnapFunction, Refused)):
        raise SnapError(Diagnostic("SNAP018", f"{what} is given twice", span))
    if not callable(function) or not hasattr(function, "__code__"):
        raise SnapError(
            Diagnostic("SNAP018", f"{what} decorates a Python function, not {type(function).__name__}", span)
        )
    return Pending(function)


def ccuda(kind: str):
    """`@ccuda("global")` makes a kernel, `@ccuda("device")` a device function; stacks with `@requires` in
    either order.
    """
    span = caller_span()
    if kind not in ("global", "device"):
        raise SnapError(Diagnostic("SNAP018", f'`ccuda` takes "global" or "device", not {kind!r}', span))

    def decorate(function: object):
        pending = _pending(function, span, f"@ccuda({kind!r})")
        if pending.kind is not None:
            raise SnapError(Diagnostic("SNAP018", "a function is a kernel or a device function, once", span))
        return _completed(Pending(pending.python, kind, pending.requires))

    return decorate


def _bare(word: str) -> NoReturn:
    raise SnapError(Diagnostic("SNAP018", f"`@{word}` takes no parentheses", caller_span(3), help=f"write `@{word}`"))


def kernel(*functions: object):
    """The same as `@ccuda("global")`."""
    if not functions:
        _bare("kernel")
    (function,) = functions
    return ccuda("global")(function)


def device(*functions: object):
    """The same as `@ccuda("device")`."""
    if not functions:
        _bare("device")
    (function,) = functions
    return ccuda("device")(function)


def requires(*privileges: Any, smem: int | None = None, cooperative: bool = False, resident: int | None = None):
    """The privileges (and shared memory) a function must be given: `@requires(grid[1], block[1], thread[256])`.

    Of a kernel also how it is launched: all blocks at once (`cooperative`), so many blocks a multiprocessor
    (`resident`).
    """
    span = caller_span()
    if resident is not None and (isinstance(resident, bool) or not isinstance(resident, int) or resident < 1):
        raise SnapError(
            Diagnostic(
                "SNAP018",
                f"`resident` is a number of blocks, 1 or more, not {resident!r}",
                span,
                help="`resident=2`: registers are shared out so that two blocks fit a multiprocessor",
            )
        )
    if smem is not None and (isinstance(smem, bool) or not isinstance(smem, int) or smem < 0):
        raise SnapError(Diagnostic("SNAP018", f"`smem` is a number of bytes, not {smem!r}", span))
    bare = (
        len(privileges) == 1
        and hasattr(privileges[0], "__code__")
        and privileges[0].__name__ != "<lambda>"
        or len(privileges) == 1
        and isinstance(privileges[0], Pending)
    )
    if not privileges or bare:
        raise SnapError(
            Diagnostic(
                "SNAP018", "`@requires` names no privilege", span, help="`@requires(grid[1], block[1], thread[256])`"
            )
        )
    given = (
        privileges[0]
        if len(privileges) == 1
        and callable(privileges[0])
        and not isinstance(privileges[0], type)
        and hasattr(privileges[0], "__code__")
        else privileges
    )

    def decorate(function: object):
        pending = _pending(function, span, "@requires")
        if pending.requires is not None:
            raise SnapError(Diagnostic("SNAP018", "`@requires` is given twice", span))
        return _completed(
            Pending(pending.python, pending.kind, Requires(given, smem, bool(cooperative), resident, span))
        )

    return decorate


@contextlib.contextmanager
def collecting() -> Iterator[list[SnapError]]:
    """Decorators inside record their SnapErrors in the list instead of raising."""
    errors: list[SnapError] = []
    token = _collected.set(errors)
    try:
        yield errors
    finally:
        _collected.reset(token)


def check(function: object, *privileges: Any, kind: str = "global") -> list[SnapError]:
    """All errors of a function, empty when it is legal.  Without decorators it is checked as a kernel of
    `privileges`.
    """
    from snap.check import constexpr_names

    if isinstance(function, SnapFunction):
        return []
    pending = function if isinstance(function, Pending) else Pending(function)
    needs = pending.requires or Requires(tuple(privileges) or UNDECORATED)
    try:
        definition = define(pending.python, pending.kind or kind, needs)
        if not constexpr_names(definition):
            Compiled(definition, {}).checked()
    except SnapError as error:
        return error.all
    return []


def races(k: SnapFunction, *args: object, blocks: int, seeds: object = 8, **keywords: object) -> list:
    """Data races that runs of the synchronized kernel show, on copies of the arrays.  `seeds`: how many orders, or
    which.
    """
    from snap.runtime.launch import races as find

    if not isinstance(k, SnapFunction) or not k.is_kernel:
        raise TypeError("snap.races takes a kernel and its arguments")
    compiled, rest = k.split_arguments(args, keywords)
    return find(compiled, rest, blocks, seeds)
