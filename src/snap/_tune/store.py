"""Keep choices in the on-disk cache.

Input:      a kernel, its candidates, a GPU, and the class of shapes
Output:     the choice made earlier, or None
Invariant:  a choice is used only if it is still a candidate and its code is still the code that was timed; losing an
            entry costs time, but never gives a wrong result
Non-goals:  sharing between GPUs of different names

The key names the kernel, not its text: the text of a kernel and all that it calls is known only once they are
checked, and the text of the chosen candidate suffices to notice a change.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence

from snap._tune.candidates import Config, Ready
from snap._tune.family import Family
from snap._tune.limits import Limits
from snap.host.arguments.arrays import ArrayInfo, classify
from snap.host.compile.cache import Cache, key_of
from snap.record import record

_VERSION = "tune-1"
_ALIGN = 16


@record
class Choice:
    """Hold a choice.  config: as `written` returns it"""

    config: str
    seconds: float
    code: str


def entry_key(family: Family, configs: Sequence[Config], limits: Limits, shapes: str) -> str:
    return key_of(
        _VERSION, family.label, written(family.fixed), *map(written, configs), limits.name, limits.target, shapes
    )


def written(config: Config) -> str:
    """Write values that JSON does not have (types, names of operators) as Python prints them."""
    return json.dumps(config, sort_keys=True, default=repr)


def code_key(ready: Ready) -> str:
    """Hash the generated code without its comments, which name lines."""
    return key_of(*(line for line in ready.text.splitlines() if not line.lstrip().startswith("//")))


def load(cache: Cache, key: str) -> Choice | None:
    found = cache.get(key)
    if found is None:
        return None
    try:
        entry = json.loads(found)
        return Choice(str(entry["config"]), float(entry["seconds"]), str(entry["code"]))
    except (ValueError, KeyError, TypeError):
        return None


def save(cache: Cache, key: str, choice: Choice) -> None:
    cache.put(key, json.dumps({"config": choice.config, "seconds": choice.seconds, "code": choice.code}).encode())


# ---- classes of shapes ----------------------------------------------------------------------------------------------


def shape_class(args: Sequence[object], key: object = None) -> str:
    """Return the properties that launches must share to share a choice.

    Without `key`: sizes up to the same power of two.  Always: types and alignment, since they decide which candidates
    can be used at all.
    """
    arrays = [classify(arg) for arg in args]
    always = [_kind(info) if info is not None else type(arg).__name__ for arg, info in zip(args, arrays)]
    sizes = [_sizes(arg, info) for arg, info in zip(args, arrays)] if key is None else repr(key)
    return json.dumps([always, sizes])


def _kind(info: ArrayInfo) -> str:
    row = info.shape[-1] * (info.dtype.bytes if info.dtype else 1) if info.shape else 0
    return f"{info.dtype_name}[{len(info.shape)}] at {math.gcd(info.pointer, _ALIGN)} rows {math.gcd(row, _ALIGN)}"


def _sizes(arg: object, info: ArrayInfo | None) -> object:
    if info is not None:
        return [_bucket(extent) for extent in info.shape]
    return (
        [_bucket(arg), math.gcd(arg, _ALIGN)]
        if isinstance(arg, int) and not isinstance(arg, bool)
        else str(arg)
        if isinstance(arg, bool)
        else ""
    )


def _bucket(number: int) -> int:
    """Round up to a power of two; signs are kept."""
    power = 1 << max(abs(number) - 1, 0).bit_length()
    return power if number > 0 else -power if number < 0 else 0
