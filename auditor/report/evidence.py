"""What the evidence of a run says, from what is stored of it: neither a value of a row nor a key in clear. And what files of it are."""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from typing import Any

from pydantic import TypeAdapter

from auditor import canonical
from auditor.api_models.report import VerifiedEvidence, VerifiedFile, VerifiedLink
from auditor.history.evidence import Verified, canonical_json, keyed_digest, to_plain
from auditor.masking import redact
from auditor.model import Plan, Report
from auditor.model.evidence import (
    EvidenceColumn,
    EvidenceDifference,
    EvidenceEntry,
    EvidenceLevelling,
    EvidencePayload,
    EvidencePlace,
    EvidenceSnapshots,
    EvidenceStatement,
    EvidenceSummaries,
)
from auditor.store.evidence import EndedRun
from auditor.store.runs import StoredDifference

_REPORT = TypeAdapter(Report)

COUNTS = ("partitions", "unequal", "missing", "extra", "changed", "unsettled")
SCORES = ("score", "lower", "upper", "published", "coverage")
"""Columns of a stored run that evidence repeats under these names."""

ROW_KEY = "key"
STORED = "stored"
"""What keyed digests are of: the key of a row, and a part of the stored run, followed by the part's name."""


def payload(ended: EndedRun, row_key: bytes) -> EvidencePayload:
    """Return what the evidence of a run says. ``row_key`` makes its keyed digests."""
    run = ended.run
    whole = _REPORT.validate_json(ended.report) if ended.report else None
    report = redact(whole) if whole else None
    plan = report.plan if report else None
    assert run.ended is not None
    return EvidencePayload(
        state=run.state,
        verdict=run.verdict,
        exit_code=run.exit_code,
        method=run.method,
        within_threshold=run.within_threshold,
        started=_moment(run.started),
        ended=_moment(run.ended),
        definition=to_plain(run.definition),
        other_settings=to_plain({name: _setting(name, value, row_key) for name, value in run.overrides.items()}),
        counts=_counts(ended, report),
        scores={name: None if (value := getattr(run, name)) is None else repr(value) for name in SCORES},
        columns=tuple(
            EvidenceColumn(name=to_plain(column.name), kind=str(column.kind), key=column in plan.key_columns, masked=column.masked)
            for column in plan.columns
        )
        if plan
        else (),
        not_compared=tuple(
            EvidenceLevelling(column=to_plain(levelling.column), side=levelling.side, how=levelling.how) for levelling in plan.not_compared
        )
        if plan
        else (),
        snapshots=_snapshots(report, plan),
        statements=tuple(_statements(whole, row_key)) if whole else (),
        summaries=EvidenceSummaries(
            chunks=ended.chunks, digest=keyed_digest(row_key, "summaries", ended.summaries) if ended.summaries else None
        ),
        differences=tuple(_difference(difference, row_key) for difference in ended.differences),
        differences_not_listed=ended.difference_count - len(ended.differences),
        versions=_versions(report),
        stored=stored_digests(ended.contents, row_key),
    )


def stored_digests(contents: Mapping[str, bytes], row_key: bytes) -> dict[str, str]:
    """Return the keyed digest of each part of a stored run."""
    return {name: keyed_digest(row_key, f"{STORED} {name}", content) for name, content in contents.items()}


def row_digest(key: Any, row_key: bytes) -> str:
    """Return the keyed digest of a row's key, given as its columns' canonical texts by name."""
    return keyed_digest(row_key, ROW_KEY, canonical_json(to_plain(key)))


def _moment(at: dt.datetime) -> str:
    return at.isoformat(timespec="microseconds")


def _setting(name: str, value: Any, row_key: bytes) -> Any:
    """Return a setting of a run that is not its audit's; limits of keys or times, which may be a single row's, as a keyed digest."""
    if name in ("keys", "times"):
        return keyed_digest(row_key, f"limits {name}", canonical_json(to_plain(value)))
    return value


def _counts(ended: EndedRun, report: Report | None) -> dict[str, int | None]:
    run, differences = ended.run, report.differences if report else None
    counts: dict[str, int | None] = {f"{side}_rows": rows for side, rows in (run.rows or {}).items()}
    counts |= {name: getattr(run, name) for name in COUNTS}
    if report:
        counts |= {"left_out": report.left_out, "overdue": report.overdue_rows}
    if differences:
        counts |= {"tolerated": differences.tolerated, "doubled": differences.doubled, "estimated": differences.estimated}
    return counts


def _snapshots(report: Report | None, plan: Plan | None) -> EvidenceSnapshots:
    return EvidenceSnapshots(
        kind=plan.snapshot if plan else None,
        watermark=plan.watermark or None if plan else None,
        places=tuple(_places(report)) if report else (),
    )


