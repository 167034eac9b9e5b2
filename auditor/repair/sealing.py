"""Encrypt the texts of masked columns in a patch's journal, with the key that the configuration names under ``keep: journal_key``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from auditor import canonical
from auditor.errors import PatchRefused

Texts = Sequence[str | None]


def seal(texts: Mapping[int, str | None], key: str) -> str:
    """Encrypt texts, given by their places in a row."""
    from cryptography.fernet import Fernet

    return Fernet(key).encrypt(json.dumps(texts).encode()).decode()


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
        found = json.loads(Fernet(key).decrypt(stored["sealed"]))
    except InvalidToken:
        raise PatchRefused(
            f"the masked columns in the journal of patch {patch} are encrypted with another key than keep: journal_key; write the key that"
            " it was applied with there, or patch again instead"
        ) from None
    for place, text in found.items():
        texts[int(place)] = text
    if canonical.row_hash(canonical.row_text(texts)) != stored["digest"]:
        raise PatchRefused(f"the journal of patch {patch} was changed since it was written; patch again instead")
    return texts
