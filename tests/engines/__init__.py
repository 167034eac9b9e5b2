"""Tests of each live engine by itself, against the oracle or its own servers."""
