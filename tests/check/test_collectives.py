"""Collectives with their signatures, atomics, unsafe text."""

from __future__ import annotations

import numpy as np
import pytest
from check.checking import codes, execute, in_block, program

from snap._compiler.ir.operations import ATOMICS, COLLECTIVES, COUNTING

VALUES = "t: int @ thread[1] = id()\nw: int @ thread[32] = 3\nf: float @ thread[1] = 1.5\n"


def use(call: str, group: str = "thread[32]", **options) -> list[str]:
    body = VALUES + f"with group({group}):\n    {call}"
    return [code for code, _ in in_block(body, **options)]


ONE_ARGUMENT = ["any", "all", "ballot", "match_any", "match_all", *(f"reduce_{op}" for op in ("add", "min", "max", "and", "or", "xor"))]
AT_BLOCK = ["broadcast", "syncthreads_or", "syncthreads_and", "syncthreads_count"]


@pytest.mark.parametrize("name", ONE_ARGUMENT)
def test_warp_collectives_take_thread_1_and_return_the_warp(name):
    call = f"intrinsic.{name}(t)"
    high = "thread[1]" if name == "match_any" else "thread[32]"
    for group, refused in (("thread[32]", False), ("thread[64]", False), ("block[1]", False), ("thread[16]", False), ("thread[2]", False), ("thread[1]", True)):
        assert use(f"x: int @ thread[1] = int({call})", group) == (["SNAP016"] if refused else [])
    assert use(f"x = {call}") == []  # a name without an annotation is for all who agree on its value
    assert use(f"x: int = int({call})") == ([] if high == "thread[32]" else ["SNAP006"])
    assert use(f"x: int @ thread[64] = int({call})", "thread[64]") == ["SNAP006"]
    assert use(f"if {call} == {call}:\n        pass") == ([] if high == "thread[32]" else ["SNAP006"])
    for wrong in (f"intrinsic.{name}()", f"intrinsic.{name}(t, t)", f"intrinsic.{name}(t, huh=3)"):
        assert use(wrong) == ["SNAP018"]


@pytest.mark.parametrize("name", AT_BLOCK)
def test_block_collectives_return_the_block(name):
    for group, refused in (("block[1]", False), ("thread[256]", True), ("thread[32]", True)):
        assert use(f"x: int @ thread[1] = int(intrinsic.{name}(t))", group) == (["SNAP016"] if refused else [])
    assert use(f"x: int = int(intrinsic.{name}(t))", "block[1]") == []
    assert codes(f"with group(grid[1]):\n    t: int @ thread[1] = id()\n    x: int @ block[1] = int(intrinsic.{name}(t))") == []
    assert codes(f"with group(grid[1]):\n    t: int @ thread[1] = id()\n    x: int = int(intrinsic.{name}(t))") == [("SNAP006", 3)]


def test_collectives_need_whole_aligned_groups():
    text = "t: int @ thread[1] = id()\nx: bool @ thread[1] = intrinsic.any(t > 0)"
    assert in_block(text, "grid[1], block[1], thread[96]") == []
    assert in_block(text, "grid[1], block[1], thread[48]") == [("SNAP016", 2)]
    assert in_block(text, "grid[1], block[1], thread[33]") == [("SNAP016", 2)]
    assert in_block("with group(thread[48]):\n    intrinsic.syncwarp()", "grid[1], block[1], thread[96]") == [("SNAP016", 2)]


@pytest.mark.parametrize("name", [*ONE_ARGUMENT, "shfl_up", "shfl_down", "shfl_xor", "shfl"])
@pytest.mark.parametrize("n", [2, 4, 8, 16])
def test_parts_of_a_warp_act_by_themselves_and_agree_for_themselves(name, n):
    group, more = f"thread[{n}]", ", 1" if name.startswith("shfl") else ""
    assert use(f"x: int @ thread[1] = int(intrinsic.{name}(t{more}))", group) == []
    per_lane = name in ("match_any", "shfl_up", "shfl_down", "shfl_xor")
    assert use(f"x: int = int(intrinsic.{name}(t{more}))", group) == (["SNAP006"] if per_lane else [])
    outside = VALUES + f"x: int @ {group}\nwith group({group}):\n    x = int(intrinsic.{name}(t{more}))\nwith group(thread[32]):\n    if x > 0:\n        pass"
    assert [code for code, _ in in_block(outside)] == (["SNAP006"] * (1 + per_lane))
    if more:
        assert use(f"x: int @ thread[1] = intrinsic.{name}(t, 1, width={n})", group) == []
        assert use(f"x: int @ thread[1] = intrinsic.{name}(t, 1, width={2 * n})", group) == ["SNAP018"]
        assert use(f"x: int @ thread[1] = intrinsic.{name}(t, w)", group) == []


