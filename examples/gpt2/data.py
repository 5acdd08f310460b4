"""Read text as tokens: bytes of the machine's own Python standard library, or of any file.

Input:      a path, or None; the lengths of a batch
Output:     `Text.batch(step)`: tokens and the tokens that follow them, the same for the same seed and step
Invariant:  nothing is downloaded; the last tenth is for validation, and no batch for training reads it
Non-goals:  other tokens than bytes
"""

from __future__ import annotations

import sysconfig
from pathlib import Path

import numpy as np
import torch

LIBRARY = Path(sysconfig.get_paths()["stdlib"])


def text(path: str | None, most: int = 1 << 24) -> np.ndarray:
    """Return the bytes of a file; without one, of the standard library's source texts, in the order of their names."""
    if path is not None:
        return np.frombuffer(Path(path).read_bytes(), np.uint8)
    parts, size = [], 0
    for file in sorted(LIBRARY.rglob("*.py")):
        if "site-packages" in file.parts or "test" in file.parts:
            continue
        parts.append(file.read_bytes())
        size += len(parts[-1])
        if size >= most:
            break
    return np.frombuffer(b"".join(parts)[:most], np.uint8)


class Text:
    def __init__(self, tokens: np.ndarray, batch: int, length: int, seed: int, rank: int = 0):
        self.batch_size, self.length, self.seed, self.rank = batch, length, seed, rank
        at = len(tokens) * 9 // 10
        self.training, self.validation = tokens[:at], tokens[at:]
        if min(len(self.training), len(self.validation)) <= length:
            raise SystemExit(f"the text has {len(tokens)} bytes, too few for sequences of {length}: name a longer file")

    def batch(self, step: int, validation: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
        """Return a batch, a different one in each process."""
        tokens = self.validation if validation else self.training
        random = np.random.default_rng((self.seed, step, self.rank, int(validation)))
        starts = random.integers(0, len(tokens) - self.length, self.batch_size)
        rows = np.stack([tokens[s : s + self.length + 1] for s in starts]).astype(np.int64)
        return torch.from_numpy(rows[:, :-1].copy()), torch.from_numpy(rows[:, 1:].copy())

    def on(self, device: str, step: int, validation: bool = False) -> list[torch.Tensor]:
        """Move the batch to a device; the host does not wait for the copy."""
        both = self.batch(step, validation)
        return list(both) if device == "cpu" else [x.pin_memory().to(device, non_blocking=True) for x in both]
