"""Repetitions of library calls as generated functions of Python.

Input:      the steps of a call (recorded.Tape), its arguments and its result
Output:     `replay_text`: the steps again, for any arrays; `quick`: for tensors of torch on a GPU, a function that
            compares the arguments with those of the call, and then allocates and launches without any further check
Invariant:  a quick function does nothing, and says MISS, unless all of these are as they were: kind, type, shape,
            strides, device of each tensor, whether it wants a gradient, its address modulo `LINE`; torch's modes and
            thread-local state; the current device; every value that is no tensor.  What is written overlaps nothing,
            and torch is told of it
Non-goals:  which repetition a call takes (recorded)

Python's own overhead is what is being saved.  All that the signature decides stands in the text as a constant; what is
left are the arrays' addresses.  Memory that one launch alone needs, and nobody sees, is not allocated: on the default
stream kernels run one after the other, and share one piece of it (contexts.py), and one that is zero whenever one of
them begins.  On other streams, where graphs are captured among others, it is allocated.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable
from typing import Any

from snap.host.plan.trusted import LINE, Trusted, trusted
from snap.host.torch.likeness import likeness
from snap.host.torch.torchwrites import telling
from snap.record import record

MISS: Any = object()  # what a plan gives for a call that is not its own
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


class ReplayPlan:
    """run     (*arguments) -> the result, or MISS
    after   the plan of the call that came after this one last time
    """

    __slots__ = ("run", "after")

    def __init__(self, run: Callable):
        self.run = run
        self.after: ReplayPlan = self


def no_plan() -> ReplayPlan:
    return ReplayPlan(lambda *values: MISS)


def replay_text(steps: list[ReplayStep], arguments: int, result: str) -> str:
    head = f"def replay({', '.join(f'a{k}' for k in range(arguments))}):"
    return "\n    ".join([head, *(f"{step.name} = {step.text}" for step in steps), f"return {result}"]) + "\n"


# ---- quick ones -----------------------------------------------------------------------------------------------------


class Quick:
    """A call that can be made quickly: what is compared, and the lines that do it.  A call that would overwrite what
    requires grad was refused, and is none: whether a gradient is wanted counts in its signature.
    """

    def __init__(self, torch: Any, name: str, conditions: list[str], lines: list[str], names: dict[str, object]):
        self.torch, self.name, self.conditions, self.lines, self.names = torch, name, conditions, lines, names
        self.code: dict[tuple[str, ...], Any] = {}

    def plan(self, values: tuple[object, ...]) -> ReplayPlan | None:
        """For torch's state as it is now; None where nobody should be passed by, or where torch cannot compare."""
        found = state_conditions(self.torch, values)
        if found is None:
            return None
        conditions, names = found
        code = self.code.get(conditions)
        if code is None:
            code = self.code[conditions] = _compiled(
                self.name, len(values), [*conditions, *self.conditions], self.lines
            )
        return plan_of(code, {**self.names, **names})


def plan_of(code: Any, names: dict[str, object]) -> ReplayPlan:
    names = {**names, "MISS": MISS}
    exec(code, names)
    return ReplayPlan(names["run"])  # type: ignore[arg-type]


def _compiled(name: str, arguments: int, conditions: list[str], lines: list[str]) -> Any:
    text = "\n".join(
        [
            f"def run({', '.join(f'a{k}' for k in range(arguments))}):",
            f"    if {' and '.join(conditions)}:",
            *(f"        {line}" for line in lines),
            "    return MISS",
            "",
        ]
    )
    return compile(text, f"<quick call of snap.lib.{name}>", "exec")


def guarded(
    name: str, torch: Any, values: tuple[object, ...], lines: list[str], names: dict[str, object]
) -> ReplayPlan | None:
    """A plan that does these lines for all calls with such tensors, wherever they lie, and such values."""
    found, own = state_conditions(torch, values), value_conditions(values)
    if found is None or own is None:
        return None
    return plan_of(_compiled(name, len(values), [*found[0], *own[0]], lines), {**names, **found[1], **own[1]})


