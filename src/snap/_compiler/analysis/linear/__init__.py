"""Describe integers as linear forms, and decide from them whether two threads meet."""
