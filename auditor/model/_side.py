"""The sides of an audit, and the shards of a source, each of which a plan and a reader take for a side of its own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal, cast

from pydantic import GetPydanticSchema

Side = Literal["source", "target"]
SIDES: tuple[Side, Side] = ("source", "target")
"""Both sides, always in this order."""

AnySide = Annotated[Side, GetPydanticSchema(lambda _, handler: handler(str))]
"""A side, or what stands for a shard of the source: a key of what a plan or a reader holds for each table that is read."""

_SHARD = "source "


def shard_side(number: int) -> Side:
    """Return what stands for a shard (1 for the first) wherever one table's side is asked for: in plans, SQL, statements and chunks.

    Only what reads tables knows it. Whatever compares both sides has the source as a whole.
    """
    return cast("Side", f"{_SHARD}{number}")


def is_shard(side: Side) -> bool:
    """Return whether it stands for a shard of the source."""
    return side.startswith(_SHARD)


def shard_number(side: Side) -> int:
    """Return which of the source's shards it stands for, 1 for the first."""
    return int(side.removeprefix(_SHARD))


def side_of(side: Side) -> Side:
    """Return the side to which a shard belongs, which for others is the side itself."""
    return "source" if is_shard(side) else side


def read_sides(sides: Iterable[Side]) -> tuple[Side, ...]:
    """Return those of these that are read as tables: the source itself is not if it consists of shards."""
    every = tuple(sides)
    return tuple(side for side in every if side != "source") if any(map(is_shard, every)) else every
