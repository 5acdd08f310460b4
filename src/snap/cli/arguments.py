"""Read a kernel's arguments as they are written on the command line.

Input: words such as `zeros:f32:1024`, `arange:i32:16x16`, `random:f32:256:7`, `@x.npy`, `3`, `0.5`, `u64:7`,
`struct:i32:3,zeros:f32:64`.  Output: arrays, numbers, and tuples of these.  Invariant: what cannot be read is refused
with what may stand there; nothing larger than MOST is made.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from snap.cli.load import UsageError

if TYPE_CHECKING:
    import numpy as np

MOST_BYTES = 1 << 30  # bytes of an array
TYPES = {"bf16": "u2", "bool": "u1"} | {f"f{bits}": f"f{bits // 8}" for bits in (16, 32, 64)}
for _kind, _letter in (("i", "i"), ("s", "i"), ("u", "u"), ("b", "u")):
    TYPES |= {f"{_kind}{bits}": f"{_letter}{bits // 8}" for bits in (8, 16, 32, 64)}
FILLS = ("zeros", "ones", "arange", "random", "full")
HELP = (
    "arrays: zeros:f32:1024, ones:..., arange:i32:256, full:f32:64:2.5, random:f32:16x16[:SEED], @file.npy; numbers: 3,"
    " 0.5, 0xff, true, or with a type, u64:7; structs: struct:zeros:f32:64,i32:5,f32:0.5"
)


def parse_arguments(words: list[str]) -> list[object]:
    return [_argument(word) for word in words]


def _argument(word: str) -> object:
    if word.startswith("--"):
        raise UsageError(f"there is no option {word.partition('=')[0]} (--help lists them)")
    if word.startswith("@"):
        return _file(word)
    name, *rest = word.split(":")
    if name == "struct":
        return _struct(word, word.partition(":")[2])
    if name in FILLS:
        return _array(word, name, rest)
    if name in TYPES and len(rest) == 1:
        import numpy as np

        number = _number(word, rest[0])
        kind = np.dtype(TYPES[name])
        if name == "bf16":
            return _as_bf16(np.array([number]))[0]
        if kind.kind != "f":
            if isinstance(number, float):
                raise _bad(word, f"{rest[0]} is not a whole number")
            info = np.iinfo(kind)
            if not info.min <= number <= info.max:
                raise _bad(word, f"{name} holds {info.min} to {info.max}")
        return kind.type(number)
    if rest:
        raise _bad(word, f"{name!r} is neither a way to fill an array ({', '.join(FILLS)}) nor a type")
    return _number(word, name)


def _struct(word: str, text: str) -> tuple[object, ...]:
    """Read the fields of a struct, in C's layout."""
    import numpy as np

    fields = tuple(_argument(field) for field in text.split(","))
    for field, given in zip(text.split(","), fields):
        if not isinstance(given, (np.ndarray, np.generic)):
            raise _bad(word, f"{field!r} needs its type, such as i32:{field}" if field else "a field is missing")
    return fields


def _bad(word: str, why: str) -> UsageError:
    return UsageError(f"--args: {word!r}: {why}; {HELP}")


def _number(word: str, text: str) -> int | float:
    if text.lower() in ("true", "false"):
        return int(text.lower() == "true")
    try:
        return int(text, 0)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        raise _bad(word, f"{text!r} is not a number") from None


def _file(word: str) -> np.ndarray:
    import numpy as np

    path = Path(word[1:])
    if not path.is_file():
        raise _bad(word, "there is no such file")
    try:
        found = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise _bad(word, f"not an array that NumPy saved ({error})") from None
    if not isinstance(found, np.ndarray) or found.dtype.kind not in "biuf":
        raise _bad(word, "not an array of numbers")
    return np.ascontiguousarray(found)


def _array(word: str, fill: str, rest: list[str]) -> np.ndarray:
    import numpy as np

    if len(rest) < 2 or rest[0] not in TYPES:
        raise _bad(word, f"an array is {fill}:TYPE:SIZE, of the types {', '.join(TYPES)}")
    kind, shape = np.dtype(TYPES[rest[0]]), _shape(word, rest[1])
    count = 1
    for n in shape:
        count *= n
    if count * kind.itemsize > MOST_BYTES:
        raise _bad(word, f"{count} elements are more than {MOST_BYTES} bytes")
    more = rest[2:]
    if len(more) > (fill in ("random", "full")) or fill == "full" and not more:
        raise _bad(word, "full takes one value after the size, random a seed, and the others nothing")
    with np.errstate(all="ignore"):
        match fill:
            case "zeros" | "ones":
                made = np.full(count, fill == "ones")
            case "arange":
                made = np.arange(count)
            case "full":
                made = np.full(count, _number(word, more[0]))
            case _:
                seed = _number(word, more[0]) if more else 0
                if not isinstance(seed, int) or seed < 0:
                    raise _bad(word, "a seed is a whole number, 0 or more")
                dice = np.random.default_rng(seed)
                made = dice.random(count) if kind.kind == "f" or rest[0] == "bf16" else dice.integers(0, 100, count)
        return _as_bf16(made).reshape(shape) if rest[0] == "bf16" else made.astype(kind).reshape(shape)


def _as_bf16(values: np.ndarray) -> np.ndarray:
    """Give the bits of bf16 values: NumPy has no such type."""
    from snap.machine.lanes.numbers import bf16_bits, round_bf16

    return bf16_bits(round_bf16(values.astype("f4")))


def _shape(word: str, text: str) -> tuple[int, ...]:
    try:
        dims = tuple(int(n) for n in text.split("x"))
    except ValueError:
        dims = (-1,)
    if any(n < 0 for n in dims):
        raise _bad(word, f"{text!r} is not a size, such as 1024 or 16x16")
    return dims


def three(option: str, text: str) -> tuple[int, ...]:
    """Read `4`, `4,2` or `4x2x1`."""
    try:
        dims = tuple(int(n) for n in text.replace("x", ",").split(","))
    except ValueError:
        dims = ()
    if not 1 <= len(dims) <= 3 or any(not 1 <= n < 1 << 31 for n in dims):
        raise UsageError(f"{option} {text}: one to three positive extents, such as 4 or 4x2")
    return dims
