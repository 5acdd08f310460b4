"""Draw the losses as an SVG, without any library.

Input:      name -> list of (step, loss)
Output:     a file
Non-goals:  other plots
"""

from __future__ import annotations

import itertools
from pathlib import Path

WIDTH, HEIGHT, EDGE = 720, 400, 50
COLORS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#7f7f7f")  # of the lines, in turn


def curve(path: Path, losses: dict[str, list[tuple[int, float]]]) -> None:
    points = [point for line in losses.values() for point in line if point[1] == point[1]]
    if not points:
        return
    right = max(1, max(step for step, _ in points))
    low, high = min(loss for _, loss in points), max(loss for _, loss in points)
    high = max(high, low + 1e-6)

    def at(step: int, loss: float) -> str:
        x = EDGE + (WIDTH - 2 * EDGE) * step / right
        y = EDGE + (HEIGHT - 2 * EDGE) * (high - loss) / (high - low)
        return f"{x:.1f},{y:.1f}"

    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" font-family="sans-serif">']
    parts.append(f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>')
    for k in range(6):
        loss = low + (high - low) * k / 5
        x, y = at(0, loss).split(",")
        parts.append(f'<line x1="{x}" y1="{y}" x2="{WIDTH - EDGE}" y2="{y}" stroke="#ddd"/>')
        parts.append(f'<text x="{float(x) - 6}" y="{float(y) + 4}" font-size="11" text-anchor="end">{loss:.3g}</text>')
        x = at(right * k // 5, low).split(",")[0]
        parts.append(f'<text x="{x}" y="{HEIGHT - EDGE + 16}" font-size="11">{right * k // 5}</text>')
    for (name, line), color, k in zip(losses.items(), itertools.cycle(COLORS), itertools.count()):
        drawn = " ".join(at(*point) for point in line if point[1] == point[1])
        parts.append(f'<polyline points="{drawn}" fill="none" stroke="{color}" stroke-width="1.5"/>')
        parts.append(f'<text x="{WIDTH - EDGE - 150}" y="{EDGE + 16 * k}" font-size="13" fill="{color}">{name}</text>')
    path.write_text("\n".join([*parts, "</svg>"]) + "\n")
