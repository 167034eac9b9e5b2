"""Evidence of runs: what signs it, where the heads of chains are published, and what somebody else is given.

A run is sealed when it is stored, in the same transaction. What is stored is held against its evidence by `find_problems`.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import logging
import secrets
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pydantic import ValidationError

from auditor.config import Evidence, Settings
from auditor.errors import AuditorError, ConfigError, EvidenceBroken, NoEvidence
from auditor.history.evidence import (
    ROW_KEY_BYTES,
    SigningKey,
    canonical_json,
    create_key,
    is_signed,
    load_key,
    to_plain,
    write_file,
)
from auditor.model.evidence import EvidenceLink, EvidencePayload
from auditor.pipeline.folders import S3Folder
from auditor.repair.evidence_heads import write_head
from auditor.report.evidence import COUNTS, payload, stored_digests
from auditor.service import audits, definitions
from auditor.store import Store, events, runs
from auditor.store import evidence as chains
from auditor.store.evidence import EndedRun, Seal, SignedLink, StoredLink

log = logging.getLogger(__name__)


# the key, and what it signs


def configured(settings: Settings) -> Evidence:
    """Return the settings of evidence. Raises ConfigError if there are none."""
    if settings.evidence is None:
        raise ConfigError("no evidence is configured; add evidence: {key: evidence.pem}, and make the key with: auditor evidence --new-key")
    return settings.evidence


def make_key(settings: Settings) -> SigningKey:
    """Make the key of the installation. Raises ConfigError if its file is there already."""
    return create_key(Path(configured(settings).key))


def get_key(settings: Settings) -> SigningKey:
    """Return the key of the installation. Raises ConfigError."""
    return load_key(Path(configured(settings).key))


def get_seal(settings: Settings) -> Seal | None:
    """Return what makes the links of runs; None if no evidence is configured. Raises ConfigError if its key cannot be used."""
    return partial(_seal, get_key(settings)) if settings.evidence else None


def _seal(key: SigningKey, ended: EndedRun) -> SignedLink:
    row_key = secrets.token_bytes(ROW_KEY_BYTES)
    body = canonical_json(payload(ended, row_key).model_dump(mode="json"))
    link = EvidenceLink(
        format="auditor evidence 1",
        audit=to_plain(ended.run.audit),
        number=ended.number,
        run=ended.run.run,
        at=dt.datetime.now(dt.UTC).isoformat(timespec="microseconds"),
        payload=hashlib.sha256(body).hexdigest(),
        previous=ended.previous,
        key=key.public,
    ).model_dump()
    return SignedLink(link=canonical_json(link), signature=key.sign(link), payload=body, row_key=row_key)


# publishing heads


def publish_head(settings: Settings, store: Store, audit: str) -> list[str]:
    """Write the head of an audit's chain to the places that are configured, but for messages; return a sentence for each that failed.

    The next head stands for those that were not published: it follows them. Never raises an AuditorError.
    """
    failures: list[str] = []
    for place in settings.evidence.publish if settings.evidence else ():
        try:
            if place == "target":
                _publish_to_target(settings, store, audit)
            elif place != "messages":
                _publish_to_bucket(settings, store, audit, place)
        except (AuditorError, OSError) as error:
            failures.append(f"the head of the evidence was not published ({place}): {error}")
            log.warning("%s", failures[-1], extra={"action": "evidence_not_published", "audit": audit})
    return failures


def _publish_to_target(settings: Settings, store: Store, audit: str) -> None:
    head = chains.get_head(store, audit)
    if head is None or audit in settings.segments:  # which compares files, and has no target
        return
    target = definitions.audit(settings, audit).target
    write_head(target.connection, settings.connections[target.connection], target.place, audit, head.number, head.digest)


def _publish_to_bucket(settings: Settings, store: Store, audit: str, bucket: str) -> None:
    head = chains.get_head(store, audit)
    if head is None:
        return
    until = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=configured(settings).lock)
    path = f"{quote(audit, safe='')}/{head.number:010}-{head.digest}.json"
    S3Folder(bucket.rstrip("/")).put_locked(path, write_file([_entry(head, with_payload=False)]), until)


# what somebody else is given


def find_link(settings: Settings, store: Store, run: str) -> StoredLink:
    """Return the last link of a run, given by its id or the id's beginning, even if it was deleted; of an audit, the last of its chain.

    Raises UnknownRun, and NoEvidence for a run without a link.
    """
    link = chains.get_head(store, run) or (chains.find_link(store, run) if run.isalnum() else None) if run.isprintable() else None
    if link is None:
        latest = runs.list_runs(store, audit=run, limit=1)
        stored = latest[0] if latest else audits.find_run(settings, store, run)
        raise NoEvidence(f"run {stored.run} of {stored.audit} has no evidence: none was configured when it ended, or its key was missing")
    return link


def evidence_file(store: Store, link: StoredLink, *, whole_chain: bool = False) -> bytes:
    """Return the file of a link; with ``whole_chain`` that of all links of its audit, of which this one alone has a payload.

    Raises EvidenceBroken if one of them is no longer readable.
    """
    links = chains.list_links(store, link.audit) if whole_chain else [link]
    return write_file([_entry(member, with_payload=member.number == link.number) for member in links])


def intact_file(settings: Settings, store: Store, run: str) -> bytes:
    """Return the file of a run's last link. Raises UnknownRun, NoEvidence, and EvidenceBroken if it or the stored run was changed."""
    if settings.evidence is None:
        raise NoEvidence("this service has no evidence of runs; add evidence: {key: ...} to its configuration")
    link = find_link(settings, store, run)
    if problems := find_problems(settings, store, link.audit, link):
        raise EvidenceBroken("; ".join(problems))
    return evidence_file(store, link)


