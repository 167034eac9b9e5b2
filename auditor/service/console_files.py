"""Read results that were saved from a console: what psql, mysql, DBeaver, DataGrip, Redshift's query editor and others write.

A file is CSV, TSV or another delimited text with a header, a table drawn with bars, JSON (an array of objects, objects in lines, DBeaver's
object, or the Data API's), or Parquet (read by pyarrow). CSV and JSON are read by the standard library: DuckDB rejects the row count that
psql appends, and DuckDB and pyarrow round large integers in JSON to floats.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from auditor.errors import ResultError

Rows = tuple[list[str], list[Sequence[Any]]]
"""Names of columns, and the values of each row."""

NULL_TEXTS = frozenset({"", "NULL", "null", "\\N", "None", "[NULL]", "<null>", "(null)", "∅"})
"""How clients write NULL; no column of a summary can hold these as text."""

COMMAND_TAGS = frozenset({"SET", "BEGIN", "START TRANSACTION", "COMMIT", "ROLLBACK", "RESET", "Timing is on."})
"""Lines that clients print for the statements of a script that return no rows."""

COMMAND_TAG_STARTS = ("Time: ", "Query OK, ", "Null display is ")
"""The beginnings of such lines whose rest differs."""

DASHES = frozenset("-─═")
DRAWN = frozenset("|+:│┼├┤╪") | DASHES
"""What the line below the header of a table is drawn with, besides blanks; it has a dash."""

MAX_LINE = 1 << 20
"""Characters of a line; what a partition's summary has most of, the power sums of ``exact``, fills a thousandth of it."""


def read_rows(path: Path, columns: Sequence[str]) -> Rows:
    """Return the names and rows of a saved result; a JSON file without rows has these ``columns``. Raises ResultError."""
    try:
        if path.suffix == ".parquet":
            import pyarrow.parquet as pq

            table = pq.read_table(path)
            return list(table.column_names), list(zip(*(column.to_pylist() for column in table.columns), strict=True))
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise ResultError(f"{path} cannot be read: {error}") from None
    if text.lstrip()[:1] in ("{", "["):
        return _parse_json(text, path, columns)
    return _parse_drawn_table(text, path) or _parse_delimited(text, path)


def _parse_json(text: str, path: Path, columns: Sequence[str]) -> Rows:
    try:
        parsed = json.loads(text) if _is_one_value(text) else [json.loads(line) for line in text.splitlines() if line.strip()]
    except (ValueError, RecursionError) as error:  # includes integers of thousands of digits and deep nesting
        raise ResultError(f"{path} is not valid JSON: {error}") from None
    if isinstance(parsed, dict) and "Records" in parsed and "ColumnMetadata" in parsed:
        return _parse_data_api(parsed, path)
    if isinstance(parsed, dict):  # DBeaver writes the statement as the name of the rows
        lists = [value for value in parsed.values() if isinstance(value, list)]
        parsed = lists[0] if len(lists) == len(parsed) == 1 else [parsed]
    if not parsed:
        return [*columns, "hashed", "word_0", "word_1"], []
    if not all(isinstance(record, dict) for record in parsed):
        raise ResultError(f"{path} must contain one JSON object per partition")
    names = list(parsed[0])
    return names, [[_number(record.get(name)) for name in names] for record in parsed]


def _is_one_value(text: str) -> bool:
    """Return whether the text is one JSON value rather than a value in each line."""
    try:
        json.loads(text)
    except ValueError:
        return text.lstrip().startswith("[")
    return True


def _number(value: Any) -> Any:
    """Return a value as the other formats have it: a text that stands for NULL is None."""
    return None if isinstance(value, str) and value.strip() in NULL_TEXTS else value


