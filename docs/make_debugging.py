"""Put the real output of runs on a GPU into debugging.md.

`python docs/make_debugging.py` writes each program of the page (a `py` block whose first line is `# name.py`) into a
folder, runs the command of each line `<!-- output of: COMMAND -->` there, and replaces the `console` block after that
line.  If a command's tool is missing, or not allowed on this machine, its block does not change, and the script names the
command at the end.  Code that runs without a GPU is in `python` and `text` blocks, which `run_blocks.py` runs.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

PAGE = Path(__file__).resolve().with_name("debugging.md")
SOURCE = PAGE.parents[1] / "src"
PROGRAM = re.compile(r"^```py\n# (\w+\.py)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
OUTPUT = re.compile(r"^<!-- output of: (.*?) -->\n```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MOST_LINES, MOST_COLUMNS = 40, 150
# What a machine that does not let us look at its counters says.
REFUSED = ("ERR_NVGPUCTRPERM", "No module named", "command not found")


def programs(page: str) -> dict[str, str]:
    return {name: f"# {name}\n{text}" for name, text in PROGRAM.findall(page)}


def tool(name: str) -> str | None:
    if name == "python":
        return sys.executable
    found = shutil.which(name)
    if found is None:
        homes = [os.environ.get("CUDA_HOME", ""), "/usr/local/cuda"]
        # Those of the packages that NVIDIA publishes for Python.
        homes += [str(path) for entry in sys.path if entry for path in Path(entry).glob("nvidia/*")]
        found = next((str(path) for home in homes if home and (path := Path(home) / "bin" / name).is_file()), None)
    return found


def run(command: str, folder: Path) -> str | None:
    """Run a command and return what it printed, made fit for a page; None if it cannot run here."""
    words = shlex.split(command)
    found = tool(words[0])
    if found is None:
        return None
    words = [found, *(sys.executable if word == "python" else word for word in words[1:])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(SOURCE), os.environ.get("PYTHONPATH", ""))), "PYTHONUNBUFFERED": "1"}
    done = subprocess.run(
        words, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300
    )
    if any(word in done.stdout for word in REFUSED):
        print(f"refused: {command}\n{done.stdout[-2000:]}", file=sys.stderr)
        return None
    return shown(done.stdout, folder)


def shown(text: str, folder: Path) -> str:
    text = text.replace(f"{folder}/", "").replace(sys.executable, "python").replace(str(SOURCE), "src")
    text = text.replace(str(Path.home()), "~")
    text = re.sub(r"==\d+==", "==1==", text)
    text = re.sub(r"^(==PROF==|\[\d+\]).*\n", "", text, flags=re.MULTILINE)  # what Nsight Compute says of itself
    lines = [line.rstrip()[:MOST_COLUMNS] for line in text.strip("\n").splitlines()]
    if len(lines) > MOST_LINES:
        lines = [*lines[: MOST_LINES - 10], f"... ({len(lines) - MOST_LINES + 1} lines)", *lines[-9:]]
    return "\n".join(lines) + "\n"


def main() -> int:
    page = PAGE.read_text()
    left: list[str] = []
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place).resolve()
        for name, text in programs(page).items():
            (folder / name).write_text(text)

        def made(match: re.Match) -> str:
            print(match[1], file=sys.stderr)
            text = run(match[1], folder)
            if text is None:
                left.append(match[1])
                return match[0]
            return f"<!-- output of: {match[1]} -->\n```console\n{text}```"

        page = OUTPUT.sub(made, page)
    PAGE.write_text(page)
    for command in left:
        print(f"left as it was: {command}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
