"""What leaves the process, each shape defined once: services return these models, the API and ``--json`` write them, the client reads them.

Times are ISO 8601 in UTC. A null means that a value is not known, or does not apply. Later versions only add fields.
"""

from __future__ import annotations

from auditor.shapes._shape import AnyShape, Shape

__all__ = ["AnyShape", "Shape"]
