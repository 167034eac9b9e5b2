"""The ways of auditing that the matrix compares: each looks at a world after a fault, and says whether it noticed anything."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass

from auditor.model import Report, Verdict
from auditor.report.formatting import key, visible
from auditor.service import running, segment_audits, segment_files
from auditor.store import pipelines
from tests.faults.world import LOOK, PATIENCE, SEGMENTS, World
from tests.pipeline.road import PIPELINE


@dataclass(frozen=True, slots=True)
class Found:
    """What a method said."""

    caught: bool
    """Whether it raised an alarm: a mismatch, or a run that failed or could say nothing, and ends with an exit code that is not 0."""
    sentence: str
    seconds: float
    """From the fault until it had said so: the way of the fault to the target, and the method's own runs."""


Method = Callable[[World], Found]

SMALL = "partition: {strategy: range, size: 256}"
RECHECK = "recheck: {times: 2, wait: 4s, backoff: 1}"

SCANS = {
    "counts": "counts: {method: counts}",
    "signature": f"signature: {{method: signature, {SMALL}}}",
    "minhash": f"minhash: {{method: minhash, {SMALL}}}",
    "exact": f"exact: {{method: exact, {SMALL}, {RECHECK}}}",
    "exact aligned": f"aligned: {{method: exact, align: pipeline, {SMALL}, {RECHECK}}}",
    "live summaries": f"live: {{method: exact, summaries: live, {SMALL}}}",
}
"""The audits of the table, as auditor.yaml has them."""

AUDITS = {*SCANS, "rescan"}
"""The methods that look at the target's table."""


def scan(method: str, lull: bool = False, **overrides: bool) -> Method:
    """Return the method that runs an audit of the table; with ``lull`` while nobody writes and the target has caught up."""
    audit = SCANS[method].partition(":")[0]

    def audited(world: World) -> Found:
        began = time.monotonic()
        with world.lull() if lull else nullcontext():
            report = running.run_audit(world.settings, audit, store=world.store, overrides=overrides)
        return Found(report.exit_code != 0, _tell(report), world.arrival + time.monotonic() - began)

    return audited


def begin_live(world: World) -> None:
    """Let the stream begin to keep sums, by the first run of their audit."""
    report = running.run_audit(world.settings, "live", store=world.store)
    assert report.verdict is Verdict.MATCH and report.live and report.live.scanned, report.reasons


def _tell(report: Report) -> str:
    """Return what a report says in one line: its verdict and reasons, the first row that differs, and what it did not compare."""
    told = [f"{report.verdict}: {'; '.join(report.reasons)}"]
    if report.differences and report.differences.named:
        one = report.differences.named[0]
        columns = ", ".join(f"{each.name} {each.source!r} in the source, {each.target!r} in the target" for each in one.columns[:2])
        told.append(f"{one.kind} {key(one.key)}{f': {columns}' if columns else ''}")
    if report.live and report.live.lost:
        told.append(f"the stream lost this: {', '.join(f'{one.kind} {key(one.key)}' for one in report.live.lost[:2])}")
    if report.aligned:
        told.append("aligned")
    if report.not_aligned:
        told.append(f"not aligned: {report.not_aligned}")
    if report.plan and report.plan.not_compared:
        told.append(f"not compared: {'; '.join(map(str, report.plan.not_compared))}")
    return visible("; ".join(told))


def segment_audit(world: World) -> Found:
    """Run the segment audit until the stretch with the fault has been compared, and then verify its files."""
    began = time.monotonic()
    while time.monotonic() - began < PATIENCE and not world.failures:
        is_cut = world.is_cut()
        report = segment_audits.run(world.settings, world.store, SEGMENTS)
        if report.exit_code or is_cut or world.is_stopped:
            break
        time.sleep(LOOK)
    told, caught = f"{report.verdict}: {report.reasons[0]}", report.exit_code != 0
    for one in segment_files.verify(world.settings, world.store, SEGMENTS):
        for text in [text for _, text in one.findings if text][:1]:
            told += f"; verify: {text}"
        for problem, text in one.problems[:1]:
            told, caught = f"{told}; verify: {problem.sentence}; {text}", True
    return Found(caught, visible(told.replace(str(world.root), "staging")), world.arrival + time.monotonic() - began)


def pipeline(world: World) -> Found:
    """Return what the pipeline itself reported."""
    merges = pipelines.list_merges(world.store, PIPELINE).get("wh", {})
    said = [*world.said, *(f"{one.state}: {one.reason}" for one in merges.values() if one.reason)]
    return Found(bool(said), visible("; ".join(said)), world.arrival)


METHODS: dict[str, Method] = {
    "counts": scan("counts", lull=True),
    "signature": scan("signature", lull=True),
    "minhash": scan("minhash", lull=True),
    "exact": scan("exact"),
    "exact aligned": scan("exact aligned"),
    "live summaries": scan("live summaries"),
    "rescan": scan("live summaries", rescan=True),
    "segment audit": segment_audit,
    "pipeline": pipeline,
}
"""In the order of the page's columns."""

ORDER = ("pipeline", "segment audit", "live summaries", "exact aligned", "rescan", "exact", "counts", "signature", "minhash")
"""The order in which they look: first those whose time to notice is that of the stream."""
