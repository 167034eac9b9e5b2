"""How a value of each column type becomes a text, and functions that are generated from that to decode the rows of a table.

A row image is a bit per column that says whether it is NULL, and the values of the others without a gap. Between columns of variable
length all have a fixed place, so that one ``struct`` unpacks them together. Generated code does per row what differs between rows, and
nothing else: https://dev.mysql.com/doc/dev/mysql-server/latest/classbinary__log_1_1Rows__event.html
"""

from __future__ import annotations

import socket
import struct
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from auditor.errors import LogRefused
from auditor.pipeline.binlog import column_types as types
from auditor.pipeline.binlog import number_and_time_texts as text
from auditor.pipeline.binlog.charsets import UTF8, decoder
from auditor.pipeline.binlog.compression import uncompressed_column
from auditor.pipeline.binlog.json_texts import json_text
from auditor.pipeline.binlog.table_map import Column, TableMap
from auditor.pipeline.float_texts import double_text, float_text

Extend = Callable[[tuple[str | None, ...]], None]

Decoder = Callable[[bytes, int, int, Extend, Extend], int]
"""Takes a buffer, where the rows begin and end in it, and two functions that take the texts of a row in turn; they are the same function
where there is one image per row. Returns the number of images. Texts that the log holds in UTF-8 are given as bytes."""

MEMO_SIZE = 100_000
"""Texts that are remembered per kind of value."""


class Memo(dict[Any, str]):
    """Texts by value, made when they are first asked for."""

    def __init__(self, function: Callable[[Any], str]) -> None:
        super().__init__()
        self._function = function

    def __missing__(self, value: Any) -> str:
        if len(self) >= MEMO_SIZE:
            self.clear()
        made = self[value] = self._function(value)
        return made


_COMMON: dict[str, Any] = {
    "integer": int.from_bytes,
    "dates": Memo(lambda data: text.date_text(int.from_bytes(data, "little"))),
    "month_days": Memo(text.month_day_text),
    "clocks": Memo(text.clock_text),
    "days": Memo(text.day_text),
    "seconds": Memo(text.second_text),
    "YEARS": ("0000", *(str(1900 + year) for year in range(1, 256))),
    "float_text": Memo(float_text),
    "double_text": double_text,
    "json_text": json_text,
    "uncompressed": uncompressed_column,
}


HIDDEN_TEXTS: Mapping[str, Callable[[bytes], str]] = {
    "uuid": lambda data: str(uuid.UUID(bytes=data.ljust(16, b"\0"))),
    "inet4": lambda data: socket.inet_ntop(socket.AF_INET, data.ljust(4, b"\0")),
    "inet6": lambda data: socket.inet_ntop(socket.AF_INET6, data.ljust(16, b"\0")),
}
"""Texts of the types that the log describes as BINARY."""


@dataclass
class _Code:
    """How to decode one column.

    A fixed one has ``codes``, of ``struct``, for the values r<number>a, r<number>b; a variable one has ``lines``, which move ``o`` on.
    ``value`` is an expression for its text.
    """

    value: str
    codes: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    names: dict[str, Any] = field(default_factory=dict)


def make_decoder(table: TableMap) -> Decoder:
    """Return the function that decodes rows of a table of which all columns are logged. Raises LogRefused, without a place."""
    codes = [_code(number, column) for number, column in enumerate(table.columns)]
    scope = dict(_COMMON)
    for code in codes:
        scope |= code.names
    mask_bytes = (len(codes) + 7) // 8
    lines = [
        "def decode(b, o, end, one, other):",
        "  count = 0",
        "  while o < end:",
        f"    nulls = b[o] & {(1 << len(codes)) - 1}"
        if mask_bytes == 1
        else f"    nulls = integer(b[o:o + {mask_bytes}], 'little') & {(1 << len(codes)) - 1}",
        f"    o += {mask_bytes}",
        "    if nulls:",
        *("      " + line for line in _with_nulls(table.columns, codes, scope)),
        "    else:",
        *("      " + line for line in _without_nulls(codes, scope)),
        "    one, other = other, one",
        "    count += 1",
        "  if o != end: raise ValueError('rows do not end where their event does')",
        "  return count",
    ]
    exec("\n".join(lines), scope)
    decode: Decoder = scope["decode"]
    return decode


