"""Decorators: from a Python function to a checked Snap function.

Input: a function, whether it is a kernel, and what it requires, in one decorator or two.  Output: a `SnapFunction`,
or a SnapError.
"""

from __future__ import annotations
import __future__ as future

import contextlib
import functools
from collections.abc import Callable, Iterator
from types import FrameType, FunctionType
from typing import Any, cast

from snap._compiler.frontend.asked import check_blocks, check_where
from snap._compiler.frontend.definition import Definition, InstructionText, Refused, Requires
from snap._compiler.frontend.inlined import Inlined, inlined
from snap._compiler.frontend.settled import settled
from snap._compiler.frontend.source import as_function
from snap._compiler.ir.depth import roomy, uncollected
from snap._compiler.ir.types import Level, Privilege
from snap.api import SnapFunction
from snap.compiled import Compiled
from snap.diag.decorating import Wrong, caller, caller_span, collected, whole_help
from snap.diag.error import Diagnostic, SnapError
from snap.diag.span import Span
from snap.record import replace
from snap.surface import LevelName, element_of, several
from snap.targets import Fill

# An undecorated function is checked as a kernel of one block whose threads every usual group divides.
UNDECORATED = (Privilege(Level.GRID, 1), Privilege(Level.BLOCK, 1), Privilege(Level.THREAD, 2**10 * 3**2 * 5 * 7 * 11))


class Pending:
    """Hold a function with one of its two decorators."""

    __name__: str  # the Python function's, by functools.update_wrapper

    def __init__(self, python: Any, kernel: bool | None = None, requires: Requires | None = None):
        self.python, self.kernel, self.requires = python, kernel, requires
        functools.update_wrapper(self, python, updated=())

    @property
    def missing_decorator(self) -> str:
        return "@kernel or @device" if self.kernel is None else "@requires(...)"

    def __call__(self, *args: object, **keywords: object) -> None:
        raise TypeError(self._lacks)

    def __getattr__(self, name: str) -> object:
        """Return an attribute of a kernel: `k.cuda()`."""
        raise AttributeError(self.__dict__.get("__name__") and f"no `{name}`: {self._lacks}")

    @property
    def _lacks(self) -> str:
        example = ": `@kernel(threads=256)`, or both `@kernel` and `@requires(grid[1], block[1], thread[256])`"
        return f"`{self.__name__}` lacks {self.missing_decorator}{example if self.kernel else ''}"

    __getitem__ = __call__

    @property
    def _complete(self) -> str:
        if self.kernel is None:
            return "a Snap function has both: `@kernel` and `@requires(grid[1], block[1], thread[256])`"
        if self.kernel:
            return "`@kernel(threads=256)`; or both: `@kernel` and `@requires(grid[1], block[1], thread[256])`"
        return "say who calls it: `@device(thread)` each thread for itself, `@device(warp)` a warp; or `@requires(...)`"

    def unfinished(self) -> Diagnostic:
        code = self.python.__code__
        span = Span(code.co_filename, code.co_firstlineno, 0, code.co_firstlineno, 0)
        missing = "@kernel or @device" if self.kernel is None else "@requires(...)"
        return Diagnostic(
            "SNAP018",
            f"`{self.__name__}` lacks {missing}, and so is never checked",
            span,
            help=self._complete,
        )


def _completed(pending: Pending) -> Pending | SnapFunction | Refused:
    python, kernel, requires = pending.python, pending.kernel, pending.requires
    if kernel is None or requires is None:
        return pending
    try:
        with uncollected():
            return roomy(lambda: SnapFunction(define(python, kernel, requires), python))
    except SnapError as error:
        return _refused(error, pending)


def _refused(error: SnapError, function: object) -> Refused:
    """Raise an error without our own frames; or, if errors are collected, keep it: the function counts as refused."""
    errors = collected.get()
    if errors is None:
        raise error.without_frames() from None
    errors.append(error)
    return Refused(getattr(function, "__name__", "?"))


class Unreachable(Exception):
    """Stop the file: Python itself would fail on the signature next.  The cause is the rejection."""


