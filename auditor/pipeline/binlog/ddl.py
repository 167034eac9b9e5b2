"""Read what a statement does to tables: what the table map that follows it does not tell.

The table map before the next row says which columns a table has. Only the statement says that a column was renamed, what rows that were
there have in a new column, and that all rows went. A statement that is not understood is therefore no error: it is noted as unread.

What rows have in a new column is its default, as far as that is a literal of the column's own type, written as its value is stored. What
the server converts by rules of its own (`YEAR DEFAULT 99`, a label of ENUM in other capitals, `DOUBLE(7,2) DEFAULT 1.239`) is not known
here.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from auditor.pipeline.binlog.selection import COPIES, Selection
from auditor.pipeline.binlog.sql_tokens import Token, TokenReader, split, tokens
from auditor.pipeline.table_ops import ChangeBody, Op, Value

Name = tuple[str, str]
"""Database and table."""

NOT_COLUMNS = (
    "INDEX",
    "KEY",
    "UNIQUE",
    "PRIMARY",
    "FULLTEXT",
    "SPATIAL",
    "CONSTRAINT",
    "FOREIGN",
    "CHECK",
    "PARTITION",
    "PERIOD",
    "SYSTEM",
    "VECTOR",
)
"""What ALTER TABLE adds and drops beside columns."""

NO_INDEX = ("CONSTRAINT", "FOREIGN", "REFERENCES", "PARTITION", "PERIOD", "SYSTEM")
"""What ALTER TABLE adds that is neither a column nor an index."""

ATTRIBUTES = (
    "NOT",
    "NULL",
    "DEFAULT",
    "COMMENT",
    "CHARACTER",
    "CHARSET",
    "COLLATE",
    "FIRST",
    "AFTER",
    "ON",
    "KEY",
    "PRIMARY",
    "UNIQUE",
    "AUTO_INCREMENT",
    "GENERATED",
    "AS",
    "CHECK",
    "REFERENCES",
    "INVISIBLE",
    "VISIBLE",
    "STORAGE",
    "COLUMN_FORMAT",
    "COMPRESSED",
    "CONSTRAINT",
    "WITH",
    "WITHOUT",
    "REF_SYSTEM_ID",
    "SRID",
    "ASCII",
    "UNICODE",
    "BYTE",
)
"""What ends a type in a column's definition."""

STRICT = 3 << 21
"""Bits of sql_mode: STRICT_TRANS_TABLES and STRICT_ALL_TABLES."""

SHOWN = 80


@dataclass(slots=True)
class Changes:
    """What a statement does: to the columns and rows of tables, and to their names, all at once."""

    ops: dict[Name, list[Op]] = field(default_factory=dict)
    renames: list[tuple[Name, Name]] = field(default_factory=list)
    """Old and new names, in the order of the statement."""
    dropped_database: str = ""

    def add(self, table: Name, op: Op) -> None:
        """Add a change of a table."""
        self.ops.setdefault(table, []).append(op)


class _Reader(TokenReader):
    """Takes names and definitions of columns."""

    def name(self) -> str | None:
        """Take a name if it is next."""
        return self.left.pop(0).text if self.left and self.left[0].is_name else None

    def table(self) -> Name | None:
        """Take the name of a table if it is next."""
        first = self.name()
        if first is None:
            return None
        if len(self.left) > 1 and self.left[0].text == "." and self.left[1].is_name:
            self.left.pop(0)
            return first, self.left.pop(0).text
        return self.database, first


def read_statement(text: str, database: str, sql_mode: int = 0) -> Changes:
    """Return what a statement does to tables that stay; nothing for one that changes none.

    ``database`` is the session's, for names without one; ``sql_mode`` says how it reads quotation marks and backslashes.
    """
    reader, changes = _Reader(tokens(text, sql_mode), database), Changes()
    if reader.take("SET", "STATEMENT"):
        while reader.left and not reader.take("FOR"):
            reader.left.pop(0)
    if reader.take("ALTER"):
        _alter(reader, changes, text, sql_mode)
    elif reader.take("CREATE"):
        _create(reader, changes)
    elif reader.take("DROP"):
        _drop(reader, changes)
    elif reader.take("TRUNCATE"):
        reader.take("TABLE")
        if table := reader.table():
            changes.add(table, {"op": "clear"})
    elif reader.take("RENAME", "TABLE") or reader.take("RENAME", "TABLES"):
        _rename(reader, changes)
    return changes


