"""Compute reductions, scans, transposes and histograms."""
