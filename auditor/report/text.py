"""The report of a run, and a plan, as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from auditor.model import SIDES, ColumnDifference, Comparison, Differences, Divergent, Measure, Plan, Report, Verdict
from auditor.planning.cost import estimate_cost, max_decodable_per_million
from auditor.report import formatting, live
from auditor.report.redact import redact, redact_plan

MAX_ROWS = 20
"""Rows shown of each table; the JSON has more."""

COLOURS = {Verdict.MATCH: "green", Verdict.MISMATCH: "red", Verdict.UNKNOWN: "yellow"}


def report(report: Report, verbose: bool = False) -> RenderableType:
    """Return the report of a run; ``verbose`` adds costs, the plan's notes and always the partition table."""
    report = redact(report)
    head = Text.assemble((f"{report.verdict.value.upper()}", f"bold {COLOURS[report.verdict]}"), f"  {formatting.visible(report.audit)}")
    head.append(f"  ({report.state.value}, {report.seconds:.2f} s)", "dim")
    if report.within_threshold:
        head.append("  within the threshold", "green")
    parts: list[RenderableType] = [head]
    if report.other_settings:
        parts.append(_line(formatting.one_off(report.other_settings), "bold yellow"))
    if report.reason:
        parts.append(_line(f"asked for: {report.reason}"))
    parts += [_line(reason) for reason in report.reasons]
    if report.resumable:
        parts.append(_line(formatting.resume_hint(report), "bold"))
    parts += [_line(f"schema changed: {change}", "yellow") for change in report.schema_changes]
    if report.comparison:
        parts.append(_figures(report, report.comparison))
        parts += [_line(line, "bold yellow") for line in (live.lost(report.live) if report.live else ())]
        parts += [_line(formatting.shard(one)) for one in report.shards]
        if report.measures:
            parts.append(_measures(report.measures))
        if report.differences is not None and report.comparison.divergent:
            parts.append(_differences(report.differences))
        if report.comparison.divergent and _shows_partitions(report, verbose):
            parts.append(_partitions(report.comparison))
    parts += [
        _line(line, "" if index else "bold") for index, line in enumerate(formatting.remedies(report.advice) if report.advice else ())
    ]
    parts += [_line(f"tried before: {formatting.step(step)}", "dim") for step in report.steps]
    if report.plan:
        parts += [_line(f"not compared: {one}", "yellow") for one in report.plan.not_compared]
    parts += [_line(note, "dim") for note in formatting.notes(report)]
    if verbose:
        parts += [_line(line, "dim") for line in _costs(report)]
        parts += [_line(note, "dim") for note in (report.plan.notes if report.plan else ())]
    return Group(*parts)


def _shows_partitions(report: Report, verbose: bool) -> bool:
    """Return whether to list the divergent partitions: they add nothing if every row was named, or if there are measures."""
    return verbose or not ((report.differences is not None and report.differences.exact) or report.measures)


def _line(text: str, style: str = "") -> Text:
    return Text(f"  {formatting.sentence(text)}", style)


