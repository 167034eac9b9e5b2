"""The rows of a few keys on both sides of an audit, held against each other and against what events made of them; and what follows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from auditor.api_models.trace import Hop, Outcome
from auditor.compare import tolerance
from auditor.compare.accounting import Key, Row, TextEquality
from auditor.connections.reader import Reader
from auditor.errors import TraceRefused
from auditor.model import Plan, Side
from auditor.pipeline.key_history import Version
from auditor.run.fetch import Fetcher
from dialects import Session

SHOWN_EVENTS = 10
"""Changes of a row that are shown at most, the last ones."""

UNSHORTENED = 1 << 30

Rows: TypeAlias = Mapping[Key, Sequence[Row]]

Answer: TypeAlias = tuple[Outcome, Hop | None, str]


@dataclass(frozen=True, slots=True)
class KeyRows:
    """Reads the rows of keys, and compares them as the audit does."""

    reader: Reader
    plan: Plan
    keys: Sequence[Key]
    alike: Mapping[str, TextEquality] = field(init=False)
    """By column, which texts of the two sides are equal within the audit's tolerances."""

    def __post_init__(self) -> None:
        if any(column.masked for column in self.plan.key_columns):
            raise TraceRefused("a column of the key is masked, so that no row can be named")
        object.__setattr__(self, "alike", tolerance.text_equalities(self.plan, known=True))

    def read(self, side: Side) -> Rows:
        """Return the rows of a side as they are now."""
        return self.reader.ask_side(side, self.fetch, fresh=True)

    def fetch(self, side: Side, session: Session) -> Rows:
        """Return the rows that a session sees."""
        rows: dict[Key, list[Row]] = {}
        for row, _ in Fetcher(self.plan, side, session, UNSHORTENED).by_canonical_key(self.keys):
            rows.setdefault(row.key, []).append(row)
        return rows

    def find_changing(self, before: Rows, after: Rows) -> set[Key]:
        """Return the keys whose rows two looks at a side found otherwise."""
        return {key for key in self.keys if _digits(before, key) != _digits(after, key)}

    def are_equal(self, source: Rows, target: Rows, key: Key) -> bool:
        """Return whether both sides' rows are equal, within the audit's tolerances."""
        here, there = source.get(key, []), target.get(key, [])
        if not here or not there or _digits(source, key) == _digits(target, key):
            return _digits(source, key) == _digits(target, key)
        pairs = zip(self.plan.columns[self.plan.key :], here[0].texts, there[0].texts, strict=True)
        return all(self.alike.get(column.name, _is_same)(text, other) for column, text, other in pairs)

    def settle(self, source: Rows, target: Rows, key: Key, *, has_events: bool) -> Answer | None:
        """Return what is said of a key where both sides are equal, None where they are not; ``has_events``: some of it are kept.

        A key of which there is nothing anywhere may be written otherwise than the audit has it.
        """
        if not self.are_equal(source, target, key):
            return None
        if source.get(key) or target.get(key):
            return "equal", None, "both sides have it alike by now"
        if has_events:
            return "equal", None, "neither side has a row with this key by now"
        return unknown("neither side has a row with this key, and no event of it is kept; write it as reports print keys")

    def is_in_source(self, source: Rows, key: Key, version: Version) -> bool:
        """Return whether the source's row is as an event left it, in the columns that the event tells."""
        return self._is_row(source.get(key, []), version, {})

    def is_in_target(self, target: Rows, key: Key, version: Version) -> bool:
        """Return the same of the target's row, within the audit's tolerances."""
        return self._is_row(target.get(key, []), version, self.alike)

    def _is_row(self, rows: Sequence[Row], version: Version, alike: Mapping[str, TextEquality]) -> bool:
        if version.texts is None or not rows:
            return version.texts is None and not rows
        texts = version.texts
        return len(rows) == 1 and all(
            alike.get(column.name, _is_same)(texts[column.name], text)
            for column, text in zip(self.plan.columns[self.plan.key :], rows[0].texts, strict=True)
            if column.name in texts
        )


def is_same_row(version: Version, other: Version) -> bool:
    """Return whether two events left the same row, in the columns that both tell."""
    if version.texts is None or other.texts is None:
        return version.texts is other.texts
    return all(version.texts[name] == other.texts[name] for name in version.texts.keys() & other.texts.keys())


def find_several(source: Rows, target: Rows, key: Key) -> str:
    """Return that a side has several rows of a key, as a clause; '' if none has."""
    sides = {"source": source, "target": target}
    return next((f"the {side} has several rows of this key" for side, rows in sides.items() if len(rows.get(key, ())) > 1), "")


def lost(hop: Hop, sentence: str) -> Answer:
    """Return that a row was lost at a hop."""
    return "lost", hop, sentence


def in_flight(sentence: str) -> Answer:
    """Return that a row's change is on its way."""
    return "in_flight", None, sentence


def unknown(why: str) -> Answer:
    """Return that it cannot be told where a row was lost."""
    return "unknown", None, f"it cannot be told, because {why}"


def _is_same(text: str | None, other: str | None) -> bool:
    return text == other


def _digits(rows: Rows, key: Key) -> list[str]:
    return sorted(row.digits for row in rows.get(key, ()))
