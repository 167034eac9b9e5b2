"""Values of columns in messages, as Debezium's MySQL connector writes them: the Connect schema of each type, and conversions both ways.

A text of an event (see `auditor.pipeline.events`) becomes a value of an Arrow array of the schema's type, and this is printed into JSON or
handed to Avro; and back. Whole columns are converted at once.

Zero dates (``0000-00-00``, also ``2024-00-10``, and any date in the year 0) are NULL, or 1970-01-01 in a column that is NOT NULL, and the
year 0000 is 1900, as Debezium writes them. https://debezium.io/documentation/reference/3.6/connectors/mysql.html#mysql-data-types
"""

from __future__ import annotations

import re
import struct as packing
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from auditor.config import MessageSettings
from auditor.errors import ColumnRefused, MessageRefused, ValueRefused
from auditor.pipeline.events import ColumnSchema
from auditor.pipeline.float_texts import double_text, float_text
from auditor.pipeline.messages import byte_texts
from auditor.pipeline.messages.connect_schemas import DECIMAL, PRECISION, Schema, list_parameter, split_parameter

SECOND = 1_000_000
DAY = 86_400 * SECOND

FIRST_MOMENT, LAST_MOMENT = -62_135_596_800 * SECOND, 253_402_300_800 * SECOND - 1
"""The years 1 to 9999 in microseconds since 1970."""

SOURCE_TYPE, SOURCE_LENGTH, SOURCE_SCALE, SOURCE_NAME = (f"__debezium.source.column.{name}" for name in ("type", "length", "scale", "name"))
"""Parameters by which a schema says the type of the column in the source, and its name."""

_ARROW = {"float": pa.float32(), "double": pa.float64(), "boolean": pa.bool_(), "string": pa.string(), "bytes": pa.binary(),
          "struct": pa.binary()} | {f"int{bits}": pa.int64() for bits in (8, 16, 32, 64)}  # fmt: skip
_PYTHON: dict[str, set[type]] = {"float": {float, int}, "double": {float, int}, "boolean": {bool}, "string": {str}, "bytes": {bytes}}

_TYPE = re.compile(r"(\w+)(?:\((.*)\))?(?: (unsigned))?(?: zerofill)?", re.DOTALL)


class ColumnValues:
    """How the values of a column are written into messages and read from them.

    ``schema`` is the Connect schema, ``type`` the MySQL type. Methods that write raise ValueRefused for a value that the message cannot
    hold, methods that read ValueError.
    """

    is_safe = False
    """Whether texts have no character that JSON escapes."""

    def __init__(self, schema: Schema, type: str, name: str = "") -> None:
        self.schema, self.type, self.name = schema, type, name
        self.arrow = _ARROW[schema.type]

    def typed(self, texts: pa.Array) -> pa.Array:
        """Return texts of events as values."""
        return pc.cast(texts, self.arrow)

    def texts(self, values: pa.Array) -> pa.Array:
        """Return values as texts of events."""
        return pc.cast(values, pa.string())

    def write(self, texts: pa.Array) -> pa.Array:
        """Return texts of events as values. Raises ValueRefused, which names the column."""
        try:
            return self.typed(texts)
        except (pa.ArrowInvalid, ValueError) as error:
            raise ValueRefused(f"column {self.name!r}, {self.type}: {str(error)[:200]}") from None

    def json(self, texts: pa.Array) -> pa.Array:
        """Return texts of events as JSON; NULL stays NULL."""
        return self._print(self.write(texts))

    def _print(self, values: pa.Array) -> pa.Array:
        kind = self.schema.type
        if kind == "string":
            return byte_texts.quote(values, is_safe=self.is_safe)
        if kind == "bytes":
            return byte_texts.quote(byte_texts.to_base64(values), is_safe=True)
        printed = pc.cast(values, pa.string())
        if kind in ("float", "double"):  # a reader without a schema then takes them all for the same type
            return pc.replace_substring_regex(printed, r"^(-?[0-9]+)$", r"\1.0")
        return printed

    def avro(self, texts: pa.Array) -> list[Any]:
        """Return texts of events as Python's values, which Avro encodes."""
        return list(self.write(texts).to_pylist())

    def read_json(self, values: Sequence[Any]) -> pa.Array:
        """Return values that JSON had as texts of events."""
        if self.schema.type == "bytes":
            _check(values, {str})
            return self.texts(byte_texts.from_base64(pa.array(values, pa.string())))
        return self.read_avro(values)

    @property
    def json_type(self) -> pa.DataType | None:
        """The Arrow type as which values in JSON are parsed; None if they are objects."""
        kind = self.schema.type
        return None if kind == "struct" else pa.string() if kind == "bytes" else pa.float64() if kind == "float" else self.arrow

    def read_parsed(self, values: pa.Array) -> pa.Array:
        """Return values of ``json_type`` as texts of events."""
        if self.schema.type == "bytes":
            return self.texts(byte_texts.from_base64(values))
        return self.texts(pc.cast(values, self.arrow, safe=False))

    def read_avro(self, values: Sequence[Any]) -> pa.Array:
        """Return values that Avro had as texts of events."""
        _check(values, _PYTHON.get(self.schema.type, {int}))
        try:
            return self.texts(pa.array(values, self.arrow))
        except OverflowError as error:
            raise ValueError(str(error)) from None


