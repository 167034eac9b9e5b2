"""Compare result files that consoles saved, in whatever form they saved them."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from auditor import canonical
from auditor.compare import score, syndromes
from auditor.compare.comparator import Aligned, align, compare, select_unresolved
from auditor.compare.verdict import conclude
from auditor.config import Threshold
from auditor.errors import ResultError
from auditor.model import NULL_PARTITION, SIDES, Comparison, Jaccard, Score, Side
from auditor.summary import arrays
from auditor.summary.arrays import Summaries

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
    at = number + 2
    while at < len(lines):
        if _is_rule(lines[at]) and _cells("".join(lines[at + 1 : at + 2])) == names:  # beeline repeats the header after each hundred rows
            at += 3
            continue
        if "|" not in lines[at] and "│" not in lines[at]:
            break
        cells = _cells(lines[at])
        at += 1
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


def _from_header(text: str) -> str:
    """Return a client's output from the header of the last result on, where Spark's clients print what SET yields before it.

    Without a terminal, beeline prints its empty prompt, ``null``, before the first name.
    """
    lines = text.splitlines(keepends=True)
    for number, line in enumerate(lines):
        header = line.removeprefix("null")
        if {"partition_id", "row_count"} <= {name.strip(' "\r\n').lower() for name in re.split(r"[\t,;|]", header)}:
            return "".join([header, *lines[number + 1 :]])
    return text


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
    text = _from_header(_without_tags(text))
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


MAX_KEYS = 100
"""Decoded keys that are listed."""

MAX_SUMS = 31
"""Power sums in a result beside the words: one less than twice the greatest t of an audit."""

WORD_BITS = 30
"""Bits of a signature word; only the estimated similarity depends on them, which is not used here."""

TOTALS = ("partition_count", "total_rows")
"""Columns that hold the same number in every row: how many partitions the statement found, and how many rows in them."""

REQUIRED_COLUMNS = ("partition_id", "row_count", "key_min", "key_max", "partition_count", "total_rows", "audit_plan")


@dataclass(frozen=True, slots=True)
class SavedResult:
    """The saved result of one side: summaries, column names, and the audit and plan of its statement (None if it has no rows)."""

    summaries: Summaries
    names: tuple[str, ...]
    audit: str | None
    plan: str | None

    @property
    def doubts(self) -> str:
        """Return the letters that say why rows which differ may be equal."""
        match = re.match(r"v\d+_[0-9a-f]+_([a-z]+)(?:_|$)", self.plan or "")
        return match[1] if match else ""

    @property
    def partition_size(self) -> int | None:
        """Return the keys of each partition, None if it is no range of keys or not known."""
        match = re.search(r"_r(\d+)$", self.plan or "")
        return int(match[1]) if match else None


@dataclass(frozen=True, slots=True)
class ComparedResults:
    """What a comparison of two saved results found."""

    audit: str
    comparison: Comparison
    doubts: str
    """The letters of their plan that say why rows which differ may be equal."""
    is_counted: bool
    """Whether they are of the method counts."""
    notes: tuple[str, ...]
    """Sentences on the keys that differ; only for ``exact`` with partitions that are ranges of keys."""


def compare_files(files: dict[Side, Path], *, threshold: Threshold | None = None, allow_empty: bool = False) -> ComparedResults:
    """Compare two saved results.

    The threshold is compared with the bounds of the similarity and of the rows that can differ in the unequal partitions; for ``counts``
    with the published score.

    Raises ResultError for files that cannot be read, are incomplete, or come from different plans.
    """
    saved = {side: load_result(files[side], side) for side in SIDES}
    plans = {result.plan for result in saved.values() if result.plan}
    if len(plans) > 1:
        raise ResultError("the two files come from different plans: print both statements again with one call of auditor sql, and run both")
    source, target = saved["source"], saved["target"]
    if len(source.summaries) and len(target.summaries) and source.names != target.names:
        raise ResultError("the two files have different columns: print both statements again with auditor sql, and run both")
    # A file without rows may lack columns; it is read as empty with the columns of the other file.
    columns = source.names if len(source.summaries) else target.names
    source_summaries, target_summaries = (
        result.summaries if len(result.summaries) else arrays.read([], columns) for result in (source, target)
    )
    measures = [name for name in columns if re.fullmatch(r"(nulls|sum|min|max|characters|bytes|true)_\d+", name)]
    threshold = threshold or Threshold()
    size = source.partition_size or target.partition_size
    aligned = align(source_summaries, target_summaries)
    comparison = compare(
        aligned,
        threshold=1.0 if "hashed" in columns else threshold.score,
        allow_empty=allow_empty,
        measures=measures,
        label=lambda partition: _label(partition, size),
    )
    if "hashed" in columns:
        verdict, reasons = conclude(comparison, None, _similarity(aligned), threshold)
        comparison = replace(comparison, verdict=verdict, reasons=reasons)
    notes = _decoded_keys(aligned, size) if size and "syndrome_1" in columns else ()
    audit, doubts = source.audit or target.audit or "saved results", source.doubts or target.doubts
    return ComparedResults(audit, comparison, doubts, bool(measures), notes)


def _label(partition: int | None, size: int | None) -> str:
    if partition is None:
        return "no key (NULL)"
    return f"keys {partition * size:,} to {(partition + 1) * size - 1:,}" if size else f"partition {partition:,}"


def _decoded_keys(aligned: Aligned, size: int) -> tuple[str, ...]:
    """Return sentences on the keys whose rows differ in partitions that both sides have; what they are on each side is not known.

    Nothing is fetched, so nothing is accounted for: `auditor.compare.syndromes` says how unlikely a wrong decoding is.
    """
    chosen = np.flatnonzero(aligned.unequal & aligned.on_both & (aligned.partition != NULL_PARTITION))
    if not len(chosen):
        return ()
    sums = []
    for side in SIDES:
        summaries, at = aligned.sides[side], aligned.row_index[side][chosen]
        sums.append(np.concatenate([summaries.words[at][:, :1], summaries.syndromes[at]], axis=1))
    decoded = syndromes.decode(syndromes.differences(sums[0], sums[1]), sums[0].shape[1] // 2, size)
    decoded_partitions = zip(chosen, decoded, strict=True)
    keys = [int(aligned.partition[index]) * size + x - 1 for index, positions in decoded_partitions for x in positions or ()]
    sentences = []
    if keys:
        shown = ", ".join(map(str, keys[:MAX_KEYS])) + (f" and {len(keys) - MAX_KEYS:,} more" if len(keys) > MAX_KEYS else "")
        what = "the row with this key differs" if len(keys) == 1 else "the rows with these keys differ"
        sentences.append(f"{what}, decoded from the power sums without a connection, not fetched: {shown}")
    if left := sum(positions is None for positions in decoded):
        what = "1 partition differs" if left == 1 else f"{left:,} partitions differ"
        sentences.append(f"{what} in more rows than the power sums can name; print the statements with a greater t, or run the audit")
    return tuple(sentences)


def _similarity(aligned: Aligned) -> Jaccard | None:
    """Return the certain bounds of the similarity of both sides, also in place of the 95 % ones, which need a plan."""
    shared = aligned.on_both
    one_sided = [int(index) for index in np.flatnonzero(aligned.unequal & ~shared)]
    estimate = score.similarity(
        rows=sum(int(aligned.sides[side].rows.sum()) for side in SIDES),
        differing=sum(int(aligned.rows[side][index]) for index in one_sided for side in SIDES),
        rest=select_unresolved(aligned, np.flatnonzero(aligned.unequal & shared), {}, bits=WORD_BITS),
        unknown=aligned.skipped_rows,
    )
    return replace(estimate, score=Score(estimate.score.value, estimate.least, estimate.most)) if estimate else None


def load_result(path: Path, side: Side) -> SavedResult:
    """Read and check the file of one side. Raises ResultError."""
    names, rows = read_rows(path, REQUIRED_COLUMNS)
    names = [name.strip().lower() for name in names]
    missing = [name for name in _required_columns(names) if name not in names]
    if missing:
        raise ResultError(f"{path} lacks the column {missing[0]!r}: save the complete result of the auditor sql statement with its header")
    if sum(name.startswith("syndrome_") for name in names) > MAX_SUMS:
        raise ResultError(f"{path} has more power sums than any plan: save the result of the statement as it is")
    positions = {name: index for index, name in enumerate(names)}
    plan_labels = {str(row[positions["audit_plan"]]) for row in rows}
    totals = [{str(row[positions[name]]) for row in rows} for name in TOTALS]
    if len(plan_labels) > 1 or any(len(values) > 1 for values in totals):
        raise ResultError(f"{path} contains the results of more than one statement: save each result to its own file")
    partitions, total_rows = (_parse_total(path, name, next(iter(values), "0")) for name, values in zip(TOTALS, totals, strict=True))
    _check_complete(path, len(rows), partitions)
    audit, plan = _parse_plan_label(plan_labels, path, side)
    summary_names = [name for name in names if name not in (*TOTALS, "audit_plan")]
    columns: list[Sequence[Any]] = [[row[positions[name]] for row in rows] for name in summary_names]
    try:
        summaries = arrays.read([columns] if rows else [], summary_names)
    except (ValueError, TypeError, OverflowError) as error:
        raise ResultError(f"{path} contains an invalid or too large number: {error}") from None
    _check_unedited(path, summaries, len(rows), total_rows)
    return SavedResult(summaries, tuple(summary_names), audit, plan)


def _required_columns(names: Sequence[str]) -> list[str]:
    """Return the columns that a complete result has; which method it is of is inferred from the names."""
    if "hashed" not in names:
        return [*REQUIRED_COLUMNS, "nulls_0"] if "nulls_0" in names else [*REQUIRED_COLUMNS, "hashed"]
    exact = "syndrome_1" in names
    words = 4 if any(name.startswith("minhash_") for name in names) and not exact else 2
    return [*REQUIRED_COLUMNS, *(f"word_{j}" for j in range(words))]


def _parse_total(path: Path, name: str, text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,18}(\.0)?", text):
        raise ResultError(f"{path}: {name} must be a number, not {text!r}")
    return int(text.removesuffix(".0"))


def _check_complete(path: Path, lines: int, partitions: int) -> None:
    """Raise ResultError unless the file has as many lines as the statement found partitions."""
    if lines < partitions:
        raise ResultError(f"{path} contains {lines:,} of {partitions:,} partitions: save it again without the client's row limit")
    if lines > partitions:
        raise ResultError(f"{path} contains {lines:,} rows for {partitions:,} partitions: save the result of one statement only")


def _check_unedited(path: Path, summaries: Summaries, lines: int, total_rows: int) -> None:
    """Raise ResultError unless each line is of another partition, and the rows of all add up to those that the statement counted."""
    if len(summaries) < lines:
        raise ResultError(f"{path} contains a partition twice: it was edited; save the result of the statement as it is")
    rows = int(summaries.rows.sum())
    if rows != total_rows:
        raise ResultError(
            f"{path} contains partitions of {rows:,} rows, and the statement counted {total_rows:,}: it was edited, or cut and"
            " put together; save the result of the statement as it is"
        )


def _parse_plan_label(labels: set[str], path: Path, side: Side) -> tuple[str | None, str | None]:
    """Return audit and plan of the one label ``audit/plan/side``; (None, None) without rows. Raises ResultError."""
    if not labels:
        return None, None
    match = re.fullmatch(r"(.*)/(\w+)/(source|target)", next(iter(labels)), re.DOTALL)
    if not match:
        raise ResultError(f"{path} is not the result of a statement from auditor sql: its audit_plan is {next(iter(labels))!r}")
    audit, plan, labelled_side = match.groups()
    if not plan.startswith(f"v{canonical.VERSION}_"):
        raise ResultError(
            f"{path} is the result of a statement of another version of the auditor, which hashes rows in another way: print both"
            " statements again with auditor sql, and run both"
        )
    if labelled_side != side:
        raise ResultError(f"{path} is the result of the {labelled_side}, not of the {side}: check --source and --target")
    return audit, plan