def _without_nulls(codes: list[_Code], scope: dict[str, Any]) -> list[str]:
    lines: list[str] = []
    number = 0
    while number < len(codes):
        last = number
        while last < len(codes) and codes[last].codes:
            last += 1
        if last > number:
            lines += _unpack(codes, range(number, last), scope)
        if last < len(codes):
            lines += codes[last].lines
        number = last + 1
    return [*lines, f"one(({', '.join(code.value for code in codes)},))"]


def _with_nulls(columns: tuple[Column, ...], codes: list[_Code], scope: dict[str, Any]) -> list[str]:
    lines: list[str] = []
    for number, code in enumerate(codes):
        unpacked = _unpack(codes, range(number, number + 1), scope) if code.codes else list(code.lines)
        lines.append(f"if nulls & {1 << number}: t{number} = None")
        lines += ["else:", *(f"  {line}" for line in unpacked), f"  t{number} = {code.value}"]
    return [*lines, f"one(({', '.join(f't{number}' for number in range(len(columns)))},))"]


def _unpack(codes: list[_Code], numbers: range, scope: dict[str, Any]) -> list[str]:
    """Return the lines that unpack columns of fixed length together."""
    layout = struct.Struct("<" + "".join(code for number in numbers for code in codes[number].codes))
    name = f"unpack_{layout.format.strip('<')}"
    scope[name] = layout.unpack_from
    targets = [f"r{number}{'abcd'[part]}" for number in numbers for part in range(len(codes[number].codes))]
    return [f"{', '.join(targets)}, = {name}(b, o)", f"o += {layout.size}"]


def _code(number: int, column: Column) -> _Code:  # a table of types
    raw, meta = f"r{number}a", column.meta
    if column.type in _INTEGER_CODES:
        code = _INTEGER_CODES[column.type]
        return _Code(f'f"{{{raw}}}"', (code.upper() if column.unsigned else code,))
    match column.type:
        case types.INT24:
            return _Code(f'f"{{{raw} | r{number}b << 16}}"', ("H", "B" if column.unsigned else "b"))
        case types.FLOAT:
            return _Code(f"float_text[{raw}]", ("f",))
        case types.DOUBLE:
            return _Code(f"double_text({raw})", ("d",))
        case types.YEAR:
            return _Code(f"YEARS[{raw}]", ("B",))
        case types.NEWDECIMAL:
            return _decimal(number, meta & 0xFF, meta >> 8)
        case types.DATE | types.NEWDATE:
            return _Code(f"dates[{raw}]", ("3s",))
        case types.DATETIME2 | types.TIMESTAMP2 | types.TIME2:
            return _time(number, column.type, meta)
        case types.DATETIME | types.TIMESTAMP | types.TIME:
            return _old_time(number, column.type)
        case types.ENUM:
            return _Code(f"labels{number}[{raw}]", ("B" if meta == 1 else "H",), names={f"labels{number}": ("", *column.labels)})
        case types.SET:
            return _Code(f"labels{number}[{raw}]", (f"{meta}s",), names={f"labels{number}": Memo(_set_text(column.labels))})
        case types.BIT:
            return _Code(f"f\"{{integer({raw}, 'big')}}\"", (f"{(meta >> 8) + bool(meta & 0xFF)}s",))
        case types.JSON:
            return _variable(number, meta, f"json_text(v{number})")
        case types.GEOMETRY:
            return _variable(number, meta, f"v{number}.hex()")
        case types.VECTOR:
            raise LogRefused(f"column {column.name} is a VECTOR, which is not replicated; leave the table out")
    if column.hidden_type:
        return _hidden(number, column)
    if column.type in types.CHARACTER_TYPES:
        return _characters(number, column)
    raise LogRefused(f"column {column.name} has the type {column.type}, which is not known; leave the table out")


_INTEGER_CODES = {types.TINY: "b", types.SHORT: "h", types.LONG: "i", types.LONGLONG: "q"}


def _decimal(number: int, precision: int, scale: int) -> _Code:
    size = text.decimal_size(precision, scale)
    top, name = 1 << 8 * size - 1, f"decimal_{precision}_{scale}"
    scope: dict[str, Any] = {}
    exec(f"def positive(v): return {text.decimal_expression(precision, scale, 'v')}", scope)
    value = f"{name}(n ^ {top}) if (n := integer(r{number}a, 'big')) & {top} else '-' + {name}(n ^ {top - 1})"
    return _Code(f"({value})", (f"{size}s",), names={name: scope["positive"]})


