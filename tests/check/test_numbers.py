"""Scalars: C's conversions, literals, CUDA's arithmetic; what is folded is what the machine computes."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from check.checking import codes, errors, execute, in_block
from hypothesis import given, settings
from hypothesis import strategies as st

INTEGERS = {"i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64}
FLOATS = {"f16": np.float16, "f32": np.float32, "f64": np.float64}


def value_of(expression: str, type: str, params: str = "", args=()) -> object:
    """One expression, computed by the CPU machine."""
    dtype = {**INTEGERS, **FLOATS, "bool": np.bool_}[type]
    text = f"""
@kernel
@requires(grid[1], block[1], thread[1])
def k(out: ptr({type if type != 'bool' else 'u8'}) @ grid[1]{', ' if params else ''}{params}):
    with group(grid[1]):
        with partition(out, p=thread[1], offset=0) as mine:
            mine[0] = {expression if type != 'bool' else f'u8({expression})'}
"""
    out = np.zeros(1, np.uint8 if type == "bool" else dtype)
    execute(text)["k"][1](out, *args)
    return dtype(out[0])


def type_of(expression: str, params: str = "") -> str:
    """The type of an unannotated variable that holds it."""
    from snap._compiler.ir import nodes as ir
    from snap._compiler.ir.walk import statements

    text = f"@kernel\n@requires(grid[1], block[1], thread[1])\ndef k({params}):\n    x = {expression}"
    k = execute(text)["k"]
    return str(next(s.var.type for s in statements(k._the_one({}).typed.body) if isinstance(s, ir.Declare) and s.var.name == "x"))


# ---- types -----------------------------------------------------------------------------------------------------------------------------------

ALL = ", ".join(f"{t}_: {t} @ grid[1]" for t in ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f16", "bf16", "f32", "f64", "bool"))


@pytest.mark.parametrize("expression, type", [
    ("1", "i32"), ("2147483647", "i32"), ("2147483648", "i64"), ("-2147483648", "i32"), ("-2147483649", "i64"), ("9223372036854775808", "u64"), ("-9223372036854775808", "i64"),
    ("1.5", "f32"), ("True", "bool"), ("1 + 1.5", "f32"), ("1 << 31", "i64"), ("2147483647 + 1", "i64"),
    ("i8_ + i8_", "i32"), ("u8_ + u8_", "i32"), ("u16_ * i8_", "i32"), ("bool_ + bool_", "i32"), ("i32_ + u32_", "u32"), ("i64_ + u32_", "i64"), ("i32_ + u64_", "u64"), ("i64_ + u64_", "u64"),
    ("u32_ + i64_", "i64"), ("i32_ + 1", "i32"), ("u32_ + 1", "u32"), ("u8_ + 1", "i32"), ("i64_ + 1", "i64"), ("i32_ + 4294967296", "i64"), ("f16_ + 1", "f16"), ("f16_ + 1.5", "f16"),
    ("f16_ + f32_", "f32"), ("f32_ + f64_", "f64"), ("bf16_ + f32_", "f32"), ("f16_ + i32_", "f16"), ("f32_ + i64_", "f32"), ("f64_ + 1.5", "f64"), ("i32_ + 1.5", "f32"), ("i32_ / 2", "i32"),
    ("i32_ // 2", "i32"), ("f32_ / 2", "f32"), ("i32_ << i64_", "i32"), ("i64_ << i8_", "i64"), ("u8_ << 1", "i32"), ("-u8_", "i32"), ("~u8_", "i32"), ("-u32_", "u32"), ("+u8_", "i32"), ("not i32_", "bool"),
    ("i32_ < 3", "bool"), ("i32_ and f32_", "bool"), ("i32_ if bool_ else f32_", "f32"), ("i8_ if bool_ else i8_", "i8"), ("i8_ if bool_ else 1", "i32"), ("u32_ if bool_ else 1", "u32"),
    ("bool_ if bool_ else bool_", "bool"), ("1 if bool_ else 2.5", "f32"), ("min(i8_, u8_)", "i32"), ("max(u32_, 1)", "u32"), ("abs(i64_)", "i64"), ("sqrt(i32_)", "f32"), ("sqrt(f64_)", "f64"),
    ("sqrt(f16_)", "f16"), ("popc(u64_)", "i32"), ("dp4a(i32_, i32_, 1)", "i32"), ("intrinsic.dp4a(u32_, 5, u32_)", "u32"), ("dp2a_lo(i8_, i32_, i16_)", "i32"), ("isnan(f16_)", "bool"), ("int(f64_)", "i32"), ("float(i64_)", "f32"), ("bool(f32_)", "bool"), ("u8(i32_)", "u8"), ("i8_", "i8"),
    ("intrinsic.bitcast(f32_, u32)", "u32"), ("fma(f32_, 2, 1)", "f32"), ("pow(f32_, 2)", "f32"), ("bool_ & bool_", "i32"), ("i32_ ^ bool_", "i32"),
])
def test_the_usual_arithmetic_conversions(expression, type):
    assert type_of(expression, ALL) == type


@pytest.mark.parametrize("expression", [
    "f16_ + bf16_", "f32_ % 2.0", "f32_ // 2.0", "f32_ << 1", "1 << f32_", "f32_ & 1", "~f32_", "i32_ ** 2", "i32_ @ i32_", "1 / 0", "1 % 0", "i32_ / 0", "i32_ << 32", "i32_ << -1", "i64_ << 64",
    "popc(f32_)", "dp4a(i32_, u32_, i32_)", "dp4a(u8_, u32_, u32_)", "dp4a(i64_, i64_, i64_)", "dp4a(i32_, i32_)", "dp2a_hi(f32_, 1, 2)", "fast.dp4a(i32_, i32_, 0)", "sqrt()", "sqrt(1, 2)", "min(1)", "fma(1, 2)", "fast.floor(f32_)", "fast.huh(f32_)", "intrinsic.bitcast(f32_, u64)", "intrinsic.bitcast(bool_, u8)", "f16_ if bool_ else bf16_",
    "float4(1, 2, 3)", "float4(1, 2, 3, 4) < 1.0", "int(1, 2)", "int()", "int(x=1)", "10 ** 40", "'text'", "None", "(1, 2) + 1", "(1, 2) == (1, 2)", "(1, None)", "(1, sqrt)", "()", "[]", "[1, 2]", "(1, [2, 3])", "{1: 2}", "f'{1}'", "1j", "...", "x[0]", "1[0]",
    "sqrt", "int", "thread", "thread[1] + 1", "10000000000000000000000000", "i32_.x", "float4(1.0).q",
])
def test_what_has_no_value(expression):
    found = errors(f"x = {expression}", "grid[1], block[1], thread[1]", ALL)
    assert found and {e.code for e in found} <= {"SNAP017", "SNAP018", "SNAP019"}


@pytest.mark.parametrize("value, type, refused", [
    ("1", "i8", False), ("1.5", "i32", True), ("1.0", "i32", True), ("f32_", "i32", True), ("i32_", "i8", False), ("i64_", "i32", False), ("u64_", "i8", False), ("i32_", "f32", False), ("i64_", "f16", False),
    ("f64_", "f32", True), ("f32_", "f16", True), ("f32_", "bf16", True), ("f16_", "f32", False), ("bf16_", "f32", False), ("f16_", "bf16", True), ("1.5", "f16", False), ("1e300", "f32", False),
    ("bool_", "i32", False), ("bool_", "f32", False), ("i32_", "bool", False), ("f32_", "bool", True), ("1.5 + 1", "f16", False), ("f32_ + 1.5", "f16", True),
])
def test_what_is_lost_is_lost_with_a_cast(value, type, refused):
    found = codes(f"x: {type} = {value}", "grid[1], block[1], thread[1]", ALL)
    assert found == ([("SNAP018", 1)] if refused else [])


def test_augmented_assignment_keeps_the_targets_type():
    text = "x: {} = {}\nx {}= {}"
    for type, start, op, value, refused in [("i8", "1", "+", "1", False), ("u8", "1", "-", "300", False), ("i32", "1", "+", "1.5", True), ("i32", "1", "*", "f32_", True), ("f32", "1.0", "/", "2", False),
                                            ("f16", "1.0", "+", "f32_", True), ("f32", "1.0", "+", "f16_", False), ("i32", "1", "<<", "2", False), ("f32", "1.0", "%", "2.0", True), ("i32", "1", "//", "2", False)]:
        assert codes(text.format(type, start, op, value), "grid[1], block[1], thread[1]", ALL) == ([("SNAP018", 2)] if refused else []), (type, op, value)


def test_comparisons_chain():
    assert value_of("int(1 < x < 3) + 10 * int(1 < x > 1)", "i32", "x: int @ grid[1]", (2,)) == 11
    assert value_of("int(1 < x < 3) + 10 * int(1 < x > 5)", "i32", "x: int @ grid[1]", (3,)) == 0


def test_unsigned_comparison_is_cs():
    assert value_of("int(x < y)", "i32", "x: int @ grid[1], y: u32 @ grid[1]", (-1, 1)) == 0
    assert value_of("int(-1 < y)", "i32", "y: u32 @ grid[1]", (1,)) == 0


# ---- folding ---------------------------------------------------------------------------------------------------------------------------------

OPERATORS = ["+", "-", "*", "/", "//", "%", "<<", ">>", "&", "|", "^"]


def c_value(op: str, a, b, dtype):
    """One operation on two numbers of `dtype`, as C has it, or Python `//` and `%`; None where C leaves it undefined."""
    bits = dtype(0).itemsize * 8
    x, y = int(a), int(b)
    if op in ("/", "//", "%"):
        if y == 0 or (np.issubdtype(dtype, np.signedinteger) and x == -(1 << (bits - 1)) and y == -1):
            return None
        q = abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
        result = q if op == "/" else x // y if op == "//" else x % y
    elif op in ("<<", ">>"):
        if not 0 <= y < bits:
            return None
        result = x << y if op == "<<" else x >> y
    else:
        result = {"+": x + y, "-": x - y, "*": x * y, "&": x & y, "|": x | y, "^": x ^ y}[op]
    result &= (1 << bits) - 1
    if np.issubdtype(dtype, np.signedinteger) and result >> (bits - 1):
        result -= 1 << bits
    return dtype(result)


@st.composite
def integer_operations(draw):
    type = draw(st.sampled_from(["i32", "u32", "i64", "u64"]))
    info = np.iinfo(INTEGERS[type])
    numbers = st.one_of(st.integers(int(info.min), int(info.max)), st.integers(-3, 70).map(lambda n: max(n, int(info.min))), st.sampled_from([int(info.min), int(info.max)]))
    op = draw(st.sampled_from(OPERATORS))
    a, b = draw(numbers), draw(numbers if op not in ("<<", ">>") else st.integers(0, 70))
    return type, op, a, b


def literal(n: int) -> str:
    return str(n) if n >= 0 else f"({n})"


@settings(max_examples=60, deadline=None)
@given(st.lists(integer_operations(), min_size=8, max_size=8))
def test_integer_operations_fold_to_what_c_computes(operations):
    kept = [(type, op, a, b, expected) for type, op, a, b in operations if (expected := c_value(op, a, b, INTEGERS[type])) is not None]
    if not kept:
        return
    run_both([(type, f"{type}({literal(a)}) {op} {type}({literal(b)})", f"x{k} {op} y{k}", [(f"x{k}", type, a), (f"y{k}", type, b)], expected)
              for k, (type, op, a, b, expected) in enumerate(kept)])


def run_both(items: list[tuple[str, str, str, list, object]]) -> None:
    """(type, constant expression, the same over parameters, the parameters, what it is): one kernel computes all of them both ways."""
    params = ", ".join(f"{name}: {type} @ grid[1]" for _, _, _, given, _ in items for name, type, _ in given)
    outs = ", ".join(f"out{k}: ptr({type}) @ grid[1]" for k, (type, *_) in enumerate(items))
    lines = []
    for k, (_, constant, variable, _, _) in enumerate(items):
        lines += [f"    with partition(out{k}, p=thread[1], offset=0) as m{k}:", f"        m{k}[0] = {constant}", f"        m{k}[1] = {variable}"]
    text = f"@kernel\n@requires(grid[1], block[1], thread[1])\ndef k({outs}{', ' if params else ''}{params}):\n" + "\n".join(lines)
    dtypes = {**INTEGERS, **FLOATS}
    arrays = [np.zeros(2, dtypes[type]) for type, *_ in items]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        execute(text)["k"][1](*arrays, *(dtypes[type](value) for _, _, _, arguments, _ in items for _, type, value in arguments))
    for array, (type, constant, _, arguments, expected) in zip(arrays, items):
        for way, got in zip(("folded", "computed"), array):
            same = got == expected or (type in FLOATS and math.isnan(got) and math.isnan(expected))
            assert same, f"{constant} is {expected}, {way}: {got} ({arguments})"


@st.composite
def float_operations(draw):
    type = draw(st.sampled_from(["f16", "f32", "f64"]))
    width = {"f16": 16, "f32": 32, "f64": 64}[type]
    numbers = st.floats(width=width, allow_nan=False, allow_infinity=False)
    return type, draw(st.sampled_from(["+", "-", "*", "/"])), draw(numbers), draw(numbers)


@settings(max_examples=60, deadline=None)
@given(st.lists(float_operations(), min_size=8, max_size=8))
def test_float_operations_fold_to_what_the_type_computes(operations):
    items = []
    for k, (type, op, a, b) in enumerate(operations):
        dtype = FLOATS[type]
        with np.errstate(all="ignore"):
            expected = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide}[op](dtype(a), dtype(b))
        items.append((type, f"{type}({literal_float(a)}) {op} {type}({literal_float(b)})", f"x{k} {op} y{k}", [(f"x{k}", type, a), (f"y{k}", type, b)], expected))
    run_both(items)


def literal_float(x: float) -> str:
    return f"({float(x)!r})"


@st.composite
def casts(draw):
    source = draw(st.sampled_from(["i32", "i64", "u32", "u64", "f32", "f64", "f16"]))
    target = draw(st.sampled_from(sorted({**INTEGERS, **FLOATS})))
    if source in FLOATS:
        value = draw(st.floats(-60000, 60000, width={"f16": 16, "f32": 32, "f64": 64}[source]))
        if target in INTEGERS and not np.iinfo(INTEGERS[target]).min <= math.trunc(value) <= np.iinfo(INTEGERS[target]).max:
            value = 3.75
    else:
        info = np.iinfo(INTEGERS[source])
        value = draw(st.one_of(st.integers(int(info.min), int(info.max)), st.integers(max(-300, int(info.min)), 300)))
    return source, target, value


@settings(max_examples=60, deadline=None)
@given(st.lists(casts(), min_size=8, max_size=8))
def test_casts_fold_to_what_c_computes(found):
    items = []
    for k, (source, target, value) in enumerate(found):
        dtypes = {**INTEGERS, **FLOATS}
        given_value = dtypes[source](value)
        with np.errstate(all="ignore"):
            if target in INTEGERS:
                bits = dtypes[target](0).itemsize * 8
                wrapped = math.trunc(float(given_value)) if source in FLOATS else int(given_value)
                wrapped &= (1 << bits) - 1
                expected = dtypes[target](wrapped - (1 << bits) if target.startswith("i") and wrapped >> (bits - 1) else wrapped)
            else:
                expected = given_value.astype(dtypes[target])
        constant = literal_float(float(given_value)) if source in FLOATS else literal(int(given_value))
        items.append((target, f"{target}({source}({constant}))", f"{target}(x{k})", [(f"x{k}", source, value)], expected))
    run_both(items)


@st.composite
def trees(draw, depth: int = 3) -> tuple[str, str, list]:
    """A constant expression, and the same with its leaves as parameters."""
    leaves: list = []

    def build(left: int) -> tuple[str, str]:
        if left == 0 or draw(st.integers(0, 4)) == 0:
            type = draw(st.sampled_from(["i32", "i64", "u32", "u8", "i16", "f32", "f64", "bool"]))
            if type in FLOATS:
                value = draw(st.integers(-64, 64)) / 4
                text = literal_float(value)
            elif type == "bool":
                value = draw(st.booleans())
                text = str(value)
            else:
                info = np.iinfo(INTEGERS[type])
                value = draw(st.integers(max(-100, int(info.min)), 100))
                text = literal(value)
            leaves.append((f"p{len(leaves)}", type, value))
            return f"{type}({text})", leaves[-1][0]
        kind = draw(st.sampled_from(["binary", "binary", "binary", "compare", "choose", "unary", "minmax", "cast", "logic"]))
        (a, x), (b, y) = build(left - 1), build(left - 1)
        match kind:
            case "binary":
                op = draw(st.sampled_from(["+", "-", "*"]))
                return f"({a} {op} {b})", f"({x} {op} {y})"
            case "compare":
                op = draw(st.sampled_from(["<", "<=", "==", "!=", ">", ">="]))
                return f"({a} {op} {b})", f"({x} {op} {y})"
            case "choose":
                c, z = build(left - 1)
                return f"({a} if {c} else {b})", f"({x} if {z} else {y})"
            case "unary":
                op = draw(st.sampled_from(["-", "not ", "+"]))
                return f"({op}{a})", f"({op}{x})"
            case "minmax":
                op = draw(st.sampled_from(["min", "max"]))
                return f"{op}({a}, {b})", f"{op}({x}, {y})"
            case "cast":
                op = draw(st.sampled_from(["int", "float", "i64", "u32", "f64", "bool"]))
                return f"{op}({a})", f"{op}({x})"
            case "logic":
                op = draw(st.sampled_from(["and", "or"]))
                return f"({a} {op} {b})", f"({x} {op} {y})"

    constant, variable = build(depth)
    return constant, variable, leaves


@settings(max_examples=60, deadline=None)
@given(st.lists(trees(), min_size=4, max_size=4))
def test_constant_expressions_fold_to_what_the_machine_computes(found):
    params, args, lines = [], [], []
    dtypes = {**INTEGERS, **FLOATS, "bool": np.bool_}
    for k, (constant, variable, leaves) in enumerate(found):
        for name, type, value in leaves:
            params.append(f"t{k}_{name}: {type} @ grid[1]")
            args.append(dtypes[type](value))
            variable = variable.replace(f"{name} ", f"t{k}_{name} ").replace(f"{name})", f"t{k}_{name})").replace(f"{name},", f"t{k}_{name},")
        variable = f"t{k}_{variable}" if variable in {name for name, _, _ in leaves} else variable
        lines += [f"    x{k} = {constant}", f"    y{k} = {variable}",
                  f"    with partition(out, p=thread[1], offset={2 * k}) as m{k}:", f"        m{k}[0] = f64(x{k})", f"        m{k}[1] = f64(y{k})"]
    text = f"@kernel\n@requires(grid[1], block[1], thread[1])\ndef k(out: ptr(f64) @ grid[1], {', '.join(params)}):\n" + "\n".join(lines)
    out = np.zeros(2 * len(found), np.float64)
    with np.errstate(all="ignore"):
        execute(text)["k"][1](out, *args)
    np.testing.assert_array_equal(out[::2], out[1::2], err_msg=text)


def test_literals_take_the_type_of_what_they_meet():
    assert value_of("x + 0.1", "f64", "x: f64 @ grid[1]", (0.0,)) == 0.1
    assert value_of("x + 0.1", "f32", "x: f32 @ grid[1]", (0.0,)) == np.float32(0.1)
    assert value_of("f64(0.1)", "f64") == 0.1
    assert value_of("0.1 + 0.2", "f64") == 0.1 + 0.2
    assert value_of("x * 3000000000", "i64", "x: int @ grid[1]", (2,)) == 6000000000
    assert value_of("x + 4000000000", "u32", "x: u32 @ grid[1]", (1,)) == 4000000001


CHOICES = [
    ("d * (0.1 if c else 0.2)", "f64", 0.1), ("d * (0.1 if not c else 0.2)", "f64", 0.2), ("d * max(0.1, 0.2)", "f64", 0.2), ("min(min(0.1, 0.2), 0.3) + d * 0", "f64", 0.1),
    ("d * -(0.1 if c else 0.2)", "f64", -0.1), ("d * +(0.1 if c else 0.2)", "f64", 0.1), ("d * -max(0.1, 0.2)", "f64", -0.2), ("d * (0.1 if c else 1)", "f64", 0.1),
    ("d * max(0.1, 0.3 if c else 0.2)", "f64", 0.3), ("d * -min(0.1, 0.3 if c else 0.2)", "f64", -0.1), ("d * ((0.1 if c else 0.2) if c else 0.3)", "f64", 0.1),
    ("0.1 if c else 0.2", "f64", 0.1), ("max(0.1, 0.2 if c else 0.3)", "f64", 0.2), ("d * (0.1 if True else 1)", "f64", 0.1),
    ("u * (3000000000 if c else 1)", "u32", 3000000000), ("u + max(4000000000, 5 if c else 6)", "u32", 4000000001), ("u + -(1 if c else 2)", "u32", 0), ("u & ~(1 if not c else 2)", "u32", 1),
    ("i + (3000000000 if c else 1)", "i64", 3000000001), ("i + (1 if c else -2147483648)", "i64", 2), ("2147483648 if c else 1", "i64", 1 << 31), ("-(2147483648 if c else 1)", "i64", -(1 << 31)),
    ("u8(max(260, 5 if c else 6))", "u8", 4), ("int(0.9 if c else 1.9)", "i32", 0), ("int(max(0.9, 1.9 if c else 2.9))", "i32", 1), ("(1 if c else 0) << 3", "i32", 8), ("1 << (3 if c else 0)", "i32", 8),
    ("h * (0.1 if c else 0.2)", "f16", float(np.float16(0.1))), ("(0.1 if c else 0.2) + (1 if c else 2)", "f32", float(np.float32(0.1) + np.float32(1))),
]  # fmt: skip


@pytest.mark.parametrize("expression, type, expected", CHOICES)
def test_a_choice_between_literals_is_as_free_as_they_are(expression, type, expected):
    params, args = "c: bool @ grid[1], d: f64 @ grid[1], u: u32 @ grid[1], i: int @ grid[1], h: f16 @ grid[1]", (True, 1.0, 1, 1, np.float16(1))
    assert value_of(expression, type, params, args) == expected


@pytest.mark.parametrize("expression, type, expected", CHOICES)
def test_the_second_interpreter_agrees_about_choices(expression, type, expected):
    from fuzz import slow

    text = f"""