def _figures(report: Report, comparison: Comparison) -> RenderableType:
    table = Table.grid(padding=(0, 2))
    if report.jaccard:
        table.add_row("  similarity", f"{formatting.similarity(report.jaccard)} of {formatting.scope(report)} are in both tables")
    if comparison.published:
        score = comparison.published
        table.add_row("  published score", f"{score.value:.6g} in [{score.lower:.6g}, {score.upper:.6g}] over partitions")
    table.add_row("  rows", f"{comparison.rows['source']:,} in the source, {comparison.rows['target']:,} in the target")
    one_sided = f", {comparison.source_only:,} in the source only, {comparison.target_only:,} in the target only"
    equal = f"{comparison.equal:,} of {comparison.total:,} equal, {comparison.unequal:,} differ"
    table.add_row("  partitions", f"{equal}{one_sided if comparison.unequal else ''}")
    if comparison.skipped or report.covered < 1 or report.slice:
        skipped = f"; {comparison.skipped:,} partitions could not be compared" if comparison.skipped else ""
        table.add_row("  coverage", f"{formatting.percent(report.coverage['rows'])} of {formatting.scope(report)}{skipped}")
    if report.differences is not None and (not_counted := formatting.not_counted(report.differences)):
        table.add_row("  not counted", not_counted)
    if report.plan and report.plan.watermark:
        table.add_row("  watermark", Text(f"{formatting.visible(report.plan.watermark)} UTC; younger rows were left out on both sides"))
    if report.verified_through:
        table.add_row("  verified", f"everything up to {formatting.moment(report.verified_through)}")
    if report.within_threshold_through:
        table.add_row("  within threshold", f"everything up to {formatting.moment(report.within_threshold_through)}")
    if found := formatting.aligned(report):
        table.add_row(f"  {found[0]}", Text(found[1]))
    for name, text in live.lines(report):
        table.add_row(f"  {name}", Text(text))
    if report.as_of:
        table.add_row("  dump", f"as of {formatting.moment(report.as_of)}")
    if note := formatting.snapshot_note(report):
        table.add_row("  snapshot", note)
    return table


def _differences(differences: Differences) -> RenderableType:
    """Return a table of the ranges, then of the named rows."""
    table = Table(box=None, padding=(0, 2), header_style="dim")
    for name in ("  difference", "key", "column", "in the source", "in the target"):
        table.add_column(name, overflow="fold")
    for span in differences.ranges[:MAX_ROWS]:
        sides = (f"{formatting.rows(span.rows)} more", "")
        table.add_row(
            Text(f"  {formatting.kind(span)}"),
            Text(formatting.visible(span.label)),
            "",
            *(sides if span.kind == "missing" else sides[::-1]),
        )
    for row in formatting.examples(differences.named, MAX_ROWS):
        key = Text(formatting.key(row.key))
        kind = Text(f"  {formatting.kind(row)}")
        surplus = [f"{formatting.rows(count)} more" if (count := row.rows[side]) and row.kind != "changed" else "" for side in SIDES]
        cells = [(Text(formatting.visible(formatting.column_name(c))), *_values(c)) for c in row.columns]
        for index, (column, source, target) in enumerate(cells or [(Text(""), Text(surplus[0]), Text(surplus[1]))]):
            table.add_row(kind if index == 0 else "", key if index == 0 else "", column, source, target)
    more = formatting.more(differences, MAX_ROWS)
    return Group(table, _line(f"and {more}", "dim")) if more else table


def _values(column: ColumnDifference) -> Iterator[Text]:
    return map(_value, formatting.sides(column.source, column.target, column.reason))


def _value(text: str | None) -> Text:
    """Return a value as a cell: NULL in another style than the text NULL."""
    return Text("NULL", "dim italic") if text is None else Text(formatting.value(text))


def _measures(measures: tuple[Measure, ...]) -> RenderableType:
    table = Table(box=None, padding=(0, 2), header_style="dim")
    for name in ("  measure", "of", "in the source", "in the target", "deviation", ""):
        table.add_column(name, overflow="fold", justify="right" if name == "deviation" else "left")
    # Those that are not allowed first, because they decided the verdict.
    for measure in sorted(measures, key=lambda measure: measure.allowed)[:MAX_ROWS]:
        deviation = "" if measure.deviation is None else formatting.deviation(measure.deviation)
        table.add_row(
            Text(f"  {formatting.visible(measure.name)}"),
            Text(formatting.visible(measure.label)),
            _value(measure.source),
            _value(measure.target),
            deviation,
            Text("allowed", "dim") if measure.allowed else "",
        )
    if len(measures) > MAX_ROWS:
        table.add_row(Text(f"  and {len(measures) - MAX_ROWS:,} more", "dim"))
    return table


