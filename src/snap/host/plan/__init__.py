"""Repeat launches: a guard that says whether a call is like an earlier one, and a plan that makes it."""
