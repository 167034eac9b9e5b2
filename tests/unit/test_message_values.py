"""Values of every type of column survive messages in each format, and JSON is what a plain oracle says of their texts."""

from __future__ import annotations

import base64
import json
import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from auditor.config import MessageFormat, MessageSettings
from auditor.errors import ColumnRefused, ValueRefused
from auditor.pipeline.events import ARROW_SCHEMA, ColumnSchema, TableSchema
from auditor.pipeline.float_texts import double_text, float_text
from auditor.pipeline.messages import byte_texts, column_values, connect_schemas, registry
from auditor.pipeline.messages.formats import FORMATS
from auditor.pipeline.messages.reading import MessageReader
from auditor.pipeline.messages.source_block import Names
from auditor.pipeline.messages.writing import Encoder
from tests.pipeline_events import batch, insert

NAMES = Names("shop", "0.1.0", server_id=7)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

characters = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@dataclass(frozen=True)
class Kind:
    """A type of column: texts of events, and by the default settings the value that JSON has for one."""

    type: str
    texts: st.SearchStrategy[str]
    json: Callable[[str], Any]


def number(least: int, most: int) -> st.SearchStrategy[str]:
    return st.integers(least, most).map(str)


def decimal_texts(digits: int, scale: int) -> st.SearchStrategy[str]:
    def text(number: int) -> str:
        shown = str(abs(number)).rjust(scale + 1, "0")
        return ("-" if number < 0 else "") + (f"{shown[:-scale]}.{shown[-scale:]}" if scale else shown)

    return st.integers(-(10**digits) + 1, 10**digits - 1).map(text)


def unscaled(text: str) -> str:
    value = int(text.replace(".", ""))
    size = next(size for size in range(1, 40) if -(1 << 8 * size - 1) <= value < 1 << 8 * size - 1)
    return base64.b64encode(value.to_bytes(size, "big", signed=True)).decode()


def micros(text: str) -> int:
    return (datetime.fromisoformat(text).replace(tzinfo=UTC) - EPOCH) // timedelta(microseconds=1)


def time_micros(text: str) -> int:
    hours, minutes, seconds = text.lstrip("-").split(":")
    whole, _, fraction = seconds.partition(".")
    total = (int(hours) * 3600 + int(minutes) * 60 + int(whole)) * 10**6 + int(fraction.ljust(6, "0"))
    return -total if text.startswith("-") else total


def moments(digits: int, separator: str = " ") -> st.SearchStrategy[str]:
    step = 10 ** (6 - digits)
    whole = st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59)).map(
        lambda one: one.replace(microsecond=one.microsecond // step * step)
    )
    return whole.map(lambda one: one.isoformat(separator, "microseconds")[: 20 + digits if digits else 19])


def times(digits: int) -> st.SearchStrategy[str]:
    def text(size: int, negative: bool) -> str:
        seconds, fraction = divmod(size, 10**digits)
        shown = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}" + (f".{fraction:0{digits}d}" if digits else "")
        return f"-{shown}" if negative and size else shown

    return st.builds(text, st.integers(0, (839 * 3600 - 1) * 10**digits), st.booleans())


def hexadecimal(least: int, most: int) -> st.SearchStrategy[str]:
    return st.binary(min_size=least, max_size=most).map(bytes.hex)


def base64_of(text: str) -> str:
    return base64.b64encode(bytes.fromhex(text)).decode()


def single(value: float) -> str:
    return float_text(struct.unpack("<f", struct.pack("<f", value))[0])


finite = st.floats(allow_nan=False, allow_infinity=False)
POINTS = st.tuples(st.integers(0, 2**31 - 1), finite, finite)
UNSIGNED = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32}


def geometry_of(text: str) -> dict[str, Any]:
    return {"wkb": base64_of(text[8:]), "srid": int.from_bytes(bytes.fromhex(text[:8]), "little") or None}


def point_of(text: str) -> dict[str, Any]:
    x, y = struct.unpack("<dd", bytes.fromhex(text)[9:])
    return {"x": x, "y": y, **geometry_of(text)}


def days_of(text: str) -> int:
    return (date.fromisoformat(text) - date(1970, 1, 1)).days


