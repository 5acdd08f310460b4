from __future__ import annotations

import multiprocessing
import os
import warnings

import pytest

from snap import SnapWarning
from snap.host.compile.cache import Cache, key_of

pytestmark = pytest.mark.skipif(os.name == "nt", reason="POSIX permissions")


def fresh(folder, **options):
    """A cache as another process would see it: nothing in memory."""
    return Cache(folder, **options)


def test_keys_do_not_run_together():
    assert key_of("ab", "c") != key_of("a", "bc") != key_of("abc")
    assert key_of("1:a") != key_of("a")
    assert key_of("\ud800")


def test_kept_on_disk(tmp_path):
    folder = tmp_path / "deep" / "snap"
    fresh(folder).put("k", b"data")
    assert fresh(folder).get("k") == b"data"
    assert fresh(folder).get("other") is None
    assert folder.stat().st_mode & 0o777 == 0o700
    assert all(file.stat().st_mode & 0o077 == 0 for file in folder.iterdir())


@pytest.mark.parametrize("damage", [lambda b: b"", lambda b: b[:-1], lambda b: b + b"x", lambda b: b[:60] + b"?" + b[61:], lambda b: b"junk"])
def test_damaged_entries_are_dropped(tmp_path, damage):
    fresh(tmp_path / "c").put("k", b"x" * 100)
    file, = (tmp_path / "c").iterdir()
    file.write_bytes(damage(file.read_bytes()))
    cache = fresh(tmp_path / "c")
    assert cache.get("k") is None
    cache.put("k", b"again")
    assert fresh(tmp_path / "c").get("k") == b"again"


def test_symbolic_links_are_not_followed(tmp_path):
    fresh(tmp_path / "c").put("k", b"data")
    file, = (tmp_path / "c").iterdir()
    file.rename(tmp_path / "elsewhere")
    file.symlink_to(tmp_path / "elsewhere")
    assert fresh(tmp_path / "c").get("k") is None


@pytest.mark.parametrize("mode", [0o777, 0o770])
def test_a_folder_others_may_write_to_is_not_used(tmp_path, mode):
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(mode)
    with pytest.warns(SnapWarning, match="written to by others"):
        cache = Cache(folder)
    cache.put("k", b"data")
    assert cache.get("k") == b"data" and not list(folder.iterdir())


def test_a_folder_that_cannot_be_made_is_done_without(tmp_path):
    (tmp_path / "file").write_text("")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cache = Cache(tmp_path / "file" / "snap")
        cache.put("k", b"data")
    assert cache.get("k") == b"data" and cache.folder is None


def test_a_folder_that_disappears(tmp_path):
    cache = Cache(tmp_path / "c")
    (tmp_path / "c").rmdir()
    cache.put("k", b"data")
    assert cache.get("k") == b"data"


def test_size_is_bounded(tmp_path):
    cache = fresh(tmp_path / "c", limit=1000)
    for index in range(20):
        cache.put(f"k{index}", bytes(100))
        os.utime(cache._path(f"k{index}"), (index, index))
    cache.put("last", bytes(100))
    left = {file.stem for file in (tmp_path / "c").iterdir()}
    assert "last" in left and "k19" in left and "k0" not in left
    assert sum(file.stat().st_size for file in (tmp_path / "c").iterdir()) <= 1000


def test_unfinished_files_are_swept(tmp_path):
    cache = Cache(tmp_path / "c")
    (tmp_path / "c" / ".new-old").write_bytes(b"x")
    os.utime(tmp_path / "c" / ".new-old", (1, 1))
    (tmp_path / "c" / ".new-young").write_bytes(b"x")
    cache.put("k", b"data")
    assert not (tmp_path / "c" / ".new-old").exists() and (tmp_path / "c" / ".new-young").exists()


@pytest.mark.parametrize("variable, value, expected", [
    ("SNAP_CACHE_DIR", "{}/named", "named"), ("XDG_CACHE_HOME", "{}/xdg", "xdg/snap"), ("SNAP_CACHE_DIR", "", None),
])
def test_where_it_is(tmp_path, monkeypatch, variable, value, expected):
    monkeypatch.delenv("SNAP_CACHE_DIR", raising=False)
    monkeypatch.setenv(variable, value.format(tmp_path))
    assert Cache.default().folder == (tmp_path / expected if expected else None)
    assert Cache.default() is Cache.default()


def _write(folder, seed):
    cache = Cache(folder)
    for index in range(50):
        cache.put(f"k{index % 5}", bytes([index % 5]) * 10_000)
        found = Cache(folder).get(f"k{(index + seed) % 5}")
        assert found is None or found == bytes([(index + seed) % 5]) * 10_000


def test_several_processes(tmp_path):
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_write, args=(tmp_path / "c", seed)) for seed in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0, 0, 0]
    assert Cache(tmp_path / "c").get("k3") == b"\3" * 10_000
