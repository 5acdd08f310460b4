"""Exact integers: polynomials over the numbers of a program, conditions, and whether any numbers satisfy them.

`linear.py` and `solve.py` beside this folder answer at once what barriers need, of sums with constant factors; this
layer answers what proofs need, of products and quotients too, and asks that one first (`ask.py`).  An answer is of
the same type in both: NO, which is a proof; a model that has been evaluated; or UNKNOWN.
"""
