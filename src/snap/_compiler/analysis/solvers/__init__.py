"""Solve systems of linear equalities and inequalities, and ask z3 and isl."""
