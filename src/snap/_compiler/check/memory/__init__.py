"""Check memory: who owns it, how it is divided, and which accesses are legal."""
