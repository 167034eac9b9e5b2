"""A patch's journal: rows as they were and as they are meant to be, stored before they are written, and what became of them.

Texts of masked columns are encrypted in it, and digests of their rows keyed.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from auditor import canonical
from auditor.compare.accounting import Key
from auditor.errors import PatchRefused
from auditor.repair.batch import Written
from auditor.repair.proposal import Proposal
from auditor.repair.rows import ExactRow, RowChange, meant_texts
from auditor.store.patches import Batch, JournalColumns, JournalRow, JournalTexts

Texts = Sequence[str | None]

KEYED = "hmac:"
"""How the digest of a row with masked columns begins in the store."""


def seal(texts: Mapping[int, str | None], key: str) -> str:
    """Encrypt texts, given by their places in a row."""
    from cryptography.fernet import Fernet

    return Fernet(key).encrypt(json.dumps(texts).encode()).decode()


def key_digest(digest: str, key: str) -> str:
    """Return a row's digest as the store may have it: an HMAC with ``key``, which nobody without it can try values against."""
    own = hmac.digest(key.encode(), b"auditor: digests of rows", hashlib.sha256)  # another one than encrypts
    return KEYED + hmac.new(own, digest.encode(), hashlib.sha256).hexdigest()


def is_digest(stored: str, digest: str, key: str) -> bool:
    """Return whether a stored digest is that of a row."""
    return hmac.compare_digest(stored, key_digest(digest, key) if stored.startswith(KEYED) else digest)


def unseal(stored: Mapping[str, Any], key: str, patch: str) -> Texts:
    """Return all texts of a row as the journal has it, those of masked columns decrypted.

    Raises PatchRefused without the key, with another one, and for a row that somebody changed.
    """
    texts = list(stored["texts"])
    if "sealed" not in stored:
        return texts
    if not key:
        raise PatchRefused(
            f"the masked columns in the journal of patch {patch} are encrypted; write the key that it was applied with under keep:"
            " journal_key, or patch again instead"
        )
    from cryptography.fernet import Fernet, InvalidToken

    try:
        opened = json.loads(Fernet(key).decrypt(stored["sealed"]))
    except InvalidToken:
        raise PatchRefused(
            f"the masked columns in the journal of patch {patch} are encrypted with another key than keep: journal_key; write the key that"
            " it was applied with there, or patch again instead"
        ) from None
    for place, text in opened.items():
        texts[int(place)] = text
    if not is_digest(stored["digest"], canonical.row_hash(canonical.row_text(texts)), key):
        raise PatchRefused(f"the journal of patch {patch} was changed since it was written; patch again instead")
    return texts


DONE = {"missing": "inserted", "changed": "updated", "extra": "deleted"}
"""What became of a written row, by the kind of its change."""


def to_rows(
    proposal: Proposal,
    changes: Sequence[RowChange],
    written: Written | None = None,
    taken: Collection[Key] = (),
    *,
    key: str,
    seals: bool = True,
) -> list[JournalRow]:
    """Return changes as the store has them.

    The texts of masked columns are encrypted with ``key``, or left out without one, or without ``seals``; digests of rows that have masked
    columns are keyed with it, or left out. ``written`` are the rows of a batch that was committed, ``taken`` those that were taken back.
    """
    names, masked = proposal.transfer.names, proposal.transfer.masked
    rows: list[JournalRow] = []
    for change in changes:
        after = written[change.key] if written is not None and change.key in written else meant_row(names, change)
        old, new = (_texts(row, names, masked, key, seals) for row in (change.old, after))
        row: JournalRow = {
            "kind": change.kind,
            "key": list(change.key),
            "old": old,
            "new": new,
            "columns": list(change.columns),
            "outcome": "",
        }
        if written is not None:
            row["outcome"] = "taken back" if change.key in taken else "written" if change.key in written else "left"
        rows.append(row)
    return rows


