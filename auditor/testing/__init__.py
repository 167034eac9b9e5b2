"""Assertions for pytest and other test frameworks.

::

    from auditor.testing import assert_equal

    def test_orders_arrived():
        assert_equal(("mysql://reader@db1/shop", "orders"), ("postgresql://reader@wh/dwh", "public.orders"))
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

import auditor
from auditor.model import Verdict


def assert_equal(
    source: tuple[str, str],
    target: tuple[str, str],
    *,
    key: Sequence[str] = (),
    name: str = "",
    **options: Unpack[auditor.AuditOptions],
) -> auditor.Report:
    """Fail with the report as message unless two tables match; the parameters are those of `auditor.audit`.

    Returns the report of a match. Raises AssertionError also where nothing could be compared: an unknown verdict is no match. Raises
    ConfigError and BadUrl for settings and URLs that are wrong.
    """
    __tracebackhide__ = True  # pytest shows the line of the test, not this one
    report = auditor.audit(source, target, key=key, name=name or _table_of(source), **options)
    if report.verdict is not Verdict.MATCH:
        raise AssertionError(f"source and target are not known to be equal\n{report}")
    return report


def _table_of(side: tuple[str, str]) -> str:
    """Return the name of a table for the report; what is no pair is refused by the audit itself."""
    return str(side[1]) if isinstance(side, tuple) and len(side) == 2 else "audit"
