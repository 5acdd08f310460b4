"""The CUDA text on the host: it does what the programs say and what the CPU machine does, and a text with something missing is noticed."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from corpus import OK, Program, kernels_of

import snap
from fuzz import host
from fuzz.case import FAMILIES, Case, generate, load, made
from fuzz.host_text import Unsupported, translated, with_saturation
from fuzz.host_watch import Made, copied, difference, on_host, replay, watched
from snap import SnapError

pytestmark = pytest.mark.skipif(bool(host.available()), reason=host.available() or "-")

ROOT = Path(__file__).resolve().parents[2]
SEVERAL_ANSWERS = {"atomics"}  # which the order of threads decides
INEXACT = {"attention", "math_functions"}  # exp2 and its kin differ in their last bit: held to what the program itself allows
EXPECTS_ERRORS = {"asserts"}  # of the CPU machine
ELSEWHERE = {"prints": "tests/seeing compares its lines", "instructions": "texts of its own; tests/check/test_instructions.py and a GPU compare them with what they mean", "shared_sizes": "the launch gives its shared memory, which the host does not know"}
OWN_SEEDS = {"handed_tiles"}  # its launches say by which schedule, so that they are not watched
SEEDS = (0, 1, 2)  # in order; late and at random; at random, some warps far ahead
COUNT = 25  # generated programs of each family,
FEWER = {"parts": 8, "flights": 5, "handover": 6}  # of those that take longer


@cache
def prepared() -> None:
    """All kernels of tests/ok compiled, many at a time."""
    host.build([kernel._the_one({}).module for program in OK for kernel in kernels_of(program.namespace()).values()])


@pytest.mark.parametrize("path", [p for p in OK if p.path.stem not in ELSEWHERE], ids=lambda p: p.path.stem)
def test_programs(path: Program, monkeypatch):
    prepared()
    monkeypatch.setattr("snap.api.SnapFunction.races", lambda *a, **k: [])
    monkeypatch.chdir(ROOT)
    name, namespace = path.path.stem, path.namespace()
    if name not in EXPECTS_ERRORS:
        with on_host(3) as launched:
            namespace["check"]()
        assert launched
    if name not in SEVERAL_ANSWERS | INEXACT | OWN_SEEDS:
        with watched(most=2) as seen:
            namespace["check"]()
        assert seen.launches
        assert not replay(seen.launches, SEEDS)


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("[a-z]*.py")), ids=lambda p: p.stem)
def test_examples(path: Path, monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(path.parent))
    with on_host(1) as launched:
        exec(compile(path.read_text(encoding="utf-8"), str(path), "exec", dont_inherit=True), {"__name__": "__main__", "__file__": str(path)})
    assert launched


def test_the_library():
    x = (np.arange(5000) * 7919 % 101).astype(np.float32) - 50
    a, b = x[:64 * 40].reshape(64, 40), x[:40 * 48].reshape(40, 48)
    with on_host(1) as launched:
        assert snap.lib.reduce(x) == x.sum()
        np.testing.assert_array_equal(snap.lib.scan(x), np.cumsum(x))
        np.testing.assert_array_equal(snap.lib.transpose(a), a.T)
        np.testing.assert_array_equal(snap.lib.gemv(a, x[:40]), a @ x[:40])
        np.testing.assert_array_equal(snap.lib.sgemm(a, b), a @ b)
        np.testing.assert_array_equal(snap.lib.gemm_tf32(a, b), a @ b)
        np.testing.assert_allclose(snap.lib.softmax(a).sum(axis=1), 1, rtol=1e-5)
    assert len(launched) >= 7


@pytest.mark.parametrize("family", FAMILIES)
def test_generated(family: str):
    launches, count = [], FEWER.get(family, COUNT)
    for seed in range(count):
        case = generate(family, seed)
        try:
            kernel = load(case)
        except SnapError:
            continue
        want = made(case)
        kernel[case.blocks](*want)
        launches.append(Made(kernel, case.blocks, made(case), want, case.name))
    assert len(launches) > count / 2
    assert not replay(launches, SEEDS)


# ---- a text with something missing


def mutated(launch: Made, text: str) -> str:
    """What the first seed that notices says; empty where none does."""
    compiled, _ = launch.kernel._split(tuple(launch.before), {})
    (entry,) = host.build([replace(compiled.module, text=text)])
    for seed in range(6):
        got = copied(launch.before)
        try:
            if isinstance(entry, Exception):
                raise entry
            host.launch(entry, compiled, launch.blocks, launch.kernel._split(tuple(got), {})[1], seed)
        except host.Failed as failed:
            return failed.kind
        if difference(got, launch.after):
            return "difference"
    return ""


@cache
def launches_of(name: str) -> list[Made]:
    with watched(most=1) as seen:
        next(program for program in OK if program.path.stem == name).namespace()["check"]()
    return seen.launches


DROPPED = [("tree_reduce", "__syncthreads();"), ("async_copies", "snap_copy_wait<0>();"), ("split_sync", "snap_named_sync("), ("boxes", "snap_barrier_wait("),
           ("boxes", "snap_box_wait_read<0>();"), ("boxes", "snap_barrier_arrive_expect("), ("cluster_exchange", "snap_cluster_sync();"),
           ("cooperative", "snap_grid_sync("), ("shared_scopes", "__syncthreads();"), ("hgemm", "snap_barrier_wait("), ("hgemm", "snap_barrier_arrive("),
           ("lookback_scan", "snap_named_sync("), ("barriers_by_hand", "snap_named_sync("), ("barriers_by_hand", "arrived = snap_arrive(")]


@pytest.mark.parametrize("name, what", DROPPED)
def test_a_dropped_statement_is_noticed(name, what, monkeypatch):
    """All occurrences in turn; some of them are not reached, or one too many for this launch."""
    monkeypatch.setattr("snap.api.SnapFunction.races", lambda *a, **k: [])
    monkeypatch.chdir(ROOT)
    noticed = []
    for launch in launches_of(name):
        text = launch.kernel._split(tuple(launch.before), {})[0].module.text
        start = text.index('extern "C" __global__')
        for m in list(re.finditer(rf"^ *{re.escape(what)}.*$", text[start:], re.M))[:4]:
            noticed.append(mutated(launch, text[:start + m.start()] + text[start + m.end():]))
    assert noticed
    assert sum(map(bool, noticed)) * 2 >= len(noticed), noticed


CHANGED = [("tree_reduce", r"(\w+\[)(\w+)( \+ \w+\])", r"\1\2 + 1\3", "difference"), ("tiles", r"s\[16 \+", "s[17 +", "difference"),
           ("shuffles", r"__shfl_down_sync\(0xffffffffu", "__shfl_down_sync(0x7fffffffu", "warp"), ("split_sync", r"(snap_named_sync\(.*), \d+\)", r"\1, 32)", ""),
           ("integers", r"unsigned int", "int", ""), ("boxes", r"_expect\((\w+), \d+\)", r"_expect(\1, 16)", ""), ("floats", r"__bfloat162float\(__float2bfloat16\(v\)\)", "v", "difference")]


@pytest.mark.parametrize("name, pattern, by, kind", CHANGED)
def test_a_changed_text_is_noticed(name, pattern, by, kind, monkeypatch):
    monkeypatch.setattr("snap.api.SnapFunction.races", lambda *a, **k: [])
    monkeypatch.chdir(ROOT)
    found = []
    for launch in launches_of(name):
        text = launch.kernel._split(tuple(launch.before), {})[0].module.text
        head, kernel = text.split('extern "C" __global__')
        changed = re.sub(pattern, by, kernel)
        if changed != kernel:
            found.append(mutated(launch, f'{head}extern "C" __global__{changed}'))
    assert any(found)
    assert kind in ("", *found)


# ---- what the emulation itself does

HEAD = "from __future__ import annotations\nfrom snap import *\n"


def own_numbers():
    """A kernel whose threads write their numbers, and whose text is easily added to."""
    source = f"""{HEAD}
