"""The states of a run's partitions, in a module of their own, so that listing audits does not load NumPy with the partitions' arrays."""

from __future__ import annotations

STATES = ("equal", "accounted", "listed", "refined", "estimated", "unequal", "source_only", "target_only", "skipped")
"""States of a partition after a run. The first is the one of partitions about which nothing further is stored.

``equal``: row counts, signatures and measures are equal. ``accounted``: the named rows account for the difference. ``listed``: its
rows were listed. ``refined``: settled by a second scan with smaller partitions. ``estimated``: its differences are known as a share
only. ``unequal``: it differs, and the method names no rows. ``source_only``, ``target_only``: the other side has no row of it.
``skipped``: it could not be compared.
"""