def _parse_data_api(answer: dict[str, Any], path: Path) -> Rows:
    """Read what ``aws redshift-data get-statement-result`` prints: of each cell its type and value."""
    try:
        names = [str(column["name"]) for column in answer["ColumnMetadata"]]
        rows: list[Sequence[Any]] = [
            [None if cell.get("isNull") else next(iter(cell.values())) for cell in row] for row in answer["Records"]
        ]
    except (KeyError, TypeError, AttributeError, StopIteration):
        raise ResultError(f"{path} is not a result of Redshift's Data API; save what get-statement-result prints as it is") from None
    if answer.get("NextToken"):
        raise ResultError(f"{path} is the first page of a result of Redshift's Data API: save all pages, or the result as CSV")
    return names, rows


def _parse_drawn_table(text: str, path: Path) -> Rows | None:
    """Read a table that is drawn with bars, None if there is none: psql's and mysql's own, DataGrip's Pretty, or Markdown.

    Prompts, statements and tags before it and whatever follows it are left out; its own row count tells whether it is complete.
    """
    lines = _lines(text, path)
    for number, line in enumerate(lines[:-1]):
        names = _cells(line)
        if {"partition_id", "row_count"} <= {name.lower() for name in names} and _is_rule(lines[number + 1]):
            break
    else:
        return None
    rows: list[Sequence[Any]] = []
    for at, line in enumerate(lines[number + 2 :], start=number + 3):
        if "|" not in line and "│" not in line:
            break
        cells = _cells(line)
        if len(cells) != len(names):
            raise ResultError(f"{path}:{at}: {len(cells)} values for {len(names)} columns")
        rows.append([None if cell in NULL_TEXTS else cell for cell in cells])
    return names, rows


def _cells(line: str) -> list[str]:
    """Return the cells of a line between bars; a bar at both ends belongs to none."""
    cells = [cell.strip() for cell in line.replace("│", "|").strip().split("|")]
    return cells[1:-1] if len(cells) > 2 and not cells[0] and not cells[-1] and line.lstrip()[:1] in ("|", "│") else cells


def _without_tags(text: str) -> str:
    """Return a client's output without the tags of statements before and after the result, as ``psql --csv -f`` prints them."""
    lines = text.splitlines(keepends=True)
    first, end = 0, len(lines)
    while first < end and _is_command_tag(lines[first].strip()):
        first += 1
    while first < end and _is_command_tag(lines[end - 1].strip()):
        end -= 1
    return "".join(lines[first:end])


def _is_command_tag(line: str) -> bool:
    return line in COMMAND_TAGS or line.startswith(COMMAND_TAG_STARTS)


def _is_rule(line: str) -> bool:
    return all(character in DRAWN or character.isspace() for character in line) and not DASHES.isdisjoint(line)


def _lines(text: str, path: Path) -> list[str]:
    """Return the lines of a text. Raises ResultError for one that is longer than any result has."""
    lines = text.splitlines()
    for number, line in enumerate(lines, start=1):
        if len(line) > MAX_LINE:
            raise ResultError(f"{path}:{number}: the line has {len(line):,} characters, and a result at most {MAX_LINE:,}; save it anew")
    return lines


def _parse_delimited(text: str, path: Path) -> Rows:
    text = _without_tags(text)
    header = text.split("\n", 1)[0]
    delimiter = max("\t,;|", key=header.count)
    try:
        lines = list(csv.reader(io.StringIO(text), delimiter=delimiter))
    except csv.Error as error:
        raise ResultError(f"{path} is not valid CSV: {error}") from None
    if not lines:
        raise ResultError(f"{path} is empty: save the result of the statement with its header")
    names = [name.strip() for name in lines[0]]
    rows: list[Sequence[Any]] = []
    for number, line in enumerate(lines[1:], start=2):
        if not line or re.fullmatch(r"\(\d+ rows?\)", line[0].strip()):
            continue
        if len(line) != len(names):
            raise ResultError(f"{path}:{number}: {len(line)} values for {len(names)} columns")
        rows.append([None if value.strip() in NULL_TEXTS else value.strip() for value in line])
    return names, rows
