"""Render the statements about the sums of live summaries in a target, and read their rows.

They stand beside the positions of the pipeline's tables, and are written in the transaction that writes those: a snapshot of the target
holds the sums as of exactly the position that it states. A link whose sums are long consists of several rows, its pieces.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import sql_templates
from auditor.errors import LiveSummariesWrong
from auditor.run.live.running_sums import Link
from auditor.sql.user_sql import checked
from dialects import Dialect, Kind

LIVE_SUMS = "auditor_live_sums"
"""The table of a target that holds the sums."""

EPOCH_CHARACTERS = 16

PIECE = 60_000
"""Characters of a piece: Redshift's texts have at most 65,535 bytes."""


@dataclass(frozen=True, slots=True)
class LiveSums:
    """Statements about the sums of live summaries in one schema of a target."""

    dialect: Dialect
    schema: str

    def create(self) -> str:
        """Return the statement that makes the table if it is missing."""
        text, integer = self.dialect.types.native_type(Kind("text")), self.dialect.types.native_type(Kind("integer"))
        name = self.dialect.TABLE_FORM.key_text.format(characters=EPOCH_CHARACTERS) or text
        return self._fill("live_sums_create", text=text, integer=integer, name=name)

    def list(self, epoch: str) -> str:
        """Return the statement that lists the links of an epoch, as `read_links` takes them."""
        return self._fill("live_sums", epoch=self.dialect.names.literal(epoch))

    def sizes(self, epoch: str) -> str:
        """Return the statement whose row says how many rows and characters the sums of an epoch have, where they end, of what columns."""
        return self._fill("live_sums_sizes", epoch=self.dialect.names.literal(epoch))

    def forget(self, *epochs: str) -> str:
        """Return the statement that deletes the sums of epochs, of at least one."""
        return self._fill("live_sums_delete", epochs=", ".join(self.dialect.names.literal(epoch) for epoch in epochs))

    def write(self, link: Link) -> Sequence[str]:
        """Return the statements that add a link."""
        literal = self.dialect.names.literal
        pieces = [link.body[start : start + PIECE] for start in range(0, len(link.body), PIECE)] or [""]
        columns: dict[str, str | int] = {
            "epoch": link.epoch,
            "place": link.place,
            "previous": link.previous,
            "layout": link.layout,
            "shape": link.shape,
        }
        values = {name: literal(value) for name, value in columns.items()} | {"digest": literal(link.digest)}
        return [self._piece(values, number, body) for number, body in enumerate(pieces)]

    def _piece(self, values: dict[str, str], number: int, body: str) -> str:
        literal = self.dialect.names.literal
        return self._fill("live_sums_insert", piece=literal(number), size=literal(len(body)), body=literal(body), **values)

    def _fill(self, template: str, **fragments: str) -> str:
        sums = self.dialect.names.table(self.schema, LIVE_SUMS)
        return checked(sql_templates.fill(self.dialect.template(template), {"sums": sums, **fragments}), self.dialect)


def read_links(epoch: str, rows: Iterable[Sequence[Any]]) -> list[Link]:
    """Return the links of an epoch in their order. Raises LiveSummariesWrong for one whose digest is wrong, or that is not complete."""
    links: list[Link] = []
    for place, some in groupby(rows, key=lambda row: int(row[0])):
        pieces = list(some)
        previous, (layout, shape, digest) = int(pieces[0][2]), map(as_text, pieces[0][3:6])
        link = Link(epoch, layout, previous, place, shape, "".join(as_text(piece[6]) for piece in pieces))
        if link.digest != digest or [int(piece[1]) for piece in pieces] != list(range(len(pieces))):
            raise LiveSummariesWrong(f"the live summaries at position {place} are not what was written; they have to start again")
        links.append(link)
    return links


def as_text(value: Any) -> str:
    """Return a text that a driver may return as bytes."""
    return value.decode() if isinstance(value, bytes) else str(value)
