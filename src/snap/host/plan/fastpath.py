"""The path of repeated launches: one generated Python function a kernel, kind of array and number of blocks.

Input:      a kernel that has been launched once, so that all that does not depend on the arguments is known to hold
Output:     `call(*args)`, which launches
Invariant:  it launches only where every argument passes the same checks as in validate.py; anything else (another kind
            of array, a NumPy integer, whatever might be an error) goes to the slow path, which accepts it or says what
            is wrong
Non-goals:  good errors; arguments of vector or array type; arrays other than torch's and CuPy's

Python's own overhead is what is being saved, so the function is text: no loop over parameters, no object made, one
`pack_into`, one foreign call. An array costs the calls that its library needs to say kind, dtype, device, contiguity,
size and address; nothing of it is remembered, since any of them may change under the same object.  Tensors of torch
that are like those of the launch before cost one call for all of them together, and one each for the address
(likeness.py).  A tensor map costs one lookup in a dictionary that makes what it does not have. Slots (the memory a
launch passes) come from a pool: `list.pop` and `list.append` are atomic, so a slot is never used by two threads at
once.

A launch with the numbers, addresses and stream of an earlier one, on tensors like its, passes what that one passed:
memory that was packed then and that nobody writes any more, so that threads may share it.  All that is checked is a
function of these, and held.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

from snap._compiler.ir.types import BF16, BOOL, Scalar
from snap.host.arguments.arrays import ArrayFamily
from snap.host.arguments.preconditions import Precondition
from snap.host.arguments.signature import HELPERS, Pointer, Signature, ValueArgument, bf16_bits
from snap.host.arguments.validate import accepted_shapes, ordered
from snap.host.device.gpu import STREAM_AT, GpuKernel
from snap.host.errors import GpuError
from snap.host.plan.families import FAMILIES, ArraySpelling

_MOST_HELD = 1024  # choices of arguments for which a `where=` is known to hold


def supports(signature: Signature) -> bool:
    return any(isinstance(param, Pointer) for param in signature.params) and all(
        isinstance(param, Pointer) or isinstance(param.type, Scalar) for param in signature.params
    )


_TEMPLATE = """\
def make(blocks, slow, current_stream, dynamic):
    pool, held = [], set()
    pop, push = pool.pop, pool.append
{before}
    def other(args, rest, keywords):
        args = *[arg for arg in args if arg is not NOTHING], *rest
        return call(*ordered(args, keywords)) if keywords else slow(args)

    def call({params}, /, *rest, **keywords):
        {outer}try:
            {known}if ({checks}):
                {learn}slot = pop() if pool else new_slot(blocks, dynamic)
                buffer, arguments{attributes} = slot
                stream = current_stream({device})
                pack(buffer, {at}, stream{attributes}, {packed})
            else:
                slot = None
        except GpuError:
            raise
        except Exception:
            slot = None
        if slot is None:
            return other(({args}), rest, keywords)
        result = launch(*arguments)
        if result:
            failed(result, arguments)
        {changed}push(slot)

    return call
"""

# What is remembered is one tuple, so that threads see a comparison, the sizes that go with it, and memory that was
# packed for such arrays.  Arrays that are not like those before are compared with at once, and if that happens again
# and again ever more seldom: making a comparison costs as much as several launches.  Likewise for what is packed.
_BEFORE = """\
    like, missed, wait, changed, patience = (never, {nothing}), 0, 1, 0, 1

    def learn({taken}):
        nonlocal like, missed, wait
        missed += 1
        if missed >= wait:
            missed, wait = 0, 2 * wait
            found = compare(({arrays}))
            if found is not None:
                like = found, {numbers}None, None, ({sizes})

    def keep(said, sizes, *values):
        nonlocal like, changed, patience
        changed, patience = 0, 2 * patience
        buffer, arguments{attributes} = new_slot(blocks, dynamic)
        pack(buffer, {at}, said[-1][-1]{attributes}, *values)
        like = *said, arguments, sizes
