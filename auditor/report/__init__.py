"""A run's report for a person or a program: terminal, Markdown, JSON."""
