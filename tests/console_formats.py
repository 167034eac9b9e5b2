"""What clients save: the result of a statement in the format of each."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from typing import Any

Result = tuple[list[str], list[tuple[Any, ...]]]
"""Names of columns and rows."""


def as_csv(result: Result, delimiter: str = ",", null: str = "", footer: str = "", end: str = "\n") -> str:
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter, lineterminator=end)
    writer.writerows([result[0], *([null if value is None else value for value in row] for row in result[1])])
    return text.getvalue() + footer


def as_objects(result: Result) -> list[dict[str, Any]]:
    return [dict(zip(result[0], row, strict=True)) for row in result[1]]


def as_drawn(result: Result, edge: str, rule: str, null: str = "", frame: bool = False, before: str = "", after: str = "") -> str:
    """Return a table drawn with bars: ``edge`` begins and ends each line, ``rule`` is the line below the header, also the ``frame``."""
    lines = [
        f"{edge} {' | '.join(null if value is None else str(value) for value in row)} {edge}".strip() for row in [result[0], *result[1]]
    ]
    between = rule.join("+" * (len(result[0]) + 1)) if frame else "|".join([rule] * len(result[0]))
    lines.insert(1, between)
    return before + "\n".join([between, *lines, between] if frame else lines) + "\n" + after


def as_data_api(result: Result) -> str:
    """Return what ``aws redshift-data get-statement-result`` prints."""

    def cell(value: Any) -> dict[str, Any]:
        return {"isNull": True} if value is None else {"longValue" if isinstance(value, int) else "stringValue": value}

    records = [[cell(value) for value in row] for row in result[1]]
    return json.dumps({"Records": records, "ColumnMetadata": [{"name": name} for name in result[0]], "TotalNumRows": len(records)})


OF_SET = (["key", "value"], [("spark.sql.session.timeZone", "UTC")])
"""What Spark's clients print for SET."""


def as_beeline(result: Result, header_every: int = 100) -> str:
    """Return what beeline draws: every so many rows the header again."""
    edge, rule = "|", "-----"
    pieces = [result[1][at : at + header_every] for at in range(0, len(result[1]), header_every)]
    drawn = [as_drawn((result[0], rows), edge, rule, "NULL", frame=True) for rows in pieces]
    whole = drawn[0] + "".join(one.partition("\n")[2] for one in drawn[1:])  # the rule between two pieces is one line
    prompt = "0: jdbc:hive2://127.0.0.1:10000> "
    return f"{prompt}{as_drawn(OF_SET, edge, rule, frame=True)}{prompt}{whole}{prompt}{prompt}\n"


FORMATS: dict[str, Callable[[Result], str]] = {
    "csv": as_csv,
    "csv with a byte order mark": lambda result: "\ufeff" + as_csv(result),
    "csv with Windows line ends": lambda result: as_csv(result, end="\r\n"),
    "csv with semicolons": lambda result: as_csv(result, ";"),
    "mysql --batch": lambda result: as_csv(result, "\t", "NULL"),
    "psql --csv": lambda result: as_csv(result, ",", ""),
    "psql --no-align": lambda result: as_csv(result, "|", "", f"({len(result[1])} rows)\n"),
    "psql --csv --file": lambda result: "SET\nSET\nBEGIN\n" + as_csv(result, ",", "") + "COMMIT\n",
    "COPY": lambda result: as_csv(result, "\t", "\\N"),
    "JSON lines": lambda result: "".join(json.dumps(one) + "\n" for one in as_objects(result)),
    "psql": lambda result: as_drawn(result, "", "-----", before="SET\nSET\nBEGIN\n", after=f"({len(result[1])} rows)\n\nCOMMIT\n"),
    "mysql --table": lambda result: as_drawn(result, "|", "-----", "NULL", frame=True),
    "mysql tee": lambda result: as_drawn(
        result,
        "|",
        "-----",
        "NULL",
        True,
        "mysql> SET x = 1;\nQuery OK, 0 rows affected (0.00 sec)\n",
        "6 rows in set (0.01 sec)\n\nmysql> ",
    ),
    "DataGrip Pretty": lambda result: as_drawn(result, "|", "-----", "null", frame=True),
    "DataGrip Markdown": lambda result: as_drawn(result, "|", " :--- ", "null"),
    "DataGrip TSV": lambda result: as_csv(result, "\t", "<null>"),
    "DBeaver CSV": lambda result: as_csv(result, ",", "[NULL]"),
    "DBeaver JSON": lambda result: json.dumps({"SELECT\n  partition_id": as_objects(result)}, indent=1),
    "Redshift Data API": as_data_api,
    "spark-sql": lambda result: as_csv(OF_SET, "\t") + as_csv(result, "\t", "NULL"),
    "beeline": as_beeline,
    "beeline with several headers": lambda result: as_beeline(result, 2),
    "beeline --outputformat=tsv2": lambda result: as_csv(OF_SET, "\t") + as_csv(result, "\t", "NULL"),
    "beeline --outputformat=csv2": lambda result: (
        as_csv(OF_SET) + "\rnull" + " " * 51 + "\rnull" + as_csv(result, null="NULL")  # without a terminal, its prompt is that
    ),
    "JSON array": lambda result: json.dumps(as_objects(result), indent=2),
}
