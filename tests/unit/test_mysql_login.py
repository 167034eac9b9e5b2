"""Stand-ins for modules that are loaded when they are first used."""

from __future__ import annotations

import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from dialects.mysql.login import _loaded_when_used


class MeetingPackage(ModuleType):
    """A package in which two threads that set an attribute at once wait for each other, for a moment."""

    def __setattr__(self, name: str, value: Any) -> None:
        meet()
        super().__setattr__(name, value)


MEETING = threading.Barrier(2)


def meet() -> None:
    with suppress(threading.BrokenBarrierError):
        MEETING.wait(0.2)


def test_module_is_loaded_when_something_of_it_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "heavy_package").mkdir()
    (tmp_path / "heavy_package" / "__init__.py").touch()
    (tmp_path / "heavy_package" / "weight.py").write_text("KILOS = 7\n")
    (tmp_path / "user_of_weight.py").write_text("from heavy_package import weight\ndef kilos(): return weight.KILOS\n")
    monkeypatch.syspath_prepend(tmp_path)
    with _loaded_when_used(("heavy_package.weight",)):
        import user_of_weight  # type: ignore[import-not-found]
    package = sys.modules["heavy_package"]
    assert "heavy_package.weight" not in sys.modules
    assert not hasattr(package, "weight"), "whoever imports the module later gets the module"
    assert user_of_weight.kilos() == 7
    assert package.weight is sys.modules["heavy_package.weight"]


def test_two_threads_that_begin_at_once_do_not_remove_each_others_stand_ins(monkeypatch: pytest.MonkeyPatch) -> None:
    package = MeetingPackage("meeting_package")
    monkeypatch.setitem(sys.modules, "meeting_package", package)

    def stand_in(_number: int) -> None:
        with _loaded_when_used(("meeting_package.module",)):
            meet()

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(stand_in, range(2)))
    assert not hasattr(package, "module")


def test_package_that_is_not_installed_has_no_stand_in() -> None:
    with _loaded_when_used(("no_such_package.module",)), pytest.raises(ImportError):
        from no_such_package import module  # type: ignore[import-not-found]  # noqa: F401
