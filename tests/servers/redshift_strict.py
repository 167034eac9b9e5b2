"""How strictly the Redshift stand-in imitates Redshift: behaviours that can be switched on and off by database.

Some are schemas of redshift_strict.sql, which a session finds first in its search_path; the others are refusals here: statements that
PostgreSQL would run and that Redshift answers with an error.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping

SCHEMAS: Mapping[str, str] = {
    "mod": "MOD yields an INTEGER if either number is one (r_MOD.html)",
    "sum": "the sum of BIGINTs is a BIGINT (r_SUM.html)",
    "case": "nor does the case of letters, in a database created so, besides that of trailing blanks (r_CREATE_DATABASE.html)",
    "blanks": "trailing blanks of a text mean nothing in comparisons (r_Character_types.html)",
    "long": "a text of more than 65,535 bytes is refused where it is hashed, or made of bytes or a document (r_Character_types.html)",
    "float_round": "ROUND of a whole number goes through a float (r_ROUND.html is silent)",
    "capitals": "hexadecimal digits are capitals (r_FROM_VARBYTE.html is silent)",
    "no_groups": "REGEXP_REPLACE knows no back-references (REGEXP_REPLACE.html is silent)",
    "ieee": "NaN equals nothing and has no order (r_Numeric_types201.html is silent)",
}
"""Behaviours that are schemas, in the order in which they are searched."""

REFUSALS: Mapping[str, str] = {
    "unknown": "a column of a derived table needs a type: a bare NULL or text has none",
    "leader": "what only the leader node has cannot be asked of users' tables (c_SQL_functions_leader_node_only.html)",
    "serverless": "STL, STV, SVL and SVCS relations are refused, as on Serverless and Multi-AZ (cm_chap_system-tables.html)",
}
"""Behaviours that are errors."""

MESSAGES = "messages"
"""The behaviour that a cancelled statement and one that took too long are reported in Amazon's words, which are the same for both."""

NAMES = "names"
"""The behaviour that quoted names are folded to small letters, until a session asks for them as they are
(r_enable_case_sensitive_identifier.html)."""

STRICT = frozenset({*SCHEMAS, *REFUSALS, MESSAGES, NAMES}) - {"case"}
"""What is on unless a test says otherwise."""

LEADER_ONLY = re.compile(
    r"\b(current_schemas?|has_(?:database|schema|table)_privilege|age|isfinite|now|get_?bit|get_byte|set_bit|set_byte|to_ascii|substr"
    r"|generate_series|format_type|pg_table_is_visible|pg_get_late_binding_view_cols)\s*\(|\b(current_time|current_timestamp|localtime)\b(?!\s*\()",
    re.IGNORECASE,
)
"""Functions of the leader node alone, those that the manual names and those of PostgreSQL's catalogue."""

_PAST = re.compile(r"\b(extract|trim)\s*\([^()]*?\bfrom\b", re.IGNORECASE)
"""A FROM that is no clause."""
_RELATION = re.compile(r"""\b(?:from|join)\s+((?:"[^"]*"|\w+)(?:\s*\.\s*(?:"[^"]*"|\w+))*)(?!["\w.]|\s*\()""", re.IGNORECASE)
_VALUE = r"(?:null|'\x01')"
_UNTYPED = re.compile(
    rf"""(?:\bselect\s+|,\s*)(?:{_VALUE}|\(\s*{_VALUE}\s*\))\s+(?!(?:from|in|not|like|ilike|is|and|or|end|between|union|collate)\b)["\w]""",
    re.IGNORECASE,
)
"""A column of a SELECT that is a bare NULL or text, with the beginning of its name or of AS."""
_LITERAL = re.compile(r"'(?:[^'\\]|\\.|'')*'|--[^\n]*|/\*.*?\*/", re.DOTALL)

UNKNOWN = ("XX000", 'failed to find conversion function from "unknown" to text')
LEADER = ("0A000", "Specified types or functions (one per INFO message) not supported on Redshift tables.")


def refusal(sql: str, on: Collection[str]) -> tuple[str, str] | None:
    """Return the SQLSTATE and message with which Redshift refuses a statement, or None; ``on`` are the behaviours that are on."""
    plain = _LITERAL.sub(lambda found: "'\x01'" if found.group().startswith("'") else " ", sql)
    if not re.match(r"\s*(select|with|declare|explain|insert|create)\b", plain, re.IGNORECASE):
        return None
    if "unknown" in on and _has_untyped_column(plain):
        return UNKNOWN
    names = list(_relations(plain))
    if "serverless" in on:
        for name in names:
            if re.match(r"(stl|stv|svl|svcs)_", name):
                return ("42501", f"permission denied for relation {name}")
    catalogue = [name for name in names if re.match(r"(pg_|information_schema\b)", name)]
    leader_only = [*catalogue, *LEADER_ONLY.findall(plain)]
    on_compute_nodes = [name for name in names if name not in catalogue]
    users = [name for name in on_compute_nodes if not re.match(r"(svv|stv|stl|svl|svcs|sys)_", name)]
    if "leader" in on and users and (leader_only or len(users) < len(on_compute_nodes)):
        return LEADER
    return LEADER if "leader" in on and on_compute_nodes and leader_only else None


def _relations(plain: str) -> Iterator[str]:
    """Yield the names of tables and views in a statement without literals, in lower case; a schema's name counts only for a catalogue."""
    for found in _RELATION.finditer(_PAST.sub("(", plain)):
        parts = [part.strip(' "').lower() for part in re.split(r'\s*\.\s*(?=(?:[^"]*"[^"]*")*[^"]*$)', found.group(1))]
        yield ".".join(parts) if parts[0] in ("pg_catalog", "information_schema") else parts[-1]


def _has_untyped_column(plain: str) -> bool:
    """Return whether a derived table of a statement without literals has a bare NULL or text as a column."""
    return any(plain.count("(", 0, found.start()) > plain.count(")", 0, found.start()) for found in _UNTYPED.finditer(plain))


def folded(sql: str) -> str:
    """Return a statement with its quoted names in small letters."""
    pieces = re.split(r"""('(?:[^'\\]|\\.|'')*'|--[^\n]*|/\*.*?\*/)""", sql, flags=re.DOTALL)
    return "".join(
        piece if number % 2 else re.sub(r'"[^"]*"', lambda name: name.group().lower(), piece) for number, piece in enumerate(pieces)
    )


def search_path(on: Collection[str]) -> str:
    """Return the search_path of a session with these behaviours."""
    return ",".join(["public", *(f"redshift_{name}" for name in SCHEMAS if name in on), "redshift_functions", "pg_catalog"])


def in_amazons_words(data: bytes) -> bytes:
    """Return what the server sends with PostgreSQL's words for an ended statement replaced by Amazon's, of the same length."""
    for reason in (b"canceling statement due to statement timeout", b"canceling statement due to user request"):
        if reason in data:
            data = data.replace(reason, cancelled(len(reason)).encode())
    return data


def cancelled(length: int) -> str:
    """Return Redshift's message of a statement that was cancelled or took too long, with a query id that gives it this length."""
    digits = length - len("Query () cancelled on user's request")
    return f"Query ({'1502683947'[:digits]}) cancelled on user's request"
