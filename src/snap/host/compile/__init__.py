"""Turn CUDA text into a cubin or PTX, keep it on disk, and say where each line was written."""
