"""The configuration: ``auditor.yaml`` and environment variables, as typed settings. Each setting is declared once, in this package.

An error names the file, the line and what to write instead. ``${NAME}`` is replaced by an environment variable (an unset one is an
error), ``${file:/path}`` by the contents of a file without its last line break. Within a longer ``url:`` the value is percent-encoded,
so that a password may contain any character.
"""

from __future__ import annotations

from auditor.config._audit import (
    MAX_KEY,
    MIN_KEY,
    Audit,
    AuditGroup,
    Columns,
    KeyRange,
    Override,
    Partition,
    Proxy,
    SideRef,
    SliceSettings,
    TableRef,
    ThroughTopic,
    TimeRange,
    TopicRef,
    select_audits,
    table_name,
)
from auditor.config._base import Budget, Computed, DialectSql, PerSide, Sql, TranslatedSql, is_pattern, parse_duration
from auditor.config._broker import Broker, find_unverified_brokers
from auditor.config._carriers import TOPIC_SCHEMA, Carrier, Chain, find_carriers, find_chains, history_table, why_not_aligned
from auditor.config._connection import (
    ConnectionSettings,
    GuestLimits,
    Heartbeat,
    PauseWhen,
    Price,
    SparkCopy,
    WriteSettings,
    find_unverified,
)
from auditor.config._file import add_audits, find_file, load, set_source, validate_audit, validate_settings, validate_slice
from auditor.config._in_flight import History, Recheck, Settle
from auditor.config._limits import Limits, Rolling
from auditor.config._messages import ENVELOPE_FIELDS, SOURCE_FIELDS, MessageSettings, RegistrySettings
from auditor.config._methods import Counts, Ladder
from auditor.config._notify import Channel, Notify, Occasion, OpenLineage
from auditor.config._pipeline import (
    ANEW,
    AnalyzeSettings,
    ComputedColumn,
    MergeAt,
    MigrateSettings,
    Pipeline,
    PipelineColumns,
    PipelineSource,
    PipelineTarget,
    Route,
    SegmentAudit,
    Staging,
    TargetKeys,
    Transform,
    Versions,
    computed_kind,
)
from auditor.config._schedule import Schedule
from auditor.config._service import Service
from auditor.config._settings import Settings, find_secrets
from auditor.config._store import Evidence, Retention, Store
from auditor.config._tolerance import Threshold, Tolerance
from auditor.config._topic_source import PublishedBy, ReadTopic, TopicColumns, TopicSource
from auditor.config._topics import TopicTarget

__all__ = [
    "ANEW",
    "ENVELOPE_FIELDS",
    "MAX_KEY",
    "MIN_KEY",
    "SOURCE_FIELDS",
    "TOPIC_SCHEMA",
    "AnalyzeSettings",
    "Audit",
    "AuditGroup",
    "Broker",
    "Budget",
    "Carrier",
    "Chain",
    "Channel",
    "Columns",
    "Computed",
    "ComputedColumn",
    "ConnectionSettings",
    "Counts",
    "DialectSql",
    "Evidence",
    "GuestLimits",
    "Heartbeat",
    "History",
    "KeyRange",
    "Ladder",
    "Limits",
    "MergeAt",
    "MessageSettings",
    "MigrateSettings",
    "Notify",
    "Occasion",
    "OpenLineage",
    "Override",
    "Partition",
    "PauseWhen",
    "PerSide",
    "Pipeline",
    "PipelineColumns",
    "PipelineSource",
    "PipelineTarget",
    "Price",
    "Proxy",
    "PublishedBy",
    "ReadTopic",
    "Recheck",
    "RegistrySettings",
    "Retention",
    "Rolling",
    "Route",
    "Schedule",
    "SegmentAudit",
    "Service",
    "Settings",
    "Settle",
    "SideRef",
    "SliceSettings",
    "SparkCopy",
    "Sql",
    "Staging",
    "Store",
    "TableRef",
    "TargetKeys",
    "Threshold",
    "ThroughTopic",
    "TimeRange",
    "Tolerance",
    "TopicColumns",
    "TopicRef",
    "TopicSource",
    "TopicTarget",
    "Transform",
    "TranslatedSql",
    "Versions",
    "WriteSettings",
    "add_audits",
    "computed_kind",
    "find_carriers",
    "find_chains",
    "find_file",
    "find_secrets",
    "find_unverified",
    "find_unverified_brokers",
    "history_table",
    "is_pattern",
    "load",
    "parse_duration",
    "select_audits",
    "set_source",
    "table_name",
    "validate_audit",
    "validate_settings",
    "validate_slice",
    "why_not_aligned",
]
