"""Settings of a Spark session under which rows would be lost or values read otherwise: each is as Spark delivers it, or is set so.

They come from spark-defaults.conf, the cluster, or the URL. The table in docs/sessions.md says of the others why they do not matter.
https://spark.apache.org/docs/latest/configuration.html#runtime-sql-configuration
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from dialects.errors import BadUrl, EngineError
from dialects.settings import refuse_others

DEFAULTS: Mapping[str, str] = {
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.files.ignoreInvalidPartitionPaths": "false",
    "spark.sql.files.ignoredPathSegmentRegex": "^[._]",
    "spark.sql.optimizer.metadataOnly": "false",
    "spark.sql.sources.validatePartitionColumns": "true",
    "spark.sql.csv.parser.columnPruning.enabled": "true",
    "spark.sql.parquet.fieldId.read.ignoreMissing": "false",
    "spark.sql.parquet.aggregatePushdown": "false",
    "spark.sql.orc.aggregatePushdown": "false",
    "spark.databricks.delta.stalenessLimit": "0",
    "spark.sql.caseSensitive": "false",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.sql.readSideCharPadding": "true",
    "spark.sql.decimalOperations.allowPrecisionLoss": "true",
    "spark.sql.mapKeyDedupPolicy": "EXCEPTION",
    "spark.sql.parser.quotedRegexColumnNames": "false",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.ansi.doubleQuotedIdentifiers": "false",
    "spark.sql.ansi.relationPrecedence": "false",
    "spark.sql.groupByOrdinal": "true",
    "spark.sql.orderByOrdinal": "true",
    "spark.sql.groupByAliases": "true",
    "spark.sql.jsonGenerator.ignoreNullFields": "true",
    "spark.sql.execution.arrow.useLargeVarTypes": "false",
    "spark.sql.legacy.charVarcharAsString": "false",
    "spark.sql.legacy.castComplexTypesToString.enabled": "false",
    "spark.sql.legacy.codingErrorAction": "false",
    "spark.sql.legacy.javaCharsets": "false",
    "spark.sql.legacy.literal.pickMinimumPrecision": "true",
    "spark.sql.legacy.decimal.retainFractionDigitsOnTruncate": "false",
    "spark.sql.legacy.allowNegativeScaleOfDecimal": "false",
    "spark.sql.legacy.typeCoercion.datetimeToString.enabled": "false",
    "spark.sql.legacy.setopsPrecedence.enabled": "false",
    "spark.sql.legacy.ctePrecedencePolicy": "CORRECTED",
    "spark.sql.legacy.consecutiveStringLiterals.enabled": "false",
    "spark.sql.legacy.bangEqualsNot": "false",
    "spark.sql.legacy.truncateForEmptyRegexSplit": "false",
    "spark.sql.legacy.interval.enabled": "false",
    "spark.sql.legacy.doLooseUpcast": "false",
}
"""Their default values, by name."""

QUICKER: Mapping[str, str] = {"spark.databricks.delta.snapshotPartitions": "8"}
"""Settings that are set unless they already are. By default Delta reads a table's state in 50 tasks: slower than auditing a small table.
https://github.com/delta-io/delta/blob/master/spark/src/main/scala/org/apache/spark/sql/delta/sources/DeltaSQLConf.scala"""


def restore(where: str, read: Callable[[], Mapping[str, str]], write: Callable[[str, str], None]) -> None:
    """Set each of these settings that somebody has changed as Spark delivers it, and those that make statements quicker.

    ``read`` returns what is set at all, ``write`` sets one; what a service refuses to set raises EngineError. Raises SessionNotKept for
    one that stays as it is.
    """
    found = read()
    changed = _changed(found)
    quicker = {name: value for name, value in QUICKER.items() if name not in found}
    for name, value in (quicker | {name: DEFAULTS[name] for name in changed}).items():
        with suppress(EngineError):  # those that matter are read back
            write(name, value)
    if changed:
        refuse_others(where, DEFAULTS, _changed(read()))


def _changed(settings: Mapping[str, str]) -> dict[str, str]:
    """Return those that somebody has set otherwise, with their values."""
    return {name: settings[name] for name, value in DEFAULTS.items() if settings.get(name, value).lower() != value.lower()}


_GIVEN: dict[str, Mapping[str, str]] = {}
"""The settings with which this process started Spark, by the application."""


def take(where: str, spark: Any, given: Mapping[str, str], *, is_started: bool) -> None:
    """Let a session in this process have the settings of its URL. Raises BadUrl for those that it cannot have.

    A process has one Spark, and most settings are those with which it was started: just now (``is_started``), by an earlier URL, or by
    somebody else. Only those of Spark SQL, as of catalogues, can be a session's own.
    """
    context = spark.sparkContext
    if is_started:
        _GIVEN[context.applicationId] = given
    running = {**dict(context.getConf().getAll()), **_GIVEN.get(context.applicationId, {})}
    missing = [name for name, value in sorted(given.items()) if not _holds(running.get(name), value)]
    missing = [name for name in missing if not (name.startswith(_OWN) and _is_set(spark.conf, name, given[name]))]
    if missing:
        raise BadUrl(
            f"{where}: a Spark runs in this process without {', '.join(missing)}, which is set when it starts; write these settings"
            " into the URL of each connection to Spark in this process, or use a Spark Connect server (sc://)"
        )


_OWN = ("spark.sql.", "spark.databricks.")
"""How settings begin of which most can be a session's own."""


def _is_set(conf: Any, name: str, value: str) -> bool:
    """Set a setting for a session; return whether it has the value then."""
    with suppress(Exception):  # of one that is set when Spark starts
        conf.set(name, value)
    return bool(conf.get(name, None) == value)


def _holds(running: str | None, value: str) -> bool:
    """Return whether a setting has this value, or is a list with all that is in it; Spark completes the names of files."""
    return running is not None and _parts(value) <= _parts(running)


def _parts(value: str) -> set[str]:
    return {re.sub("^file:/+", "/", part.strip()) for part in value.split(",")}
