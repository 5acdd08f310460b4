"""Local arrays and vectors as values: tuple assignment, first values of arrays; what is refused, with its way out."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import snap
from snap import SnapError

HEAD = "from __future__ import annotations\nfrom snap import *\n"
_numbers = itertools.count()


def defined(source: str, **names):
    """The kernel `k` of a source text."""
    filename = f"<values {next(_numbers)}>"
    snap.register_source(filename, HEAD + source)
    exec(compile(HEAD + source, filename, "exec"), names)
    return names["k"]


def made(body: str, head: str = "x: ptr(const(float)), y: ptr(float), z: ptr(int), n: int", before: str = "", **names):
    """A kernel of 32 threads with this body, in which every thread has its index i and its own part of y and z."""
    lines = "\n".join("        " + line for line in body.splitlines())
    return defined(f"{before}\n@kernel(threads=32)\ndef k({head}):\n    with each(thread, y, z) as i:\n{lines}\n", **names)


def ran(body: str, before: str = "", **names) -> tuple[np.ndarray, np.ndarray]:
    """What the kernel writes to y and z: without a seed and with some, it is the same."""
    k = made(body, before=before, **names)
    found = []
    for seed in (None, 1, 2):
        y, z = np.zeros(64, np.float32), np.zeros(64, np.int32)
        k.launch(np.arange(128, dtype=np.float32), y, z, 7, blocks=1, seed=seed)
        found.append((y, z))
    for y, z in found[1:]:
        np.testing.assert_array_equal(y, found[0][0])
        np.testing.assert_array_equal(z, found[0][1])
    return found[0][0][:32], found[0][1][:32]


T = np.arange(32)


# ---- several targets ------------------------------------------------------------------------------------------------


def test_a_swap():
    y, z = ran("a, b = x[i], x[i + 1]\na, b = b, a\ny[i] = a\nz[i] = int(b)")
    np.testing.assert_array_equal(y, T + 1)
    np.testing.assert_array_equal(z, T)


def test_a_ring_of_three():
    _, z = ran("a, b, c = i, i + 1, i + 2\na, b, c = c, a, b\nz[i] = a * 10000 + b * 100 + c")
    np.testing.assert_array_equal(z, (T + 2) * 10000 + T * 100 + T + 1)


def test_the_targets_are_written_from_left_to_right():
    _, z = ran("q: int[4]\nj = 0\nj, q[j] = 3, 5\nz[i] = q[3] * 10 + q[0]")
    np.testing.assert_array_equal(z, np.full(32, 50))


def test_elements_of_one_array_are_swapped():
    _, z = ran("q: int[2] = [i, i + 100]\nq[0], q[1] = q[1], q[0]\nz[i] = q[0] * 1000 + q[1]")
    np.testing.assert_array_equal(z, (T + 100) * 1000 + T)


def test_elements_of_memory_are_swapped():
    _, z = ran("z[i] = 7\nz[i + 32] = i\nz[i], z[i + 32] = z[i + 32], z[i]")
    np.testing.assert_array_equal(z, T)


def test_components_and_names_are_targets_together():
    y, _ = ran("v: float2 = float2(1.0, 2.0)\nw: float = 5.0\nv.x, w = w, v.x\ny[i] = v.x * 10.0 + w")
    np.testing.assert_array_equal(y, np.full(32, 51.0))


def test_a_vector_is_dealt_out():
    y, _ = ran("v: float4 = float4(x[i], 2.0, 3.0, 4.0)\na, b, c, d = v\ny[i] = a + 10.0 * b + 100.0 * c + 1000.0 * d")
    np.testing.assert_array_equal(y, T + 4320)


def test_divmod_truncates_as_division_does():
    _, z = ran("q, r = divmod(i - 16, 5)\nz[i] = q * 100 + r")
    np.testing.assert_array_equal(z, np.trunc((T - 16) / 5) * 100 + np.fmod(T - 16, 5))


def test_a_call_on_the_right_comes_before_all_writes():
    before = "@device(thread)\ndef bump(q: ref(int[1])) -> int:\n    q[0] = q[0] + 1\n    return q[0]\n"
    _, z = ran("q: int[1]\na, b = q[0], bump(q)\nz[i] = a * 10 + b", before=before)
    np.testing.assert_array_equal(z, np.full(32, 1))


def test_a_call_in_a_target_comes_before_its_write_and_after_the_values():
    before = "@device(thread)\ndef bump(q: ref(int[4])) -> int:\n    q[0] = q[0] + 1\n    return q[0]\n"
    _, z = ran("q: int[4] = [0, 5, 6, 7]\na, q[bump(q)] = 9, q[0]\nz[i] = q[0] * 1000 + q[1] * 10 + a", before=before)
    np.testing.assert_array_equal(z, np.full(32, 1009))


def test_a_value_that_nothing_changes_needs_no_temporary():
    text = made("a, b = x[i], x[i + 1]\na, b = b, a\ny[i] = a - b").cuda()
    assert text.count("before") == 2  # one of the two


def test_values_are_for_their_own_target():
    k = defined(
        "@kernel(threads=64)\ndef k(n: int, z: ptr(int)):\n    with each(block):\n        a: int @ block[1] = 0\n"
        "        t: int @ thread[1] = 0\n        a, t = n, id()\n        with each(thread, z) as i:\n            z[i] = a + t\n"
    )
    z = np.zeros(64, np.int32)
    k[1](100, z)
    np.testing.assert_array_equal(z, 100 + np.arange(64))


def test_what_is_remembered_of_names_ends_with_a_tuple_assignment():
    """`j` is not 0 any more: the view does not begin at a whole element, and says so."""
    k = defined(
        "@kernel(threads=32)\ndef k(y: ptr(float)):\n    with group(grid[1]):\n        i: int @ thread[1] = id()\n"
        "        j: int @ thread[1] = 0\n        j, m = 1, 2\n"
        "        with partition(y, p=thread[1], f=lambda e: 4 * i + j + e) as mine, group(thread[1]):\n"
        "            mine.view(float4)[0] = float4(1.0)\n"
    )
    with pytest.raises(snap.MachineError, match="misaligned"):
        k[1](np.zeros(256, np.float32))


# ---- first values of arrays -----------------------------------------------------------------------------------------


def test_lists_and_nested_lists():
    y, _ = ran("a: float[2, 3] = [[1.0, x[i], 3], [4.0, 5.0, n]]\ny[i] = a[0, 1] * 100.0 + a[1, 2] * 10.0 + a[0, 2]")
    np.testing.assert_array_equal(y, T * 100 + 73)


def test_one_value_for_all():
    y, _ = ran("a: float[2, 2] = x[i] + 1.0\ny[i] = a[0, 0] + a[0, 1] + a[1, 0] + a[1, 1]")
    np.testing.assert_array_equal(y, 4 * (T + 1))


def test_a_negative_zero_is_no_zero():
    y, _ = ran("a: float[2] = -0.0\ny[i] = copysign(1.0, a[1])")
    np.testing.assert_array_equal(y, np.full(32, -1.0))


def test_a_copy_is_a_copy():
    _, z = ran("a: int[2] = [i, 5]\nb: int[2] = a\nb[0] = 100\nz[i] = a[0] + b[0] + b[1]")
    np.testing.assert_array_equal(z, T + 105)


def test_vectors_and_narrow_elements():
    y, z = ran("v: float2[2] = [float2(1.0, x[i]), float2(3.0)]\nb: u8[2] = [u8(i) + u8(250), 255]\ny[i] = v[0].y + v[1].x\nz[i] = b[0] + b[1]")
    np.testing.assert_array_equal(y, T + 3)
    np.testing.assert_array_equal(z, (T + 250) % 256 + 255)


def test_a_call_in_a_list_keeps_what_stands_before_it():
    before = "@device(thread)\ndef bump(q: ref(int[1])) -> int:\n    q[0] = q[0] + 1\n    return q[0]\n"
    _, z = ran("q: int[1]\na: int[3] = [q[0], bump(q), q[0]]\nz[i] = a[0] * 100 + a[1] * 10 + a[2]", before=before)
    np.testing.assert_array_equal(z, np.full(32, 11))


def test_a_list_is_one_declaration():
    assert "float a[2] = {x[i], 1.0f};" in made("a: float[2] = [x[i], 1.0]\ny[i] = a[0]").cuda()


# ---- refused --------------------------------------------------------------------------------------------------------

REFUSED = {
    "too many values": ("a, b = 1, 2, 3", "SNAP018", "2 target(s), and 3 values"),
    "too few": ("a, b, c = 1, 2", "SNAP018", "3 target(s), and 2 values"),
    "one number": ("a, b = i", "SNAP018", "one value, of type `i32`, for 2 targets"),
    "components": ("v: float4 = float4(1.0)\na, b = v", "SNAP018", "2 target(s), and 4 components"),
    "twice": ("a, a = 1, 2", "SNAP018", "`a` is assigned twice"),
    "a loop variable": ("for j in range(3):\n    j, a = 1, 2", "SNAP018", "loop variable"),
    "of another type": ("a: int = 0\na, b = 1.5, 2", "SNAP018", "would drop the fraction"),
    "an array whole": ("a: float[2]\na, b = 1.5, 2", "SNAP018", "an array"),
    "divmod alone": ("a = divmod(i, 2)", "SNAP018", "gives two values"),
    "divmod of floats": ("a, b = divmod(x[i], 2.0)", "SNAP018", "takes integers"),
    "divmod of one": ("a, b = divmod(i)", "SNAP018", "takes two integers"),
    "divmod by zero": ("a, b = divmod(i, 0)", "SNAP018", "division by zero"),
    "a list too short": ("a: float[3] = [1.0, 2.0]", "SNAP018", "3 items here, and this is 2 item(s)"),
    "a list too flat": ("a: float[2, 2] = [1.0, 2.0]", "SNAP018", "2 items here, and this is one value"),
    "a list too deep": ("a: float[2] = [[1.0], [2.0]]", "SNAP017", "not values"),
    "a list of a scalar": ("a: float = [1.0]", "SNAP017", "not values"),
    "a float for ints": ("a: int[2] = [1, 2.5]", "SNAP018", "would drop the fraction"),
    "another shape": ("a: float[2]\nb: float[3] = a", "SNAP018", "`b` is `f32[3]`, and this is `f32[2]`"),
    "memory": ("a: float[2] = x", "SNAP018", "`x` is memory"),
    "itself": ("a: float[2] = a", "SNAP019", "unknown name `a`"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    body, code, words = REFUSED[name]
    with pytest.raises(SnapError) as refused:
        made(body)
    first = refused.value.all[0]
    assert first.code == code, first.render()
    assert words in first.render(), first.render()


def test_a_first_value_is_for_the_privilege_of_its_array():
    with pytest.raises(SnapError) as refused:
        defined("@kernel(threads=64)\ndef k(z: ptr(int)):\n    with each(block):\n        t: int @ thread[1] = id()\n        a: int[2] = [1, t]\n")
    assert refused.value.all[0].code == "SNAP006"


def test_a_value_is_for_the_privilege_of_its_target():
    with pytest.raises(SnapError) as refused:
        defined("@kernel(threads=64)\ndef k(z: ptr(int)):\n    with each(block):\n        a, b = 1, 2\n        t: int @ thread[1] = id()\n        t, a = 1, t\n")
    assert refused.value.all[0].code == "SNAP006"
