"""The differences of a run as a page shows them: side by side, with the characters marked in which two values differ."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Annotated, Any, Literal
from urllib.parse import urlencode

from fastapi import Depends, Query
from markupsafe import Markup, escape

from auditor.api_models.run import ColumnValues, Difference
from auditor.model import Report
from auditor.report import formatting
from auditor.service import stored_differences
from auditor.store import Store

PAGE_SIZE = 50
"""Differences on a page."""

MARKED = 400
"""Characters up to which two values are compared character by character; longer ones are marked from the first to the last that differs."""

Kind = Literal["", "missing", "extra", "changed"]
DifferenceState = Literal["", "confirmed", "unsettled"]


@dataclass(frozen=True, slots=True)
class Filter:
    """Which differences of a run are shown, and in which order; its fields are the parameters of the URL."""

    kind: Kind = ""
    state: DifferenceState = ""
    column: str = ""
    key: str = ""
    order: stored_differences.Order = "number"
    after: int = 0
    """The number of the last difference of the previous page; 0 on the first."""

    @property
    def is_filtered(self) -> bool:
        """Whether some differences are left out."""
        return bool(self.kind or self.state or self.column or self.key)

    def query(self, **changes: Any) -> str:
        """Return the filter as the query of a URL, with some of it changed; the first page again."""
        values = {name: getattr(self, name) for name in ("kind", "state", "column", "key", "order")} | changes
        return urlencode({name: value for name, value in values.items() if value not in ("", 0, "number")})

    def select(self, store: Store, run: str) -> stored_differences.Selection:
        """Select the differences of a run. Raises NoReport if it has none by key, and ConfigError for an order by masked keys."""
        return stored_differences.select(
            store, run, self.kind or None, self.state or None, column=self.column, key=self.key.strip(), order=self.order
        )


def filter_of(
    kind: Kind = "",
    state: DifferenceState = "",
    column: Annotated[str, Query(max_length=255)] = "",
    key: Annotated[str, Query(max_length=1000)] = "",
    order: stored_differences.Order = "number",
    after: int = 0,
) -> Filter:
    """Return the filter that a URL asks for."""
    return Filter(kind, state, column, key, order, after)


AskedFilter = Annotated[Filter, Depends(filter_of)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A page of differences. ``next`` is the number after which the next one starts, None on the last."""

    listed: Sequence[Difference]
    next: int | None
    columns: Sequence[str]
    """The columns that rows can differ in."""
    is_sortable: bool
    """Whether the key is not masked, so that an order by it reveals nothing."""


def list_shown(store: Store, run: str, asked: Filter, size: int = PAGE_SIZE) -> Shown:
    """Return a page of the stored differences of a run. Raises NoReport if it has none by key, and ConfigError."""
    selection = asked.select(store, run)
    listed = stored_differences.list_page(store, selection, asked.after, size + 1)
    plan = selection.report.plan
    return Shown(
        listed=listed[:size],
        next=listed[size - 1].number if len(listed) > size else None,
        columns=stored_differences.list_columns(selection.report),
        is_sortable=plan is not None and not any(column.masked for column in plan.key_columns),
    )


def list_first(store: Store, report: Report, size: int) -> Shown | None:
    """Return the first differences of a run; None if it names none."""
    if report.differences is None:
        return None
    shown = list_shown(store, report.run, Filter(), size)
    return shown if shown.listed else None


def mark(values: ColumnValues) -> tuple[Markup, Markup]:
    """Return a column's two values as HTML, with the characters marked in which they differ."""
    source, target = formatting.sides(values.source, values.target, values.reason)
    if source is None or target is None or _is_quoted(source) or _is_quoted(target):
        return _whole(source), _whole(target)
    pieces = list(_pieces(source, target))
    return (
        Markup("").join(_piece(source[first:last], is_same) for is_same, first, last, _, _ in pieces),
        Markup("").join(_piece(target[first:last], is_same) for is_same, _, _, first, last in pieces),
    )


def _is_quoted(text: str) -> bool:
    """Return whether a value is shown in quotes, as it would pass for another: then it is marked as a whole."""
    return formatting.value(text) != formatting.visible(text)


def _whole(text: str | None) -> Markup:
    return Markup('<mark class="null">NULL</mark>') if text is None else _piece(formatting.value(text), False, is_visible=True)


def _piece(text: str, is_same: bool, *, is_visible: bool = False) -> Markup:
    shown = escape(text if is_visible else formatting.visible(text))
    return shown if is_same or not text else Markup("<mark>{}</mark>").format(shown)


def _pieces(source: str, target: str) -> Iterator[tuple[bool, int, int, int, int]]:
    """Yield the parts of two texts in order: whether they are the same, and from where to where they go in each."""
    if len(source) <= MARKED and len(target) <= MARKED:
        for tag, first, last, other_first, other_last in SequenceMatcher(None, source, target, autojunk=False).get_opcodes():
            yield tag == "equal", first, last, other_first, other_last
        return
    shorter = min(len(source), len(target))
    start = next((place for place in range(shorter) if source[place] != target[place]), shorter)
    end = next((place for place in range(shorter - start) if source[-1 - place] != target[-1 - place]), shorter - start)
    yield True, 0, start, 0, start
    yield False, start, len(source) - end, start, len(target) - end
    yield True, len(source) - end, len(source), len(target) - end, len(target)
