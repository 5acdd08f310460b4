"""What instructions give, computed with Python's whole numbers and fractions: nothing is shared with the machine.

`expected(form, values)` takes the bits of one thread's operands and gives the bits of the result, or None where the ISA leaves it open
(which NaN) or where it is an approximation.  Floats are (sign, size): size is a fraction, INF or NAN.
"""

from __future__ import annotations

from fractions import Fraction
from math import isqrt

from ptx.forms import BITS, ROUNDING, Form

INF, NAN = "inf", "nan"
# bits of the exponent and the fraction; whether there is an infinity; the largest number is what its bits say
LAYOUT = {"f16": (5, 10), "bf16": (8, 7), "f32": (8, 23), "f64": (11, 52), "tf32": (8, 10)}
LAYOUT |= {"e4m3": (4, 3), "e5m2": (5, 2), "e2m3": (2, 3), "e3m2": (3, 2), "e2m1": (2, 1)}
FULL = {"e4m3": 448, "e2m3": Fraction(15, 2), "e3m2": 28, "e2m1": 6}  # without an infinity

Number = tuple[int, "Fraction | str"]


def signed(bits: int, width: int) -> int:
    return bits - (1 << width) if bits >> width - 1 else bits


def integer(bits: int, type: str) -> int:
    return signed(bits, BITS[type]) if type[0] == "s" else bits


# ---- floats ---------------------------------------------------------------------------------------------------------------------------------------


def decoded(bits: int, type: str) -> Number:
    e, f = LAYOUT[type]
    sign, exponent, fraction = bits >> e + f, bits >> f & ((1 << e) - 1), bits & ((1 << f) - 1)
    bias = (1 << e - 1) - 1
    if type == "e4m3" and exponent == 15 and fraction == 7:
        return sign, NAN
    if exponent == (1 << e) - 1 and type not in FULL:
        return sign, NAN if fraction else INF
    if exponent == 0:
        return sign, Fraction(fraction) * Fraction(2) ** (1 - bias - f)
    return sign, Fraction((1 << f) + fraction) * Fraction(2) ** (exponent - bias - f)


def nan(type: str) -> int:
    e, f = LAYOUT[type]
    return (1 << e + f) - 1


def encoded(x: Number, type: str, mode: str = "rn", finite: bool = False) -> int:
    e, f = LAYOUT[type]
    sign, size = x
    top = sign << e + f
    infinite = top | (((1 << e) - 1) << f)
    largest = top | (((1 << e) - 1) << f) - 1
    if type in FULL:
        largest = top | ((1 << e + f) - (2 if type == "e4m3" else 1))
    if size == NAN:
        return nan(type)
    if size == INF:
        return largest if finite else infinite
    bias = (1 << e - 1) - 1
    unit = max(magnitude(size), 1 - bias) - f
    scaled = size / Fraction(2) ** unit
    whole = scaled.numerator // scaled.denominator
    rest = scaled - whole
    half = Fraction(1, 2)
    up = {"rn": rest > half or rest == half and whole & 1, "rna": rest >= half, "rz": False, "rp": rest > 0 and not sign, "rm": rest > 0 and sign}[mode]
    whole += bool(up)
    value = whole * Fraction(2) ** unit
    most = FULL.get(type) or decoded(largest & ~(1 << e + f), type)[1]
    if value > most:
        outward = mode in ("rn", "rna") or mode == ("rm" if sign else "rp")
        return largest if finite or not outward else infinite
    # What is left is a number of the format: its bits count up with its size.
    if value < Fraction(2) ** (1 - bias):
        return top | int(value / Fraction(2) ** (1 - bias - f))
    exponent = magnitude(value) + bias
    return top | (exponent << f) + int(value / Fraction(2) ** (exponent - bias - f)) - (1 << f)


def magnitude(x: Fraction) -> int:
    """The exponent of the highest power of two that is not above it; of zero, one far below all."""
    if not x:
        return -5000
    found = x.numerator.bit_length() - x.denominator.bit_length()
    return found if x >= Fraction(2) ** found else found - 1


