"""Background work: services, and how long is waited after failures."""

from __future__ import annotations

import logging
import threading

import pytest

from auditor.background import NEVER, Backoff, Service
from auditor.errors import QueueFull


def test_waits_double_up_to_the_longest_and_begin_again_after_a_success() -> None:
    backoff = Backoff(0.5, 3.0)
    assert [backoff.fail() for _ in range(5)] == [0.5, 1.0, 2.0, 3.0, 3.0]
    assert backoff.failures == 5
    backoff.succeed()
    assert backoff.failures == 0 and [backoff.fail(), backoff.fail()] == [0.5, 1.0]


class Work:
    """Fails with these errors one after the other, None for a success, and is done then."""

    def __init__(self, *errors: Exception | None) -> None:
        self.left, self.calls = list(errors), 0

    def __call__(self) -> float | None:
        self.calls += 1
        if not self.left:
            return NEVER
        if error := self.left.pop(0):
            raise error
        return None


def test_a_service_works_again_and_again_until_it_is_stopped() -> None:
    calls, enough = list[str](), threading.Event()

    def work() -> None:
        calls.append(threading.current_thread().name)
        if len(calls) == 3:
            enough.set()

    ended: list[str] = []
    service = Service("counter", work, 0.001, at_end=lambda: ended.append(threading.current_thread().name))
    assert not service.alive() and service.stop(), "one that was not started has ended"
    service = Service("counter", work, 0.001, at_end=lambda: ended.append(threading.current_thread().name))
    service.start()
    assert enough.wait(30) and service.alive()
    assert service.stop(30) and not service.alive()
    assert set(calls) == {"counter"} and ended == ["counter"]


def test_a_service_that_waits_first_and_is_stopped_at_once_did_nothing() -> None:
    work = Work()
    with Service("late", work, 3600, waits_first=True):
        pass
    assert work.calls == 0


def test_work_says_how_long_to_wait_and_that_it_is_done() -> None:
    waits: list[float | None] = [0.0, 0.0, NEVER]
    service = Service("own waits", lambda: waits.pop(0), 3600)
    service.run()
    assert waits == []


def test_errors_are_logged_once_as_long_as_they_are_the_same(caplog: pytest.LogCaptureFixture) -> None:
    full, bug = QueueFull("full"), ValueError("a bug")
    work = Work(full, QueueFull("full"), full, None, full, bug, ValueError("a bug"))
    with caplog.at_level(logging.WARNING):
        Service("ticker", work, failure="due runs were postponed", action="tick_failed", fields={"shop": "a"}).run()
    assert work.calls == 8 and [(one.levelname, one.getMessage()) for one in caplog.records] == [
        ("WARNING", "due runs were postponed: full"),
        ("WARNING", "due runs were postponed: full"),
        ("ERROR", "due runs were postponed: an unexpected ValueError"),
    ]
    assert {(vars(one)["action"], vars(one)["shop"]) for one in caplog.records} == {("tick_failed", "a")}
    assert caplog.records[2].exc_info and caplog.records[2].exc_info[1] is bug


def test_the_last_error_is_kept_until_a_success() -> None:
    error = QueueFull("full")
    seen: list[Exception | None] = []

    def work() -> float | None:
        seen.append(service.last_error)
        return errors()

    errors = Work(error, None)
    service = Service("kept", work)
    service.run()
    assert seen == [None, error, None] and service.last_error is None


def test_waits_after_errors_grow_and_begin_again(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    stopping = threading.Event()
    monkeypatch.setattr(stopping, "wait", waits.append)
    error = QueueFull("full")
    Service("patient", Work(error, error, None, error), 9.0, backoff=Backoff(1.0, 60.0), stopping=stopping).run()
    assert waits == [0.0, 1.0, 2.0, 9.0, 1.0]


def test_a_bug_ends_a_service_whose_run_depends_on_it() -> None:
    bug, seen = TypeError("a bug"), list[Exception]()
    work = Work(QueueFull("full"), bug, None)
    service = Service("loader", work)
    service.on_bug = seen.append
    service.run()
    assert seen == [bug] and work.calls == 2


def test_a_service_that_does_not_end_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    release = threading.Event()

    def work() -> None:
        release.wait(60)

    service = Service("stubborn", work)
    service.start()
    with caplog.at_level(logging.WARNING):
        assert not service.stop(0.01) and service.alive()
    assert [one.getMessage() for one in caplog.records] == ["stubborn did not end within 0.01 s"]
    release.set()
    assert service.join(30)
