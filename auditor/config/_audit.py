"""Audits: their tables and settings, groups of them with one template, their names in commands, and the slice that one run reads."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, PrivateAttr, model_validator

from auditor import canonical
from auditor.config._base import Budget, Duration, Sql, Strict, Where, Zone, is_pattern, suggest
from auditor.config._broker import Broker
from auditor.config._in_flight import HistoryField, Recheck, Settle
from auditor.config._limits import Limits, Rolling
from auditor.config._methods import Counts, Ladder
from auditor.config._schedule import ScheduleField
from auditor.config._sides import Proxy, QueryRef, SideRef, Source, TableRef, Target, ThroughTopic, TopicRef, check_shards
from auditor.config._tolerance import Threshold, ThresholdField, Tolerance
from auditor.errors import ConfigError, UnknownAudit
from auditor.model import Method, Side, parse_time, shard_side


def _check_kind(text: str) -> str:
    canonical.parse_kind(text)
    return text


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
    # Where the method exact takes fewer: `FINER_FROM` of auditor/planning/partitioning.py.
    rows: int = Field(3072, ge=1)
    """Rows per partition to aim for; by default the method exact takes fewer for tables of 65,536 to 2 million rows."""
    limit: int = Field(65536, ge=1, le=1 << 20)
    """Maximum number of partitions to aim for."""


class Audit(Strict):
    """The definition of an audit."""

    source: Source
    """The table that is right by definition; a list of tables, the shards, of which each holds a part of the rows; a topic; or a query."""
    target: Target
    """The table, the topic or the query that should equal it."""
    key: tuple[str, ...] = ()
    """The columns that identify a row, by the source's names; by default the source's primary key."""
    columns: Columns = Columns()
    """Which columns are compared, and how."""
    where: Where | None = None
    """Which rows are compared, on both sides."""
    where_on: Literal["both", "source"] = "both"
    """On which sides ``where`` selects rows; with ``source``, all rows of the target's table are compared, which should have no others."""
    json_: Literal["value", "text"] = Field("value", alias="json")
    """How JSON documents are compared: by their values, or as text without blanks, with each engine's order of keys."""
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
    """How much is spent on finding the rows that differ."""
    budget: Budget = Budget()
    """What a run of the audit, or all runs of a day together, may cost on both sides together."""
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
    align: Literal["pipeline"] | None = None
    """Read both sides at one position of the stream of the pipeline that carries the table, so that nothing is in flight."""
    summaries: Literal["live"] | None = None
    """Let the pipeline that carries the table keep the source's summaries, so that a run reads only the target; implies ``align``."""
    files: Literal["kept"] | None = None
    """Keep the sums of each immutable file of a lake, or part of a ClickHouse table, so that a run reads only what no run has seen."""
    rescan: Duration | None = None
    """With ``summaries: live``, after how long a run reads the source again, to find what its log did not say; with ``files: kept``, after
    how long it reads all files again."""
    ledger: bool = False
    """With ``summaries: live``, let merges keep what they did to the target, so that ``auditor bisect`` says which one went wrong."""
    prescan: bool | None = None
    """Whether a run by the method signature or exact reads one digest or signature for each of some parts of the table first, and then
    only those that differ; by default decided by what the last runs found."""
    settle: Settle | None = None
    """Leave out rows that may still be in flight."""
    recheck: Recheck | None = None
    """Check again before a difference is reported."""
    history: HistoryField | None = None
    """Look up each row that differs among the versions of the source's rows that a pipeline keeps: whether it is in flight, or wrong."""
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
    through: ThroughTopic | None = None
    """The topic by which rows come into the target, where no pipeline of this configuration carries them; runs do not read it."""
    owner: str | None = Field(None, min_length=1)
    """Who answers for it: a team or a person. Channels of ``notify`` with ``owners`` are notified about audits of these alone."""
    schedule: ScheduleField | None = None
    """When the audit is due."""
    schema_: Literal["note", "strict"] = Field("note", alias="schema")
    """Whether a column that changed since the last run is noted in the report, or fails the run."""

    @model_validator(mode="before")
    @classmethod
    def _align_live(cls, given: Any) -> Any:
        """Return settings in which live summaries are aligned: they begin with a scan at a known place of the log."""
        return {**given, "align": "pipeline"} if isinstance(given, Mapping) and given.get("summaries") == "live" else given

    @model_validator(mode="after")
    def _goes_together(self) -> Audit:
        if self.files:
            self._check_files()
        if self.summaries:
            self._check_live()
        elif self.rescan is not None and not self.files:
            raise ValueError("rescan belongs to summaries: live and to files: kept; add one of them, or remove rescan")
        elif self.ledger:
            raise ValueError("ledger belongs to summaries: live; add it, or remove ledger")
        if self.where_on == "source" and not isinstance(self.where, str):
            raise ValueError("where_on: source needs a filter in the portable language; write where as one text, or remove where_on")
        if self.where_on == "source" and self.via:
            raise ValueError("where_on: source and via cannot be combined: the dump stands in for the source; remove one of them")
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
        if self.threshold.warn and (self.rolling or self.method == "counts"):
            setting = "rolling" if self.rolling else "method: counts"
            raise ValueError(
                f"threshold: warn and {setting} cannot be combined: it needs the number of rows that differ in the whole table"
            )
        if self.history:
            self._check_history(last)
        if self.shards:
            self._check_shards()
        if self.topics:
            self._check_topics()
        self._check_conventions()
        if self.queries:
            self._check_queries()
        if self.through:
            self._check_through()
        if self.align and self.snapshot == "per_chunk":
            raise ValueError("align reads each side in one snapshot; remove snapshot: per_chunk")
        if self.align and self.rolling:
            raise ValueError("align and rolling cannot be combined: a rolling audit puts the table together from several positions")
        if self.align and self.via:
            raise ValueError("align and via cannot be combined: a dump is at no position of the stream")
        return self

    def _check_live(self) -> None:
        """Raise ValueError for settings that live summaries cannot serve, which are sums over all rows of one table."""
        unfit = {
            "ladder": self.ladder,
            "rolling": self.rolling,
            "via": self.via,
            "settle": self.settle,
            "k": self.k,
            "a source of several shards": self.shards,
            "encoding: published": self.encoding == "published",
            "partition: strategy: time": self.partition.strategy == "time",
            "snapshot: per_chunk": self.snapshot == "per_chunk",
        }
        if setting := next((name for name, given in unfit.items() if given), None):
            raise ValueError(f"summaries: live and {setting} cannot be combined; remove one of them")
        if self.method not in ("exact", "signature"):
            raise ValueError(f"summaries: live needs sums, which the method {self.method} does not only use; use exact or signature")
        if self.where is not None and not isinstance(self.where, str):
            raise ValueError("summaries: live needs a filter that the stream can evaluate; write where as one text for both sides")
        if named := next((name for name, override in self.columns.override.items() if override.expr is not None), None):
            raise ValueError(f"summaries: live cannot compute {named}, which has expr; exclude the column, or compare it as it is")

    def _check_files(self) -> None:
        """Raise ValueError for settings that sums of files cannot serve, which are over all rows of a version."""
        unfit = {
            "ladder": self.ladder,
            "rolling": self.rolling,
            "via": self.via,
            "settle": self.settle,
            "history": self.history,
            "align": self.align and not self.summaries,
            "k": self.k,
            "encoding: published": self.encoding == "published",
            "prescan: true": self.prescan,
        }
        if setting := next((name for name, given in unfit.items() if given), None):
            raise ValueError(f"files: kept and {setting} cannot be combined; remove one of them")
        if self.method not in ("exact", "signature"):
            raise ValueError(f"files: kept needs sums, which the method {self.method} does not only use; use exact or signature")

    def _check_history(self, last: str) -> None:
        """Raise ValueError for settings that answer the same question, or of which the versions of one table's rows say nothing."""
        unfit = {
            "settle": self.settle,
            "recheck": self.recheck,
            "summaries: live": self.summaries,
            "align": self.align,
            "rolling": self.rolling,
            "via": self.via,
            "encoding: published": self.encoding == "published",
            "a source of several shards": self.shards,
            "a source that is a topic": isinstance(self.source, TopicRef),
            "a target that is a topic": isinstance(self.target, TopicRef),
        }
        if setting := next((name for name, given in unfit.items() if given), None):
            raise ValueError(f"history and {setting} cannot be combined; remove one of them")
        if last != "exact":
            raise ValueError(
                f"history needs the keys of differing rows, which the method {last} does not find; use exact, or a ladder that ends with it"
            )
        if self.where is not None and not isinstance(self.where, str):
            raise ValueError("history needs a filter that the stream can evaluate; write where as one text for both sides")

    def _check_shards(self) -> None:
        """Raise ValueError for settings that mean one table of the source."""
        check_shards(self.shards)
        if self.via:
            raise ValueError("via and a source of several shards cannot be combined; a dump stands in for one table")
        if self.settle and self.settle.heartbeat:
            raise ValueError("settle: heartbeat and a source of several shards cannot be combined; one heartbeat says what one shard sent")
        if self.counts.classes or self.counts.histogram:
            raise ValueError("counts: classes or histogram and a source of several shards cannot be combined; leave them out")

    def _check_through(self) -> None:
        """Raise ValueError for settings with which rows do not come from one table into another."""
        unfit = {"via": self.via, "a source of several shards": self.shards, "a topic as a side": self.topics}
        if setting := next((name for name, given in unfit.items() if given), None):
            raise ValueError(f"through and {setting} cannot be combined: rows are traced from one table into another; remove one of them")

    def _check_topics(self) -> None:
        """Raise ValueError for settings that a topic cannot serve, which is read once, up to where it ends when a run begins."""
        unfit = {
            "recheck": self.recheck,
            "rolling": self.rolling,
            "via": self.via,
            "summaries: live": self.summaries,
            "settle: barrier": self.settle and self.settle.barrier is not None,
            "settle: heartbeat": self.settle and self.settle.heartbeat,
            "a source of several shards": self.shards,
        }
        if self.align and isinstance(self.source, TopicRef):
            raise ValueError("align needs a source in whose log a snapshot has a place, which a topic has none of; remove align")
        if len(self.topics) > 1 and len({topic.label for topic in self.topics.values()}) == 1:
            raise ValueError("source and target are the same topic, which equals itself; name another one")
        if setting := next((name for name, given in unfit.items() if given), None):
            raise ValueError(
                f"{setting} and a topic cannot be combined: the topic is read once, up to where it ends when a run begins; remove {setting}"
            )

    def _check_queries(self) -> None:
        """Raise ValueError for settings that a query cannot serve: they need a stored table, or an index of it."""
        unfit = {
            "history": self.history,
            "rolling": self.rolling,
            "via": self.via,
            "summaries: live": self.summaries,
            "align": self.align,
            "through": self.through,
            "prescan: true": self.prescan,
            "a source of several shards": self.shards,
        }
        if setting := next((name for name, given in unfit.items() if given), None):
            raise ValueError(
                f"{setting} and query cannot be combined: a query is no stored table, and runs as a whole each time; remove one of them"
            )
        if isinstance(self.source, QueryRef) and self.source.columns:
            raise ValueError("columns: belongs to the target; name the source's columns in its query (... AS name)")
        if not self.key:
            raise ValueError("a query has no primary key: write key: [column, ...] in the audit")

    def _check_conventions(self) -> None:
        """Raise ValueError for settings that a side with a convention cannot serve: they take its table as it is."""
        for side, place in self.places.items():
            unfit = {"align": self.align, "via": self.via and side != "target"}
            if place.follows and (setting := next((name for name, given in unfit.items() if given), None)):
                raise ValueError(f"{setting} and convention cannot be combined: it takes the {side}'s table as it is; remove one of them")

    @property
    def topics(self) -> dict[Side, TopicRef]:
        """The sides that are topics."""
        return {side: place for side, place in self.places.items() if isinstance(place, TopicRef)}

    @property
    def queries(self) -> dict[Side, QueryRef]:
        """The sides that are queries."""
        return {side: place for side, place in self.places.items() if isinstance(place, QueryRef)}

    @property
    def shards(self) -> tuple[TableRef, ...]:
        """The tables of a source that consists of several; empty for a source of one table."""
        return self.source if isinstance(self.source, tuple) else ()

    @property
    def sources(self) -> tuple[SideRef, ...]:
        """The source's tables: one, or the shards; or its topic."""
        return self.source if isinstance(self.source, tuple) else (self.source,)

    @property
    def places(self) -> dict[Side, SideRef]:
        """Every table that is read, by its side; each shard stands for a side of its own, as `shard_side` calls it."""
        if isinstance(self.source, tuple):
            return {**{shard_side(number): place for number, place in enumerate(self.source, 1)}, "target": self.target}
        return {"source": self.source, "target": self.target}

    def check_plain(self, what: str) -> None:
        """Raise ConfigError for an audit with a convention, of whose tables ``what`` cannot be done."""
        for side, place in self.places.items():
            if convention := place.follows:
                raise ConfigError(
                    f"{what} needs plain tables, and the {side} {place.label} follows the convention {convention.name}: only what writes it"
                    " knows how its rows are flagged and kept; let that load the rows again"
                )

    def one_source(self, what: str) -> TableRef:
        """Return the source's only table. Raises ConfigError for shards, topics and queries, of which ``what`` cannot be done."""
        self.check_single(what)
        for side, query in self.queries.items():
            raise ConfigError(f"{what} needs two tables, and this audit's {side} is a query ({query.label})")
        assert isinstance(self.source, TableRef), "it would be among the others"
        return self.source

    def check_single(self, what: str) -> None:
        """Raise ConfigError for shards and topics, of which ``what`` cannot be done."""
        for side, topic in self.topics.items():
            raise ConfigError(f"{what} needs two tables, and this audit's {side} is the topic {topic.label}")
        if self.shards:
            raise ConfigError(
                f"{what} needs a source of one table, and this audit's has {len(self.shards)} shards"
                f" ({', '.join(shard.label for shard in self.shards)}); use an audit of one of them"
            )

    @property
    def algorithm(self) -> Literal["sha256", "md5"]:
        """The hash function of rows; the published encoding implies MD5."""
        return "md5" if self.encoding == "published" else self.hash


