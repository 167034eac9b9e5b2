"""Tests of runs between two live engines."""
