"""Suggest what repairs a mismatch: name the rows first, patch few rows, copy a range or the table again, or wait for rows to settle."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import dialects
from auditor.config import Audit, ConnectionSettings, WriteSettings
from auditor.errors import AuditorError
from auditor.escaping import shell_word
from auditor.model import SIDES, Differences, Plan, Report, Suggestion, Suggestions, Tool, Verdict
from auditor.repair.patching import most_rows
from auditor.repair.proposal import unnamed
from dialects import Dialect

PATCHED_PER_SECOND = 150.0
"""Rows of a patch written in a second, with journal and reading back, where none of the audit was measured: as 300 rows of twenty columns
took between MariaDB and PostgreSQL, on two cores with five times as much to do."""

COPIED_PER_SECOND = 100_000.0
"""Rows that a bootstrap copies in a second: half of what one connection copied of a million rows of ten columns."""

BEGINNING = 1.0
"""Seconds that every tool takes before its first row."""

DENSE = 0.5
"""The share of a table's rows from which on a range of them is copied with the whole table, where that can be copied."""


@dataclass(frozen=True, slots=True)
class Rates:
    """Rows in a second, as they were measured."""

    patched: float = PATCHED_PER_SECOND
    copied: float = COPIED_PER_SECOND


def suggest(
    report: Report, audit: Audit, target: ConnectionSettings, rates: Rates, target_key: Collection[str] | None = None
) -> Suggestions | None:
    """Return what would repair the target after a run that is stored; None unless the run found that rows differ.

    ``target_key`` are the columns of its table's primary key, none if it has no such key, None if that is not known: a patch is refused
    where no key makes sure that a statement finds one row.
    """
    if report.verdict is not Verdict.MISMATCH or report.comparison is None or report.plan is None:
        return None
    dialect = _dialect(target)
    names = {audit.target.renamed.get(column.name, column.name).lower() for column in report.plan.key_columns}
    is_found = target_key is None or (bool(target_key) and {name.lower() for name in target_key} <= names)
    finds_rows = is_found or dialect is None or not dialect.TABLE_FORM.enforces_keys
    situation = _Situation(report, audit, target.write or WriteSettings(url=""), rates, finds_rows)
    is_plain = not audit.queries and not any(place.follows for place in audit.places.values())
    is_table = dialect is not None and is_plain and not audit.target.place.path
    is_written = is_table and dialect is not None and dialect.is_written
    ways = {way.tool: way for way in situation.ways(is_written)}
    if not ways:
        return None
    fitting, why = situation.choose(ways)
    return Suggestions(why, (ways.pop(fitting), *ways.values()))


