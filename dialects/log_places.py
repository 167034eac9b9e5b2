"""Sessions on servers that log their changes: at which place of the log a snapshot of a table stands.

A place is ``FILE:POS``, as the server names it. What MySQL calls executed and owned are texts of global transaction ids, in its own form.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from dialects.base import Session


class PlacedSession(ABC):
    """What a session can do that reads snapshots at known places of the server's log."""

    @abstractmethod
    def identify(self) -> str:
        """Return what identifies the server: MySQL's server_uuid; of MariaDB its server id and its domain of global ids."""

    @abstractmethod
    def storage_engine(self, table: Sequence[str]) -> str:
        """Return the storage engine of a table (its name in parts) if its rows are no part of a snapshot; '' if they are."""

    @abstractmethod
    def begin_placed(self) -> str:
        """Open a snapshot as ``begin`` does, and return the place of the log at which it stands; '' if the server does not say that."""

    @abstractmethod
    def log_end(self) -> str:
        """Return the place at which the log ends now; '' if the server keeps none. Raises AccessDenied without the right to see it."""

    @abstractmethod
    def executed_ids(self) -> str:
        """Return the ids of the transactions that every snapshot from now on holds; '' if not every transaction gets one."""

    @abstractmethod
    def owned_ids(self) -> str:
        """Return the ids of the transactions that are in the log, or will be, and that may still be missing from snapshots."""

    @abstractmethod
    def are_executed(self, ids: str, executed: str) -> bool:
        """Return whether ``executed`` has all of these ids, separated by commas."""

    @abstractmethod
    def begin_locked(self, table: str, helper: Session, log_end: Callable[[], str]) -> str:
        """Open a snapshot while ``helper``, another session, keeps writers off ``table``; return what ``log_end`` says meanwhile.

        Waits a second for the lock, during which writers continue, and holds it for a second at most. The helper is of no use afterwards.
        Raises LockTimeout, and AccessDenied for a user who may not lock tables.
        """
