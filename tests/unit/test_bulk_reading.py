"""Messages that are read together are what they are when each is read alone: valid ones, and those with anything wrong in them."""

from __future__ import annotations

import json
import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auditor.config import MessageFormat, MessageSettings
from auditor.errors import MessageRefused
from auditor.pipeline.events import ARROW_SCHEMA, TableSchema
from auditor.pipeline.float_texts import double_text
from auditor.pipeline.messages import column_values, connect_schemas, reading
from auditor.pipeline.messages.reading import MessageReader, ReadMessages
from tests.pipeline_events import table

ODD = [
    "null", "true", "1", "-0", "0", "1.0", "-0.0", "1e2", "1E400", "NaN", "Infinity", "-Infinity", "9007199254740993", "16777217",
    "9223372036854775807", "9223372036854775808", "-9223372036854775809", "01", "+1", "1.", "'a'", '""', '"a"', '"1.50"',
    '"\\u00e4\\n"', '"\\ud800"', '"\\udc00"', '"\\ud83d\\ude00"', '"a\\u0000b"', '"ü"', '"a\nb"', '"AQ=="', '"AQ="', '"f4AB"',
    '"2024-02-29T01:02:03Z"', '"2024-02-29 01:02:03"', "[]", "[1]", "{}", '{"a":1,"a":2}', "1e15", "0.00001", "123456789.12345679", "",
    "}", '"', "1}{", '{"x":',
]  # fmt: skip
"""What stands where a value is expected."""

VALUES = {
    "id": ["1", "2"],
    "price": ['"AJY="', '"/w=="', '""'],
    "amount": ["1.5", "-2.0e-7", "1e300", "12"],
    "part": ["1.5", "0.1", "16777216.0", "1e39", "3.4028235677973366e38"],
    "made": ["0", "1709168523004"],
    "seen": ['"2024-02-29T01:02:03.5Z"', '"2024-02-29T01:02:03+02:00"'],
    "name": ['"x"', '"\\u00e4"', '"{[\\"}]"'],
    "flag": ["true", "false"],
    "raw": ['"AAE="', '""'],
}
COLUMNS = table("orders", ("id",), id="bigint", price="decimal(5,2) null", amount="double null", part="float null", made="datetime(3) null",
                seen="timestamp(6) null", name="varchar(20) null", flag="bit(1) null", raw="blob null")  # fmt: skip
NAMES = [column.name for column in COLUMNS.columns]
KEYLESS = table("orders", (), a="int null", b="varchar(9) null")

FORMS = [MessageSettings(values=values, schemas=schemas) for values in ("plain", "flat", "debezium") for schemas in (False, True)]
FORMS.append(MessageSettings(values="debezium", format="json_schema"))


def objects(fields: st.SearchStrategy[list[tuple[str, str]]]) -> st.SearchStrategy[str]:
    return fields.map(lambda pairs: "{" + ",".join(f'"{name}":{value}' for name, value in pairs) + "}")


@st.composite
def rows(draw: st.DrawFn) -> str:
    """A row, in most cases a valid one."""
    pairs = [(name, draw(st.sampled_from([*VALUES[name], "null"] if name != "id" else VALUES[name]))) for name in NAMES]
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 2]))):
        place, what = draw(st.integers(0, len(pairs) - 1)), draw(st.sampled_from(["odd", "gone", "twice", "stranger", "order"]))
        name = pairs[place][0]
        if what == "odd":
            pairs[place] = name, draw(st.sampled_from(ODD))
        elif what == "gone" and len(pairs) > 1:
            del pairs[place]
        elif what == "twice":
            pairs.append((name, draw(st.sampled_from([*ODD, *VALUES.get(name, [])]))))
        elif what == "stranger":
            pairs.insert(
                place, (draw(st.sampled_from(["x", "__op", "__deleted", "__gtid", "__source_gtid", "ID"])), draw(st.sampled_from(ODD)))
            )
        else:
            pairs.reverse()
    return draw(objects(st.just(pairs)))


