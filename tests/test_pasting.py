"""Code that a help line offers works when it is pasted: tests/pasted.txt says of each error of tests/bad which piece of its help makes the error go away,
and where it is pasted; or that none does as it stands, because it is an example, or a part of what is to be changed."""

from __future__ import annotations

import pytest
from corpus import BAD, TESTS, Program
from pasting import offered, pasted, refusals, works

from snap.diag.error import SnapError

GOLDEN = TESTS / "pasted.txt"
NONE = "an example"


def errors_of(program: Program) -> list[SnapError]:
    with pytest.raises(SnapError) as refused:
        program.execute()
    return [error for error in refused.value.all if offered(error)]


def told(program: Program, error: SnapError) -> str:
    return f"{program.path.parent.name}/{program.path.stem}:{error.lineno}: {error.diagnostic.help}"


def found_way(program: Program, error: SnapError) -> str:
    before = refusals(program, program.text)
    ways = (f"{way}: {code}" for way, code, changed in pasted(program.text, error) if works(program, error, before, changed))
    return next(ways, NONE)


def read() -> dict[str, str]:
    lines = GOLDEN.read_text(encoding="utf-8").splitlines() if GOLDEN.exists() else []
    return {told: way.strip() for told, way in zip(lines[::2], lines[1::2])}


@pytest.mark.filterwarnings("ignore::SyntaxWarning")  # of programs that are not kept
def test_what_is_offered_works_when_it_is_pasted(request):
    known, every = read(), [(program, error) for program in BAD if not program.name.startswith(SLOW) for error in errors_of(program)]
    if request.config.getoption("--update-golden"):
        known = {told(program, error): found_way(program, error) for program, error in every}
        GOLDEN.write_text("".join(f"{text}\n    {way}\n" for text, way in known.items()), encoding="utf-8")
    assert set(known) == {told(program, error) for program, error in every}, "rewrite tests/pasted.txt with --update-golden, and read it"
    for program, error in every:
        way = known[told(program, error)]
        if way == NONE:
            continue
        before = refusals(program, program.text)
        changed = next((text for where, code, text in pasted(program.text, error) if f"{where}: {code}" == way), None)
        assert changed is not None and works(program, error, before, changed), f"{told(program, error)}\n{way}"


# Proofs are asked again for each paste.
SLOW = tuple(f"tests/bad/SNAP{code}/" for code in ("022", "023", "024", "026", "027"))
