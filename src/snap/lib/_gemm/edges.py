"""The GEMM kernel for products of which little is left after whole rounds of tiles: the tiles of the last column are
narrower, and those who have a tile more than others have narrow ones.

Input:      as for kernels.py; NARROW, the columns of C that lie in the last column of tiles at most
Output:     a kernel: C = activation(A @ B + bias), sums in f32
Invariant:  every tile is one team's, and sums are those of kernels.py.  Of a launch, `narrow_edges`
            (choice.py) holds
Non-goals:  f32, 8-bit floats, several matrices, tiles that are divided

5000^3 has 400 tiles of 256 x 256 for 66 teams of two blocks: six each, and four more, for which all of the others
would wait.  Of the last column of 256 only 136 are there.  Its 20 tiles are multiplied as ones of 192 columns, and the
four teams that have seven tiles begin with five of these: they take no longer than the others.

Team c of the first `extra`, those with a tile more, has numbers c, extra + c, 2 extra + c, ...: the first `down` of
these are the tiles of the last column, from the top on, and the others the last ones of the others, in bands.  What is
before these belongs to the other teams.
"""

from __future__ import annotations

import functools

from snap import *
from snap.lib._gemm.body import (
    PLAIN,
    Epilogue,
    in_bands,
    load_b,
    multiply,
    multiply_columns,
    of_matrices,
    room_for_stages,
    sizes,
    slots_for_boxes,
    steps,
)
from snap.lib._gemm.choice import MOST_EDGED
from snap.lib._gemm.parts import completing, fill


@functools.cache
def dealing(BAND):
    """dealt(turn, team, teams, down, across): the row and the column, counted in tiles, of a team's next tile, as said
    above.
    """

    @device(
        cluster,
        ensures=lambda down, across, result: 0 <= result.x < down and 0 <= result.y < across,
    )
    def dealt(turn: int, team: int, teams: int, down: int, across: int) -> int2:
        rounds, extra = down * across / teams, down * across % teams
        number = turn * extra + team
        with trust("numbers of tiles, one after another: those of the last column, and all others, below their count"):
            if team < extra and number < down:
                return int2(number, across - 1)
            t = (teams - extra) * rounds + number - down if team < extra else turn * (teams - extra) + team - extra
            i, j = in_bands(t, down, across - 1, BAND)
            return int2(i, j)

    return dealt


def counting_on(BM, BN, DEPTH, TEAM, NARROW, BIASED):
    """Return the conditions that every launch keeps."""
    return lambda bias, M, N, K, C1, blocks: (
        1 <= M <= 2**30,
        1 <= N <= min(C1, 2**30),
        1 <= K <= 2**30,
        1 <= blocks <= 2**16,
        not BIASED or len(bias) >= N,
        (N - 1) % BN < NARROW,
        ((M + TEAM * BM - 1) // (TEAM * BM)) * ((N + BN - 1) // BN) <= 2**27,
        ((M + TEAM * BM - 1) // (TEAM * BM)) * ((N + BN - 1) // BN) * ((K + DEPTH - 1) // DEPTH) <= MOST_EDGED,
        ((M + TEAM * BM - 1) // (TEAM * BM))
        <= ((M + TEAM * BM - 1) // (TEAM * BM))
        * ((N + BN - 1) // BN)
        % (blocks // TEAM)
        * (((M + TEAM * BM - 1) // (TEAM * BM)) * ((N + BN - 1) // BN) // (blocks // TEAM) + 1),
    )


@functools.cache
def edges_kernel(
    type, out_type, A_TURNED, B_TURNED, BM=128, BN=256, BAND=8, epilogue: Epilogue = PLAIN, TEAM=1, NARROW=192
):
    """See kernels.py for the parameters."""
    room = room_for_stages(out_type, BM, BN)
    g = sizes(type, out_type, BM, BN, not A_TURNED, B_TURNED, epilogue, room=room)
    assert not g.TF32
    COMPLETED = epilogue.completes
    complete = completing(BN // 2, BN, type, epilogue) if COMPLETED else None

    SLOTS, dealt = slots_for_boxes(g), dealing(BAND)
    where = counting_on(BM, BN, g.DEPTH, TEAM, NARROW, g.BIASED)

    @inline
    def body(A, B, C, bias, M, N, K, room, met):
        teams = count(cluster[1])
        down, across = (M + TEAM * BM - 1) / (TEAM * BM), (N + BN - 1) / BN
        with each(cluster, C, disjoint=C) as team:
            A_slots: pipeline(shared(g.E[g.A_PANELS, g.A_ROWS, g.DEPTH], swizzle=128, across=block), g.STAGES)
            B_slots: pipeline(shared(g.E[g.B_PANELS, g.B_ROWS, g.DEPTH], swizzle=128, copies=block), g.STAGES)
            C_slots: pipeline(shared(g.O[g.CONSUMERS, 64, g.WIDE], swizzle=g.C_SWIZZLE, across=block), SLOTS)
            rank: int @ block[1] = id()
            w: int @ warpgroup = id() % (g.CONSUMERS + 1) if TEAM > 1 else id()
            row: int @ thread[1] = id() % 128 / 32 * 16 + id() % 32 / 4  # its first of its warpgroup's
            acc = registers(float[g.SUMS])
            compute, load = roles(g.C_THREADS, 128, registers=(232, 40) if g.CONSUMERS == 2 else ())
            for job in range(team, down * across, teams):
                i, j = dealt(job / teams, team, teams, down, across)
                m0, n0, last = (i * TEAM + rank) * BM, j * BN, (K + g.DEPTH - 1) / g.DEPTH
                if j == across - 1:
                    for k, a, b in steps(g, load, load_b, A_slots, B_slots, A, B, 0, last, m0, n0):
                        with compute(a, b), each(warpgroup):
                            multiply_columns(g, acc, a, b, w, k, 0, NARROW)
                else:
                    for k, a, b in steps(g, load, load_b, A_slots, B_slots, A, B, 0, last, m0, n0):
                        with compute(a, b), each(warpgroup):
                            multiply(g, acc, a, b, w, k, 0)
                if COMPLETED:
                    with compute(), each(warp):
                        complete(acc, A, A, bias, m0 + 64 * w + row, M, n0, N)
                for q in unroll(range(BN // g.WIDE)):
                    with stage(C_slots) as c, compute(), each(warpgroup, c, C, disjoint=C):
                        fill(g, c, (rank, w), acc, q, 0, 0)
                        with trust("a tile is one team's: `dealt` gives every one once"):
                            async_copy(C, c[rank, w], at=(m0 + 64 * w, n0 + g.WIDE * q))

    return of_matrices(g, body, where, TEAM)
