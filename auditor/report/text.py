"""A report, and a plan, for a person at a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from auditor.expectation import exact_load, expected
from auditor.model import SIDES, Comparison, Differences, Divergent, Measure, Plan, Report, Verdict
from auditor.report import plain
from auditor.report.shown import shown, shown_plan

SHOWN = 20
"""Divergent partitions that are shown; the JSON has more."""

COLOURS = {Verdict.MATCH: "green", Verdict.MISMATCH: "red", Verdict.UNKNOWN: "yellow"}


def report(found: Report, verbose: bool = False) -> RenderableType:
    """One run of one audit."""
    found = shown(found)
    head = Text.assemble((f"{found.verdict.value.upper()}", f"bold {COLOURS[found.verdict]}"), f"  {plain.visible(found.audit)}")
    head.append(f"  ({found.state.value}, {found.seconds:.2f} s)", "dim")
    parts: list[RenderableType] = [head, *(_line(reason) for reason in found.reasons)]
    if found.resumable:
        parts.append(_line(plain.go_on(found), "bold"))
    parts += [_line(f"schema changed: {change}", "yellow") for change in found.schema_changes]
    if found.comparison:
        parts.append(_figures(found, found.comparison))
        if found.measures:
            parts.append(_measures(found.measures))
        if found.differences and found.comparison.divergent:
            parts.append(_differences(found.differences))
        if found.comparison.divergent and _tells_partitions(found, verbose):
            parts.append(_divergent(found.comparison))
    parts += [_line(f"before it, {plain.step(one)}", "dim") for one in found.steps]
    if found.plan:
        parts += [_line(f"cannot see: {sentence}", "yellow") for sentence in found.plan.lossy]
    parts += [_line(note, "dim") for note in plain.notes(found)]
    if verbose:
        parts += [_line(line, "dim") for line in _costs(found)]
        parts += [_line(note, "dim") for note in (found.plan.notes if found.plan else ())]
        parts += [_line(f"left out: {name}", "dim") for name in (found.plan.left_out if found.plan else ())]
    return Group(*parts)


def _tells_partitions(found: Report, verbose: bool) -> bool:
    """Whether the partitions tell more than what was named, or measured, of them."""
    return verbose or not ((found.differences and found.differences.exact) or found.measures)


def _line(text: str, style: str = "") -> Text:
    return Text(f"  {plain.sentence(text)}", style)


def _figures(report: Report, found: Comparison) -> RenderableType:
    table = Table.grid(padding=(0, 2))
    if report.jaccard:
        table.add_row("  similarity", f"{plain.similarity(report.jaccard)} of {plain.meant(report)} are in both tables")
    if found.published:
        score = found.published
        table.add_row("  published score", f"{score.value:.6g} in [{score.lower:.6g}, {score.upper:.6g}] over partitions")
    table.add_row("  rows", f"{found.rows['source']:,} in the source, {found.rows['target']:,} in the target")
    sided = f", {found.source_only:,} in the source only, {found.target_only:,} in the target only"
    table.add_row("  partitions", f"{found.equal:,} of {found.total:,} equal, {found.unequal:,} differ{sided if found.unequal else ''}")
    if found.skipped or report.covered < 1 or report.section:
        skipped = f"; {found.skipped:,} partitions could not be compared" if found.skipped else ""
        table.add_row("  coverage", f"{plain.percent(report.coverage['rows'])} of {plain.meant(report)}{skipped}")
    if report.differences and (told := plain.apart(report.differences)):
        table.add_row("  not counted", told)
    if report.plan and report.plan.watermark:
        table.add_row("  watermark", Text(f"{plain.visible(report.plan.watermark)} UTC: younger rows were left out on both sides"))
    if report.verified_through:
        table.add_row("  verified", f"everything up to {plain.moment(report.verified_through)}")
    if report.as_of:
        table.add_row("  dump", f"as of {plain.moment(report.as_of)}")
    if told := plain.snapshot(report):
        table.add_row("  snapshot", told)
    return table


def _differences(found: Differences) -> RenderableType:
    """Ranges, then named rows, then how many more there are."""
    table = Table(box=None, padding=(0, 2), header_style="dim")
    for name in ("  difference", "key", "column", "in the source", "in the target"):
        table.add_column(name, overflow="fold")
    for span in found.ranges[:SHOWN]:
        sides = (f"{span.rows:,} rows more", "")
        kind = span.kind + (", unsettled" if span.state == "unsettled" else "")
        table.add_row(f"  {kind}", Text(plain.visible(span.label)), "", *(sides if span.kind == "missing" else sides[::-1]))
    for one in found.named[:SHOWN]:
        key = Text(plain.key(one.key))
        kind = one.kind + (", unsettled" if one.state == "unsettled" else "")
        over = [f"{count:,} more" if (count := one.rows[side]) and one.kind != "changed" else "" for side in SIDES]
        cells = [(Text(plain.visible(c.name)), _value(c.source), _value(c.target)) for c in one.columns]
        for index, (column, mine, other) in enumerate(cells or [(Text(""), Text(over[0]), Text(over[1]))]):
            table.add_row(f"  {kind}" if index == 0 else "", key if index == 0 else "", column, mine, other)
    more = len(found.named) - SHOWN
    if more > 0:
        table.add_row(Text(f"  and {more:,} more", "dim"))
    return table


def _value(text: str | None) -> Text:
    """A value as it is told apart: NULL is not the word NULL, and blanks show."""
    return Text("NULL", "dim italic") if text is None else Text(plain.value(text))


def _measures(found: tuple[Measure, ...]) -> RenderableType:
    table = Table(box=None, padding=(0, 2), header_style="dim")
    for name in ("  measure", "of", "in the source", "in the target", "deviation", ""):
        table.add_column(name, overflow="fold", justify="right" if name == "deviation" else "left")
    # What is not allowed first, for it is what decided.
    for one in sorted(found, key=lambda one: one.allowed)[:SHOWN]:
        deviation = "" if one.deviation is None else plain.deviation(one.deviation)
        table.add_row(
            Text(f"  {plain.visible(one.name)}"),
            Text(plain.visible(one.label)),
            _value(one.source),
            _value(one.target),
            deviation,
            Text("allowed", "dim") if one.allowed else "",
        )
    if len(found) > SHOWN:
        table.add_row(Text(f"  and {len(found) - SHOWN:,} more", "dim"))
    return table


def _divergent(found: Comparison) -> RenderableType:
    table = Table(box=None, padding=(0, 2), header_style="dim")
    table.add_column("  partition")
    for name in ("rows in source", "rows in target", "similarity"):
        table.add_column(name, justify="right")
    for one in found.divergent[:SHOWN]:
        table.add_row(Text(f"  {_where(one)}"), f"{one.rows['source']:,}", f"{one.rows['target']:,}", _similarity(one))
        for measure in one.measures:
            table.add_row(Text(f"    {plain.visible(measure)}", "dim"))
    if found.unequal > SHOWN:
        table.add_row(Text(f"  and {found.unequal - SHOWN:,} more", "dim"))
    return table


def _where(one: Divergent) -> str:
    keys = f" (keys {one.key_range[0]} to {one.key_range[1]})" if one.key_range and "keys" not in one.label else ""
    return plain.visible(one.label) + keys


def _similarity(one: Divergent) -> str:
    return "" if one.similarity is None else f"{one.similarity:.4g}"


def _costs(found: Report) -> Iterator[str]:
    partitions = found.comparison.total if found.comparison else 0
    for side in SIDES:
        if cost := found.cost.get(side):
            each = f", {cost.scan_bytes / partitions:,.0f} bytes a partition" if partitions else ""
            yield (
                f"{side} ({found.servers.get(side, '')}): {cost.statements} statements, {cost.bytes:,} bytes received,"
                f" {cost.scan_bytes:,} of them summaries{each}, {cost.seconds:.2f} s"
            )


def plan(found: Plan) -> RenderableType:
    """How an audit will run: its strategy, and per column the kinds."""
    table = Table(box=None, padding=(0, 2), header_style="dim")
    for name in ("  column", "source type", "target type", "compared as", "why"):
        table.add_column(name, overflow="fold")
    for index, column in enumerate(found.columns):
        why = column.why + (f"; {column.lossy}" if column.lossy else "")
        name = f"  {column.name}{' (key)' if index < found.key else ''}"
        # Text, because a string would be read as markup, and types have brackets.
        cells = (name, column.types["source"], column.types["target"], str(column.kind), why)
        table.add_row(*(Text(plain.visible(cell)) for cell in cells))
    how = shown_plan(found).partitioning
    k = ", ".join(f"{name} = {value}" for name, value in (("k", found.k), ("t", found.t)) if value)
    k = f" with {k}" if k else ""
    load = exact_load(found)
    costs = {side: expected(found, side) for side in SIDES}
    lines = [
        f"method {found.method}{k}, {found.hash} of the {found.encoding} row text",
        f"partitions: {how} ({how.why})",
        *(f"{side}: {found.sides[side].label}, about {found.sides[side].estimate:,} rows" for side in SIDES),
        *(f"{side} is expected to send {cost.bytes:,} bytes in {cost.statements:,} statements" for side, cost in costs.items()),
        *([f"names every difference from one scan up to {load:,.0f} scattered ones in a million rows"] if load else []),
        *([f"watermark: rows from {found.watermark} UTC on are left out on both sides"] if found.watermark else []),
        *(f"left out: {name}" for name in found.left_out),
        *(f"note: {note}" for note in found.notes),
    ]
    return Group(Text(plain.visible(found.audit), "bold"), *(_line(line) for line in lines), table)
