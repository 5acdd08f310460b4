"""The GEMM kernel for Hopper: one warpgroup loads boxes, the others multiply them, and tiles leave through shared
memory as boxes.

Input:      element types, the layouts of the operands, sizes of tiles; at a launch, matrices whose rows are multiples
            of 16 bytes
Output:     a kernel: C = activation(A @ B + bias), or A @ B added to C; sums in f32.  f32 is multiplied as tf32
Invariant:  any extents: what lies outside of a matrix is read as zero and not written.  A team takes tiles t, t +
            teams, ... of the order below; where the last round would leave blocks idle, its tiles come first and are
            divided among all of them, and sums are the same each time
Non-goals:  rows that no box can be made of (gemm.py copies those); tiles that the blocks of a cluster divide
            (slices.py)

The instruction takes f32 along k only, but one of its operands may come from registers, which threads read from shared
memory in any order.  So where A lies across k, it goes through them.  Which column of A is which row of the product is
free: they are dealt out so that threads that read or write together meet in no bank (see `place`).  Fragments of A take
turns in two sets of registers: one is read while the other is multiplied.

Divided tiles: the steps of k of the first `divided` tiles, one tile after another, are dealt out to the teams, `share`
to each, no more than a tile has.  So a team has the end of one tile and the beginning, or the middle, of the next.  It
begins with the latter and leaves its sums in `parts`; then it finishes the former, with what the teams before it have
left.  Each thread waits for, and adds, what the thread in its place has left, in the order of the teams.  All blocks
run at the same time, and leave their sums before they wait: nothing hangs.

Teams: the blocks of a cluster, whose tiles lie one above the other; such a column is what is one tile in the order of
tiles, so bands are BAND columns high.  Each block loads its part of B's tile for all of them, so fewer rows of B are
asked for.  That counts where rows do not begin at multiples of 32 bytes: each costs nearly twice as much.  Large
products of whole rows of 16-bit elements win nothing: there a multiprocessor multiplies all the time already, and
blocks that wait for each other do so less often.

DIVIDED, TEAM: as said; the number of blocks is a multiple of TEAM.

AT_ONCE: there is room for a whole tile that leaves, instead of a stage.  Warpgroups write all of it, and then each warp
sends boxes, so that nobody waits for the copy of a box before the next tile begins.  A tile of few steps takes 4% less
time so (K = 768); one of many, whose stages count, 1% more (K = 4096).

ADDED: a piece of work is a tile and one of `slices` parts of K, and what comes of it is added to C by the units that
copy boxes.

8-bit floats (`kind`, `scaled`: see parts.py) lie along k; they are added up as the tensor cores do it, with fewer
bits than f32 has (fp8_kernel.py adds in f32).

Several matrices (`many`): BATCH: A, B and C have one dimension more.  GROUPS: B has, and group g of A's rows, those
from ends[g - 1] to ends[g], is multiplied by matrix g of B.  Ends never fall: one that does is taken as the one before.
Each role finds the group of its next tile from that of the tile before.  A tile that reaches into the next group leaves
by threads, row by row.
"""

from __future__ import annotations

import functools

from snap import *
from snap._compiler.ir.types import F32, I32
from snap.lib._calls.arrays import MAX_SIDE
from snap.lib._calls.operators import element, scalar
from snap.lib._gemm.body import (
    PLAIN,
    WITH_TILES,
    Epilogue,
    Work,
    in_bands,
    load_b,
    multiply,
    room_for_stages,
    sizes,
    slots_for_boxes,
    steps,
)
from snap.lib._gemm.parts import (
    Scaling,
    completing,
    fill,
    grouping,
    handover,
    leave_at_once,
    leave_box,
    leave_rows,
    through_registers,
)


