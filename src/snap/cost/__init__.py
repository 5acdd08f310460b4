"""Say what a kernel costs, by line of its source, warp, block and grid.

`k.measure(...)` counts what a run on the CPU machine executes (`measuring.py`).  What is counted are events
(snap._compiler.ir.costs, machine/requests.py); a *metric* is a sum of events, each times a number (`metrics.py`).
"""
