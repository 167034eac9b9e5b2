"""Write the JSON schema of reports, from the model: `python -m scripts.report_schema > docs/report.schema.json`."""

from __future__ import annotations

import json
from typing import Any

from auditor.api_models.report import RunReport

HEAD = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "$id": "https://auditor.invalid/report.schema.json",
    "title": "The report of a run, or a list of reports if several audits were run",
    "description": "Output of `auditor run|compare|demo --format json`. Later versions only add fields: ignore those you do not know.",
}


def schema() -> str:
    """Return the schema as JSON."""
    model = RunReport.model_json_schema()
    definitions = model.pop("$defs") | {"RunReport": model}
    report = {"$ref": "#/$defs/RunReport"}
    either = {"oneOf": [report, {"type": "array", "minItems": 2, "items": report}]}
    return json.dumps({**HEAD, **either, "$defs": _without_titles(definitions)}, indent=2, ensure_ascii=False) + "\n"


def _without_titles(value: Any) -> Any:
    """Return a schema without the titles that the names of classes and fields are turned into."""
    if isinstance(value, list):
        return [_without_titles(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {name: _without_titles(item) for name, item in value.items() if name != "title" or not isinstance(item, str)}


if __name__ == "__main__":
    print(schema(), end="")
