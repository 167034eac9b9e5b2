"""Conventions: how the tables of other replication tools say which of their rows count, and how they write values.

A convention is data: which column flags a row as deleted, which columns say which of a key's rows is the current one, which columns are the
tool's own, and which types it is known to write otherwise than its source has them. Planning turns it into a filter, columns that are left
out, names and expressions; nothing else knows a tool. Each declaration links to the page that it is taken from.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal, get_args

ToolName = Literal[
    "fivetran",
    "fivetran-history",
    "airbyte",
    "airbyte-append",
    "dms",
    "peerdb",
    "debezium",
    "debezium-append",
    "dlt",
    "dlt-scd2",
    "dlt-append",
    "stitch",
    "stitch-append",
]
"""The conventions of tools that are known."""

TypeMapping = Literal[
    "boolean_text",
    "clock_microseconds",
    "clock_text",
    "days",
    "epoch",
    "epoch_microseconds",
    "epoch_milliseconds",
    "epoch_seconds",
    "timestamp_text",
]
"""How a tool writes a type that its target has, too. ``boolean_text``: ``true`` and ``false``. ``clock_microseconds``: a time of day as
microseconds since midnight. ``clock_text``, ``timestamp_text``: a time of day, or a timestamp of UTC, as ISO 8601. ``days``: a date as days
since 1970-01-01. ``epoch_...``: a timestamp as that unit since 1970-01-01 UTC; ``epoch``: milliseconds of timestamps with up to three
digits after the point, and microseconds of finer ones."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A column whose value says something about its row."""

    column: str
    """The column's name; capitals do not matter."""
    value: str = "true"
    """The value that says it: ``true`` or ``false`` of a boolean column, a number, or a text."""
    filled: bool | None = None
    """Whether any value, or none (NULL), says it, whatever ``value`` is; None where ``value`` decides."""

    def __str__(self) -> str:
        if self.filled is not None:
            return f"{self.column} is {'not ' if self.filled else ''}NULL"
        return f"{self.column} is {self.value}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Convention:
    """How a tool's tables say which rows count."""

    name: str
    """Its name in an audit."""
    needs: tuple[tuple[str, ...], ...] = ()
    """The columns by which a table of this convention is recognised: of each group at least one is there."""
    deleted: tuple[Mark, ...] = ()
    """What flags a row as deleted; marks whose column a table does not have are passed over."""
    current: Mark | None = None
    """What only the current row of a key has, of tables whose history the tool closes itself; None where all rows are current."""
    versions: tuple[str, ...] = ()
    """The columns by which the row of a key is the latest that has the greatest values, the first column first; those that a table does not
    have are passed over. Empty where a key has one row."""
    metadata: tuple[str, ...] = ()
    """Patterns of the tool's own columns, in lower case, which are not compared."""
    types: tuple[TypeMapping, ...] = ()
    """How the tool writes some types."""
    stated: tuple[str, ...] = ()
    """The columns that a person stated, each of which must be there."""
    link: str = ""
    """The tool's page about them; empty for a person's own."""

    def is_own_column(self, name: str) -> bool:
        """Return whether a column is the tool's own."""
        return any(fnmatchcase(name.lower(), pattern) for pattern in self.metadata)


_FIVETRAN = "https://fivetran.com/docs/core-concepts/system-columns-and-tables"
_AIRBYTE = "https://docs.airbyte.com/understanding-airbyte/airbyte-metadata-fields"
_AIRBYTE_CDC = "https://docs.airbyte.com/understanding-airbyte/cdc/"
_DMS = "https://docs.aws.amazon.com/dms/latest/userguide/CHAP_Target.S3.html#CHAP_Target.S3.Configuring.InsertOps"
_PEERDB = "https://docs.peerdb.io/sql/commands/create-mirror"
_DEBEZIUM = "https://debezium.io/documentation/reference/stable/transformations/event-flattening.html"
_DLT = "https://dlthub.com/docs/general-usage/merge-loading"
_STITCH = "https://help.qlik.com/en-US/stitch/Content/replication/loading/querying-append-only-tables.htm"
_STITCH_DELETES = "https://help.qlik.com/en-US/stitch/replication/deleted-record-handling.md"

_AIRBYTE_COLUMNS = ("_airbyte_*", "_ab_cdc_*")
_DEBEZIUM_ORDER = ("__lsn", "__source_lsn", "__file", "__source_file", "__pos", "__source_pos", "__row", "__source_row", "__source_ts_ms")
_DEBEZIUM_TYPES: tuple[TypeMapping, ...] = ("days", "epoch", "clock_microseconds", "timestamp_text", "clock_text")

