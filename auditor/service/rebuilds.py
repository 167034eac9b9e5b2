"""Rebuild a table of a pipeline as it stood at a position of its stream."""

from __future__ import annotations

from pathlib import Path

from auditor.api_models.pipeline import RebuiltTable
from auditor.config import Settings
from auditor.errors import ConfigError, NotStaged
from auditor.pipeline.events import Position
from auditor.pipeline.folders import folder_at
from auditor.pipeline.poison import place_of, skipped_line
from auditor.pipeline.rebuild import outputs
from auditor.pipeline.rebuild.history import History, Stage
from auditor.pipeline.rebuild.scratch import Scratch, rebuild_scratch
from auditor.pipeline.stream_positions import is_place, parse_position, parse_time, place_in_stream, position_at, staged_through
from auditor.service.pipeline_status import match_tables
from auditor.store import Store


def rebuild(
    settings: Settings,
    config_file: Path,
    store: Store,
    name: str,
    table: str,
    at: str,
    *,
    output: Path | None = None,
    into: tuple[str, str] | None = None,
    apply: bool = True,
) -> RebuiltTable:
    """Write a table as it stood at a position, ``FILE:POS``, or a time, into a file, or ``into`` a connection as ``SCHEMA.TABLE``.

    Without ``apply``, nothing is written into a connection, and `RebuiltTable.written` is empty.
    Of a time, all transactions count that stand in the log before the table's first one that was committed later. Raises UnknownPipeline,
    ConfigError for what is there already, NotStaged, RebuildRefused where its rows are not all known, NoKey, ColumnRefused, ValueRefused
    and AuditorError.
    """
    pipeline = settings.pipeline(name)
    found = match_tables(settings, store, name, [table])
    if len(found) > 1:
        raise ConfigError(f"{table!r} is {' or '.join(found)}; write one of them")
    [full_name] = found
    if output is not None:
        outputs.check_file(output)
    place = _place_of(settings, into)
    position = _find_position(store, name, pipeline.staging.path, full_name, at)
    stages = History(store, name, pipeline).find_stages(full_name, position)
    with rebuild_scratch(store, name, str(config_file.resolve()), pipeline.staging.path, stages) as scratch:
        if into and not apply:
            rows, written = outputs.count_rows(scratch), ""
        elif into and place:
            rows = outputs.write_table(scratch, into[0], settings.connections[into[0]], place, position)
            written = f"{into[0]}: {into[1]}"
        else:
            assert output is not None
            about = {"auditor_pipeline": name, "auditor_table": full_name, "auditor_position": place_in_stream(store, name, position)}
            rows, written = outputs.write_parquet(scratch, output, about), str(output)
        return _describe(store, name, stages, scratch, position, rows, written)


def _place_of(settings: Settings, into: tuple[str, str] | None) -> tuple[str, str] | None:
    """Return the schema and the name of the table into which a table is rebuilt, which there is not yet; None if it is a file."""
    if into is None:
        return None
    connection, table = into
    chosen = settings.connection(connection)
    schema, _, short = table.partition(".")
    if not schema or not short:
        raise ConfigError(f"{table!r} is no place for a table; write its schema, too (the database of MySQL), as scratch.orders")
    outputs.check_table(connection, chosen, (schema, short))
    return schema, short


def _find_position(store: Store, name: str, root: str, table: str, at: str) -> int:
    """Return the position that a text names. Raises ConfigError, and NotStaged if the stream has not come so far yet."""
    if not is_place(at):
        return position_at(store, name, folder_at(root), table, parse_time(at))
    position, reached = parse_position(store, name, at), staged_through(store, name)
    if position > reached:
        until = place_in_stream(store, name, reached) if reached else "nothing yet"
        raise NotStaged(f"pipeline {name} has staged its source's log up to {until}, and {at} is behind that; try again once it has")
    return position


def _describe(store: Store, name: str, stages: list[Stage], scratch: Scratch, position: int, rows: int, written: str) -> RebuiltTable:
    first = stages[0].beginning
    assert first.by != "rename"
    warnings = [
        f"{note.table}: {skipped_line(note.events, place_of(note))} by {note.skip.by}: {note.skip.reason}"
        for note in scratch.left_out
        if note.skip
    ]
    if Position.unpack(first.start).epoch != Position.unpack(position).epoch:
        warnings.append(
            "the pipeline failed over between the beginning of what was read and this position; rows may be missing if that was with"
            " --accept-gap"
        )
    return RebuiltTable(
        pipeline=name,
        table=stages[-1].table,
        place=place_in_stream(store, name, position),
        begins=first.by,
        since=place_in_stream(store, name, first.start),
        names=[stage.table for stage in stages],
        events=scratch.events,
        rows=rows,
        written=written,
        warnings=warnings,
    )
