"""Operands against the instruction that has them, as ptxas looks at them (the report's 5.1.3, step 1).

Input: an instruction's words, and its operands.  Output: nothing, or what is wrong with which.  The rule is a table
(signatures.py) and three relations (PTX ISA, "Type Checking of Operands"), with |t| for the bits of a type:

    t takes r            |t| = |r|, and t is of bits, or r is, or both are integers, or t = r
    t takes r (relaxed)  |t| <= |r|, and t is of bits, or r is, or both are integers, or t = r
    t takes a number     integers where t is of bits, an integer or a predicate; floats where t is f32 or f64; bits of a
                         float (0f, 0d) also where t is of as many bits

Relaxed are loads, stores and conversions.  Invariant: an instruction without a row is not looked at.  Non-goals:
versions and targets, and modifiers that the machine does not have.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from snap.ptx.errors import PtxError
from snap.ptx.instructions import video
from snap.ptx.instructions.operations import lookup
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
    listed,
)
from snap.ptx.text import tree
from snap.ptx.text.signatures import SETS, TABLE
from snap.record import record

Parts = tuple[str, ...]
Wrong = tuple[int, str]  # which operand, or -1; what is wrong

SIZES = {"pred": 1, "f16x2": 32, "bf16x2": 32, "u16x2": 32, "s16x2": 32, "tf32": 32, "f32x2": 64, "bf16": 16}
SIZES |= {f"{kind}{bits}": bits for kind in "bus" for bits in (8, 16, 32, 64)} | {"b128": 128}
SIZES |= {"f16": 16, "f32": 32, "f64": 64, "e4m3": 8, "e5m2": 8, "s4": 4, "u4": 4}
TYPES = frozenset(SIZES)
LONG = ("%clock64", "%globaltimer", "%current_graph_exec")
SHORT = ("%tid", "%ntid", "%ctaid", "%nctaid")  # which were of 16 bits once
GENERIC = ("global", "shared", "dynamic", "local", "frame", "const")


@record
class Row:
    """words: each set, whether it may be missing, whether it stands at its place."""

    words: tuple[tuple[frozenset[str], bool, bool], ...]
    operands: tuple[str, ...]


@record
class Form:
    """A row with an instruction's words: its types in order, and the words."""

    row: Row
    types: tuple[str, ...]
    words: frozenset[str]


@cache
def _rows() -> dict[str, tuple[Row, ...]]:
    found: dict[str, tuple[Row, ...]] = {}
    for line in TABLE.strip().splitlines():
        left, _, right = line.partition(" :")
        names, *words = left.split()
        row = Row(tuple(_set(w) for w in words), tuple(right.split()))
        for name in names.split("|"):
            found[name] = (*found.get(name, ()), row)
    return found


def _set(text: str) -> tuple[frozenset[str], bool, bool]:
    words = (w for part in text.lstrip("?^").split("|") for w in SETS.get(part, part).split("|"))
    return frozenset(words), text[0] == "?", text[0] == "^"


def has_rows(name: str) -> bool:
    return name in _rows()


@cache
def forms(parts: Parts) -> tuple[Form, ...]:
    """The rows whose words these are."""
    found = (_matched(row, parts[1:]) for row in _rows().get(parts[0], ()))
    return tuple(form for form in found if form is not None)


def _matched(row: Row, words: Parts) -> Form | None:
    """Each word is of a set of its own; types are those of the row in their order."""
    left = dict(enumerate(row.words))
    types: list[str] = []
    for at, word in enumerate(words):
        k = next((k for k, (some, _, placed) in left.items() if word in some and (not placed or at == k)), None)
        if k is None or word in TYPES and any(left[j][0] & TYPES for j in left if j < k):
            return None
        del left[k]
        if word in TYPES:
            types.append(word)
    return Form(row, tuple(types), frozenset(words)) if all(optional for _, optional, _ in left.values()) else None


@cache
def ordered(parts: Parts) -> Parts:
    """The words in the order of the row that has them, which is the ISA's; types among themselves in theirs.  ptxas
    does not ask for an order; the machine reads instructions in this one.
    """
    for row in _rows().get(parts[0], ()):
        if _matched(row, parts[1:]) is not None:
            left, out = list(parts[1:]), [parts[0]]
            for some, _, _ in row.words:
                word = next((w for w in left if w in some), None)
                if word is not None:
                    left.remove(word)
                    out.append(word)
            return tuple(out)
    return parts


# What was looked at and taken: a text of 200,000 lines has some hundred of these.
MANY = 1 << 16
_TAKEN: set[tuple[Parts, tuple[object, ...]]] = set()


