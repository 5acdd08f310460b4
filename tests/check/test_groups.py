"""Levels, privileges, groups, splits, alignment."""

from __future__ import annotations

import pytest
from check.checking import codes, in_block, program

from snap._compiler.ir.types import Level, Privilege


def test_at_least_is_a_higher_level_or_a_multiple():
    p = lambda level, n: Privilege(level, n)
    assert p(Level.BLOCK, 1).at_least(p(Level.THREAD, 1024))
    assert p(Level.THREAD, 64).at_least(p(Level.THREAD, 32))
    assert not p(Level.THREAD, 32).at_least(p(Level.THREAD, 64))
    assert not p(Level.THREAD, 96).at_least(p(Level.THREAD, 64))
    assert p(Level.GRID, 1).at_least(p(Level.CLUSTER, 3)) and p(Level.CLUSTER, 1).at_least(p(Level.BLOCK, 16))
    assert not p(Level.THREAD, 1).at_least(p(Level.BLOCK, 1))


@pytest.mark.parametrize("group, refused", [
    ("grid[1]", None), ("block[1]", None), ("block[2]", None), ("block[4]", None), ("thread[1]", None), ("thread[256]", None), ("thread[32]", None),
    ("warp", None), ("warp[2]", None), ("warpgroup", None), ("warpgroup[2]", None),
    ("block[3]", "SNAP002"), ("block[8]", "SNAP002"), ("thread[3]", "SNAP002"), ("thread[512]", "SNAP002"), ("warp[3]", "SNAP002"), ("warpgroup[3]", "SNAP002"),
    ("thread.every(16)[8]", None), ("thread.every(16)[16]", None), ("warp.every(2)[4]", None), ("thread[4].every(8)[8]", None), ("block.every(2)[2]", None),
    ("thread.every(16)[32]", "SNAP002"), ("thread.every(3)[8]", "SNAP002"), ("warp.every(8)[2]", "SNAP002"), ("block.every(4)[2]", "SNAP002"),
    ("thread.every(16)", "SNAP018"), ("thread.every(0)[8]", "SNAP018"), ("thread.every(2.5)[8]", "SNAP018"), ("thread.every(2)[0]", "SNAP018"),
    ("thread.every(2)[8].every(2)[2]", "SNAP018"), ("thread.every(2)[8][3]", "SNAP018"), ("thread.every(2)[8][2]", None),
    ("cluster[1]", "SNAP001"), ("thread", "SNAP018"), ("thread[0]", "SNAP018"), ("thread[-1]", "SNAP018"), ("thread[1.5]", "SNAP018"), ("32", "SNAP018"),
])
def test_group_of_what_a_kernel_holds(group, refused):
    assert codes(f"with group({group}):\n    pass", "grid[1], block[4], thread[256]") == ([(refused, 1)] if refused else [])


@pytest.mark.parametrize("outer, inner, refused", [
    ("grid[1]", "grid[1]", None), ("grid[1]", "block[1]", None), ("grid[1]", "thread[64]", None), ("block[1]", "thread[64]", None),
    ("block[1]", "grid[1]", "SNAP001"), ("thread[64]", "block[1]", "SNAP001"), ("thread[64]", "grid[1]", "SNAP001"),
    ("thread[64]", "thread[64]", None), ("thread[64]", "thread[32]", None), ("thread[64]", "thread[128]", "SNAP002"), ("thread[64]", "thread[48]", "SNAP002"),
    ("thread[64]", "thread.every(8)[8]", None), ("thread[64]", "thread.every(16)[8]", "SNAP002"), ("thread.every(16)[8]", "thread.every(16)[8]", None),
    ("thread.every(16)[8]", "thread.every(32)[4]", None), ("thread.every(16)[8]", "thread.every(16)[4]", None), ("thread.every(16)[8]", "thread[1]", None),
    ("thread.every(16)[8]", "thread[2]", "SNAP002"), ("thread.every(16)[8]", "thread.every(8)[2]", "SNAP002"), ("thread.every(16)[8]", "thread.every(24)[2]", "SNAP002"),
    ("warp.every(2)[4]", "warp", None), ("warp.every(2)[4]", "thread.every(4)[8]", None), ("warp.every(2)[4]", "warp.every(4)[2]", None), ("warp.every(2)[4]", "warp[2]", "SNAP002"),
    ("block.every(2)[2]", "block[1]", None), ("block.every(2)[2]", "thread.every(2)[4]", None), ("block.every(2)[2]", "block[2]", "SNAP002"),
    ("block[2]", "block[2]", None), ("block[2]", "block[1]", None), ("block[2]", "block[4]", "SNAP002"), ("thread[1]", "thread[1]", None),
])
def test_groups_nest_downwards(outer, inner, refused):
    text = f"with group({outer}):\n    with group({inner}):\n        pass"
    assert codes(text, "grid[1], block[4], thread[256]") == ([(refused, 2)] if refused else [])


