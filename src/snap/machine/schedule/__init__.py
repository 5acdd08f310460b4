"""Run warps in an order drawn from a seed, and find races and deadlocks."""
