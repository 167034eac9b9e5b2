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


WRITTEN = ("updated", "inserted", "deleted", "left", "taken back", "equal")
"""What became of a patch's rows, in the order in which they are listed."""


def patches(applied: Sequence[Mapping[str, Any]]) -> Text:
    """Return one line per patch, the oldest first; each is a mapping of its stored fields."""
    return Text("\n").join(_patch_line(one) for one in applied)


def _patch_line(patch: Mapping[str, Any]) -> Text:
    detail = patch["detail"]
    rows = ", ".join(f"{detail[name]:,} {name}" for name in WRITTEN if detail.get(name)) or "nothing written"
    name = f"{'undo' if patch['undoes'] else 'patch'} {patch['patch'][:12]}"
    what = f"{name} of patch {patch['undoes'][:12]}" if patch["undoes"] else name
    after = f"; run {patch['after_run'][:12]} checked its rows" if patch["after_run"] else ""
    why = f"; {detail['why']}" if detail.get("why") else ""
    line = f"{what}, begun on {formatting.moment(patch['at'])}, {patch['state']}: {rows}{after}{why}"
    return Text(f"  {formatting.sentence(line)}")


def reason(text: str) -> Text:
    """Return the line that says why a run was asked for."""
    return Text(f"  {formatting.sentence(f'reason: {text}')}")
