"""`id()` and `count()` against a model that knows nothing of the compiler: groups are ranges of blocks and threads, units are counted off in them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from check.checking import codes, execute
from hypothesis import given, settings
from hypothesis import strategies as st


@dataclass(frozen=True)
class Group:
    """The group a thread is in: blocks first .. first+blocks (of clusters of `cluster`), and of each the threads start .. start+threads."""

    top: str
    first: int
    blocks: int
    start: int
    threads: int
    cluster: int

    def units(self, level: str, n: int) -> int:
        return {"thread": self.blocks * self.threads, "block": self.blocks, "cluster": self.blocks // self.cluster, "grid": 1}[level] // n

    def index(self, level: str, n: int, block: int, thread: int) -> int:
        before = block - self.first
        return {"thread": before * self.threads + thread - self.start, "block": before, "cluster": before // self.cluster, "grid": 0}[level] // n

    def group(self, level: str, n: int, block: int, thread: int) -> Group:
        match level:
            case "thread":
                return replace(self, top=level, first=block, blocks=1, start=self.start + (thread - self.start) // n * n, threads=n)
            case "block":
                return replace(self, top=level, first=self.first + (block - self.first) // n * n, blocks=n)
            case "cluster":
                size = n * self.cluster
                return replace(self, top=level, first=self.first + (block - self.first) // size * size, blocks=size)

    def case(self, level: str, offset: int, size: int, block: int, thread: int) -> Group | None:
        """The branch of a split that starts at `offset`; None for threads that are not in it."""
        if level == "thread":
            inside = offset <= thread - self.start < offset + size
            return replace(self, top=level, first=block, blocks=1, start=self.start + offset, threads=size) if inside else None
        owner = self if self.top == "block" or self.cluster == 1 else replace(self, first=block // self.cluster * self.cluster, blocks=self.cluster)
        inside = offset <= block - owner.first < offset + size
        return replace(self, top=level, first=owner.first + offset, blocks=size) if inside else None


@dataclass(frozen=True)
class Held:
    """What the checker must know: counts and alignments, here only to write programs that are accepted."""

    counts: tuple[tuple[str, int], ...]
    aligns: tuple[tuple[str, int], ...] = ()  # of the first unit, where that is not 0
    open: str = ""  # the level of which a launch decides how many there are

    def of(self, level: str) -> int:
        return dict(self.counts).get(level, 0)

    def align(self, level: str) -> int:
        return dict(self.aligns).get(level, 0)

    def inside(self, level: str, n: int, align: int) -> Held:
        below = tuple((l, k) for l, k in self.counts if LEVELS.index(l) < LEVELS.index(level))
        return Held(((level, n), *below), tuple({**dict(self.aligns), level: align}.items()))


LEVELS = ["thread", "block", "cluster", "grid"]


def divisors(n: int) -> list[int]:
    return [d for d in range(1, n + 1) if n % d == 0]


def gcd(a: int, b: int) -> int:
    return int(np.gcd(a, b))


class Writer:
    """Writes one nest of scopes; at each depth it asks for ids and counts, and notes how the model would answer."""

    def __init__(self, draw, threads: int, cluster: int, clusters_or_blocks: int):
        self.draw, self.threads, self.cluster, self.blocks = draw, threads, cluster, clusters_or_blocks * cluster
        self.lines: list[str] = []
        self.functions: list[str] = []
        self.answers: list = []

    def pick(self, options):
        return self.draw(st.sampled_from(list(options)))

    def emit(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def ask(self, depth: int, held: Held, narrow) -> None:
        levels = [level for level, _ in held.counts]
        for _ in range(self.draw(st.integers(1, 2))):
            level = self.pick(levels)
            n = self.pick(divisors(held.of(level)))
            name, slot = f"x{len(self.answers)}", len(self.answers)
            match self.pick(["id", "id", "index", "count", "nested", "call"]):
                case "id":
                    self.emit(depth, f"{name}: int @ {level}[{n}] = id()")
                    self.emit(depth, f"mine[{slot}] = {name}")
                    answer = lambda g, b, t, level=level, n=n: g.index(level, n, b, t)
                case "index":  # in the index of an element, and in a condition
                    self.emit(depth, f"mine[{slot} + id() * 0] = id()")
                    answer = lambda g, b, t: g.index("thread", 1, b, t)
                case "count":
                    alone = (level, n) == (levels[0], 1) and held.of(level) == 1  # a group's count of itself, refused
                    self.emit(depth, f"mine[{slot}] = {1 if alone else f'count({level}[{n}])'}")
                    answer = lambda g, b, t, level=level, n=n: g.units(level, n)
                case "nested":
                    self.emit(depth, f"{name}: int @ {level}[{n}] = id() * 3 + (1 if id() >= 0 else 0)")
                    self.emit(depth, f"mine[{slot}] = {name}")
                    answer = lambda g, b, t, level=level, n=n: 3 * g.index(level, n, b, t) + 1
                case "call":
                    n = self.pick([d for d in divisors(held.of("thread")) if held.align("thread") % d == 0])
                    self.functions.append(f"@device\n@requires(thread[{n}])\ndef f{slot}() -> int @ thread[1]:\n    return id()")
                    self.emit(depth, f"mine[{slot}] = f{slot}()")
                    answer = lambda g, b, t, n=n: g.group("thread", n, b, t).index("thread", 1, b, t)
            self.answers.append((narrow, answer))

    def nest(self, depth: int, held: Held, narrow, left: int) -> None:
        self.ask(depth, held, narrow)
        if left == 0:
            return
        levels = [level for level, _ in held.counts if level != "grid"]
        level = self.pick(levels)
        count = held.of(level)
        if self.draw(st.booleans()) or level == "cluster":
            n = self.pick(divisors(count))
            self.emit(depth, f"with group({level}[{n}]):")
            align = held.align(level) if n == count and held.open != level else gcd(held.align(level), n)
            self.nest(depth + 1, held.inside(level, n, align), lambda g, b, t: None if (o := narrow(g, b, t)) is None else o.group(level, n, b, t), left - 1)
            return
        self.emit(depth, f"match split({level}):")
        offset = 0
        for _ in range(self.draw(st.integers(1, 3))):
            align = gcd(held.align(level), offset)
            fitting = [d for d in range(1, count - offset + 1) if align % d == 0]
            if not fitting:
                break
            n = self.pick(fitting)
            self.emit(depth + 1, f"case {n}:")
            enter = lambda g, b, t, o=offset, n=n: None if (w := narrow(g, b, t)) is None else w.case(level, o, n, b, t)
            self.nest(depth + 2, held.inside(level, n, align), enter, left - 1)
            offset += n


@st.composite
def nests(draw) -> tuple[str, Writer]:
    threads = draw(st.sampled_from([1, 12, 32, 33, 48, 64, 96]))
    cluster = draw(st.sampled_from([1, 1, 2, 4]))
    multiple = draw(st.sampled_from([1, 2, 4]))
    w = Writer(draw, threads, cluster, multiple * draw(st.sampled_from([1, 2])))
    blocks = [("cluster", multiple), ("block", cluster)] if cluster > 1 else [("block", multiple)]
    held = [("grid", 1), *blocks, ("thread", threads)]
    w.nest(3, Held(tuple(held), (), blocks[0][0]), lambda g, b, t: g, draw(st.integers(1, 4)))
    requires = ", ".join(f"{level}[{n}]" for level, n in held)
    head = f"""@kernel
