"""Find what a kernel is called in its source: `_Z6reduceILi64EEvPKfPf` is `reduce<64>`.

Input: the name of a function in PTX, as compilers of C++ mangle it (Itanium C++ ABI, section 5.1).  Output: its name
with namespaces and template arguments, without what it takes; the name itself, where it is none or says what is not
read here (expressions, lambdas).  Rule:

  name      = _Z (nested | simple) ...             nested = N part+ E
  simple    = [St] part                            part = (number letters | back) [I argument* E]
  argument  = L type number E | type | J argument* E
  type      = P type | R type | O type | K type | letter | simple | nested
  back      = S_ | S number_36 _ | St | Sa | Ss | ...

  S_, S0_, S1_, ... are what stood before (section 5.1.10), each once: types but those of one letter; names that are in
  front of `::` or of template arguments.  St is std, the other letters are names of it.

Non-goals: what functions take; operators.
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
_STD = {
    "t": "std",
    "a": "std::allocator",
    "b": "std::basic_string",
    "s": "std::string",
    "i": "std::istream",
    "o": "std::ostream",
    "d": "std::iostream",
}
_AROUND = {"P": "{}*", "R": "{}&", "O": "{}&&", "K": "{} const"}


class _Unread(Exception):
    pass


def demangled(name: str) -> str:
    if not name.startswith("_Z"):
        return name
    try:
        return _Reader(name, 2).name(function=True)
    except (_Unread, IndexError, RecursionError, ValueError):
        return name


def answers(name: str, asked: str) -> bool:
    """Test whether a function of that name is meant: by its name, its source's name, or that without template
    arguments.
    """
    source = demangled(name)
    plain = lambda text: "".join(text.split())  # noqa: E731
    return asked == name or plain(asked) in (plain(source), plain(source.partition("<")[0]))


class _Reader:
    def __init__(self, text: str, at: int):
        self.text, self.at = text, at
        self.known: list[str] = []  # what S_, S0_, ... name

    def took(self, letter: str) -> bool:
        found = self.text[self.at : self.at + 1] == letter
        self.at += found
        return found

    def name(self, function: bool = False) -> str:
        """A function's own name is named by no substitution, but in front of its template arguments."""
        if not self.took("N"):
            found = self.part("")
            if found == "std":
                found = self.part(found)
            return self.noted(found, not function)
        found = ""
        while not self.took("E"):
            found = self.noted(self.part(found), not function or self.text[self.at] != "E")
        return found

    def noted(self, found: str, wanted: bool) -> str:
        if wanted and found not in self.known and found not in _STD.values():
            self.known.append(found)
        return found

    def part(self, before: str) -> str:
        """A name behind another one."""
        if self.took("S"):
            found = self.back()
        else:
            found = before + "::" * bool(before) + self.word()
        if self.took("I"):
            self.noted(found, True)
            found = f"{found}<{', '.join(self.arguments())}>"
        return found

    def back(self) -> str:
        letter = self.text[self.at]
        if letter in _STD:
            self.at += 1
            return _STD[letter]
        end = self.text.index("_", self.at)
        digits, self.at = self.text[self.at : end], end + 1
        if not all(c.isdecimal() or "A" <= c <= "Z" for c in digits) or len(digits) > 4:
            raise _Unread
        return self.known[int(digits, 36) + 1 if digits else 0]

    def number(self) -> int:
        start = self.at
        while self.text[self.at : self.at + 1].isdecimal():
            self.at += 1
        if start == self.at:
            raise _Unread
        return int(self.text[start : self.at])

    def word(self) -> str:
        self.took("L")  # of one file
        size = self.number()
        found = self.text[self.at : self.at + size]
        if len(found) < size:
            raise _Unread
        self.at += size
        return found

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
        if letter in "NS" or letter.isdecimal():
            return self.name()
        self.at += 1
        if letter in _AROUND:
            return self.noted(_AROUND[letter].format(self.type()), True)
        if letter not in _LETTERS:
            raise _Unread
        return _LETTERS[letter]
