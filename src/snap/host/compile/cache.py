"""Compiled code, kept in memory and on disk.

Input:      a key (`key_of` whatever decides the result) and bytes
Output:     the bytes, or None
Invariant:  never fatal and never wrong: an entry is written under another name and renamed, carries a digest, and is
            dropped when it does not match; the folder belongs to the user alone (code from it is run), and one that
            others own or may write to is not used
Non-goals:  sharing between users or machines
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
import threading
import time
import warnings
from pathlib import Path

from snap.diag.error import SnapWarning

_MAGIC = b"snap-cache-1\n"
_DIGEST = hashlib.sha256().digest_size
_SUFFIX = ".bin"
_UNFINISHED = ".new-"
DEFAULT_LIMIT = 512 << 20


def key_of(*parts: str) -> str:
    """A digest in which no two different lists of parts collide: each part goes in with its length."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        digest.update(f"{len(data)}:".encode())
        digest.update(data)
    return digest.hexdigest()


class Cache:
    """`folder` None: memory only."""

    _shared: Cache | None = None
    _shared_for: tuple[object, ...] | None = None

    def __init__(self, folder: Path | None, limit: int = DEFAULT_LIMIT):
        self.folder = _private(folder) if folder is not None else None
        self.limit = limit
        self._memory: dict[str, bytes] = {}
        self._lock = threading.Lock()

    @classmethod
    def default(cls) -> Cache:
        """The user's cache.  SNAP_CACHE_DIR says where (empty: nowhere), SNAP_CACHE_MB how much."""
        wanted = (
            os.environ.get("SNAP_CACHE_DIR"),
            os.environ.get("XDG_CACHE_HOME"),
            os.environ.get("SNAP_CACHE_MB"),
            os.environ.get("HOME"),
        )
        if cls._shared is None or cls._shared_for != wanted:
            cls._shared, cls._shared_for = cls(_default_folder(), _default_limit()), wanted
        return cls._shared

    def get(self, key: str) -> bytes | None:
        found = self._memory.get(key)
        if found is None:
            found = self._read(key)
            if found is not None:
                self._remember(key, found)
        return found

    def put(self, key: str, data: bytes) -> None:
        self._remember(key, data)
        if self.folder is None:
            return
        try:
            handle, temporary = tempfile.mkstemp(dir=self.folder, prefix=_UNFINISHED)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(_MAGIC + hashlib.sha256(data).digest() + data)
                os.replace(temporary, self._path(key))
            except BaseException:
                _remove(temporary)
                raise
            self._prune()
        except OSError:
            self.folder = None  # a full or read-only disk: go on in memory

    def _path(self, key: str) -> Path:
        assert self.folder is not None
        return self.folder / (key + _SUFFIX)

    def _read(self, key: str) -> bytes | None:
        if self.folder is None:
            return None
        path = self._path(key)
        try:
            handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
            with os.fdopen(handle, "rb") as file:
                content = file.read()
            head = len(_MAGIC) + _DIGEST
            data = content[head:]
            if not content.startswith(_MAGIC) or content[len(_MAGIC) : head] != hashlib.sha256(data).digest():
                _remove(path)
                return None
            os.utime(path)  # what was used last is dropped last
            return data
        except OSError:
            return None

    def _remember(self, key: str, data: bytes) -> None:
        with self._lock:
            self._memory[key] = data
            while len(self._memory) > 256:
                self._memory.pop(next(iter(self._memory)))

    def _prune(self) -> None:
        """Drop the entries used longest ago until the folder is within its limit; other processes may be doing the
        same.
        """
        entries = []
        with os.scandir(self.folder) as listing:
            for entry in listing:
                try:
                    status = entry.stat(follow_symlinks=False)
                except OSError:
                    continue
                if entry.name.endswith(_SUFFIX):
                    entries.append((status.st_mtime, status.st_size, entry.path))
                elif entry.name.startswith(_UNFINISHED) and status.st_mtime < time.time() - 3600:
                    _remove(entry.path)  # left by a process that was killed while writing
        total = sum(size for _, size, _ in entries)
        for _, size, path in sorted(entries):
            if total <= self.limit:
                break
            _remove(path)
            total -= size


def _default_folder() -> Path | None:
    named = os.environ.get("SNAP_CACHE_DIR")
    if named is not None:
        return Path(named) if named else None
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(base) if base and os.path.isabs(base) else Path.home() / ".cache") / "snap"
    except RuntimeError:  # no home
        return None


def _default_limit() -> int:
    try:
        return max(1, int(os.environ["SNAP_CACHE_MB"])) << 20
    except (KeyError, ValueError):
        return DEFAULT_LIMIT


def _private(folder: Path) -> Path | None:
    """The folder, made if need be, or None where it cannot be trusted or made."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat()
    except OSError:
        return None
    if not stat.S_ISDIR(status.st_mode) or not os.access(folder, os.W_OK | os.X_OK):
        return None
    if hasattr(os, "geteuid") and (status.st_uid != os.geteuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)):
        text = (
            f"{folder} belongs to another user or may be written to by others; compiled kernels are not kept there "
            "(chmod it to 700, or set SNAP_CACHE_DIR)"
        )
        warnings.warn(SnapWarning(text), stacklevel=2)
        return None
    return folder


def _remove(path: str | Path) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass
