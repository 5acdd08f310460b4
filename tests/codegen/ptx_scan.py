"""PTX against the text it was made from: loads of memory that the kernel writes stand where the text has them.

Two checks.  `cached`: a load that goes past coherence (`ld.global.nc`) is of an array that the kernel only reads.  `stale`: a value that the text
reads from memory is no older than the last barrier before the place where the text reads it.  For the second the text is marked: each read of
memory that the kernel may write becomes `snap_seen<n>(...)`, an empty instruction that needs the value at this place and hinders nobody, so that
the PTX says at each such place which register is taken for the memory's content.
"""

from __future__ import annotations

import itertools
import re
from contextlib import contextmanager
from types import SimpleNamespace

from codegen.flow import Instruction, forward

from snap._compiler.codegen import CudaModule
from snap._compiler.codegen.core import statements, targets, tree
from snap._compiler.codegen.core.module import Helper
from snap._compiler.codegen.memory import addresses
from snap._compiler.codegen.values import expressions
from snap._compiler.ir import nodes as ir

MARK = Helper("snap_seen", """\
template <int place, typename T>
static __device__ __forceinline__ T snap_seen(T value) {
    unsigned int words[(sizeof(T) + 3) / 4] = {};
    memcpy(words, &value, sizeof(T));
    #pragma unroll
    for (int i = 0; i < (int)(sizeof(T) + 3) / 4; ++i) {
        asm volatile("// snap_seen %0, %1;" :: "n"(place), "r"(words[i]));
    }
    return value;
}""")


@contextmanager
def marked(places: dict[int, str]):
    """Kernels lowered inside have their reads of memory marked; `places` receives what stands at each."""
    numbers = itertools.count()

    def lvalue(scope, access):
        place = addresses.lvalue(scope, access)
        if access.view.obj.const:
            return place
        number = next(numbers)
        places[number] = f"{access.view.obj.name}, line {access.span.line}" if hasattr(access, "span") else access.view.obj.name
        return tree.Call(f"{scope.module.helper(MARK)}<{number}>", (place,))

    def reads_target(target, e):  # `y[i] += 1` in full, so that its read is marked too
        return not isinstance(target, ir.MemTarget) and targets.reads_target(target, e)

    expressions.addresses, statements.reads_target = SimpleNamespace(element=addresses.element, whole=addresses.whole, lvalue=lvalue), reads_target
    try:
        yield
    finally:
        expressions.addresses, statements.reads_target = addresses, targets.reads_target


# ---- reading PTX -------------------------------------------------------------------------------------------------------------------------

_SEEN = re.compile(r"//\s*snap_seen ([^;\n]*);")
_STATEMENT = re.compile(r"\s*(?:([{}])|([\w$]+):(?!:)|([^;]*);)")
_REGISTER = re.compile(r"%\w+|\b(?:keep|done|there|always|never)\b")
_NO_RESULT = ("bar", "barrier", "bra", "brx", "ret", "exit", "trap", "call", "nanosleep", "wgmma", "fence", "membar", "snap_seen", "setmaxnreg",
              "prefetch", "discard", "brkpt", "st", "red", "cp", "griddepcontrol", "elect")


def entry(ptx: str) -> tuple[list[str], str]:
    """The names of the kernel's parameters that may be pointers (None where not), and its body."""
    start = ptx.index(".entry")
    opening = ptx.index("(", start)
    closing = ptx.index(")", opening)
    params = [(line.split()[-1] if ".u64" in line else "") for line in ptx[opening + 1:closing].split(",\n")]
    return params, ptx[ptx.index("{", closing) + 1:ptx.rindex("}")]


def _split(operands: str) -> tuple[str, ...]:
    """At commas outside braces, brackets and parentheses."""
    found, depth, start = [], 0, 0
    for at, character in enumerate(operands):
        depth += (character in "{[(") - (character in "}])")
        if character == "," and not depth:
            found.append(operands[start:at].strip())
            start = at + 1
    return tuple(part for part in (*found, operands[start:].strip()) if part)


def parse(body: str) -> list[Instruction]:
    body = _SEEN.sub(r"snap_seen \1;", body)
    body = re.sub(r"//[^\n]*|/\*.*?\*/", "", body, flags=re.S)
    code: list[Instruction] = []
    labels: dict[str, int] = {}
    scopes, blocks = [""], itertools.count()
    at = 0
    while found := _STATEMENT.match(body, at):
        at = found.end()
        brace, label, statement = found.groups()
        if brace == "{":
            scopes.append(f"@{next(blocks)}")
        elif brace == "}":
            if len(scopes) > 1:
                scopes.pop()
        elif label:
            labels[label + ("" if label.startswith("$") else scopes[-1])] = len(code)
        elif statement and not statement.lstrip().startswith("."):
            code.append(_instruction(statement.strip(), scopes[-1]))
    _connect(code, labels)
    _from_zero(code)
    return code


def _instruction(statement: str, scope: str) -> Instruction:
    guard = re.match(r"@!?(%?\w+)\s+", statement)
    plain = statement[guard.end():] if guard else statement
    op, _, rest = plain.partition(" ") if " " in plain else plain.partition("\t")
    op, rest = op.strip(), rest.strip()
    operands = _split(rest)
    uses: list[str] = [guard.group(1)] if guard else []
    defs: list[str] = []
    results = operands[:1]
    if op.startswith("wgmma.mma_async"):
        defs += _REGISTER.findall(operands[0])
        uses += _REGISTER.findall(rest)
    elif not results or results[0].startswith("[") or op.split(".")[0] in _NO_RESULT:
        uses += _REGISTER.findall(rest)
    else:
        defs += _REGISTER.findall(results[0])
        uses += [register for operand in operands[1:] for register in _REGISTER.findall(operand)]
    if op.startswith("br") and operands and not operands[-1].startswith("$"):
        operands = (*operands[:-1], operands[-1] + scope)
    return Instruction(op, statement, tuple(defs), tuple(uses), guard is not None, operands)


