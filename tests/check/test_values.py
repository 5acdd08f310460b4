"""Local arrays and vectors as values: tuple assignment, first values of arrays, arrays as a whole; what is refused, with its way out."""

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


def test_divmod_is_pythons():
    _, z = ran("q, r = divmod(i - 16, 5)\nz[i] = q * 100 + r")
    np.testing.assert_array_equal(z, (T - 16) // 5 * 100 + (T - 16) % 5)


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


SHOW = "\nz[i] = a[0] + 100 * a[1] + 10000 * a[2]"


# ---- arrays as a whole ----------------------------------------------------------------------------------------------------


def test_one_value_for_all_is_evaluated_once():
    _, z = ran("a: int[3] = [i, 2, 3]\na = a[0] + 1" + SHOW)
    np.testing.assert_array_equal(z, (T + 1) * 10101)


def test_an_array_is_copied():
    _, z = ran("a: int[3]\nb: int[3] = [i, 5, 6]\na = b\nb = 0" + SHOW)
    np.testing.assert_array_equal(z, T + 60500)


def test_a_list_is_evaluated_before_the_array_changes():
    _, z = ran("a: int[3] = [1, 2, 3]\na = [a[2], a[0], a[1] + i]" + SHOW)
    np.testing.assert_array_equal(z, 3 + 100 + 10000 * (T + 2))


def test_windows_are_assigned_and_combined():
    y, _ = ran("a: float[2, 3]\na[1] = 2.0\na[0] = a[1]\na[0] += a[1]\nfor r in range(2):\n    a[r] *= x[i]\ny[i] = a[0, 2] + 100.0 * a[1, 0]")
    np.testing.assert_array_equal(y, 204 * T)


@pytest.mark.parametrize("op, want", [("+", 7), ("-", 3), ("*", 10), ("//", 2), ("%", 1), ("<<", 20), ("^", 7)])
def test_each_operator_meets_each_element(op, want):
    _, z = ran(f"a: int[3] = [5, 5, i]\nb: int[3] = [2, 2, 2]\nc: int[3] = a\na {op}= 2\nc {op}= b\nz[i] = a[0] + 1000 * c[1] + 1000000 * int(a[2] == c[2])")
    np.testing.assert_array_equal(z, np.full(32, 1001 * want + 1000000))


def test_the_value_that_combines_is_evaluated_once_and_before():
    y, _ = ran("a: float[2] = [x[i] + 1.0, 8.0]\na /= a[0]\ny[i] = a[0] * 100.0 + a[1] * (x[i] + 1.0)")
    np.testing.assert_allclose(y, np.full(32, 108.0), rtol=1e-6)


def test_elements_are_converted_as_one_by_one():
    y, z = ran("a: f64[2] = 1.0\na *= 0.1 if 0.5 < a[0] else 3.0\nb: u8[2] = 250\nb += 10\nh: f16[2] = 1.0\nh += f16(2.0)\ny[i] = float(a[1]) + float(h[0])\nz[i] = b[1] + int(a[0] == 0.1)")
    np.testing.assert_allclose(y, np.full(32, 3.1), rtol=1e-6)
    np.testing.assert_array_equal(z, np.full(32, 5))


def test_arrays_of_vectors():
    y, _ = ran("a: float2[2] = float2(1.0, x[i])\na *= 2.0\na += a\ny[i] = a[1].x + a[0].y")
    np.testing.assert_array_equal(y, 4 + 4 * T)


def test_a_ref_is_assigned_and_a_group_assigns_for_its_threads():
    before = "@device(warp)\ndef fill(a: ref(int[3]), by: int):\n    l: int @ thread[1] = id()\n    a = [l * k for k in range(3)]\n    a += by\n"
    k = defined(f"{before}@kernel(threads=32)\ndef k(z: ptr(int)):\n    with each(warp, z):\n        a: int[3] @ thread[1]\n        fill(a, 7)\n        with each(thread, z) as i:\n            z[i] = a[0] + 100 * a[2]\n")
    z = np.zeros(32, np.int32)
    k[1](z)
    np.testing.assert_array_equal(z, 7 + 100 * (2 * T + 7))


# ---- comprehensions -------------------------------------------------------------------------------------------------


def test_a_comprehension_is_the_loop():
    body = "a: float[4]{}\ny[i] = a[3]"
    listed, looped = (made(body.format(how)).cuda() for how in (" = [x[i + k] for k in range(4)]", "\nfor k in range(4):\n    a[k] = x[i + k]"))
    assert listed.splitlines()[1:] == looped.splitlines()[1:]


def test_lists_in_lists():
    y, _ = ran("N = 3\na: float[2, 3] = [[x[i] * r + k for k in range(3)] for r in range(2)]\nb: float[2, 2] = [[x[i], r] for r in range(2)]\ny[i] = a[1, 2] + 1000.0 * b[1, 1]")
    np.testing.assert_array_equal(y, T + 2 + 1000)


def test_a_list_that_reads_its_array_is_made_beside_it():
    _, z = ran("a: int[3] = [i, 2, 3]\na = [a[2 - k] for k in range(3)]" + SHOW)
    np.testing.assert_array_equal(z, 203 + 10000 * T)


def test_calls_in_a_list():
    before = "@device(thread)\ndef bump(q: ref(int[1])) -> int:\n    q[0] = q[0] + 1\n    return q[0]\n"
    _, z = ran("q: int[1]\na: int[3] = [bump(q) for k in range(3)]" + SHOW, before=before)
    np.testing.assert_array_equal(z, np.full(32, 30201))


def test_the_index_is_the_lists_own():
    _, z = ran("k = 50\na: int[3] = [k for k in range(3)]\nz[i] = k + a[2]")
    np.testing.assert_array_equal(z, np.full(32, 52))


def test_what_it_stands_for():
    core = made("a: float[2] = [x[k] for k in range(2)]\na = [a[1 - k] for k in range(2)]\ny[i] = a[0]").core()
    assert "for k in unroll(range(2)):" in core and "a[k] = x[k]" in core and "a = values" in core


# ---- refused --------------------------------------------------------------------------------------------------------

REFUSED = {
    "too many values": ("a, b = 1, 2, 3", "SNAP018", "2 targets, and 3 values"),
    "too few": ("a, b, c = 1, 2", "SNAP018", "3 targets, and 2 values"),
    "one number": ("a, b = i", "SNAP018", "one value, of type `i32`, for 2 targets"),
    "components": ("v: float4 = float4(1.0)\na, b = v", "SNAP018", "2 targets, and 4 components"),
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
    "itself": ("a: float[2] = a", "SNAP019", "`a` is assigned in this function, and is not declared before this line"),
}  # fmt: skip


A = "a: float[4]\n"
WHOLE = {
    "another shape": (f"{A}b: float[3]\na += b", "SNAP018", "`a` is `f32[4]`, and this is `f32[3]`"),
    "another shape assigned": (f"{A}b: float[2, 2]\na = b", "SNAP018", "`a` is `f32[4]`, and this is `f32[2, 2]`"),
    "another type assigned": (f"{A}b: int[4]\na = b", "SNAP018", "`a` is `f32[4]`, and this is `i32[4]`"),
    "a fraction": ("a: int[4]\na *= 0.5", "SNAP018", "would drop the fraction"),
    "precision": (f"{A}b: f64[4]\na += b", "SNAP018", "would lose precision"),
    "a list too short": (f"{A}a = [1.0, 2.0]", "SNAP018", "4 items here, and this is 2"),
    "too few are counted": (f"{A}a = [x[k] for k in range(3)]", "SNAP018", "4 items here, and this has 3"),
    "a length that is not known": (f"{A}a = [x[k] for k in range(n)]", "SNAP018", "compile-time constant"),
    "from one on": (f"{A}a = [x[k] for k in range(1, 5)]", "SNAP018", "counted by `range(n)`"),
    "over an array": (f"{A}a = [v for v in x]", "SNAP018", "counted by `range(n)`"),
    "too flat": ("a: float[2, 2] = [x[k] for k in range(2)]", "SNAP018", "has lists as its items"),
    "too deep": ("a: float[2] = [[x[k] for k in range(2)] for j in range(2)]", "SNAP017", "gives a local array its elements"),
    "of a scalar": ("a: float = [x[k] for k in range(2)]", "SNAP018", "gives a local array its elements"),
    "without a type": ("a = [x[k] for k in range(2)]", "SNAP017", "declare the array, with its type"),
    "in an expression": ("y[i] = max([x[k] for k in range(2)], 1.0)", "SNAP017", "gives a local array its elements"),
    "one index twice": ("a: float[2, 2] = [[x[k] for k in range(2)] for k in range(2)]", "SNAP018", "another index or array already"),
    "the array's own name": (f"{A}a = [x[a] for a in range(4)]", "SNAP018", "another index or array already"),
    "the window's index": ("a: float[2, 2]\nfor r in range(2):\n    a[r] = [x[r] for r in range(2)]", "SNAP018", "another index or array already"),
    "of itself": ("a: float[2] = [a[k] for k in range(2)]", "SNAP018", "is not there yet"),
    "a window that is not known": ("a: float[2, 2]\na[n % 2] = 0.0", "SNAP018", "must be known when it is compiled"),
    "memory": (f"{A}y = a", "SNAP018", "pointers cannot be assigned"),
    "memory combined": ("y += 1.0", "SNAP018", "pointers cannot be assigned"),
    "with memory": (f"{A}a += y", "SNAP018", "`y` is memory"),
}  # fmt: skip


@pytest.mark.parametrize("name", [*REFUSED, *WHOLE])
def test_refused(name):
    body, code, words = {**REFUSED, **WHOLE}[name]
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


SHARED = "@kernel(threads=64)\ndef k(z: ptr(int)):\n    with each(block):\n        {}\n"
FOR_WHOM = {
    "a thread's value for a block's array": ("a: int[2]\n        t: int @ thread[1] = id()\n        a += t", "SNAP006"),
    "a thread's array for a block's": ("a: int[2]\n        b: int[2] @ thread[1]\n        a = b", "SNAP006"),
    "a thread's list for a block's array": ("a: int[2]\n        t: int @ thread[1] = id()\n        a = [t + k for k in range(2)]", "SNAP006"),
    "a block's array in a thread": ("a: int[2]\n        with each(thread):\n            a = 1", "SNAP005"),
    "a block's array combined in a thread": ("a: int[2]\n        with each(thread):\n            a += 1", "SNAP005"),
    "a shared array": ("s: shared(int[2])\n        s = 1", "SNAP018"),
    "a shared array combined": ("s: shared(int[2])\n        s += 1", "SNAP018"),
}  # fmt: skip


@pytest.mark.parametrize("name", FOR_WHOM)
def test_for_whom(name):
    body, code = FOR_WHOM[name]
    with pytest.raises(SnapError) as refused:
        defined(SHARED.format(body))
    assert refused.value.all[0].code == code, refused.value.all[0].render()
