"""What a statement does to a table of the source: `binlog.ddl` reads it, notes of the store keep it, and merges do it to the target.

A new operation is a name of `OpName`, with its fields in `Op`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NotRequired, TypedDict

OpName = Literal[
    "add", "drop", "rename", "modify", "convert", "key", "clear", "create", "gone", "moved", "swapped", "rows", "unread", "short_year"
]  # fmt: skip
"""What a statement does to a table.

``add`` (``column``, ``value``), ``drop`` (``column``), ``rename`` (``from``, ``to``) and ``modify`` (``column``) one of its columns;
``key`` (``columns``): the primary key has these columns, none of which is NULL from then on;
``convert`` (``charset``): all texts got another character set; ``clear``: all rows went; ``create`` (``sure``: there was no such table);
``gone`` (``to``, if it has another name now); ``moved`` (``from``): it had another name; ``swapped`` (``from``): a copy became it;
``rows`` (``why``): rows came or went that are not in the log; ``unread`` (``text``); ``short_year`` (``column``): a YEAR(2) that
the table has by the time the statement is read, which no statement may have said.
"""


class Value(TypedDict, total=False):
    """What rows have: one of these; and the ``comment`` that a catalogue has on their column."""

    comment: str
    text: str | None
    """None for NULL."""
    hex: str
    """Of bytes."""
    unknown: str
    """Why it is not known."""


Op = TypedDict(
    "Op",
    {
        "op": OpName,
        "column": NotRequired[str],
        "columns": NotRequired[list[str]],
        "value": NotRequired[Value],
        "from": NotRequired[str],
        "to": NotRequired[str],
        "type": NotRequired[str],
        "nullable": NotRequired[bool],
        "charset": NotRequired[str],
        "computed": NotRequired[bool],
        "strict": NotRequired[bool],
        "sure": NotRequired[bool],
        "why": NotRequired[str],
        "text": NotRequired[str],
    },
)
"""A change of one table: ``op``, and what belongs to it.

What gives a column another type has that ``type``, its ``charset`` ('' if none is named), whether it is ``nullable``, and ``computed`` if
it is from other columns; ``strict`` says whether the session refused values that do not fit, instead of changing them.
"""


class ChangeBody(TypedDict):
    """The body of the note on a table that a statement changes."""

    ops: list[Op]
    """What it does, in the order of its text."""
    stage: NotRequired[str]
    reason: NotRequired[str]
    """Why the table cannot continue automatically."""
    advances: NotRequired[bool]
    """The target changes all rows of the table here."""
    statement: NotRequired[str]
    """Its text, as far as that is kept."""
    beside: NotRequired[str]
    """The table that a copy will become."""


def ops_of(body: Mapping[str, Any]) -> Sequence[Op]:
    """Return the changes in the body of a note on a statement, as the store has it."""
    ops: Sequence[Op] = body["ops"]
    return ops
