"""What a newcomer writes who knows NumPy, CUDA, Numba or Triton: what is said names what was written, and a way out."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from check.checking import execute

from snap.diag.error import SnapError
from snap.host.errors import LaunchError

KERNEL = "@kernel(threads=32)\ndef k(x: ptr(const(float)), y: ptr(float), n: int):\n"
EACH = KERNEL + "    with each(thread, y) as i:\n        "


class Plain:
    a = 1


def helper(v):
    return v


BOUND = {"np": np, "math": math, "numbers": [1.0, 2.0], "config": Plain(), "nothing": None, "word": "four", "helper": helper, "total": 0}

# The program; what is said; and what the help offers.
SAID = {
    "a function of NumPy": (EACH + "y[i] = np.sin(x[i])", "the function `sin` of `numpy`", "write `sin(x[i])`"),
    "one that Snap lacks": (EACH + "y[i] = math.factorial(3)", "the function `factorial` of `math`", "compute this before the launch"),
    "an array of NumPy": (KERNEL + "    a = np.zeros(4)", "the function `zeros` of `numpy`", "`x: float[4]` for each thread"),
    "a type of NumPy": (EACH + "y[i] = np.float32(i)", "the type `float32` of `numpy`", "`f32`, or `float`"),
    "an array as a type": ("@kernel(threads=32)\ndef k(x: np.ndarray):\n    pass", "the Python type `ndarray`", "`ptr(const(float))`, or `ptr(float)`"),
    "a list as a type": ("@kernel(threads=32)\ndef k(x: list):\n    pass", "`list` is not part of Snap", "`x: ptr(float)` as a parameter"),
    "text as a type": ("@kernel(threads=32)\ndef k(mode: str):\n    pass", "`str` is not part of Snap", "`constexpr(int)`"),
    "a type in brackets": (EACH + "a: ptr[float]", "`ptr` takes its type in parentheses", "`ptr(float)`"),
    "no type in brackets": ("@kernel(threads=32)\ndef k(T: constexpr):\n    pass", "`constexpr` takes its type in parentheses", "`constexpr(int)`"),
    "no type": ("@kernel(threads=32)\ndef k(x):\n    pass", "parameter `x` has no type", "an array is `x: ptr(float)`, a number `x: int`"),
    "a method": ("@kernel(threads=32)\ndef k(self, x: ptr(float)):\n    pass", "parameter `self` has no type", "define it outside of the class, without `self`"),
    "a default": ("@kernel(threads=32)\ndef k(x: ptr(float), a: float @ grid[1] = 2.0):\n    pass", "has a default", "`a: constexpr(float) = 2.0`"),
    "a global counter": (EACH + "total += 1", "`total` is assigned in this function", "if the `total` from outside is meant"),
    "a lambda as a kernel": ("k = kernel(threads=32)(lambda x: None)", "not a lambda", "put it above a `def`"),
    "a class as a kernel": ("@kernel(threads=32)\nclass K:\n    pass", "not the class `K`", "put it above a `def`"),
    "a lambda that is called": (KERNEL + "    f = lambda v: v\n    with each(thread, y) as i:\n        y[i] = f(x[i])", "it cannot be called", "`@device(thread)`"),
    "a function without a decorator": (EACH + "y[i] = helper(x[i])", "a Python function without a decorator", "`@device(thread)`, or with `@inline`"),
    "a decorator without privileges": ("@device\ndef f(v: float) -> float:\n    return v\n" + EACH + "y[i] = f(x[i])", "lacks @requires(...)", "write `@device(thread)` above `f`"),
    "a module that hides a level": ("from snap.lib import block\n" + KERNEL + "    with each(block, y) as b:\n        pass", "it is the module `snap.lib.block`", "`from snap.lib import block as of_block`"),
    "a parameter that hides a level": ("@kernel(threads=32)\ndef k(y: ptr(float), block: int):\n    with each(block[1], y) as b:\n        pass", "`block` is not the level here", "give that another name"),
    "a block without whole warps": (KERNEL.replace("32", "100") + "    with each(warp, y) as w:\n        pass", "`thread[32]` does not divide the threads here", "or have whole warps: 96 or 128 threads"),
    "an empty list": (EACH + "a = []", "lists are not values", "`a: float[4]`"),
    "an empty tuple": (EACH + "a = ()", "empty tuples are not values", "`a: float[4]`"),
    "a kernel that is called": (EACH + "y[i] = 0.0\n" + KERNEL.replace("k(", "other(") + "    k(x, y, n)", "`k` is a kernel", "`@device(...)` or `@inline`"),
    "a kernel that is launched": (EACH + "y[i] = 0.0\n" + KERNEL.replace("k(", "other(") + "    k[1](x, y, n)", "`k` is a kernel", "launch one kernel after the other"),
    "an object": (EACH + "y[i] = config.a", "of type `Plain`", "`@dataclass(frozen=True)` above `class Plain`"),
    "a list": (EACH + "y[i] = numbers[i]", "of type `list`", "`numbers = numpy.array(numbers)`"),
    "text": (EACH + "y[i] = word", "of type `str`", "text is for `print`"),
    "nothing": (EACH + "y[i] = nothing", "it is `None`", "bind a number instead"),
    "a list in a variable": (EACH + "a = [0.0, 1.0]", "lists are not values", "`a: float[2] = [0.0, 1.0]`"),
    "a list of all threads": (KERNEL + "    a = [1, n]", "lists are not values", "`a: float[2] @ thread[1] = [1, n]`"),
    "a list for a tuple": (EACH + "a: tuple[float, int] = [0.0, n]", "`a` is `tuple[f32, i32]`, and this is a list", "a tuple is in parentheses: `(0.0, n)`"),
    "a list in a tuple": (EACH + "a = (n, [0.0, 1.0])", "lists are not values", "`x: float[2] = [0.0, 1.0]`"),
    "a tuple without types": (EACH + "a: tuple = (0.0, 1.0)", "`tuple` is not part of Snap", "`tuple[int, float]`"),
    "a tuple with an index": (EACH + "a = (0.0, 1.0)\n        y[i] = a[i % 2]", "which of its fields is meant must be written", "`a: f32[2]`"),
    "a tuple in a tuple": (EACH + "a = (0, (0.0, 1.0))\n        y[i] = a[1][2]", "`a[1]` has 2 values, and this asks for number 2", "they count from 0"),
    "tuples that are added": (EACH + "a = (0.0, 1.0) + (2.0,)", "this is a tuple, and one value is wanted here", "`a: float[2] = [0.0, 1.0]`"),
    "a tuple as a number": (EACH + "y[i] = (x[i], n)", "this is a tuple, and one value is wanted here", "`t = (x[i], n)`, `t[0]`"),
    "a power": (EACH + "y[i] = x[i] ** 2", "`**` is not part of Snap", "write `pow(x[i], 2)`, or multiply"),
    "a remainder": (EACH + "y[i] = x[i] % 2", "`%` takes integers", "write `fmod(x[i], 2)`"),
    "a float index": (EACH + "y[i] = x[n / 2.0]", "an index is an integer", "cast it: `int(n / 2.0)`"),
    "a float as an int": (EACH + "m: int = x[i]", "would drop the fraction", "`int(x[i])`"),
    "a sum into an int": (EACH + "m: int = 0\n        m += x[i] * 2", "would drop the fraction", "`m = int(m + x[i] * 2)`"),
    "a sum over threads": (KERNEL + "    m = 0.0\n    with each(thread) as i:\n        m += x[i]", "above this code's privilege", "`intrinsic.reduce_add(v)` in a warp"),
    "a cell of all threads": (EACH + "y[0] += x[i]", "two threads of one `each` meet", "`with one(block, y), one(thread, y):`"),
    "a whole array": (KERNEL + "    y = x", "pointers cannot be assigned", "`y[i] = ...`, in `with each(thread, y) as i:`"),
    "a shape": (EACH + "y[i] = float(x.shape[0])", "this cannot be indexed", "`x: ptr(float, (M, N))` names them"),
    "a size": (EACH + "y[i] = float(x.size)", "has no attribute `size`", "pass the sizes as parameters"),
    "pointer arithmetic": (EACH + "y[i] = (x + 4)[i]", "this cannot be indexed", "write `x[4 + i]`"),
    "`each` without `with`": (KERNEL + "    each(thread, y)", "belongs to a `with` statement", "`with each(thread, y) as i:`"),
    "`each` in a loop": (KERNEL + "    for i in each(thread, y):\n        pass", "runs over `range(...)`", "`with each(thread, y) as i:`"),
    "a level without `each`": (KERNEL + "    with thread as i:\n        pass", "`with` tells units apart", "`with each(thread) as i:`"),
    "`None`": (EACH + "if x is None:\n            pass", "`is` is not part of Snap", "choose with `constexpr(bool)`"),
    "formatted text": (EACH + 'print("x = %f" % x[i])', "a string as a value", '`print("x =", x)` shows values'),
    "a nested function": (KERNEL + "    def f(v):\n        return v", "a function inside a function", "`@device(thread)` above it"),
}


@pytest.mark.parametrize("name", SAID)
def test_what_is_said_and_offered(name):
    text, said, offered = SAID[name]
    with pytest.raises(SnapError) as refused:
        execute(text + "\n", **BOUND)
    shown = refused.value.all[0].render()
    head, _, help = shown.partition("help: ")
    assert said in head and offered in help, shown


@pytest.mark.parametrize("decorated, offered", [
    ("@device", "`@device(thread)` each thread for itself"),
    ("@kernel", "`@kernel(threads=256)`"),
    ("@requires(thread[32])", "a Snap function has both"),
])
def test_a_decorator_alone(decorated, offered):
    unfinished = execute(f"{decorated}\ndef f(v: float):\n    pass\n")["f"].unfinished()
    assert "lacks @" in unfinished.message and offered in unfinished.help


# What is followed; and the same program with what the help says in its place.
@pytest.mark.parametrize("wrong, right", [
    ("y[i] = np.sin(x[i])", "y[i] = sin(x[i])"),
    ("y[i] = x[i] ** 2", "y[i] = pow(x[i], 2)"),
    ("y[i] = x[i] % 2", "y[i] = fmod(x[i], 2)"),
    ("y[i] = x[i] // 2", "y[i] = floor(x[i] / 2)"),
    ("y[i] = x[n / 2.0]", "y[i] = x[int(n / 2.0)]"),
    ("m: int = x[i]", "m: int = int(x[i])"),
    ("m: int = 0; m += x[i] * 2", "m: int = 0; m = int(m + x[i] * 2)"),
    ("m: int = 0; m *= x[i] + n", "m: int = 0; m = int(m * (x[i] + n))"),
    ("a = [0.0, 1.0]; y[i] = a[1]", "a: float[2] = [0.0, 1.0]; y[i] = a[1]"),
    ("a = (0.0, 1.0); y[i] = a[i % 2]", "a: f32[2] = [0.0, 1.0]; y[i] = a[i % 2]"),
    ("a: tuple[float, int] = [x[i], n]; y[i] = a[0]", "a: tuple[float, int] = (x[i], n); y[i] = a[0]"),
    ("y[i] = (x[i], n)", "t = (x[i], n); y[i] = t[0]"),
    ("y[i] = (x + 4)[i]", "y[i] = x[4 + i]"),
    ("y[i] = (x + n)[i + 1]", "y[i] = x[n + i + 1]"),
    ("m: int = popc(x[i])", "m: int = popc(int(x[i]))"),
    ("y[0] += x[i]", "atomic.add(y, 0, x[i])"),
])
def test_the_code_that_is_offered_is_accepted(wrong, right):
    with pytest.raises(SnapError) as refused:
        execute(EACH + wrong + "\n", **BOUND)
    offered = [text for text in refused.value.all[0].render().partition("help: ")[2].split("`")[1::2] if text.split("(")[0] in right]
    assert offered and any(text in right for text in offered) or "atomic" in right, (offered, right)
    execute(EACH + right + "\n", **BOUND)


@dataclasses.dataclass(frozen=True)
class Frozen:
    a: int = 1


def test_the_frozen_dataclass_that_is_offered_is_accepted():
    execute(EACH + "y[i] = float(config.a)\n", **{**BOUND, "config": Frozen()})


@pytest.mark.parametrize("blocks, args, keywords, said", [
    (1.25, (), {}, "write `n // 256`, or `-(-n // 256)`"),
    (lambda meta: 1, (), {}, "`blocks=lambda n: -(-n // 256)`"),
    (1, ([0.0] * 32,), {}, "`numpy.array(..., numpy.float32)`"),
    (1, (None,), {}, "a `bool` beside it"),
    (1, (np.zeros(32),), {}, "`.astype(numpy.float32)`"),
    (1, (np.zeros(32, np.float32), 2.0), {}, "got 2.0 (float); pass `2`"),
    (1, (np.zeros(32, np.float32), 2), {"target": "cpu"}, "`k.launch(..., blocks=blocks, target=...)`"),
])
def test_a_launch(blocks, args, keywords, said):
    k = execute("@kernel(threads=32)\ndef k(y: ptr(float), n: int):\n    with each(thread, y) as i:\n        y[i] = 0.0\n")["k"]
    given = (*args, *(np.zeros(32, np.float32), 3)[len(args):])
    with pytest.raises(LaunchError) as refused:
        k[blocks](*given, **keywords)
    assert said in str(refused.value)
