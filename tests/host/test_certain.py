"""What one thread is certain to access, followed with the numbers of a launch."""

from __future__ import annotations

import pytest

from snap import *
from snap._compiler.ir.types import Level
from snap.host.arguments.certain import follow

T = 32


@kernel(threads=T)
def ways(x: ptr(const(float)), y: ptr(const(int)), z: ptr(float), n: int):
    with each(thread, z) as i:
        total: float = 0.0
        if i < n:
            total += x[i]
        if y[i] > 0:
            total += x.view(float2)[i].x
        k: int = 0
        for j in range(n):
            if j == 2:
                break
            k = k + 1
            total += x.view(float4)[j].x
        if k <= 1:
            total += x[k]
        for j in range(n):
            if y[j] == 7:
                break
            total += x.view(float2)[j].x
        z[i] = total


def told(thread: int, n: int, patience: int = 1000) -> tuple[list[str], bool]:
    function = ways._specialized({}).typed
    arrays = {param.handle.obj.uid: index for index, param in enumerate(function.params[:3])}
    values = {function.params[3].var.uid: n}
    found: list[str] = []
    at = {Level.BLOCK: 0, Level.THREAD: thread}
    whole = follow(function, 1, at, values, arrays, lambda array, access: found.append(f"{'xyz'[array]}:{access.view.elem}"), iter(range(patience)))
    return found, whole


@pytest.mark.parametrize(
    ("thread", "n", "expected"),
    [
        # Neither what memory decides, nor what comes after a break that memory decides: no `float2`.
        (0, 0, ["y:i32", "x:f32", "z:f32"]),  # `k` is known where the loop has no iteration
        (0, 3, ["x:f32", "y:i32", "x:float4", "y:i32", "z:f32"]),  # the first iteration, and nothing is known of `k` behind it
        (5, 3, ["y:i32", "x:float4", "y:i32", "z:f32"]),
    ],
)
def test_what_is_certain_is_told(thread, n, expected):
    assert told(thread, n) == (expected, True)


def test_who_loses_patience_says_so():
    found, whole = told(0, 3, patience=6)
    assert not whole and found == ["x:f32"]
