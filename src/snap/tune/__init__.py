"""Choose a kernel's constexpr values by trying them: `snap.tune(kernel, candidates, *args, blocks=...)`.

Input:      a generic kernel or a function that makes kernels, candidate values, and the arguments of a launch
Output:     `Tuned`, which launches the best one; the choice is kept on disk per GPU and class of shapes
Invariant:  `import snap` does not import it; without a GPU, candidates are pruned and compiled, and the first that
            compiles is taken
Non-goals:  searching a space that the user did not list

The path of a candidate: `family.py` (made), `candidates.py` (pruned or ready), `build.py` (compiled), `rounds.py` with
`clock.py` (timed), `store.py` (kept).
"""

from __future__ import annotations

import sys
import types

from snap.tune.search import Trial, Tuned, TuneError, Tuner, tune

__all__ = ["Trial", "TuneError", "Tuned", "Tuner", "tune"]


class _CallableModule(types.ModuleType):
    """Answer `snap.tune(...)`, an entry point with the same name as this folder."""

    def __call__(self, kernel: object, candidates: object, *args: object, **options: object) -> Tuned:
        return tune(kernel, candidates, *args, **options)


sys.modules[__name__].__class__ = _CallableModule
