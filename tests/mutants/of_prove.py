"""What a proof rests on, made wrong step by step (rules.py)."""

from __future__ import annotations

from mutants.mutant import Mutant

MUTANTS = (
    Mutant("signed arithmetic that feeds an index may overflow", "prove/values.py",
           "    return Value(x, deps | {w.arithmetic(x, t, span)})",
           "    return Value(x, deps)",
           ("tests/prove/test_bounds.py::test_arithmetic_that_guards_counts",)),
    Mutant("two threads agree only on what was settled when the scope was entered", "prove/apart.py",
           "        return settled and atom.number < entry.stamp and atom.per.at_least(outer)",
           "        return atom.per.at_least(outer)",
           ("tests/prove/test_races.py::test_not_proved",)),
    Mutant("blocks are asked about, too", "prove/apart.py",
           "    if free:\n        yield Pair(a, b, None, \"blocks\")",
           "    if not free:\n        yield Pair(a, b, None, \"blocks\")",
           ("tests/prove/test_refuted.py::test_refuted",)),
    Mutant("what a loop adds is the same each time", "prove/loops.py",
           "if all(a.number < settled and a not in turn.atoms for",
           "if all(a.number < settled for",
           ("tests/prove/test_bounds.py::test_what_grows_by_another_amount_each_time",)),
    Mutant("a precondition that is needed is not there", "prove/bounds.py",
           "    verdict = Verdict.UNKNOWN if needs else Verdict.PROVED",
           "    verdict = Verdict.PROVED",
           ("tests/prove/test_bounds.py::test_one_too_far_needs_more",)),
    Mutant("refuted is what the machine has seen at that place", "prove/replay.py",
           "        if seen is not None and seen[0] in kinds and line in seen[2]:",
           "        if seen is None or seen[0] in kinds:",
           ("tests/prove/test_refuted.py::test_what_no_run_shows_is_unknown",)),
)
