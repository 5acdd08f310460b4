"""Define what conditions are: the first item of each (terms.py)."""

from __future__ import annotations

from snap._compiler.ir.word import Word


class CondKind(Word):
    """(GE, p): p >= 0; (EQ, p): p == 0; (NE, p): p != 0; (AND, ...) and (OR, ...) of conditions; (TRUE,); (FALSE,)."""

    GE = "ge"
    EQ = "eq"
    NE = "ne"
    AND = "and"
    OR = "or"
    TRUE = "true"
    FALSE = "false"


# As names of the module they can be used in a pattern, and are found fast: `logic.GE`.
GE, EQ, NE, AND, OR, TRUE, FALSE = CondKind
