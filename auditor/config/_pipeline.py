"""Pipelines: which tables of a source are replicated, what of their columns, where parts are staged, and into which targets they go.

With segment audits, which compare two writers of one change stream, segment by segment.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Discriminator, Field, Tag, field_validator, model_validator

import dialects
from auditor import canonical
from auditor.config._base import Duration, Size, Strict, suggest
from auditor.config._schedule import ScheduleField
from auditor.config._topic_source import TopicSource
from auditor.config._topics import TopicTarget, fit
from auditor.errors import BadUrl, ConfigError
from dialects import Kind


class PipelineSource(Strict):
    """The source of a pipeline: a connection, and names of tables in its database, or patterns of them (``crm_*``, ``billing.*``)."""

    connection: str
    """The connection to MySQL or MariaDB."""
    tables: tuple[str, ...] = Field(min_length=1)
    """Names or patterns of tables."""
    refresh: str | None = None
    """The connection by which refreshes write into the source's log, in the database of its URL; by default that of the source, if it has
    ``write``, in the schema auditor_refresh."""
    skip_pipelines: tuple[str, ...] = ()
    """Pipelines that write into this database, and whose changes are not replicated further."""


COMPUTED_KINDS = ("integer", "decimal", "text", "date", "timestamp")
"""Kinds of columns that a pipeline computes."""


def computed_kind(text: str) -> Kind:
    """Return the kind of a computed column; one of times without a number has whole seconds."""
    kind = canonical.parse_kind(text)
    return replace(kind, scale=kind.scale or 0) if kind.name == "timestamp" else kind


def _check_computed_kind(text: str) -> str:
    kind = computed_kind(text)
    if kind.name not in COMPUTED_KINDS or (kind.name == "decimal" and kind.digits is None):
        raise ValueError(f"{text!r} is no kind of a computed column; write integer, decimal(12,2), text, text(40), date or timestamp(3)")
    if kind.name == "decimal" and not max(kind.scale or 0, 1) <= (kind.digits or 0) <= 38:
        raise ValueError(f"{text!r}: a computed number has 1 to 38 digits, of which those after the point are some")
    if kind.name == "timestamp" and (kind.scale or 0) > 6:
        raise ValueError(f"{text!r}: a computed time has 6 digits of a second at most")
    return text


ComputedKind = Annotated[str, AfterValidator(_check_computed_kind)]
"""``integer``, ``decimal(12,2)``, ``text``, ``text(40)``, ``date`` or ``timestamp(3)``."""


class ComputedColumn(Strict):
    """A column that a pipeline computes from the others of its row."""

    kind: ComputedKind
    """What its values are."""
    expr: str
    """Its value, in the portable language of filters, over the source's columns: ``price - discount``."""


