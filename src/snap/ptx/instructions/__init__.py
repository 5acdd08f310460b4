"""Execute the instructions of PTX."""