def plus(a: Number, b: Number, mode: str) -> Number:
    (sa, x), (sb, y) = a, b
    if NAN in (x, y) or x == y == INF and sa != sb:
        return 0, NAN
    if INF in (x, y):
        return (sa, INF) if x == INF else (sb, INF)
    total = (-x if sa else x) + (-y if sb else y)
    if total:
        return int(total < 0), abs(total)
    return (sa if sa == sb else int(mode == "rm")), Fraction(0)


def times(a: Number, b: Number) -> Number:
    (sa, x), (sb, y) = a, b
    if NAN in (x, y) or INF in (x, y) and 0 in (x, y):
        return 0, NAN
    return sa ^ sb, INF if INF in (x, y) else x * y


def over(a: Number, b: Number) -> Number:
    (sa, x), (sb, y) = a, b
    if NAN in (x, y) or x == y == INF or x == y == 0:
        return 0, NAN
    if x == INF or y == 0:
        return sa ^ sb, INF
    return sa ^ sb, Fraction(0) if y == INF else x / y


def root(a: Number) -> Number:
    """A fraction so near to the root that no rounding tells them apart; the root itself where it is one."""
    sign, x = a
    if x == NAN or sign and x != 0:
        return 0, NAN
    if x in (INF, 0):
        return a
    scale = 1 << 2600
    whole = isqrt(int(x * scale * scale)) if (x * scale * scale).denominator == 1 else isqrt((x.numerator * scale * scale) // x.denominator)
    found = Fraction(whole, scale)
    return 0, found if found * found == x else found + Fraction(1, 2 * scale)


def flush(x: Number, type: str) -> Number:
    e, f = LAYOUT[type]
    tiny = Fraction(2) ** (2 - (1 << e - 1))
    return (x[0], Fraction(0)) if x[1] not in (INF, NAN) and x[1] < tiny else x


def finish(bits: int, type: str, words: set[str]) -> int:
    """`.ftz`, `.sat`, `.relu` of a result."""
    x = decoded(bits, type)
    if "ftz" in words and type in ("f32", "f16"):
        x = flush(x, type)
    if "sat" in words:
        x = (0, Fraction(0)) if x[1] == NAN or x[0] else (0, Fraction(1)) if x[1] == INF or x[1] > 1 else x
    if "relu" in words and x[0] and x[1] != NAN:
        x = (0, Fraction(0))
    return nan(type) if x[1] == NAN else encoded(x, type)


def arithmetic(op: str, type: str, words: set[str], values: list[Number]) -> int:
    mode = next((w for w in ROUNDING if w in words), "rn")
    if "ftz" in words:
        values = [flush(v, type) for v in values]
    match op:
        case "add":
            found = plus(values[0], values[1], mode)
        case "sub":
            found = plus(values[0], (1 - values[1][0], values[1][1]), mode)
        case "mul":
            found = times(values[0], values[1])
        case "fma" | "mad":
            found = plus(times(values[0], values[1]), values[2], mode)
        case "div":
            found = over(values[0], values[1])
        case "rcp":
            found = over((0, Fraction(1)), values[0])
        case _:
            found = root(values[0])
    return finish(encoded(found, type, mode), type, words)


def order(x: Number) -> Fraction | None:
    """As a number to compare; infinities beyond all others."""
    sign, size = x
    if size == NAN:
        return None
    value = Fraction(2) ** 2000 if size == INF else size
    return -value if sign else value


def least(words: set[str], type: str, values: list[Number], greatest: bool) -> int:
    if "ftz" in words:
        values = [flush(v, type) for v in values]
    if "abs" in words:
        sign = values[0][0] ^ values[1][0] if "xorsign" in words else 0
        values = [(0, v[1]) for v in values]
    numbers = [v for v in values if v[1] != NAN]
    if not numbers or "NaN" in words and len(numbers) < len(values):
        return nan(type)
    found = sorted(numbers, key=lambda v: (order(v), not v[0]))[-1 if greatest else 0]
    if "xorsign" in words:
        found = (sign, found[1])
    return encoded(found, type)


COMPARE = {"eq": "__eq__", "ne": "__ne__", "lt": "__lt__", "le": "__le__", "gt": "__gt__", "ge": "__ge__", "lo": "__lt__", "ls": "__le__", "hi": "__gt__", "hs": "__ge__"}


def holds(word: str, type: str, a: int, b: int, ftz: bool = False) -> bool:
    if type not in LAYOUT:
        return getattr(integer(a, type), COMPARE[word])(integer(b, type))
    numbers = [decoded(v, type) for v in (a, b)]
    if ftz:
        numbers = [flush(v, type) for v in numbers]
    x, y = map(order, numbers)
    unordered = x is None or y is None
    if word in ("num", "nan"):
        return unordered == (word == "nan")
    if unordered:
        return word.endswith("u") and len(word) == 3
    return getattr(x, COMPARE[word[:2]])(y)


# ---- conversions ----------------------------------------------------------------------------------------------------------------------------------


def whole(x: Number, mode: str) -> int:
    value = order(x) or Fraction(0)
    low = value.numerator // value.denominator
    rest = value - low
    up = {"rni": rest > Fraction(1, 2) or rest == Fraction(1, 2) and low & 1, "rmi": False, "rpi": rest > 0, "rzi": rest > 0 and value < 0}[mode]
    return low + bool(up)


def limits(type: str) -> tuple[int, int]:
    bits = int(type[1:])
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if type[0] == "s" else (0, (1 << bits) - 1)


def clamp(value: int, type: str) -> int:
    low, high = limits(type)
    return min(max(value, low), high)


def convert(words: tuple[str, ...], values: list[int]) -> int | None:
    *mods, to, source = words
    if mods[:1] == ["pack"]:
        return pack(words, values)
    width = BITS.get(to, 16)
    mask = (1 << width) - 1
    how = next((m for m in mods if m in ("rni", "rzi", "rmi", "rpi")), "")
    mode = next((m for m in mods if m in (*ROUNDING, "rna")), "rn")
    if source[:-2] in LAYOUT and source.endswith("x2"):
        return halves(source, to, mods, values)
    if to.endswith("x2"):
        small = to[:-2]
        step = LAYOUT[small][0] + LAYOUT[small][1] + 1
        step = 8 if step in (6, 8) else step
        parts = [narrow(decoded(v, source), small, mode, mods) for v in values]
        return parts[0] << step | parts[1]
    if source not in LAYOUT:
        value = integer(values[0], source)
        if to in LAYOUT:
            return encoded((int(value < 0), Fraction(abs(value))), to, mode)
        return (clamp(value, to) if "sat" in mods else value) & mask
    x = decoded(values[0], source)
    if "ftz" in mods and source == "f32":
        x = flush(x, source)
    if to not in LAYOUT:
        if x[1] == NAN:
            if width < 64 and source != "f64":
                return 0
            return 1 << width - 1
        return clamp(whole(x, how), to) & mask
    if to == "tf32":
        if x[1] == NAN:  # `rna` leaves the upper bits alone
            return values[0] & 0xFFFFE000 if mode == "rna" else 0x7FFFE000
        return narrow(x, "tf32", mode, mods) << 13
    if x[1] == NAN and not mods_end(mods) and (source == "f64" or (to, source) == ("f32", "bf16")):
        return nan_of(values[0], source, to)
    if how and x[1] not in (INF, NAN):
        value = whole(x, how)
        x = (x[0], Fraction(abs(value)))
    return finish(narrow(x, to, mode, mods), to, set(mods) & ({"sat", "ftz"} if to == "f32" else {"sat"}))


def mods_end(mods: list[str]) -> bool:
    """Whether what comes out is changed once more."""
    return bool({"sat", "relu", "satfinite"} & set(mods))


def nan_of(bits: int, source: str, to: str) -> int:
    """f64 leaves a NaN its sign and its highest bits, and makes it quiet; bf16 is the upper half of f32, whatever it is."""
    if source == "bf16":
        return bits << 16
    e, f = LAYOUT[to]
    return bits >> 63 << e + f | (1 << e) - 1 << f | (bits | 1 << 51) >> 52 - f & (1 << f) - 1


def narrow(x: Number, to: str, mode: str, mods: list[str]) -> int:
    if "relu" in mods and x[0] and x[1] != NAN:
        x = (0, Fraction(0))
    if x[1] == NAN and to in ("e2m3", "e3m2", "e2m1"):
        return encoded((0, INF), to, finite=True)
    return encoded(x, to, mode, "satfinite" in mods)


def halves(source: str, to: str, mods: list[str], values: list[int]) -> int:
    small = source[:-2]
    step = 16 if small in ("f16", "bf16") else 8
    parts = [values[0] >> step * k & ((1 << step) - 1) for k in range(2)]
    if small in ("e2m3", "e3m2"):
        parts = [p & 63 for p in parts]
    made = [narrow(decoded(p, small), to[:-2], "rn", mods) for p in parts]
    width = 16 if to == "f16x2" else 8
    return made[0] | made[1] << width


def pack(words: tuple[str, ...], values: list[int]) -> int:
    to = words[2]
    bits = int(to[1:])
    a, b = (clamp(signed(v, 32), to) & ((1 << bits) - 1) for v in values[:2])
    found = a << bits | b
    return (found | values[2] << 2 * bits if len(values) > 2 else found) & 0xFFFFFFFF


# ---- integers -------------------------------------------------------------------------------------------------------------------------------------


def bits_of(form: Form, v: list[int]) -> int | None:
    """Those instructions that look at single bits."""
    name, *mods = form.words
    width = BITS[form.operands[0]]
    ones = (1 << width) - 1
    low = 255 if width == 32 else 0xFFFFFFFF  # of a field's place and length: the ISA says 8 bits of both, the H200 has it so
    match name:
        case "popc":
            return v[0].bit_count()
        case "clz":
            return width - v[0].bit_length()
        case "brev":
            return int(f"{v[0]:0{width}b}"[::-1], 2)
        case "bfind":
            seen = v[0] ^ ones if form.operands[0][0] == "s" and v[0] >> width - 1 else v[0]
            place = seen.bit_length() - 1
            return 0xFFFFFFFF if place < 0 else width - 1 - place if "shiftamt" in mods else place
        case "bfe":
            at, length = v[1] & low, v[2] & low
            sign = v[0] >> min(at + length - 1, width - 1) & 1 if form.operands[0][0] == "s" and length else 0
            return sum((v[0] >> at + i & 1 if i < length and at + i < width else sign) << i for i in range(width))
        case "bfi":
            at, length = v[2] & low, v[3] & low
            found = v[1]
            for i in range(min(length, max(width - at, 0))):
                found = found & ~(1 << at + i) | (v[0] >> i & 1) << at + i
            return found
        case "fns":
            offset, place = signed(v[2], 32), v[1]
            if offset == -(1 << 31):  # the H200's: it has no magnitude
                return 0
            if offset == 0:
                return place if place < 32 and v[0] >> place & 1 else 0xFFFFFFFF
            left = abs(offset)
            while 0 <= place < 32:
                left -= v[0] >> place & 1
                if left == 0:
                    return place
                place += 1 if offset > 0 else -1
            return 0xFFFFFFFF
        case "szext":
            n = v[1] & 31 if "wrap" in mods else min(v[1], 32)
            low = v[0] & ((1 << n) - 1)
            return signed(low, n) & ones if n and form.result == "s32" else low
        case "bmsk":
            at, n = (x & 31 if "wrap" in mods else min(x, 32) for x in v)
            return ((1 << n) - 1) << at & ones
        case "prmt":
            return permuted(mods[1] if len(mods) > 1 else "", *v)
        case "lop3":
            table = int(form.tail, 16)
            return sum((table >> (v[0] >> i & 1) * 4 + (v[1] >> i & 1) * 2 + (v[2] >> i & 1) & 1) << i for i in range(32))
        case "shf":
            n = v[2] & 31 if "wrap" in mods else min(v[2], 32)
            word = v[1] << 32 | v[0]
            return (word << n >> 32 if mods[0] == "l" else word >> n) & 0xFFFFFFFF
    return None


def permuted(mode: str, a: int, b: int, c: int) -> int:
    """As the ISA's tables have it, byte by byte from the highest."""
    source = [(b << 32 | a) >> 8 * k & 255 for k in range(8)]
    n = c & 3
    rows = {
        "f4e": [n + 3, n + 2, n + 1, n],
        "b4e": [(n - 3) % 8, (n - 2) % 8, (n - 1) % 8, n],
        "rc8": [n] * 4,
        "ecl": [3, max(2, n), max(1, n), n],
        "ecr": [n, min(2, n), min(1, n), 0],
        "rc16": [n % 2 * 2 + 1, n % 2 * 2] * 2,
    }
    if mode:
        return int.from_bytes(bytes(source[k] for k in rows[mode]), "big")
    found = 0
    for k in range(4):
        pick = c >> 4 * k & 15
        byte = source[pick & 7]
        found |= ((255 if byte & 128 else 0) if pick & 8 else byte) << 8 * k
    return found


def whole_numbers(form: Form, v: list[int]) -> int | None:
    name, *mods = form.words
    type = form.operands[0]
    width = BITS[type]
    x = [integer(b, t) for b, t in zip(v, form.operands)]
    match name:
        case "add" | "sub":
            total = x[0] + x[1] if name == "add" else x[0] - x[1]
            return clamp(total, type) if "sat" in mods else total
        case "mul" | "mad":
            product = x[0] * x[1] >> (width if "hi" in mods else 0)
            total = product + (x[2] if name == "mad" else 0)
            if name == "mad" and mods[0] == "lo":
                total = x[0] * x[1] + x[2]
            return clamp(total, "s32") if "sat" in mods else total
        case "mul24" | "mad24":
            low = [signed(b & 0xFFFFFF, 24) if type == "s32" else b & 0xFFFFFF for b in v[:2]]
            product = low[0] * low[1] >> (16 if "hi" in mods else 0)
            product = signed(product & 0xFFFFFFFF, 32) if type == "s32" else product & 0xFFFFFFFF
            total = product + (x[2] if name == "mad24" else 0)
            return clamp(total, "s32") if "sat" in mods else total
        case "sad":
            return x[2] + abs(x[0] - x[1])
        case "div" | "rem" if x[1] == 0 or x[1] == -1 and x[0] == limits(type)[0]:
            return None  # left open
        case "div":
            return int(Fraction(x[0], x[1]))
        case "rem":
            return x[0] - x[1] * int(Fraction(x[0], x[1]))
        case "min" | "max":
            found = (min if name == "min" else max)(x[0], x[1])
            return max(found, 0) if "relu" in mods else found
        case "abs":
            return abs(x[0])
        case "neg":
            return -x[0]
        case "and":
            return v[0] & v[1]
        case "or":
            return v[0] | v[1]
        case "xor":
            return v[0] ^ v[1]
        case "not":
            return ~v[0]
        case "cnot":
            return int(v[0] == 0)
        case "shl":
            return v[0] << v[1] if v[1] < width else 0
        case "shr":
            return x[0] >> min(v[1], width)
        case "dp4a" | "dp2a":
            size = 8 if name == "dp4a" else 16
            start = 2 if "hi" in mods else 0
            pick = lambda word, low, bits, t: signed(word >> low & (1 << bits) - 1, bits) if t[0] == "s" else word >> low & (1 << bits) - 1  # noqa: E731
            return x[2] + sum(pick(v[0], size * k, size, type) * pick(v[1], 8 * (start + k), 8, form.operands[1]) for k in range(32 // size))
    return None


def video(form: Form, v: list[int]) -> int:
    """Two halves or four bytes, each with its operand's sign; `.sat` keeps each in the result's range, `.add` adds them all to the third."""
    name, to, first, second, *more = form.words
    count, name = int(name[-1]), name[:-1]
    bits = 32 // count
    total = integer(v[2], to) if more == ["add"] else 0
    for k in range(count):
        a, b = (signed(w, bits) if t[0] == "s" else w for w, t in ((x >> bits * k & (1 << bits) - 1, t) for x, t in zip(v, (first, second))))
        part = {"vadd": a + b, "vsub": a - b, "vabsdiff": abs(a - b), "vmin": min(a, b), "vmax": max(a, b)}.get(name)
        if part is None:  # the mean; halves go away from zero
            part = (a + b + (a + b >= 0)) // 2
        if more == ["add"]:
            total += part
        else:
            low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if to[0] == "s" else (0, (1 << bits) - 1)
            total |= ((min(max(part, low), high) if more else part) & (1 << bits) - 1) << bits * k
    return total


# ---- all ------------------------------------------------------------------------------------------------------------------------------------------

PACKED = {"f16x2": "f16", "bf16x2": "bf16", "u16x2": "u16", "s16x2": "s16", "f32x2": "f32"}


def expected(form: Form, v: list[int]) -> int | None:
    if form.approximate:
        return None
    name, *mods = form.words
    if name == "cvt":
        return convert(tuple(mods), v)
    if form.result in PACKED and name not in ("selp", "slct"):
        single = PACKED[form.result]
        inner = Form(form.name.replace(form.result, single), (single,) * len(form.operands), single, form.tail)
        size = BITS[single]
        parts = [expected(inner, [x >> size * k & (1 << size) - 1 for x in v]) for k in range(2)]
        return None if None in parts else parts[0] | parts[1] << size
    mask = (1 << BITS[form.result]) - 1
    if name[0] == "v":
        return video(form, v) & mask
    if name in ("setp", "set"):
        type = mods[-1]
        truth = holds(mods[0], type, v[0], v[1], "ftz" in mods)
        if len(v) > 2:
            truth = {"and": truth and v[2], "or": truth or v[2], "xor": truth != bool(v[2])}[mods[1]]
        if name == "setp":
            return int(bool(truth))
        one = encoded((0, Fraction(1)), form.result) if form.result in LAYOUT else mask
        return one if truth else 0
    if name == "selp":
        return v[0] if v[2] else v[1]
    if name == "slct":
        by = flush(decoded(v[2], "f32"), "f32") if "ftz" in mods else decoded(v[2], "f32")
        c = signed(v[2], 32) if mods[-1] == "s32" else order(by)
        return v[0] if c is not None and c >= 0 else v[1]
    if name == "testp":
        size = decoded(v[0], mods[1])[1]
        kinds = {"finite": size not in (INF, NAN), "infinite": size == INF, "number": size != NAN, "notanumber": size == NAN}
        real = size not in (INF, NAN, 0)
        subnormal = real and flush((0, size), mods[1])[1] == 0
        return int({**kinds, "normal": size not in (INF, NAN) and not subnormal, "subnormal": subnormal}[mods[0]])
    if name == "copysign":
        top = 1 << BITS[form.result] - 1
        return v[0] & top | v[1] & ~top
    if form.result in LAYOUT:
        values = [decoded(b, t) for b, t in zip(v, form.operands)]
        words = set(mods)
        if name in ("neg", "abs"):
            x = values[0]
            found = (1 - x[0] if name == "neg" else 0, x[1])
            return None if x[1] == NAN else encoded(flush(found, form.result) if "ftz" in words else found, form.result)
        if name in ("min", "max"):
            return least(words, form.result, values, name == "max")
        return arithmetic(name, form.result, words, values)
    found = bits_of(form, v)
    if found is None:
        found = whole_numbers(form, v)
    return None if found is None else found & mask
