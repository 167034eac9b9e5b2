"""What leaves the process: the models, and the schema that is generated from it."""

from __future__ import annotations

import json

import pytest
from pydantic import ValidationError

from auditor.api_models.report import RunReport
from scripts import report_schema
from tests.documents import ROOT

SCHEMA = ROOT / "docs" / "report.schema.json"


def test_the_schema_is_that_of_the_model() -> None:
    written = SCHEMA.read_text(encoding="utf-8")
    assert written == report_schema.schema(), "write it again: python -m scripts.report_schema > docs/report.schema.json"


def test_the_schema_requires_every_field_of_a_report() -> None:
    schema = json.loads(report_schema.schema())["$defs"]["RunReport"]
    assert set(schema["required"]) == set(schema["properties"]) == set(RunReport.model_fields)


def test_a_report_that_lacks_a_field_is_not_read() -> None:
    with pytest.raises(ValidationError):
        RunReport.from_json('{"audit": "orders"}')
