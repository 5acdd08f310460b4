"""A choice of a few, each of which has a word that is printed and compared: `PointKind.BLOCK` is "block" to users."""

from __future__ import annotations

from enum import Enum


class Word(str, Enum):
    """Members are strings: they are printed, pickled and hashed as their words are, and a type checker knows them."""

    __str__, __repr__, __hash__ = str.__str__, str.__repr__, str.__hash__
