"""`print` in kernels: who prints, what a line looks like, and that it changes nothing else."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import numpy as np
import pytest
from fuzz import host

import snap
from snap import *
from snap._compiler.codegen.threads.printing import quoted

EDGES = np.array([0.0, -0.0, 0.1, 1 / 3, 1e-7, 123456789.0, 1e30, np.inf, -np.inf, 5e-324], np.float64)


@kernel(threads=32)
def kinds(a: ptr(const(f64)), b: ptr(const(i64))):
    with each(thread) as i:
        if i < 10:
            print("f64", a[i], "f32", f32(a[i]), "f16", f16(a[i]), "bf16", bf16(a[i]))
        if i < 4:
            print(b[i], u64(b[i]), i32(b[i]), u32(b[i]), i16(b[i]), u16(b[i]), i8(b[i]), u8(b[i]), b[i] > 0)


@kernel
@requires(grid[1], block[2], thread[64])
def everybody(n: int):
    print("n", n)
    with each(block) as b:
        print("b", b)
        with each(warp) as w:
            print("w", w)
        with each(thread[16]) as q:
            print("q", q)
    with group(block[2]):
        print("two blocks")


@kernel(threads=32, cluster=2)
def clustered(n: int):
    with group(cluster[1]):
        print("cluster")
        with each(block) as b:
            print("block", b)


@kernel(threads=32)
def looping(n: int):
    with each(thread) as i:
        for k in range(n):
            if k % 8 == i:
                continue
            if k > i + 1:
                break
            print(i, k)


def machine(capsys, k, *args, blocks, **how) -> list[str]:
    capsys.readouterr()
    k.launch(*args, blocks=blocks, **how)
    return capsys.readouterr().out.splitlines()


def test_every_group_prints_one_line(capsys):
    got = machine(capsys, everybody, 5, blocks=4)
    assert got[0] == "grid: n 5"
    assert [line for line in got if line.startswith("block ") and "," not in line] == [
        f"block {b}: b {b}" for b in range(4)
    ]
    assert [line for line in got if ": w" in line] == [
        f"block {b}, threads {32 * w}-{32 * w + 31}: w {w}" for b in range(4) for w in range(2)
    ]
    assert [line for line in got if ": q" in line] == [
        f"block {b}, threads {16 * q}-{16 * q + 15}: q {q}" for b in range(4) for q in range(4)
    ]
    assert got[-2:] == ["blocks 0-1: two blocks", "blocks 2-3: two blocks"]
    assert machine(capsys, clustered, 5, blocks=4) == [
        *(f"cluster {c}: cluster" for c in range(2)),
        *(f"block {b}: block {b % 2}" for b in range(4)),
    ]


@pytest.mark.skipif(bool(host.available()), reason=host.available())
@pytest.mark.parametrize(
    "k, args, blocks",
    [
        (kinds, (EDGES, np.array([0, -1, 1 << 40, -(1 << 63)])), 1),
        (everybody, (5,), 4),
        (clustered, (5,), 4),
        (looping, (9,), 1),
    ],
)
def test_c_prints_what_the_machine_prints(k, args, blocks, capfd):
    """The generated text, compiled by g++: its printf is C's, and it is the same threads that print."""
    k.launch(*args, blocks=blocks)
    expected = capfd.readouterr().out.splitlines()
    host.run(k, blocks, args)
    ctypes.CDLL(None).fflush(None)
    assert sorted(capfd.readouterr().out.splitlines()) == sorted(expected)
    for seed in range(3):
        k.launch(*args, blocks=blocks, seed=seed)
        assert sorted(capfd.readouterr().out.splitlines()) == sorted(expected)


def test_formats_keep_seven_and_sixteen_digits(capsys):
    got = machine(capsys, kinds, EDGES, np.array([0, -1, 1 << 40, -(1 << 63)]), blocks=1)
    assert got[2] == "block 0, thread 2: f64 0.1 f32 0.1 f16 0.09997559 bf16 0.1000977"
    assert got[3] == "block 0, thread 3: f64 0.3333333333333333 f32 0.3333333 f16 0.333252 bf16 0.3339844"
    assert got[7] == "block 0, thread 7: f64 inf f32 inf f16 inf bf16 inf"
    assert got[11] == "block 0, thread 1: -1 18446744073709551615 -1 4294967295 -1 65535 -1 255 False"


