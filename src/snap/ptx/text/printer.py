"""PTX, written.

Input: a tree.  Output: text that reads back as the same tree, one statement a line.  Non-goals: comments, and how
numbers were written: integers are decimal, floats are their bits.
"""

from __future__ import annotations

from snap.ptx.text import tree


def write(module: tree.Module) -> str:
    return "".join(f"{line}\n" for item in module.items for line in _lines(item, ""))


def _lines(s: tree.Item | tree.Statement, indent: str) -> list[str]:
    match s:
        case tree.Function():
            return _function(s)
        case tree.Block():
            inside = [line for inner in s.body for line in _lines(inner, indent + "\t")]
            return [f"{indent}{{", *inside, f"{indent}}}"]
        case tree.Section():
            inside = [f"\t{_words(line)}" for line in s.lines]
            return [f".section {s.name}", "{", *inside, "}"]
        case tree.Label():
            return [f"{s.name}:"]
        case tree.Directive():
            end = ";" if indent or s.name == "pragma" else ""
            return [f"{indent}.{s.name} {_words(s.words)}".rstrip() + end]
        case tree.Location():
            return [indent + _location(s)]
        case _:
            return [f"{indent}{statement(s)};"]


def statement(s: tree.Statement | tree.Item) -> str:
    """One that is a line, without its semicolon."""
    match s:
        case tree.Instruction():
            guard = f"@{'!' * s.negated}{s.guard} " if s.guard else ""
            return f"{guard}{s.name} {', '.join(map(operand, s.operands))}".rstrip()
        case tree.Variable():
            return variable(s)
        case tree.Alias():
            return f".alias {s.name}, {s.of}"
        case tree.Targets():
            return f"{s.label}: .{s.kind} {', '.join(s.names)}"
        case tree.Prototype():
            results = f" ({_list(s.results)})" if s.results else ""
            extra = "".join(f" .{d.name} {_words(d.words)}".rstrip() for d in s.directives)
            return f"{s.label}: .callprototype{results} _ ({_list(s.parameters)}){extra}"
        case _:
            raise TypeError(f"{type(s).__name__} is more than a line")


def _function(f: tree.Function) -> list[str]:
    linking = f".{f.linking} " if f.linking else ""
    results = f" ({_list(f.results)})" if f.results else ""
    head = f"{linking}.{f.kind}{results} {f.name}("
    parameters = [f"\t{variable(p)}{',' * (k + 1 < len(f.parameters))}" for k, p in enumerate(f.parameters)]
    directives = [f".{d.name} {_words(d.words)}".rstrip() + ";" * (d.name == "pragma") for d in f.directives]
    if f.body is None:
        return [head, *parameters, ")", *directives, ";"]
    return [head, *parameters, ")", *directives, *_lines(f.body, "")]


def _list(parameters: tuple[tree.Variable, ...]) -> str:
    return ", ".join(map(variable, parameters))


def variable(v: tree.Variable) -> str:
    parts = [f".{v.linking}"] if v.linking else []
    parts.append(f".{v.space}")
    if v.attributes:
        parts.append(f".attribute({' '.join(v.attributes)})")
    if v.align is not None:
        parts.append(f".align {v.align}")
    if v.vector:
        parts.append(f".{v.vector}")
    parts += [f".{v.type}", *v.pointer]
    copies = "" if v.copies is None else f"<{v.copies}>"
    dims = "".join("[]" if n is None else f"[{n}]" for n in v.dims)
    initial = "" if v.initial is None else f" = {_initial(v.initial)}"
    return f"{' '.join(parts)} {v.name}{copies}{dims}{initial}"


def _initial(value: tree.Initial) -> str:
    match value:
        case tree.Initials(items):
            return f"{{{', '.join(map(_initial, items))}}}"
        case tree.Masked(mask, of):
            return f"{mask}({_initial(of)})"
        case _:
            return operand(value)


def _location(s: tree.Location) -> str:
    function = "" if s.function is None else f", function_name {operand(s.function)}"
    inlined = "" if s.inlined_at is None else ", inlined_at " + " ".join(map(str, s.inlined_at))
    return f".loc {s.file} {s.line} {s.column}{function}{inlined}"


def _words(words: tuple[str, ...]) -> str:
    """With blanks between, but not before commas and colons."""
    return " ".join(words).replace(" ,", ",").replace(" :", ":")


def operand(o: tree.Operand) -> str:
    match o:
        case tree.Name(name):
            return name
        case tree.Number(value, kind):
            return str(value) if kind == "int" else f"0f{value:08X}" if kind == "f32" else f"0d{value:016X}"
        case tree.Sum(name, offset):
            return f"{name}{offset:+d}"
        case tree.Vector(items):
            return f"{{{', '.join(map(operand, items))}}}"
        case tree.Pair(first, second):
            return f"{operand(first)}|{operand(second)}"
        case tree.Not(inner):
            return f"!{operand(inner)}"
        case tree.Address(parts):
            return f"[{', '.join(map(operand, parts))}]"
        case tree.Element(name, index):
            return f"{name}[{index}]"
        case tree.Arguments(items):
            return f"({', '.join(map(operand, items))})"
        case _:
            raise TypeError(f"{type(o).__name__} is not an operand")
