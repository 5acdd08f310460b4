"""docs/papers/ says of each claim of a document whether Snap keeps it; what it names as shown is there, and the suite runs it."""

from __future__ import annotations

import ast
import functools
import importlib.util
import re
import sys
from dataclasses import dataclass

import pytest
from corpus import BAD, OK, ROOT, WARNED

SPEC = importlib.util.spec_from_file_location("docs_make_papers", ROOT / "docs" / "make_papers.py")
make_papers = importlib.util.module_from_spec(SPEC)
sys.modules[SPEC.name] = make_papers
SPEC.loader.exec_module(make_papers)

SKIPS = re.compile(r"importorskip|\bskip(if)?\(|\bxfail\b")
PAGES = sorted(make_papers.FOLDER.glob("*.md"))
ROWS = [pytest.param(page, row, id=f"{page.stem}: {row.where}: {row.claim[:60]}") for page in PAGES for row in make_papers.rows(page.read_text(encoding="utf-8"))]
PROGRAMS = {program.name for program in (*OK, *BAD, *WARNED)} | {f"examples/{path.name}" for path in (ROOT / "examples").glob("[a-z]*.py") if path.stem != "demo"}


@dataclass(frozen=True)
class Listed:
    """What pytest collects from a file: its tests with their marks, what may skip all of them, and the texts that name parameters."""

    marks: dict[str, list[str]]
    skips: list[str]
    texts: set[str]


@functools.cache
def listed_in(file: str) -> Listed:
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    marks = {f.name: [ast.unparse(d) for d in f.decorator_list] for f in tree.body if isinstance(f, ast.FunctionDef) and f.name.startswith("test_")}
    skips = [text for node in tree.body if not isinstance(node, ast.FunctionDef | ast.ClassDef) and SKIPS.search(text := ast.unparse(node))]
    return Listed(marks, skips, {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)})


def missing(named: str) -> str | None:
    """Why nothing of that name is run by the suite."""
    if "::" not in named:
        return None if named in PROGRAMS else "no program of the corpus or the examples"
    file, _, node = named.partition("::")
    if not (ROOT / file).is_file() or not file.rpartition("/")[2].startswith("test_"):
        return "no such file of tests"
    test, _, parameter = node.partition("[")
    listed = listed_in(file)
    if test not in listed.marks:
        return "no such test"
    return None if not parameter or parameter.removesuffix("]") in listed.texts else "no such parameter"


def runs_everywhere(named: str) -> bool:
    """Whether the suite runs it without a GPU, and expects it to pass."""
    file, _, node = named.partition("::")
    if not node:
        return True
    listed = listed_in(file)
    return not file.startswith("tests/gpu/") and not listed.skips and not any(SKIPS.search(mark) for mark in listed.marks[node.partition("[")[0]])


@pytest.mark.parametrize(("page", "row"), ROWS)
def test_a_row_says_how(page, row):
    assert row.where and row.claim and row.how
    assert row.verdict in make_papers.VERDICTS, row.verdict
    wrong = {named: why for named in row.named if (why := missing(named))}
    assert not wrong, wrong
    if row.verdict == "works":
        assert any(map(runs_everywhere, row.named)), "a claim that works names a test or a program"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_claim_is_there_once(page):
    claims = [(row.where, row.claim) for row in make_papers.rows(page.read_text(encoding="utf-8"))]
    assert claims and len(claims) == len(set(claims))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_head_of_a_page_counts_its_rows(page):
    text = page.read_text(encoding="utf-8")
    assert make_papers.COUNTS.search(text) and make_papers.counted(text) == text, "run: python docs/make_papers.py"


def test_the_entry_lists_every_page_with_its_counts():
    text = make_papers.ENTRY.read_text(encoding="utf-8")
    assert all(f"](papers/{page.name}) |" in text for page in PAGES)
    assert make_papers.entered(text) == text, "run: python docs/make_papers.py"


@pytest.mark.parametrize(
    ("named", "why"),
    [
        ("tests/check/test_groups.py::test_split_of_blocks", None),
        ("tests/check/test_groups.py::test_split_of_blocks_renamed", "no such test"),
        ("tests/check/checking.py::program", "no such file of tests"),
        ("tests/check/test_gone.py::test_split_of_blocks", "no such file of tests"),
        ("tests/prove/test_descend.py::test_refused_by_the_checker[a barrier under a condition of threads (2.2)]", None),
        ("tests/prove/test_descend.py::test_refused_by_the_checker[a case of another name]", "no such parameter"),
        ("tests/ok/claims.py", None),
        ("tests/ok/gone.py", "no program of the corpus or the examples"),
        ("tests/corpus.py", "no program of the corpus or the examples"),
    ],
)
def test_what_is_renamed_is_noticed(named, why):
    assert missing(named) == why


def test_what_may_be_skipped_shows_nothing_alone():
    assert not runs_everywhere("tests/gpu/test_corpus_gpu.py::test_ok_program")
    assert not runs_everywhere("tests/codegen/test_in_flight.py::test_an_accumulator_from_zero_has_registers_of_its_own")  # without NVRTC
    assert runs_everywhere("tests/ok/claims.py") and runs_everywhere("tests/check/test_groups.py::test_split_of_blocks")