def _create(reader: _Reader, changes: Changes) -> None:
    replaces = reader.take("OR", "REPLACE")
    if reader.take("TABLE"):  # and not TEMPORARY TABLE
        is_sure = not reader.take("IF", "NOT", "EXISTS") or replaces
        if table := reader.table():
            changes.add(table, {"op": "create", "sure": is_sure})
            if any(token.is_word("SELECT") for token in reader.left):  # logged by rows, it is missing in the statement
                changes.add(table, {"op": "rows", "why": "CREATE TABLE ... SELECT brought rows that are not in the log"})


def _drop(reader: _Reader, changes: Changes) -> None:
    if reader.take("DATABASE") or reader.take("SCHEMA"):
        reader.take("IF", "EXISTS")
        changes.dropped_database = reader.name() or ""
    elif reader.take("TABLE") or reader.take("TABLES"):
        reader.take("IF", "EXISTS")
        for part in split(reader.left):
            if table := _Reader(part, reader.database).table():
                changes.add(table, {"op": "gone"})


def _rename(reader: _Reader, changes: Changes) -> None:
    reader.take("IF", "EXISTS")
    for part in split(reader.left):
        pair = _Reader(part, reader.database)
        old = pair.table()
        while pair.left and not pair.take("TO"):  # WAIT n, NOWAIT
            pair.left.pop(0)
        new = pair.table()
        if old and new:
            changes.renames.append((old, new))


def _alter(reader: _Reader, changes: Changes, text: str, sql_mode: int) -> None:
    is_lossy = False
    while reader.take("ONLINE") or reader.take("OFFLINE") or (reader.left and reader.left[0].is_word("IGNORE")):
        is_lossy = reader.take("IGNORE") or is_lossy
    if not reader.take("TABLE"):
        return
    reader.take("IF", "EXISTS")
    table = reader.table()
    if table is None:
        return
    if reader.take("WAIT"):
        reader.left.pop(0)
    reader.take("NOWAIT")
    strict = bool(sql_mode & STRICT) and not is_lossy
    for part in split(reader.left):
        spec = _Reader(part, reader.database)
        if new := _new_name(spec):
            changes.renames.append((table, new))
            continue
        if is_lossy and not _only_adds(part):
            why = "ALTER IGNORE deletes rows with equal keys, or that break a rule, without a word of them in the log"
            changes.add(table, {"op": "rows", "why": why})
        try:
            ops = _column_ops(spec)
        except (IndexError, ValueError):
            ops = [{"op": "unread", "text": " ".join(text.split())[:SHOWN]}]
        for op in ops:
            changes.add(table, {**op, "strict": strict} if "charset" in op or op["op"] == "key" else op)
        if any(op["op"] == "rows" for op in ops) and (other := _other_table(spec)):
            changes.add(other, {"op": "rows", "why": f"it exchanged rows with {'.'.join(table)} without a word of them in the log"})


def _only_adds(part: Sequence[Token]) -> bool:
    """Return whether a part of an ALTER TABLE adds columns or an index, none of which holds rows apart or has a rule for them."""
    if not part or not part[0].is_word("ADD"):
        return False
    return part[1].is_word("INDEX", "KEY") or not any(token.is_word("UNIQUE", "PRIMARY", "KEY", "CHECK", *NO_INDEX) for token in part[1:])


def _new_name(spec: _Reader) -> Name | None:
    """Return the table's new name, if the part of an ALTER TABLE gives it one."""
    if not spec.left or not spec.left[0].is_word("RENAME") or (len(spec.left) > 1 and spec.left[1].is_word("COLUMN", "INDEX", "KEY")):
        return None
    spec.left.pop(0)
    if spec.left[0].text == "=" or spec.left[0].is_word("TO", "AS"):
        spec.left.pop(0)
    return spec.table()