def test_a_part_is_a_power_of_two_and_aligned():
    ballot = "x: u32 @ thread[1] = intrinsic.ballot(True)"
    for n in (3, 6, 12, 24):
        assert in_block(f"with group(thread[{n}]):\n    {ballot}", "grid[1], block[1], thread[96]") == [("SNAP016", 2)]
    assert in_block(f"with group(thread[12]):\n    with group(thread[4]):\n        {ballot}", "grid[1], block[1], thread[96]") == []
    assert in_block(ballot, "grid[1], block[1], thread[16]") == []
    assert in_block(f"match split(thread, 8, 8):\n    case 0:\n        pass\n    case 1:\n        {ballot}", "grid[1], block[1], thread[32]") == []
    called = "@device\n@requires(thread[8])\ndef f(v: int @ thread[1]) -> int @ thread[8]:\n    return intrinsic.reduce_add(v)"
    assert in_block("x: int @ thread[8] = f(3)", before=called) == []
    assert in_block("with group(thread[4]):\n    x: int @ thread[1] = f(3)", before=called) == [("SNAP008", 2)]


def test_what_a_part_agrees_on_is_not_the_warps():
    for result, refused in (("thread[8]", []), ("thread[4]", []), ("thread[32]", ["SNAP006"])):
        called = f"@device\n@requires(thread[8])\ndef f(v: int @ thread[1]) -> int @ {result}:\n    return intrinsic.reduce_add(v)"
        assert [code for code, _ in in_block("x: int @ thread[1] = f(3)", before=called)] == refused


def test_reductions_of_the_lanes_for_which_something_holds():
    for name in ("add", "min", "max", "and", "or", "xor"):
        assert use(f"x: int = intrinsic.reduce_{name}(t, where=t > 3)") == []
        assert use(f"x: int = intrinsic.reduce_{name}(t, where=w > 3)", "thread[4]") == []
    assert use("x: float = intrinsic.reduce_min(f, where=True)") == []
    assert use("x: int = intrinsic.reduce_add(t, where=float4(1.0))") == ["SNAP018"]
    assert use("x: bool = intrinsic.any(t > 1, where=t > 3)") == ["SNAP018"]
    assert use("x: int = intrinsic.reduce_add(where=t > 3)") == ["SNAP018"]
    assert use("x: int = intrinsic.reduce_add(intrinsic.shfl_xor(t, 1), where=w > 3)") == ["SNAP017"]
    assert use("x: int = intrinsic.reduce_add(atomic.add(a, 0, 1), where=t > 3)", params="a: ptr(int) @ grid[1]") == ["SNAP006"]
    assert use("x: int = intrinsic.reduce_add(atomic.add(a, 0, 1), where=w > 3)", params="a: ptr(int) @ grid[1]") == []


def test_shuffles():
    assert use("x: int @ thread[1] = intrinsic.shfl(t, t)") == []
    assert use("x: int = intrinsic.shfl(t, 3)") == []
    assert use("x: int = intrinsic.shfl(t, w)") == []
    assert use("x: int = intrinsic.shfl(t, t)") == ["SNAP006"]
    assert use("x: int = intrinsic.shfl(t, 3, width=16)") == ["SNAP006"]
    for name in ("shfl_up", "shfl_down", "shfl_xor"):
        assert use(f"x: int @ thread[1] = intrinsic.{name}(t, 1)") == []
        assert use(f"x: int @ thread[1] = intrinsic.{name}(t, w)") == []
        assert use(f"x: int @ thread[1] = intrinsic.{name}(t, t)") == ["SNAP006"]
        assert use(f"x: int = intrinsic.{name}(t, 1)") == ["SNAP006"]
        assert use(f"x: int @ thread[1] = intrinsic.{name}(t, 1, width=8)") == []
        assert use(f"x: int @ thread[1] = intrinsic.{name}(t, 1, width=5)") == ["SNAP018"]
        assert use(f"x: int @ thread[1] = intrinsic.{name}(t, 1.5)") == ["SNAP018"]


