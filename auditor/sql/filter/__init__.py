"""The portable language of filters: one meaning on every engine.

``parse`` makes a tree of the text, ``bind`` computes what the clock and literals decide, and ``Renderer`` writes one side's SQL.
``docs/filters.md`` documents the language; ``_parser`` has its grammar.
"""

from auditor.sql.filter._bind import bind
from auditor.sql.filter._parser import WAY_OUT, parse
from auditor.sql.filter._render import FilterColumn, Renderer
from auditor.sql.filter._tree import Condition, column_names, reads_clock

__all__ = ["WAY_OUT", "Condition", "FilterColumn", "Renderer", "bind", "column_names", "parse", "reads_clock"]