def describe_columns(proposal: Proposal) -> JournalColumns:
    """Return what is needed to show the rows of a journal: the columns' names and kinds, how many are the key, which are masked."""
    plan = proposal.transfer.plan
    return {
        "names": proposal.transfer.names,
        "kinds": [[column.kind.name, column.kind.scale] for column in plan.columns],
        "key": plan.key,
        "masked": sorted(proposal.transfer.masked),
    }


def meant_row(names: Sequence[str], change: RowChange) -> ExactRow | None:
    """Return a row as it should be once its change is written; None if there should be none."""
    if change.new is None:
        return None
    texts = meant_texts(names, change)
    if texts == change.new.texts:
        return change.new  # whose digest may have digests of long columns in place of their texts
    return ExactRow(texts, canonical.row_hash(canonical.row_text(texts)))


def _texts(row: ExactRow | None, names: Sequence[str], masked: Collection[str], key: str, seals: bool) -> JournalTexts | None:
    if row is None:
        return None
    texts = [None if name in masked else text for name, text in zip(names, row.texts, strict=True)]
    if not masked:
        return {"texts": texts, "digest": row.digest}
    stored: JournalTexts = {"texts": texts, "digest": key_digest(row.digest, key) if key else None}
    if not (key and seals):
        return stored
    return {**stored, "sealed": seal({place: row.texts[place] for place, name in enumerate(names) if name in masked}, key)}


def find_digest(stored: Mapping[str, Any], key: str, patch: str) -> str | None:
    """Return the digest of a row of the journal; None where its masked columns were left out, or cannot be read with this key."""
    if "sealed" not in stored:
        digest: str | None = stored["digest"]
        return digest
    try:
        return canonical.row_hash(canonical.row_text(list(unseal(stored, key, patch))))
    except PatchRefused:
        return None


def is_as_stored(row: ExactRow | None, stored: Mapping[str, Any] | None, shown: Sequence[bool], key: str) -> bool:
    """Return whether a row is as the store has it: by its digest, or without the key for that, by the columns that are ``shown``."""
    if row is None or stored is None:
        return row is None and stored is None
    digest: str | None = stored["digest"]
    if digest is None or (digest.startswith(KEYED) and not key):
        return all(a == b for a, b, is_shown in zip(row.texts, stored["texts"], shown, strict=True) if is_shown)
    return is_digest(digest, row.digest, key)


def shown_columns(proposal: Proposal) -> list[bool]:
    """Return for each column of a row whether the store has its texts."""
    return [name not in proposal.transfer.masked for name in proposal.transfer.names]


def to_undo(rows: Sequence[JournalRow], key: str, patch: str) -> list[RowChange]:
    """Return what takes back the written rows of a batch: each change the other way round, in its reverse order.

    Raises PatchRefused where masked texts were encrypted with another key than ``key``.
    """
    changes = []
    for row in reversed(rows):
        if row["outcome"] != "written":
            continue
        new, old = _opened(row["old"], key, patch), _opened(row["new"], key, patch)
        kind: Any = {"missing": "extra", "extra": "missing", "changed": "changed"}[row["kind"]]
        changes.append(RowChange(kind, tuple(row["key"]), new, old, tuple(row["columns"])))
    return changes


def count_outcomes(batches: Iterable[Batch]) -> Counter[str]:
    """Return how many rows of a patch's batches were written, left and taken back."""
    rows = [row for batch in batches if batch.state in ("committed", "applied") for row in batch.rows or ()]
    return Counter(DONE[row["kind"]] if row["outcome"] == "written" else row["outcome"] for row in rows)


def require_rows(rows: list[JournalRow] | None, patch: str) -> list[JournalRow]:
    """Return a batch's rows. Raises PatchRefused if they were dropped."""
    if rows is None:
        raise PatchRefused(f"the rows of patch {patch} were dropped from the journal, so that it cannot be undone; patch again instead")
    return rows


def _opened(stored: Mapping[str, Any] | None, key: str, patch: str) -> ExactRow | None:
    if not stored:
        return None
    texts, digest = tuple(unseal(stored, key, patch)), stored["digest"]
    is_plain = digest is not None and not digest.startswith(KEYED)
    return ExactRow(texts, digest if is_plain else canonical.row_hash(canonical.row_text(texts)))
