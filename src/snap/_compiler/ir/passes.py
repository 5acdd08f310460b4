"""A pass: one step from program to program, and the way in which steps are run.

Input:      a list of passes, and what the first of them takes
Output:     what the last of them gives
Invariant:  what one pass gives, the next one takes; a pass changes nothing in place
Non-goals:  what a pass does.  Each stage of the compiler has its own list; `_compiler/passes.py` puts them together
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from snap._compiler.ir.numbering import Numbers
from snap._compiler.ir.synced import Stage
from snap.record import record


@record
class Pass:
    """One step from program to program.

    stage    how far the program has come, where it is IR: what its invariants depend on
    run      makes the program, given the source of numbers for new statements
    refuses  the codes with which it may refuse a program
    """

    name: str
    does: str
    takes: type
    gives: type
    stage: Stage | None
    run: Callable[[Any, Numbers], Any]
    refuses: tuple[str, ...] = ()


OnPass = Callable[[Pass, Any], None]


def run(passes: Iterable[Pass], program: Any, *seen: OnPass) -> Any:
    """Run the passes.  `seen` are shown the program after each."""
    numbers = Numbers()
    for one in passes:
        program = one.run(program, numbers)
        for look in seen:
            look(one, program)
    return program
