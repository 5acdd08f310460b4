"""`snap explain --graph`: the kernel's lines, its barriers as bars, an arrow for each dependence with a dot where it is cut."""

from __future__ import annotations

import re
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from corpus import Program

from snap._compiler.ir.points import points
from snap.api import SnapFunction
from snap.cli import main
from snap.cli.graph import Picture, arrows_of, graph_svg

TESTS = Path(__file__).resolve().parents[1]
SVG = "{http://www.w3.org/2000/svg}"
PROGRAMS = ("hgemm", "attention", "cluster_exchange", "called_twice", "sgemm_pipelined", "turns", "cooperative", "async_copies", "lookback_scan", "back_edge")


@pytest.fixture
def snap_command(monkeypatch, capsys):
    def run(*args):
        monkeypatch.setattr(sys, "argv", ["snap", *args])
        with pytest.raises(SystemExit) as left:
            main()
        out = capsys.readouterr()
        return left.value.code or 0, out.out, out.err

    return run


def kernels_of(name):
    names = Program(TESTS / "ok" / f"{name}.py").namespace()
    return [f for f in names.values() if isinstance(f, SnapFunction) and f.is_kernel and not f.generic]


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_point_is_a_bar_and_every_dependence_an_arrow_that_a_bar_cuts(name):
    for kernel in kernels_of(name):
        function, dependences = kernel._graph()
        wanted = {(span.filename, span.line) for d in dependences for span in (d.first, d.second)}
        picture = Picture(function, (), (), wanted)
        bars = {key for row in picture.rows for key in row.points}
        assert {(p.kind, p.reason, p.first, p.second) for p in points(function)} <= bars
        assert all(d.points and set(d.points) <= bars for d in dependences), kernel
        arrows = arrows_of(picture, dependences, points(function))
        assert len(arrows) >= len(dependences) and all(arrow.cuts for arrow in arrows)
        ET.fromstring(graph_svg("k", function, dependences))


def test_a_gemm(snap_command, tmp_path):
    to = tmp_path / "gemm.svg"
    code, out, _ = snap_command("explain", str(TESTS / "ok" / "hgemm.py"), "--graph", str(to))
    texts = [t.text or "" for t in ET.parse(to).getroot().iter(f"{SVG}text")]
    assert code == 0 and not out
    assert "TMA writes At" in texts and "wgmma reads Bt" in texts and "wgmma accumulates acc" in texts
    assert any(text.startswith("wgmma.wait_group 1") for text in texts) and any("proxy fence + bar.sync" in text for text in texts)
    assert any(text.startswith("for k in range(") for text in texts) and "At, Bt" in texts
    titles = [t.text for t in ET.parse(to).getroot().iter(f"{SVG}title")]
    assert any(re.match(r"Ct: written at line \d+, then read \(TMA\) at line \d+", text) for text in titles)


@pytest.mark.parametrize("target, to, text", [
    ("boxes.py", "a.svg", "draws one kernel, and"), ("hgemm.py:huh", "a.svg", "has no Snap function `huh`; it has hgemm"),
    ("hgemm.py", "a.png", "does not end in .svg"), ("hgemm.py", "no/such/folder/a.svg", "cannot write"), ("hgemm.py", ".svg/", "does not end in .svg"),
])
def test_what_cannot_be_drawn(snap_command, tmp_path, target, to, text):
    code, out, err = snap_command("explain", str(TESTS / "ok" / target), "--graph", f"{tmp_path}/{to}")
    assert code == 2 and text in err and not out and not [*tmp_path.iterdir()]


def test_refused_programs_are_not_drawn(snap_command, tmp_path):
    path = tmp_path / "refused.py"
    path.write_text("from snap import *\n\n\n@kernel(threads=32)\ndef k(x: ptr(int)):\n    x[0] = 1\n")
    code, _, err = snap_command("explain", str(path), "--graph", str(tmp_path / "a.svg"))
    assert code == 1 and "SNAP009" in err and not (tmp_path / "a.svg").exists()