def state_conditions(torch: Any, values: tuple[object, ...]) -> tuple[tuple[str, ...], dict[str, object]] | None:
    """What tells that tensors, and torch's state, are as they are now: dispatch keys (transforms, tracing, lazily
    negated tensors and the like among them), type, shape, strides, device, gradient, in one call of torch's own; modes;
    forward mode.  None where a mode or a transform is active, which has to see the call.
    """
    given, again = _given(torch, values)
    check = likeness(list(given.values()))
    try:
        watched = (
            torch._C._len_torch_dispatch_stack() > 0
            or torch._C._functorch.peek_interpreter_stack() is not None
            or torch._C._is_tracing()
            or torch.autograd.forward_ad._current_level >= 0
        )
    except AttributeError:
        return None
    if check is None or watched:
        return None
    conditions = [*again, "not modes()", f"check({', '.join(given)})", "forward._current_level < 0"]
    names: dict[str, object] = {
        "check": check,
        "modes": torch._C._len_torch_dispatch_stack,
        "forward": torch.autograd.forward_ad,
    }
    if any(tensor.requires_grad for tensor in given.values()):
        conditions.append(f"{'' if torch.is_grad_enabled() else 'not '}grad_enabled()")
        names["grad_enabled"] = torch.is_grad_enabled
    return tuple(conditions), names


def _given(torch: Any, values: tuple[object, ...]) -> tuple[dict[str, Any], list[str]]:
    """The tensors by name, each once, and that those are the same which were; `check` says that no others are."""
    names: dict[int, str] = {}
    given, again = {}, []
    for k, value in enumerate(values):
        if isinstance(value, torch.Tensor):
            first = names.setdefault(id(value), f"a{k}")
            if first == f"a{k}":
                given[first] = value
            else:
                again.append(f"a{k} is {first}")
    return given, again


def value_conditions(values: tuple[object, ...]) -> tuple[list[str], dict[str, object]] | None:
    """What tells that all that are no tensors are as they are now; None for a value that is not equal to itself."""
    torch = sys.modules["torch"]
    conditions: list[str] = []
    names: dict[str, object] = {}
    for k, value in enumerate(values):
        if isinstance(value, torch.Tensor):
            continue
        if value is None or type(value) is bool:
            conditions.append(f"a{k} is {value}")
            continue
        names[f"c{k}"] = value
        if type(value) in (int, float, str):
            if value != value:
                return None
            equal = f"type(a{k}) is {type(value).__name__} and a{k} == c{k}"
            if type(value) is float and value == 0:
                names["copysign"] = math.copysign
                equal += f" and copysign(1.0, a{k}) == {math.copysign(1.0, value)}"
            conditions.append(f"(a{k} is c{k} or {equal})")
        else:
            conditions.append(f"a{k} is c{k}")
    return conditions, names


# ---- what a tape does, by addresses ---------------------------------------------------------------------------------


@record
class TensorPlace:
    """Where tensors are, and how memory and launches are made there."""

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
    from snap.host.device.contexts import CLEAN, ROOM, on_device
    from snap.host.device.driver import driver
    from snap.host.launch import launcher

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
        lambda step: trusted(launcher(step.function.kernel._specialised({})), step.function.blocks, step.args, device),
    )


def quick(name: str, tape: Any, values: tuple[object, ...], result: str, offsets: bool) -> Quick | None:
    """None where not all arrays are tensors of torch on one GPU, or torch has not what it takes."""
    torch = sys.modules.get("torch")
    if torch is None or getattr(torch._C, "_dynamo", None) is None:
        return None
    given, _ = _given(torch, values)
    devices = {tensor.get_device() if tensor.is_cuda else -1 for tensor in given.values()}
    if len(devices) != 1 or -1 in devices:
        return None
    place = on_gpu(torch, devices.pop())
    return None if place is None else quick_at(place, torch, name, tape, values, result, offsets)


def quick_at(
    place: TensorPlace, torch: Any, name: str, tape: Any, values: tuple[object, ...], result: str, offsets: bool
) -> Quick | None:
    compared = value_conditions(values)
    if compared is None:
        return None
    given, _ = _given(torch, values)
    text = _Text(place, torch, given, tape, result)
    if not text.possible():
        return None
    lines = text.lines()
    conditions, names = compared
    if not place.alone:
        conditions = [f"current_device() == {place.device}", *conditions]
    for word, tensor in given.items():
        conditions.append(f"(p{word} := {word}.data_ptr()) & {LINE - 1} == {tensor.data_ptr() & LINE - 1}")
        if offsets:
            conditions.append(f"{word}.storage_offset() == {tensor.storage_offset()}")
            conditions.append(f"{word}.untyped_storage().nbytes() == {tensor.untyped_storage().nbytes()}")
    return Quick(torch, name, conditions + text.apart(), lines, {**tape.values, **names, **text.names})


