"""Hold what the checker knows at a point of the program: bindings, the place, what encloses it, and the errors so far.

Input: a `Definition` and the place that it starts in. Output: statements, errors and warnings. Invariant: what a `with`
of the checker opens is closed as it was. Non-goals: the rules.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from functools import cached_property
from operator import attrgetter
from typing import Any

from snap._compiler.analysis.syntactic import Text
from snap._compiler.check.core.bindings import Binding, SplitBranch, Variable, declared_at
from snap._compiler.check.core.records import RecordName, RecordType
from snap._compiler.frontend import tree
from snap._compiler.frontend.changes import reassigned_names
from snap._compiler.frontend.definition import Definition
from snap._compiler.frontend.inlined import calls_around
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.hardware import WIDEST
from snap._compiler.ir.types import THREAD1, Element, Level, Place, Privilege, ValueType
from snap.diag.error import Diagnostic, Label
from snap.diag.span import Span
from snap.record import record

FREE_BYTES = 16  # of shared memory, a thread
Labels = tuple[Label, ...]


class Abort(Exception):
    """The statement being checked is wrong and has been reported; go on with the next."""


class NotOpened(Abort):
    """The scope is refused, but its body is still worth checking: at the place that was asked for, with the name it
    would have bound out of reach.
    """

    def __init__(self, place: Place | None = None):
        self.place = place


class WriteOut(Exception):
    """The variables of these loops must be constants: the function is checked anew, with the loops written out,
    iteration by iteration.
    """

    def __init__(self, loops: frozenset[Span]):
        self.loops = loops  # by the places of their variables


class ConstructKind(Enum):
    """Name the constructs that can be around code."""

    FUNCTION = auto()
    LOOP = auto()
    COPY = auto()  # one iteration of a loop over constants, which is written out
    IF = auto()
    CONDITIONAL = auto()  # an expression that is not always evaluated: an operand of `and` or `or`, a side of `if-else`
    GROUP = auto()
    SPLIT = auto()  # one case of it
    MEMORY = auto()  # a partition, a claim or a stage
    TURN = auto()


HOLDERS = (ConstructKind.GROUP, ConstructKind.SPLIT, ConstructKind.FUNCTION)  # of the threads of the code inside


@dataclass(slots=True, eq=False)
class Construct:
    """One enclosing construct."""

    kind: ConstructKind
    span: Span
    text: str
    place: Place  # of the code inside
    branch: SplitBranch | None = None
    decides: tuple[ir.Expr, ...] = ()  # of a loop or `if`: what is evaluated to decide
    var: ir.Var | None = None  # of a `for`: its variable
    unrolled: bool = False  # of a `for`: it will be, if it indexes registers
    left_early: bool = False  # of a loop: its body has a `break` or `continue`
    over_constants: bool = False  # of a `for`: `unroll(range(...))` with constant bounds
    iteration: str = ""  # of a copy: what its variable is in this iteration
    left: str = ""  # of a copy: the `break` or `continue` that has ended it
    barrier: int = 0  # of a holder: the number of its barrier in two parts, once it is asked for


@record
class Want:
    """For whom an expression is evaluated: every leaf must be at `privilege` or above; `why` finishes the sentence
    under the caret.
    """

    privilege: Privilege
    why: str
    head: Span | None = None
    code: str = "SNAP006"
    control: bool = False  # it decides control flow
    implied: bool = False  # the privilege is the code's own because none was written
    agree: bool = False  # it has no destination that could be lowered: the group needs one value
    way_out: str = ""  # what to do where a leaf is lower, if that is known here


PER_THREAD = Want(THREAD1, "is one thread's own value")


@dataclass(slots=True, eq=False)
class StableRead:
    """A read for a target above thread[1]: wrong if the object is touched by atomics or unsafe anywhere in the kernel,
    or if another unit may write the element.  handle: the name here, through which it is read; access: the read itself,
    maybe in a function that is called.
    """

    handle: ir.Handle
    access: ir.MemAccess
    span: Span
    want: Want


@dataclass(slots=True, eq=False)
class ObjectUse:
    """An atomic or unsafe use of an object."""

    obj: ir.MemObject
    what: str
    span: Span


@dataclass(frozen=True, eq=False, slots=True)
class Instance:
    """An elaborated function with what its callers must know about it."""

    function: ir.Function
    touches: tuple[ObjectUse, ...]
    stable_reads: tuple[StableRead, ...]
    smem_align: int = WIDEST


# Programs share the functions they call, so what is numbered has a number of its own in all of them.
_numbers = itertools.count(1)


class Elaboration:
    """Shared by a function and all it calls: the stack of calls being elaborated."""

    def __init__(self) -> None:
        self.active: list[Definition] = []

    def uid(self) -> int:
        return next(_numbers)


class Checker:
    """The checker of one function body."""

    def __init__(self, definition: Definition, program: Elaboration, place: Place):
        self.definition = definition
        self.names = dict(definition.names)
        self.program = program
        self.place = place
        self.errors: list[Diagnostic] = []
        self.warnings: list[Diagnostic] = []
        self.quotients: dict[
            Span, Span
        ] = {}  # of integers, that may drop a fraction: where one is, and a number made of it
        self.untyped: set[int] = set()  # variables whose declaration says no type
        # Whether the function, or one that it calls, moves boxes; None: nobody has asked yet.
        self.scopes: list[dict[str, Binding]] = [{}]
        self.local: set[str] = set()  # names that were bound in a scope, whether it has ended or not: few of those used
        self.ended: dict[str, Span] = {}  # names of scopes that ended, for the error when they are used after all
        self.constructs: list[Construct] = [
            Construct(ConstructKind.FUNCTION, definition.tree.head, definition.tree.name, place)
        ]
        self.out: list[ir.Stmt] = []
        self.returns: tuple[Element, Privilege] | None = None
        self.smem_used = 0
        self.smem_left = (0, 0)  # what was held last and is given back: from .. to
        self.smem_peak = 0
        self.smem_peak_span = definition.tree.head
        self.smem_align = WIDEST
        self.smem_at_launch = ir.AT_LAUNCH  # where the next array begins whose size a launch decides
        self.given: set[int] = set()  # the kernel's own parameters
        self.unknown_layout: set[int] = set()  # objects of pointer parameters, while no call says what they are
        self.own_ranks: set[int] = set()  # variables that hold the rank of the thread's own block in its cluster
        declared: dict[int, tuple[ir.Expr, ...]] = {}  # variables that keep their first value, and what it is
        ranges: dict[int, tuple[ir.Expr, ...]] = {}  # loop variables, and what their values come from
        self.declared, self.ranges = declared, ranges
        self.firsts: dict[int, ir.Expr] = {}  # floats and bools that keep their first value, and what it is
        self.written_out: frozenset[Span] = frozenset()  # loops that are written out, by their variables' places
        self.copies = 0  # iterations that have been written out
        self.skips = False  # what follows in this body is not reached: a `break` that constants decide
        self.least: Callable[[], dict[str, int]] = dict  # by name: what numbers that are given are never below
        self.text = Text(lambda var: ranges.get(var.uid) or declared.get(var.uid), proofs=False, least=self._least)
        self.cooperative = False
        self.uses_unsafe = False
        self.touches: list[ObjectUse] = []
        self.stable_reads: list[StableRead] = []
        self.expansions: dict[int, tree.Body] = {}  # what short forms stand for
        # The indices of units that a body (a list of statements) has declared: a later `each` in it uses them again.
        self.indices: dict[int, tuple[list[ir.Stmt], dict[tuple, Variable]]] = {}
        self.grid_extents: dict[int, ir.Var] = {}  # of a kernel: the extents of its grid that it asks for, by dimension
        self.trusted: list[tuple[Span, str]] = []  # scopes of `trust`, with the reason
        self.handed_out: set[int] = set()  # the partitions that `each` and roles made
        self.entered: dict[Span, Span] = {}  # by the text of an inlined function, the call that it stands for now
        self.records = definition.uses_records  # whether there may be any: else nothing looks for them
        self.record_result: Privilege | None = None  # for whom a result is that is a record
        self.called_record: RecordName | None = None  # what the last call returned
        self.record_types: dict[object, RecordType] = {}
        self.no_calls = ""  # names what is being checked where calls and memory reads may not stand
        self.index_privilege: Privilege | None = None  # inside an index function: the privilege it lowers to

    # -- errors

    def report(
        self,
        code: str,
        message: str,
        span: Span,
        label: str = "",
        secondary: Labels = (),
        note: str = "",
        help: str = "",
    ) -> None:
        self.errors.append(Diagnostic(code, message, span, label, (*secondary, *self._around(span)), note, help))

    def warn(
        self,
        code: str,
        message: str,
        span: Span,
        label: str = "",
        secondary: Labels = (),
        note: str = "",
        help: str = "",
    ) -> None:
        self.warnings.append(Diagnostic(code, message, span, label, (*secondary, *self._around(span)), note, help))

    def _around(self, span: Span) -> Labels:
        """Label the calls and the iterations of loops that have brought a statement to where it stands."""
        called = calls_around(self.definition.written, span, self.entered)[:5]
        copies = (Label(one.span, f"in the iteration with {one.iteration}") for one in self.constructs if one.iteration)
        return *called, *(copies if self.copies else ())

    def fail(
        self,
        code: str,
        message: str,
        span: Span,
        label: str = "",
        secondary: Labels = (),
        note: str = "",
        help: str = "",
    ) -> Abort:
        """Reports it, and gives what is raised then: it ends the statement."""
        self.report(code, message, span, label, secondary, note, help)
        return Abort()

    def type_error(
        self, message: str, span: Span, label: str = "", secondary: Labels = (), note: str = "", help: str = ""
    ) -> Abort:
        """SNAP018, by far the most frequent code."""
        return self.fail("SNAP018", message, span, label, secondary, note, help)

    def not_opened(
        self,
        code: str,
        message: str,
        span: Span,
        label: str = "",
        secondary: Labels = (),
        note: str = "",
        help: str = "",
        place: Place | None = None,
    ) -> NotOpened:
        """The same for a scope whose body is checked all the same."""
        self.report(code, message, span, label, secondary, note, help)
        return NotOpened(place)

    @property
    def holding(self) -> Label:
        """Point to the construct that says what the code here holds."""
        return Label(self.holder.span, f"this code holds {self.place}")

    def effects_allowed(self, what: str, span: Span) -> None:
        if self.no_calls:
            raise self.type_error(
                f"{self.no_calls} cannot contain {what}", span, help="compute it before, and use the variable there"
            )

    @cached_property
    def assigned(self) -> set[str]:
        """The names that the function may give another value than their first."""
        function = self.definition.tree
        return set(reassigned_names(function.body, {parameter.name for parameter in function.params}))

    def _least(self, var: ir.Var) -> int | None:
        return self._lows.get(var.name) if var.uid in self.given and var.name not in self.assigned else None

    @cached_property
    def _lows(self) -> dict[str, int]:
        """Found out when somebody asks: mostly nobody does."""
        return self.least()

    def enter(self, span: Span) -> None:
        """From here on stand the statements of what is called there, if it is an inlined function."""
        for w in self.definition.written:
            if w.call.filename == span.filename and span.line <= w.call.line <= span.end_line and not w.holds(span):
                if w.call == span or span.line < w.call.line or span.column <= w.call.column:
                    self.entered[w.text] = w.call
                    return

    def expanded(self, s: tree.Stmt, made: tree.Body) -> tree.Body:
        """Keep what a short form stands for, by the identity of its node."""
        self.expansions[id(s)] = made
        return made

    def poisoned(self) -> Abort:
        """A use of a name whose declaration was already reported."""
        return Abort()

    # -- names

    def lookup(self, name: str) -> Binding | None:
        if name not in self.local:
            return None
        for scope in reversed(self.scopes):
            found = scope.get(name)
            if found is not None:
                return found
        return None

    def variable(self, name: str) -> ir.Var:
        """The variable of a name that is known to be one."""
        found = self.lookup(name)
        if not isinstance(found, Variable):
            raise KeyError(name)
        return found.var

    def bind(self, name: str, binding: Binding) -> None:
        self.scopes[-1][name] = binding
        self.local.add(name)

    def var(self, name: str, type: ValueType, privilege: Privilege, span: Span, temp: bool = False) -> ir.Var:
        return ir.Var(self.program.uid(), name, type, privilege, temp, span=span)

    def temp(self, name: str, type: ValueType, privilege: Privilege, span: Span) -> ir.Var:
        return self.var(name, type, privilege, span, temp=True)

    def remembered(self, name: str, value: ir.Expr, privilege: Privilege, span: Span | None = None) -> ir.Read:
        """A temporary that holds the value which the expression has here."""
        var = self.temp(name, value.type, privilege, span or value.span)
        self.out.append(ir.Declare(var, value, span=span or value.span))
        return ir.Read(var, value.type, span=span or value.span)

    def result(self, name: str, type: ValueType, privilege: Privilege, span: Span) -> tuple[ir.VarTarget, ir.Read]:
        """A temporary that a statement delivers into, and its value."""
        var = self.temp(name, type, privilege, span)
        self.out.append(ir.Declare(var, None, span=span))
        return ir.VarTarget(var, span=span), ir.Read(var, type, span=span)

    def trial(self) -> Attempt:
        """Try something: where it fails, its errors, its statements and the memory it held are forgotten.  Gives a
        list that is non-empty afterwards iff it worked.
        """
        return Attempt(self)

    # -- nesting

    def block(self) -> LexicalBlock:
        """A lexical block: names and shared memory declared in it end with it.  Gives the list its statements go to."""
        return LexicalBlock(self)

    def construct(
        self, kind: ConstructKind, span: Span, text: str, branch: SplitBranch | None = None, **known: Any
    ) -> InConstruct:
        return InConstruct(self, Construct(kind, span, text, self.place, branch, **known))

    def at(self, place: Place) -> AtPlace:
        return AtPlace(self, place)

    @property
    def privilege(self) -> Privilege:
        return self.place.privilege

    # Bytes that were given back a moment ago may still be read by other threads, and would cost a barrier before they
    # are written again: two reductions in a row take turns between two places, where there is room.
    def room(self, bytes: int, align: int) -> int:
        """Find where that many bytes of shared memory begin."""
        after = lambda held: (held + align - 1) // align * align  # noqa: E731
        first, (low, high) = after(self.smem_used), self.smem_left
        beside = after(max(self.smem_used, high))
        return beside if first < high and low < first + bytes and beside + bytes <= self._spare() else first

    def _spare(self) -> int:
        """Up to where more may be held than has to be: what the kernel declares, or 16 bytes a thread, which every GPU
        has for all the threads that it runs at a time.  A device function holds as little as it can: how much there is,
        its callers say.
        """
        if not self.definition.kernel:
            return 0
        declared, threads = self.definition.requires.smem, self.constructs[0].place[Level.THREAD]
        return declared if declared is not None else FREE_BYTES * (threads.count or 0)

    def account(self, bytes: int, span: Span) -> None:
        """So many bytes of shared memory are held at this point."""
        if bytes > self.smem_peak:
            self.smem_peak, self.smem_peak_span = bytes, span

    def innermost(self, *kinds: ConstructKind) -> Construct | None:
        for construct in reversed(self.constructs):
            if construct.kind in kinds:
                return construct
        return None

    @property
    def holder(self) -> Construct:
        """Find what says which threads the code holds: the innermost group or case of a split, or the function."""
        return next(construct for construct in reversed(self.constructs) if construct.kind in HOLDERS)

    def branches(self) -> list[SplitBranch]:
        return [construct.branch for construct in self.constructs if construct.branch is not None]


# ---- what a `with` statement of the checker opens: classes, since generators take three times as long ---------------


class Attempt:
    MEMORY = ("smem_used", "smem_left", "smem_peak", "smem_peak_span", "smem_align", "smem_at_launch")
    _memory = attrgetter(*MEMORY)

    def __init__(self, c: Checker):
        self.c = c

    def __enter__(self) -> list[bool]:
        c = self.c
        self.marks = [(kept, len(kept)) for kept in (c.errors, c.out, c.touches, c.stable_reads)]
        self.memory = Attempt._memory(c)
        self.worked: list[bool] = []
        return self.worked

    def __exit__(self, kind: type | None, error: object, trace: object) -> bool:
        if kind is None:
            self.worked.append(True)
            return False
        if not issubclass(kind, Abort):
            return False
        for kept, length in self.marks:
            del kept[length:]
        for name, value in zip(self.MEMORY, self.memory):
            setattr(self.c, name, value)
        return True


class LexicalBlock:
    def __init__(self, c: Checker):
        self.c = c

    def __enter__(self) -> list[ir.Stmt]:
        c = self.c
        self.outer, self.used = c.out, c.smem_used
        c.out = []
        c.scopes.append({})
        return c.out

    def __exit__(self, *_: object) -> None:
        c, used = self.c, self.used
        for name, binding in c.scopes.pop().items():
            if (span := declared_at(binding)) is not None:
                c.ended[name] = span
        if c.smem_used > used:
            c.smem_left = (used, max(c.smem_used, c.smem_left[1] if c.smem_left[0] >= used else 0))
        c.smem_used, c.out = used, self.outer


class InConstruct:
    def __init__(self, c: Checker, construct: Construct):
        self.constructs, self.construct = c.constructs, construct

    def __enter__(self) -> Construct:
        self.constructs.append(self.construct)
        return self.construct

    def __exit__(self, *_: object) -> None:
        self.constructs.pop()


class AtPlace:
    def __init__(self, c: Checker, place: Place):
        self.c, self.place = c, place

    def __enter__(self) -> None:
        self.outer, self.c.place = self.c.place, self.place

    def __exit__(self, *_: object) -> None:
        self.c.place = self.outer
