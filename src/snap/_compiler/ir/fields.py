"""Tell which fields of a node hold parts of the tree, as the types of the fields say.

Input:      a node, and what is looked for
Output:     names of fields
Invariant:  a class that is new in the IR needs no row here: walking (walk.py) and changing (rewrite.py) go where its
            declaration says
Non-goals:  what the parts mean
"""

from __future__ import annotations

import re
from typing import Any, get_args

from snap._compiler.ir import acts, expressions, synced
from snap._compiler.ir import nodes as ir

EXPRESSIONS = frozenset(get_args(ir.Expr))
PLACES = frozenset(
    (*get_args(ir.Target), ir.MemAccess, ir.Tile, ir.ArrayRef)
)  # what is evaluated to find one, stands in it

# What is looked for: words in the types of fields.
EVALUATED = frozenset(("Expr", "Target", "VarTarget", "MemAccess", "Tile", "ArrayRef"))
BODIES = frozenset(("Body",))
NODES = frozenset(
    name
    for module in (expressions, acts, ir, synced)
    for name, one in vars(module).items()
    if getattr(one, "__module__", "") == module.__name__ or name in ("Expr", "Target", "Body")
)

Fields = tuple[tuple[str, bool], ...]
_KNOWN: dict[tuple[type, frozenset[str]], Fields] = {}


def holding(node: object, words: frozenset[str]) -> Fields:
    """The fields in whose types one of the words stands; of each, whether it is a body."""
    cls: Any = type(node)
    found = _KNOWN.get((cls, words))
    if found is None:
        types = {name: said for c in reversed(cls.__mro__[:-1]) for name, said in c.__annotations__.items()}
        told = ((name, re.findall(r"\w+", types[name])) for name in cls._declared)
        found = tuple((name, "Body" in named) for name, named in told if not words.isdisjoint(named))
        _KNOWN[cls, words] = found
    return found
