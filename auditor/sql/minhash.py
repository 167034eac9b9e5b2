"""SQL of the published minhashes."""

from __future__ import annotations

from auditor.summary.minhash import MASK, MODULUS, constants


def minima(k: int, seed: str) -> list[str]:
    """Return SQL of the k minima of a partition, each the least permuted value of the 32-bit word ``seed`` of its row hashes."""
    return [f"MIN((({seed} * {a} + {b}) % {MODULUS}) & {MASK}) AS minhash_{i}" for i, (a, b) in enumerate(constants(k))]
