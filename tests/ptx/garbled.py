"""PTX with mistakes in it: `python ptx/garbled.py FIRST COUNT` in tests/ reads, loads and runs mutants of some texts, each from its number alone.

A mutant is one of TEXTS in which tokens are left out, put twice, exchanged, or replaced by others, now and then by what stands nowhere in it.
Whatever comes out is answered: it is read, loaded, strictly and not, written back, given its control instructions, and run in both modes, with checks and
without, and nothing but `SnapError` and `PtxFault` comes out of that, each with its place; nothing takes longer than LONGEST.
"""

from __future__ import annotations

import re
import sys
import time
import traceback
import warnings
from pathlib import Path
from random import Random

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from ptx.test_machine import kernel  # noqa: E402

from snap import SnapError  # noqa: E402
from snap.ptx import PtxFault, load, parse, run, write  # noqa: E402
from snap.ptx.program.inject import with_control  # noqa: E402

LONGEST = 5.0  # seconds of the processor's time
BODIES = (
    "ld.param.u64 %d0, [p0]; mul.wide.u32 %d1, %r0, 4; add.s64 %d0, %d0, %d1; ld.global.f32 %f0, [%d0]; fma.rn.f32 %f0, %f0, 0f40000000, %f0; st.global.f32 [%d0], %f0;",
    "mov.u32 %r4, 5; again: sub.u32 %r4, %r4, 1; setp.ne.u32 %p1, %r4, 0; @%p1 bra again; setp.lt.u32 %p2, %r0, 7; @!%p2 bra other; add.u32 %r5, %r4, 1; bra.uni out; other: sub.u32 %r5, %r4, 1; out: bar.sync 0;",
    "and.b32 %r4, %r0, 1; t: .branchtargets one, two; brx.idx %r4, t; one: mov.u32 %r5, 1; two: shfl.sync.bfly.b32 %r6|%p1, %r5, 1, 31, -1; vote.sync.ballot.b32 %r7, %p1, -1;",
    ".shared .align 16 .b8 s[512]; mov.u32 %r4, s; shl.b32 %r5, %r0, 4; add.u32 %r4, %r4, %r5; st.shared.v4.u32 [%r4], {%r0, %r0, %r5, %r5}; bar.sync 0; ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r6, %r7, %r8, %r9}, [%r4];",
    ".shared .align 8 .b64 bar[1]; mov.u32 %r4, bar; setp.eq.u32 %p1, %r0, 0; @%p1 mbarrier.init.shared::cta.b64 [%r4], 32; bar.sync 0; mbarrier.arrive.shared::cta.b64 %d1, [%r4]; w: mbarrier.try_wait.shared::cta.b64 %p2, [%r4], %d1; @!%p2 bra w;",
    "ld.param.u64 %d0, [p0]; atom.global.add.u32 %r4, [%d0], 1; fence.acq_rel.gpu; ld.acquire.gpu.global.u32 %r5, [%d0]; cvt.rn.f32.u32 %f1, %r5; cvt.rzi.s32.f32 %r6, %f1; prmt.b32 %r7, %r5, %r6, 0x5410; red.global.max.u32 [%d0+4], %r7;",
    "ld.param.u64 %d0, [p0]; wmma.load.c.sync.aligned.row.m8n8k4.f64 {%g0, %g1}, [%d0], 8; wmma.load.a.sync.aligned.row.m8n8k4.global.f64 {%g2}, [%d0]; wmma.mma.sync.aligned.row.col.m8n8k4.f64.f64.f64.f64 {%g0, %g1}, {%g2}, {%g2}, {%g0, %g1}; wmma.store.d.sync.aligned.col.m8n8k4.f64 [%d0], {%g0, %g1};",
    "ld.param.u64 %d0, [p0]; mov.u64 %d1, %clock64; again: mov.u64 %d2, %clock64; sub.u64 %d2, %d2, %d1; nanosleep.u32 4; setp.lt.u64 %p1, %d2, 100; @%p1 bra again; ld.volatile.global.u32 %r5, [%d0];",
    "{ .reg .b32 %r<3>; mov.u32 %r1, %laneid; { .param .b32 a; .param .b32 r; st.param.b32 [a], %r1; call.uni (r), f, (a); ld.param.b32 %r2, [r]; } }",
)
FUNCTION = ".func (.param .b32 r) f (.param .b32 a) { .reg .b32 %x<3>; ld.param.b32 %x0, [a]; mul.lo.s32 %x1, %x0, %x0; st.param.b32 [r], %x1; ret; }\n"
TEXTS = [kernel(body, 1).replace(".visible", FUNCTION + ".visible" if "call" in body else ".visible", 1) for body in BODIES]
TOKEN = re.compile(r"[.%$\w]+|\s+|.")
STRANGE = (*"{}[]()<>;,:!@|=+-", "0", "-1", "4294967296", "0f7FC00000", "_", ".v4", ".b128", ".pred", "ret", "bra", "call", "brx.idx", "sync", "ssy", "%tid.x", "again", "out", "f", "k", "s", "99999999999999999999", "\x00", "é")


