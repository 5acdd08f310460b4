"""Lower Snap's operators in torch's compiler: to a call, as it is.

Input:      the name of an operator of torch.library
Output:     `lowered(name)`: inductor has a lowering for it, once inductor is loaded
Invariant:  nothing of torch's compiler is imported here.  A torch that has no such thing finds its own way, which is
            the same
Non-goals:  what the operator is told of its arguments' strides: as torch decides it for operators without a lowering

Inductor makes a fallback by itself for an operator that has no lowering.  The first call of each is printed then, for a
message that nobody sees, with all that its arguments were computed from: 2^n characters in the depth of the model
(torch before 2.13; a Llama of 12 layers did not compile in 200 s).
"""

from __future__ import annotations

import sys
from typing import Any

from snap.host.compile.importing import once_imported

_WHERE = "torch._inductor.lowering"
_names: list[str] = []  # of operators that wait for inductor


def lowered(name: str) -> None:
    """name: "mylib::scale"."""
    _names.append(name)
    if len(_names) == 1:
        once_imported(_WHERE, _lower)


def _lower() -> None:
    lowering: Any = sys.modules[_WHERE]
    while _names:
        namespace, word = _names.pop().split("::")
        torch: Any = sys.modules["torch"]
        try:
            overload = getattr(getattr(torch.ops, namespace), word).default
            lowering.make_fallback(overload, layout_constraint=_constraint(lowering, overload), warn=False)
        except Exception:  # whatever another version of torch thinks of it
            continue


def _constraint(lowering: Any, overload: Any) -> Any:
    """Return what torch would choose: since 2.7 the operator's tag, or the default of operators like it."""
    try:
        from torch._library.utils import get_layout_constraint_tag

        return lowering.tag_to_layout_constraint(get_layout_constraint_tag(overload, with_default=True))
    except (ImportError, AttributeError, TypeError):
        return lowering.constrain_to_fx_strides
