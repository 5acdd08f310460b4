"""Instructions of one's own: what is refused of them, how text and meaning are compared, and what the other stages make of them."""

from __future__ import annotations

import numpy as np
import pytest
from check.checking import errors, execute, program

import snap

ORED = """\
@instruction(warp, text="__reduce_or_sync(~0u, {v})")
def ored(v: u32 @ thread[1]) -> u32:
    return intrinsic.reduce_or(v)
"""


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ('@instruction(thread, text="f({x});")\ndef g(x: int, y: int):\n    pass', ("SNAP018", 2)),
        ('@instruction(thread, text="f({x}, {y});")\ndef g(x: int):\n    pass', ("SNAP018", 2)),
        ('@instruction(thread, text="f({x}")\ndef g(x: int) -> int:\n    return x', None),  # whose parentheses are CUDA's affair
        ('@instruction(thread, text="f({x")\ndef g(x: int) -> int:\n    return x', ("SNAP018", 2)),
        ('@instruction(thread, text="f({d[0]}, {d[2]});")\ndef g(d: ref(int[2])):\n    pass', ("SNAP018", 2)),
        ('@instruction(thread, text="f({d[0]:u32});")\ndef g(d: ref(f16[2])):\n    pass', None),
        ('@instruction(thread, text="f({d[0]:u32});")\ndef g(d: ref(f16[1])):\n    pass', ("SNAP018", 2)),
        ('@instruction(thread, text="{result} = f({x});")\ndef g(x: int, result: int) -> int:\n    return x', ("SNAP018", 2)),
        ('@instruction(thread, text="f({x})", meaning=abs)\ndef g(x: int) -> int:\n    return abs(x)', ("SNAP018", 3)),
        ('@instruction(block, text="f({x})", meaning=abs)\ndef g(x: int) -> int:\n    pass', ("SNAP018", 2)),
        ('@instruction(thread[64], text="f({x})", meaning=abs)\ndef g(x: int) -> int:\n    pass', ("SNAP018", 2)),
        ('@instruction(thread[8], text="f({x})", meaning=abs)\ndef g(x: int) -> int:\n    pass', None),
        ('@instruction(thread, text="f({x})", meaning=abs)\ndef g(x: ptr(int)) -> int:\n    pass', ("SNAP018", 2)),
        ('@instruction(thread, text="f({x})", meaning=3)\ndef g(x: int) -> int:\n    pass', ("SNAP018", 1)),
        ('@instruction(thread, text="f({x});", writes="x")\ndef g(x: int):\n    pass', ("SNAP018", 2)),
        ('@instruction(thread)\ndef g(x: int):\n    pass', ("SNAP018", 1)),
        ('@instruction(text="f({x});")\ndef g(x: int):\n    pass', ("SNAP018", 1)),
        ('@instruction(thread, text="f({x});", read="x")\ndef g(x: int):\n    pass', ("SNAP018", 1)),
        ('@instruction(thread, text="f({x})")\ndef g(x: int) -> int:\n    pass', ("SNAP018", 2)),
        ('@instruction(warp, text="f({x})")\ndef g(x: int @ thread[1]) -> int:\n    return x', ("SNAP006", 3)),
        ('@instruction(block, text="f({x});")\ndef g(x: ptr(int)):\n    s: shared(int[4])', ("SNAP017", 3)),
        # of what shapes and constants say, the text may have no need
        ('@instruction(thread, text="f({x});")\ndef g(x: ptr(int, (n,)), n: int, k: constexpr(int)):\n    pass', None),
    ],
)
def test_texts_and_meanings(code, found):
    assert program(code) == ([] if found is None else [found])


def test_they_run_where_their_group_is_held():
    body = "with each(thread, x) as i:\n    x[i] = ored(x[i])"
    assert [e.code for e in errors(body, "grid[1], block[1], thread[64]", "x: ptr(u32)", before=ORED)] == ["SNAP008"]


PUT = """\
@instruction(warp, text="put_all({s});")
def put(s: ptr(shared(int))):
    with each(thread, s) as lane:
        s[lane] = lane
"""


