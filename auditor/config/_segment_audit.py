"""Segment audits: two writers of one change stream, compared segment by segment."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from pydantic import Field

from auditor.config._base import Duration, Strict, suggest
from auditor.config._pipeline import Pipeline
from auditor.config._service import ScheduleField

ANEW = "anew"
"""The side of a segment audit of one pipeline that is the source's log, read again."""


class SegmentAudit(Strict):
    """The definition of a segment audit."""

    pipelines: tuple[str, ...] = Field(min_length=1, max_length=2)
    """The two pipelines that read one stream, each with ``segment``; or one, whose segments are compared with its source's log, which each
    run reads again."""
    max_lag: Duration = 600.0
    """Seconds after which a segment that one side has and the other does not yet have makes the verdict unknown."""
    schedule: ScheduleField | None = None
    """When the audit is due."""

    @property
    def sides(self) -> tuple[str, str]:
        """The names of the two sides."""
        return self.pipelines[0], self.pipelines[1] if len(self.pipelines) > 1 else ANEW


def find_segment_problems(
    audits: Mapping[str, SegmentAudit], pipelines: Mapping[str, Pipeline], names: Collection[str]
) -> list[tuple[tuple[str, ...], str]]:
    """Return what segment audits need of pipelines, and is not there: where it is written, and a sentence. ``names``: of other audits."""
    problems: list[tuple[tuple[str, ...], str]] = []
    for name, audit in audits.items():
        place = ("segments", name, "pipelines")
        if name in names:
            problems.append((("segments", name), f"there is an audit {name!r} already; give one of them another name"))
        missing = [pipeline for pipeline in audit.pipelines if pipeline not in pipelines]
        problems += [(place, f"there is no pipeline {pipeline!r}{suggest(pipeline, pipelines)}") for pipeline in missing]
        if ANEW in audit.pipelines:
            problems.append((place, f"{ANEW!r} is the name of a log that is read again; give the pipeline another name"))
        if not missing:
            problems += [(place, sentence) for sentence in _problems(audit, [pipelines[pipeline] for pipeline in audit.pipelines])]
    return problems


def _problems(audit: SegmentAudit, chosen: list[Pipeline]) -> list[str]:
    if len(set(audit.pipelines)) < len(audit.pipelines):
        return [f"{audit.pipelines[0]!r} cannot be compared with itself; name another pipeline, or this one alone"]
    if none := [name for name, pipeline in zip(audit.pipelines, chosen, strict=True) if pipeline.segment is None]:
        return [f"the pipeline {none[0]!r} keeps no segments; add segment: {{}} to it"]
    both, (first, *others) = " and ".join(map(repr, audit.pipelines)), chosen
    sentences = []
    for other in others:
        for setting in ("rows", "bytes", "age"):
            if getattr(first.segment, setting) != getattr(other.segment, setting):
                sentences.append(f"{both} cut at other places; give both the same segment: {setting}")
        if set(first.source.tables) != set(other.source.tables):
            sentences.append(f"{both} read other tables, by which rows are counted; give both the same source: tables")
        if set(first.source.skip_pipelines) != set(other.source.skip_pipelines):
            sentences.append(f"{both} skip other transactions; give both the same source: skip_pipelines")
        if first.columns != other.columns:
            sentences.append(f"{both} have other columns; give both the same columns:")
    return sentences
