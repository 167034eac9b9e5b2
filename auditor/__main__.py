"""``python -m auditor``."""

from auditor.cli import console_main

console_main()