CONVENTIONS: tuple[Convention, ...] = (
    Convention(
        name="fivetran-history",
        needs=(("_fivetran_active",), ("_fivetran_start",)),
        current=Mark("_fivetran_active"),
        metadata=("_fivetran_*",),
        types=("clock_text",),
        link=_FIVETRAN,
    ),
    Convention(
        name="fivetran",
        needs=(("_fivetran_synced",),),
        deleted=(Mark("_fivetran_deleted"),),
        metadata=("_fivetran_*",),
        types=("clock_text",),
        link=_FIVETRAN,
    ),
    Convention(
        name="airbyte",
        needs=(("_airbyte_extracted_at", "_airbyte_emitted_at"),),
        deleted=(Mark("_ab_cdc_deleted_at", filled=True),),
        metadata=_AIRBYTE_COLUMNS,
        types=("timestamp_text", "clock_text"),
        link=_AIRBYTE,
    ),
    Convention(
        name="airbyte-append",
        needs=(("_airbyte_extracted_at", "_airbyte_emitted_at"),),
        deleted=(Mark("_ab_cdc_deleted_at", filled=True),),
        versions=("_ab_cdc_lsn", "_ab_cdc_cursor", "_airbyte_extracted_at", "_airbyte_emitted_at"),
        metadata=_AIRBYTE_COLUMNS,
        types=("timestamp_text", "clock_text"),
        link=_AIRBYTE_CDC,
    ),
    Convention(
        name="dms",
        needs=(("op",),),
        deleted=(Mark("op", value="D"),),
        metadata=("op",),
        types=("boolean_text", "clock_text"),
        link=_DMS,
    ),
    Convention(
        name="peerdb",
        needs=(("_peerdb_is_deleted", "_peerdb_synced_at"),),
        deleted=(Mark("_peerdb_is_deleted"),),
        metadata=("_peerdb_*",),
        types=("clock_text",),
        link=_PEERDB,
    ),
    Convention(
        name="debezium",
        needs=(("__deleted", "__op"),),
        deleted=(Mark("__deleted"), Mark("__op", value="d")),
        metadata=("__*",),
        types=_DEBEZIUM_TYPES,
        link=_DEBEZIUM,
    ),
    Convention(
        name="debezium-append",
        needs=(("__deleted", "__op"), _DEBEZIUM_ORDER),
        deleted=(Mark("__deleted"), Mark("__op", value="d")),
        versions=_DEBEZIUM_ORDER,
        metadata=("__*",),
        types=_DEBEZIUM_TYPES,
        link=_DEBEZIUM,
    ),
    Convention(
        name="dlt-scd2",
        needs=(("_dlt_valid_to",), ("_dlt_valid_from",)),
        current=Mark("_dlt_valid_to", filled=False),
        metadata=("_dlt_*",),
        types=("clock_text",),
        link=_DLT,
    ),
    Convention(
        name="dlt",
        needs=(("_dlt_id", "_dlt_load_id"),),
        metadata=("_dlt_*",),
        types=("clock_text",),
        link=_DLT,
    ),
    Convention(
        name="dlt-append",
        needs=(("_dlt_load_id",),),
        versions=("_dlt_load_id",),
        metadata=("_dlt_*",),
        types=("clock_text",),
        link=_DLT,
    ),
    Convention(
        name="stitch",
        needs=(("_sdc_batched_at", "_sdc_sequence", "_sdc_received_at"),),
        deleted=(Mark("_sdc_deleted_at", filled=True),),
        metadata=("_sdc_*",),
        types=("clock_text", "timestamp_text"),
        link=_STITCH_DELETES,
    ),
    Convention(
        name="stitch-append",
        needs=(("_sdc_sequence",),),
        deleted=(Mark("_sdc_deleted_at", filled=True),),
        versions=("_sdc_sequence", "_sdc_batched_at"),
        metadata=("_sdc_*",),
        types=("clock_text", "timestamp_text"),
        link=_STITCH,
    ),
)
"""The conventions of known tools. Of those that a table's columns fit, the first is the one that is proposed: a history that a tool closes
has columns of its own, and a table to which it only appends has not."""

OWN = "own"
"""The name of a convention that a person states."""

NAMES: tuple[ToolName, ...] = get_args(ToolName)

_BY_NAME = {convention.name: convention for convention in CONVENTIONS}


def by_name(name: str) -> Convention:
    """Return the convention of a tool. Raises KeyError."""
    return _BY_NAME[name]


def recognise(columns: Iterable[str]) -> Convention | None:
    """Return the convention that a table's columns fit; None if they fit none."""
    there = {column.lower() for column in columns}
    return next((known for known in CONVENTIONS if all(there.intersection(group) for group in known.needs)), None)


def folded_name(name: str) -> str:
    """Return a name's letters and digits in lower case, without accents: what is left of it whatever a tool makes of it.

    Tools write ``OrderID``, ``order-id`` and ``Order Id`` as ``order_id`` or ``orderid``, and put ``_`` before a digit or a reserved word.
    """
    plain = unicodedata.normalize("NFKD", name).casefold()
    return re.sub(r"[\W_]", "", "".join(mark for mark in plain if not unicodedata.combining(mark))) or name.casefold()