ANY = "*"
"""Stands for the tables that a group's template does not name."""


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


class AuditGroup(Strict):
    """Tables of two connections, each of which is an audit of its own called ``group.table``."""

    tables: Annotated[tuple[str, ...], BeforeValidator(_as_list), Field(min_length=1)]
    """Patterns of the source's tables, with or without their schema: ``orders_*``, ``shop.*``."""
    template: Audit
    """The settings of each audit."""
    _audits: dict[tuple[str, str], Audit] = PrivateAttr(default_factory=dict)
    """Those that were asked for: a page of a thousand of them asks for each at every request."""

    @model_validator(mode="after")
    def _is_plain(self) -> AuditGroup:
        if self.template.via:
            raise ValueError("via and tables cannot be combined; a dump stands in for one table")
        if self.template.through:
            raise ValueError("tables and through cannot be combined; a topic is of one table")
        if self.template.shards:
            raise ValueError("tables and a source of several shards cannot be combined; write an audit for each table")
        return self

    def matches(self, schema: str, name: str) -> bool:
        """Return whether a table of the source is meant."""
        return any(fnmatchcase(text, pattern) for pattern in self.tables for text in (name, f"{schema}.{name}"))

    def audit(self, source: str, target: str) -> Audit:
        """Return the audit of two tables, named as a configuration names them."""
        if (source, target) not in self._audits:
            sides = {"source": source, "target": target}
            self._audits[source, target] = self.template.model_copy(
                update={side: getattr(self.template, side).model_copy(update={"table": table}) for side, table in sides.items()}
            )
        return self._audits[source, target]


