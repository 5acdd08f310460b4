"""PTX, read.

Input: the text of a module, as nvcc and NVRTC write it (PTX ISA 6.0 and later), and its file's name.  Output: the tree.
Invariant: every error has a line and a column.  Non-goals: what names and operations mean, which `program.py` looks up;
constant expressions, which no compiler writes.  PTX002 for what is not the grammar.
"""

from __future__ import annotations

from snap.diag.source import register_source
from snap.diag.span import Span
from snap.ptx.errors import PtxError
from snap.ptx.text import tree
from snap.ptx.text.tokens import TextToken, TokenKind, floating, integer, tokens

LINKING = (".visible", ".extern", ".weak", ".common")
SPACES = (".reg", ".sreg", ".param", ".shared", ".global", ".const", ".local", ".tex")
TYPES = frozenset(
    "b8 b16 b32 b64 b128 u8 u16 u32 u64 s8 s16 s32 s64 f16 f16x2 bf16 bf16x2 f32 f32x2 f64 tf32 e4m3 e5m2 e4m3x2 e5m2x2"
    " e2m1x2 pred texref samplerref surfref".split()
)
VECTORS = ("v2", "v4", "v8")


def parse(text: str, filename: str = "<ptx>") -> tree.Module:
    """The module that a text is."""
    if not isinstance(text, str):
        raise TypeError(f"PTX is text, and this is {type(text).__name__}")
    register_source(filename, text.rstrip("\0"))
    return _Parser(text.rstrip("\0"), filename).module()