class _Text:
    """The lines of one call.  An array has a tensor where somebody needs one: the caller, or a step that is no launch.
    Launches need addresses.
    """

    def __init__(self, place: TensorPlace, torch: Any, given: dict[str, Any], tape: Any, result: str):
        self.place, self.torch, self.tape, self.given, self.result = place, torch, tape, given, result
        self.steps: list[ReplayStep] = tape.steps
        self.names: dict[str, object] = {
            "empty": place.empty,
            "current_stream": place.stream,
            "current_device": place.current,
            "room": place.room,
            "clean": place.clean,
        }
        self.made = {step.name: step for step in self.steps}
        self.views: dict[str, tuple[str, int]] = {}  # name: what it is a view of, how many bytes behind its start
        self.fresh: set[str] = set()  # allocated, not zeroed
        self.zeroed: set[str] = set()  # zeros, which a launch leaves so
        self.launches: dict[str, Trusted] = {}

    def possible(self) -> bool:
        """Whether there are launches, all of them of the kind that has a short form."""
        from snap.lib._calls.recorded import RecordedLaunch, new_tensor, zeroed_tensor

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
        """Notes what is a view.  False for a step that gives a view and might do more than that."""
        from snap.lib._calls.recorded import VIEWS

        for arg in step.args:
            if isinstance(arg, self.torch.Tensor) and id(arg) in step.arrays and step.made.numel():
                if arg.untyped_storage().data_ptr() == step.made.untyped_storage().data_ptr():
                    if step.function not in VIEWS:
                        return False
                    self.views[step.name] = step.arrays[id(arg)], step.made.data_ptr() - arg.data_ptr()
        return True

    def _needed(self) -> set[str]:
        """The arrays that are needed as tensors."""
        found = set(self.returned)
        for step in reversed(self.steps):
            plain = step.name not in self.launches and step.name not in self.fresh
            if plain and (step.name not in self.views or step.name in found):
                found.update(step.arrays.values())
        return found

    def _turned(self) -> dict[str, str]:
        """Of new matrices that are needed as their transpose alone: that one.  It is allocated in their place."""
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
        """Of these arrays those that this launch alone uses, by their place in the room that all such arrays share."""
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
        """The array that it is a view of, and how far behind its start it begins."""
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
        """That what is written, among the tensors that were given, overlaps no other one.  What is new overlaps
        nothing, and how views of one array lie to each other is no matter of addresses.
        """
        found = {}
        for name, launch in self.launches.items():
            step = self.made[name]
            given = [(k, step.args[k], *self.origin(step.arrays[id(step.args[k])])) for k in launch.arrays]
            given = [one for one in given if one[2] in self.given]
            for i, first, base, _ in given:
                for j, second, other, _ in given:
                    if i < j and base != other and (i in launch.written or j in launch.written):
                        p, q = self.address(first, step.arrays), self.address(second, step.arrays)
                        found[f"({p} + {first.nbytes} <= {q} or {q} + {second.nbytes} <= {p})"] = True
        return list(found)

    def written(self) -> list[str]:
        """The tensors that were given which a launch may write."""
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
                addresses = {k: self.address(step.args[k], step.arrays) for k in launch.arrays}
                lines, names = launch.text(number, addresses)
                found += lines
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
        """Whether a launch takes it, or a view of it."""
        return any(self.origin(one)[0] == name for step in self.launches for one in self.made[step].arrays.values())

    def _placed(self, name: str, held: str, like: Any) -> list[str]:
        """Its address, which lies at a line as it did."""
        if not self._used(name):
            return []
        at = like.data_ptr() % LINE
        return [f"p{name} = {held}.data_ptr()", f"if p{name} & {LINE - 1} != {at}:", "    return MISS"]
