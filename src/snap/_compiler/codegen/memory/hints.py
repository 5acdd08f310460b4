"""Loads and stores that say how the caches should treat what they touch, and prefetches.

Input:      the address of an element of global memory, and what is wished for: a cache operator of PTX, an eviction
            priority of the L2
Output:     CUDA expressions and statements
Invariant:  memory that the kernel may write is accessed by volatile instructions that clobber memory, so that the
            compiler keeps them between the barriers around them; const arrays of a kernel are read past coherence, as
            other reads of them are
Non-goals:  whether it pays
"""

from __future__ import annotations

from snap._compiler.codegen.core import tree
from snap._compiler.codegen.core.module import Helper, Module, inline_helper
from snap._compiler.codegen.core.scope import Scope
from snap._compiler.codegen.memory import addresses
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.hardware import WIDEST
from snap._compiler.ir.types import Space

# By how many bytes one instruction moves: the type of its words, the constraint, and how many there are.
WORDS = {
    1: ("u8", "unsigned short", "h", 1),
    2: ("b16", "unsigned short", "h", 1),
    4: ("b32", "unsigned int", "r", 1),
    8: ("b64", "unsigned long long", "l", 1),
    16: ("v2.b64", "unsigned long long", "l", 2),
}
PAST_COHERENCE = ("", "ca", "cg", "cs", "no_allocate")  # what goes with `.nc`


def _policy(l2: str) -> Helper:
    name = f"snap_l2_{l2}"
    return inline_helper(
        f"unsigned long long {name}()",
        f"""\
    unsigned long long policy;
    asm("createpolicy.fractional.L2::{l2}.b64 %0, 1.0;" : "=l"(policy));
    return policy;""",
    )


def policy(module: Module, l2: str) -> tuple[str, str, tuple[tree.Expr, ...]]:
    """For an instruction with an eviction priority: its qualifier, the parameter of its helper, and the argument."""
    if not l2:
        return "", "", ()
    call = tree.Call(module.helper(_policy(l2)), ())
    return ".L2::cache_hint", ", unsigned long long policy", (call,)


def _form(verb: str, obj: ir.MemObject, cache: str, nc: bool, hint: str) -> str:
    where = ".global" if obj.space is Space.GLOBAL else ""
    operator = f".{cache}" if cache and cache != "no_allocate" else ""
    priority = ".L1::no_allocate" if cache == "no_allocate" else ""
    return f"{verb}{where}{operator}{'.nc' if nc else ''}{priority}{hint}"


def _name(verb: str, of: ir.Load | ir.MemTarget, kind: str) -> str:
    bytes = of.access.view.elem.bytes
    return "_".join(filter(None, ("snap", verb, of.cache, of.l2, kind, str(bytes))))


def _words(bytes: int) -> tuple[str, str, str, int, range]:
    """The row of WORDS for an element of so many bytes, and where each instruction begins in it."""
    step = min(bytes, WIDEST)
    return *WORDS[step], range(0, bytes, step)


def _operands(constraint: str, words: int, first: int, number: int) -> tuple[str, str]:
    """Words from `first` on as operands of an instruction, and their numbers from `number` on in its text."""
    given = ", ".join(f'"{constraint}"(words[{first + k}])' for k in range(words))
    listed = ", ".join(f"%{number + k}" for k in range(words))
    return given, f"{{{listed}}}" if words > 1 else listed


def _at(bytes: int) -> str:
    return f"place + {bytes}" if bytes else "place"


def load(scope: Scope, e: ir.Load) -> tree.Expr:
    obj, bytes = e.access.view.obj, e.access.view.elem.bytes
    known = obj.space is Space.GLOBAL
    nc = known and obj.const and scope.state.function.kernel and e.cache in PAST_COHERENCE
    hint, param, args = policy(scope.module, e.l2)
    type, carrier, constraint, words, places = _words(bytes)
    name = _name("load", e, "const" if nc else "" if known else "any")
    form = f"{_form('ld', obj, e.cache, nc, hint)}.{type}"
    asm, clobbers = ("asm", "") if nc else ("asm volatile", ' : "memory"')
    last, given = (f", %{words + 1}", ', "l"(policy)') if e.l2 else ("", "")
    lines = []
    for k, place in enumerate(places):
        into, listed = _operands(f"={constraint}", words, words * k, 0)
        lines.append(f'    {asm}("{form} {listed}, [%{words}]{last};" : {into} : "l"({_at(place)}){given}{clobbers});')
    moved = "\n".join(lines)
    helper = Helper(
        name,
        f"""\
template <typename Element>
static __device__ __forceinline__ Element {name}(const Element* from{param}) {{
    const char* const place = reinterpret_cast<const char*>(from);
    {carrier} words[{words * len(places)}];
{moved}
    Element value;
    memcpy(&value, words, sizeof(Element));
    return value;
}}""",
    )
    return tree.Call(scope.module.helper(helper), (addresses.address(scope, e.access), *args))


def store(scope: Scope, target: ir.MemTarget, value: tree.Expr, type: str) -> tree.Stmt:
    """type: how the element's type is spelled; the value may be of one that C++ converts to it."""
    obj, bytes = target.access.view.obj, target.access.view.elem.bytes
    hint, param, args = policy(scope.module, target.l2)
    kind, carrier, constraint, words, places = _words(bytes)
    name = _name("store", target, "" if obj.space is Space.GLOBAL else "any")
    form = f"{_form('st', obj, target.cache, False, hint)}.{kind}"
    last, given = (f", %{words + 1}", ', "l"(policy)') if target.l2 else ("", "")
    lines = []
    for k, place in enumerate(places):
        out, listed = _operands(constraint, words, words * k, 1)
        lines.append(f'    asm volatile("{form} [%0], {listed}{last};" :: "l"({_at(place)}), {out}{given} : "memory");')
    moved = "\n".join(lines)
    helper = Helper(
        name,
        f"""\
template <typename Element>
static __device__ __forceinline__ void {name}(Element* to, Element value{param}) {{
    char* const place = reinterpret_cast<char*>(to);
    {carrier} words[{words * len(places)}] = {{}};
    memcpy(words, &value, sizeof(Element));
{moved}
}}""",
    )
    called = f"{scope.module.helper(helper)}<{type}>"
    return tree.Evaluate(tree.Call(called, (addresses.address(scope, target.access), value, *args)))


def prefetch(scope: Scope, s: ir.Prefetch) -> list[tree.Stmt]:
    name = f"snap_prefetch_{s.level.replace('::', '_')}"
    where = ".global" if s.access.view.obj.space is Space.GLOBAL else ""
    helper = Helper(
        f"{name}{'' if where else '_any'}",
        f"""\
static __device__ __forceinline__ void {name}{"" if where else "_any"}(const void* place) {{
    asm volatile("prefetch{where}.{s.level} [%0];" :: "l"(place));
}}""",
    )
    return [scope.module.does(helper, addresses.address(scope, s.access))]
