"""Help that can be followed: the nearest word, and nothing about stages where there are none."""

from __future__ import annotations

import pytest

from snap import *
from snap.diag.error import SnapError


@pytest.mark.parametrize("word, way", [("acqrel", 'write `order="acq_rel"`'), ("aquire", 'write `order="acquire"`'), ("sequential", 'write one of these in quotes, `order="..."`')])
def test_the_nearest_word_is_offered(word, way):
    """Not the first of the list: the weakest order would be a race."""
    with pytest.raises(SnapError) as found:

        @kernel(threads=32)
        def counts(c: ptr(int)):
            with each(block), each(thread):
                atomic.add(c, 0, 1, order=word)

    assert way in found.value.render()


def test_what_is_loaded_and_never_used():
    with pytest.raises(SnapError) as found:

        @kernel(threads=128)
        def loads(a: ptr(const(float), (64, 64)), c: ptr(float)):
            with each(block, c):
                s: shared(float[64, 32], swizzle=128)
                async_copy(s, a, at=(0, 0))
                with each(thread, c) as t:
                    c[t] = 1.0

        loads.cuda()

    assert "nothing uses it" in found.value.render() and "use what is loaded, or leave the load out" in found.value.render()
