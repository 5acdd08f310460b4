"""A tile that one block hands to another, by relaxed atomics and plainly, is right in 10,000 launches."""

from __future__ import annotations

import importlib.util
import pathlib

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")

LAUNCHES = 10_000
PROGRAM = pathlib.Path(__file__).parents[1] / "ok" / "handed_tiles.py"


@pytest.fixture(scope="module")
def tiles():
    spec = importlib.util.spec_from_file_location("handed_tiles", PROGRAM)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def on_gpu(array):
    return torch.from_numpy(np.ascontiguousarray(array)).cuda()


def launched(once, found, expected) -> None:
    """Launch after launch, what differs is added up on the GPU."""
    wrong = torch.zeros((), dtype=torch.int64, device="cuda")
    for _ in range(LAUNCHES):
        once()
        wrong += (found != expected).any()
    assert int(wrong) == 0, f"wrong in {int(wrong)} of {LAUNCHES} launches"


@pytest.mark.parametrize("plainly", [False, True])
def test_a_tile_goes_from_block_to_block(tiles, plainly):
    blocks = torch.cuda.get_device_properties(0).multi_processor_count
    x = (np.arange(blocks * tiles.T, dtype=np.int64) ** 2 % 1013).astype(np.int32).reshape(blocks, tiles.T)
    expected = x.copy()
    for b in range(1, blocks):
        expected[b] += expected[b - 1, ::-1]
    x, expected = on_gpu(x), on_gpu(expected)
    left, ready, out = torch.zeros_like(x), torch.zeros(blocks, dtype=torch.int32, device="cuda"), torch.zeros_like(x)

    def once():
        left.zero_(), ready.zero_(), out.zero_()
        if plainly:
            tiles.running_sums_plainly[blocks](x, left, ready, blocks)
        else:
            tiles.running_sums[blocks](x, left, ready, out, blocks)

    launched(once, left if plainly else out, expected)


def test_the_last_block_reads_what_all_have_counted(tiles):
    blocks = 4 * torch.cuda.get_device_properties(0).multi_processor_count
    x = np.arange(blocks * tiles.T, dtype=np.int32) * 7
    expected = on_gpu(np.bincount(x & 15, minlength=16).astype(np.int32))
    x, bins, tickets, out = on_gpu(x), on_gpu(np.zeros(16, np.int32)), on_gpu(np.zeros(1, np.int32)), on_gpu(np.zeros(16, np.int32))

    def once():
        bins.zero_(), tickets.zero_(), out.zero_()
        tiles.bins_of_all[blocks](x, bins, tickets, out)

    launched(once, out, expected)


def test_warps_hand_over_within_a_block(tiles):
    x = np.arange(32, dtype=np.int32) * 3
    turned = x if tiles.T // 32 % 2 else x[::-1]
    expected, out = on_gpu(turned + tiles.T // 32 - 1), on_gpu(np.zeros(32, np.int32))
    x = on_gpu(x)

    def once():
        out.zero_()
        tiles.warps_in_a_row[1](x, out)

    launched(once, out, expected)
