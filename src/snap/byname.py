"""Copy and pickle a Snap function as Python does its functions: by its name.

Input:      a function, in a model that is copied, saved or sent to another process
Output:     the same function; constexpr parameters that were fixed are fixed again
Invariant:  nothing compiled or loaded is copied
Non-goals:  functions without a name of their own, such as those that factories make: rejected
"""

from __future__ import annotations

import pickle
import sys
from typing import Any


class ByName:
    """Require a `definition`, the `bound` constexpr parameters, and `specialize`."""

    definition: Any
    bound: dict[str, object]

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: object) -> Any:
        return self

    def __reduce__(self) -> Any:
        own: Any = self
        found: Any = sys.modules.get(own.__module__)
        for word in own.__qualname__.split("."):
            found = getattr(found, word, None)
        if found is self:
            return own.__qualname__
        if not isinstance(found, ByName) or found.definition is not self.definition:
            raise pickle.PicklingError(
                f"`{own.__qualname__}` is pickled by name, and `{own.__module__}` has no such function: define it at"
                " the module's top level, or do not keep it in what is pickled"
            )
        return _specialized, (found, self.bound)


def _specialized(found: Any, bound: dict[str, object]) -> Any:
    return found.specialize(**bound)
