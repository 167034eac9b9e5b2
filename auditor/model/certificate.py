"""What ``auditor certify`` found out about a server, as it is written to a file and sent in: a version's cell in the table of versions."""

from __future__ import annotations

from typing import Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict

CERTIFICATE_FORMAT: Literal["auditor certificate 1"] = "auditor certificate 1"
"""What each file says of its own form; another form has another number."""

CertifiedPart = Literal["selftest", "facts", "types", "target", "source", "scratch"]
"""``selftest``: what the engine computes, against the reference in Python. ``facts``: single answers on which the engine's SQL rests.
``types``: audits of a table of every kind, equal and with known damage. ``target``: what a pipeline does to a target. ``source``: the
server's binary log, decoded. ``scratch``: the schema in which this was tried."""

CertifiedOutcome = Literal["passed", "failed", "refused", "noted", "not tried"]
"""``refused``: the auditor says itself that it does not work so. ``noted``: an answer that has no right or wrong."""


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class CertifiedCheck(_Model):
    """One thing that was tried."""

    part: CertifiedPart
    """What it belongs to."""
    name: str
    """What was tried."""
    outcome: CertifiedOutcome
    """How it went."""
    detail: str = ""
    """Why it failed, was refused or was not tried; empty where it passed."""
    sql: str = ""
    """The statement, where it is a single one."""
    expected: str = ""
    """What the statement must answer; empty where nothing is expected."""
    answer: str = ""
    """What it answered."""


class CertifiedCost(_Model):
    """What it cost the server."""

    seconds: float
    """How long it took, on the clock of this host."""
    statements: int
    """Statements that were sent, but for those of processes that were killed."""
    bytes: int
    """Bytes that were received, or the size of the results of an engine in this process."""
    server_statements: int | None = None
    """Statements of these sessions that the server recorded (Redshift: SYS_QUERY_HISTORY); None where it keeps no record."""
    server_seconds: float | None = None
    """Seconds in which it computed them; None where it keeps no record."""


class Certificate(_Model):
    """What was tried on a server, and how it went."""

    format: Literal["auditor certificate 1"] = CERTIFICATE_FORMAT
    auditor: str
    """The auditor's version."""
    made: AwareDatetime
    """When it began, in UTC."""
    engine: str
    """The dialect."""
    server: str
    """Product and version as sessions name them; empty where the server was refused before it said so."""
    version: str
    """What the server answers to SELECT VERSION(); empty where it has no answer."""
    variant: str = ""
    """The product that speaks this engine's protocol, as far as it says so of itself; empty for the engine itself."""
    stand_in: str = ""
    """That something else answers in the engine's place, and by what it was recognised; empty for the engine itself."""
    against: str
    """The engine that held the other side of the audits."""
    refused: str = ""
    """Why the auditor does not work with this server at all; empty if it does."""
    checks: tuple[CertifiedCheck, ...]
    """All checks, in the order in which they were made."""
    cost: CertifiedCost

    @property
    def verdict(self) -> Literal["certified", "failed", "refused", "not tried"]:
        """``certified`` where something was tried and all of it passed."""
        outcomes = {check.outcome for check in self.checks if check.part != "scratch" or check.outcome == "failed"}
        if self.refused:
            return "refused"
        for outcome in ("failed", "refused"):
            if outcome in outcomes:
                return outcome
        return "certified" if "passed" in outcomes else "not tried"

    def of(self, outcome: CertifiedOutcome) -> list[CertifiedCheck]:
        """Return the checks that went so."""
        return [check for check in self.checks if check.outcome == outcome]
