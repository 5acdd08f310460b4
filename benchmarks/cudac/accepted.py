"""Count the kernels of a folder's .cu files that the front end takes: `python benchmarks/cudac/accepted.py FOLDER ...`.

Nothing is fetched, and nothing is run.  Every kernel that a file defines is asked for by itself, templates by an instance that the file launches; a block
has 256 threads where neither `__launch_bounds__` nor a launch says its shape.  What is refused is listed by its reason, the most frequent one first.
`--most N` looks at N files, drawn with a fixed seed; `--json FILE` keeps the result.
"""

from __future__ import annotations

import argparse
import collections
import json
import multiprocessing
import random
import re
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))

SECONDS = 20  # a file
BLOCK = 256


CONCRETE = re.compile(r"\s*(-?\d+|true|false|(unsigned |long |signed )*(int|char|short|float|double|long|unsigned|bool|u?int\d+_t|(float|int|uint|double)\d))\s*")


def instance(text: str, name: str, template) -> str:
    """Choose what a file's own launches give a template, where these are numbers and types; else 16 and float."""
    for given in re.findall(r"\b" + re.escape(name) + r"\s*<([^<>;(){}]*)>\s*<<<", text):
        if all(CONCRETE.fullmatch(part) for part in given.split(",")):
            return f"{name}<{given}>"
    kinds = [c.kind.name for c in template.get_children() if c.kind.name.startswith("TEMPLATE_")]
    types = [c.type.spelling for c in template.get_children() if c.kind.name.startswith("TEMPLATE_")]
    return f"{name}<{', '.join('float' if 'TYPE_PARAMETER' in k and 'NON' not in k else 'true' if t == 'bool' else '16' for k, t in zip(kinds, types))}>"


def look(path: Path) -> list[tuple[str, str, str]]:
    """Each kernel of a file: its name, "" or the reason why it is refused, and the code."""
    from snap import SnapError, cudac
    from snap.cudac.kernel import ForeignKernel, chosen
    from snap.cudac.parse import parse

    def ended(*_: object) -> None:
        raise TimeoutError

    signal.signal(signal.SIGALRM, ended)
    signal.alarm(SECONDS)
    folders = [str(p) for p in (path.parent, path.parent.parent, path.parent / "inc", path.parent.parent / "include") if p.is_dir()]
    found = []
    try:
        text = path.read_text(errors="replace")
        if "__global__" not in text:
            return []
        unit = parse(path, include=folders)
        wanted = [*unit.kernels, *(instance(text, name, cursor) for name, cursor in unit.templates.items())]
        for name in wanted:
            try:
                if name in unit.kernels:
                    chosen(unit, name)
                    block = None if name in unit.bounds or name in unit.shapes else BLOCK
                    ForeignKernel(unit, unit.kernels[name], block, 4096)
                else:
                    cudac.load(path, name, block=BLOCK, shared=4096, include=folders)
                found.append((name, "", ""))
            except SnapError as error:
                found.append((name, error.diagnostic.message, error.code))
    except SnapError as error:
        found.append(("?", error.diagnostic.message, error.code))
    except TimeoutError:
        found.append(("?", "takes too long", "TIME"))
    except Exception as error:  # noqa: BLE001  (this is what is looked for)
        found.append(("?", f"{type(error).__name__}: {error}", "CRASH"))
    finally:
        signal.alarm(0)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--most", type=int)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--names", action="store_true")
    parser.add_argument("--reasons", type=int, default=25)
    given = parser.parse_args()
    result = {}
    for folder in given.folders:
        files = sorted(folder.rglob("*.cu"))
        if given.most and len(files) > given.most:
            files = random.Random(1).sample(files, given.most)
        taken, reasons, crashed = 0, collections.Counter(), []
        total = 0
        with multiprocessing.Pool(given.jobs, maxtasksperchild=20) as pool:
            for path, found in zip(files, pool.imap(look, files)):
                for _, why, code in found:
                    total += 1
                    taken += not why
                    if why:
                        reasons[f"{code}: {why if given.names else re.sub('`[^`]*`', '`...`', why)}"] += 1
                    if code == "CRASH":
                        crashed.append(f"{path}: {why}")
        result[folder.name] = {"files": len(files), "kernels": total, "accepted": taken, "reasons": dict(reasons.most_common())}
        print(f"{folder.name}: {taken} of {total} kernels ({100 * taken / max(total, 1):.0f}%) in {len(files)} files")
        for reason, count in reasons.most_common(given.reasons):
            print(f"  {count:4} {reason[:150]}")
        for one in crashed[:10]:
            print("  crash", one[:300])
    if given.json:
        given.json.write_text(json.dumps(result, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
