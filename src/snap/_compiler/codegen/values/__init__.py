"""Lower expressions: arithmetic, conversions, vectors, constant folding."""