def _places(report: Report) -> Iterator[EvidencePlace]:
    if report.aligned:
        yield EvidencePlace(label="source", position=report.aligned.position, time=_moment(report.aligned.time))
    for shard in report.shards:
        if shard.aligned:
            yield EvidencePlace(label=to_plain(shard.label), position=shard.aligned.position, time=_moment(shard.aligned.time))
    if report.live:
        at = report.live.time or report.live.proved
        yield EvidencePlace(label="live summaries", position=report.live.place, time=_moment(at))
        yield EvidencePlace(label="proved by a scan", position=report.live.proved_place, time=_moment(report.live.proved))


def _statements(report: Report, row_key: bytes) -> Iterator[EvidenceStatement]:
    """Yield the statement of each side that was read, but the text of one with keys: the limits of a slice, or of stretches."""
    plan = report.plan
    limited = plan is None or plan.slice is not None or plan.hides_ranges
    for side, sql in report.statements.items():
        hidden = limited or bool(plan and plan.prescan and plan.prescan.cuts)
        digest = keyed_digest(row_key, "statement", sql.encode()) if hidden else hashlib.sha256(sql.encode()).hexdigest()
        yield EvidenceStatement(side=side, sql=None if hidden else sql, digest=digest)


def _difference(difference: StoredDifference, row_key: bytes) -> EvidenceDifference:
    """Return a difference; the key of a range are its limits."""
    if difference.range is None:
        return EvidenceDifference(kind=difference.kind, state=difference.state, rows=1, key=row_digest(difference.key, row_key))
    limits = {name: difference.range.get(name) for name in ("first", "last", "label")}
    return EvidenceDifference(
        kind=difference.kind, state=difference.state, rows=int(difference.range["rows"]), key=row_digest(limits, row_key)
    )


def _versions(report: Report | None) -> dict[str, str]:
    servers: dict[str, str] = {side: to_plain(server) for side, server in report.servers.items()} if report else {}
    servers |= {to_plain(shard.label): to_plain(shard.server) for shard in report.shards if shard.server} if report else {}
    return {**servers, "auditor": version("auditor"), "canonical": str(canonical.VERSION)}


MAX_LINKS = 20
"""Links of a file that are listed at most."""


def verified_lines(verified: Verified, *, is_pinned: bool) -> Iterator[str]:
    """Yield what files of evidence are, for a person; ``is_pinned`` says whether a public key was given."""
    for file in verified.files:
        yield f"{file.file}: {f'NOT WHOLE: {file.broken}' if file.broken else 'whole'}"
        for entry in file.links[:MAX_LINKS]:
            yield f"  link {entry.link.number} of {entry.link.audit}, run {entry.link.run[:12]}: {_said(entry)}"
        if len(file.links) > MAX_LINKS:
            yield f"  and {len(file.links) - MAX_LINKS:,} more links"
    for chain in verified.chains:
        links = f"link {chain.first}" if chain.first == chain.last else f"links {chain.first} to {chain.last}"
        yield f"{chain.audit}: {links}: {'BROKEN' if chain.broken else 'unbroken'}; head sha256:{chain.head}"
        yield from (f"  {broken}" for broken in chain.broken)
        yield from (
            f"  signed by {key}{'' if is_pinned else ', which was not given by --key: ask its owner whether it is theirs'}"
            for key in chain.keys
        )
    yield from (f"no link has the head {head}" for head in verified.unseen)


def _said(entry: EvidenceEntry) -> str:
    said = entry.payload
    if said is None:
        return f"signed {entry.link.at}; what its run found is not in the file"
    within = " within threshold" if said.within_threshold else ""
    differing = ", ".join(f"{count:,} {name}" for name in ("missing", "extra", "changed") if (count := said.counts.get(name)))
    return f"{said.verdict.value}{within} ({said.state.value} {said.ended}){f': {differing}' if differing else ''}"


def verified_shape(verified: Verified, *, is_pinned: bool) -> VerifiedEvidence:
    """Return what files of evidence are, as it leaves the process."""
    files = tuple(
        VerifiedFile(file=file.file, whole=not file.broken, broken=file.broken or None, links=tuple(map(_link, file.links)))
        for file in verified.files
    )
    return VerifiedEvidence(whole=verified.is_whole, pinned=is_pinned, files=files, chains=verified.chains, unseen_heads=verified.unseen)


def _link(entry: EvidenceEntry) -> VerifiedLink:
    return VerifiedLink(**VerifiedLink.fields_of(entry.link), verdict=entry.payload.verdict if entry.payload else None)
