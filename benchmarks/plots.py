"""Small drawings of the results, as SVG written by hand."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from xml.sax.saxutils import escape

COLOURS = ("#c2410c", "#1d4ed8", "#0f766e", "#7e22ce", "#a16207", "#475569")
LEFT, WIDTH, ROW, TOP = 240, 480, 26, 58


def dots(title: str, unit: str, rows: Mapping[str, Mapping[str, float]]) -> str:
    """A dot for each tool in each row, on a logarithmic axis."""
    names = list(dict.fromkeys(name for row in rows.values() for name in row))
    values = [value for row in rows.values() for value in row.values() if value > 0]
    if not values:
        return ""
    low, high = math.floor(math.log10(min(values))), max(math.ceil(math.log10(max(values))), math.floor(math.log10(min(values))) + 1)

    def x(value: float) -> float:
        return LEFT + WIDTH * (math.log10(max(value, 10**low)) - low) / (high - low)

    bottom = TOP + ROW * len(rows)
    parts = [_text(8, 18, title, bold=True)]
    across = LEFT
    for index, name in enumerate(names):
        parts.append(f'<circle cx="{across}" cy="36" r="4.5" fill="{COLOURS[index % len(COLOURS)]}"/>')
        parts.append(_text(across + 8, 40, name))
        across += 24 + 7 * len(name)
    for power in range(low, high + 1):
        at = x(10.0**power)
        parts.append(f'<line x1="{at:.1f}" y1="{TOP - 6}" x2="{at:.1f}" y2="{bottom}" stroke="#d4d4d4"/>')
        parts.append(_text(at, bottom + 16, _short(10.0**power), middle=True))
    parts.append(_text(LEFT + WIDTH / 2, bottom + 34, unit, middle=True))
    for line, (label, row) in enumerate(rows.items()):
        y = TOP + ROW * line + ROW / 2
        parts.append(_text(8, y + 4, label))
        parts.append(f'<line x1="{LEFT}" y1="{y}" x2="{LEFT + WIDTH}" y2="{y}" stroke="#ececec"/>')
        for name, value in row.items():
            colour = COLOURS[names.index(name) % len(COLOURS)]
            told = escape(f"{name}: {value:,.3g} {unit}")
            parts.append(f'<circle cx="{x(value):.1f}" cy="{y}" r="5.5" fill="{colour}"><title>{told}</title></circle>')
    return _page(max(LEFT + WIDTH + 40, across), bottom + 46, parts)


def _short(value: float) -> str:
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g} {letter}"
    return f"{value:g}"


def _text(x: float, y: float, text: str, *, bold: bool = False, middle: bool = False) -> str:
    style = (' font-weight="bold"' if bold else "") + (' text-anchor="middle"' if middle else "")
    return f'<text x="{x:.1f}" y="{y:.1f}"{style}>{escape(text)}</text>'


def _page(width: float, height: float, parts: Sequence[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" font-family="sans-serif" font-size="12">'
    return "\n".join([head, '<rect width="100%" height="100%" fill="white"/>', *parts, "</svg>", ""])
