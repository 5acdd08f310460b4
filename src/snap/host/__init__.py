"""Bring generated CUDA to a running kernel, on a GPU or on the CPU machine.

Nothing here is imported by `import snap`; no GPU package is imported before it is needed.

    launch.py     one specialized kernel's launches: where each runs, and the whole way there, every check included
    compile/      CUDA text to a cubin or PTX by NVRTC, kept on disk
    arguments/    what parameters ask, what arguments are, and the checks between them
    device/       the driver: contexts, loaded kernels, tensor maps, memory that launches share
    torch/        tensors of torch: how they are read and compared, and what torch is told of writes
    plan/         launches and library calls that are made again: guards and plans, in Python and in C
    simulate.py   a launch on the PTX machine
    replaying.py  a launch that shows what a proof found
"""
