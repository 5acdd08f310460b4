"""Multiply matrices: bf16, fp16, fp8, tf32, f32, batched and grouped."""