def test_types_of_collectives():
    assert use("x: float @ thread[1] = intrinsic.reduce_add(f)") == []
    assert use("x = intrinsic.reduce_and(f)") == ["SNAP018"]
    assert use("x = intrinsic.huh(f)") == ["SNAP018"]
    assert use("x: bool = intrinsic.any(f)") == []
    assert use("x = intrinsic.any(float4(1.0))") == ["SNAP018"]


def test_barriers_for_experts():
    assert use("intrinsic.syncwarp()") == [] and use("intrinsic.syncthreads()", "block[1]") == []
    assert use("intrinsic.syncthreads()") == ["SNAP016"]
    assert use("x: int @ thread[1] = intrinsic.syncwarp()") == ["SNAP018"]
    assert codes("intrinsic.sync_grid()") == [("SNAP020", 1)]
    assert codes("intrinsic.sync_grid()", "grid[1], block[1], thread[32], cooperative=True") == []
    assert codes("with group(block[1]):\n    intrinsic.sync_grid()", "grid[1], block[1], thread[32], cooperative=True") == [("SNAP016", 2)]
    assert codes("with group(cluster[1]):\n    intrinsic.sync_cluster()", "grid[1], cluster[1], block[2], thread[32]") == []
    assert codes("intrinsic.sync_cluster()", "grid[1], block[2], thread[32]") == [("SNAP016", 1)]
    nested = "@device\n@requires(grid[1], cooperative=True)\ndef f():\n    intrinsic.sync_grid()"
    assert codes("f()", before=nested) == [("SNAP020", 1)]
    assert codes("f()", "grid[1], block[1], thread[32], cooperative=True", before=nested) == []


def test_broadcast_names_a_thread_of_the_block():
    assert in_block("x: int = intrinsic.broadcast(3, source=255)") == []
    assert in_block("x: int = intrinsic.broadcast(3, source=256)") == [("SNAP018", 1)]
    assert in_block("x: int = intrinsic.broadcast(3, source=-1)") == [("SNAP018", 1)]


COOPERATIVE, CLUSTERED = "grid[1], block[2], thread[32], cooperative=True", "grid[1], cluster[1], block[2], thread[32]"
OF_ALL = ["any", "all", "count", "broadcast"]


@pytest.mark.parametrize("name", OF_ALL)
def test_clusters_and_grids_decide_for_themselves(name):
    t = "t: int @ thread[1] = id()\n"
    assert codes(f"{t}x: int = int(intrinsic.{name}_grid(t))\nif x > 3:\n    intrinsic.sync_grid()", COOPERATIVE) == []
    assert codes(f"{t}x: int = int(intrinsic.{name}_grid(t))", "grid[1], block[2], thread[32]") == [("SNAP020", 2)]
    assert codes(f"{t}with group(block[1]):\n    x: int = int(intrinsic.{name}_grid(t))", COOPERATIVE) == [("SNAP016", 3)]
    assert codes(f"{t}with group(cluster[1]):\n    x: int = int(intrinsic.{name}_cluster(t))\n    if x > 3:\n        intrinsic.sync_cluster()", CLUSTERED) == []
    assert codes(f"{t}x: int = int(intrinsic.{name}_cluster(t))", CLUSTERED) == [("SNAP006", 2)]
    assert codes(f"{t}with group(block[1]):\n    x: int = int(intrinsic.{name}_cluster(t))", CLUSTERED) == [("SNAP016", 3)]
    assert codes(f"{t}x: int @ block[1] = int(intrinsic.{name}_block(t))", COOPERATIVE) == []
    assert codes(f"{t}x: int = int(intrinsic.{name}_block(t))", COOPERATIVE) == [("SNAP006", 2)]
    for wrong in ("", "t, t", "t, huh=3"):
        assert codes(f"{t}x: int = int(intrinsic.{name}_grid({wrong}))", COOPERATIVE) == [("SNAP018", 2)]
    assert codes(f"{t}if intrinsic.any_block(t > 3):\n    x: int = int(intrinsic.{name}_grid(t))", COOPERATIVE) == [("SNAP006", 2)]


