"""Kernels drawn at random, each with one right answer, and what must agree about them: `make fuzz`, `python -m fuzz --help`."""
