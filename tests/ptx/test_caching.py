"""memory="caches": what kernels show of stale and reordered data, and that those without a race show nothing.

Law: a program without a race computes the same, whatever the seed.  Kernels of the corpus and generated ones are held to it."""

from __future__ import annotations

import re

import numpy as np
import pytest
from corpus import OK
from fuzz.case import FAMILIES, generate, load, made

from snap import SnapError, ptx
from snap.host import simulate
from snap.host.launch import Launcher
from snap.host.simulate import run_ptx
from snap.ptx.environment import programs
from snap.ptx.environment.explore import explore
from snap.ptx.environment.litmus import litmus

HEAD = """.version 8.8
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 px, .param .u64 py, .param .u64 po)
{
.reg .pred %p<4>; .reg .b32 %r<32>; .reg .b64 %d<8>;
ld.param.u64 %d0, [px]; ld.param.u64 %d1, [py]; ld.param.u64 %d2, [po]; mov.u32 %r30, %tid.x; mov.u32 %r31, %ctaid.x;
"""


def kernel(body: str) -> ptx.load:
    return ptx.load(ptx.parse(f"{HEAD}{body}\nret;\n}}\n"))


def run(program, seed: int, blocks: int, threads: int = 32, words: int = 64, **how) -> list[np.ndarray]:
    arrays = [np.zeros(words, np.uint32) for _ in range(3)]
    ptx.run(program, "k", blocks, threads, arrays, memory="caches", seed=seed, **how)
    return arrays


# ---- litmus tests, as kernels ----------------------------------------------------------------------------------------

MANY = 400  # seeds among which something that is possible is found; it mostly is among the first twenty
PLACES = {"x": "%d0", "y": "%d1"}


def as_kernel(text: str):
    """A block for each thread; registers are given out at the end, one after the other."""
    body, out, names = [], 0, {}
    for block, line in enumerate(text.splitlines()):
        body.append(f"setp.ne.u32 %p0, %r31, {block}; @%p0 bra NEXT{block}; setp.ne.u32 %p0, %r30, 0; @%p0 bra NEXT{block};")
        stores = []
        for one in filter(None, (part.strip() for part in line.partition(":")[2].split(";"))):
            name, _, rest = one.partition(" ")
            for place, register in PLACES.items():
                rest = rest.replace(f"[{place}]", f"[{register}]")
            for r in re.findall(r"\br\d\b", rest):
                if r not in names:
                    names[r] = f"%r{len(names)}"
                    stores.append(f"st.global.u32 [%d2+{4 * out}], {names[r]};")
                    out += 1
                rest = re.sub(rf"(?<!%)\b{r}\b", names[r], rest)
            if not name.startswith(("membar", "fence")):
                head, *more = name.split(".")
                order = [w for w in more if w in ("volatile", "relaxed")]
                name = ".".join([head, *order, *(["gpu"] if order == ["relaxed"] else []), "global", *(w for w in more if w not in order), "u32"])
            body.append(f"{name} {rest};")
        body += [*stores, f"NEXT{block}:"]
    return kernel("\n".join(body)), out


@pytest.mark.parametrize(
    "text, weak",
    [
        ("0: st.wb [x], 1; st.wb [y], 1\n1: ld.ca r0, [y]; ld.ca r1, [x]", (1, 0)),
        ("0: st.wb [x], 1; membar.gl; st.wb [y], 1\n1: ld.ca r0, [y]; membar.gl; ld.ca r1, [x]", None),
        ("0: st.wb [x], 1; ld.ca r0, [y]\n1: st.wb [y], 1; ld.ca r1, [x]", (0, 0)),
        ("0: st.wb [x], 1; membar.gl; ld.ca r0, [y]\n1: st.wb [y], 1; membar.gl; ld.ca r1, [x]", None),
        ("0: st.volatile [x], 1; ld.volatile r0, [y]\n1: st.volatile [y], 1; ld.volatile r1, [x]", None),
        ("0: ld.ca r0, [x]; st.wb [y], 1\n1: ld.ca r1, [y]; st.wb [x], 1", (1, 1)),
        ("0: ld.ca r0, [x]; membar.cta; st.wb [y], 1\n1: ld.ca r1, [y]; membar.cta; st.wb [x], 1", None),
        ("0: st.wb [x], 1\n1: ld.relaxed r0, [x]; ld.relaxed r1, [x]", None),
    ],
)
def test_kernels_show_what_the_explorer_finds_and_nothing_else(text, weak):
    program, count = as_kernel(text)
    allowed = explore(litmus(text)).found
    seen = set()
    for seed in range(MANY):
        seen.add(tuple(run(program, seed, len(text.splitlines()))[2][:count].tolist()))
        if seed >= 20 and (weak is None or weak in seen):
            break
    assert seen <= allowed and len(seen) > 1
    assert weak is None or weak in seen


# ---- what is missing shows -------------------------------------------------------------------------------------------

