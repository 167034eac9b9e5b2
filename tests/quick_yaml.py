"""Let tests read YAML by libyaml, where it is there: the parser in Python takes ten times as long, and most tests read a configuration.

What libyaml refuses the parser in Python reads again, so errors are in its words, as the auditor's users see them.
"""

from __future__ import annotations

from typing import Any

import pytest
import yaml

DEEPEST = 2_000
"""Brackets behind which the parser in Python is left to its own limits: libyaml's has none."""


def compose_quickly(patch: pytest.MonkeyPatch) -> None:
    """Replace ``yaml.compose`` for texts that are read safely."""
    compose = yaml.compose

    def quickly(stream: Any, Loader: Any = yaml.SafeLoader) -> Any:
        if Loader is yaml.SafeLoader and isinstance(stream, str) and stream.count("[") + stream.count("{") < DEEPEST:
            try:
                return compose(stream, Loader=yaml.CSafeLoader)
            except yaml.YAMLError:
                pass
        return compose(stream, Loader=Loader)

    if yaml.__with_libyaml__:
        patch.setattr(yaml, "compose", quickly)
