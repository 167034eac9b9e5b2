"""Bytes and texts of whole Arrow columns: hexadecimal digits, base64, JSON strings, and signed integers as few bytes as they need."""

from __future__ import annotations

import binascii

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_CONTROLS = [chr(code) for code in range(0x20)]
_SHORT = {"\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}

_URL_SAFE = ("-", "+"), ("_", "/")


def flat_bytes(values: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Return the bytes of an array of texts or binary values, one value after the other, and the length of each; 0 of NULL."""
    _, ends, data = values.buffers()
    offsets = np.frombuffer(ends, np.int32, len(values) + 1, values.offset * 4).astype(np.int64)
    content = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
    lengths = np.diff(offsets)
    if values.null_count and lengths[values.is_null().to_numpy(zero_copy_only=False)].any():
        return flat_bytes(values.fill_null(b"" if pa.types.is_binary(values.type) else ""))
    return content[offsets[0] : offsets[-1]], lengths


def of_lengths(data: np.ndarray | bytes, lengths: np.ndarray, like: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return an array of values of these lengths, NULL where ``like`` is. Raises OverflowError above 2 GiB."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    if offsets[-1] > np.iinfo(np.int32).max:
        raise OverflowError("values of a column take more than 2 GiB; send fewer rows at once")
    valid = pc.is_valid(like).buffers()[1] if like.null_count else None
    content = pa.py_buffer(np.ascontiguousarray(data) if isinstance(data, np.ndarray) else data)
    return pa.Array.from_buffers(kind, len(lengths), [valid, pa.py_buffer(offsets.astype(np.int32)), content])


def from_hex(texts: pa.Array) -> pa.Array:
    """Return the binary values of hexadecimal digits. Raises ValueError."""
    digits, lengths = flat_bytes(texts)
    if (lengths % 2).any():
        raise ValueError("an odd number of hexadecimal digits")
    return of_lengths(binascii.unhexlify(digits.tobytes()), lengths // 2, texts, pa.binary())


def to_hex(values: pa.Array) -> pa.Array:
    """Return the hexadecimal digits of binary values."""
    data, lengths = flat_bytes(values)
    return of_lengths(binascii.hexlify(data.tobytes()), lengths * 2, values, pa.string())


def to_base64(values: pa.Array, *, url_safe: bool = False) -> pa.Array:
    """Return binary values in base64.

    All are encoded at once: each is filled up to a multiple of three bytes, whose last characters are then replaced by ``=``.
    """
    data, lengths = flat_bytes(values)
    padded = (lengths + 2) // 3 * 3
    if (padded == lengths).all():
        filled = data
    else:
        filled = np.zeros(int(padded.sum()), np.uint8)
        filled[_places(lengths, padded)] = data
    text = np.frombuffer(binascii.b2a_base64(filled.tobytes(), newline=False), np.uint8).copy()
    ends = np.cumsum(padded // 3 * 4)
    text[ends[padded - lengths >= 1] - 1] = ord("=")
    text[ends[padded - lengths == 2] - 2] = ord("=")
    if url_safe:
        for safe, usual in _URL_SAFE:
            text[text == ord(usual)] = ord(safe)
    return of_lengths(text, padded // 3 * 4, values, pa.string())


def from_base64(texts: pa.Array, *, url_safe: bool = False) -> pa.Array:
    """Return the binary values of base64. Raises ValueError."""
    data, lengths = flat_bytes(texts)
    if (lengths % 4).any():
        raise ValueError("no base64: its length is no multiple of 4")
    ends = np.cumsum(lengths)
    filled = data.copy()
    filled_at = [ends[lengths > 0] - back for back in (1, 2)]
    one, two = (filled[at] == ord("=") for at in filled_at)
    if (two & ~one).any():
        raise ValueError("no base64: = before its end")
    for at, is_filled in zip(filled_at, (one, two), strict=True):
        filled[at[is_filled]] = ord("A")
    if url_safe:
        for safe, usual in _URL_SAFE:
            filled[filled == ord(safe)] = ord(usual)
    try:
        content = np.frombuffer(binascii.a2b_base64(filled.tobytes(), strict_mode=True), np.uint8)
    except binascii.Error as error:
        raise ValueError(f"no base64: {error}") from None
    padded = lengths // 4 * 3
    exact = padded.copy()
    exact[lengths > 0] -= one.astype(np.int64) + two
    return of_lengths(content[_places(exact, padded)], exact, texts, pa.binary())


def _places(lengths: np.ndarray, padded: np.ndarray) -> np.ndarray:
    """Return where the bytes of values of these lengths stand if each takes ``padded`` bytes."""
    shift = (np.cumsum(padded) - padded) - (np.cumsum(lengths) - lengths)
    places: np.ndarray = np.arange(int(lengths.sum())) + np.repeat(shift, lengths)
    return places


def shortest_signed(decimals: pa.Array) -> pa.Array:
    """Return the unscaled integers of decimals as two's complement of the fewest bytes, the highest first, as BigInteger does."""
    width = decimals.type.byte_width
    start = decimals.offset * width
    low_first = np.frombuffer(decimals.buffers()[1], np.uint8)[start : start + len(decimals) * width].reshape(-1, width)
    matrix = low_first[:, ::-1]
    flipped = matrix ^ np.where(matrix[:, :1] & 0x80, 0xFF, 0).astype(np.uint8)  # leading bytes that only repeat the sign are 0 now
    some = flipped != 0
    first = np.where(some.any(axis=1), some.argmax(axis=1), width - 1)
    lengths = width - first + (flipped[np.arange(len(matrix)), first] >= 0x80)
    lengths[decimals.is_null().to_numpy(zero_copy_only=False)] = 0
    chosen = np.arange(width) >= (width - lengths)[:, None]
    return of_lengths(matrix[chosen], lengths, decimals, pa.binary())


def from_signed(values: pa.Array) -> pa.Array | None:
    """Return two's complement of any number of bytes, the highest first, as decimals without a scale; None if one has above 15 bytes."""
    data, lengths = flat_bytes(values)
    if len(lengths) and lengths.max() > 15:
        return None
    starts = np.cumsum(lengths) - lengths
    is_negative = np.zeros(len(lengths), bool)
    is_negative[lengths > 0] = data[starts[lengths > 0]] >= 0x80
    matrix = np.repeat(np.where(is_negative, 0xFF, 0).astype(np.uint8)[:, None], 16, axis=1)
    matrix[np.arange(16) >= (16 - lengths)[:, None]] = data
    low_first = pa.py_buffer(np.ascontiguousarray(matrix[:, ::-1]))
    valid = pc.is_valid(values).buffers()[1] if values.null_count else None
    return pa.Array.from_buffers(pa.decimal128(38, 0), len(values), [valid, low_first])


def little_endian(numbers: pa.Array, size: int) -> pa.Array:
    """Return unsigned integers as ``size`` bytes each, the lowest first."""
    matrix = numbers.fill_null(0).to_numpy(zero_copy_only=False).astype("<u8").view(np.uint8).reshape(-1, 8)[:, :size]
    lengths = np.where(pc.is_valid(numbers).to_numpy(zero_copy_only=False), size, 0)
    return of_lengths(matrix[lengths > 0].ravel(), lengths, numbers, pa.binary())


def quote(texts: pa.Array, *, is_safe: bool = False) -> pa.Array:
    """Return texts as JSON strings; ``is_safe`` if none has a character that is to be escaped."""
    if not is_safe:
        needs = pc.match_substring_regex(texts, r'[\x00-\x1f"\\]').fill_null(False)
        if pc.any(needs).as_py():
            texts = pc.replace_with_mask(texts, needs, _escape(texts.filter(needs)))
    return pc.binary_join_element_wise(pa.scalar('"'), texts, pa.scalar('"'), "")


def _escape(texts: pa.Array) -> pa.Array:
    texts = pc.replace_substring(pc.replace_substring(texts, "\\", "\\\\"), '"', '\\"')
    if pc.any(pc.match_substring_regex(texts, r"[\x00-\x1f]")).as_py():
        present = set(flat_bytes(texts)[0][flat_bytes(texts)[0] < 0x20].tolist())
        for control in (one for one in _CONTROLS if ord(one) in present):
            texts = pc.replace_substring(texts, control, _SHORT.get(control, f"\\u{ord(control):04x}"))
    return texts
