"""The definition of an audit: which tables and columns are compared, and how."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from auditor import canonical
from auditor.config._base import Duration, Sql, Strict, Where, Zone
from auditor.config._policies import Counts, Ladder, Proxy, Recheck, Rolling, Settle, Threshold, ThresholdField, Tolerance
from auditor.config._service import ScheduleField
from auditor.model import Method
from dialects import Place


def _check_kind(text: str) -> str:
    canonical.parse_kind(text)
    return text


_QUOTED = r'"(?:[^"]|"")+"|`(?:[^`]|``)+`'
"""A quoted part of a table's name."""


def _unquote(part: str) -> str:
    return part[1:-1].replace(part[0] * 2, part[0]) if re.fullmatch(_QUOTED, part) else part


class TableRef(Strict):
    """A table of a connection, or files by their path; for the target also its names of the columns."""

    connection: str
    """The connection's name."""
    table: str
    """The table's name, with its schema if need be, or the path of files."""
    format: Literal["parquet", "csv", "delta", "iceberg"] | None = None
    """The format of the files at a path; by default that of the file's ending, else Parquet."""
    version: int | None = None
    """The version of a Delta or Iceberg table that is read; by default the newest."""
    timestamp: str | None = None
    """The time whose version of a Delta or Iceberg table is read, instead of ``version``."""
    columns: dict[str, str] = {}
    """This side's name of a column, by the source's name."""

    @property
    def place(self) -> Place:
        """The table's name split at its dots, or a path if it has a slash or a file extension, or a format is given.

        A part in double quotes or backticks, doubled inside, may have any character: ``shop."orders/2024"``.
        """
        plain = re.sub(_QUOTED, "", self.table)
        is_path = self.format or "/" in plain or re.search(r"\.(parquet|csv)(\.gz)?$", plain)
        if not is_path:
            parts = tuple(_unquote(part) for part in re.findall(rf"{_QUOTED}|[^.]+", self.table))
            return Place(parts, version=self.version, timestamp=self.timestamp)
        ending = "csv" if re.search(r"\.csv(\.gz)?$", self.table) else "parquet"
        return Place((), self.table, self.format or ending, self.version, self.timestamp)


class ZoneBySide(Strict):
    """The time zone of one side's times."""

    source: Zone | None = None
    target: Zone | None = None


class Override(Strict):
    """How one column is compared, if not by default."""

    kind: Annotated[str, AfterValidator(_check_kind)] | None = None
    """The kind as which both sides are compared, such as ``decimal(10,2)``, ``timestamp(0)`` or ``text``."""
    round: int | None = Field(None, ge=0, le=15)
    """Digits after the decimal point that are compared."""
    trim: bool = False
    """Leave out blanks at both ends."""
    case: Literal["lower", "upper"] | None = None
    """Fold the letters A to Z, and no others, before texts are compared."""
    null_as: str | None = None
    """The text that NULL equals, on both sides."""
    fraction: Literal["cut", "round"] | None = None
    """How the source's finer times and dates came into a coarser target; by default as the target's engine stores them itself."""
    mask: bool = False
    """Report only that this column differs, never its values."""
    expr: Sql | None = None
    """The expression whose result is compared instead of the column; it needs ``kind``."""
    tolerance: Tolerance | None = None
    """How far the two sides' values may differ and still count as equal."""
    zone: Zone | ZoneBySide | None = None
    """The time zone of the times of the side whose type has none, or of one side's; by default its connection's, else UTC."""

    @model_validator(mode="after")
    def _consistent(self) -> Override:
        if self.expr is not None and self.kind is None:
            raise ValueError("expr is given without kind; add the kind of its result, e.g. kind: integer")
        if self.expr is not None and self.fraction is not None:
            raise ValueError("fraction cannot be combined with expr, whose SQL says how times are rounded")
        if self.round is not None and self.kind is not None:
            raise ValueError("round and kind cannot be combined; round: 2 is the same as kind: rounded(2)")
        if self.zone is not None and self.expr is not None:
            raise ValueError("zone and expr cannot be combined; let expr return the times of UTC")
        if self.tolerance is not None and (self.round is not None or self.kind is not None):
            raise ValueError("tolerance cannot be combined with round or kind; write one of them")
        return self


class Columns(Strict):
    """Which columns are compared, by the source's names; by default all columns of the source."""

    include: tuple[str, ...] = ()
    """Columns that are compared; by default all of the source."""
    exclude: tuple[str, ...] = ()
    """Columns that are not compared."""
    override: dict[str, Override] = {}
    """How single columns are compared."""


