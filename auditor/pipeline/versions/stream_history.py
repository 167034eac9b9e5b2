"""What a run asks of a history: that its pipeline keeps it, and the versions of keys, up to a place behind all that the run has read.

It shares nothing with the pipeline's processes but the store, the staging's folder and the source.
"""

from __future__ import annotations

import datetime as dt
import json
import threading
import time
from collections import defaultdict
from collections.abc import Collection, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace

import pyarrow as pa

from auditor.compare.accounting import Key
from auditor.compare.row_versions import Version
from auditor.config import Audit, History, Settings, history_table
from auditor.durations import durations
from auditor.errors import AuditorError, HistoryUnusable, StatementCancelled
from auditor.escaping import shell_word
from auditor.history.stored_plan import dump_plan, load_plan
from auditor.model import Plan
from auditor.pipeline.binlog.log_connection import log_status, source_of
from auditor.pipeline.events import Place
from auditor.pipeline.folders import folder_at
from auditor.pipeline.stream_positions import place_texts
from auditor.pipeline.versions.files import hash_key_texts, unpack
from auditor.run.live import plans
from auditor.run.row_history import KeyVersions
from auditor.store import Store, pipelines, row_versions
from auditor.store.row_versions import RowHistory

LOOKS = 3
"""How often the files of a history are listed again that were joined, or left out, while they were read."""


