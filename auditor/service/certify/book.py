"""What a certification keeps while it works: the checks made so far, what they cost, and how much time is left."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from auditor.errors import AccessDenied, AuditorError, PlanError
from auditor.model import Report
from auditor.model.certificate import CertifiedCheck, CertifiedCost, CertifiedPart
from auditor.service.selftest import Check, Differs
from dialects import Session

LONGEST_FOUND = 300
"""Characters of an answer that a check keeps."""


class Meter:
    """Adds up what sessions cost."""

    def __init__(self) -> None:
        self.statements = self.bytes = 0
        self.server_statements: int | None = None
        self.server_seconds: float | None = None
        self._process_ids: set[int] = set()
        self._began = time.monotonic()

    @property
    def seconds(self) -> float:
        """Seconds since it was begun."""
        return time.monotonic() - self._began

    def add_session(self, session: Session) -> None:
        """Add what a session cost that is about to be closed."""
        self.statements += session.statements
        self.bytes += session.bytes_received()
        if session.process_id:
            self._process_ids.add(session.process_id)

    def add_report(self, report: Report) -> None:
        """Add what the target's side of an audit cost; the other side is the oracle's."""
        if cost := report.cost.get("target"):
            self.statements += cost.statements
            self.bytes += cost.bytes
            if cost.server:
                self._add_server(cost.server.statements, cost.server.executing)

    def ask_server(self, session: Session) -> None:
        """Add what the server recorded of the sessions that were added."""
        times = session.dialect.server.server_times(session, self._process_ids, self.seconds) if self._process_ids else None
        if times:
            self._add_server(times.statements, times.executing)

    def _add_server(self, statements: int, seconds: float) -> None:
        self.server_statements = (self.server_statements or 0) + statements
        self.server_seconds = (self.server_seconds or 0.0) + seconds

    @property
    def cost(self) -> CertifiedCost:
        """What it all cost until now."""
        return CertifiedCost(
            seconds=round(self.seconds, 1),
            statements=self.statements,
            bytes=self.bytes,
            server_statements=self.server_statements,
            server_seconds=None if self.server_seconds is None else round(self.server_seconds, 1),
        )


class Book:
    """The checks of a certification."""

    def __init__(self, report: Callable[[CertifiedCheck], None], seconds: float) -> None:
        self.checks: list[CertifiedCheck] = []
        self.meter = Meter()
        self.seconds = seconds
        """How long it may take in all."""
        self._report = report

    @property
    def left(self) -> float:
        """Seconds that are left."""
        return self.seconds - self.meter.seconds

    def note(self, check: CertifiedCheck) -> None:
        """Keep a check and report it."""
        self.checks.append(check)
        self._report(check)

    def skip(self, part: CertifiedPart, name: str, why: str) -> None:
        """Keep that something was not tried."""
        self.note(CertifiedCheck(part=part, name=name, outcome="not tried", detail=why))

    def add_selftest(self, check: Check) -> None:
        """Keep a check of a self-test."""
        outcome = "not tried" if check.outcome == "not run" else check.outcome
        name = f"{check.group}: {check.name}"
        self.note(CertifiedCheck(part="selftest", name=name, outcome=outcome, detail=check.detail, sql=check.sql))

    def ask(self, part: CertifiedPart, name: str, sql: str, answer: Callable[[], object], expected: str | None, tells: str) -> None:
        """Keep what a statement answers, and whether that is what is expected; without an expectation it is noted, an error as well."""
        if self._is_late(part, name):
            return
        try:
            answered = str(answer())[:LONGEST_FOUND]
        except AccessDenied as error:
            self.note(CertifiedCheck(part=part, name=name, outcome="not tried", detail=_line(error), sql=sql, expected=expected or ""))
            return
        except AuditorError as error:
            outcome = "noted" if expected is None else "failed"
            self.note(CertifiedCheck(part=part, name=name, outcome=outcome, detail=_line(error), sql=sql, expected=expected or ""))
            return
        outcome = "noted" if expected is None else "passed" if answered == expected else "failed"
        detail = tells if expected is None else "" if outcome == "passed" else f"the answer is {answered}, and it must be {expected}"
        self.note(CertifiedCheck(part=part, name=name, outcome=outcome, detail=detail, sql=sql, expected=expected or "", answer=answered))

    def attempt(self, part: CertifiedPart, name: str, work: Callable[[], object]) -> bool:
        """Do some work, keep how it went, and return whether it passed.

        It fails by ``Differs`` and by errors of the tree; without a privilege, or after the time limit, it is not tried.
        """
        if self._is_late(part, name):
            return False
        try:
            work()
        except AccessDenied as error:
            self.skip(part, name, f"the account lacks a privilege: {_line(error)}")
        except PlanError as error:
            self.note(CertifiedCheck(part=part, name=name, outcome="refused", detail=_line(error)))
        except (AuditorError, Differs) as error:
            self.note(CertifiedCheck(part=part, name=name, outcome="failed", detail=_line(error)))
        else:
            self.note(CertifiedCheck(part=part, name=name, outcome="passed"))
            return True
        return False

    def clean(self, name: str, work: Callable[[], object]) -> None:
        """Remove something, whatever happened before and however late it is, and keep how that went."""
        try:
            work()
        except AuditorError as error:
            self.note(CertifiedCheck(part="scratch", name=name, outcome="failed", detail=_line(error)))
        else:
            self.note(CertifiedCheck(part="scratch", name=name, outcome="passed"))

    def _is_late(self, part: CertifiedPart, name: str) -> bool:
        if self.left > 0:
            return False
        self.skip(part, name, f"the time limit of {self.seconds / 60:g} minutes was over")
        return True


def _line(error: Exception) -> str:
    return " ".join(str(error).split())


def listed(values: Sequence[object], most: int = 5) -> str:
    """Return the first of some values, and how many more there are."""
    more = f" and {len(values) - most:,} more" if len(values) > most else ""
    return ", ".join(map(str, values[:most])) + more
