from __future__ import annotations

import linecache

from snap.diag.source import register_source, registered_lines, source_line, source_lines, split_lines


def test_registered_text_is_found_by_line():
    register_source("<registered>", "first\nsecond\r\nthird\rfourth")
    assert source_lines("<registered>") == ("first", "second", "third", "fourth")
    assert [source_line("<registered>", line) for line in (0, 1, 4, 5, -1)] == ["", "first", "fourth", "", ""]


def test_registering_again_replaces():
    register_source("<again>", "old")
    register_source("<again>", "new")
    assert source_line("<again>", 1) == "new"
    assert linecache.getline("<again>", 1) == "new\n"


def test_files_are_read(tmp_path):
    path = tmp_path / "kernel.py"
    path.write_text("a = 1\nb = 'ö'\n", encoding="utf-8")
    assert source_line(str(path), 2) == "b = 'ö'"
    assert registered_lines(str(path)) is None


def test_only_line_ends_of_python_break_lines():
    assert split_lines("a\x0cb\u2028c\nd") == ("a\x0cb\u2028c", "d")


def test_nothing_raises(monkeypatch):
    assert source_line("/no/such/file.py", 3) == ""
    assert source_line("\0", 3) == ""
    monkeypatch.setattr(linecache, "getlines", lambda *_: 1 / 0)
    assert source_lines("anything.py") == ()
