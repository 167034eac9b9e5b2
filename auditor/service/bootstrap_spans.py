"""Which rows a bootstrap copies: all, a range of keys, or partitions of the audit's last run."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from auditor.config import Audit
from auditor.errors import BootstrapRefused, ConfigError, UnknownRun
from auditor.escaping import shell_word
from auditor.history import records
from auditor.model import Chunk, Report, consecutive_ranges
from auditor.repair.bootstrap.plan import EVERYTHING
from auditor.service.definitions import apply_overrides
from auditor.store import runs

if TYPE_CHECKING:
    from auditor.store import Store

DIFFERING = "differing"
"""What stands for the partitions that differed."""

MOST_SPANS = 200
"""Ranges of keys in one bootstrap: their conditions stand in each of its statements."""


def choose_spans(store: Store, name: str, audit: Audit, keys: Mapping[str, int] | None, partitions: str) -> tuple[Chunk, ...]:
    """Return the ranges of keys to copy, ascending. Raises ConfigError, UnknownRun, and BootstrapRefused for what has no such ranges."""
    if keys and partitions:
        raise ConfigError("--keys and --partitions both choose rows; leave one out")
    if partitions:
        return _partitions(store, name, partitions)
    _, slice = apply_overrides(audit, {"keys": dict(keys)} if keys else {})
    if slice is None:
        return EVERYTHING
    return (Chunk(slice.first, None if slice.last is None else slice.last + 1),)


def _partitions(store: Store, name: str, written: str) -> tuple[Chunk, ...]:
    """Return the ranges of keys of partitions of the last run, given by their numbers or by ``differing``."""
    last_runs = runs.list_runs(store, audit=name, state="done", limit=1)
    report = records.load_report(store, last_runs[0].run) if last_runs else None
    if report is None or report.plan is None:
        raise UnknownRun(f"{name} has no run whose partitions could be copied anew; run it first: auditor run {shell_word(name)}")
    how = report.plan.partitioning
    if how.strategy != "range" or report.plan.hides_ranges:
        what = "masked" if report.plan.hides_ranges else {"whole": "the whole table"}.get(how.strategy, f"by {how.strategy}")
        raise BootstrapRefused(
            f"the partitions of run {report.run} are {what}, not ranges of keys that could be shown; copy a range with --keys, or the table"
        )
    numbers = _differing(report) if written == DIFFERING else _parse(written)
    spans = consecutive_ranges(numbers)
    if len(spans) > MOST_SPANS:
        raise BootstrapRefused(
            f"these partitions are {len(spans):,} ranges of keys, and one bootstrap copies at most {MOST_SPANS}; copy the range around them"
            " with --keys, or the table"
        )
    return tuple(Chunk(first * how.size, (last + 1) * how.size) for first, last in spans)


def _differing(report: Report) -> list[int]:
    divergent = report.comparison.divergent if report.comparison else ()
    if not divergent:
        raise BootstrapRefused(f"no partition differed in run {report.run} of {report.audit}; name partitions, or use --keys")
    if any(partition.partition is None for partition in divergent):
        raise BootstrapRefused(f"rows without a key differed in run {report.run} of {report.audit}, which have no range; copy the table")
    return [partition.partition for partition in divergent if partition.partition is not None]


def _parse(written: str) -> Sequence[int]:
    numbers: set[int] = set()
    for part in written.split(","):
        match = re.fullmatch(r"\s*(-?\d{1,19})(?:\.\.(-?\d{1,19}))?\s*", part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if first > last or last - first > 1_000_000:
            raise ConfigError(f"--partitions {written}: write numbers of partitions such as 3,7..9, or {DIFFERING}")
        numbers.update(range(first, last + 1))
    return sorted(numbers)
