"""Reports of a run or a day, as text, Markdown, HTML and JSON."""
