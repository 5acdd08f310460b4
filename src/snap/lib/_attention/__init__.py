"""Compute attention and its gradients."""
