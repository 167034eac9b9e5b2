"""Texts of several collations in one table: every statement compares their bytes, whatever a collation takes for equal, or refuses."""

from __future__ import annotations

from typing import Any

import pytest

from auditor.config import Audit, ConnectionSettings
from auditor.model import Report, Verdict
from auditor.run import audit_run
from tests import tables
from tests.live import LiveEngine, engine_params

COLLATED = {
    "mysql": ("VARCHAR(40) COLLATE utf8mb4_bin", "VARCHAR(40) COLLATE utf8mb4_0900_bin", "CHAR(40) COLLATE utf8mb4_0900_ai_ci",
              "VARCHAR(40) CHARACTER SET latin1 COLLATE latin1_bin"),
    "mariadb": ("VARCHAR(40) COLLATE utf8mb4_bin", "VARCHAR(40) COLLATE utf8mb4_nopad_bin", "CHAR(40) COLLATE utf8mb4_general_ci",
                "VARCHAR(40) CHARACTER SET latin1 COLLATE latin1_bin"),
    "postgres": ('TEXT COLLATE collations_loose', 'VARCHAR(40) COLLATE "C"', "TEXT COLLATE collations_german", "TEXT"),
    "duckdb": ("VARCHAR COLLATE NOCASE", "VARCHAR COLLATE NOACCENT", "VARCHAR COLLATE NOCASE.NOACCENT", "VARCHAR"),
    "spark": ("STRING COLLATE UTF8_LCASE", "STRING COLLATE UNICODE", "STRING COLLATE UNICODE_CI_AI", "STRING"),
}  # fmt: skip
"""The types of four columns of text, of which the first is the key."""

PREPARED = {
    "postgres": (
        "CREATE COLLATION IF NOT EXISTS collations_loose (PROVIDER = icu, LOCALE = 'und-u-ks-level2', DETERMINISTIC = FALSE)",
        "CREATE COLLATION IF NOT EXISTS collations_german (PROVIDER = icu, LOCALE = 'de')",
    )
}
"""Statements that create the collations."""

ROWS = 300
COLUMNS = ("name", "one", "two", "three")


def create(engine: LiveEngine, table: str, changed: dict[int, tuple[str, ...]]) -> None:
    """Create a table of ROWS rows, of which some hold these other texts after the key."""
    columns = ", ".join(f"{name} {type_}" for name, type_ in zip(COLUMNS, COLLATED[engine.name], strict=True))
    key = "" if engine.name == "spark" else ", PRIMARY KEY (name)"
    texts = [(f"Key|{n}", *changed.get(n, (f"One|{n}", f"Two|{n}", f"Three|{n}"))) for n in range(ROWS)]
    values = ", ".join("(" + ", ".join(f"'{text}'" for text in row) + ")" for row in texts)
    prepared = PREPARED.get(engine.name, ())
    tables.execute(
        engine, *prepared, f"DROP TABLE IF EXISTS {table}", f"CREATE TABLE {table} ({columns}{key})", f"INSERT INTO {table} VALUES {values}"
    )


def audit(engine: LiveEngine, **settings: object) -> Report:
    ends = {side: {"connection": side, "table": f"collated_{side}"} for side in ("source", "target")}
    connections = dict.fromkeys(("source", "target"), ConnectionSettings(url=engine.url))
    return audit_run.run("collated", Audit.model_validate({**ends, "key": ["name"], **settings}), connections)


@pytest.mark.quick_for("filtered-mysql", "minhash")
@pytest.mark.slow_on("spark")
@pytest.mark.parametrize("engine", engine_params(*COLLATED), indirect=True)
@pytest.mark.parametrize(
    "settings",
    [
        {
            "where": "one LIKE 'One%' OR two = 'Two|7'",
            "columns": {"override": {"one": {"trim": True}, "two": {"null_as": "|"}}},  # the third column's texts stay as they are
        },
        {"method": "minhash"},
    ],
    ids=["filtered", "minhash"],
)
@pytest.mark.few
def test_texts_of_several_collations_are_compared_by_their_bytes(engine: LiveEngine, settings: dict[str, Any]) -> None:
    create(engine, "collated_source", {})
    create(
        engine, "collated_target", {7: ("one|7", "Two|7", "Three|7"), 8: ("One|8", "Twö|8", "Three|8"), 9: ("One|9", "Two|9", "three|9")}
    )
    report = audit(engine, **settings)
    assert report.verdict is Verdict.MISMATCH, report.reasons
    if report.differences is not None:
        found = {one.key["name"]: [column.name for column in one.columns] for one in report.differences.named}
        assert found == {"Key|7": ["one"], "Key|8": ["two"], "Key|9": ["three"]}
    create(engine, "collated_target", {})
    report = audit(engine)
    assert report.verdict is Verdict.MATCH, report.reasons
