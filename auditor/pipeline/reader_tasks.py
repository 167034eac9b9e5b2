"""What a task of a batch does, and what a reader is that has its tasks run again before their entries are taken."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from auditor.pipeline.folders import Folder
from auditor.pipeline.spark import RunTasks


class RunsTasks(ABC):
    """The reader of a source that has tasks run again, with what the first ones found, before their entries are taken."""

    is_full: bool = False
    """Whether the batch that was planned last has as much as a batch may have, so that more waits behind it."""

    @abstractmethod
    def run_tasks(self, run: RunTasks, write: Callable[[Any], Any], root: Folder, partitions: Sequence[Any]) -> list[Any]:
        """Let tasks read partitions and write their parts below ``root``; return their entries. Raises AuditorError."""


def read_and_write(reader: Any, write: Callable[[Any], Any], partition: Any) -> list[dict[str, str]]:
    """Read a partition, write its parts, and return their entries; a task does this."""
    return [entry for batch in write(reader.read(partition)) for entry in batch.to_pylist()]
