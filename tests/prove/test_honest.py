"""*Proved* and a failing launch never meet; neither do *refuted* and a kernel all of whose small launches are right."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import snap
from prove.writing import Writer, lengths
from snap.prove.verdict import Verdict

COUNT, TRIED = 60, 40


def drawn(seed: int):
    """The kernel of a seed, or None where the compiler refuses it."""
    writer = Writer(seed)
    text, name = writer.text, f"<drawn {seed}>"
    snap.register_source(name, text)
    names: dict = {}
    try:
        exec(compile(text, name, "exec"), names)
    except snap.SnapError:
        return writer, None
    return writer, names["k"]


def faults(writer: Writer, k, most: int):
    """What launches that keep `where=` show, one after the other."""
    shaped = "(n" in writer.text.split("def k")[1].split(")")[0] + ")"
    tried = 0
    for n, m, blocks in sorted(writer.launches(), key=lambda one: hash((one, writer.threads)) & 0xFFFF):
        for length in sorted(lengths(n, m, blocks, writer.threads)):
            x = np.zeros(length, np.int32)
            try:
                k[blocks](x, n, m)
                if snap.races(k, np.zeros(length, np.int32), n, m, blocks=blocks, seeds=1):
                    yield "race", n, m, blocks, length
            except snap.LaunchError:
                continue
            except snap.MachineError as error:
                if error.kind == "uninitialised":  # another property's matter
                    continue
                yield str(error), n, m, blocks, length
            tried += 1
            if tried >= most:
                return
            if shaped:
                break


@pytest.mark.parametrize("part", range(5))
def test_proved_is_never_wrong(part):
    seen = {verdict: 0 for verdict in Verdict}
    for seed in range(part * COUNT // 5, (part + 1) * COUNT // 5):
        writer, k = drawn(seed)
        if k is None:
            continue
        found = k.prove(["races"])
        seen[found.verdict] += 1
        if found.verdict is Verdict.PROVED:
            wrong = next(iter(itertools.islice(faults(writer, k, TRIED), 1)), None)
            assert wrong is None, f"seed {seed}: proved, and {wrong}\n{writer.text}\n{found.render()}"
        elif found.verdict is Verdict.REFUTED:
            assert "nothing" not in found.replay(), f"seed {seed}\n{writer.text}"
    assert seen[Verdict.PROVED] and seen[Verdict.REFUTED], seen
