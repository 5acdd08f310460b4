"""Expose the library to torch as operators with gradients."""