def _time(number: int, kind: int, digits: int) -> _Code:
    raw, size = f"r{number}a", (digits + 1) // 2
    # The fraction is stored with an even number of digits.
    shown = f" + f\".{{integer(r{number}b, 'big'):0{2 * size}d}}\"" + ("[:-1]" if digits % 2 else "") if size else ""
    codes = (f"{size}s",) if size else ()
    if kind == types.DATETIME2:
        value = f"month_days[(n := integer({raw}, 'big')) >> 17 & {0x3FFFFF}] + clocks[n & {0x1FFFF}]"
        return _Code(f"({value}{shown})", ("5s", *codes))
    if kind == types.TIMESTAMP2:
        value = f"days[n // 86400] + seconds[n % 86400] if (n := integer({raw}, 'big')) else '0000-00-00 00:00:00'"
        return _Code(f"(({value}){shown})", ("4s", *codes))
    name = f"times{digits}"
    return _Code(f"{name}[{raw}]", (f"{3 + size}s",), names={name: Memo(lambda data: text.time_text(int.from_bytes(data, "big"), digits))})


def _old_time(number: int, kind: int) -> _Code:
    """Decode a time of the format before MySQL 5.6, which MariaDB has with mysql56_temporal_format=OFF; it has no fraction."""
    raw = f"r{number}a"
    if kind == types.TIMESTAMP:
        return _Code(f"(days[{raw} // 86400] + seconds[{raw} % 86400] if {raw} else '0000-00-00 00:00:00')", ("I",))
    if kind == types.DATETIME:
        return _Code(f"old_datetimes[{raw}]", ("Q",), names={"old_datetimes": Memo(_old_datetime_text)})
    return _Code(f"old_times[{raw}]", ("3s",), names={"old_times": Memo(_old_time_text)})


def _old_datetime_text(value: int) -> str:
    digits = f"{value:014d}"
    return f"{digits[:4]}-{digits[4:6]}-{digits[6:8]} {digits[8:10]}:{digits[10:12]}:{digits[12:]}"


def _old_time_text(data: bytes) -> str:
    value = int.from_bytes(data, "little", signed=True)
    sign, value = ("-", -value) if value < 0 else ("", value)
    return f"{sign}{value // 10000:02d}:{value // 100 % 100:02d}:{value % 100:02d}"


def _set_text(labels: tuple[str, ...]) -> Callable[[bytes], str]:
    def joined(data: bytes) -> str:
        bits = int.from_bytes(data, "little")
        return ",".join(label for place, label in enumerate(labels) if bits >> place & 1)

    return joined


def _variable(number: int, size_bytes: int, value: str) -> _Code:
    """Decode a value after its length, which takes so many bytes."""
    length = {1: "b[o]", 2: "b[o] | b[o + 1] << 8"}.get(size_bytes, f"integer(b[o:o + {size_bytes}], 'little')")
    return _Code(value, lines=(f"o += {size_bytes} + (n := {length})", f"v{number} = b[o - n:o]"))


def _hidden(number: int, column: Column) -> _Code:
    """Decode a value of a type that the log describes as BINARY; its trailing zero bytes are left out there."""
    name = f"{column.hidden_type}_text"
    code = _variable(number, 1, f"{name}(v{number})")
    code.names[name] = HIDDEN_TEXTS[column.hidden_type]
    return code


def _characters(number: int, column: Column) -> _Code:
    size_bytes = column.meta if column.type in (types.BLOB, types.BLOB_COMPRESSED) else 1 if column.meta < 256 else 2
    value = f"v{number}"
    names: dict[str, Any] = {}
    if column.type in (types.BLOB_COMPRESSED, types.VARCHAR_COMPRESSED):
        value = f"uncompressed({value})"
    if not column.is_text:
        value += ".hex()"
        if column.type == types.STRING:  # the log leaves trailing zero bytes out
            value += f".ljust({2 * column.meta}, '0')"
    elif (charset := column.charset) not in UTF8:
        decode = decoder(charset) if charset else None
        if decode is None:
            raise LogRefused(
                f"column {column.name} has the character set {charset or f'of collation {column.collation}'}, which is not known;"
                " convert it to utf8mb4, or leave the table out"
            )
        names[f"decode_{charset}"] = decode
        value = f"decode_{charset}({value})"
    else:
        value += ".decode()"
    code = _variable(number, size_bytes, value)
    code.names |= names
    return code
