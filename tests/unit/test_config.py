"""Configuration errors: each is reported with its file, its line, and what to write instead."""

from __future__ import annotations

from pathlib import Path

import pytest

from auditor.config import DialectSql, PerSide, Settings, find_file, load
from auditor.errors import ConfigError, UnknownAudit
from dialects import Place, parse_url

SAMPLE = """\
connections:
  shop:      {url: "mysql://reader:${SHOP_PASSWORD}@db1:3306/shop"}
  warehouse: {url: "redshift://auditor:${WH_PASSWORD}@wh:5439/analytics", limits: {statement_timeout: 15m}}
  lake:      {url: "spark://local?master=local[2]"}
audits:
  orders:
    source: {connection: shop, table: orders}
    target: {connection: warehouse, table: public.orders, columns: {order_id: id}}
    key: [order_id]
    columns: {exclude: [etl_loaded_at], override: {note: {trim: true}}}
    where: "status <> 'draft'"
    method: minhash
    k: 16
    hash: sha256
    encoding: injective
    partition: {strategy: range, size: 1024}
    threshold: 0.999
  lake_orders:
    source: {connection: shop, table: orders}
    target: {connection: lake, table: /lake/orders, format: delta, version: 3}
    where: {source: "a > 1", target: "b > 1"}
    columns: {override: {price: {kind: "decimal(10,2)", expr: {sql: "cents / 100", dialect: mysql}}}}
"""
ENVIRONMENT = {"SHOP_PASSWORD": "p@ss/w:rd#?", "WH_PASSWORD": "plain"}

GOOD = """\
connections:
  a: {url: "duckdb:///a"}
audits:
  x:
    source: {connection: a, table: t}
    target: {connection: a, table: u}
"""


def load_text(tmp_path: Path, text: str) -> Settings:
    path = tmp_path / "auditor.yaml"
    path.write_text(text, encoding="utf-8")
    return load(path, ENVIRONMENT)


def problems_of(tmp_path: Path, text: str) -> list[str]:
    """Load a faulty configuration and return its error lines, without the directory."""
    with pytest.raises(ConfigError) as caught:
        load_text(tmp_path, text)
    assert caught.value.exit_code == 2
    return str(caught.value).replace(f"{tmp_path}/", "").splitlines()


def test_documented_sample_loads(tmp_path: Path) -> None:
    settings = load_text(tmp_path, SAMPLE)
    orders, lake = settings.audit("orders"), settings.audit("lake_orders")
    assert parse_url(settings.connections["shop"].url).password == "p@ss/w:rd#?"
    assert settings.connections["warehouse"].limits.statement_timeout == 900
    assert (orders.method, orders.k, orders.threshold.score, orders.algorithm) == ("minhash", 16, 0.999, "sha256")
    assert orders.target.columns == {"order_id": "id"}
    assert orders.columns.override["note"].trim
    assert orders.target.place == Place(("public", "orders"))
    assert lake.target.place == Place((), "/lake/orders", "delta", 3)
    assert lake.where == PerSide(source="a > 1", target="b > 1")
    assert lake.columns.override["price"].expr == DialectSql(sql="cents / 100", dialect="mysql")


def test_published_encoding_implies_md5(tmp_path: Path) -> None:
    assert load_text(tmp_path, GOOD + "    encoding: published\n").audit("x").algorithm == "md5"


