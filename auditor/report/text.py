"""The report of a run, and a plan, as text for a terminal. What it says is in `sentences.py`, and the reasons of a verdict in
`auditor/compare/verdict.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from auditor.masking import redact, redact_plan
from auditor.model import SIDES, ColumnDifference, Comparison, Differences, Divergent, Measure, Plan, Report, State, Verdict, side_of
from auditor.planning.cost import estimate_cost, max_decodable_per_million
from auditor.quantities import plural
from auditor.report import costs, formatting
from auditor.report.sentences import Figure, build_sentences, files_expected, name_of

MAX_ROWS = 20
"""Rows shown of each table; the JSON has more."""

NAME_WIDTH = 18
"""Columns of the names of figures, so that those of all parts stand below each other."""

METHOD_TERMS = ("partition", "published")
"""Terms of the figures that say how tables were compared, which a report leaves out where the similarity and the rows say more."""

COLOURS = {Verdict.MATCH: "green", Verdict.MISMATCH: "red", Verdict.UNKNOWN: "yellow"}


def report(report: Report, verbose: bool = False) -> RenderableType:
    """Return the report of a run; ``verbose`` adds costs, the plan's notes and always the partition table."""
    report = redact(report)
    sentences = build_sentences(report)
    parts: list[RenderableType] = [
        _head(report, sentences.headline),
        *([_line(sentences.notice, "bold yellow")] if sentences.notice else []),
        *map(_line, sentences.outcome),
    ]
    comparison = report.comparison
    if comparison and report.measures:
        parts.append(_measures(report.measures))
    if comparison and comparison.divergent and report.differences is not None:
        parts.append(_differences(report.differences))
    lists_partitions = comparison and comparison.divergent and _shows_partitions(report, verbose)
    if comparison and lists_partitions:
        parts.append(_partitions(comparison))
    parts += _figures(sentences.certainty)
    parts += _figures(sentences.set_aside, "yellow")
    parts += [_line(line, "" if index else "bold") for index, line in enumerate(sentences.next_steps)]
    explains_method = verbose or not report.jaccard
    parts += _figures([figure for figure in sentences.evidence if explains_method or figure.term not in METHOD_TERMS])
    parts += [_line(formatting.shard(shard)) for shard in report.shards]
    parts += [
        _line(line, "dim") for line in (*sentences.tried, *sentences.notes, *((*_costs(report), *sentences.details) if verbose else ()))
    ]
    return Group(*parts)


def head(report: Report) -> Text:
    """Return the first line of a report: its verdict, how many rows differ, and how long it took."""
    return _head(report, build_sentences(redact(report)).headline)


def _head(report: Report, headline: str) -> Text:
    head = Text.assemble((report.verdict.value.upper(), f"bold {COLOURS[report.verdict]}"), f"  {formatting.visible(report.audit)}")
    head.append(f": {headline}" if headline else "", "bold")
    state = "" if report.state is State.DONE else f"{report.state.value}, "
    return head.append(f"  ({state}{report.seconds:.2f} s)", "dim")


def _shows_partitions(report: Report, verbose: bool) -> bool:
    """Return whether to list the divergent partitions: without ``verbose`` only where nothing else says where rows differ."""
    differences = report.differences
    return verbose or not (report.measures or (differences is not None and (differences.exact or differences.named or differences.ranges)))


def _line(text: str, style: str = "") -> Text:
    return Text(f"  {formatting.sentence(text)}", style)


