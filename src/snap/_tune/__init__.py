"""Choose a kernel's constexpr values by trying them: `snap.tune(kernel, candidates, *args, blocks=...)`.

Input:      a generic kernel or a function that makes kernels, candidate values, and the arguments of a launch
Output:     `Tuned`, which launches the best one; the choice is kept on disk per GPU and class of shapes
Invariant:  `import snap` does not import this; without a GPU candidates are pruned and compiled, and the first that
            compiles is chosen
Non-goals:  searching a space that the caller did not list

The path of a candidate: `family.py` (made), `candidates.py` (pruned or ready), `build.py` (compiled), `rounds.py` with
`clock.py` (timed), `store.py` (kept).
"""