@pytest.mark.parametrize(
    ("line", "where", "sentence"),
    [
        ("    methd: minhash", "audits.x.methd", "unknown setting 'methd'; did you mean 'method'?"),
        ("    size: 8", "audits.x.size", "unknown setting 'size'; it belongs in partition:"),
        (
            "    statement_timeout: 5m",
            "audits.x.statement_timeout",
            "unknown setting 'statement_timeout'; it belongs in a connection's limits:",
        ),
        ("    url: x", "audits.x.url", "unknown setting 'url'; it belongs in a connection"),
        ("    zzz: 8", "audits.x.zzz", "unknown setting 'zzz'"),
        ("    encoding: plain", "audits.x.encoding", "write one of 'injective' or 'published'"),
        ("    k: 0", "audits.x.k", "this should be greater than or equal to 1"),
        ("    k: many", "audits.x.k", "write a whole number"),
        ("    threshold: 1.5", "audits.x.threshold.score", "this should be less than or equal to 1"),
        ("    allow_empty: perhaps", "audits.x.allow_empty", "write true or false"),
        ("    key: id", "audits.x.key", "write a list here: [...]"),
        ("    key: [id, 5]", "audits.x.key.1", "write text here, in quotes"),
        ("    columns: [a]", "audits.x.columns", "write settings here: {include: ..., exclude: ..., override: ...}"),
        ("    columns: {override: [a]}", "audits.x.columns.override", "write names with their settings here: {name: ...}"),
        (
            "    columns: {override: {v: {expr: a}}}",
            "audits.x.columns.override.v",
            "expr is given without kind; add the kind of its result, e.g. kind: integer",
        ),
        (
            "    columns: {override: {v: {round: 2, kind: integer}}}",
            "audits.x.columns.override.v",
            "round and kind cannot be combined; round: 2 is the same as kind: rounded(2)",
        ),
    ],
)
def test_wrong_setting_is_reported_with_its_path(tmp_path: Path, line: str, where: str, sentence: str) -> None:
    assert problems_of(tmp_path, f"{GOOD}{line}\n") == [f"auditor.yaml:7: {where}: {sentence}"]


@pytest.mark.parametrize("more", ["", "    where: {source: a = 1, target: a = 1}\n"])
def test_a_filter_of_the_source_alone_is_one_text(tmp_path: Path, more: str) -> None:
    (line,) = problems_of(tmp_path, f"{GOOD}{more}    where_on: source\n")
    assert line.endswith("where_on: source needs a filter in the portable language; write where as one text, or remove where_on")
    proxied = f"{GOOD}    where: a = 1\n    where_on: source\n    via: {{connection: a, table: x}}\n"
    (line,) = problems_of(tmp_path, proxied)
    assert line.endswith("where_on: source and via cannot be combined: the dump stands in for the source; remove one of them")


def test_unknown_method_lists_the_valid_ones(tmp_path: Path) -> None:
    (line,) = problems_of(tmp_path, GOOD + "    method: checksum\n")
    assert line.startswith("auditor.yaml:7: audits.x.method: write one of 'counts', 'signature'")


def test_unknown_kind_lists_the_valid_ones(tmp_path: Path) -> None:
    (line,) = problems_of(tmp_path, GOOD + "    columns: {override: {v: {kind: number}}}\n")
    assert line.startswith("auditor.yaml:7: audits.x.columns.override.v.kind: 'number' is no kind; write one of binary, ")


@pytest.mark.parametrize("sql", ["5", "[a]", "{sql: a}", "{source: a}", "{source: a, target: b, dialect: c}", "{source: a, target: 5}"])
def test_malformed_sql_setting_is_one_error(tmp_path: Path, sql: str) -> None:
    sentence = "write SQL as text in quotes, or {source: ..., target: ...}, or {sql: ..., dialect: ...}, or {compute: ...}"
    line = f"    columns: {{override: {{v: {{kind: text, expr: {sql}}}}}}}\n"
    assert problems_of(tmp_path, GOOD + line) == [f"auditor.yaml:7: audits.x.columns.override.v.expr: {sentence}"]


@pytest.mark.parametrize(
    "filter", ["5", "[a]", "{sql: a, dialect: mysql}", "{source: a}", "{source: a, target: b, c: d}", "{source: a, target: 5}"]
)
def test_malformed_filter_setting_is_one_error(tmp_path: Path, filter: str) -> None:
    sentence = "write a filter as text in quotes, or {source: ..., target: ...}, each in its own dialect"
    assert problems_of(tmp_path, f"{GOOD}    where: {filter}\n") == [f"auditor.yaml:7: audits.x.where: {sentence}"]


@pytest.mark.parametrize(("text", "value"), [("90", 90), ("90s", 90), ("1.5m", 90), ("2h", 7200), ("250ms", 0.25), ("1d", 86400)])
def test_durations_are_parsed_to_seconds(tmp_path: Path, text: str, value: float) -> None:
    settings = load_text(tmp_path, GOOD.replace('"}', f'", limits: {{statement_timeout: {text}}}}}'))
    assert settings.connections["a"].limits.statement_timeout == value