@requires({requires})
def k(out: ptr(int) @ grid[1]):
    with group(grid[1]):
        i: int @ thread[1] = id()
        with partition(out, p=thread[1], f=lambda k: {len(w.answers)} * i + k) as mine:"""
    return "\n\n".join([*w.functions, "\n".join([head, *w.lines])]), w


@settings(max_examples=60, deadline=None)
@given(nests())
def test_ids_and_counts(nest):
    text, w = nest
    out = np.full((w.blocks * w.threads, len(w.answers)), -1, np.int32)
    execute(text)["k"][w.blocks](out)
    whole = Group("grid", 0, w.blocks, 0, w.threads, w.cluster)
    expected = np.full_like(out, -1)
    for i in range(len(out)):
        block, thread = divmod(i, w.threads)
        for slot, (narrow, answer) in enumerate(w.answers):
            here = narrow(whole, block, thread)
            if here is not None:
                expected[i, slot] = answer(here, block, thread)
    np.testing.assert_array_equal(out, expected, err_msg=text)


def test_id_takes_no_argument_and_count_takes_a_privilege():
    assert codes("with group(block[1]):\n    x: int @ thread[1] = id(1)") == [("SNAP018", 2)]
    assert codes("with group(block[1]):\n    x: int = count()") == [("SNAP018", 2)]
    assert codes("with group(block[1]):\n    x: int = count(32)") == [("SNAP018", 2)]
    assert codes("with group(block[1]):\n    x: int = count(thread[1], thread[1])") == [("SNAP018", 2)]
    assert codes("with group(thread[32]):\n    x: int = count(block[1])") == [("SNAP005", 2)]
    assert codes("with group(thread[32]):\n    x: int = count(thread[33])") == [("SNAP005", 2)]


def test_count_is_at_the_codes_privilege():
    assert codes("with group(block[1]):\n    x: int = count(thread[32])") == []
    assert codes("with group(thread[32]):\n    x: int @ thread[1] = count(thread[8])") == []


def test_a_count_that_is_known_is_a_constant():
    assert codes("with group(block[1]):\n    x: int[count(thread[32])] @ thread[1]") == []
    assert codes("with group(grid[1]):\n    x: int[count(thread[32])] @ thread[1]") == [("SNAP018", 2)]


def test_count_has_one_value_for_the_group():
    # the index differs between threads, the number of units does not
    assert codes("with group(block[1]):\n    x: int @ block[1] = id()") == []


def test_an_index_that_can_only_be_zero_must_be_asked_for_in_so_many_words():
    assert codes("with group(block[1]):\n    x: int = id()") == [("SNAP018", 2)]
    assert codes("with group(block[1]):\n    x = id()") == [("SNAP018", 2)]
    assert codes("with group(thread[1]):\n    if id() == 0:\n        pass") == [("SNAP018", 2)]


def test_a_count_may_decide():
    assert codes("with group(block[1]):\n    if count(thread[1]) > 3:\n        pass") == []
