"""Call the CUDA driver: contexts, loaded kernels, tensor maps, and memory that launches share."""
