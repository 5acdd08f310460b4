"""The programs and figures of the report's section 5.4.1, as it prints them: listings 5.5, 5.6 and 5.7, figures 5.2, 5.3 and 5.4.

The text at hand is a scan.  Nothing of these listings and figures had to be reconstructed except the empty stack, printed as an epsilon.  A row is
the address of an instruction, and what holds after it: active mask, disable mask (figure 5.4 alone has it), stack.
"""

from __future__ import annotations

# Lines: name, then the address or register it names.  Lines that hold a label alone are no addresses.
LISTING_5_5 = {1: "setp", 2: "ssy 10", 3: "@p bra 7", 4: "sub", 5: "bra 9", 7: "mul", 9: "sync", 10: "div"}
FIGURE_5_2 = """
1   11  empty
2   11  (sync, 11, 10)
3   10  (diverge, 01, 4) :: (sync, 11, 10)
7   10  (diverge, 01, 4) :: (sync, 11, 10)
9   01  (sync, 11, 10)
4   01  (sync, 11, 10)
5   01  (sync, 11, 10)
9   11  empty
10  11  empty
"""

LISTING_5_6 = {1: "ssy 13", 2: "bra r", 4: "mul", 5: "bra 12", 7: "add", 8: "bra 12", 10: "sub", 12: "sync", 13: "div"}
FIGURE_5_3 = """
1   1111  (sync, 1111, 13)
2   0101  (diverge, 1010, 2) :: (sync, 1111, 13)
7   0101  (diverge, 1010, 2) :: (sync, 1111, 13)
8   0101  (diverge, 1010, 2) :: (sync, 1111, 13)
12  1010  (sync, 1111, 13)
2   1000  (diverge, 0010, 2) :: (sync, 1111, 13)
10  1000  (diverge, 0010, 2) :: (sync, 1111, 13)
12  0010  (sync, 1111, 13)
2   0010  (sync, 1111, 13)
4   0010  (sync, 1111, 13)
5   0010  (sync, 1111, 13)
12  1111  empty
13  1111  empty
"""
PATHS_5_6 = {0: 10, 1: 7, 2: 4, 3: 7}  # by thread, counted from 0: where it jumps
FIRST_5_6 = (7, 10, 4)  # in which order the figure chooses among the paths

LISTING_5_7 = {1: "setp", 2: "ssy 10", 3: "@p bra 7", 4: "sub", 5: "bra 9", 7: "@p2 ret", 9: "sync", 10: "div", 11: "ret"}
FIGURE_5_4 = """
1   111  000  (call, 111, x)
2   111  000  (sync, 111, 10) :: (call, 111, x)
3   011  000  (diverge, 100, 4) :: (sync, 111, 10) :: (call, 111, x)
7   001  0r0  (diverge, 100, 4) :: (sync, 111, 10) :: (call, 111, x)
9   100  0r0  (sync, 111, 10) :: (call, 111, x)
4   100  0r0  (sync, 111, 10) :: (call, 111, x)
5   100  0r0  (sync, 111, 10) :: (call, 111, x)
9   101  0r0  (call, 111, x)
10  101  0r0  (call, 111, x)
11  111  000  empty
x   111  000  empty
"""


def rows(figure: str) -> list[tuple[str, ...]]:
    """Each row's columns."""
    return [tuple(part.strip() for part in line.split("  ") if part.strip()) for line in figure.strip().splitlines()]
