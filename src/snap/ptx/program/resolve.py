"""From a tree to what the machine runs: names are looked up, and everything has its place.

Input: a module.  Output: a program: one list of instructions, whose places in it are their addresses; the registers of
each function, numbered; where variables lie in their state spaces.  Names are looked up as PTX hides them: a label
belongs to its whole block, a variable is seen from its declaration on (Habermaier, listing 5.4).  Invariant: no name is
left.  PTX003 for names that are unknown, or declared twice in one block.  Non-goals: what instructions do.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from snap.diag.span import Span
from snap.ptx.errors import PtxError
from snap.ptx.program import jumps
from snap.ptx.program.callgraph import recursive
from snap.ptx.program.operands import (
    Address,
    Both,
    Code,
    Constant,
    Negated,
    Operand,
    Outside,
    Place,
    Register,
    Several,
    Sink,
    Special,
    both,
    listed,
)
from snap.ptx.program.special import SPECIAL
from snap.ptx.text import tree
from snap.ptx.text.inlined import Chain, Sites
from snap.ptx.text.operand_types import checked
from snap.record import record

BYTES = {"pred": 1, "b128": 16} | {f"{kind}{bits}": bits // 8 for kind in "bsuf" for bits in (8, 16, 32, 64)}
BYTES |= {"bf16": 2, "f16x2": 4, "bf16x2": 4, "tf32": 4, "texref": 8, "samplerref": 8, "surfref": 8}
LANES = {"": 1, "v2": 2, "v4": 4, "v8": 8}
__all__ = [
    "BYTES",
    "Both",
    "Code",
    "Constant",
    "Address",
    "Negated",
    "Operand",
    "Outside",
    "Place",
    "Register",
    "Several",
    "Sink",
    "Special",
    "both",
    "listed",
    "Function",
    "Instruction",
    "Program",
    "resolved",
    "size_of",
]
MANY, ROOM = 1 << 20, 1 << 28  # registers of one declaration, bytes of a variable
FRAME, STACK = 16, 8192  # bytes: frames are multiples; what a thread has for functions that call themselves
ELEMENTS = (("x", "y", "z", "w"), ("r", "g", "b", "a"))  # of a vector
BUILT_IN = ("vprintf", "__assertfail")  # functions that the driver has


@record
class Instruction:
    """parts: the operation's words; guard: a predicate's register, or None; line: of the source (inlined.py)."""

    parts: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: Register | None
    negated: bool
    function: int
    span: Span
    line: Chain | None

    @property
    def name(self) -> str:
        return ".".join(self.parts)

    @property
    def aligned(self) -> bool:
        """Test whether whole warps execute it; `bar.sync` is `barrier.sync.aligned`."""
        return "aligned" in self.parts or self.parts[0] == "bar" and self.parts[1:2] != ("warp",)


@dataclass(slots=True)
class Function:
    """One with a body.

    start, end   its instructions; the last one leaves it
    registers    the types of its registers
    parameters   each with its offset: a kernel's in the memory of parameters, others in local memory or their frame
    named        its registers by name: one for each block that declares the name
    recursive    it may be entered again before it has ended: it has a frame of so many bytes each time
    """

    number: int
    name: str
    entry: bool
    start: int
    directives: tuple[tree.Directive, ...]
    end: int = 0
    registers: list[str] = field(default_factory=list)
    parameters: list[tuple[tree.Variable, int]] = field(default_factory=list)
    results: list[tuple[tree.Variable, int]] = field(default_factory=list)
    parameter_bytes: int = 0
    recursive: bool = False
    frame: int = 0
    named: dict[str, list[Operand]] = field(default_factory=dict)

    def limits(self, name: str) -> tuple[int, ...]:
        """The numbers of `.maxntid` and its like."""
        words = next((d.words for d in self.directives if d.name == name), ())
        return tuple(int(w) for w in words if w.isdecimal())


@record
class SharedVariable:
    """A variable in shared memory: where it begins, its size (None: what a launch gives), and the function in whose
    body it is declared, or None.
    """

    name: str
    start: int
    size: int | None
    align: int
    function: int | None


@dataclass(slots=True)
class Program:
    """globals: what lies in global and constant memory, as (variable, offset); dynamic: where shared memory that is
    given at launch begins, or None; stack_at: where in local memory frames begin; shared: all of the module's variables
    there, one behind the other, of which a kernel has some (layout.py).
    """

    instructions: list[Instruction]
    functions: dict[str, Function]
    globals: list[tuple[tree.Variable, int]]
    places: dict[str, Place]
    global_bytes: int
    shared_bytes: int
    local_bytes: int
    dynamic: int | None
    files: dict[int, str]
    stack_at: int = 0
    shared: tuple[SharedVariable, ...] = ()


def resolved(module: tree.Module) -> Program:
    """Look up every name of a module."""
    return _Loader(module).program()


def size_of(v: tree.Variable) -> int:
    """Bytes; of an extent that is not said, none."""
    size = BYTES[v.type] * LANES[v.vector]
    for n in v.dims:
        size *= n or 0
    return size


def _aligned(offset: int, v: tree.Variable) -> int:
    align = v.align or BYTES[v.type] * LANES[v.vector]
    return -(-offset // align) * align


@dataclass(slots=True)
class _Scope:
    labels: dict[str, int | None]
    names: dict[str, Operand]
    outer: _Scope | None

    def find(self, name: str) -> Operand | None:
        scope: _Scope | None = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            scope = scope.outer
        return None

    def label(self, name: str) -> _Scope | None:
        scope: _Scope | None = self
        while scope is not None and name not in scope.labels:
            scope = scope.outer
        return scope

    def is_label(self, name: str) -> bool:
        return self.find(name) is None and self.label(name) is not None

    def table(self, name: str) -> str:
        """Return what a table holds: labels, or functions, as a prototype does; nothing if it is not a table."""
        found = self.find(name)
        codes = [item.name for item in found.items if isinstance(item, Code)] if isinstance(found, Several) else [""]
        labels = "labels" if any(map(self.is_label, codes)) else "functions"
        return labels if isinstance(found, Several) and len(codes) == len(found.items) else ""


class _Loader:
    def __init__(self, module: tree.Module):
        self.module, self.recursive = module, recursive(module)
        self.instructions: list[Instruction] = []
        self.functions: dict[str, Function] = {}
        self.variables: list[tuple[tree.Variable, int]] = []
        self.names: dict[str, Operand] = {}
        self.bytes = {"global": 0, "shared": 0, "local": 0}
        self.dynamic: int | None = None  # first the alignment of shared memory that is given at launch, then its start
        self.files: dict[int, str] = {}
        self.line: Chain | None = None  # the source line of the instructions that follow
        self.sites = Sites()
        self.shared: list[SharedVariable] = []
        self.open: list[tuple[int, _Scope, tree.Instruction]] = []  # instructions whose labels are not known yet

    def program(self) -> Program:
        number = 0
        for item in self.module.items:
            match item:
                case tree.Variable():
                    self.names[item.name] = self._static(item)
                case tree.Function() if item.body is not None:
                    self.names[item.name] = Code(-1, item.name)
                case tree.Function() if item.name in BUILT_IN:
                    self.names[item.name] = Outside(item.name)
                case tree.Directive("file", words) if len(words) > 1 and words[0].isdecimal():
                    self.files[int(words[0])] = words[1].strip('"')
        for item in self.module.items:
            if isinstance(item, tree.Function) and item.body is not None:
                if item.name in self.functions:
                    raise PtxError("PTX003", f"`{item.name}` has two bodies", item.span, "the second is here")
                self._function(item, item.body, number)
                number += 1
        self._calls()
        places = {name: place for name, place in self.names.items() if isinstance(place, Place)}
        stack_at = -(-self.bytes["local"] // FRAME) * FRAME
        if any(f.recursive for f in self.functions.values()):
            self.bytes["local"] = stack_at + STACK
        return Program(
            self.instructions,
            self.functions,
            self.variables,
            places,
            self.bytes["global"],
            self.bytes["shared"],
            self.bytes["local"],
            self.dynamic,
            self.files,
            stack_at,
            tuple(self.shared),
        )

    # ---- variables --------------------------------------------------------------------------------------------------

    def _static(self, v: tree.Variable, function: int | None = None) -> Place:
        """One that there is once: in global and constant memory for all, in shared memory for a block."""
        if v.space == "shared":
            offset, align = _aligned(self.bytes["shared"], v), v.align or BYTES[v.type] * LANES[v.vector]
            if v.dims == (None,):
                self.dynamic = max(self.dynamic or 0, align)
                self.shared.append(SharedVariable(v.name, 0, None, align, function))
                return Place("dynamic", 0, v.name)  # where all others end: known when all have been seen
            self.bytes["shared"] = offset + size_of(v)
            self.shared.append(SharedVariable(v.name, offset, size_of(v), align, function))
            return Place("shared", offset, v.name, offset, size_of(v))
        if v.space not in ("global", "const"):
            raise PtxError("PTX002", f"a `.{v.space}` variable belongs to a function", v.span, "declared here")
        offset = _aligned(self.bytes["global"], v)
        self.bytes["global"] = offset + size_of(v)
        self.variables.append((v, offset))
        return Place(v.space, offset, v.name, offset, None if None in v.dims else size_of(v))

    # ---- functions --------------------------------------------------------------------------------------------------

    def _function(self, f: tree.Function, body: tree.Block, number: int) -> None:
        made = Function(number, f.name, f.kind == "entry", len(self.instructions), f.directives)
        made.recursive = f.name in self.recursive
        names: dict[str, Operand] = {}
        for given, kept in ((f.results, made.results), (f.parameters, made.parameters)):
            for v in given:
                if v.space == "reg":
                    register = self._registers(v, made)
                    if made.entry:
                        raise PtxError("PTX002", f"`{v.name}` of a kernel is a `.param`", v.span, "declared here")
                    if not isinstance(register, Register) or v.type == "pred" or BYTES[v.type] < 4:
                        message = f"`{v.name}` is not a register of one element of 32 bits or more"
                        raise PtxError("PTX002", message, v.span, "a parameter, which ptxas does not pass either")
                    names[v.name] = register
                    made.named[v.name] = [register]
                    kept.append((v, register.index))
                elif made.entry:
                    offset = _aligned(made.parameter_bytes, v)
                    made.parameter_bytes = offset + size_of(v)
                    names[v.name] = Place("param", offset, v.name, offset, size_of(v))
                    kept.append((v, offset))
                else:
                    place = names[v.name] = self._local(v, made)
                    kept.append((v, place.offset))
        self.line = None
        self._block(body, made, _Scope({}, names, _Scope({}, self.names, None)))
        leave = ("exit",) if made.entry else ("ret",)
        self.instructions.append(Instruction(leave, (), None, False, number, f.span, None))
        made.end = len(self.instructions)
        made.frame = max(-(-made.frame // FRAME) * FRAME, FRAME)
        self.functions[f.name] = made

    def _registers(self, v: tree.Variable, f: Function) -> Operand:
        """One register, or those of a vector (PTX ISA, "Vectors")."""
        first = len(f.registers)
        f.registers += [v.type] * LANES[v.vector]
        made = tuple(Register(k, v.type) for k in range(first, len(f.registers)))
        return made[0] if not v.vector else Several(made)

    def _local(self, v: tree.Variable, f: Function) -> Place:
        """A function that is not entered again before it has ended has its own bytes; others have frames."""
        if f.recursive:
            offset = _aligned(f.frame, v)
            f.frame = offset + size_of(v)
            return Place("frame", offset, v.name, offset, size_of(v))
        offset = _aligned(self.bytes["local"], v)
        self.bytes["local"] = offset + size_of(v)
        return Place("local", offset, v.name, offset, size_of(v))

    def _block(self, block: tree.Block, f: Function, outer: _Scope, depth: int = 0) -> None:
        if depth > tree.DEEP:
            raise PtxError("PTX002", f"blocks are nested more than {tree.DEEP} deep", block.span, "this one, too")
        scope = _Scope({s.name: None for s in block.body if isinstance(s, tree.Label)}, {}, outer)
        first = len(self.open)
        for s in block.body:
            match s:
                case tree.Variable():
                    self._declare(s, f, scope)
                case tree.Label():
                    if scope.labels[s.name] is not None:
                        raise PtxError("PTX003", f"the label `{s.name}` is there twice", s.span, "again here")
                    scope.labels[s.name] = len(self.instructions)
                case tree.Targets() | tree.Prototype():
                    scope.names[s.label] = Several(()) if isinstance(s, tree.Prototype) else self._targets(s, scope)
                case tree.Location():
                    self.line = self.sites.chain(s)  # of what follows in the text, whatever block it is in
                case tree.Block():
                    self._block(s, f, scope, depth + 1)
                case tree.Instruction():
                    self._instruction(s, f, scope)
        self._labels(first)

    def _declare(self, v: tree.Variable, f: Function, scope: _Scope) -> None:
        if (v.copies or 0) > MANY or v.space != "global" and size_of(v) > ROOM:
            raise PtxError("PTX002", f"`{v.name}` is larger than any memory for it", v.span, "declared here")
        names = [v.name] if v.copies is None else [f"{v.name}{k}" for k in range(v.copies)]
        for name in names:
            if name in scope.names:
                raise PtxError("PTX003", f"`{name}` is declared twice in this block", v.span, "declared again here")
            if v.space == "reg":
                scope.names[name] = self._registers(v, f)
                f.named.setdefault(name, []).append(scope.names[name])
            elif v.space in ("local", "param"):
                scope.names[name] = self._local(v, f)
            else:
                scope.names[name] = self._static(v, f.number)

    def _targets(self, s: tree.Targets, scope: _Scope) -> Several:
        for name in s.names:
            if not (scope.is_label(name) if s.kind == "branchtargets" else isinstance(scope.find(name), Code)):
                kind = "label of this function" if s.kind == "branchtargets" else "function"
                raise PtxError("PTX003", f"`{name}` is not a {kind}", s.span, f"in this table of `.{s.kind}`")
        return Several(tuple(Code(-1, name) for name in s.names))

    # ---- instructions -----------------------------------------------------------------------------------------------

    def _instruction(self, s: tree.Instruction, f: Function, scope: _Scope) -> None:
        guard = None
        if s.guard:
            found = scope.find(s.guard)
            if not isinstance(found, Register) or found.type != "pred":
                raise PtxError("PTX003", f"`{s.guard}` is not a predicate", s.span, "guards this instruction")
            guard = found
        jumps.check(s, scope.is_label, scope.table)
        operands = tuple(self._operand(o, scope) for o in s.operands)
        operation = checked(s, operands)
        if any(_has_code(o) for o in operands):
            self.open.append((len(self.instructions), scope, s))
        self.instructions.append(Instruction(operation, operands, guard, s.negated, f.number, s.span, self.line))

    def _operand(self, o: tree.Operand, scope: _Scope) -> Operand:
        match o:
            case tree.Number(value, kind):
                return Constant(value, kind)
            case tree.Name(name):
                return self._named(name, o.span, scope)
            case tree.Sum(name, offset):
                base = self._named(name, o.span, scope)
                if isinstance(base, Place):
                    return base.plus(offset)
                return Address(base, offset)
            case tree.Vector(items) | tree.Arguments(items):
                return Several(tuple(self._operand(item, scope) for item in items))
            case tree.Pair(first, second):
                return Both(self._operand(first, scope), self._operand(second, scope))
            case tree.Not(inner):
                return Negated(self._operand(inner, scope))
            case tree.Address(parts):
                if not parts:
                    raise PtxError("PTX002", "an address is expected", o.span, "and this is none")
                base, *more = (self._operand(part, scope) for part in parts)
                rest = tuple(more)
                return Address(base.base, base.offset, rest) if isinstance(base, Address) else Address(base, 0, rest)
            case tree.Element(name, index):
                base = self._named(name, o.span, scope)
                if isinstance(base, Place):
                    return base.plus(index)
        raise PtxError("PTX002", "an operand is expected", o.span, "and this is none")

    def _named(self, name: str, span: Span, scope: _Scope) -> Operand:
        if name == "_":
            return Sink()
        if name == "WARP_SZ":
            return Constant(32)
        found = scope.find(name)
        if found is not None:
            return found
        if name.partition(".")[0] in SPECIAL:
            return Special(name)
        base, _, part = name.rpartition(".")
        whole = scope.find(base) if base else None
        if whole is not None and scope.label(name) is None:
            k = next((names.index(part) for names in ELEMENTS if part in names), len(ELEMENTS[0]))
            if not isinstance(whole, Several) or k >= len(whole.items):
                raise PtxError("PTX003", f"`{base}` has no element `.{part}`", span, "used here")
            return whole.items[k]
        if scope.label(name) is not None:
            return Code(-1, name)
        raise PtxError("PTX003", f"`{name}` is not declared", span, "used here")

    def _labels(self, first: int) -> None:
        """When a block ends its labels are known; what belongs to blocks around it waits for them."""
        waiting = self.open[first:]
        del self.open[first:]
        for at, scope, s in waiting:
            new = tuple(_resolved(o, scope) for o in self.instructions[at].operands)
            old = self.instructions[at]
            self.instructions[at] = Instruction(
                old.parts, new, old.guard, old.negated, old.function, old.span, old.line
            )
            if any(_has_code(o) for o in new):
                self.open.append((at, scope, s))

    def _calls(self) -> None:
        """Functions may be called before they stand in the text."""
        scope = _Scope({name: f.start for name, f in self.functions.items()}, {}, None)
        end = self.bytes["shared"]
        if self.dynamic is not None:
            self.dynamic = -(-end // self.dynamic) * self.dynamic
        for at, old in enumerate(self.instructions):
            new = tuple(_moved(_resolved(o, scope), self.dynamic or 0) for o in old.operands)
            if any(map(_has_code, new)):
                raise PtxError("PTX003", f"`{'.'.join(old.parts)}` names what has no body", old.span, "used here")
            if new != old.operands:
                self.instructions[at] = Instruction(
                    old.parts, new, old.guard, old.negated, old.function, old.span, old.line
                )


def _has_code(o: Operand) -> bool:
    match o:
        case Code(address):
            return address < 0
        case Several(items):
            return any(map(_has_code, items))
    return False


def _resolved(o: Operand, scope: _Scope) -> Operand:
    match o:
        case Code(-1, name):
            at = scope.label(name)
            address = None if at is None else at.labels[name]
            return o if address is None else Code(address, name)
        case Several(items):
            new = tuple(_resolved(item, scope) for item in items)
            return o if new == items else Several(new)
    return o


def _moved(o: Operand, start: int) -> Operand:
    """SharedVariable memory that is given at launch begins where all other ends, aligned."""
    match o:
        case Place("dynamic"):
            return o.moved("shared", start)
        case Address(Place("dynamic") as base, more, rest):
            return Address(base.moved("shared", start), more, rest)
    return o
