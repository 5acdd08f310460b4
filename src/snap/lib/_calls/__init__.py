"""Check, record and repeat calls of library functions."""