# Block 0 writes 32 values, and then a flag; block 1 waits for the flag, and adds up the values.  `early`: it has read some
# before, as a cache that was warm.
PASSING = """
setp.ne.u32 %p0, %r31, 0; mul.wide.u32 %d3, %r30, 4; add.s64 %d4, %d0, %d3; @%p0 bra READER;
st.global.u32 [%d4], 7; bar.sync 0; setp.ne.u32 %p1, %r30, 0; @%p1 bra END; {writer} {set} bra END;
READER: {early}
WAIT: {get} setp.eq.u32 %p1, %r1, 0; @%p1 bra WAIT; {reader}
ld.global{through}.u32 %r2, [%d4]; add.s64 %d5, %d2, %d3; st.global.u32 [%d5], %r2;
END:"""
PARTS = {
    "set": "st.volatile.global.u32 [%d1], 1;",
    "get": "ld.volatile.global.u32 %r1, [%d1];",
    "early": "ld.global.u32 %r0, [%d4];",
    "writer": "membar.gl;",
    "reader": "membar.gl;",
    "through": "",
}


def stale(seeds: int, **parts: str) -> bool:
    """Whether one of the seeds gives some value that is not the message."""
    program = kernel(PASSING.format(**{**PARTS, **parts}))
    return any((run(program, seed, 2)[2][:32] != 7).any() for seed in range(seeds))


@pytest.mark.parametrize(
    "parts",
    [
        {},
        {"through": ".cg"},
        {"reader": "fence.acq_rel.gpu;", "writer": "fence.acq_rel.gpu;"},
        {"reader": "", "get": "ld.acquire.gpu.global.u32 %r1, [%d1];", "writer": "", "set": "st.release.gpu.global.u32 [%d1], 1;"},
        {"set": "atom.global.exch.b32 %r5, [%d1], 1;", "get": "atom.global.or.b32 %r1, [%d1], 0;"},
        {"set": "red.release.gpu.global.add.u32 [%d1], 1;", "writer": "", "get": "atom.acquire.gpu.global.or.b32 %r1, [%d1], 0;", "reader": ""},
        {"writer": "", "through": ".cg"},  # the barrier has put the values into L2, where all see them in one order
    ],
)
def test_a_message_arrives(parts):
    assert not stale(12, **parts)


@pytest.mark.parametrize(
    "parts",
    [
        {"reader": ""},  # no __threadfence after the wait: L1 has what was read early
        {"reader": "membar.cta;"},
        {"reader": "", "through": ".nc"},
        {"reader": "", "get": "ld.relaxed.gpu.global.u32 %r1, [%d1];"},
    ],
)
def test_stale_data_shows(parts):
    assert stale(MANY, **parts)


def test_a_writer_without_a_fence_is_overtaken_by_its_flag():
    """One thread writes, and no barrier lies between."""
    body = """
    setp.ne.u32 %p1, %r30, 0; @%p1 bra END; setp.ne.u32 %p0, %r31, 0; @%p0 bra READER;
    st.global.u32 [%d0], 7; {fence} st{set}.global.u32 [%d1], 1; bra END;
    READER: ld.volatile.global.u32 %r1, [%d1]; setp.eq.u32 %p1, %r1, 0; @%p1 bra READER; membar.gl;
    ld.global.u32 %r2, [%d0]; st.global.u32 [%d2], %r2;
    END:"""

    def lost(fence: str, set: str, seeds: int) -> bool:
        program = kernel(body.format(fence=fence, set=set))
        return any(run(program, seed, 2)[2][0] != 7 for seed in range(seeds))

    assert lost("", ".volatile", MANY)
    assert not lost("membar.gl;", ".volatile", 20) and not lost("", ".release.gpu", 80)


def test_blocks_of_one_processor_share_its_cache():
    """The block says where it is: with the same seed in the same place, and somewhere else with others."""
    program = kernel("mul.wide.u32 %d3, %r31, 4; add.s64 %d4, %d2, %d3; mov.u32 %r0, %smid; st.global.u32 [%d4], %r0;")
    places = [tuple(run(program, seed, 8)[2][:8].tolist()) for seed in (1, 1, 2)]
    assert places[0] == places[1] != places[2] and set(places[0]) <= set(range(4))


def test_atomics_lose_nothing():
    program = kernel("atom.global.add.u32 %r0, [%d0], 1; red.global.max.u32 [%d1], %r30; mul.wide.u32 %d3, %r0, 4; add.s64 %d4, %d2, %d3; st.global.u32 [%d4], 1;")
    for seed in range(3):
        x, y, out = run(program, seed, 3, words=96)
        assert x[0] == 96 and y[0] == 31 and out.sum() == 96


# ---- the law ---------------------------------------------------------------------------------------------------------

SOME = ["block_sums", "cluster_exchange", "cooperative", "counts", "lookback_scan", "ping_pong", "register_windows", "zero_fill", "split_sync", "vectors"]


