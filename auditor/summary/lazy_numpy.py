"""numpy, which is loaded when it is first used: a run sends its statements first, and loads it while the servers work.

To load it takes longer than everything else that a run does between its first statement and the one that scans. Modules that a run
needs before that one write ``from auditor.summary.lazy_numpy import np``.
"""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any

__all__ = ["load_soon", "np"]

SOON = 0.01
"""Seconds after which numpy is loaded in the background: by then the first statements have been sent, or nearly so."""

if TYPE_CHECKING:
    import numpy as np
else:

    class _Numpy:
        """Stands for the module, and keeps what was asked for."""

        def __getattr__(self, name: str) -> Any:
            import numpy

            value = getattr(numpy, name)
            setattr(self, name, value)
            return value

    np = _Numpy()


def load_soon() -> None:
    """Load numpy in the background, once statements have been sent that were about to be; nothing to do if it is loaded."""
    if "numpy" not in sys.modules:
        threading.Timer(SOON, lambda: np.int64).start()
