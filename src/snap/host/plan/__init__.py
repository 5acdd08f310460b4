"""Repeat launches: a guard says whether a call is like an earlier one, and a plan makes it with nothing decided again.

Input:      launches and library calls that have been made once, with every check (launch.py, lib/_calls/recorded.py)
Output:     functions that make the next ones
Invariant:  a launch is repeated only where all that validate.py would ask of it holds.  What a guard does not take goes
            the whole way, which makes the call or says what is wrong
Non-goals:  messages; the first call

A `Guard` (guard.py) is conditions, as Python text over the arguments, and what the names in them mean.  plans.py prints
every plan: the guard, then the lines that make the call.

    made for            what is asked                                   made by             in C
    a user's launch     every argument, anew: type and range of each    launches.py, from   c/checked.h, from a table
                        number; kind, type, device, strides,            conditions.py and   that launches.py fills from
                        alignment and memory of each array; sizes,      families.py         the same conditions
                        overlap, `where=`
    a library call, a   whether arguments and torch's state are as      guard.py            c/alike.h asks for the
    torch operator      they were: one comparison of torch's own,                           kinds of tensors
                        values, addresses modulo `LINE`

The lines of a plan are steps: allocations, views, launches (steps.py).  A user's launch is one launch of numbers and
addresses that were just read.  A library call's launches have every number packed already, so that only addresses are
added.  trusted.py prints both (c/trusted.h makes the second kind).  A torch operator's plan calls the operator's work
(snap.torch.short).

The life of a call `k[blocks](x, y, n)`:

1.  The first one finds no function in `Launcher.ready`.  It takes the whole way: `bind` checks, `GpuKernel` compiles,
    loads and launches, and `_prepare` puts a function there.
2.  The next one is that function.  `Checked` (C) or a plan in Python reads every argument, packs and launches.  What
    depends on sizes and numbers alone (shapes, rows, `where=`, shared memory) is remembered for those it held for.
3.  An argument that does not fit, an exception, or an option takes the whole way again.

The life of a library call:

1.  The first one of a signature is written down as steps.
2.  The next one computes its signature, finds the steps and makes a plan of them for torch's state as it is.
3.  All others ask the plan that came after the previous one last time (`Plans.last.after`), then those used of late.

The C part has four types: `Reader` (what is known of this torch), `Checked`, `Trusted` and `Alike`.  It includes and
links nothing of CUDA or torch.  It reads a tensor by torch's C functions and by two words of its object, which
host/torch/torchreads.py finds and tries.  Without a C compiler all of this is Python.
"""
