"""The options of the change source ``mysql_binlog``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from auditor.config import find_file, load
from auditor.errors import ConfigError
from auditor.pipeline.binlog.cascades import Reference
from auditor.pipeline.binlog.decode import Reading
from auditor.pipeline.binlog.dump import Source
from auditor.pipeline.binlog.place import Place
from auditor.pipeline.binlog.ranges import SourceOffset, from_offset
from auditor.pipeline.binlog.refreshes import Refreshes
from auditor.pipeline.binlog.selection import Selection
from auditor.pipeline.tracker.follower import Follower, open_follower
from dialects import by_scheme
from dialects.url import parse_url


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """The options of a source; they hold no secret."""

    connection: str
    tables: tuple[str, ...]
    config: str | None
    start: str = "latest"
    end: str = "latest"
    max_bytes: int = 64 << 20
    range_bytes: int = 4 << 20
    server_id: int | None = None
    patience: float = 60.0
    notes: bool = False
    refreshes: str = ""
    skip_pipelines: tuple[str, ...] = ()
    pipeline: str = ""

    def source(self) -> Source:
        """Return the connection's source. Raises ConfigError."""
        path: Path = find_file(self.config)
        connections = load(path).connections
        if self.connection not in connections:
            raise ConfigError(f"{path} has no connection {self.connection!r}; connections: {', '.join(sorted(connections)) or 'none'}")
        url = parse_url(connections[self.connection].url)
        if by_scheme(url.scheme).CHANGE_STREAM != "binlog":
            raise ConfigError(
                f"connection {self.connection!r} leads to {url.scheme}, which has no binary log; name one to MySQL or MariaDB"
            )
        return Source(connections[self.connection].url, self.connection)

    def selection(self, source: Source) -> Selection:
        """Return the chosen tables. Raises ConfigError."""
        schema, _, pipeline = self.refreshes.partition("/")
        refreshes = Refreshes(schema, pipeline) if schema else None
        return Selection(self.tables, parse_url(source.url).database, refreshes, self.skip_pipelines)

    def reading(self, epoch: int, tracked: bytes, references: tuple[Reference, ...] = ()) -> Reading:
        """Return what a task decodes."""
        source = self.source()
        return Reading(source, self.selection(source), epoch, self.patience, notes=self.notes, tracked=tracked, references=references)

    def tracker(self) -> Follower | None:
        """Return the tracker of the pipeline; None if it has none. Raises ConfigError and StoreError."""
        return open_follower(load(find_file(self.config)), self.pipeline) if self.pipeline else None


_NUMBERS = {"max_bytes", "range_bytes", "server_id", "patience"}


def parse_options(given: Mapping[str, str], end_allowed: bool) -> StreamOptions:
    """Return the options that were given; those of a batch if an ``end`` is allowed. Raises ConfigError."""
    known = [name for name in StreamOptions.__dataclass_fields__ if name != ("pipeline" if end_allowed else "end")]
    values: dict[str, Any] = {}
    for name, text in given.items():
        if name.lower() not in known:
            raise ConfigError(f"mysql_binlog has no option {name!r}; its options are {', '.join(known)}")
        if name.lower() in _NUMBERS and (not text.isdecimal() or int(text) < 1):
            raise ConfigError(f"option {name} of mysql_binlog must be a whole number from 1 on, not {text!r}")
        values[name.lower()] = int(text) if name.lower() in _NUMBERS else text.lower() == "true" if name.lower() == "notes" else text
    for name in ("connection", "tables"):
        if not values.get(name):
            raise ConfigError(f"mysql_binlog needs the option {name}")
    for name in ("tables", "skip_pipelines"):
        values[name] = tuple(part.strip() for part in values.get(name, "").split(",") if part.strip())
    for name in ("start", "end"):
        if values.get(name, "latest") not in ("latest", "earliest") and (end_allowed or not parse_offset(values[name])):
            Place.parse(values[name])
    return StreamOptions(**{"config": None, **values})


def parse_offset(text: str) -> SourceOffset | None:
    """Return the offset that a text is the JSON of, or None if it is something else. Raises ConfigError for JSON of anything else."""
    if not text.startswith("{"):
        return None
    try:
        offset: SourceOffset = json.loads(text)
        from_offset(offset)
        return offset if isinstance(offset["epoch"], int) else None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ConfigError(f"start of mysql_binlog is no offset: {text}; give one as Spark logs it, or FILE:POS") from None