def _reporting(decorator: Callable[..., Any]) -> Callable[..., Any]:
    """Make a decorator, or one with arguments, report refusals by `_refused`, also those of its arguments: if errors
    are collected, the rest of the file runs.
    """

    @functools.wraps(decorator)
    def called(*given: Any, **options: Any) -> Any:
        if given and isinstance(given[0], Refused):
            return given[0]
        if any(isinstance(one, Wrong) for one in given):
            return lambda function: Refused(getattr(function, "__name__", "?"))
        try:
            made = decorator(*given, **options)
        except Unreachable as stop:
            assert isinstance(stop.__cause__, SnapError)
            raise stop.__cause__.without_frames() from None
        except SnapError as error:
            if given and hasattr(given[0], "__code__") and not _is_lambda(given[0]):  # the function itself
                return _refused(error, given[0])
            refusal = error
            if collected.get() is None:
                raise error.without_frames() from None
            return lambda function: _refused(refusal, function)
        return _reporting(made) if type(made) is FunctionType else made

    return called


def define(python: Any, kernel: bool, requires: Requires) -> Definition:
    from snap._compiler.frontend.passes import READ, WRITE_OUT
    from snap._compiler.frontend.records import flattened, uses_records
    from snap._compiler.ir.passes import run

    read = run(READ, as_function(python))
    if requires.span is not None:  # the decorator itself says more than the line that called it
        requires = replace(requires, span=read.decorators.get(requires.word, requires.span))
    tree = replace(read.tree, params=_with_defaults(read.tree.params, python.__defaults__ or ()))
    check_blocks(requires, [p.name for p in tree.params])
    check_where(requires, kernel, [p.name for p in tree.params])
    made = run((WRITE_OUT,), replace(read, tree=tree))
    known = {name: found for name, found in made.names.items() if not isinstance(found, Refused)}
    if not uses_records(made.tree, known):
        return Definition(made.tree, kernel, requires, made.names, written=made.written)
    flat, records = flattened(made.tree, made.names, kernel)
    return Definition(flat, kernel, requires, made.names, written=made.written, records=records, uses_records=True)