def counting_on(BM, BN, STEP, TEAM, C_TURNED, BIASED, ADDED, DIVIDED, scaled):
    """Return the conditions that every launch of the kernel of one matrix keeps."""
    SCALED, BY_ROWS = scaled is not None, scaled == Scaling.ROWS
    return lambda bias, a_scale, b_scale, parts, ready, M, N, K, C1, divided, share, slices, blocks: (
        1 <= M <= (min(C1, 2**30) if C_TURNED else 2**30),
        1 <= N <= (2**30 if C_TURNED else min(C1, 2**30)),
        1 <= K <= 2**30,
        blocks <= 2**16,
        not BIASED or len(bias) >= N,
        not SCALED or len(a_scale) >= (M if BY_ROWS else 1),
        not SCALED or len(b_scale) >= (N if BY_ROWS else 1),
        1 <= slices <= (2**10 if ADDED else 1),
        ((M + TEAM * BM - 1) // (TEAM * BM)) * ((N + BN - 1) // BN) * slices <= 2**27,
        ((M + TEAM * BM - 1) // (TEAM * BM)) * ((N + BN - 1) // BN) * slices * ((K + STEP - 1) // STEP)
        <= (2**29 if C_TURNED else 2**30),  # where A goes through registers, a step fills two stages
        0 <= divided <= (((M + TEAM * BM - 1) // (TEAM * BM)) * ((N + BN - 1) // BN) if DIVIDED else 0),
        not DIVIDED or 1 <= share <= (K + STEP - 1) // STEP,
        not DIVIDED or divided * ((K + STEP - 1) // STEP) <= blocks // TEAM * share <= 2**30,
        not DIVIDED or blocks * (BM * BN) <= min(len(parts), 2**30),
        not DIVIDED or blocks * (2 * BM) <= len(ready),
    )


def batches_counting_on(BM, BN, STEP, DIVIDED):
    """Return the same for a kernel of batches. Small matrices may be so many that each block has to count its own
    tiles.
    """
    return lambda parts, ready, M, N, K, C1, divided, share, matrices, blocks: (
        1 <= M <= MAX_SIDE,
        1 <= N <= min(C1, MAX_SIDE),
        1 <= K <= MAX_SIDE,
        1 <= matrices <= MAX_SIDE,
        blocks <= 2**16,
        ((M + BM - 1) // BM) * ((N + BN - 1) // BN) * matrices <= min(blocks * 2**27, MAX_SIDE - 2**16),
        ((M + BM - 1) // BM) * ((N + BN - 1) // BN) * matrices * ((K + STEP - 1) // STEP)
        <= (2**30 if DIVIDED else blocks * 2**29),
        0 <= divided <= (((M + BM - 1) // BM) * ((N + BN - 1) // BN) * matrices if DIVIDED else 0),
        not DIVIDED or 1 <= share <= (K + STEP - 1) // STEP,
        not DIVIDED or divided * ((K + STEP - 1) // STEP) <= blocks * share <= 2**30,
        not DIVIDED or blocks * (BM * BN) <= min(len(parts), 2**30),
        not DIVIDED or blocks * (2 * BM) <= len(ready),
    )


def groups_counting_on(BM, BN, STEP):
    """Return the same for a kernel of groups. Each has at most one tile more than its rows fill."""
    return lambda ends, M, N, K, C1, divided, matrices, blocks: (
        1 <= M <= MAX_SIDE,
        1 <= N <= min(C1, MAX_SIDE),
        1 <= K <= MAX_SIDE,
        1 <= matrices <= len(ends),
        divided == 0,
        blocks <= 2**16,
        (M // BM + matrices) * ((N + BN - 1) // BN) <= min(blocks * 2**27, MAX_SIDE - 2**16),
        (M // BM + matrices) * ((N + BN - 1) // BN) * ((K + STEP - 1) // STEP) <= blocks * 2**29,
    )


# A piece of work is a tile, a slice of one, or a part of a divided tile, of which a team has two.
@inline
def pieces(g, BY_TILES, STEP, K, down, across, tiles, team, teams, turns, divided, share, slices):
    """Yield the tile, and the first and the last step of k, of each piece of work that a team takes."""
    begin, end = min(team * share, divided * turns), min((team + 1) * share, divided * turns)
    whole: int = (tiles - divided - team + teams - 1) / teams
    for job in range(
        team if BY_TILES else 0, down * across if BY_TILES else whole + g.PIECES, teams if BY_TILES else 1
    ):
        t = job if BY_TILES else divided + team + (job - g.PIECES) * teams
        first, last = 0, (K + STEP - 1) / STEP if BY_TILES else turns  # computed where it is used
        if g.ADDED:
            slice, t = t / (down * across), t % (down * across)
            first, last = int(i64(turns) * slice / slices), int(i64(turns) * (slice + 1) / slices)
        if g.DIVIDED and job < g.PIECES:
            t = (end - 1) / turns if job == 0 else begin / turns
            first, last = max(begin - t * turns, 0), min(end - t * turns, turns)
            if begin == end or (job == 1 and t == (end - 1) / turns):
                t, last = 0, first  # nothing is left to do, and `begin` may be behind the last tile
        yield t, first, last


@functools.cache
def gemm_kernel(
    type,
    out_type,
    A_TURNED,
    B_TURNED,
    BM=128,
    BN=256,
    BAND=8,
    epilogue: Epilogue = PLAIN,
    work=Work.TILES,
    TEAM=1,
    kind=None,
):
    """A_TURNED: A lies as [K, M]; B_TURNED: B lies as [N, K], as it does where elements are f32 or 8-bit floats.  Where
    A is turned as well, f32's C lies as [N, M].  Blocks take tiles of BM x BN in bands of BAND tiles' height, down one
    column of the band and then the next, so that what runs at the same time reads few rows and columns.  For arrays
    that it does not use (a bias, scales, ends) any array stands.  Other parameters: see above.
    """
    AT_ONCE = work == Work.AT_ONCE
    room = WITH_TILES - BM * BN * scalar(out_type).bytes if AT_ONCE else room_for_stages(out_type, BM, BN)
    g = sizes(type, out_type, BM, BN, not A_TURNED, B_TURNED, epilogue, kind=kind, work=work, room=room)
    F, G = element(F32) if epilogue.scaled else g.E, element(I32) if g.GROUPED else g.E
    C_TURNED = g.TF32 and A_TURNED  # then A goes through registers
    STEP = 2 * g.DEPTH if C_TURNED else g.DEPTH  # of k in a turn of the loop: a stage for each set of registers
    BY_TILES = work in (Work.TILES, Work.AT_ONCE) and not g.TF32  # a team counts tiles, and not pieces of work
    assert (B_TURNED or not g.TF32) and (BY_TILES or not AT_ONCE)
    # Tiles leave in boxes, each of a unit of threads that has so many rows of A.
    HIGH = 32 if C_TURNED else 16 if g.TF32 else 64
    UNIT, DOWN, RIGHT = thread[2 * HIGH], g.WIDE if C_TURNED else 0, 0 if C_TURNED else g.WIDE
    # Boxes in a slot, of which there are slots for all where there is room.
    BOXES = BN // g.WIDE
    PARTS, LEAVING = (BOXES, 1) if AT_ONCE else (2, 1) if g.GROUPED else (1, slots_for_boxes(g))
    WHOLE = BY_TILES or (g.TF32 and not g.DIVIDED)  # there is nothing to ask before a tile leaves
    OWN, COMPLETED = not g.ADDED, epilogue.completes  # OWN: a tile of C is one team's alone
    # Only what this kernel calls is defined: each part is checked when it is.
    complete = completing(g.SUMS, BN, type, epilogue) if COMPLETED else None
    hand_over, collect = handover(g.SUMS, g.C_THREADS, TEAM) if g.DIVIDED else (None, None)
    tiles_of_groups, group_of = grouping(BM) if g.GROUPED else (None, None)
    if g.GROUPED:
        where = groups_counting_on(BM, BN, STEP)
    elif g.BATCH:
        where = batches_counting_on(BM, BN, STEP, g.DIVIDED)
    else:
        where = counting_on(BM, BN, STEP, TEAM, C_TURNED, g.BIASED, g.ADDED, g.DIVIDED, epilogue.scaled)

    @kernel(threads=g.T, cluster=TEAM, cooperative=g.DIVIDED, where=where)
    def gemm(
        A: ptr(const(g.E), (matrices, A0, A1) if g.BATCH else (A0, A1)),
        B: ptr(const(g.E), (matrices, B0, B1) if g.BATCH or g.GROUPED else (B0, B1)),
        C: ptr(g.O, (matrices, M, C1) if g.BATCH else (N if C_TURNED else M, C1)),
        bias: ptr(const(g.V)),
        A0: int,
        A1: int,
        B0: int,
        B1: int,
        C1: int,
        M: int,
        N: int,
        K: int,
        parts: ptr(float),
        ready: ptr(int),
        divided: int,
        share: int,
        slices: int,
        a_scale: ptr(const(F)),
        b_scale: ptr(const(F)),
        ends: ptr(const(G)),
        matrices: int,
    ):
        teams, turns = count(cluster[1]), (K + STEP - 1) / STEP
        down, across = (M + TEAM * BM - 1) / (TEAM * BM), (N + BN - 1) / BN
        with each(cluster, C, disjoint=C if OWN else ()) as team:
            A_slots: pipeline(shared(g.E[g.A_PANELS, g.A_ROWS, g.DEPTH], swizzle=128, across=block), g.STAGES)
            B_slots: pipeline(shared(g.E[g.B_PANELS, g.B_ROWS, g.DEPTH], swizzle=128, copies=block), g.STAGES)
            C_slots: pipeline(shared(g.O[BM // HIGH, PARTS, HIGH, g.WIDE], swizzle=g.C_SWIZZLE, across=block), LEAVING)
            rank: int @ block[1] = id()
            w: int @ warpgroup = id() % (g.CONSUMERS + 1) if TEAM > 1 or g.TF32 else id()
            u: int @ UNIT = id() % (g.T // (2 * HIGH)) if TEAM > 1 or g.TF32 else id()
            me: int @ thread[1] = id() % g.T if TEAM > 1 or g.TF32 else id()
            quad: int @ thread[1] = id() % 4
            # Its row of a box that leaves.  Of a box of A, and of C turned round, its column: a warp reads
            # chunks c and c ^ 5 of 4 rows, and writes those of 4 others.
            place: int @ thread[1] = id() / 4 % 4 + id() / 16 % 2 * 20 + id() / 32 % 2 * 8 if C_TURNED else id() / 4 % 8
            row: int @ thread[1] = id() % 128 / 32 * 16 + id() % 32 / 4  # its first of its warpgroup's
            acc, x, y = registers(float[g.SUMS], float[g.DEPTH // 2], float[g.DEPTH // 2])
            compute, load = roles(g.C_THREADS, 128, registers=(232, 40) if g.CONSUMERS == 2 else ())
            tiles: int = down * across * (slices if g.ADDED else matrices if g.BATCH else 1)
            if g.GROUPED:
                tiles = tiles_of_groups(ends, matrices, M, across)
            # Of a tile: its matrix, the tiles of those before it, its group's first row, and rows.
            matrix, passed, top_row, rows = -1 if g.GROUPED else 0, 0, 0, 0 if g.GROUPED else M
            for t, first, last in pieces(
                g, BY_TILES, STEP, K, down, across, tiles, team, teams, turns, divided, share, slices
            ):
                if g.BATCH:
                    matrix, passed = t / (down * across), t / (down * across) * (down * across)
                if g.GROUPED:
                    matrix, passed, top_row, rows = group_of(t, ends, M, across, matrix, passed, top_row, rows)
                i, j = in_bands(t - passed, (rows + BM - 1) / BM if g.GROUPED else down, across, BAND)
                m0, n0 = top_row + (i * TEAM + rank) * BM, j * BN
                if C_TURNED:
                    for k in range(first, last):
                        at, next = k * STEP, k * STEP + g.DEPTH
                        through_registers(
                            g, compute, load, acc, x, A_slots, B_slots, A, B, m0, n0, at, k == first, u, quad, place
                        )
                        through_registers(
                            g, compute, load, acc, y, A_slots, B_slots, A, B, m0, n0, next, False, u, quad, place
                        )
                else:
                    for k, a, b in steps(g, load, load_b, A_slots, B_slots, A, B, first, last, m0, n0, matrix):
                        with compute(a, b), each(warpgroup):
                            multiply(g, acc, a, b, w, k, first)
                if g.DIVIDED:
                    with compute(), each(thread):
                        if first < last and last < turns:
                            hand_over(acc, parts, ready, team * TEAM + rank, me)
                        if 0 < first and first < last and last == turns:
                            collect(acc, parts, ready, t * turns / share, team, rank, me)
                if WHOLE or (first < last and last == turns):
                    if COMPLETED:
                        with compute(), each(warp):
                            complete(acc, a_scale, b_scale, bias, m0 + 64 * w + row, M, n0, N)
                    top, side = n0 if C_TURNED else m0 + HIGH * u, m0 + HIGH * u if C_TURNED else n0
                    if g.GROUPED:
                        with stage(C_slots) as c, compute(), each(UNIT, c, C, disjoint=C):
                            leave_rows(g, C, C1, top, side, top_row + rows, c, (rank, u), acc, row, quad)
                    if AT_ONCE:
                        with stage(C_slots) as c, compute(), each(UNIT, c, C, disjoint=C):
                            leave_at_once(g, C, c, rank, u, acc, quad, place, top, side)
                    for q in unroll(range(0 if g.GROUPED or AT_ONCE else BOXES)):
                        with stage(C_slots) as c, compute(), each(UNIT, c, C, disjoint=C if OWN else ()):
                            fill(g, c, (rank, u, 0), acc, q, quad, place, C_TURNED)
                            leave_box(g, C, c, rank, u, matrix, top + DOWN * q, side + RIGHT * q)

    return gemm
