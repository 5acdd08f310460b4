"""Generated CUDA text -> C++ for g++ with `host_cuda.h`.

Nothing of the program is replaced: inline PTX becomes calls instruction by instruction, so helpers run as they are printed; shared memory becomes places
in the block's own memory; casts to integers become ones that saturate.  Everything else is g++'s to compile.
"""

from __future__ import annotations

import re
from collections.abc import Callable

HOST = "::snap_host::"
INTEGERS = ("unsigned long long", "unsigned int", "unsigned char", "unsigned short", "signed char", "long long", "short", "int")
SATURATING = {"int", "unsigned int", "long long", "unsigned long long"}
UNSIGNED = {8: "unsigned char", 16: "unsigned short", 32: "unsigned int", 64: "unsigned long long"}


class Unsupported(Exception):
    """The text has something that is not emulated."""


def translated(text: str) -> tuple[str, int]:
    """The C++ of a module, and the bytes of shared memory that it declares; memory given at launch comes last and is not counted."""
    text = re.sub(r"^\s*#\s*include\b.*$", "", without_comments(text), flags=re.M)
    text = _with_calls(text)
    text, bytes = _with_memory(text)
    return with_saturation(text.replace('extern "C" __global__', "static")), bytes


def without_comments(text: str) -> str:
    return re.sub(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/', lambda m: m.group(1) or "", text, flags=re.S)


def closing(text: str, at: int) -> int:
    """The place behind the bracket that closes the one at `at`."""
    depth, quoted = 0, False
    for i in range(at, len(text)):
        c = text[i]
        if c == '"' and text[i - 1] != "\\":
            quoted = not quoted
        elif not quoted and c in "([{":
            depth += 1
        elif not quoted and c in ")]}":
            depth -= 1
            if depth == 0:
                return i + 1
    raise Unsupported("brackets that do not close")


def split(text: str, separator: str) -> list[str]:
    """The parts between separators that stand in no brackets and no string."""
    parts, depth, quoted, start = [], 0, False, 0
    for i, c in enumerate(text):
        if c == '"' and text[i - 1] != "\\":
            quoted = not quoted
        elif quoted:
            continue
        elif c in "([{":
            depth += 1
        elif c in ")]}":
            depth -= 1
        elif c == separator and depth == 0:
            parts.append(text[start:i])
            start = i + 1
    return [part.strip() for part in (*parts, text[start:])]


# ---- shared memory -----------------------------------------------------------------------------------------------------------------------

_STATIC = re.compile(r"(static\s+)?__shared__\s+(?:__align__\((\d+)\)\s+)?([\w ]+?)\s+(\w+)\[(\d+)\];")
_SINGLE = re.compile(r"__shared__\s+((?:unsigned )?(?:int|long long|float))\s+(\w+);")  # one value, as votes have it
_DYNAMIC = re.compile(r"extern\s+__shared__\s+__align__\((\d+)\)\s+unsigned char (\w+)\[\];")


_SIZES = {"unsigned char": 1, "unsigned int": 4, "unsigned long long": 8, "int": 4, "float": 4, "long long": 8}


def _with_memory(text: str) -> tuple[str, int]:
    """Memory that is declared lies by falling alignment, as ptxas lays it; what is given at launch comes after it, aligned.  Returns where that is."""
    text = _SINGLE.sub(r"__shared__ \1 \2_of_block[1]; \1& \2 = \2_of_block[0];", text)
    offsets, used = {}, 0
    found = [(int(m.group(2) or _SIZES[m.group(3)]), m) for m in _STATIC.finditer(text)]
    for align, m in sorted(found, key=lambda each: -each[0]):
        offsets[m.start()] = used = -(-used // align) * align
        used += _SIZES[m.group(3)] * int(m.group(5))
    for m in _DYNAMIC.finditer(text):
        used = -(-used // int(m.group(1))) * int(m.group(1))
    at_file_scope: dict[str, str] = {}

    def place(m: re.Match) -> str:
        type, name = m.group(3), m.group(4)
        start = f"reinterpret_cast<{type}*>({HOST}shared({offsets[m.start()]}))"
        if m.group(1):
            at_file_scope[name] = start
            return ""
        return f"{type}* const {name} = {start};"

    def last(m: re.Match) -> str:
        return f"unsigned char* const {m.group(2)} = {HOST}shared({used});"

    made = _DYNAMIC.sub(last, _STATIC.sub(place, text))
    if "__shared__" in made:
        raise Unsupported("a declaration of shared memory")
    for name, start in at_file_scope.items():
        made = re.sub(rf"\b{name}\b", start, made)
    return made, used


# ---- casts -------------------------------------------------------------------------------------------------------------------------------

_CAST = re.compile(rf"\(({'|'.join(INTEGERS)})\)(?=\s*[\w(\-!~&*+])")
_PREFIX = re.compile(rf"\s*(?:[-!~&*+]|\((?:const )?(?:{'|'.join(INTEGERS)}|float|double|bool|void)\s*\**\))")
_PRIMARY = re.compile(r"\s*(?:0[xX][\da-fA-F]+\w*|\d[\d.]*(?:[eE][-+]?\d+)?\w*|\.?\d+\w*|(?:::)?\w+(?:::\w+)*(?:<[^<>;{}]*>(?=\())?)?")
_POSTFIX = re.compile(r"\.\w+|->\w+|\+\+|--")


def with_saturation(text: str) -> str:
    """A float that does not fit saturates on a GPU, and does anything in C++."""
    for m in reversed(list(_CAST.finditer(text))):
        before = re.search(r"(\w+)\s*$", text[:m.start()])
        if m.group(1) not in SATURATING or (before and before.group(1) not in ("return", "case", "else")):
            continue  # narrower types are reached from `int`; behind a name it is no cast
        end = _operand_end(text, m.end())
        text = f"{text[:m.start()]}{HOST}to<{m.group(1)}>({text[m.end():end].strip()}){text[end:]}"
    return text


def _operand_end(text: str, at: int) -> int:
    while m := _PREFIX.match(text, at):
        at = m.end()
    at = _PRIMARY.match(text, at).end()
    while at < len(text):
        if text[at] in "([":
            at = closing(text, at)
        elif m := _POSTFIX.match(text, at):
            at = m.end()
        else:
            break
    return at


# ---- inline PTX --------------------------------------------------------------------------------------------------------------------------

_ASM = re.compile(r"\basm\s*(?:volatile\s*)?\(")


def _with_calls(text: str) -> str:
    out, at = [], 0
    while m := _ASM.search(text, at):
        end = closing(text, m.end() - 1)
        semicolon = re.compile(r"\s*;").match(text, end)
        out += [text[at:m.start()], _statement(text[m.end():end - 1])]
        at = semicolon.end() if semicolon else end
    return "".join((*out, text[at:]))


def _statement(inside: str) -> str:
    """`"text" : outputs : inputs : clobbers` as C++."""
    template, *operands = split(inside, ":")
    code = "".join(re.findall(r'"((?:\\.|[^"\\])*)"', template)).strip()
    values = [re.match(r'"[=+]?\w+"\s*\((.*)\)$', item, re.S).group(1) for part in operands[:2] if part for item in split(part, ",") if item]
    if code.startswith("{"):
        code = code[1:code.rindex("}")]
    return "{ " + " ".join(_instruction(line.strip(), values) for line in code.split(";") if line.strip()) + " }"


class Operands(list):
    """The C++ of an instruction's operands: `[a]` as a, `{a, b}` and `[a, {b, c}]` as lists."""

    def __init__(self, text: str, values: list[str]):
        super().__init__(self.read(part, values) for part in split(text, ",") if part)

    def read(self, part: str, values: list[str]):
        if part[0] in "[{":
            items = [self.read(item, values) for item in split(part[1:-1], ",")]
            return items[0] if part[0] == "[" and len(items) == 1 else items
        if part.startswith("%%"):
            return f"{HOST}special_{part[2:]}()"
        return f"({values[int(part[1:])]})" if part.startswith("%") else f"ptx_{part}" if part[0].isalpha() else part


def _instruction(line: str, values: list[str]) -> str:
    if m := re.match(r"(\w+):(?!:)\s*(.*)", line, re.S):
        return f"{m.group(1)}: {_instruction(m.group(2), values)}"
    if m := re.match(r"@(!?)(\w+)\s+bra\s+(\w+)$", line):
        return f"if ({m.group(1)}ptx_{m.group(2)}) goto {m.group(3)};"
    if m := re.match(r"@(!?)(\w+)\s+(.*)", line, re.S):
        return f"if ({m.group(1)}ptx_{m.group(2)}) {{ {_instruction(m.group(3), values)} }}"
    if m := re.match(r"\.reg\s+\.(\w+)\s+(\w+)$", line):
        return f"{'bool' if m.group(1) == 'pred' else UNSIGNED[int(m.group(1)[1:])]} ptx_{m.group(2)};"
    opcode, _, rest = line.partition(" ")
    for pattern, made in PTX:
        if m := re.fullmatch(pattern, opcode):
            return made(m, Operands(rest, values))
    raise Unsupported(f"PTX {opcode}")


def _call(function: str, *args: object) -> str:
    return f"{HOST}{function}({', '.join(map(str, args))});"


def _nothing(m: re.Match, o: Operands) -> str:
    return ""


def _simple(function: str) -> Callable[[re.Match, Operands], str]:
    return lambda m, o: _call(function, *o)


def _assigned(function: str) -> Callable[[re.Match, Operands], str]:
    return lambda m, o: f"{o[0]} = {_call(function, *o[1:])}"


def _load(m: re.Match, o: Operands) -> str:
    return f"{o[0]} = {HOST}load<{UNSIGNED[int(m.group(1))]}>({o[1]});"


def _store(m: re.Match, o: Operands) -> str:
    return f"{HOST}store<{UNSIGNED[int(m.group(1))]}>({o[0]}, {o[1]});"


_FUNCTIONS = {"add": "add", "min": "lesser", "max": "greater", "and": "both", "or": "either", "xor": "differs", "exch": "second", "inc": "counted_up", "dec": "counted_down"}


def _atomic(m: re.Match, o: Operands) -> str:
    op, kind, bits = m.group(1), m.group(2), int(m.group(3))
    type = {"f16": "__half", "f32": "float", "f64": "double", "s32": "int", "s64": "long long"}.get(f"{kind}{bits}", UNSIGNED[bits])
    given = [f"{HOST}same_bits<{type}>({value})" if type == "__half" else f"({type}){value}" for value in o[2:]]
    address = f"({type}*)(void*){o[1]}"
    if op == "cas":
        return f"{o[0]} = {HOST}swap_if<{type}>({address}, {given[0]}, {given[1]});"
    old = f"{HOST}update<{type}>({address}, {given[0]}, {HOST}{_FUNCTIONS[op]})"
    return f"{o[0]} = {HOST}same_bits<unsigned short>({old});" if type == "__half" else f"{o[0]} = {old};"


def _cluster(m: re.Match, o: Operands) -> str:
    return _call(f"cluster_{m.group(1)}")


def _arrive(m: re.Match, o: Operands) -> str:
    """Where a variable takes it, the phase that the arrival belongs to."""
    return _call("mbarrier_arrive", o[1]) if o[0] == "_" else f"{o[0]} = {_call('mbarrier_arrive', o[1])}"


def _arrive_expect(m: re.Match, o: Operands) -> str:
    return _call("mbarrier_expect", *o[1:]) + _call("mbarrier_arrive", o[1])


def _box_load(m: re.Match, o: Operands) -> str:
    (map, at), blocks = o[1], o[3] if m.group(2) else 0
    _rank(m, at)
    return f"const int at_[] = {{{', '.join(at)}}}; " + _call("box_load", o[0], f"(const void*){map}", "at_", m.group(1), o[2], blocks)


def _box_store(m: re.Match, o: Operands) -> str:
    map, at = o[0]
    _rank(m, at)
    op = m.groupdict().get("op") or "store"
    return f"const int at_[] = {{{', '.join(at)}}}; " + _call("box_store", f'"{op}"', f"(const void*){map}", "at_", m.group(1), o[1])


def _rank(m: re.Match, at: list[str]) -> None:
    if int(m.group(1)) != len(at):
        raise Unsupported(f"{len(at)} coordinates in {m.group(0)}")


def _matrix(m: re.Match, o: Operands) -> str:
    load, count, transposed = m.group(1) == "ld", int(m.group(2)), "true" if m.group(3) else "false"
    items, row = (o[0], o[1]) if load else (o[1], o[0])
    if not isinstance(items, list):
        items = [items]
    if len(items) != count:
        raise Unsupported(f"{len(items)} registers of {m.group(0)}")
    if load:
        return f"unsigned int* const to_[] = {{{', '.join(f'&{item}' for item in items)}}}; " + _call("load_matrix", count, transposed, row, "to_")
    return f"const unsigned int from_[] = {{{', '.join(items)}}}; " + _call("store_matrix", count, transposed, row, "from_")


_MMA = {("16", "bf16"): (4, 4, 2, 4), ("16", "f16"): (4, 4, 2, 4), ("8", "tf32"): (4, 4, 2, 4)}


def _other_mma(m: re.Match, o: Operands) -> str:
    """Of f64, and of what is packed in words."""
    k, saturate, sums, of_a, of_b = m.group("k"), m.group("saturate"), m.group("sums"), m.group("a"), m.group("b")
    type, given = {"s32": "int", "f32": "float", "f64": "double"}[sums], "double" if sums == "f64" else "unsigned int"
    d, a, b, c = (items if isinstance(items, list) else [items] for items in o)
    arrays = f"void* const d_[] = {{{', '.join(f'&{item}' for item in d)}}}; const {given} a_[] = {{{', '.join(a)}}}, b_[] = {{{', '.join(b)}}}; "
    arrays += f"const {type} c_[] = {{{', '.join(c)}}}; "
    return arrays + _call("mma_of", f'"{of_a}"', f'"{of_b}"', f'"{sums}"', k, len(a), len(b), len(c), "true" if saturate else "false", "d_", "a_", "b_", "c_")


def _vector_atomic(m: re.Match, o: Operands) -> str:
    """Each component by itself."""
    type = {"f32": "float", "f16": "__half", "bf16": "__nv_bfloat16"}[m.group(2)]
    def given(value):
        return value if type == "float" else f"{HOST}same_bits<{type}>({value})"
    lines = []
    if m.group(1):  # a pair in one register
        for k in range(2):
            part = f"{HOST}same_bits<{type}>((unsigned short)({o[2]} >> {16 * k}))"
            lines.append(f"const unsigned int old{k}_ = {HOST}same_bits<unsigned short>({HOST}update<{type}>(({type}*)(void*){o[1]} + {k}, {part}, {HOST}add));")
        return " ".join([*lines, f"{o[0]} = old0_ | old1_ << 16;"])
    for k, (into, value) in enumerate(zip(o[0], o[2])):
        old = f"{HOST}update<{type}>(({type}*)(void*){o[1]} + {k}, {given(value)}, {HOST}add)"
        lines.append(f"{into} = {old};" if type == "float" else f"{into} = {HOST}same_bits<unsigned short>({old});")
    return " ".join(lines)


def _mma(m: re.Match, o: Operands) -> str:
    if m.group(2) != m.group(3) or tuple(map(len, o)) != _MMA.get((m.group(1), m.group(2))):
        raise Unsupported(m.group(0))
    d, a, b, c = (", ".join(items) for items in o)
    d = ", ".join(f"&{item}" for item in o[0])
    arrays = f"float* const d_[] = {{{d}}}; const unsigned int a_[] = {{{a}}}, b_[] = {{{b}}}; const float c_[] = {{{c}}}; "
    return arrays + _call("mma", f'"{m.group(2)}"', "d_", "a_", "b_", "c_")


_WGMMA_K = {"bf16": 16, "f16": 16, "tf32": 8, "e4m3": 32, "e5m2": 32}


def _wgmma(m: re.Match, o: Operands) -> str:
    n, k, result, type, other = m.groups()
    registers = isinstance(o[1], list)
    majors = o[6:] if _WGMMA_K[type] == 16 else ["0", "0"]
    majors = ["0", *majors] if registers and _WGMMA_K[type] == 16 else majors
    count = int(n) // 2 if result == "f32" else int(n) // 4
    if type != other and {type, other} != {"e4m3", "e5m2"} or int(k) != _WGMMA_K[type] or o[0] != [f"(d[{i}])" for i in range(count)] or o[4:6] != ["1", "1"] or len(majors) != 2 \
            or registers and len(o[1]) != 4:
        raise Unsupported(f"operands of {m.group(0)}")
    a = f"const unsigned int a_[] = {{{', '.join(o[1])}}}; " if registers else ""
    args = f'"{type}"', f'"{other}"', n, "d", "true" if result == "f32" else "false", *(("a_", "0") if registers else ("nullptr", o[1])), o[2], o[3], *majors
    return a + _call("wgmma", *args)


def _plain_load(m: re.Match, o: Operands) -> str:
    type, into = UNSIGNED[int(m.group(1))], o[0] if isinstance(o[0], list) else [o[0]]
    return " ".join(f"{place} = ((const {type}*)(const void*){o[1]})[{k}];" for k, place in enumerate(into))


def _plain_store(m: re.Match, o: Operands) -> str:
    type, given = UNSIGNED[int(m.group(1))], o[1] if isinstance(o[1], list) else [o[1]]
    return " ".join(f"(({type}*)(void*){o[0]})[{k}] = {value};" for k, value in enumerate(given))


def _copy(m: re.Match, o: Operands) -> str:
    """[to], [from], bytes, how many of them are read, the policy: the last two may be missing."""
    given = o[:-1] if m.group(1) else o
    return _call("copy_async", *given[:3], given[-1])


_WISHES = r"(?:\.(?:c[agsv]|lu|w[bt]|nc|L1::no_allocate|L2::cache_hint))*"
def _halves(o: Operands) -> str:
    return f"{o[0][0]} = (unsigned short){o[1]}; {o[0][1]} = (unsigned short)({o[1]} >> 16);"


def _elect(m: re.Match, o: Operands) -> str:
    """Any one of the members, and always the same: nothing may rely on the first."""
    return f'ptx_{o[0].partition("|")[2]} = (threadIdx.x & 31) == {HOST}elected({HOST}vote("elect.sync", {o[1]}, true));'


_SCOPE = r"(?:cta|cluster|gpu|sys)"
PTX: tuple[tuple[str, Callable[[re.Match, Operands], str]], ...] = (
    (r"fence\.sc\..*|fence\.proxy\.async.*|fence\.mbarrier_init\..*|prefetch\..*|cp\.async\.bulk\.prefetch\..*|setmaxnreg\..*|wgmma\.fence\..*", _nothing),
    (rf"ld\.(?:relaxed|acquire)\.{_SCOPE}\.u(8|16|32|64)", _load),
    (rf"st\.(?:relaxed|release)\.{_SCOPE}\.u(8|16|32|64)", _store),
    (rf"atom\.(?:relaxed|acquire|release|acq_rel)\.{_SCOPE}\.(\w+?)(?:\.noftz)?\.([busf])(\d+)", _atomic),
    (rf"atom\.(?:relaxed|acquire|release|acq_rel)\.{_SCOPE}\.global\.add(?:\.noftz)?()\.v[24]\.(f32|f16|bf16)", _vector_atomic),
    (rf"atom\.(?:relaxed|acquire|release|acq_rel)\.{_SCOPE}\.add\.noftz(\.)(f16|bf16)x2", _vector_atomic),
    (r"mma\.sync\.aligned\.m\d+n8k(?P<k>\d+)\.row\.col(?P<saturate>\.satfinite)?\.(?P<sums>s32|f64)\.(?P<a>\w+)\.(?P<b>\w+)\.(?:s32|f64)", _other_mma),
    (r"mma\.sync\.aligned\.m\d+n8k(?P<k>32)\.row\.col(?P<saturate>\.satfinite)?\.(?P<sums>f32)\.(?P<a>e\w+)\.(?P<b>e\w+)\.f32", _other_mma),
    (r"cvt\.rn\.satfinite\.(e4m3|e5m2)x2\.f32", lambda m, o: f'{o[0]} = {HOST}small_bits("{m.group(1)}", {o[1]}) << 8 | {HOST}small_bits("{m.group(1)}", {o[2]});'),
    (r"cvt\.rn\.f16x2\.(e4m3|e5m2)x2", lambda m, o: f'{o[0]} = {HOST}same_bits<unsigned short>(__float2half((float){HOST}small_float("{m.group(1)}", {o[1]} & 255)));'),
    (r"cvt\.f32\.f16", lambda m, o: f"{o[0]} = __half2float({HOST}same_bits<__half>({o[1]}));"),
    (r"elect\.sync", _elect),
    (r"bar\.sync", lambda m, o: _call("bar", *o, "true")),
    (r"bar\.arrive", lambda m, o: _call("bar", *o, "false")),
    (r"barrier\.cluster\.(arrive)\.(?:release|relaxed)", _cluster),
    (r"barrier\.cluster\.(wait)\.acquire", _cluster),
    (r"mapa\.u64", lambda m, o: f"{o[0]} = {HOST}mapa((unsigned long long){o[1]}, {o[2]});"),
    (r"mapa\.shared::cluster\.u32", _assigned("mapa_shared")),
    (r"mbarrier\.init\.shared::cta\.b64", _simple("mbarrier_init")),
    (r"mbarrier\.arrive(?:\.release\.cluster)?\.shared::(?:cta|cluster)\.b64", _arrive),
    (r"mbarrier\.arrive\.expect_tx\.shared::cta\.b64", _arrive_expect),
    (r"mbarrier\.expect_tx\.relaxed\.cta\.shared::cta\.b64", _simple("mbarrier_expect")),
    (r"mbarrier\.(?:try|test)_wait(?:\.parity)?(?:\.acquire\.cluster)?\.shared::cta\.b64", _assigned("mbarrier_try_wait")),
    (r"createpolicy\.fractional\.L2::\w+\.b64", lambda m, o: f"{o[0]} = 0;"),
    (rf"ld(?:\.global)?{_WISHES}(?:\.v2)?\.[ub](8|16|32|64)", _plain_load),
    (rf"st(?:\.global)?{_WISHES}(?:\.v2)?\.[ub](8|16|32|64)", _plain_store),
    (r"cp\.async\.c[ag]\.shared\.global(\.L2::cache_hint)?", _copy),
    (r"cp\.async\.mbarrier\.arrive\.noinc\.shared::cta\.b64", _simple("copy_arrive")),
    (r"cp\.async\.commit_group", _simple("copy_commit")),
    (r"cp\.async\.wait_group", _simple("copy_wait")),
    (r"cp\.async\.bulk\.tensor\.(\d)d\.shared::cluster\.global\.tile\.mbarrier::complete_tx::bytes(\.multicast::cluster)?(?:\.L2::cache_hint)?", _box_load),
    (r"cp\.async\.bulk\.tensor\.(\d)d\.global\.shared::cta\.tile\.bulk_group(?:\.L2::cache_hint)?", _box_store),
    (r"cp\.reduce\.async\.bulk\.tensor\.(\d)d\.global\.shared::cta\.(?P<op>\w+)\.tile\.bulk_group(?:\.L2::cache_hint)?", _box_store),
    (r"cp\.async\.bulk\.commit_group", _simple("box_commit")),
    (r"cp\.async\.bulk\.wait_group", lambda m, o: _call("box_wait", *o, "false")),
    (r"cp\.async\.bulk\.wait_group\.read", lambda m, o: _call("box_wait", *o, "true")),
    (r"(ld|st)matrix\.sync\.aligned\.m8n8\.x([124])(\.trans)?\.shared\.b16", _matrix),
    (r"mma\.sync\.aligned\.m16n8k(\d+)\.row\.col\.f32\.(\w+)\.(\w+)\.f32", _mma),
    (r"wgmma\.mma_async\.sync\.aligned\.m64n(\d+)k(\d+)\.(f32|f16)\.(\w+)\.(\w+)", _wgmma),
    (r"wgmma\.commit_group\.sync\.aligned", _simple("wgmma_commit")),
    (r"wgmma\.wait_group\.sync\.aligned", _simple("wgmma_wait")),
    (r"cvt\.rna\.tf32\.f32", _assigned("tf32")),
    (r"mov\.b(?:16|32)", lambda m, o: _halves(o) if isinstance(o[0], list) else f"const auto moved_ = {o[1]}; __builtin_memcpy(&{o[0]}, &moved_, sizeof(moved_));"),
    (r"mov\.u32", lambda m, o: f"{o[0]} = {o[1]};"),
    (r"and\.b32", lambda m, o: f"const unsigned int both_ = {o[1]} & {o[2]}; __builtin_memcpy(&{o[0]}, &both_, 4);"),
    (r"setp\.(ne|eq)\.[bu]32", lambda m, o: f"{o[0]} = {o[1]} {'!=' if m.group(1) == 'ne' else '=='} {o[2]};"),
    (r"selp\.[bu](?:16|32)", lambda m, o: f"{o[0]} = {o[3]} ? {o[1]} : {o[2]};"),
    (r"(ex2|sqrt|rcp|tanh)\.approx(?:\.ftz)?\.f32", lambda m, o: f"{o[0]} = {_APPROXIMATE[m.group(1)].format(o[1])};"),
)
_APPROXIMATE = {"ex2": "exp2f({})", "sqrt": "sqrtf({})", "rcp": "1.0f / {}", "tanh": "tanhf({})"}
