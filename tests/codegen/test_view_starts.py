"""Where a view of a part begins: at the part's own start, so that one in the middle of a wide element faults and does not move; in as many bits as
there are elements."""

from __future__ import annotations

import re

import pytest
from check.checking import execute  # noqa: E402

SWIZZLED = """
@kernel
@requires(grid[1], block[1], thread[32])
def k(out: ptr(float) @ grid[1], n: int @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(out, p=thread[1], offset=i) as mine:
            with group(block[1]):
                s: shared(float[64, 32], swizzle=128)
                t: int @ thread[1] = id()
                with partition(s, p=thread[1], f=lambda j: (t, n + j)) as row:
                    row.view(float4)[1] = float4(1.0)
                mine[0] = s[t, 3]
"""
ANOTHER_BLOCKS = """
@kernel
@requires(grid[1], cluster[1], block[2], thread[32])
def k(out: ptr(float) @ grid[1], n: int @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(out, p=thread[1], offset=i) as mine:
            with group(cluster[1]):
                s: shared(float[256], across=block)
                b: int @ block[1] = id()
                with group(block[1]):
                    t: int @ thread[1] = id()
                with partition(s, p=thread[1], f=lambda j: (1 - b, n + j)) as part:
                    part.view(float4)[1] = float4(1.0)
                mine[0] = s[b, 3]
"""
BYTES = """
@kernel
@requires(grid[1], block[1], thread[32])
def k(x: ptr(float) @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(x, p=thread[1], offset=i) as mine:
            mine.view(u8)[3] = u8(1)
"""


@pytest.mark.parametrize("text, start", [(SWIZZLED, "+ n % 4"), (ANOTHER_BLOCKS, "+ n")])
def test_what_is_left_over_stays_in_the_address(text, start):
    kernel = execute(text)["k"]
    assert f"{start})" in kernel.cuda() and "n / 4)" not in kernel.cuda()
    assert ".v4" in kernel.ptx("sm_90a")


def test_bytes_of_many_floats_are_counted_in_64_bits():
    text = execute(BYTES)["k"].cuda()
    assert "(long long)i * 4" in text
    shared = execute(BYTES.replace("x: ptr(float) @ grid[1]", "x: ptr(float, (1024,)) @ grid[1]"))["k"].cuda()
    assert "long long" not in shared and "ll" not in re.findall(r"\[.*\]", shared)[-1]