def test_a_broadcast_names_a_thread_that_every_launch_has():
    for source, found in ((0, []), (63, []), (64, ["SNAP018"]), (-1, ["SNAP018"])):
        assert [c for c, _ in codes(f"x: int = intrinsic.broadcast_grid(3, source={source})", COOPERATIVE)] == found
        assert [c for c, _ in codes(f"with group(cluster[1]):\n    x: int = intrinsic.broadcast_cluster(3, source={source})", CLUSTERED)] == found


BY_HAND = ["sync", "arrive", "wait"]


@pytest.mark.parametrize("body", ["intrinsic.sync()", "intrinsic.arrive()\n        intrinsic.wait()"])
def test_a_barrier_by_hand_is_one_of_the_group_whose_code_it_is_in(body):
    within = "grid[1], block[1], thread[192]"
    for group in ("block[1]", "thread[64]", "thread[96]", "thread[32]", "thread[16]", "thread[2]"):
        assert in_block(f"with group({group}):\n        {body}", within) == [], group
    assert {code for code, _ in in_block(f"with group(thread[1]):\n        {body}", within)} == {"SNAP016"}
    assert {code for code, _ in in_block(f"with group(thread[48]):\n        {body}", within)} == ({"SNAP020"} if "sync" in body else set())
    assert {code for code, _ in codes(body.replace("        ", ""), COOPERATIVE)} == (set() if "sync" in body else {"SNAP020"})
    assert codes(f"with group(cluster[1]):\n    {body.replace('        ', '    ')}", CLUSTERED) == []
    assert [code for code, _ in codes(f"with group(cluster[2]):\n    {body.replace('        ', '    ')}", "grid[1], cluster[2], block[2], thread[32]")][:1] == ["SNAP020"]


def test_barriers_by_hand_have_neither_operands_nor_results():
    for name in BY_HAND:
        assert use(f"intrinsic.{name}(3)")[:1] == ["SNAP018"]
        assert use(f"x: int @ thread[1] = intrinsic.{name}()")[:1] == ["SNAP018"]
        assert use(f"x: int @ thread[1] = 3 if w > 1 and intrinsic.{name}() else 4")[:1] == ["SNAP017"]


@pytest.mark.parametrize("body, found", [
    ("intrinsic.arrive()\nfor k in range(n):\n    intrinsic.wait()\n    intrinsic.arrive()\nintrinsic.wait()", []),
    ("m: int = n\nwhile m > 3:\n    intrinsic.arrive()\n    intrinsic.wait()\n    if m > 7:\n        break\n    m -= 1", []),
    ("if n > 3:\n    intrinsic.arrive()\nelse:\n    intrinsic.arrive()\nintrinsic.wait()", []),
    ("if n > 3:\n    intrinsic.arrive()\n    intrinsic.wait()", []),
    ("intrinsic.arrive()\nif n > 3:\n    intrinsic.wait()", ["SNAP021"]),
    ("for k in range(n):\n    intrinsic.arrive()\n    if k == 3:\n        break\n    intrinsic.wait()", ["SNAP021"]),
    ("for k in range(n):\n    intrinsic.arrive()\n    if k == 3:\n        continue\n    intrinsic.wait()", ["SNAP021"]),
    ("intrinsic.arrive()\nwith group(thread[32]):\n    intrinsic.wait()\nintrinsic.wait()", ["SNAP021"]),
    ("intrinsic.arrive()\nintrinsic.wait()\nintrinsic.wait()", ["SNAP021"]),
])
def test_arrive_and_wait_alternate_on_every_path(body, found):
    inside = "".join(f"    {line}\n" for line in body.splitlines())
    assert [code for code, _ in codes(f"with group(block[1]):\n{inside}", "grid[1], block[1], thread[64]", "n: int @ grid[1]")] == found