def bits_of(size: int, text: str) -> str:
    return base64.b64encode(int(text).to_bytes(size, "little")).decode()


def units_of(micros_each: int, text: str) -> int:
    return micros(text) // micros_each


def with_digits(name: str, digits: int) -> str:
    return f"{name}({digits})" if digits else name


KINDS = [
    *(Kind(name, number(-(1 << bits - 1), (1 << bits - 1) - 1), int) for name, bits in
      {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}.items()),
    *(Kind(f"{name} unsigned", number(0, (1 << bits) - 1), int) for name, bits in UNSIGNED.items()),
    Kind("bigint unsigned", number(0, 2**64 - 1), lambda text: int(text) - (2**64 if int(text) >= 2**63 else 0)),
    *(Kind(f"decimal({digits},{scale})", decimal_texts(digits, scale), unscaled) for digits, scale in
      [(1, 0), (5, 2), (9, 9), (18, 4), (38, 10), (39, 0), (65, 0), (65, 30), (30, 30)]),
    Kind("float", st.floats(allow_nan=False, allow_infinity=False, width=32).map(single), float),
    Kind("double", st.floats(allow_nan=False, allow_infinity=False).map(double_text), float),
    Kind("bit(1)", st.sampled_from(["0", "1"]), lambda text: text == "1"),
    *(Kind(f"bit({size})", number(0, 2**size - 1), partial(bits_of, (size + 7) // 8)) for size in (2, 8, 9, 63, 64)),
    Kind("date", st.dates(date(1, 1, 1)).map(str), days_of),
    *(Kind(with_digits("datetime", digits), moments(digits), partial(units_of, 1000 if digits <= 3 else 1)) for digits in range(7)),
    *(Kind(with_digits("timestamp", digits), moments(digits), lambda text: text.replace(" ", "T") + "Z") for digits in range(7)),
    *(Kind(with_digits("time", digits), times(digits), time_micros) for digits in range(7)),
    Kind("year", st.one_of(st.just("0000"), number(1901, 2155)), lambda text: int(text) or 1900),
    *(Kind(name, characters, str) for name in ("char(20)", "varchar(20)", "tinytext", "text", "mediumtext", "longtext")),
    Kind("json", st.recursive(st.none() | characters | st.integers(), st.lists, max_leaves=5).map(json.dumps), str),
    *(Kind(name, hexadecimal(0, 30), base64_of) for name in ("varbinary(30)", "tinyblob", "blob", "mediumblob", "longblob")),
    Kind("binary(5)", hexadecimal(5, 5), base64_of),
    Kind("enum('a','b,c','d''e','ü')", st.sampled_from(["a", "b,c", "d'e", "ü", ""]), str),
    Kind("set('a','b','c')", st.lists(st.sampled_from(["a", "b", "c"]), unique=True).map(",".join), str),
    Kind("uuid", st.uuids().map(str), str),
    Kind("inet6", st.ip_addresses(v=6).map(str), str),
    Kind("point", POINTS.map(lambda one: (struct.pack("<I", one[0]) + struct.pack("<BIdd", 1, 1, one[1], one[2])).hex()),
         point_of),
    Kind("polygon", st.builds(str.__add__, st.integers(0, 2**31 - 1).map(lambda one: struct.pack("<I", one).hex()), hexadecimal(9, 60)),
         geometry_of),
]  # fmt: skip

FORMS = [
    MessageSettings(),
    MessageSettings(schemas=True, source_types=True),
    MessageSettings(values="flat", decimals="string", unsigned_bigints="precise", binary="base64"),
    MessageSettings(values="plain", binary="base64-url-safe", times="microseconds"),
    MessageSettings(format="avro", source_types=True),
    MessageSettings(format="avro", values="plain", source_types=True, decimals="string", binary="hex", unsigned_bigints="precise"),
    MessageSettings(format="json_schema", values="flat", source_types=True),
]


class Shelf:
    """Schemas by number, as a registry keeps them."""

    def __init__(self, form: MessageFormat) -> None:
        self.form, self.texts = form, list[str]()
        self.found: dict[int, tuple[MessageFormat, Any, connect_schemas.Schema]] = {}

    def register(self, part: str, text: str) -> int:
        del part
        self.texts.append(text)
        return len(self.texts)

    def look_up(self, number: int) -> tuple[MessageFormat, Any, connect_schemas.Schema]:
        if number not in self.found:
            self.found[number] = registry._read(number, FORMATS[self.form].registry_type, self.texts[number - 1], False)
        return self.found[number]


def there_and_back(schema: TableSchema, form: MessageSettings, events: pa.RecordBatch) -> tuple[list[dict[str, Any]], TableSchema]:
    """Return the events that are read of what events are written as, and the last schema that is announced."""
    shelf = Shelf(form.format)
    messages = Encoder(schema, form, NAMES, shelf.register).encode(events, 10**18)
    given = None if form.schemas or form.has_registry else schema
    reader = MessageReader(schema.database, schema.table, form, given, shelf.look_up)
    count = len(messages)
    stamps = pa.array([0] * count, ARROW_SCHEMA.field("time").type)
    read = reader.read(messages["key"].to_pylist(), messages["value"].to_pylist(), np.arange(count), np.zeros(count, int), stamps)
    assert read.refused == []
    events_read = [event for one in read.events for event in one.to_pylist()]
    announced = [TableSchema.from_json(event["after"][0]) for event in events_read if event["kind"] == "schema"]
    return [event for event in events_read if event["kind"] != "schema"], announced[-1]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.type)
@settings(max_examples=settings().max_examples // 5, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_rows_of_every_type_come_back_as_they_were_in_every_form(kind: Kind, data: st.DataObject) -> None:
    columns = (ColumnSchema("id", "int", nullable=False), ColumnSchema("c", kind.type, nullable=True))
    schema = TableSchema("shop", "every", columns, ("id",))
    texts = data.draw(st.lists(st.one_of(st.none(), kind.texts), min_size=1, max_size=4))
    rows = [[str(number), text] for number, text in enumerate(texts)]
    for form in FORMS:
        read, announced = there_and_back(schema, form, batch(insert(schema, 1, *rows)))
        assert [event["after"] for event in read] == rows
        assert [column.type for column in announced.columns] == [column.type for column in schema.columns]
        assert announced.key == ("id",)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.type)
@settings(max_examples=settings().max_examples // 2)
@given(data=st.data())
def test_json_of_a_value_is_what_its_text_says(kind: Kind, data: st.DataObject) -> None:
    texts = data.draw(st.lists(st.one_of(st.none(), kind.texts), min_size=1, max_size=8))
    values = column_values.of_column(ColumnSchema("c", kind.type, nullable=True), MessageSettings())
    found = [None if one is None else json.loads(one) for one in values.json(pa.array(texts, pa.string())).to_pylist()]
    expected = [None if text is None else kind.json(text) for text in texts]
    if kind.type in ("float", "double"):
        signs = [(type(one), math.copysign(1, one)) for one in found if one is not None]
        assert signs == [(float, math.copysign(1, float(text))) for text in texts if text is not None]
    if kind.type == "float":  # the shortest number that reads back as the same value is another one in 64 bits
        found, expected = ([None if one is None else single(one) for one in some] for some in (found, expected))
    assert found == expected


@pytest.mark.parametrize(
    ("type", "form", "text", "expected"),
    [
        ("decimal(5,2)", {"decimals": "double"}, "-12.30", -12.3),
        ("decimal(5,2)", {"decimals": "string"}, "-12.30", "-12.30"),
        ("bigint unsigned", {"unsigned_bigints": "precise"}, "18446744073709551615", "AP//////////"),
        ("blob", {"binary": "hex"}, "fffe00", "fffe00"),
        ("blob", {"binary": "base64-url-safe"}, "fffe00", "__4A"),
        ("blob", {"binary": "base64"}, "fffe00", "//4A"),
        ("datetime(6)", {"times": "connect"}, "1969-07-20 20:17:40.123456", -14182939877),
        ("datetime", {"times": "nanoseconds"}, "1969-07-20 20:17:40", -14182940000000000),
        ("datetime(6)", {"times": "isostring"}, "9999-12-31 23:59:58.400000", "9999-12-31T23:59:58.4Z"),
        ("datetime(3)", {"times": "isostring"}, "2024-03-01 00:00:00.000", "2024-03-01T00:00:00Z"),
        ("date", {"times": "isostring"}, "2024-02-29", "2024-02-29Z"),
        ("time(6)", {"times": "isostring"}, "12:34:50.120000", "12:34:50.12Z"),
        ("time(6)", {"times": "connect"}, "12:34:56.123456", 45296123),
        ("time", {"times": "nanoseconds"}, "-838:59:59", -3020399000000000),
    ],
)
def test_each_option_writes_values_as_debezium_does(type: str, form: dict[str, Any], text: str, expected: Any) -> None:
    values = column_values.of_column(ColumnSchema("c", type, nullable=True), MessageSettings(**form))
    assert json.loads(values.json(pa.array([text]))[0].as_py()) == expected


ZERO = [
    ("date", "0000-00-00", 0),
    ("date", "2024-00-10", 0),
    ("datetime(6)", "0000-01-01 01:02:03.000000", 0),
    ("timestamp", "0000-00-00 00:00:00", "1970-01-01T00:00:00Z"),
]


@pytest.mark.parametrize(("type", "text", "epoch"), ZERO)
def test_a_zero_date_is_null_or_the_epoch_where_null_is_not_allowed(type: str, text: str, epoch: Any) -> None:
    nullable, required = (column_values.of_column(ColumnSchema("c", type, one), MessageSettings()) for one in (True, False))
    assert nullable.json(pa.array([text])).to_pylist() == [None]
    assert json.loads(required.json(pa.array([text]))[0].as_py()) == epoch


@pytest.mark.parametrize(
    ("type", "times", "text"),
    [
        ("time", "connect", "24:00:00"),
        ("time", "connect", "-00:00:01"),
        ("time(2)", "isostring", "-00:00:00.50"),
        ("datetime", "nanoseconds", "1000-01-01 00:00:00"),
    ],
)
def test_a_time_that_does_not_fit_is_refused_by_the_name_of_its_column(type: str, times: Any, text: str) -> None:
    values = column_values.of_column(ColumnSchema("seen", type, nullable=True), MessageSettings(times=times))
    with pytest.raises(ValueRefused, match="column 'seen', "):
        values.json(pa.array([text, None]))


@pytest.mark.parametrize("type", ["vector(3)", "year(2)", "xmltype"])
def test_a_type_that_no_message_holds_is_refused(type: str) -> None:
    with pytest.raises(ColumnRefused, match="exclude it"):
        column_values.of_column(ColumnSchema("c", type, nullable=True), MessageSettings())


@given(st.lists(st.one_of(st.none(), st.binary(max_size=12))), st.booleans(), st.integers(0, 3))
def test_base64_and_hexadecimal_digits_are_those_of_the_library(values: list[bytes | None], url_safe: bool, skipped: int) -> None:
    array = pa.array(values, pa.binary())[min(skipped, len(values)) :]
    kept = array.to_pylist()
    encode = base64.urlsafe_b64encode if url_safe else base64.b64encode
    texts = byte_texts.to_base64(array, url_safe=url_safe)
    assert texts.to_pylist() == [None if value is None else encode(value).decode() for value in kept]
    assert byte_texts.from_base64(texts, url_safe=url_safe).to_pylist() == kept
    assert byte_texts.to_hex(array).to_pylist() == [None if value is None else value.hex() for value in kept]
    assert byte_texts.from_hex(byte_texts.to_hex(array)).to_pylist() == kept


@given(st.lists(st.one_of(st.none(), characters)))
def test_quoted_texts_are_read_as_they_were(texts: list[str | None]) -> None:
    quoted = byte_texts.quote(pa.array(texts, pa.string())).to_pylist()
    assert [None if one is None else json.loads(one) for one in quoted] == texts


@pytest.mark.parametrize("text", ["YQ", "YQ=", "Y===", "====", "Y@==", "=YQ=", "YQ==YQ=="])
def test_what_is_no_base64_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="base64"):
        byte_texts.from_base64(pa.array([text]))
