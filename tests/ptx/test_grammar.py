"""PTX is read as it is written: what compilers emit, form by form, generated trees there and back, and errors with their places."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from snap import SnapError
from snap.ptx import PtxError, parse, write
from snap.ptx.text import tree as t
from snap.ptx.text.printer import operand, statement

HEAD = ".version 8.8\n.target sm_90a\n.address_size 64\n"


def body(text: str) -> tuple[t.Statement, ...]:
    return parse(f"{HEAD}.visible .entry k()\n{{\n{text}\n}}\n").functions()["k"].body.body


def again(module: t.Module) -> t.Module:
    return parse(write(module))


# ---- form by form ------------------------------------------------------------------------------------------------------------------------------

INSTRUCTIONS = [
    "ret",
    "bra.uni $L__BB0_2",
    "@%p1 bra $L__BB0_2",
    "@!%p1 st.global.u32 [%rd1+16], %r2",
    "mov.u32 %r1, %tid.x",
    "mov.u64 %rd1, smem",
    "mov.f32 %f1, 0f3F800000",
    "mov.f64 %fd1, 0d3FF0000000000000",
    "add.s32 %r1, %r2, -5",
    "mov.b32 {%rs1, %rs2}, %r1",
    "ld.global.nc.L1::no_allocate.L2::128B.v4.f32 {%f1, %f2, %f3, %f4}, [%rd1+-16]",
    "ld.param.u64 %rd1, [k_param_0]",
    "setp.lt.and.s32 %p1|%p2, %r1, 10, !%p3",
    "shfl.sync.bfly.b32 %r1|%p1, %r2, 16, 31, -1",
    "bar.red.popc.u32 %r1, 0, %p1",
    "mbarrier.try_wait.parity.shared::cta.b64 done, [%r1], %r2",
    "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r1], [%rd1, {%r2, %r3}], [%r4]",
    "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f1, %f2, %f3, %f4}, %rd1, %rd2, p, 1, 1, 0, 0",
    "call.uni (retval0), vprintf, (param0, param1)",
    "call %rd1, (param0), prototype_0",
    "call.uni f",
    "shfl.sync.idx.b32 %r1|_, %r2, 0, 31, -1",
    "mov.u32 %r1, table[3]",
    "trap",
]


@pytest.mark.parametrize("text", INSTRUCTIONS)
def test_an_instruction_is_written_as_it_was_read(text):
    (found,) = body(f"{text};")
    assert isinstance(found, t.Instruction)
    canonical = text.replace("+-", "-")
    assert statement(found) == canonical
    assert body(f"{statement(found)};") == (found,)


@pytest.mark.parametrize(
    "text",
    [
        ".reg .pred %p<3>;",
        ".reg .b32 a, b;",
        ".local .align 16 .b8 __local_depot0[32];",
        ".shared .align 1024 .b8 smem[2][8];",
        ".param .align 8 .b8 q[16];",
        ".reg .v4 .f32 v;",
    ],
)
def test_declarations(text):
    found = body(text)
    assert body("".join(f"{statement(v)};\n" for v in found)) == found


def test_a_module_as_compilers_write_it():
    text = HEAD + """
