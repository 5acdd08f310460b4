"""Check expressions and operations: arithmetic, collectives, atomics, copies and tensor cores."""