@kernel
@requires(grid[1], block[1], thread[1])
def k(out: ptr({type}) @ grid[1], c: bool @ grid[1], d: f64 @ grid[1], u: u32 @ grid[1], i: int @ grid[1], h: f16 @ grid[1]):
    with group(grid[1]):
        with partition(out, p=thread[1], offset=0) as mine:
            mine[0] = {expression}
"""
    out = np.zeros(1, {**INTEGERS, **FLOATS}[type])
    slow.run("from __future__ import annotations\nfrom snap import *\n" + text, "k", 1, [out, True, 1.0, 1, 1, np.float16(1)])
    assert out[0] == expected


def test_what_chooses_between_literals_is_read_in_its_turn():
    text = """
@device
@requires(thread[1])
def f(x: ptr(int) @ thread[1]) -> f64 @ thread[1]:
    x[0] = 1
    return 1.0

@kernel
@requires(grid[1], block[1], thread[1])
def k(out: ptr(f64) @ grid[1], x: ptr(int) @ grid[1]):
    with group(grid[1]):
        with partition(out, p=thread[1], offset=0) as mine, partition(x, p=thread[1], offset=0) as own:
            mine[0] = (0.1 if own[0] == 0 else 0.2) * f(own)
            mine[1] = max(0.1, 0.3 if own[0] == 0 else 0.2) * f(own)
