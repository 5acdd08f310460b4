"""Functions that call functions: what must be ordered grows with the calls, not with their pairs."""

from __future__ import annotations

import gc
import sys
import weakref

import numpy as np
import pytest
from sync.small import agree, compiled

from snap._compiler.ir.numbering import Numbers
from snap._compiler.sync.conflicts.graph import graph_of
from snap._compiler.sync.roles.begin import number_statements
from snap.diag.error import SnapError

LEVEL = """
@device
@requires({requires})
def f{i}(x: ptr(int) @ {own}, v: int @ thread[1]) -> int @ thread[1]:
    {body}
"""
KERNEL = """
@kernel
@requires(grid[1], block[1], thread[64])
def k(out: ptr(int) @ grid[1]):
    with group(grid[1]):
        g: int @ thread[1] = id()
        with partition(out, p=thread[1], offset=g) as mine:
            with group(block[1]):
                s: shared(int[64])
                w: int @ warp = id()
                {call}
"""
LEAF = "t: int @ thread[1] = id()\n    with partition(x, p=thread[1], offset=t) as m:\n        m[0] = v\n    return x[{last} - t]"
OF = {
    "block": (dict(requires="block[1], thread[64]", own="block[1]"), 63, "mine[0] = f{top}(s, g)"),
    "warp": (dict(requires="thread[32]", own="thread[32]"), 31,
             "with partition(s, p=warp, offset=32 * w) as part:\n                    mine[0] = f{top}(part, g)"),
}  # fmt: skip


def tree(levels: int, of: str):
    """2 ** levels calls of the lowest function."""
    words, last, call = OF[of]
    text = "from __future__ import annotations\nfrom snap import *\n" + LEVEL.format(i=0, body=LEAF.format(last=last), **words)
    for i in range(1, levels + 1):
        text += LEVEL.format(i=i, body=f"return f{i - 1}(x, v + {i}) + f{i - 1}(x, v)", **words)
    return compiled(text + KERNEL.format(call=call.format(top=levels)))


@pytest.mark.parametrize("of", OF)
def test_twice_the_calls_twice_the_pairs(of):
    small, large = (len(graph_of(number_statements(tree(levels, of)._the_one({}).typed, Numbers())).edges) for levels in (4, 5))
    assert small >= 16 and large <= 2 * small + 4


@pytest.mark.parametrize("of", OF)
def test_all_of_them_are_ordered(of):
    agree(tree(3, of), lambda: [np.zeros(128, np.int32)])


# ---- deep chains -------------------------------------------------------------------------------------------------------------------------

THROUGH = "return f{below}(x, v + {i})"
AND_WRITES = "t: int @ thread[1] = id()\n    with partition(x, p=thread[1], offset=t) as m:\n        m[0] = v\n    return x[{last} - t] + f{below}(x, v + {i})"


def chain(length: int, of: str = "block", body: str = THROUGH, top: int | None = None) -> str:
    """Each function calls the one below once."""
    words, last, call = OF[of]
    text = "from __future__ import annotations\nfrom snap import *\n" + LEVEL.format(i=0, body=LEAF.format(last=last), **words)
    for i in range(1, length + 1):
        text += LEVEL.format(i=i, body=body.format(below=i - 1, i=i, last=last), **words)
    return text + KERNEL.format(call=call.format(top=length if top is None else top))


@pytest.mark.parametrize("of", OF)
def test_a_chain_is_checked_function_by_function(of, monkeypatch):
    """Each definition on its own, once for those that call it, and once for the kernel, whose memory is known to be shared."""
    from snap._compiler.check.functions import function

    made = []
    elaborate = function.elaborate
    monkeypatch.setattr(function, "elaborate", lambda *args: made.append(args[1].tree.name) or elaborate(*args))
    compiled(chain(40, of))
    assert max(map(made.count, made)) <= 3


def test_256_calls_deep():
    before = sys.getrecursionlimit()
    kernel = compiled(chain(256))
    assert kernel.cuda().count("__device__") == 257
    assert sys.getrecursionlimit() == before
    agree(compiled(chain(60)), lambda: [np.zeros(128, np.int32)])


@pytest.mark.parametrize("of", OF)
def test_what_a_chain_writes_is_ordered(of):
    kernel = compiled(chain(12, of, AND_WRITES))
    agree(kernel, lambda: [np.zeros(128, np.int32)])
    assert sum(point.kind == of for point in kernel.syncs()) >= 2


def test_one_function_is_wrong_and_says_so():
    text = chain(6).replace("def f3(x: ptr(int) @ block[1], v: int @ thread[1]) -> int @ thread[1]:\n    return f2(x, v + 3)",
                            "def f3(x: ptr(int) @ block[1], v: int @ thread[1]) -> int @ thread[1]:\n    return f2(x, w + 3)")
    with pytest.raises(SnapError) as caught:
        compiled(text)
    assert [error.code for error in caught.value.all] == ["SNAP019"] and "w + 3" in caught.value.text


def test_a_function_is_looked_at_when_it_is_defined():
    """Loops nest up to ten deep, in a function that touches no memory, too."""
    loops = "".join(f"{'    ' * (k + 1)}for i{k} in range(v):\n" for k in range(11)) + "    " * 12 + "v += 1\n"
    head = "from __future__ import annotations\nfrom snap import *\n\n@device(thread[1])\ndef f(v: int @ thread[1]) -> int @ thread[1]:\n"
    with pytest.raises(SnapError, match="nested more than 10 deep"):
        compiled(f"{head}{loops}    return v\n{KERNEL.format(call='mine[0] = 1')}")


@pytest.mark.parametrize("added", ["atomic.add(p, v, 1)", "g(p, v)"])
def test_what_atomics_change_is_read_by_nobody_else(added):
    """That is told where the function is defined, whoever of the two changes it."""
    text = "from snap import *\n\n@device(thread)\ndef g(p: ptr(int) @ grid[1], v: int):\n    atomic.add(p, v, 1)\n"
    text += f"\n@device(thread)\ndef f(p: ptr(int) @ grid[1], v: int) -> int:\n    {added}\n    return p[v + 1]\n"
    with pytest.raises(SnapError, match="nothing can order the two"):
        compiled(text + KERNEL.format(call="mine[0] = 1"))


def test_a_function_of_values_is_checked_once(monkeypatch):
    from snap._compiler.check.functions import function

    made = []
    elaborate = function.elaborate
    monkeypatch.setattr(function, "elaborate", lambda *args: made.append(args[1].tree.name) or elaborate(*args))
    text = "from __future__ import annotations\nfrom snap import *\n\n@device(thread[1])\ndef f(v: int @ thread[1]) -> int @ thread[1]:\n    return v + 1\n"
    kernel = compiled(text + KERNEL.format(call="with group(thread[1]):\n                    mine[0] = f(f(g))"))
    assert made == ["f", "k"] and kernel.cuda().count("__device__") == 1


def test_what_was_made_for_callers_lives_as_long_as_the_function():
    kernel = compiled(chain(5))
    function = weakref.ref(kernel.definition.names["f5"].definition.names["f4"])
    assert function() is not None
    del kernel
    gc.collect()
    assert function() is None


def test_the_text_is_the_same_whatever_was_defined_before():
    first = compiled(chain(5, body=AND_WRITES)).cuda()
    compiled(chain(7))
    again = compiled(chain(5, body=AND_WRITES)).cuda()
    lines = lambda text: text.split("\n", 2)[2]  # noqa: E731  the first names the file
    assert lines(first) == lines(again)