def _check(values: Iterable[Any], expected: set[type]) -> None:
    if found := {*map(type, values)} - expected - {type(None)}:
        names = " or ".join(sorted(one.__name__ for one in expected))
        raise ValueError(f"{next(iter(found)).__name__} where {names} is expected")


class _Integers(ColumnValues):
    """Integers; those of BIGINT UNSIGNED in 64 bits with a sign."""

    def typed(self, texts: pa.Array) -> pa.Array:
        if self.type == "bigint unsigned":
            return pc.cast(texts, pa.uint64()).view(pa.int64())
        return pc.cast(texts, pa.int64())

    def texts(self, values: pa.Array) -> pa.Array:
        return pc.cast(values.view(pa.uint64()) if self.type == "bigint unsigned" else values, pa.string())


class _Years(ColumnValues):
    def typed(self, texts: pa.Array) -> pa.Array:
        years = pc.cast(texts, pa.int64())
        return pc.if_else(pc.equal(years, 0), 1900, years)

    def texts(self, values: pa.Array) -> pa.Array:
        return pc.utf8_lpad(pc.cast(pc.if_else(pc.equal(values, 1900), 0, values), pa.string()), 4, "0")


class _Floats(ColumnValues):
    def texts(self, values: pa.Array) -> pa.Array:
        if not _all(pc.is_finite(values)):
            raise ValueError("a number that is not finite")
        if self.schema.type == "float":
            return pa.array([None if value is None else float_text(value) for value in values.to_pylist()], pa.string())
        texts = pc.cast(values, pa.string())  # as the server prints them, unless with an exponent
        has_exponent = pc.match_substring(texts, "e").fill_null(False)
        if pc.any(has_exponent).as_py():
            others = pa.array([double_text(value) for value in values.filter(has_exponent).to_pylist()], pa.string())
            texts = pc.replace_with_mask(texts, has_exponent, others)
        return texts


class _Decimals(ColumnValues):
    """Connect's Decimal: the unscaled integer as bytes."""

    @property
    def scale(self) -> int:
        """Digits after the point."""
        return int(self.schema.parameter("scale") or 0)

    def typed(self, texts: pa.Array) -> pa.Array:
        digits = int(self.schema.parameter(PRECISION) or 65)
        kind = pa.decimal128(digits, self.scale) if digits <= 38 else pa.decimal256(digits, self.scale)
        return byte_texts.shortest_signed(pc.cast(texts, kind))

    def texts(self, values: pa.Array) -> pa.Array:
        scale, precision = self.scale, int(self.schema.parameter(PRECISION) or 65)
        if precision <= 38 and (unscaled := byte_texts.from_signed(values)) is not None:
            size = pc.abs(unscaled)
            if not _all(pc.less(size, pa.scalar(10**precision, pa.decimal256(40, 0)))):
                raise ValueError(f"a number of more digits than {self.type} has")
            digits, sign = pc.utf8_lpad(pc.cast(size, pa.string()), scale + 1, "0"), pc.if_else(pc.less(unscaled, 0), "-", "")
            if not scale:
                return pc.binary_join_element_wise(sign, digits, "")
            whole, fraction = pc.utf8_slice_codeunits(digits, 0, -scale), pc.utf8_slice_codeunits(digits, -scale)
            return pc.binary_join_element_wise(sign, whole, pa.scalar("."), fraction, "")
        numbers = [None if value is None else int.from_bytes(value, "big", signed=True) for value in values.to_pylist()]
        most = 10**precision
        if any(number is not None and abs(number) >= most for number in numbers):
            raise ValueError(f"a number of more digits than {self.type} has")
        texts = [None if number is None else _point(number, scale) for number in numbers]
        return pa.array(texts, pa.string())


def _point(number: int, scale: int) -> str:
    digits = f"{abs(number):0{scale + 1}d}"
    sign = "-" if number < 0 else ""
    return f"{sign}{digits[:-scale]}.{digits[-scale:]}" if scale else f"{sign}{digits}"


class _DecimalTexts(ColumnValues):
    """DECIMAL as a text, which is the event's."""

    is_safe = True

    def typed(self, texts: pa.Array) -> pa.Array:
        return texts

    def texts(self, values: pa.Array) -> pa.Array:
        if not _all(pc.match_substring_regex(values, r"^-?[0-9]+(\.[0-9]+)?$").fill_null(True)):
            raise ValueError("no decimal number")
        return values


