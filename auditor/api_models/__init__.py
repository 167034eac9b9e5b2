"""Models of what leaves the process, as the API answers it: services return them, the API and ``--json`` write them, the client reads them.

A module for each subject; a new field of the JSON is added here, and set by what builds the model: of a run's report in
`auditor/report/json.py`, of a pipeline's status in `auditor/service/pipeline_status.py`.

Times are ISO 8601 in UTC. A null means that a value is not known, or does not apply. Later versions only add fields.
"""

from __future__ import annotations

from typing import Any, Self, TypeVar

from pydantic import BaseModel, ConfigDict

AnyApiModel = TypeVar("AnyApiModel", bound="ApiModel")


class ApiModel(BaseModel):
    """A value that leaves the process. It does not change once it is built, and a client ignores fields that a later server added.

    Parts of it may be given as any object that has their fields as attributes.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", from_attributes=True, defer_build=True)

    def to_json(self, *, indent: int | None = None) -> str:
        """Return it as JSON text, with every field."""
        return self.model_dump_json(indent=indent)

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Read it from JSON text; raises pydantic's ValidationError for a value that it cannot be."""
        return cls.model_validate_json(text)

    @classmethod
    def fields_of(cls, value: object, *, without: tuple[str, ...] = ()) -> dict[str, Any]:
        """Return those fields that a value has under the same names, which need no line of their own where a model is built."""
        return {name: getattr(value, name) for name in cls.model_fields if name not in without and hasattr(value, name)}
