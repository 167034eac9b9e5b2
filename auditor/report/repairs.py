"""Repairs in text, below the run after which they were made."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

from rich.text import Text

from auditor.report import plain

SHOWN = 10
"""Repairs of a run that are shown; the newest, of which there may be more."""


def text(found: Sequence[Mapping[str, Any]]) -> Text:
    """A line for each repair, as the API tells it or as its fields are; the newest first."""
    told = [_line(one) for one in found[:SHOWN]]
    return Text("\n").join([*told, *([Text("  and older ones", "dim")] if len(found) > SHOWN else [])])


def _line(one: Mapping[str, Any]) -> Text:
    at = one["at"] if isinstance(one["at"], dt.datetime) else dt.datetime.fromisoformat(one["at"])
    rows = "" if one["rows"] is None else f", {plain.rows(one['rows'])}"
    said = f"repair ({one['kind']}{rows}), recorded by {one['who'] or 'nobody known'} on {plain.moment(at)}: {one['note']}"
    return Text(f"  {plain.sentence(said)}")
