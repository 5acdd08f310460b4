"""The source of a program for the slow interpreter: its functions, the constants around them, and what stands in annotations and decorators."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from fuzz.slow_short import expand
from fuzz.slow_values import LITERALS, TYPES, Record, Row, Unsupported, folded
from fuzz.slow_views import Viewed, is_view

ORDER = ("thread", "block", "cluster", "grid")


@dataclass(frozen=True)
class Type:
    """A name for a type, as a value: `u32`, ELEMENT."""

    t: object


@dataclass(frozen=True)
class Level:
    name: str
    threads: int = 1

    def __getitem__(self, n: int) -> Privilege:
        return Privilege(self.name, self.threads * n)

    def every(self, apart: int) -> Every:
        return Every(self[1], apart)


@dataclass(frozen=True)
class Privilege:
    """Units of a level; under a name of its own, a level: `quad = thread[4]`, of which `quad[2]` are two.  At a stride, one run of every `apart`."""

    level: str
    n: int
    run: int = 0
    apart: int = 1

    def __getitem__(self, n: int) -> Privilege:
        return Privilege(self.level, self.n * n)

    def every(self, apart: int) -> Every:
        return Every(self, apart)

    def of(self, unit: int) -> tuple[int, int]:
        """The group that a unit of the level is in: among how many runs, and which of these."""
        if self.apart == 1:
            return unit // self.n, 0
        among, where = divmod(unit, self.n * self.apart)
        return among, where // self.run % self.apart


@dataclass(frozen=True)
class Every:
    """`level.every(apart)`, of which `[n]` makes a privilege."""

    of: Privilege
    apart: int

    def __getitem__(self, n: int) -> Privilege:
        level, run = self.of.level, self.of.n
        return Privilege(level, run * n, run, self.apart) if n > 1 < self.apart else Privilege(level, run * n)


@dataclass(frozen=True)
class Lambda:
    node: ast.Lambda
    scope: object = None  # names around it


@dataclass(frozen=True)
class Function:
    """A Snap function of some module.  constants: of its constexpr parameters, where it was specialized; captured: what the text does not say of names around it."""

    module: Module = field(repr=False)
    node: ast.FunctionDef = field(repr=False)
    constants: tuple = ()
    captured: dict | None = field(default=None, repr=False, compare=False)
    required: tuple = ()  # privileges, where the text does not say them

    def names(self) -> dict:
        return self.module.names_at(self.node) | (self.captured or {})


@dataclass(frozen=True)
class RecordClass:
    node: ast.ClassDef = field(repr=False)

    def type(self, lookup: Callable, constant: Callable) -> Record:
        fields = []
        for s in self.node.body:
            if isinstance(s, ast.AnnAssign):
                t = spelled(annotation(s.annotation)[0], lookup, constant)
                if isinstance(t, (Pointer, Constexpr)):
                    raise Unsupported("a record with pointers")
                fields.append((s.target.id, Row(t.element, t.shape) if isinstance(t, Registers) else t))
        return Record(self.node.name, tuple(fields))


@dataclass(frozen=True)
class Word:
    """A word of the language under another name: `of_lanes = intrinsic.reduce_add`."""

    text: str


@dataclass(frozen=True)
class Inlined:
    """A function without types that is one `return`: what it returns, with a call's arguments in place of its parameters."""

    node: ast.FunctionDef = field(repr=False)


@dataclass(frozen=True)
class Table:
    """Numbers of one type, of one dimension or two, captured from outside."""

    element: str
    values: tuple


class Unknown:
    """A name of the module whose value was not worked out; using it is Unsupported."""


LEVELS = {"thread": Level("thread"), "block": Level("block"), "cluster": Level("cluster"), "grid": Level("grid"), "warp": Level("thread", 32),
          "warpgroup": Level("thread", 128)}
