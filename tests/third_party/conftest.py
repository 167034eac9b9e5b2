"""The tests in the package of the other distribution run in a process that has it installed."""

collect_ignore = ["auditor-sqlite"]
