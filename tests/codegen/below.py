"""What the compiler below us made of our kernels: PTX by the age of what is read, SASS by the flow of registers, and both by the registers of wgmma
in flight and by the lanes that vote.

`texts` are the kernels of the corpus, the examples and the library, and some drawn ones that torment accumulators; `findings` is what is wrong with
one of them, compiled by one NVRTC.
"""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from codegen import below_kernels, in_flight, parts_of_warps, product_kernels, ptx_scan, sass_flow
from codegen.toolchains import disassembler, life_ranges
from corpus import OK, ROOT, Program, kernels_of
from fuzz.case import generate, load

from snap import SnapError
from snap._compiler.codegen import CudaModule, emit
from snap._compiler.ir.types import BF16, F32, F64, I32, U8
from snap.api import SnapFunction

ARCH = "sm_90a"
DRAWN = 12
FAMILIES = ("parts", "flights", "products")  # of generated programs


@dataclass(frozen=True)
class Text:
    """A kernel's module, and the same with its reads of memory marked."""

    name: str
    module: CudaModule
    marked: str
    places: dict[int, str]


def text(name: str, kernel: SnapFunction) -> Text:
    synced = kernel._the_one({}).synced
    places: dict[int, str] = {}
    with ptx_scan.marked(places):
        marked = emit(synced).text
    return Text(name, emit(synced), marked, places)


def findings(one: Text, nvrtc, sass: bool = True) -> list[str]:
    """`sass`: its registers too, where there is a disassembler."""
    found = [] if not one.places else ptx_scan.stale(nvrtc.compile(one.marked, ARCH.replace("sm_", "compute_"))[0], one.places)
    sass = sass and disassembler() is not None
    ptx, cubin = nvrtc.compile(one.module.text, ARCH if sass else ARCH.replace("sm_", "compute_"))
    return [*ptx_scan.cached(one.module, ptx), *found, *by_registers(ptx, cubin, loops=one.name.startswith("drawn"))]


def by_registers(ptx: str, cubin: bytes = b"", loops: bool = False) -> list[str]:
    """What is wrong with the PTX, and with the SASS where there is any; `loops`: its products in loops, too."""
    above = ptx_scan.parse(ptx_scan.entry(ptx)[1])
    below = sass_flow.parse(life_ranges(cubin)) if cubin else []
    return [
        *(f"PTX: {one}" for one in in_flight.findings(above)),
        *(f"SASS: {one}" for one in in_flight.findings(below)),
        *parts_of_warps.findings(above, below),
        *(sass_flow.check(above, below, loops) if cubin else []),
    ]


# ---- which kernels -----------------------------------------------------------------------------------------------------------------------


def texts() -> Iterator[Text]:
    for where, kernels in (("tests/ok", corpus()), ("examples", examples()), ("lib", library()), ("drawn", drawn())):
        for name, kernel in kernels:
            yield text(f"{where}: {name}", kernel)


def corpus() -> Iterator[tuple[str, SnapFunction]]:
    for program in OK:
        for name, kernel in kernels_of(program.namespace()).items():
            yield f"{program.path.stem}.{name}", kernel


def examples() -> Iterator[tuple[str, SnapFunction]]:
    constants = {"TILE": 16, "ROWS": 8}
    sys.path.insert(0, str(ROOT / "examples"))
    for path in sorted((ROOT / "examples").glob("[!_]*.py")):
        with contextlib.redirect_stdout(io.StringIO()):
            namespace = Program(path).execute()
        for name, kernel in list(namespace.items()):
            if isinstance(kernel, SnapFunction) and kernel.is_kernel:
                yield f"{path.stem}.{name}", kernel.specialize(**{n: constants[n] for n in kernel.generic}) if kernel.generic else kernel


