"""Declarations and loops of a generated program, said in another way: names without an annotation, several in one line, `registers`, `ids`, loops over a shape.

Input: the text of a program of any family.  Output: the same program, with some declarations left to the compiler and some neighbors joined, as the draws have it.
The value keeps its type by a cast.  A name is left without its privilege only where the program assigns it nowhere else or the privilege was the code's own: it
then belongs to all who agree on its value, who may be more than before, and every use of it must still be right.
"""

from __future__ import annotations

import random
import re

SCALARS = "bool|i8|i16|i32|i64|u8|u16|u32|u64|f16|bf16|f32|f64|int|float"
SCALAR = re.compile(rf"( *)(\w+): ({SCALARS})(?: @ ([\w\[\]]+))? = (.+)")
ARRAY = re.compile(rf"( *)(\w+): ((?:{SCALARS})\[[\d, ]+\]) @ thread\[1\]")
MEMORY = re.compile(r"( *)(\w+): ((?:shared|pipeline)\([^@]*\))")
LOCAL = re.compile(rf"(\w+): ({SCALARS})\[(\d+)\]")
LOOP = re.compile(r"( *)for (\w+) in (unroll\()?range\((\w+)\)\)?:")
FORMS = ("no annotation", "several declared", "ids", "several ids", "registers", "several registers", "memory by a name", "several of memory", "range(shape=)", "a list", "arrays as a whole")


def declared(source: str, rng: random.Random) -> tuple[str, set[str]]:
    """The program, and which of FORMS it has now."""
    tags: set[str] = set()
    functions = re.split(r"(?=^@kernel|^@device)", source, flags=re.M)
    return "".join([functions[0], *(_Function(f, rng, tags).text() for f in functions[1:])]), tags


