"""Draws the loss of a million records against CPU time, from the table of `tests.bench.kanon_curve million`.

Run: python -m tests.bench.kanon_picture TABLE.md PICTURE.svg
"""

import sys
from pathlib import Path

WIDTH, HEIGHT, LEFT, TOP, ACROSS, DOWN = 640, 360, 70, 30, 540, 260


def points(table: Path) -> list[tuple[str, float, float]]:
    """Method, CPU seconds, loss."""
    found = []
    for line in table.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 5 and cells[0].startswith("`"):
            found.append((cells[0].strip("`"), float(cells[4]), float(cells[2])))
    return found


def main() -> int:
    table, picture = Path(sys.argv[1]), Path(sys.argv[2])
    found = points(table)
    right = max(10 * (int(max(seconds for _, seconds, _ in found)) // 10 + 1), 10)
    top = 0.02 * (int(max(loss for *_, loss in found) / 0.02) + 1)

    def at(seconds: float, loss: float) -> tuple[float, float]:
        return LEFT + seconds / right * ACROSS, TOP + (1 - loss / top) * DOWN

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        'font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<rect x="{LEFT}" y="{TOP}" width="{ACROSS}" height="{DOWN}" fill="none" stroke="#888"/>',
    ]
    for step in range(round(top / 0.02) + 1):
        x, y = at(0, 0.02 * step)
        parts.append(f'<line x1="{LEFT}" x2="{LEFT + ACROSS}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{x - 6:.1f}" y="{y + 4:.1f}" text-anchor="end">{0.02 * step:.2f}</text>')
    for tick in range(0, right + 1, 10 if right <= 100 else 20):
        x, y = at(tick, 0)
        parts.append(f'<text x="{x:.1f}" y="{y + 16:.1f}" text-anchor="middle">{tick}</text>')
    curve = " ".join("{:.1f},{:.1f}".format(*at(seconds, loss)) for name, seconds, loss in found if name == "auto")
    parts.append(f'<polyline points="{curve}" fill="none" stroke="#1d5fb5" stroke-width="2"/>')
    for name, seconds, loss in found:
        x, y = at(seconds, loss)
        colour = "#1d5fb5" if name == "auto" else "#b5651d"
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>')
        if name != "auto":
            parts.append(f'<text x="{x + 8:.1f}" y="{y + 4:.1f}" fill="{colour}">{name}</text>')
    parts.append(f'<text x="{LEFT}" y="{HEIGHT - 16}" fill="#1d5fb5">auto</text>')
    parts.append(
        f'<text x="{WIDTH - 20}" y="{HEIGHT - 16}" text-anchor="end">information loss by CPU seconds</text></svg>'
    )
    picture.write_text("\n".join(parts) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
