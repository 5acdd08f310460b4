"""List the codes: in one line, what each one rejects or warns of.  Every code has a page `docs/errors/SNAPnnn.md`, and
each error has programs in `tests/bad/SNAPnnn/`.
"""

from __future__ import annotations

CODES: dict[str, str] = {
    "SNAP001": "group or split on a level the code does not hold",
    "SNAP002": "the count is not a multiple of the group's size",
    "SNAP003": "split cases ask for more units than there are",
    "SNAP004": "a split case is misaligned",
    "SNAP005": "write up: a privilege that is higher than the code's, not in its class, or not a divisor",
    "SNAP006": "read down: something varies below the target, or may",
    "SNAP007": "break, continue or return would leave the group",
    "SNAP008": "the callee requires privileges the caller does not hold",
    "SNAP009": "memory written at a privilege other than thread[1], or through const",
    "SNAP010": "the base's name is used while it is lowered",
    "SNAP011": "sibling split branches lower the same memory",
    "SNAP012": "shared memory declared outside block[1]",
    "SNAP013": "shared memory over the declared or the device's limit",
    "SNAP014": "claim misused: two branches, wrong size, or replicated",
    "SNAP015": "an argument's privilege, constness or aliasing does not fit the parameter",
    "SNAP016": "a collective without the privilege it needs",
    "SNAP017": "Python that is not Snap",
    "SNAP018": "type error",
    "SNAP019": "unknown or out-of-scope name",
    "SNAP020": "no way to synchronize what was asked",
    "SNAP021": "pipeline stages, or `arrive` and `wait`, out of order",
    "SNAP022": "two threads touch one element, one of them writes, and nothing orders them",
    "SNAP023": "an index out of bounds, in a launch that the kernel allows",
    "SNAP024": "read before it is written, in a launch that the kernel allows",
    "SNAP026": "not proved, though `proved=True` asks for it",
    "SNAP027": "a proof needs a precondition that `where=` does not say",
    "SNAP028": "a view or a contract that does not fit",
}
WARNINGS: dict[str, str] = {
    "SNAP030": "a quotient of integers that becomes a float",
    "SNAP031": "a barrier in a loop, for parts that `disjoint=` may say to be apart",
    "SNAP032": "a barrier that a proof shows to be unnecessary",
}
