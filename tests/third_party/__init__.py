"""The engine of another distribution, and the proof that it needs no line outside of its package."""