@pytest.mark.parametrize("name", SOME)
def test_programs_of_the_corpus_compute_the_same(name, monkeypatch):
    pytest.importorskip("cuda.bindings.nvrtc")
    program = next(p for p in OK if p.name == f"tests/ok/{name}.py")
    compared, run_on_cpu = [], Launcher._run_on_cpu

    def both(self, bound, blocks, seed, *others):
        from snap.host.arguments.arrays import as_numpy

        arrays = [as_numpy(a) for a in bound.args if hasattr(a, "pointer")]
        before = [a.copy() for a in arrays]
        run_on_cpu(self, bound, blocks, seed, *others)
        expected = [a.copy() for a in arrays]
        if blocks and len(compared) < 4:
            for a, old in zip(arrays, before):
                a[...] = old
            run_ptx(self.compiled, self.signature, bound.args, blocks, len(compared), memory="caches")
            for a, b in zip(arrays, expected):
                np.testing.assert_array_equal(a, b)
            compared.append(blocks)

    monkeypatch.setattr(Launcher, "_run_on_cpu", both)
    namespace = program.execute()
    (namespace.get("check") or namespace.get("main"))()
    assert compared


@pytest.mark.parametrize("family", FAMILIES)
def test_generated_programs_compute_the_same(family):
    """`python ptx/test_caching.py COUNT` in tests/ runs more."""
    pytest.importorskip("cuda.bindings.nvrtc")
    assert any(compared(family, seed) for seed in range(7_000, 7_020))


def compared(family: str, number: int, seeds: int = 2) -> bool:
    case = generate(family, number)
    try:
        program = load(case)
    except SnapError:
        return False
    expected = made(case)
    program[case.blocks](*expected)
    for seed in range(seeds):
        found = made(case)
        through_caches(program, found, case.blocks, seed)
        for k, (a, b) in enumerate(zip(found, expected)):
            if isinstance(b, np.ndarray):
                np.testing.assert_array_equal(a, b, err_msg=f"{case.name}: argument {k}, seed {seed}")
    return True


def through_caches(program, arguments: list, blocks: int, seed: int) -> None:
    """A launch with target="ptx", of which memory goes through caches."""
    plain = simulate.run_ptx
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(simulate, "run_ptx", lambda *given: plain(*given, memory="caches"))
        program.launch(*arguments, blocks=blocks, target="ptx", seed=seed)


# Two warps of one block: one writes half a line and reads it back, the other reads the other half.  No race.
HALVES = """
mul.wide.u32 %d3, %r30, 4; add.s64 %d4, %d0, %d3; add.s64 %d5, %d2, %d3; and.b32 %r1, %r30, 31;
setp.ge.u32 %p1, %r1, 16; @%p1 bra END; setp.ge.u32 %p0, %r30, 32; @%p0 bra READ;
st.global.u32 [%d4], 7; {fence} ld.global.u32 %r2, [%d4]; st.global.u32 [%d5], %r2; bra END;
READ: ld.global.u32 %r2, [%d4+-64]; add.u32 %r4, %r4, 1; setp.lt.u32 %p2, %r4, 12; @%p2 bra READ;
END:"""


def test_listing_4_1_as_printed_would_break_the_law(monkeypatch):
    program = kernel(HALVES.format(fence="membar.cta;"))
    wrong = lambda seeds: any((run(program, seed, 1, 64)[2][:16] != 7).any() for seed in range(seeds))
    assert not wrong(20)
    monkeypatch.setitem(programs.TABLE, ("st", "global", "wb"), "report/4.1")
    assert wrong(MANY)


# ---- the rest --------------------------------------------------------------------------------------------------------


def test_a_seed_gives_one_run():
    program = kernel(PASSING.format(**{**PARTS, "reader": ""}))
    runs = [run(program, seed, 2)[2][:32].tolist() for seed in (3, 3, 5, 5)]
    assert runs[0] == runs[1] and runs[2] == runs[3]


def test_faults_are_those_of_the_flat_machine():
    program = kernel("st.global.u32 [%d0+256], 1;")
    with pytest.raises(ptx.PtxFault, match="4 bytes at byte 256 of argument px, which has 256") as fault:
        run(program, 0, 1)
    assert fault.value.kind == "out of bounds"
    with pytest.raises(ptx.PtxFault, match="by ld.global.v4.u32") as fault:
        run(kernel("ld.global.v4.u32 {%r0, %r1, %r2, %r3}, [%d0+4];"), 0, 1)
    assert fault.value.kind == "misaligned"
    with pytest.raises(ptx.PtxFault) as fault:
        run(kernel("L: bra L;"), 0, 1, limit=1000)
    assert fault.value.kind == "too long"


def test_what_does_not_fit_together():
    program = kernel("")
    with pytest.raises(ValueError, match='memory= is "flat" or "caches", not \'L3\''):
        ptx.run(program, "k", 1, 1, [np.zeros(1, np.uint32)] * 3, memory="L3")
    with pytest.raises(ValueError, match="count_memory= look at the flat memory"):
        run(program, 0, 1, count_memory=True)


if __name__ == "__main__":
    import sys

    for number in range(int(sys.argv[1])):
        for name in FAMILIES:
            try:
                compared(name, 8_000 + number, 4)
            except Exception as error:
                print(f"{name}:{8_000 + number}: {type(error).__name__}: {str(error)[:300]}", flush=True)
