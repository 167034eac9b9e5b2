"""What all shapes have in common."""

from __future__ import annotations

from typing import Self

from pydantic import BaseModel, ConfigDict


class Shape(BaseModel):
    """A value that leaves the process. It does not change once it is built, and a client ignores fields that a later server added."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    def to_json(self, *, indent: int | None = None) -> str:
        """Return it as JSON text, with every field."""
        return self.model_dump_json(indent=indent)

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Read it from JSON text; raises pydantic's ValidationError for a value that it cannot be."""
        return cls.model_validate_json(text)
