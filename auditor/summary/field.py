"""The field GF(p) of positions and symbols. No numpy here, so that SQL can be rendered without loading it."""

from __future__ import annotations

P = 2147483647
"""p = 2^31 - 1, a prime: positions are 1 .. p - 1, symbols 0 .. 2^30 - 1, and power sums are taken modulo p."""
