"""torch is optional: where it is not installed, these tests are skipped.  (The folder is not called `torch`: Python would find it in torch's place.)"""

from __future__ import annotations

import pytest


@pytest.fixture(params=["cpu", "cuda"])
def device(request):
    """Where tensors are: the CPU machine runs the kernels, or the GPU."""
    import torch

    from snap.host.device.driver import available

    if request.param == "cuda" and not (torch.cuda.is_available() and available()):
        pytest.skip("there is no GPU")
    return request.param