BUILTIN = {name: Type(t) for name, t in TYPES.items()} | LEVELS
_OPERATORS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.LShift: "<<", ast.RShift: ">>", ast.BitAnd: "&",
              ast.BitOr: "|", ast.BitXor: "^", ast.Pow: "**", ast.MatMult: "@"}
_COMPARISONS = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="}


def symbol(op: ast.AST) -> str:
    found = _OPERATORS.get(type(op)) or _COMPARISONS.get(type(op))
    if found is None:
        raise Unsupported(type(op).__name__)
    return found


def name_of(node: ast.AST) -> str:
    """`group`, `intrinsic.shfl`, `snap.group` as `group`."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        inner = name_of(node.value)
        return node.attr if inner == "snap" else f"{inner}.{node.attr}" if inner else ""
    return ""


def decorator(node: ast.AST) -> tuple[str, ast.Call | None]:
    return (name_of(node.func), node) if isinstance(node, ast.Call) else (name_of(node), None)


def is_snap(node: ast.FunctionDef) -> bool:
    return any(decorator(d)[0] in ("kernel", "device", "instruction", "ccuda") for d in node.decorator_list)


def defaults_of(node: ast.FunctionDef) -> dict:
    """The values of parameters that may be left out."""
    names = [a.arg for a in node.args.args]
    return {name: ast.literal_eval(d) for name, d in zip(names[len(names) - len(node.args.defaults):], node.args.defaults)}


class Module:
    """The text of a file.  resolve: the text of a module that is imported from, or None; others: the modules read so far."""

    def __init__(self, text: str, resolve: Callable[[str], str | None] = lambda name: None, others: dict | None = None):
        self.tree, self.resolve = expand(ast.parse(text)), resolve
        self.others = {} if others is None else others
        self._after: dict | None = None

    def other(self, name: str) -> Module | None:
        if name not in self.others:
            text = self.resolve(name)
            self.others[name] = None if text is None else Module(text, self.resolve, self.others)
        return self.others[name]

    def find(self, name: str) -> Function:
        """The last Snap function of that name, wherever it stands."""
        found = [node for node in ast.walk(self.tree) if isinstance(node, ast.FunctionDef) and node.name == name and is_snap(node)]
        if not found:
            raise Unsupported(f"no Snap function `{name}` in the text")
        return Function(self, max(found, key=lambda node: node.lineno))

    def names_at(self, node: ast.FunctionDef) -> dict:
        """What the names around a function are bound to when it is defined."""
        names: dict = {}
        body = self.tree.body
        while body is not None:
            inside = None
            for statement in body:
                if statement is node or statement.lineno > node.lineno:
                    break
                if isinstance(statement, (ast.FunctionDef, ast.With, ast.Try, ast.If)) and any(child is node for child in ast.walk(statement)):
                    if isinstance(statement, ast.FunctionDef):
                        names |= {a.arg: Unknown() for a in statement.args.args}
                    inside = statement.body
                    break
                self._bind(statement, names)
            body = inside
        return names

    def final(self) -> dict:
        if self._after is None:
            self._after = {}
            for statement in self.tree.body:
                self._bind(statement, self._after)
        return self._after

    def _bind(self, statement: ast.stmt, names: dict) -> None:
        match statement:
            case ast.FunctionDef():
                inlined = any(decorator(d)[0] == "inline" for d in statement.decorator_list)
                names[statement.name] = Function(self, statement) if is_snap(statement) else Inlined(statement) if inlined else Unknown()
            case ast.ClassDef():
                bases = [name_of(b) for b in statement.bases] + [decorator(d)[0] for d in statement.decorator_list]
                names[statement.name] = RecordClass(statement) if {"NamedTuple", "dataclass"} & set(bases) else Unknown()
            case ast.Assign():
                value = self._value(statement.value, names)
                for target in statement.targets:
                    self._assign(target, value, names)
            case ast.AnnAssign(value=ast.expr()):
                self._assign(statement.target, self._value(statement.value, names), names)
            case ast.ImportFrom(module=str() as module):
                self._import(module, statement.names, names)
            case _:
                pass

    def _import(self, module: str, aliases: list[ast.alias], names: dict) -> None:
        if module in ("snap", "__future__"):
            return
        other = self.other(module)
        theirs = {} if other is None else other.final()
        for alias in aliases:
            if alias.name == "*":
                names |= theirs
            else:
                inner = self.other(f"{module}.{alias.name}") if alias.name not in theirs else None
                names[alias.asname or alias.name] = theirs.get(alias.name, inner or Unknown())

    def _assign(self, target: ast.AST, value, names: dict) -> None:
        if isinstance(target, ast.Name):
            names[target.id] = value
        elif isinstance(target, ast.Tuple):
            parts = value if isinstance(value, tuple) and len(value) == len(target.elts) else [Unknown()] * len(target.elts)
            for one, part in zip(target.elts, parts):
                self._assign(one, part, names)

    def _value(self, node: ast.expr, names: dict):
        try:
            return evaluate(node, lambda name: names.get(name, BUILTIN.get(name, Unknown())))
        except (Unsupported, TypeError, KeyError, ValueError, ArithmeticError, AttributeError):
            return Unknown()


_TABLES = {"int32": "i32", "uint8": "u8", "int64": "i64", "float32": "f32"}
_PYTHON = {"float": float, "int": int, "min": min, "max": max, "len": len, "abs": abs, "bool": bool}


def evaluate(node: ast.expr, lookup: Callable[[str], object]):
    """A Python expression of the module, by Python's rules (`/` of whole numbers is not C's here)."""
    def go(node):
        match node:
            case _ if is_view(node):
                return Viewed(node)
            case ast.Constant():
                return node.value
            case ast.Name():
                value = lookup(node.id)
                if isinstance(value, Unknown):
                    raise Unsupported(f"the value of `{node.id}`")
                return value
            case ast.Tuple() | ast.List():
                return tuple(go(e) for e in node.elts)
            case ast.UnaryOp(op=ast.USub()):
                return -go(node.operand)
            case ast.UnaryOp(op=ast.Not()):
                return not go(node.operand)
            case ast.UnaryOp(op=ast.Invert()):
                return ~go(node.operand)
            case ast.BinOp():
                a, b, op = go(node.left), go(node.right), symbol(node.op)
                return a ** b if op == "**" else a / b if op == "/" else a // b if op == "//" else a % b if op == "%" else folded(op, a, b)
            case ast.Subscript():
                return go(node.value)[go(node.slice)]
            case ast.IfExp():
                return go(node.body) if go(node.test) else go(node.orelse)
            case ast.Lambda():
                return Lambda(node)
            case ast.Attribute(value=ast.Name(id="math")):
                return getattr(math, node.attr)
            case ast.Attribute(value=ast.Name(id="snap")) if node.attr in BUILTIN:
                return BUILTIN[node.attr]
            case ast.Attribute():
                inside = go(node.value)
                if isinstance(inside, Module):
                    return inside.final()[node.attr]
                raise Unsupported(ast.unparse(node))
            case ast.Call(func=ast.Attribute(value=ast.Name(id="np"), attr="array"), args=[ast.List() as items, ast.Attribute(attr=dtype)]) if dtype in _TABLES:
                return Table(_TABLES[dtype], go(items))
            case ast.Call(func=ast.Name()) if node.func.id in _PYTHON and not node.keywords:
                return _PYTHON[node.func.id](*(go(a) for a in node.args))
            case ast.Call(func=ast.Attribute(attr="every")):
                return go(node.func.value).every(go(node.args[0]))
            case ast.Call(func=ast.Attribute(attr="specialize")):
                function = go(node.func.value)
                return replace(function, constants=function.constants + tuple((k.arg, go(k.value)) for k in node.keywords))
            case _:
                raise Unsupported(ast.unparse(node))
    return go(node)


# ---- annotations


@dataclass(frozen=True)
class Registers:
    element: object
    shape: tuple
    fragment: tuple | None = None  # role, rows and columns of the matrix of which this is a thread's part


@dataclass(frozen=True)
class Pointer:
    element: object
    shape: tuple | None  # expressions


@dataclass(frozen=True)
class Shared:
    element: object
    shape: tuple
    across: bool = False
    copies: bool = False
    neighbors: int = 0  # `copies=block[n]`: so many blocks in a row hold one value
    every: int = 0  # `copies=block, every=n`: so do every n-th


@dataclass(frozen=True)
class Slots:
    shared: Shared
    n: int


@dataclass(frozen=True)
class Reference:
    registers: Registers


@dataclass(frozen=True)
class Constexpr:
    t: object


def annotation(node: ast.expr) -> tuple[ast.expr, ast.expr | None]:
    """`T @ p` as T and p."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        node = ast.parse(node.value, mode="eval").body
    return (node.left, node.right) if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult) else (node, None)


