"""Decode text of the character sets of MySQL and MariaDB as their servers do.

https://dev.mysql.com/doc/refman/9.4/en/charset-charsets.html
"""

from __future__ import annotations

import codecs
from collections.abc import Callable
from functools import cache

UTF8 = frozenset({"utf8mb4", "utf8mb3"})
"""Character sets whose bytes are UTF-8 as they are."""

BYTES_PER_CHARACTER = {
    "utf8mb4": 4,
    "utf8mb3": 3,
    "utf16": 4,
    "utf16le": 4,
    "utf32": 4,
    "ucs2": 2,
    "big5": 2,
    "sjis": 2,
    "euckr": 2,
    "gb2312": 2,
    "gbk": 2,
    "cp932": 2,
    "ujis": 3,
    "eucjpms": 3,
    "gb18030": 4,
}
"""The most bytes of a character; 1 in the other character sets."""

_COLLATIONS = {
    "armscii8": "32 64",
    "ascii": "11 65",
    "big5": "1 84",
    "binary": "63",
    "cp1250": "26 34 44 66 99",
    "cp1251": "14 23 50-52",
    "cp1256": "57 67",
    "cp1257": "29 58-59",
    "cp850": "4 80",
    "cp852": "40 81",
    "cp866": "36 68",
    "cp932": "95-96",
    "dec8": "3 69",
    "eucjpms": "97-98",
    "euckr": "19 85",
    "gb18030": "248-250",
    "gb2312": "24 86",
    "gbk": "28 87",
    "geostd8": "92-93",
    "greek": "25 70",
    "hebrew": "16 71",
    "hp8": "6 72",
    "keybcs2": "37 73",
    "koi8r": "7 74",
    "koi8u": "22 75",
    "latin1": "5 8 15 31 47-49 94",
    "latin2": "2 9 21 27 77",
    "latin5": "30 78",
    "latin7": "20 41-42 79",
    "macce": "38 43",
    "macroman": "39 53",
    "sjis": "13 88",
    "swe7": "10 82",
    "tis620": "18 89",
    "ucs2": "35 90 128-151 159 640-671 2560-2815",
    "ujis": "12 91",
    "utf16": "54-55 101-124 672-703 2816-3071",
    "utf16le": "56 62",
    "utf32": "60-61 160-183 736-767 3072-3327",
    "utf8mb3": "33 76 83 192-215 223 576-607 2048-2303",
    "utf8mb4": "45-46 224-247 255-323 608-639 2304-2559",
}
"""Numbers of collations by character set, of information_schema.collations. MariaDB adds 1024 for a collation without padding, and has
256 numbers from 2048 on for the newest collations of each Unicode character set."""

MARIADB_NO_PAD = 1024

_CODECS = {
    "ascii": "ascii",
    "cp1250": "cp1250",
    "cp1251": "cp1251",
    "cp1256": "cp1256",
    "cp1257": "cp1257",
    "cp850": "cp850",
    "cp852": "cp852",
    "cp866": "cp866",
    "greek": "iso8859_7",
    "hebrew": "iso8859_8",
    "hp8": "hp_roman8",
    "koi8r": "koi8_r",
    "koi8u": "koi8_u",
    "latin1": "cp1252",
    "latin2": "iso8859_2",
    "latin5": "iso8859_9",
    "latin7": "iso8859_13",
    "macce": "mac_latin2",
    "macroman": "mac_roman",
    "tis620": "tis_620",
    "swe7": "ascii",
    "armscii8": "latin_1",
    "dec8": "latin_1",
    "geostd8": "latin_1",
    "keybcs2": "ascii",
}
"""Python's codec of each character set of single bytes, or one that is alike in its lower half."""

