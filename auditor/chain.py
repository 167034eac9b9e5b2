"""Audits by way of a dump that stands in for the source: two legs, source to dump and dump to target, and what both say together.

The source is read only when the dump is audited against it, which is done less often.

**The bound.** d = 1 - J, with J the row-weighted Jaccard similarity of two multisets of rows, is a metric (Levandowsky and Winter,
"Distance between sets", Nature 234, 1971; Kosub, "A note on the triangle inequality for the Jaccard distance", 2019; for
multisets because d is the same for sets in which the i-th copy of a row is an element of its own). With J1 of source and dump
and J2 of dump and target, J of source and target is therefore bounded:

    1 - d1 - d2 <= J <= 1 - abs(d1 - d2),  that is  J1 + J2 - 1 <= J <= 1 - abs(J1 - J2)

Where J1 and J2 are known as intervals, the lower bound holds with their lower ends, the upper one with the gap between them. Two
intervals of 95 % hold together in 90 % of cases at least (Bonferroni). The bound is about rows that are equal or not: where a
leg rounds, cuts or tolerates, it is about rows as that leg sees them. And it is about one state of the dump: where nobody knows
which moment a dump stands for, it may have been made anew between its two audits, and no match is claimed.

**The threshold** is held against both legs together: a key that differs between source and target differs in one of them, so that no
more keys differ than in both.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from glob import glob
from pathlib import Path

import dialects
from auditor.config import Audit, Columns, Connection, Override, Per, Proxy, Sql, TableRef, Threshold, Written
from auditor.errors import ConfigError
from auditor.model import Jaccard, Report, Verdict
from dialects import Table

LEGS = ("dump", "target")
"""What the legs' names end with: source to dump, dump to target."""

AS_OF = "auditor.as_of"
"""The key under which a Parquet file's own metadata says which moment it stands for."""


EQUAL = Threshold()
"""The threshold that allows nothing."""


def legs(name: str, audit: Audit, connections: Mapping[str, Connection], source: Table | None = None) -> dict[str, Audit]:
    """The two audits that an audit with ``via`` stands for: ``NAME.dump`` and ``NAME.target``.

    The dump calls its columns as the source does, so renames belong to the second leg; what a person wrote in the source's SQL
    stays in that dialect. ``source`` is the source's table, if it was described: a dump has no primary key of its own, and a
    column that only the target has is none of the first leg's. Raises ConfigError for what cannot be split.
    """
    if audit.via is None:
        raise ConfigError(f"audit {name} has no via:")
    key = audit.key or (source.primary_key if source else ())
    if not key:
        raise ConfigError(f"audit {name}: a dump has no primary key; write key: [column, ...] beside via:")
    written_in = dialects.by_scheme(dialects.parse(connections[audit.source.connection].url).scheme).name

    def read(sql: Sql, what: str) -> Written:
        if isinstance(sql, Per):
            raise ConfigError(
                f"audit {name}: {what} is written for the source and the target, and via: has a dump between them; write it once"
            )
        return sql if isinstance(sql, Written) else Written(sql=sql, dialect=written_in)

    rules = {
        column: rule if rule.expr is None else rule.model_copy(update={"expr": read(rule.expr, f"expr of {column}")})
        for column, rule in audit.columns.override.items()
    }
    dump = TableRef(connection=audit.via.connection, table=audit.via.table, format=audit.via.format)
    common = {
        "key": tuple(key),
        "where": None if audit.where is None else read(audit.where, "where"),
        "via": None,
        "columns": audit.columns.model_copy(update={"override": rules}),
    }
    to_dump = {"target": dump, "source": audit.source, "columns": _first(audit.columns, rules, source)}
    to_target = {"source": dump, "target": audit.target}
    return {
        f"{name}.{LEGS[0]}": audit.model_copy(update=common | to_dump),
        f"{name}.{LEGS[1]}": audit.model_copy(update=common | to_target),
    }


def _first(columns: Columns, rules: Mapping[str, Override], source: Table | None) -> Columns:
    """The rules of the first leg: without exclusions of columns that only the target has."""
    here = {column.name.lower() for column in source.columns} if source else {name.lower() for name in columns.exclude}
    kept = tuple(name for name in columns.exclude if name.lower() in here)
    return columns.model_copy(update={"override": rules, "exclude": kept})


@dataclass(frozen=True, slots=True, kw_only=True)
class Leg:
    """What one leg's last run found: when it began, and the moment that the dump it read stands for (None: unknown).

    ``differing`` is how many keys differ (None: not known exactly), of ``rows`` on the side that has more.
    """

    verdict: Verdict
    jaccard: Jaccard | None
    began: dt.datetime
    as_of: dt.datetime | None = None
    differing: int | None = None
    rows: int = 0


