"""Names of special registers (PTX ISA, "Special Registers"); machine.py says what they hold."""

from __future__ import annotations

# Shared memory that the system keeps for itself: where it begins and ends, and its parts.  Here it has none.
RESERVED = frozenset(f"%reserved_smem_offset_{part}" for part in ("begin", "end", "cap", "0", "1"))
SPECIAL = (
    frozenset(
        "%tid %ntid %ctaid %nctaid %laneid %warpid %nwarpid %smid %nsmid %gridid %clock %clock64 %clock_hi %globaltimer"
        " %globaltimer_lo %globaltimer_hi %lanemask_eq %lanemask_le %lanemask_lt %lanemask_ge %lanemask_gt %clusterid"
        " %nclusterid %cluster_ctaid %cluster_nctaid %cluster_ctarank %cluster_nctarank %is_explicit_cluster"
        " %total_smem_size %dynamic_smem_size %aggr_smem_size %current_graph_exec".split()
    )
    | RESERVED
    | {f"%envreg{k}" for k in range(32)}
    | {f"%pm{k}{end}" for k in range(8) for end in ("", "_64")}
)
