"""Say of each hop of an audit's chain whether the whole table is equal behind it and before it, by the audits that there are for that.

A topic is compared with the tables on both of its sides. Staged files are compared with the log by a segment audit, and the target with the
stream, or with the source at one position of it, by the audit's own last run. A hop of which none of these says anything is named with the
reason. What is not compared at one position may differ in rows that are on their way, which the trace of single rows tells from lost ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from auditor.api_models.trace import AuditedHop, Hop
from auditor.config import ANEW, Audit, Chain, PublishedBy, Settings, SideRef, TopicRef
from auditor.connections.reader import OnProgress
from auditor.model import Report, State, Verdict
from auditor.pipeline import aligned
from auditor.pipeline.topic_side import open_topics
from auditor.run import audit_run
from auditor.service import segment_audits
from auditor.store import Store

BETWEEN_TABLES: Mapping[str, Any] = {
    "through": None, "recheck": None, "rolling": None, "settle": None, "schedule": None, "summaries": None, "rescan": None,
    "ledger": False, "align": None, "snapshot": None,
}  # fmt: skip
"""Settings of an audit that one of a topic does not have."""


@dataclass(frozen=True, slots=True)
class HopAudits:
    """Audits the hops of one audit's chain."""

    settings: Settings
    store: Store
    name: str
    audit: Audit
    chain: Chain | None
    """None of a chain with the topic of somebody else."""
    report: Report
    """The audit's last run."""
    on_progress: OnProgress

    def run(self) -> list[AuditedHop]:
        """Audit each hop. Raises StoreError; what else goes wrong is in the answers."""
        read = self.audit.one_source("a trace")
        if self.audit.through:
            topic = TopicRef.model_validate({name: getattr(self.audit.through, name) for name in TopicRef.model_fields})
            return [self._compare(("capture",), read, topic), self._compare(("sink",), topic, self.audit.target)]
        assert self.chain
        if self.chain.feed is None:
            return [*self._before_target(self.chain), self._of_report()]
        topic = self._published(self.chain)
        into = self._compare(("log", "staging", "publishing"), read, topic, align="pipeline")
        return [*self._before_target(self.chain), into, self._compare(("reading", "merge"), topic, self.audit.target)]

    def _published(self, chain: Chain) -> TopicRef:
        """Return the topic between two pipelines as a side of an audit."""
        assert chain.feed
        published = self.settings.pipeline(chain.feed.pipeline).topic_targets[chain.feed.target]
        reading = self.settings.pipeline(chain.last.pipeline).topic_source
        assert reading and reading.published_by
        topic = published.topic_of(chain.feed.pipeline, chain.feed.target, f"{chain.feed.database}.{chain.feed.output}")
        by: PublishedBy = reading.published_by
        return TopicRef(broker=published.broker, topic=topic, messages=published.messages, published_by=by)

    def _compare(self, hops: tuple[Hop, ...], source: SideRef, target: SideRef, **more: Any) -> AuditedHop:
        """Compare what is before hops with what is behind them."""
        derived = self.audit.model_copy(update={**BETWEEN_TABLES, **more, "source": source, "target": target})
        with open_topics(self.settings, derived) as topics:
            holds = aligned.find_holds(self.settings, self.store, derived, topics)
            outcome = audit_run.perform(self.name, derived, self.settings.connections, self.on_progress, holds=holds, topics=topics)
        return _judged(hops, source.label, target.label, outcome.report)

    def _before_target(self, chain: Chain) -> Iterator[AuditedHop]:
        """Yield what segment audits say of the files that pipelines staged."""
        pipelines = list(dict.fromkeys((chain.first.pipeline, chain.last.pipeline)))
        for pipeline in pipelines:
            hop: Hop = "staging" if pipeline == chain.first.pipeline else "reading"
            before = "the log" if hop == "staging" else "the topic"
            known = [name for name, audit in self.settings.segments.items() if audit.sides == (pipeline, ANEW)]
            for name in known:
                standing = segment_audits.overview(self.settings, self.store, name).standing
                verdict, reasons = standing.verdict or Verdict.UNKNOWN, "; ".join(standing.reasons) or "it was not run yet"
                yield _hop((hop,), f"{before}, read again", f"staged files of {pipeline}", verdict, f"segment audit {name}: {reasons}")
            if not known:
                added = f"segments: {{NAME: {{pipelines: [{pipeline}]}}}}"
                why = f"no segment audit compares the files of {pipeline} with {before} ({added})"
                yield _hop((hop,), before, f"staged files of {pipeline}", Verdict.UNKNOWN, why)

    def _of_report(self) -> AuditedHop:
        """Return what the audit's last run says: of the merge alone, if it compared the stream, or of all hops together."""
        report, source, target = self.report, self.audit.one_source("a trace").label, self.audit.target.label
        if report.live:
            return _judged(("merge",), f"the stream of {report.live.pipeline}", target, report, report.live.place)
        if report.aligned:
            return _judged(("log", "staging", "merge"), source, target, report, report.aligned.position)
        why = f"run {report.run[:12]} did not read both sides at one position; add align: pipeline, or summaries: live, to the audit"
        return _hop(("log", "staging", "merge"), source, target, Verdict.UNKNOWN, why)


def _judged(hops: tuple[Hop, ...], source: str, target: str, report: Report, position: str | None = None) -> AuditedHop:
    """Return what a run found of hops."""
    position = position or (report.aligned.position if report.aligned else None)
    verdict = report.verdict if report.state is State.DONE else Verdict.UNKNOWN
    sentence = "; ".join(report.reasons)
    if verdict is Verdict.MISMATCH and position is None:
        why = f" ({report.not_aligned})" if report.not_aligned else ""
        sentence += f"; they were not read at one position{why}, so that rows on their way may be among these"
    ends = [f"{side.label} up to {', '.join(f'{one.partition}:{one.end}' for one in side.partitions)}" for side in report.topics.values()]
    return _hop(hops, source, target, verdict, sentence, "; ".join([*([position] if position else []), *ends]) or None)


def _hop(hops: tuple[Hop, ...], source: str, target: str, verdict: Verdict, sentence: str, position: str | None = None) -> AuditedHop:
    return AuditedHop(hops=list(hops), source=source, target=target, verdict=verdict, sentence=sentence, position=position)