def test_what_is_below_the_group_stays_and_what_is_above_goes():
    text = """
    with group(block[2]):
        a: int @ block[1] = 0
        b: int @ thread[256] = 0
        with group(thread[128]):
            c: int @ thread[128] = 0
            d: int @ block[1] = 0
    """
    assert codes(text, "grid[1], block[4], thread[256]") == [("SNAP005", 6)]


def test_the_number_of_blocks_is_a_multiple_of_what_is_required():
    assert codes("with group(block[2]):\n    pass", "grid[1], block[1], thread[32]") == [("SNAP002", 1)]
    assert codes("with group(block[2]):\n    pass", "grid[1], block[6], thread[32]") == []
    assert codes("with group(block[2]):\n    pass", "grid[1], thread[32]") == [("SNAP002", 1)]


def test_cluster_is_held_only_where_it_is_required():
    assert codes("with group(cluster[1]):\n    with group(block[4]):\n        pass", "grid[1], cluster[1], block[4], thread[32]") == []
    assert codes("with group(cluster[2]):\n    pass", "grid[1], cluster[2], block[4], thread[32]") == []
    assert codes("with group(cluster[2]):\n    pass", "grid[1], cluster[1], block[4], thread[32]") == [("SNAP002", 1)]
    assert codes("with group(cluster[1]):\n    with group(block[8]):\n        pass", "grid[1], cluster[1], block[4], thread[32]") == [("SNAP002", 2)]


@pytest.mark.parametrize("requires, refused", [
    ("grid[1], block[1], thread[1024]", False), ("grid[1], block[1], thread[1025]", True), ("grid[2], block[1], thread[32]", True),
    ("grid[1], block[1]", True), ("grid[1], block[1], block[2], thread[32]", True), ("thread[32]", False), ("thread[32], grid[1]", False),
    ("grid[1], block[1], warp", False), ("grid[1], block[1], warpgroup[2]", False), ("grid[1], cluster[1], block[16], thread[32]", False),
    ("grid[1], cluster[1], block[17], thread[32]", True), ("grid, thread[32]", True), ("32", True), ("'thread'", True), ("None", True),
])
def test_what_a_kernel_may_require(requires, refused):
    found = program(f"@kernel\n@requires({requires})\ndef k():\n    pass")
    assert [code for code, _ in found] == (["SNAP018"] if refused else [])


@pytest.mark.parametrize("group, cases, refused", [
    ("warp.every(2)[4]", (64, 32, 32), None), ("warp.every(2)[4]", (32, 16, 16, 64), None), ("warp.every(2)[4]", (48,), "SNAP004"), ("warp.every(2)[4]", (24,), "SNAP004"),
    ("thread.every(16)[8]", (4, 4), None), ("thread.every(16)[8]", (4, 3), "SNAP004"), ("thread.every(16)[8]", (8, 1), "SNAP003"), ("thread[2].every(4)[4]", (1, 1, 2, 4), None),
])
def test_a_case_takes_the_next_members_of_a_group_at_a_stride(group, cases, refused):
    text = f"with group({group}):\n    match split(thread):\n" + "".join(f"        case {n}:\n            pass\n" for n in cases)
    assert [code for code, _ in codes(text)] == ([refused] if refused else [])


def test_a_case_of_a_group_at_a_stride_is_whole_runs_or_neighbors():
    assert codes("with group(warp.every(2)[6]):\n    match split(thread):\n        case 48:\n            pass", "grid[1], block[1], thread[384]") == [("SNAP004", 3)]
    text = """
    with group(warp.every(2)[4]):
        match split(thread):
            case 16:
                v = intrinsic.reduce_add(1)
                with group(thread[8]):
                    pass
            case 16:
                with group(thread.every(8)[2]):
                    pass
    """
    assert codes(text) == []


@pytest.mark.parametrize("text, refused", [
    ("with one(thread[64]):\n        pass", "SNAP014"), ("with one(warp.every(2)[2]):\n        pass", None), ("with one(warp):\n        pass", None),
    ("with one(warp.every(4)[2]):\n        pass", "SNAP014"), ("with one(thread.every(4)[2]):\n        pass", "SNAP014"),
    ("match split(thread.every(4)[2]):\n        case 1:\n            pass", "SNAP018"),
])
def test_one_of_the_groups_follows_its_neighbors(text, refused):
    assert [code for code, _ in codes(f"with group(warp.every(2)[4]):\n    {text}")] == ([refused] if refused else [])