.extern .func  (.param .b32 func_retval0) vprintf
(
        .param .b64 vprintf_param_0,
        .param .b64 vprintf_param_1
)
;
.extern .shared .align 1024 .b8 smem[];
.global .align 1 .b8 $str[4] = {37, 100, 10, 0};
.global .align 8 .u64 addresses[2] = {generic($str)+1, $str};
.global .align 4 .b8 bytes[4] = {0xFF($str), 0xFF00($str), {1}, 0b11};
.const .align 4 .f32 half = 0.5;
.func (.param .b32 r) twice(.param .b32 x) .noinline
{
  ret;
}
.visible .entry k(
        .param .u64 .ptr .global .align 16 k_param_0, // a comment
        .param .align 64 .b8 k_param_1[128]
)
.maxntid 128, 1, 1
.minnctapersm 2
.pragma "nounroll";
{
        .reg .pred      %p<2>;
        .loc    1 20 3
        .loc    1 21 5, function_name $L__info_string0+4, inlined_at 1 20 3
$L__BB0_1:
        .pragma "nounroll";
        { // begin inline asm
        .reg .pred done; again: mbarrier.try_wait.parity.shared::cta.b64 done, [%r1], %r2; @!done bra again;
        }
        brx.idx %r1, targets;
targets: .branchtargets $L__BB0_1, again;
prototype_0 : .callprototype (.param .b32 _) _ (.param .b64 _);
        /* over
           lines */
        ret;
}
.file   1 "/tmp/a b.py"
.section .debug_str
{
$L__info_string0:
.b8 95,90,78
}
.alias f, twice;
"""
    module = parse(text)
    assert again(module) == module
    k = module.functions()["k"]
    assert [d.name for d in k.directives] == ["maxntid", "minnctapersm", "pragma"]
    assert k.parameters[0].pointer == (".ptr", ".global", ".align", "16") and k.parameters[0].align is None
    assert k.parameters[1].align == 64 and k.parameters[1].dims == (128,)
    assert module.directive("target") == ("sm_90a",) and module.directive("version") == ("8.8",)
    inner = next(s for s in k.body.body if isinstance(s, t.Block))
    assert [type(s).__name__ for s in inner.body] == ["Variable", "Label", "Instruction", "Instruction"]
    half = next(v for v in module.items if isinstance(v, t.Variable) and v.name == "half")
    assert half.initial == t.Number(0x3FE0000000000000, "f64")


def test_places():
    found = body("  add.s32 %r1,\n   %r2, 3;")[0]
    assert (found.span.line, found.span.column, found.span.end_line) == (6, 2, 7)
    assert found.operands[1].span.line == 7


@pytest.mark.parametrize("text, value", [("0x10", 16), ("017", 15), ("0", 0), ("0b101", 5), ("12U", 12), ("-0x1", -1)])
def test_integers(text, value):
    assert body(f"mov.u32 %r1, {text};")[0].operands[1] == t.Number(value)


def test_deep_blocks():
    assert isinstance(body("{" * 3000 + "}" * 3000)[0], t.Block)


# ---- there and back ----------------------------------------------------------------------------------------------------------------------------

names = st.from_regex(r"[%$]?[A-Za-z][A-Za-z0-9_]{0,6}", fullmatch=True)
numbers = st.one_of(
    st.builds(t.Number, st.integers(-(1 << 63), (1 << 64) - 1)),
    st.builds(t.Number, st.integers(0, (1 << 32) - 1), st.just("f32")),
    st.builds(t.Number, st.integers(0, (1 << 64) - 1), st.just("f64")),
)
simple = st.one_of(st.builds(t.Name, names), numbers, st.builds(t.Sum, names, st.integers(-4096, 4096)))
several = st.lists(simple, min_size=1, max_size=4).map(tuple)
operands = st.one_of(
    simple,
    st.builds(t.Vector, several),
    st.builds(t.Address, several),
    st.builds(t.Arguments, several),
    st.builds(t.Not, st.builds(t.Name, names)),
    st.builds(t.Pair, st.builds(t.Name, names), st.builds(t.Name, names)),
    st.builds(t.Element, names, st.integers(0, 100)),
)
suffixes = st.lists(st.sampled_from(["global", "v4", "f32", "2d", "shared::cta", "mbarrier::complete_tx::bytes", "L2::128B"]), max_size=4)
instructions = st.builds(
    lambda name, rest, given, guard, negated: t.Instruction((name, *rest), given, guard, negated and bool(guard)),
    st.sampled_from(["ld", "add", "call", "wgmma", "bar"]),
    suffixes,
    st.lists(operands, max_size=4).map(tuple),
    st.one_of(st.just(""), names),
    st.booleans(),
)
variables = st.builds(
    lambda space, align, kind, name, dims: t.Variable("", space, align, kind, name, dims=dims),
    st.sampled_from(["reg", "local", "shared", "param"]),
    st.one_of(st.none(), st.sampled_from([1, 4, 16])),
    st.sampled_from(["b8", "u32", "f64", "pred"]),
    names,
    st.lists(st.one_of(st.none(), st.integers(1, 100)), max_size=2).map(tuple),
)
flat = st.one_of(instructions, variables, st.builds(t.Label, names), st.builds(t.Location, *[st.integers(0, 99)] * 3))
bodies = st.recursive(st.lists(flat, max_size=5), lambda inner: st.lists(st.one_of(flat, inner.map(lambda b: t.Block(tuple(b)))), max_size=4), max_leaves=12)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(bodies)
def test_what_is_written_reads_back(statements):
    module = t.Module((t.Function("visible", "entry", "k", (), (), (), t.Block(tuple(statements))),))
    assert again(module) == module


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.text(alphabet='abc.,;:{}[]()%@!|+-=<>"/*0123 \n$_é', max_size=40))
def test_any_text_is_a_module_or_an_error_with_a_place(text):
    try:
        parse(HEAD + text)
    except SnapError as error:
        assert error.diagnostic.span.line >= 1
        assert error.render()


def test_operands_are_written():
    assert operand(t.Address((t.Name("%rd1"), t.Vector((t.Name("%r1"), t.Number(2)))))) == "[%rd1, {%r1, 2}]"


# ---- errors ------------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, code, line, column, message",
    [
        ("add.s32 %r1 %r2;", "PTX002", 6, 12, "`,` is expected between operands, or `;` after the last one"),
        ("add.s32 %r1, ;", "PTX002", 6, 13, "an operand is expected"),
        ("mov.u32 %r1, 5", "PTX002", 7, 0, "`,` is expected between operands, or `;` after the last one"),
        (".reg .q7 %r1;", "PTX002", 6, 5, "a type is expected for this `.reg` variable"),
        ("ld.u32 %r1, [%rd1;", "PTX002", 6, 17, "`,` is expected between operands, or `]` after the last one"),
        ("mov.u32 %r1, #;", "PTX001", 6, 13, "PTX has no `#`"),
        ('.pragma "no', "PTX001", 6, 8, 'PTX has no `"`'),
        ("@1 bra x;", "PTX002", 6, 1, "a predicate is expected"),
        (".loc 1 x 3", "PTX002", 6, 7, "the line, a number, is expected"),
    ],
)
def test_errors_have_a_place(text, code, line, column, message):
    with pytest.raises(PtxError) as caught:
        body(text)
    span = caught.value.diagnostic.span
    assert (caught.value.code, span.line, span.column, caught.value.message) == (code, line, column, message)
    assert text.splitlines()[0] in caught.value.render() or line == 7


def test_an_open_body_is_named():
    with pytest.raises(PtxError, match="body that begins at line 5"):
        parse(HEAD + ".entry k()\n{\nret;\n")


def test_bytes_are_no_text():
    with pytest.raises(TypeError, match="PTX is text"):
        parse(b"")
