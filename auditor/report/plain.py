"""Words and numbers as every report tells them, and texts of others made harmless and visible."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any

from auditor.chain import Combined
from auditor.config import Threshold
from auditor.model import Differences, Jaccard, Report, Step
from auditor.store.runs import StoredRun

MOMENT = "%Y-%m-%d %H:%M:%S"

MEANS = {
    "score": "The score is the share of all rows, of both tables together, that are the same in both; 1 is all of them.",
    "interval": "The interval holds the true share in 95 of 100 such estimates; the outer bounds hold for certain.",
    "exact": "Every difference was found and counted, so the score is no estimate.",
    "published": "The published score counts partitions: 1 for an equal one, the share of equal minhashes for another.",
    "coverage": "The verdict speaks for this share of the table's rows; what was not compared is never counted as equal.",
    "verified": "Everything that the source held up to this moment was found equal in the target.",
    "as_of": "The dump between source and target stands for this moment.",
    "watermark": "Rows from this moment on were left out on both sides: they may still be on their way.",
}
"""What needs a sentence to be understood."""


def visible(text: str) -> str:
    """The text on one line: what would act on a terminal or a page, or cannot be seen, is written as a sign of its own."""
    return text if text.isprintable() else "".join(c if c.isprintable() else _sign(ord(c)) for c in text)


def _sign(code: int) -> str:
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else f"\u27e8U+{code:04X}\u27e9"


def sentence(text: str) -> str:
    """A sentence of ours with words of others in it, on one line."""
    return visible(" ".join(text.split()))


def value(text: str) -> str:
    """A value as it is told apart from others: quoted where it begins or ends with a blank, or is empty."""
    return visible(text) if text and text == text.strip(" ") else f"'{visible(text)}'"


def key(texts: dict[str, str | None]) -> str:
    """The texts of a key's columns, in order."""
    return ", ".join("NULL" if text is None else value(text) for text in texts.values())


def moment(at: dt.datetime) -> str:
    """A moment, which is always told in UTC."""
    return f"{at.astimezone(dt.UTC) if at.tzinfo else at:{MOMENT}} UTC"


def ago(seconds: float) -> str:
    """An age in its largest two units that say something."""
    left = max(0, round(seconds))
    parts = []
    for name, size in (("d", 86400), ("h", 3600), ("min", 60), ("s", 1)):
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count:,} {name}")
        elif parts:
            break
    return " ".join(parts[:2]) or "0 s"


def similarity(found: Jaccard) -> str:
    """The row-weighted similarity with its interval; a single number where it is exact."""
    score = found.score
    if found.least == found.most:
        return f"exactly {score.value:.9g}"
    return f"{score.value:.6g} in [{score.lower:.6g}, {score.upper:.6g}] (surely in [{found.least:.6g}, {found.most:.6g}])"


def score(value: float, lower: float | None, upper: float | None) -> str:
    """A score with its bounds, or alone where these are no wider."""
    told = rounded(value)
    return told if lower is None or upper is None or lower == upper else f"{told} in [{rounded(lower)}, {rounded(upper)}]"


def bounds(found: Combined) -> str:
    """What two legs say together of the score of source and target."""
    lower, upper = rounded(found.lower), rounded(found.upper)
    return lower if lower == upper else f"between {lower} and {upper}"


def has_score(run: StoredRun) -> bool:
    """Whether a run's score says anything: one between 0 and 1 says nothing."""
    return run.score is not None and (run.lower, run.upper) != (0.0, 1.0)


def meant(found: Report) -> str:
    """Which rows a report is about."""
    return f"the {found.section}" if found.section else "all rows"


def rows(count: int) -> str:
    """So many rows."""
    return "1 row" if count == 1 else f"{count:,} rows"


def statements(told: Mapping[str, Any]) -> str:
    """The statements of a side as its progress counts them; nothing where it does not."""
    if "statements" not in told:
        return ""
    running = f", {told['running']:,} under way" if told.get("running") else ""
    return f"; {told['statements']:,} {'statement' if told['statements'] == 1 else 'statements'} done{running}"


def deviation(share: float) -> str:
    """How far a measure deviates."""
    return f"{share * 100:,.4g}%" if share < 1e6 else f"{share * 100:.3e}%"


def rounded(share: float) -> str:
    """A share in so many digits that it does not become 1, or 0, by being rounded."""
    for digits in (6, 9, 12, 17):
        told = f"{share:.{digits}g}"
        if (float(told) in (0.0, 1.0)) == (share in (0.0, 1.0)):
            return told
    return repr(share)


def percent(share: float) -> str:
    """A share as a percentage, never rounded up to all."""
    return "100%" if share == 1 else f"{min(share, 0.9999):.2%}"


def threshold(found: Threshold) -> str:
    """What an audit allows, in words."""
    told = [f"a score of {found.score:g}"] if found.score < 1 else []
    told += [f"{found.rows:,} differing rows"] if found.rows is not None else []
    told += [f"{found.share:.4%} differing rows"] if found.share is not None else []
    return f"allowed: {' or '.join(told)}" if told else "no difference is allowed"


def counted(found: Differences) -> str:
    """How many of each kind there are."""
    told = [f"{count:,} {kind}" for kind in ("missing", "extra", "changed") if (count := getattr(found, kind))]
    return ", ".join(told) or "none"


def apart(found: Differences) -> str:
    """What was seen and is not counted as a difference; nothing where there is none of it."""
    words = {"unsettled": "still moving", "in_flight": "in flight", "cleared": "equal by now", "tolerated": "within tolerances"}
    told = [f"{count:,} {word}" for name, word in words.items() if (count := getattr(found, name))]
    looks = f" ({found.looks:,} {'look' if found.looks == 1 else 'looks'})" if found.looks else ""
    return ", ".join(told) + looks if told else ""


def step(found: Step) -> str:
    """A level of a ladder in one line."""
    why = f": {sentence('; '.join(found.reasons))}" if found.reasons else ""
    return f"{found.method}: {found.verdict.value} after {found.seconds:.2f} s{why}"


def notes(found: Report) -> list[str]:
    """What else is to be known of a run, without what its schema changes say."""
    return [sentence(note) for note in found.notes if not note.startswith("schema: ")]


def snapshot(found: Report) -> str:
    """How a side was read, where that was not in one piece."""
    per_chunk = found.plan is not None and found.plan.snapshot == "per_chunk"
    return "each chunk was read in a snapshot of its own, not the whole table in one" if per_chunk else ""


def go_on(found: Report) -> str:
    """What to do with a run that can be resumed; nothing with others."""
    return f"go on with: auditor resume {found.run}" if found.resumable else ""
