"""Line information: what is compiled says of each statement where it was written.

Input:      the names of files, as places in the source have them, and generated text
Output:     the files that `#line` directives name in the text that is compiled (`k.cuda()` shows it without)
Invariant:  the code that comes out is the same, instruction by instruction; every directive names a file that tools can
            open, if one can be made: source that is known in memory alone (notebooks, `exec`), and the generated text
            itself, whose helpers are nobody's source, are put into a folder of the cache
Non-goals:  columns
"""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

from snap.diag.source import source_lines
from snap.host.compile.cache import Cache

SWITCH = "SNAP_LINEINFO"  # "0": no line information
FOLDER = "sources"
_UNREADABLE = re.compile(r'["\\\x00-\x1f\x7f]|[^\x00-\x7f]')


def wanted() -> bool:
    return os.environ.get(SWITCH, "") != "0"


def generated_file(kernel: str, text: str) -> str:
    return _kept(f"{kernel}.cu", text) or "snap.cu"


def source_file(filename: str) -> str:
    """A file that holds this source, with the same lines, and whose name the assembler reads as it is written."""
    path = "" if "\0" in filename else os.path.abspath(filename)
    if path and os.path.isfile(path) and not _UNREADABLE.search(path):
        return path
    lines = source_lines(filename)
    kept = _kept(f"{re.sub(r'[^A-Za-z0-9_.-]+', '_', os.path.basename(filename)).strip('_')}", "\n".join(lines) + "\n")
    return kept if lines and kept else _UNREADABLE.sub("_", filename)


def _kept(name: str, text: str) -> str:
    """The path of a file with this text, made once; empty where the cache has no folder that can be named."""
    folder = Cache.default().folder
    if folder is None or _UNREADABLE.search(str(folder)):
        return ""
    data = text.encode("utf-8", "surrogatepass")
    stem, suffix = os.path.splitext(name)
    path = folder / FOLDER / hashlib.sha256(data).hexdigest()[:16] / f"{stem or 'source'}{suffix or '.py'}"
    try:
        if not path.is_file():
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            made = Path(f"{path}.{os.getpid()}")
            made.write_bytes(data)
            os.replace(made, path)
    except OSError:
        return ""
    return str(path)
