"""Short forms, for the slow interpreter: an expansion of its own, by `ast`, that shares nothing with src/snap.

Input: the text of a module, parsed.  Output: the same with `each`, `one`, roles, `strided`, `ids`, `registers`, names for
shared memory, loops over a shape and early returns written out.  Since memory keeps its name and
its indices in a form, and the slow interpreter asks nobody for a privilege, a form that hands memory out changes nothing but who acts.
"""

from __future__ import annotations

import ast
import itertools

TYPES = "bool i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64 int float".split()  # that `registers` may be given alone
LEVELS = ("grid", "cluster", "block", "thread", "warp", "warpgroup")


def expand(module: ast.Module) -> ast.Module:
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef):
            _decorators(node)
            if any(_word(d) in ("kernel", "device", "ccuda") for d in node.decorator_list):
                node.body = _Forms(node).body(node.body, tail=True)
    return ast.fix_missing_locations(module)


def _word(node: ast.AST) -> str:
    node = node.func if isinstance(node, ast.Call) else node
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _items(node: ast.expr) -> list[ast.expr]:
    return node.elts if isinstance(node, ast.Tuple) else [node]


def _names(target: ast.expr) -> list[str]:
    return [n.id for n in _items(target)]


def _over_a_shape(call: ast.Call) -> list[ast.expr] | None:
    """The extents of `range(shape=...)`, unrolled or not."""
    if _word(call) == "unroll" and isinstance(call.args[0], ast.Call):
        call = call.args[0]
    return _items(call.keywords[0].value) if _word(call) == "range" and call.keywords else None


def _register(name: str, first: ast.expr) -> ast.stmt:
    """A thread's own: an array or a scalar of a type, or `auto`, the type of its first value."""
    named = first.value if isinstance(first, ast.Subscript) else first
    of_a_matrix = isinstance(named, ast.Call) and ast.unparse(named.func) in ("fragment.A", "fragment.B", "fragment.C")
    is_type = of_a_matrix or isinstance(first, ast.Subscript) and _word(first.value) in TYPES or isinstance(first, ast.Name) and first.id in TYPES
    kind = first if is_type else ast.Name("auto", ast.Load())
    return ast.AnnAssign(ast.Name(name, ast.Store()), ast.BinOp(kind, ast.MatMult(), _at("thread", ast.Constant(1))), None if is_type else first, 1)


def _decorators(node: ast.FunctionDef) -> None:
    made = []
    for d in node.decorator_list:
        if isinstance(d, ast.Call) and _word(d) == "instruction" and all(k.arg != "meaning" for k in d.keywords):
            d = ast.copy_location(ast.Call(ast.Name("device", ast.Load()), d.args, []), d)  # what it means is its body
        if isinstance(d, ast.Call) and _word(d) in ("kernel", "device") and (d.args or d.keywords):
            made += [ast.Name(_word(d), ast.Load()), _requires(d)]
        else:
            made.append(d)
    node.decorator_list = [ast.copy_location(m, d) for m, d in zip(made, [node.decorator_list[0]] * len(made))] if node.decorator_list else []


def _requires(d: ast.Call) -> ast.Call:
    given = {k.arg: k.value for k in d.keywords}
    if _word(d) == "device":
        privileges = [a if isinstance(a, ast.Subscript) or a.id in ("warp", "warpgroup") else _at(a.id, ast.Constant(1))
                      for a in d.args if not isinstance(a, ast.Starred)]  # of a tuple, who launches it knows the privileges
        return ast.Call(ast.Name("requires", ast.Load()), privileges, [])
    threads, cluster = given["threads"], given.get("cluster")
    count = threads.body if isinstance(threads, ast.Lambda) else threads
    privileges = [_at("grid", ast.Constant(1)), *([_at("cluster", ast.Constant(1))] if cluster else []), _at("block", cluster or ast.Constant(1)), _at("thread", count)]
    if isinstance(threads, ast.Lambda):
        privileges = [ast.Lambda(threads.args, ast.Tuple(privileges, ast.Load()))]
    return ast.Call(ast.Name("requires", ast.Load()), privileges, [k for k in d.keywords if k.arg in ("smem", "cooperative", "resident")])


def _at(level: str, n: ast.expr) -> ast.Subscript:
    return ast.Subscript(ast.Name(level, ast.Load()), n, ast.Load())


