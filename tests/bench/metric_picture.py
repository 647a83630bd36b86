"""Draws the table of `tests.bench.metric --part loss` as a picture like the paper's Figure 7.

Run: python -m tests.bench.metric_picture TABLE.md PICTURE.svg
"""

import math
import sys
from collections import defaultdict
from pathlib import Path

WIDTH, HEIGHT, LEFT, TOP, ACROSS, DOWN = 860, 640, 60, 36, 340, 230
COLOURS = {"exponential": "#b5651d", "columns": "#1d5fb5"}


def curves(table: Path) -> dict[str, dict[str, list[tuple[float, float]]]]:
    """For each kind of data the loss of both methods by epsilon."""
    found: dict[str, dict[str, list[tuple[float, float]]]] = defaultdict(lambda: defaultdict(list))
    for line in table.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 8 and cells[1].isdigit():
            name = f"{cells[0]}, N = {cells[1]}"
            found[name]["columns"].append((float(cells[2]), float(cells[3])))
            found[name]["exponential"].append((float(cells[2]), float(cells[5])))
    return found


def panel(name: str, lines: dict[str, list[tuple[float, float]]], x: float, y: float) -> list[str]:
    """One panel, the loss on a logarithmic scale of whole decades."""
    values = [loss for points in lines.values() for _, loss in points if loss > 0]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    epsilons = sorted({epsilon for points in lines.values() for epsilon, _ in points})

    def at(epsilon: float, loss: float) -> str:
        across = (epsilon - epsilons[0]) / (epsilons[-1] - epsilons[0])
        up = (math.log10(loss) - low) / (high - low)
        return f"{x + across * ACROSS:.1f},{y + (1 - up) * DOWN:.1f}"

    parts = [
        f'<text x="{x}" y="{y - 10}" font-weight="bold">{name}</text>',
        f'<rect x="{x}" y="{y}" width="{ACROSS}" height="{DOWN}" fill="none" stroke="#888"/>',
    ]
    for decade in range(low, high + 1):
        height = y + (high - decade) / (high - low) * DOWN
        parts.append(f'<line x1="{x}" x2="{x + ACROSS}" y1="{height:.1f}" y2="{height:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{x - 6}" y="{height + 4:.1f}" text-anchor="end">1e{decade}</text>')
    for epsilon in epsilons:
        place = at(epsilon, 10.0**low).split(",")[0]
        parts.append(f'<text x="{place}" y="{y + DOWN + 16}" text-anchor="middle">{epsilon:g}</text>')
    for method, points in lines.items():
        shown = " ".join(at(epsilon, loss) for epsilon, loss in sorted(points) if loss > 0)
        parts.append(f'<polyline points="{shown}" fill="none" stroke="{COLOURS[method]}" stroke-width="2"/>')
    return parts


def main() -> int:
    table, picture = Path(sys.argv[1]), Path(sys.argv[2])
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        'font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
    ]
    for i, (name, lines) in enumerate(curves(table).items()):
        parts += panel(name, lines, LEFT + (i % 2) * (ACROSS + 80), TOP + (i // 2) * (DOWN + 60))
    for i, (method, colour) in enumerate(COLOURS.items()):
        parts.append(f'<text x="{LEFT + i * 160}" y="{HEIGHT - 16}" fill="{colour}">{method}</text>')
    parts.append(f'<text x="{WIDTH - 20}" y="{HEIGHT - 16}" text-anchor="end">expected loss by epsilon</text></svg>')
    picture.write_text("\n".join(parts) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
