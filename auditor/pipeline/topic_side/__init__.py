"""Topics as sides of audits: the latest message of each key, up to where the topic ends when a run begins, is compared as a row.

`open_topics` is what a run reads its topics by. `fixed_topic` says where they end, `messages` reads them, and `scratch` keeps what was read
in a temporary file of DuckDB, makes a table of it, and finds what only a topic can have wrong. What a verdict says of that is in
`auditor.run.topics`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from auditor.config import Audit, ConnectionSettings, Settings
from auditor.durations import durations
from auditor.errors import BrokerUnreachable
from auditor.model import Side, TopicSide
from auditor.run.topics import OnRead, TopicReader

if TYPE_CHECKING:
    from auditor.pipeline.topic_side.fixed_topic import FixedTopic
    from auditor.pipeline.topic_side.scratch import Through


@contextmanager
def open_topics(settings: Settings, audit: Audit) -> Iterator[TopicReader | None]:
    """Yield what reads the topics of an audit, whose temporary files are deleted behind the block; None for an audit of tables alone."""
    if not audit.topics:
        yield None
        return
    with TemporaryDirectory(prefix="auditor-topics-") as folder:
        yield _Topics(settings, audit, folder)


class _Topics:
    """The topics of an audit, each of which becomes a table in the file of its broker."""

    def __init__(self, settings: Settings, audit: Audit, folder: str) -> None:
        self._settings, self._audit, self._folder = settings, audit, folder
        self._found: dict[Side, TopicSide] = {}
        names = sorted({topic.broker for topic in audit.topics.values()})
        urls = {name: f"duckdb:///{folder}/{number}.duckdb" for number, name in enumerate(names)}
        self.connections: Mapping[str, ConnectionSettings] = {name: ConnectionSettings(url=url) for name, url in urls.items()}

    def read(self, on_read: OnRead, stopped: threading.Event) -> dict[Side, TopicSide]:
        """Read all topics, each up to where it ends now, into their tables, and return what was found of each. Raises AuditorError."""
        from auditor.pipeline.topic_side.fixed_topic import fix_topic  # which loads what only topics need

        fixed = {side: fix_topic(self._settings, topic) for side, topic in self._audit.topics.items()}
        for side, one in fixed.items():
            self._found[side] = self._read(one, self.connections[one.ref.broker], partial(on_read, side), stopped)
        return self._found

    def read_through(self, position: int, pipeline: str, table: str, stopped: threading.Event) -> None:
        """Read the target's topic again, up to a position of its publisher's stream, as `TopicReader` says. Raises AuditorError."""
        from auditor.pipeline.topic_side.fixed_topic import fix_topic
        from auditor.pipeline.topic_side.scratch import Through

        topic, until = self._audit.topics["target"], time.monotonic() + self._settings.brokers[self._audit.target.connection].timeout
        while (fixed := fix_topic(self._settings, topic)).behind:
            if time.monotonic() > until or stopped.wait(durations().hold_poll):
                raise BrokerUnreachable(f"topic {topic.label}: partitions do not show what is committed in them; run the audit again later")
        anew = ConnectionSettings(url=f"duckdb:///{self._folder}/aligned.duckdb")
        found = self._read(fixed, anew, lambda *_: None, stopped, Through(position, pipeline, table))
        Path(f"{self._folder}/aligned.duckdb").replace(self.connections[topic.broker].url.removeprefix("duckdb:///"))
        self._found["target"] = found

    def _read(
        self,
        fixed: FixedTopic,
        into: ConnectionSettings,
        on_read: Callable[[int, int], None],
        stopped: threading.Event,
        through: Through | None = None,
    ) -> TopicSide:
        from auditor.pipeline.topic_side.messages import read_topic
        from auditor.pipeline.topic_side.scratch import open_scratch

        with open_scratch(into, f"{self._folder}/spilled") as scratch:
            read_topic(fixed, scratch, on_read, stopped)
            return scratch.finish(fixed, self._audit, through)
