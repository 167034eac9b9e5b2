"""Two pipelines that write segments of one stream, one into files of all tables and one as CSV, and the audit of both."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from auditor.config import Settings, validate_settings
from auditor.model import Report, Segment
from auditor.pipeline.folders import LocalFolder
from auditor.pipeline.part_writer import write_parts
from auditor.pipeline.segments.registering import registrations_of
from auditor.pipeline.segments.writer import SegmentWriter, folder_of, open_writer
from auditor.service import segment_audits, segment_files
from auditor.service.segment_files import Verified
from auditor.store import Store, parts, segments
from tests.pipeline.test_segments import Events
from tests.pipeline_events import announce, batch, insert, table

MYSQL, REPLICA = "mysql://a@db1:3306/shop", "mysql://a@db2:3306/shop"
ORDERS = table(id="bigint", item="varchar(40) null")
SIDES = ("shop", "eu")


def settings_in(root: Path, *, replica: bool = False, parquet: bool = False, by: Any = None, **audit: Any) -> Settings:
    """Two pipelines of one stream, of which one has an archive of CSV, and the other one of Parquet if that is asked for; and an audit.

    With ``by`` segments have digests of buckets by a column.
    """

    def pipeline(name: str, **segment: Any) -> dict[str, Any]:
        return {
            "source": {"connection": "replica" if replica and name == "eu" else "mysql", "tables": ["*"]},
            "staging": {"path": str(root / name)},
            "segment": {"rows": 4, "age": "1h", **({"by": by} if by else {}), **segment},
            "targets": {"wh": {"connection": "duck", "schema": "main"}},
        }

    duck, archive = f"duckdb:///{root}/x.duckdb", {"path": str(root / "parquet")} if parquet else {}
    return validate_settings(
        {
            "connections": {"mysql": {"url": MYSQL}, "replica": {"url": REPLICA}, "duck": {"url": duck, "write": {"url": duck}}},
            "audits": {},
            "pipelines": {
                "shop": pipeline("shop", **archive),
                "eu": pipeline("eu", format="csv", path=str(root / "csv")),
            },
            "segments": {"zones": {"pipelines": SIDES, **audit}},
            "store": {"url": f"sqlite:///{root}/auditor.db"},
        }
    )


def transactions(count: int, *, every: int = 10) -> list[Events]:
    """Transactions of one table with two rows each, a second apart for each position."""
    return [insert(ORDERS, every * number, [str(2 * number), "a"], [str(2 * number + 1), f"item {number}"]) for number in range(1, count)]


def stage_all(settings: Settings, store: Store, name: str, found: Sequence[Events], writer: SegmentWriter | None = None) -> SegmentWriter:
    """Stage transactions for a pipeline, cut them by its writer, or by a new one, and return that."""
    root = Path(settings.pipeline(name).staging.path)
    written = write_parts(LocalFolder(root), [batch(announce(ORDERS, 1), *found)])
    schemas = {ORDERS.id: {"columns": [{"name": "id"}, {"name": "item"}]}}
    parts.record_batch(store, name, [one.part for one in written if one.part.rows], schemas, {"file": "binlog.000007", "position": 4})
    writer = writer or open_writer(store, name, settings.pipeline(name), registrations_of(settings, name))
    while writer.step():
        pass
    return writer


def run(settings: Settings, store: Store) -> Report:
    return segment_audits.run(settings, store, "zones", requested_by="ada")


def verify(settings: Settings, store: Store) -> Verified:
    [found] = segment_files.verify(settings, store, "zones")
    return found


def first_file(settings: Settings, store: Store, name: str, number: int = 0) -> tuple[Path, Segment]:
    listed = segments.list_segments(store, name, "shop.orders")[number]
    return Path(folder_of(settings.pipeline(name)).url) / listed.path, listed
