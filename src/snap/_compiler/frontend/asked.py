"""Read the functions that decorators are given: `blocks=`, `where=` and contracts.

Input: what a decorator was given, and the parameters of its function.  Output: nothing, or a SnapError.  Invariant:
what is asked for by name is there.  Non-goals: what the functions say (check/functions/contracts.py, walk/where.py).
"""

from __future__ import annotations

from snap._compiler.frontend.definition import Requires
from snap.diag.error import Diagnostic, SnapError
from snap.diag.span import Span
from snap.targets import Fill


def check_blocks(requires: Requires, names: list[str]) -> None:
    """`blocks=` of a decorator is a number, a tuple of them, `fill()`, or a function of parameters by name."""
    blocks, span = requires.blocks, requires.span
    if blocks is None or span is None:
        return
    help = "`blocks=lambda n: -(-n // 256)`, or `blocks=lambda M, N: (M // 16, N // 16)`"
    if isinstance(blocks, bool) or not (callable(blocks) or isinstance(blocks, (int, tuple, Fill))):
        message = f"`blocks` is a number of blocks, or a function of the arguments by name, not {blocks!r}"
        raise SnapError(Diagnostic("SNAP018", message, span, help=help))
    _check_asked("blocks", blocks, names, span, help)


def _check_asked(word: str, function: object, names: list[str], span: Span, help: str, of: str = "kernel") -> None:
    """A function of a decorator's asks for parameters by name."""
    code = getattr(function, "__code__", None)
    asked = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount] if code is not None else ()
    for name in asked[: len(asked) - len(getattr(function, "__defaults__", None) or ())]:
        if name not in names:
            known = f"ask by its names: {', '.join(f'`{n}`' for n in names)}" if names else help
            message = f"`{word}` asks for `{name}`, and the {of} has no parameter of that name"
            raise SnapError(Diagnostic("SNAP018", message, span, help=known))


def check_where(requires: Requires, kernel: bool, names: list[str]) -> None:
    """`where=` of a decorator is a function of parameters by name, of `blocks`, and of `grid`; contracts are for device
    functions, what they name is looked at in check/functions/contracts.py.
    """
    span = requires.span
    if span is None:
        return
    if not kernel and (requires.proved or requires.lean):
        word = "proved" if requires.proved else "lean"
        message = f"`{word}=` is for kernels: what they call is proved with them"
        raise SnapError(Diagnostic("SNAP018", message, span, help=f"`{word}=True` of a kernel that calls it"))
    for word in ("where", "ensures", "pairs", "calls"):
        given = getattr(requires, word)
        if given is not None and not hasattr(given, "__code__"):
            message = f"`{word}` is a function of the arguments by name, not {given!r}"
            raise SnapError(Diagnostic("SNAP018", message, span, help=f"`{word}={EXAMPLES[word]}`"))
        if given is not None and word != "where" and kernel:
            message = f"`{word}=` is for device functions: a kernel returns nothing"
            raise SnapError(Diagnostic("SNAP018", message, span, help="`where=` says what a launch keeps"))
    if requires.where is not None:
        known = [*names, "blocks", "grid"] if kernel else [*names, "threads"]
        of = "kernel" if kernel else "function"
        _check_asked("where", requires.where, known, span, f"`where={EXAMPLES['where']}`", of)
    if requires.ensures is not None:
        _check_asked("ensures", requires.ensures, [*names, "result", "old", "id", "threads"], span, "", "function")


EXAMPLES = {
    "where": "lambda n, x, blocks: (n % 256 == 0, len(x) >= n)",
    "ensures": "lambda n, result: 0 <= result < n",
    "pairs": "lambda a, b: a.result != b.result",
    "calls": "lambda a, b: a.result != b.result",
}
