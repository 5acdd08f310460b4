"""The fast launch path of kernels whose shared memory a launch decides.

Input:      fast paths (`fastpath.maker`), each made for so many bytes of dynamic shared memory
Output:     a function that launches by the one that its arguments ask for
Invariant:  arguments that decide a size go to a fast path that was made, and checked, for the same; others take the
            whole way, which refuses what does not fit, and makes one
Non-goals:  how large an array is (`sizes`)
"""

from __future__ import annotations

from collections.abc import Callable

from snap._compiler.ir.walk import variables
from snap.host.arguments.signature import Signature
from snap.host.arguments.sizes import as_number
from snap.host.arguments.validate import ordered

MOST_SIZES = 256  # choices of arguments that are remembered


class BySize:
    """The fast paths of a kernel whose shared memory the arguments decide: one for each choice of those that do.  What
    they decide was checked on the whole way that made it; another choice takes that way again.
    """

    def __init__(self, signature: Signature, slow: Callable[[tuple], None]):
        self.signature, self.slow = signature, slow
        read = {v.uid for array in signature.shared.arrays for v in variables(array.extent)}
        user = len(signature.params) - len(signature.axes)  # extents of the grid are those of `blocks`
        self.deciding = [at for uid, at in signature.shared.params if uid in read and at < user]
        self.known: dict[tuple[int, ...], Callable] = {}

    def with_size(self, args: tuple[object, ...], function: Callable) -> BySize:
        if len(self.known) >= MOST_SIZES:
            self.known.clear()
        self.known[tuple(as_number(args[at]) or 0 for at in self.deciding)] = function
        return self

    def __call__(self, *args: object, **keywords: object) -> None:
        given = ordered(self.signature, args, keywords) if keywords else args
        if len(given) == len(self.signature.params) - len(self.signature.axes):
            chosen = [given[at] for at in self.deciding]
            if all(type(one) is int for one in chosen):
                function = self.known.get(tuple(chosen))  # type: ignore[arg-type]
                if function is not None:
                    return function(*given)
        return self.slow(given)
