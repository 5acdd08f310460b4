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

from collections.abc import Callable
from typing import Any

from snap._compiler.ir.types import BF16
from snap.host.arguments.arrays import ArrayFamily
from snap.host.arguments.preconditions import Precondition
from snap.host.arguments.signature import bf16_bits
from snap.host.arguments.validate import ordered
from snap.host.device.gpu import STREAM_AT, GpuKernel
from snap.host.errors import GpuError
from snap.host.plan.conditions import Conditions, number, same_number
from snap.host.plan.families import FAMILIES, ArraySpelling

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


def source(kernel: GpuKernel, family: ArraySpelling, asks: Conditions) -> str:
    """Print the text of the function, for the kernel's device.

    It puts one question after the other to all arrays: the second time its code is in the processor's caches.
    """
    module, count = kernel.compiled.module, len(asks.signature.params)
    alone = kernel.driver.count == 1  # so that the current device is the kernel's
    place = [] if alone else ["current_device() == DEVICE"]
    writes = [f"a{k}" for k, param in asks.pointers if not param.const]
    place += [family.writable.format(a=a) for a in writes if family.writable]
    shared = {
        "attributes": ", attributes, attribute_count" if module.cooperative else "",
        "at": STREAM_AT,
        "device": kernel.device.number,
        "packed": ", ".join(_packed(asks, bool(module.grid_barrier))),
        "changed": family.changed.format(all=", ".join(writes)) + "; " if family.changed and writes else "",
    }
    fitting = ["not rest and not keywords", *(number(f"a{k}", param.scalar) for k, param in asks.numbers)]
    fitting += [
        question.format(a=f"a{k}", i=k)
        for question in (*family.guards, family.alone if alone else family.anywhere)
        for k, _ in asks.pointers
    ]
    addresses = [f"not (p{k} := {_address(family, k)}) % {param.widest}" for k, param in asks.pointers]
    before = known = learn = outer = ""
    if family.compare is not None:
        before, known = _remembering(asks, family, place, shared, not module.grid_barrier)
        learn = f"learn({', '.join(f'a{k}' for k in range(count))})\n                "
        outer = "nonlocal changed\n        "
    return _TEMPLATE.format(
        params=", ".join(f"a{k}=NOTHING" for k in range(count)),
        args="".join(f"a{k}, " for k in range(count)),
        checks=_joined([*fitting, *place, *asks.together(addresses, family.shape, asks.holds())]),
        before=before,
        known=known,
        learn=learn,
        outer=outer,
        **shared,
    )


def _remembering(
    asks: Conditions, family: ArraySpelling, place: list[str], shared: dict[str, Any], packed_again: bool
) -> tuple[str, str]:
    """Print what is remembered of a launch, and how the next one is compared with it.  Of arrays: bytes, shapes where
    they are asked for, addresses; of the others: the values.
    """
    arrays = [k for k, _ in asks.pointers]
    shaped = [k for k, param in asks.pointers if param.dims is not None]
    given = "".join(f"a{k}, " for k in arrays)
    numbers = "".join(f"a{k}, " for k, _ in asks.numbers)
    holds = asks.holds()
    if asks.decides is not None:  # lengths are what they were: where numbers are, too, it holds
        unchanged = " and ".join(f"a{k} == k{k}" for k in asks.decides if k not in arrays)
        holds = f"({unchanged} or {holds})" if unchanged else None
    before = _BEFORE.format(
        nothing="None, " * (len(asks.numbers) + 3),
        arrays=given,
        taken=", ".join(f"a{k}" for k in range(len(asks.signature.params))),
        numbers=numbers,
        sizes="".join([f"a{k}.nbytes, " for k in arrays] + [f"tuple(a{k}.shape), " for k in shaped]),
        **shared,
    )
    same = ["now == before", *(same_number(k, param.scalar) for k, param in asks.numbers)]
    # Those that are the same object were right.
    fitting = [f"(a{k} is k{k} or {number(f'a{k}', param.scalar)})" for k, param in asks.numbers]
    fitting += asks.together([f"not p{k} % {param.widest}" for k, param in asks.pointers], "s{i}", holds)
    known = _KNOWN.format(
        kept=numbers.replace("a", "k"),
        same_arrays=_joined([f"alike({given})", "not rest and not keywords", *place]),
        addresses="".join(f"{_address(family, k)}, " for k in arrays),
        names="".join(f"p{k}, " for k in arrays),
        same=_joined(same),
        sizes="".join([f"n{k}, " for k in arrays] + [f"s{k}, " for k in shaped]),
        checks=_joined(fitting),
        kept_again=_KEPT_AGAIN.format(now=numbers, **shared) if packed_again else "",
        **shared,
    )
    return before, known


def _address(family: ArraySpelling, k: int) -> str:
    return family.pointer.format(a=f"a{k}", i=k)


def _packed(asks: Conditions, barrier: bool) -> list[str]:
    """List what goes into the buffer of a launch: the arguments, the tensor maps, and a cooperative grid's barrier."""
    names = {k: f"p{k}" for k, _ in asks.pointers}
    names |= {k: f"bf16_bits(a{k})" if param.scalar == BF16 else f"a{k}" for k, param in asks.numbers}
    maps = [f"maps{at}[p{k}, d{k}]" for at, k in enumerate(asks.maps)]
    return [names[k] for k in sorted(names)] + maps + ["words(stream)"] * barrier


def _joined(checks: list[str]) -> str:
    return "\n                and ".join(checks)


def maker(kernel: GpuKernel, family: ArrayFamily, where: Precondition | None = None) -> Callable[..., Callable]:
    """`make(blocks, slow, stream)`: the function for one number of blocks; stream None is the library's current one.
    `make(blocks, slow, stream, dynamic)`: for so many bytes of dynamic shared memory, where arguments decide them.
    """
    signature = kernel.signature
    spelled = FAMILIES[family](signature)
    asks = Conditions(signature, where, tuple(tensor.param for tensor in kernel.compiled.module.tensors))
    names: dict[str, Any] = {
        **asks.names,
        **spelled.names,
        "DEVICE": kernel.device.number,
        "launch": kernel.driver.launch,
        "failed": kernel.failed,
        "pack": kernel.layout.pack.pack_into,
        "new_slot": kernel.slot,
        "words": kernel.words.of,
        "bf16_bits": bf16_bits,
        "NOTHING": object(),
        **{f"maps{number}": maps for number, maps in enumerate(kernel.maps)},
        "ordered": lambda args, keywords: ordered(signature, args, keywords),
        "compare": spelled.compare,
        "never": lambda *arrays: False,
        "GpuError": GpuError,
    }
    exec(compile(source(kernel, spelled, asks), f"<launch of {signature.kernel}>", "exec"), names)
    current = names[f"{family}_stream"]
    return lambda blocks, slow, stream, dynamic=None: names["make"](
        blocks, slow, current if stream is None else lambda device: stream, dynamic
    )
