"""Read and write PTX, and check operands as ptxas does."""