@st.composite
def bodies(draw: st.DrawFn, form: MessageSettings) -> str:
    """The payload of a message, in most cases a valid one."""
    row = draw(rows())
    if form.values == "plain":
        return row
    if form.values == "flat":
        added = {
            "__deleted": ['"false"', '"true"', "false", "null", '"no"'],
            "__op": ['"c"', '"d"', "null"],
            "__gtid": ['"a:1"', "null", "5", '"ä"'],
        }
        more = "".join(f',"{name}":{draw(st.sampled_from(some))}' for name, some in added.items() if draw(st.booleans()))
        return row[:-1] + more + "}"
    op = draw(st.sampled_from(['"c"', '"r"', '"u"', '"u"', '"d"', '"t"', "null", "1"]))
    before = draw(st.one_of(st.just("null"), rows(), st.sampled_from(ODD))) if draw(st.booleans()) else "null"
    after = row if draw(st.integers(0, 9)) else draw(st.sampled_from(["null", "[]", "{}"]))
    source = draw(
        st.sampled_from(['{"gtid":"a:1","ts_ms":5}', '{"snapshot":"incremental"}', "null", "{}", '{"gtid":5}', '{"gtid":"ä"}', "7"])
    )
    fields = [("before", before), ("after", after), ("source", source), ("op", op), ("ts_ms", draw(st.sampled_from(["5", "null", '"x"'])))]
    if draw(st.integers(0, 9)) == 0:
        fields.append(draw(st.sampled_from(fields)))
    if draw(st.integers(0, 9)) == 0:
        del fields[draw(st.integers(0, len(fields) - 1))]
    return draw(objects(st.just(fields)))


def beside(schema: dict[str, Any], payload: str) -> str:
    return '{"schema":' + json.dumps(schema, separators=(",", ":")) + ',"payload":' + payload + "}"


KEY = {"type": "struct", "optional": False, "fields": [{"field": "id", "type": "int64", "optional": False}]}


def value_schema(form: MessageSettings, names: list[str]) -> dict[str, Any]:
    """The schema of values whose rows have these columns."""
    of_column = {column.name: column_values.of_column(column, form).schema for column in COLUMNS.columns}
    fields = [connect_schemas.to_connect(of_column[name]) | {"field": name} for name in names]
    row = {"type": "struct", "optional": True, "fields": fields}
    if form.values != "debezium":
        return row
    return {"type": "struct", "fields": [{**row, "field": "before"}, {**row, "field": "after"}, {"type": "string", "field": "op"}]}


@st.composite
def messages(draw: st.DrawFn, form: MessageSettings) -> list[tuple[bytes | None, bytes | None]]:
    """Messages of a topic, mostly of one schema."""
    schemas = [value_schema(form, NAMES), value_schema(form, NAMES[:-1])]
    found = []
    for _ in range(draw(st.integers(1, 9))):
        key = draw(st.sampled_from(['{"id":1}', '{"id":1}', '{"id":2}', '{"id":2', "1", '{"id":1}{"id":2}']))
        body = draw(bodies(form))
        if form.schemas:
            key = beside(KEY, key) if draw(st.integers(0, 9)) else key
            body = beside(schemas[draw(st.sampled_from([0, 0, 0, 0, 1]))], body) if draw(st.integers(0, 9)) else body
        prefix = struct.pack(">BI", 0, draw(st.sampled_from([1, 1, 1, 2, 9]))) if form.has_registry else b""
        value = prefix + body.encode()
        what = draw(st.integers(0, 19))
        if what == 0:
            place = draw(st.integers(0, len(value) - 1))
            value = value[:place] + draw(st.binary(max_size=2)) + value[place + draw(st.integers(0, 2)) :]
        elif what == 1:
            value = value + draw(st.sampled_from([b" ", b"\n", b"\n{}", b"\0", b"}", b"\xff"]))
        whole_key = (struct.pack(">BI", 0, 3) if form.has_registry else b"") + key.encode()
        is_gone, is_keyless = draw(st.integers(0, 7)) == 0, draw(st.integers(0, 9)) == 0
        found.append((None if is_keyless else whole_key, None if is_gone else value))
    return found


def look_up(number: int) -> tuple[MessageFormat, Any, connect_schemas.Schema]:
    if number not in REGISTERED:
        raise MessageRefused("there is no such schema")
    return "json_schema", None, REGISTERED[number]


REGISTERED = {
    number: connect_schemas.from_connect(one)
    for number, one in {1: value_schema(FORMS[-1], NAMES), 2: value_schema(FORMS[-1], NAMES[:-1]), 3: KEY}.items()
}


