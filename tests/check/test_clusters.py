"""Shared memory of a cluster: a part for each block, or a copy in each."""

from __future__ import annotations

import textwrap

import pytest
from check.checking import accepted, refused

from snap._compiler.ir import nodes as ir
from snap._compiler.ir.types import CLUSTER1
from snap._compiler.ir.walk import expressions, statements

REQUIRES = "grid[1], cluster[1], block[2], thread[256]"
PARAMS = "A: ptr(const(float), (M, K)) @ grid[1], y: ptr(float) @ grid[1], M: int @ grid[1], K: int @ grid[1]"
DECLARED = """
x: shared(float[32, 32], across=block)
c: shared(float[32, 32], copies=block)
q: pipeline(shared(float[32, 32], across=block), 2)
cq: pipeline(shared(float[32, 32], copies=block), 2, lag=1)
b: int @ block[1] = id()
w: int @ warp = id()
t: int @ thread[1] = id() % 256
"""


def cluster(code: str) -> str:
    body = "with group(grid[1]):\n    n: int @ cluster[1] = id()\n    with group(cluster[1]):\n"
    return body + textwrap.indent(DECLARED.strip("\n") + "\n" + textwrap.dedent(code), "        ")


def made(code: str, kind: type) -> list:
    return [s for s in statements(accepted(cluster(code), params=PARAMS, requires=REQUIRES).body) if isinstance(s, kind)]


def loads(code: str) -> list[ir.MemAccess]:
    found = accepted(cluster(code), params=PARAMS, requires=REQUIRES)
    return [e.access for s in statements(found.body) for e in expressions(s) if isinstance(e, ir.Load)]


def wrong(code: str, expected: str, *fragments: str) -> None:
    refused(cluster(code), expected, *fragments, params=PARAMS, requires=REQUIRES)


def test_what_is_declared():
    x, c, q, cq = (s.obj for s in made("pass", ir.DeclareShared))
    assert [o.spread for o in (x, c, q, cq)] == ["across", "copies", "across", "copies"]
    assert all(o.privilege == CLUSTER1 for o in (x, c, q, cq))
    assert [n.value for n in x.shape] == [32, 32] and [n.value for n in q.shape] == [2, 32, 32]
    assert (x.depth, q.depth, q.lag, cq.lag) == (0, 2, None, 1)


def test_memory_is_accounted_for_one_block():
    found = accepted(cluster("pass"), params=PARAMS, requires=REQUIRES)
    assert found.smem == (1 + 1 + 2 + 2) * 4096


@pytest.mark.parametrize("type, message", [
    ("shared(float[4], across=block)", "belongs to one cluster, and this code runs at `block[1]`"), ("pipeline(shared(float[4], copies=block), 2)", "belongs to one cluster"),
])
def test_where_it_is_declared(type, message):
    refused(f"with group(grid[1]):\n    with group(block[1]):\n        z: {type}", "SNAP012", message, "require clusters")
    refused(f"with group(grid[1]):\n    with group(block[1]):\n        z: {type}", "SNAP012", "`with each(cluster):`", requires=REQUIRES)
    refused(f"with group(grid[1]):\n    z: {type}", "SNAP012", "grid[1]", requires=REQUIRES)


def test_memory_of_a_block_is_not_declared_in_a_cluster():
    wrong("z: shared(float[4])", "SNAP012", "belongs to one block", "across=block")
    wrong("z: shared(float[4], across=block) @ block[1]", "SNAP012", "is at `cluster[1]`")
    before = "@device\n@requires(cluster[1])\ndef f():\n    z: shared(float[4], across=block)\n"
    refused("pass", "SNAP012", "how many blocks the cluster has", "cluster[1], block[2]", before=before)


@pytest.mark.parametrize("type, fragment", [
    ("shared(float[4], across=thread)", "`across=block`"), ("shared(float[4], across=3)", "`across=block`"), ("shared(float[4], across=block, copies=block)", "either `across`"),
    ("shared(float[4], around=block)", "no option `around`"), ("pipeline(shared(float[4], across=block), 2, lag=2)", "less than the 2 there are"), ("pipeline(shared(float[4], across=block), 2, lag=-1)", "at least 0"),
    ("pipeline(shared(float[4], across=block), 2, lag=0.5)", "must be an integer"), ("pipeline(shared(float[4], across=block), 2, late=1)", "wrong arguments"),
])
def test_options(type, fragment):
    wrong(f"z: {type}", "SNAP018", fragment)


