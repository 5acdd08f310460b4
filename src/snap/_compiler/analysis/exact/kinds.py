"""Define what atoms are: numbers of the program, and what is made of others.

The names are repeated here: `kinds.FLOOR` is found faster than `AtomKind.FLOOR` where all atoms are
gone through, and can be used in a pattern.
"""

from __future__ import annotations

from snap._compiler.ir.word import Word


class AtomKind(Word):
    """The last seven are defined by their parts (terms.py)."""

    ANY = "any"  # a parameter, or a value that was read
    THREAD = "thread"  # a position in the block
    BLOCK = "block"  # a position in the grid, or in the cluster
    CLUSTER = "cluster"
    GROUPS = "groups"  # how many times the blocks are, of which a launch has a multiple
    LENGTH = "length"  # of an array
    EXTENT = "extent"  # of a grid that has several
    TRIP = "trip"  # how often a loop has gone round
    ELEMENT = "element"  # of several that are touched at once
    OFFSET = "offset"
    GRANULE = "granule"
    DIV = "div"
    MOD = "mod"
    FLOOR = "floor"
    AND = "and"
    ITE = "ite"
    MIN = "min"
    MAX = "max"


ANY, THREAD, BLOCK, CLUSTER, GROUPS, LENGTH, EXTENT, TRIP, ELEMENT, OFFSET, GRANULE, *_ = AtomKind
DIV, MOD, FLOOR, AND, ITE, MIN, MAX = DEFINED_KINDS = tuple(AtomKind)[-7:]
DEFINED = frozenset(DEFINED_KINDS)
