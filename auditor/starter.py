"""``auditor init``: a commented configuration to start from."""

from __future__ import annotations

import json
import re
from pathlib import Path
from urllib.parse import urlsplit

import yaml

import dialects
from auditor import service
from auditor.errors import ConfigError

_HEAD = """\
# What to audit. A ${{NAME}} is an environment variable, ${{file:/path}} the contents of a file; an unset one is an error.
# Check it with:  auditor check      Run it with:  auditor run AUDIT
connections:
  # Schemes: mysql, mariadb, postgresql, redshift, duckdb, spark (in this process), sc (Spark Connect).
  source: {{url: "{source}"}}
  target: {{url: "{target}"}}

audits:
"""

_AUDIT = """\
  {name}:
    source: {{connection: source, table: {source}}}
    target: {{connection: target, table: {target}}}
"""

_MORE = """\
    # target: {connection: target, table: public.orders, columns: {order_id: id}}  # source name: target name
    # key: [order_id]            # default: the source's primary key
    # columns:
    #   exclude: [etl_loaded_at] # every other column of the source is compared
    #   override: {note: {trim: true}, price: {round: 2}}
    # where: "status <> 'draft'" # in the source's dialect; translated to the target's
    # method: exact              # counts | signature | minhash | exact | auto
    # t: 3                       # differences that exact names in one partition
    # partition: {strategy: range, size: 3072}  # chosen from the key and the row count without this
    # limits: {max_differences: 10000, max_seconds: 10m}
    # threshold: 0.999           # a similarity below it is a mismatch; default 1.0; or {rows: 10}, {share: 0.01%}
    # settle: {column: updated_at, lag: 15m}         # leave out on both sides what may still be in flight
    # recheck: {times: 3, wait: 30s, backoff: 2}     # believe a difference only if it is still there
    # rolling: {per_run: 5%}     # read a part in each run, the one not read for longest
    # ladder: [counts, signature, exact]             # begin with the cheapest method (instead of method)
    # schema: strict             # fail when a column changed since the last run
    # allow_empty: false         # whether two empty tables are a match
"""


def write(path: Path, source: str | None = None, target: str | None = None) -> list[str]:
    """Write a configuration and return the names of its audits. Raises ConfigError for a file that exists.

    With both URLs the tables that both sides have become audits. A password in a URL is written as a variable, never itself.
    """
    if path.exists():
        raise ConfigError(f"{path} exists and is left as it is; write elsewhere with --output FILE")
    pairs = service.tables_on_both(source, target) if source and target else [("orders", "public.orders")]
    if not pairs:
        raise ConfigError("the two databases have no table of the same name; write the audits by hand: auditor init, without URLs")
    head = _HEAD.format(
        source=_without_password(source, "SOURCE_PASSWORD") or "mysql://reader:${SOURCE_PASSWORD}@db1:3306/shop",
        target=_without_password(target, "TARGET_PASSWORD") or "redshift://auditor:${TARGET_PASSWORD}@wh:5439/analytics",
    )
    names = _names([table for table, _ in pairs])
    audits = [_AUDIT.format(name=name, source=_quoted(pair[0]), target=_quoted(pair[1])) for name, pair in zip(names, pairs, strict=True)]
    audits.insert(1, _MORE)
    try:
        path.write_text(head + "".join(audits), encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}") from None
    return names if source and target else []


def _without_password(url: str | None, variable: str) -> str | None:
    if url is None:
        return None
    dialects.parse(url)  # refuses a URL whose password would be taken for something else
    password = urlsplit(url).password
    return url.replace(f":{password}@", f":${{{variable}}}@", 1) if password else url


def _names(tables: list[str]) -> list[str]:
    """A name for each table's audit, no name twice."""
    names: list[str] = []
    for table in tables:
        name = plain = re.sub(r"\W+", "_", table).strip("_") or "table"
        while name in names:
            name = f"{plain}_{names.count(plain) + len(names)}"
        names.append(name)
    return names


def _quoted(table: str) -> str:
    """The name as YAML that reads back as this text."""
    simple = re.fullmatch(r"[\w.]+", table) and yaml.safe_load(table) == table
    return table if simple else json.dumps(table, ensure_ascii=False)
