"""From generated CUDA to a running kernel: compile (NVRTC), cache, validate arguments, launch on the GPU or hand over
to the CPU machine.

Nothing here is imported by `import snap`; no GPU package is imported before it is needed.
"""