def _column_ops(spec: _Reader) -> list[Op]:
    """Return the changes that one part of an ALTER TABLE makes. Raises IndexError or ValueError if it is not understood."""
    if spec.take("ADD"):
        return _added(spec)
    if spec.take("DROP"):
        return _dropped(spec)
    if spec.take("MODIFY"):
        spec.take("COLUMN")
        spec.take("IF", "EXISTS")
        return [_defined({"op": "modify", "column": _required(spec)}, spec)]
    if spec.take("CHANGE"):
        spec.take("COLUMN")
        spec.take("IF", "EXISTS")
        old, new = _required(spec), _required(spec)
        return [_defined({"op": "rename", "from": old, "to": new}, spec)]
    if spec.take("RENAME", "COLUMN"):
        spec.take("IF", "EXISTS")
        old = _required(spec)
        if not spec.take("TO"):
            raise ValueError(old)
        return [{"op": "rename", "from": old, "to": _required(spec)}]
    if spec.take("CONVERT", "TO"):
        return [{"op": "convert", "charset": _charset(spec)}]
    return [{"op": "rows", "why": why}] if (why := _silent_rows(spec)) else []


def _defined(op: Op, spec: _Reader) -> Op:
    """Return a change of a column with what the column's definition says of the values that it may have."""
    ends = (place for place, token in enumerate(spec.left) if place and token.is_word(*ATTRIBUTES) and not _is_in_type(spec.left, place))
    end = next(ends, len(spec.left))
    words = [token.text.upper() if token.kind == "word" else "" for token in spec.left]
    required = any(word == "NOT" and following == "NULL" for word, following in pairwise(words)) or "PRIMARY" in words
    defined: Op = {**op, "type": _type_text(spec.left[:end]), "nullable": not required, "charset": _charset(spec)}
    return {**defined, "computed": True} if any(token.is_word("AS") for token in _outside_parentheses(spec.left)) else defined


def _is_in_type(left: Sequence[Token], place: int) -> bool:
    """Return whether a word belongs to a type, as the second one of NATIONAL CHARACTER."""
    return left[place].is_word("CHARACTER") and not any(token.is_word("SET") for token in left[place + 1 : place + 2])


def _type_text(definition: Sequence[Token]) -> str:
    text = ""
    for token in definition:
        is_apart = bool(text) and not text.endswith(("(", ",")) and token.text not in ("(", ",", ")")
        text += " " * is_apart + _written(token)
    return text


def _written(token: Token) -> str:
    if token.kind != "string":
        return token.text
    text = token.text.replace("\\", "\\\\").replace("'", "''")
    return f"'{text}'"


def _charset(spec: _Reader) -> str:
    """Return the character set that is named; '' if none is."""
    words = [token.text.lower() if token.kind != "string" else "" for token in spec.left]
    for number, word in enumerate(words[:-1]):
        if word == "charset" or (word == "set" and words[number - 1 : number] in (["character"], ["char"])):
            [named] = [token.text.lower() for token in spec.left[number + 1 :] if token.text != "="][:1]
            return named
    return ""


def _added(spec: _Reader) -> list[Op]:
    is_column = spec.take("COLUMN")
    if not is_column and spec.left[0].is_word(*NOT_COLUMNS):
        return [{"op": "key", "columns": key}] if (key := _key_columns(spec)) else []
    spec.take("IF", "NOT", "EXISTS")
    if spec.left[0].text == "(" and spec.left[0].kind == "sign":
        inner = spec.left[1 : len(spec.left) - 1 - [token.text for token in spec.left[::-1]].index(")")]
        parts = split(inner)
    else:
        parts = [spec.left]
    return [
        {"op": "add", "column": part[0].text, "value": added_value(part[1:])}
        for part in parts
        if is_column or not part[0].is_word(*NOT_COLUMNS)
    ]


