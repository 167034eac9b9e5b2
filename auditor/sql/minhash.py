"""SQL of the published minhashes."""

from __future__ import annotations

from auditor.summary.minhash import MASK, MODULUS, constants
from dialects import Dialect


def minima(k: int, seed: str, dialect: Dialect) -> list[str]:
    """Return SQL of the k minima of a partition, each the least permuted value of the 32-bit word ``seed`` of its row hashes."""
    permuted = (dialect.modulo(f"({seed} * {a} + {b})", MODULUS) for a, b in constants(k))
    return [f"MIN({dialect.low_bits(f'({sql})', MASK.bit_length())}) AS minhash_{i}" for i, sql in enumerate(permuted)]
