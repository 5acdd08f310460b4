"""Laws of what a launch packs."""

from __future__ import annotations

import struct

import pytest

pytest.importorskip("hypothesis")
from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from snap.host.arguments.signature import bf16_bits  # noqa: E402
from snap.host.device.gpu import PassedLayout  # noqa: E402


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from(["?", "b", "h", "i", "q", "Q", "e", "f", "d", "ff", "ffff", "iiii", "dd", "BBBB", "hh", "128s"]), max_size=12), st.booleans())
def test_layout(formats, cooperative):
    layout = PassedLayout.of(tuple(formats), cooperative)
    last = 56
    for offset, packing in zip(layout.offsets, formats):
        size = struct.calcsize("<" + packing)
        assert offset >= last and offset % (64 if size == 128 else min(16, size)) == 0 and layout.align % (64 if size == 128 else 16) == 0
        last = offset + size
    assert last <= layout.attribute_at <= layout.addresses_at - 72
    assert layout.addresses_at % 8 == 0 and layout.size == layout.addresses_at + 8 * len(formats)
    assert 32 + layout.pack.size <= layout.attribute_at


@given(st.floats(width=32))
def test_bf16_rounds_to_nearest_even(value):
    bits = bf16_bits(value)
    back = struct.unpack("<f", struct.pack("<I", bits << 16))[0]
    if value != value:
        assert back != back
    else:
        for other in (bits - 1, bits + 1):
            near = struct.unpack("<f", struct.pack("<I", (other & 0xFFFF) << 16))[0]
            if near == near and abs(near) != float("inf") and abs(back) != float("inf"):
                assert abs(near - value) >= abs(back - value)
