"""Of each kernel of the library the instance that does most: its module, the function that makes it, and for what."""

CONSTANTS = {"TILE": 16, "ROWS": 8}  # of the generic examples
KERNELS = {
    "reduction": ("reduction", "reduction", "F32, F32, F32, 4, 'add', 0.0"),
    "scan": ("scanning", "scan_kernel", "F32, F32, 4, 'add', False, 0.0"),
    "scan by a cluster": ("scanning", "scan_by_team", "I32, I32, 4, 'add', True, 0, 4, 8"),
    "transpose": ("transposition", "transpose_kernel", "F32, 4, 64"),
    "ragged transpose": ("transposition", "ragged_transpose_kernel", "U8, 16, 128"),
    "histogram": ("histograms", "histogram_kernel", "16"),
    "softmax by warps": ("softmax_rows", "softmax_by_warps", "F32, F32, 4, 4"),
    "softmax by blocks": ("softmax_rows", "softmax_by_blocks", "F32, F32, 4, 4, 256"),
    "softmax by clusters": ("softmax_rows", "softmax_by_blocks", "F32, F32, 4, 8, 512, True, 8"),
    "softmax of long rows": ("softmax_rows", "softmax_of_long_rows", "F32, F32, 4"),
    "gemv by warps": ("matvec", "gemv_by_warps", "F32, F32, 4"),
    "gemv by clusters": ("matvec", "gemv_by_blocks", "F32, F32, 4, 8, 8"),
    "sgemm": ("sgemm", "warp_tiled", "*module.LARGE, module.STAGES, WIDTH=4"),
    "gemm": ("gemm_kernels", "gemm_kernel", "BF16, BF16, True, True, bias_type=F32, activation='gelu', DIVIDED=True"),
    "gemm by clusters": ("gemm_kernels", "gemm_kernel", "BF16, BF16, False, True, 64, 128, bias_type=F32, activation='gelu', TEAM=2"),
    "gemm in slices": ("gemm_slices", "slices_kernel", "BF16, BF16, False, False"),
    "gemm of few rows": ("gemm_thin", "thin_kernel", "BF16, BF16, True"),
}
# Those that other commits, with which compile/against.py compares, make otherwise, or do not have.
LATER = {
    "gemm of 8-bit floats": ("gemm_fp8_kernel", "promoted_kernel", "'e4m3', BF16, 'rows', 128, 192"),
    "gemm, batched": ("gemm_kernels", "gemm_kernel", "BF16, BF16, True, False, many='batch', DIVIDED=True"),
    "gemm, grouped": ("gemm_kernels", "gemm_kernel", "BF16, BF16, False, True, many='groups'"),
    "reduction by a block": ("reduction", "reduction", "F64, F64, F64, 2, 'add', 0.0, True"),
    "scan in a round": ("scanning", "scan_in_a_round", "F32, F32, 4, 'add', False, 0.0, 2"),
    "gemm by blocks that meet": ("gemm_splits", "splits_kernel", "BF16, BF16, True, False"),
    "sgemm, naive": ("sgemm_ladder", "naive", ""),
    "sgemm, coalesced": ("sgemm_ladder", "coalesced", ""),
    "sgemm, blocked": ("sgemm_ladder", "blocked", ""),
    "sgemm, vectorised": ("sgemm_ladder", "vectorised", ""),
    "gemm_tf32, divided": ("gemm_tf32", "tf32_kernel", "False, 128, 256, 2, DIVIDED=True"),
    "gemm_tf32, slices": ("gemm_tf32", "tf32_kernel", "False, 128, 256, 1, ADDED=True"),
}
# The layers of a transformer, and attention.
LAYERS = {
    "layer norm": ("norm_kernels", "norm_kernel", "BF16, BF16, 8, 3, 32, 128, True, True, True, True"),
    "layer norm, of long rows": ("norm_kernels", "long_norm_kernel", "BF16, BF16, 8, 512, True, True, True, True"),
    "layer norm, gradient": ("norm_kernels", "norm_gradient_kernel", "BF16, BF16, 8, 3, 32, 128, True, True, True"),
    "sums of columns": ("columns", "columns_kernel", "BF16, F32, 8"),
    "gelu": ("activations", "map_kernel", "BF16, 8, 'tanh'"),
    "gelu, gradient": ("activations", "map_two_kernel", "BF16, 8, 'tanh'"),
    "swiglu": ("activations", "swiglu_kernel", "BF16, 8, True, I32"),
    "swiglu, gradient": ("activations", "swiglu_gradient_kernel", "BF16, 8, True, I32"),
    "cross entropy": ("loss_kernels", "held_loss_kernel", "BF16, I64, 8, True, True, False"),
    "cross entropy, of long rows": ("loss_kernels", "long_loss_kernel", "BF16, I64, 8, True, True, False"),
    "embedding": ("embedding_kernels", "lookup_kernel", "BF16, I64, BF16, I32, 8, True"),
    "rotary": ("rotations", "rotary_kernel", "BF16, F32, 8, 4, False, False, False, I32"),
    "dropout": ("dropouts", "dropout_kernel", "BF16, 8, True, True"),
    "adamw": ("optimizers", "adamw_kernel", "F32, BF16, 8, True, True, True"),
    "global norm": ("optimizers", "squares_kernel", "F32, 4"),
    "attention": ("attention_kernels", "forward_kernel", "BF16, 64, True, False, True"),
    "attention, gradient": ("attention_one_pass", "one_pass_kernel", "BF16, 64, True, False, True"),
}
