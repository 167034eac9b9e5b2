"""Check whether a server can be a pipeline's tracker, and say what it does not know."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from typing import Any, Literal

from auditor.config import Settings
from auditor.errors import AuditorError
from auditor.pipeline.tracker.follower import Follower
from auditor.pipeline.watch import source_of
from auditor.store import Store, trackers
from dialects.mysql.session import server_version


def check_tracker(settings: Settings, store: Store, name: str) -> Iterator[tuple[Literal["error", "warning"], str]]:
    """Yield what keeps the tracker of a pipeline from following its source; nothing without one. Changes no server. Raises StoreError."""
    if settings.pipeline(name).tracker is None:
        return
    try:
        with closing(Follower(settings, store, name)) as follower:
            follower.check()
            here, there = _version(follower.connection), _version_of_source(settings, name)
    except AuditorError as error:
        yield "error", str(error)
        return
    if here < there:
        versions = [".".join(map(str, version)) for version in (here, there)]
        yield (
            "warning",
            f"its version is {versions[0]}, and the source's {versions[1]}, whose statements it may not know; give it the source's",
        )
    for table, history in sorted(trackers.read_columns(store, name).items()):
        if reason := history[-1][1].get("reason"):
            way_out = "rows of it are not read; SET GLOBAL binlog_row_metadata = 'FULL', then copy the table again"
            yield "warning", f"{'.'.join(table)}: the columns are not known: {reason}; {way_out}"


def _version_of_source(settings: Settings, name: str) -> tuple[int, ...]:
    with closing(source_of(settings, name).connect()) as connection:
        return _version(connection)


def _version(connection: Any) -> tuple[int, ...]:
    return tuple(int(digits) for digits in re.findall(r"\d+", server_version(connection))[:2])