def _key_columns(spec: _Reader) -> list[str]:
    """Return the columns of the primary key that is added; none if something else is."""
    while spec.left and not spec.take("PRIMARY", "KEY"):  # CONSTRAINT name
        if spec.left.pop(0).text == "(":
            return []
    while spec.left and spec.left[0].text != "(":  # USING BTREE
        spec.left.pop(0)
    return [part[0].text for part in split(spec.left[1:-1] if spec.left[-1:] and spec.left[-1].text == ")" else spec.left[1:]) if part]


def _dropped(spec: _Reader) -> list[Op]:
    if spec.take("PARTITION"):
        return [{"op": "rows", "why": "DROP PARTITION deleted rows without a word of them in the log"}]
    if not spec.take("COLUMN") and spec.left[0].is_word(*NOT_COLUMNS):
        return []
    spec.take("IF", "EXISTS")
    return [{"op": "drop", "column": _required(spec)}]


def _silent_rows(spec: _Reader) -> str:
    for words in (("TRUNCATE", "PARTITION"), ("EXCHANGE", "PARTITION"), ("IMPORT", "TABLESPACE"), ("DISCARD", "TABLESPACE")):
        if spec.take(*words):
            return f"{' '.join(words)} changed rows without a word of them in the log"
    if spec.take("CONVERT", "PARTITION") or spec.take("CONVERT", "TABLE"):
        return "CONVERT moved rows between tables without a word of them in the log"
    return ""


def _other_table(spec: _Reader) -> Name | None:
    """Return the table with which rows are exchanged, from what is left: p WITH TABLE t, p TO TABLE t, or t TO PARTITION."""
    for place, token in enumerate(spec.left[:-1]):
        if token.is_word("WITH", "TO") and spec.left[place + 1].is_word("TABLE"):
            return _Reader(spec.left[place + 2 :], spec.database).table()
    table = spec.table()
    return table if spec.take("TO", "PARTITION") else None


def _required(spec: _Reader) -> str:
    name = spec.name()
    if name is None:
        raise ValueError("a name is missing")
    return name


ALL_TABLES = "*"
"""Stands for all tables of a database that was dropped."""


def changes_of(changes: Changes, selection: Selection) -> dict[Name, ChangeBody]:
    """Return the body of the note on each table that a statement changes: of those that are read, and of copies beside them."""
    bodies: dict[Name, ChangeBody] = {}
    for table, ops in changes.ops.items():
        if selection.has(*table):
            bodies[table] = _body(table, ops)
        elif (beside := selection.shadowed(*table)) and beside[1] in COPIES:
            bodies[table] = {"ops": list(ops), "beside": beside[0]}
    for table, ops in _renamed(changes, selection).items():
        body = bodies.setdefault(table, {"ops": []})
        body["ops"] += ops
        bodies[table] = {**body, **_body(table, body["ops"])}
    if changes.dropped_database:
        bodies[changes.dropped_database, ALL_TABLES] = _body((changes.dropped_database, ALL_TABLES), [{"op": "gone"}])
    return bodies


def _body(table: Name, ops: list[Op]) -> ChangeBody:
    body: ChangeBody = {"ops": list(ops)}
    if why := next((op["why"] for op in ops if op["op"] == "rows"), ""):
        body["stage"] = "statement"
        body["reason"] = f"{'.'.join(table)}: {why}; copy the table again, or skip this if the target may differ"
    elif any(op["op"] in ("clear", "create", "moved") or (op["op"] == "gone" and "to" in op) for op in ops):
        body["advances"] = True
    return body


