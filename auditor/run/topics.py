"""Topics as sides of a run: each is read into a table before anything is compared, and says with it what only a topic can have wrong.

A topic's table is as of the ends that were fixed when the run began. What was written into a table on the other side since then differs,
so that a watermark (`settle`) is as old as these ends are, at least.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Protocol

from auditor.config import Audit, ConnectionSettings
from auditor.errors import PlanError
from auditor.model import SIDES, Differences, Side, TopicSide, Verdict
from auditor.planning.columns import Endpoint

OnRead = Callable[[Side, int, int], None]
"""Receives how many offsets of how many a side has read."""


class TopicReader(Protocol):
    """Reads the topics of one run."""

    connections: Mapping[str, ConnectionSettings]
    """By the names of the topics' brokers, what leads to the tables into which they are read."""

    def read(self, on_read: OnRead, stopped: threading.Event) -> Mapping[Side, TopicSide]:
        """Read all topics, each up to where it ends now, into their tables, and return what was found of each.

        Raises StatementCancelled once ``stopped`` is set, and AuditorError.
        """

    def read_through(self, position: int, pipeline: str, table: str, stopped: threading.Event) -> None:
        """Read the target's topic again: of its changes those up to a position of the pipeline that publishes it.

        A table of positions beside its own says then that it holds the stream's ``table`` up to there, and what `read` returned tells of
        this reading. Raises StatementCancelled once ``stopped`` is set, and AuditorError.
        """


def check_keys(audit: Audit, topics: Mapping[Side, TopicSide], tables: Mapping[Side, Endpoint]) -> None:
    """Raise PlanError if the messages of a topic have another key than the rows that are compared: then others would replace them."""
    wanted = audit.key or (tables["source"].table.primary_key if topics else ())
    for side, topic in topics.items():
        key = tables[side].table.primary_key
        if {name.lower() for name in key} != {name.lower() for name in wanted}:
            raise PlanError(
                f"{side} ({topic.label}): its messages have the key ({', '.join(key)}), and rows are compared by ({', '.join(wanted)}): of"
                " several rows the latest message alone would stay; write the messages' key as the audit's (key:), or declare the topic's"
                " columns and its key"
            )


def judge(
    verdict: Verdict, reasons: tuple[str, ...], differences: Differences | None, topics: Mapping[Side, TopicSide]
) -> tuple[Verdict, tuple[str, ...]]:
    """Return the verdict of a run, and its reasons, with what was found of its topics.

    What is wrong with a topic makes a match a mismatch, though the rows are equal. A topic whose beginning was removed proves nothing of
    the rows that it does not have.
    """
    faults = [f"{side}: {fault.sentence}" for side, topic in topics.items() for fault in topic.faults]
    cut = [side for side in SIDES if side in topics and topics[side].removed]
    if verdict is Verdict.MISMATCH and cut and not faults and _may_be_removed(differences, cut):
        only = " and ".join(f"rows that the {side} lacks" for side in cut)
        why = f"only {only} are known to differ, and messages at the beginning of its topic were removed, so nothing is proved of them"
        return Verdict.UNKNOWN, (why, *reasons, *(f"{side}: {topics[side].removed}" for side in cut))
    if verdict is Verdict.MATCH and faults:
        return Verdict.MISMATCH, (*faults, *(f"rows: {reason}" for reason in reasons))
    return verdict, (*faults, *reasons)


def _may_be_removed(differences: Differences | None, cut: list[Side]) -> bool:
    """Return whether everything that differs can be rows that these sides lack because their messages were removed."""
    if differences is None:  # by a method that names no rows
        return True
    lacking = {"source": differences.extra, "target": differences.missing}
    return differences.missing + differences.extra + differences.changed == sum(lacking[side] for side in cut)


def notes_of_topics(topics: Mapping[Side, TopicSide]) -> tuple[str, ...]:
    """Return what is to be said of topics that is no fault of them, a sentence each."""
    return tuple(f"{side}: {note}" for side, topic in topics.items() for note in (topic.removed, *topic.notes) if note)
