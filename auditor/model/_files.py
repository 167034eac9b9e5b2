"""What is kept of immutable files: under which partitions, and what a run read of a table's files."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

from auditor.model._plan import Partitioning


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLayout:
    """What all sums that an audit keeps of files have in common, so that they add up."""

    partitioning: Partitioning
    salt: str
    """The salt of the row texts."""
    rows: int
    """About how many rows the larger side had when it was chosen."""
    aim: int
    """Rows of a partition that the audit asked for then."""
    begun_at: dt.datetime | None = None
    """When it was chosen, by the store's clock."""
    proved_at: dt.datetime | None = None
    """When all files that a run needed were last read; None before the first such run ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesRead:
    """What a run read of a table that consists of immutable files, whose sums are kept."""

    state: str
    """Which version was read, as a clause; empty where versions have no numbers."""
    files: int
    """Files of the version."""
    read: int
    """Those of them that were read as a whole."""
    bytes: int
    """Bytes of all files of the version."""
    read_bytes: int
    """Bytes of the files that were read, as a whole or for rows that deletes hide."""
    hidden: int
    """Files that were read for rows that deletes hide, because their deletes were new."""
    rows: int
    """Rows of the version that were compared."""
    trusts: str
    """On what the sums of the other files rest, as a clause."""
    why: str = ""
    """Why more was read than what is new, as a clause; empty where nothing was."""
    since: dt.datetime | None = None
    """When all files were last read; None for a run that read them all."""
    damaged: int = 0
    """Sums that were not what had been stored, so that their files were read again."""
    changed: tuple[str, ...] = ()
    """Files, by their names, in which a run that read all of them found other rows than those whose sums were kept."""