@cache
def _by_value() -> frozenset[str]:
    """Instructions of which some number has a range."""
    ranged = ("#", "field", "barrier", "count", "ignore")
    return frozenset(
        name for name, rows in _rows().items() if any(k.startswith(ranged) for r in rows for k in r.operands)
    )


def _shape(o: Operand, value: bool) -> object:
    """Return what the rule asks of an operand."""
    match o:
        case Register(_, register):
            return register
        case Constant(number, kind):
            return (number, kind) if value else (0, kind)
        case Several(items):
            return tuple(_shape(item, value) for item in items)
        case Address(base, _, more):
            return "[]", _shape(base, value), tuple(_shape(part, value) for part in more)
        case Place(space):
            return "place", space
        case Both(first, second):
            return "both", _shape(first, value), _shape(second, value)
        case Special(name):
            return name
        case Negated(inner):
            return "!", _shape(inner, value)
    return type(o)


def checked(s: tree.Instruction, operands: tuple[Operand, ...]) -> Parts:
    """The words in order; PTX005 for operands that the instruction does not take."""
    parts = ordered(s.operation)
    value = parts[0] in _by_value()
    key = parts, tuple([_shape(o, value) for o in operands])
    if key in _TAKEN:
        return parts
    found = wrong(parts, operands)
    if found is None:
        if len(_TAKEN) >= MANY:
            _TAKEN.clear()
        _TAKEN.add(key)
    else:
        at = s.operands[found[0]].span if found[0] >= 0 else s.span
        raise PtxError("PTX005", f"{s.name} does not take these operands", at, found[1])
    return parts


# ---- operands -------------------------------------------------------------------------------------------------------


def wrong(parts: Parts, operands: tuple[Operand, ...]) -> Wrong | None:
    """Say what is wrong with an instruction's operands, if its words are those of some row, or it converts."""
    found = forms(parts)
    if not found:
        return _computed(parts, operands) if parts[0] not in _rows() else None
    says = [_against(form, operands) for form in found]
    return None if None in says else max((w for w in says if w is not None), key=lambda w: w[0])


def _computed(parts: Parts, operands: tuple[Operand, ...]) -> Wrong | None:
    """Conversions, and sums of halves and bytes: the table of what they compute says of which types they are."""
    operation = lookup(parts, len(operands) - 1)
    if operation is None:
        return None
    if len(operands) != len(operation.operands) + 1:
        return -1, f"{'.'.join(parts)} takes {len(operation.operands) + 1} operands, and has {len(operands)}"
    relaxed = "~" if parts[0] == "cvt" else ""
    alone = "r" if parts[0] in video.NAMES else relaxed  # which takes registers alone
    kinds = [f"={relaxed}{operation.result}", *(f"{alone}{type}" for type in operation.operands)]
    return next(_each(Form(Row((), ()), (), frozenset()), kinds, operands, parts[0] == "cvt"), None)


def _against(form: Form, operands: tuple[Operand, ...]) -> Wrong | None:
    """The first operand that the row does not take."""
    for kinds in _counted(form, len(operands)):
        return next(_each(form, kinds, operands), None)
    few = sum(not (k.endswith(("?", "?before")) or k == "hint") for k in form.row.operands)
    return -1, f"it takes {few or 'no'} operand{'s' * (few != 1)}, and there are {len(operands)}"


def _counted(form: Form, count: int) -> Iterator[list[str]]:
    """The row's operands, as many as there are."""
    kinds = [k for k in form.row.operands if k != "hint" or "L2::cache_hint" in form.words]
    missing = len(kinds) - count
    for k in range(len(kinds) - 1, -1, -1):
        if missing > 0 and kinds[k].endswith(("?", "?before")):
            kinds.pop(k)
            missing -= 1
    if missing == 0:
        yield [k.removesuffix("before").removesuffix("?") if k != "?" else k for k in kinds]


def _each(form: Form, kinds: list[str], operands: tuple[Operand, ...], special: bool = False) -> Iterator[Wrong]:
    for k, (kind, o) in enumerate(zip(kinds, operands)):
        message = _says(form, kind, o, special)
        before = operands[k - 1] if k and kind == "ignore" else None
        if isinstance(o, Constant) and isinstance(before, Constant) and o.value > before.value:
            message = f"{before.value} bytes are copied, and {o.value} of them cannot be read"
        if message:
            yield k, message


