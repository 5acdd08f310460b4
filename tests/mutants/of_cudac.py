"""Rules of the front end for CUDA C."""

from __future__ import annotations

from mutants.mutant import Mutant

DRAWN = "tests/cudac/test_drawn.py::test_drawn"
FORMS = "tests/cudac/test_programs.py::test_forms"
STRUCTS = "tests/cudac/test_programs.py::test_structs"
REFUSED = "tests/cudac/test_refused.py"

MUTANTS = [
    Mutant(f"CUDA C: {what}", f"cudac/{file}", before, after, (test,)) for what, file, before, after, test in (
        ("`continue` steps", "statements.py", "    s.out += s.steps[-1] or ()\n", "", DRAWN),
        ("a case falls through", "statements.py", "            test: ir.Expr = on\n", "            test: ir.Expr = constant(False, BOOL, span)\n", DRAWN),
        ("x++ is what x was", "expressions.py", '            old = s.keep(old, type, span)\n', "            pass\n", DRAWN),
        ("a return leaves the loops around it", "statements.py", "        s.out.append(ir.If(ir.Read(s.calls[-1].done, BOOL, span=span), (ir.Break(span=span),), (), span=span))\n", "        pass\n", DRAWN),
        ("threads lie row by row", "expressions.py", "number((1, x, x * y)[k])", "number((1, y, x * y)[k])", "tests/cudac/test_programs.py::test_blocks_of_three_dimensions"),
        ("fields have their places", "memory.py", "        offset = added(offset, constant(more // b, I64, span))\n", "        pass\n", STRUCTS),
        ("a struct is given by value", "calls.py", "        copied(s, fields, struct(s, given), span)\n        return fields\n", "        return struct(s, given)\n", STRUCTS),
        ("a mask of some lanes is refused", "calls.py", 'raise outside("a mask of some lanes"', 'return outside("a mask of some lanes"', f"{REFUSED}::test_outside_the_subset"),
        ("a loop whose bound changes is no range", "statements.py", "if name.hash in changed or not _stays(right, changed):", "if name.hash in changed:", "tests/cudac/test_programs.py::test_bounds_that_move"),
    )
]  # fmt: skip
