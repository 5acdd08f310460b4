"""Lines that kernels print: CUDA's printf, by the first thread of the group; and assertions.

Input:      a `Print`, or an `Assert`
Output:     a call of printf, under the condition that singles out who prints; a test, and what is done where it fails
Invariant:  the text is what the CPU machine prints (`snap._compiler.ir.printed`)
"""

from __future__ import annotations

import os

from snap._compiler.codegen.core import tree
from snap._compiler.codegen.core.issue import only
from snap._compiler.codegen.core.module import Helper
from snap._compiler.codegen.core.scope import Scope
from snap._compiler.codegen.values.expressions import lower
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.printed import FAILED, FORMATS, THREAD_AT, UNNAMED, WHICH_AT, Assertion, UnitNumber, who
from snap._compiler.ir.types import BOOL, Level

# NVRTC knows printf, and has no header for it.
PRINTF = Helper("printf", "#ifndef __CUDACC_RTC__\n#include <stdio.h>\n#endif")
BLOCK, THREAD = tree.Name("blockIdx.x"), tree.Name("threadIdx.x")


def line(scope: Scope, s: ir.Print) -> list[tree.Stmt]:
    head, numbers = who(s.privilege)
    said = "".join(part for text, arg in zip(s.texts, s.args) for part in (text.replace("%", "%%"), FORMATS[arg.type]))
    said += s.texts[-1].replace("%", "%%")
    text = tree.Literal(quoted(f"{head}: {said}\n" if said else f"{head}:\n"))
    values = (_value(scope, arg) for arg in s.args)
    call = tree.Call(scope.module.helper(PRINTF), (text, *(_number(scope, s, n) for n in numbers), *values))
    lead = None if s.lead is None or scope.elected else lower(scope, s.lead)
    return only(lead, tree.Evaluate(call))


def _number(scope: Scope, s: ir.Print, which: UnitNumber) -> tree.Expr:
    level = s.privilege.level
    first: tree.Expr = THREAD if level is Level.THREAD and which is not UnitNumber.BLOCK else BLOCK
    if level is Level.CLUSTER:
        first = tree.Binary("/", BLOCK, tree.Integer(scope.module.cluster or 1))
    return first if which is not UnitNumber.LAST else tree.Binary("+", first, tree.Integer(s.privilege.shape.span - 1))


def _value(scope: Scope, arg: ir.Expr) -> tree.Expr:
    value = lower(scope, arg)
    if arg.type == BOOL:
        return tree.Ternary(value, tree.Literal('"True"'), tree.Literal('"False"'))
    return value


def quoted(text: str) -> str:
    """A string literal of C, in ASCII."""
    named = {"\n": "\\n", "\t": "\\t", '"': '\\"', "\\": "\\\\"}
    made = [
        named.get(char) or (char if " " <= char <= "~" else "".join(f"\\{byte:03o}" for byte in _bytes(char)))
        for char in text
    ]
    return f'"{"".join(made)}"'.replace("??", '?""?')  # what older compilers read as a trigraph


def _bytes(char: str) -> bytes:
    return char.encode("utf-8", "surrogatepass")


# ---- assertions -----------------------------------------------------------------------------------------------------

# Which assertion it was, and of whom, is written at once, by any of those that fail.
_FAIL = f"""__device__ unsigned long long* {FAILED};

static __device__ __forceinline__ void snap_fail(unsigned int which, const char* text, const char* file, unsigned int line) {{
    if ({FAILED} != nullptr) {{
        *(volatile unsigned long long*){FAILED} =
            (unsigned long long)which << {WHICH_AT} | (unsigned long long)threadIdx.x << {THREAD_AT} | blockIdx.x;
        __threadfence_system();
    }}
%s    __trap();
    __builtin_unreachable();
}}"""
_SAY = """#ifdef __CUDACC_RTC__
    __assertfail(text, file, line, "a Snap kernel", sizeof(char));
#else
    __assert_fail(text, file, line, "a Snap kernel");
#endif
"""
_ASSERT = Helper("assert", "#ifndef __CUDACC_RTC__\n#include <assert.h>\n#endif")
FAIL = Helper("snap_fail", _FAIL % _SAY, needs=(_ASSERT,))
# A call, even one that is never made, would keep products of a warpgroup from running asynchronously.
SILENT_FAIL = Helper("snap_fail", _FAIL % "")


def assertion(scope: Scope, s: ir.Assert) -> tree.Stmt:
    module = scope.module
    failed = Assertion(s.message or UNNAMED, s.span)
    module.asserts.append(failed)
    name = module.helper(SILENT_FAIL if module.accumulators else FAIL)
    told = quoted(failed.message), quoted(os.path.basename(s.span.filename))
    message, file = map(tree.Literal, told)
    failed_at = tree.Call(name, (tree.Integer(len(module.asserts)), message, file, tree.Integer(s.span.line)))
    return tree.If(tree.Unary("!", lower(scope, s.cond)), (tree.Evaluate(failed_at),))
