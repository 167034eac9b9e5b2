"""Reports as the Python package returns them: with methods that export them, and shown as a page in notebooks.

No export contains masked values.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from html import escape
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from auditor import model
from auditor.errors import PackageMissing

if TYPE_CHECKING:
    import pandas
    import pyarrow

    from auditor.api_models.report import RunReport
    from auditor.api_models.run import Difference


class Report(model.Report):
    """The outcome of one run of one audit.

    ``differences`` iterates over the listed differences and has a length; it is true if anything differs, None if the method names none.
    """

    def __str__(self) -> str:
        """Return the report as text, as ``auditor show`` prints it."""
        from auditor.report import render

        return render.run(self, None, "text")

    def to_model(self) -> RunReport:
        """Return the report as the model that ``docs/report.schema.json`` describes, as ``--format json`` and the API write it."""
        from auditor.report import json as as_json

        return as_json.report(self)

    def to_json(self) -> str:
        """Return the report as JSON, which ``docs/report.schema.json`` describes."""
        from auditor.report import render

        return render.run(self, None, "json")

    def to_arrow(self) -> pyarrow.Table:
        """Return the listed differences as an Arrow table, one row for each; without any rows if there are none.

        ``auditor.report.difference_rows.to_arrow`` describes its columns.
        """
        from auditor.report.difference_rows import key_kinds, to_arrow

        return to_arrow(self._listed(), key_kinds(self.plan))

    def _flat(self) -> pyarrow.Table:
        from auditor.report.difference_rows import key_kinds, to_flat_arrow

        return to_flat_arrow(self._listed(), key_kinds(self.plan))

    def _listed(self) -> Iterator[Difference]:
        from auditor.masking import redact
        from auditor.report.difference_rows import as_differences

        differences = redact(self).differences
        return as_differences(() if differences is None else differences)

    def to_pandas(self) -> pandas.DataFrame:
        """Return the listed differences as a flat data frame: a row for each column of a changed row that differs. Raises PackageMissing.

        ``auditor.report.difference_rows.to_flat_arrow`` describes its columns.
        """
        if find_spec("pandas") is None:
            raise PackageMissing("to_pandas() needs pandas, which is not installed: pip install pandas; to_arrow() needs no more than this")
        return self._flat().to_pandas()

    def _repr_html_(self) -> str:
        """Return the report as HTML for a notebook, in a frame of its own, so that neither changes the other's style."""
        from auditor.report import render

        page = escape(render.run(self, None, "html"), quote=True)
        return f'<iframe srcdoc="{page}" sandbox style="width:100%;height:32em;border:0" title="{escape(self.audit)}"></iframe>'


def as_result(report: model.Report) -> Report:
    """Return a report with the methods of this module."""
    values: dict[str, Any] = {field.name: getattr(report, field.name) for field in dataclasses.fields(report)}
    return Report(**values)
