"""What Spark says where a jar is missing, or was built for another version of Spark than the one that loads it."""

from __future__ import annotations

import re

PAGE = "docs/spark-lakes.md"

_NO_PLUGIN = re.compile(
    r"CANNOT_LOAD_CATALOG\.PLUGIN_CLASS_NOT_FOUND\] Cannot load catalog '([^']+)' with the plugin class '([^']+)'"
    r"|Cannot find catalog plugin class for catalog '([^']+)': ([\w.$]*\w)"  # before Spark 4.3
)
_NO_SOURCE = re.compile(r"\[DATA_SOURCE_NOT_FOUND\] Failed to find the data source: (\S+?)\.? ")
_NO_CLASS = re.compile(
    r"java\.lang\.(?:NoClassDefFoundError|ClassNotFoundException)\b[):]*\s*(?:Could not initialize class |Class )?([\w.$/]+)"
)
_OTHER_CLASS = re.compile(
    r"java\.lang\.((?:NoSuchMethod|NoSuchField|AbstractMethod|IncompatibleClassChange|IllegalAccess|UnsupportedClassVersion)Error\b[^\n]*)"
)
"""A class that is there, but in another form than it had when what uses it was built.
https://docs.oracle.com/javase/specs/jls/se17/html/jls-13.html"""


def explain(text: str) -> str:
    """Return which jar is missing or does not fit, by an exception's text with its causes, and what to do; '' if none is the reason."""
    if match := _NO_PLUGIN.search(text):
        catalogue, name = match[1] or match[3], match[2] or match[4]
        return missing(f"Spark has no class {name} for its catalogue {catalogue}")
    if match := _NO_SOURCE.search(text):
        return missing(f"Spark has no data source {match[1]}")
    if match := _NO_CLASS.search(text):
        name = match[1].replace("/", ".")
        is_sparks_own = name.startswith("org.apache.spark.") and not name.startswith("org.apache.spark.sql.delta.")
        return _unfit(f"no class {name}") if is_sparks_own else missing(f"Spark has no class {name}")
    return _unfit(match[1]) if (match := _OTHER_CLASS.search(text)) else ""


def missing(what: str) -> str:
    """Return a message that begins with what is missing in Spark, and says what to do."""
    return f"{what}: add the jar that has it, by spark.jars or spark.jars.packages, in a version that fits this Spark; {PAGE} lists them"


def _unfit(what: str) -> str:
    return f"a jar was built for another version of Spark ({what}): take one that fits this Spark; {PAGE} lists them"
