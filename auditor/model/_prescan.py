"""Whether a run reads stretches of the table first."""

from __future__ import annotations

from dataclasses import dataclass, field

from auditor.model._side import AnySide


@dataclass(frozen=True, slots=True, kw_only=True)
class Prescan:
    """Whether a run reads one signature, or one digest, of each of a few stretches of the table first, and by the method only what
    differs."""

    used: bool
    """Whether it does."""
    why: str
    """Why, for a person."""
    partitions: int = 0
    """Range partitions in each stretch; 0 if partitions are no key ranges."""
    digest_rows: int = 0
    """The most rows of a stretch whose texts are hashed as one, in key order; 0 if each row of a stretch is hashed by itself."""
    hashes_bytes: bool = False
    """Whether rows are hashed as bytes that need no escapes, as both engines can; otherwise each as its row text."""
    groups: int = 0
    """Into about how many stretches the keys are grouped where partitions are buckets of a hash; 0 if the whole table is one."""
    cuts: dict[AnySide, tuple[str, ...]] = field(default_factory=dict)
    """Where partitions are buckets of a hash and stretches have digests: SQL of the first value of each stretch in the key's first column,
    ascending, and of the end of the last, by side; empty otherwise."""

    def __str__(self) -> str:
        how = ", by one hash of many rows," if self.used and self.digest_rows else ","
        return f"{'yes' if self.used else 'no'}{how} because {self.why}"
