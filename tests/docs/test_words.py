"""The field's own words: what CONTRIBUTING.md lists as not to be written stands in no message, no comment of the generated CUDA, and no page."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "snap"


def listed():
    """The phrases of the table's left column, each with what to write instead."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    table = text[text.index("| instead of | write |") :].split("\n\n")[0]
    rows = [line.strip("| ").split(" | ") for line in table.splitlines()[2:]]
    return {phrase: instead for phrases, instead in rows for phrase in phrases.split(", ")}


LISTED = listed()
PATTERN = re.compile(r"\b(" + "|".join(re.escape(phrase).replace(r"\ ", r"\s+") for phrase in sorted(LISTED, key=len, reverse=True)) + r")\b", re.IGNORECASE)


def found_in(text):
    """Each phrase of the list in a text, with its line and the word to write."""
    for match in PATTERN.finditer(text):
        phrase = " ".join(match[0].split())
        yield f"line {text.count(chr(10), 0, match.start()) + 1}: `{phrase}`: write {LISTED[phrase.lower()]}"


def messages(path):
    """The string literals of a module that are no docstrings; of formatted ones, their text.  Each with its line."""
    tree = ast.parse(path.read_text())
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    docstrings = {id(node.body[0].value) for node in ast.walk(tree) if isinstance(node, documented) and node.body and isinstance(node.body[0], ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.lineno, node.value


def test_the_list_is_read():
    assert LISTED["in the background"].startswith("asynchronous") and LISTED["multiprocessor"] == "SM"
    assert [*found_in("a copy in\nthe background")] == [f"line 1: `in the background`: write {LISTED['in the background']}"]


@pytest.mark.parametrize("folder", sorted(path.name for path in SOURCE.iterdir() if path.is_dir() and path.name != "__pycache__") + ["."])
def test_messages(folder):
    paths = sorted((SOURCE / folder).rglob("*.py") if folder != "." else SOURCE.glob("*.py"))
    found = [f"{path.relative_to(ROOT)}:{line}: {what}" for path in paths for line, text in messages(path) for what in found_in(text)]
    assert not found, "\n".join(found)


# What a native reader stumbles over, and says otherwise: "is not a type", "2 indices", "no thread", "that many".
STUMBLES = re.compile(r"(?<!there )\b(is|are) no (?!longer\b|more\b|less\b)\w+|\b\w+\((s|es)\)(?=\W|$)|\b(nobody|somebody)\b|\bso many\b", re.IGNORECASE)


def test_messages_are_said_as_a_native_says_them():
    paths = sorted(SOURCE.rglob("*.py"))
    found = [f"{path.relative_to(ROOT)}:{line}: `{match[0]}`" for path in paths for line, text in messages(path) for match in STUMBLES.finditer(text)]
    assert not found, "\n".join(found)
    for said in ("`x` is no type", "takes 2 index(es)", "nobody waits", "so many threads"):
        assert STUMBLES.search(said)
    assert not STUMBLES.search("there is no thread 64, and it is no longer than f(s)x")


def test_rendered_errors():
    found = [f"{path.relative_to(ROOT)}: {what}" for path in sorted((ROOT / "tests" / "bad").rglob("*.txt")) for what in found_in(path.read_text())]
    assert not found, "\n".join(found)


def test_comments_of_the_generated_cuda():
    for path in sorted((ROOT / "tests" / "ok").glob("*.cu")):
        comments = "\n".join("".join(re.findall(r"//.*", line)) for line in path.read_text().splitlines())
        assert not [*found_in(comments)], (path.name, [*found_in(comments)])


def test_points():
    for path in sorted((ROOT / "tests" / "ok").glob("*.sync")):
        assert not [*found_in(path.read_text())], (path.name, [*found_in(path.read_text())])


PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_pages(page):
    text = re.sub(r"`[^`\n]+`|\]\([^)]*\)", lambda code: " " * len(code[0]), page.read_text())  # names, and where links lead
    found = [*found_in(text)]
    assert not found, "\n".join(found)
