"""Reports of a run or a day, as text, Markdown, HTML and JSON. The fields of the JSON are declared in `auditor/api_models/report.py`."""