@pytest.mark.parametrize("text", ["soon", "-5s", "5 weeks", "true"])
def test_invalid_durations_are_rejected(tmp_path: Path, text: str) -> None:
    (line,) = problems_of(tmp_path, GOOD.replace('"}', f'", limits: {{statement_timeout: {text}}}}}'))
    assert line.startswith("auditor.yaml:2: connections.a.limits.statement_timeout: ")
    assert line.endswith("is not a duration; write 90s, 15m or 2h")


def test_missing_required_settings_are_all_reported(tmp_path: Path) -> None:
    assert problems_of(tmp_path, "connections: {a: {}}\naudits:\n  x:\n    source: {connection: a}\n") == [
        "auditor.yaml:1: connections.a.url: this setting is required; add it",
        "auditor.yaml:4: audits.x.source.table: this setting is required; add it",
        "auditor.yaml:3: audits.x.target: this setting is required; add it",
    ]


@pytest.mark.parametrize("text", ["", "# nothing\n", "{}"])
def test_empty_file_reports_the_required_sections(tmp_path: Path, text: str) -> None:
    required = ("connections", "audits")
    assert problems_of(tmp_path, text) == [f"auditor.yaml:1: {name}: this setting is required; add it" for name in required]


@pytest.mark.parametrize("text", ["- a\n", "just words\n", "just ${SHOP_PASSWORD}\n"])
def test_file_must_be_a_mapping(tmp_path: Path, text: str) -> None:
    assert problems_of(tmp_path, text)[0].startswith("auditor.yaml:1: write settings here: {connections: ..., brokers: ...")


def test_empty_sections_are_rejected(tmp_path: Path) -> None:
    assert problems_of(tmp_path, "connections:\naudits:\n") == [
        "auditor.yaml:1: connections: write names with their settings here: {name: ...}",
        "auditor.yaml:2: audits: write names with their settings here: {name: ...}",
    ]


def test_unknown_connections_are_all_reported(tmp_path: Path) -> None:
    text = GOOD.replace("connection: a, table: u", "connection: warehuose, table: u").replace("  a:", "  warehouse:")
    text += text[text.index("  x:") :].replace("  x:", '  "dotted.name":')
    hint = "there is no connection 'warehuose'; did you mean 'warehouse'?"
    assert problems_of(tmp_path, text) == [
        "auditor.yaml:5: audits.x.source: there is no connection 'a'",
        f"auditor.yaml:6: audits.x.target: {hint}",
        "auditor.yaml:8: audits.dotted.name.source: there is no connection 'a'",
        f"auditor.yaml:9: audits.dotted.name.target: {hint}",
    ]


def test_unset_variables_are_all_reported(tmp_path: Path) -> None:
    text = GOOD.replace("duckdb:///a", "mysql://${NO_USER}:${NO_PASSWORD}@h/d")
    assert problems_of(tmp_path, text) == [
        "auditor.yaml:2: the environment variable NO_USER is not set",
        "auditor.yaml:2: the environment variable NO_PASSWORD is not set",
    ]


