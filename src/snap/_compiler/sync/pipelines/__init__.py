"""Synchronize memory that roles hand to each other: mbarriers, phases, commits and waits."""