"""
_KNOWN = """\
alike, {kept}before, arguments, sizes = like
            if ({same_arrays}):
                now = {addresses}current_stream({device})
                if ({same}):
                    result = launch(*arguments)
                    if result:
                        failed(result, arguments)
                    {changed}return
                else:
                    {names}stream = now
                    {sizes}= sizes
                    if ({checks}):
                        slot = pop() if pool else new_slot(blocks, dynamic)
                        buffer, arguments{attributes} = slot
                        pack(buffer, {at}, stream{attributes}, {packed}){kept_again}
                    else:
                        slot = None
            el"""
# Not where blocks meet in words that are chosen at every launch.
_KEPT_AGAIN = """
                        changed += 1
                        if changed >= patience:
                            keep((alike, {now}now), sizes, {packed})"""


def source(
    signature: Signature,
    family: ArraySpelling,
    device: int,
    alone: bool,
    cooperative: bool,
    barrier: bool,
    tensors: tuple[int, ...] = (),
    where: bool = False,
    decides: tuple[int, ...] | None = None,
) -> str:
    """The text of the function, for a device.  `alone`: there is one GPU, so that the current device is it.  `tensors`:
    the parameter of each tensor map.  `where`: it has preconditions; `decides`: the arguments that decide them, where
    they are known to, so that what held is not asked again.

    One question after the other, each put to all arrays: the second time its code is in the processor's caches.
    """
    arrays = [(index, param) for index, param in enumerate(signature.params) if isinstance(param, Pointer)]
    fitting = ["not rest and not keywords"]
    fitting += [_value_check(f"a{k}", p.scalar) for k, p in enumerate(signature.params) if isinstance(p, ValueArgument)]
    fitting += [
        question.format(a=f"a{index}", i=index)
        for question in (*family.guards, family.alone if alone else family.anywhere)
        for index, _ in arrays
    ]
    fitting += [*([] if alone else ["current_device() == DEVICE"]), *_writable(signature, family)]
    addresses = [f"not (p{k} := {family.pointer.format(a=f'a{k}', i=k)}) % {param.widest}" for k, param in arrays]
    args = [f"a{index}" for index in range(len(signature.params))]
    shared = {
        "attributes": ", attributes, attribute_count" if cooperative else "",
        "at": STREAM_AT,
        "device": device,
        "packed": ", ".join(_all_packed(signature, barrier, tensors)),
        "changed": _changed(signature, family),
    }
    condition = _condition(signature, decides) if where else None
    before = known = learn = outer = ""
    if family.compare is not None:
        before, known = _remembering(signature, family, alone, barrier, decides if where else None, condition, shared)
        learn, outer = f"learn({', '.join(args)})\n                ", "nonlocal changed\n        "
    return _TEMPLATE.format(
        params=", ".join(f"{arg}=NOTHING" for arg in args),
        args="".join(f"{arg}, " for arg in args),
        checks=_joined([*fitting, *_checks(signature, addresses, family.shape, condition)]),
        before=before,
        known=known,
        learn=learn,
        outer=outer,
        **shared,
    )


def _remembering(
    signature: Signature,
    family: ArraySpelling,
    alone: bool,
    barrier: bool,
    decides: tuple[int, ...] | None,
    condition: str | None,
    shared: dict[str, Any],
) -> tuple[str, str]:
    """What is remembered of a launch, and how the next one is compared with it.  Of arrays: bytes, shapes where they
    are asked for, addresses; of the others: the values.
    """
    pointers = [(index, param) for index, param in enumerate(signature.params) if isinstance(param, Pointer)]
    values = [(index, param) for index, param in enumerate(signature.params) if isinstance(param, ValueArgument)]
    arrays = [index for index, _ in pointers]
    shaped = [index for index, param in pointers if param.dims is not None]
    given = "".join(f"a{index}, " for index in arrays)
    numbers = "".join(f"a{k}, " for k, _ in values)
    if decides is not None:  # lengths are what they were: where numbers are, too, it holds
        unchanged = " and ".join(f"a{k} == k{k}" for k in decides if k not in arrays)
        condition = f"({unchanged} or {condition})" if unchanged else None
    before = _BEFORE.format(
        nothing="None, " * (len(values) + 3),
        arrays=given,
        taken=", ".join(f"a{index}" for index in range(len(signature.params))),
        numbers=numbers,
        sizes="".join([f"a{k}.nbytes, " for k in arrays] + [f"tuple(a{k}.shape), " for k in shaped]),
        **shared,
    )
    same = ["now == before", *(_same_value(k, param.scalar) for k, param in values)]
    fitting = [f"(a{k} is k{k} or {_value_check(f'a{k}', param.scalar)})" for k, param in values]  # those were right
    fitting += _checks(signature, [f"not p{k} % {param.widest}" for k, param in pointers], "s{i}", condition)
    known = _KNOWN.format(
        kept=numbers.replace("a", "k"),
        same_arrays=_joined(
            [
                *(f"alike({given})", "not rest and not keywords"),
                *([] if alone else ["current_device() == DEVICE"]),
                *_writable(signature, family),
            ]
        ),
        addresses="".join(f"{family.pointer.format(a=f'a{k}', i=k)}, " for k in arrays),
        names="".join(f"p{k}, " for k in arrays),
        same=_joined(same),
        sizes="".join([f"n{k}, " for k in arrays] + [f"s{k}, " for k in shaped]),
        checks=_joined(fitting),
        kept_again="" if barrier else _KEPT_AGAIN.format(now=numbers, **shared),
        **shared,
    )
    return before, known


def _writes(signature: Signature) -> list[str]:
    return [f"a{k}" for k, param in enumerate(signature.params) if isinstance(param, Pointer) and not param.const]


def _writable(signature: Signature, family: ArraySpelling) -> list[str]:
    return [family.writable.format(a=a) for a in _writes(signature) if family.writable]


def _changed(signature: Signature, family: ArraySpelling) -> str:
    """What stands before the end of a launch that was made."""
    names = ", ".join(_writes(signature))
    return family.changed.format(all=names) + "; " if family.changed and names else ""


def _same_value(index: int, scalar: Scalar) -> str:
    """Whether a value is packed as the one that is remembered, which was right.  Zeros have signs, and NaNs are equal
    to nothing.
    """
    if scalar == BOOL:
        return f"a{index} is k{index}"
    equal = f"a{index} == k{index} != 0" if scalar.is_float else f"a{index} == k{index}"
    return f"(a{index} is k{index} or {_value_check(f'a{index}', scalar)} and {equal})"


def _all_packed(signature: Signature, barrier: bool, tensors: tuple[int, ...]) -> list[str]:
    """What goes into the buffer of a launch: the arguments, the tensor maps, and the barrier of a cooperative grid."""
    packed = [
        _packed(f"{'p' if isinstance(param, Pointer) else 'a'}{index}", param)
        for index, param in enumerate(signature.params)
    ]
    packed += [f"maps{number}[p{index}, d{index}]" for number, index in enumerate(tensors)]
    return packed + ["words(stream)"] * barrier


def _joined(checks: list[str]) -> str:
    return "\n                and ".join(checks)


def _checks(signature: Signature, addresses: list[str], shape: str, condition: str | None) -> list[str]:
    """All that must hold of arrays that fit one by one, with their bytes in `n{i}`.  addresses: what leaves them in
    `p{i}`, aligned; shape: how to ask for one.
    """
    lying = [f"(p{k} or not n{k})" for k, param in enumerate(signature.params) if isinstance(param, Pointer)]
    checks = [*addresses, *lying, *size_checks(signature, shape)]
    checks += _overlap_checks(signature)
    return checks if condition is None else [*checks, condition]


def size_checks(signature: Signature, shape: str) -> list[str]:
    """Of these, what sizes and numbers decide.  It leaves the extents of shaped arrays in `d{i}`."""
    pointers = [(index, param) for index, param in enumerate(signature.params) if isinstance(param, Pointer)]
    return [
        *(f"not n{index} % {param.align}" for index, param in pointers if param.lanes > 1),
        *_shape_checks(signature, shape),
        *(
            f"not {f'd{index}' if param.lanes == 1 else param.dims}[-1] % {param.whole}"
            for index, param in pointers
            if param.whole > 1
        ),
    ]


def _condition(signature: Signature, decides: tuple[int, ...] | None) -> str:
    """That `where=` holds.  It is a function of lengths and numbers: for those for which it held it holds."""
    sized = (
        f"a{index}"
        if isinstance(param, ValueArgument)
        else f"n{index} // {param.elem.bytes * param.lanes}"
        if param.dims is None
        else f"{param.dims}[0]"
        for index, param in enumerate(signature.params)
    )
    asked = f"where(blocks, {', '.join(sized)})"
    if decides is None:
        return asked
    key = "".join(f"{'a' if isinstance(signature.params[k], ValueArgument) else 'n'}{k}, " for k in decides)
    return f"((key := ({key})) in held or keeps(held, key, {asked}))"


def decisive(signature: Signature, where: Precondition | None) -> tuple[int, ...] | None:
    """The arguments that decide whether `where` holds; None where floats are among them, whose zeros and NaNs are not
    told apart by comparing.
    """
    if where is None:
        return None
    asked = {k for _, k in where.at}
    if any(isinstance(param := signature.params[k], Pointer) and param.dims is not None for k in asked):
        asked |= {k for k, param in enumerate(signature.params) if isinstance(param, ValueArgument)}
    floats = any(isinstance(param := signature.params[k], ValueArgument) and param.scalar.is_float for k in asked)
    return None if floats else tuple(sorted(asked))


def keeps(held: set, key: tuple, holds: bool) -> bool:
    if holds:
        if len(held) >= _MOST_HELD:
            held.clear()
        held.add(key)
    return holds


def _packed(name: str, param: Pointer | ValueArgument) -> str:
    return f"bf16_bits({name})" if isinstance(param, ValueArgument) and param.scalar == BF16 else name


def _value_check(name: str, scalar: Scalar) -> str:
    """Ranges are `pack_into`'s to check: it raises, and the slow path says what is wrong."""
    if scalar == BOOL:
        return f"type({name}) is bool"
    if scalar == BF16:
        return f"type({name}) is float and -3.3e38 < {name} < 3.3e38"
    if scalar.is_float:
        return f"((t := type({name})) is float or t is int)"
    return f"type({name}) is int"


