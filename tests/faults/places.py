"""How faults get in elsewhere: into staged files, into the merge, into the target, and into the source's log."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq

from auditor.pipeline.binlog.ranges import Mark, as_offset
from auditor.pipeline.events import FIRST_OFFSET, Place
from auditor.pipeline.segments.writer import folder_of
from auditor.points import armed
from auditor.sql.merge import MergeStatements
from auditor.sql.shared_stage import SharedStage
from auditor.store import parts, pipelines, segments
from tests.faults.events import CHANGED, is_hit
from tests.faults.load import PROBE, PROBES, row_of
from tests.faults.world import LOOK, World
from tests.pipeline.road import PIPELINE
from tests.staged_files import Rows, read_rows, write_rows


def in_lull(inject: Callable[[World], None]) -> Callable[[World], None]:
    """Return a fault in a lull: what the load does later to a row that it lost would tell live summaries of the loss, or not, by chance."""

    def inject_in_lull(world: World) -> None:
        with world.lull():
            inject(world)

    return inject_in_lull


def edit_staged(world: World) -> None:
    """Edit a value in a staged file before it is listed."""
    world.tamper = _edit_stream
    world.strike(f"UPDATE {world.table} SET {CHANGED} WHERE id = {PROBE}")
    world.tamper = None


def edit_segment(world: World) -> None:
    """Edit a value in the file of a segment once it is listed."""
    world.strike(f"UPDATE {world.table} SET {CHANGED} WHERE id = {PROBE}")
    while not world.is_cut():
        time.sleep(LOOK)
    folder = Path(folder_of(world.pipeline).url)
    listed = segments.list_segments(world.store, PIPELINE, f"{world.database}.{world.table}")
    world.hits = sum(_edit_parquet(folder / one.path) for one in listed)


def _edit_stream(path: Path) -> bool:
    rows = read_rows(path)
    if is_edited := _edit(rows):
        write_rows(path, rows)
    return is_edited


def _edit_parquet(path: Path) -> bool:
    read = pq.read_table(path)
    rows = read.to_pylist()
    if is_edited := _edit(rows):
        pq.write_table(pa.Table.from_pylist(rows, schema=read.schema), path)
    return is_edited


def _edit(rows: Rows) -> bool:
    hit = [row for row in rows if is_hit(row) and row["after"] and "apples" in row["after"][1]]
    for row in hit:
        row["after"][1] = row["after"][1].replace("apples", "pears!")
    return bool(hit)


def crash(world: World) -> None:
    """Let the loader crash once, after it has loaded a batch into its staging table, and before it merges it."""
    with armed("merge.merge", world.crash, nth=1):
        world.strike(f"UPDATE {world.table} SET {CHANGED} WHERE id = {PROBE}")


def merge_without_delete(world: World) -> None:
    """Merge a batch without the statements that delete or update the rows which its changes replace."""
    merge, merge_shared = MergeStatements.merge, SharedStage.merge

    def without(found: Sequence[str], target: str) -> Sequence[str]:
        left = [one for one in found if not one.lstrip().startswith((f"DELETE FROM {target}", f"UPDATE {target}"))]
        world.hits += len(left) < len(found)
        return left

    def alone(statements: MergeStatements, *given: Any) -> Sequence[str]:
        return without(merge(statements, *given), statements.target)

    def shared(stage: SharedStage, number: int, statements: MergeStatements, *given: Any) -> Sequence[str]:
        return without(merge_shared(stage, number, statements, *given), statements.target)

    patched = mock.patch.object(MergeStatements, "merge", alone), mock.patch.object(SharedStage, "merge", shared)
    with world.lull(), patched[0], patched[1]:
        world.strike(f"UPDATE {world.table} SET {CHANGED} WHERE id = {PROBE}")


def write_late(world: World) -> None:
    """Bring a row to the target that a later one has replaced there, as a writer does that retries without looking."""
    world.strike(f"UPDATE {world.table} SET {CHANGED} WHERE id = {PROBE}", f"UPDATE {world.table} SET amount = 13 WHERE id = {PROBE}")
    _edit_target(world, "amount = 12.345")


def edit_by_hand(world: World) -> None:
    """Change a value in the target."""
    world.strike(f"UPDATE {world.table} SET {CHANGED} WHERE id = {PROBE}")
    _edit_target(world, "amount = 21.345")


def _edit_target(world: World, change: str) -> None:
    world.execute(f"UPDATE {world.table}.{world.table} SET {change} WHERE id = {PROBE}")
    world.hits += 1


def write_past_the_log(world: World) -> None:
    """Change a row of the source in a session whose changes are not logged."""
    world.log.run("SET SESSION sql_log_bin = 0", f"UPDATE {world.table} SET {CHANGED} WHERE id = {PROBE}")
    world.strike(f"INSERT INTO {world.table} VALUES {row_of(PROBE + PROBES)}")
    world.hits += 1


def purge(world: World) -> None:
    """Delete a file of the log before the pipeline has read it; once it has stopped, let it go on behind the gap."""
    with world.lull():
        world.halted.set()
        with world.staging:
            world.log.run("FLUSH BINARY LOGS")
            world.commit(f"UPDATE {world.table} SET {CHANGED} WHERE id = {PROBE}")
            world.log.run("FLUSH BINARY LOGS")
            first = world.log.end().file
            world.log.run(f"PURGE BINARY LOGS TO '{first}'")
        world.halted.clear()
    while not world.is_stopped:
        time.sleep(LOOK)
    with world.staging:
        before = pipelines.get_pipeline(world.store, PIPELINE).source_offset
        behind = as_offset(Mark(Place(first, FIRST_OFFSET)), epoch=0) | {"server": before["server"]}
        parts.record_batch(world.store, PIPELINE, [], {}, behind)
        world.is_stopped = False
    world.hits += 1
    world.strike(f"INSERT INTO {world.table} VALUES {row_of(PROBE + PROBES)}")


def nothing(world: World) -> None:
    """Let everything go its way."""
    world.strike(f"UPDATE {world.table} SET {CHANGED} WHERE id = {PROBE}")
