"""What files of evidence are, as `auditor verify` says it."""

from __future__ import annotations

from pydantic import Field

from auditor.model import Verdict
from auditor.shapes._shape import Shape


class VerifiedLink(Shape):
    """A link in a file of evidence, as it was signed."""

    audit: str
    number: int
    run: str
    key: str
    at: str
    verdict: Verdict | None = Field(description="Null if the file does not hold what its run found.")


class VerifiedFile(Shape):
    """A file of evidence."""

    file: str
    whole: bool
    broken: str | None = Field(description="How it is not whole.")
    links: tuple[VerifiedLink, ...]


class VerifiedChain(Shape):
    """The links of an audit in all of these files together."""

    audit: str
    first: int
    last: int
    head: str = Field(description="The digest of the last one.")
    keys: tuple[str, ...]
    broken: tuple[str, ...]


class VerifiedEvidence(Shape):
    """What files of evidence are, each by itself and together."""

    whole: bool
    pinned: bool = Field(description="Whether public keys were given that links have to be signed with.")
    files: tuple[VerifiedFile, ...]
    chains: tuple[VerifiedChain, ...]
    unseen_heads: tuple[str, ...] = Field(description="The heads that were given, and that no link in a whole file has.")