@pytest.mark.parametrize("group, op, refused", [
    ("thread.every(4)[8]", "reduce_add(t)", None), ("thread.every(4)[8]", "ballot(t > 1)", None), ("warp.every(2)[4]", "reduce_add(t)", None), ("thread[8].every(2)[2]", "shfl_up(t, 1)", None),
    ("thread.every(32)[8]", "reduce_add(t)", "SNAP016"), ("thread.every(8)[8]", "reduce_add(t)", "SNAP016"), ("thread.every(4)[8]", "shfl_up(t, 1, width=4)", "SNAP018"),
    ("thread.every(8)[32]", "reduce_add(t)", "SNAP016"), ("thread.every(2)[32]", "reduce_add(t)", "SNAP016"),
])
def test_collectives_of_groups_at_a_stride(group, op, refused):
    text = f"with group(block[1]):\n    t: int @ thread[1] = id()\n    with group({group}):\n        v = intrinsic.{op}"
    assert [code for code, _ in codes(text)] == ([refused] if refused else [])


def test_what_a_group_at_a_stride_agrees_on_is_no_more_than_that():
    text = """
    with group(block[1]):
        column: int @ thread.every(16)[16] = id()
        half: int @ thread.every(16)[8] = id()
        row: int @ thread[16] = id()
        with group(thread.every(16)[16]):
            while column > 3:
                pass
            while half > 3:
                pass
            while row > 3:
                pass
    """
    assert codes(text) == [("SNAP006", 8), ("SNAP006", 10)]


# ---- split -------------------------------------------------------------------------------------------------------------------------------


def split(cases: str, subject: str = "thread") -> str:
    return "\n".join([f"match split({subject}):", *(f"    case {case}:\n        pass" for case in cases.split())])


@pytest.mark.parametrize("threads, cases, refused", [
    (384, "256 128", None), (384, "128 256", "SNAP004"), (384, "128 128 128", None), (384, "384", None), (384, "256 128 1", "SNAP003"), (384, "385", "SNAP003"),
    (384, "128", None), (384, "1", None), (384, "256 64 32 32", None), (384, "256 32 64 32", "SNAP004"), (384, "128 128 64 32 16 8 4 2 1 1", None),
    (96, "64 32", None), (96, "32 64", "SNAP004"), (96, "3 3", None), (96, "2 3", "SNAP004"), (96, "6 3 3", None), (33, "32 1", None), (33, "33", None), (33, "1 32", "SNAP004"),
    (384, "256 _", None), (384, "256 128 _", "SNAP003"), (384, "_", None), (33, "32 _", None), (384, "384 _", "SNAP003"),
    (384, "0", "SNAP018"), (384, "-1", "SNAP017 SNAP018"), (384, "1.5", "SNAP017 SNAP018"),
])
def test_split_of_a_block(threads, cases, refused):
    found = in_block(split(cases), f"grid[1], block[1], thread[{threads}]")
    if refused is None:
        assert found == []
    else:
        assert len(found) == 1 and found[0][0] in refused.split()


def test_a_case_is_refused_where_it_stands():
    assert in_block(split("128 256 128"), "grid[1], block[1], thread[384]") == [("SNAP004", 4), ("SNAP003", 6)]


@pytest.mark.parametrize("group, cases, refused", [
    (384, "256 128", "SNAP004"), (384, "128 128 128", None), (384, "384", None), (384, "64 64", None), (256, "128 128", None), (192, "64 64 64", None), (192, "128 64", "SNAP004"),
    (96, "32 32 32", None), (96, "64 32", "SNAP004"), (96, "96", None), (48, "16 16 16", None), (48, "32 16", "SNAP004"), (768, "512 256", None), (768, "256 512", "SNAP004"),
])
def test_split_of_a_group_knows_only_the_groups_alignment(group, cases, refused):
    text = f"with group(thread[{group}]):\n" + "\n".join("    " + line for line in split(cases).splitlines())
    found = in_block(text, "grid[1], block[1], thread[768]")
    assert [code for code, _ in found] == ([refused] if refused else [])


def test_alignment_goes_through_splits():
    inner = "match split(thread):\n    case 256:\n        pass\n    case 128:\n        with group(thread[128]):\n            match split(thread):\n                case {}:\n                    pass"
    for size, refused in ((128, None), (64, None), (32, None), (256, "SNAP003")):
        found = in_block(inner.format(size), "grid[1], block[1], thread[384]")
        assert [code for code, _ in found] == ([refused] if refused else [])
    # 96 threads from offset 96: a multiple of 32 is all that is known
    text = "match split(thread):\n    case 96:\n        pass\n    case 96:\n        match split(thread):\n            case {}:\n                pass"
    for size, refused in ((32, None), (64, "SNAP004"), (96, None), (48, None), (16, None)):
        found = in_block(text.format(size), "grid[1], block[1], thread[192]")
        assert [code for code, _ in found] == ([refused] if refused else [])


