"""Operations of the slow interpreter that lanes execute together, or on memory: collectives, atomics, boxes, products.  All of them happen at once."""

from __future__ import annotations

import ast
import itertools

import numpy as np

from fuzz import slow_values as sv
from fuzz.slow_expressions import E, Expressions, constant, converted, settled
from fuzz.slow_memory import Handle, Rest
from fuzz.slow_text import LEVELS
from fuzz.slow_values import Trap, Unsupported

THREAD, WARP, WARPGROUP, BLOCK = LEVELS["thread"][1], LEVELS["warp"][1], LEVELS["warpgroup"][1], LEVELS["block"][1]
NOTHING = None


def words_of(node: ast.Call) -> dict:
    return {k.arg: k.value for k in node.keywords}


def in_units(L: list, n: int | str | None) -> list[list[int]]:
    """The positions of lanes in L, for each n threads of a block (None: each block; or "cluster", "grid") together."""
    found: dict = {}
    for position, lane in enumerate(L):
        if isinstance(n, int) and n < 32:  # a part of a warp is all that its group has of the block
            found.setdefault(lane.block, []).append(position)
            continue
        key = {None: lane.block, "cluster": lane.cluster, "grid": 0}.get(n) if not isinstance(n, int) else (lane.block, lane.thread // n)
        found.setdefault(key, []).append(position)
    units = list(found.values())
    if isinstance(n, int) and any(len(unit) != n for unit in units):
        raise Trap(f"a collective of {n} threads, executed by fewer")
    return units


def warp_of(L: list) -> int:
    """How many threads a warp's collective is executed by: 32, or all that the group has of a block, where that is a part of a warp."""
    count = sum(lane.block == L[0].block for lane in L)
    return count if count in (2, 4, 8, 16) else 32


def together(L: list, n: int | None, values: list, f) -> list:
    """f of the values of each unit, dealt out again."""
    result = [None] * len(L)
    for unit in in_units(L, n):
        for position, v in zip(unit, f([values[p] for p in unit])):
            result[position] = v
    return result


# ---- collectives


def _shuffled(word: str, values: list, sources: list, width: int) -> list:
    out = []
    for lane, (v, b) in enumerate(zip(values, sources)):
        first = lane // width * width
        b &= 31 if word != "shfl_xor" else len(values) - 1
        if word == "shfl":
            source = first + b % width
        elif word == "shfl_up":
            source = lane - b if lane - b >= first else lane
        elif word == "shfl_down":
            source = lane + b if lane + b < first + width else lane
        else:
            source = lane ^ b if lane ^ b < first + width else lane
        out.append(values[source])
    return out


def _butterfly(f, values: list) -> list:
    for step in (s for s in (16, 8, 4, 2, 1) if s < len(values)):
        values = [f(v, values[lane ^ step]) for lane, v in enumerate(values)]
    return values


def _ballot(values: list) -> int:
    return sum(1 << lane for lane, v in enumerate(values) if v)


_VOTES = {
    "any": (32, "bool", lambda vs: [any(vs)] * len(vs)), "all": (32, "bool", lambda vs: [all(vs)] * len(vs)), "ballot": (32, "u32", lambda vs: [_ballot(vs)] * len(vs)),
    "syncthreads_or": (None, "bool", lambda vs: [any(vs)] * len(vs)), "syncthreads_and": (None, "bool", lambda vs: [all(vs)] * len(vs)),
    "syncthreads_count": (None, "i32", lambda vs: [sum(map(bool, vs))] * len(vs)),
}
for _level in ("cluster", "grid"):
    _VOTES |= {f"{_word}_{_level}": (_level, *_VOTES[_of][1:]) for _word, _of in (("any", "syncthreads_or"), ("all", "syncthreads_and"), ("count", "syncthreads_count"))}
_LEVELS = {"broadcast": None, "broadcast_cluster": "cluster", "broadcast_grid": "grid"}
_BARRIERS = {"syncwarp", "syncthreads", "sync_cluster", "sync_grid", "setmaxnreg"}


def intrinsic(c: Expressions, word: str, node: ast.Call) -> E:
    words = words_of(node)
    if word in _BARRIERS:
        return E(NOTHING, lambda G, L: [None] * len(L))
    if word == "bitcast":
        e, t = settled(c.expression(node.args[0])), c.type(node.args[1])
        return E(t, lambda G, L: [sv.same_bits(v, e.type, t) for v in e.run(G, L)])
    if word == "load":
        return c.expression(node.args[0])
    if word == "prefetch" and "at" in words:
        _, _, at, _ = _moves(c, node)
        return E(NOTHING, lambda G, L: [None for _ in at(G, L)])
    if word == "prefetch":
        with c.aimed(THREAD):
            _, place = c.element(node.args[0])
        return E(NOTHING, lambda G, L: [None for _ in place(G, L)])
    if word == "nanosleep":
        e = settled(c.expression(node.args[0]))
        return E(NOTHING, lambda G, L: [None for _ in e.run(G, L)])
    if word == "elect":
        return E("bool", lambda G, L: together(L, warp_of(L), L, lambda vs: [lane == 0 for lane in range(len(vs))]))
    if word in ("mma", "ldmatrix", "stmatrix"):
        return {"mma": _mma, "ldmatrix": _ldmatrix, "stmatrix": _stmatrix}[word](c, node, words)
    with c.aimed(THREAD):
        e = settled(c.expression(node.args[0]))
    run, t = e.run, e.type
    if word in _VOTES:
        n, result, f = _VOTES[word]
        decide = c.condition(e)
        return E(result, lambda G, L: together(L, warp_of(L) if n == 32 else n, decide(G, L), f))
    if word.startswith("shfl"):
        with c.aimed(THREAD if word == "shfl" else WARP):
            source = converted(c.expression(node.args[1]), "i32").run
        width = c.number(words["width"]) if "width" in words else None

        def shuffle(G, L):
            pairs = list(zip(run(G, L), source(G, L)))
            return together(L, warp_of(L), pairs, lambda vs: _shuffled(word, [v for v, _ in vs], [b for _, b in vs], width or len(vs)))
        return E(t, shuffle)
    if word in ("match_any", "match_all"):
        def match(values):
            bits = [v if not sv.is_float(t) else sv.same_bits(v, t, {2: "u16", 4: "u32", 8: "u64"}[sv.size_of(t)]) for v in values]
            if word == "match_all":
                return [(1 << len(bits)) - 1 if len(set(bits)) == 1 else 0] * len(bits)
            return [_ballot([b == own for b in bits]) for own in bits]
        return E("u32", lambda G, L: together(L, warp_of(L), run(G, L), match))
    if word.startswith("reduce_"):
        kind = word.removeprefix("reduce_")
        if kind in ("min", "max"):
            f = lambda a, b: sv.NUMBERS[kind][1](t, a, b)
        elif t == "bool":
            raise Unsupported("a reduction of bools")
        else:
            f = sv.operation({"add": "+", "and": "&", "or": "|", "xor": "^"}[kind], t)
        if "where" in words:
            with c.aimed(THREAD):
                run = _of_some(run, c.condition(settled(c.expression(words["where"]))), _neutral(kind, t))
        return E(t, lambda G, L: together(L, warp_of(L), run(G, L), lambda vs: _butterfly(f, vs)))
    if word in _LEVELS:
        source = converted(c.expression(words["source"] if "source" in words else node.args[1]), "i32").run if len(node.args) > 1 or words else None

        def broadcast(G, L):
            values = run(G, L)
            numbers = [0] * len(L) if source is None else source(G, L)
            return together(L, _LEVELS[word], list(zip(values, numbers)), lambda vs: [vs[number][0] for _, number in vs])
        return E(t, broadcast)
    raise Unsupported(f"intrinsic.{word}")


def _neutral(kind: str, t: str):
    if kind in ("add", "or", "xor"):
        return 0.0 if sv.is_float(t) else 0
    if sv.is_float(t):
        return float("inf") if kind == "min" else float("-inf")
    bits, signed = 8 * sv.size_of(t), t.startswith("i")
    least, most = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    return {"min": most, "max": least, "and": -1 if signed else most}[kind]


def _of_some(run, decide, nothing):
    """Lanes for which the condition does not hold evaluate nothing."""
    def chosen(G, L):
        asked = decide(G, L)
        found = iter(run(G, [lane for lane, yes in zip(L, asked) if yes]))
        return [next(found) if yes else nothing for yes in asked]
    return chosen


# ---- matrices in registers

_ROWS16, _COLUMNS16 = [0, 0, 8, 8, 0, 0, 8, 8], [0, 1, 0, 1, 8, 9, 8, 9]


def _operand(lane: int, e: int, kind: str, which: str) -> tuple[int, int]:
    """Row and column that the e-th value of a lane has in A, B (k, n) or C of a warp's mma."""
    g, q = lane // 4, lane % 4
    if which == "c":
        return g + 8 * (e // 2), 2 * q + e % 2
    if kind == "f32":
        return (g + 8 * (e % 2), q + 4 * (e // 2)) if which == "a" else (q + 4 * e, g)
    if which == "a":
        return g + _ROWS16[e], 2 * q + _COLUMNS16[e]
    return 2 * q + e % 2 + 8 * (e // 2), g


def tf32(x: np.ndarray) -> np.ndarray:
    """The lower bits left out."""
    return (np.ascontiguousarray(x, np.float32).view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)


def _values(c: Expressions, node: ast.expr) -> tuple:
    """The type of the values that an argument of mma is (an element, or a whole local array), and a list a lane."""
    if isinstance(node, ast.Name) and hasattr(c.lookup(node.id), "element"):
        memory = c.memory(node)
        return memory.element, lambda G, L: [[h.load(i) for i in np.ndindex(*h.shape)] for h in memory.run(G, L)]
    if isinstance(node, ast.Subscript) and not isinstance(node.value, ast.Call):  # an element, or a row
        memory = c.memory(node)
        return memory.element, lambda G, L: [[h.load(i) for i in np.ndindex(*h.shape)] for h in memory.run(G, L)]
    e = c.expression(node)
    return e.type, lambda G, L: [[v] for v in e.run(G, L)]


def _mma(c: Expressions, node: ast.Call, words: dict) -> E:
    with c.aimed(THREAD):
        arguments = [_values(c, n) for n in node.args]
        kind = arguments[0][0]
        out = words["out"]
        if isinstance(out, (ast.List, ast.Tuple)):
            places = [c.element(n)[1] for n in out.elts]
            into = lambda G, L: list(zip(*(place(G, L) for place in places)))
        else:
            target = c.memory(out)
            into = lambda G, L: [[(h, i) for i in np.ndindex(*h.shape)] for h in target.run(G, L)]
    if kind not in ("f32", "f16", "bf16"):
        return _other_mma(kind, arguments, words, into)
    na, nb, k = (4, 2, 8) if kind == "f32" else (8, 4, 16)

    def run(G, L):
        columns = [list(itertools.chain(*parts)) for parts in zip(*(f(G, L) for _, f in arguments))]
        targets = into(G, L)
        for unit in in_units(L, 32):
            a, b, d = np.zeros((16, k)), np.zeros((k, 8)), np.zeros((16, 8))
            for lane, p in enumerate(unit):
                values = columns[p]
                for matrix, which, part in ((a, "a", values[:na]), (b, "b", values[na:na + nb]), (d, "c", values[na + nb:])):
                    for e, v in enumerate(part):
                        matrix[_operand(lane, e, kind, which)] = v
            if kind == "f32":
                a, b = tf32(a).astype(np.float64), tf32(b).astype(np.float64)
            with np.errstate(all="ignore"):
                d = (d + a @ b).astype(np.float32)
            for lane, p in enumerate(unit):
                for e, (h, i) in enumerate(targets[p]):
                    h.store(i, float(d[_operand(lane, e, kind, "c")]))
        return [None] * len(L)
    return E(NOTHING, run)


def _decoded(code: int, kind: str) -> float:
    if kind in ("e4m3", "e5m2"):
        return sv.small_float(code, kind)
    half = 8 if kind.endswith("4") else 128
    return code - 2 * half if kind[0] == "s" and code >= half else code


def _other_mma(kind: str, arguments: list, words: dict, into: Callable) -> E:
    """Of f64, and of what is packed in words, the lowest bits first: the number of values says which shape it is."""
    named = words.get("type")
    names = [n.value for n in named.elts] if isinstance(named, (ast.Tuple, ast.List)) else [named.value] * 2 if named is not None else []
    if kind != "f64" and not names:
        names = ["s8" if t == "i8" else "u8" for t, _ in arguments[:2]]
    saturate = "saturate" in words and bool(words["saturate"].value)
    wide = 8 if names and names[0].endswith("4") and names[0][0] in "su" else 4  # elements a word
    real = kind == "f64" or names[0] in ("e4m3", "e5m2")

    def codes(t, v) -> list:
        if t in ("i8", "u8"):
            return [v & 255]
        return [v >> at & (1 << 32 // wide) - 1 for at in range(0, 32, 32 // wide)]

    def run(G, L):
        columns = list(zip(*(f(G, L) for _, f in arguments)))
        targets = into(G, L)
        for unit in in_units(L, 32):
            lanes = []
            for p in unit:
                flat = [(t, v) for (t, _), part in zip(arguments, columns[p]) for v in part]
                nc = 2 if kind == "f64" and len(flat) == 4 else 4
                given, sums = flat[:-nc], [v for _, v in flat[-nc:]]
                values = [v for _, v in given] if kind == "f64" else [x for t, v in given for x in codes(t, v)]
                lanes.append((values, sums))
            total, w = len(lanes[0][0]), 1 if kind == "f64" else wide
            nb = total // 3 if total > 2 else 1
            na, k = total - nb, 4 * nb
            a, b, d = {}, {}, {}
            for lane, (values, sums) in enumerate(lanes):
                g, q = lane // 4, lane % 4
                for e, v in enumerate(values[:na]):
                    word = e // w
                    a[g + 8 * (word % 2), q * w + e % w + 4 * w * (word // 2)] = v if kind == "f64" else _decoded(v, names[0])
                for e, v in enumerate(values[na:]):
                    b[q * w + e % w + 4 * w * (e // w), g] = v if kind == "f64" else _decoded(v, names[1])
                for e, v in enumerate(sums):
                    d[g + 8 * (e // 2), 2 * q + e % 2] = v
            for lane, p in enumerate(unit):
                for e, (h, i) in enumerate(targets[p]):
                    row, column = lane // 4 + 8 * (e // 2), 2 * (lane % 4) + e % 2
                    found = sum(a[row, j] * b[j, column] for j in range(k)) + d[row, column]
                    if not real:
                        found = max(-(1 << 31), min(found, (1 << 31) - 1)) if saturate else sv.wrap(found, "i32")
                    h.store(i, float(np.float32(found)) if real and kind != "f64" else found)
        return [None] * len(L)
    return E(NOTHING, run)


def _ldmatrix(c: Expressions, node: ast.Call, words: dict) -> E:
    return _matrices(c, node.args[0], node.args[1], words, store=False)


def _stmatrix(c: Expressions, node: ast.Call, words: dict) -> E:
    return _matrices(c, node.args[1], node.args[0], words, store=True)


def _matrices(c: Expressions, fragment: ast.expr, row: ast.expr, words: dict, store: bool) -> E:
    """Lane 8 m + r names row r of matrix m; a lane holds two neighbors of row lane / 4 (transposed: of a column) of each matrix."""
    with c.aimed(THREAD):
        registers, (_, place) = c.memory(fragment), c.element(row)
    trans = "trans" in words and bool(c.number(words["trans"]))

    def run(G, L):
        handles, places = registers.run(G, L), place(G, L)
        for unit in in_units(L, 32):
            moves = []
            for lane, p in enumerate(unit):
                indices = list(np.ndindex(*handles[p].shape))
                for e, index in enumerate(indices):
                    r, column = lane // 4, 2 * (lane % 4) + e % 2
                    if trans:
                        r, column = column, r
                    h, i = places[unit[8 * (e // 2) + r]]
                    moves.append((handles[p], index, h.memory, h.at(i) + 2 * column, h.element))
            for own, index, memory, at, element in moves:
                if store:
                    memory.store(at, element, own.load(index))
                else:
                    own.store(index, memory.load(at, element))
        return [None] * len(L)
    return E(NOTHING, run)


# ---- atomics

_ATOMIC = {"add": "+", "and_": "&", "or_": "|", "xor": "^"}


def atomic(c: Expressions, word: str, node: ast.Call) -> E:
    memory = c.memory(node.args[0])
    t, rest = memory.element, list(node.args[1:])
    count = {"load": 0, "cas": 2}.get(word, 1)
    indices, values = rest[: len(rest) - count], rest[len(rest) - count:]
    with c.aimed(THREAD):
        index = c.indices(indices[0] if len(indices) == 1 else ast.Tuple(indices, ast.Load()))
        runs = [converted(c.expression(n), t).run for n in values]
    if word in ("load", "store", "exch", "cas"):
        combine = {"load": lambda old: old, "store": lambda old, v: v, "exch": lambda old, v: v, "cas": lambda old, e, v: v if old == e else old}[word]
    elif word in ("min", "max"):
        combine = lambda old, v: sv.NUMBERS[word][1](t, old, v)
    elif word in ("inc", "dec"):
        combine = (lambda old, v: 0 if old >= v else old + 1) if word == "inc" else (lambda old, v: v if old == 0 or old > v else old - 1)
    elif word in _ATOMIC:
        if isinstance(t, tuple):
            one = sv.operation(_ATOMIC[word], t[1])
            combine = lambda old, v: tuple(map(one, old, v))
        else:
            combine = sv.operation(_ATOMIC[word], t)
    else:
        raise Unsupported(f"atomic.{word}")

    def run(G, L):
        handles, at, operands = memory.run(G, L), index(G, L), [f(G, L) for f in runs]
        result = []
        for n, (h, i) in enumerate(zip(handles, at)):
            old = h.load(i)
            if word != "load":
                h.store(i, combine(old, *(column[n] for column in operands)))
            result.append(old)
        return result
    return E(NOTHING if word == "store" else t, run)


# ---- boxes


def nearest_tf32(x: np.ndarray) -> np.ndarray:
    """Ten bits after the point, to the nearest, ties to even; what is not a number stays."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32).astype(np.uint64)
    near = (bits + 0xFFF + (bits >> np.uint64(13) & np.uint64(1))) & np.uint64(0xFFFFE000)
    return np.where(np.isnan(x), x, near.astype(np.uint32).view(np.float32))


def _box(G, L, tile: Handle, array: Handle, at: tuple):
    """The box's places in shared memory, and for each its index in the global array, of the array's dimensions; which lie inside."""
    shape = tile.shape
    places = tile.places(shape).reshape(shape)
    ndim = array.ndim
    while len(shape) > ndim and shape[0] == 1:
        shape = shape[1:]
    if ndim >= 2 and len(shape) == ndim + 1:  # panels lie side by side
        places = np.concatenate(list(places.reshape(shape)), axis=-1)
        shape = places.shape
    shape = (1,) * (ndim - len(shape)) + shape
    if len(shape) != ndim:
        raise Unsupported("a box of other dimensions")
    base, start = array.origin(at)
    for probe in ((1,) * ndim, tuple(extent - 1 for extent in shape)):
        if array.origin(tuple(a + p for a, p in zip(at, probe)))[1] != tuple(s + p for s, p in zip(start, probe)):
            raise Unsupported("a box of an array that does not only move")
    grids = np.meshgrid(*(np.arange(s, s + extent) for s, extent in zip(start, shape)), indexing="ij")
    inside = np.ones(shape, bool)
    flat = np.zeros(shape, np.int64)
    for grid, extent in zip(grids, base.shape):
        inside &= (grid >= 0) & (grid < extent)
        flat = flat * extent + grid
    return places.reshape(-1), flat.reshape(-1), inside.reshape(-1)


def _moves(c: Expressions, node: ast.Call) -> tuple:
    first, second, words = c.memory(node.args[0]), c.memory(node.args[1]), words_of(node)
    return first, second, c.indices(words["at"]), words


def _once(G, L) -> list[int]:
    """One lane of each group that executes a box: of the code's own, or of each block where that is more."""
    return [unit[0] for unit in in_units(L, None)]


def _counted(c: Expressions, source: ast.expr) -> int:
    """The bytes of one element of the array that a subscript of a view names."""
    base = source.value
    while isinstance(base, ast.Call):
        base = base.func.value
    return sv.size_of(c.memory(base).element)


def async_copy(c: Expressions, node: ast.Call) -> E:
    if "at" not in words_of(node):
        with c.aimed(THREAD):
            (t, into), (source, out) = c.element(node.args[0]), c.element(node.args[1])
            words = words_of(node)
            valid = c.condition(c.expression(words["valid"])) if "valid" in words else None
            count = converted(c.expression(words["elements"]), "i64").run if "elements" in words else None
        if sv.size_of(t) != sv.size_of(source):
            raise Unsupported("an element copied to one of another size")
        size, counted = sv.size_of(t), _counted(c, node.args[1]) if count is not None else 0

        def element(G, L):
            targets, sources = into(G, L), out(G, L)
            if count is not None:  # of the elements of what is copied from, not of how it is seen
                read = [max(0, min(size, n * counted)) for n in count(G, L)]
            else:
                read = [size if there else 0 for there in ([True] * len(L) if valid is None else valid(G, L))]
            for (h, i), (g, j), there in zip(targets, sources, read):
                at = h.at(i)
                start = g.at(j) if there else 0
                h.memory.data[at:at + size] = 0
                h.memory.data[at:at + there] = g.memory.data[start:start + there]
            return [None] * len(L)
        return E(NOTHING, element)
    first, second, at, words = _moves(c, node)
    kind = words["type"].value if "type" in words else None

    def run(G, L):
        one, other, corners = first.run(G, L), second.run(G, L), at(G, L)
        for p in _once(G, L):
            load = one[p].memory.space == "shared"
            tile, array = (one[p], other[p]) if load else (other[p], one[p])
            scalar = tile.element
            places, flat, inside = _box(G, L, tile, array, corners[p])
            ours, theirs = tile.memory.seen(scalar), array.memory.seen(scalar)
            if load:
                ours[places] = 0
                values = theirs[flat[inside]]
                ours[places[inside]] = nearest_tf32(values) if kind == "tf32" else values
            else:
                theirs[flat[inside]] = ours[places[inside]]
        return [None] * len(L)
    return E(NOTHING, run)


def async_reduce(c: Expressions, node: ast.Call) -> E:
    first, second, at, words = _moves(c, node)
    op = words["op"].value if "op" in words else "add"
    t = first.element
    if op in ("min", "max"):
        combine = lambda a, b: sv.NUMBERS[op][1](t, a, b)
    else:
        combine = sv.operation({"add": "+", "and": "&", "or": "|", "xor": "^"}[op], t)

    def run(G, L):
        arrays, tiles, corners = first.run(G, L), second.run(G, L), at(G, L)
        for p in _once(G, L):
            places, flat, inside = _box(G, L, tiles[p], arrays[p], corners[p])
            size = sv.size_of(t)
            for place, to, here in zip(places.tolist(), flat.tolist(), inside.tolist()):
                if here:
                    memory = arrays[p].memory
                    memory.store(to * size, t, combine(memory.load(to * size, t), tiles[p].memory.load(place * size, t)))
        return [None] * len(L)
    return E(NOTHING, run)


# ---- products of tiles


def _small_float(code: int, exponent: int, fraction: int, e4m3: bool) -> float:
    sign, e, f = -1.0 if code & 0x80 else 1.0, code >> fraction & (1 << exponent) - 1, code & (1 << fraction) - 1
    bias = (1 << exponent - 1) - 1
    if e4m3 and code & 0x7F == 0x7F:
        return float("nan")
    if not e4m3 and e == (1 << exponent) - 1:
        return sign * float("inf") if f == 0 else float("nan")
    return sign * (f * 2.0 ** (1 - bias - fraction) if e == 0 else (1 + f / (1 << fraction)) * 2.0 ** (e - bias))


_SMALL = {
    "e4m3": np.array([_small_float(code, 4, 3, True) for code in range(256)]),
    "e5m2": np.array([_small_float(code, 5, 2, False) for code in range(256)]),
}


def numbers(raw: np.ndarray, t: str, kind: str | None) -> np.ndarray:
    """What a product takes the elements of a tile for."""
    if t == "bf16":
        return (raw.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    if t == "u8":
        return _SMALL[kind][raw]
    return tf32(raw).astype(np.float64) if t == "f32" else raw.astype(np.float64)


def _tile(h: Handle, kind: str | None) -> np.ndarray:
    """A tile as a matrix, its panels side by side."""
    shape = h.shape
    matrix = numbers(h.memory.seen(h.element)[h.places(shape)], h.element, kind)
    while matrix.ndim > 3 and matrix.shape[0] == 1:
        matrix = matrix[0]
    if matrix.ndim == 3:
        matrix = np.concatenate(list(matrix), axis=1)
    if matrix.ndim != 2:
        raise Unsupported("a tile of such a shape")
    return matrix


def _in_registers(lane: int, e: int, size: int) -> tuple[int, int]:
    """Row and column of the e-th value of A that a warpgroup's lane holds, by the size of an element in bytes (2: accumulators too)."""
    warp, g, q = lane // 32, lane % 32 // 4, lane % 4
    if size == 4:
        return 16 * warp + g + 8 * (e % 2), 8 * (e // 4) + q + 4 * (e // 2 % 2)
    if size == 2:
        return 16 * warp + g + 8 * (e // 2 % 2), 8 * (e // 4) + 2 * q + e % 2
    return 16 * warp + g + 8 * (e // 4 % 2), 32 * (e // 16) + 16 * (e // 8 % 2) + 4 * q + e % 4


def _places(size: int, values: int) -> tuple[np.ndarray, np.ndarray]:
    pairs = np.array([[_in_registers(lane, e, size) for e in range(values)] for lane in range(128)])
    return pairs[..., 0], pairs[..., 1]


def _transposable(c: Expressions, node: ast.expr) -> tuple:
    if isinstance(node, ast.Attribute) and node.attr == "T":
        return c.memory(node.value), True
    return c.memory(node), False


def _registers(h: Handle, element) -> np.ndarray:
    """The values of a local array, or of a row of one, where they lie."""
    seen, inner, whole = h.memory.seen(element), h, int(np.prod(h.shape))
    if not isinstance(h, Rest):
        return seen
    first: tuple = ()
    while isinstance(inner, Rest):
        first, inner = (*inner.first, *first), inner.parent
    start = int(np.ravel_multi_index(first, inner.shape[:len(first)])) * whole
    return seen[start:start + whole]


def wgmma(c: Expressions, node: ast.Call) -> E:
    words = words_of(node)
    with c.aimed(THREAD):
        acc = c.memory(node.args[0])
    with c.aimed(WARPGROUP):
        (a, a_turned), (b, b_turned) = (_transposable(c, n) for n in node.args[1:3])
        zero = c.condition(c.expression(words["zero"])) if "zero" in words else constant(False).run
    kinds = [None] if "type" not in words else [w.value for w in words["type"].elts] if isinstance(words["type"], ast.Tuple) else [words["type"].value]
    kind, of_b = kinds[0], kinds[-1]
    first = words["columns"].value if "columns" in words else None  # so many columns; of the accumulator and of b the first

    def run(G, L):
        sums, left, right, fresh = acc.run(G, L), a.run(G, L), b.run(G, L), zero(G, L)
        for unit in in_units(L, 128):
            h = left[unit[0]]
            if h.memory.space == "local":
                raw = np.stack([_registers(left[p], h.element) for p in unit])
                rows, columns = _places(sv.size_of(h.element), raw.shape[1])
                A = np.zeros((64, columns.max() + 1))
                A[rows, columns] = numbers(raw, h.element, kind)
            else:
                A = _tile(h, kind).T if a_turned else _tile(h, kind)
            B = _tile(right[unit[0]], of_b)
            B = (B if b_turned else B.T)[:, :first]
            old = np.stack([_registers(sums[p], "f32") for p in unit])
            old = old if first is None else old[:, : first // 2]
            rows, columns = _places(2, old.shape[1])
            D = np.zeros((64, 2 * old.shape[1]))
            if not fresh[unit[0]]:
                D[rows, columns] = old
            if A.shape[0] != 64 or A.shape[1] != B.shape[0] or B.shape[1] != D.shape[1]:
                raise Unsupported(f"a product of {A.shape} and {B.shape}")
            with np.errstate(all="ignore"):
                D = (D + A @ B).astype(np.float32)
            for p, values in zip(unit, D[rows, columns]):
                _registers(sums[p], "f32")[: len(values)] = values
        return [None] * len(L)
    return E(NOTHING, run)


def store_acc(c: Expressions, node: ast.Call) -> E:
    words = words_of(node)
    with c.aimed(WARPGROUP):
        tile = c.memory(node.args[0])
        first = converted(c.expression(words["first"]), "i32").run if "first" in words else constant(0).run
    with c.aimed(THREAD):
        acc = c.memory(node.args[1])

    def run(G, L):
        tiles, sums, starts = tile.run(G, L), acc.run(G, L), first(G, L)
        for unit in in_units(L, 128):
            h, start = tiles[unit[0]], starts[unit[0]]
            shape = h.shape
            places = h.places(shape).reshape(-1, shape[-1])
            values = np.stack([_registers(sums[p], "f32") for p in unit])
            rows, columns = _places(2, values.shape[1])
            D = np.zeros((64, 2 * values.shape[1]), np.float32)
            D[rows, columns] = values
            size = sv.size_of(h.element)
            if places.shape[0] != 64 or start + shape[-1] > D.shape[1]:
                raise Unsupported("store_acc of other rows or columns")
            for place, v in zip(places.reshape(-1).tolist(), D[:, start:start + shape[-1]].reshape(-1).tolist()):
                h.memory.store(place * size, h.element, sv.rounded(v, h.element))
        return [None] * len(L)
    return E(NOTHING, run)


OPERATIONS = {
    "intrinsic": intrinsic, "atomic": atomic,
    "words": {"async_copy": async_copy, "async_reduce": async_reduce, "wgmma": wgmma, "store_acc": store_acc},
}
