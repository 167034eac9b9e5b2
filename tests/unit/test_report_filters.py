"""The filters of the report's templates."""

from __future__ import annotations

from html import unescape

import pytest

from auditor.report.html import environment


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("the table was emptied", "The table was emptied"),
        ("shop.orders was renamed in the source", "shop.orders was renamed in the source"),
        ("order_lines: all 7 are the source's plus 0.5", "order_lines: all 7 are the source's plus 0.5"),
        ("tailnum: 14 of 54 lost the source's last character", "tailnum: 14 of 54 lost the source's last character"),
        ("no audit asks for it.", "No audit asks for it."),
        ("", ""),
    ],
)
def test_sentences_begin_with_a_capital_and_names_stay_as_they_are(text: str, shown: str) -> None:
    assert unescape(environment().from_string("{{ text | capitalized }}").render(text=text)) == shown
