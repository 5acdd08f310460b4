"""Describe an instruction's operands once names have been looked up (resolve.py)."""

from __future__ import annotations

from snap.record import record


@record
class Register:
    """The register with this number, of its function; `type` as it was declared."""

    index: int
    type: str


@record
class Constant:
    """An integer, of any width, or the bits of a float ('f32', 'f64')."""

    value: int
    kind: str = "int"


@record
class Special:
    """`%tid.x`."""

    name: str


@record
class Place:
    """An address in a variable: where in its space.  name, start, size: of the variable, which begins there and has so
    many bytes; None: all to the end of its space.
    """

    space: str
    offset: int
    name: str
    start: int = 0
    size: int | None = None

    def plus(self, more: int) -> Place:
        return Place(self.space, self.offset + more, self.name, self.start, self.size)

    def moved(self, space: str, start: int) -> Place:
        """The same byte of the variable, which lies elsewhere."""
        return Place(space, start + self.offset - self.start, self.name, start, self.size)


@record
class Code:
    """The address of an instruction; name: the label, or the function."""

    address: int
    name: str


@record
class Outside:
    """A function that the driver has."""

    name: str


@record
class Sink:
    """`_`: a result that nobody wants."""


@record
class Several:
    items: tuple[Operand, ...]


@record
class Both:
    """`%p1|%p2`."""

    first: Operand
    second: Operand


@record
class Negated:
    operand: Operand


@record
class Address:
    """Describe an address: a register or a place, a number of bytes, and coordinates where there are some."""

    base: Operand
    offset: int
    more: tuple[Operand, ...] = ()


Operand = Register | Constant | Special | Place | Code | Outside | Sink | Several | Both | Negated | Address


def listed(o: Operand) -> tuple[Operand, ...]:
    """Return the items in braces or parentheses; an operand alone is a list of one."""
    return o.items if isinstance(o, Several) else (o,)


def both(o: Operand) -> tuple[Operand, ...]:
    """`%p|%q` as two results."""
    return (o.first, o.second) if isinstance(o, Both) else (o,)
