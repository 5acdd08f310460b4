"""The grammar of memory programs (sections 4.4.2 to 4.4.4): text -> statements.

    program    ::= statement*                     and no way through it ends without `end;`
    statement  ::= ;  |  yield;  |  end;  |  operation;  |  if (condition) { statement* } [else { statement* }]
    condition  ::= true | false | !condition | condition and condition | condition or condition | (condition)
                 | isCachedL1 | isCachedL2

`and` binds tighter than `or`.  Comments go from // to the end of the line.  A sequence of statements is a tuple.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeAlias

OPERATIONS = frozenset(
    ["readMem", "writeMem", "atomOp", "releaseRegs", "writeToRegs", "lock", "unlock"]
    + [
        f"{verb}{level}"
        for verb in ("read", "write", "reserve", "update", "evict", "discard", "classifyFirst", "classifyNormal")
        for level in ("L1", "L2")
    ]
)
CONDITIONS = ("true", "false", "isCachedL1", "isCachedL2")
_TOKENS = re.compile(r"\s+|//[^\n]*|(?P<token>[A-Za-z_]\w*|[;(){}!])|(?P<wrong>.)")


class ProgramError(ValueError):
    """A text that is no memory program: where, and why."""


# Statements compare by identity: each stands in one program, and is made once.
@dataclass(frozen=True, slots=True, eq=False)
class Nop:
    pass


@dataclass(frozen=True, slots=True, eq=False)
class Yield:
    pass


@dataclass(frozen=True, slots=True, eq=False)
class End:
    pass


@dataclass(frozen=True, slots=True, eq=False)
class Do:
    operation: str


@dataclass(frozen=True, slots=True, eq=False)
class If:
    condition: Condition
    then: Sequence
    otherwise: Sequence


@dataclass(frozen=True, slots=True)
class Ask:
    """true, false, isCachedL1, isCachedL2."""

    name: str


@dataclass(frozen=True, slots=True)
class Not:
    inner: Condition


@dataclass(frozen=True, slots=True)
class And:
    left: Condition
    right: Condition


@dataclass(frozen=True, slots=True)
class Or:
    left: Condition
    right: Condition


Statement: TypeAlias = Nop | Yield | End | Do | If
Sequence: TypeAlias = tuple[Statement, ...]
Condition: TypeAlias = Ask | Not | And | Or


def parse(text: str, name: str = "<memory program>") -> Sequence:
    reader = _Reader(text, name)
    program = reader.statements("")
    if not _ends(program):
        raise ProgramError(f"{name}: a way through the program ends without `end;`")
    return program


def _ends(program: Sequence) -> bool:
    """Test whether every path through it reaches `end;`."""
    for s in program:
        if isinstance(s, End) or isinstance(s, If) and _ends(s.then) and _ends(s.otherwise):
            return True
    return False


class _Reader:
    def __init__(self, text: str, name: str):
        self.name = name
        self.tokens: list[tuple[str, int]] = []
        line = 1
        for found in _TOKENS.finditer(text):
            if found["wrong"]:
                raise ProgramError(f"{name}:{line}: `{found['wrong']}` is not part of the language")
            if found["token"]:
                self.tokens.append((found["token"], line))
            line += found[0].count("\n")
        self.tokens.append(("", line))
        self.at = 0

    @property
    def next(self) -> str:
        return self.tokens[self.at][0]

    def take(self) -> str:
        token = self.next
        self.at += token != ""
        return token

    def wrong(self, wanted: str) -> ProgramError:
        token, line = self.tokens[self.at]
        return ProgramError(f"{self.name}:{line}: {wanted} expected, not `{token or 'the end of the text'}`")

    def expect(self, token: str) -> None:
        if self.next != token:
            raise self.wrong(f"`{token}`")
        self.take()

    def statements(self, until: str) -> Sequence:
        found = []
        while self.next != until:
            found.append(self.statement())
        return tuple(found)

    def statement(self) -> Statement:
        word = self.next
        if word == "if":
            return self.choice()
        made: Statement
        if word == ";":
            made = Nop()
        elif word in ("yield", "end"):
            made = Yield() if self.take() == "yield" else End()
        elif word in OPERATIONS:
            made = Do(self.take())
        else:
            raise self.wrong("a statement")
        self.expect(";")
        return made

    def choice(self) -> If:
        self.expect("if")
        self.expect("(")
        condition = self.disjunction()
        self.expect(")")
        then = self.block()
        otherwise: Sequence = ()
        if self.next == "else":
            self.take()
            otherwise = self.block()
        return If(condition, then, otherwise)

    def block(self) -> Sequence:
        self.expect("{")
        inner = self.statements("}")
        self.expect("}")
        return inner

    def disjunction(self) -> Condition:
        left = self.conjunction()
        while self.next == "or":
            self.take()
            left = Or(left, self.conjunction())
        return left

    def conjunction(self) -> Condition:
        left = self.negation()
        while self.next == "and":
            self.take()
            left = And(left, self.negation())
        return left

    def negation(self) -> Condition:
        if self.next == "!":
            self.take()
            return Not(self.negation())
        if self.next == "(":
            self.take()
            inner = self.disjunction()
            self.expect(")")
            return inner
        if self.next in CONDITIONS:
            return Ask(self.take())
        raise self.wrong("a condition")
