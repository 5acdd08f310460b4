"""The numbers of the hardware, each once, with where it is written.

Sources: PTX is NVIDIA's "PTX ISA", named by its section; the Guide is the "CUDA C++ Programming Guide", whose appendix
"Compute Capabilities" has the table "Technical Specifications per Compute Capability"; the driver API is "CUDA Driver
API".  What is written here is true of every GPU that Snap generates code for, unless the name says whose it is.
Non-goals: numbers that we chose ourselves (how far to unroll, how much to remember), which stand where they are used.
"""

from __future__ import annotations

# ---- threads --------------------------------------------------------------------------------------------------------

WARP = 32  # threads that an instruction is issued for at once; PTX, "SIMT Architecture"
WARPGROUP = 128  # four warps, the first of them a multiple of four, that multiply together; PTX, "Warpgroup"
BLOCK_THREADS = 1024  # a block has at most; Guide, Technical Specifications
PORTABLE_CLUSTER = 8  # blocks of a cluster that every GPU with clusters can launch; Guide, "Thread Block Clusters"
CLUSTER_BLOCKS = 16  # blocks of a cluster that a kernel can ask for besides, on Hopper and Blackwell; the same section
GRID_DIMENSIONS = 3  # of a launch; Guide, "Thread Hierarchy"
GRID_BLOCKS = (1 << 31) - 1  # a grid has at most, along its first dimension; Guide, Technical Specifications
NAMED_BARRIERS = 16  # of a block, numbered from 0, which `__syncthreads` takes; PTX, "bar, barrier"

# ---- a multiprocessor -----------------------------------------------------------------------------------------------

# The most that any GPU has (sm_90, sm_100); Guide, Technical Specifications.
SM_THREADS = 2048
SM_BLOCKS = 32
SM_REGISTERS = 65_536  # of 32 bits; a block can have as many
SM_SHARED = 233_472  # bytes, 228 KB
# Threads and blocks that a multiprocessor runs at a time, where they are fewer than the most; the same table.
FEWER_THREADS = {86: 1536, 87: 1536, 89: 1536, 110: 1536, 120: 1536, 121: 1536}
FEWER_BLOCKS = {86: 16, 87: 16, 89: 24, 110: 24, 120: 24, 121: 24}
# A multiprocessor has four parts, and a warp's registers lie in one of them; registers are given to a warp, and shared
# memory to a block, in units of so many (registers, bytes); CUDA Occupancy Calculator.
SM_PARTS, WARP_REGISTER_UNIT, SHARED_UNIT = 4, 256, 128
BLOCK_RESERVED = 1024  # bytes of them that each resident block takes for the system; Guide, "Shared Memory" of sm_90

THREAD_REGISTERS = 255  # that an instruction can name; Guide, Technical Specifications
REGISTER_UNIT = 8  # registers are given out in multiples of; PTX, "setmaxnreg"
SET_REGISTERS = (24, 256)  # the least and the most that `setmaxnreg` takes; PTX, "setmaxnreg"
THREAD_LOCAL = 512 * 1024  # bytes of local memory of a thread; Guide, Technical Specifications

# Bytes of shared memory that one block may ask for; Guide, Technical Specifications.  An architecture that is not here
# has what the smallest has.
BLOCK_SHARED = {
    80: 166_912,
    86: 101_376,
    87: 166_912,
    89: 101_376,
    90: 232_448,
    100: 232_448,
    103: 232_448,
    110: 232_448,
    120: 101_376,
    121: 101_376,
}
MOST_BLOCK_SHARED, LEAST_BLOCK_SHARED = max(BLOCK_SHARED.values()), min(BLOCK_SHARED.values())
STATIC_SHARED = 48 * 1024  # bytes that a kernel declares in its text; more is given at launch; Guide, "Shared Memory"

# ---- single accesses ------------------------------------------------------------------------------------------------

WIDEST = 16  # bytes that one thread loads or stores at once, at an address that is a multiple; PTX, "Vectors"
COPIED = (4, 8, 16)  # bytes that one `cp.async` moves; PTX, "cp.async"
SHUFFLE_WIDTHS = (2, 4, 8, 16, 32)  # parts of a warp; Guide, "Warp Shuffle Functions" (1 would move nothing)
PARTS = (2, 4, 8, 16)  # threads of a part of a warp that a mask of the `_sync` functions can stand for, aligned
MATRIX_ROW = 16  # bytes: a row of the 8x8 matrices of `ldmatrix` and `stmatrix`; PTX, "ldmatrix"
MATRICES = (1, 2, 4)  # that one `ldmatrix` or `stmatrix` moves; the same section

