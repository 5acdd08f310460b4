"""Choose constexpr values: prune, compile, time, remember.

Input:      a generic kernel, or a function that makes kernels, candidates, and the arguments of a launch
Output:     `Tuned`: the kernel with the best values, and the outcome of every candidate
Invariant:  the user's arrays do not change; without timing, the result depends only on the candidates' order
Non-goals:  inventing candidates
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from snap._compiler.ir.word import Word
from snap._tune import store
from snap._tune.build import compile_all, compile_one
from snap._tune.candidates import Config, Pruned, Ready, expand, prepare, spelled
from snap._tune.family import Family
from snap._tune.limits import Limits
from snap._tune.progress import Progress
from snap._tune.rounds import fastest
from snap.api import SnapFunction
from snap.host.arguments.arrays import classify
from snap.host.arguments.byname import check_names, resolve
from snap.host.arguments.signature import Pointer
from snap.host.compile.cache import Cache
from snap.host.errors import LaunchError, ToolchainError
from snap.host.launch import launcher
from snap.record import record


class TuneError(ValueError):
    """Report that no candidate can be used.  `.trials` has the reason for each."""

    __module__ = "snap"

    def __init__(self, kernel: str, trials: tuple[Trial, ...]):
        reasons: dict[str, list[str]] = {}
        for trial in trials:
            reasons.setdefault(trial.reason + (f" ({trial.place})" if trial.place else ""), []).append(
                spelled(trial.config)
            )
        lines = [
            f"  {configs[0]}{f' and {len(configs) - 1} more' if len(configs) > 1 else ''}: {reason}"
            for reason, configs in reasons.items()
        ]
        if len(lines) > 12:
            lines = [*lines[:12], f"  and {len(lines) - 12} other reasons"]
        super().__init__(f"no candidate of `{kernel}` can be used\n" + "\n".join(lines))
        self.trials = trials


class Outcome(Word):
    """Name the outcome of a candidate.  Equal to its word: `trial.outcome == "timed"`."""

    PRUNED = "pruned"  # before compiling
    REFUSED = "refused"  # by the compiler or at launch
    TIMED = "timed"
    COMPILED = "compiled"  # without timing, as is the next
    UNTRIED = "untried"


@record
class Trial:
    """Record a candidate.  place: file and line of the first error, if the checker rejected it."""

    config: Config
    outcome: Outcome
    reason: str = ""
    seconds: float | None = None
    place: str = ""


@record
class Tuned:
    """Hold the kernel with the best values.  Call it with the kernel's arguments to launch it.

    family   the candidates' family
    blocks   as the user gave it: a number, or a function of arguments and constexpr values by name
    cached   the choice was made earlier
    seconds  its median time, None without timing
    trials   every candidate and its outcome; only the chosen one if the choice was cached
    """

    family: Family
    kernel: SnapFunction
    config: Config
    blocks: object
    seconds: float | None
    cached: bool
    trials: tuple[Trial, ...]

    def __call__(self, *args: object) -> None:
        if self.blocks is None:
            raise TypeError(
                "launch it with the number of blocks, `.kernel[blocks](...)`, or give snap.tune `blocks=`"
                f" ({spelled(self.config)})"
            )
        number = resolve(self.blocks, self.family.named(self.config, args))
        self.kernel[number](*args)

    def report(self) -> str:
        """Print a table: the timed candidates from fast to slow, then the others with their reasons."""
        order = sorted(self.trials, key=lambda trial: (trial.seconds is None, trial.seconds or 0.0))
        width = max(len(spelled(trial.config)) for trial in order)
        lines = [
            f"{'*' if trial.config == self.config else ' '} {spelled(trial.config):<{width}}  "
            + (
                f"{trial.seconds * 1e6:10.1f} us"
                if trial.seconds is not None
                else trial.outcome + (f": {trial.reason}" if trial.reason else "")
            )
            for trial in order
        ]
        return "\n".join(lines)


class Tuner:
    """Choose a kernel's constexpr values at the first launch of each class of shapes: `tuner(*args)` launches.

    kernel    generic, or a function that makes a kernel from values
    blocks    a number, or a function of arguments and constexpr values by name
    key       the key of a kept choice: a value, or a function of arguments by name; if omitted, sizes up to the
              next power of two
    where     a function by name: false, or a text that says why not, prunes the candidate
    reset     a function of arguments by name, called before each timed run: for memory that a launch expects in some
              state
    timing    False: the first candidate that can be used and compiles; None: as the arrays allow (GPU), unless
              SNAP_TUNE=off
    arch      the architecture to compile for without a GPU
    timer     clock(run, runs, before) -> seconds of each run; if omitted, CUDA events
    preserve  time on copies of the arrays that the kernel writes
    quiet     True: nothing is shown; False: always; None: if stderr is a terminal
    """

    def __init__(
        self,
        kernel: object,
        candidates: object,
        *,
        blocks: object = None,
        key: object = None,
        where: Callable | None = None,
        reset: Callable | None = None,
        timing: bool | None = None,
        arch: str = "sm_90a",
        timer: Callable | None = None,
        preserve: bool = True,
        quiet: bool | None = None,
        cache: Cache | None = None,
        workers: int | None = None,
    ):
        self.family = Family(kernel)
        self.configs = expand(self.family, candidates)
        self.blocks, self.key, self.where, self.reset = blocks, key, where, reset
        self.timing, self.arch, self.timer, self.preserve = timing, arch, timer, preserve
        self.quiet, self.cache, self.workers = quiet, cache, workers
        self.name = self.family.name
        self.found: dict[str, Tuned] = {}
        arguments, values = self.family.arguments, [*self.family.free, *self.family.fixed]
        if arguments is not None:  # a function's are known with its first kernel
            for what, value in (("blocks", blocks), ("where", where)):
                check_names(what, value, [*arguments, *values])
            for what, value in (("key", key), ("reset", reset)):
                check_names(what, value, [*arguments, *self.family.fixed])

    def __call__(self, *args: object) -> None:
        self.tuned(*args)(*args)

    def tuned(self, *args: object) -> Tuned:
        """Return the choice for these arguments; make it now if necessary."""
        shapes = store.shape_class(
            args, None if self.key is None else resolve(self.key, self.family.named({}, args, self.configs))
        )
        device = _device(args)
        label = f"{device} {shapes}"
        if label not in self.found:
            self.found[label] = self._choose(args, device, shapes)
        return self.found[label]

    def _choose(self, args: tuple, device: int | None, shapes: str) -> Tuned:
        limits = Limits.of_arch(self.arch) if device is None else Limits.of_gpu(device)
        progress = Progress(self.name, self.quiet)
        timed = self._timed(device)
        if self.blocks is None and (args or timed):
            raise TypeError(
                f"launching `{self.name}` needs `blocks=`: a number, or a function of arguments and constexpr values by"
                " name"
            )
        if not timed:
            return self._first(args, limits, progress)
        cache = Cache.default() if self.cache is None else self.cache
        key = store.entry_key(self.family, self.configs, limits, shapes)
        return self._remembered(cache, key, args, limits) or self._search(cache, key, args, device, limits, progress)

    def _timed(self, device: int | None) -> bool:
        if self.timing is False or os.environ.get("SNAP_TUNE", "").lower() in ("off", "0", "no"):
            return False
        if device is None and self.timer is None:
            if self.timing:
                raise LaunchError(
                    self.name, "timing=True needs arrays on a GPU; without, the first candidate that compiles is taken"
                )
            return False
        return True

    def _prepare(self, config: Config, args: tuple, limits: Limits) -> Ready:
        return prepare(self.family, config, args, self.blocks, self.where, limits)

    def _remembered(self, cache: Cache, key: str, args: tuple, limits: Limits) -> Tuned | None:
        choice = store.load(cache, key)
        if choice is None:
            return None
        config = next((config for config in self.configs if store.written(config) == choice.config), None)
        if config is None:
            return None
        try:
            ready = self._prepare(config, args, limits)
        except Pruned:
            return None
        if store.code_key(ready) != choice.code:
            return None
        return Tuned(
            self.family,
            ready.kernel,
            ready.config,
            self.blocks,
            choice.seconds,
            True,
            (Trial(ready.config, Outcome.TIMED, "", choice.seconds),),
        )

    # -- without timing

    def _first(self, args: tuple, limits: Limits, progress: Progress) -> Tuned:
        """Return the first candidate that can be used and compiles.  Without a compiler, the first that can be
        used.
        """
        trials: list[Trial] = []
        chosen: Ready | None = None
        with progress.stage("checking", len(self.configs)) as step:
            for config in self.configs:
                step()
                if chosen is not None:
                    trials.append(Trial(config, Outcome.UNTRIED))
                    continue
                try:
                    ready = self._prepare(config, args, limits)
                except Pruned as why:
                    trials.append(Trial(config, Outcome.PRUNED, str(why), place=why.place))
                    continue
                outcome, reason = _compiled(ready, limits)
                trials.append(Trial(config, outcome, reason))
                chosen = ready if outcome is not Outcome.REFUSED else None
        if chosen is None:
            raise TuneError(self.name, tuple(trials))
        return Tuned(self.family, chosen.kernel, chosen.config, self.blocks, None, False, tuple(trials))

    # -- with timing

    def _search(
        self, cache: Cache, key: str, args: tuple, device: int | None, limits: Limits, progress: Progress
    ) -> Tuned:
        trials: dict[int, Trial] = {}
        ready: dict[int, Ready] = {}
        with progress.stage("checking", len(self.configs)) as step:
            for index, config in enumerate(self.configs):
                try:
                    ready[index] = self._prepare(config, args, limits)
                except Pruned as why:
                    trials[index] = Trial(config, Outcome.PRUNED, str(why), place=why.place)
                step()
        pruned = len(trials)
        with progress.stage("compiling", len(ready)) as step:
            answers = compile_all(list(ready.values()), limits.target, self.workers, lambda _: step()) if ready else []
        for index, reason in zip(list(ready), answers):
            if reason is not None:
                trials[index] = Trial(self.configs[index], Outcome.REFUSED, reason)
                del ready[index]
        best = self._race(ready, trials, args, device, progress)
        every = tuple(trials[index] for index in range(len(self.configs)))
        if best is None:
            raise TuneError(self.name, every)
        seconds = trials[best].seconds
        assert seconds is not None  # the best one was timed
        store.save(cache, key, store.Choice(store.written(ready[best].config), seconds, store.code_key(ready[best])))
        progress.say(
            f"{spelled(ready[best].config)}, {seconds * 1e6:.1f} us (best of {len(ready)}; {pruned} of"
            f" {len(self.configs)} pruned)"
        )
        return Tuned(self.family, ready[best].kernel, ready[best].config, self.blocks, seconds, False, every)

    def _race(
        self, ready: dict[int, Ready], trials: dict[int, Trial], args: tuple, device: int | None, progress: Progress
    ) -> int | None:
        if not ready:
            return None
        working = self._working(next(iter(ready.values())), args)
        runs = [_launch(candidate, working) for candidate in ready.values()]
        before = None if self.reset is None else lambda: resolve(self.reset, self.family.named({}, working))
        clock, close = self._clock(device, args)
        try:
            with progress.stage("timing", len(runs)) as step:
                best, answers = fastest(runs, clock, before, step)
        finally:
            close()
        for index, answer in zip(ready, answers):
            config = self.configs[index]
            trials[index] = (
                Trial(config, Outcome.REFUSED, answer)
                if isinstance(answer, str)
                else Trial(config, Outcome.TIMED, "", answer)
            )
        return None if best is None else list(ready)[best]

    def _clock(self, device: int | None, args: tuple) -> tuple[Callable, Callable[[], None]]:
        if self.timer is not None:
            return self.timer, lambda: None
        from snap._tune.clock import GpuClock
        from snap.host.device.gpu import current_stream

        assert device is not None  # `_timed` has asked
        clock = GpuClock(device, current_stream(args))
        return clock, clock.close

    def _working(self, ready: Ready, args: tuple) -> tuple:
        """Return the arguments to time with: arrays that the kernel writes are copied."""
        if not self.preserve:
            return args
        params = launcher(ready.compiled).signature.params
        return tuple(
            _copy(self.name, param.name, arg) if isinstance(param, Pointer) and not param.const else arg
            for param, arg in zip(params, args)
        )


def tune(kernel: object, candidates: object, *args: object, **options: Any) -> Tuned:
    """Return the kernel with the candidate values that are fastest for these arguments; `Tuner` has the options."""
    return Tuner(kernel, candidates, **options).tuned(*args)


vars(tune).update(
    Trial=Trial, TuneError=TuneError, Tuned=Tuned, Tuner=Tuner, tune=tune
)  # `snap.tune.Tuner` is `snap.Tuner`


def _launch(ready: Ready, args: tuple) -> Callable[[], None]:
    kernel, number = ready.kernel, ready.number
    return lambda: kernel[number](*args)


def _compiled(ready: Ready, limits: Limits) -> tuple[Outcome, str]:
    try:
        reason = compile_one(ready, limits.target)
    except ToolchainError as missing:
        return Outcome.UNTRIED, f"not compiled: {missing}"
    return (Outcome.COMPILED, "") if reason is None else (Outcome.REFUSED, reason)


def _device(args: tuple) -> int | None:
    """Return the GPU that the arrays are on, None for the CPU's memory or no arrays."""
    for arg in args:
        info = classify(arg)
        if info is not None:
            return info.device if isinstance(info.device, int) else None
    return None


def _copy(kernel: str, parameter: str, arg: object) -> object:
    for method in ("clone", "copy"):
        make = getattr(arg, method, None)
        if callable(make):
            return make()
    raise LaunchError(
        kernel,
        f"a {type(arg).__name__} cannot be copied for timing; pass preserve=False to time on the array itself",
        parameter,
    )