class _Function:
    """lines: those that are done.  Each that is a short declaration is kept in `open` as (indent, kind, name, value) until a neighbor is not to be joined with it."""

    def __init__(self, text: str, rng: random.Random, tags: set[str]):
        self.source, self.rng, self.tags = text, rng, tags
        self.lines: list[str] = []
        self.open: list[tuple[str, str, str, str]] = []
        self.alone: int | None = None  # the indent of the head whose code is single threads'

    def text(self) -> str:
        for line in self.looped(self.listed(self.source.split("\n"))):
            if self.alone is not None and line.strip() and len(line) - len(line.lstrip()) <= self.alone:
                self.alone = None
            short = self.short(line)
            if self.alone is None and re.search(r"case 1:$|group\(thread(\[1\])?\).*:$", line):
                self.alone = len(line) - len(line.lstrip())
            if short is None:
                self.close()
                self.lines.append(line)
                continue
            before = self.open[-1] if self.open else None
            apart = before is not None and (before[:2] != short[:2] or any(re.search(rf"\b{name}\b", short[3]) for _, _, name, _ in self.open) or self.rng.random() < 0.3)
            if apart:
                self.close()
            self.open.append(short)
        self.close()
        return "\n".join(self.lines)

    def close(self) -> None:
        """Write what is open in one line."""
        if not self.open:
            return
        indent, kind = self.open[0][:2]
        names, values = ", ".join(s[2] for s in self.open), ", ".join(s[3] for s in self.open)
        self.lines.append(f"{indent}{names} = " + (f"{kind}({values})" if kind in ("ids", "registers") else values))
        one, several = {"ids": FORMS[2:4], "registers": FORMS[4:6], "memory": FORMS[6:8]}.get(kind, FORMS[:2])
        self.tags.add(one)
        if len(self.open) > 1:
            self.tags.add(several)
        self.open = []

    def begins(self, name: str) -> bool:
        """Whether this name means one thing in the function: without an annotation an inner one would not hide an outer one."""
        return len(re.findall(rf"\b{name}: |\bas \(?{name}\b|, {name}\) as|\bfor {name}\b|\bfor \w+, {name}\b|lambda(?: \w+,)* {name}\b|as \(\w+, {name}\)", self.source)) == 1

    def kept(self, name: str) -> bool:
        """Whether the name keeps its first value."""
        return not re.search(rf"^ *(?:\w+, )*{name}(?:\.\w|, \w+)* (?:[-+*/%&|^]|//|<<|>>)?= ", self.source, flags=re.M)

    def short(self, line: str) -> tuple[str, str, str, str] | None:
        """A declaration without its annotation."""
        if self.rng.random() < 0.4:
            return None
        if (m := MEMORY.fullmatch(line)) and self.begins(m[2]):
            return m[1], "memory", m[2], m[3]
        if (m := ARRAY.fullmatch(line)) and self.begins(m[2]):
            return m[1], "registers", m[2], m[3]
        m = SCALAR.fullmatch(line)
        if m is None or not self.begins(m[2]):
            return None
        indent, name, kind, privilege, value = m.groups()
        if value == "id()":
            level = {None: None, "thread[1]": "thread", "thread[32]": "warp", "block[1]": "block"}.get(privilege, privilege)
            known = level is not None and kind == "int" and not (level == "thread" and self.alone is not None)
            return (indent, "ids", name, str(level)) if known and self.kept(name) else None
        if "id()" in value:
            return None
        cast = value if value.startswith(f"{kind}(") and value.endswith(")") and value.count("(") == 1 else f"{kind}({value})"
        if privilege == "thread[1]" and (not self.kept(name) or self.rng.random() < 0.3):
            return indent, "registers", name, cast
        if privilege is not None and (not self.kept(name) or "atomic." in value):
            return None
        return indent, "name", name, cast

    def looped(self, lines: list[str]) -> list[str]:
        """Two loops of which the inner one is all that the outer one does, as one over a shape; where no `break` asks which of them would end."""
        made, k = [], 0
        while k < len(lines):
            outer, inner = LOOP.fullmatch(lines[k]), LOOP.fullmatch(lines[k + 1]) if k + 1 < len(lines) else None
            if outer and inner and len(inner[1]) == len(outer[1]) + 4 and bool(outer[3]) == bool(inner[3]) and self.rng.random() < 0.7:
                end = k + 2
                while end < len(lines) and lines[end].startswith(inner[1] + "    "):
                    end += 1
                whole = end == len(lines) or not lines[end].startswith(inner[1])
                body = lines[k + 2:end]
                fixed = all(extent.isdigit() or self.kept(extent) and extent != outer[2] for extent in (outer[4], inner[4]))
                if whole and fixed and not any(line.strip() in ("break", "return") for line in body):
                    turns = f"range(shape=({outer[4]}, {inner[4]}))"
                    lines[k:end] = [f"{outer[1]}for {outer[2]}, {inner[2]} in {f'unroll({turns})' if outer[3] else turns}:", *(line[4:] for line in body)]
                    self.tags.add("range(shape=)")
            made.append(lines[k])
            k += 1
        return made

    def listed(self, lines: list[str]) -> list[str]:
        """A loop that gives every element of a local array a value, which does not read the array, as a list; and, after some of them, what goes over the whole array."""
        local = {m[1]: (m[2], m[3]) for m in LOCAL.finditer(self.source)}
        rng = random.Random(self.source)  # draws of its own: the other forms stay as they were
        made, k = [], 0
        while k < len(lines):
            loop, body = LOOP.fullmatch(lines[k]), lines[k + 1] if k + 1 < len(lines) else ""
            stored = re.fullmatch(rf"{loop[1]}    (\w+)\[{loop[2]}\] = (.+)", body) if loop else None
            whole = stored and local.get(stored[1], ("", ""))[1] == loop[4] and not re.search(rf"\b{stored[1]}\b", stored[2])
            if not whole or k + 2 < len(lines) and lines[k + 2].startswith(loop[1] + "    ") or rng.random() < 0.3:
                made.append(lines[k])
                k += 1
                continue
            made.append(f"{loop[1]}{stored[1]} = [{stored[2]} for {loop[2]} in range({loop[4]})]")
            self.tags.add("a list")
            for one in rng.sample(_over_all(stored[1], *local[stored[1]]), rng.choice((0, 1, 2))):
                made.append(loop[1] + one)
                self.tags.add("arrays as a whole")
            k += 2
        return made


def _over_all(name: str, kind: str, n: str) -> list[str]:
    """Statements that give all elements of an array other values, small ones where they are floats."""
    backwards = f"{name} = [{name}[{int(n) - 1} - q] for q in range({n})]"
    if kind in ("f16", "bf16", "f32", "f64", "float"):
        return [backwards, f"{name} += {name}", f"{name} *= {kind}(0.5)", f"{name} -= {name}[0]", f"{name} = {kind}(1)"]
    return [backwards, f"{name} += {name}", f"{name} *= 3", f"{name} ^= {name}[{int(n) - 1}]", f"{name} = {name}[0]"]
