"""Every kind of expression in every place an expression can stand: refused with a SnapError, or lowered to CUDA; nothing else escapes."""

from __future__ import annotations

import warnings

import pytest
from check.checking import HEADER, execute

from snap.diag.error import SnapError

PROGRAM = """
import math
import snap
N = 4
big = 2**40
text = "hello"
helper = lambda k: k + 1
class Thing:
    n = 3

@device
@requires(thread[32])
def f(a: int @ thread[1], b: int @ thread[32]) -> int @ thread[1]:
    return a + b

@device
@requires(thread[1])
def g(a: ref(int[4]) @ thread[1], p: ptr(const(int)) @ thread[1]):
    a[0] = p[0]

@kernel
@requires(grid[1], block[1], thread[64])
def k(x: ptr(int) @ grid[1], c: ptr(const(int), (n, n)) @ grid[1], n: int @ grid[1], h: f16 @ grid[1], flag: bool @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(x, p=thread[1], offset=i) as mine:
            with group(block[1]):
                s: shared(int[64])
                m2: shared(float[8, 8])
                q: pipeline(shared(int[64]), 2)
                t: int @ thread[1] = id()
                w: int @ warp = id()
                a: int[4] @ thread[1]
                v: float4 @ thread[1] = float4(1.0)
                K: constexpr(int) = 3
                go = lambda k: 2 * k
                with group({group}):
"""

EXPRESSIONS = """
1|-1|1.5|True|None|"text"|2**70|2147483648|1e300|t|w|n|h|flag|K|N|big|text|Thing|Thing.n|math.pi|math|snap|missing
s|s[t]|s[0]|m2|m2[t % 8, 0]|m2[0]|x|x[0]|c|c[0, 0]|c[t, 0]|mine|mine[0]|q|q[0]|a|a[0]|a[t % 4]|a[9]|v|v.x|v.q
s.view(float4)|s.view(i8)[t]|tile(s, 0, 4)|tile(s, t, 4)[0]|id()|count(thread[1])|count(block[1])|count(3)
thread|thread[1]|thread[32]|warp|block[1]|grid[1]|int|int[4]|f16|float4|shared(int[4])
ptr(int)|const(int)|constexpr(int)|ref(int[4])|pipeline(shared(int[4]), 2)|f(t, w)|f(t, 0)|f(1)|g(a, s)|f|helper|helper(3)|go|go(3)
lambda k: k|lambda: 3|(1, 2)|[1, 2]|t + 1|t + v|t / 0|t % 3|h + 1|h + 1.5|s + 1|~t|-v|not t|t < 3|1 < t < 3|t and w|t or f(t, 0)
t if flag else w|f(t, 0) if flag else 3|s if flag else x|int(t)|bf16(h)|float4(t)|float4(1, 2, 3, 4)|int(v)|bool(s)
sqrt(t)|min(t, w, 3)|fast.exp2(h)|abs(True)|popc(t)|atomic.add(s, t, 1)|atomic.load(x, 0)|atomic.cas(s, 0, 1, 2)
intrinsic.any(t)|intrinsic.shfl(t, w)|intrinsic.broadcast(t)|intrinsic.reduce_add(v)|intrinsic.bitcast(h, u16)|intrinsic.syncwarp()
intrinsic.elect()|intrinsic.missing(t)|async_copy(s[0], x[0])|unsafe.cuda("3", type=int)|range(3)|split(thread)|group(thread[1])
partition(s, p=thread[1])|stage(q)|print(3)|len(a)|x.shape|t.real|"{t}"|a.view(float)|a.view(float)[1]|i64(t) * 3|u8(t)
""".strip().replace("\n", "|").split("|")

