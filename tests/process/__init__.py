"""Tests of whole processes: kills, signals, several processes at one store, live writes, containers."""
