"""These tests are collected only where there is a GPU that Snap generates code for, and torch to hold its memory."""

from __future__ import annotations

import importlib.util

from snap.runtime.driver import available

collect_ignore_glob = [] if available() and importlib.util.find_spec("torch") else ["test_*.py"]
