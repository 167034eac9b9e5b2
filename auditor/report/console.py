"""The console of reports and commands: what it prints acts on no terminal, and means no markup."""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from auditor.escaping import visible_lines

WIDTH = 150
"""Columns of text that is written to a file."""


class VisibleConsole(Console):
    """A console that shows texts as they are: their control characters made visible, and brackets and colons without a meaning."""

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, highlight=False, **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield the segments of a renderable, made visible; control segments are its own."""
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else visible_lines(text), style, control)


def plain_text(renderable: RenderableType) -> str:
    """Render what a terminal WIDTH columns wide would show, without colours or trailing blanks."""
    file = io.StringIO()
    VisibleConsole(file=file, width=WIDTH, color_system=None, force_terminal=False).print(renderable)
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines()) + "\n"
