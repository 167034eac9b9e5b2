"""Audits through a proxy, a dump that stands in for the source: two legs, source to dump and dump to target, and their combined verdict.

The source is read only when the dump is audited against it, which happens less often.

**The bound.** d = 1 - J, with J the row-weighted Jaccard similarity of two multisets of rows, is a metric (Levandowsky and Winter,
"Distance between sets", Nature 234, 1971; Kosub, "A note on the triangle inequality for the Jaccard distance", 2019; it holds for
multisets, because d is the same for sets in which the i-th copy of a row is an element of its own). With J1 for source and dump,
J2 for dump and target, d1 = 1 - J1 and d2 = 1 - J2, the similarity J of source and target is therefore bounded:

    1 - d1 - d2 <= J <= 1 - abs(d1 - d2),  that is  J1 + J2 - 1 <= J <= 1 - abs(J1 - J2)

If J1 and J2 are known as intervals, the lower bound uses their lower ends, the upper bound the gap between them. Two 95 % intervals
hold together in at least 90 % of cases (Bonferroni). The bound is about rows being equal or not: if a leg rounds, truncates or has
tolerances, it is about rows as that leg compares them. It also assumes one state of the dump: if the dump's moment is unknown, the
dump may have been replaced between its two audits, and no match is claimed.

**The threshold** is compared with both legs together: a key that differs between source and target differs in at least one leg, so
the number of differing keys is at most the sum of both legs'.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from glob import glob
from pathlib import Path

import dialects
from auditor.config import Audit, Columns, Computed, ConnectionSettings, DialectSql, Override, PerSide, Proxy, Sql, TableRef, Threshold
from auditor.errors import ConfigError
from auditor.model import Jaccard, Report, Verdict
from dialects import Table

LEG_SUFFIXES = ("dump", "target")
"""Suffixes of the legs' audit names: source to dump, dump to target."""

AS_OF = "auditor.as_of"
"""Key in a Parquet file's metadata whose value is the moment it stands for (ISO 8601, UTC unless it has an offset)."""

STRICT = Threshold()
"""A threshold that allows no difference."""


def split_audit(name: str, audit: Audit, connections: Mapping[str, ConnectionSettings], source: Table | None = None) -> dict[str, Audit]:
    """Return the two audits of an audit with ``via``, by name: ``NAME.dump`` (source to dump) and ``NAME.target`` (dump to target).

    The dump has the source's column names, so renames apply to the second leg; expressions stay in the source's dialect.
    ``source`` describes the source's table, if known: its primary key serves as the key, because a dump has none, and exclusions of
    columns that only the target has are dropped from the first leg. Raises ConfigError for settings that cannot be split.
    """
    if audit.via is None:
        raise ConfigError(f"audit {name} has no via:; add it, or run the audit itself")
    key = audit.key or (source.primary_key if source else ())
    if not key:
        raise ConfigError(f"audit {name}: a dump has no primary key; write key: [column, ...] beside via:")
    if isinstance(audit.where, PerSide):
        raise ConfigError(
            f"audit {name}: where has one filter per side, and via: has a dump between them; write one in the portable language"
        )
    written_in = dialects.by_scheme(dialects.parse_url(connections[audit.one_source("a dump").connection].url).scheme).name

    def read(sql: Sql, what: str) -> DialectSql:
        if isinstance(sql, PerSide):
            raise ConfigError(
                f"audit {name}: {what} has one expression per side, and via: has a dump between them; write a single expression"
            )
        if isinstance(sql, Computed):
            raise ConfigError(f"audit {name}: {what} computes the source's value alone, and via: has a dump between; remove one of them")
        return sql if isinstance(sql, DialectSql) else DialectSql(sql=sql, dialect=written_in)

    rules = {
        column: rule if rule.expr is None else rule.model_copy(update={"expr": read(rule.expr, f"expr of {column}")})
        for column, rule in audit.columns.override.items()
    }
    dump = TableRef(connection=audit.via.connection, table=audit.via.table, format=audit.via.format)
    common = {
        "key": tuple(key),
        "via": None,
        "columns": audit.columns.model_copy(update={"override": rules}),
    }
    to_dump = {"target": dump, "source": audit.source, "columns": _dump_columns(audit.columns, rules, source)}
    to_target = {"source": dump, "target": audit.target}
    return {
        f"{name}.{LEG_SUFFIXES[0]}": audit.model_copy(update=common | to_dump),
        f"{name}.{LEG_SUFFIXES[1]}": audit.model_copy(update=common | to_target),
    }


