"""Repairs of a run's target, as text to print below the run."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from auditor.report import formatting
from auditor.shapes.patch import Patch
from auditor.shapes.repair import Repair

MAX_SHOWN = 10
"""Repairs shown of a run: the newest."""


def text(repairs: Sequence[Repair]) -> Text:
    """Return one line per repair, the newest first."""
    lines = [_line(repair) for repair in repairs[:MAX_SHOWN]]
    return Text("\n").join([*lines, *([Text("  and older ones", "dim")] if len(repairs) > MAX_SHOWN else [])])


def _line(repair: Repair) -> Text:
    rows = "" if repair.rows is None else f", {formatting.rows(repair.rows)}"
    by = repair.recorded_by or "an unknown person"
    line = f"repair ({repair.kind}{rows}), recorded by {by} on {formatting.moment(repair.recorded_at)}: {repair.note}"
    return Text(f"  {formatting.sentence(line)}")


WRITTEN = ("updated", "inserted", "deleted", "left", "taken back", "equal")
"""What became of a patch's rows, in the order in which they are listed."""


def patches(applied: Sequence[Patch]) -> Text:
    """Return one line per patch, the oldest first."""
    return Text("\n").join(_patch_line(patch) for patch in applied)


def _patch_line(patch: Patch) -> Text:
    rows = ", ".join(f"{patch.counts[name]:,} {name}" for name in WRITTEN if patch.counts[name]) or "nothing written"
    name = f"{'undo' if patch.undoes else 'patch'} {patch.patch[:12]}"
    what = f"{name} of patch {patch.undoes[:12]}" if patch.undoes else name
    after = f"; run {patch.after_run[:12]} checked its rows" if patch.after_run else ""
    why = f"; {patch.why}" if patch.why else ""
    line = f"{what}, begun on {formatting.moment(patch.at)}, {patch.state}: {rows}{after}{why}"
    return Text(f"  {formatting.sentence(line)}")


def reason(text: str) -> Text:
    """Return the line that says why a run was asked for."""
    return Text(f"  {formatting.sentence(f'reason: {text}')}")
