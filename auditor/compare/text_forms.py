"""Texts as people read them: why two that look the same differ, and how differences are shown.

They differ in Unicode form, blanks, invisible characters or look-alikes. Within a run keys are canonical texts, by which rows are matched,
and values are longer than they are shown.
"""

from __future__ import annotations

import dataclasses
import re
import unicodedata
from collections.abc import Callable

from auditor import canonical
from auditor.canonical import FLOATS
from auditor.model import ColumnDifference, Difference, Differences, Plan

SHORTENED = re.compile(r"\.\.\. sha256 [0-9a-f]{16}\Z")
"""The end of a value that was too long to be fetched whole."""

TRAILING = "trailing blank"
LEADING = "leading blank"
SURROUNDING = "leading and trailing blanks"
UNICODE_FORM = "Unicode form"
NON_BREAKING = "non-breaking blank"
OTHER_BLANK = "other blank"
CONTROL = "control character"
LOOK_ALIKE = "look-alike"
CASE = "case"

NON_BREAKING_BLANKS = dict.fromkeys((0xA0, 0x2007, 0x202F), " ")
BLANKS = dict.fromkeys((0xA0, 0x1680, *range(0x2000, 0x200B), 0x202F, 0x205F, 0x3000), " ")
"""Every blank of Unicode that has a width (category Zs): non-breaking, thin, ideographic."""

_PAIRS = (
    "АA ВB ЕE ЅS ІI ЈJ КK МM НH ОO РP СC ТT ХX УY ԌG аa сc еe оo рp хx уy ѕs іi јj ԁd һh ԛq ԝw ѵv ԍg "  # Cyrillic
    "ΑA ΒB ΕE ΖZ ΗH ΙI ΚK ΜM ΝN ΟO ΡP ΤT ΥY ΧX οo νv ρp υu ιi κk ϲc ϳj αa γy "  # Greek
    "ıi ɑa ɡg ⅼl ｌl ƽs ‘' ’' ‛' ′' ʼ' `' ´' “\" ”\" ″\" ‐- ‑- ‒- –- —- −- ﹣- ˗- ․. ‚, ⁄/ ∕/ ∶: ː: ﹕: Ɩl ǀ| ∣|"
)
LOOK_ALIKES = {ord(pair[0]): pair[1] for pair in _PAIRS.split(" ") if pair}
"""Letters and signs that most typefaces draw like an ASCII one, after Unicode Technical Standard 39 (confusables.txt)."""

MOST_CHARACTERS = 4096
"""Characters of a value up to which it is fetched whole, so that what explains a change is seen beyond those that are shown."""


def reason(source: str | None, target: str | None) -> str:
    """Return in a word or two why two different texts look the same; empty if they do not, or are equal."""
    if source is None or target is None or source == target:
        return ""
    for name, level in _LEVELS:
        if level(source) == level(target):
            return name
    return LOOK_ALIKE if _skeleton(source) == _skeleton(target) else ""


def differs_in_case_only(source: str, target: str) -> bool:
    """Return whether two texts are equal once case is folded."""
    return source != target and source.casefold() == target.casefold()


def with_question_marks(text: str, marks: int) -> tuple[str, str]:
    """Return a text with question marks in place of characters: those of four bytes in UTF-8, and all beyond ASCII."""
    four_bytes = "".join("?" * marks if ord(c) > 0xFFFF else c for c in text)
    return four_bytes, "".join(c if c.isascii() else "?" * marks for c in text)


def window(source: str, target: str, length: int) -> tuple[str, str]:
    """Return ``length`` characters of two texts around their first difference, with their lengths where one of them is longer."""
    if max(len(source), len(target)) <= length:
        return source, target
    same = next((place for place, (a, b) in enumerate(zip(source, target, strict=False)) if a != b), min(len(source), len(target)))
    start = max(0, min(same - length // 2, max(len(source), len(target)) - length))

    def shown(text: str) -> str:
        before, after = "..." if start else "", "..." if start + length < len(text) else ""
        known = "" if SHORTENED.search(text) else f" ({len(text):,} {'character' if len(text) == 1 else 'characters'})"
        return f"{before}{text[start : start + length]}{after}{known}"

    return shown(source), shown(target)


def passes_for_null(text: str) -> bool:
    """Return whether a text has to be shown in quotes, so that nobody takes it for NULL, or for a quoted one of these texts."""
    return text.strip("'") == "NULL"


def escape(text: str, other: str) -> str:
    """Return the text with those of its characters beyond ASCII written as ``⟨U+XXXX⟩`` that are not in the other text, or all of them."""
    beyond = {c for c in text + other if not c.isascii()}
    missing = beyond - (set(text) & set(other)) or beyond
    return "".join(f"\u27e8U+{ord(c):04X}\u27e9" if c in missing else c for c in text)


def _one_blank(text: str) -> str:
    return text.translate(BLANKS)


def _without_controls(text: str) -> str:
    if text.isprintable():  # most are, and then have none
        return text
    return "".join(c for c in text if unicodedata.category(c) not in ("Cc", "Cf"))


def _composed(text: str) -> str:
    return unicodedata.normalize("NFC", text)


def _drawn(text: str) -> str:
    return unicodedata.normalize("NFKC", text).translate(LOOK_ALIKES)


def _skeleton(text: str) -> str:
    """Return what is left of a text if everything that does not show is levelled."""
    return _drawn(_without_controls(_one_blank(text))).rstrip(" ").lstrip(" ")


_LEVELS: tuple[tuple[str, Callable[[str], str]], ...] = (
    (TRAILING, lambda text: text.rstrip(" ")),
    (LEADING, lambda text: text.lstrip(" ")),
    (SURROUNDING, lambda text: text.strip(" ")),
    (UNICODE_FORM, _composed),
    (NON_BREAKING, lambda text: text.translate(NON_BREAKING_BLANKS)),
    (OTHER_BLANK, _one_blank),
    (CONTROL, _without_controls),
    (LOOK_ALIKE, _drawn),
)
"""What makes two texts equal that differ in nothing else, by its name."""


def as_shown(differences: Differences, plan: Plan, length: int) -> Differences:
    """Return the differences of a finished run as they are shown.

    Floats among their keys are decimal numbers, which read back as the same floats. Of values ``length`` characters are left.
    """
    kinds = {column.name: column.kind for column in plan.key_columns}
    named = [with_windows(difference, length) for difference in differences.named]
    if any(kind.name in FLOATS for kind in kinds.values()):
        readable = [{name: canonical.readable(kinds[name], text) for name, text in difference.key.items()} for difference in named]
        named = [dataclasses.replace(difference, key=key) for difference, key in zip(named, readable, strict=True)]
    return dataclasses.replace(differences, named=tuple(named))


def with_windows(difference: Difference, length: int) -> Difference:
    """Return a difference with ``length`` characters of its values, around where the two sides differ."""
    return dataclasses.replace(difference, columns=tuple(_shortened(column, length) for column in difference.columns))


def _shortened(column: ColumnDifference, length: int) -> ColumnDifference:
    source, target = window(column.source or "", column.target or "", length)
    return dataclasses.replace(column, source=None if column.source is None else source, target=None if column.target is None else target)
