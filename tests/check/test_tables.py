"""Tables of constants: NumPy arrays captured from outside."""

from __future__ import annotations

import numpy as np
import pytest
from check.test_values import defined, made, ran

import snap
from snap import SnapError

T = np.arange(32)
DTYPES = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64".split()
KERNEL = "@kernel(threads=32)\ndef k(y: ptr(float), n: int):\n    with each(thread, y) as i:\n        y[i] = {}\n"


def results(k, n: int = 0) -> np.ndarray:
    found = []
    for seed in (None, 1):
        y = np.zeros(32, np.float32)
        k.launch(y, n, blocks=1, seed=seed)
        found.append(y)
    np.testing.assert_array_equal(*found)
    return found[0]


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_type(dtype):
    table = np.array([[0, 1, 2], [3, 100, 0]]).astype(dtype)
    k = defined(KERNEL.format("float(W[i % 2, i % 3])"), W=table)
    np.testing.assert_array_equal(results(k), table[T % 2, T % 3].astype(np.float32))
    assert k.cubin()


def test_values_that_have_no_literal():
    table = np.array([np.inf, -np.inf, np.nan, -0.0, 1e-45, 2.0], np.float32)
    for values in (table, table.astype(np.float64), table.astype(np.float16)):
        k = defined(KERNEL.format("float(W[i % 6])"), W=values)
        np.testing.assert_array_equal(results(k), values[T % 6].astype(np.float32))
        assert k.cubin()


def test_bfloat16():
    dtypes = pytest.importorskip("ml_dtypes")
    table = np.array([1.5, -2.0, 3.0], dtypes.bfloat16)
    k = defined(KERNEL.format("float(W[i % 3]) + float(W[1])"), W=table)
    np.testing.assert_array_equal(results(k), table[T % 3].astype(np.float32) - 2.0)


def test_a_later_change_is_not_seen():
    table = np.ones(4, np.float32)
    k = defined(KERNEL.format("W[i % 4]"), W=table)
    generic = defined(KERNEL.format("W[i % 4] * N").replace("n: int", "n: int, N: constexpr(int)"), W=table)
    text = k.cuda()
    table[:] = 7.0
    assert k.cuda() == text
    np.testing.assert_array_equal(results(k), np.ones(32))
    y = np.zeros(32, np.float32)
    generic.specialize(N=3)[1](y, 0)
    np.testing.assert_array_equal(y, np.full(32, 3.0))
    assert defined(KERNEL.format("W[i % 4]"), W=table).cuda() != text  # so it is compiled anew


def test_strided_and_swapped_arrays():
    table = np.arange(24, dtype=np.int32).reshape(4, 6)
    for values in (table[::2, ::-1], table.T, table.astype(">i4"), np.asfortranarray(table)):
        rows, columns = values.shape
        k = defined(KERNEL.format(f"W[i % {rows}, i % {columns}]"), W=values)
        np.testing.assert_array_equal(results(k), values[T % rows, T % columns].astype(np.float32))


def test_constant_indices_are_numbers():
    text = defined(KERNEL.format("W[2]"), W=np.array([1.0, 2.0, 2.5], np.float32)).cuda()
    assert "2.5f" in text and "snap_table" not in text


def test_small_tables_lie_in_constant_memory_and_others_in_global():
    def text(*sizes: int) -> str:
        names = {f"W{k}": np.arange(size, dtype=np.float32) for k, size in enumerate(sizes)}
        return defined(KERNEL.format(" + ".join(f"{name}[i]" for name in names)), **names).cuda()

    assert "static __constant__ const float snap_table_W0[1024]" in text(1024)
    assert "static __device__ const float snap_table_W0[1025]" in text(1025)
    many = text(*[1024] * 9)
    assert many.count("__constant__ const") == 8 and many.count("__device__ const") == 1


def test_functions_capture_them_and_one_copy_is_enough():
    before = "@device(thread)\ndef weight(i: int) -> float:\n    return W[i % 4]\n"
    k = defined(before + KERNEL.format("weight(i) + W[(i + 1) % 4]"), W=np.arange(4, dtype=np.float32))
    np.testing.assert_array_equal(results(k), T % 4 + (T + 1) % 4)
    assert k.cuda().count("__constant__") == 1


def test_a_module_has_tables():
    import types

    module = types.ModuleType("tables")
    module.W = np.arange(4, dtype=np.float32)
    np.testing.assert_array_equal(results(defined(KERNEL.format("tables.W[i % 4]"), tables=module)), T % 4)


