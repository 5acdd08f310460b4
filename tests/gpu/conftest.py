"""These tests are collected only where there is a GPU that Snap generates code for, and torch to hold its memory."""

from __future__ import annotations

import importlib.util

import pytest

from snap.host.device.driver import available

collect_ignore_glob = [] if available() and importlib.util.find_spec("torch") else ["test_*.py"]


@pytest.fixture(autouse=True)
def context(request):
    """A kernel that fails takes the process's context with it: the suite ends there, with the name of the test, rather than fail from there on."""
    import torch

    yield
    try:
        torch.cuda.synchronize()
    except RuntimeError as lost:
        pytest.exit(f"{request.node.nodeid} lost the GPU's context, and all later tests would fail: {lost}", returncode=1)
