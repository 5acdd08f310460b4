"""Every kind of expression in every place of boxes, tensor cores, clusters, stages and turns: the checker accepts it or raises a SnapError."""

from __future__ import annotations

import textwrap
import warnings

import pytest
from check.checking import kernel_text, typed
from check.test_nothing_crashes import EXPRESSIONS, statement

PARAMS = ("A: ptr(const(bf16), (M, K)) @ grid[1], X: ptr(float, (M, K)) @ grid[1], x: ptr(int) @ grid[1], c: ptr(const(int), (n, n)) @ grid[1], "
          "M: int @ grid[1], K: int @ grid[1], n: int @ grid[1], h: f16 @ grid[1], flag: bool @ grid[1]")
IN_CLUSTER = """
with group(grid[1]):
    with partition(x, p=thread[1], offset=0) as mine:
        with group(cluster[1]):
            xs: shared(bf16[64, 64], swizzle=128, across=block)
            cs: shared(bf16[64, 64], swizzle=128, copies=block)
            q: pipeline(shared(float[64, 64], across=block), 3)
            cq: pipeline(shared(bf16[2, 64, 64], swizzle=128, copies=block), 2, lag=1)
            own: int @ block[1] = id()
            w: int @ warp = id()
            t: int @ thread[1] = id()
            a: int[4] @ thread[1]
            acc: float[32] @ thread[1]
            v: float4 @ thread[1] = float4(1.0)
            with claim(cs, p=thread[128]) as s, claim(xs, p=thread[128]) as o:
                match split(thread):
                    case 128:
                        for i in range(n):
                            pass
{role}
{whole}
"""
MORE = "o|xs|cs|xs[own, 0, 0]|xs[1 - own, 0, 0]|cs[0, 0]|q|cq|acc|acc[0]|s.T|tile(s, (0, 0), (8, 64))|tile(s, (8 * i, 0), (8, 64)).T|tile(xs, (0, 0, 0), (1, 64, 64))|A|X|A.view(u16)|s.view(u16)|own|i|(own, own)|(0, 0)|(i, n)".split("|")

IN_ROLE = """
async_copy({}, A, at=(0, 0))
async_copy(s, {}, at=(0, 0))
async_copy(s, A, at={})
async_copy(s, A, at=({}, 0))
async_copy({}, {}, at={})
async_copy(X, {}, at=(0, 0))
async_copy(tile(s, ({}, 0), (8, 64)), A, at=(0, 0))
async_reduce({}, s, at=(0, 0))
async_reduce(X, {}, at=(0, 0))
async_reduce(X, s, at=(0, 0), op={})
wgmma({}, s, s)
wgmma(acc, {}, s)
wgmma(acc, s, {})
wgmma(acc, s, s, zero={})
wgmma(acc, s, s, type={})
wgmma(acc, ({}).T, s)
store_acc({}, acc)
store_acc(o, {})
store_acc(o, acc, first={})
async_copy({}, o, at=(0, 0))
intrinsic.setmaxnreg({})
with group({}):@with turn():@pass
with turn({}):@pass
if {}:@async_copy(s, A, at=(0, 0))
for j in range({}):@async_copy(s, A, at=(8 * j, 0))
""".strip().splitlines()
IN_WHOLE = """
z: shared(float[4], across={})
z: shared(float[4], copies={})
z: shared(float[4, {}], across=block)
z: pipeline(shared(float[4], across=block), 2, lag={})
z: pipeline(shared(float[4], across=block), {})
z: float @ thread[1] = xs[{}, 0, 0]
z: float @ thread[1] = xs[own, {}, 0]
xs[{}, 0, 0] = 1
with partition(xs, p=thread[1], f=lambda k: ({}, k, 0)) as z:@z[0] = bf16(1.0)
with partition(q, p=thread[1], f=lambda k: ({}, k, 0)) as z:@pass
with claim({}, p=thread[128]) as z:@pass
with claim(xs, p={}) as z:@pass
with stage(q, {}) as z:@z[0, 0, 0] = 1
with stage({}) as z:@pass
for j in range({}):@with stage(q, j) as z:@pass
with partition(xs, p=block[1], f=lambda i, j: ({}, i, j)) as z:@with group(block[1]):@async_copy(z, A, at=(0, 0))
""".strip().splitlines()


def kernel(context: str, statements: list[list[str]]) -> tuple[str, list[int]]:
    """All of them in one body, each in a block of its own; and the line of the file each begins at."""
    text = "\n".join(line for each in statements for line in ("if True:", *("    " + line for line in each))) or "pass"
    role, whole = (text, "pass") if context in IN_ROLE else ("pass", text)
    code = IN_CLUSTER.format(role=textwrap.indent(role, " " * 24), whole=textwrap.indent(whole, " " * 12)).strip("\n")
    first = kernel_text("pass", "", "", "")[1] + 1 + IN_CLUSTER.strip("\n").splitlines().index("{role}" if context in IN_ROLE else "{whole}")
    starts = []
    for each in statements:
        starts.append(first + 1)
        first += len(each) + 1
    return code, starts


@pytest.mark.parametrize("context", [*IN_ROLE, *IN_WHOLE])
def test_expression_in(context):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        left = [lines for expression in [*EXPRESSIONS, *MORE] if (lines := statement(context, expression))]
        tried = len(left)
        while left:  # the front end's errors come first, then the checker's
            code, starts = kernel(context, left)
            found = typed(code, requires="grid[1], cluster[1], block[2], thread[256]", params=PARAMS, helper=lambda k: k + 1, N=4)
            if not isinstance(found, list):
                break
            assert all(error.lineno >= 1 and error.render() for error in found)
            wrong = {error.lineno for error in found}
            legal = [lines for lines, start in zip(left, starts) if wrong.isdisjoint(range(start, start + len(lines)))]
            assert len(legal) < len(left), "\n".join(error.render() for error in found)
            left = legal
        assert tried and not isinstance(found, list) or not left
