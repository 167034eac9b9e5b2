"""Split a statement of MySQL or MariaDB into tokens; what is in versioned comments belongs to it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_FORM = r"""(?P<space>\s+|--(?=\s|$)[^\n]*|\#[^\n]*|/\*(?!M?!).*?(?:\*/|\Z)|/\*M?!\d*|\*/)
      |`(?P<name>(?:[^`]|``)*+)(?:`|\Z)
      |(?P<string>(?:_[A-Za-z0-9]++\s*+|[NnBbXx](?=['"]))?(?:'(?:[^'ESC]|\\ANY|'')*+(?:'|\Z)|"(?:[^"ESC]|\\ANY|"")*+(?:"|\Z)))
      |(?P<number>\d+(?:\.\d+)?(?:[eE][-+]?\d+)?(?![\w$])|\.\d+)
      |(?P<word>[\w$@\u0080-\uffff]+)
      |(?P<sign>.)"""
_TOKEN, _PLAIN_TOKEN = (
    re.compile(form, re.DOTALL | re.VERBOSE)
    for form in (_FORM.replace("ESC", r"\\").replace("ANY", "."), _FORM.replace("ESC", "").replace(r"|\\ANY", ""))
)
"""Tokens where a backslash escapes what follows it in a string, and where it does not."""
ANSI_QUOTES, NO_BACKSLASH_ESCAPES = 1 << 2, 1 << 20
"""Bits of sql_mode. https://dev.mysql.com/doc/dev/mysql-server/latest/system__variables_8h.html"""
_DOUBLED = re.compile(r"''|\"\"")
_ESCAPE = re.compile(r"\\(.)|''|\"\"", re.DOTALL)
_ESCAPED = {"0": "\0", "n": "\n", "r": "\r", "t": "\t", "b": "\b", "Z": "\x1a", "%": "\\%", "_": "\\_"}


@dataclass(frozen=True, slots=True)
class Token:
    """A token of a statement."""

    kind: str
    """``word`` (a keyword or a name), ``name`` (in backquotes), ``string``, ``number``, or ``sign``."""
    text: str
    prefix: str = ""
    """What stood before a string: ``b``, ``x``, ``n`` or a character set."""

    def is_word(self, *words: str) -> bool:
        """Return whether it is one of these keywords."""
        return self.kind == "word" and self.text.upper() in words

    @property
    def is_name(self) -> bool:
        """Whether it can be the name of a table or column; with ANSI_QUOTES, names stand in double quotation marks."""
        return self.kind in ("word", "name", "string")


def tokens(statement: str, sql_mode: int = 0) -> list[Token]:
    """Return the tokens of a statement, without blanks and comments, as a session with this sql_mode reads it."""
    return list(_tokens(statement, bool(sql_mode & ANSI_QUOTES), not sql_mode & NO_BACKSLASH_ESCAPES))


def _tokens(statement: str, has_quoted_names: bool, has_escapes: bool) -> Iterator[Token]:
    for match in (_TOKEN if has_escapes else _PLAIN_TOKEN).finditer(statement):
        kind, text = str(match.lastgroup), match[0]
        if kind == "name":
            yield Token("name", match["name"].replace("``", "`"))
        elif kind == "string" and has_quoted_names and text.startswith('"'):
            yield Token("name", text[1:-1].replace('""', '"'))
        elif kind == "string":
            start = min(place for quote in "'\"" if (place := text.find(quote)) >= 0)
            yield Token("string", _unquoted(text[start + 1 : -1], has_escapes), text[:start].strip().lower())
        elif kind != "space":
            yield Token(kind, text)


def _unquoted(text: str, has_escapes: bool) -> str:
    if not has_escapes:
        return _DOUBLED.sub(lambda match: match[0][0], text)
    return _ESCAPE.sub(lambda match: _ESCAPED.get(match[1], match[1]) if match[1] else match[0][0], text)


def split(token_list: Sequence[Token]) -> list[list[Token]]:
    """Return what is between the commas that are in no parentheses."""
    parts: list[list[Token]] = [[]]
    depth = 0
    for token in token_list:
        depth += (token.text == "(") - (token.text == ")") if token.kind == "sign" else 0
        if token.kind == "sign" and token.text == "," and depth == 0:
            parts.append([])
        else:
            parts[-1].append(token)
    return [part for part in parts if part]


class TokenReader:
    """Takes the tokens of a statement from the left; ``database`` is that of names without one."""

    def __init__(self, token_list: Sequence[Token], database: str) -> None:
        self.left = list(token_list)
        self.database = database

    def take(self, *words: str) -> bool:
        """Take these keywords if they are next."""
        if len(self.left) < len(words) or not all(token.is_word(word) for token, word in zip(self.left, words, strict=False)):
            return False
        del self.left[: len(words)]
        return True

    def take_table(self) -> tuple[str, str] | None:
        """Take the name of a table if it is next, and return it with its database."""
        if not self.left or not self.left[0].is_name:
            return None
        first = self.left.pop(0).text
        if len(self.left) > 1 and self.left[0].text == "." and self.left[1].is_name:
            self.left.pop(0)
            return first, self.left.pop(0).text
        return self.database, first
