"""What one run receives from earlier runs of its audit, and what it leaves for later ones."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypedDict

from auditor.errors import AuditorError, ColumnsChanged, PlanError, SessionSwitched
from auditor.history.key_digests import Digest, not_stored
from auditor.history.left_out import LeftOut
from auditor.model import Chunk, DayCost, Plan, Progress, Report, Side, Spent

if TYPE_CHECKING:
    from auditor.summary.arrays import Summaries
    from auditor.summary.codec import PartitionMap

FindEvents = Callable[[str, dt.datetime], Sequence[int] | str]
"""Returns the keys of the events of the source's table since a moment, by the name of its integer key: of each event one, of one that
changes the key both. Or says why they are not known, as a clause."""

CountStatements = Callable[[Side], tuple[int, int]]
"""Returns how many statements of a side have ended, and how many are running."""


class StoredColumn(TypedDict):
    """A column as the store has it."""

    name: str
    type: str
    nullable: bool


class StoredSchema(TypedDict):
    """A table's columns, in order, and its primary key, as the store has them."""

    columns: list[StoredColumn]
    primary_key: list[str]


Schemas = Mapping[str, StoredSchema]
"""Both sides' columns, by side, as ``planning.schema_drift`` describes them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierRuns:
    """What earlier runs of an audit left for the next one."""

    ended_runs: int = 0
    differing_shares: tuple[float, ...] = ()
    """The share of rows that differed in recent runs, 0 to 1, the latest last."""
    unequal_shares: tuple[float, ...] = ()
    """The share of partitions that differed in recent runs, 0 to 1, the latest last."""
    schema: Schemas | None = None
    """Both sides' columns at the last run that was done."""
    plan: Plan | None = None
    """The plan of the run that is resumed."""
    choose_partitions: Callable[[Plan], tuple[tuple[int, int], ...]] | None = None
    """Chooses the partitions that a run of a rolling audit reads: ranges from first (inclusive) to end (exclusive)."""
    left_out: LeftOut = field(default_factory=LeftOut)
    """What the last runs did not compare."""
    digest: Digest = not_stored
    """What is stored in place of a masked value."""
    proved: frozenset[str] = frozenset()
    """Shapes of statements whose rows an earlier run held against a count of the whole table."""
    verified_through: dt.datetime | None = None
    """Up to when all of the table was seen equal, under the audit's settings; None if it never was."""
    unequal_keys: tuple[int, ...] = ()
    """The least key of each partition of the last run that was not equal, where partitions are ranges of keys."""
    events: FindEvents | None = None
    """What a pipeline knows of the writes of the source's table; None if none that this store knows carries it."""
    costs: tuple[Mapping[str, Spent], ...] = ()
    """What recent runs of the whole table cost, by connection, the latest last."""
    partition_size: int | None = None
    """Keys in each partition of a rolling audit, which its runs have to share."""


@dataclass(slots=True)
class Outcome:
    """What a run leaves: its report, the state of every partition that it read, and both sides' columns."""

    report: Report
    partition_map: PartitionMap | None = None
    schema: Schemas = field(default_factory=dict)
    left_out: LeftOut | None = None
    """What this run and those before it did not compare; None if it did not get so far."""
    may_resume: bool = True
    """Whether a resume may get further than this run did; only for a run that is not done."""
    proved: tuple[str, ...] = ()
    """Shapes of statements whose rows this run held against a count of the whole table."""
    save_costs: Callable[[], None] = lambda: None
    """Saves what the run cost, unless that is saved already; part of the transaction in which its end is stored."""


class Checkpoint(Protocol):
    """Saves what a run has done so far, so that it can be resumed."""

    def save_plan(self, plan: Plan, schema: Schemas) -> None:
        """Save the plan that the run follows from here on, and both sides' columns."""

    def save_chunk(self, side: Side, chunk: Chunk, summaries: Summaries, seconds: float, attempts: int) -> None:
        """Save the summaries of a chunk; ``seconds`` and ``attempts`` say what reading it took."""

    def saved_chunks(self, side: Side) -> list[tuple[Chunk, Summaries]]:
        """Return the chunks of a side that an earlier attempt at this run saved; only once."""

    def save_stretches(self, side: Side, chunk: Chunk, summaries: Summaries, seconds: float, attempts: int) -> None:
        """Save a chunk of the pre-scan, whose summaries are of stretches, as ``save_chunk`` does."""

    def saved_stretches(self, side: Side) -> list[tuple[Chunk, Summaries]]:
        """Return the chunks of the pre-scan of a side that an earlier attempt at this run saved; only once."""

    def save_progress(self, progress: Progress) -> None:
        """Save how far a side is."""

    def share_costs(
        self, audit: str, costs: Sequence[DayCost], connections: Collection[str]
    ) -> tuple[dt.datetime, Sequence[DayCost]] | None:
        """Save what this process spent for the run, in place of what it saved before. Returns the store's clock, and what others spent
        on its day on these ``connections`` and for the ``audit``, nothing without connections; None if runs are not stored.

        Raises StoreError."""

    def keep_alive(self, stop: Callable[[], None], statements: CountStatements) -> AbstractContextManager[None]:
        """Send heartbeats while the block runs, and call ``stop`` when somebody asks for the run to end."""


class NoCheckpoint:
    """The checkpoint of a run that is not stored: saves nothing."""

    def save_plan(self, plan: Plan, schema: Schemas) -> None:
        """Ignore the plan."""

    def save_chunk(self, side: Side, chunk: Chunk, summaries: Summaries, seconds: float, attempts: int) -> None:
        """Ignore the chunk."""

    def saved_chunks(self, side: Side) -> list[tuple[Chunk, Summaries]]:
        """Return nothing."""
        return []

    def save_stretches(self, side: Side, chunk: Chunk, summaries: Summaries, seconds: float, attempts: int) -> None:
        """Ignore the chunk."""

    def saved_stretches(self, side: Side) -> list[tuple[Chunk, Summaries]]:
        """Return nothing."""
        return []

    def save_progress(self, progress: Progress) -> None:
        """Ignore the progress."""

    def share_costs(
        self, audit: str, costs: Sequence[DayCost], connections: Collection[str]
    ) -> tuple[dt.datetime, Sequence[DayCost]] | None:
        """Ignore the costs."""
        return None

    def keep_alive(self, stop: Callable[[], None], statements: CountStatements) -> AbstractContextManager[None]:
        """Return a context manager that does nothing."""
        return nullcontext()


def allows_resume(error: AuditorError) -> bool:
    """Return whether a run that ended with this error may get further when it is resumed.

    It cannot where other settings are needed (exit code 2), nor after a table's columns changed, nor where what was saved may have been
    read from several sessions: each needs a new run.
    """
    return error.exit_code != PlanError.exit_code and not isinstance(error, ColumnsChanged | SessionSwitched)