BANKS, BANK_WORD = 32, 4  # of shared memory, and bytes that one gives at once; Guide, "Shared Memory" of compute 5.x

SLEEP = 1_000_000  # nanoseconds that `nanosleep` takes at most; PTX, "nanosleep"

# ---- caches ---------------------------------------------------------------------------------------------------------

CACHE_LINE, SECTOR = 128, 32  # bytes, and bytes of it that move by themselves; Guide, "Global Memory"

# ---- boxes (TMA) ----------------------------------------------------------------------------------------------------

BOX_RANK = 5  # dimensions, at most; PTX, "Tensors"
BOX_EXTENT = 256  # elements of a box in each dimension; driver API, cuTensorMapEncodeTiled, boxDim
BOX_BYTES = 16  # a box's rows, the array's address and its strides are multiples of it; the same, globalStrides
BOX_ALIGN = 128  # bytes: where a box begins in shared memory; PTX, "cp.async.bulk.tensor"
ARRAY_EXTENT = 1 << 32  # elements of the array in each dimension; driver API, globalDim
ARRAY_STRIDE = 1 << 40  # bytes, which strides stay below; driver API, globalStrides
TENSOR_MAP_BYTES, TENSOR_MAP_ALIGN = 128, 64  # of a CUtensorMap; driver API

# Bytes of a row that are permuted, and what CUtensorMapSwizzle calls it; PTX, "Swizzling Modes".
SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}
WIDEST_SWIZZLE = max(SWIZZLES)
SWIZZLE_CHUNK = 16  # bytes that stay together
SWIZZLE_ROWS = 8  # after which the pattern repeats
# Bytes after which the widest one does: an array that begins there fits all.
SWIZZLE_PERIOD = SWIZZLE_ROWS * WIDEST_SWIZZLE


def box_align(swizzle: int) -> int:
    """Align the start of a box in shared memory: a swizzled one where its pattern does."""
    return SWIZZLE_ROWS * swizzle if swizzle else BOX_ALIGN


# ---- products (tensor cores) ----------------------------------------------------------------------------------------

# `wgmma` multiplies 64 rows; PTX, "Asynchronous Warpgroup Level Matrix Instructions", "Matrix Shape".
WGMMA_ROWS = 64
WGMMA_COLUMNS = range(8, 256 + 1, 8)
WGMMA_STEP = 32  # bytes of a row of k that one instruction takes
# What a matrix descriptor counts in, bytes; PTX, "Matrix Descriptor Format".
DESCRIPTOR_UNIT = 16
# `mma` as Snap has it: by what is multiplied, m, n and k of each shape, and the values of a thread for a, b, and c;
# PTX, "Matrix Fragments for mma.m16n8k8" and the others.  Of bytes and halves of bytes, a value is a word of 32 bits.
Fragments = dict[tuple[int, int, int], tuple[int, int, int]]
MMA_FRAGMENTS: dict[str, Fragments] = {
    "tf32": {(16, 8, 8): (4, 2, 4)},
    "f16": {(16, 8, 16): (8, 4, 4)},
    "bf16": {(16, 8, 16): (8, 4, 4)},
    "f64": {(8, 8, 4): (1, 1, 2), (16, 8, 4): (2, 1, 4), (16, 8, 8): (4, 2, 4), (16, 8, 16): (8, 4, 4)},
    "int8": {(16, 8, 16): (2, 1, 4), (16, 8, 32): (4, 2, 4)},
    "int4": {(16, 8, 32): (2, 1, 4), (16, 8, 64): (4, 2, 4)},
    "fp8": {(16, 8, 32): (4, 2, 4)},
}
# What is packed in words, and which of these it is.
MMA_PACKED = {"s8": "int8", "u8": "int8", "s4": "int4", "u4": "int4", "e4m3": "fp8", "e5m2": "fp8"}

# Tables of constants, bytes: one that lies in constant memory, all of these together, and the largest one of all.
TABLE_CONSTANT, TABLES_CONSTANT, TABLE_LARGEST = 4096, 32768, 65536
