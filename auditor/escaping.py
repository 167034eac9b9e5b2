"""Text from outside, written so that it stays text: in comments of scripts, shell commands, YAML, JSON, CSV, Markdown and on a terminal.

Names of columns, tables, audits and connections, values and messages of servers may hold any character. Whatever leaves as a program or a
document writes them through the function of its language here. Statements and CSV hold names and values exactly, in their quotes.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence
from contextlib import suppress
from typing import IO, Any


def visible(text: str) -> str:
    """Return the text with every non-printable character replaced by a visible sign.

    Control characters become their Unicode control pictures, others ``⟨U+XXXX⟩``: line separators, bidirectional controls, blanks of
    other widths and what Unicode has not assigned, so that nothing acts on a terminal or a page, and nothing ends a line.
    """
    return text if text.isprintable() else "".join(c if c.isprintable() else _symbol(ord(c)) for c in text)


def _symbol(code: int) -> str:
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else f"\u27e8U+{code:04X}\u27e9"


def visible_lines(text: str) -> str:
    """Return the text made visible but for its ends of lines and tabs, which a terminal shows as they are meant."""
    if text.replace("\n", "").replace("\t", "").isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else _symbol(ord(c)) for c in text)


def sentence(text: str) -> str:
    """Return the text on one line, with runs of white space collapsed and the rest made visible."""
    return visible(" ".join(text.split()))


# programs


def sql_comment(text: str) -> str:
    """Return a line of an SQL script that is a comment, with its end: no character of the text ends it.

    ``${`` is parted, because Spark's shell replaces variables in comments too, and one of them is a line break.
    """
    return f"-- {visible(text).replace('${', '$ {')}\n"


def hash_comment(text: str, indent: str = "") -> str:
    """Return a line of YAML, of a crontab or of a shell script that is a comment, with its end."""
    return f"{indent}# {visible(text)}\n"


def shell_word(text: str) -> str:
    """Return a word of a POSIX shell's command that yields exactly the text, and holds printable characters alone.

    Line breaks at the end of the text are the exception: a shell yields them only where they stand as they are, in quotes.
    """
    if text.isprintable():
        return shlex.quote(text)
    rest = text.rstrip("\n")
    special = {"\\": "\\\\", "%": "%%", "'": "'\\''"}
    written = "".join(special.get(c, c) if c.isprintable() else _octal(c) for c in rest)
    begin = f"\"$(printf '{written}')\"" if rest else ""
    return begin + (shlex.quote(text[len(rest) :]) if len(rest) < len(text) else "")


def _octal(character: str) -> str:
    return "".join(f"\\{octet:03o}" for octet in character.encode("utf-8", "surrogateescape"))


def command(*words: str) -> str:
    """Return the words as one command of a POSIX shell, for people to copy."""
    return " ".join(map(shell_word, words))


# documents for programs


def yaml_text(value: Any, **options: Any) -> str:
    """Return plain values as YAML in which every character is printable: others are escaped in double quotes, which yield them again."""
    import yaml  # which few commands need

    text: str = yaml.safe_dump(value, sort_keys=False, allow_unicode=True, **options)
    if text.replace("\n", "").isprintable():
        return text
    return str(yaml.safe_dump(value, sort_keys=False, allow_unicode=False, **options))


def yaml_scalar(text: str) -> str:
    """Return a text as YAML in one line, quoted if it would not be read back unchanged."""
    import yaml

    if text.isprintable() and PLAIN_YAML.fullmatch(text) and yaml.safe_load(text) == text:
        return text
    quoted = json.dumps(text, ensure_ascii=False)  # in which JSON leaves characters that YAML refuses
    return "".join(c if c.isprintable() else f"\\U{ord(c):08X}" for c in quoted)


PLAIN_YAML = re.compile(r"[\w.][\w.-]*")
"""Names that YAML needs no quotes for, unless they mean a number, a date or a truth value."""


def json_text(value: Any, indent: int | None = None) -> str:
    """Return plain values and models as JSON whose characters are printable: others, which stand in texts alone, are escaped."""
    text = _any_json(value, indent)
    if text.replace("\n", "").isprintable():
        return text
    # a line break within a text is escaped already
    return "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)


def _any_json(value: Any, indent: int | None) -> str:
    if indent is not None:
        from pydantic_core import PydanticSerializationError, to_json

        # json.dumps indents in Python: 0.15 s for a report of 5,000 rows, where this takes 0.02 s
        with suppress(PydanticSerializationError):  # half a surrogate pair
            return to_json(value, indent=indent).decode()
    return json.dumps(value, indent=indent, ensure_ascii=False, default=lambda model: model.model_dump(mode="json"))


def csv_line(cells: Sequence[str | int | None], end: str = "\n") -> str:
    """Return a line of CSV: texts in quotes, exactly as they are, and NULL as an empty cell without."""
    return ",".join("" if cell is None else str(cell) if isinstance(cell, int) else _csv_text(cell) for cell in cells) + end


def _csv_text(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


# Markdown


_MARKUP = re.compile(r"[\\`*\[\]|~#]|(?<![^\W_])_|_(?![^\W_])")
"""Characters of markup, and an underscore that is not within a word."""

_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "@": "&#64;"})
"""What begins HTML and mentions; not every Markdown lets a backslash stand before them."""

_BLOCK = re.compile(r"[-+]|[0-9]{1,9}(?=[.)])")
"""What begins a list at the start of a line."""


def markdown_text(text: str) -> str:
    """Return text on one line that Markdown shows literally: no markup, HTML, links, mentions, cell ends or lists."""
    escaped = _MARKUP.sub(r"\\\g<0>", sentence(text)).translate(_ENTITIES).replace("://", ":&#47;/")
    start = _BLOCK.match(escaped)
    if not start:
        return escaped
    return f"\\{escaped}" if start[0] in "-+" else f"{start[0]}\\{escaped[start.end() :]}"


def markdown_code(text: str) -> str:
    """Return text as a code span that ends neither at its own backticks nor at a cell's border."""
    text = visible(text)
    fence = "`" * (max((len(run) for run in re.findall("`+", text)), default=0) + 1)
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{pad}{text}{pad}{fence}".replace("|", "\\|")


def chat_line(text: str) -> str:
    """Return a line with an invisible character within what chat services read as a mention or a link, whatever language they show."""
    return _ACTS_IN_CHATS.sub(lambda match: f"{match[0]}\u2060", text)


_ACTS_IN_CHATS = re.compile(r"(?:@|&#64;)(?=everyone|here|channel|all\b)|<(?=[!@#]|https?:)|\](?=\()|:(?=(?:/|&#47;)/)", re.IGNORECASE)


# terminals


class VisibleStream:
    """A stream of text for people: what is written to it acts on no terminal. ``exact`` is the stream itself."""

    def __init__(self, exact: IO[str]) -> None:
        self.exact = exact

    def write(self, text: str) -> int:
        """Write a text made visible, and return its length."""
        self.exact.write(visible_lines(text))
        return len(text)

    def writelines(self, texts: Any) -> None:
        """Write texts made visible."""
        for text in texts:
            self.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.exact, name)


def exact(stream: Any) -> Any:
    """Return the stream below a `VisibleStream`, for what writes control sequences of its own, or data that no terminal shows."""
    return stream.exact if isinstance(stream, VisibleStream) else stream
