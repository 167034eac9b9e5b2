"""Random partition summaries of damaged tables in several damage patterns, with the true similarity known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from auditor.compare.score import Unresolved

Numbers = npt.NDArray[np.int64]
PATTERNS = ("scattered", "hot", "tail", "rewritten", "mixed", "short last")


@dataclass(frozen=True)
class Simulated:
    """The summaries of a damaged table, and the true counts behind them."""

    rest: Unresolved
    rows: int
    differing: int
    partitions: int

    @property
    def true(self) -> float:
        return (self.rows - self.differing) / (self.rows + self.differing)


def table(generator: np.random.Generator, pattern: str, bits: int = 30, words: int = 2, k: int = 0) -> Simulated:
    """Simulate one table of 8 to 200 partitions of 20 to 2,000 rows each."""
    partitions = int(generator.integers(8, 200))
    size = int(generator.integers(20, 2000))
    source = np.full(partitions, size)
    changed, missing, extra = damage(generator, pattern, partitions, size)
    if pattern == "short last":
        source[-1] = generator.integers(1, size)
    changed = np.minimum(changed, source)
    missing = np.minimum(missing, source - changed)
    only_source, only_target = changed + missing, changed + extra
    differs = only_source + only_target > 0
    sums = np.stack([word_sums(generator, only_target, bits) - word_sums(generator, only_source, bits) for _ in range(words)], axis=1)
    union, common = source + only_target, source - only_source
    shares = generator.binomial(k, common / np.maximum(union, 1)) / k if k else np.full(partitions, np.nan)
    rest = Unresolved(
        words=sums[differs],
        source=source[differs],
        target=(source - only_source + only_target)[differs],
        at_least=np.zeros(int(differs.sum()), np.int64),
        minhash=shares[differs],
        k=k,
        bits=bits,
    )
    return Simulated(
        rest, int(source.sum() + (source - only_source + only_target).sum()), int((only_source + only_target).sum()), partitions
    )


def damage(generator: np.random.Generator, pattern: str, partitions: int, size: int) -> tuple[Numbers, Numbers, Numbers]:
    """Return the number of changed, missing and extra rows of each partition."""
    none = np.zeros(partitions, np.int64)
    share = 10 ** generator.uniform(-3.5, -0.7)
    match pattern:
        case "scattered" | "short last":
            return generator.binomial(size, share, partitions), none, none
        case "hot":
            changed = none.copy()
            first = int(generator.integers(0, partitions))
            changed[first : first + int(generator.integers(1, 4))] = generator.integers(1, size + 1)
            return changed, none, none
        case "tail":
            missing = none.copy()
            missing[-1] = generator.integers(1, size)
            return none, missing, none
        case "rewritten":
            return np.full(partitions, size), none, none
        case _:
            changed = generator.binomial(size, share, partitions)
            changed[int(generator.integers(0, partitions))] = size // 2
            return changed, generator.binomial(size, share / 2, partitions), generator.binomial(size, share / 3, partitions)


def word_sums(generator: np.random.Generator, counts: Numbers, bits: int) -> Numbers:
    """For each count, return the sum of that many uniform random words of ``bits`` bits."""
    drawn = generator.integers(0, 2**bits, int(counts.sum()))
    ends = np.cumsum(counts)
    total = np.concatenate([[0], np.cumsum(drawn)])
    return np.asarray(total[ends] - total[ends - counts], np.int64)
