"""Writes the table of docs/proofs.md: every kernel of the examples and of tests/ok, and what `k.prove()` says of it.

python docs/make_proofs.py            writes the page (minutes)
python docs/make_proofs.py FILE ...   prints the rows of these files only
"""

from __future__ import annotations

import importlib.util
import sys
import time
from pathlib import Path

from snap.api import SnapFunction
from snap.prove.verdict import Proof, Verdict

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "proofs.md"
BEGIN, END = "<!-- table: python docs/make_proofs.py -->\n", "<!-- end of the table -->"
VALUES = {"TILE": 16, "ROWS": 8}
TRANSPOSE = {"TILE": 32, "ROWS": 8}


def kernels(path: Path):
    """The kernels that a file defines, with values for those that are generic and have no defaults."""
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    for k in dict.fromkeys(v for v in vars(module).values() if isinstance(v, SnapFunction) and v.is_kernel):
        if k.definition.tree.span.filename == str(path):
            values = TRANSPOSE if "transpose" in path.stem else VALUES
            given = {name: values[name] for name in k.generic if name in values}
            if all(name in given or name in k._defaults() for name in k.generic):
                yield k, given


def row(path: Path, k: SnapFunction, given: dict) -> tuple[str, str]:
    began = time.perf_counter()
    proof: Proof = k.prove(**given)
    taken = time.perf_counter() - began
    verdict = str(proof.verdict)
    if proof.verdict is Verdict.UNKNOWN and proof.proved_with_needs:
        verdict, rest = "with", f"`{proof.offered}`"
    else:
        rest = "; ".join(dict.fromkeys(f"line {o.span.line}: {o.what}" for o in proof.open if not o.needs))
    rest = rest.replace("|", "\\|")
    rest = rest if len(rest) < 240 else rest[:237].rsplit(" ", 1)[0] + " ..."
    name = path.relative_to(ROOT).as_posix()
    return verdict, f"| `{name}:{k.definition.tree.name}` | {verdict} | {len(proof.obligations)} | {taken:.1f} | {rest} |"


def table(paths: list[Path]) -> str:
    found = [row(path, k, given) for path in paths for k, given in kernels(path)]
    counts = {word: sum(verdict == word for verdict, _ in found) for word in ("proved", "with", "unknown", "refuted")}
    told = (
        f"{len(found)} kernels: {counts['proved']} proved as they are written, {counts['with']} with the `where=` in the last"
        f" column, {counts['unknown']} unknown, {counts['refuted']} refuted.\n\n"
    )
    head = "| kernel | verdict | obligations | seconds | what is missing, or open |\n|---|---|---|---|---|\n"
    return told + head + "".join(f"{text}\n" for _, text in found)


def main() -> None:
    given = [Path(arg).resolve() for arg in sys.argv[1:]]
    if given:
        print(table(given))
        return
    paths = [*sorted((ROOT / "examples").glob("[a-z]*.py")), *sorted((ROOT / "tests" / "ok").glob("*.py"))]
    text = PAGE.read_text()
    before, rest = text.split(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n{table(paths)}\n{END}{rest.split(END)[1]}")


if __name__ == "__main__":
    main()
