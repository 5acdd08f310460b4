"""How often the text is walked: counting what is in flight takes no more than finding what is in conflict.

Both walk a loop again with what is new at its top, alone.  Were the counting walk to begin again with all that is there, each loop around another
would double it.
"""

from __future__ import annotations

import pytest
from corpus import OK

from snap.api import SnapFunction
from snap.sync import synchronize
from snap.sync.graph import Walk
from snap.sync.groups import Counter

PROGRAMS = {"hgemm": "hgemm", "hgemm_cluster": "hgemm", "sgemm_pipelined": "three_stages", "attention": "attention"}


@pytest.mark.parametrize("program", PROGRAMS)
def test_counting_walks_as_often_as_finding(program, monkeypatch):
    walked = {"finding": 0, "counting": 0}
    statement = Walk._statement

    def counted(self, s, paths):
        walked["counting" if isinstance(self.visitor, Counter) else "finding"] += 1
        return statement(self, s, paths)

    kernel = next(p for p in OK if p.path.stem == program).execute()[PROGRAMS[program]]
    assert isinstance(kernel, SnapFunction)
    typed = kernel._the_one({}).typed
    monkeypatch.setattr(Walk, "_statement", counted)
    synchronize(typed)
    assert 0 < walked["counting"] <= 1.25 * walked["finding"], walked