@kernel
@requires(grid[1], block[1], thread[64])
def k(y: ptr(int) @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(y, p=thread[1], f=lambda k: i + k) as mine:
            with group(thread[1]):
                mine[0] = i
"""
    return load(Case(0, "host", source, (), 1))._the_one({})


def test_what_cannot_go_on_is_told():
    compiled = own_numbers()
    text = compiled.module.text
    cases = {"snap_named_sync(1, 64); if (threadIdx.x < 32) snap_named_sync(2, 64);": "deadlock", "while (snap_atomic_load(y) == 0) {}": "hangs",
             "while (true) {}": "hangs", "__trap();": "trap", "y[1 << 28] = 1;": "fault", "y[64] = 1;": "out of bounds", "__syncwarp(1u);": "warp",
             "snap_named_sync(16, 64);": "barrier", "if (threadIdx.x / 32) snap_named_sync(1, 32); else snap_named_sync(1, 64);": "barrier", "mistake;": "compilation"}
    helpers = '''static __device__ void snap_named_sync(int barrier, int threads) { asm volatile("bar.sync %0, %1;" :: "r"(barrier), "r"(threads) : "memory"); }
static __device__ int snap_atomic_load(int* a) { int v; asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(v) : "l"(a) : "memory"); return v; }
'''
    limit, host.LIMIT = host.LIMIT, 1.0
    try:
        for statement, kind in cases.items():
            (entry,) = host.build([replace(compiled.module, text=helpers + text.rstrip().removesuffix("}") + statement + "\n}\n")])
            with pytest.raises(host.Failed) as failed:
                if isinstance(entry, Exception):
                    raise entry
                host.launch(entry, compiled, 1, [np.zeros(64, np.int32)])
            assert failed.value.kind == kind, (statement, failed.value)
    finally:
        host.LIMIT = limit


def test_divisions_and_casts_are_a_gpus():
    compiled = own_numbers()
    more = "const int t = threadIdx.x; y[t] = t == 0 ? 7 / (t * t) : t == 1 ? 7 % (t - 1) : t == 2 ? (-2147483647 - t + 1) / (1 - t) : t == 3 ? (int)(1e20f * t) : " \
           "t == 4 ? (int)(0.0f / (t - 4)) : t == 5 ? (int)(unsigned int)(-1.5f * t) : 0;\n}\n"
    (entry,) = host.build([replace(compiled.module, text=compiled.module.text.rstrip().removesuffix("}") + more)])
    y = np.zeros(64, np.int32)
    host.launch(entry, compiled, 1, [y])
    assert y[:6].tolist() == [-1, 7, -(2**31), 2**31 - 1, 0, 0]


def test_memory_given_at_launch_begins_where_it_is_aligned():
    _, bytes = translated("void f() { __shared__ int word[1]; extern __shared__ __align__(16) unsigned char more[]; }")
    assert bytes == 16


def test_what_is_not_known_is_said():
    with pytest.raises(Unsupported, match="griddepcontrol.wait"):
        translated('static __device__ void f() { asm volatile("griddepcontrol.wait;" ::: "memory"); }')


def test_casts():
    assert with_saturation("(int)x * y") == "::snap_host::to<int>(x) * y"
    assert with_saturation("-(int)f(a, b)[i].x + (int)(a + b)") == "-::snap_host::to<int>(f(a, b)[i].x) + ::snap_host::to<int>((a + b))"
    assert with_saturation("(long long)(int)-x.y") == "::snap_host::to<long long>(::snap_host::to<int>(-x.y))"
    assert with_saturation("void f(int); (int*)p") == "void f(int); (int*)p"
