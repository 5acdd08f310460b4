"""Compare an instruction's text with its meaning: `snap.check_instruction(f)`.

Input: an instruction, and what its parameters may be.  Output: where the two differ.  Invariant: a kernel that is made
for the instruction calls it with operands drawn from fixed seeds; the CPU machine runs the meaning, and a GPU, or the
PTX machine, the text.  Non-goals: whether the text does more than it says, to memory or to other threads.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from snap._compiler.check.core.records import RecordType
from snap._compiler.check.core.specs import SpecKind
from snap._compiler.check.functions.signatures import ParamSpec, read_header
from snap._compiler.ir import nodes as ir
from snap._compiler.ir.types import (
    BF16,
    BLOCK1,
    BOOL,
    F16,
    THREAD1,
    Array,
    Element,
    Level,
    Privilege,
    Space,
    Vector,
    scalar_of,
)
from snap.api import SnapFunction
from snap.decorators import kernel
from snap.diag.source import register_source
from snap.record import record
from snap.surface import EXPORTED

BLOCKS, THREADS, MEMORY = (
    2,
    64,
    64,
)  # at least so many threads; elements of memory for each group, where no shape says it
INSTRUCTION = "instruction_itself"  # what it is called in the kernel
_NUMPY = {BOOL: "bool_", F16: "float32", BF16: "float32"}  # NumPy's types; others by their own name


@record
class Disagreement:
    """One value for which an instruction's text and its meaning differ.  what: `result`, or a parameter.  at: the index
    of the thread, and of the register if it has several; of memory, the element.  operands: what the thread was given.
    """

    instruction: str
    what: str
    at: tuple[int, ...]
    meaning: Any
    text: Any
    seed: int
    operands: Mapping[str, Any]

    def __str__(self) -> str:
        given = ", ".join(f"{name} = {value}" for name, value in self.operands.items())
        where = f"thread {self.at[0]}" + "".join(f", register {k}" for k in self.at[1:])
        return (
            f"`{self.what}` of `{self.instruction}`, {where}: {self.text} by its text, {self.meaning} by its meaning"
            f" ({f'{given}; ' if given else ''}seed {self.seed})"
        )


def check_instruction(
    f: SnapFunction,
    *,
    seeds: int = 6,
    target: str = "auto",
    tolerance: float = 0.0,
    sizes: Mapping[str, int] = {},
    **values: Any,
) -> list[Disagreement]:
    """Compare what the text of an instruction computes with its meaning; return where they differ, one value for each
    seed and result.

    Operands are drawn: integers of all sizes, floats that are small whole numbers, so that sums are exact in any order.
    `x=3` or `x=(16, 32)` says what the parameter x may be, and gives constexpr parameters their values; `sizes={"p":
    256}` is how many elements of p each group has.  tolerance: by how much floats may differ, relative to the larger
    one; then they are drawn from a normal distribution, too.  target: "gpu", "ptx", or whichever there is.
    Without a GPU, NVRTC assembles the text, too: a `RuntimeError` has what ptxas says of it.
    """
    if not isinstance(f, SnapFunction) or f.definition.requires.instruction is None:
        raise TypeError("snap.check_instruction takes a function with `@instruction(...)`")
    of = _Comparison(f, sizes, values)
    compared, where = of.kernel(), _target(target)
    if where == "ptx":
        compared.cubin()  # NVIDIA's assembler refuses texts that the PTX machine would run
    found: list[Disagreement] = []
    for seed in range(seeds):
        given = of.drawn(seed, tolerance > 0.0)
        meant, done = ({name: x.copy() for name, x in given.items()} for _ in range(2))
        compared.launch(*meant.values(), blocks=BLOCKS, target="cpu")
        _run_text(compared, done, where)
        found += of.differences(seed, given, meant, done, tolerance)
    return found


def _target(target: str) -> str:
    if target != "auto":
        return target
    from snap.host.device.driver import available

    return "gpu" if available() else "ptx"


def _run_text(compared: SnapFunction, arrays: dict[str, Any], target: str) -> None:
    """Run the text where the target says, and leave in the arrays what it leaves there."""
    if target != "gpu":
        compared.launch(*arrays.values(), blocks=BLOCKS, target=target)
        return
    import torch

    there = [torch.from_numpy(x).cuda() for x in arrays.values()]
    compared.launch(*there, blocks=BLOCKS, target=target)
    for x, y in zip(arrays.values(), there):
        x[:] = y.cpu().numpy()


class _Comparison:
    """The kernel that calls an instruction, and its arrays: one for each parameter and each result.  groups: of a
    block.  sizes: of each pointer, how many elements a group has.
    """

    def __init__(self, f: SnapFunction, sizes: Mapping[str, int], values: dict[str, Any]):
        definition = f.definition
        constants = {name: values.pop(name) for name in f.generic if name in values}
        self.f, self.name, self.values = f.specialize(**constants) if constants else f, definition.tree.name, values
        header, records = read_header(definition, {**f.bound, **constants}), definition.records
        if records is not None and records.params:
            raise TypeError(f"snap.check_instruction cannot draw the record `{records.params[0].name}`")
        results = set[str]() if records is None else records.result_names
        given = [p for p in header.params if p.spec.kind is not SpecKind.CONSTEXPR and p.name not in results]
        unknown = [name for name in values if name not in {p.name for p in given}]
        if unknown:
            raise TypeError(f"`{self.name}` has no parameter `{unknown[0]}`")
        self.group = header.requires[0]
        if self.group.level is not Level.THREAD and self.group != BLOCK1:
            raise TypeError(
                f"snap.check_instruction is for instructions of threads and of a block, not of `{self.group}`"
            )
        lanes = self.group.n if self.group.level is Level.THREAD else next((p.n for p in header.requires[1:]), THREADS)
        self.threads = lanes if self.group == BLOCK1 else -(-THREADS // lanes) * lanes
        self.groups = self.threads // lanes
        self.memory = [p for p in given if p.spec.kind is SpecKind.POINTER]
        self.sizes = {p.name: self._size(p, sizes) for p in self.memory}
        self.registers = [p for p in given if p.spec.kind is not SpecKind.POINTER]
        self.results = [(p.name, p.spec.elem) for p in header.params if p.name in results]
        if header.returns is not None:
            self.results = [("result", header.returns[0])]

    def _size(self, p: ParamSpec, sizes: Mapping[str, int]) -> int:
        shape = p.spec.shape or ()
        if len(shape) > 1:
            raise TypeError(
                f"snap.check_instruction hands out memory of one dimension, and `{p.name}` has {len(shape)}"
            )
        known = int(shape[0].value) if shape and isinstance(shape[0], ir.Const) else MEMORY
        return sizes.get(p.name, known)

    # ---- its text ----

    def kernel(self) -> SnapFunction:
        """Write the kernel, and define it."""
        text, file = self._text(), f"<check of {self.name}>"
        register_source(file, text)
        names: dict[str, Any] = {**EXPORTED, "kernel": kernel, INSTRUCTION: self.f}
        names |= {_record(p): p.spec.record.of for p in self.memory if p.spec.record is not None}
        exec(compile(text, file, "exec"), names)
        made: SnapFunction = names["compared"]
        return made

    def _text(self) -> str:
        arrays = [f"{p.name}: ptr({_written(p, _held(p.spec.elem))})" for p in self.registers]
        arrays += [f"{p.name}: ptr({_written(p, _pointed(p))})" for p in self.memory]
        arrays += [f"{_out(name)}: ptr({_held(elem)})" for name, elem in self.results]
        privileges = {str(p): p for p in (THREAD1, BLOCK1, self.group, *(p.privilege for p in self.registers))}
        units = [f"{_unit(p)}: int @ {text} = id()" for text, p in privileges.items()]
        shared = [p for p in self.memory if p.spec.space is Space.SHARED]
        block = [line for p in shared for line in self._filled(p)]
        block += self._by_group(shared)
        block += [
            line for p in shared if p.name in self._outputs() for line in self._moved(p, p.name, f"{p.name}_shared")
        ]
        body = _within([*_handed(self._outputs(), BLOCK1), "group(block[1])"], block)
        head = [f"@kernel(threads={self.threads})", f"def compared({', '.join(arrays)}):"]
        return "\n".join([*head, *("    " + line for line in (*units, *body))]) + "\n"

    def _outputs(self) -> list[str]:
        """Name the arrays that are written."""
        own = [p.name for p in (*self.registers, *self.memory) if _is_written(p)]
        return [*own, *(_out(name) for name, _ in self.results)]

    def _filled(self, p: ParamSpec) -> list[str]:
        """Shared memory, with what the array holds for this block."""
        there = f"{p.name}_shared"
        return [f"{there}: shared({_pointed(p)}[{self.groups * self.sizes[p.name]}])", *self._moved(p, there, p.name)]

    def _moved(self, p: ParamSpec, to: str, source: str) -> list[str]:
        count = self.groups * self.sizes[p.name]
        here = f"{_unit(BLOCK1)} * {count} + k"
        line = f"{to}[{here if to == p.name else 'k'}] = {source}[{here if source == p.name else 'k'}]"
        loop = [f"for k in range(t, {count}, {self.threads}):", f"    {line}"]
        return [f"with each(thread, {to}) as t:", *("    " + line for line in loop)]

    def _by_group(self, shared: list[ParamSpec]) -> list[str]:
        """Give each group its part of the memory, and let it execute the instruction."""
        outputs = [name for name in self._outputs() if name not in self.sizes]
        call = self._called(shared)
        if self.group != THREAD1 and outputs:
            call = [*call, *_within([*_handed(outputs, THREAD1), "group(thread[1])"], self._left())]
        else:
            call = [*call, *self._left()]
        if self.group == BLOCK1:
            return call
        parts = _handed(outputs, self.group)
        for p in self.memory:
            name, unit = (f"{p.name}_shared", "own") if p in shared else (p.name, _unit(self.group))
            parts.append(f"partition({name}, p={self.group}, offset={self.sizes[p.name]} * {unit}) as {p.name}_part")
        return [f"own: int @ {self.group} = id()", *_within([*parts, f"group({self.group})"], call)]

    def _called(self, shared: list[ParamSpec]) -> list[str]:
        lines: list[str] = []
        given: dict[str, str] = {}
        for p in self.registers:
            given[p.name] = _cast(p.spec.elem, _element(p, 0))
            if isinstance(p.spec.type, Array):
                given[p.name] = f"{p.name}_own"
                lines.append(f"{p.name}_own: {p.spec.type} @ {p.privilege}")
                lines += [f"{p.name}_own[{at}] = {_cast(p.spec.elem, _element(p, k))}" for k, at in _indices(p)]
        for p in self.memory:
            given[p.name] = f"{p.name}_shared" if p in shared else p.name
            if self.group != BLOCK1:
                given[p.name] = f"{p.name}_part"
        call = f"{INSTRUCTION}({', '.join(f'{name}={e}' for name, e in given.items())})"
        return [*lines, f"found = {call}" if self.results else call]

    def _left(self) -> list[str]:
        """Store what the instruction has left in registers."""
        lines = []
        for name, elem in self.results:
            path = "".join(f"[{k}]" if k.isdecimal() else f".{k}" for k in name.split(".")[1:])
            lines.append(f"{_stored(_out(name), elem, _unit(THREAD1))} = {_cast_back(elem, f'found{path}')}")
        for p in self.registers:
            if _is_written(p):
                lines += [
                    f"{_element(p, k)} = {_cast_back(p.spec.elem, f'{p.name}_own[{at}]')}" for k, at in _indices(p)
                ]
        return lines

    # ---- its arrays ----

    def drawn(self, seed: int, spread: bool) -> dict[str, Any]:
        """Draw the operands of one launch, the same for one seed."""
        import numpy as np

        rng = np.random.default_rng(seed)
        found: dict[str, Any] = {}
        for p in (*self.registers, *self.memory):
            memory = p.name in self.sizes
            if p.spec.record is not None and p.name not in self.values:
                count = self._units(self.group) * self.sizes[p.name]
                found[p.name] = _records(rng, p.spec.record, count, seed, spread)
                continue
            each = self.sizes[p.name] if memory else p.spec.type.size if isinstance(p.spec.type, Array) else 1
            units = 1 if p.spec.record is None else p.spec.record.units
            count = self._units(self.group if memory else p.privilege) * each * _lanes(p.spec.elem) * units
            type = _numpy(p.spec.elem, memory)
            if p.name in self.values:
                found[p.name] = rng.choice(np.atleast_1d(np.asarray(self.values[p.name])), count).astype(type)
                found[p.name] = found[p.name].reshape(-1, units) if units > 1 else found[p.name]
            else:
                found[p.name] = _draw(rng, np.dtype(type), count, seed, spread)
        for name, elem in self.results:
            found[_out(name)] = np.zeros(self._units(THREAD1) * _lanes(elem), _numpy(elem, False))
        return found

    def _units(self, p: Privilege) -> int:
        return BLOCKS * (self.threads // p.n if p.level is Level.THREAD else 1)

    def differences(
        self, seed: int, given: dict[str, Any], meant: dict[str, Any], done: dict[str, Any], tolerance: float
    ) -> list[Disagreement]:
        """Compare what both have left: of each array the first value that differs."""
        import numpy as np

        found = []
        whole = {_out(name): name for name, _ in self.results}
        for name in meant:
            x, y = meant[name].reshape(-1), done[name].reshape(-1)
            with np.errstate(all="ignore"):
                same = (x == y) | (x != x) & (y != y)
                if tolerance and x.dtype.kind == "f":
                    same |= np.abs(x - y) <= tolerance * np.maximum(np.abs(x), np.abs(y))
            if same.all():
                continue
            k = int(np.argmin(same))
            per = x.size // self._units(self.group if name in self.sizes else THREAD1)
            unit = k // per * (BLOCKS * self.threads * per // x.size)  # the first thread that has it
            operands = {p.name: self._of_thread(given[p.name], unit) for p in self.registers}
            at = (unit, k % per) if per > 1 else (unit,)
            found.append(Disagreement(self.name, whole.get(name, name), at, x[k], y[k], seed, operands))
        return found

    def _of_thread(self, x: Any, thread: int) -> Any:
        """Find what one thread was given of an array of registers."""
        threads = BLOCKS * self.threads
        own = x[thread * x.size // threads :][: max(x.size // threads, 1)].tolist()
        return own if len(own) > 1 else own[0]


def _records(rng: Any, record: RecordType, count: int, seed: int, spread: bool) -> Any:
    """Draw an array of records, field by field: the words that they are made of, in a row for each."""
    import numpy as np

    kinds = [(path, at, _numpy(type, True), n) for path, at, type, n in record.layout.values]
    laid = {
        "names": [path for path, _, _, _ in kinds],
        "formats": [(kind, (n,)) for _, _, kind, n in kinds],
        "offsets": [at for _, at, _, _ in kinds],
        "itemsize": record.bytes,
    }
    made = np.zeros(count, np.dtype(laid))
    for path, _, kind, n in kinds:
        made[path] = _draw(rng, np.dtype(kind), count * n, seed, spread).reshape(count, n)
    return made.view(_numpy(record.unit, True)).reshape(count, record.units)


def _draw(rng: Any, type: Any, count: int, seed: int, spread: bool) -> Any:
    """Integers: small ones, any, and the extremes, in turn; floats: small whole numbers, and in every other launch of
    `spread` any.
    """
    if type.kind == "b":
        return rng.integers(0, 2, count).astype(type)
    if type.kind == "f":
        whole = rng.integers(-8, 9, count)
        return (rng.standard_normal(count) * 4 if spread and seed % 2 else whole).astype(type)
    import numpy as np

    info = np.iinfo(type)
    match seed % 3:
        case 0:
            return rng.integers(0, 16, count).astype(type)
        case 1:
            return rng.integers(info.min, info.max, count, dtype=type, endpoint=True)
    return rng.choice(np.array([0, 1, info.min, info.max, info.max - 1, info.max // 2 + 1], type), count)


# ---- words of the kernel's text -------------------------------------------------------------------------------------


def _within(items: Sequence[str], lines: Sequence[str]) -> list[str]:
    return [f"with {', '.join(items)}:", *("    " + line for line in lines)]


def _handed(names: Sequence[str], p: Privilege) -> list[str]:
    return [f"partition({name}, p={p}, disjoint=True) as {name}" for name in names]


def _unit(p: Privilege) -> str:
    """Name the variable with the number of a unit in the grid."""
    return f"unit_{p.level.word}_{p.n}"


def _record(p: ParamSpec) -> str:
    """Name the class of the records that a parameter points to."""
    return f"{p.name}_record"


def _pointed(p: ParamSpec) -> str:
    """Write the type that a pointer points to."""
    record = p.spec.record
    return str(p.spec.elem) if record is None else str(record) if record.is_tuple else _record(p)


def _out(name: str) -> str:
    return name.replace(".", "_") + "_out"


def _is_written(p: ParamSpec) -> bool:
    return p.spec.kind is SpecKind.REF or p.spec.kind is SpecKind.POINTER and not p.spec.const


def _written(p: ParamSpec, type: str) -> str:
    return type if _is_written(p) else f"const({type})"


def _indices(p: ParamSpec) -> list[tuple[int, str]]:
    """List the registers of an array, with the text of their indices."""
    assert isinstance(p.spec.type, Array)
    every = itertools.product(*map(range, p.spec.type.shape))
    return [(k, ", ".join(map(str, at))) for k, at in enumerate(every)]


def _element(p: ParamSpec, k: int) -> str:
    """Say where register k of a parameter is kept."""
    unit = _unit(p.privilege)
    return _stored(
        p.name, p.spec.elem, f"{p.spec.type.size} * {unit} + {k}" if isinstance(p.spec.type, Array) else unit
    )


def _lanes(elem: Element) -> int:
    return elem.lanes if isinstance(elem, Vector) else 1


def _numpy(elem: Element, memory: bool) -> str:
    """NumPy's type of an array: f16 and bf16 registers come as f32, which holds them; bits of bf16 in memory as u16."""
    type = scalar_of(elem)
    if memory and type in (F16, BF16):
        return "float16" if type == F16 else "uint16"
    return _NUMPY.get(type) or {"i": "int", "u": "uint", "f": "float"}[str(type)[0]] + str(type)[1:]


def _held(elem: Element) -> str:
    """Snap's type of such an array."""
    type = scalar_of(elem)
    return "f32" if type in (F16, BF16) else str(type)


def _stored(array: str, elem: Element, index: str) -> str:
    return f"{array}.view({elem})[{index}]" if isinstance(elem, Vector) else f"{array}[{index}]"


def _cast(elem: Element, value: str) -> str:
    return f"{elem}({value})" if elem in (F16, BF16) else value


def _cast_back(elem: Element, value: str) -> str:
    return f"f32({value})" if elem in (F16, BF16) else value