def _renamed(changes: Changes, selection: Selection) -> dict[Name, list[Op]]:
    """Return what the renames of a statement, which happen one after the other, do to tables in the end."""
    origins: dict[Name, Name] = {}
    """By name the name that its table had before; only of names that the statement mentions."""
    gone: set[Name] = set()
    for old, new in changes.renames:
        origin = origins.pop(old, old)
        gone |= {old}
        gone -= {new}
        origins[new] = origin
    ops: dict[Name, list[Op]] = {}
    for new, origin in origins.items():
        if not selection.has(*new) or new == origin:
            continue
        beside = selection.shadowed(*origin)
        if beside and beside[0] == new[1] and beside[1] in COPIES:
            ops[new] = [{"op": "swapped", "from": ".".join(origin)}]
        elif selection.has(*origin):
            ops[new] = [{"op": "moved", "from": ".".join(origin)}]
            ops.setdefault(origin, []).extend([{"op": "gone", "to": ".".join(new)}] if origin not in origins else [])
        else:
            ops[new] = [{"op": "rows", "why": f"it is {'.'.join(origin)} since a RENAME, whose rows the pipeline does not have"}]
    for old in gone:
        if selection.has(*old) and old not in origins and old not in ops:
            ops[old] = [{"op": "gone"}]
    return {table: some for table, some in ops.items() if some}


INTEGERS = frozenset(
    ("TINYINT", "SMALLINT", "MEDIUMINT", "MIDDLEINT", "INT", "INTEGER", "BIGINT", "BOOL", "BOOLEAN", "INT1", "INT2", "INT3", "INT4", "INT8")
)
DECIMALS = frozenset(("DECIMAL", "DEC", "NUMERIC", "FIXED"))
FLOATS = frozenset(("FLOAT", "DOUBLE", "REAL", "FLOAT4", "FLOAT8"))
NUMBERS = INTEGERS | DECIMALS | FLOATS
TEXTS = frozenset(
    ("CHAR", "VARCHAR", "TINYTEXT", "TEXT", "MEDIUMTEXT", "LONGTEXT", "NCHAR", "NVARCHAR", "CHARACTER", "SET", "NATIONAL", "VARCHARACTER")
)
BYTES = frozenset(("BINARY", "VARBINARY", "TINYBLOB", "BLOB", "MEDIUMBLOB", "LONGBLOB"))
PADDED = frozenset(("CHAR", "NCHAR", "CHARACTER"))
OPERATORS = frozenset("+-*/%|&^<>=!(.")
MOMENTS = {"YEAR": r"\d{4}", "DATE": r"\d{4}-\d\d-\d\d", "DATETIME": r"\d{4}-\d\d-\d\d( \d\d:\d\d:\d\d)?"}
"""The forms of values that are stored as they are written."""
CONVERTED = "its default is written in a form that the source's server converts"


def added_value(definition: Sequence[Token]) -> Value:
    """Return the value of a new column in the rows that were there; ``definition`` is what follows its name."""
    top = _outside_parentheses(definition)
    words = [token.text.upper() if token.kind == "word" else "" for token in top]
    kind = words[0] if words else ""
    if "AUTO_INCREMENT" in words or kind == "SERIAL":
        return {"unknown": "the server numbered its rows"}
    if "AS" in words or "GENERATED" in words:
        return {"unknown": "it is computed from other columns"}
    if "DEFAULT" in words:
        return _default(kind, _arguments(definition), top[words.index("DEFAULT") + 1 :])
    if not _is_required(words):
        return {"text": None}
    if kind in NUMBERS:
        return {"text": "0"}
    if kind in TEXTS:
        return {"text": ""}
    if kind in BYTES:
        return _bytes(kind, _arguments(definition), b"")
    if kind == "ENUM" and len(definition) > 2 and definition[2].kind == "string":
        return {"text": definition[2].text}
    return {"unknown": "it has no default, and its type's own depends on the server's settings"}


def _default(kind: str, arguments: Sequence[str], left: Sequence[Token]) -> Value:
    negative = bool(left) and left[0].text == "-" and left[0].kind == "sign"
    literal = left[negative : negative + 1]
    while literal and literal[-1].kind == "string" and [part.kind for part in left[negative + len(literal) :][:1]] == ["string"]:
        literal = left[negative : negative + len(literal) + 1]  # strings that follow one another are one
    rest = left[negative + len(literal) :]
    if not literal or (rest and rest[0].kind == "sign" and rest[0].text in OPERATORS):
        return {"unknown": "its default is an expression"}
    token = literal[0]
    if token.is_word("NULL"):
        return {"text": None}
    if kind in BYTES:
        return _binary_default(kind, arguments, literal)
    if kind == "TIMESTAMP":
        return {"unknown": "its default depends on the time, or on the time zone of the session that added it"}
    if token.is_word("TRUE", "FALSE"):
        token = Token("number", str(int(token.is_word("TRUE"))))
    if token.kind == "string":
        if any(part.prefix not in ("", "n") and (len(literal) > 1 or not token.text.isascii()) for part in literal):
            return {"unknown": CONVERTED}
        token = Token("string", "".join(part.text for part in literal), token.prefix)
    elif token.kind != "number":
        return {"unknown": "its default is an expression"}
    text = _plain(kind, arguments, token, "-" * negative + token.text)
    return {"unknown": CONVERTED} if text is None else {"text": text}