def find_topic_problems(
    audits: Mapping[str, Audit], connections: Collection[str], brokers: Mapping[str, Broker]
) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield what is wrong with the topics of audits: where it is written, and a sentence."""
    for name, audit in audits.items():
        for side, topic in (*audit.topics.items(), *([("through", audit.through)] if audit.through else [])):
            broker = brokers.get(topic.broker)
            if broker is None:
                yield ("audits", name, side, "broker"), f"there is no broker {topic.broker!r}{suggest(topic.broker, brokers)}"
            elif topic.broker in connections:
                yield ("brokers", topic.broker), f"a connection has this name, too, and audit {name} reads both by their names; rename one"
            elif topic.messages.has_registry and broker.registry is None:
                why = f"format: {topic.messages.format} needs a registry; add registry: {{url: ...}} to the broker {topic.broker}"
                yield ("audits", name, side, "messages"), why


def split_groups(values: Any) -> Any:
    """Move the entries under ``audits`` that have ``tables`` to ``groups``. Raises ValueError."""
    if not isinstance(values, Mapping) or not isinstance(values.get("audits"), Mapping):
        return values
    if "groups" in values:
        raise ValueError("unknown setting 'groups'; write tables: in an audit instead of two tables")
    written = {name: group for name, group in values["audits"].items() if isinstance(group, Mapping) and "tables" in group}
    groups: dict[str, Any] = {}
    for name, group in written.items():
        sides: dict[str, Any] = {}
        for side in ("source", "target"):
            given = group.get(side)
            if isinstance(given, list):
                raise ValueError(f"audits.{name}: tables and a source of several shards cannot be combined; write an audit for each table")
            if isinstance(given, Mapping):
                if not {"broker", "topic"}.isdisjoint(given):
                    raise ValueError(f"audits.{name}: tables and a topic cannot be combined; write an audit for each topic")
                if "query" in given:
                    raise ValueError(f"audits.{name}: tables and a query cannot be combined; write an audit for each query")
                if "table" in given:
                    raise ValueError(f"audits.{name}: tables and {side}: table cannot be combined; write one of them")
                sides[side] = {**given, "table": ANY}
        groups[name] = {"tables": group["tables"], "template": {**{key: v for key, v in group.items() if key != "tables"}, **sides}}
    audits = {name: audit for name, audit in values["audits"].items() if name not in written}
    return {**values, "audits": audits, "groups": groups} if groups else values


def written_place(where: tuple[str | int, ...]) -> tuple[str | int, ...]:
    """Return where a setting of a group stands in the configuration."""
    if where[:1] != ("groups",):
        return where
    return ("audits", *(part for index, part in enumerate(where[1:], 1) if (index, part) != (2, "template")))


def select_audits(known: Iterable[str], wanted: Sequence[str]) -> list[str]:
    """Return the names that are wanted, in this order; in a pattern, ``*`` is any characters, ``?`` is one, ``[ab]`` is a or b.

    A name without these characters, or of an audit that is called just so, is returned as it is, known or not, and as often as it is
    wanted; a pattern adds only names that are not there yet. Raises UnknownAudit if a pattern matches none.
    """
    names = list(known)
    selected: list[str] = []
    for wish in wanted:
        if wish in names or not is_pattern(wish):
            selected.append(wish)
            continue
        matching = [name for name in names if fnmatchcase(name, wish)]
        if not matching:
            raise UnknownAudit(f"no audit matches {wish!r}{suggest(wish.strip('*?'), names)}")
        selected += [name for name in matching if name not in selected]
    return selected


MIN_KEY, MAX_KEY = -(2**63), 2**64 - 1
"""The range of 64-bit integer keys, signed and unsigned."""

Key = Annotated[int, Field(ge=MIN_KEY, le=MAX_KEY, strict=True)]


def _check_time(text: str) -> str:
    parse_time(text)
    return text


Time = Annotated[str, Field(max_length=40), AfterValidator(_check_time)]


class KeyRange(Strict):
    """Rows by a single integer key, from ``from`` to ``to``, both inclusive. Either can be omitted."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"from": 1000, "to": 2000}]})

    from_: Key | None = Field(None, alias="from", description="The least key; by default no lower bound.")
    to: Key | None = Field(None, description="The greatest key, inclusive; by default no upper bound.")

    @model_validator(mode="after")
    def _holds_keys(self) -> KeyRange:
        if self.from_ is None and self.to is None:
            raise ValueError("write from, to or both")
        if self.from_ is not None and self.to is not None and self.from_ > self.to:
            raise ValueError("from is greater than to; exchange them")
        return self


class TimeRange(Strict):
    """Rows by their time, from ``from`` (inclusive) to ``to`` (exclusive), so that adjacent ranges share no row. Either can be omitted."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"from": "2026-11-01", "to": "2026-12-01"}]})

    from_: Time | None = Field(None, alias="from", description="ISO 8601, by default in UTC; rows at this time or later.")
    to: Time | None = Field(None, description="ISO 8601, by default in UTC; rows before this time.")

    @model_validator(mode="after")
    def _holds_times(self) -> TimeRange:
        if self.from_ is None and self.to is None:
            raise ValueError("write from, to or both")
        if self.from_ is not None and self.to is not None and parse_time(self.from_) >= parse_time(self.to):
            raise ValueError("from is not before to; exchange them")
        return self


class SliceSettings(Strict):
    """The slice of a run: the rows that are in all given ranges."""

    keys: KeyRange | None = None
    times: TimeRange | None = None
