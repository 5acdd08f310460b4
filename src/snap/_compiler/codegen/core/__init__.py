"""Build the CUDA tree: modules, functions, statements, names, and the printer."""