class _Parser:
    def __init__(self, text: str, filename: str):
        self.tokens, self.at, self.filename = list(tokens(text, filename)), 0, filename

    # ---- tokens -----------------------------------------------------------------------------------------------------

    @property
    def next(self) -> TextToken:
        return self.tokens[self.at]

    @property
    def ended(self) -> bool:
        return self.next.kind is TokenKind.END

    def take(self) -> TextToken:
        token = self.tokens[self.at]
        if token.kind is not TokenKind.END:
            self.at += 1
        return token

    def has(self, *texts: str) -> bool:
        """Test whether this mark, or dotted word, comes next."""
        return self.next.kind in (TokenKind.MARK, TokenKind.DOTTED) and self.next.text in texts

    def took(self, text: str) -> bool:
        if self.has(text):
            self.at += 1
            return True
        return False

    def expect(self, text: str, where: str) -> TextToken:
        if not self.has(text):
            raise self.wrong(f"`{text}` is expected {where}")
        return self.take()

    def expect_name(self, what: str) -> TextToken:
        if self.next.kind is not TokenKind.NAME:
            raise self.wrong(f"{what} is expected")
        return self.take()

    def expect_integer(self, what: str) -> int:
        negative = self.took("-")
        if self.next.kind is not TokenKind.INT:
            raise self.wrong(f"{what}, a number, is expected")
        value = integer(self.take().text)
        return -value if negative else value

    def wrong(self, message: str, help: str = "") -> PtxError:
        found = self.next
        label = "the text ends here" if found.kind is TokenKind.END else f"and this is `{found.text}`"
        return PtxError("PTX002", message, found.span, label, help)

    def since(self, start: TextToken) -> Span:
        return start.span.to(self.tokens[max(self.at - 1, 0)].span)

    # ---- the module -------------------------------------------------------------------------------------------------

    def module(self) -> tree.Module:
        items: list[tree.Item] = []
        while not self.ended:
            items += self.item()
        return tree.Module(tuple(items), self.filename)

    def item(self) -> list[tree.Item]:
        start = self.next
        if start.kind is not TokenKind.DOTTED:
            raise self.wrong("a directive is expected, which begins with a dot")
        if self.took(".section"):
            return [self.section(start)]
        if self.took(".alias"):
            name = self.expect_name("a function's name").text
            self.expect(",", "after the alias")
            alias = tree.Alias(name, self.expect_name("a function's name").text, self.since(start))
            self.expect(";", "after the alias")
            return [alias]
        linking = self.take().text[1:] if self.has(*LINKING) else ""
        if self.has(".entry", ".func"):
            return [self.function(linking, start)]
        if self.has(*SPACES):
            return list(self.variables(linking, start))
        if linking:
            raise self.wrong("a function or a variable is expected")
        made = self.directive()
        self.took(";")
        return [made]

    def directive(self) -> tree.Directive:
        """One on a line of its own: its words end with the line, or a semicolon, or where a body begins."""
        start = self.take()
        words: list[str] = []
        while not self.ended and self.next.span.line == start.span.line and not self.has(";", "{", "}"):
            words.append(self.word())
        return tree.Directive(start.text[1:], tuple(words), self.since(start))

    def word(self) -> str:
        word = self.take().text
        while (
            self.next.touches
            and self.next.kind in (TokenKind.DOTTED, TokenKind.NAME)
            and word not in (",", "=", ":", "+", "(")
        ):
            word += self.take().text
        return word

    def section(self, start: TextToken) -> tree.Section:
        if self.next.kind not in (TokenKind.DOTTED, TokenKind.NAME):
            raise self.wrong("the section's name is expected")
        name = self.word()
        self.expect("{", "where the section begins")
        lines: list[tuple[str, ...]] = []
        while not self.has("}"):
            if self.ended:
                raise self.wrong("`}` is expected where the section ends")
            line, words = self.next.span.line, []
            while not self.ended and self.next.span.line == line and not self.has("}"):
                words.append(self.word())
            lines.append(tuple(words))
        self.take()
        return tree.Section(name, tuple(lines), self.since(start))

    def function(self, linking: str, start: TextToken) -> tree.Function:
        kind = self.take().text[1:]
        results = self.parameters() if self.has("(") else ()
        name = self.expect_name("the function's name")
        parameters = self.parameters() if self.has("(") else ()
        directives = self.function_directives()
        span = start.span.to(name.span)
        if self.took(";"):
            return tree.Function(linking, kind, name.text, results, parameters, directives, None, span)
        if not self.has("{"):
            raise self.wrong("the function's body is expected, or `;`")
        return tree.Function(linking, kind, name.text, results, parameters, directives, self.block(), span)

    def function_directives(self) -> tuple[tree.Directive, ...]:
        """`.maxntid 128, 1, 1`, `.pragma "...";`: each up to the next, or to the body."""
        found: list[tree.Directive] = []
        while self.next.kind is TokenKind.DOTTED:
            start, words = self.take(), []
            while self.next.kind in (TokenKind.INT, TokenKind.TEXT, TokenKind.NAME) or self.has(","):
                words.append(self.word())
            if start.text == ".pragma":
                self.took(";")
            found.append(tree.Directive(start.text[1:], tuple(words), self.since(start)))
        return tuple(found)

    def parameters(self) -> tuple[tree.Variable, ...]:
        self.expect("(", "where parameters begin")
        found: list[tree.Variable] = []
        while not self.has(")"):
            if found:
                self.expect(",", "between parameters")
            if not self.has(".param", ".reg"):
                raise self.wrong("a parameter is expected, `.param`")
            found.append(self.variable("", self.take()))
        self.take()
        return tuple(found)

    # ---- declarations -----------------------------------------------------------------------------------------------

    def variables(self, linking: str, start: TextToken) -> list[tree.Variable]:
        """`.reg .b32 a, b;` declares two."""
        space = self.take()
        first = self.variable(linking, space)
        found = [first]
        while self.took(","):
            found.append(self.named(first, self.next))
        self.expect(";", "after the declaration")
        return found

    def variable(self, linking: str, space: TextToken) -> tree.Variable:
        align: int | None = None
        kind, vector = "", ""
        pointer: list[str] = []
        attributes: list[str] = []
        while self.next.kind is TokenKind.DOTTED:
            word = self.take().text[1:]
            if word == "align":
                count = self.expect_integer("the alignment")
                if pointer:
                    pointer += [".align", str(count)]
                else:
                    align = count
            elif word == "attribute":
                attributes += self.attribute()
            elif word in VECTORS:
                vector = word
            elif word == "ptr" or pointer:
                pointer.append(f".{word}")
            elif word in TYPES:
                kind = word
            else:
                self.at -= 1
                raise self.wrong(f"a type is expected for this `{space.text}` variable")
        if not kind:
            raise self.wrong(f"a type is expected for this `{space.text}` variable")
        plain = tree.Variable(
            linking, space.text[1:], align, kind, "", vector, tuple(pointer), attributes=tuple(attributes)
        )
        return self.named(plain, space)

    def attribute(self) -> list[str]:
        self.expect("(", "after `.attribute`")
        words: list[str] = []
        depth = 1
        while depth:
            if self.ended:
                raise self.wrong("`)` is expected after the attribute")
            word = self.take().text
            depth += (word == "(") - (word == ")")
            if depth:
                words.append(word)
        return words

    def named(self, like: tree.Variable, start: TextToken) -> tree.Variable:
        name = self.expect_name("the variable's name")
        copies = None
        if self.took("<"):
            copies = self.expect_integer("the number of registers")
            self.expect(">", "after the number of registers")
        dims: list[int | None] = []
        while self.took("["):
            dims.append(None if self.has("]") else self.expect_integer("the extent"))
            self.expect("]", "after the extent")
        initial = self.initial() if self.took("=") else None
        return tree.Variable(
            like.linking,
            like.space,
            like.align,
            like.type,
            name.text,
            like.vector,
            like.pointer,
            copies,
            tuple(dims),
            initial,
            like.attributes,
            self.since(start),
        )

    def initial(self, depth: int = 0) -> tree.Initial:
        start = self.next
        if depth > tree.DEEP:
            raise self.wrong(f"initial values are nested more than {tree.DEEP} deep")
        if self.took("{"):
            items: list[tree.Initial] = []
            while not self.has("}"):
                if items:
                    self.expect(",", "between initial values")
                items.append(self.initial(depth + 1))
            self.take()
            return tree.Initials(tuple(items), self.since(start))
        value = self.operand()
        if isinstance(value, tree.Number) and self.took("("):
            masked = self.initial(depth + 1)
            self.expect(")", "after the masked address")
            return tree.Masked(value.value, masked, self.since(start))
        if isinstance(value, tree.Name) and self.took("("):  # generic(name): its generic address
            inner = self.operand()
            self.expect(")", "after the address")
            if value.name != "generic" or not isinstance(inner, (tree.Name, tree.Sum)):
                raise PtxError("PTX002", "an initial value is expected", value.span, "and this is none")
            offset = inner.offset if isinstance(inner, tree.Sum) else 0
            offset += self.offset() or 0
            return tree.Sum(f"generic({inner.name})", offset, self.since(start))
        if not isinstance(value, (tree.Name, tree.Number, tree.Sum)):
            raise PtxError("PTX002", "an initial value is expected", value.span, "and this is none")
        return value

    # ---- statements -------------------------------------------------------------------------------------------------

    def block(self) -> tree.Block:
        start = self.expect("{", "where a body begins")
        open_blocks: list[tuple[TextToken, list[tree.Statement]]] = [(start, [])]
        while open_blocks:  # a stack of our own: a text may nest deeper than Python can
            opened, body = open_blocks[-1]
            if self.ended:
                raise self.wrong(f"`}}` is expected for the body that begins at line {opened.span.line}")
            if self.has("{"):
                open_blocks.append((self.take(), []))
            elif self.took("}"):
                open_blocks.pop()
                made = tree.Block(tuple(body), self.since(opened))
                if open_blocks:
                    open_blocks[-1][1].append(made)
            else:
                body += self.statement()
        return made

    def statement(self) -> list[tree.Statement]:
        start = self.next
        if start.kind is TokenKind.DOTTED:
            if self.has(*LINKING):
                return list(self.variables(self.take().text[1:], start))
            if self.has(*SPACES):
                return list(self.variables("", start))
            if self.took(".loc"):
                return [self.location(start)]
            if self.took(".section"):
                return [self.section(start)]
            made = self.directive()
            self.took(";")
            return [made]
        if self.took("@"):
            negated = self.took("!")
            guard = self.expect_name("a predicate")
            return [self.instruction(start, guard.text, negated)]
        if start.kind is not TokenKind.NAME:
            raise self.wrong("a statement is expected")
        if self.tokens[self.at + 1].kind is TokenKind.MARK and self.tokens[self.at + 1].text == ":":
            self.at += 2
            if self.has(".branchtargets", ".calltargets", ".callprototype"):
                return [self.labeled(start)]
            return [tree.Label(start.text, start.span)]
        return [self.instruction(start, "", False)]

    def labeled(self, label: TextToken) -> tree.Targets | tree.Prototype:
        kind = self.take().text[1:]
        if kind == "callprototype":
            results = self.parameters() if self.has("(") else ()
            self.expect_name("`_`")
            parameters = self.parameters() if self.has("(") else ()
            directives = self.function_directives()
            made: tree.Targets | tree.Prototype = tree.Prototype(
                label.text, results, parameters, directives, self.since(label)
            )
        else:
            names = [self.expect_name("a label").text]
            while self.took(","):
                names.append(self.expect_name("a label").text)
            made = tree.Targets(label.text, kind, tuple(names), self.since(label))
        self.expect(";", "after it")
        return made

    def location(self, start: TextToken) -> tree.Location:
        file, line, column = (self.expect_integer(what) for what in ("the file", "the line", "the column"))
        function, inlined = None, None
        while self.took(","):
            word = self.expect_name("`function_name` or `inlined_at`").text
            if word == "function_name":
                function = self.operand()
            elif word == "inlined_at":
                inlined = (
                    self.expect_integer("the file"),
                    self.expect_integer("the line"),
                    self.expect_integer("the column"),
                )
            else:
                self.at -= 1
                raise self.wrong("`function_name` or `inlined_at` is expected")
        return tree.Location(file, line, column, function, inlined, self.since(start))

    def instruction(self, start: TextToken, guard: str, negated: bool) -> tree.Instruction:
        parts = [self.expect_name("an instruction").text]
        while self.next.kind is TokenKind.DOTTED and self.next.touches:
            parts.append(self.take().text[1:])
        operands: list[tree.Operand] = []
        while not self.has(";"):
            if operands:
                self.expect(",", "between operands, or `;` after the last one")
            operands.append(self.operand())
        self.take()
        return tree.Instruction(tuple(parts), tuple(operands), guard, negated, self.since(start))

    # ---- operands ---------------------------------------------------------------------------------------------------

    def operand(self, depth: int = 0) -> tree.Operand:
        start = self.next
        if depth > tree.DEEP:
            raise self.wrong(f"operands are nested more than {tree.DEEP} deep")
        if self.took("["):
            return tree.Address(self.listed("]", depth), self.since(start))
        if self.took("{"):
            return tree.Vector(self.listed("}", depth), self.since(start))
        if self.took("("):
            return tree.Arguments(self.listed(")", depth), self.since(start))
        if self.took("!"):
            return tree.Not(self.operand(depth + 1), self.since(start))
        if start.kind in (TokenKind.INT, TokenKind.FLOAT) or self.has("-", "+"):
            return self.number()
        if start.kind is TokenKind.NAME:
            return self.name(depth)
        raise self.wrong("an operand is expected")

    def listed(self, end: str, depth: int) -> tuple[tree.Operand, ...]:
        found: list[tree.Operand] = []
        while not self.took(end):
            if found:
                self.expect(",", f"between operands, or `{end}` after the last one")
            found.append(self.operand(depth + 1))
        return tuple(found)

    def number(self) -> tree.Number:
        start, negative = self.next, False
        while self.has("-", "+"):
            negative ^= self.take().text == "-"
        if self.next.kind is TokenKind.INT:
            value = integer(self.take().text)
            return tree.Number(-value if negative else value, "int", self.since(start))
        if self.next.kind is TokenKind.FLOAT:
            bits, kind = floating(self.take().text)
            sign = 1 << (31 if kind == "f32" else 63)
            return tree.Number(bits ^ sign if negative else bits, kind, self.since(start))
        raise self.wrong("a number is expected")

    def name(self, depth: int) -> tree.Operand:
        start = self.take()
        text = start.text
        while self.next.kind is TokenKind.DOTTED and self.next.touches:
            text += self.take().text
        offset = self.offset()
        if offset is not None:
            return tree.Sum(text, offset, self.since(start))
        if self.took("["):
            index = self.expect_integer("the element's index")
            self.expect("]", "after the index")
            return tree.Element(text, index, self.since(start))
        name = tree.Name(text, self.since(start))
        if self.took("|"):
            return tree.Pair(name, self.operand(depth + 1), self.since(start))
        return name

    def offset(self) -> int | None:
        """`+8`, `-8`, `+-8` behind a name."""
        if not self.has("+", "-"):
            return None
        negative = self.take().text == "-"
        value = self.expect_integer("what is added")
        return -value if negative else value
