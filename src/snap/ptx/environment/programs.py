"""Section 4.5: which memory program an instruction launches.  The programs are text, in listings/.

The report prints six, for some instructions; the others follow PTX's tables of cache operators ("Cache Operators"); for
volatile accesses, which the report leaves open for want of documentation, PTX's memory consistency model.
Two of the printed ones break programs without a race (errata 6 and 7), so that what runs is their mended form;
`printed=True` asks for those of the report.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from snap.ptx.environment.language import Sequence, parse

HERE = Path(__file__).parent / "listings"

# (instruction, space, cache operator) -> file.  A load or store that says nothing is .ca or .wb.
TABLE = {
    ("ld", "global", "ca"): "report/4.2",
    ("ld", "global", "cg"): "ours/ld.global.cg",
    ("ld", "global", "cs"): "ours/ld.global.cs",
    ("ld", "global", "lu"): "ours/ld.global.cs",
    ("ld", "global", "cv"): "ours/ld.global.cv",
    ("ld", "global", "volatile"): "ours/ld.global.volatile",  # and all strong loads
    ("ld", "local", "ca"): "report/4.2",
    ("ld", "local", "cg"): "ours/ld.local.cg",
    ("ld", "local", "cs"): "ours/ld.local.lu",
    ("ld", "local", "lu"): "ours/ld.local.lu",
    ("ld", "local", "cv"): "ours/ld.local.cv",
    ("ld", "const", None): "ours/ld.mem",
    ("ld", "shared", None): "ours/ld.mem",
    ("st", "global", "wb"): "ours/st.global.wb",
    ("st", "global", "cg"): "ours/st.global.wb",
    ("st", "global", "cs"): "ours/st.global.cs",
    ("st", "global", "wt"): "ours/st.global.wt",
    ("st", "local", "wb"): "ours/st.local.wb",
    ("st", "local", "cg"): "report/4.3",
    ("st", "local", "cs"): "report/4.3",
    ("st", "local", "wt"): "ours/st.local.wt",
    ("st", "shared", None): "ours/st.shared",
    ("atom", "global", None): "ours/atom.global",
    ("atom", "shared", None): "report/4.5",
    ("mov", "reg", None): "report/4.6",
}
PRINTED = {"ours/st.global.wb": "report/4.1", "ours/atom.global": "report/4.4"}


@cache
def read(name: str) -> Sequence:
    """The program of a file; each is read once, and its statements are the same objects ever after."""
    return parse((HERE / f"{name}.mem").read_text(), f"{name}.mem")


def program(instruction: str, space: str, cop: str | None, printed: bool = False) -> Sequence:
    name = TABLE[instruction, space, cop]
    return read(PRINTED.get(name, name) if printed else name)
