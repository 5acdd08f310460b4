"""Check functions: signatures, contracts, calls, and limits on a whole function."""