def test_secret_is_read_from_a_file_and_encoded(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("a b/@\n", encoding="utf-8")
    settings = load_text(tmp_path, GOOD.replace("duckdb:///a", f"mysql://u:${{file:{secret}}}@h/d"))
    assert parse_url(settings.connections["a"].url).password == "a b/@"


def test_unreadable_secret_file_is_reported(tmp_path: Path) -> None:
    assert problems_of(tmp_path, GOOD.replace("duckdb:///a", "mysql://u:${file:/no/such}@h/d")) == [
        "auditor.yaml:2: ${file:/no/such}: No such file or directory"
    ]
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    assert problems_of(tmp_path, GOOD.replace("duckdb:///a", f"mysql://u:${{file:{tmp_path}/binary}}@h/d")) == [
        "auditor.yaml:2: ${file:binary}: not UTF-8 text"
    ]


def test_url_from_a_variable_is_not_encoded(tmp_path: Path) -> None:
    path = tmp_path / "auditor.yaml"
    path.write_text(GOOD.replace("duckdb:///a", "${URL}"), encoding="utf-8")
    assert load(path, {"URL": "mysql://u:p%40@h/d"}).connections["a"].url == "mysql://u:p%40@h/d"


def test_variables_outside_urls_are_not_encoded(tmp_path: Path) -> None:
    settings = load_text(tmp_path, GOOD + "    where: note = '${SHOP_PASSWORD}'\n")
    assert settings.audit("x").where == "note = 'p@ss/w:rd#?'"


def test_duplicate_key_is_reported(tmp_path: Path) -> None:
    assert problems_of(tmp_path, GOOD + "    k: 4\n    k: 5\n") == ["auditor.yaml:8: the key 'k' occurs twice; remove one"]


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("connections: {\n  a: b\n", 3, "not YAML: "),
        ("a: 1\n\tb: 2\n", 2, "not YAML: "),
        ("a: !thing b\n", 1, "not YAML: could not determine a constructor"),
        ("a: &x 1\n---\nb: 2\n", 2, "not YAML: but found another document"),
        ("at: 2024-13-45\n", 1, "'2024-13-45': month must be in 1..12; quote it if it is text"),
    ],
)
def test_invalid_yaml_is_reported_with_its_line(tmp_path: Path, text: str, line: int, words: str) -> None:
    assert problems_of(tmp_path, text)[0].startswith(f"auditor.yaml:{line}: {words}")


def test_unquoted_variable_within_braces_suggests_quotes(tmp_path: Path) -> None:
    (line,) = problems_of(tmp_path, GOOD.replace('"duckdb:///a"', "${URL}"))
    assert line.startswith("auditor.yaml:2: not YAML: ")
    assert line.endswith("; within braces, quote values that contain ${...}")


def test_binary_file_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "auditor.yaml"
    for content in (b"\xff\xfe\x00", b"a: \x00\n"):
        path.write_bytes(content)
        with pytest.raises(ConfigError, match=r"auditor\.yaml cannot be read: "):
            load(path, {})


def test_configuration_file_lookup_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"configuration file auditor\.yaml does not exist; create one with: auditor init"):
        find_file(None, {})
    for name in ("auditor.yaml", "b.yaml", "c.yaml"):
        (tmp_path / name).touch()
    assert find_file(None, {}) == Path("auditor.yaml")
    assert find_file(None, {"AUDITOR_CONFIG": "b.yaml"}) == Path("b.yaml")
    assert find_file("c.yaml", {"AUDITOR_CONFIG": "b.yaml"}) == Path("c.yaml")


def test_unknown_audit_suggests_a_similar_name(tmp_path: Path) -> None:
    with pytest.raises(
        UnknownAudit, match=r"there is no audit 'order'; did you mean 'orders' or 'lake_orders'\? \(audits here: lake_orders, orders\)"
    ):
        load_text(tmp_path, SAMPLE).audit("order")


def test_table_names_and_file_paths_are_distinguished() -> None:
    table = place_of
    assert table("shop.orders") == Place(("shop", "orders"))
    assert table('shop."or.ders"') == Place(("shop", "or.ders"))
    assert table("`a.b`.`c`") == Place(("a.b", "c"))
    assert table("data/orders.csv.gz") == Place((), "data/orders.csv.gz", "csv")
    assert table("orders.parquet") == Place((), "orders.parquet", "parquet")


def place_of(name: str) -> Place:
    ends = {side: {"connection": "a", "table": name} for side in ("source", "target")}
    settings = Settings.model_validate({"connections": {"a": {"url": "duckdb:///a"}}, "audits": {"x": ends}})
    return settings.audit("x").sources[0].place


@pytest.mark.parametrize("value", ["s3cr3t-p@ss", 5, ["s3cr3t-p@ss"]])
def test_misplaced_password_is_not_repeated_in_errors(tmp_path: Path, value: object) -> None:
    lines = problems_of(tmp_path, GOOD.replace('"duckdb:///a"', f"[{value!r}]") + f"    threshold: {value!r}\n")
    assert "s3cr3t" not in "".join(lines)