def _plain(kind: str, arguments: Sequence[str], token: Token, text: str) -> str | None:
    """Return the value that a literal stands for in a column of a type; None if the server converts it by rules that are its own."""
    if token.prefix == "b":
        return str(int(text or "0", 2)) if kind in INTEGERS or kind == "BIT" else None
    if token.prefix == "x":
        return None
    if kind in INTEGERS or kind == "BIT":
        return str(int(text)) if re.fullmatch(r"-?\d+", text) else None
    if kind in NUMBERS:
        scale = int(arguments[1]) if len(arguments) > 1 else 0 if kind in DECIMALS else None
        match = re.fullmatch(r"-?\d+(?:\.(\d+))?", text)
        return text if match and (scale is None or len(match[1] or "") <= scale) else None
    if kind in MOMENTS:
        return text if re.fullmatch(MOMENTS[kind], text) else None
    if kind == "ENUM":
        return text if token.kind == "string" and text in arguments else None
    if kind == "SET":
        return text if token.kind == "string" and text == ",".join(label for label in arguments if label in text.split(",")) else None
    if token.kind == "number":
        return text if re.fullmatch(r"-?(0|[1-9]\d*)", text) else None
    return text.rstrip(" ") if kind in PADDED else text


def _binary_default(kind: str, arguments: Sequence[str], literal: Sequence[Token]) -> Value:
    """Return the bytes that a literal stands for: hexadecimal digits, or text of ASCII, which is the same in every character set."""
    [token, *more] = literal
    digits = token.text if token.prefix == "x" else token.text[2:] if token.kind == "word" and token.text[:2] == "0x" else None
    if digits is not None and not more and re.fullmatch(r"(?:[0-9A-Fa-f]{2})*", digits):
        return _bytes(kind, arguments, bytes.fromhex(digits))
    text = "".join(part.text for part in literal)
    if all(part.kind == "string" and part.prefix in ("", "n") for part in literal) and text.isascii():
        return _bytes(kind, arguments, text.encode())
    return {"unknown": CONVERTED}


def _bytes(kind: str, arguments: Sequence[str], value: bytes) -> Value:
    """Return bytes as a column of a type stores them: one of a fixed length fills them up with zeros."""
    length = int(arguments[0]) if kind == "BINARY" and arguments else 1 if kind == "BINARY" else 0
    return {"hex": value.ljust(length, b"\0").hex()}


def _arguments(definition: Sequence[Token]) -> list[str]:
    """Return what is in parentheses right after a type: its length, or digits and scale, or labels."""
    if len(definition) < 2 or definition[1].text != "(":
        return []
    texts = [token.text for token in definition[2:]]
    return [text for text in texts[: texts.index(")")] if text != ","] if ")" in texts else []


def _is_required(words: Sequence[str]) -> bool:
    return any(word == "NOT" and following == "NULL" for word, following in itertools.pairwise(words)) or "PRIMARY" in words


def _outside_parentheses(definition: Sequence[Token]) -> list[Token]:
    """Return the tokens outside of parentheses, with the opening ones."""
    outside: list[Token] = []
    depth = 0
    for token in definition:
        if token.kind == "sign" and token.text == ")":
            depth -= 1
        elif depth == 0:
            outside.append(token)
        if token.kind == "sign" and token.text == "(":
            depth += 1
    return outside
