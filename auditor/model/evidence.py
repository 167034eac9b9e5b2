"""Evidence as it leaves the house: links of the chains of audits, each signed, and what the runs of these links found.

Numbers that are not whole are texts, and so are whole ones beyond 2^53: every JSON library then reads a file alike.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from auditor.model._plan import State, Verdict

EVIDENCE_FORMAT = "auditor evidence 1"
"""What each file and each link says of its own form; another form has another number."""

Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
"""32 bytes in hexadecimal: a SHA-256, a keyed digest (HMAC-SHA-256), or a public key."""


class _Signed(BaseModel):
    """Base of what evidence consists of: types are as written, and nothing else may stand beside it."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, hide_input_in_errors=True)


class EvidenceColumn(_Signed):
    """A column that was compared."""

    name: str
    """The source's name of it."""
    kind: str
    """The canonical kind as which both sides' values were compared."""
    key: bool
    """Whether it is of the key."""
    masked: bool
    """Whether its values are hidden everywhere."""


class EvidenceLevelling(_Signed):
    """What the comparison did not see of a column, or of whole rows."""

    column: str
    side: str | None
    how: str


class EvidencePlace(_Signed):
    """At which place of its own log a source, or a shard of it, was read."""

    label: str
    position: str
    time: str


class EvidenceSnapshots(_Signed):
    """As of when both sides were read."""

    kind: str | None
    """``whole``: one snapshot a side; ``per_chunk``: one for each statement. Null without a plan."""
    watermark: str | None
    """Rows written at or after this moment (UTC) were left out."""
    places: tuple[EvidencePlace, ...]
    """The places in the source's log, of an aligned run or one by live summaries."""


class EvidenceStatement(_Signed):
    """The statement by which a side was summarised, without the bounds of each chunk."""

    side: str
    """The side or shard, and whether it is the statement of a pre-scan's stretches."""
    sql: str | None
    """Null where its text holds keys: the limits of a slice, or of stretches of text keys."""
    digest: Digest
    """The SHA-256 of the text; a keyed digest where it is left out."""


class EvidenceSummaries(_Signed):
    """The summaries of both sides as they were stored while the run read them."""

    chunks: int
    digest: Digest | None
    """A keyed digest of all of them in order; null where none were stored."""


class EvidenceDifference(_Signed):
    """A row that differs, or neighbouring rows that one side lacks (``rows`` more than one)."""

    kind: str
    state: str
    rows: int
    key: Digest
    """The keyed digest of its key."""


class EvidencePayload(_Signed):
    """What a run compared, how, and what it found, without a value of a row."""

    state: State
    verdict: Verdict
    exit_code: int | None
    method: str | None
    within_threshold: bool
    started: str
    ended: str
    definition: dict[str, Any]
    """The audit's settings, as they are stored with the run."""
    other_settings: dict[str, Any]
    """The settings of this run that are not its audit's; limits of keys are keyed digests."""
    counts: dict[str, int | None]
    scores: dict[str, str | None]
    columns: tuple[EvidenceColumn, ...]
    not_compared: tuple[EvidenceLevelling, ...]
    snapshots: EvidenceSnapshots
    statements: tuple[EvidenceStatement, ...]
    summaries: EvidenceSummaries
    differences: tuple[EvidenceDifference, ...]
    differences_not_listed: int
    """Stored differences beyond the first 100,000."""
    versions: dict[str, str]
    stored: dict[str, Digest]
    """The keyed digest of each part of the stored run, by which a change of it is noticed."""


class EvidenceLink(_Signed):
    """The link of a run in its audit's chain. Its canonical JSON is what is signed, and what the next link names by digest."""

    format: Literal["auditor evidence 1"]
    audit: str
    number: int = Field(ge=1)
    """Its place in the chain, from 1 on."""
    run: str
    at: str
    """When it was signed, by the clock of the installation (UTC)."""
    payload: Digest
    """The SHA-256 of the payload's canonical JSON."""
    previous: Digest | None
    """The SHA-256 of the link before it; null for the first."""
    key: Digest
    """The public key (Ed25519) that it is signed by."""


class EvidenceEntry(_Signed):
    """A link, its signature, and its payload unless that was deleted or is not shown."""

    link: EvidenceLink
    signature: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{128}$")]
    payload: EvidencePayload | None


class EvidenceFile(_Signed):
    """What a file of evidence holds: links in the order of their numbers."""

    format: Literal["auditor evidence 1"]
    links: tuple[EvidenceEntry, ...] = Field(min_length=1)
