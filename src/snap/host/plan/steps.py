"""Plans of several steps: allocations, views, launches, and other functions of Python.

Input:      the steps of a call (`ReplayStep`), its arguments and its result
Output:     `replay_text`: the steps again, for any arrays; `quick`: for tensors of torch on a GPU, what makes a plan
            that compares the arguments with those of the call, and then allocates and launches without any further
            check
Invariant:  what is written overlaps nothing else, and torch is told of it.  The guard decides all else that a launch
            asks of its arguments (guard.py)
Non-goals:  which repetition a call takes (plans.py, lib/_calls/recorded.py)

Python's own overhead is what is being saved.  All that the signature decides is a constant of the text; what is left
are the arrays' addresses.  Memory that one launch alone needs, and no caller sees, is not allocated: on the default
stream kernels run one after the other, and share one piece of it (contexts.py), and one that is zero whenever one of
them begins.  On other streams, where graphs are captured among others, it is allocated.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Any

from snap.host.device.contexts import CLEAN, ROOM, on_device
from snap.host.device.driver import driver
from snap.host.launch import launcher
from snap.host.plan.guard import Guard, like_places, like_state, like_values, on_current, tensors_of
from snap.host.plan.plans import CallPlan, plan
from snap.host.plan.trusted import LINE, Trusted, trusted
from snap.host.torch.torchwrites import telling
from snap.record import record

_ROOM_ALIGN = 256


@record
class ReplayStep:
    """name    of what it made
    arrays  the names of the arrays among its arguments, by identity
    text    the call, in the tape's names
    """

    name: str
    function: Any
    args: tuple[object, ...]
    arrays: dict[int, str]
    text: str
    made: Any


class RecordedLaunch:
    """A kernel with a number of blocks, as a step."""

    def __init__(self, kernel: Any, blocks: int):
        self.kernel, self.blocks = kernel, blocks

    def __call__(self, *args: object) -> None:
        self.kernel[self.blocks](*args)


def new_tensor(make: Any, shape: tuple[int, ...], dtype: object, device: object) -> object:
    """Make a tensor of torch, by its `empty` or `zeros`."""
    return make(shape, dtype=dtype, device=device)


def zeroed_tensor(make: Any, shape: tuple[int, ...], dtype: object, device: object) -> object:
    """Make a tensor of zeros, for one launch that leaves zeros in it: quick repetitions on the default stream need not
    make one, nor zero it.
    """
    return make(shape, dtype=dtype, device=device)


# Functions that do nothing but look at their argument in another way: where only launches need the array that one
# gives, it is left out of quick repetitions.  One may make a copy where it has to.
VIEWS: set[Callable] = set()


def replay_text(steps: list[ReplayStep], arguments: int, result: str) -> str:
    head = f"def replay({', '.join(f'a{k}' for k in range(arguments))}):"
    return "\n    ".join([head, *(f"{step.name} = {step.text}" for step in steps), f"return {result}"]) + "\n"


@record
class Quick:
    """A call that can be made quickly: what is compared of places and values, and the lines that do it.  A call that
    would overwrite what requires grad was refused, and is none: its signature says whether a gradient is wanted.
    """

    name: str
    guard: Guard
    lines: list[str]
    names: dict[str, object]

    def plan(self, values: tuple[object, ...]) -> CallPlan | None:
        """Make a plan for torch's state as it is now; None where a mode has to see it, or torch cannot compare."""
        found = like_state(values)
        if found is None:
            return None
        return plan(f"snap.lib.{self.name}", len(values), found.and_also(self.guard), self.lines, self.names)


# ---- what a tape does, by addresses ---------------------------------------------------------------------------------


@record
class TensorPlace:
    """Say where tensors are, and how memory and launches are made there."""

    device: int
    alone: bool
    empty: Callable
    stream: Callable
    current: Callable
    room: Callable[[], int]
    most_room: int
    clean: Callable[[], int]
    most_clean: int
    launch: Callable[[ReplayStep], Trusted | None]


def on_gpu(torch: Any, device: int) -> TensorPlace | None:
    empty = getattr(torch._C._dynamo.guards, "_empty_strided_cuda", None)
    if empty is None:
        return None
    found = on_device(driver(), driver().device(device))
    return TensorPlace(
        device,
        found.count == 1,
        empty,
        torch._C._cuda_getCurrentRawStream,
        torch._C._cuda_getDevice,
        found.room,
        ROOM,
        lambda: found.room(CLEAN),
        CLEAN,
        lambda step: trusted(launcher(step.function.kernel._specialized({})), step.function.blocks, step.args, device),
    )