# One statement each; `@` begins the next, deeper line.
CONTEXTS = """
z = {}
z: int @ thread[1] = {}
z: int = {}
z: float4 @ thread[1] = {}
z: {} = 3
z: int @ {} = 3
z: int[{}] @ thread[1]
t = {}
t += {}
a[{}] = 1
a[0] = {}
v.x = {}
mine[{}] = 1
mine[0] = {}
mine[0] <<= {}
{}
{}[0] = 1
{} += 1
{}.x = 1
if {}:@pass
while {}:@break
for z in range({}):@pass
for z in {}:@pass
with group({}):@pass
with partition({}, p=thread[1]) as z:@pass
with partition(s, p={}) as z:@pass
with partition(s, p=thread[1], f={}) as z:@pass
with partition(s, p=thread[1], f=lambda k: {}) as z:@z[0] = 1
with partition(s, p=thread[1], offset={}) as z:@z[0] = 1
with partition(s, p=thread[1], disjoint={}) as z:@pass
with claim({}, p=thread[32]) as z:@pass
with stage(q, {}) as z:@pass
with stage({}) as z:@pass
with {}:@pass
match split({}):@case 1:@pass
match split(thread, {}):@case 0:@pass
assert {}
return {}
f({}, 0)
f(0, {})
g({}, s)
g(a, {})
z: int @ thread[1] = s[{}]
z: float @ thread[1] = m2[0, {}]
z: int @ thread[1] = tile(s, {}, 4)[0]
z: int @ thread[1] = tile({}, 0, 4)[0]
z = int({})
z = float4({})
z = sqrt({})
z = {} + 1
z = {} + {}
z = {} if {} else {}
z = {} and {}
z = -{}
z = ({}).x
z = {}(3)
z = count({})
atomic.add({}, 0, 1)
atomic.add(s, {}, 1)
atomic.add(s, 0, {})
z: int @ thread[1] = intrinsic.shfl({}, {})
intrinsic.mma({}, out={})
async_copy(mine[0], {})
unsafe.cuda({})
unsafe.cuda("hole", hole={})
""".strip().splitlines()


def statement(context: str, expression: str) -> list[str]:
    """The lines of one statement; none if they are not Python."""
    head, *inner = context.split(":@") if ":@" in context else [context]
    head = head.replace("{}", f"({expression})" if " " in expression else expression)
    lines = [*(f"{'    ' * depth}{line}:" for depth, line in enumerate([head, *inner[:-1]])), "    " * len(inner) + inner[-1]] if inner else [head]
    try:
        compile("def k():\n    for _ in ():\n" + "\n".join("        " + line for line in lines), "<try>", "exec", dont_inherit=True)
    except SyntaxError:
        return []
    return lines


def kernel(statements: list[list[str]], group: str) -> tuple[str, list[int]]:
    """All of them in one kernel, each in a block of its own; and the line each begins at."""
    lines, starts = PROGRAM.replace("{group}", group).splitlines(), []
    for each in statements:
        lines.append(" " * 20 + "if True:")
        starts.append(len(lines) + 1 + HEADER.count("\n"))
        lines += [" " * 24 + line for line in each]
    return "\n".join([*lines, " " * 20 + "pass"]), starts


def errors_of(text: str) -> list[SnapError]:
    try:
        assert "__global__" in execute(text)["k"].cuda()
    except SnapError as error:
        assert all(each.lineno >= 1 and each.render() for each in error.all)
        return error.all
    return []


@pytest.mark.parametrize("context", CONTEXTS)
def test_expression_in(context):
    group = ("block[1]", "thread[32]")[CONTEXTS.index(context) % 2]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        left = [lines for expression in EXPRESSIONS if (lines := statement(context, expression))]
        while left:  # the front end's errors come first, then the checker's, then what cannot be synchronized
            text, starts = kernel(left, group)
            wrong = {error.lineno for error in errors_of(text)}
            legal = [lines for lines, start in zip(left, starts) if wrong.isdisjoint(range(start, start + len(lines)))]
            if len(legal) == len(left):
                assert not wrong, text
                break
            left = legal