def _says(form: Form, kind: str, o: Operand, special: bool = False) -> str:
    kind = kind.removesuffix("?")
    if kind[0] == "[":
        return _address(form, kind[1:-1], o)
    if kind == "fragment":
        return _says(form, "{b32*4}" if isinstance(o, Several) else "u64", o)
    if kind == "{=sums}":
        columns = next(int(w.split("n")[1].split("k")[0]) for w in form.words if w.startswith("m64n"))
        type = form.types[0]
        kind = f"{{=b32*{columns // 4}}}" if type == "f16" else f"{{={type}*{columns // 2}}}"
    if kind[0] == "{":
        return _vector(form, kind[1:-1], o)
    if kind[0] == "#":
        return _number(kind[1:], o)
    simple = _SIMPLE.get(kind)
    if simple is not None:
        return simple(o)
    result, kind = kind[0] == "=", kind.lstrip("=")
    base, _, beside = kind.partition("|")
    if isinstance(o, Both):
        if not beside:
            return "one result is taken, and these are two"
        return _says(form, f"={base}", o.first) or _plain("pred", o.second, False, True)
    if beside == "q":
        return "a predicate is expected beside the result"
    if base[0] == "r":
        base = base[1:]
        if not isinstance(o, Register):
            return "a register is expected"
    named, base = base[0] == "@", base.lstrip("@")
    relaxed, base = base[0] == "~", base.lstrip("~")
    type = _type(form, base)
    if isinstance(o, Several) and (named or result and "@T" in form.row.operands):
        return _parts(type, o)
    if named and isinstance(o, (Special, Place, Code, Outside)):
        return _named(form, type, o)
    if special and not result and isinstance(o, Special):
        return "" if type[0] in "bus" else f"a special register is not of type .{type}"
    return _plain(type, o, relaxed, result)


def _type(form: Form, base: str) -> str:
    wide = base[0] == "w"
    place = "TUVW".find(base[-1]) if base in ("T", "U", "V", "W", "wT") else -1
    type = base if place < 0 else form.types[place]
    return f"{type[0]}{2 * SIZES[type]}" if wide else type


def takes(type: str, register: str, relaxed: bool = False) -> bool:
    """t takes r: the relations above."""
    t, r = SIZES[type], SIZES[register]
    if not (t <= r if relaxed else t == r) or "pred" in (type, register):
        return type == register
    return _kind(type) == "b" or _kind(register) == "b" or _kind(type) == _kind(register) == "i" or type == register


def _kind(type: str) -> str:
    """Bits, an integer, or something else."""
    return "b" if type[0] == "b" and type[1] != "f" else "i" if type[0] in "us" and "x" not in type else "f"


def takes_number(type: str, kind: str) -> bool:
    if kind == "int":
        return type == "pred" or _kind(type) in "bi"
    return type in ("f32", "f64") or type == {"f32": "b32", "f64": "b64"}[kind]


def _plain(type: str, o: Operand, relaxed: bool, result: bool) -> str:
    match o:
        case Register(_, register):
            if takes(type, register, relaxed):
                return ""
            return f"a register of .{register} is not of type .{type}"
        case Sink() if result:
            return ""
        case Constant(_, kind) if not result:
            return (
                ""
                if takes_number(type, kind)
                else f"{'an integer' if kind == 'int' else 'a float'} is not of type .{type}"
            )
        case Negated(inner) if type == "pred" and not result:
            return "an opposite is that of a predicate in a register" if not isinstance(inner, Register) else ""
    return f"a {'result' if result else 'source'} of .{type} is expected"


def _named(form: Form, type: str, o: Operand) -> str:
    """List what `mov` and its like take besides: special registers, and addresses, of the space that is named."""
    match o:
        case Special(name):
            plain = name.partition(".")[0]
            if plain == "%is_explicit_cluster":
                fits = type == "pred"
            elif plain == "%gridid":
                fits = _kind(type) in "bi" and SIZES[type] in (32, 64)
            else:
                sizes = (64,) if plain in LONG or plain.endswith("_64") else (16, 32) if plain in SHORT else (32,)
                fits = _kind(type) in "bi" and SIZES[type] in sizes
            return "" if fits else f"{name} is not of type .{type}"
    if isinstance(o, Place) and _space(form) not in ("", _there(o)):
        return f"`{o.name}` is in .{_there(o)} memory"
    return "" if _kind(type) in "bi" and SIZES[type] >= 16 else f"an address is not of type .{type}"


def _space(form: Form) -> str:
    """The space that the words name, or nothing."""
    return next((w.partition("::")[0] for w in form.words if w in SETS["SPACE"].split("|")), "")


def _there(o: Place) -> str:
    return {"dynamic": "shared", "frame": "local"}.get(o.space, o.space)