def spelled(node: ast.expr, lookup: Callable[[str], object], constant: Callable[[ast.expr], int]):
    """The type that an annotation means.  constant: the value of a constant expression."""
    match node:
        case ast.Name() | ast.Attribute():
            value = lookup(name_of(node))
            if isinstance(value, RecordClass):
                return value.type(lookup, constant)
            if not isinstance(value, Type):
                raise Unsupported(f"the type `{ast.unparse(node)}`")
            return value.t
        case ast.Subscript():
            dims = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            if isinstance(node.value, ast.Name) and node.value.id == "tuple":
                return Record("tuple", tuple((str(k), spelled(d, lookup, constant)) for k, d in enumerate(dims)))
            of, shape = spelled(node.value, lookup, constant), tuple(constant(d) for d in dims)
            return replace(of, shape=(*shape, *of.shape)) if isinstance(of, Registers) else Registers(of, shape)
        case ast.Call():
            return _made(node, lookup, constant)
    raise Unsupported(f"the type `{ast.unparse(node)}`")


def _made(node: ast.Call, lookup, constant):
    most = {k.arg: k.value for k in node.keywords}.get("upto")
    if most is not None:  # as large as it may get: what is in bounds of the launch is in bounds of this
        array = node.args[0]
        dims = array.slice.elts if isinstance(array.slice, ast.Tuple) else [array.slice]
        return Shared(spelled(array.value, lookup, constant), (constant(most), *map(constant, dims[1:])), False, False)
    if name_of(node.func) == "constexpr" and name_of(node.args[0]) == "type":
        return Constexpr("type")
    inner = spelled(node.args[0], lookup, constant)
    match name_of(node.func):
        case "const":
            return inner
        case "fragment.A" | "fragment.B" | "fragment.C" as word:
            rows, columns = inner.shape
            return Registers(inner.element, (rows * columns // (128 if rows == 64 else 32),), (word[-1], rows, columns))
        case "constexpr":
            return Constexpr(inner)
        case "ref":
            return Reference(inner)
        case "ptr":
            if len(node.args) < 2:
                return Pointer(inner, None)
            shape = node.args[1]
            return Pointer(inner, tuple(shape.elts) if isinstance(shape, ast.Tuple) else (shape,))
        case "shared" if not isinstance(inner, Registers):  # where a parameter points
            return inner
        case "shared":
            words = {k.arg: k.value for k in node.keywords}
            copies = words.get("copies")
            neighbors = constant(copies.slice) if isinstance(copies, ast.Subscript) else 0
            every = constant(words["every"]) if "every" in words else 0
            return Shared(inner.element, inner.shape, "across" in words, "copies" in words, neighbors, every)
        case "pipeline":
            return Slots(inner, constant(node.args[1]))
    raise Unsupported(f"the type `{ast.unparse(node)}`")


def constant_type(v) -> object:
    return "bool" if isinstance(v, bool) else LITERALS[0] if isinstance(v, int) else LITERALS[1]
