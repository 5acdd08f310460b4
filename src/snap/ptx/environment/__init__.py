"""Memory as chapter 4 of the formal semantics of CUDA has it: caches, and a small language in which loads, stores and
atomics are written as programs whose steps interleave.  Made to be read beside the report, a module a section:

    words.py      4      cache words, of which some bytes may not be there
    lines.py      4.2    cache lines, and what caches do
    memories.py   4.3    the memory environment: device memory, L2, and what each processor has
    states.py     4.4.1  the implicit state of a memory program
    language.py   4.4    the grammar of memory programs: text -> statements
    meaning.py    4.4    what they mean: Boolean and operational expressions, the rules of ->Op
    listings/     4.5    the programs: report/ as printed, ours/ what is left open there
    programs.py   4.5    which program an instruction launches
    steps.py      4.6    the rules of ->M: micro steps, evictions, write-backs, flushes
    manager.py    5.8.1  which operations of a thread keep their order, and when a fence is over
    litmus.py            small concurrent programs, as text
    explore.py           every outcome of one, by all interleavings

Invariant: everything up to explore.py is a function of values that never change.  Where the report says "bottom" (a
program without a next step), `Stuck` is raised.  Non-goals: time.  docs/ptx.md has the table of definitions, and the
errata.
"""
