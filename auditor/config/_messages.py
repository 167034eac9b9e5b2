"""How rows are written as messages, and read from them: their form, their format, and how values of each kind are written."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from auditor.config._base import Strict

ENVELOPE_FIELDS = ("op", "ts_ms", "ts_us", "ts_ns")
"""Fields of Debezium's envelope that the flat form can add."""

SOURCE_FIELDS = (
    "version", "connector", "name", "ts_ms", "snapshot", "db", "sequence", "ts_us", "ts_ns", "table", "server_id", "gtid", "file", "pos",
    "row", "thread", "query",
)  # fmt: skip
"""Fields of Debezium's block ``source``, in its order."""


def _check_added(name: str) -> str:
    block, _, field = name.rpartition(".")
    known = {"": {*ENVELOPE_FIELDS, *SOURCE_FIELDS}, "source": {*SOURCE_FIELDS}}
    if field not in known.get(block, ()):
        raise ValueError(f"{name!r} is no field of a change; write one of {', '.join(ENVELOPE_FIELDS)}, or of its source, as source.ts_ms")
    return name


MessageFormat = Literal["json", "json_schema", "avro"]
"""Names of formats; what each is: `auditor.pipeline.messages.formats`."""


class MessageSettings(Strict):
    """How rows are written as messages, and read from them.

    Options of Debezium 3.6 that change a value, with its defaults. Left out are: ``enable.time.adjuster``, which moves years before 100
    into 1970 to 2069 (years are written as they are); ``event.converting.failure.handling.mode`` (a value that a message cannot hold is
    refused by name); ``column.mask.*``, ``column.truncate.*``, ``column.exclude.list`` and ``message.key.columns`` (a pipeline's columns:
    exclude, mask and compute them, and messages have the table's key); ``include.query`` (the log is not read for it: ``query`` is null);
    ``converters``; ``skipped.operations`` and ``skip.messages.without.change`` (every change is written);
    ``unavailable.value.placeholder`` (rows are always whole).
    """

    values: Literal["debezium", "flat", "plain"] = "debezium"
    """``debezium``: before, after, op and source. ``flat``: the columns of the row after, with ``__deleted`` and the fields of ``add``, as
    ExtractNewRecordState writes it with ``delete.tombstone.handling.mode: rewrite-with-tombstone``; a delete has the row before.
    ``plain``: the columns of the row after; a delete is a tombstone alone."""
    format: MessageFormat = "json"
    """``json``; ``json_schema`` or ``avro``, with schemas in a registry and its identifier in the first 5 bytes."""
    schemas: bool = False
    """Whether each JSON message has its schema beside it, as Kafka Connect's JsonConverter writes it with ``schemas.enable``."""
    tombstones: bool = True
    """Whether a message without a value follows each delete, so that a compacted topic forgets its key (``tombstones.on.delete``). A table
    without a primary key has none."""
    decimals: Literal["precise", "string", "double"] = "precise"
    """DECIMAL as Connect's Decimal, its digits, or the next double, which loses digits (``decimal.handling.mode``)."""
    times: Literal["adaptive_time_microseconds", "connect", "isostring", "microseconds", "nanoseconds"] = "adaptive_time_microseconds"
    """DATE, TIME and DATETIME as numbers since 1970 in units that hold the column's digits, as Connect's types, which have milliseconds, as
    texts of ISO 8601, or as microseconds or nanoseconds (``time.precision.mode``). TIMESTAMP is a text in UTC always."""
    unsigned_bigints: Literal["long", "precise"] = "long"
    """BIGINT UNSIGNED as 64 bits with a sign, so that 2^63 and above are negative, or as Connect's Decimal
    (``bigint.unsigned.handling.mode``)."""
    binary: Literal["bytes", "base64", "base64-url-safe", "hex"] = "bytes"
    """BINARY and BLOB as bytes (base64 in JSON), or as such a text (``binary.handling.mode``)."""
    source_types: bool = False
    """Whether schemas say the columns' types in the source, so that these are read back exactly (``column.propagate.source.type``)."""
    add: tuple[Annotated[str, AfterValidator(_check_added)], ...] = Field(("op",))
    """Fields of a change that the flat form adds, as ``__op`` (``add.fields``)."""

    @model_validator(mode="after")
    def _consistent(self) -> MessageSettings:
        if self.schemas and self.format != "json":
            raise ValueError(f"schemas: is of format: json; with {self.format} they are in the registry; remove it")
        if self.values == "plain" and not self.tombstones:
            raise ValueError("tombstones: false with values: plain would not write deletes at all; remove one of them")
        if twice := next((name for name in self.add if self.add.count(name) > 1), None):
            raise ValueError(f"add: names {twice!r} twice; remove one")
        return self

    @property
    def has_registry(self) -> bool:
        """Whether schemas are in a registry."""
        return self.format != "json"


class RegistrySettings(Strict):
    """A registry of schemas that speaks Confluent's protocol, as Confluent's, Karapace, Apicurio and Redpanda do."""

    url: str = Field(pattern=r"^https?://[^@\s]+$")
    """Its address, without credentials."""
    user: str | None = None
    """The account, by HTTP's basic authentication."""
    password: str | None = Field(None, repr=False)
    """Its password."""
    ca: str | None = None
    """A file of certificates, in PEM, by which its own is verified; by default the system's."""

    @model_validator(mode="after")
    def _both_credentials(self) -> RegistrySettings:
        if (self.user is None) != (self.password is None):
            raise ValueError("user and password belong together; write both")
        return self
