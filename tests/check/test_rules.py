"""The rules of the type system, above the functions of the checker that apply them, and on docs/rules.md."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SPEC = importlib.util.spec_from_file_location("make_rules", ROOT / "docs" / "make_rules.py")
make_rules = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(make_rules)
RULES = list(make_rules.rules())
# Of the paper's calculus; T-Destruct and T-Lower are parts of groups and partitions here, and T-Memcpy an assignment.
PAPER = """T-Var T-Int T-Float T-Bool T-Partition-Id T-Arr-Access T-Arr-Access-Shared T-Bop T-Cmp T-Function-Call T-Split T-Group T-Assn T-Skip
T-Decl T-Arr-Assn T-Arr-Assn-Shared T-If T-While T-Seq T-Alloc T-Alloc-Shared T-Partition T-Claim T-Async-Memcpy""".split()


def test_each_name_is_one_rule():
    names = [name for named, _, _, _ in RULES for name in named.split(", ")]
    assert len(names) == len(set(names)), sorted(name for name in names if names.count(name) > 1)
    assert all(re.fullmatch(r"T(-[A-Z][a-z]+)+", name) for name in names), names
    assert set(PAPER) <= set(names), set(PAPER) - set(names)


def test_each_is_a_judgement_above_a_function():
    for name, rule, _, file in RULES:
        assert rule.count("=>") == 1, f"{file}: {name}: {rule}"
        text = (make_rules.CHECK / file).read_text(encoding="utf-8")
        below = text[text.index(f"# {name}: ") :]
        assert re.match(r"(#.*\n)+(@.*\n)*def ", below), f"{file}: {name} is above no function"


def test_the_page_says_them():
    assert make_rules.PAGE.read_text(encoding="utf-8") == make_rules.page(), "run: python docs/make_rules.py"
