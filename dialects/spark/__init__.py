"""Spark SQL: the dialect, its session, and the Java runtime of a Spark in this process."""