def read(form: MessageSettings, schema: TableSchema | None, sent: list[tuple[bytes | None, bytes | None]], cut: int) -> list[ReadMessages]:
    """Read messages, in two calls."""
    reader, found = MessageReader("shop", "orders", form, schema, look_up), []
    for some, start in ((sent[:cut], 0), (sent[cut:], cut)):
        count = len(some)
        times = pa.array(range(count), ARROW_SCHEMA.field("time").type)
        found.append(
            reader.read([key for key, _ in some], [value for _, value in some], np.arange(start, start + count), np.arange(count), times)
        )
    return found


def alone_and_together(
    form: MessageSettings, schema: TableSchema | None, sent: list[tuple[bytes | None, bytes | None]], cut: int, piece: int
) -> tuple[Any, Any]:
    """Return what messages are if each is read alone, and if those are read together that can be."""

    def shown(found: list[ReadMessages]) -> list[Any]:
        for one in found:
            for batch in one.events:
                batch.validate(full=True)
        return [([batch.to_pylist() for batch in one.events], one.refused) for one in found]

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(reading, "PIECE", piece)
        together = shown(read(form, schema, sent, cut))
        patched.setattr(MessageReader, "_common", lambda *_: None)
        return shown(read(form, schema, sent, cut)), together


@pytest.mark.few
@pytest.mark.parametrize("is_given", [True, False], ids=["columns", "schemas"])
@pytest.mark.parametrize("form", FORMS, ids=lambda form: f"{form.values}-{form.format}-{form.schemas}")
@settings(max_examples=settings().max_examples // 2)
@given(data=st.data())
def test_messages_are_the_same_alone_and_together(form: MessageSettings, is_given: bool, data: st.DataObject) -> None:
    sent = data.draw(messages(form))
    cut, piece = data.draw(st.integers(0, len(sent))), data.draw(st.integers(1, 9))
    alone, together = alone_and_together(form, COLUMNS if is_given else None, sent, cut, piece)
    assert alone == together


@pytest.mark.parametrize("form", FORMS, ids=lambda form: f"{form.values}-{form.format}-{form.schemas}")
def test_valid_messages_are_read_together(form: MessageSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    row = "{" + ",".join(f'"{name}":{VALUES[name][0]}' for name in NAMES) + "}"
    change = '{"before":' + row + ',"after":' + row + ',"source":{"gtid":"a:1"},"op":"u"}'
    body, key = (change if form.values == "debezium" else row), '{"id":1}'
    if form.schemas:
        body, key = beside(value_schema(form, NAMES), body), beside(KEY, key)
    prefixes = (b"", b"") if not form.has_registry else (struct.pack(">BI", 0, 3), struct.pack(">BI", 0, 1))
    sent: list[tuple[bytes | None, bytes | None]] = [(prefixes[0] + key.encode(), prefixes[1] + body.encode())] * 7
    is_given = not form.schemas and not form.has_registry
    alone: list[int] = []
    parse = MessageReader._parse

    def counted(self: MessageReader, *message: Any) -> Any:
        alone.append(1)
        return parse(self, *message)

    monkeypatch.setattr(MessageReader, "_parse", counted)
    [none, found] = read(form, COLUMNS if is_given else None, sent, 0)
    assert none.events == [] and found.refused == [] and found.events[1].num_rows == 7
    assert len(alone) == (0 if is_given else 1)  # the first one says the columns


def test_all_numbers_of_a_double_have_their_texts() -> None:
    numbers = [1e15, 999999999999999.0, 3231814999999999.5, 1e-5, 0.00012345678901234567, -0.0, 5e-324, 1.7976931348623157e308, 123456.0]
    [column] = [column_values.of_column(one, MessageSettings()) for one in COLUMNS.columns if one.name == "amount"]
    assert column.texts(pa.array([*numbers, None])).to_pylist() == [*map(double_text, numbers), None]


@given(st.lists(st.none() | st.floats(allow_nan=False, allow_infinity=False)))
def test_doubles_have_the_text_of_each(numbers: list[float | None]) -> None:
    [column] = [column_values.of_column(one, MessageSettings()) for one in COLUMNS.columns if one.name == "amount"]
    expected = [None if number is None else double_text(number) for number in numbers]
    assert column.texts(pa.array(numbers, pa.float64())).to_pylist() == expected


def test_what_is_nested_too_deep_is_read_alone() -> None:
    deep = b'{"id":1,"other":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    [_, found] = read(MessageSettings(values="flat"), COLUMNS, [(None, deep)], 0)
    assert [reason[:7] for _, reason in found.refused] == ["no JSON"]
