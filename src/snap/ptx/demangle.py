"""What a kernel is called in its source: `_Z6reduceILi64EEvPKfPf` is `reduce<64>`.

Input: the name of a function in PTX, as compilers of C++ mangle it (Itanium C++ ABI, section 5.1).  Output: its name
with namespaces and template arguments, without what it takes; the name itself, where it is none or says what is not
read here (expressions, lambdas).  Rule:

  name      = _Z (nested | simple) ...             nested = N simple+ E
  simple    = number letters [I argument* E]       argument = L type number E | type | J argument* E
  type      = P type | R type | O type | K type | letter | simple | nested

Non-goals: what functions take; operators; substitutions (S_), which name parts that stood before.
"""

from __future__ import annotations

_LETTERS = {
    "v": "void",
    "b": "bool",
    "c": "char",
    "a": "signed char",
    "h": "unsigned char",
    "s": "short",
    "t": "unsigned short",
    "i": "int",
    "j": "unsigned int",
    "l": "long",
    "m": "unsigned long",
    "x": "long long",
    "y": "unsigned long long",
    "f": "float",
    "d": "double",
}
_AROUND = {"P": "{}*", "R": "{}&", "O": "{}&&", "K": "{} const"}


class _Unread(Exception):
    pass


def demangled(name: str) -> str:
    if not name.startswith("_Z"):
        return name
    try:
        return _Reader(name, 2).name()
    except (_Unread, IndexError, RecursionError):
        return name


def answers(name: str, asked: str) -> bool:
    """Whether a function of that name is meant: by its name, its source's name, or that without template arguments."""
    source = demangled(name)
    plain = lambda text: "".join(text.split())  # noqa: E731
    return asked == name or plain(asked) in (plain(source), plain(source.partition("<")[0]))


class _Reader:
    def __init__(self, text: str, at: int):
        self.text, self.at = text, at

    def took(self, letter: str) -> bool:
        found = self.text[self.at : self.at + 1] == letter
        self.at += found
        return found

    def name(self) -> str:
        if not self.took("N"):
            return self.simple()
        parts = []
        while not self.took("E"):
            parts.append(self.simple())
        return "::".join(parts)

    def number(self) -> int:
        start = self.at
        while self.text[self.at : self.at + 1].isdecimal():
            self.at += 1
        if start == self.at:
            raise _Unread
        return int(self.text[start : self.at])

    def simple(self) -> str:
        self.took("L")  # of one file
        size = self.number()
        word = self.text[self.at : self.at + size]
        if len(word) < size:
            raise _Unread
        self.at += size
        return f"{word}<{', '.join(self.arguments())}>" if self.took("I") else word

    def arguments(self) -> list[str]:
        found: list[str] = []
        while not self.took("E"):
            found += self.arguments() if self.took("J") else [self.literal() if self.took("L") else self.type()]
        return found

    def literal(self) -> str:
        kind = self.type()
        negative = self.took("n")
        value = self.number()
        if not self.took("E"):
            raise _Unread
        return ("false", "true")[value] if kind == "bool" and value < 2 else "-" * negative + str(value)

    def type(self) -> str:
        letter = self.text[self.at]
        if letter == "N" or letter.isdecimal():
            return self.name()
        self.at += 1
        if letter in _AROUND:
            return _AROUND[letter].format(self.type())
        if letter not in _LETTERS:
            raise _Unread
        return _LETTERS[letter]
