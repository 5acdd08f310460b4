"""The names of `snap.lib`, their annotations, what editors and mypy make of them, and the old words that still work."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
import types
import warnings
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import snap
from snap import lib

ROOT = Path(__file__).resolve().parents[2]
FUNCTIONS = {name: getattr(lib, name) for name in lib.__all__ if name not in ("block", "warp")}
FACTORIES = {
    f"{module.__name__}.{name}": getattr(module, name)
    for module in (lib.block, lib.warp)
    for name in ("reduce", "scan", "broadcast", "exchange", "load", "store")
}


def test_the_names_are_functions_and_two_modules():
    assert dir(lib) == sorted(lib.__all__)
    assert all(inspect.isfunction(function) for function in FUNCTIONS.values())
    assert [name for name in lib.__all__ if isinstance(getattr(lib, name), types.ModuleType)] == ["block", "warp"]
    public = {name for name in vars(lib) if not name.startswith("_")}
    assert public == set(lib.__all__), "nothing else is found under a public name"


@pytest.mark.parametrize("name", [*FUNCTIONS, *FACTORIES])
def test_every_parameter_and_result_is_annotated(name):
    function = {**FUNCTIONS, **FACTORIES}[name]
    signature = inspect.signature(function)
    assert signature.return_annotation is not inspect.Signature.empty
    assert [word for word, one in signature.parameters.items() if one.annotation is one.empty] == []
    assert not {"type", "out_type", "a_type", "b_type"} & set(signature.parameters), "old words are not shown"
    assert function.__doc__


USER = '''
from typing import assert_type

import snap
import snap.lib
from snap import lib
from snap.lib import block, gemm, softmax


class Matrix:
    """An array of some library, to a type checker."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> str: ...
    @property
    def ndim(self) -> int: ...
    @property
    def T(self) -> "Matrix": ...


def layer(x: Matrix, w: Matrix, ids: Matrix) -> Matrix:
    assert_type(gemm(x, w.T, bias=w, activation="gelu"), Matrix)
    assert_type(softmax(x, -1, dtype=float), Matrix)
    assert_type(lib.layer_norm(x, w), Matrix)
    out, mean, rstd = snap.lib.layer_norm(x, w, statistics=True)
    loss, dlogits = lib.cross_entropy(x, ids, gradient=True)
    assert_type(lib.cross_entropy(x, ids), Matrix)
    assert_type(lib.attention(x, x, x, causal=True), Matrix)
    assert_type(lib.attention(x, x, x, lse=True), tuple[Matrix, Matrix])
    lib.adamw(x, x, x, x, 1, lr=1e-3, scale=lib.global_norm(x, clip=1.0)[1])
    total = block.reduce(dtype=snap.f32, op="max")
    assert_type(total, snap.SnapFunction)
    return lib.reduce(out, "add", dtype="bf16")
'''
WRONG = {
    'lib.reduce(x, "plus")': "arg-type",
    'lib.gemm(x, x, activation="tanh")': "arg-type",
    "lib.softmax(3)": "type-var",
    "lib.scan(x, reverse=True)": "call-arg",
    "lib.nothing(x)": "attr-defined",
    'lib.cross_entropy(x, x, reduction="all")': "call-overload",
}


@pytest.mark.skipif(find_spec("mypy") is None, reason="mypy is not installed: pip install -e '.[test]'")
def test_mypy_strict_knows_the_signatures(tmp_path):
    (tmp_path / "user.py").write_text(USER)
    lines = ["from snap import lib", "from user import Matrix", "", "def f(x: Matrix) -> None:", *(f"    {line}" for line in WRONG)]
    (tmp_path / "wrong.py").write_text("\n".join(lines) + "\n")
    config = f"[mypy]\nmypy_path = {ROOT}/src\nfollow_imports = silent\ndisable_error_code = empty-body\n"
    config += "[mypy-numpy.*,torch.*,cupy.*,cuda.*]\nfollow_imports = skip\nignore_missing_imports = True\n"
    (tmp_path / "mypy.ini").write_text(config)
    command = [sys.executable, "-m", "mypy", "--strict", "--python-version", "3.11", "--config-file", "mypy.ini", "user.py", "wrong.py"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    said = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path)
    found = [line for line in said.stdout.splitlines() if ": error:" in line]
    assert [line for line in found if line.startswith("user.py")] == [], said.stdout + said.stderr
    for at, (text, code) in enumerate(WRONG.items(), start=5):
        assert any(line.startswith(f"wrong.py:{at}:") and f"[{code}]" in line for line in found), (text, found)


def warned(call) -> str:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        call()
    assert [w.category for w in found] == [DeprecationWarning] and found[0].filename == __file__
    return str(found[0].message)


def test_old_words_work_and_say_the_new_form():
    bits = (np.arange(6, dtype=np.float32).reshape(2, 3).view(np.uint32) >> 16).astype(np.uint16)
    eight = np.zeros((16, 16), np.uint8)
    for call, said in (
        (lambda: lib.reduce(bits, type="bf16"), "`snap.lib.reduce(type=...)` is deprecated: write `dtype=...`"),
        (lambda: lib.scan(bits[0], type="bf16"), "`snap.lib.scan(type=...)` is deprecated: write `dtype=...`"),
        (lambda: lib.gemv(bits, bits[0], type=snap.bf16), "`snap.lib.gemv(type=...)` is deprecated: write `dtype=...`"),
        (lambda: lib.softmax(bits, type="bf16"), "`snap.lib.softmax(type=...)` is deprecated: write `dtype=...`"),
        (lambda: lib.softmax(bits, "bf16"), "`snap.lib.softmax(x, type)` is deprecated: write `snap.lib.softmax(x, dtype=...)`"),
        (lambda: lib.gemm_fp8(eight, eight, out_type="f32"), "`snap.lib.gemm_fp8(out_type=...)` is deprecated: write `out_dtype=...`"),
        (lambda: lib.block.reduce(type=float), "`snap.lib.block.reduce(type=...)` is deprecated: write `dtype=...`"),
        (lambda: lib.attention_gradients, "`snap.lib.attention_gradients` is deprecated: write `snap.lib.attention_gradient`"),
    ):  # fmt: skip
        assert warned(call) == said
    np.testing.assert_array_equal(lib.softmax(bits, "bf16"), lib.softmax(bits, dtype="bf16"))
    assert lib.gemm_fp8(eight, eight, out_type="f32").dtype == np.float32


def test_element_types_of_numpy_and_snap_are_dtypes():
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    for dtype in (np.float16, np.dtype("float16"), "float16", "f16", snap.f16):
        assert lib.column_sums(x, dtype=dtype).dtype == np.float16
    eight = np.zeros((16, 16), np.uint8)
    assert lib.gemm_fp8(eight, eight, out_dtype=np.float32).dtype == np.float32
    assert lib.block.reduce(np.float32) is lib.block.reduce(float)
    with pytest.raises(snap.LaunchError, match="`dtype` of `snap.lib.softmax`: takes a scalar type of Snap"):
        lib.softmax(x, dtype="float33")


def test_softmax_takes_the_last_axis_as_dim():
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(lib.softmax(x, 1), lib.softmax(x, dim=-1))
    for dim in (0, 2, True, None):
        with pytest.raises(snap.LaunchError, match="`dim` of `snap.lib.softmax`: is the last axis, -1, not"):
            lib.softmax(x, dim)