def test_every_collective_is_tried_here_or_below():
    tried = {*ONE_ARGUMENT, *AT_BLOCK, *(f"{name}_{level}" for name in OF_ALL for level in ("cluster", "grid")), "shfl", "shfl_up", "shfl_down", "shfl_xor", "syncwarp", "syncthreads", "sync_cluster", "sync_grid", "mma", "ldmatrix", "stmatrix", "elect",
             "setmaxnreg", *BY_HAND}
    assert set(COLLECTIVES) <= tried


# ---- matrices --------------------------------------------------------------------------------------------------------------------------------

FRAGMENTS = "a: float[4] @ thread[1]\nb: float[2] @ thread[1]\nc: float[4] @ thread[1]\nh: f16[8] @ thread[1]\ng: f16[4] @ thread[1]\ntile_: shared(f16[16, 16])\nfloats: shared(float[16, 16])\nu: float[4]\n"


def matrix(call: str, group: str = "thread[32]", around: str = "") -> list[str]:
    body = FRAGMENTS + (f"{around}\n    " if around else "") + f"with group({group}):\n" + ("    " if around else "") + f"    {call}"
    return [code for code, _ in in_block(body, params="x: ptr(f16, (16, 16)) @ grid[1]")]


def test_mma_of_other_kinds():
    declared = "".join(f"{n}: {t} @ thread[1]\n    " for n, t in (
        ("sa", "i8[16]"), ("ub", "u8[8]"), ("ua", "u8[16]"), ("odd", "u8[6]"), ("w4", "u32[4]"), ("w2", "u32[2]"), ("w1", "u32[1]"), ("ic", "int[4]"),
        ("d1", "f64[1]"), ("d2", "f64[2]"), ("d4", "f64[4]"), ("d8", "f64[8]"), ("e16", "i16[8]")))
    for right in ("sa, ub, ic, out=ic", "ua, ub, ic, out=ic", "sa, ub, ic, out=ic, saturate=True", 'ua, ub, c, out=c, type="e4m3"', 'w4, w2, c, out=c, type=("e5m2", "e4m3")',
                  'w4, w2, ic, out=ic, type="u4"', 'w2, w1, ic, out=ic, type="s4"', 'w2, w1, ic, out=ic, type=("s8", "u8")', 'w4[0], w4[1], w4[2], w4[3], w2, ic, out=ic, type="s8"',
                  "d1, d1, d2, out=d2", "d2, d1, d4, out=d4", "d4, d2, d4, out=d4", "d8, d4, d4, out=d4"):
        assert matrix(f"{declared}intrinsic.mma({right})") == [], right
    for wrong in ("w4, w2, ic, out=ic", "sa, ub, c, out=c", 'sa, ub, c, out=c, type="e4m3"', 'ua, ub, ic, out=ic, type=("e4m3", "s8")', 'ua, ub, ic, out=ic, type="e4m3"',
                  'w4, w2, ic, out=ic, type="s16"', 'w4, w2, ic, out=ic, type=("s8", "u8", "s8")', 'w2, w1, c, out=c, type="e4m3"', 'ua, ub, c, out=c, type="e5m2", saturate=True',
                  "odd, ub, ic, out=ic", "d4, d4, d4, out=d4", "d2, d4, d4, out=d4", "d8, d4, c, out=c", 'a, b, c, out=c, type="s8"', "e16, e16, ic, out=ic", "ub, sa, ic, out=ic",
                  "sa, ub, ic, out=ic, saturate=n"):
        assert matrix(f"{declared}intrinsic.mma({wrong})")[0] in ("SNAP018", "SNAP019"), wrong


def test_mma():
    assert matrix("intrinsic.mma(a, b, c, out=c)") == []
    assert matrix("intrinsic.mma(h, g, c, out=c)") == []
    assert matrix("intrinsic.mma(a[0], a[1], a[2], a[3], b[0], b[1], c, out=[c[0], c[1], c[2], c[3]])") == []
    for wrong in ("mma(a, b, c)", "mma(a, b, out=c)", "mma(a, c, c, out=c)", "mma(a, b, c, out=b)", "mma(h, b, c, out=c)", "mma(a, b, floats, out=c)", "mma(out=c)", "mma(a, b, c, out=c, huh=1)", "mma(a, b, c, out=floats)",
                  "mma(a, b, c, out=3)", "mma(a, b, c, out=[c[0], c[1], c[2]])"):
        assert matrix(f"intrinsic.{wrong}") == ["SNAP018"], wrong
    assert matrix("intrinsic.mma(a, b, c, out=c)", "thread[16]") == ["SNAP016"]
    assert matrix("intrinsic.mma(a, b, c, out=u)")[0] == "SNAP005"