@pytest.mark.parametrize(
    ("declared", "part", "code"),
    [
        ("shared(int[64])", "p=warp, offset=32 * w", None),
        ("shared(int[64])", "p=warp, f=lambda i: 32 * w + i", None),
        ("shared(int[64])", "p=warp, f=lambda i: i + 32 * w + 1 - 1", None),
        ("shared(int[64])", "p=warp, f=lambda i: 2 * i", "SNAP015"),
        ("shared(int[64])", "p=warp, f=lambda i: 63 - i", "SNAP015"),
        ("shared(int[64])", "p=warp, f=lambda i: i + i", "SNAP015"),
        ("shared(int[32, 32])", "p=warp, f=lambda i: (i, 3)", "SNAP015"),
        ("shared(int[64, 32], swizzle=128)", "p=warp, f=lambda i: (3, i)", "SNAP015"),
    ],
)
def test_the_address_of_memory_stands_for_it(declared, part, code):
    body = f"with each(block):\n    w: int @ warp = id()\n    s: {declared}\n    with partition(s, {part}) as t, group(warp):\n        put(t)"
    assert [e.code for e in errors(body, "grid[1], block[1], thread[64]", before=PUT)] == ([] if code is None else [code])


def test_no_barrier_is_within_a_text():
    two = PUT + "    with each(thread, s) as lane:\n        s[31 - lane] += 1\n"
    assert [e[0] for e in program(two)] == ["SNAP020"]
    called = ORED + "\n\n" + PUT + """

@kernel(threads=64)
def k(x: ptr(int)):
    with each(block, x):
        s: shared(int[64])
        with each(warp, s) as w:
            with partition(s, p=warp, offset=32 * w) as t, group(warp):
                put(t)
        with each(thread, x) as t:
            x[t] = s[63 - t]
        with each(warp, s) as w:
            with partition(s, p=warp, offset=32 * w) as t, group(warp):
                put(t)
"""
    k = execute(called)["k"]
    assert [(point.kind, point.object, point.span.line) for point in k.syncs()] == [("block", "s", 21), ("block", "s", 23)]
    assert k.cuda().count("put_all(") == 1 and k.cuda().count("__syncthreads") == 2


def test_a_role_that_loads_does_not_leave_an_instruction_to_one_thread():
    """The text is executed by the whole group, though its meaning could be computed by any thread."""
    code = ORED.replace("intrinsic.reduce_or(v)", "v").replace("v: u32 @ thread[1]", "v: u32") + """

@kernel(threads=64)
def k(x: ptr(const(float), (64, 64)), y: ptr(float), n: u32):
    with each(block, y):
        compute, load = roles(32, 32)
        s: pipeline(shared(float[64]), 2)
        for i in range(4):
            with stage(s) as row:
                with load(row):
                    m: u32 = ored(n)
                    async_copy(row, x, at=(int(m) + i, 0))
                with compute(y), each(thread, y) as t:
                    y[t] = row[t]
"""
    text = execute(code)["k"].cuda()
    before = text[text.index("__global__") : text.index("ored(n)")].rpartition("if (threadIdx.x == 32)")[2]
    assert before.count("{") == before.count("}") > 0  # the load's preparation is one thread's, and over


