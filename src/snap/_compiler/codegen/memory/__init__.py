"""Lower memory: addresses, atomics, copies, cache hints, swizzles."""
