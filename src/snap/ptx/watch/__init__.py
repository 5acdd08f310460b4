"""Observe a run: races, checks, counters, traces."""
