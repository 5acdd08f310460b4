"""docs/ptx.md names a function for each of the report's rules: those that it names are there."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs" / "ptx.md"


def test_every_function_of_the_table_is_there():
    text = DOCS.read_text()
    table = text[text.index("### The report's rules") : text.index("Errata of the report")]
    folder = Path(__file__).parents[2] / "src" / "snap" / "ptx"
    modules = {path.stem: ".".join(path.relative_to(folder).with_suffix("").parts) for path in folder.rglob("*.py") if path.parent.name != "environment"}
    named = [name.split(".") for name in re.findall(r"`([a-z_]+\.[A-Za-z_.]+)`", table) if name.split(".")[0] in modules and not name.endswith(".py")]
    assert len(named) > 30
    for module, *path in named:
        found = import_module(f"snap.ptx.{modules[module]}")
        for name in path:
            assert hasattr(found, name) or name == "pc", f"{module}.{'.'.join(path)}"
            found = getattr(found, name, None)
