"""What Spark is charged by."""

from __future__ import annotations

from dialects.base import Server


class SparkServer(Server):
    """A Spark application, whose executors are held while statements run."""

    # By the hosts or pods of executors, whatever the tasks on them do; a client of Spark Connect is not told of tasks.
    PRICED_BY = {"executor_hour": 0.0}
