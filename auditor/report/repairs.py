"""Repairs of a run's target, as text to print below the run."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

from rich.text import Text

from auditor.report import formatting

MAX_SHOWN = 10
"""Repairs shown of a run: the newest."""


def text(repairs: Sequence[Mapping[str, Any]]) -> Text:
    """Return one line per repair, the newest first; each is a mapping of its stored fields or an answer of the API."""
    lines = [_line(repair) for repair in repairs[:MAX_SHOWN]]
    return Text("\n").join([*lines, *([Text("  and older ones", "dim")] if len(repairs) > MAX_SHOWN else [])])


def _line(repair: Mapping[str, Any]) -> Text:
    at = repair["recorded_at"]
    at = at if isinstance(at, dt.datetime) else dt.datetime.fromisoformat(at)
    rows = "" if repair["rows"] is None else f", {formatting.rows(repair['rows'])}"
    by = repair["recorded_by"] or "an unknown person"
    line = f"repair ({repair['kind']}{rows}), recorded by {by} on {formatting.moment(at)}: {repair['note']}"
    return Text(f"  {formatting.sentence(line)}")
