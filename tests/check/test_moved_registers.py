"""`setmaxnreg`: what warpgroups ask for is there, and none asks twice; who asks for more than there is would wait forever."""

from __future__ import annotations

import pytest
from check.checking import in_block, program

PLACE = "grid[1], block[1], thread[{}]"


def roles(*sizes_and_registers):
    """A split with these cases."""
    return "match split(thread):\n" + "\n".join(f"    case {size}:\n        {f'intrinsic.setmaxnreg({n})' if n else 'pass'}" for size, n in sizes_and_registers)


@pytest.mark.parametrize(("threads", "given", "fits"), [
    (384, [(256, 240), (128, 24)], True), (384, [(256, 232), (128, 40)], True), (384, [(256, 240), (128, 32)], False),
    (384, [(128, 240)] * 3, False), (384, [(256, 176), (128, 0)], False), (384, [(256, 176)], False), (384, [(128, 168)], True), (384, [(128, 24)], True),
    (512, [(128, 160)] * 3 + [(128, 32)], True), (512, [(128, 160)] * 3 + [(128, 40)], False), (256, [(128, 256), (128, 256)], True), (128, [(128, 256)], True),
    (288, [(256, 224)], True), (288, [(256, 232)], False),  # a last warp has its share
])
def test_together_they_ask_for_what_the_block_has(threads, given, fits):
    assert [code for code, _ in in_block(roles(*given), PLACE.format(threads))] == ([] if fits else ["SNAP018"])


def test_groups_and_functions_count_for_all_their_threads():
    each = "with group(warpgroup):\n    intrinsic.setmaxnreg({})"
    assert in_block(each.format(168), PLACE.format(384)) == []
    assert [code for code, _ in in_block(each.format(176), PLACE.format(384))] == ["SNAP018"]
    halves = "with group(thread[256]):\n    " + roles((128, 216), (128, "{}")).replace("\n", "\n    ")
    assert in_block(halves.format(40), PLACE.format(512)) == []
    assert [code for code, _ in in_block(halves.format(48), PLACE.format(512))] == ["SNAP018"]
    text = ("@device\n@requires(warpgroup)\ndef part(N: constexpr(int)):\n    intrinsic.setmaxnreg(N)\n@kernel\n@requires(grid[1], block[1], thread[384])\ndef k():\n"
            "    with group(block[1]):\n        match split(thread, 256, 128):\n            case 0:\n                with group(warpgroup):\n                    part(240)\n            case 1:\n                part({})\n")
    assert program(text.format(24)) == []
    assert [code for code, _ in program(text.format(32))] == ["SNAP018"]


def test_who_may_not_come_there_keeps_a_share():
    maybe = "if {}:\n    " + roles((256, 240), (128, 24)).replace("\n", "\n    ")
    assert in_block(maybe.format("True"), PLACE.format(384)) == []
    assert [code for code, _ in in_block("some = count(warp)\nsome += 1\n" + maybe.format("some > 3"), PLACE.format(384))] == ["SNAP018"]


@pytest.mark.parametrize("text", ["{0}\n{0}", "for k in range(2):\n    {1}"])
def test_registers_are_set_once(text):
    once = roles((256, 240), (128, 24))
    assert in_block(once, PLACE.format(384)) == []
    assert [code for code, _ in in_block(text.format(once, once.replace("\n", "\n    ")), PLACE.format(384))] == ["SNAP018"]