def _entry(link: StoredLink, *, with_payload: bool) -> dict[str, Any]:
    try:
        run_payload = json.loads(link.payload) if with_payload and link.payload is not None else None
        return {"link": json.loads(link.link), "signature": link.signature, "payload": run_payload}
    except ValueError:
        raise EvidenceBroken(f"link {link.number} of {link.audit} was changed in the store: it is no longer JSON") from None


def erase_row_keys(store: Store, audit: str, run: str | None, *, by: str) -> int:
    """Erase the keys of the keyed digests of a run, or of all runs of an audit, and record the event; return of how many runs.

    Without its key, a digest says nothing of a row any more, and the stored run can no longer be held against it.
    """
    erased = chains.erase_row_keys(store, audit, run)
    events.record_event(store, actor=by, action="evidence keys erased", subject=run or audit, detail={"audit": audit, "runs": erased})
    return erased


# what is stored, held against its evidence


def find_problems(settings: Settings, store: Store, audit: str, only: StoredLink | None = None) -> list[str]:
    """Return a sentence for each link of an audit's chain that is not as it was signed, and each stored run that is not as it ended.

    With ``only`` a link, all links are looked at, and of stored runs that of this link. Raises ConfigError and StoreError.
    """
    evidence = configured(settings)
    known = {get_key(settings).public, *evidence.former}
    links, problems = chains.list_links(store, audit), []
    last_of_run = {link.run: link.number for link in links}
    number, previous = 0, None
    for link in links:
        if link.number != number + 1:
            problems.append(f"link {number + 1} of {audit} was removed from the store")
        problems += _link_problems(link, known, previous)
        if last_of_run[link.run] == link.number and (only is None or link.number == only.number):
            problems += _run_problems(store, link)
        number, previous = link.number, link.digest
    if only is None:
        problems += [f"run {run[:12]} of {audit} is done, and has no evidence" for run in chains.list_unattested(store, audit)]
    return problems


def _link_problems(link: StoredLink, known: set[str], previous: str | None) -> list[str]:
    name = f"link {link.number} of {link.audit} (run {link.run[:12]})"
    try:
        signed = EvidenceLink.model_validate_json(link.link)
        raw = json.loads(link.link)
    except ValidationError:
        return [f"{name} was changed in the store: it is no link any more"]
    if not is_signed(raw, link.signature, signed.key) or canonical_json(raw) != link.link:
        return [f"{name} was changed in the store: its signature is not that of its key"]
    if signed.key not in known:
        return [f"{name} is signed by the key {signed.key}, which is neither evidence: key nor one of former"]
    if (signed.number, signed.run, signed.audit) != (link.number, link.run, to_plain(link.audit)):
        return [f"{name} stands in the place of link {signed.number} of {signed.audit} (run {signed.run[:12]})"]
    problems = [] if signed.previous == previous else [f"{name} does not follow the link before it, which was exchanged or removed"]
    if link.payload is not None and hashlib.sha256(link.payload).hexdigest() != signed.payload:
        problems.append(f"{name}: what its run found was changed in the store, and has another digest than the link says")
    return problems


def _run_problems(store: Store, link: StoredLink) -> list[str]:
    """Return how a stored run differs from what its link says; nothing for a run that was deleted by retention, or goes on."""
    if link.payload is None:
        return []
    name = f"run {link.run[:12]} of {link.audit}"
    contents = chains.read_contents(store, link.run)
    if contents is None:
        return [f"{name} was removed from the store, and not by auditor prune or a limit under keep:"]
    try:
        said = EvidencePayload.model_validate_json(link.payload)
    except ValidationError:
        return [f"{name}: what its evidence says is no longer readable"]
    changed = _changed_parts(said, contents, link.row_key)
    return [f"{name} was changed in the store since its evidence was signed: {', '.join(changed)}"] if changed else []


def _changed_parts(said: EvidencePayload, contents: Mapping[str, bytes], row_key: bytes | None) -> list[str]:
    """Return the parts of a stored run that changed; once its key is erased, those of them that evidence says in clear."""
    if row_key is not None:
        now = stored_digests(contents, row_key)
        return [name for name, digest in said.stored.items() if now.get(name) != digest]
    clear: dict[str, Any] = {"state": said.state, "verdict": said.verdict, "exit_code": said.exit_code, "method": said.method}
    clear |= {name: said.counts.get(name) for name in COUNTS}
    return [name for name, value in clear.items() if json.loads(contents[name]) != value]


def check(settings: Settings, store: Store, audits: list[str]) -> list[AuditorError]:
    """Return what is wrong with the evidence of these audits (all that have a chain, if none are named), and with its key."""
    if settings.evidence is None:
        return []
    try:
        wanted = [chain for chain in chains.list_chains(store) if not audits or chain in audits]
        get_key(settings)
        return [EvidenceBroken(problem) for audit in wanted for problem in find_problems(settings, store, audit)]
    except ConfigError as error:
        return [error]
