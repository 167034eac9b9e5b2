"""The standing definition of an audit: which tables, which columns, how they are compared."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from auditor import canonical
from auditor.config._base import Duration, Sql, Strict
from auditor.config._life import Counts, Ladder, Proxy, Recheck, Rolling, Settle, Threshold, Thresholds, Tolerance
from auditor.config._service import Schedules
from auditor.model import Method
from dialects import Place


def _known_kind(text: str) -> str:
    canonical.parse_kind(text)
    return text


class TableRef(Strict):
    """A table of a connection, or files by their path, and (of the target) how its columns are called there."""

    connection: str
    table: str
    format: Literal["parquet", "csv", "delta", "iceberg"] | None = None
    version: int | None = None
    timestamp: str | None = None
    columns: dict[str, str] = {}
    """Source's name to this side's name."""

    @property
    def place(self) -> Place:
        """The table's name taken apart at its points; a path if it has a slash or a file's ending, or a format is given."""
        is_path = self.format or "/" in self.table or re.search(r"\.(parquet|csv)(\.gz)?$", self.table)
        if not is_path:
            parts = tuple(part.strip('"`') for part in re.findall(r'"[^"]+"|`[^`]+`|[^.]+', self.table))
            return Place(parts)
        ending = "csv" if re.search(r"\.csv(\.gz)?$", self.table) else "parquet"
        return Place((), self.table, self.format or ending, self.version, self.timestamp)


class Override(Strict):
    """How one column is compared where the default is not what is wanted."""

    kind: Annotated[str, AfterValidator(_known_kind)] | None = None
    round: int | None = Field(None, ge=0, le=15)
    trim: bool = False
    case: Literal["lower", "upper"] | None = None
    null_as: str | None = None
    mask: bool = False
    """Show only that this column differs, never a value."""
    expr: Sql | None = None
    tolerance: Tolerance | None = None
    """How far the two sides' values may be apart and count as equal."""

    @model_validator(mode="after")
    def _consistent(self) -> Override:
        if self.expr is not None and self.kind is None:
            raise ValueError("an expr needs its kind beside it, e.g. kind: integer")
        if self.round is not None and self.kind is not None:
            raise ValueError("write either round or kind; round: 2 is kind: rounded(2)")
        if self.tolerance is not None and (self.round is not None or self.kind is not None):
            raise ValueError("write either a tolerance or round or kind: a tolerance chooses its kind itself")
        return self


class Columns(Strict):
    """Which columns are compared, by the source's names; all of the source's without this."""

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    override: dict[str, Override] = {}


class Partition(Strict):
    """How rows are put into partitions; chosen from the key and the row count without this."""

    strategy: Literal["range", "hash", "time"] | None = None
    size: int | None = Field(None, ge=1)
    buckets: int | None = Field(None, ge=1, le=1 << 20)
    column: str | None = None
    unit: Literal["hour", "day", "month"] = "day"
    rows: int = Field(3072, ge=1)
    """Rows a partition should hold."""
    limit: int = Field(65536, ge=1, le=1 << 20)
    """The most partitions there should be."""


class Limits(Strict):
    """How far the method exact goes to name differences; beyond, it estimates."""

    max_rows_listed: int | None = Field(None, ge=0)
    """Rows fetched of partitions that do not decode; by default 1 % of the table, and at least 100,000."""
    max_differences: int = Field(10_000, ge=0)
    """Differences that are kept by their keys; all are counted."""
    max_seconds: Duration = 600.0
    """Seconds spent on naming differences."""
    value_length: int = Field(200, ge=1)
    """Characters of a value that are shown."""


class Audit(Strict):
    """The standing definition of an audit."""

    source: TableRef
    target: TableRef
    key: tuple[str, ...] = ()
    columns: Columns = Columns()
    where: Sql | None = None
    method: Literal[Method, "auto"] = "exact"
    """``auto`` chooses between exact and minhash from the differences that the last runs found."""
    k: int | None = Field(None, ge=1, le=256)
    """Minhashes: 16 with the method minhash; none with the method exact, unless asked for here."""
    t: int = Field(3, ge=1, le=16)
    """Differences that the method exact names in one partition."""
    bits: Literal[60, 120] = 60
    """Bits of the row hash that enter the signature of the method exact."""
    salt: str = Field("random", pattern=r"^[0-9A-Za-z]{0,64}$")
    """What the row text begins with under the methods signature and exact: new for every connected run, nothing in SQL for
    consoles (``random``), or these letters and digits."""
    limits: Limits = Limits()
    hash: Literal["sha256", "md5"] = "sha256"
    encoding: Literal["injective", "published"] = "injective"
    partition: Partition = Partition()
    threshold: Thresholds = Threshold()
    allow_empty: bool = False
    snapshot: Literal["whole", "per_chunk"] | None = None
    """Whether one snapshot holds for a whole side, or each chunk has a short one of its own; without it, by the table's size."""
    settle: Settle | None = None
    recheck: Recheck | None = None
    ladder: Ladder | None = None
    rolling: Rolling | None = None
    counts: Counts = Counts()
    via: Proxy | None = None
    schedule: Schedules | None = None
    schema_: Literal["note", "strict"] = Field("note", alias="schema")
    """Whether a column that changed since the last run is told, or fails the run."""

    @model_validator(mode="after")
    def _goes_together(self) -> Audit:
        if self.ladder and self.method not in ("exact", "auto"):
            raise ValueError("write either a method or a ladder of methods")
        last = self.ladder.levels[-1] if self.ladder else self.method
        if self.recheck and last not in ("exact", "auto"):
            raise ValueError(f"recheck looks at rows again, and the method {last} names none: use exact, or a ladder that ends with it")
        if self.rolling and self.method == "counts":
            raise ValueError("a rolling audit compares partitions: use the method signature, minhash or exact")
        return self

    @property
    def algorithm(self) -> Literal["sha256", "md5"]:
        """The row hash: the published encoding implies MD5."""
        return "md5" if self.encoding == "published" else self.hash
