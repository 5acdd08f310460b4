"""Check that the documentation runs: the blocks of the pages, both programs of every error page, and what scripts draw."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path

import pytest

import snap
from snap.diag.codes import CODES, WARNINGS

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"


def load(name):
    spec = importlib.util.spec_from_file_location(f"docs_{name}", DOCS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


run_blocks = load("run_blocks")
make_intrinsics = load("make_intrinsics")
make_pictures = load("make_pictures")


def test_every_code_has_a_page_and_every_page_a_code():
    assert {path.stem for path in (DOCS / "errors").glob("*.md")} == {*CODES, *WARNINGS}


@pytest.mark.parametrize("code", sorted(CODES))
def test_error_page(code):
    path = DOCS / "errors" / f"{code}.md"
    text = path.read_text()
    assert text.startswith(f"# {code}: {CODES[code]}\n")
    bad, mended = [block for block in run_blocks.blocks_of(text) if block.language == "python"]
    with pytest.raises(snap.SnapError) as caught:
        run_blocks.execute(bad, f"{code}_refused.py", {"__name__": "__docs__"})
    assert {error.code for error in caught.value.all} == {code}, caught.value.render()
    run_blocks.execute(mended, f"{code}_mended.py", {"__name__": "__docs__"})


@pytest.mark.parametrize("code", sorted(WARNINGS))
@pytest.mark.filterwarnings("ignore::snap.SnapWarning")
def test_page_of_a_warning(code):
    text = (DOCS / "errors" / f"{code}.md").read_text()
    assert text.startswith(f"# {code}: {WARNINGS[code]}\n")
    warned, mended = [block for block in run_blocks.blocks_of(text) if block.language == "python"]
    found = []
    for block, name in ((warned, "warned"), (mended, "mended")):
        space = {"__name__": "__docs__"}
        run_blocks.execute(block, f"{code}_{name}.py", space)
        functions = [value for value in space.values() if isinstance(value, snap.SnapFunction)]
        found.append({one.code for function in functions for one in function.warnings(proofs=code == "SNAP032")})
    assert found == [{code}, set()]


@pytest.mark.parametrize("path", [DOCS / "tutorial.md", ROOT / "README.md", DOCS / "language.md", DOCS / "library.md", DOCS / "roles.md", DOCS / "sgemm.md", DOCS / "inference.md", DOCS / "debugging.md", DOCS / "cookbook.md", DOCS / "paper.md", DOCS / "proofs.md", DOCS / "same-kernel.md", DOCS / "cost.md"], ids=lambda path: path.name)
def test_blocks_print_what_the_text_says(path):
    for block, printed in run_blocks.outputs(path):
        assert block.text.rstrip() == printed.rstrip(), f"run: python docs/run_blocks.py {path.relative_to(ROOT)}"


def test_intrinsics_page_is_up_to_date():
    assert make_intrinsics.PAGE.read_text() == make_intrinsics.page(), "run: python docs/make_intrinsics.py"


def test_pictures_are_up_to_date():
    made = make_pictures.pictures()
    assert {path.name for path in make_pictures.FOLDER.iterdir()} == set(made)
    for name, text in made.items():
        assert (make_pictures.FOLDER / name).read_text() == text, f"{name}: run: python docs/make_pictures.py"


PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md", *DOCS.rglob("*.md")]
# Where a path in the text may begin: `_compiler/sync/conflicts/graph.py` is below src/snap, `cover.py` beside the files of sync/.
BEGINNINGS = (ROOT, ROOT / "src" / "snap", *(path for path in (ROOT / "src" / "snap").rglob("*") if path.is_dir()), DOCS, ROOT / "benchmarks", ROOT / "tests", ROOT / "tests" / "fuzz")
MADE_LATER = {"build/fuzz/", "docs/errors/SNAPnnn.md", "tests/bad/SNAPnnn/", "tests/warned/SNAPnnn/"}
# Pages that name files of a user's.
MADE_UP = {"docs/tuning.md", "docs/torch.md", "docs/tutorial.md", "README.md"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_files_that_are_named_exist(page):
    prose = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    if page.relative_to(ROOT).as_posix() in MADE_UP or page.name == "CHANGELOG.md":  # which names files as they were
        return
    for name in set(re.findall(r"`([\w./-]+(?:\.(?:py|md|cpp|h|cu|toml)|/))`", prose)) - MADE_LATER:
        assert any((beginning / name).exists() for beginning in BEGINNINGS), f"{page.name} names {name}"


def test_links_lead_somewhere():
    for page in PAGES:
        prose = re.sub(r"^```.*?^```$|`[^`]*`", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", prose):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def anchors(page):
    """Return the anchors of the headings of a page, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()).replace(" ", "-") for heading in headings}


def test_links_lead_to_headings():
    for page in PAGES:
        prose = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
        for target, anchor in re.findall(r"\]\(([^)\s:#]*)#([^)\s]+)\)", prose):
            if not target or target.endswith(".md"):
                assert anchor in anchors(page.parent / target if target else page), f"{page.name}: {target}#{anchor}"


def test_the_reference_lists_every_code():
    listed = re.findall(r"^\| \[(SNAP\d+)\]", (DOCS / "language.md").read_text(), flags=re.MULTILINE)
    assert sorted(listed) == sorted([*CODES, *WARNINGS])