def _connect(code: list[Instruction], labels: dict[str, int]) -> None:
    code.append(Instruction("end", ""))
    for at, one in enumerate(code[:-1]):
        then: tuple[int, ...] = (at + 1,)
        if one.op.split(".")[0] == "bra":
            then = (labels[one.operands[-1]], *(then if one.guarded else ()))
        elif one.op.startswith("brx"):
            then = tuple(sorted(set(labels.values())))
        elif one.op.split(".")[0] in ("ret", "exit", "trap") and not one.guarded:
            then = ()
        one.next = then


def _from_zero(code: list[Instruction]) -> None:
    """Products that start from zero whatever happens do not read their accumulators."""
    given: dict[str, set[str]] = {}
    for one in code:
        for register in one.defs:
            given.setdefault(register, set()).add(one.operands[1] if one.op.startswith("mov") else "")
    for before, one in zip(code, code[1:]):
        if one.op.startswith("wgmma.mma_async") and before.op.startswith("setp") and given.get(before.operands[1]) == {"0"}:
            one.uses = tuple(register for operand in one.operands[1:] for register in _REGISTER.findall(operand))


# ---- pointers ----------------------------------------------------------------------------------------------------------------------------


def pointed(code: list[Instruction]) -> dict[str, set[str]]:
    """Which parameters, or tables of the module, an address may come from, for each register; loads from memory are the end of it."""
    found: dict[str, set[str]] = {}
    changed = True
    while changed:
        changed = False
        for one in code:
            if one.op.startswith("ld.param"):
                made = set(re.findall(r"\[(\w+)", one.operands[1]))
            elif one.op.startswith("ld"):
                continue
            elif one.op.startswith("mov") and re.fullmatch(r"[A-Za-z_]\w*", one.operands[1]):
                made = {one.operands[1]}
            else:
                made = set().union(*(found.get(use, ()) for use in one.uses))
            for register in one.defs:
                if not made <= found.setdefault(register, set()):
                    found[register] |= made
                    changed = True
    return found


def cached(module: CudaModule, ptx: str) -> list[str]:
    """Loads that bypass coherence, of memory that the kernel may write."""
    params, body = entry(ptx)
    code = parse(body)
    written = {params[at] for at, param in enumerate(module.params) if param.kind == "pointer" and not param.type.startswith("const ")}
    from_params = pointed(code)
    found = []
    for one in code:
        if one.op.startswith("ld") and ".nc" in one.op:
            sources = set().union(*(from_params.get(use, ()) for use in one.uses))
            if sources & written or not sources:
                found.append(f"a load past coherence of memory that the kernel writes: {one.text}")
    return found


# ---- how old values are ------------------------------------------------------------------------------------------------------------------

# At these, what other threads wrote may become visible, and memory may receive other content.
_BARRIERS = ("bar.", "barrier.", "fence", "membar", "mbarrier.try_wait", "mbarrier.test_wait", "cp.async.wait", "cp.async.bulk.wait", "wgmma.wait",
             "griddepcontrol.wait")
_SAME_VALUE = ("mov", "cvt", "shl", "shr", "and", "or", "xor", "not", "prmt", "bfe", "bfi", "selp", "setp", "slct", "lop3", "shf", "cvta")


def _is_barrier(one: Instruction) -> bool:
    return one.op.startswith(_BARRIERS) or (one.op.startswith(("ld.", "atom.")) and re.search(r"\.(acquire|acq_rel)\b", one.op) is not None)


def stale(ptx: str, places: dict[int, str]) -> list[str]:
    """Marked reads whose value was in a register since before a barrier.

    A value is 'new' if it was loaded or stored since the last barrier, 'old' if it was loaded or stored before that, and 'made' if it was merely
    computed, which is not what memory holds.
    """
    code = parse(entry(ptx)[1])

    def step(at: int, ages: dict[str, frozenset]) -> dict[str, frozenset]:
        one = code[at]
        if one.op in ("end", "snap_seen"):
            return ages
        if _is_barrier(one):
            ages = {register: frozenset("old" if one == "new" else one for one in age) for register, age in ages.items()}
        after = dict(ages)
        kind = one.op.split(".")[0]
        if kind in ("ld", "ldu", "atom", "ldmatrix") and not one.op.startswith("ld.param"):
            made = frozenset({"new"})
        elif kind in _SAME_VALUE:
            made = frozenset().union(*(ages.get(use, frozenset()) for use in one.uses)) - {"made"} or frozenset({"made"})
        else:
            made = frozenset({"made"})
        for register in one.defs:
            after[register] = made | ages.get(register, frozenset()) if one.guarded else made
        if kind == "st" and not one.op.startswith("st.param"):
            for register in _REGISTER.findall(one.operands[1]):
                after[register] = frozenset({"new"})
        return after

    def join(a: dict[str, frozenset], b: dict[str, frozenset]) -> dict[str, frozenset]:
        return a if a == b else {register: a.get(register, frozenset()) | b.get(register, frozenset()) for register in {*a, *b}}

    found: dict[str, None] = {}
    for one, ages in zip(code, forward(code, {}, step, join)):
        if one.op == "snap_seen" and ages is not None:
            age = ages.get(one.operands[1], frozenset())
            if age != {"new"}:
                found[f"{places[int(one.operands[0])]}: {'a value from before a barrier' if 'old' in age else 'a value that was not loaded'} ({one.text})"] = None
    return list(found)