"""
    out = np.zeros(2)
    execute(text)["k"][1](out, np.zeros(1, np.int32))
    assert list(out) == [0.1, 0.2]


def test_a_choice_that_does_not_fit_is_refused():
    text = "c: bool = True\nx: u8 = {} if c else 1"
    assert codes(text.format("256"), "thread[1]") == [("SNAP018", 2)] and codes(text.format("255"), "thread[1]") == []
    assert codes("c: bool = True\nx: int = 0.5 if c else 1", "thread[1]") == [("SNAP018", 2)]


def test_constexprs_have_their_type():
    text = "K: constexpr({}) = {}\nx: {} = K * 3"
    run = lambda type, value, result: codes(text.format(type, value, result), "grid[1], block[1], thread[1]")
    assert run("int", "3", "int") == [] and run("f32", "3", "f32") == [] and run("f32", "1.5", "int") == [("SNAP018", 2)] and run("int", "1.5", "int") == [("SNAP018", 1)]
    assert codes("K: constexpr(int)", "thread[1]") == [("SNAP018", 1)]
    assert codes("K: constexpr(int) = 3\nK = 4", "thread[1]") == [("SNAP018", 2)]
    assert codes("n: int = 3\nK: constexpr(int) = n", "thread[1]") == []
    assert codes("n: int = 3\nK: constexpr(int) = n\nn = 4", "thread[1]") == [("SNAP018", 2)]
    assert in_block("K: constexpr(int) = count(thread[1]) / 2\na: int[K] @ thread[1]") == []


def test_division_truncates_and_whole_quotients_are_pythons():
    for a, b in ((7, 2), (-7, 2), (7, -2), (-7, -2)):
        for x, y, params, args in (("x", "y", "x: int @ grid[1], y: int @ grid[1]", (a, b)), (f"({a})", f"({b})", "", ())):
            assert value_of(f"{x} / {y}", "i32", params, args) == int(a / b)
            assert value_of(f"({x} // {y}) * 100 + {x} % {y}", "i32", params, args) == a // b * 100 + a % b


def test_vectors():
    assert value_of("int4(1, 2, 3, 4).w * 10 + int2(7).y", "i32") == 47
    assert codes("v: float4 = float4(1)\nv.x = 2\nv.q = 3", "thread[1]") == [("SNAP018", 3)]
    assert codes("v: float4 = 1.0", "thread[1]") == [("SNAP018", 1)]
    assert codes("v: float4 = int4(1)", "thread[1]") == [("SNAP018", 1)]
    assert codes("v: float2 = float2(1.5, 2)\nw: float2 = v if v.x > 1 else float2(0.0)", "thread[1]") == []
    assert codes("v: float2 = float2(1.5, 2)\nif v:\n    pass", "thread[1]") == [("SNAP018", 2)]
    assert codes("v: i8[4] = float2(3)", "thread[1]")[0][0] == "SNAP018"
