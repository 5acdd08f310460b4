"""Whatever stands in a text, it is answered: with what is wrong, and where.  `garbled.py` tries many more."""

from __future__ import annotations

import numpy as np
import pytest
from ptx.garbled import wrong
from ptx.test_machine import kernel

from snap.ptx import PtxError, load, parse, run, write
from snap.ptx.program.inject import with_control


@pytest.mark.parametrize("first", range(0, 400, 50))
def test_mutants_are_answered(first):
    assert not {number: said for number in range(first, first + 50) if (said := wrong(number))}


@pytest.mark.parametrize(
    "body, code, message",
    [
        ("bra;", "PTX002", "`bra` takes one label of this function"),
        ("bra %r0;", "PTX002", "takes one label"),
        ("bra k;", "PTX002", "takes one label"),
        ("L: bra L, L;", "PTX002", "takes one label"),
        ("brx.idx %r0;", "PTX002", "`brx.idx` takes a register and a table of labels"),
        ("t: .branchtargets A; brx.idx %r0, t, %r0; A:", "PTX002", "takes a register and a table"),
        ("A: brx.idx %r0, A;", "PTX002", "takes a register and a table"),
        ("t: .branchtargets A; brx.idx A, t; A:", "PTX002", "takes a register and a table"),
        ("t: .branchtargets nowhere; brx.idx %r0, t;", "PTX003", "`nowhere` is not a label of this function"),
        ("t: .branchtargets k; brx.idx %r0, t;", "PTX003", "`k` is not a label of this function"),
        ("t: .calltargets A; A:", "PTX003", "`A` is not a function"),
        ("add.f64 L; L:", "PTX002", "`L` is a label, which `add.f64` does not take"),
        ("mov.u64 %d0, {L, L}; L:", "PTX002", "`L` is a label"),
        ("ld.global.u32 %r3, [L+4]; L:", "PTX002", "`L` is a label"),
        ("call L; L:", "PTX002", "`call` takes a function, and no label"),
        ("t: .branchtargets A; call %d1, t; A:", "PTX002", "`call` takes a function, and no table of labels"),
        ("t: .callprototype _ (); brx.idx %r0, t;", "PTX002", "takes a register and a table of labels"),
        ("t: .branchtargets A; add.s32 %r3, %r0, t; A:", "PTX002", "`t` is a table, which `add.s32` does not take"),
        ("{" * 150 + "}" * 150, "PTX002", "blocks are nested more than 100 deep"),
        ("mov.u32 %r3, " + "!" * 5000 + "%r0;", "PTX002", "operands are nested more than 100 deep"),
        ("mov.u32 %r3, " + "{" * 5000 + "%r0;", "PTX002", "operands are nested more than 100 deep"),
        (".global .u32 g[2] = " + "{" * 5000 + ";", "PTX002", "initial values are nested more than 100 deep"),
    ],
)
def test_texts_of_no_graph_are_refused(body, code, message):
    with pytest.raises(PtxError, match=message) as caught:
        load(parse(kernel(body, 1)))
    assert caught.value.diagnostic.code == code and caught.value.diagnostic.span.line == 8


def test_blocks_may_be_nested():
    out = np.zeros(32, np.uint32)
    text = kernel("{" * 90 + "ld.param.u64 %d0, [p0]; mul.wide.u32 %d1, %r0, 4; add.s64 %d0, %d0, %d1; st.global.u32 [%d0], %r0;" + "}" * 90, 1)
    assert parse(write(parse(text))) == parse(text)
    with_control(load(parse(text)))
    run(text, "k", 1, 32, [out])
    np.testing.assert_array_equal(out, np.arange(32))