def test_parts_are_named_by_the_rank_of_their_block():
    [other] = loads("z: float @ thread[1] = x[1 - b, t % 32, 0]")
    assert isinstance(other.block, ir.Binary) and len(other.index) == 2
    [own] = loads("z: float @ thread[1] = x[b, t % 32, 0]")
    assert own.block is None and len(own.index) == 2
    [first] = loads("z: float = x[0, 1, 2]")
    assert isinstance(first.block, ir.Const)
    [copy] = loads("z: float = c[1, 2]")
    assert copy.block is None
    [staged] = loads("with stage(q, 0) as s:\n    z: float @ block[1] = s[1 - b, 1, 2]")
    assert len(staged.index) == 3 and staged.block is not None
    [seen] = loads("z: float4 @ thread[1] = x.view(float4)[1 - b, t % 32, 0]")
    assert seen.block is not None and len(seen.index) == 2


def test_a_rank_that_is_assigned_may_be_another():
    [access] = loads("b2: int @ block[1] = id()\nz: float @ thread[1] = x[b2, 0, 0]\nb2 = 0")
    assert access.block is not None


def test_indices_of_parts():
    wrong("z: float @ thread[1] = x[0, 0]", "SNAP018", "takes 3 indices, not 2")
    wrong("z: float @ thread[1] = x[2, 0, 0]", "SNAP018", "whose dimension here is 2")
    wrong("z: float = x[b, 0, 0]", "SNAP006", "`b` may differ between blocks of this cluster")


def test_a_partition_names_the_block():
    [write] = [s for s in made("with partition(x, p=thread[1], f=lambda i: (b, i, t % 32)) as m:\n    m[0] = 1.0", ir.Assign)]
    assert write.target.access.block is None and len(write.target.access.index) == 2
    [write] = [s for s in made("with partition(x, p=thread[1], f=lambda i: (1 - b, i, t % 32)) as m:\n    m[0] = 1.0", ir.Assign)]
    assert write.target.access.block is not None
    [write] = [s for s in made("with partition(x, p=block[1], f=lambda i, j: (id(), i, j)) as m:\n    with group(block[1]):\n        with partition(m, p=thread[1], f=lambda k: (k, 0)) as z:\n            z[0] = 1.0", ir.Assign)]
    assert write.target.access.block is None
    wrong("with partition(x, p=thread[1], f=lambda i: (i, t % 32)) as m:\n    m[0] = 1.0", "SNAP018", "takes 3 indices, and the index function returns 2")


def test_each_block_claims_its_own_part():
    code = "with claim(x, p=thread[32]) as mine:\n    match split(thread):\n        case 32:\n            with partition(mine, p=thread[1], f=lambda i: (i, t % 32)) as z:\n                z[0] = 1.0"
    [claim] = made(code, ir.Claim)
    assert claim.handle.privilege.n == 32
    [write] = made(code, ir.Assign)
    assert write.target.access.block is None and len(write.target.access.index) == 2
    wrong("with claim(tile(x, (1, 0, 0), (1, 32, 32)), p=thread[32]) as mine:\n    pass", "SNAP018", "this window names blocks", "claim the whole")


def test_one_block_claims_all_parts():
    [access] = loads("with claim(x, p=block[1]) as all:\n    match split(block):\n        case 1:\n            z: float = all[1, 0, 0]")
    assert isinstance(access.block, ir.Const)


def test_copies_stay_one_value():
    for code in ("with partition(c, p=thread[1], f=lambda i: (i, t % 32)) as m:\n    m[0] = 1.0", "atomic.add(c, 0, 0, 1.0)",
                 "with partition(c, p=thread[1], f=lambda i: (i, t % 32)) as m:\n    async_copy(m[0], y[0])"):
        wrong(code, "SNAP009", "every block of the cluster holds a copy of `c`", "across=block")


CLAIMED = """
with stage(cq) as s:
    with claim(s, p=thread[32]) as mine:
        match split(thread):
            case 32:
                {}
"""


def copying(code: str) -> str:
    return CLAIMED.format(textwrap.indent(code, " " * 16).strip())


def test_every_block_copies_its_share():
    [copy] = made(copying("async_copy(mine, A, at=(n, 0))"), ir.BoxCopy)
    assert copy.tile.access.view.obj.spread == "copies" and copy.box == (32, 32)
    assert made(copying("for i in range(K):\n    if i < n:\n        async_copy(mine, A, at=(32 * i, n))"), ir.BoxCopy)