def test_fragments_are_each_threads_own():
    assert matrix("v: float[4]\n    intrinsic.mma(a, b, c, out=v)") == ["SNAP005"]
    assert matrix("v: float[4]\n    intrinsic.mma(a, b, c, out=[v[0], c[1], c[2], c[3]])") == ["SNAP005"]
    assert matrix("v: f16[8]\n    intrinsic.ldmatrix(v, tile_[0, 8])") == ["SNAP005"]


def test_ldmatrix_and_stmatrix():
    assert matrix("intrinsic.ldmatrix(h, tile_[0, 8])") == [] and matrix("intrinsic.ldmatrix(g, tile_[0, 8], trans=True)") == []
    for wrong in ("ldmatrix(h)", "ldmatrix(h, tile_)", "ldmatrix(h, floats[0, 0])", "ldmatrix(a, tile_[0, 0])", "ldmatrix(h, x[0, 0])", "ldmatrix(h, tile_[0])", "ldmatrix(h, tile_[0, 0], huh=1)", "stmatrix(h, tile_[0, 0])"):
        assert matrix(f"intrinsic.{wrong}") == ["SNAP018"], wrong
    # a collective that writes memory needs its privilege to be the code's
    assert matrix("intrinsic.stmatrix(tile_[0, 0], h)") == ["SNAP009"]
    assert matrix("intrinsic.stmatrix(part[0, 0], h)", around="with partition(tile_, p=thread[32]) as part:") == []
    assert matrix("intrinsic.stmatrix(part[0, 0], h)", "thread[64]", around="with partition(tile_, p=thread[32]) as part:") == ["SNAP009"]
    assert matrix("intrinsic.stmatrix(part[0, 0], h)", around="with partition(tile_, p=thread[1]) as part:") == ["SNAP009"]


# ---- atomics ---------------------------------------------------------------------------------------------------------------------------------

SPELLED = {"and": "and_", "or": "or_"}


@pytest.mark.parametrize("op", sorted(ATOMICS))
def test_atomics_take_any_pointer_and_return_thread_1(op):
    word = SPELLED.get(op, op)
    values = ", 1" * ATOMICS[op].values
    call = f"atomic.{word}({{}}, 0{values})"
    elem = "u32" if op in COUNTING else "int"
    result = "" if op == "store" else f"x: {elem} @ thread[1] = "
    for memory in ("s", "g"):
        assert use(result + call.format(memory), params=f"g: ptr({elem}) @ grid[1]", before="") == [] if memory == "g" else True
    body = f"s: shared({elem}[4])\n"
    for group in ("block[1]", "thread[32]", "thread[1]"):
        assert in_block(body + f"with group({group}):\n    {result}{call.format('s')}") == []
    part = body + f"with partition(s, p={{}}, offset=0) as m:\n    {result}{call.format('m')}"
    for p in ("block[1]", "thread[32]", "thread[1]"):
        assert in_block(part.format(p)) == []
    if op == "store":
        assert in_block(body + f"x: int @ thread[1] = {call.format('s')}") == [("SNAP018", 2)]
    else:
        assert in_block(body + f"x: int = {call.format('s')}") == [("SNAP006", 2)]
        assert in_block(body + call.format("s")) == []
    for wrong in (f"atomic.{word}()", f"atomic.{word}(s)", f"atomic.{word}(s, 0{values}, 1)", f"atomic.{word}(3, 0{values})", f"atomic.{word}(s, 0.5{values})", f"atomic.{word}(s, 0{values}, huh=1)",
                  f"atomic.{word}(s, 0{values}, order='huh')", f"atomic.{word}(s, 0{values}, scope='huh')", f"atomic.{word}(s, 0{values}, order=3)"):
        assert in_block(body + wrong) == [("SNAP018", 2)], wrong
    for order in ("relaxed", "acquire", "release", "acq_rel", "seq_cst"):
        refused = op == "load" and order in ("release", "acq_rel") or op == "store" and order in ("acquire", "acq_rel")
        assert in_block(body + f"atomic.{word}(s, 0{values}, order='{order}', scope='block')") == ([("SNAP018", 2)] if refused else [])