def test_what_all_agree_on_stays_agreed():
    k = defined(
        "@kernel(threads=64)\ndef k(y: ptr(float), n: int):\n    with each(block):\n        w: float = W[n]\n"
        "        if W[n + 1] > 1.0:\n            with each(thread, y) as i:\n                y[i] = w\n",
        W=np.array([0.5, 1.5, 2.5, 0.0], np.float32),
    )
    y = np.zeros(64, np.float32)
    k[1](y, 1)
    np.testing.assert_array_equal(y, np.full(64, 1.5))
    with pytest.raises(SnapError) as refused:
        defined("@kernel(threads=64)\ndef k(n: int):\n    with each(block):\n        t: int @ thread[1] = id()\n        w: float = W[t]\n", W=np.ones(64, np.float32))
    assert refused.value.all[0].code == "SNAP006"


def test_an_index_outside_traps():
    k = defined(KERNEL.format("W[i + n]"), W=np.ones(32, np.float32))
    results(k)
    for seed in (None, 1):
        with pytest.raises(snap.MachineError, match="outside of `W`"):
            k.launch(np.zeros(32, np.float32), 1, blocks=1, seed=seed)


def test_only_the_chosen_element_is_read():
    k = defined(KERNEL.format("W[i] if i < 4 else 0.0"), W=np.ones(4, np.float32))
    np.testing.assert_array_equal(results(k), T < 4)


def test_no_name_of_the_text_hides_a_table():
    before = "@device(thread)\ndef weight(i: int) -> float:\n    return W[i % 4]\n"
    y, _ = ran("snap_table_W = 1.0\ny[i] = weight(i) + snap_table_W", before=before, W=np.arange(4, dtype=np.float32))
    np.testing.assert_array_equal(y, T % 4 + 1)
    assert made("snap_table_W = x[i]\ny[i] = weight(i) + snap_table_W", before=before, W=np.arange(4, dtype=np.float32)).cubin()


REFUSED = {
    "complex": ("y[i] = W[i]", np.ones(4, complex), "SNAP018", "which Snap does not support"),
    "text": ("y[i] = W[i]", np.array(["a", "b"]), "SNAP018", "which Snap does not support"),
    "records": ("y[i] = W[i]", np.zeros(3, [("a", "f4"), ("b", "f4")]), "SNAP018", "which Snap does not support"),
    "objects": ("y[i] = W[i]", np.array([None, 1]), "SNAP018", "astype(np.float32)"),
    "empty": ("y[i] = W[i]", np.zeros(0, np.float32), "SNAP018", "is empty"),
    "large": ("y[i] = W[i]", np.zeros(16385, np.float32), "SNAP018", "W: ptr(const(f32), (16385,))"),
    "huge": ("y[i] = W[i]", np.zeros(1 << 19, np.float32), "SNAP018", "at most 65536"),
    "too few indices": ("y[i] = W[i]", np.ones((2, 2), np.float32), "SNAP018", "takes 2 indices, not 1"),
    "outside": ("y[i] = W[4]", np.ones(4, np.float32), "SNAP018", "index 4 is outside of `W`"),
    "from the end": ("y[i] = W[-1]", np.ones(4, np.float32), "SNAP018", "index -1 is outside"),
    "a float": ("y[i] = W[x[i]]", np.ones(4, np.float32), "SNAP018", "an index is an integer"),
    "written": ("W[i] = 1.0", np.ones(4, np.float32), "SNAP018", "cannot be written"),
    "added to": ("W[i] += 1.0", np.ones(4, np.float32), "SNAP018", "cannot be written"),
    "whole": ("y[i] = W", np.ones(4, np.float32), "SNAP018", "read an element: `W[i]`"),
    "memory": ("with partition(W, p=thread[1]) as w:\n    pass", np.ones(4, np.float32), "SNAP018", "a table of constants"),
    "viewed": ("y[i] = W.view(float4)[0].x", np.ones(4, np.float32), "SNAP018", ""),
    "an atomic's": ("atomic.add(W, 0, 1.0)", np.ones(4, np.float32), "SNAP018", "a table of constants"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    body, table, code, words = REFUSED[name]
    with pytest.raises(SnapError) as refused:
        made(body, W=table)
    first = refused.value.all[0]
    assert first.code == code, first.render()
    assert words in first.render(), first.render()


def test_numbers_of_no_dimension_are_numbers():
    np.testing.assert_array_equal(results(defined(KERNEL.format("W * 2.0"), W=np.array(3.0, np.float32))), np.full(32, 6.0))