def quick(name: str, tape: Any, values: tuple[object, ...], result: str, offsets: bool) -> Quick | None:
    """None where not all arrays are tensors of torch on one GPU, or torch has not what it takes."""
    torch = sys.modules.get("torch")
    if torch is None or getattr(torch._C, "_dynamo", None) is None:
        return None
    devices = {tensor.get_device() if tensor.is_cuda else -1 for tensor in tensors_of(values)[0].values()}
    if len(devices) != 1 or -1 in devices:
        return None
    place = on_gpu(torch, devices.pop())
    return None if place is None else quick_at(place, name, tape, values, result, offsets)


def quick_at(
    place: TensorPlace, name: str, tape: Any, values: tuple[object, ...], result: str, offsets: bool
) -> Quick | None:
    compared, given = like_values(values), tensors_of(values)[0]
    text = _Text(place, given, tape, result)
    if compared is None or not text.possible():
        return None
    lines = text.lines()
    guard = compared.and_also(like_places(given, offsets), Guard(tuple(text.apart()), {}))
    if not place.alone:
        guard = on_current(place.device, place.current).and_also(guard)
    return Quick(name, guard, lines, {**tape.values, **text.names})


class _Text:
    """The lines of one call.  An array has a tensor where somebody needs one: the caller, or a step that is no launch.
    Launches need addresses.
    """

    def __init__(self, place: TensorPlace, given: dict[str, Any], tape: Any, result: str):
        self.place, self.tape, self.given, self.result = place, tape, given, result
        self.torch: Any = sys.modules["torch"]
        self.steps: list[ReplayStep] = tape.steps
        self.names: dict[str, object] = {
            "empty": place.empty,
            "current_stream": place.stream,
            "room": place.room,
            "clean": place.clean,
        }
        self.made = {step.name: step for step in self.steps}
        self.views: dict[str, tuple[str, int]] = {}  # name: what it is a view of, how many bytes behind its start
        self.fresh: set[str] = set()  # allocated, not zeroed
        self.zeroed: set[str] = set()  # zeros, which a launch leaves so
        self.launches: dict[str, Trusted] = {}

    def possible(self) -> bool:
        """Say whether there are launches, all of them of the kind that has a short form."""
        for step in self.steps:
            if isinstance(step.function, RecordedLaunch):
                found = self.place.launch(step)
                if found is None:
                    return False
                self.launches[step.name] = found
            elif step.function is new_tensor and step.args[0] is self.torch.empty:
                self.fresh.add(step.name)
            elif step.function is zeroed_tensor:
                self.zeroed.add(step.name)
            elif isinstance(step.made, self.torch.Tensor) and not self._view(step):
                return False
        self.returned = set(re.findall(r"\b[avk]\d+\b", self.result))
        self.needed = self._needed()
        self.turned = self._turned()
        self.inside, self.in_clean = (
            {name: at for step in self.launches for name, at in self._rooms(step, names, most).items()}
            for names, most in ((self.fresh, self.place.most_room), (self.zeroed, self.place.most_clean))
        )
        return bool(self.launches)

    def _view(self, step: ReplayStep) -> bool:
        """Note a view.  False for a step that gives a view and might do more than that."""
        for arg in step.args:
            if isinstance(arg, self.torch.Tensor) and id(arg) in step.arrays and step.made.numel():
                if arg.untyped_storage().data_ptr() == step.made.untyped_storage().data_ptr():
                    if step.function not in VIEWS:
                        return False
                    self.views[step.name] = step.arrays[id(arg)], step.made.data_ptr() - arg.data_ptr()
        return True

    def _needed(self) -> set[str]:
        """List the arrays that are needed as tensors."""
        found = set(self.returned)
        for step in reversed(self.steps):
            plain = step.name not in self.launches and step.name not in self.fresh
            if plain and (step.name not in self.views or step.name in found):
                found.update(step.arrays.values())
        return found

    def _turned(self) -> dict[str, str]:
        """Map new matrices that are needed as their transpose alone to that one, which is allocated in their place."""
        found = {}
        for name, (base, _) in self.views.items():
            alone = base in self.fresh and sum(base in step.arrays.values() for step in self._tensor_steps()) == 1
            if alone and name in self.needed and base not in self.returned:
                one, other = self.made[name].made, self.made[base].made
                if one.dim() == 2 and one.shape == other.shape[::-1] and one.stride() == other.stride()[::-1]:
                    found[base] = name
        return found

    def _tensor_steps(self) -> list[ReplayStep]:
        return [step for step in self.steps if step.name not in self.launches]

    def _rooms(self, launch: str, names: set[str], most: int) -> dict[str, int]:
        """Give those arrays that this launch alone uses a place in the room that all such arrays share."""
        found, at = {}, 0
        for name in dict.fromkeys(self.made[launch].arrays.values()):
            uses = [step.name for step in self.steps if name in step.arrays.values()]
            if name not in names or name in self.needed or uses != [launch]:
                continue
            size = -(-max(self.made[name].made.nbytes, 1) // _ROOM_ALIGN) * _ROOM_ALIGN
            if at + size <= most:
                found[name], at = at, at + size
        return found

    # ---- addresses ----

    def origin(self, name: str) -> tuple[str, int]:
        """Find the array that it is a view of, and how far behind its start it begins."""
        behind = 0
        while name in self.views:
            name, more = self.views[name]
            behind += more
        return name, behind

    def address(self, array: object, arrays: dict[int, str]) -> str:
        name, behind = self.origin(arrays[id(array)])
        if name.startswith("k"):
            return str(self.tape.values[name].data_ptr() + behind)
        return f"p{name}" + (f" + {behind}" if behind else "")

    def apart(self) -> list[str]:
        """Require that no written tensor, among those that were given, overlaps another one.  New tensors overlap
        nothing, and how views of one array lie to each other does not depend on addresses.
        """
        found = {}
        for name, launch in self.launches.items():
            step = self.made[name]
            given = [(k, step.args[k], *self.origin(step.arrays[id(step.args[k])])) for k in launch.given]
            given = [one for one in given if one[2] in self.given]
            for i, first, base, _ in given:
                for j, second, other, _ in given:
                    if i < j and base != other and (i in launch.written or j in launch.written):
                        p, q = self.address(first, step.arrays), self.address(second, step.arrays)
                        found[f"({p} + {first.nbytes} <= {q} or {q} + {second.nbytes} <= {p})"] = True
        return list(found)

    def written(self) -> list[str]:
        """List the given tensors that a launch may write."""
        found = {}
        for name, launch in self.launches.items():
            step = self.made[name]
            found.update({self.origin(step.arrays[id(step.args[k])])[0]: True for k in launch.written})
        return [name for name in self.given if name in found]

    # ---- lines ----

    def lines(self) -> list[str]:
        found = [f"stream = current_stream({self.place.device})"]
        if self.inside:
            found.append("shared = 0 if stream else room()")
        if self.in_clean:
            found.append("zeros = 0 if stream else clean()")
        for number, step in enumerate(self.steps):
            if step.name in self.launches:
                launch = self.launches[step.name]
                addresses = {k: self.address(step.args[k], step.arrays) for k in launch.given}
                packing, launching, names = launch.text(number, addresses)
                found += packing + launching
                self.names.update(names)
            elif step.name in self.inside:
                found += ["if shared:", f"    p{step.name} = shared + {self.inside[step.name]}", "else:"]
                found += [f"    {line}" for line in self._allocated(step.name, step.made)]
            elif step.name in self.in_clean:
                found += ["if zeros:", f"    p{step.name} = zeros + {self.in_clean[step.name]}", "else:"]
                made = [f"{step.name} = {step.text}", *self._placed(step.name, step.name, step.made)]
                found += [f"    {line}" for line in made]
            elif step.name in self.turned:
                found += self._allocated(step.name, self.made[self.turned[step.name]].made, self.turned[step.name])
            elif step.name in self.fresh:
                if step.name in self.needed or self._used(step.name):
                    found += self._allocated(step.name, step.made)
            elif step.name in self.views:
                if step.name in self.needed and step.name not in self.turned.values():
                    found.append(f"{step.name} = {step.text}")
            else:
                found.append(f"{step.name} = {step.text}")
                if isinstance(step.made, self.torch.Tensor):
                    found += self._placed(step.name, step.name, step.made)
        written = self.written()
        if written:
            self.names["changed"] = telling()
            found.append(f"changed({', '.join(written)})")
        return [*found, f"return {self.result}"]

    def _allocated(self, name: str, like: Any, held: str | None = None) -> list[str]:
        """held: the name of the tensor, where it is not the array's own."""
        dtype = f"dtype_{name}"
        self.names[dtype] = like.dtype
        held = held or name
        made = f"{held} = empty({tuple(like.shape)}, {tuple(like.stride())}, {dtype})"
        return [made, *self._placed(name, held, like)]

    def _used(self, name: str) -> bool:
        """Say whether a launch takes it, or a view of it."""
        return any(self.origin(one)[0] == name for step in self.launches for one in self.made[step].arrays.values())

    def _placed(self, name: str, held: str, like: Any) -> list[str]:
        """Take its address, which must lie at a line as it did."""
        if not self._used(name):
            return []
        at = like.data_ptr() % LINE
        return [f"p{name} = {held}.data_ptr()", f"if p{name} & {LINE - 1} != {at}:", "    return MISS"]
