"""Programs given as text: executed under a file name of their own, with the text registered as its source."""

from __future__ import annotations

import itertools
import textwrap

import pytest

from snap.diag.source import register_source

_numbers = itertools.count()


@pytest.fixture
def define():
    """`define(text)` runs the text and returns its namespace; `text` keeps its indentation relative to its first line."""

    def run(text: str, **bound: object) -> dict:
        text = textwrap.dedent(text).strip("\n")
        filename = f"<program {next(_numbers)}>"
        register_source(filename, text)
        namespace = dict(bound)
        exec(compile(text, filename, "exec", dont_inherit=True), namespace)
        return namespace

    return run