def _partitions(comparison: Comparison) -> RenderableType:
    table = Table(box=None, padding=(0, 2), header_style="dim")
    table.add_column("  partition")
    for name in ("rows in source", "rows in target", "similarity"):
        table.add_column(name, justify="right")
    for partition in comparison.divergent[:MAX_ROWS]:
        rows = (f"{partition.rows[side]:,}" for side in SIDES)
        table.add_row(Text(f"  {_partition_label(partition)}"), *rows, _similarity(partition))
        for measure in partition.measures:
            table.add_row(Text(f"    {formatting.visible(measure)}", "dim"))
    if comparison.unequal > MAX_ROWS:
        table.add_row(Text(f"  and {comparison.unequal - MAX_ROWS:,} more", "dim"))
    return table


def _partition_label(partition: Divergent) -> str:
    keys = ""
    if partition.key_range and "keys" not in partition.label:
        keys = f" (keys {partition.key_range[0]} to {partition.key_range[1]})"
    return formatting.visible(partition.label) + keys


def _similarity(one: Divergent) -> str:
    return "" if one.similarity is None else f"{one.similarity:.4g}"


def _costs(report: Report) -> Iterator[str]:
    partitions = report.comparison.total if report.comparison else 0
    for side in SIDES:
        if cost := report.cost.get(side):
            average = f", {cost.scan_bytes / partitions:,.0f} bytes a partition" if partitions else ""
            yield (
                f"{side} ({report.servers.get(side, '')}): {cost.statements} statements, {cost.bytes:,} bytes received,"
                f" of which {cost.scan_bytes:,} are summaries{average}, {cost.seconds:.2f} s"
            )
            if here := cost.server:
                yield (
                    f"{side}, as the server recorded it: {here.statements} statements took {here.elapsed:.2f} s,"
                    f" of which {here.queued:.2f} s in queues and {here.executing:.2f} s being executed"
                )


def plan(plan: Plan) -> RenderableType:
    """Return a plan: the method, the partitioning, the expected cost, and how each column is compared."""
    table = Table(box=None, padding=(0, 2), header_style="dim")
    for name in ("  column", "source type", "target type", "compared as", "why"):
        table.add_column(name, overflow="fold")
    for index, column in enumerate(plan.columns):
        name = f"  {column.name}{' (key)' if index < plan.key else ''}{' (masked)' if column.masked else ''}"
        # Text, because a string would be read as markup, and types have brackets.
        cells = (name, column.types["source"], column.types["target"], str(column.kind), column.why)
        table.add_row(*(Text(formatting.visible(cell)) for cell in cells))
    partitioning = redact_plan(plan).partitioning
    sizes = ", ".join(f"{name} = {value}" for name, value in (("k", plan.k), ("t", plan.t)) if value)
    sizes = f" with {sizes}" if sizes else ""
    load = max_decodable_per_million(plan)
    costs = {side: estimate_cost(plan, side) for side in plan.read_sides}
    lines = [
        f"method {plan.method}{sizes}, {plan.hash} of the {plan.encoding} row text",
        f"partitions: {partitioning} ({partitioning.why})",
        f"pre-scan: {plan.prescan or 'decided by the last runs when the audit runs'}",
        *(f"{side}: {here.label}, about {here.estimate:,} rows" for side in plan.read_sides if (here := plan.sides[side])),
        *(f"{side} is expected to send {cost.bytes:,} bytes in {cost.statements:,} statements" for side, cost in costs.items()),
        *([f"one scan names every difference, up to {load:,.0f} scattered ones in a million rows"] if load else []),
        *([f"watermark: rows from {plan.watermark} UTC on are left out on both sides"] if plan.watermark else []),
        *(f"not compared: {one}" for one in plan.not_compared),
        *(f"note: {note}" for note in plan.notes),
    ]
    return Group(Text(formatting.visible(plan.audit), "bold"), *(_line(line) for line in lines), table)