def _parts(type: str, o: Several) -> str:
    """Two or four, of equal size, of a word of bits; floats and integers are not mixed."""
    registers = [i for i in o.items if isinstance(i, Register)]
    fits = _kind(type) == "b" and len(o.items) in (2, 4) and {_kind(r.type) for r in registers} != {"f", "i"}
    part = SIZES[type] // max(len(o.items), 1)
    fits = fits and {SIZES[r.type] for r in registers} <= {part} <= {16, 32, 64}
    whole = all(isinstance(i, (Register, Constant, Sink)) for i in o.items)
    return "" if fits and whole else f"these are not {len(o.items)} parts of .{type}"


def _vector(form: Form, kind: str, o: Operand) -> str:
    kind, _, many = kind.partition("*")
    said = next((w for w in form.words if w in ("v2", "v4", "v8")), "")
    count = int(many or said[1:] or 1)
    items = listed(o)
    if isinstance(o, Several) != bool(many or said) and not (isinstance(o, Several) and len(items) == 1):
        return f"{count} registers in braces are expected" if many or said else "one register is expected"
    if len(items) != count:
        return f"{count} registers are expected, and these are {len(items)}"
    room = 128 if "global" not in form.words else 256
    if said and (SIZES[form.types[0]] * count > room or said == "v8" and SIZES[form.types[0]] != 32):
        return f"{count} times .{form.types[0]} are more than one access takes"
    return next((message for message in (_says(form, kind, item) for item in items) if message), "")


def _address(form: Form, space: str, o: Operand) -> str:
    if space == "tensor":
        return _tensor(form, o)
    space = space or _space(form)
    if not isinstance(o, Address) or o.more:
        return "an address in brackets is expected"
    match o.base:
        case Register(_, type):
            fits = _kind(type) in "bi" and SIZES[type] in ((64,) if space in ("", "global") else (32, 64))
            return "" if fits else f"a register of .{type} is not an address" + (f" in .{space}" if space else "")
        case Place():
            there = _there(o.base)
            if space == "" and there in GENERIC or space == there or space == "param" and there == "local":
                return ""
            return f"`{o.base.name}` is in .{there} memory" + (f", and this is an access to .{space}" if space else "")
        case Constant() if space in ("local", "shared", "const"):
            return ""
    return "an address in brackets is expected"


def _tensor(form: Form, o: Operand) -> str:
    """`[map, {x, y}]`: a generic address, and as many coordinates as there are dimensions."""
    if not isinstance(o, Address) or len(o.more) != 1:
        return "a tensor map and coordinates are expected, in brackets"
    dims = next(w for w in form.words if w in SETS["DIM"].split("|"))
    base = "" if isinstance(o.base, Place) else _plain("u64", o.base, False, False)
    return base or _vector(form, f"s32*{dims[0]}", o.more[0])


def _number(limits: str, o: Operand) -> str:
    """`#`, `#4-16`, with `/8` a multiple of it, with `*2` a power of two."""
    if not isinstance(o, Constant) or o.kind != "int":
        return "an integer that stands in the text is expected"
    if limits == "signed":
        return "" if o.value in (1, -1) else "1 or -1 is expected"
    found = re.fullmatch(r"(\d+)-(\d+)([/*]\d+)?", limits)
    if found is None:
        return ""
    low, high, step = int(found[1]), int(found[2]), found[3] or ""
    odd = step[:1] == "/" and o.value % int(step[1:]) or step[:1] == "*" and o.value & (o.value - 1)
    return f"{o.value} is not one of the numbers that are taken here" if not low <= o.value <= high or odd else ""


def _barrier(o: Operand) -> str:
    if isinstance(o, Constant) and o.kind == "int" and not 0 <= o.value <= 15:
        return f"barrier {o.value} of a block, which has 16 (0 to 15)"
    return _plain("u32", o, False, False)


def _field(o: Operand) -> str:
    if isinstance(o, Constant) and o.kind == "int" and not 0 <= o.value <= 255:
        return f"{o.value} is not within 0 to 255"
    return _plain("u32", o, False, False)


def _count(o: Operand) -> str:
    if isinstance(o, Constant) and o.kind == "int" and o.value % 32:
        return f"a barrier of {o.value} threads: barriers are of whole warps"
    return _plain("u32", o, False, False)


_SIMPLE = {
    "barrier": _barrier,
    "count": _count,
    "field": _field,
    "!": lambda o: _plain("pred", o, False, False),
    "label": lambda o: "" if isinstance(o, Code) else "a label is expected",
    "hint": lambda o: _plain("b64", o, False, False),
    "_": lambda o: "" if isinstance(o, Sink) else "no result is given here: `_` is expected",
    "address": lambda o: _plain("u64", o, False, False) and _plain("u32", o, False, False),
    "ignore": lambda o: _plain("u32", o, False, False) and _plain("pred", o, False, False),
}
