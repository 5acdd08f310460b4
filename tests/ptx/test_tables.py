"""The machine against a GPU's results, bit for bit (tables.py records them), and the recording itself with the machine in the GPU's place."""

from __future__ import annotations

import json

import numpy as np
import pytest
from ptx import tables
from ptx.forms import FORMS
from ptx.products import PRODUCTS

from snap.ptx import run
from snap.ptx.instructions import approximations

RECORDED = tables.FOLDER / "instructions.json"
needs_record = pytest.mark.skipif(not RECORDED.exists(), reason="no GPU's results are recorded: PYTHONPATH=src:tests python tests/ptx/tables.py on an H200")


@needs_record
def test_the_machine_gives_what_the_gpu_gave():
    wrong = tables.compared(tables.FOLDER)
    assert not wrong, "\n".join(f"{key}: {what}" for key, what in wrong.items())


@needs_record
def test_the_gpu_has_every_form_that_the_table_names():
    about = json.loads(RECORDED.read_text())
    assert set(about["forms"]) | set(about["refused"]) == {key for key, form in FORMS.items() if form.since < 100}
    assert not about["refused"], about["refused"]
    about = json.loads(RECORDED.with_name("products.json").read_text())
    assert set(about["forms"]) == set(PRODUCTS) and not about["refused"], about["refused"]


def test_all_operands_of_sixteen_bits_are_settled_where_the_table_is_there():
    if not approximations.FILE.exists():
        pytest.skip("no GPU's results are recorded: PYTHONPATH=src:tests python tests/ptx/tables.py on an H200")
    names = {form.name for form in FORMS.values() if form.approximate and form.operands in (("f16",), ("bf16",))}
    assert set(approximations.tables()) == names and all(len(table) == 1 << 16 for table in approximations.tables().values())


SOME = {key: form for k, (key, form) in enumerate(FORMS.items()) if k % 29 == 0 or form.result == "pred" and k % 7 == 0}


def test_recording_and_comparing(tmp_path):
    some = {**SOME, "tex.2d (0)": tables.Form("tex.2d.v4.s32.s32", ("b32",), "b32")}
    said = tables.write(tables.StandIn(), tmp_path, tmp_path / "h200.npz", some, dict(list(PRODUCTS.items())[::9]), 64)
    assert list(said["refused"]) == ["tex.2d (0)"] and len(said["forms"]) == sum(form.since < 100 for form in SOME.values())
    assert tables.compared(tmp_path) == {}
    with np.load(tmp_path / "instructions.npz") as kept:
        arrays = {name: kept[name].copy() for name in kept.files}
    key = next(key for key, form in SOME.items() if form.result in ("u32", "s32"))
    arrays["uint32"][said["forms"][key]["at"] + 7] ^= 1
    np.savez_compressed(tmp_path / "instructions.npz", **arrays)
    assert list(tables.compared(tmp_path)) == [key]


def test_a_table_settles_an_approximation(tmp_path, monkeypatch):
    """The GPU's result for each operand, whatever the machine would give."""
    results = np.random.default_rng(4).integers(0, 1 << 16, 1 << 16).astype(np.uint16)
    np.savez_compressed(tmp_path / "h200.npz", **{"tanh.approx.f16": np.diff(results, prepend=np.uint16(0))})
    form = next(form for form in FORMS.values() if form.name == "tanh.approx.f16")
    every = np.arange(0x3800, 0x4400, dtype=np.uint16)
    found = np.zeros_like(every)
    monkeypatch.setattr(approximations, "FILE", tmp_path / "h200.npz")
    approximations.tables.cache_clear()
    try:
        run(tables.kernel(form), "k", len(every) // 32, 32, [every, found])
    finally:
        approximations.tables.cache_clear()
    np.testing.assert_array_equal(found, results[every])
