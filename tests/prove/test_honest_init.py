"""*Proved* and a read of what nobody wrote never meet; *refuted* is what the machine has seen."""

from __future__ import annotations

import numpy as np
import pytest

import snap
from prove.writing_init import Writer
from snap.prove.verdict import Verdict

COUNT, PARTS = 72, 4
LAUNCHES = [(n, m) for n in (0, 1, 2, 3, 4, 5, 8, 9, 17) for m in (1, 2, 3, 6)]


def drawn(seed: int):
    """The kernel of a seed, or None where the compiler refuses it."""
    writer = Writer(seed)
    text, name = writer.text, f"<drawn init {seed}>"
    snap.register_source(name, text)
    names: dict = {}
    try:
        exec(compile(text, name, "exec"), names)
    except snap.SnapError:
        return writer, None
    return writer, names["k"]


def unwritten(writer: Writer, k):
    """The first launch in which the machine traps such a read.  What else it traps is another property's matter."""
    for n, m in LAUNCHES:
        try:
            k[2](np.zeros(2 * writer.threads, np.int32), n, m)
        except snap.MachineError as error:
            if error.kind == "uninitialized":
                return n, m, str(error)
    return None


@pytest.mark.parametrize("part", range(PARTS))
def test_proved_is_never_wrong(part):
    seen = {verdict: 0 for verdict in Verdict}
    for seed in range(part * COUNT // PARTS, (part + 1) * COUNT // PARTS):
        writer, k = drawn(seed)
        if k is None:
            continue
        found = k.prove(["init"]).of("init")
        seen[found.verdict] += 1
        if found.verdict is Verdict.PROVED:
            wrong = unwritten(writer, k)
            assert wrong is None, f"seed {seed}: proved, and {wrong}\n{writer.text}"
        elif found.verdict is Verdict.REFUTED:
            assert "uninitialized" in found.replay(), f"seed {seed}\n{writer.text}"
    assert seen[Verdict.PROVED] and seen[Verdict.REFUTED] > seen[Verdict.UNKNOWN], seen
