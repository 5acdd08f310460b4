"""Compute a transformer's layers, losses and optimizers."""
