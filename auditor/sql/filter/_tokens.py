"""Split the text of a portable filter into tokens."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from auditor.errors import BadExpression

WAY_OUT = 'write where: {source: "...", target: "..."}, each in its own dialect'
"""What to do with a filter that the language cannot express."""

LANGUAGE = "columns, literals, AND, OR, NOT, = <> < <= > >=, IN, BETWEEN, LIKE, IS NULL, + - *, now and today"
"""What the language consists of, for messages."""

RESERVED = frozenset({
    "AND", "OR", "NOT", "IN", "BETWEEN", "LIKE", "ESCAPE", "IS", "NULL", "TRUE", "FALSE", "NOW", "TODAY",
})  # fmt: skip
"""Words that name no column unless they are quoted."""

FOREIGN_OPERANDS = frozenset({
    "CASE", "EXISTS", "SELECT", "BINARY", "ANY", "ALL", "DISTINCT", "CURRENT_DATE", "CURRENT_TIME", "CURRENT_TIMESTAMP", "LOCALTIME",
    "LOCALTIMESTAMP",
})  # fmt: skip
"""Words of SQL, not of the language, that stand where a column could; as the name of a column they must be quoted."""

FOREIGN_OPERATORS = frozenset({
    "REGEXP", "RLIKE", "ILIKE", "SIMILAR", "GLOB", "MATCH", "DIV", "MOD", "XOR", "COLLATE", "SOUNDS", "MEMBER", "OVERLAPS", "AT", "ORDER",
    "GROUP", "HAVING", "LIMIT", "UNION", "TRUE", "FALSE", "DISTINCT", "UNKNOWN",
})  # fmt: skip
"""Words of SQL, not of the language, that follow a value."""

Sort = Literal["word", "quoted", "text", "number", "symbol", "end"]

_TOKEN = re.compile(
    r"""(?P<space>\s+)
      | (?P<text>'(?:[^']|'')*')
      | (?P<quoted>"(?:[^"]|"")+"|`(?:[^`]|``)+`)
      | (?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?![\w.]))
      | (?P<word>[^\W\d]\w*)
      | (?P<symbol><>|!=|<=|>=|[=<>(),+*-])""",
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Token:
    """One token: ``value`` is a word in capitals, a name without quotes, a text without quotes, a number's digits or a symbol."""

    sort: Sort
    value: str
    written: str
    at: int

    @property
    def place(self) -> str:
        """Return where the token is, for a message."""
        return "at the end" if self.sort == "end" else f"at {self.written[:40]!r} (character {self.at + 1})"


def tokenize(text: str) -> list[Token]:
    """Return the tokens of a filter, the last of which marks its end. Raises BadExpression for a character of no token."""
    tokens: list[Token] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None or text.startswith(("--", "/*", "<=>", "->"), at):
            raise BadExpression(_describe_foreign(text, at))
        sort, written = str(match.lastgroup), match.group()
        at = match.end()
        match sort:
            case "space":
                continue
            case "text":
                tokens.append(Token("text", written[1:-1].replace("''", "'"), written, match.start()))
            case "quoted":
                tokens.append(Token("quoted", written[1:-1].replace(written[0] * 2, written[0]), written, match.start()))
            case "number":
                tokens.append(Token("number", written, written, match.start()))
            case "word":
                tokens.append(Token("word", written.upper(), written, match.start()))
            case _:
                tokens.append(Token("symbol", "<>" if written == "!=" else written, written, match.start()))
    return [*tokens, Token("end", "", "", len(text))]


def _describe_foreign(text: str, at: int) -> str:
    """Return what is wrong with the character at a position, and what to write instead."""
    rest = text[at:]
    if rest[0] in "'\"`":
        return f"where: the quote at character {at + 1} is not closed; a quote within quotes is written twice"
    if re.match(r"--|/\*|#", rest):
        return f"where: a filter has no comments (character {at + 1}); write them in the configuration file, after #"
    if rest[0].isdigit():
        return f"where: {rest[:20]!r} (character {at + 1}) is no number; write digits with or without a decimal point, such as 12.50"
    if rest[0] == ".":
        return f"where: a column is written without its table (character {at + 1}); write its name alone"
    operator = re.match(r"<=>|->>?|[|&!^~/%:?@$.\\;{}\[\]]+|.", rest, re.DOTALL)
    name = operator.group() if operator else rest[0]
    return f"where: {name!r} (character {at + 1}) is not part of the portable language, which has {LANGUAGE}; {WAY_OUT}"
