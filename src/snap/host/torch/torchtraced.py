"""What torch sees of a launch while it traces Python: nothing.  Its compiler leaves the call as it is, between two
graphs; a tracer that would record a program without it is refused.

Input:      torch, where it is loaded
Output:     `untraced(function, *args)`: the call, which torch.compile does not look into; `refuse_recorded`: under
            make_fx and torch.jit.trace
Invariant:  torch is never imported here.  A call that is no operator of torch never goes silently missing from a
            program that torch makes
Non-goals:  operators, which all of them see (lib/_torch/ops.py, snap.torch)

torch's compiler follows Python's code into whatever it calls.  Of what a launch does there it can make nothing: it
breaks its graph at each call of the driver, and on the CPU machine it compiles the machine, for minutes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from snap.host.compile.importing import once_imported
from snap.host.errors import LaunchError

# What a launch goes through, the first one included.  Not `lib` and `torch`, through which operators are reached.
_OURS = "api", "compiled", "_compiler", "host", "machine", "ptx", "diag"


def untraced(function: Callable, *args: object, **keywords: object) -> Any:
    """Call it.  Once torch's compiler is there, another function stands here that does the same, unseen by it."""
    return function(*args, **keywords)


def _left_alone() -> None:
    global untraced
    dynamo: Any = sys.modules["torch._dynamo"]
    try:
        for name in _OURS:
            dynamo.trace_rules.add(f"snap.{name}")
        untraced = dynamo.disable(untraced)
    except Exception:  # whatever another version of torch thinks of it: it traces them, and takes its time
        return


once_imported("torch._dynamo", _left_alone)


def recorder() -> str:
    """The tracer of torch that records this thread's operations, of which a launch is none; empty: there is none."""
    torch: Any = sys.modules.get("torch")
    if torch is None:
        return ""
    if torch._C._get_tracing_state() is not None:
        return "torch.jit.trace"
    tracing = sys.modules.get("torch.fx.experimental.proxy_tensor")
    return "make_fx" if tracing is not None and tracing.get_proxy_mode() is not None else ""


def refuse_recorded(function: str) -> None:
    found = recorder()
    if found:
        raise LaunchError(
            function,
            f"is not an operator of torch, so that {found} would record a program without it: call it outside of what"
            " is traced, or make an operator of the kernel (`snap.torch.operator`)",
        )
