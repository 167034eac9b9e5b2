"""What the channels are told about a patch: what it did, who asked for it, and the run that looked again."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path

import pytest

from auditor.config import Channel, Notify, Service, Settings
from auditor.service import notify
from auditor.service.channels import Message
from auditor.store import Store, open_store
from auditor.store.patches import Patch
from tests.unit.test_report_samples import store_past_run

NOW = dt.datetime(2026, 3, 18, 7, 0, tzinfo=dt.UTC)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = open_store(f"sqlite:///{tmp_path}/store.db")
    yield opened
    opened.close()


def patch(**more: object) -> Patch:
    values: dict[str, object] = {
        "patch": "c" * 32, "run": "a" * 32, "audit": "orders", "undoes": None, "target": "", "requested_by": "ada", "at": NOW,
        "state": "done", "undoable": True, "after_run": None, "detail": {},
    }  # fmt: skip
    return Patch(**{**values, **more})  # type: ignore[arg-type]


def test_channels_are_told_of_a_patch(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[tuple[str, Message]] = []
    monkeypatch.setattr(notify, "send", lambda name, channel, message: sent.append((name, message)))
    after = store_past_run(store, "orders", NOW)
    channels = {
        "all": Channel(url="json://127.0.0.1:1/"),
        "quiet": Channel(url="json://127.0.0.1:1/", on=("mismatch",)),
        "elsewhere": Channel(url="json://127.0.0.1:1/", audits=("customers",)),
    }
    settings = Settings.model_construct(notify=Notify(channels=channels), audits={}, groups={}, connections={}, service=Service())
    assert notify.notify_patch(settings, store, patch(after_run=after), "1 updated, 1 left") == []
    ((name, message),) = sent
    assert (name, message.title) == ("all", "orders: PATCH cccccccccccc applied")
    assert message.lines == (
        "1 updated, 1 left, requested by ada",
        f"run {after[:12]} checked its rows again: match",
        "more: auditor show aaaaaaaaaaaa",
    )


def test_an_undo_and_a_failure_say_so() -> None:
    undo = notify.patch_message(patch(undoes="d" * 32, detail={"not_audited": "it was stopped"}), "1 deleted", None)
    assert undo.title == "orders: UNDO cccccccccccc applied"
    assert undo.lines[1:3] == ("it takes back patch dddddddddddd", "it was stopped")
    failed = notify.patch_message(patch(state="failed", detail={"why": "a batch\nwas rolled back"}), "nothing was written", None)
    assert failed.title == "orders: PATCH cccccccccccc failed"
    assert failed.lines[1] == "a batch was rolled back"
