"""The console of reports and commands: what it prints acts on no terminal, and means no markup."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from auditor.escaping import visible_lines


class VisibleConsole(Console):
    """A console that shows texts as they are: their control characters made visible, and brackets and colons without a meaning."""

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, highlight=False, **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield the segments of a renderable, made visible; control segments are its own."""
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else visible_lines(text), style, control)