def mutant(number: int) -> str:
    draw = Random(number)
    pieces = TOKEN.findall(draw.choice(TEXTS))
    head = next(k for k, piece in enumerate(pieces) if piece in (".visible", ".func"))
    words = [k for k in range(head, len(pieces)) if re.match(r"[.%$\w]", pieces[k])]
    for _ in range(draw.choice((1, 1, 1, 2, 3, 6))):
        at, other = draw.choice(words), draw.choice(words)
        match draw.choice((0, 0, 0, 1, 1, 2, 2, 3, 4, 5, 6)):
            case 0:
                pieces[at] = pieces[other]
            case 1:  # with a comma beside it, if there is one
                pieces[at] = ""
                if "," in (beside := pieces[at - 2 : at]):
                    pieces[at - 2 + beside.index(",")] = ""
            case 2:
                parts = pieces[at].split(".")
                pieces[at] = ".".join(draw.sample(parts, len(parts))[: draw.randint(1, len(parts))])
            case 3:
                pieces[at], pieces[other] = pieces[other], pieces[at]
            case 4:
                pieces[at] += ", " + pieces[other]
            case 5:
                pieces[at] = draw.choice(STRANGE)
            case 6:
                anywhere = draw.randrange(head, len(pieces))
                pieces[anywhere] = draw.choice(("", pieces[anywhere] + " " + pieces[other], draw.choice(STRANGE)))
    return "".join(pieces)


def answered(text: str) -> list[str]:
    """What comes out of a text, one word for each thing that is done with it."""
    try:
        module = parse(text)
        program = load(module)
    except SnapError as error:
        assert error.diagnostic.span.line > 0 and str(error)
        return [error.diagnostic.code]
    assert parse(write(module)) == module
    said = ["loaded"]
    try:
        load(module, strict=True)
    except SnapError as error:
        said.append(error.diagnostic.code)
    with_control(program)
    names = [f.name for f in program.functions.values() if f.entry]
    for mode, checks in (("independent", ()), ("stack", ()), ("independent", ("races", "uninitialized", "nc"))):
        for name in names[:1]:
            f = program.functions[name]
            arguments = [np.zeros(64, np.uint32) if v.type.endswith("64") and not v.dims and not v.vector else 0 for v, _ in f.parameters]
            try:
                run(program, name, 1, 32, arguments, mode=mode, checks=checks, limit=20_000)
                said.append("ran")
            except PtxFault as fault:
                assert fault.span.line > 0 and str(fault)
                said.append(str(fault.kind))
            except (TypeError, ValueError) as refused:  # the launch does not fit the kernel, before anything runs
                assert refused.__traceback__ is not None and _of_launch(refused), refused
                said.append("refused")
    return said


def _of_launch(error: Exception) -> bool:
    """Whether it was raised on purpose, for arguments and sizes that do not fit."""
    frames = traceback.extract_tb(error.__traceback__)
    return Path(frames[-1].filename).name == "launch.py" and (frames[-1].line or "").startswith("raise ")


def wrong(number: int) -> str:
    """What a mutant shows that it should not."""
    start = time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            answered(mutant(number))
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return f"{type(error).__name__}: {error}"
    took = time.process_time() - start
    return f"{took:.1f} s" if took > LONGEST else ""


if __name__ == "__main__":
    first, count = map(int, sys.argv[1:3])
    bad = 0
    for number in range(first, first + count):
        found = wrong(number)
        if found:
            bad += 1
            print(f"{number}: {found[:300]}", flush=True)
    print(f"{count} mutants, {bad} of them not answered")
    sys.exit(bool(bad))