def _figures(figures: Sequence[Figure], style: str = "") -> list[RenderableType]:
    """Return a grid of figures; no name twice in a row."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style=style, min_width=NAME_WIDTH, no_wrap=True)
    table.add_column(style=style, overflow="fold")
    before = ""
    for figure in figures:
        table.add_row("" if figure.name == before else f"  {figure.name}", Text(str(figure)))
        before = figure.name
    return [table] if figures else []


def _differences(differences: Differences) -> RenderableType:
    """Return a table of the ranges, then of the named rows."""
    table = Table(box=None, padding=(0, 2), header_style="dim")
    for name in ("  difference", "key", "column", "in the source", "in the target"):
        table.add_column(name, overflow="fold")
    for span in differences.ranges[:MAX_ROWS]:
        sides = (formatting.only_in(span.rows, "source" if span.kind == "missing" else "target"), "")
        table.add_row(
            Text(f"  {formatting.kind(span)}"),
            Text(formatting.visible(span.label)),
            "",
            *(sides if span.kind == "missing" else sides[::-1]),
        )
    for row in formatting.examples(differences.named, MAX_ROWS):
        key = Text(formatting.key(row.key))
        kind = Text(f"  {formatting.kind(row)}")
        surplus = [formatting.only_in(count, side) if (count := row.rows[side]) and row.kind != "changed" else "" for side in SIDES]
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
        similarity = formatting.similarity(partition.similarity, partition.similarity_error)
        table.add_row(Text(f"  {_partition_label(partition)}"), *rows, similarity)
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
    yield from map(costs.spent, report.spent)


def plan_line(plan: Plan) -> Text:
    """Return a plan on one line: its method, how many columns it compares, and about how many rows the larger side has."""
    known = {side_of(side) for side in plan.read_sides if plan.sides[side].estimate is not None}
    rows = [sum(plan.sides[here].estimate or 0 for here in plan.read_sides if side_of(here) == side) for side in known]
    about = _about(max(rows, default=None))
    compared = plural(len(plan.columns), "column")
    return Text.assemble((formatting.visible(plan.audit), "bold"), f": can run (method {plan.method}, {compared}{about})")


def plan(plan: Plan) -> RenderableType:
    """Return a plan: method, tables, how each column is compared, hash, partitioning and expected cost."""
    table = Table(box=None, padding=(0, 2), header_style="dim")
    for name in ("  column", "source type", "target type", "compared as", "why"):
        table.add_column(name, overflow="fold")
    for index, column in enumerate(plan.columns):
        name = f"  {column.name}{' (key)' if index < plan.key else ''}{' (masked)' if column.masked else ''}"
        # Text, because a string would be read as markup, and types have brackets.
        cells = (name, column.types["source"], column.types["target"], str(column.kind), column.why)
        table.add_row(*(Text(formatting.visible(cell)) for cell in cells))
    lines = [
        f"method {plan.method}",
        *(f"{side}: {here.label}{_about(here.estimate)}" for side in plan.read_sides if (here := plan.sides[side])),
        *(f"{side} query: {formatting.sentence(query)}" for side, query in plan.queries.items()),
        *_how(plan),
        *([f"watermark: rows from {plan.watermark} UTC on are left out on both sides"] if plan.watermark else []),
        *(f"{name_of(levelling)}: {levelling}" for levelling in plan.not_compared),
        *(f"note: {note}" for note in plan.notes),
    ]
    return Group(Text(formatting.visible(plan.audit), "bold"), *(_line(line) for line in lines), table)


def _about(rows: int | None) -> str:
    return "" if rows is None else f", about {plural(rows, 'row')}"


def _how(plan: Plan) -> Iterator[str]:
    """Yield how rows are hashed, partitioned and read, and what that is expected to cost."""
    sizes = ", ".join(f"{name} = {value}" for name, value in (("k", plan.k), ("t", plan.t)) if value)
    published = " in the published encoding" if plan.encoding == "published" else ""
    yield f"summaries: {plan.hash} of each row's text{published}{f', {sizes}' if sizes else ''}"
    partitioning = redact_plan(plan).partitioning
    yield f"partitions: {partitioning} ({partitioning.why})"
    yield f"pre-scan: {plan.prescan or 'decided by the last runs when the audit runs'}"
    if plan.writes:
        yield f"writes: {plan.writes}"
    for side, files in plan.files.items():
        yield f"{side} files: {files_expected(files)}"
    for side in plan.read_sides:
        if side in plan.files:
            continue
        cost = estimate_cost(plan, side)
        yield f"{side}: sends about {plural(cost.bytes, 'byte')}, in {plural(cost.statements, 'statement')}"
    yield from map(costs.expected, plan.expected)
    if load := max_decodable_per_million(plan):
        yield f"one scan names every difference, up to {load:,.0f} scattered ones in a million rows"
