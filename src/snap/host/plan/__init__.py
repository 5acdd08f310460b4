"""Repeat launches: a guard says whether a call is like an earlier one, and a plan makes it with nothing decided again.

Input:      launches and library calls that have been made once, with every check (launch.py, lib/_calls/recorded.py)
Output:     functions that make the next ones
Invariant:  a launch is repeated only where all that validate.py would ask of it holds.  What a guard does not take goes
            the whole way, which makes the call or says what is wrong
Non-goals:  messages; the first call

There are two kinds of guards.

    guard               made for            what is asked                               asked by
    conditions.py       a user's launch     every argument, anew: type and range of     fastpath.py prints Python;
                                            each number; kind, type, device, strides,   checked.py fills the table
                                            alignment and memory of each array;         that c/checked.h reads
                                            sizes, overlap, `where=`
    guard.py            a library call, a   whether arguments and torch's state are     plans.py prints Python, which
                        torch operator      as they were: one comparison of torch's     asks c/alike.h for the kinds
                                            own, values, addresses modulo `LINE`        of tensors

A plan has steps: allocations, views, launches (steps.py).  A user's launch is one launch of numbers and addresses that
were just read.  A library call's launches have every number packed already, so that only addresses are added
(trusted.py, c/trusted.h).  A torch operator's plan calls the operator's work (snap.torch.short).

The life of a call `k[blocks](x, y, n)`:

1.  The first one finds no function in `Launcher.ready`.  It takes the whole way: `bind` checks, `GpuKernel` compiles,
    loads and launches, and `_prepare` puts a function there.
2.  The next one is that function.  `Checked` (C) or the text of fastpath.py reads every argument, packs and launches.
    What depends on sizes and numbers alone (shapes, rows, `where=`) is remembered for those it held for.
3.  An argument that does not fit, an exception, or an option takes the whole way again.

The life of a library call:

1.  The first one of a signature is written down as steps.
2.  The next one computes its signature, finds the steps and makes a plan of them for torch's state as it is.
3.  All others ask the plan that came after the previous one last time (`Plans.last.after`), then those used of late.

The C part has four types: `Reader` (what is known of this torch), `Checked`, `Trusted` and `Alike`.  It includes and
links nothing of CUDA or torch.  It reads a tensor by torch's C functions and by two words of its object, which
host/torch/torchreads.py finds and tries.  Without a C compiler all of this is Python.
"""
