"""Find the pairs of accesses that must be ordered."""
