"""``auditor init``: write a commented configuration to start from."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import dialects
from auditor.errors import ConfigError
from auditor.escaping import hash_comment, yaml_scalar
from auditor.service import table_pairs
from auditor.service.table_pairs import LeftOut, Proposal, Proposals

_HEAD = """\
# ${{NAME}} is replaced by an environment variable, ${{file:/path}} by the contents of a file; an unset one is an error.
# Check it with:  auditor check      Run it with:  auditor run AUDIT
connections:
  # Schemes: {schemes}.
  source: {{url: {source}}}
  target: {{url: {target}}}

audits:
"""

_AUDIT = """\
  {name}:
    source: {{connection: source, table: {source}}}
    target: {{connection: target, table: {target}{convention}}}
{key}"""

_MORE = """\
    # target: {connection: target, table: public.orders, columns: {order_id: id}}  # source name: target name
    # target: {connection: target, table: public.orders, convention: fivetran}     # flags, versions and columns of another tool
    # key: [order_id]            # default: the primary key of the source
    # columns:
    #   exclude: [etl_loaded_at] # all other columns of the source are compared
    #   override: {note: {trim: true}, price: {round: 2}}
    # where: "status <> 'draft'" # means the same on every engine; or {source: ..., target: ...} in their own SQL
    # method: exact              # counts | signature | minhash | exact | auto
    # t: 3                       # differences per partition that exact can name
    # partition: {strategy: range, size: 3072}  # default: chosen from the key and the row count
    # limits: {max_differences: 10000, max_seconds: 10m}
    # threshold: 0.999           # lower similarity is a mismatch; default 1.0; or {rows: 10}, {share: 0.01%}
    # settle: {column: updated_at, lag: 15m}         # leave out rows that may still be in flight
    # recheck: {times: 3, wait: 30s, backoff: 2}     # report a difference only if it persists
    # rolling: {per_run: 5%}     # read part of the table per run, least recently read first
    # ladder: [counts, signature, exact]             # start with the cheapest method (instead of method)
    # schema: strict             # fail if a column changed since the last run
    # allow_empty: false         # true: two empty tables match
"""


_LEFT_OUT = """
  # Left out, and why; complete what you need, and take the marks of comments away:
"""

_UNKNOWN = "TABLE"
"""Stands for a table that is not known, in an audit that is commented out."""


def init(options: argparse.Namespace) -> int:
    """Write a configuration file."""
    path = Path(options.output)
    if options.from_dbt and not (options.source and options.target):
        raise ConfigError("--from-dbt needs --source and --target: the database that tables come from, and the one that dbt reads")
    proposals = write(path, options.source, options.target, Path(options.from_dbt) if options.from_dbt else None)
    audits, left_out = len(proposals.audits), len(proposals.left_out)
    proposed = f" with {audits} {'audit' if audits == 1 else 'audits'}" if audits else ""
    rest = f"; {left_out} {'table is' if left_out == 1 else 'tables are'} left out, and its end says why" if left_out else ""
    if not options.quiet:
        print(f"wrote {path}{proposed}{rest}", file=sys.stderr)
    return 0


def write(path: Path, source: str | None = None, target: str | None = None, manifest: Path | None = None) -> Proposals:
    """Write a configuration file and return the audits in it that come from the databases.

    With both URLs each pair of tables of one name that can be audited becomes an audit, or with a ``manifest`` of dbt each table that it
    says the origin of, and each other table a comment that says why it does not. A password in a URL is replaced by a variable, never
    written. Raises ConfigError if the file exists or cannot be written, or no table can be audited.
    """
    if path.exists():
        raise ConfigError(f"{path} already exists; write to another file with --output FILE")
    proposals = Proposals((), ())
    if source and target:
        proposals = table_pairs.propose_from_dbt(manifest, source, target) if manifest else table_pairs.propose_audits(source, target)
    if source and target and not proposals.audits:
        reasons = "".join(f"\n  - {line}" for line in proposals.left_out)
        way_out = "say in dbt where tables come from" if manifest else "run auditor init without URLs and write the audits by hand"
        raise ConfigError(f"no table can be audited as it is; {way_out}{reasons}")
    head = _HEAD.format(
        schemes=", ".join(sorted(scheme for engine in dialects.working() for scheme in engine.schemes if "+" not in scheme)),
        source=yaml_scalar(_without_password(source, "SOURCE_PASSWORD") or "mysql://reader:${SOURCE_PASSWORD}@db1:3306/shop"),
        target=yaml_scalar(_without_password(target, "TARGET_PASSWORD") or "redshift://auditor:${TARGET_PASSWORD}@wh:5439/analytics"),
    )
    proposed = proposals.audits or (Proposal("orders", "public.orders"),)
    names = _names([proposal.source for proposal in proposed])
    audits = [_audit(name, proposal) for name, proposal in zip(names, proposed, strict=True)]
    audits.insert(1, _MORE)
    left_out = [_LEFT_OUT, *_commented(proposals.left_out, names)] if proposals.left_out else []
    try:
        path.write_text(head + "".join([*audits, *left_out]), encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}") from None
    return proposals


def _audit(name: str, proposal: Proposal) -> str:
    key = f"    key: [{', '.join(map(yaml_scalar, proposal.key))}]\n" if proposal.key else ""
    convention = f", convention: {proposal.convention}" if proposal.convention else ""
    return _AUDIT.format(
        name=name, source=yaml_scalar(proposal.source), target=yaml_scalar(proposal.target), convention=convention, key=key
    )


def _commented(left_out: Sequence[LeftOut], taken: list[str]) -> Iterator[str]:
    """Yield for each table the reason, and its audit as far as it is known, in comments; the audits have other names than ``taken``."""
    names = _names([table.name for table in left_out], taken)
    for name, table in zip(names, left_out, strict=True):
        yield hash_comment(str(table), "  ")
        if "${" in table.source + table.target:  # which no configuration can name
            continue
        key = ("COLUMN",) if "key: [" in table.reason else ()
        audit = _audit(name, Proposal(table.source or _UNKNOWN, table.target or _UNKNOWN, key))
        yield from (f"  # {line.removeprefix('  ')}\n" for line in audit.splitlines())


def _without_password(url: str | None, variable: str) -> str | None:
    if url is None:
        return None
    dialects.parse_url(url)  # raises an error if the password is ambiguous in the URL
    password = urlsplit(url).password
    return url.replace(f":{password}@", f":${{{variable}}}@", 1) if password else url


def _names(tables: list[str], taken: Sequence[str] = ()) -> list[str]:
    """Return a unique audit name for each table, which is none of those ``taken``."""
    names: list[str] = []
    for table in tables:
        name = plain = re.sub(r"\W+", "_", table).strip("_") or "table"
        while name in names or name in taken:
            name = f"{plain}_{names.count(plain) + len(names) + len(taken)}"
        names.append(name)
    return names
