"""The native part of launches: c/native.c, compiled where it is first needed, kept on disk.

Input:      the files in c/, the system's C compiler (`cc`, or CC)
Output:     `module()`: the extension module, or None; `reason()`: why there is none
Invariant:  never fatal: without it everything works as before, and takes longer.  What is loaded was compiled from this
            text, by this compiler, for this Python; it is kept as compiled kernels are (cache.py), so that processes
            may build at once, and what is damaged is built again
Non-goals:  what it does (native.c), and for whom (launches.py, trusted.py)

SNAP_NATIVE=0 in the environment: Python's path is taken.  SNAP_NATIVE=1: a build that fails is an error.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import sys
import tempfile
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader
from pathlib import Path
from typing import Any

from snap.host.compile.cache import Cache, key_of
from snap.host.errors import GpuError, ToolchainError

_NAME = "snap_native"
_FOLDER = Path(__file__).with_name("c")
_SOURCE = _FOLDER / "native.c"
_FLAGS = ("-O2", "-fPIC", "-shared", "-fvisibility=hidden")
_MACHINES = ("x86_64", "aarch64")
_SECONDS = 60.0  # for the compiler
_building: list[Build] = []


class Unbuilt(Exception):
    """Why there is no native part."""


def module() -> Any | None:
    return _found()[0]


def loaded() -> Any | None:
    """The module, where somebody has asked for it already: nothing is compiled."""
    return module() if _found.cache_info().currsize else None


def holding(offsets: tuple[int, ...]) -> Any | None:
    """The module, where it has room for values at these places."""
    found = module()
    fits = found is not None and len(offsets) <= found.MOST_VALUES and max(offsets, default=0) <= found.MOST_BYTES
    return found if fits else None


def reason() -> str:
    """Why there is no native part; empty where there is one."""
    return _found()[1]


@functools.cache
def _found() -> tuple[Any | None, str]:
    try:
        return _loaded(), ""
    except Unbuilt as why:
        if os.environ.get("SNAP_NATIVE") == "1":
            raise ToolchainError(f"SNAP_NATIVE=1, but {why}") from None
        return None, str(why)


def begin() -> None:
    """Start the C compiler now, beside the compiler of the kernel, if it is needed."""
    if _building or _found.cache_info().currsize:
        return
    try:
        found = _compiler()
        if Cache.default().get(_key(found)) is None:
            _building.append(Build(found))
    except Unbuilt:
        pass


def _compiler() -> list[str]:
    """The compiler's command; Unbuilt where this is no place for one."""
    import shlex
    import shutil

    if os.environ.get("SNAP_NATIVE") == "0":
        raise Unbuilt("SNAP_NATIVE=0 is set")
    if sys.platform != "linux" or os.uname().machine not in _MACHINES or sys.implementation.name != "cpython":
        raise Unbuilt(f"it is for CPython on Linux ({', '.join(_MACHINES)})")
    if not getattr(sys, "_is_gil_enabled", lambda: True)() or "t" in getattr(sys, "abiflags", ""):
        raise Unbuilt("this Python has no GIL, which it counts on")
    if Cache.default().folder is None:
        raise Unbuilt("there is no folder for compiled code (SNAP_CACHE_DIR)")
    said = os.environ.get("CC") or "cc"
    try:
        command = shlex.split(said)
    except ValueError:
        command = []
    program = shutil.which(command[0]) if command else None
    if program is None:
        raise Unbuilt(f"there is no C compiler (`{said}`)")
    return [program, *command[1:]]


def _key(compiler: list[str]) -> str:
    """Name everything that decides the result; the compiler by its file."""
    program = os.path.realpath(compiler[0])
    try:
        status, texts = os.stat(program), [path.read_text() for path in sorted(_FOLDER.glob("*.[ch]"))]
    except OSError as missing:
        raise Unbuilt(str(missing)) from None
    made_by = f"{program} {status.st_size} {status.st_mtime_ns} {compiler[1:]}"
    return key_of("native", *texts, EXTENSION_SUFFIXES[0], sys.version, os.uname().machine, made_by, *_FLAGS)


class Build:
    """A compiler at work, in a folder of its own."""

    def __init__(self, compiler: list[str]):
        import subprocess
        import sysconfig

        include = sysconfig.get_paths()["include"]
        if not os.path.exists(os.path.join(include, "Python.h")):
            raise Unbuilt(f"Python's headers are not installed ({include}/Python.h; package python3-dev)")
        try:
            self.folder = tempfile.TemporaryDirectory(prefix="snap-native-")
            self.made = os.path.join(self.folder.name, f"{_NAME}.so")
            command = [*compiler, *_FLAGS, f"-I{include}", str(_SOURCE), "-o", self.made]
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            )
        except OSError as error:
            raise Unbuilt(f"the C compiler did not start: {error}") from None

    def result(self) -> bytes:
        import subprocess

        try:
            said, _ = self.process.communicate(timeout=_SECONDS)
            if self.process.returncode:
                lines = [line for line in said.splitlines() if "error" in line] or said.splitlines()
                raise Unbuilt(f"the C compiler failed: {lines[0] if lines else self.process.returncode}")
            return Path(self.made).read_bytes()
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()
            raise Unbuilt(f"the C compiler took more than {_SECONDS:g} seconds") from None
        except OSError as error:
            raise Unbuilt(f"the C compiler wrote no file: {error}") from None
        finally:
            self.folder.cleanup()


def _loaded() -> Any:
    compiler = _compiler()
    cache, key = Cache.default(), _key(compiler)
    kept = cache.get(key)
    if kept is None:
        kept = (_building.pop() if _building else Build(compiler)).result()
        cache.put(key, kept)
    made = _imported(kept, cache.folder)
    made.not_explained(GpuError)
    return made


def _imported(library: bytes, folder: Path | None) -> Any:
    """The loader wants a file; nobody else needs it."""
    try:
        handle, path = tempfile.mkstemp(dir=folder, prefix=".new-", suffix=".so")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(library)
            loader = ExtensionFileLoader(_NAME, path)
            spec = importlib.util.spec_from_file_location(_NAME, path, loader=loader)
            assert spec is not None
            made = importlib.util.module_from_spec(spec)
            loader.exec_module(made)
            return made
        finally:
            os.unlink(path)
    except (OSError, ImportError) as error:
        raise Unbuilt(f"the native part was not loaded: {error}") from None
