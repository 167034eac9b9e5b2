"""Write a dump of an audit's source, let it stand in for the source, and drop dumps that are too many."""

from __future__ import annotations

import datetime as dt
import fcntl
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from auditor.config import Audit, Settings
from auditor.errors import ConfigError, DatabaseBusy, UnknownRun
from auditor.model import State
from auditor.pipeline import dump as dumping
from auditor.pipeline import spark
from auditor.planning.proxy import LEG_SUFFIXES
from auditor.service import audits
from auditor.store import events, runs

if TYPE_CHECKING:
    from auditor.pipeline.dump import Dumped
    from auditor.store import Store

CURRENT = "current"
"""The link in the folder of an audit's dumps that leads to the newest."""

PRIVATE = 0o700
"""Of folders of dumps, which hold values: readable by the user of the auditor alone."""

UNFINISHED = ".unfinished-"
"""How the folder of a dump begins until it is whole."""


def dump(settings: Settings, store: Store, config_file: Path, name: str, master: str, who: str = "") -> tuple[Path, Dumped]:
    """Write a dump of an audit's source with Spark and register it as the audit's proxy; return its folder and what was dumped.

    Raises ConfigError, DatabaseBusy while another dump is written or the present one is audited, and errors of the tree.
    """
    audit = audits.with_defined_audits(settings, store).audit(name)
    root = dumps_folder(name, audit)
    with written_alone(root):
        for left in root.glob(f"{UNFINISHED}*"):  # of a process that was killed: the lock says that none writes it
            shutil.rmtree(left)
        moment = f"{dt.datetime.now(dt.UTC):%Y%m%dT%H%M%S.%fZ}"
        folder = root / f"{UNFINISHED}{moment}"
        folder.mkdir(mode=PRIVATE)
        try:
            dumped = dumping.dump(spark.start_session(master), dumping.DumpTask(str(config_file.resolve()), name, str(folder)))
            _check_not_read(store, name)
            whole = folder.rename(root / moment)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        _register(root, whole)
        for old in list_dumps(root)[: -settings.keep.dumps]:
            shutil.rmtree(old)
    events.record_event(store, actor=who, action="dump written", subject=name)
    return whole, dumped


def dumps_folder(name: str, audit: Audit) -> Path:
    """Return the folder of an audit's dumps, by the path that stands in for the source. Raises ConfigError if there is none."""
    if audit.via is None:
        raise ConfigError(f"audit {name} has no via:, which says where its dump is; write via: {{connection: ..., table: ...}}")
    match = re.fullmatch(rf"(/.+)/{CURRENT}/\*\.parquet", audit.via.table.removeprefix("file://"))
    if not match:
        raise ConfigError(
            f"audit {name}: auditor dump writes folders of Parquet files below one of this host, of which the link {CURRENT} leads to the"
            f" newest; write via: {{table: /path/of/dumps/{CURRENT}/*.parquet}}"
        )
    return Path(match.group(1))


@contextmanager
def written_alone(root: Path) -> Iterator[None]:
    """Hold the folder's lock for the block; the system takes it from a process that is killed. Raises DatabaseBusy and ConfigError."""
    try:
        root.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
        file = (root / ".lock").open("w")
    except OSError as error:
        raise ConfigError(f"the folder {root} of the dumps cannot be written: {error.strerror}; correct via: table") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DatabaseBusy(f"another dump is being written to {root}; wait until it has ended") from None
        yield


def _check_not_read(store: Store, name: str) -> None:
    """Raise DatabaseBusy while the present dump is read by a run, which would see half of it and half of the new one."""
    for leg in LEG_SUFFIXES:
        try:
            last = runs.get_latest_run(store, f"{name}.{leg}")
        except UnknownRun:
            continue
        if last and last.state is State.RUNNING and not last.ended:
            raise DatabaseBusy(f"run {last.run} of {name}.{leg} reads the present dump; write the new one when that run has ended")


def _register(root: Path, folder: Path) -> None:
    """Let the link lead to a dump, from one moment to the next."""
    link = root / f".{CURRENT}"
    link.unlink(missing_ok=True)
    link.symlink_to(folder.name)
    link.replace(root / CURRENT)


def list_dumps(root: Path) -> list[Path]:
    """Return the whole dumps in a folder, the oldest first."""
    return sorted(path for path in root.iterdir() if re.fullmatch(r"\d{8}T\d{6}\.\d{6}Z", path.name))
