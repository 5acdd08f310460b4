"""All passes of the compiler, from a Python function to CUDA, in the order in which they run.

Input:      a Python function, and values for its constexpr parameters
Output:     the list, and the program as text after each pass that changed it
Invariant:  whoever runs a stage runs its part of this list: a decorator the front end's, `compiled.py` the checker's,
            `synchronize` and `emit` theirs.  What one pass gives, the next one takes; but between the front end and the
            checker, `decorators.py` adds to the tree what the decorators say, and constexpr values come in
Non-goals:  what a pass does
"""

from __future__ import annotations

from typing import Any

from snap._compiler import check, codegen, sync
from snap._compiler.frontend import passes as frontend
from snap._compiler.frontend import tree
from snap._compiler.frontend.printer import function_text
from snap._compiler.frontend.source import as_function
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.passes import Pass, run
from snap._compiler.ir.printer import text

PASSES = (*frontend.PASSES, *check.PASSES, *sync.PASSES, *codegen.PASSES)


def shown(program: Any) -> str:
    """Print what a pass gives; nothing for what has no text of its own."""
    match program:
        case frontend.ParsedFunction(tree=tree.Function() as function) | frontend.WrittenOut(tree=function):
            return function_text(function, "", {})
        case ir.AnyFunction() | sync.Pipelined() | sync.Planned():
            return text(sync.function_of(program))
        case codegen.CudaModule():
            return program.text
        case _:
            return ""


def walk(python: object, typed: ir.Function) -> list[tuple[str, str, str]]:
    """Run the passes, and list those that changed the program: name, what it does, the program as text.

    python  the function as it was decorated
    typed   what the checker has made of it; a device function is no CUDA by itself
    """
    found: list[tuple[str, str, str]] = []

    def seen(one: Pass, program: Any) -> None:
        made = shown(program)
        if made and (not found or found[-1][2] != made):
            found.append((one.name, one.does, made))

    run(frontend.PASSES, as_function(python), seen)
    for one in check.PASSES:
        seen(one, typed)
    synced = sync.synchronize(typed, seen)
    if typed.kernel:
        codegen.emit(synced, seen)
    return found