class Partition(Strict):
    """How rows are assigned to partitions; by default chosen from the key and the row count."""

    strategy: Literal["range", "hash", "time"] | None = None
    """Ranges of an integer key, buckets of the key's hash, or spans of a time."""
    size: int | None = Field(None, ge=1)
    """Keys of a range."""
    buckets: int | None = Field(None, ge=1, le=1 << 20)
    """Number of buckets of the hash."""
    column: str | None = None
    """The time by whose spans rows are partitioned."""
    unit: Literal["hour", "day", "month"] = "day"
    """The length of a span."""
    rows: int = Field(3072, ge=1)
    """Rows per partition to aim for."""
    limit: int = Field(65536, ge=1, le=1 << 20)
    """Maximum number of partitions to aim for."""


class Limits(Strict):
    """Limits within which the method exact names differences; beyond them it estimates."""

    max_rows_listed: int | None = Field(None, ge=0)
    """Maximum rows listed of partitions that do not decode; by default 1 % of the table, and at least 100,000."""
    max_differences: int = Field(10_000, ge=0)
    """Maximum differences stored with their keys; all are counted."""
    max_seconds: Duration = 600.0
    """Maximum seconds spent on naming differences."""
    value_length: int = Field(200, ge=1)
    """Maximum characters of a value that are reported."""


class Audit(Strict):
    """The definition of an audit."""

    source: TableRef
    """The table that is right by definition."""
    target: TableRef
    """The table that should equal it."""
    key: tuple[str, ...] = ()
    """The columns that identify a row, by the source's names; by default the source's primary key."""
    columns: Columns = Columns()
    """Which columns are compared, and how."""
    where: Where | None = None
    """Which rows are compared, on both sides."""
    method: Literal[Method, "auto"] = "exact"
    """``auto`` chooses between exact and minhash by the differences that recent runs found."""
    k: int | None = Field(None, ge=1, le=256)
    """Number of minhashes; by default 16 for the method minhash, and none for the method exact."""
    t: int = Field(3, ge=1, le=16)
    """Differences that the method exact can decode per partition."""
    bits: Literal[60, 120] = 60
    """Bits of the row hash in the signature of the method exact."""
    salt: str = Field("random", pattern=r"^[0-9A-Za-z]{0,64}$")
    """The prefix of the row text for the methods signature and exact: these letters and digits, or with ``random`` a new one for every
    run over connections, and none in SQL for consoles."""
    limits: Limits = Limits()
    """How much is spent on naming differences."""
    hash: Literal["sha256", "md5"] = "sha256"
    """The hash function of rows."""
    encoding: Literal["injective", "published"] = "injective"
    """How a row becomes one text; ``published`` is that of the published method, which confuses NULL with the text NULL."""
    partition: Partition = Partition()
    """How rows are assigned to partitions."""
    threshold: ThresholdField = Threshold()
    """What still counts as a match; a number is a similarity."""
    allow_empty: bool = False
    """Whether two empty tables match; otherwise the verdict is unknown."""
    snapshot: Literal["whole", "per_chunk"] | None = None
    """One snapshot for a whole side, or a short one for each chunk; by default chosen by the table's size."""
    prescan: bool | None = None
    """Whether a run by the method signature or exact reads one signature for each of a few stretches of the table first, and then only
    those that differ; by default decided by what the last runs found."""
    settle: Settle | None = None
    """Leave out rows that may still be in flight."""
    recheck: Recheck | None = None
    """Look again before a difference is reported."""
    overdue_after: int = Field(10, ge=2, le=1000)
    """Runs in a row after which rows that none of them compared are reported."""
    ladder: Ladder | None = None
    """Begin with a cheap method, and escalate when it finds something; instead of ``method``."""
    rolling: Rolling | None = None
    """Read a part of the table in each run."""
    counts: Counts = Counts()
    """What the method counts measures and allows."""
    via: Proxy | None = None
    """A dump that stands in for the source."""
    schedule: ScheduleField | None = None
    """When the audit is due."""
    schema_: Literal["note", "strict"] = Field("note", alias="schema")
    """Whether a column that changed since the last run is noted in the report, or fails the run."""

    @model_validator(mode="after")
    def _goes_together(self) -> Audit:
        if self.ladder and self.method not in ("exact", "auto"):
            raise ValueError("method and ladder cannot be combined; write one of them")
        last = self.ladder.levels[-1] if self.ladder else self.method
        if self.recheck and last not in ("exact", "auto"):
            raise ValueError(
                f"recheck needs the keys of differing rows, which the method {last} does not find; use exact, or a ladder that ends with it"
            )
        if self.rolling and self.method == "counts":
            raise ValueError(
                "rolling needs partitions, which the method counts does not compare; use the method signature, minhash or exact"
            )
        return self

    @property
    def algorithm(self) -> Literal["sha256", "md5"]:
        """The hash function of rows; the published encoding implies MD5."""
        return "md5" if self.encoding == "published" else self.hash
