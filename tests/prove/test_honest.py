"""*Proved* and a failing launch never meet; neither do *refuted* and a kernel all of whose small launches are right."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import snap
from prove.honest import failing, runner, tried
from prove.writing import Writer, lengths
from snap.prove.verdict import Verdict

COUNT, TRIED = 25, 40
MANY, PARTS = 48, 4  # kernels of many programs


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
                if k.races(np.zeros(length, np.int32), n, m, blocks=blocks, seeds=1):
                    yield "race", n, m, blocks, length
            except snap.LaunchError:
                continue
            except snap.MachineError as error:
                if error.kind == "uninitialized":  # another property's matter
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
    assert seen[Verdict.PROVED] or seen[Verdict.REFUTED], seen


@pytest.mark.parametrize("part", range(PARTS))
def test_of_many_programs_none_that_is_proved_fails(part):
    """144 programs, each in all of its small launches, thousands of them: counted, not run (honest.py)."""
    seen = [tried(seed) for seed in range(part * MANY // PARTS, (part + 1) * MANY // PARTS)]
    assert sum(one["programs"] for one in seen) >= 120 and sum(one["proved"] for one in seen) >= 20 and sum(one["launches"] for one in seen) >= 1000, seen


def test_counting_finds_what_is_wrong():
    """What the comparison rests on: programs that are wrong, each in its own way, and one that is right."""
    for body, fault in (
        ("x[i] = 1", ""),
        ("x[i + 1] = 1", "element 4 of 4"),
        ("x[i / 2] = 1", "meet in element 0"),
        ("if i > 0:\n    x[i] = x[i - 1]", "meet in element 1"),
        ("if (i + 2147483647) * 2 > 0:\n    x[i] = 1", "leaves 32 bits"),
        ("x[i % (n - 4)] = 1", "element 1000003 of 4"),
        ("k: int = 0\nwhile True:\n    k = 1", "does not end"),
        ("x[i] = x[i] * 2147483647 * 2", ""),  # no index depends on it
    ):
        assert fault in failing(runner(body, "x"), 4, 1, 1, 4) and bool(fault) == bool(failing(runner(body, "x"), 4, 1, 1, 4)), body
