"""Run `make demo`: figure 6 checked, run against NumPy, shown as CUDA; then the same kernel with a mistake, and the
compiler's error.
"""

from __future__ import annotations

import linecache
import sys
from pathlib import Path

import figure6

import snap

# The mistake: half a warp is sent to a function that needs a whole one.  In CUDA this compiles, and the result is undefined.
MISTAKES = (("p=thread[32]) as Cs_warp", "p=thread[16]) as Cs_warp"), ("case 32:", "case 16:"))


def broken_variant() -> snap.SnapError:
    """Define figure 6 with the mistake in it, and return the error."""
    text = Path(figure6.__file__).read_text()
    for right, wrong in MISTAKES:
        assert right in text, f"figure6.py no longer contains {right!r}"
        text = text.replace(right, wrong)
    name = "figure6_broken.py"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    try:
        exec(compile(text, name, "exec"), {"__name__": "figure6_broken"})
    except snap.SnapError as error:
        return error
    raise AssertionError("the broken variant was accepted")


def heading(text: str) -> None:
    print(f"\n== {text} ==\n")


def main():
    heading("Figure 6: tf32 matrix product on the tensor cores, against NumPy")
    figure6.main()

    heading("Its CUDA C++, with every barrier inferred")
    print(figure6.mmaTF32NaiveKernel.cuda())

    heading("The same kernel with half a warp at the tensor core")
    print(broken_variant().render(color=sys.stdout.isatty()))


if __name__ == "__main__":
    main()
