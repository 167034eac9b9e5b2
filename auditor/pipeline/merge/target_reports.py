"""What a target's process tells the store: what was merged, and which tables failed, why, and when they are tried again."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from auditor.api_models.pipeline import MergeState
from auditor.background import Backoff
from auditor.durations import durations
from auditor.errors import AuditorError, EngineError, FileInUse, StoreError
from auditor.pipeline.merge.positions import describe
from auditor.pipeline.merge.staged_rows import plain_message
from auditor.pipeline.merge.table_merge import Merged
from auditor.store import Store, parts, pipelines, schema_changes, table_notes
from auditor.store.pipelines import MOST_NAMED, MergeNews

log = logging.getLogger(__name__)

MOST_UNREPORTED = 100
"""Failed tables that are reported to the store together."""


@dataclass(slots=True)
class Failure:
    """Why a table does not go on, and when (monotonic seconds) it is tried again."""

    backoff: Backoff = field(default_factory=lambda: Backoff(durations().pipeline_first_retry, durations().pipeline_longest_retry))
    until: float = 0.0
    report_at: float = 0.0
    """When it is reported, if it is a file that another process has open; 0 if it was not open elsewhere before."""


@dataclass(slots=True)
class TargetReports:
    """The failures of a target's tables, and of the target under '', and what is recorded in the store of them and of merges."""

    store: Store
    pipeline: str
    target: str
    clock: Callable[[], float]
    failures: dict[str, Failure] = field(default_factory=dict)
    waiting: set[str] = field(default_factory=set)
    """The tables that are not tried again before the next call of `begin`, and '' if the target is not."""
    _untold: dict[str, tuple[int | None, MergeState, str]] = field(default_factory=dict)
    """The position, the state and the reason of tables that failed and are not reported to the store yet."""

    def begin(self) -> bool:
        """Let what has waited for long enough be tried again; return whether the target as a whole is."""
        self.waiting = {name for name, failure in self.failures.items() if failure.until > self.clock()}
        return "" not in self.waiting

    def fail(self, table: str, error: AuditorError, position: int | None = None) -> None:
        """Let a table (or with '' the whole target) wait, longer each time, and note why, to be told."""
        self.waiting.add(table)
        failure = self.failures.setdefault(table, Failure())
        wait = failure.backoff.fail()
        failure.until = self.clock() + wait
        reason = reason_of(error)
        state: MergeState = "delayed" if error.retryable else "stopped"
        extra = {"action": f"merge_{state}", "target": self.target, "table": table, "again_in": wait}
        log.warning("%s: %s: %s", self.target, table or "every table", reason, extra=extra)
        self._untold[table] = (position, state, reason)
        if len(self._untold) >= MOST_UNREPORTED:
            self.tell_failures()

    def wait_for_file(self, error: FileInUse) -> None:
        """Let the target be tried again at once, because its file may be free at any moment; report a wait that lasts, not each attempt.

        Readers may open the file every few seconds: after waits as long as those for outages it would be found open again and again.
        """
        failure, now = self.failures.setdefault("", Failure()), self.clock()
        failure.report_at = failure.report_at or now + durations().file_patience
        if now >= failure.report_at:
            log.warning("%s: every table: %s", self.target, error, extra={"action": "merge_delayed", "target": self.target})
            self._untold[""] = (None, "delayed", str(error))
            failure.report_at = now + durations().pipeline_longest_retry

    def tell_failures(self) -> None:
        """Report the tables that failed since the last report; a few statements, whatever their number."""
        failed, self._untold = self._untold, {}
        if not failed:
            return
        about = (self.store, self.pipeline)
        try:
            if whole := failed.get(""):
                failed = dict.fromkeys(parts.list_tables(*about), whole)
            reports = pipelines.list_merges(*about, self.target, list(failed) if len(failed) <= MOST_NAMED else None).get(self.target, {})
            news = {}
            for table, (position, state, reason) in failed.items():
                there = reports[table].position if table in reports else 0
                news[table] = MergeNews(there if position is None else position, state, reason)
            pipelines.report_merges(*about, self.target, news)
        except StoreError as untold:
            log.warning("%s: the store cannot be told: %s", self.target, untold, extra={"action": "report_failed"})

    def tell_merged(self, merged: Mapping[str, Merged], seconds: float) -> None:
        """Report what one transaction merged, and forget that these tables failed. Raises StoreError."""
        for table in merged:
            self.failures.pop(table, None)
            self._untold.pop(table, None)
        self.tell_failures()
        about = (self.store, self.pipeline, self.target)
        news = {table: MergeNews(one.position, "merged", events=one.events, time=one.time) for table, one in merged.items()}
        pipelines.report_merges(*about, news)
        table_notes.drop_passed(*about, {table: one.position for table, one in merged.items()})
        schema_changes.settle(*about, {table: (one.position, one.held.schema_id) for table, one in merged.items()})
        events, last = sum(one.events for one in merged.values()), max(merged, key=lambda table: merged[table].position)
        named = last if len(merged) == 1 else f"{len(merged)} tables, {last} the last,"
        line = f"{self.target}: {named} holds {describe(merged[last].position)}: {events:,} events in {seconds:.2f} s"
        extra = {"action": "merged", "target": self.target, "table": last, "tables": len(merged), "events": events, "seconds": seconds}
        log.info(line, extra=extra)


def reason_of(error: AuditorError, names: Sequence[str] = ()) -> str:
    """Return why a table does not go on, with the names that the message quotes, and without a value of a row."""
    return plain_message(str(error), {*names, *error.names}) if isinstance(error, EngineError) and not error.retryable else str(error)
