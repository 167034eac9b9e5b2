"""Encrypt the texts of masked columns in a patch's journal, with the key that the configuration names under ``keep: journal_key``.

The digest of a whole row would let anybody who reads the store try the few values that a masked column may have. So the store has it only
as an HMAC with the same key, and without that key not at all: a key that lay beside it would keep nobody from trying.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping, Sequence
from typing import Any

from auditor import canonical
from auditor.errors import PatchRefused

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