class _Forms:
    def __init__(self, function: ast.FunctionDef):
        self.roles: dict[str, tuple[list[ast.expr], int]] = {}
        self.fresh = 0
        self.blocks: list[tuple[str, str]] = []  # names of a block's number and of how many there are

    def name(self, stem: str) -> str:
        self.fresh += 1
        return f"short_{stem}_{self.fresh}"

    def body(self, statements: list[ast.stmt], tail: bool, loop: bool = False) -> list[ast.stmt]:
        made = []
        for k, s in enumerate(statements):
            made += self.statement(s, tail and k == len(statements) - 1, loop)
        return made

    def statement(self, s: ast.stmt, tail: bool, loop: bool) -> list[ast.stmt]:
        match s:
            case ast.With():
                return self.items(s.items, s.body, tail, loop)
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Call() as call) if _word(call) == "roles":
                order = _lying([e.value for e in call.args])
                for k, n in enumerate(names):
                    self.roles[n.id] = ([call.args[j] for j in order], order.index(k))
                return []
            case ast.Assign(targets=[target], value=ast.Call() as call) if _word(call) == "ids":
                names = _names(target)
                if call.keywords:
                    return self.indices(names, call.args[0], call.keywords[0].value)[0]
                return [self.declare(name, self.privilege(level), "id") for name, level in zip(names, call.args, strict=True)]
            case ast.Assign(targets=[target], value=ast.Call() as call) if _word(call) == "registers":
                return [_register(name, first) for name, first in zip(_names(target), call.args, strict=True)]
            case ast.Assign(targets=[target], value=value) if all(_word(item) in ("shared", "pipeline", "registers") for item in _items(value)):
                return [_register(name, kind.args[0]) if _word(kind) == "registers" else ast.AnnAssign(ast.Name(name, ast.Store()), kind, None, 1)
                        for name, kind in zip(_names(target), _items(value), strict=True)]
            case ast.For(iter=ast.Call() as call) if (turns := _over_a_shape(call)) is not None:
                return self.over_a_shape(s, turns)
            case ast.For(target=target, iter=ast.Call() as call) if _word(call) == "strided":
                number, count = self.blocks[-1]
                names = [n.id for n in target.elts] if isinstance(target, ast.Tuple) else [target.id]
                extents = call.keywords[0].value.elts if isinstance(call.keywords[0].value, ast.Tuple) else [call.keywords[0].value]
                at = self.name("tile")
                digits = self.digits(names, ast.Name(at, ast.Load()), extents, None)
                inside = self.body(s.body, False, True)
                turns = ast.Call(ast.Name("range", ast.Load()), [ast.Name(number, ast.Load()), self.product(extents), ast.Name(count, ast.Load())], [])
                return [ast.For(ast.Name(at, ast.Store()), turns, [*digits, *inside], [])]
            case ast.If():
                s.body, s.orelse = self.body(s.body, tail, loop), self.body(s.orelse, tail, loop)
            case ast.For() | ast.While():
                s.body = self.body(s.body, False, True)
            case ast.Match():
                for case in s.cases:
                    case.body = self.body(case.body, tail, loop)
        return [s]

    def over_a_shape(self, s: ast.For, extents: list[ast.expr]) -> list[ast.stmt]:
        """A loop for each extent, all of which are evaluated before the first turn."""
        known = [self.name("extent") for _ in extents]
        inside = self.body(s.body, False, True)
        for name, bound in reversed(list(zip(_names(s.target), known, strict=True))):
            inside = [ast.For(ast.Name(name, ast.Store()), ast.Call(ast.Name("range", ast.Load()), [ast.Name(bound, ast.Load())], []), inside, [])]
        return [*(ast.Assign([ast.Name(bound, ast.Store())], extent) for bound, extent in zip(known, extents)), *inside]

    def items(self, items: list[ast.withitem], body: list[ast.stmt], tail: bool, loop: bool) -> list[ast.stmt]:
        if not items:
            return self.body(body, tail, loop)
        item, rest = items[0], items[1:]
        call = item.context_expr
        word = _word(call)
        if word == "each":
            return self.each(call, item.optional_vars, rest, body, tail, loop)
        if word == "trust":  # asks for nothing at run time
            return [ast.If(ast.Constant(True), self.items(rest, body, tail, loop), [])]
        if word == "one":
            level, n = self.level(call.args[0])
            alone = self.split(level, [(n, self.items(rest, body, tail, loop))])
            return [self.given(call.args[1:], self.privilege(call.args[0]), alone)]
        if word in self.roles:
            sizes, chosen = self.roles[word]
            cases = [(ast.Constant(k), self.items(rest, body, tail, loop) if k == chosen else [ast.Pass()]) for k in range(len(sizes))]
            return [self.given(call.args, _at("thread", sizes[chosen]), self.split(ast.Name("thread", ast.Load()), cases, sizes))]
        return [ast.With([item], self.items(rest, body, tail, loop))]

    @staticmethod
    def given(memory: list[ast.expr], p: ast.expr, inside: ast.stmt) -> ast.stmt:
        """Memory that one group claims: of what lies across a cluster it then names its own block's part."""
        for m in memory:
            if isinstance(m, ast.Name):
                claimed = ast.Call(ast.Name("claim", ast.Load()), [m], [ast.keyword("p", p)])
                inside = ast.With([ast.withitem(claimed, ast.Name(m.id, ast.Store()))], [inside])
        return inside

    def each(self, call: ast.Call, names: ast.expr | None, rest: list, body: list, tail: bool, loop: bool) -> list[ast.stmt]:
        p = self.privilege(call.args[0])
        given = {k.arg: k.value for k in call.keywords}
        names = [] if names is None else [x.id for x in names.elts] if isinstance(names, ast.Tuple) else [names.id]
        declared, guard = self.indices(names, call.args[0], given.get("shape"))
        strides = any(isinstance(x, ast.For) and _word(x.iter) == "strided" for s in body for x in ast.walk(s))
        if strides:
            number, count = self.name("number"), self.name("count")
            declared += [self.declare(number, p, "id"), ast.AnnAssign(ast.Name(count, ast.Store()), ast.Name("int", ast.Load()), ast.Call(ast.Name("count", ast.Load()), [p], []), 1)]
            self.blocks.append((number, count))
        inside = self.items(rest, _returns(body) if tail and not loop and not rest else body, tail, loop)
        if strides:
            self.blocks.pop()
        if guard is not None:
            inside = [ast.If(guard, inside, [])]
        scope: ast.stmt = ast.With([ast.withitem(ast.Call(ast.Name("group", ast.Load()), [p], []), None)], inside)
        for m in call.args[1:]:
            if not isinstance(m, ast.Name):  # y.view(float4)
                root = m
                while not isinstance(root, ast.Name):
                    root = root.value if isinstance(root, ast.Attribute) else root.func.value  # of a field, which is Unsupported where it is used
                opened = ast.Call(ast.Name("partition", ast.Load()), [m], [ast.keyword("p", p)])
                scope = ast.With([ast.withitem(opened, ast.Name(root.id, ast.Store()))], [scope])
        # A lexical block of its own, so that names may come again.
        return [ast.If(ast.Constant(True), [*declared, scope], [])] if declared else [scope]

    @staticmethod
    def level(e: ast.expr) -> tuple[ast.expr, ast.expr]:
        """A level, and how many units of it; of a group at a stride, in code of such groups, the units that it has one of every few."""
        if isinstance(e, ast.Subscript) and isinstance(e.value, ast.Call):
            return e.value.func.value, e.slice
        return (e.value, e.slice) if isinstance(e, ast.Subscript) else (e, ast.Constant(1))

    @staticmethod
    def privilege(e: ast.expr) -> ast.expr:
        return e if isinstance(e, ast.Subscript) or _word(e) not in LEVELS else _at(_word(e), ast.Constant(1))

    def indices(self, names: list[str], level: ast.expr, shape: ast.expr | None) -> tuple[list[ast.stmt], ast.expr | None]:
        p = self.privilege(level)
        if shape is None:
            return [self.declare(name, p, "id") for name in names], None
        extents = list(shape.elts) if isinstance(shape, ast.Tuple) else [shape]
        unit = self.name("unit")
        made = [self.declare(unit, p, "id"), *self.digits(names, ast.Name(unit, ast.Load()), extents, p)]
        open_first = isinstance(extents[0], ast.Constant) and extents[0].value is ...
        guard = None if open_first else ast.Compare(ast.Name(unit, ast.Load()), [ast.Lt()], [self.product(extents)])
        return made, guard

    def digits(self, names: list[str], number: ast.expr, extents: list[ast.expr], p: ast.expr | None) -> list[ast.stmt]:
        made, rest = [], number
        for name, extent in reversed(list(zip(names, extents))[1:]):
            made.insert(0, self.declare(name, p, ast.BinOp(rest, ast.Mod(), extent)))
            rest = ast.BinOp(rest, ast.Div(), extent)
        return [self.declare(names[0], p, rest), *made]

    @staticmethod
    def product(extents: list[ast.expr]) -> ast.expr:
        made = extents[0]
        for extent in extents[1:]:
            made = ast.BinOp(made, ast.Mult(), extent)
        return made

    @staticmethod
    def declare(name: str, p: ast.expr | None, value: ast.expr | str) -> ast.stmt:
        kind: ast.expr = ast.Name("int", ast.Load())
        value = ast.Call(ast.Name(value, ast.Load()), [], []) if isinstance(value, str) else value
        return ast.AnnAssign(ast.Name(name, ast.Store()), kind if p is None else ast.BinOp(kind, ast.MatMult(), p), value, 1)

    @staticmethod
    def split(level: ast.expr, cases: list, sizes: list | tuple = ()) -> ast.Match:
        subject = ast.Call(ast.Name("split", ast.Load()), [level, *sizes], [])
        return ast.Match(subject, [ast.match_case(ast.MatchValue(n), None, body or [ast.Pass()]) for n, body in cases])


def _returns(body: list[ast.stmt]) -> list[ast.stmt]:
    for k, s in enumerate(body):
        if isinstance(s, ast.If) and len(s.body) == 1 and isinstance(s.body[0], ast.Return) and s.body[0].value is None and not s.orelse:
            rest = _returns(body[k + 1:])
            return [*body[:k], *([ast.If(ast.UnaryOp(ast.Not(), s.test), rest, [])] if rest else [])]
    return body


def _lying(sizes: list[int]) -> list[int]:
    """The roles as they lie in the block, each at a multiple of its size: in the order of the text, or the larger ones as early as can be."""
    text = list(range(len(sizes)))
    for order in (text, *itertools.permutations(sorted(text, key=lambda k: -sizes[k]))):
        if all(sum(sizes[j] for j in order[:at]) % sizes[k] == 0 for at, k in enumerate(order)):
            return list(order)
    raise ValueError("roles that nothing aligns")