_DIFFERENCES: dict[str, dict[int, str]] = {
    "latin1": {byte: chr(byte) for byte in (0x81, 0x8D, 0x8F, 0x90, 0x9D)},
    "cp866": {0xFC: "ⁿ", 0xFD: "²"},
    "greek": {0xA1: "\u02bd", 0xA2: "\u02bc"},
    "hebrew": {0xAF: "\u203e"},
    "koi8u": {0x95: "\u2022"},
    "swe7": dict(zip(b"@[\\]^`{|}~", "ÉÄÖÅÜéäöåü", strict=True)),
    "armscii8": dict(
        enumerate(
            "❁§։)(»«—.՝,-՟…՜՛՞ԱաԲբԳգԴդԵեԶզԷէԸըԹթԺժԻիԼլԽխԾծԿկՀհՁձՂղՃճՄմՅյՆնՇշՈոՉչՊպՋջՌռՍսՎվՏտՐրՑցՒւՓփՔքՕօՖֆ’'",
            start=0xA1,
        )
    ),
    "dec8": {0xA8: "¤", 0xD7: "Œ", 0xDD: "Ÿ", 0xF7: "œ", 0xFD: "ÿ"},
    "geostd8": {
        **dict(zip(b"\x80\x82\x84\x85\x86\x87\x89\x8b\x91\x92\x93\x94\x95\x96\x97\x9b\xfd", "€‚„…†‡‰‹‘’“”•–—›№", strict=True)),
        **dict(enumerate("აბგდევზჱთიკლმნჲოპჟრსტჳუფქღყშჩცძწჭხჴჯჰჵ", start=0xC0)),
    },
    "keybcs2": dict(
        enumerate(
            "ČüéďäĎŤčěĚĹÍľĺÄÁÉžŽôöÓůÚýÖÜŠĽÝŘťáíóúňŇŮÔšřŕŔ¼¡«»░▒▓│┤╡╢╖╕╣║╗╝╜╛┐└┴┬├─┼╞╟╚╔╩╦╠═╬╧╨╤╥╙╘╒╓╫╪┘┌█▄▌▐▀"
            "αßΓπΣσµτΦΘΩδ∞φε∩≡±≥≤⌠⌡÷≈°∙·√ⁿ²■\xa0",
            start=0x80,
        )
    ),
}
"""Where a server differs from Python's codec."""

_MULTIBYTE = {
    "utf16": "utf_16_be",
    "utf16le": "utf_16_le",
    "utf32": "utf_32_be",
    "ucs2": "utf_16_be",
    "big5": "big5",
    "gb2312": "gb2312",
    "gbk": "gbk",
    "cp932": "cp932",
    "sjis": "shift_jis",
    "ujis": "euc_jp",
    "euckr": "cp949",
    "gb18030": "gb18030",
}

Decode = Callable[[bytes], str]


@cache
def charset_of(collation: int) -> str | None:
    """Return the character set of a collation by its number; None if it is not known."""
    base = collation - MARIADB_NO_PAD if MARIADB_NO_PAD <= collation < 2 * MARIADB_NO_PAD else collation
    for charset, numbers in _COLLATIONS.items():
        for span in numbers.split():
            first, _, last = span.partition("-")
            if int(first) <= base <= int(last or first):
                return charset
    return None


@cache
def collation_of(charset: str) -> int | None:
    """Return the number of a collation of the character set; None if that is not known."""
    numbers = _COLLATIONS.get("utf8mb3" if charset == "utf8" else charset)
    return int(numbers.split()[0].partition("-")[0]) if numbers else None


@cache
def decoder(charset: str) -> Decode | None:
    """Return the function that decodes the character set; None if there is none. The function raises UnicodeDecodeError."""
    if charset in UTF8:
        return lambda data: data.decode("utf-8")
    if charset in _CODECS:
        table = _table(charset)
        return lambda data: codecs.charmap_decode(data, "strict", table)[0]
    if charset in _MULTIBYTE:
        codec = _MULTIBYTE[charset]
        if charset in ("sjis", "ujis"):  # whose wide backslash the servers read as a narrow one
            return lambda data: data.decode(codec).replace("\uff3c", "\\")
        return lambda data: data.decode(codec, "auditor.big5" if charset == "big5" else "strict")
    return None


def _decode_eten(error: UnicodeError) -> tuple[str, int]:
    """Decode the characters that the servers' big5 has from another extension of it than Python's."""
    assert isinstance(error, UnicodeDecodeError)
    pair = error.object[error.start : error.start + 2]
    if pair < b"\xf9\xd6":
        raise error
    return pair.decode("cp950"), error.start + 2


codecs.register_error("auditor.big5", _decode_eten)


def _table(charset: str) -> str:
    """Return the characters of all 256 bytes; where a byte is none, the server prints a question mark."""
    codec, differences = _CODECS[charset], _DIFFERENCES.get(charset, {})
    plain = (bytes([byte]).decode(codec, "replace").replace("\ufffd", "?") for byte in range(256))
    return "".join(differences.get(byte, character) for byte, character in enumerate(plain))
