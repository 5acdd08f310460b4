"""Listings and code on a terminal, colored by rich; plain text anywhere else."""

from __future__ import annotations

import sys

from snap.cli.explain import Listing, PageRow
from snap.diag.render import wants_color

_NOTES_AT = 90
_TAB = 4


def show_code(text: str, language: str) -> None:
    if not wants_color(sys.stdout):
        print(text)
        return
    from rich.console import Console
    from rich.syntax import Syntax

    Console().print(Syntax(text, language, background_color="default"), soft_wrap=True)


def show_listing(listing: Listing) -> None:
    if not wants_color(sys.stdout):
        print("\n".join(plain(listing)))
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    for row, line in zip([None, None, *listing.rows], plain(listing)):
        style = "bold" if row is None else "yellow" if row.number is None else ""
        text = Text(line, style=style)
        if row is not None:
            text.stylize("cyan", 0, line.index("|"))
            if row.notes:
                text.stylize("green", len(line) - len(_notes(row)))
        console.print(text, soft_wrap=True)
    console.print()


def plain(listing: Listing) -> list[str]:
    """Two lines of heading, then one line a row: privilege, line number, source, notes."""
    code = [row.text.expandtabs(_TAB) for row in listing.rows]
    gutter = max(len(row.privilege) for row in listing.rows)
    digits = max(len(str(row.number or "")) for row in listing.rows)
    margin = min(_NOTES_AT, max((len(text) for row, text in zip(listing.rows, code) if row.notes), default=0))
    lines = [listing.title, f"  {listing.facts}"]
    for row, text in zip(listing.rows, code):
        left = f"{row.privilege:>{gutter}}  {'' if row.number is None else row.number:>{digits}} | "
        lines.append((left + (f"{text:<{margin}}  {_notes(row)}" if row.notes else text)).rstrip())
    return [*lines, ""]


def _notes(row: PageRow) -> str:
    return "# " + "; ".join(row.notes)
