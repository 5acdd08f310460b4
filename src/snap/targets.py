"""Define the targets of a launch that have options, beside the words "auto", "cpu", "gpu" and "ptx".

Input: options that only one target takes.  Output: a record that `target=` takes.  Invariant: the word "ptx" means
`PTX()`.  Non-goals: judging the options, which the target does (host/simulate.py).
"""

from __future__ import annotations

from collections.abc import Sequence

from snap.record import record


@record
class PTX:
    """Run what NVRTC makes of the kernel, without a GPU: `k.launch(x, blocks=2, target=snap.PTX(checks="races"))`.

    checks  what else to look for: "races", "uninitialized" (shared memory), "nc" (memory that is written, read past
            coherence), "registers", "local", "barriers", "shuffles"; one word, or several
    memory  "flat", or "caches": L1 and L2
    mode    "independent" threads, or the "stack" of a warp
    limit   the most instructions of threads
    """

    checks: str | Sequence[str] = ()
    memory: str | None = None
    mode: str | None = None
    limit: int | None = None

    def given(self) -> dict[str, object]:
        """Return the options that differ from the defaults."""
        options = {name: getattr(self, name) for name in ("checks", "memory", "mode", "limit")}
        return {name: value for name, value in options.items() if value is not None and value != ()}
