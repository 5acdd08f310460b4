"""An array's address must fit the widest access that the launch makes: refused before anything runs, and only where a thread certainly makes it."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

import snap
from snap import *
from snap.host.arguments.follow import needed
from snap.host.errors import LaunchError
from snap.host.launch import launcher
from snap.lib import block as of_block

T = 64


def array(past=0, size=256, dtype=np.float32):
    """`size` elements that begin so many bytes past a multiple of 16."""
    memory = np.zeros(size * np.dtype(dtype).itemsize + 32, np.uint8)
    start = -memory.ctypes.data % 16 + past
    found = memory[start:start + size * np.dtype(dtype).itemsize].view(dtype)
    found[:] = np.arange(size)
    return found


def refused(kernel, blocks, *args, parameter="x", words="multiple of 16 bytes, and the array's is 4 past one"):
    with pytest.raises(LaunchError, match=re.escape(words)) as caught:
        kernel[blocks](*args)
    assert caught.value.parameter == parameter
    return str(caught.value)


@kernel
@requires(grid[1], block[1], thread[T])
def copied(x: ptr(const(float)) @ grid[1], y: ptr(float) @ grid[1], n: int @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(y.view(float4), p=thread[1], offset=i) as mine:
            with group(thread[1]):
                if i < n / 4:
                    mine[0] = x.view(float4)[i]


def test_a_slice_is_refused_and_nothing_is_written():
    x, y = array(4), array()
    message = refused(copied, 1, x, y, 64)
    assert "`float4` (test_alignment.py:" in message and "`.copy()`" in message and "at most 4 bytes" in message
    assert (y == np.arange(256)).all()
    refused(copied, 1, array(8), y, 64, words="and the array's is 8 past one")
    refused(copied, 1, array(), array(4), 64, parameter="y")


def test_a_copy_of_the_slice_is_taken():
    y = array()
    copied[1](array(4).copy(), y, 256)
    assert (y == np.arange(256)).all()


def test_what_touches_nothing_is_launched():
    copied[1](array(4), array(), 3)
    copied[1](array(4, 0), array(4, 0), 0)
    copied[0](array(4), array(), 64)


def test_the_seeded_machine_and_races_refuse_too():
    with pytest.raises(LaunchError, match="multiple of 16"):
        copied.launch(array(4), array(), 64, blocks=1, seed=3)
    with pytest.raises(LaunchError, match="multiple of 16"):
        copied.races(array(4), array(), 64, blocks=1)


def test_torch_has_another_word_for_a_copy():
    torch = pytest.importorskip("torch")
    x = torch.arange(260, dtype=torch.float32)
    assert "`.clone()`" in refused(copied, 1, x[1:257], torch.zeros(256), 64)
    copied[1](x[1:257].clone(), torch.zeros(256), 64)


# ---- what a condition decides ----------------------------------------------------------------------------------------------------------------


@kernel
@requires(grid[1], block[1], thread[T])
def chosen(x: ptr(const(float)) @ grid[1], y: ptr(float) @ grid[1], n: int @ grid[1], wide: bool @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(y, p=thread[1], f=lambda k: 4 * i + k) as mine:
            with group(thread[1]):
                v: float[4]
                if wide and 4 * i < n:
                    v.view(float4)[0] = x.view(float4)[i]
                elif 4 * i < n:
                    for k in range(4):
                        v[k] = x[4 * i + k]
                if 4 * i < n:
                    for k in range(4):
                        mine[k] = v[k]


def test_a_kernel_that_chooses_when_it_runs_is_launched():
    y = np.zeros(256, np.float32)
    chosen[1](array(4), y, 256, False)
    assert (y == np.arange(256)).all()
    refused(chosen, 1, array(4), y, 256, True)


@kernel
@requires(grid[1], block[1], thread[T])
def with_tail(x: ptr(const(float)) @ grid[1], y: ptr(float) @ grid[1], words: int @ grid[1], n: int @ grid[1]):
    """Words first, then what is left element by element: with no words at all it takes any array."""
    with group(grid[1]):
        i: int @ thread[1] = id()
        threads: int = count(thread[1])
        with partition(y, p=thread[1], offset=i) as mine:
            with group(thread[1]):
                total: float = 0.0
                for j in range(i, words, threads):
                    v: float4 = x.view(float4)[j]
                    total += v.x + v.y + v.z + v.w
                j: int = 4 * words + i
                while j < n:
                    total += x[j]
                    j += threads
                mine[0] = total


@pytest.mark.parametrize("past", [0, 4])
def test_without_words_any_array_is_taken(past):
    y = np.zeros(T, np.float32)
    with_tail[1](array(past), y, 0, 256)
    assert y.sum() == 255 * 128
    if past:
        refused(with_tail, 1, array(past), y, 64, 256)
    else:
        with_tail[1](array(past), y, 64, 256)
        assert y.sum() == 255 * 128


@settings(max_examples=60, deadline=None)
@given(some.integers(-3, 3), some.integers(-3, 300), some.integers(1, 9), some.booleans())
def test_exactly_the_launches_that_come_to_it_need_it(words, n, blocks, wide):
    tail, either = (kernel._specialized({}).typed for kernel in (with_tail, chosen))

    def bytes_of_x(function, *args):
        found = needed(function, blocks, (None, None, *args)).get(0)
        return 0 if found is None else found.bytes

    assert bytes_of_x(tail, words, n) == (16 if words > 0 else 4 if 4 * words < n else 0)
    assert bytes_of_x(either, n, wide) == (0 if n <= 0 else 16 if wide else 4)


@kernel
@requires(grid[1], block[1], thread[T])
def by_data(x: ptr(const(float)) @ grid[1], which: ptr(const(int)) @ grid[1], y: ptr(float) @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(y, p=thread[1], offset=i) as mine:
            with group(thread[1]):
                if which[i] > 0:
                    mine[0] = x.view(float4)[i].x
                else:
                    mine[0] = x.view(float2)[i].x if which[i] < 0 else x[i]


def test_what_memory_decides_is_not_refused():
    y = np.zeros(T, np.float32)
    by_data[1](array(4), np.zeros(T, np.int32), y)
    assert (y == np.arange(T)).all()


@kernel
@requires(grid[1], block[1], thread[T])
def leaving(x: ptr(const(float)) @ grid[1], y: ptr(float) @ grid[1], n: int @ grid[1], known: ptr(const(int)) @ grid[1]):
    if n == 0:
        return
    if n < 0 and known[0] == 0:
        return
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(y, p=thread[1], offset=i) as mine:
            with group(thread[1]):
                mine[0] = x.view(float4)[i].y


def test_what_comes_after_a_return():
    y, known = np.zeros(T, np.float32), np.zeros(1, np.int32)
    leaving[1](array(4), y, 0, known)
    leaving[1](array(4), y, -1, known)  # memory says whether it returns
    refused(leaving, 1, array(4), y, 1, known)


@kernel
@requires(grid[1], block[1], thread[T])
def searching(x: ptr(const(float)) @ grid[1], known: ptr(const(int)) @ grid[1], y: ptr(float) @ grid[1], n: int @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(y, p=thread[1], offset=i) as mine:
            with group(thread[1]):
                last: int = 0
                for k in range(n):
                    if known[k] > 0:
                        break
                    last = k
                if last < 1:
                    mine[0] = x[i]
                elif n < 8:
                    mine[0] = x.view(float2)[i].x
                mine[0] += x.view(float4)[i].x if n > 8 else 0.0


def test_what_a_loop_leaves_behind_is_unknown():
    y = np.zeros(T, np.float32)
    searching[1](array(4), np.array([0, 1, 0], np.int32), y, 3)
    refused(searching, 1, array(4), np.ones(9, np.int32), y, 9)


# ---- who comes to it -------------------------------------------------------------------------------------------------------------------------


@kernel
@requires(grid[1], block[1], thread[T])
def inner_only(x: ptr(const(float)) @ grid[1], y: ptr(float) @ grid[1], n: int @ grid[1]):
    """The first and the last thread of the grid have no neighbors."""
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(y, p=thread[1], offset=i) as mine:
            with group(thread[1]):
                if i > 0 and i < n - 1:
                    mine[0] = x.view(float4)[i].x + x.view(float4)[i - 1].x


def test_borders_do_not_hide_the_inside():
    refused(inner_only, 1, array(4), array(), T)


@kernel
@requires(grid[1], block[1], thread[T])
def second_warp(x: ptr(const(float)) @ grid[1], y: ptr(float) @ grid[1], least: int @ grid[1]):
    with group(grid[1]):
        b: int @ block[1] = id()
        with partition(y, p=block[1], f=lambda i: b * 32 + i, disjoint=True) as part:
            with group(block[1]):
                with claim(part, p=thread[32]) as own:
                    match split(thread):
                        case 32:
                            pass
                        case 32:
                            l: int @ thread[1] = id()
                            with partition(own, p=thread[1], offset=l) as mine:
                                with group(thread[1]):
                                    if l < 8 and b >= least:
                                        mine[0] = x.view(float4)[l].x


def test_parts_of_a_block_and_later_blocks_count():
    y = np.zeros(128, np.float32)
    refused(second_warp, 1, array(4), y, 0)
    refused(second_warp, 4, array(4), y, 3)
    second_warp[4](array(4), y, 4)


# ---- ways to memory --------------------------------------------------------------------------------------------------------------------------


@device
@requires(thread[1])
def first_of(word: ptr(const(float4)) @ thread[1], at: int @ thread[1]) -> float @ thread[1]:
    return word[at].x


@kernel
@requires(grid[1], block[1], thread[T])
def through_functions(x: ptr(const(float)) @ grid[1], y: ptr(float) @ grid[1], wide: bool @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(y, p=thread[1], offset=i) as mine:
            with group(thread[1]):
                found: float = 0.0
                if wide:
                    found = first_of(x.view(float4), i)
                else:
                    found = x[4 * i]
                mine[0] = found


def test_device_functions():
    y = np.zeros(T, np.float32)
    through_functions[1](array(4), y, False)
    assert (y == 4 * np.arange(T)).all()
    refused(through_functions, 1, array(4), y, True)


@kernel
@requires(grid[1], block[1], thread[T])
def in_the_background(x: ptr(const(float)) @ grid[1], y: ptr(float) @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(y, p=thread[1], offset=i) as mine:
            with group(block[1]):
                s: shared(float[T, 4])
                t: int @ thread[1] = id()
                with partition(s.view(float4), p=thread[1], f=lambda k: (t, k)) as cell:
                    async_copy(cell[0], x.view(float4)[t])
                mine[0] = s[T - 1 - t, 0]


def test_copies_in_the_background():
    y = np.zeros(T, np.float32)
    in_the_background[1](array(), y)
    assert (y == 4 * np.arange(T)[::-1]).all()
    refused(in_the_background, 1, array(4), y)


@kernel
@requires(grid[1], block[1], thread[T])
def pairs(x: ptr(u32) @ grid[1], y: ptr(float) @ grid[1]):
    with group(grid[1]):
        with partition(y.view(float2), p=thread[1], f=lambda k: k, disjoint=True) as out:
            i: int @ thread[1] = id()
            with group(thread[1]):
                atomic.add(x.view(u64), i, u64(1))
                out[i].y = 1.0


def test_atomics_and_components():
    pairs[1](array(8, dtype=np.uint32), array(8))
    refused(pairs, 1, array(4, dtype=np.uint32), array(), words="as `u64`")
    refused(pairs, 1, array(dtype=np.uint32), array(4), parameter="y", words="as `float2`")


load = of_block.load(float, 4, "vectorized")


@kernel
@requires(grid[1], block[1], thread[T])
def by_the_library(x: ptr(const(float)) @ grid[1], y: ptr(float) @ grid[1], start: i64 @ grid[1], n: i64 @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(y, p=thread[1], offset=i) as mine:
            with group(block[1]):
                v: float[4] @ thread[1]
                load(x, start, n, 0.0, v)
                mine[0] = v[0]


def test_loads_of_the_library():
    y = np.zeros(T, np.float32)
    refused(by_the_library, 1, array(4), y, 0, 256)
    by_the_library[1](array(4), y, 1, 256)  # goes element by element
    assert (y[:-1] == 1 + 4 * np.arange(T - 1)).all()


# ---- what it costs ---------------------------------------------------------------------------------------------------------------------------


def test_threads_are_followed_once_for_the_same_numbers(monkeypatch):
    from snap.host import launch

    followed = []
    monkeypatch.setattr(launch, "needed", lambda function, blocks, args: followed.append(blocks) or {})
    x, y = array(4), np.zeros(256, np.float32)
    calls = launcher(chosen._specialized({}))
    calls._needed.clear()
    for _ in range(3):
        chosen[1](x, y, 8, False)
    chosen[1](array(), y, 12, True)  # fits every access: nobody asks
    assert followed == [1]


def test_every_pointer_says_what_fits_all_its_accesses():
    assert [param.widest for param in launcher(chosen._specialized({})).signature.params if hasattr(param, "widest")] == [16, 4]
    assert [param.widest for param in launcher(through_functions._specialized({})).signature.params if hasattr(param, "widest")] == [16, 4]


@kernel
@requires(grid[1], block[1], thread[T])
def by_memory(x: ptr(const(float)) @ grid[1], y: ptr(float) @ grid[1], which: ptr(const(int)) @ grid[1]):
    """Memory decides whether it is accessed as vectors."""
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(y, p=thread[1], offset=4 * i) as mine:
            with group(thread[1]):
                if which[i] == 1:
                    mine[0] = x.view(float4)[i].x
                else:
                    mine[0] = x[4 * i]


@pytest.mark.parametrize("options", [{}, {"seed": 3}])
def test_what_a_launch_cannot_tell_the_machine_finds(options):
    x, y, which = array(4), array(), np.zeros(T, np.int32)
    by_memory.launch(array(), y, which + 1, blocks=1, **options)  # which indices were found good for that address does not count for the next
    by_memory.launch(x, y, which, blocks=1, **options)
    which[5] = 1
    with pytest.raises(snap.MachineError, match="accessed 16 bytes at a time, and begins 4 past a multiple of 16") as caught:
        by_memory.launch(x, y, which, blocks=1, **options)
    assert caught.value.kind == "misaligned" and caught.value.thread == 5


@kernel
@requires(grid[1], block[1], thread[T])
def boxed(x: ptr(const(float), (8, 32)) @ grid[1], y: ptr(float) @ grid[1]):
    with group(grid[1]):
        b: int @ block[1] = id()
        with partition(y, p=block[1], offset=b * T) as yb:
            with group(block[1]):
                s: shared(float[8, 32])
                async_copy(s, x, at=(0, 0))
                t: int @ thread[1] = id()
                with partition(yb, p=thread[1], offset=t) as mine:
                    mine[0] = s[t / 32, t % 32]


def test_boxes_begin_at_multiples_of_16_bytes():
    y = array()
    boxed[1](array().reshape(8, 32), y)
    with pytest.raises(snap.MachineError, match="starts 4 bytes past a multiple of 16"):
        boxed[1](array(4).reshape(8, 32), y)


@kernel
@requires(grid[1], block[1], thread[T])
def rows(x: ptr(const(float), (M, N)) @ grid[1], y: ptr(float, (M, N)) @ grid[1], M: int @ grid[1], N: int @ grid[1], words: int @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(y.view(float4), p=thread[1], f=lambda k: (i, k)) as vectors:
            with group(thread[1]):
                if i < M and words == 1:
                    for j in range(N / 4):
                        vectors[j] = x.view(float4)[i, j]


def test_rows_that_are_no_whole_vectors_are_refused():
    """A view of a matrix counts rows in its own elements: it would take these for shorter than they are."""
    x, y = (array(size=4 * n).reshape(4, n) for n in (12, 12))
    rows[1](x, y, 4, 12, 1)
    assert (x == y).all()
    x, y = (array(size=40).reshape(4, 10) for _ in range(2))
    message = refused(rows, 1, x, y, 4, 10, 1, words="its rows must be a multiple of 4 elements long, and they have 10; pad them to 12")
    assert "`float4` (test_alignment.py:" in message
    rows[1](x, y, 4, 10, 0)  # it has no such access then


@kernel
@requires(grid[1], block[1], thread[32])
def wide(x: ptr(double4) @ grid[1]):
    i: int @ thread[1] = id()
    with partition(x, p=thread[1], offset=i) as mine:
        mine[0] = double4(i)


def test_elements_of_32_bytes_begin_at_a_multiple_of_16():
    room = np.zeros(4 * 32 + 8)
    for start in (0, 16):
        x = room[((start - room.ctypes.data) % 32) // 8:][:4 * 32]
        wide[1](x)
        assert (x == np.arange(32).repeat(4)).all()
