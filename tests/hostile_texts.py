"""Names and values that try to leave the place where they are written, by the quotes, comments and ends of lines of each language."""

LINE_ENDS = ("\n", "\r", "\r\n", "\u0085", "\u2028", "\u2029", "\v", "\f")
CONTROLS = ("\x1b[31m", "\u202e", "\u2066", "\u200b", "\x7f", "\u009b2J", "\0")
ESCAPES = ("'", '"', "`", "\\", "''", '""', "``", "\\'", "$$", "$(touch made)", "${system:line.separator}", "%", "%s", ";", "&amp;", ":x")
COMMENTS = ("--", "-- ", "#", "/*", "*/", "/*!50000", "<!--", "-->", "\\!", "\\c", "delimiter x")
MARKUP = (
    "[a](http://b)", "![a](b)", "|", "~~", "*a*", "_a_", "<script>", "</td>", "@here", "<!channel>", "- a", "+ a", "1. a", "# a", "> a",
    "[red]",
)  # fmt: skip
YAML = (": ", "{a", "[a", "- ", "&a", "*a", "!!int", "yes", "1e3", "~", "? a", "2026-01-01")

PIECES = (*LINE_ENDS, *CONTROLS, *ESCAPES, *COMMENTS, *MARKUP, *YAML)
ATTACKS = tuple(f"x{end}DROP TABLE victim; -- {end}" for end in LINE_ENDS)
TEXTS = (*PIECES, *(f"a{piece}b" for piece in PIECES), *ATTACKS, "".join(PIECES))
