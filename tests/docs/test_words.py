"""Check the words of messages, docstrings, names, pages, and comments of the generated CUDA.

Input:      the phrases that CONTRIBUTING.md lists, the phrases that a native reader stumbles over, British spelling
Output:     each place that has one
Invariant:  the counts of STILL_THERE and PAGES_STILL may only fall: lower a number when you fix a place;
            `python tests/docs/test_words.py` prints the counts of today
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "snap"


def listed():
    """Read the phrases of the table's left column, each with what to write instead."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    table = text[text.index("| instead of | write |") :].split("\n\n")[0]
    rows = [line.strip("| ").split(" | ") for line in table.splitlines()[2:]]
    return {phrase: instead for phrases, instead in rows for phrase in phrases.split(", ")}


LISTED = listed()
PATTERN = re.compile(r"\b(" + "|".join(re.escape(phrase).replace(r"\ ", r"\s+") for phrase in sorted(LISTED, key=len, reverse=True)) + r")\b", re.IGNORECASE)


def found_in(text):
    """Find each phrase of the list in a text, with its line and the word to write."""
    for match in PATTERN.finditer(text):
        phrase = " ".join(match[0].split())
        yield f"line {text.count(chr(10), 0, match.start()) + 1}: `{phrase}`: write {LISTED[phrase.lower()]}"


def messages(path):
    """List the string literals of a module, with their lines; docstrings do not count, and of formatted strings only the text does."""
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


# Phrases that a native reader stumbles over; write "is not a type", "2 indices", "no thread", "that many".
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


# ---- docstrings, names and spelling ------------------------------------------------------------------------------------

NOT_A_VERB = re.compile(r"(What|Whether|Of|Where|How|Which|Who|By|Those)\b")
BRITISH = re.compile(
    r"\b\w*(?:colour|behaviour|neighbour|favour)\w*\b|\b(?:analysed|analysing|centre|centred|grey|artefact|modelled|labelled|travelled)\b|"
    r"\b\w*(?:special|initial|vector|synchron|serial|optim|normal|recogn|organ|summar|general|parallel|minim|maxim|util|token|material|categor|emphas)"
    r"is(?:e|ed|es|er|ers|ing|ation|ations)\b",
    re.IGNORECASE,
)
# What passes and files were once called: Triton and CUTLASS have other words for it (lower, producer and consumer, concurrent, release).
RETIRED = {"weave", "woven", "relax", "beside", "handing", "publish"}

# folder -> (docstrings that do not begin with a verb, strings and docstrings in British spelling, functions and classes with a retired or British name)
STILL_THERE = {
    "lib": (0, 0, 2),  # decoupled look-back publishes the sums of a tile
    "ptx": (0, 1, 0),  # the old name of a check, which warns
}


def folder_of(path):
    """Name the folder of src/snap that a file is in; the folders of _compiler/ count by themselves."""
    parts = path.relative_to(SOURCE).parts[:-1]
    return "/".join(parts[:2]) if parts[:1] == ("_compiler",) else parts[0] if parts else "."


FOLDERS = sorted({folder_of(path) for path in SOURCE.rglob("*.py")})


def looked_at(folder):
    """List every node of the syntax trees of a folder, with its file."""
    for path in sorted(SOURCE.rglob("*.py")):
        if folder_of(path) == folder:
            yield from ((path.relative_to(ROOT), node) for node in ast.walk(ast.parse(path.read_text())))


def parts_of(name):
    """Split a name into its words: `_is_woven` and `IsWoven` alike."""
    return {part.lower() for part in re.split(r"_|(?<=[a-z])(?=[A-Z])", name)}


def few_enough(found, allowed):
    assert len(found) <= allowed, f"{len(found)} places, and {allowed} are allowed:\n" + "\n".join(found)


def docstrings_without_a_verb(folder):
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    texts = [(path, ast.get_docstring(node)) for path, node in looked_at(folder) if isinstance(node, documented)]
    return [f"{path}: {text.splitlines()[0]}" for path, text in texts if text and NOT_A_VERB.match(text)]


def british_strings(folder):
    texts = [(path, node) for path, node in looked_at(folder) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return [f"{path}:{node.lineno}: {match[0]}" for path, node in texts for match in BRITISH.finditer(node.value)]


def retired_names(folder):
    names = [(path, node) for path, node in looked_at(folder) if isinstance(node, (ast.FunctionDef, ast.ClassDef))]
    return [f"{path}:{node.lineno}: {node.name}" for path, node in names if parts_of(node.name) & RETIRED or any(map(BRITISH.fullmatch, parts_of(node.name)))]


LOOKS = (docstrings_without_a_verb, british_strings, retired_names)


@pytest.mark.parametrize("folder", FOLDERS)
@pytest.mark.parametrize("look", LOOKS, ids=lambda look: look.__name__)
def test_fewer_than_before(look, folder):
    few_enough(look(folder), STILL_THERE.get(folder, (0, 0, 0))[LOOKS.index(look)])


def test_names_of_files():
    found = [path.relative_to(ROOT).as_posix() for path in SOURCE.rglob("*") if parts_of(path.stem) & (RETIRED | {"nothing"}) or any(map(BRITISH.fullmatch, parts_of(path.stem)))]
    assert not found, "\n".join(found)


# ---- pages -----------------------------------------------------------------------------------------------------------

# Phrases that a page does not have.  A fence, code in backticks and links do not count.
STUMBLES_OF_PAGES = re.compile(
    r"(?<!there )\b(?:is|are) no (?!longer\b|more\b|less\b|one\b)\w+|\b(?:nobody|somebody|so many|stands|whoever|cut off|behind)\b|"
    r"\b(?:inside|outside) of\b|(?:^|[.:;] )(?:Of|By|In|To|From) (?:which|what|whom)\b",
    re.IGNORECASE | re.MULTILINE,
)
# Pages that other work still edits, or that are printed from the source: page -> (stumbles, British spellings), which may only fall.
PAGES_STILL = {
    "docs/system.md": (1, 0),
    "docs/rules.md": (1, 0),
    "docs/library.md": (4, 3),
    "docs/performance.md": (0, 2),
}


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "CHANGELOG.md"], ids=lambda page: page.relative_to(ROOT).as_posix())
def test_pages_are_said_as_a_native_says_them(page):
    code = re.compile(r"^```.*?^```$|`[^`\n]+`|\]\([^)]*\)", re.MULTILINE | re.DOTALL)
    text = code.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), page.read_text())
    allowed = PAGES_STILL.get(page.relative_to(ROOT).as_posix(), (0, 0))
    for pattern, many in zip((STUMBLES_OF_PAGES, BRITISH), allowed):
        few_enough([f"line {text.count(chr(10), 0, match.start()) + 1}: {match[0]}" for match in pattern.finditer(text)], many)


if __name__ == "__main__":
    for folder in FOLDERS:
        print(f'    "{folder}": {tuple(len(look(folder)) for look in LOOKS)},')
