"""Show that conflicting accesses of a synchronized program are ordered, without asking `sync`."""