@dataclass(frozen=True, slots=True)
class _Situation:
    """What a run found, and what its target allows."""

    report: Report
    audit: Audit
    write: WriteSettings
    rates: Rates
    finds_rows: bool
    """Whether the audit's key finds one row of the target for certain, as a patch needs."""

    @property
    def _plan(self) -> Plan:
        assert self.report.plan
        return self.report.plan

    @property
    def _total(self) -> int:
        """The rows of the greater table."""
        assert self.report.comparison
        return max(1, *self.report.comparison.rows.values())

    @property
    def _keys(self) -> str:
        """The option by which a run of a slice of keys is asked for."""
        here = self.report.slice
        first, last = ("" if key is None else key for key in (here.first, here.last)) if here else ("", "")
        return f" --keys={first}..{last}" if here and here.has_keys else ""

    @property
    def _is_masked(self) -> bool:
        return any(column.masked for column in self._plan.key_columns)

    def ways(self, is_written: bool) -> Iterator[Suggestion]:
        """Yield every way that is possible at all; ``is_written`` is whether the engine of the target can be."""
        name, differences = shell_word(self.report.audit), self.report.differences
        if differences is None:
            yield self._suggestion(
                "exact", self._total, self._seconds_to_read(self._total), f"auditor run {name} --method exact{self._keys}"
            )
        if differences and differences.unsettled:
            yield self._suggestion("wait", differences.unsettled, self._seconds_to_read(self._total), f"auditor run {name}")
        is_patchable = is_written and self.finds_rows and not self._is_masked
        if differences and (rows := _count(differences)) and is_patchable and not unnamed(differences):
            deletes = " --delete-extra" if differences.extra else ""
            yield self._suggestion("patch", rows, rows / self.rates.patched, f"auditor patch {self.report.run[:12]}{deletes}")
        if not is_written:
            return
        whole = not self.report.slice and self.report.covered == 1
        if (span := self._span()) and (rows := self._rows_between(*span)) < (DENSE if whole else 1) * self._total:
            yield self._suggestion(
                "range bootstrap", rows, self._seconds_to_copy(rows), f"auditor bootstrap {name} --keys {span[0]}..{span[1]}"
            )
        if whole:
            yield self._suggestion("bootstrap", self._total, self._seconds_to_copy(self._total), f"auditor bootstrap {name}")

    def choose(self, ways: dict[Tool, Suggestion]) -> tuple[Tool, str]:
        """Return the way that fits, and why."""
        differences = self.report.differences
        assert self.report.comparison
        if "exact" in ways:
            return "exact", f"the method {self.report.method} names no rows; then patch them if they are few, else copy"
        if differences and "wait" in ways and differences.unsettled > _count(differences):
            return "wait", "most rows that differ were still changing when they were looked at last"
        most = most_rows(self.report, self.write)
        if "patch" in ways and ways["patch"].rows <= most:
            return "patch", f"the limit is {most:,} rows"
        why = (unnamed(differences) if differences else "") or self._why_not_patched("patch" in ways)
        if "range bootstrap" in ways:
            return "range bootstrap", f"{why}, and they lie in one range"
        return next(tool for tool in ("bootstrap", "patch", "wait") if tool in ways), why

    def _why_not_patched(self, is_possible: bool) -> str:
        if is_possible:
            return "more rows differ than a patch may change"
        if not self.finds_rows:
            return "the target has no primary key of the audit's key, which a patch needs"
        return "its rows cannot be patched one by one"

    def _span(self) -> tuple[int, int] | None:
        """Return the least and the greatest key of what differs; None where keys have no order, must not be shown, or are not known.

        They are those of the rows and ranges that were named, or, where more rows differ, of the partitions that differ. Where nine tenths
        of the rows are in ranges that are missing on one side, they are of these alone.
        """
        comparison, differences = self.report.comparison, self.report.differences
        if not self._plan.has_integer_key or self._is_masked or comparison is None:
            return None
        ranges = [span for span in differences.ranges if span.first is not None and span.last is not None] if differences else []
        of_ranges = [(span.first or 0, span.last or 0) for span in ranges]
        if differences and sum(span.rows for span in ranges) >= 0.9 * _count(differences) > 0:
            ends = of_ranges
        elif differences and not unnamed(differences) and not any(None in difference.key.values() for difference in differences.named):
            ends = [*of_ranges, *((difference.key_number, difference.key_number) for difference in differences.named)]
        else:
            ends = [divergence.key_range for divergence in comparison.divergent if divergence.key_range]
            if len(ends) < len(comparison.divergent):
                return None
        return (min(first for first, _ in ends), max(last for _, last in ends)) if ends else None

    def _rows_between(self, first: int, last: int) -> int:
        """Return at most how many rows have keys in a range, by what the run has counted: it holds no more rows than keys, none twice."""
        assert self.report.comparison
        keys = last - first + 1
        ends = [
            divergence
            for divergence in self.report.comparison.divergent
            if divergence.key_range and divergence.key_range[0] <= last and divergence.key_range[1] >= first
        ]
        numbers = [divergence.partition for divergence in ends if divergence.partition is not None]
        counted = max(sum(divergence.rows[side] for divergence in ends) for side in SIDES)
        follow_each_other = numbers and max(numbers) - min(numbers) + 1 == len(numbers) == len(ends)
        return min(self._total, keys, counted) if follow_each_other else min(self._total, keys)

    def _seconds_to_read(self, rows: int) -> float:
        """Return how long an audit of so many rows takes, by what this run took."""
        return self.report.seconds * rows / self._total

    def _seconds_to_copy(self, rows: int) -> float:
        """Return how long a copy takes: it is written, and audited before it is used."""
        return rows / self.rates.copied + self._seconds_to_read(rows)

    def _suggestion(self, tool: Tool, rows: int, seconds: float, command: str) -> Suggestion:
        return Suggestion(tool, rows, min(1.0, rows / self._total), BEGINNING + seconds, command)


def _count(differences: Differences) -> int:
    return differences.missing + differences.extra + differences.changed


def _dialect(target: ConnectionSettings) -> Dialect | None:
    """Return the target's dialect; None for a URL that leads to none."""
    try:
        return dialects.by_scheme(dialects.parse_url(target.url).scheme)
    except AuditorError:
        return None
