"""SQL of the sums of words over a partition's rows."""

from __future__ import annotations

from collections.abc import Callable

from auditor.model import Plan
from dialects import Dialect


def aggregates(plan: Plan, dialect: Dialect) -> tuple[Callable[[str], str], Callable[[str], str]]:
    """Return functions that render the sum of a term below 2^31 over a partition, and the count of its hashed rows.

    If an engine's fast sums are exact only up to some number of rows, a partition that holds more of them than planned is counted as
    having no hashed rows: it is skipped instead of compared by rounded sums.
    """
    most = dialect.SMALL_SUM_MAX_ROWS
    if most is None or plan.partitioning.strategy == "time" or plan.rows_per_partition > most // 4:
        return dialect.integer_sum, "COUNT({})".format
    return dialect.small_sum, f"CASE WHEN COUNT(*) <= {most} THEN COUNT({{}}) ELSE 0 END".format