@dataclass(slots=True)
class StreamHistory:
    """The history that a pipeline keeps for one audit."""

    settings: Settings
    store: Store
    audit: str
    definition: Audit
    chosen: History
    is_own: bool
    """Whether the run has the audit's own settings, so that it may let the history begin."""
    _id: str = ""
    stopped: threading.Event = field(default_factory=threading.Event)

    @property
    def pipeline(self) -> str:
        """The pipeline's name."""
        return self.chosen.pipeline

    def begin(self, plan: Plan) -> Plan:
        """Let the pipeline keep the versions of a plan's rows, and return the plan by which their hashes are those of the history.

        Raises HistoryUnusable if it cannot keep them, and StoreError.
        """
        table = history_table(self.definition, self.settings.pipeline(self.pipeline), self.settings.connections)
        if why := self._why_not(plan, table):
            raise HistoryUnusable(f"history: {why}")
        where = self.definition.where if isinstance(self.definition.where, str) else ""
        wanted = {"audit": self.audit, "pipeline": self.pipeline, "table": table, "fingerprint": _by_rows(plan), "where": where}
        history = row_versions.want(self.store, plan=json.loads(dump_plan(plan)) if self.is_own else None, **wanted)
        if history is None:
            raise HistoryUnusable(
                "history: this run has other settings than the audit, and no versions of such rows are kept; run the audit"
            )
        self._id = history.id
        begun = load_plan(json.dumps(history.plan).encode())
        if begun is None:
            raise HistoryUnusable(
                "the history was begun by another version of the auditor; remove history from the audit, and add it again"
            )
        return replace(plan, salt=begun.salt)

    def read(self, keys: Collection[Key], plan: Plan) -> KeyVersions:
        """Return the versions of keys, once the history has all that is in the source's log now.

        Raises HistoryUnusable if it does not come so far, StatementCancelled if the run is stopped, and AuditorError.
        """
        try:
            with closing(source_of(self.settings, self.pipeline).connect()) as source:
                end = log_status(source).end
        except AuditorError as error:
            raise HistoryUnusable(f"the end of the source's log is not known ({error}); see to it, and run the audit again") from error
        history = self._wait(end)
        assert history.begins is not None and history.begins_time
        text, by_hash = place_texts(self.store, self.pipeline), self._read_files(history, hash_key_texts(list(keys), plan).tolist())
        by_key = zip(keys, hash_key_texts(list(keys), plan).tolist(), strict=True)
        return KeyVersions(
            versions={key: tuple(by_hash.get(hashed, ())) for key, hashed in by_key},
            begins=_utc(history.begins_time),
            begins_place=text(history.begins),
            why_there=history.why_there,
            through=str(end),
            place=text,
        )

    def _why_not(self, plan: Plan, table: str) -> str:
        """Return why versions of a plan's rows cannot be kept; '' if they can."""
        rules, key = self.settings.pipeline(self.pipeline).columns_of(table.partition(".")[2]), plan.key_columns
        hidden = {name.lower() for name in (*rules.mask, *rules.exclude)}
        for column in plan.columns:
            if why := plans.why_not_told(column):
                return why
            if column.name.lower() in hidden:
                return f"the pipeline {self.pipeline} masks or excludes {column.name}, which is compared; let another one keep the history"
            if column.tolerance:
                return f"{column.name} has a tolerance, and versions are known by their hashes; remove the tolerance, or exclude the column"
            if column.by_value:
                return (
                    f"documents of {column.name} are compared by their values, and versions are known by their hashes; compare them as text"
                    " (json: text), or exclude the column"
                )
        if changed := next(
            (column.name for column in key if column.trim or column.case or column.null_as is not None or column.masked), ""
        ):
            return f"{changed} is of the key, and is trimmed, folded, masked or has null_as, so that rows share a key; remove that"
        if plan.now:
            return "where: rows leave a filter with now or today without an event; write a literal"
        return ""

    def _wait(self, end: Place) -> RowHistory:
        """Wait until the history has everything up to a place of the source's log."""
        until = time.monotonic() + durations().hold_reach
        while True:
            history, state = row_versions.get(self.store, self._id), pipelines.get_pipeline(self.store, self.pipeline)
            offset = state.source_offset
            if history is None:
                raise HistoryUnusable("the history began again while the run looked rows up; run the audit again")
            if offset and history.begins is not None:
                reached = Place(offset["file"], int(offset["position"]))
                if reached.order >= end.order and history.through >= reached.position(int(offset.get("epoch", 0))).pack():
                    return history
            if history.stopped:
                raise HistoryUnusable(f"the history of {history.table} cannot continue: {history.stopped}")
            if state.paused:
                way_out = f"let it continue with: auditor pipeline unpause {shell_word(self.pipeline)}"
                raise HistoryUnusable(f"the pipeline {self.pipeline} is paused; {way_out}")
            if time.monotonic() > until:
                raise HistoryUnusable(
                    f"the pipeline {self.pipeline} has not written its history up to {end} within {durations().hold_reach:g} s; see that it"
                    " runs, and run the audit again"
                )
            if self.stopped.wait(durations().limiter_poll):
                raise StatementCancelled

    def _read_files(self, history: RowHistory, hashes: Collection[int]) -> Mapping[int, list[Version]]:
        root = folder_at(self.settings.pipeline(self.pipeline).staging.path)
        for _ in range(LOOKS):
            found: dict[int, list[Version]] = defaultdict(list)
            try:
                for file in row_versions.list_files(self.store, history.id):
                    table = unpack(root.get(file.path), hashes)
                    for row in zip(*(table[name].to_pylist() for name in ("key", "position", "time", "before", "after")), strict=True):
                        found[row[0]].append(Version(row[1], _utc(row[2]), row[3], row[4]))
                return found
            except FileNotFoundError:
                continue
            except pa.ArrowException as error:
                raise HistoryUnusable(
                    f"the history {root}/{file.path} is damaged ({error}); remove history from the audit, run it, and add it again"
                ) from error
            except OSError as error:
                raise HistoryUnusable(f"the history {root}/{file.path} cannot be read: {error.strerror or error}") from error
        raise HistoryUnusable(
            f"files of the history of {history.table} are missing in {root}; remove history from the audit, and add it again"
        )


def _by_rows(plan: Plan) -> str:
    """Return a fingerprint that is equal for plans under which a row has one hash, but for the salt, whichever rows they read."""
    source = replace(plan.sides["source"], where="")
    return plans.fingerprint(replace(plan, method="exact", t=0, bits=60, sides={**plan.sides, "source": source}))


def _utc(time: dt.datetime) -> dt.datetime:
    return time if time.tzinfo else time.replace(tzinfo=dt.UTC)
