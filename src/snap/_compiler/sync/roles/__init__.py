"""Inline calls, number the program, and split it into one program for each role."""
