"""The store, how long it keeps what, and the evidence of runs that it has."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field

from auditor.config._base import Duration, Strict, check_key


class Store(Strict):
    """The store, a database for runs and their results."""

    url: str = Field(repr=False)
    """A database for runs and their results: ``sqlite:///file``, ``postgresql://...`` or ``mysql://...``."""


class Retention(Strict):
    """How long everything is kept that may hold values of rows. Of each audit the newest ``runs`` are stored that are not older than
    ``days``; ``null`` is no limit."""

    runs: int | None = Field(400, ge=1)
    """The newest runs of each audit that are stored; ``null`` for any number."""
    days: float | None = Field(180, gt=0)
    """Age in days beyond which a run is deleted; ``null`` for no limit."""
    journal: Duration = 30 * 86400.0
    """How long the rows of applied patches are stored, by which these can be undone."""
    journal_key: Annotated[str, AfterValidator(check_key)] | None = Field(None, repr=False)
    """The key by which values of masked columns are encrypted in these rows: ``${AUDITOR_JOURNAL_KEY}``. By default they are not stored,
    and a patch of a table with masked columns cannot be undone."""
    parts: Duration = 7 * 86400.0
    """How long the parts that pipelines stage are kept at least, so that a target that is added later can be built from them; a part that
    a target still needs is kept for longer. What they may take together is ``staging: budget`` of a pipeline."""
    versions: Duration = 24 * 3600.0
    """How long pipelines with ``history`` keep the versions of rows; how many bytes these may take is ``history: bytes``."""
    dumps: int = Field(2, ge=1)
    """Dumps that ``auditor dump`` keeps of each audit, the newest of which stands in for the source."""


def _check_place(text: str) -> str:
    bucket = text.removeprefix("s3://").partition("/")[0]
    if text not in ("messages", "target") and not (text.startswith("s3://") and re.fullmatch(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]", bucket)):
        raise ValueError(f"{text!r} is no place for heads of chains; write messages, target, or a bucket with a prefix: s3://bucket/prefix")
    return text


def _check_public_key(text: str) -> str:
    if not re.fullmatch(r"[0-9a-f]{64}", text):
        raise ValueError(f"{text!r} is not a public key in 64 hexadecimal digits, as auditor verify prints it")
    return text


class Evidence(Strict):
    """Evidence of runs: each that ends adds a signed link to its audit's chain."""

    key: str
    """The file with the private key that signs links, which ``auditor evidence --new-key`` makes; relative to the configuration file."""
    former: tuple[Annotated[str, AfterValidator(_check_public_key)], ...] = ()
    """Public keys, in hexadecimal, of the keys that signed earlier links."""
    publish: tuple[Annotated[str, AfterValidator(_check_place)], ...] = ()
    """Where the head of a chain is written after each run, so that the owner of the store alone cannot sign all again: ``messages`` (to the
    channels under ``notify:``), ``target`` (a row of the table auditor_evidence_heads beside the target, by ``write:`` of its connection),
    and buckets with object lock: ``s3://bucket/prefix``."""
    lock: Duration = 365 * 86400.0
    """How long objects in buckets are locked."""
