"""Where the key of a row still is in what is kept of an audit: the answer of ``auditor forget``."""

from __future__ import annotations

from pydantic import Field

from auditor.api_models import ApiModel
from auditor.api_models.report import Count


class KeyPlace(ApiModel):
    """One place in which the key is, or may be."""

    place: str = Field(
        description="What it is: `runs`, `repairs`, `journal`, `left out rows`, `requests`, `events`, `patches`, `bootstraps`,"
        " `dumps`, parts and segments of pipelines, or what is not searched."
    )
    searched: bool = Field(description="Whether all of it was searched; what was not may hold the key.")
    found: Count = Field(description="In how many runs, repairs, patches, rows, parts, segments or dumps the key was found.")
    removed: Count = Field(description="From how many of them it was removed.")
    what: str = Field(description="What is there, when it goes, and what removing it takes away, for a person.")


class Forgotten(ApiModel):
    """Where a key is, and whether it was removed."""

    audit: str
    key: dict[str, str | None] = Field(description="The key's columns and texts.")
    applied: bool = Field(description="Whether it was removed where that is allowed.")
    places: tuple[KeyPlace, ...]