def test_lines_come_in_the_order_of_the_text(capsys):
    assert machine(capsys, looping, 3, blocks=1) == [
        f"block 0, thread {i}: {i} {k}" for k in range(3) for i in range(32) if k != i and k <= i + 1
    ]


def test_races_print_nothing(capsys):
    assert everybody.races(5, blocks=2, seeds=2) == []
    assert capsys.readouterr().out == ""


@kernel(threads=32)
def locked(lock: ptr(int), sum: ptr(int)):
    with each(thread) as i:
        print("wants", i)
        while atomic.cas(lock, 0, 0, 1, order="acquire") != 0:
            pass
        atomic.add(sum, 0, i)
        atomic.store(lock, 0, 0, order="release")


def test_a_launch_that_begins_again_prints_once(capsys):
    """In lockstep nobody gets on with a lock: the launch starts anew with each thread on its own, and says all once."""
    total = np.zeros(1, np.int32)
    got = machine(capsys, locked, np.zeros(1, np.int32), total, blocks=1)
    assert total[0] == 496 and sorted(got) == sorted(f"block 0, thread {i}: wants {i}" for i in range(32))


@kernel(threads=64)
def quiet(x: ptr(const(float)), out: ptr(float)):
    with each(block) as b:
        s: shared(float[64])
        with each(thread, s) as t:
            s[t] = x[64 * b + t]
        with each(thread, out) as i:
            out[i] = s[63 - i % 64]


@kernel(threads=64)
def loud(x: ptr(const(float)), out: ptr(float)):
    print("begins")
    with each(block) as b:
        s: shared(float[64])
        with each(thread, s) as t:
            s[t] = x[64 * b + t]
            print("stores", s[t])
        print("block", b, "goes on")
        with each(thread, out) as i:
            out[i] = s[63 - i % 64]


def test_barriers_are_the_same():
    assert [(p.kind, p.object, str(p.participants)) for p in loud.syncs()] == [
        (p.kind, p.object, str(p.participants)) for p in quiet.syncs()
    ]


def test_what_is_read_to_be_printed_counts_as_read():
    """The first thread's element, read for the whole block behind the threads that stored it: the barrier is there."""

    @kernel(threads=64)
    def late(out: ptr(float)):
        with each(block) as b:
            s: shared(float[64])
            with each(thread, s) as t:
                s[t] = float(t)
            print("last", s[63])

    assert [p.kind for p in late.syncs()] == ["block"]
    assert late.races(np.zeros(1, np.float32), blocks=1) == []


def test_a_line_of_a_block_has_no_value_of_a_thread():
    with pytest.raises(snap.SnapError) as refused:

        @kernel(threads=64)
        def mixed(x: ptr(const(float))):
            t: int @ thread[1] = id()
            with each(block) as b:
                print("block", b, t)

    assert refused.value.code == "SNAP006" and "with each(thread)" in refused.value.render()


def test_explain_says_who_prints(tmp_path):
    path = tmp_path / "prints.py"
    path.write_text("from snap import *\n\n@kernel(threads=32)\ndef k(n: int):\n    with each(block) as b:\n        print(b)\n")
    done = subprocess.run([sys.executable, "-m", "snap", "explain", str(path)], capture_output=True, text=True)
    assert done.returncode == 0 and "prints a line for each block[1]" in done.stdout, done.stdout + done.stderr


def test_an_assertion_is_met_behind_what_was_printed(capsys):
    @kernel(threads=32)
    def stops(n: int):
        with each(thread) as i:
            print("before", i)
            assert i < n, "too many"

    with pytest.raises(snap.MachineError, match="too many"):
        stops.launch(3, blocks=1)
    assert capsys.readouterr().out.splitlines()[-1] == "block 0, thread 31: before 31"


def test_literals_of_c():
    assert quoted('a"b\\c\n\té\x01??=') == '"a\\"b\\\\c\\n\\t\\303\\251\\001?""?="'


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_it_compiles(arch):
    for k in (kinds, everybody, looping):
        assert k.cubin(arch)[:4] == b"\x7fELF"
    assert clustered.cubin()[:4] == b"\x7fELF"
