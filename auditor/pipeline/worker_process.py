"""The Python processes in which Spark runs tasks, one after the other."""

from __future__ import annotations

import gc
from functools import cache


@cache
def freeze_modules() -> None:
    """Leave what this process has loaded so far out of garbage collections; each task calls it, and the first one does it.

    Spark collects garbage after each task: among the objects of the imported modules, which stay, that takes longer than a small task.
    https://github.com/apache/spark/blob/v4.0.0/python/pyspark/daemon.py, https://docs.python.org/3/library/gc.html#gc.freeze
    """
    gc.collect()
    gc.freeze()