@pytest.mark.parametrize("code, fragments", [
    ("async_copy(mine, A, at=(b, 0))", ("mean different boxes", "may differ between blocks")),
    ("async_copy(tile(mine, (b * 16, 0), (16, 32)), A, at=(0, 0))", ("mean different boxes",)),
    ("if b == 0:\n    async_copy(mine, A, at=(0, 0))", ("get here a different number of times", "leaves a hole")),
    ("for i in range(b):\n    async_copy(mine, A, at=(0, 0))", ("get here a different number of times",)),
    ("i: int = 0\nwhile i < 4:\n    i += 1\n    async_copy(mine, A, at=(0, 0))", ("get here a different number of times",)),
    ("for i in range(4):\n    async_copy(mine, A, at=(0, 0))\n    if b == 1:\n        break", ("get here a different number of times",)),
    ("for i in range(4):\n    async_copy(mine, A, at=(b + i, 0))", ("mean different boxes",)),
])
def test_blocks_that_do_not_act_alike(code, fragments):
    wrong(copying(code), "SNAP006", *fragments)


@pytest.mark.parametrize("decides, fits", [("y[0] > 0.0", False), ("M > 3", True), ("x[0, 0, 0] > 0.0", True), ("A[0, 0] > 0.0", True), ("M > 3 and y[0] > 0.0", False)])
def test_what_one_thread_of_each_block_reads_may_have_changed_for_another(decides, fits):
    code = f"with claim(c, p=thread[1]) as m:\n    match split(thread):\n        case 1:\n            if {decides}:\n                async_copy(m, A, at=(0, 0))"
    if fits:
        accepted(cluster(code), params=PARAMS, requires=REQUIRES)
    else:
        wrong(code, "SNAP006", "`y` may change while cluster[1] reads it")


def test_some_blocks_only():
    wrong("with partition(c, p=block[1]) as m:\n    match split(block):\n        case 1:\n            async_copy(m, A, at=(0, 0))", "SNAP006", "only some of them get here")


def test_shares_come_out_even():
    wrong("with claim(c, p=thread[32]) as m:\n    match split(thread):\n        case 32:\n            async_copy(tile(m, (0, 0), (31, 32)), A, at=(0, 0))", "SNAP018", "does not divide")
    wrong("z: shared(float[2, 8], copies=block)\nwith claim(z, p=thread[32]) as m:\n    match split(thread):\n        case 32:\n            async_copy(m, A, at=(0, 0))", "SNAP018", "32 bytes; this must be a multiple of 128")


def test_boxes_go_into_the_own_part():
    [copy] = made("with partition(x, p=block[1], f=lambda i, j: (b, i, j)) as m:\n    with group(block[1]):\n        async_copy(m, A, at=(32 * b, 0))", ir.BoxCopy)
    assert copy.tile.access.block is None
    wrong("with partition(x, p=block[1], f=lambda i, j: (1 - b, i, j)) as m:\n    with group(block[1]):\n        async_copy(m, A, at=(0, 0))", "SNAP018", "the block's own part")
    wrong("async_copy(x, A, at=(0, 0))", "SNAP016", "runs at `cluster[1]`")


def test_other_parts_are_not_for_matrices_and_copies_of_elements():
    wrong("with partition(x, p=thread[1], f=lambda i: (1 - b, i, t % 32)) as m:\n    async_copy(m[0], A[0, 0])", "SNAP018", "the block's own part")


TOTAL = """
@device
@requires(thread[32])
def total(p: ptr(const(float), (32, 32)) @ thread[32]) -> float @ thread[32]:
    return p[0, 0] + p[31, 31]
"""


def test_a_function_takes_the_part_of_one_block():
    code = "with partition(x, p=warp, f=lambda i, j: ({}, i, j)) as m:\n    with group(warp):\n        z: float = total(m)"
    found = accepted(cluster(code.format("b")), params=PARAMS, requires=REQUIRES, before=TOTAL)
    [call] = [s for s in statements(found.body) if isinstance(s, ir.Call)]
    assert call.handles[0].obj.spread == "across"
    refused(cluster(code.format("1 - b")), "SNAP018", "a function takes the part of one block", params=PARAMS, requires=REQUIRES, before=TOTAL)
    refused("pass", "SNAP018", "a pointer does not say `across=`", params="p: ptr(shared(float, across=block)) @ grid[1]")


@pytest.mark.parametrize("declared, size, call", [
    ("h: shared(f16[32, 32], copies=block)\nmine: f16[8] @ thread[1]", 32, "intrinsic.stmatrix(m[0, 0], mine)"),
    ("h: shared(float[64, 32], copies=block)\nmine: float[16] @ thread[1]", 128, "store_acc(m, mine)"),
])
def test_fragments_are_not_stored_to_one_blocks_copy(declared: str, size: int, call: str):
    claimed = f"with claim(h, p=thread[{size}]) as m:\n    match split(thread):\n        case {size}:\n            {call}"
    wrong(f"{declared}\n{claimed}", "SNAP009", "every block of the cluster holds a copy of `h`")
