"""From where inlined code was called: `.loc 1 5 3, function_name f, inlined_at 1 10 5`.

Input: the `.loc` of a text, one after the other.  Output: for each its file and line, and those of the calls by which
it came there, the innermost first.  Rule (PTX ISA, ".loc"; a call's place is that of a `.loc` before, inlined or not):

  chain(s) = (file, line), then chain(c) of the last `.loc` c at the place that s was inlined at, or that place alone
"""

from __future__ import annotations

from snap.ptx.text import tree

Chain = tuple[int, ...]  # file, line, file, line, ...
DEEPEST = 32  # calls that are followed


class Sites:
    def __init__(self) -> None:
        self.known: dict[tuple[int, int, int], Chain] = {}

    def chain(self, s: tree.Location) -> Chain:
        calls = () if s.inlined_at is None else self.known.get(s.inlined_at, s.inlined_at[:2])
        found = self.known[s.file, s.line, s.column] = (s.file, s.line, *calls[: 2 * DEEPEST])
        return found