def test_both_machines_run_the_meaning():
    code = """\
@instruction(thread[4], text="f({v}, {d[0]}, {d[1]})", meaning=meaning)
def turned(v: int @ thread[1], d: ref(int[2])) -> int @ thread[1]:
    pass


@kernel(threads=40)
def k(x: ptr(int), y: ptr(int), z: ptr(int)):
    d: int[2] @ thread[1] = [3, 4]
    with each(block, x, y, z):
        with each(thread[4], x, y, z) as q:
            lane: int @ thread[1] = id()
            v: int @ thread[1] = x[4 * q + lane]
            if q != 5:
                v = turned(v, d)
            with each(thread, x, y, z):
                x[4 * q + lane], y[4 * q + lane], z[4 * q + lane] = v, d[0], d[1]
"""

    def meaning(v: np.ndarray, d: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        assert v.shape[1] == 4 and d.shape == (2, *v.shape) and (v // 4 != 5).all()  # whole groups, and those that take part
        return v[:, ::-1], np.stack([v + 1, d[0] + d[1]])

    k = execute(code, meaning=meaning)["k"]
    for seed in (None, 1, 2):
        x, y, z = np.arange(40, dtype=np.int32), np.zeros(40, np.int32), np.zeros(40, np.int32)
        k.launch(x, y, z, blocks=1, seed=seed)
        skipped = np.arange(40) // 4 == 5
        np.testing.assert_array_equal(x, np.where(skipped, np.arange(40), np.arange(40).reshape(10, 4)[:, ::-1].reshape(-1)))
        np.testing.assert_array_equal(y, np.where(skipped, 3, np.arange(40) + 1))
        np.testing.assert_array_equal(z, np.where(skipped, 4, 7))


def test_what_they_promise_is_known():
    code = """\
@instruction(thread, text="f({x})", meaning=lambda x: x & 7, ensures=lambda result: (result >= 0, result < 8))
def low(x: int) -> int:
    pass


@kernel(threads=32, where=lambda blocks, x: (blocks == 1, len(x) >= 32))
def k(x: ptr(int)):
    with each(block, x):
        s: shared(int[8])
        with each(thread, s) as t:
            if t < 8:
                s[t] = t
        with each(thread, x) as t:
            x[t] = s[low(t)]
"""
    proof = execute(code)["k"].prove(seconds=60)
    assert proof.verdict == "proved", str(proof)
    assert "the text of `low` does what its meaning says" in proof.assumed
    assert sum("(trusted: `low` means what its NumPy function computes)" in one for one in proof.assumed) == 2
    assert execute(code.replace("result < 8", "result < 9"))["k"].prove(seconds=60).verdict == "unknown"


def test_a_text_that_says_what_it_means():
    assert snap.check_instruction(execute(ORED)["ored"], target="ptx") == []


@pytest.mark.parametrize(
    ("code", "what", "operands"),
    [
        ('@instruction(thread, text="{a} & {b}")\ndef f(a: u32, b: u32) -> u32:\n    return a | b', "result", {"a", "b"}),
        ('@instruction(thread, text="{d[0]} += 0; {d[1]} = {a};")\ndef f(d: ref(int[2]), a: i16):\n    d[1] = a + 1', "d", {"d", "a"}),
        ('@instruction(thread, text="*{p} = {a};")\ndef f(p: ptr(shared(int), (2,)), a: bool):\n    p[1] = 1 if a else 0', "p", {"a"}),
        ('@instruction(warp, text="{p}[threadIdx.x] = {a};")\ndef f(p: ptr(f64), a: f64 @ thread[1]):\n    with each(thread, p) as t:\n        p[t] = a', "p", {"a"}),
        ('@instruction(thread, text="{result[0]} = {a}; {result[1]} = {a};")\ndef f(a: f16) -> tuple[f16, f16]:\n    return a, -a', "result.1", {"a"}),
        ('@instruction(thread, text="{v}.x")\ndef f(v: float4) -> float:\n    return v.y', "result", {"v"}),
        ('@instruction(block[1], thread[96], text="__syncthreads_count({c}) + 1")\ndef f(c: bool @ thread[1]) -> int:\n    return intrinsic.syncthreads_count(c)', "result", {"c"}),
    ],
)
def test_a_text_that_says_something_else(code, what, operands):
    found = snap.check_instruction(execute(code)["f"], target="ptx")
    assert found and {one.what for one in found} == {what}
    assert set(found[0].operands) == operands
    first = found[0]
    assert f"`{what}` of `f`, thread {first.at[0]}" in str(first) and f"{first.text} by its text, {first.meaning} by its meaning" in str(first)


RECORDS = """\
from typing import NamedTuple


class Pair(NamedTuple):
    first: float
    second: int


class Mixed(NamedTuple):
    k: u8
    v: float
    pair: Pair


@instruction(thread, text='asm volatile("ld.v2.u32 {{%0, %1}}, [%2];" : "=r"(*(unsigned*)&{result.first}), "=r"({result.second}) : "l"({p}) : "memory");')
def load(p: ptr(const(Pair))) -> Pair:
    return p[0]


@instruction(thread, text="((float*)({p} + 1))[1] = {x}; {p}[1] = 7;")
def store(p: ptr(Pair, (2,)), x: float):
    p[1].second, p[1].first = 7, x


@instruction(warp, text="*(float*)({p} + 4 * threadIdx.x % 128 + 1) = {x};")
def fill(p: ptr(shared(Mixed), (32,)), x: float @ thread[1]):
    with each(thread, p) as t:
        p[t].v = x


@kernel(threads=32, blocks=1)
def k(x: ptr(const(Pair), (32,)), y: ptr(Pair, (32,)), z: ptr(const(Pair)), out: ptr(float, (32,))):
    t: int @ thread[1] = id()
    with partition(x, p=thread[1], offset=t) as mine, partition(z, p=thread[1], offset=2 * t) as other, each(thread, y, out):
        y[t] = load(mine)
        out[t] = load(other).first
"""


def test_an_address_of_records():
    """Whole, and as parts: records follow one another, whatever their size."""
    space = execute(RECORDS)
    k = space["k"]
    pair = np.dtype([("first", "f4"), ("second", "i4")])
    x = np.array([(i, 2 * i) for i in range(32)], pair)
    z = np.array([(i / 2, 2 * i) for i in range(64)], pair)
    for target in ("cpu", "ptx"):
        y, out = np.zeros(32, pair), np.zeros(32, np.float32)
        k.launch(x, y, z, out, blocks=1, target=target)
        assert (y == x).all() and (out == np.arange(32)).all()
    assert snap.check_instruction(space["load"], target="ptx") == []
    found = snap.check_instruction(space["store"], target="ptx")
    assert found and found[0].what == "p" and found[0].at[1] == 1  # of the four words of two records, the text writes to the second, and not to the fourth
    assert snap.check_instruction(space["fill"], target="ptx") == []


@pytest.mark.parametrize("part", ["f=lambda i: 2 * i + t", "f=lambda i: i * 2 + t", "f=lambda i: 31 - i"])
def test_records_that_do_not_follow_one_another_have_no_address(part):
    code = RECORDS.replace("p=thread[1], offset=t) as mine", f"p=thread[1], {part}) as mine")
    assert [code for code, _ in program(code)] == ["SNAP015"]


def test_ptxas_is_asked_without_a_gpu():
    """The PTX machine does not ask all that NVIDIA's assembler asks."""
    code = '@instruction(thread, text=\'asm("mov.u32 %0, %1; barrier.sync 3, 33;" : "=r"({result}) : "r"({x}));\')\ndef f(x: u32) -> u32:\n    return x'
    with pytest.raises(RuntimeError, match="ptxas"):
        snap.check_instruction(execute(code)["f"], target="ptx")


def test_what_operands_may_be():
    code = '@instruction(thread, text="({x} << ({n} & 15)) + {K}")\ndef f(x: u32, n: u32, K: constexpr(int)) -> u32:\n    return (x << n) + u32(K)'
    f = execute(code)["f"]
    assert snap.check_instruction(f, target="ptx", n=range(16), K=1) == []
    assert snap.check_instruction(f.specialize(K=2), target="ptx", n=7) == []
    assert snap.check_instruction(f, target="ptx", n=(3, 16), K=1)[0].operands["n"] == 16
    code = '@instruction(thread, text="{x} * 1.0000001f")\ndef f(x: float) -> float:\n    return x'
    f = execute(code)["f"]
    assert snap.check_instruction(f, target="ptx") and not snap.check_instruction(f, target="ptx", tolerance=1e-6)


@pytest.mark.parametrize(
    ("code", "more", "message"),
    [
        ("@device(thread)\ndef f(x: int) -> int:\n    return x", {}, "takes a function with"),
        ('@instruction(thread, text="{x}")\ndef f(x: int) -> int:\n    return x', {"y": 3}, "has no parameter `y`"),
        ('@instruction(cluster, text="f({x});")\ndef f(x: int):\n    pass', {}, "of threads and of a block"),
        ('@instruction(thread, text="f({x});")\ndef f(x: ptr(int, (2, 2))):\n    pass', {}, "memory of one dimension"),
    ],
)
def test_what_cannot_be_compared(code, more, message):
    with pytest.raises(TypeError, match=message):
        snap.check_instruction(execute(code)["f"], **more)


@pytest.mark.parametrize("meaning, said", [("v", "`result` is one value for 32 threads, and it returns several"), ("v.max(-1)", "keepdims=True"), ("v.max(-1, keepdims=True)", None)])
@pytest.mark.parametrize("seed", [None, 1])
def test_a_meaning_gives_one_value_for_those_who_have_one(meaning, said, seed):
    """Without its dimension, four numbers of four warps would be taken for those of lanes."""
    k = execute(f"""
@instruction(warp, text="most({{v}})", meaning=lambda v: {meaning})
def most(v: int @ thread[1]) -> int:
    pass

@kernel(threads=128, blocks=1)
def k(y: ptr(int, (4,))):
    with each(warp, y) as w:
        t: int @ thread[1] = 32 * w + id()
        m: int = most(t)
        with one(thread, y):
            y[w] = m
""")["k"]
    y = np.zeros(4, np.int32)
    if said is None:
        k.launch(y, blocks=1, seed=seed)
        assert y.tolist() == [31, 63, 95, 127]
        return
    with pytest.raises(snap.MachineError, match=said):
        k.launch(y, blocks=1, seed=seed)