def leg(verdict: Verdict, began: dt.datetime, report: Report | None) -> Leg:
    """What a leg's run and its report say."""
    if report is None:
        return Leg(verdict=verdict, jaccard=None, began=began)
    named = report.differences
    differing = named.missing + named.extra + named.changed if named and named.exact else None
    rows = max(report.comparison.rows.values()) if report.comparison else 0
    return Leg(verdict=verdict, jaccard=report.jaccard, began=began, as_of=report.as_of, differing=differing, rows=rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class Combined:
    """What two legs say together of source and target: J lies between ``lower`` and ``upper`` (with the legs' 95 % intervals),
    and for certain between ``least`` and ``most``. Ages are in seconds; of the dump None where its moment is unknown."""

    verdict: Verdict
    reasons: tuple[str, ...]
    lower: float
    upper: float
    least: float
    most: float
    ages: tuple[float | None, float | None]
    dump_age: float | None


def combined(first: Leg | None, second: Leg | None, now: dt.datetime, threshold: Threshold = EQUAL) -> Combined:
    """What two legs say together; a leg that never ran claims nothing.

    The verdict is match only if both legs say so of one dump, and what differs in both together is within the threshold.
    """
    reasons: list[str] = []
    for leg, what in ((first, "source and dump"), (second, "dump and target")):
        if leg is None:
            reasons.append(f"{what} were never compared")
        elif leg.verdict is Verdict.UNKNOWN:
            reasons.append(f"nothing is claimed of {what}")
        elif leg.verdict is Verdict.MISMATCH:
            reasons.append(f"{what} differ")
    verdicts = {leg.verdict if leg else Verdict.UNKNOWN for leg in (first, second)}
    verdict = next(one for one in (Verdict.UNKNOWN, Verdict.MISMATCH, Verdict.MATCH) if one in verdicts)
    replaced = len({leg.as_of for leg in (first, second) if leg and leg.as_of}) > 1
    if replaced:
        verdict = Verdict.UNKNOWN
        reasons.append("the dump was replaced between the two: audit it against the source again")
    seen = [leg.jaccard if leg and not replaced else None for leg in (first, second)]
    undated = any(leg is not None and leg.as_of is None for leg in (first, second))
    if undated:
        reasons.append(
            "it is not known which moment the dump stands for, so it may have been made anew between the two:"
            " write its as_of under via: each time that it is made, or dump to files"
        )
        verdict = Verdict.UNKNOWN if verdict is Verdict.MATCH else verdict
        seen = [None, None]
    lower, upper = bounds(*((one.score.lower, one.score.upper) if one else (0.0, 1.0) for one in seen))
    least, most = bounds(*((one.least, one.most) if one else (0.0, 1.0) for one in seen))
    as_of = second.as_of if second else first.as_of if first else None
    if verdict is Verdict.MATCH and first and second and not _within(first, second, lower, threshold):
        verdict = Verdict.UNKNOWN
        reasons.append("source and dump differ within the threshold, and so do dump and target: together they may be beyond it")
    return Combined(
        verdict=verdict,
        reasons=tuple(reasons) or ("source and dump match, and so do dump and target",),
        lower=lower,
        upper=upper,
        least=least,
        most=most,
        ages=(_age(first.began if first else None, now), _age(second.began if second else None, now)),
        dump_age=_age(as_of, now),
    )


def _within(first: Leg, second: Leg, lower: float, threshold: Threshold) -> bool:
    """Whether the threshold allows what differs in both legs together; of two of which one is equal, the other's verdict stands."""
    if any(one.jaccard is None or one.jaccard.score.lower == 1 for one in (first, second)):
        return True
    if threshold.score < 1 and lower >= threshold.score:
        return True
    if first.differing is None or second.differing is None:
        return False
    differing, rows = first.differing + second.differing, min(first.rows, second.rows)
    if threshold.rows is not None and differing <= threshold.rows:
        return True
    return threshold.share is not None and rows > 0 and differing / rows <= threshold.share


def bounds(first: tuple[float, float], second: tuple[float, float]) -> tuple[float, float]:
    """The interval of the similarity of the two ends of a chain, from those of its legs."""
    gap = max(0.0, first[0] - second[1], second[0] - first[1])
    upper = 1 - gap
    return min(upper, max(0.0, first[0] + second[0] - 1)), upper  # in floating point the two can cross by a last place


def _age(moment: dt.datetime | None, now: dt.datetime) -> float | None:
    return None if moment is None else (now - moment).total_seconds()


def as_of(proxy: Proxy) -> dt.datetime | None:
    """The moment that a dump stands for: as configured, else as its Parquet files say, else when a local file was written.

    Of several files the earliest, for each holds what was there when it was written; a lake table, whose files belong to many
    moments, is as of its last one. None where nobody knows: a table, or files that are not on this machine.
    """
    if proxy.as_of is not None:
        return _utc(proxy.as_of)
    place = TableRef(connection=proxy.connection, table=proxy.table, format=proxy.format).place
    files = _files(place.path or "")
    if not files:
        return None
    if place.format in ("delta", "iceberg"):
        return max(_written(file) for file in files)
    return min(_said(file) or _written(file) for file in files)


def _files(path: str) -> list[Path]:
    root = path.removeprefix("file://")
    found = [Path(one) for one in glob(root, recursive=True)] if root else []  # noqa: PTH207 - Path.glob takes no absolute pattern
    return [file for one in found for file in ([one] if one.is_file() else one.rglob("*")) if file.is_file()]


def _written(file: Path) -> dt.datetime:
    return dt.datetime.fromtimestamp(file.stat().st_mtime, dt.UTC)


def _said(file: Path) -> dt.datetime | None:
    """The moment in a Parquet file's own metadata; None where there is none that can be read."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        found = (pq.read_metadata(file).metadata or {}).get(AS_OF.encode())
        return _utc(dt.datetime.fromisoformat(found.decode())) if found else None
    except (pa.ArrowException, ValueError, OSError):
        return None


def _utc(moment: dt.datetime) -> dt.datetime:
    return moment.replace(tzinfo=dt.UTC) if moment.tzinfo is None else moment.astimezone(dt.UTC)