def _with_defaults(params: tuple[Any, ...], values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Take defaults from what Python computed when the function was defined, not from their names at a later call."""
    from snap._compiler.frontend.tree import Known, Number

    made = list(params)
    for k, value in enumerate(values, len(params) - len(values)):
        if type(value) in (bool, int, float):
            made[k] = replace(params[k], default=Number(value, span=params[k].default.span))
        elif (type_given := element_of(value)) is not None:
            made[k] = replace(params[k], default=Known(type_given, str(type_given), span=params[k].default.span))
    return tuple(made)


def _kind(given: object) -> str:
    if _is_lambda(given):
        return "a lambda"
    return f"the class `{given.__name__}`" if isinstance(given, type) else f"`{type(given).__name__}`"


def _pending(function: object, span: Span, what: str) -> Pending:
    if isinstance(function, Pending):
        return function
    if isinstance(function, (SnapFunction, Refused)):
        raise SnapError(Diagnostic("SNAP018", f"{what} is given twice", span, help="leave one of them out"))
    if not callable(function) or not hasattr(function, "__code__") or _is_lambda(function):
        raise SnapError(
            Diagnostic(
                "SNAP018",
                f"{what} decorates a Python function, not {_kind(function)}",
                span,
                help=f"`@kernel(threads={function})`" if type(function) is int else "put it above a `def`",
            )
        )
    return Pending(function)


@_reporting
def ccuda(kind: str) -> Any:
    """Make a kernel, `@ccuda("global")`, or a device function, `@ccuda("device")`; stacks with `@requires` in either
    order.
    """
    span = caller_span()
    if kind not in ("global", "device"):
        raise SnapError(
            Diagnostic(
                "SNAP018",
                f'`ccuda` takes "global" or "device", not {kind!r}',
                span,
                help="`@kernel` and `@device` say the same",
            )
        )

    def decorate(function: object) -> object:
        pending = _pending(function, span, "`@kernel`" if kind == "global" else "`@device`")
        if pending.kernel is not None:
            raise SnapError(
                Diagnostic(
                    "SNAP018",
                    "a function is a kernel or a device function, once",
                    span,
                    help="leave one of `@kernel` and `@device` out",
                )
            )
        return _completed(Pending(pending.python, kind == "global", pending.requires))

    return decorate


LEVEL_WORDS = ("grid", "cluster", "block", "thread", "warp", "warpgroup")


def _check_signature(frame: FrameType) -> None:
    """Check the signature below a decorator before Python evaluates it."""
    if not frame.f_code.co_flags & future.annotations.compiler_flag:
        from snap._compiler.frontend.eager import check_signature

        try:
            check_signature(frame)
        except SnapError as error:
            raise Unreachable from error


def _no_option(word: str, given: dict[str, object], options: str, example: str, span: Span) -> None:
    """Refuse an option that the decorator does not have: `@requires(grid=1)`, `@kernel(thread=64)`."""
    for name, value in given.items():
        level = name if name in LEVEL_WORDS else name.removesuffix("s")
        if word != "kernel" and level in LEVEL_WORDS:
            help = f"privileges are written with brackets: `{level}[{value}]`; {example}"
        elif word == "kernel" and level == "thread":
            help = f"`@kernel(threads={value})`"
        elif word == "kernel" and level in LEVEL_WORDS:
            help = f"{example}; blocks are counted when it is launched: `k[blocks](...)`"
        else:
            help = f"it has {options}; {example}"
        raise SnapError(Diagnostic("SNAP018", f"`@{word}` has no option `{name}`", span, help=help))


@_reporting
def kernel(
    *functions: object,
    threads: int | Callable[..., int] | None = None,
    cluster: int | None = None,
    smem: int | None = None,
    cooperative: bool = False,
    resident: int | None = None,
    blocks: int | tuple[int, ...] | Fill | Callable[..., int | tuple[int, ...] | Fill] | None = None,
    where: Callable[..., object] | None = None,
    proved: bool = False,
    lean: bool = False,
    **unknown: object,
) -> Any:
    """Make a kernel: `@kernel(threads=256)` has 256 threads per block, and is the same as `@kernel` with
    `@requires(grid[1], block[1], thread[256])`.

    threads: a number, or a function of constexpr parameters.  cluster: blocks per cluster.  blocks: the blocks of
    a launch, or the shape of its grid, a function of the arguments by name; then `k(*args)` needs no count.  where:
    conditions on every launch, a function of the arguments by name.  proved: reject the kernel unless `k.prove()`
    proves it.  lean: leave out barriers that a proof shows to be unnecessary.  The others are those of `@requires`.
    """
    if functions:
        return ccuda("global")(*functions)
    options = "`threads=`, `cluster=`, `smem=`, `cooperative=`, `resident=`, `blocks=`, `where=`, `proved=` and `lean=`"
    _no_option("kernel", unknown, options, "`@kernel(threads=256)`", caller_span())
    _check_signature(caller())
    if threads is None:
        message = "`@kernel(...)` declares the number of threads per block"
        help = "`@kernel(threads=256)`; or `@kernel` alone, with `@requires(...)`"
        raise SnapError(Diagnostic("SNAP018", message, caller_span(), help=help))
    asked = {"resident": resident, "blocks": blocks, "where": settled(where)}
    asked |= {"proved": bool(proved), "lean": bool(lean)}
    return _short("kernel", _launched(threads, cluster), smem, cooperative, asked)


@_reporting
def device(
    *given: Any,
    smem: int | None = None,
    cooperative: bool = False,
    where: Callable[..., object] | None = None,
    ensures: Callable[..., object] | None = None,
    pairs: Callable[..., object] | None = None,
    calls: Callable[..., object] | None = None,
    **unknown: object,
) -> Any:
    """Make a device function: `@device(warp)` is one that a warp calls, the same as `@device` with
    `@requires(thread[32])`.  `cooperative=True`: for cooperative kernels.

    A contract, for proofs.  where: conditions on every call, a function of the arguments by name.  ensures: conditions
    at its return, on the arguments, `result`, and `old` arrays.  pairs: conditions on two threads of one call, a
    function of both: `lambda a, b: a.result != b.result`; calls: on two threads in two calls.
    """
    if len(given) == 1 and (
        isinstance(given[0], Pending) or hasattr(given[0], "__code__") and not _is_lambda(given[0])
    ):
        return ccuda("device")(*given)
    options = "`smem=`, `cooperative=`, `where=`, `ensures=`, `pairs=` and `calls=`"
    _no_option("device", unknown, options, "`@device(block[1], thread[128])`", caller_span())
    _check_signature(caller())
    if not given:
        message, help = "`@device(...)` says who calls it", "`@device(warp)`, `@device(block[1], thread[128])`"
        raise SnapError(Diagnostic("SNAP018", message, caller_span(), help=help))
    contract = {"where": where, "ensures": ensures, "pairs": pairs, "calls": calls}
    asked = {word: settled(one) for word, one in contract.items()}
    return _short("device", _privileges(given), smem, cooperative, asked)


@_reporting
def instruction(
    *given: Any,
    text: str | None = None,
    meaning: Callable[..., object] | None = None,
    writes: str | tuple[str, ...] = (),
    where: Callable[..., object] | None = None,
    ensures: Callable[..., object] | None = None,
    **unknown: object,
) -> Any:
    """Make an instruction of your own: `@instruction(warp, text="...")` is one that a warp executes together.

    text: CUDA text with a hole for each parameter, `{x}`, and for the result, `{result}`; without that one the text is
    an expression.  The body is its meaning, in Snap.  meaning: in place of a body, a function of NumPy arrays of
    (groups, lanes).  writes: the `ref` parameters that the text does not read.  where, ensures: a contract, as in
    `@device(...)`.  `snap.check_instruction(f)` compares the text with the meaning.
    """
    options = "`text=`, `meaning=`, `writes=`, `where=` and `ensures=`"
    _no_option("instruction", unknown, options, '`@instruction(warp, text="...")`', caller_span())
    _check_signature(caller())
    if not given or not isinstance(text, str) or meaning is not None and not callable(meaning):
        message = "`@instruction(...)` says who executes it, and its CUDA text"
        help = '`@instruction(warp, text="...")`; `meaning=` is a function of NumPy arrays'
        raise SnapError(Diagnostic("SNAP018", message, caller_span(), help=help))
    own = InstructionText(text, meaning, (writes,) if isinstance(writes, str) else tuple(writes))
    asked = {"where": settled(where), "ensures": settled(ensures), "instruction": own}
    return _short("instruction", _privileges(given), None, False, asked)


@_reporting
def inline(function: Any) -> Inlined:
    """`@inline`: a function without types whose statements are written out at the call, as if you wrote them there.

    It may open groups, take roles, declare shared memory and call whatever its caller may.  Its parameters are the
    call's arguments: memory, roles and pipelines as well as values; it does not assign them.  `x, y = f(...)` takes
    what its last statement returns.  With a `yield`, `for a, b in f(...):` and `with f(...) as (a, b):` put their
    bodies there.
    """
    from snap._compiler.frontend.parse import parse_inlined

    if not hasattr(function, "__code__"):
        message = f"`@inline` decorates a Python function, not {_kind(function)}"
        raise SnapError(Diagnostic("SNAP018", message, caller_span(), help="put it alone above a `def`"))
    return inlined(*parse_inlined(function), function)


def _is_lambda(given: object) -> bool:
    return getattr(given, "__name__", "") == "<lambda>"


def _privileges(given: tuple[Any, ...]) -> Any:
    """Return the privileges that a decorator received, or the function of constants that gives them."""
    return given[0] if _is_lambda(given[0]) else tuple(p[1] if isinstance(p, LevelName) else p for p in given)


def _short(
    word: str, privileges: Any, smem: int | None, cooperative: bool = False, asked: dict[str, Any] | None = None
) -> Any:
    """Apply both decorators at once.  asked: the options that only one of the two has."""
    span, asked = caller_span(), asked or {}
    _check_launch(smem, asked.get("resident"), span)
    needs = Requires(privileges, smem, bool(cooperative), span=span, word=word, **asked)

    def decorate(function: object) -> object:
        pending = _pending(function, span, f"`@{word}`")
        if pending.kernel is not None or pending.requires is not None:
            given = "@requires" if pending.requires is not None else "@kernel or @device"
            raise SnapError(
                Diagnostic(
                    "SNAP018", f"`@{word}(...)` says what `{given}` says again", span, help="leave one of the two out"
                )
            )
        return _completed(Pending(pending.python, word == "kernel", needs))

    return decorate


def _launched(threads: int | Callable[..., int], cluster: int | None) -> object:
    """Return the privileges of a kernel with that many threads per block and blocks per cluster."""

    def privileges(count: object) -> tuple[Privilege, ...]:
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            message = f"`threads` is a number of threads, 1 or more, not {count!r}"
            help = whole_help(count) or (several(count) if isinstance(count, (tuple, list)) else "")
            raise SnapError(Diagnostic("SNAP018", message, span, help=help or "`@kernel(threads=256)`"))
        clusters = () if cluster is None else (Privilege(Level.CLUSTER, 1),)
        blocks = Privilege(Level.BLOCK, 1 if cluster is None else cluster)
        return (Privilege(Level.GRID, 1), *clusters, blocks, Privilege(Level.THREAD, count))

    span = caller_span()
    if cluster is not None and (isinstance(cluster, bool) or not isinstance(cluster, int) or cluster < 1):
        message = f"`cluster` is a number of blocks, 1 or more, not {cluster!r}"
        help = whole_help(cluster) or "`@kernel(threads=256, cluster=2)`"
        raise SnapError(Diagnostic("SNAP018", message, span, help=help))
    if isinstance(threads, int) or not callable(threads):
        return privileges(threads)
    made: Callable[..., int] = threads
    return functools.wraps(made)(lambda **constexprs: privileges(made(**constexprs)))


@_reporting
def requires(
    *privileges: Any,
    smem: int | None = None,
    cooperative: bool = False,
    resident: int | None = None,
    blocks: int | tuple[int, ...] | Fill | Callable[..., int | tuple[int, ...] | Fill] | None = None,
    where: Callable[..., object] | None = None,
    proved: bool = False,
    lean: bool = False,
    ensures: Callable[..., object] | None = None,
    pairs: Callable[..., object] | None = None,
    calls: Callable[..., object] | None = None,
    **unknown: object,
) -> Any:
    """Declare the privileges (and shared memory) that a function must be given: `@requires(grid[1], block[1],
    thread[256])`.

    For a kernel also its launch: all blocks at once (`cooperative`), blocks per SM
    (`resident`); and `blocks`, `where`, `proved`, `lean` as in `@kernel(...)`.  For a device function a contract, as
    in `@device(...)`.
    """
    span = caller_span()
    options = (
        "`smem=`, `cooperative=`, `resident=`, `blocks=`, `where=`, `proved=`, `lean=`, `ensures=`, `pairs=`, `calls=`"
    )
    _no_option("requires", unknown, options, "`@requires(grid[1], block[1], thread[256])`", span)
    _check_signature(caller())
    _check_launch(smem, resident, span)
    given = _named(privileges, span)

    def decorate(function: object) -> object:
        pending = _pending(function, span, "`@requires`")
        if pending.requires is not None:
            help = "name all privileges in one `@requires(...)`"
            raise SnapError(Diagnostic("SNAP018", "`@requires` is given twice", span, help=help))
        contract = {"ensures": settled(ensures), "pairs": settled(pairs), "calls": settled(calls)}
        asked = {"blocks": blocks, "where": settled(where), "proved": bool(proved), "lean": bool(lean), **contract}
        needs = Requires(given, smem, bool(cooperative), resident, span, **cast(Any, asked))
        return _completed(Pending(pending.python, pending.kernel, needs))

    return decorate


def _named(privileges: tuple[Any, ...], span: Span) -> Any:
    """Return the privileges that `@requires` received, or the function of a generic kernel's constants."""
    one = privileges[0] if len(privileges) == 1 else None
    function = hasattr(one, "__code__")
    if not privileges or isinstance(one, Pending) or (function and not _is_lambda(one)):
        help = "`@requires(grid[1], block[1], thread[256])`"
        raise SnapError(Diagnostic("SNAP018", "`@requires` names no privilege", span, help=help))
    return one if function else privileges


def _check_launch(smem: object, resident: object, span: Span) -> None:
    if resident is not None and (isinstance(resident, bool) or not isinstance(resident, int) or resident < 1):
        raise SnapError(
            Diagnostic(
                "SNAP018",
                f"`resident` is a number of blocks, 1 or more, not {resident!r}",
                span,
                help=whole_help(resident) or "`resident=2`: registers are limited so that two blocks fit on an SM",
            )
        )
    if smem is not None and (isinstance(smem, bool) or not isinstance(smem, int) or smem < 0):
        message = f"`smem` is a number of bytes, not {smem!r}"
        raise SnapError(Diagnostic("SNAP018", message, span, help=whole_help(smem)))


@contextlib.contextmanager
def collecting() -> Iterator[list[SnapError]]:
    """Collect the SnapErrors of the decorators inside in a list instead of raising them."""
    errors: list[SnapError] = []
    token = collected.set(errors)
    try:
        yield errors
    finally:
        collected.reset(token)


def check(function: object, *privileges: Any, kind: str = "global") -> list[SnapError]:
    """Return all errors of a function; none if it is legal.  Without decorators it is checked as a kernel of
    `privileges`.
    """
    from snap._compiler.check import constexpr_names

    if isinstance(function, SnapFunction):
        return []
    pending = function if isinstance(function, Pending) else Pending(function)
    needs = pending.requires or Requires(tuple(privileges) or UNDECORATED)
    try:
        definition = define(pending.python, kind == "global" if pending.kernel is None else pending.kernel, needs)
        if not constexpr_names(definition):
            Compiled(definition, {}).checked()
    except SnapError as error:
        return error.all
    return []