def library() -> Iterator[tuple[str, SnapFunction]]:
    from snap.lib._attention import kernels as attention_kernels
    from snap.lib._attention import one_pass as attention_one_pass
    from snap.lib._attention.gradients import queries_kernel
    from snap.lib._gemm import fp8_kernel as gemm_fp8_kernel
    from snap.lib._gemm import kernels as gemm_kernels
    from snap.lib._gemm import matvec
    from snap.lib._gemm import ragged_kernel as gemm_ragged_kernel
    from snap.lib._gemm import slices as gemm_slices
    from snap.lib._gemm import splits as gemm_splits
    from snap.lib._gemm import thin as gemm_thin
    from snap.lib._gemm.body import Epilogue, Work
    from snap.lib._gemm.tf32 import tf32_kernel
    from snap.lib._layers import embedding_kernels, loss_kernels, norm_kernels, softmax_rows
    from snap.lib._parallel import histograms, reduction, scanning, transposition

    sgemm = sys.modules["snap.lib._gemm.sgemm"]  # `snap.lib.sgemm` itself is the function
    yield "reduction", reduction.reduction(F32, F32, F32, 4, "add", 0.0)
    yield "reduction by a block", reduction.reduction(F64, F64, F64, 2, "add", 0.0, True)
    yield "scan in a round", scanning.scan_in_a_round(F32, F32, 4, "add", False, 0.0, 2)
    yield "scan", scanning.scan_kernel(F32, F32, 4, "add", False, 0.0)
    yield "scan by a cluster", scanning.scan_by_team(I32, I32, 4, "add", True, 0, 4, 8)
    yield "transpose", transposition.transpose_kernel(F32, 4, 64)
    yield "ragged transpose", transposition.ragged_transpose_kernel(U8, 16, 128)
    yield "histogram", histograms.histogram_kernel(16)
    yield "softmax by warps", softmax_rows.softmax_by_warps(F32, F32, 4, 4)
    yield "softmax by blocks", softmax_rows.softmax_by_blocks(F32, F32, 4, 4, 256)
    yield "softmax by clusters", softmax_rows.softmax_by_blocks(F32, F32, 4, 8, 512, True, 8)
    yield "softmax of long rows", softmax_rows.softmax_of_long_rows(F32, F32, 4)
    yield "attention", attention_kernels.forward_kernel(BF16, 128, True, False, True)
    yield "layer norm", norm_kernels.norm_kernel(BF16, F32, 8, 4, 256, 256, True, True, True, True)
    yield "gradient of an embedding", embedding_kernels.ordering_kernel(I32)
    yield "cross entropy", loss_kernels.held_loss_kernel(BF16, I32, 8, True, False, False)
    yield "gemv by warps", matvec.gemv_by_warps(F32, F32, 4)
    yield "gemv by clusters", matvec.gemv_by_blocks(F32, F32, 4, 8, 8)
    yield "sgemm", sgemm.warp_tiled(*sgemm.LARGE, sgemm.STAGES, WIDTH=4)
    yield "gemm", gemm_kernels.gemm_kernel(BF16, BF16, True, True, epilogue=Epilogue(F32, "gelu"), work=Work.DIVIDED)
    yield "gemm by clusters", gemm_kernels.gemm_kernel(BF16, BF16, False, True, 64, 128, epilogue=Epilogue(F32, "gelu"), TEAM=2)
    yield "gemm in slices", gemm_slices.slices_kernel(BF16, BF16, False, False)
    yield "gemm by blocks that meet", gemm_splits.splits_kernel(BF16, BF16, True, False)
    yield "gemm of ragged groups", gemm_ragged_kernel.ragged_kernel(BF16)
    yield "gemm of 8 bits", gemm_fp8_kernel.promoted_kernel("e4m3", BF16)
    yield "large gemm of 8 bits", gemm_fp8_kernel.halves_kernel("e4m3", BF16)
    yield "gradients of keys and values", attention_one_pass.one_pass_kernel(BF16, 128, True, False, True)
    yield "gradients of queries", queries_kernel(BF16, 128, True, False)
    yield "gemm of few rows", gemm_thin.thin_kernel(BF16, BF16, True)
    yield "tf32 along", tf32_kernel(True, 128, 128)
    yield "tf32 rows, divided", tf32_kernel(False, 128, 256, 2, DIVIDED=True)
    yield "tf32 rows, slices", tf32_kernel(False, 128, 256, 1, ADDED=True)


def drawn() -> Iterator[tuple[str, SnapFunction]]:
    """What torments accumulators and parts of warps; of generated programs those that are accepted."""
    yield from (("votes of parts", below_kernels.votes), ("votes apart", below_kernels.votes_apart), ("an accumulator that goes on", below_kernels.carried))
    for seed in range(DRAWN):
        yield f"products {seed}", product_kernels.drawn(seed)
    for family in FAMILIES:
        for seed in range(DRAWN):
            with contextlib.suppress(SnapError):
                yield f"{family} {seed}", load(generate(family, seed))
