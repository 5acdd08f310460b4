"""What waits for a module is done once, when it is loaded, and not when somebody asks where it is."""

from __future__ import annotations

import importlib
import importlib.util
import sys

import pytest

from snap.host.compile.importing import once_imported


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Modules that nobody has imported: `waited_for`, and `waited_for.inner`."""
    folder = tmp_path / "waited_for"
    folder.mkdir()
    (folder / "__init__.py").write_text("ready = True\n")
    (folder / "inner.py").write_text("ready = True\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    before = list(sys.meta_path)
    yield "waited_for"
    sys.meta_path[:] = before
    for name in ("waited_for", "waited_for.inner"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("inner", ["", ".inner"])
def test_once(package, inner):
    said, name, before = [], package + inner, len(sys.meta_path)
    for k in range(2):
        once_imported(name, lambda k=k: said.append((k, sys.modules[name].ready)))
    assert importlib.util.find_spec(name) is not None and not said and name not in sys.modules
    importlib.import_module(name)
    assert sorted(said) == [(0, True), (1, True)] and len(sys.meta_path) == before
    importlib.reload(sys.modules[name])
    assert len(said) == 2
    once_imported(name, lambda: said.append("there"))
    assert said[2:] == ["there"] and len(sys.meta_path) == before


def test_what_is_not_there(package):
    said = []
    once_imported("waited_for.other", lambda: said.append(1))
    with pytest.raises(ImportError):
        importlib.import_module("waited_for.other")
    assert not said

