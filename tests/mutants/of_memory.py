"""Memory through caches: the rules that keep a program without races right, weakened one by one (rules.py)."""

from __future__ import annotations

from mutants.mutant import Mutant

PROGRAMS, LITMUS, CACHING = (f"tests/ptx/test_{name}.py" for name in ("memory_programs", "litmus", "caching"))

MUTANTS = (
    Mutant("of those who read an element, the first one counts, and not the last one alone", "machine/lanes.py",
           "(writer, first, last) if write",
           "(writer, last) if write",
           ("tests/short/test_short_forms.py::test_what_all_units_read_none_of_them_writes",)),
    Mutant("a thread's accesses to the same bytes keep their order", "ptx/environment/manager.py",
           "    return meet and (earlier.writes or later.writes or earlier.strong)",
           "    return meet and earlier.strong",
           (f"{PROGRAMS}::test_a_thread_reads_what_it_wrote",)),
    Mutant("what follows a strong load of the same bytes is not older", "ptx/environment/manager.py",
           "    return meet and (earlier.writes or later.writes or earlier.strong)",
           "    return meet and (earlier.writes or later.writes)",
           (f"{LITMUS}::test_two_reads_of_one_location",)),
    Mutant("volatile accesses of a thread keep their order", "ptx/environment/manager.py",
           "    if earlier.volatile and later.volatile:",
           "    if False:",
           (f"{LITMUS}::test_volatile_accesses_keep_their_order_and_relaxed_ones_do_not",)),
    Mutant("a fence of the device empties L1", "ptx/environment/manager.py",
           '    if level == "cta":',
           '    if level != "sys":',
           (f"{LITMUS}::test_weak_accesses",)),
    Mutant("a flush waits for lines that are waited for", "ptx/environment/steps.py",
           "    if any(l1[k].dirty or l1[k].pins for k in globals):",
           "    if any(l1[k].dirty for k in globals):",
           (f"{PROGRAMS}::test_erratum_4_a_flush_takes_lines_that_are_waited_for",)),
    Mutant("what comes before in a thread is over first", "ptx/environment/steps.py",
           "    return not any(mid in in_flight for mid in op.after)",
           "    return True",
           (f"{PROGRAMS}::test_a_thread_reads_what_it_wrote",)),
    Mutant("what was fetched does not cover what was written", "ptx/environment/lines.py",
           "word if line.word is None else covered(word, line.word)",
           "word",
           (f"{PROGRAMS}::test_a_store_between_reserve_and_update_stays",)),
    Mutant("a dirty line is not evicted", "ptx/environment/lines.py",
           "    return None if lines[k].dirty or lines[k].pins else put(lines, k, INIT)",
           "    return None if lines[k].pins else put(lines, k, INIT)",
           (f"{PROGRAMS}::test_dirty_lines_are_evicted_when_they_are_written_back_and_discarded_at_once",)),
    Mutant("an instruction waits for the registers it needs", "ptx/caching.py",
           "        if self.flight.registers.any(keys, lanes):\n",
           "        if False:\n",
           (f"{CACHING}::test_atomics_lose_nothing",)),
    Mutant("a release is behind what was before", "ptx/caching.py",
           '        before = "release" in words or "acq_rel" in words',
           "        before = False",
           (f"{CACHING}::test_a_writer_without_a_fence_is_overtaken_by_its_flag",)),
)