def test_the_whole_of_a_class_keeps_its_alignment():
    text = "with group(thread[384]):\n    match split(thread):\n        case 256:\n            pass\n        case 128:\n            pass"
    assert in_block(text, "grid[1], block[1], thread[384]") == []


def test_sizes_may_be_named_and_numbered():
    text = "match split(thread, P, C):\n    case 0:\n        pass\n    case 1:\n        pass"
    assert in_block(text, P=128, C=128) == []
    assert in_block(text, P=64, C=128) == [("SNAP004", 4)]
    assert in_block(text, P=128, C=256) == [("SNAP003", 4)]
    assert in_block("match split(thread, 2 * 64, 128):\n    case 0:\n        pass\n    case 1:\n        pass") == []
    assert in_block("match split(thread, 64, 64):\n    case 0:\n        pass\n    case 2:\n        pass") == [("SNAP017", 4)]
    assert in_block("match split(thread, 64, 64):\n    case 0:\n        pass") == [("SNAP017", 1)]
    assert in_block("match split(thread, 64):\n    case 0:\n        pass\n    case 1:\n        pass") == [("SNAP017", 4)]
    assert in_block("match split(thread, 64, 64):\n    case 0:\n        pass\n    case 1:\n        pass\n    case _:\n        pass") == []
    assert in_block("n: int = 64\nmatch split(thread, n):\n    case 0:\n        pass") == []
    assert in_block("n: int = 64\nn = 128\nmatch split(thread, n):\n    case 0:\n        pass") == [("SNAP018", 3)]


def test_split_counts_in_units_of_the_word_it_names():
    assert in_block(split("4 2 2", "warp")) == []
    assert in_block(split("2 4", "warp")) == [("SNAP004", 4)]
    assert in_block(split("1 1", "warpgroup")) == []
    assert in_block(split("3", "warpgroup")) == [("SNAP003", 2)]


def test_split_needs_the_level():
    assert in_block(split("1", "block")) == []
    assert in_block(split("1", "grid")) == [("SNAP001", 1)]
    assert in_block("with group(thread[32]):\n    match split(block):\n        case 1:\n            pass") == [("SNAP001", 2)]
    assert in_block("match split(3):\n    case 1:\n        pass") == [("SNAP018", 1)]
    assert in_block("match split():\n    case 1:\n        pass") == [("SNAP017", 1)]


def test_split_below_the_highest_level_happens_in_every_unit():
    text = "with group(grid[1]):\n    match split(thread):\n        case 128:\n            i: int @ thread[1] = id()\n            b: int @ block[1] = 0\n"
    assert codes(text) == [("SNAP005", 5)]


def test_rest_is_groups_of_the_largest_aligned_size():
    text = """
    match split(thread):
        case 256:
            pass
        case _:
            a: int @ thread[64] = 0
            b: int @ thread[128] = 0
            c: int @ thread[192] = 0
    """
    # 192 are left, from offset 256: groups of 64
    assert in_block(text, "grid[1], block[1], thread[448]") == [("SNAP005", 6), ("SNAP005", 7)]
    # all of it, where it is aligned
    whole = "match split(thread):\n    case 256:\n        pass\n    case _:\n        a: int @ thread[128] = 0\n"
    assert in_block(whole, "grid[1], block[1], thread[384]") == []


def test_split_of_blocks():
    text = "with group(grid[1]):\n" + "\n".join("    " + line for line in split("2 2", "block").splitlines())
    assert codes(text, "grid[1], block[4], thread[32]") == []
    assert codes(text, "grid[1], block[2], thread[32]") == [("SNAP003", 5)]
    text = "with group(grid[1]):\n" + "\n".join("    " + line for line in split("1 _", "block").splitlines())
    assert codes(text, "grid[1], block[1], thread[32]") == []


def test_levels_above_a_split_are_gone_in_its_cases():
    assert in_block("match split(thread):\n    case 64:\n        with group(block[1]):\n            pass") == [("SNAP001", 3)]
    assert in_block("match split(thread):\n    case 64:\n        s: shared(int[4])") == [("SNAP012", 3)]


def test_cases_hold_constants_alone():
    assert in_block("match split(thread):\n    case 64 | 128:\n        pass")[0][0] == "SNAP017"
    assert in_block("match split(thread):\n    case x:\n        pass")[0][0] in ("SNAP017", "SNAP019")
    assert in_block("match split(thread):\n    case 64 if True:\n        pass")[0][0] == "SNAP017"
    assert in_block("match 3:\n    case 64:\n        pass")[0][0] == "SNAP017"
