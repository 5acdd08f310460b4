"""Mutants of what single instructions do and of what launches give them: mma kinds, floats of 8 bits, vectors that are added, prefetches, zero-filling
copies, sizes of a launch, lines that are printed, grids of several dimensions, multicasts to parts of a cluster."""

from __future__ import annotations

from mutants.mutant import Mutant

PARTS = "tests/check/test_multicast_parts.py"
ROWS = "tests/ok/cluster_rows.py"

MUTANTS: tuple[Mutant, ...] = (
    # mma kinds
    Mutant("integers end at 32 bits where that is asked for", "machine/matrix.py",
           "if saturate else exact", "if False else exact",
           ("tests/test_corpus.py::test_ok_runs[tests/ok/mma_kinds.py]",)),
    Mutant("products of f64 are not rounded to f32", "machine/matrix.py",
           '    elif family != "f64":\n        total = ', '    else:\n        total = ',
           ("tests/test_corpus.py::test_ok_runs[tests/ok/mma_kinds.py]",)),
    Mutant("only integers saturate", "check/matrices.py",
           'if saturate and family not in ("int8", "int4"):', "if False:",
           ("tests/test_corpus.py::test_bad_is_refused[tests/bad/SNAP018/mma_saturated_floats.py]",)),
    Mutant("both operands of mma are of one family", "check/matrices.py",
           "    if len(families) > 1:", "    if False:",
           ("tests/test_corpus.py::test_bad_is_refused[tests/bad/SNAP018/mma_of_two_families.py]",)),
    # floats of 8 bits
    Mutant("e4m3 has no infinities", "machine/numbers.py",
           '"e4m3": _small_floats(4, 3, False)', '"e4m3": _small_floats(4, 3, True)',
           ("tests/test_corpus.py::test_ok_runs[tests/ok/small_floats.py]",)),
    Mutant("ties of 8 bits go to even", "machine/numbers.py",
           "(size == middle) & (below % 2 == 1)", "(size == middle)",
           ("tests/test_corpus.py::test_ok_runs[tests/ok/small_floats.py]",)),
    # atomics of vectors
    Mutant("vectors are added in global memory only", "check/atomics.py",
           "if isinstance(elem, Vector) and ADDED[elem][1] and memory.handle.obj.space is Space.SHARED:", "if False:",
           ("tests/test_corpus.py::test_bad_is_refused[tests/bad/SNAP018/atomic_of_a_long_vector_in_shared_memory.py]",)),
    Mutant("vectors are added, and nothing else", "check/atomics.py",
           'right = name == "add" and elem in ADDED', "right = elem in ADDED",
           ("tests/test_corpus.py::test_bad_is_refused[tests/bad/SNAP018/largest_of_vectors.py]",)),
    # sleeps
    Mutant("a thread sleeps for no more than the hardware takes", "check/intrinsics.py",
           "if isinstance(value, ir.Const) and not 0 <= value.value <= SLEEP:", "if False:",
           ("tests/test_corpus.py::test_bad_is_refused[tests/bad/SNAP018/sleep_too_long.py]",)),
    Mutant("what is less than nothing is no long sleep", "check/intrinsics.py",
           '(("max", 0, signed), ("min", SLEEP, not short))', '(("min", SLEEP, not short),)',
           ("tests/test_corpus.py::test_ok_lowers[tests/ok/polling.py]",)),
    # prefetches
    Mutant("a prefetch is of global memory", "check/boxes.py",
           "if options or array.space is not Space.GLOBAL or tile.space is Space.GLOBAL:", "if options:",
           ("tests/test_corpus.py::test_bad_is_refused[tests/bad/SNAP018/prefetch_of_a_shared_box.py]",)),
    # zero-filling copies
    Mutant("where a copy is not valid nothing is read", "machine/copies.py",
           "read = active if valid is None else active & self.warp.full(valid)[0]", "read = active",
           ("tests/machine/test_copies.py::test_where_a_copy_is_not_valid_zero_comes_and_nothing_is_read",)),
    Mutant("what is said beyond a vector's ends counts as its ends", "check/intrinsics.py",
           'for name, end in (("min", all_of_it), ("max", 0)):', 'for name, end in (("min", all_of_it),):',
           ("tests/test_corpus.py::test_ok_lowers[tests/ok/partial_fill.py]",)),
    Mutant("of a vector that is there in part, the part is inside", "machine/storage.py",
           "        parts._inside(last, parts.size, m, site, (last,))\n", "",
           ("tests/machine/test_copies.py::test_a_part_of_a_vector_is_inside",)),
    Mutant("units that are apart do not read parts of each other's vectors", "machine/actions.py",
           "                self.check_claims(s.source, False, first=first)\n", "",
           ("tests/machine/test_copies.py::test_parts_of_vectors_are_watched",)),
    # sizes of a launch
    Mutant("an array is no larger than it was said to be", "runtime/sizes.py",
           "if not 0 <= rows <= array.upto:", "if not 0 <= rows:",
           ("tests/runtime/test_shared_sizes.py::test_what_is_too_large_is_refused_before_anything_runs",)),
    Mutant("what a block holds is the sum of its arrays", "runtime/sizes.py",
           "total += array.row * rows", "total += 0",
           ("tests/runtime/test_shared_sizes.py::test_what_is_too_large_is_refused_before_anything_runs",)),
    # lines that are printed
    Mutant("a group prints one line", "check/printing.py",
           "    if c.privilege == THREAD1:\n        return None\n    zero", "    return None\n    zero",
           ("tests/seeing/test_print.py::test_every_group_prints_one_line",)),
    Mutant("an assertion that failed says by whom", "ir/printed.py",
           "    thread, block = divmod(place, 1 << THREAD_AT)", "    block, thread = divmod(place, 1 << THREAD_AT)",
           ("tests/seeing/test_assert.py::test_the_word_says_which_and_who",)),
    # grids of several dimensions
    Mutant("a kernel that asks for its grid's shape gets as many extents", "runtime/validate.py",
           "    if signature.axes and len(extents) != wanted:", "    if False:",
           ("tests/runtime/test_grids.py::test_wrong_grids_launch_nothing",)),
    Mutant("a grid has at most three dimensions", "runtime/validate.py",
           "if not 1 <= len(extents) <= GRID_DIMENSIONS:", "if False:",
           ("tests/runtime/test_grids.py::test_wrong_grids_launch_nothing",)),
    # multicasts to parts of a cluster
    Mutant("blocks that share a copy name one box", "check/multicast.py",
           "if _in_block(c, i, rank) != _in_block(c, i, first):", "if False:",
           (f"{PARTS}::test_other_boxes_are_refused",)),
    Mutant("what a block read is not known by its rank", "check/multicast.py",
           "return None if remembered or len(values) != 1 else", "return None if len(values) != 1 else",
           (f"{PARTS}::test_other_boxes_are_refused",)),
    Mutant("a part's value is none of the cluster", "check/memory.py",
           "if handle.obj.part is not None and not BLOCK1.at_least(want.privilege):", "if False:",
           (f"{PARTS}::test_no_value_of_the_cluster_is_read_from_a_part",)),
    Mutant("parts of a cluster have one size", "check/shared.py",
           "if n < 1 or blocks % n or n in (1, blocks):", "if n in (1, blocks):",
           (f"{PARTS}::test_parts_divide_the_cluster",)),
    Mutant("a slice goes to the blocks of the part", "machine/boxes.py",
           "return [block - rank + other for other in part.blocks(rank)]", "return [block - rank + other for other in range(size)]",
           (f"tests/test_corpus.py::test_ok_runs[{ROWS}]",)),
    Mutant("a block loads the slice of its place in the part", "machine/boxes.py",
           "rank, blocks = part.place(block % size), part.size", "rank, blocks = block % size, part.size",
           (f"tests/test_corpus.py::test_ok_runs[{ROWS}]",)),
)