def _dump_columns(columns: Columns, rules: Mapping[str, Override], source: Table | None) -> Columns:
    """Return the column rules of the first leg: without exclusions of columns that only the target has."""
    in_source = {column.name.lower() for column in source.columns} if source else {name.lower() for name in columns.exclude}
    exclude = tuple(name for name in columns.exclude if name.lower() in in_source)
    return columns.model_copy(update={"override": rules, "exclude": exclude})


@dataclass(frozen=True, slots=True, kw_only=True)
class Leg:
    """The result of one leg's last run."""

    verdict: Verdict
    """Its verdict."""
    jaccard: Jaccard | None
    """Its row-weighted similarity; None where unknown."""
    began: dt.datetime
    """When it began, in UTC."""
    as_of: dt.datetime | None = None
    """The moment (UTC) that its dump stands for; None where unknown."""
    differing: int | None = None
    """Rows that differ; None where not known exactly."""
    rows: int = 0
    """Rows of the side that has more."""


def leg_result(verdict: Verdict, began: dt.datetime, report: Report | None) -> Leg:
    """Return the result of a leg from its run and its report; without a report only the verdict is known."""
    if report is None:
        return Leg(verdict=verdict, jaccard=None, began=began)
    named = report.differences
    differing = named.missing + named.extra + named.changed if named and named.exact else None
    rows = max(report.comparison.rows.values()) if report.comparison else 0
    return Leg(verdict=verdict, jaccard=report.jaccard, began=began, as_of=report.as_of, differing=differing, rows=rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class Combined:
    """The combined result of two legs for source and target. Bounds of J are in 0 .. 1."""

    verdict: Verdict
    """Match only if both legs match one state of the dump, and their differences together are within the threshold."""
    reasons: tuple[str, ...]
    """Sentences that explain the verdict."""
    lower: float
    """Lower bound of J, by the legs' 95 % intervals."""
    upper: float
    """Upper bound of J, by the legs' 95 % intervals."""
    least: float
    """Hard lower bound of J."""
    most: float
    """Hard upper bound of J."""
    ages: tuple[float | None, float | None]
    """Seconds since each leg's run began; None if it never ran."""
    dump_age: float | None
    """Seconds since the moment that the dump stands for; None where unknown."""


def combine(first: Leg | None, second: Leg | None, now: dt.datetime, threshold: Threshold = STRICT) -> Combined:
    """Return the combined result of two legs; None stands for a leg that never ran, about which nothing is claimed.

    The verdict is match only if both legs match one state of the dump, and their differences together are within the threshold.
    """
    reasons: list[str] = []
    for leg, what in ((first, "source and dump"), (second, "dump and target")):
        if leg is None:
            reasons.append(f"{what} were never compared")
        elif leg.verdict is Verdict.UNKNOWN:
            reasons.append(f"nothing is claimed about {what}")
        elif leg.verdict is Verdict.MISMATCH:
            reasons.append(f"{what} differ")
    verdicts = {leg.verdict if leg else Verdict.UNKNOWN for leg in (first, second)}
    verdict = next(option for option in (Verdict.UNKNOWN, Verdict.MISMATCH, Verdict.MATCH) if option in verdicts)
    replaced = len({leg.as_of for leg in (first, second) if leg and leg.as_of}) > 1
    if replaced:
        verdict = Verdict.UNKNOWN
        reasons.append("the dump was replaced between the two runs: audit it against the source again")
    scores = [leg.jaccard if leg and not replaced else None for leg in (first, second)]
    undated = any(leg is not None and leg.as_of is None for leg in (first, second))
    if undated:
        reasons.append(
            "the moment that the dump stands for is unknown, so it may have been replaced between the two runs:"
            " write as_of under via: whenever the dump is created, or dump to files"
        )
        verdict = Verdict.UNKNOWN if verdict is Verdict.MATCH else verdict
        scores = [None, None]
    lower, upper = bounds(*((score.score.lower, score.score.upper) if score else (0.0, 1.0) for score in scores))
    least, most = bounds(*((score.least, score.most) if score else (0.0, 1.0) for score in scores))
    as_of = second.as_of if second else first.as_of if first else None
    if verdict is Verdict.MATCH and first and second and not _within_threshold(first, second, least, threshold):
        verdict = Verdict.UNKNOWN
        reasons.append("source and dump differ within the threshold, and so do dump and target: together they may exceed it")
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


def _within_threshold(first: Leg, second: Leg, least: float, threshold: Threshold) -> bool:
    """Return whether the threshold certainly allows the differences of both legs together; if one leg is equal, the other's verdict stands.

    ``least`` is the certain lower bound of the similarity of source and target.
    """
    if any(leg.jaccard is None or leg.jaccard.least == 1 for leg in (first, second)):
        return True
    if threshold.score < 1 and least >= threshold.score:
        return True
    if first.differing is None or second.differing is None:
        return False
    differing, rows = first.differing + second.differing, min(first.rows, second.rows)
    if threshold.rows is not None and differing <= threshold.rows:
        return True
    return threshold.share is not None and rows > 0 and differing / rows <= threshold.share


def bounds(first: tuple[float, float], second: tuple[float, float]) -> tuple[float, float]:
    """Return the interval of the similarity of source and target from those of the legs, by the triangle inequality above."""
    gap = max(0.0, first[0] - second[1], second[0] - first[1])
    upper = 1 - gap
    return min(upper, max(0.0, first[0] + second[0] - 1)), upper  # rounding could make them cross


def _age(moment: dt.datetime | None, now: dt.datetime) -> float | None:
    return None if moment is None else (now - moment).total_seconds()


def as_of(proxy: Proxy) -> dt.datetime | None:
    """Return the moment (UTC) that a dump stands for: as configured, else from its Parquet metadata, else a local file's modification.

    Of several files the earliest counts, because each holds the data of its own moment; for a lake table, whose files are from many
    moments, the latest counts. None where unknown: for a table, and for files that are not local.
    """
    if proxy.as_of is not None:
        return _utc(proxy.as_of)
    place = TableRef(connection=proxy.connection, table=proxy.table, format=proxy.format).place
    files = _files(place.path or "")
    if not files:
        return None
    if place.format in ("delta", "iceberg"):
        return max(_modified_at(file) for file in files)
    return min(_moment_in_metadata(file) or _modified_at(file) for file in files)


def _files(path: str) -> list[Path]:
    root = path.removeprefix("file://")
    paths = [Path(path) for path in glob(root, recursive=True)] if root else []  # noqa: PTH207 - Path.glob takes no absolute pattern
    return [file for path in paths for file in ([path] if path.is_file() else path.rglob("*")) if file.is_file()]


def _modified_at(file: Path) -> dt.datetime:
    return dt.datetime.fromtimestamp(file.stat().st_mtime, dt.UTC)


def _moment_in_metadata(file: Path) -> dt.datetime | None:
    """Return the moment in a Parquet file's metadata; None if there is none that can be read."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        text = (pq.read_metadata(file).metadata or {}).get(AS_OF.encode())
        return _utc(dt.datetime.fromisoformat(text.decode())) if text else None
    except (pa.ArrowException, ValueError, OSError):
        return None


def _utc(moment: dt.datetime) -> dt.datetime:
    return moment.replace(tzinfo=dt.UTC) if moment.tzinfo is None else moment.astimezone(dt.UTC)
