"""Rules of the compiler, each weakened once: a *mutant*.  Every one is caught by some test.

Input: the sources below src/snap.  Output: `MUTANTS`.  A mutant is one exchange of text in one file; `caught_by` names tests that fail with it, the
fast ones first.  They are in order of the folders: of_check.py, of_ir.py, of_sync.py, of_analysis.py, of_prove.py, of_lowering.py (codegen/ and
machine/), of_ptx.py, of_memory.py and of_arithmetic.py; those of groups at a stride, in all stages, are in of_groups.py,
those of single instructions and of launches in of_instructions.py, those of torch and
of contexts in of_torch.py, those of CUDA C in of_cudac.py, those of what kernels cost in of_cost.py.  Run them with
`make mutants`; who changes a rule changes its mutants with it.
"""

from __future__ import annotations

from mutants import (
    of_analysis,
    of_arithmetic,
    of_check,
    of_cost,
    of_cudac,
    of_groups,
    of_instructions,
    of_ir,
    of_lowering,
    of_memory,
    of_prove,
    of_ptx,
    of_sync,
    of_torch,
)
from mutants.mutant import Mutant

MUTANTS: tuple[Mutant, ...] = (
    *of_check.MUTANTS,
    *of_groups.MUTANTS,
    *of_ir.MUTANTS,
    *of_sync.MUTANTS,
    *of_analysis.MUTANTS,
    *of_prove.MUTANTS,
    *of_lowering.MUTANTS,
    *of_ptx.MUTANTS,
    *of_memory.MUTANTS,
    *of_arithmetic.MUTANTS,
    *of_instructions.MUTANTS,
    *of_cudac.MUTANTS,
    *of_torch.MUTANTS,
    *of_cost.MUTANTS,
)

# A few, of every folder, that the suite runs itself.
SAMPLE: tuple[str, ...] = (
    "memory is written at thread[1]",
    "a claimed name is used in one branch",
    "groups divide the units that are there",
    "what was written is not read before",
    "the grid waits only in a cooperative launch",
    "a remainder is less than the divisor",
    "an array that is written is not restrict",
    "blocks race with each other",
)
