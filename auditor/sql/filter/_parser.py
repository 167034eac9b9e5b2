"""Parse a portable filter, or a value of the same language, into its tree.

::

    condition  = all-of { OR all-of }
    all-of     = negation { AND negation }
    negation   = NOT negation | predicate
    predicate  = value [ comparison value | [NOT] IN (value, ...) | [NOT] BETWEEN value AND value | [NOT] LIKE text [ESCAPE text]
                         | IS [NOT] NULL ]
               | condition IS [NOT] TRUE
    value      = sum { || sum }
    sum        = product { (+ | -) product }
    product    = factor { * factor }
    factor     = column | literal | now | today | - factor | ( condition ) | function(value, ...)
               | CASE { WHEN condition THEN result } [ ELSE result ] END
    result     = value | NULL
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal, cast

from auditor.errors import BadExpression
from auditor.sql.filter._tree import (
    Arithmetic,
    ArithmeticOp,
    Call,
    Case,
    Clock,
    Column,
    CompareOp,
    Comparison,
    Condition,
    In,
    Interval,
    IsNull,
    Junction,
    Like,
    Moment,
    Not,
    Null,
    Number,
    Operand,
    Text,
    Truth,
    Wildcard,
    is_not_true,
    is_true,
)

COMPARISONS = frozenset({"=", "<>", "<", "<=", ">", ">="})
MAX_DIGITS = 38
"""Most digits of a number literal."""
MAX_CHARACTERS = 1_000_000
"""The greatest number that a function of texts takes."""
MAX_DEPTH = 100
"""Most brackets and negations within each other."""
UNITS = {
    "SECOND": dt.timedelta(seconds=1),
    "MINUTE": dt.timedelta(minutes=1),
    "HOUR": dt.timedelta(hours=1),
    "DAY": dt.timedelta(days=1),
    "WEEK": dt.timedelta(weeks=1),
}
MONTHS = {"MONTH": 1, "YEAR": 12}

WAY_OUT = 'write where: {source: "...", target: "..."}, each in its own dialect'
"""What to do with a filter that the language cannot express."""

TEXT_FUNCTIONS = frozenset({"UPPER", "LOWER", "TRIM", "LENGTH", "LEFT", "SUBSTRING", "REPLACE"})
TIME_FUNCTIONS = frozenset({"DATE", "YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND"})
FUNCTIONS = frozenset({"COALESCE", "ROUND", "ABS"}) | TEXT_FUNCTIONS | TIME_FUNCTIONS
"""The functions of the language; ``||``, which joins texts, is a `Call`, too."""

FORMS = {
    "ROUND": "ROUND(number, digits)",
    "LEFT": "LEFT(text, characters)",
    "SUBSTRING": "SUBSTRING(text, first, characters), the first character of a text being 1",
    "REPLACE": "REPLACE(text, 'old', 'new')",
    "COALESCE": "COALESCE(value, value, ...)",
}
"""How functions are written that take more than one value."""

LANGUAGE = (
    "columns, literals, AND, OR, NOT, = <> < <= > >=, IN, BETWEEN, LIKE, IS NULL, IS TRUE, + - * ||, CASE, now, today and the functions "
    + ", ".join(sorted(FUNCTIONS))
)
"""What the language consists of, for messages."""

RESERVED = frozenset({"AND", "OR", "NOT", "IN", "BETWEEN", "LIKE", "ESCAPE", "IS", "NULL", "TRUE", "FALSE", "NOW", "TODAY"})
"""Words that name no column unless they are quoted."""

FOREIGN_OPERANDS = frozenset(
    {
        "EXISTS",
        "SELECT",
        "BINARY",
        "ANY",
        "ALL",
        "DISTINCT",
        "CURRENT_DATE",
        "CURRENT_TIME",
        "CURRENT_TIMESTAMP",
        "LOCALTIME",
        "LOCALTIMESTAMP",
    }
)
"""Words of SQL, not of the language, that stand where a column could; as the name of a column they must be quoted."""

FOREIGN_OPERATORS = frozenset(
    {
        "REGEXP",
        "RLIKE",
        "ILIKE",
        "SIMILAR",
        "GLOB",
        "MATCH",
        "DIV",
        "MOD",
        "XOR",
        "COLLATE",
        "SOUNDS",
        "MEMBER",
        "OVERLAPS",
        "AT",
        "ORDER",
        "GROUP",
        "HAVING",
        "LIMIT",
        "UNION",
        "TRUE",
        "FALSE",
        "DISTINCT",
        "UNKNOWN",
    }
)
"""Words of SQL, not of the language, that follow a value."""

Sort = Literal["word", "quoted", "text", "number", "symbol", "end"]

_TOKEN = re.compile(
    r"""(?P<space>\s+)
      | (?P<text>'(?:[^']|'')*')
      | (?P<quoted>"(?:[^"]|"")+"|`(?:[^`]|``)+`)
      | (?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?![\w.]))
      | (?P<word>[^\W\d]\w*)
      | (?P<symbol><>|!=|<=|>=|\|\||[=<>(),+*-])""",
    re.VERBOSE,
)


def parse(text: str) -> Condition:
    """Return the tree of a filter. Raises BadExpression, whose one sentence says what to write instead."""
    return _Parser(tokenize(text)).parse()


def parse_value(text: str) -> Operand:
    """Return the tree of a value, such as ``price - discount``. Raises BadExpression."""
    return _Parser(tokenize(text)).parse_value()


class _Parser:
    """A recursive-descent parser over a list of tokens."""

    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._next = 0
        self._depth = 0

    def parse(self) -> Condition:
        if self._peek().sort == "end":
            raise BadExpression("the filter is empty; remove it, or write a condition such as status <> 'draft'")
        condition = self._as_condition(self._disjunction())
        if self._peek().sort != "end":
            raise self._unexpected("AND or OR")
        return condition

    def parse_value(self) -> Operand:
        if self._peek().sort == "end":
            raise BadExpression("the expression is empty; write a value such as price * amount")
        value = self._disjunction()
        if self._peek().sort != "end":
            raise self._unexpected("an operator such as +")
        if isinstance(value, Comparison | In | Like | IsNull | Not | Junction | Truth):
            raise BadExpression("a condition is no value; write CASE WHEN ... THEN 1 ELSE 0 END")
        return value

    # conditions

    def _disjunction(self) -> Operand | Condition:
        return self._junction("OR", self._conjunction)

    def _conjunction(self) -> Operand | Condition:
        return self._junction("AND", self._negation)

    def _junction(self, word: Literal["AND", "OR"], parse_part: Callable[[], Operand | Condition]) -> Operand | Condition:
        first = parse_part()
        if not self._at_word(word):
            return first
        conditions = [self._as_condition(first)]
        while self._take_word(word):
            conditions.append(self._as_condition(parse_part()))
        return Junction(word, tuple(conditions))

    def _negation(self) -> Operand | Condition:
        if not self._take_word("NOT"):
            return self._predicate()
        self._enter()
        condition = Not(self._as_condition(self._negation()))
        self._depth -= 1
        return condition

    def _predicate(self) -> Operand | Condition:
        left = self._concatenation()
        token = self._peek()
        if token.sort == "symbol" and token.value in COMPARISONS:
            self._next += 1
            return Comparison(cast(CompareOp, token.value), self._as_operand(left), self._as_operand(self._concatenation()))
        if self._take_word("IS"):
            negated = self._take_word("NOT")
            if self._take_word("TRUE"):
                condition = self._as_condition(left)
                return is_not_true(condition) if negated else is_true(condition)
            self._expect_word("NULL", "NULL or TRUE, as in IS NOT NULL,")
            if not isinstance(left, Column):
                raise BadExpression(f"IS NULL {token.place} takes one column; write column IS NULL")
            return Not(IsNull(left)) if negated else IsNull(left)
        negated = self._at_word("NOT") and self._take_word("NOT")
        for word, parse_rest in (("IN", self._in), ("BETWEEN", self._between), ("LIKE", self._like)):
            if self._take_word(word):
                condition = parse_rest(self._as_operand(left))
                return Not(condition) if negated else condition
        if negated:
            raise self._unexpected("IN, BETWEEN or LIKE")
        return left

    def _in(self, operand: Operand) -> Condition:
        self._expect_symbol("(")
        values = [self._as_operand(self._concatenation())]
        while self._take_symbol(","):
            values.append(self._as_operand(self._concatenation()))
        self._expect_symbol(")")
        return In(operand, tuple(values))

    def _between(self, operand: Operand) -> Condition:
        low = self._as_operand(self._concatenation())
        self._expect_word("AND", "AND, as in BETWEEN 1 AND 9")
        high = self._as_operand(self._concatenation())
        return Junction("AND", (Comparison(">=", operand, low), Comparison("<=", operand, high)))

    def _like(self, operand: Operand) -> Condition:
        pattern = self._expect_text("a pattern, as in LIKE 'A%'")
        escape = ""
        if self._take_word("ESCAPE"):
            escape = self._expect_text("one character, as in ESCAPE '!'")
            if len(escape) != 1 or escape in "%_":
                raise BadExpression("ESCAPE takes one character other than % and _, as in ESCAPE '!'")
        elif "\\" in pattern:
            raise BadExpression(
                "engines read a backslash in a pattern of LIKE in different ways; write LIKE '...' ESCAPE '\\' if it escapes,"
                " and ESCAPE '!' if it means itself"
            )
        return Like(operand, _split_pattern(pattern, escape))

    # operands

    def _concatenation(self) -> Operand | Condition:
        left = self._sum()
        if not (self._peek().sort == "symbol" and self._peek().value == "||"):
            return left
        parts = [self._as_operand(left)]
        while self._take_symbol("||"):
            parts.append(self._as_operand(self._sum()))
        return Call("||", tuple(parts))

    def _sum(self) -> Operand | Condition:
        left = self._product()
        while (token := self._peek()).sort == "symbol" and token.value in "+-":
            self._next += 1
            left = Arithmetic(cast(ArithmeticOp, token.value), self._as_operand(left), self._as_operand(self._product()))
        return left

    def _product(self) -> Operand | Condition:
        left = self._factor()
        while self._take_symbol("*"):
            left = Arithmetic("*", self._as_operand(left), self._as_operand(self._factor()))
        return left

    def _factor(self) -> Operand | Condition:
        token = self._peek()
        if self._take_symbol("-"):
            self._enter()
            operand = self._as_operand(self._factor())
            self._depth -= 1
            return Number(-operand.value) if isinstance(operand, Number) else Arithmetic("-", Number(Decimal(0)), operand)
        if self._take_symbol("("):
            self._enter()
            inner = self._disjunction()
            self._expect_symbol(")")
            self._depth -= 1
            return inner
        self._next += 1
        match token.sort:
            case "number":
                return _number(token)
            case "text":
                if "\0" in token.value:
                    raise BadExpression("a text cannot contain the character U+0000, which some engines cannot hold; remove it")
                return Text(token.value)
            case "quoted":
                return self._column(token.value, token)
            case "word":
                return self._word(token)
            case _:
                self._next -= 1
                raise self._unexpected("a column or a value")

    def _word(self, token: Token) -> Operand:
        if self._peek().sort == "text" and token.value in ("DATE", "TIMESTAMP"):
            return _moment(token.value, self._take())
        if self._peek().sort == "text" and token.value == "INTERVAL":
            return self._interval(self._take())
        if token.value == "INTERVAL" and self._peek().sort == "number":
            raise BadExpression(f"the number of an interval is written in quotes: INTERVAL '{self._peek().written}' day")
        if token.value == "CASE":
            return self._case()
        if self._peek().sort == "symbol" and self._peek().value == "(":
            if token.value not in FUNCTIONS:
                raise _foreign(token, f"{token.written}()")
            return self._call(token)
        if token.value in ("NOW", "TODAY"):
            return Clock("now" if token.value == "NOW" else "today")
        if token.value in ("TRUE", "FALSE"):
            return Truth(token.value == "TRUE")
        if token.value == "NULL":
            raise BadExpression(f"a comparison with NULL {token.place} is never true; write IS NULL or IS NOT NULL")
        if token.value in RESERVED:
            self._next -= 1
            raise self._unexpected("a column or a value")
        if token.value in FOREIGN_OPERANDS:
            raise _foreign(token, token.written)
        return self._column(token.written, token)

    def _case(self) -> Operand:
        self._enter()
        if not self._at_word("WHEN"):
            raise BadExpression("CASE is followed by conditions; write CASE WHEN status = 'paid' THEN 1 ELSE 0 END")
        branches: list[tuple[Condition, Operand]] = []
        while self._take_word("WHEN"):
            condition = self._as_condition(self._disjunction())
            self._expect_word("THEN", "THEN, as in CASE WHEN status = 'paid' THEN 1 ELSE 0 END")
            branches.append((condition, self._result()))
        otherwise = self._result() if self._take_word("ELSE") else Null()
        self._expect_word("END", "END, as in CASE WHEN status = 'paid' THEN 1 ELSE 0 END")
        self._depth -= 1
        return Case(tuple(branches), otherwise)

    def _result(self) -> Operand:
        return Null() if self._take_word("NULL") else self._as_operand(self._concatenation())

    def _call(self, token: Token) -> Operand:
        self._enter()
        self._expect_symbol("(")
        arguments = [self._as_operand(self._concatenation())]
        while self._take_symbol(","):
            arguments.append(self._as_operand(self._concatenation()))
        self._expect_symbol(")")
        self._depth -= 1
        if not _fits(token.value, arguments):
            raise BadExpression(f"{token.written}() {token.place} is written {FORMS.get(token.value, f'{token.value}(value)')}")
        return Call(token.value, tuple(arguments))

    def _column(self, name: str, token: Token) -> Column:
        following = self._peek()
        if following.sort == "text":
            raise BadExpression(f"{token.written} before a text is no literal; write DATE '...', TIMESTAMP '...' or INTERVAL '...' day")
        return Column(name)

    def _interval(self, number: Token) -> Interval:
        unit = self._peek()
        name = unit.value.removesuffix("S") if unit.sort == "word" else ""
        if not re.fullmatch(r"\d{1,9}", number.value) or name not in {*UNITS, *MONTHS}:
            raise BadExpression(
                f"INTERVAL {number.written} takes a whole number and a unit; write INTERVAL '7' day, with the unit"
                " second, minute, hour, day, week, month or year"
            )
        self._next += 1
        count = int(number.value)
        try:
            return Interval(count * MONTHS.get(name, 0), count * UNITS.get(name, dt.timedelta()))
        except OverflowError:
            raise BadExpression(f"INTERVAL {number.written} {unit.written} is longer than all of time; write a shorter one") from None

    # tokens

    def _peek(self) -> Token:
        return self._tokens[self._next]

    def _take(self) -> Token:
        self._next += 1
        return self._tokens[self._next - 1]

    def _at_word(self, word: str) -> bool:
        return self._peek().sort == "word" and self._peek().value == word

    def _take_word(self, word: str) -> bool:
        is_there = self._at_word(word)
        self._next += is_there
        return is_there

    def _take_symbol(self, symbol: str) -> bool:
        is_there = self._peek().sort == "symbol" and self._peek().value == symbol
        self._next += is_there
        return is_there

    def _expect_word(self, word: str, what: str) -> None:
        if not self._take_word(word):
            raise self._unexpected(what)

    def _expect_symbol(self, symbol: str) -> None:
        if not self._take_symbol(symbol):
            raise self._unexpected(repr(symbol))

    def _expect_text(self, what: str) -> str:
        if self._peek().sort != "text":
            raise self._unexpected(what)
        return self._take().value

    def _enter(self) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise BadExpression(f"more than {MAX_DEPTH} brackets within each other; write fewer")

    def _unexpected(self, wanted: str) -> BadExpression:
        """Return the error that something else than ``wanted`` is next."""
        token = self._peek()
        if token.sort == "word" and token.value in FOREIGN_OPERATORS | FOREIGN_OPERANDS:
            return _foreign(token, token.written)
        return BadExpression(f"{wanted} is missing {token.place}")

    def _as_condition(self, node: Operand | Condition) -> Condition:
        """Return a column of truth values as the condition that it is TRUE. Raises BadExpression for any other operand."""
        if isinstance(node, Column):
            return Comparison("=", node, Truth(True))
        if isinstance(node, Truth | Comparison | In | Like | IsNull | Not | Junction):
            return node
        raise BadExpression("a value alone is no condition; compare it, as in amount > 0")

    def _as_operand(self, node: Operand | Condition) -> Operand:
        if isinstance(node, Comparison | In | Like | IsNull | Not | Junction):
            raise BadExpression("a condition cannot be compared or calculated with; join conditions with AND, OR and NOT")
        return node


def _fits(name: str, arguments: Sequence[Operand]) -> bool:
    """Return whether a function has the arguments that it needs."""
    others = arguments[1:]
    match name:
        case "COALESCE":
            return bool(others)
        case "ROUND":
            return len(others) == 1 and _is_count(others[0], 0)
        case "LEFT":
            return len(others) == 1 and _is_count(others[0], 1)
        case "SUBSTRING":
            return len(others) in (1, 2) and all(_is_count(other, 1) for other in others)
        case "REPLACE":
            return len(others) == 2 and all(isinstance(other, Text) for other in others) and others[0] != Text("")
    return not others


def _is_count(operand: Operand, least: int) -> bool:
    return isinstance(operand, Number) and operand.value == int(operand.value) and least <= operand.value < MAX_CHARACTERS


def _foreign(token: Token, name: str) -> BadExpression:
    """Return the error for a word of SQL that is not in the language."""
    if token.value in ("NOW", "CURRENT_TIMESTAMP", "LOCALTIMESTAMP", "SYSDATE", "GETDATE", "UTC_TIMESTAMP", "LOCALTIME"):
        return BadExpression(f"{name} would be each server's own clock; write now, which is the source's for both sides")
    if token.value in ("CURRENT_DATE", "CURDATE", "UTC_DATE"):
        return BadExpression(f"{name} would be each server's own clock; write today, which is the source's for both sides, in UTC")
    return BadExpression(f"{name} (character {token.at + 1}) is not part of the portable language, which has {LANGUAGE}; {WAY_OUT}")


def _number(token: Token) -> Number:
    digits = token.value.replace(".", "").lstrip("0")
    if len(digits) > MAX_DIGITS:
        raise BadExpression(f"the number {token.place} has more than {MAX_DIGITS} digits; write a shorter one")
    return Number(Decimal(token.value))


def _moment(word: str, literal: Token) -> Moment:
    """Return the moment of a DATE or TIMESTAMP literal; without an offset it is UTC. Raises BadExpression."""
    form = r"\d{4}-\d\d-\d\d" if word == "DATE" else r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d(\.\d{1,6})?)?\s*(Z|[+-]\d\d:\d\d)?"
    example = "DATE '2026-11-01'" if word == "DATE" else "TIMESTAMP '2026-11-01 06:30:00', in UTC unless it ends with +01:00"
    try:
        if not re.fullmatch(form, literal.value):
            raise ValueError
        moment = dt.datetime.fromisoformat(literal.value.replace(" +", "+").replace(" -", "-").replace(" Z", "Z"))
        return Moment(moment.astimezone(dt.UTC).replace(tzinfo=None) if moment.tzinfo else moment)
    except (ValueError, OverflowError):
        raise BadExpression(f"{word} {literal.written} is no {word.lower()}; write {example}") from None


def _split_pattern(pattern: str, escape: str) -> tuple[str | Wildcard, ...]:
    """Return the parts of a LIKE pattern: plain texts and wildcards. Raises BadExpression for a dangling escape character."""
    parts: list[str | Wildcard] = []
    characters = iter(pattern)
    for character in characters:
        if character in "%_":
            parts.append(Wildcard(character))
            continue
        plain = next(characters, "") if character == escape else character
        if character == escape and plain not in ("%", "_", escape):
            raise BadExpression(f"in a pattern of LIKE, {escape} must be followed by %, _ or {escape}; write it so")
        if parts and isinstance(parts[-1], str):
            parts[-1] += plain
        else:
            parts.append(plain)
    return tuple(parts)


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
        return f"the quote at character {at + 1} is not closed; a quote within quotes is written twice"
    if re.match(r"--|/\*|#", rest):
        return f"a filter has no comments (character {at + 1}); write them in the configuration file, after #"
    if rest[0].isdigit():
        return f"{rest[:20]!r} (character {at + 1}) is no number; write digits with or without a decimal point, such as 12.50"
    if rest[0] == ".":
        return f"a column is written without its table (character {at + 1}); write its name alone"
    operator = re.match(r"<=>|->>?|[|&!^~/%:?@$.\\;{}\[\]]+|.", rest, re.DOTALL)
    name = operator.group() if operator else rest[0]
    return f"{name!r} (character {at + 1}) is not part of the portable language, which has {LANGUAGE}; {WAY_OUT}"
