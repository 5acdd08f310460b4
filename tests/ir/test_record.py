"""`@record` against what it stands for: `dataclass(frozen=True, slots=True)`."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from dataclasses import dataclass, field

import pytest

from snap._compiler.ir import nodes as ir
from snap.record import record, replace

PLAIN = dataclass(frozen=True, slots=True)


class Body:
    """A class as it is written, once for each decorator."""

    def __new__(cls, decorate):
        @decorate
        class Node:
            """Its docstring."""

            name: str
            items: tuple = ()
            weak: bool = field(default=False, compare=False)
            span: object = field(compare=False, kw_only=True)

            @property
            def first(self):
                return self.items[0]

        return Node


@record
class Pair:
    left: int
    right: int


@record
class Nothing:
    pass


def unverified(cls):
    """A record as it is without `SNAP_VERIFY`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("snap.record.REFUSING", False)
        return record(cls)


@pytest.fixture(params=[PLAIN, record, unverified], ids=["dataclass", "record", "unverified"])
def node(request):
    return Body(request.param)


def test_fields(node):
    one = node("a", (1, 2), span="here")
    assert (one.name, one.items, one.weak, one.span, one.first) == ("a", (1, 2), False, "here", 1)
    assert node("a", span=1).items == () and node(name="a", items=(3,), span=1).first == 3
    assert node.__match_args__ == ("name", "items", "weak") and node.__slots__ == ("name", "items", "weak", "span")
    assert node.__name__ == "Node" and node.__qualname__.endswith("Node") and node.__doc__ == "Its docstring."
    assert repr(one).endswith("Node(name='a', items=(1, 2), weak=False, span='here')")


def test_wrong_arguments(node):
    for _ in range(2):  # the first call and a later one
        for args, keywords in [((), {"span": 1}), (("a",), {}), (("a", (), False, 1), {}), (("a",), {"span": 1, "other": 2})]:
            with pytest.raises(TypeError, match="__init__"):
                node(*args, **keywords)
        node("a", span=1)


def test_equality(node):
    assert node("a", (1,), True, span=1) == node("a", (1,), False, span=2) != node("b", (1,), span=1)
    assert hash(node("a", (1,), True, span=1)) == hash(node("a", (1,), span=2))
    assert node("a", span=1) != Body(record)("a", span=1) and node("a", span=1) != "a"
    assert len({node("a", span=1), node("a", span=2), node("b", span=1)}) == 2


def test_refusing_costs_only_where_it_is_asked_for():
    from snap.record import REFUSING

    assert REFUSING  # tests are run with SNAP_VERIFY
    one = Body(unverified)("a", span=1)
    assert type(one).__setattr__ is object.__setattr__ and not hasattr(one, "__dict__")


@pytest.mark.parametrize("decorate", [PLAIN, record])
def test_frozen(decorate):
    node = Body(decorate)
    one = node("a", span=1)
    for name in ("name", "span", "unknown"):
        with pytest.raises((dataclasses.FrozenInstanceError, TypeError)):
            setattr(one, name, 1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        del one.name
    assert not hasattr(one, "__dict__")


def test_match(node):
    match node("a", (1,), span=7):
        case node(name, (item,), span=span):
            assert (name, item, span) == ("a", 1, 7)
        case _:
            pytest.fail("it did not match")


def test_the_functions_of_dataclasses(node):
    one = node("a", (1,), True, span=7)
    assert dataclasses.is_dataclass(node) and dataclasses.is_dataclass(one)
    assert [(f.name, f.type, f.compare, f.kw_only) for f in dataclasses.fields(one)] == [
        ("name", "str", True, False), ("items", "tuple", True, False), ("weak", "bool", False, False), ("span", "object", False, True)]
    other = dataclasses.replace(one, name="b")
    assert (other.name, other.items, other.weak, other.span) == ("b", (1,), True, 7)
    again = replace(one, name="b")
    assert again == other and (again.weak, again.span) == (True, 7) and one.name == "a"
    with pytest.raises(TypeError, match="other"):
        replace(one, other=1)


def test_copies():
    assert pickle.loads(pickle.dumps(Pair(1, 2))) == copy.copy(Pair(1, 2)) == copy.deepcopy(Pair(1, 2)) == Pair(1, 2)


def test_no_fields():
    assert Nothing() == Nothing() and hash(Nothing()) == hash(Nothing()) and repr(Nothing()) == "Nothing()"


def test_a_body_keeps_its_own_methods():
    @record
    class Named:
        name: str

        def __repr__(self):
            return self.name

        def __eq__(self, other):
            return True

        __hash__ = None

    assert repr(Named("a")) == "a" and Named("a") == Named("b")
    with pytest.raises(TypeError):
        hash(Named("a"))


def test_defaults_are_values():
    with pytest.raises(TypeError, match="a record's defaults are values"):
        @record
        class Wrong:
            items: list = field(default_factory=list)


def test_the_ir_is_made_of_records():
    assert hasattr(ir.Const, "_declared") and dataclasses.is_dataclass(ir.Const)