class Transform(Strict):
    """A function in Python that computes columns which the portable language cannot."""

    function: str = Field(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$")
    """``package.module:function``. It gets an Arrow record batch with the columns of the source that are carried, as texts, and returns a
    batch, a table or a mapping with the columns below, for as many rows. It must be pure: the same rows, the same values. Its name is its
    version: one that computes other values has another name."""
    columns: dict[str, ComputedKind] = Field(min_length=1)
    """The kinds of the columns that it returns."""


class Route(Strict):
    """A table of the targets for some rows of a table."""

    name: str = Field(min_length=1)
    """The table's name, where the source's table would have its own."""
    when: str | None = None
    """Which rows go there, in the portable language of filters; None for all that no route before it takes."""


class PipelineColumns(Strict):
    """What a pipeline does with the columns and rows of one table; names are the source's."""

    exclude: tuple[str, ...] = ()
    """Columns that never leave the source."""
    mask: tuple[str, ...] = ()
    """Columns of which salted digests are replicated instead of values."""
    rename: dict[str, str] = {}
    """The target's name of a column."""
    where: str | None = None
    """Which rows are replicated, in the portable language of filters."""
    compute: dict[str, ComputedColumn] = {}
    """Columns that the source does not have, by name."""
    transform: Transform | None = None
    """Further ones, by a function in Python."""
    table: tuple[Route, ...] = ()
    """Into which tables the rows go: each into the first one whose ``when`` is true of it, the rest into that of the table's own name."""
    owner: str = ""
    """Who answers for the table: named where it stops, and with its versions."""
    doc: str = ""
    """What the table holds, for those who read it."""
    docs: dict[str, str] = {}
    """What columns hold."""

    @field_validator("table", mode="before")
    @classmethod
    def _as_routes(cls, given: Any) -> Any:
        """Return a single route as the only one of a list."""
        return [given] if isinstance(given, Mapping | Route) else given

    @model_validator(mode="after")
    def _consistent(self) -> PipelineColumns:
        for name in self.exclude:
            if name in self.mask or name in self.rename:
                raise ValueError(f"{name!r} is excluded, so it cannot be masked or renamed; remove it from one of them")
        new_names = [name.lower() for name in self.rename.values()]
        if twice := next((name for name in new_names if new_names.count(name) > 1), None):
            raise ValueError(f"rename gives two columns the name {twice!r}; write another for one of them")
        made = [name.lower() for name in (*self.compute, *(self.transform.columns if self.transform else ()))]
        if twice := next((name for name in made if name in new_names or made.count(name) > 1), None):
            raise ValueError(f"two columns would be named {twice!r}; write another name for the computed one")
        routes = [route.name.lower() for route in self.table]
        if twice := next((name for name in routes if routes.count(name) > 1), None):
            raise ValueError(f"table names {twice!r} twice; join both routes by OR, or write another name for one of them")
        if useless := next((later for route, later in itertools.pairwise(self.table) if route.when is None), None):
            raise ValueError(
                f"table: a route before {useless.name!r} has no when, so that no row comes so far; write its when, or move it last"
            )
        return self

    @property
    def computed_kinds(self) -> dict[str, str]:
        """The kinds of the columns that the source does not have, by name."""
        by_expression = {name: column.kind for name, column in self.compute.items()}
        return by_expression | (self.transform.columns if self.transform else {})

    @property
    def routes_all(self) -> bool:
        """Whether every row goes by a route, and none into the table of its own name."""
        return bool(self.table) and self.table[-1].when is None

    def outputs(self, table: str) -> dict[str, str | None]:
        """Return into which tables the rows of the table of this name go, each with the filter of its rows; None for all rows.

        No row passes two of the filters; those for which a ``when`` is unknown are not taken by its route.
        """
        if not self.table:
            return {table: self.where}
        found: dict[str, str | None] = {}
        taken: list[str] = []
        for route in self.table if self.routes_all else (*self.table, Route(name=table)):
            found[route.name] = _filter_of(self.where, taken, route.when)
            taken.append(route.when or "")
        return found


def _filter_of(where: str | None, taken: list[str], when: str | None) -> str | None:
    """Return the filter of rows that pass ``where``, that no route before has ``taken``, and that pass ``when``; None for all rows."""
    given = [condition for condition in (where, when) if condition is not None]
    if not taken and len(given) < 2:
        return next(iter(given), None)
    first, last = ([f"({condition})"] if condition is not None else [] for condition in (where, when))
    return " AND ".join([*first, *(f"({condition}) IS NOT TRUE" for condition in taken), *last])


class Staging(Strict):
    """Where parts are staged."""

    path: str = Field(min_length=1)
    """A folder that the driver and all executors reach by this path, or ``s3://bucket/prefix``."""
    budget: Size | None = None
    """Bytes that parts may take together; beyond it, those that every target has are deleted before ``keep: parts`` lets them
    go, the oldest first."""
    when_full: Literal["wait", "drop"] = "wait"
    """What happens when parts that a target still needs fill the budget: staging waits for the target, or the parts are dropped, and
    the target's tables stop until they are copied again."""


class SegmentSettings(Strict):
    """How the stream is cut into segments, and where these are kept."""

    path: str | None = None
    """An archive, with a file for each segment of each table: a folder, or ``s3://bucket/prefix``; None to keep segments in the staging's
    folder, those of all tables in one file."""
    format: Literal["parquet", "csv"] = "parquet"
    """The format of an archive's files."""
    rows: int = Field(10_000, ge=1)
    """Events of a segment at most; of a topic's partition offsets from which it ends."""
    bytes: Size = 64_000_000
    """Bytes of its events' texts from which a segment ends."""
    age: Duration = Field(60.0, ge=1)
    """Seconds: segments of all tables end where the stream's commit time passes a multiple of it; those of a topic's partition where the
    times of its own messages do."""
    offsets: int = Field(100, ge=1)
    """Offsets of a topic's partition, at whose multiples alone it is seen whether its segment ends; of topics without ``published_by``."""
    kms_key: str | None = None
    """The key of AWS KMS by which an archive's files on S3 are encrypted."""
    by: str | dict[str, str] | None = Field(None, min_length=1)
    """A column of the source that every table has, or by the names of some tables a column of each: segments have a digest for each of 256
    buckets of its values, by which a finding names those whose events differ."""

    def column_of(self, table: str) -> str | None:
        """Return the column by which segments of a table, ``database.table``, have digests of buckets; None if they have none."""
        if isinstance(self.by, str) or self.by is None:
            return self.by
        return self.by.get(table) or self.by.get(table.partition(".")[2])

    @model_validator(mode="after")
    def _of_an_archive(self) -> SegmentSettings:
        if "format" in self.model_fields_set and self.path is None:
            raise ValueError("format is that of an archive's files; give the archive's path, or remove it")
        if self.kms_key is not None and not (self.path or "").startswith("s3://"):
            raise ValueError("kms_key encrypts files on S3; give a path such as s3://bucket/prefix, or remove it")
        return self


class Versions(Strict):
    """How many versions of rows are kept for each audit with ``history``: those of ``keep: versions``, as far as the bytes allow."""

    bytes: Size = 1_000_000_000
    """Bytes that the versions for one audit may take."""


class TargetKeys(Strict):
    """What is special about a table of a target: keys of one that a pipeline makes in Redshift, whose names are the target's columns."""

    dist_key: tuple[str, ...] = Field((), max_length=1)
    """The column by which rows are spread over the cluster's slices."""
    sort_key: tuple[str, ...] = ()
    """The columns by which rows are sorted."""
    name: str | None = Field(None, min_length=1)
    """The table's name in the target; None for what ``table`` of the target says."""
    accept: tuple[str, ...] = ()
    """What the table does on its own and may do, as ``auditor pipeline check`` names it: ``trigger stamp``, ``cascade shop.lines``."""


PLACES = ("{database}", "{table}")
"""What stands for a table's database, and for its name, in the source."""


NO_KEYS = TargetKeys()


class MigrateSettings(Strict):
    """Which changes of columns a pipeline makes by itself."""

    auto_rows: int = Field(10_000_000, ge=0)
    """Rows of a table that may be written again for a change of its columns; with more the table stops, with the statements."""


class MergeAt(Strict):
    """How much a merge waits for at most; whichever comes first."""

    rows: int | None = Field(None, ge=1)
    """Events that are staged and not merged."""
    bytes: Size | None = Field(None, ge=1)
    """Bytes of them."""


class AnalyzeSettings(Strict):
    """When the statistics of a target's table are renewed."""

    after_rows: int = Field(ge=1)
    """Events merged into a table since then, by the same process, from which they are renewed after a merge."""


class PipelineTarget(Strict):
    """A target of a pipeline: a connection with ``write``, and a schema in its database."""

    connection: str
    """The connection, which needs ``write``."""
    schema_: str = Field(alias="schema", min_length=1)
    """The schema of the target's tables; ``{database}`` and ``{table}`` stand for a table's names in the source."""
    table: str = Field("{table}", min_length=1)
    """The name of a target's table, written in the same way: ``{database}_{table}``."""
    every: Duration = 60.0
    """Seconds between two merges; 0: as soon as something is staged."""
    merge_at: MergeAt = MergeAt()
    """What lets a merge begin before ``every`` has passed."""
    analyze: AnalyzeSettings | None = None
    """When the engine's ANALYZE is run for a table after a merge; None to leave statistics to the engine."""
    consistency: Literal["target", "table"] | None = None
    """``target``: all tables are at one moment of the source, which is the default where the engine commits them together; ``table``: each
    is merged by itself."""
    max_transaction: int = Field(500_000, ge=1)
    """Rows that are merged in one transaction of the target. One of the source that has more is merged by itself, as a whole; status says
    so of the tables that wait for it."""
    migrate: MigrateSettings = MigrateSettings()
    """Which changes of columns are made by the pipeline."""
    on_breaking: Literal["follow", "stop"] = "follow"
    """What happens if the source drops or renames a column of a table, narrows a type, or changes the key: ``follow`` changes the target's
    table, too; ``stop`` lets it stand still, and status say so, until this is ``follow``."""
    tables: dict[str, TargetKeys] = {}
    """Names, and keys, of tables that are made, and what tables may do on their own, by the tables' names in the source: ``orders``, or
    ``shop.orders``."""

    @model_validator(mode="after")
    def _known_places(self) -> PipelineTarget:
        for text in (self.schema_, self.table):
            if unknown := [placeholder for placeholder in re.findall(r"\{[^{}]*\}", text) if placeholder not in PLACES]:
                raise ValueError(f"{text!r}: {unknown[0]} stands for nothing; write {' or '.join(PLACES)}")
        return self

    def keys_of(self, table: str) -> TargetKeys:
        """Return what is said of a table of the source, ``database.table``."""
        return self.tables.get(table) or self.tables.get(table.partition(".")[2]) or NO_KEYS

    def place_of(self, table: str) -> tuple[str, str]:
        """Return the schema and the name that a table of the source, ``database.table``, has in the target."""
        database, _, name = table.partition(".")
        return self.place_in(database, name)

    def place_in(self, database: str, table: str) -> tuple[str, str]:
        """Return the same of a table whose database and name are given."""
        schema, name = (_fill_in(text, database, table) for text in (self.schema_, self.table))
        return schema, self.keys_of(f"{database}.{table}").name or name

    def schemas_of(self, tables: Iterable[str]) -> list[str]:
        """Return the schemas in which the target has these tables of the source, or may have some."""
        named = {self.place_of(table)[0] for table in tables}
        return sorted(named if any(placeholder in self.schema_ for placeholder in PLACES) else {*named, self.schema_})


TARGET_FORMS = ("tables", "topics")
"""The forms of a target, as they stand in the places of pydantic's errors."""


def _form_of_target(value: Any) -> str:
    return TARGET_FORMS["broker" in value if isinstance(value, Mapping) else isinstance(value, TopicTarget)]


Target = Annotated[
    Annotated[PipelineTarget, Tag(TARGET_FORMS[0])] | Annotated[TopicTarget, Tag(TARGET_FORMS[1])], Discriminator(_form_of_target)
]
"""Tables of a database, or topics of a broker."""


SOURCE_FORMS = ("connection", "topics")
"""The forms of a source, as they stand in the places of pydantic's errors."""


def _form_of_source(value: Any) -> str:
    return SOURCE_FORMS["broker" in value if isinstance(value, Mapping) else isinstance(value, TopicSource)]


Source = Annotated[
    Annotated[PipelineSource, Tag(SOURCE_FORMS[0])] | Annotated[TopicSource, Tag(SOURCE_FORMS[1])], Discriminator(_form_of_source)
]
"""The log of a database, or topics of a broker."""


@lru_cache(maxsize=100_000)  # a loader asks for the place of each of thousands of tables several times a merge
def _fill_in(text: str, database: str, table: str) -> str:
    return re.sub(r"\{(database|table)\}", lambda match: database if match[1] == "database" else table, text)


class Tracker(Strict):
    """A server that keeps the source's tables without rows, for a source whose log does not name columns."""

    url: str = Field(repr=False, min_length=1)
    """The URL of the server: of the source's kind, and of this pipeline alone."""


class Pipeline(Strict):
    """The definition of a pipeline."""

    source: Source
    """What is replicated: tables of a database, or topics of a broker."""
    columns: dict[str, PipelineColumns] = {}
    """What happens to columns and rows, by table."""
    staging: Staging
    """Where parts are staged."""
    segment: SegmentSettings | None = None
    """None to keep no segments."""
    tracker: Tracker | None = None
    """None if the source's log names columns (binlog_row_metadata = FULL)."""
    history: Versions | None = None
    """Keep the versions of rows that audits with ``history`` look up; None to keep none."""
    targets: dict[str, Target] = {}
    """Into what it is replicated, by name: tables of a database, or topics of a broker. None for a pipeline that only keeps a history."""
    master: str = "local[2]"
    """The Spark master that runs it: local[N], the URL of a cluster, or sc://host:port of a Spark Connect server."""
    max_lag: Duration = 600.0
    """Seconds that staging may lie behind the source, and targets behind staging (beyond their ``every``), before channels are notified."""

    @model_validator(mode="after")
    def _table_by_table(self) -> Pipeline:
        """Let each table be merged by itself where topics of others are the source: their partitions know no moment of it."""
        if self.topic_source and self.topic_source.published_by is None:
            for name, target in self.table_targets.items():
                if target.consistency is None:
                    self.targets[name] = target.model_copy(update={"consistency": "table"})
        return self

    @model_validator(mode="after")
    def _is_for_something(self) -> Pipeline:
        if not self.targets and self.history is None:
            raise ValueError("targets: a pipeline needs one at least, unless it keeps a history alone; add one, or history: {}")
        if self.history and self.topic_source:
            raise ValueError("history: versions of rows are those of a database's log, and this pipeline reads topics; remove it")
        return self

    @model_validator(mode="after")
    def _tables_exist(self) -> Pipeline:
        for table in self.columns:
            if not self.replicates(table):
                raise ValueError(f"columns: {table!r} is none of the source's tables ({', '.join(self.source.tables)})")
        return self

    @model_validator(mode="after")
    def _segmented_by_what_is_replicated(self) -> Pipeline:
        by = self.segment.by if self.segment else None
        for table, column in by.items() if isinstance(by, dict) else [(table, by) for table in self.columns] if by else ():
            name = table.rpartition(".")[2]
            if not self.replicates(name):
                raise ValueError(f"segment: by: {table!r} is none of the source's tables ({', '.join(self.source.tables)})")
            if column.lower() in {excluded.lower() for excluded in self.columns_of(name).exclude}:
                raise ValueError(f"segment: by: {column!r} is excluded from {table}, so no event has it; name another column")
        return self

    @model_validator(mode="after")
    def _segmented_by_offsets(self) -> Pipeline:
        if self.segment and "offsets" in self.segment.model_fields_set and not self.reads_partitions:
            raise ValueError("segment: offsets are those of topics without published_by; its segments are cut by positions: remove it")
        return self

    @model_validator(mode="after")
    def _routes_apart(self) -> Pipeline:
        """Check that each route has a name of its own among the source's tables that are named, and the routes of all tables."""
        patterns = (pattern.rpartition(".")[2] for pattern in self.source.tables)
        named = {name.lower(): name for name in (*self.columns, *(name for name in patterns if not re.search(r"[*?\[]", name)))}
        routed: dict[str, str] = {}
        for table, rules in self.columns.items():
            for route in rules.table:
                name, place = route.name.lower(), f"columns: {{{table}: {{table: {{name: {route.name}}}}}}}"
                if name == table.lower() and not rules.routes_all:
                    raise ValueError(
                        f"{place}: rows that no route takes go there, too; add a route without when for these, or leave it out"
                    )
                if name != table.lower() and name in named:
                    raise ValueError(f"{place}: {named[name]} is a table of the source itself; give the route another name")
                if name in routed:
                    raise ValueError(f"{place}: rows of {routed[name]} go there, too; give one of the routes another name")
                routed[name] = table
        return self

    def replicates(self, table: str, database: str = "", home: str = "") -> bool:
        """Return whether a table of the source belongs to the pipeline.

        ``home`` is the database of the source's URL, in which patterns without one look. Without ``database`` the name alone decides.
        """
        for pattern in self.source.tables:
            schema, _, name = pattern.rpartition(".")
            if fnmatchcase(table, name) and (not database or (fnmatchcase(database, schema) if schema else database == home)):
                return True
        return False

    @property
    def log_source(self) -> PipelineSource | None:
        """The source if it is the log of a database; None if it is topics."""
        return self.source if isinstance(self.source, PipelineSource) else None

    @property
    def topic_source(self) -> TopicSource | None:
        """The source if it is topics of a broker; None if it is the log of a database."""
        return self.source if isinstance(self.source, TopicSource) else None

    @property
    def reads_partitions(self) -> bool:
        """Whether its stream has no order but that of each partition of a topic: topics without ``published_by``."""
        return self.topic_source is not None and self.topic_source.published_by is None

    @property
    def source_name(self) -> str:
        """The connection, or the broker, that is read."""
        return self.source.broker if isinstance(self.source, TopicSource) else self.source.connection

    def of_log(self, what: str) -> PipelineSource:
        """Return the source, which must be the log of a database for ``what`` is asked. Raises ConfigError."""
        if isinstance(self.source, TopicSource):
            raise ConfigError(f"{what} needs a database as the source, and this pipeline reads topics of the broker {self.source.broker}")
        return self.source

    @property
    def table_targets(self) -> dict[str, PipelineTarget]:
        """The targets that are tables of databases."""
        return {name: target for name, target in self.targets.items() if isinstance(target, PipelineTarget)}

    @property
    def topic_targets(self) -> dict[str, TopicTarget]:
        """The targets that are topics of brokers."""
        return {name: target for name, target in self.targets.items() if isinstance(target, TopicTarget)}

    @property
    def transforms(self) -> list[Transform]:
        """The functions in Python that it runs."""
        return [rules.transform for rules in self.columns.values() if rules.transform]

    def columns_of(self, table: str) -> PipelineColumns:
        """Return what happens to the columns of a table."""
        return self.columns.get(table, PipelineColumns())

    def outputs_of(self, table: str) -> list[str]:
        """Return into which tables the rows of a table of the source, ``database.table``, go: what the stream and the targets call them."""
        database, _, name = table.partition(".")
        return [f"{database}.{output}" for output in self.columns_of(name).outputs(name)]

    def origin_of(self, output: str) -> str:
        """Return from which table of the source the rows of a table of the stream, ``database.table``, are."""
        database, _, name = output.partition(".")
        return f"{database}.{self.routed_from(name) or name}"

    def routed_from(self, name: str) -> str:
        """Return the other table of the source that has a route of this name; '' if none has."""
        return next((table for table, rules in self.columns.items() if table != name for route in rules.table if route.name == name), "")


def find_problems(
    pipelines: dict[str, Pipeline], connections: dict[str, Any], brokers: Mapping[str, Any]
) -> list[tuple[tuple[str, ...], str]]:
    """Return what pipelines need of connections and brokers, and is not there: where it is written, and a sentence."""
    problems: list[tuple[tuple[str, ...], str]] = []
    for name, pipeline in pipelines.items():
        if isinstance(pipeline.source, TopicSource):
            problems += _problems_of_topics(name, pipeline, pipeline.source, brokers)
        else:
            if pipeline.source.refresh not in (None, *connections):
                problems.append((("pipelines", name, "source"), f"refresh: there is no connection {pipeline.source.refresh!r}; add it"))
            if pipeline.tracker and (sentence := _check_tracker(pipeline.tracker.url, connections.get(pipeline.source.connection))):
                problems.append((("pipelines", name, "tracker"), sentence))
        for target, topics in pipeline.topic_targets.items():
            if topics.broker not in brokers:
                where = ("pipelines", name, "targets", target, "broker")
                problems.append((where, f"there is no broker {topics.broker!r}{suggest(topics.broker, brokers)}"))
        for target, settings in pipeline.table_targets.items():
            connection = connections.get(settings.connection)
            if connection is not None and connection.write is None:
                place = ("pipelines", name, "targets", target)
                problems.append((place, f"the connection {settings.connection!r} may only read; add write: {{url: ...}} to it"))
    return [*problems, *_find_shared_topics(pipelines), *_find_rings(pipelines, connections)]


def _find_shared_topics(pipelines: Mapping[str, Pipeline]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield where two targets would publish into the same topics, which have one producer only."""
    found: dict[tuple[str, str], str] = {}
    for name, pipeline in pipelines.items():
        for target, topics in pipeline.topic_targets.items():
            for field in ("topic", "schema_changes", "transactions", "positions"):
                text = getattr(topics, field)
                known = fit(text, {"{pipeline}": name, "{target}": target}) if text else ""
                other = found.setdefault((topics.broker, known), f"{name}.{target}")
                if text and other != f"{name}.{target}":
                    sentence = f"target {other} publishes into the same topics; write {{pipeline}} and {{target}} in it, or another name"
                    yield ("pipelines", name, "targets", target, field), sentence


def _problems_of_topics(
    name: str, pipeline: Pipeline, source: TopicSource, brokers: Mapping[str, Any]
) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield what does not go with a source that is topics."""
    place = ("pipelines", name)
    if source.broker not in brokers:
        yield (*place, "source", "broker"), f"there is no broker {source.broker!r}{suggest(source.broker, brokers)}"
    elif brokers[source.broker].registry is None:
        for topic in (None, *source.topics):
            messages = source.messages if topic is None else source.topics[topic].messages
            if messages and messages.has_registry:
                where = (*place, "source", *(("topics", topic) if topic else ()), "messages")
                yield where, f"format: {messages.format} needs a registry; add registry: {{url: ...}} to the broker {source.broker}"
    if pipeline.tracker:
        yield (*place, "tracker"), "it knows the columns of a database's log, and messages bring their own; remove it"
    for target, chosen in pipeline.table_targets.items():
        if chosen.consistency == "target" and source.published_by is None:
            sentence = (
                "consistency: target asks for all tables at one moment of the source, which the partitions of topics do not know; leave it"
                " out, or write published_by below the source if a pipeline of the auditor publishes them"
            )
            yield (*place, "targets", target), sentence
    for target, topics in pipeline.topic_targets.items():
        tables = [table for table in source.tables if not re.search(r"[*?\[]", table)] or ["database.table"]
        if topics.broker == source.broker and (
            read := [one for table in tables if source.find(one := topics.topic_of(name, target, table))]
        ):
            yield (*place, "targets", target), f"the pipeline would read {read[0]}, which it publishes itself; give the topics another name"


def _check_tracker(url: str, source: Any) -> str:
    """Return what is wrong with the URL of a tracker; '' if nothing is, as far as it shows."""
    try:
        if dialects.by_scheme(dialects.parse_url(url).scheme).CHANGE_STREAM != "binlog":
            return "url: it is no MySQL or MariaDB; give the tracker a server of the source's kind"
        if source is not None and _place(url, "")[:4] == _place(source.url, "")[:4]:
            return "url: it leads to the source's own server; give the tracker a server of its own"
    except (BadUrl, KeyError) as error:
        return f"url: {error}"
    return ""


def _find_rings(pipelines: dict[str, Pipeline], connections: dict[str, Any]) -> list[tuple[tuple[str, ...], str]]:
    """Return where two pipelines would send each other's changes round and round."""
    sources: dict[str, tuple[Any, ...]] = {}
    written: dict[str, set[tuple[Any, ...]]] = {}
    for name, pipeline in pipelines.items():
        if pipeline.log_source is None:
            continue
        with suppress(BadUrl, KeyError):  # reported on their own
            sources[name] = _place(connections[pipeline.log_source.connection].url, None)
            targets = [(connections[target.connection].write, target.schema_) for target in pipeline.table_targets.values()]
            written[name] = {_place(write.url, schema) for write, schema in targets if write}
    problems: list[tuple[tuple[str, ...], str]] = []
    for name, other in itertools.permutations(written, 2):
        closes, read = sources[name] in written[other] and sources[other] in written[name], pipelines[name].log_source
        if closes and read and other not in read.skip_pipelines:
            sentence = (
                f"the pipeline {other!r} writes into this source what it reads from a target of this one; add skip_pipelines: [{other}]"
            )
            problems.append((("pipelines", name, "source"), sentence))
    return problems


def _place(url: str, schema: str | None) -> tuple[Any, ...]:
    """Return what two URLs have in common that lead to one schema. Raises BadUrl."""
    parsed = dialects.parse_url(url)
    dialect = dialects.by_scheme(parsed.scheme)
    port = parsed.port or dialect.addresses.DEFAULT_PORT
    return dialect.name, parsed.host, port, parsed.options.get("unix_socket"), schema or parsed.database


ANEW = "anew"
"""The side of a segment audit of one pipeline that is the source's log, read again."""


class SegmentAudit(Strict):
    """The definition of a segment audit."""

    pipelines: tuple[str, ...] = Field(min_length=1, max_length=2)
    """The two pipelines that read one stream, each with ``segment``; or one, whose segments are compared with its source's log, which each
    run reads again."""
    max_lag: Duration = 600.0
    """Seconds after which a segment that one side has and the other does not yet have makes the verdict unknown."""
    schedule: ScheduleField | None = None
    """When the audit is due."""

    @property
    def sides(self) -> tuple[str, str]:
        """The names of the two sides."""
        return self.pipelines[0], self.pipelines[1] if len(self.pipelines) > 1 else ANEW


def find_segment_problems(
    audits: Mapping[str, SegmentAudit], pipelines: Mapping[str, Pipeline], names: Collection[str]
) -> list[tuple[tuple[str, ...], str]]:
    """Return what segment audits need of pipelines, and is not there: where it is written, and a sentence. ``names``: of other audits."""
    problems: list[tuple[tuple[str, ...], str]] = []
    for name, audit in audits.items():
        place = ("segments", name, "pipelines")
        if name in names:
            problems.append((("segments", name), f"there is an audit {name!r} already; give one of them another name"))
        missing = [pipeline for pipeline in audit.pipelines if pipeline not in pipelines]
        problems += [(place, f"there is no pipeline {pipeline!r}{suggest(pipeline, pipelines)}") for pipeline in missing]
        if ANEW in audit.pipelines:
            problems.append((place, f"{ANEW!r} is the name of a log that is read again; give the pipeline another name"))
        if not missing:
            problems += [(place, sentence) for sentence in _problems(audit, [pipelines[pipeline] for pipeline in audit.pipelines])]
    return problems


def _problems(audit: SegmentAudit, chosen: list[Pipeline]) -> list[str]:
    if len(set(audit.pipelines)) < len(audit.pipelines):
        return [f"{audit.pipelines[0]!r} cannot be compared with itself; name another pipeline, or this one alone"]
    if len(chosen) == 1 and chosen[0].topic_source:
        return [
            f"the pipeline {audit.pipelines[0]!r} reads topics, and only a database's log is read again; name another pipeline beside it"
        ]
    if none := [name for name, pipeline in zip(audit.pipelines, chosen, strict=True) if pipeline.segment is None]:
        return [f"the pipeline {none[0]!r} keeps no segments; add segment: {{}} to it"]
    both, (first, *others) = " and ".join(map(repr, audit.pipelines)), chosen
    sentences: list[str] = []
    for other in others:
        if (of_topics := [one.topic_source for one in (first, other)]) != [None, None]:
            sentences += _problems_of_two_topics(both, *of_topics)
        for setting in ("rows", "bytes", "age", "offsets"):
            if getattr(first.segment, setting) != getattr(other.segment, setting):
                sentences.append(f"{both} cut at other places; give both the same segment: {setting}")
        if first.segment and other.segment and first.segment.by != other.segment.by:
            sentences.append(f"{both} have digests by other columns; give both the same segment: by")
        if set(first.source.tables) != set(other.source.tables):
            sentences.append(f"{both} read other tables, by which rows are counted; give both the same source: tables")
        if set(_skipped(first)) != set(_skipped(other)):
            sentences.append(f"{both} skip other transactions; give both the same source: skip_pipelines")
        if first.columns != other.columns:
            sentences.append(f"{both} have other columns; give both the same columns:")
    return sentences


def _problems_of_two_topics(both: str, first: TopicSource | None, other: TopicSource | None) -> Iterator[str]:
    """Yield why the messages of two sources, of which one at least is topics, are not the same events."""
    if first is None or other is None:
        yield f"{both} read a log and topics, whose events have no place in common; let both read topics, or the log"
        return
    if first.published_by != other.published_by:
        yield f"{both} read topics that different pipelines publish, or one reads them as if none did; give both the same published_by"
    if first.topics != other.topics or first.messages != other.messages:
        yield f"{both} read other topics, or read them otherwise; give both the same topics: and messages:"


def _skipped(pipeline: Pipeline) -> tuple[str, ...]:
    return pipeline.log_source.skip_pipelines if pipeline.log_source else ()
