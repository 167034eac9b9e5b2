"""Results saved from a console: read from files, checked for completeness, and compared.

`console_files` says which formats are read. Where a partition's power sums decode, the keys of the rows that differ are named, offline.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from auditor import canonical
from auditor.compare import jaccard, syndromes
from auditor.compare.comparator import Aligned, align, compare
from auditor.compare.verdict import conclude
from auditor.config import Threshold
from auditor.errors import ResultError
from auditor.model import NULL_PARTITION, SIDES, Comparison, Jaccard, Score, Side
from auditor.service.console_files import read_rows
from auditor.summary import arrays
from auditor.summary.arrays import Summaries
from auditor.summary.lazy_numpy import np

MAX_KEYS = 100
"""Decoded keys that are listed."""

MAX_SUMS = 31
"""Power sums in a result beside the words: one less than twice the greatest t of an audit."""

WORD_BITS = 30
"""Bits of a signature word; only the estimated similarity depends on them, which is not used here."""

Measures = tuple[str, ...]
"""Names of the columns of a counts result: ``sum_3`` is the sum of the fourth column."""

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
    def partition_size(self) -> int | None:
        """Return the keys of each partition, None if it is no range of keys or not known."""
        match = re.search(r"_r(\d+)$", self.plan or "")
        return int(match[1]) if match else None


def compare_files(
    files: dict[Side, Path], *, threshold: Threshold | None = None, allow_empty: bool = False
) -> tuple[str, Comparison, Measures, tuple[str, ...]]:
    """Compare two saved results.

    Returns the audit's name, the comparison, the names of the measures (only for ``counts``), and sentences on the keys that differ (only
    for ``exact`` with partitions that are ranges of keys).

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
    measures = [name for name in columns if re.fullmatch(r"(nulls|sum|min|max|characters|true)_\d+", name)]
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
    return source.audit or target.audit or "saved results", comparison, tuple(measures), notes


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
    estimate = jaccard.similarity(
        rows=sum(int(aligned.sides[side].rows.sum()) for side in SIDES),
        differing=sum(int(aligned.rows[side][index]) for index in one_sided for side in SIDES),
        rest=jaccard.select_unresolved(aligned, np.flatnonzero(aligned.unequal & shared), {}, bits=WORD_BITS),
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