class _DecimalDoubles(ColumnValues):
    """DECIMAL as the next double, which loses digits; read back with the column's scale."""

    def typed(self, texts: pa.Array) -> pa.Array:
        return pc.cast(texts, pa.float64())

    def texts(self, values: pa.Array) -> pa.Array:
        scale = int((re.search(r",(\d+)\)", self.type) or ["", "0"])[1])
        return pa.array([None if value is None else f"{value:.{scale}f}" for value in values.to_pylist()], pa.string())


class _Booleans(ColumnValues):
    """BIT(1)."""

    def typed(self, texts: pa.Array) -> pa.Array:
        return pc.equal(texts, "1")

    def texts(self, values: pa.Array) -> pa.Array:
        return pc.if_else(values, "1", "0")


class _Bits(ColumnValues):
    """BIT of several bits: bytes, the lowest first."""

    def typed(self, texts: pa.Array) -> pa.Array:
        return byte_texts.little_endian(pc.cast(texts, pa.uint64()), (int(self.schema.parameter("length") or 64) + 7) // 8)

    def texts(self, values: pa.Array) -> pa.Array:
        numbers = [None if value is None else int.from_bytes(value, "little") for value in values.to_pylist()]
        if any(number is not None and number >> int(self.schema.parameter("length") or 64) for number in numbers):
            raise ValueError(f"more bits than {self.type} has")
        return pa.array([None if number is None else str(number) for number in numbers], pa.string())


class _Texts(ColumnValues):
    """Characters, labels and documents."""

    def typed(self, texts: pa.Array) -> pa.Array:
        return texts

    def texts(self, values: pa.Array) -> pa.Array:
        return values


class _Bytes(ColumnValues):
    def typed(self, texts: pa.Array) -> pa.Array:
        return byte_texts.from_hex(texts)

    def texts(self, values: pa.Array) -> pa.Array:
        return byte_texts.to_hex(values)


class _BytesAsTexts(ColumnValues):
    """BINARY and BLOB as base64 or hexadecimal digits in a text."""

    is_safe = True

    def __init__(self, schema: Schema, type: str, name: str, mode: str) -> None:
        super().__init__(schema, type, name)
        self._mode = mode

    def typed(self, texts: pa.Array) -> pa.Array:
        if self._mode == "hex":
            return texts
        return byte_texts.to_base64(byte_texts.from_hex(texts), url_safe=self._mode == "base64-url-safe")

    def texts(self, values: pa.Array) -> pa.Array:
        if self._mode == "hex":
            return byte_texts.to_hex(byte_texts.from_hex(values))
        return byte_texts.to_hex(byte_texts.from_base64(values, url_safe=self._mode == "base64-url-safe"))


class _Dates(ColumnValues):
    """DATE as days since 1970."""

    def typed(self, texts: pa.Array) -> pa.Array:
        return pc.cast(pc.cast(_without_zero_dates(texts, self.schema, "1970-01-01"), pa.date32()), pa.int32()).cast(pa.int64())

    def texts(self, values: pa.Array) -> pa.Array:
        _check_range(values, FIRST_MOMENT // DAY, LAST_MOMENT // DAY)
        return pc.cast(pc.cast(pc.cast(values, pa.int32()), pa.date32()), pa.string())


class _Moments(ColumnValues):
    """DATETIME as a number of units since 1970, of which a second has ``unit``."""

    def __init__(self, schema: Schema, type: str, name: str, unit: int) -> None:
        super().__init__(schema, type, name)
        self._unit, self._digits = unit, digits_of(type)

    def typed(self, texts: pa.Array) -> pa.Array:
        moments = pc.cast(_without_zero_dates(texts, self.schema, "1970-01-01 00:00:00"), pa.timestamp("us")).cast(pa.int64())
        if self._unit > SECOND:
            _check_range(moments, -(2**63) // 1000 + 1, (2**63 - 1) // 1000)
        return _to_unit(moments, self._unit)

    def texts(self, values: pa.Array) -> pa.Array:
        return _moment_texts(_from_unit(values, self._unit), self._digits)


class _IsoTexts(ColumnValues):
    """DATE, DATETIME and TIME of a day as ISO 8601 in UTC, without zeros at the end of a fraction."""

    is_safe = True

    def typed(self, texts: pa.Array) -> pa.Array:
        kind = self.type.partition("(")[0]
        if kind == "time":
            if not _all(pc.match_substring_regex(texts, r"^([01][0-9]|2[0-3]):").fill_null(True)):
                raise ValueError("a time that is none of a day, which isostring cannot hold; write times: adaptive_time_microseconds")
        else:
            texts = _without_zero_dates(texts, self.schema, "1970-01-01" if kind == "date" else "1970-01-01 00:00:00")
        if digits_of(self.type):
            has_point = pc.match_substring(texts, ".")
            texts = pc.if_else(has_point, pc.replace_substring_regex(texts, r"\.?0*$", "", max_replacements=1), texts)
        if kind == "datetime":
            texts = pc.utf8_replace_slice(texts, 10, 11, "T")
        return pc.binary_join_element_wise(texts, pa.scalar("Z"), "")

    def texts(self, values: pa.Array) -> pa.Array:
        kind, digits = self.type.partition("(")[0], digits_of(self.type)
        if kind == "date":
            form = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}Z$"
        else:
            form = (r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T" if kind == "datetime" else "^") + r"[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?Z$"
        if not _all(pc.match_substring_regex(values, form).fill_null(True)):
            raise ValueError(f"no {kind} of ISO 8601 in UTC")
        texts = pc.utf8_rtrim(values, "Z")
        if kind == "datetime":
            texts = pc.utf8_replace_slice(texts, 10, 11, " ")
        return texts if kind == "date" else _fill_fraction(texts, digits, 19 if kind == "datetime" else 8)


class _Zoned(ColumnValues):
    """TIMESTAMP as ISO 8601 in UTC, with the column's digits."""

    is_safe = True

    def typed(self, texts: pa.Array) -> pa.Array:
        moments = _without_zero_dates(texts, self.schema, "1970-01-01 00:00:00")
        return pc.binary_join_element_wise(pc.utf8_replace_slice(moments, 10, 11, "T"), pa.scalar("Z"), "")

    def texts(self, values: pa.Array) -> pa.Array:
        digits = digits_of(self.type)
        in_utc = pc.match_substring_regex(values, r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?Z$")
        if not _all(in_utc.fill_null(True)):
            values = pa.array([None if value is None else _to_utc(value) for value in values.to_pylist()], pa.string())
        return _fill_fraction(pc.utf8_replace_slice(pc.utf8_rtrim(values, "Z"), 10, 11, " "), digits, 19)


def _to_utc(text: str) -> str:
    """Return a moment with its zone in UTC. Raises ValueError for one without a zone, or with digits below microseconds."""
    match = re.fullmatch(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d(?::\d\d)?)(?:\.(\d{1,9}))?(Z|[+-]\d\d:?\d\d)", text)
    if match is None or (match[3] or "")[6:].strip("0"):
        raise ValueError(f"{text[:60]!r} is no moment with a zone, or has digits below microseconds")
    moment = datetime.fromisoformat(f"{match[1]}T{match[2]}.{(match[3] or '0')[:6].ljust(6, '0')}".replace("Z", ""))  # no zone yet
    zone = datetime.strptime(match[4].replace("Z", "+0000"), "%z").utcoffset()
    assert zone is not None
    return f"{(moment - zone).isoformat(timespec='microseconds')}Z"


class _Times(ColumnValues):
    """TIME as a number of units, of which a second has ``unit``: negative, or above a day, unless it is Connect's Time."""

    def __init__(self, schema: Schema, type: str, name: str, unit: int) -> None:
        super().__init__(schema, type, name)
        self._unit, self._digits = unit, digits_of(type)

    def typed(self, texts: pa.Array) -> pa.Array:
        body, fraction = pc.utf8_ltrim(texts, "-"), self._digits + 1 if self._digits else 0
        tail = pc.utf8_slice_codeunits(body, -5 - fraction)
        total = pc.multiply(pc.cast(pc.utf8_slice_codeunits(body, 0, -6 - fraction), pa.int64()), 3600 * SECOND)
        total = pc.add(total, pc.multiply(pc.cast(pc.utf8_slice_codeunits(tail, 0, 2), pa.int64()), 60 * SECOND))
        total = pc.add(total, pc.multiply(pc.cast(pc.utf8_slice_codeunits(tail, 3, 5), pa.int64()), SECOND))
        if fraction:
            total = pc.add(total, pc.multiply(pc.cast(pc.utf8_slice_codeunits(tail, 6), pa.int64()), 10 ** (6 - self._digits)))
        total = pc.if_else(pc.starts_with(texts, "-"), pc.negate(total), total)
        if self.schema.type == "int32":
            _check_range(total, 0, DAY - 1, "; write times: adaptive_time_microseconds")
        return _to_unit(total, self._unit)

    def texts(self, values: pa.Array) -> pa.Array:
        micros = _from_unit(values, self._unit)
        _check_range(micros, -839 * 3600 * SECOND + 1, 839 * 3600 * SECOND - 1)
        size = pc.abs(micros)
        parts = [(3600 * SECOND, 839, 2), (60 * SECOND, 60, 2), (SECOND, 60, 2), (1, SECOND, 6)]
        pieces = [_padded(pc.divide(size, unit), most, width) for unit, most, width in parts]
        sign = pc.if_else(pc.less(micros, 0), "-", "")
        texts = pc.binary_join_element_wise(sign, pieces[0], pa.scalar(":"), pieces[1], pa.scalar(":"), pieces[2], "")
        if not self._digits:
            _check_fraction(micros, 0)
            return texts
        _check_fraction(micros, self._digits)
        return pc.binary_join_element_wise(texts, pa.scalar("."), pc.utf8_slice_codeunits(pieces[3], 0, self._digits), "")


def _padded(numbers: pa.Array, most: int, width: int) -> pa.Array:
    rest = pc.subtract(numbers, pc.multiply(pc.divide(numbers, most), most))
    return pc.utf8_lpad(pc.cast(rest, pa.string()), width, "0")


class _Geometries(ColumnValues):
    """Spatial values: WKB and SRID, of POINT also its coordinates. Their Arrow value is the event's: the SRID in four bytes, and WKB."""

    def typed(self, texts: pa.Array) -> pa.Array:
        return byte_texts.from_hex(texts)

    def texts(self, values: pa.Array) -> pa.Array:
        return byte_texts.to_hex(values)

    def _parts(self, value: bytes) -> dict[str, Any]:
        srid, wkb = int.from_bytes(value[:4], "little"), value[4:]
        if self.type != "point":
            return {"wkb": wkb, "srid": srid or None}
        if len(wkb) != 21:
            raise ValueRefused(f"column {self.name!r}: a POINT whose WKB has {len(wkb)} bytes")
        x, y = packing.unpack("<dd" if wkb[0] else ">dd", wkb[5:])
        return {"x": x, "y": y, "wkb": wkb, "srid": srid or None}

    def avro(self, texts: pa.Array) -> list[Any]:
        return [None if value is None else self._parts(value) for value in self.write(texts).to_pylist()]

    def _print(self, values: pa.Array) -> pa.Array:
        return pa.array([None if value is None else self._json(self._parts(value)) for value in values.to_pylist()], pa.string())

    def _json(self, parts: dict[str, Any]) -> str:
        wkb = byte_texts.to_base64(pa.array([parts["wkb"]], pa.binary()))[0].as_py()
        place = f'"x":{parts["x"]!r},"y":{parts["y"]!r},' if "x" in parts else ""
        return f'{{{place}"wkb":"{wkb}","srid":{"null" if parts["srid"] is None else parts["srid"]}}}'

    def read_json(self, values: Sequence[Any]) -> pa.Array:
        _check(values, {dict})
        wkb = byte_texts.from_base64(pa.array([None if value is None else value.get("wkb") for value in values], pa.string())).to_pylist()
        return self.read_avro([None if value is None else {**value, "wkb": one} for value, one in zip(values, wkb, strict=True)])

    def read_avro(self, values: Sequence[Any]) -> pa.Array:
        _check(values, {dict})
        if any(value is not None and not isinstance(value.get("wkb"), bytes) for value in values):
            raise ValueError("a geometry without wkb")
        whole = [None if value is None else (value.get("srid") or 0).to_bytes(4, "little") + value["wkb"] for value in values]
        return self.texts(pa.array(whole, pa.binary()))


def _without_zero_dates(texts: pa.Array, schema: Schema, epoch: str) -> pa.Array:
    """Return dates without those that are none: NULL, or the epoch where NULL is not allowed."""
    month, day = pc.utf8_slice_codeunits(texts, 5, 7), pc.utf8_slice_codeunits(texts, 8, 10)
    is_zero = pc.or_(pc.or_(pc.equal(month, "00"), pc.equal(day, "00")), pc.starts_with(texts, "0000"))
    if not pc.any(is_zero).as_py():
        return texts
    return pc.if_else(is_zero.fill_null(False), pa.scalar(None if schema.optional else epoch, pa.string()), texts)


def _all(conditions: pa.Array) -> bool:
    """Return whether all conditions hold that are not NULL."""
    return bool(pc.all(conditions, min_count=0).as_py())


def _to_unit(micros: pa.Array, unit: int) -> pa.Array:
    if unit == SECOND:
        return micros
    if unit > SECOND:
        return pc.multiply_checked(micros, unit // SECOND)
    floored = micros.fill_null(0).to_numpy() // (SECOND // unit)  # as Java's floorDiv; Arrow's division goes towards 0
    return pa.array(floored, mask=micros.is_null().to_numpy(zero_copy_only=False))


def _from_unit(values: pa.Array, unit: int) -> pa.Array:
    """Return microseconds. Raises ValueError for digits below them."""
    if unit <= SECOND:
        return pc.multiply_checked(values, SECOND // unit)
    micros = pc.divide(values, unit // SECOND)
    if not _all(pc.equal(pc.multiply(micros, unit // SECOND), values)):
        raise ValueError("digits below microseconds")
    return micros


def _check_range(values: pa.Array, least: int, most: int, way_out: str = "") -> None:
    ends = pc.min_max(values).as_py()
    if ends["min"] is not None and (ends["min"] < least or ends["max"] > most):
        raise ValueError(f"{ends['min'] if ends['min'] < least else ends['max']} is outside of {least} to {most}{way_out}")


def _check_fraction(micros: pa.Array, digits: int) -> None:
    step = 10 ** (6 - digits)
    if step > 1 and not _all(pc.equal(pc.multiply(pc.divide(micros, step), step), micros)):
        raise ValueError(f"more than {digits} digits of a second")


def _moment_texts(micros: pa.Array, digits: int) -> pa.Array:
    _check_range(micros, FIRST_MOMENT, LAST_MOMENT)
    _check_fraction(micros, digits)
    return pc.utf8_slice_codeunits(pc.cast(pc.cast(micros, pa.timestamp("us")), pa.string()), 0, 20 + digits if digits else 19)


def _fill_fraction(texts: pa.Array, digits: int, whole: int) -> pa.Array:
    """Return times with so many digits of a second. Raises ValueError if there are more."""
    seconds, fraction = pc.utf8_slice_codeunits(texts, 0, whole), pc.utf8_slice_codeunits(texts, whole + 1)
    rest = pc.utf8_slice_codeunits(fraction, digits)
    if not _all(pc.match_substring_regex(rest, "^0*$").fill_null(True)):
        raise ValueError(f"more than {digits} digits of a second")
    if not digits:
        return seconds
    return pc.binary_join_element_wise(seconds, pa.scalar("."), pc.utf8_slice_codeunits(pc.utf8_rpad(fraction, digits, "0"), 0, digits), "")


def digits_of(type: str) -> int:
    """Return the digits of a second that a type of times has."""
    match = re.search(r"\((\d)\)", type)
    return int(match[1]) if match else 0


_INTEGER_TYPES = {"tinyint": "int16", "smallint": "int16", "smallint unsigned": "int32", "mediumint": "int32", "int": "int32",
                  "int unsigned": "int64", "bigint": "int64", "tinyint unsigned": "int16", "mediumint unsigned": "int32",
                  "bigint unsigned": "int64"}  # fmt: skip
_TEXT_TYPES = {"char", "varchar", "tinytext", "text", "mediumtext", "longtext", "uuid", "inet4", "inet6"}
_BYTE_TYPES = {"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"}
_SPATIAL = {"geometry", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon", "geometrycollection", "geomcollection"}

_TIMES = "io.debezium.time."
_CONNECT = "org.apache.kafka.connect.data."
_MILLI, _MICRO, _NANO = 1000, SECOND, 1000 * SECOND


def of_column(column: ColumnSchema, settings: MessageSettings) -> ColumnValues:
    """Return how a column's values are written. Raises ColumnRefused for a type that no message holds: VECTOR, and unknown ones."""
    values = _of_type(column, settings)
    if settings.source_types:
        values.schema = replace(values.schema, parameters=(*values.schema.parameters, *_source_type(column)))
    return values


def without_source_type(schema: Schema) -> Schema:
    """Return a schema as keys have it, which do not say the columns' types in the source."""
    parameters = (one for one in schema.parameters if one[0] not in (SOURCE_TYPE, SOURCE_LENGTH, SOURCE_SCALE, SOURCE_NAME))
    return replace(schema, parameters=tuple(parameters))


def _source_type(column: ColumnSchema) -> list[tuple[str, str]]:
    base, inside, unsigned = _parse(column.type)
    sizes = inside.split(",")
    if base in ("enum", "set"):
        sizes = [str(1 if base == "enum" else 2 * len(labels_of(inside)) - 1)]
    found = [(SOURCE_TYPE, f"{base} {unsigned}".strip().upper())]
    if inside:
        found += zip((SOURCE_LENGTH, SOURCE_SCALE), sizes, strict=False)
    return [*found, (SOURCE_NAME, column.name)]


def _parse(type: str) -> tuple[str, str, str]:
    match = _TYPE.fullmatch(type)
    return (match[1], match[2] or "", match[3] or "") if match else (type, "", "")


def _of_type(column: ColumnSchema, settings: MessageSettings) -> ColumnValues:
    base, inside, unsigned = _parse(column.type)
    name, optional = column.name, column.nullable

    def plain(type: str, semantic: str | None = None, **more: Any) -> Schema:
        return Schema(type, optional, semantic, 1 if semantic else None, **more)

    integer = _INTEGER_TYPES.get(f"{base} {unsigned}".strip())
    if integer == "int64" and base == "bigint" and unsigned and settings.unsigned_bigints == "precise":
        return _Decimals(plain("bytes", DECIMAL, parameters=(("scale", "0"), (PRECISION, "20"))), column.type, name)
    if integer:
        return _Integers(plain(integer), f"{base} {unsigned}".strip(), name)
    if base in ("float", "double"):
        return _Floats(plain(base), column.type, name)
    if base == "decimal":
        return _of_decimal(column, inside, settings)
    if base == "bit":
        size = int(inside or 1)
        if size == 1:
            return _Booleans(plain("boolean"), column.type, name)
        return _Bits(plain("bytes", "io.debezium.data.Bits", parameters=(("length", str(size)),)), column.type, name)
    if base == "year" and inside in ("", "4"):
        return _Years(plain("int32", f"{_TIMES}Year"), column.type, name)
    if base in ("date", "time", "datetime"):
        return _of_time(column, base, settings)
    if base == "timestamp":
        return _Zoned(plain("string", f"{_TIMES}ZonedTimestamp"), column.type, name)
    if base in _TEXT_TYPES:
        return _Texts(plain("string"), column.type, name)
    if base in ("enum", "set"):
        semantic = "io.debezium.data.Enum" if base == "enum" else "io.debezium.data.EnumSet"
        return _Texts(plain("string", semantic, parameters=(("allowed", list_parameter(labels_of(inside))),)), column.type, name)
    if base == "json":
        return _Texts(plain("string", "io.debezium.data.Json"), column.type, name)
    if base in _BYTE_TYPES:
        if settings.binary == "bytes":
            return _Bytes(plain("bytes"), column.type, name)
        return _BytesAsTexts(plain("string"), column.type, name, settings.binary)
    if base == "point" or base in _SPATIAL:
        return _Geometries(_geometry(base == "point", optional), column.type, name)
    raise ColumnRefused(f"column {name!r} has the type {column.type}, which no message holds; exclude it")


def labels_of(inside: str) -> list[str]:
    """Return the labels between the brackets of ENUM or SET."""
    return [label.replace("''", "'") for label in re.findall(r"'((?:[^']|'')*)'", inside)]


def _geometry(is_point: bool, optional: bool) -> Schema:
    wkb, srid = ("wkb", Schema("bytes", optional=is_point)), ("srid", Schema("int32", optional=True))
    place = (("x", Schema("double")), ("y", Schema("double"))) if is_point else ()
    name = "Point" if is_point else "Geometry"
    doc = "Geometry (POINT)" if is_point else "Geometry"
    return Schema("struct", optional, f"io.debezium.data.geometry.{name}", 1, doc, fields=(*place, wkb, srid))


def _of_decimal(column: ColumnSchema, inside: str, settings: MessageSettings) -> ColumnValues:
    digits, _, scale = inside.partition(",")
    if settings.decimals == "string":
        return _DecimalTexts(Schema("string", column.nullable), column.type, column.name)
    if settings.decimals == "double":
        return _DecimalDoubles(Schema("double", column.nullable), column.type, column.name)
    parameters = (("scale", scale or "0"), (PRECISION, digits or "10"))
    return _Decimals(Schema("bytes", column.nullable, DECIMAL, 1, parameters=parameters), column.type, column.name)


def _of_time(column: ColumnSchema, base: str, settings: MessageSettings) -> ColumnValues:
    mode, digits = settings.times, digits_of(column.type)

    def named(type: str, name: str) -> Schema:
        return Schema(type, column.nullable, name, 1)

    if mode == "isostring":
        title = {"date": "IsoDate", "time": "IsoTime", "datetime": "IsoTimestamp"}[base]
        return _IsoTexts(named("string", f"{_TIMES}{title}"), column.type, column.name)
    if base == "date":
        return _Dates(named("int32", f"{_CONNECT if mode == 'connect' else _TIMES}Date"), column.type, column.name)
    if mode == "connect":
        if base == "time":
            return _Times(named("int32", f"{_CONNECT}Time"), column.type, column.name, _MILLI)
        return _Moments(named("int64", f"{_CONNECT}Timestamp"), column.type, column.name, _MILLI)
    if mode == "nanoseconds":
        unit, prefix = _NANO, "Nano"
    elif base == "datetime" and digits <= 3 and mode == "adaptive_time_microseconds":
        unit, prefix = _MILLI, ""
    else:
        unit, prefix = _MICRO, "Micro"
    if base == "time":
        return _Times(named("int64", f"{_TIMES}{prefix}Time"), column.type, column.name, unit)
    return _Moments(named("int64", f"{_TIMES}{prefix}Timestamp"), column.type, column.name, unit)


_READ_TIMES: dict[str, tuple[str, Callable[..., ColumnValues], int]] = {
    f"{_TIMES}Time": ("time(3)", _Times, _MILLI),
    f"{_TIMES}MicroTime": ("time(6)", _Times, _MICRO),
    f"{_TIMES}NanoTime": ("time(6)", _Times, _NANO),
    f"{_CONNECT}Time": ("time(3)", _Times, _MILLI),
    f"{_TIMES}Timestamp": ("datetime(3)", _Moments, _MILLI),
    f"{_TIMES}MicroTimestamp": ("datetime(6)", _Moments, _MICRO),
    f"{_TIMES}NanoTimestamp": ("datetime(6)", _Moments, _NANO),
    f"{_CONNECT}Timestamp": ("datetime(3)", _Moments, _MILLI),
}

_READ_TEXTS: dict[str, tuple[str, type[ColumnValues]]] = {
    f"{_TIMES}ZonedTimestamp": ("timestamp(6)", _Zoned),
    f"{_TIMES}IsoDate": ("date", _IsoTexts),
    f"{_TIMES}IsoTime": ("time(6)", _IsoTexts),
    f"{_TIMES}IsoTimestamp": ("datetime(6)", _IsoTexts),
    "io.debezium.data.Json": ("json", _Texts),
    "io.debezium.data.Xml": ("longtext", _Texts),
    "io.debezium.data.Uuid": ("char(36)", _Texts),
}

_READ_TYPES: dict[str, tuple[str, type[ColumnValues]]] = {
    "int8": ("tinyint", _Integers), "int16": ("smallint", _Integers), "int32": ("int", _Integers), "int64": ("bigint", _Integers),
    "float": ("float", _Floats), "double": ("double", _Floats), "boolean": ("bit(1)", _Booleans), "string": ("longtext", _Texts),
    "bytes": ("longblob", _Bytes),
}  # fmt: skip


def of_schema(name: str, schema: Schema, settings: MessageSettings) -> ColumnValues:
    """Return how values of a field are read, and the MySQL type that is closest to its schema, or that the schema names.

    A Decimal without precision has 38 digits. Raises MessageRefused for a schema that no column has.
    """
    if schema.parameter(SOURCE_TYPE) is not None:
        return _of_source_type(name, schema, settings)
    meaning = schema.name
    if meaning == DECIMAL and schema.type == "bytes":
        digits, scale = int(schema.parameter(PRECISION) or 38), int(schema.parameter("scale") or 0)
        known = schema if schema.parameter(PRECISION) else replace(schema, parameters=(*schema.parameters, (PRECISION, "38")))
        return _Decimals(known, f"decimal({digits},{scale})", name)
    if meaning in _READ_TIMES and schema.type in ("int32", "int64"):
        kind, make, unit = _READ_TIMES[meaning]
        return make(schema, kind, name, unit)
    if meaning in (f"{_TIMES}Date", f"{_CONNECT}Date") and schema.type == "int32":
        return _Dates(schema, "date", name)
    if meaning == f"{_TIMES}Year" and schema.type == "int32":
        return _Years(schema, "year", name)
    if meaning == "io.debezium.data.Bits" and schema.type == "bytes":
        return _Bits(schema, f"bit({int(schema.parameter('length') or 64)})", name)
    if meaning in ("io.debezium.data.Enum", "io.debezium.data.EnumSet") and schema.type == "string":
        labels = split_parameter(schema.parameter("allowed") or "")
        listed = ",".join("'" + label.replace("'", "''") + "'" for label in labels)
        return _Texts(schema, f"{'enum' if meaning.endswith('Enum') else 'set'}({listed})", name)
    if meaning in ("io.debezium.data.geometry.Geometry", "io.debezium.data.geometry.Point") and schema.type == "struct":
        return _Geometries(schema, meaning.rpartition(".")[2].lower(), name)
    if meaning in _READ_TEXTS and schema.type == "string":
        kind, of_text = _READ_TEXTS[meaning]
        return of_text(schema, kind, name)
    if meaning is not None or schema.type not in _READ_TYPES:
        raise MessageRefused(f"field {name!r} is {meaning or schema.type} ({schema.type}), which no column has; leave it out")
    kind, of_kind = _READ_TYPES[schema.type]
    return of_kind(schema, kind, name)


def _of_source_type(name: str, schema: Schema, settings: MessageSettings) -> ColumnValues:
    """Return how a field is read whose schema names the column's type. Raises MessageRefused if the value is written in another way."""
    base, length, scale = (schema.parameter(one) for one in (SOURCE_TYPE, SOURCE_LENGTH, SOURCE_SCALE))
    word, _, unsigned = (base or "").lower().partition(" ")
    inside = ",".join(part for part in (length, scale) if part)
    if word in ("enum", "set"):
        inside = ",".join("'" + label.replace("'", "''") + "'" for label in split_parameter(schema.parameter("allowed") or ""))
    if word in ("tinyint", "smallint", "mediumint", "int", "bigint"):
        inside = ""  # how many digits a client shows
    type = f"{word}({inside})" if inside else word
    column = ColumnSchema(name, f"{type} {unsigned.removesuffix('zerofill').strip()}".strip(), schema.optional)
    for form in (settings, *_FORMS):
        try:
            found = _of_type(column, form)
        except ColumnRefused as error:
            raise MessageRefused(str(error)) from None
        if (found.schema.type, found.schema.name) == (schema.type, schema.name):
            return found
    raise MessageRefused(f"field {name!r} is {schema.name or schema.type}, and no way to write {column.type}")


_FORMS = (
    MessageSettings(),
    MessageSettings(decimals="string", times="connect", unsigned_bigints="precise", binary="base64"),
    MessageSettings(decimals="double", times="isostring"),
    MessageSettings(times="microseconds"),
    MessageSettings(times="nanoseconds"),
)
"""Settings that together write every type in each of its ways."""
