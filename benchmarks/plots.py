"""Dot plots of the results, as SVG files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

COLOURS = ("#c2410c", "#1d4ed8", "#0f766e", "#7e22ce", "#a16207", "#475569")
MARKERS = ("o", "s", "^", "D", "v", "P")

STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",  # text stays text: smaller files, and the reader's fonts
    "svg.hashsalt": "auditor",  # equal data give equal files
    "font.size": 9,
}


def write_dot_plot(path: Path, title: str, unit: str, rows: Mapping[str, Mapping[str, float]]) -> None:
    """Write an SVG with one line per row and one dot per series on a logarithmic axis; nothing if there is no positive value.

    ``rows`` maps a row's label to values by series name; ``unit`` labels the axis.
    """
    if not any(value > 0 for row in rows.values() for value in row.values()):
        return
    import matplotlib  # which only measuring needs, and tests of the rest do not
    from matplotlib.figure import Figure
    from matplotlib.ticker import EngFormatter

    labels = list(rows)
    series = list(dict.fromkeys(name for row in rows.values() for name in row))
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(8, 1.5 + 0.3 * len(labels)), layout="constrained")
        axes = figure.add_subplot()
        for index, name in enumerate(series):
            points = [(row[name], line) for line, row in enumerate(rows.values()) if row.get(name, 0) > 0]
            colour, marker = COLOURS[index % len(COLOURS)], MARKERS[index % len(MARKERS)]
            axes.plot([x for x, _ in points], [y for _, y in points], marker, color=colour, alpha=0.8, label=name)
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(EngFormatter())
        axes.set_xlabel(unit)
        axes.set_yticks(range(len(labels)), labels)
        axes.set_ylim(len(labels) - 0.5, -0.5)  # the first row on top
        axes.grid(color="#e0e0e0")
        axes.set_axisbelow(True)
        figure.suptitle(title, fontweight="bold")
        figure.legend(loc="outside lower center", ncols=len(series), frameon=False)
        figure.savefig(path, format="svg", metadata={"Date": None})