def _shape_checks(signature: Signature, shape: str) -> list[str]:
    checks = []
    for index, param in enumerate(signature.params):
        if isinstance(param, Pointer) and param.dims is not None:
            given = shape.format(a=f"a{index}", i=index)
            dims = f"d{index}"
            checks.append(
                f"((s := {given}) == ({dims} := {param.dims}) or s == (prod({dims}),) and min({dims}) >= 0)"
                if param.lanes == 1
                else f"{given} in accepted_shapes({param.dims}, {param.lanes})"
            )
    return checks


def _overlap_checks(signature: Signature) -> list[str]:
    pointers = [(index, param) for index, param in enumerate(signature.params) if isinstance(param, Pointer)]
    pairs = itertools.combinations(pointers, 2)
    return [
        f"(p{i} + n{i} <= p{j} or p{j} + n{j} <= p{i})"
        for (i, one), (j, other) in pairs
        if not (one.const and other.const)
    ]


def maker(kernel: GpuKernel, family: ArrayFamily, where: Precondition | None = None) -> Callable[..., Callable]:
    """`make(blocks, slow, stream)`: the function for one number of blocks; stream None is the library's current one.
    `make(blocks, slow, stream, dynamic)`: for so many bytes of dynamic shared memory, where arguments decide them.
    """
    signature = kernel.signature
    spelled = FAMILIES[family](signature)
    module = kernel.compiled.module
    text = source(
        signature,
        spelled,
        kernel.device.number,
        kernel.driver.count == 1,
        module.cooperative,
        bool(module.grid_barrier),
        tuple(tensor.param for tensor in module.tensors),
        where is not None,
        decisive(signature, where),
    )
    names: dict[str, Any] = {
        **HELPERS,
        **spelled.names,
        "DEVICE": kernel.device.number,
        "launch": kernel.driver.launch,
        "failed": kernel.failed,
        "pack": kernel.layout.pack.pack_into,
        "new_slot": kernel.slot,
        "words": kernel.words.of,
        "bf16_bits": bf16_bits,
        "NOTHING": object(),
        "prod": math.prod,
        "accepted_shapes": accepted_shapes,
        **{f"maps{number}": maps for number, maps in enumerate(kernel.maps)},
        "ordered": lambda args, keywords: ordered(signature, args, keywords),
        "where": None if where is None else where.quick,
        "keeps": keeps,
        "compare": spelled.compare,
        "never": lambda *arrays: False,
        "GpuError": GpuError,
    }
    exec(compile(text, f"<launch of {signature.kernel}>", "exec"), names)
    current = names[f"{family}_stream"]
    return lambda blocks, slow, stream, dynamic=None: names["make"](
        blocks, slow, current if stream is None else lambda device: stream, dynamic
    )
