"""The numbers of the field that positions and symbols are taken from; without numpy, so that SQL is rendered before that is loaded."""

from __future__ import annotations

P = 2147483647
"""2^31 - 1, prime: the field of positions and symbols, modulo which power sums are taken."""

SPARES = 2
"""Power sums beyond 2t that hashed positions carry: an overloaded partition fits them by chance once in p^2."""
