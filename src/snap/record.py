"""`@record`: a frozen slotted dataclass that costs little to define.

`dataclass(frozen=True, slots=True)` writes and compiles six functions per class before any program has been read, and
the trees have well over a hundred classes; a program uses a few dozen.  Records share their methods, and a class's
`__init__` is compiled when it is first called.  Otherwise the two are the same: `field(...)`, defaults, keywords,
`match`, equality, hash, repr, pickling, `dataclasses.fields` and `replace` (this module has its own, which takes a
fifth of the time).

The type checker rejects assignments to a field (`frozen_default`).  With `SNAP_VERIFY` in the environment,
as in all tests, they raise as well: such a class has to fill its own fields in another way, which takes
twice the time, and one kernel needs tens of thousands of records.

A record may inherit from another, if the fields of either one are keyword-only.

A record is its fields.  Values derived from them can be kept in it (`kept`), in slots that the class names
(`KEEPS = ("what",)`); they are not part of it, and are freed with it.

Non-goals: other inherited fields, `default_factory`, `__post_init__`, class variables.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError, dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform  # which type checkers have built in, and users need not install
else:

    def dataclass_transform(**_keywords):
        return lambda decorator: decorator


T = TypeVar("T")
REFUSING = os.environ.get("SNAP_VERIFY", "") not in ("", "0")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def record(cls: type[T]) -> type[T]:
    body = {name: value for name, value in vars(cls).items() if name not in ("__dict__", "__weakref__")}
    declared: dict[str, Field] = {}
    for name in cls.__annotations__:
        given = body.pop(name, MISSING)
        declared[name] = given if isinstance(given, Field) else field(default=given)
    inherited = {name: one for base in cls.__bases__ for name, one in getattr(base, "_declared", {}).items()}
    if any(one.default_factory is not MISSING for one in declared.values()):
        raise TypeError(f"{cls.__name__}: a record's defaults are values")
    own, declared = tuple(declared), {**declared, **inherited}
    compared = [name for name, one in declared.items() if one.compare]
    metaclass: Any = type(cls)
    made = metaclass(
        cls.__name__,
        cls.__bases__,
        {
            **_SHARED,
            **(_REFUSING if REFUSING else {}),
            **body,
            "__slots__": (*own, *body.get("KEEPS", ())),
            "__match_args__": tuple(name for name, one in declared.items() if one.kw_only is not True),
            "_declared": declared,
            "_key": attrgetter(*compared) if compared else staticmethod(lambda self: ()),
        },
    )
    made.__qualname__ = cls.__qualname__
    return made


def copied(one: T) -> T:
    """Make another record with the same fields, without the values kept in the first one."""
    return type(one)._copied(one)  # type: ignore[attr-defined]


def replace(one: T, **parts: object) -> T:
    """Copy the record with other values in some fields."""
    cls: Any = type(one)
    declared = getattr(cls, "_declared", None)
    if declared is None:
        return dataclasses.replace(one, **parts)  # type: ignore[type-var]
    made = cls._copied(one)
    for name, part in parts.items():
        if name not in declared:
            raise TypeError(f"{cls.__name__} has no field {name!r}")
        _put(made, name, part)
    return made


_put = object.__setattr__


def kept(name: str, made: Callable[[Any], T]) -> Callable[[Any], T]:
    """Compute `made` of a record once, and keep it in the slot of that name.  The name is in the function's
    text: Python finds a slot faster that way than by `getattr`, and passes ask tens of thousands of times.
    """
    names: dict[str, Any] = {"made": made, "put": _put}
    exec(
        f"""def ask(one):
    try:
        return one.{name}
    except AttributeError:
        answer = made(one)
        put(one, {name!r}, answer)
        return answer""",
        names,
    )
    return names["ask"]


def _init(self: Any, *args: object, **keywords: object) -> None:
    """Serve the first call; from then on the class has an `__init__` of its own."""
    cls = type(self)
    cls.__init__ = _compiled_init(cls)
    self.__init__(*args, **keywords)


def _compiled_init(cls: Any) -> Callable[..., None]:
    """Compile an `__init__`.  If the class's `__setattr__` raises, values go in through the slots' own descriptors:
    `object`'s would look the slot up by name each time.
    """
    refusing = cls.__setattr__ is _setattr
    names: dict[str, Any] = {}
    positional: list[str] = []
    by_keyword: list[str] = []
    for name, one in cls._declared.items():
        names[f"set_{name}"] = getattr(cls, name).__set__
        names[f"default_{name}"] = one.default
        (by_keyword if one.kw_only is True else positional).append(
            name if one.default is MISSING else f"{name}=default_{name}"
        )
    params = ", ".join(["self", *positional, *(["*"] if by_keyword else []), *by_keyword])
    store = "set_{0}(self, {0})" if refusing else "self.{0} = {0}"
    body = "; ".join(map(store.format, cls._declared)) or "pass"
    exec(f"def __init__({params}): {body}", names)
    init = names["__init__"]
    init.__module__, init.__qualname__ = cls.__module__, f"{cls.__qualname__}.__init__"
    return init


def _copied(one: Any) -> Any:
    """Serve the first call; from then on the class has a function of its own, with the fields written out."""
    cls = type(one)
    copy = _compiled_copy(cls)
    cls._copied = staticmethod(copy)
    return copy(one)


def _compiled_copy(cls: Any) -> Callable[[Any], Any]:
    store = "put(made, {0!r}, one.{0})" if cls.__setattr__ is _setattr else "made.{0} = one.{0}"
    body = "; ".join(map(store.format, cls._declared)) or "pass"
    names: dict[str, Any] = {"new": cls.__new__, "cls": cls, "put": _put}
    exec(f"def copy(one):\n    made = new(cls)\n    {body}\n    return made", names)
    return names["copy"]


def _eq(self: Any, other: Any) -> bool:
    if self is other:
        return True
    return self._key(self) == other._key(other) if type(other) is type(self) else NotImplemented


def _hash(self) -> int:
    return hash(self._key(self))


def _repr(self) -> str:
    shown = (f"{name}={getattr(self, name)!r}" for name, one in self._declared.items() if one.repr)
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _setattr(self, name: str, value: object) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _delattr(self, name: str) -> None:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _getstate(self) -> list[object]:
    return [getattr(self, name) for name in self._declared]


def _setstate(self, state: list[object]) -> None:
    for name, value in zip(self._declared, state):
        object.__setattr__(self, name, value)


class _Fields:
    """Serve the functions of `dataclasses`: made when one of them asks, from a class with the same declarations
    and no methods.
    """

    def __get__(self, instance: object, cls: Any) -> dict[str, Field]:
        written = {name: kind for c in reversed(cls.__mro__[:-1]) for name, kind in c.__annotations__.items()}
        types = {name: written[name] for name in cls._declared}
        twin: Any = type(cls.__name__, (), {"__annotations__": types, "__module__": cls.__module__, **cls._declared})
        cls.__dataclass_fields__ = found = dataclass(init=False, repr=False, eq=False, match_args=False)(
            twin
        ).__dataclass_fields__
        return found


_SHARED = {
    "__init__": _init,
    "_copied": staticmethod(_copied),
    "__eq__": _eq,
    "__hash__": _hash,
    "__repr__": _repr,
    "__getstate__": _getstate,
    "__setstate__": _setstate,
    "__dataclass_fields__": _Fields(),
}
_REFUSING = {"__setattr__": _setattr, "__delattr__": _delattr}