def test_atomics_on_several_dimensions_and_types():
    assert in_block("s: shared(int[4, 4])\natomic.add(s, 1, 2, 3)\natomic.add(s, (1, 2), 3)") == []
    assert in_block("s: shared(int[4, 4])\natomic.add(s, 1, 2)") == [("SNAP018", 2)]
    assert in_block("s: shared(float[4])\natomic.add(s, 1, 2.5)") == []
    assert in_block("s: shared(float[4])\natomic.and_(s, 1, 2)") == [("SNAP018", 2)]
    assert in_block("s: shared(float4[4])\natomic.add(s, 1, 2)") == [("SNAP018", 2)]
    assert in_block("s: shared(int[4])\natomic.add(s, 1, 2.5)") == [("SNAP018", 2)]
    assert in_block("s: shared(int[4])\natomic.huh(s, 1, 2)") == [("SNAP018", 2)]
    assert in_block("s: shared(int[4])\nx: int @ thread[1] = 1 + atomic.add(s, 1, 2) * atomic.add(s, 1, 3)") == []


# ---- unsafe ----------------------------------------------------------------------------------------------------------------------------------


def unsafe(call: str, around: str = "", result: str = "int @ thread[32]") -> list[str]:
    body = (f"    {around}\n    " if around else "") + f"    return {call}" if not around else f"    {around}\n        return {call}"
    return [code for code, _ in program(f"@device\n@requires(thread[32])\ndef f(x: int @ thread[1], a: int[2] @ thread[1], p: ptr(int) @ thread[32]) -> {result}:\n{body}")]


def test_unsafe_takes_the_users_word():
    assert unsafe("unsafe.cuda('__reduce_add_sync(~0u, {x})', x=x, type=int)") == []
    assert unsafe("unsafe.cuda('{p}[0] + {x}', x=x, p=p, type=int)") == []
    assert unsafe("unsafe.cuda('{{ int y; }} {x}', x=x, type=int)") == []
    for wrong in ("unsafe.cuda('{y}', x=x, type=int)", "unsafe.cuda('3', x=x, type=int)", "unsafe.cuda('{x', x=x, type=int)", "unsafe.cuda(3, type=int)", "unsafe.cuda()", "unsafe.cuda('{x}', x=x)", "unsafe.cuda('{a}', a=a, type=int)",
                  "unsafe.cuda('{x}', x=x, type=3)", "unsafe.ptx('{x}', x=x, type=int)", "unsafe.cuda('{x}', x=x, type=int, cpu=3)", "unsafe.cuda('{}', x=x, type=int)", "unsafe.cuda('{0}', x=x, type=int)"):
        assert unsafe(wrong)[0] in ("SNAP018", "SNAP017"), wrong


def test_unsafe_stands_directly_in_its_function():
    call = "unsafe.cuda('{x}', x=x, type=int)"
    assert unsafe(call, "with group(thread[32]):") == ["SNAP017"]
    assert "SNAP017" in unsafe(call, "match split(thread):\n        case 32:\n            pass\n    with group(thread[1]):")
    assert unsafe(f"{call} if True else 3") == ["SNAP017"]


def test_unsafe_runs_a_stand_in_on_the_cpu():
    text = """
def twice(x):
    return 2 * x

@device
@requires(thread[1])
def doubled(x: int @ thread[1]) -> int @ thread[1]:
    return unsafe.cuda("2 * {x}", x=x, type=int, cpu=twice)

@kernel
@requires(grid[1], block[1], thread[32])
def k(out: ptr(int) @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(out, p=thread[1], offset=i) as mine:
            mine[0] = doubled(i) + 1
"""
    k = execute(text)["k"]
    out = np.zeros(32, np.int32)
    k[1](out)
    np.testing.assert_array_equal(out, 2 * np.arange(32) + 1)
    assert "2 * " in k.cuda()
