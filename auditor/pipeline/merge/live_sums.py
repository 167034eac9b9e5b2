"""Add what a merge's events change to the sums of live summaries, in the transaction in which the target takes the events.

Each transaction that moves a table's position adds a link to the sums of each epoch of the table, also one that merges no event: the sums
end exactly where the target says that it stands, or the epoch has ended.

A target that is written by commits of single tables has no room for links. Theirs are in the store, each before the commit that moves the
position there: what the stream's events between two places change is true whether or not the target takes them, and a version of the
target is compared with the links that lead to the position which it carries.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from auditor.connections.writer import create_table
from auditor.errors import LiveSummariesWrong, NoSuchObject
from auditor.history.stored_plan import load_plan
from auditor.model import LiveEpoch, Part, Plan, TableNote
from auditor.pipeline.folders import folder_at
from auditor.pipeline.live.images import Images, add_up, joined, no_images
from auditor.pipeline.live.published_epochs import publish
from auditor.pipeline.live.staged_sums import read_sums
from auditor.pipeline.live.stream_sums import list_links
from auditor.pipeline.merge import target_ledger
from auditor.pipeline.merge.positions import Held, Where, describe
from auditor.pipeline.merge.target_ledger import Expected, Touched, expect
from auditor.pipeline.table_ops import ops_of
from auditor.run.live import plans, running_sums
from auditor.run.live.ledger import LedgerStatements
from auditor.run.live.running_sums import Link
from auditor.run.live.statements import LiveSums, as_text, read_links
from auditor.sql.filter import column_names, parse
from auditor.store import live_epochs, table_notes
from dialects import Session
from dialects.committing import Committing

log = logging.getLogger(__name__)

MOST_ROWS = 512
"""Rows of links after which they are folded into one."""

UNFOLDED = 64
"""Links in the store, the last ones, that are not folded: somebody may read a version that is not the newest any more."""

TIMES_BASE = 10
"""How many times as long as the base the links of an epoch may be."""

CHANGED = "a compared column of the source's table was changed"

SHORT = 1 << 16
"""Characters of links up to which they are not folded for their length."""


@dataclass(frozen=True, slots=True)
class Pending:
    """What a merge is about to add to the sums of a table's epochs."""

    links: Sequence[tuple[LiveEpoch, Link]] = ()
    """The epochs that go on, with what the merge adds."""
    ended: Mapping[str, str] = field(default_factory=dict)
    """Why epochs end, by id."""
    expected: Mapping[str, Expected] = field(default_factory=dict)
    """What its events say of the target's rows, by the epochs whose ledger goes on."""


def prepare(
    session: Session,
    where: Where,
    table: str,
    held: Held,
    position: int,
    parts: Sequence[Part] = (),
    lasting: Sequence[LiveEpoch] | None = None,
) -> Pending:
    """Return what the events of these parts behind the held position, up to another one, change; before the merge's transaction.

    ``lasting`` are the epochs of all tables where somebody has listed them. Raises StoreError, StagingFailed and EngineError.
    """
    of_table = [one for one in (list_lasting(where) if lasting is None else lasting) if one.table == table]
    epochs = [one for one in of_table if one.state in ("scanning", "kept") and position > one.position]
    if not epochs:
        return Pending()
    if not isinstance(session, Committing):
        sums = LiveSums(session.dialect, where.place(table)[0])
        try:
            session.query(sums.sizes(epochs[0].id))
        except NoSuchObject:
            create_table(session, sums.create())
    links, ended, expected = list[tuple[LiveEpoch, Link]](), dict[str, str](), dict[str, Expected]()
    for epoch in epochs:
        try:
            after = max(held.position, epoch.position)
            _check_skipped(where, table, after, position)
            link, images = _link(where, epoch, after, position, parts)
            links.append((epoch, link))
            if epoch.ledger and not epoch.ledger_ended:
                expected[epoch.id] = expect(epoch, _plan(epoch), images)
        except LiveSummariesWrong as error:
            ended[epoch.id] = str(error)
    if expected:
        target_ledger.make_table(session, where.place(table)[0], next(iter(expected)))
    return Pending(links, ended, expected)


def _check_skipped(where: Where, table: str, after: int, position: int) -> None:
    """Raise LiveSummariesWrong if the stream lacks events that somebody let the table go on without."""
    for note in table_notes.list_notes(where.store, where.pipeline, [table], kind="poison", after=after):
        if note.skip and not note.target and note.position <= position:
            raise LiveSummariesWrong(f"the stream continues without events at {describe(note.position)}, which {note.skip.by} skipped")


def list_lasting(where: Where) -> list[LiveEpoch]:
    """Return the epochs of the target's tables that have not ended. Raises StoreError."""
    found = live_epochs.list_epochs(where.store, pipeline=where.pipeline, lasting=True)
    return [one for one in found if one.target == where.target]


def _lasting(where: Where, table: str) -> list[LiveEpoch]:
    return [one for one in list_lasting(where) if one.table == table]


def _link(where: Where, epoch: LiveEpoch, after: int, position: int, parts: Sequence[Part]) -> tuple[Link, Images]:
    """Return what events change in the sums of an epoch, and these events' rows. Raises LiveSummariesWrong and StagingFailed."""
    plan, root = _plan(epoch), folder_at(where.root)
    some, shapes = [], set()
    for part in parts:
        if part.last <= after or part.first > position:
            continue
        staged = read_sums(root, part, epoch.id)
        if staged.refused:
            raise LiveSummariesWrong(staged.refused)
        shapes.add(staged.shape)
        at = staged.images.position
        some.append(staged.images.chosen((at > after) & (at <= position)))
    if len(shapes) > 1:
        raise LiveSummariesWrong(CHANGED)
    images = joined(some) if some else no_images(plan)
    link = Link(epoch.id, epoch.layout, after, position, shapes.pop() if shapes else "", running_sums.pack(add_up(images, plan)))
    return link, images


def _plan(epoch: LiveEpoch) -> Plan:
    plan = load_plan(json.dumps(dict(epoch.plan)).encode())
    if plan is None:
        raise LiveSummariesWrong("the live summaries were begun by another version of the auditor")
    return plan


def add(session: Session, where: Where, table: str, pending: Pending, touched: Mapping[str, Touched] = {}) -> Mapping[str, str]:
    """Add links in the merge's transaction; return why epochs end, by id, for `end` once it is committed.

    ``touched`` is what the merge found and left in the target, by the epochs that keep a ledger.

    An epoch whose sums do not end where the link begins lacks what a merge did that did not know of it.
    """
    ended = dict(pending.ended)
    sums = LiveSums(session.dialect, where.place(table)[0])
    for epoch, link in pending.links:
        try:
            statements, is_long = _statements(session, where, sums, epoch, link)
            if epoch.id in pending.expected:
                entry = target_ledger.enter(pending.expected[epoch.id], touched.get(epoch.id), link)
                statements = [*statements, *target_ledger.statements(session, sums.schema, _plan(epoch), entry, is_full=is_long)]
            for statement in statements:
                session.execute(statement)
        except LiveSummariesWrong as error:
            ended[epoch.id] = str(error)
    for epoch_id in ended:
        session.execute(sums.forget(epoch_id))
        if epoch_id in pending.expected:
            session.execute(LedgerStatements(sums.dialect, sums.schema).forget(epoch_id))
    return ended


def keep(where: Where, pending: Pending) -> None:
    """Store links before the commit by which the target comes to their places, and end epochs that cannot go on with it.

    Raises StoreError and StagingFailed.
    """
    ended = dict(pending.ended)
    for epoch, link in pending.links:
        try:
            if live_epochs.add_link(where.store, _stored(link)) > MOST_ROWS:
                _fold_kept(where, epoch, link.place)
        except LiveSummariesWrong as error:
            ended[epoch.id] = str(error)
    end(where, ended)


def _fold_kept(where: Where, epoch: LiveEpoch, place: int) -> None:
    """Put one link in the place of those that lead to a place, but the last ones; versions between them are compared by a scan then.

    Links of commits that were never made lead elsewhere, and go with them.
    """
    links = running_sums.path(list_links(where.store, epoch.id), epoch.position, place)[:-UNFOLDED]
    if not links:
        return
    about = dict(zip(("words", "powers"), plans.widths(_plan(epoch)), strict=True))
    folded = running_sums.fold(links, epoch=epoch.id, layout=epoch.layout, begin=epoch.position, **about)
    live_epochs.fold_links(where.store, _stored(folded))


def _stored(link: Link) -> live_epochs.StoredLink:
    return live_epochs.StoredLink(link.epoch, link.place, link.previous, link.layout, link.shape, link.digest, link.body)


def _statements(session: Session, where: Where, sums: LiveSums, epoch: LiveEpoch, link: Link) -> tuple[Sequence[str], bool]:
    """Return the statements that add a link, and fold those before it if they are many, and whether they are.

    Raises LiveSummariesWrong.
    """
    rows, characters, last, shape = session.query(sums.sizes(epoch.id))[0]
    at = epoch.position if last is None else int(last)
    if at != link.previous:
        raise LiveSummariesWrong(f"the target came to {describe(link.previous)} without the sums of what lies behind {describe(at)}")
    if link.shape and shape and as_text(shape) != link.shape:
        raise LiveSummariesWrong(CHANGED)
    if last is None:  # the sums of the audit's earlier epochs are of no use to anybody
        earlier = [one.id for one in live_epochs.list_epochs(where.store, audit=epoch.audit) if one.state == "ended"]
        forgotten = [sums.forget(*earlier)] if earlier else []
        if earlier and epoch.ledger:
            forgotten.append(LedgerStatements(sums.dialect, sums.schema).forget(*earlier))
        return [*forgotten, *sums.write(link)], False
    if not _is_long(where, epoch, int(rows), int(characters)):
        return sums.write(link), False
    about = dict(zip(("words", "powers"), plans.widths(_plan(epoch)), strict=True))
    links = read_links(epoch.id, session.query(sums.list(epoch.id)))
    folded = running_sums.fold(links, epoch=epoch.id, layout=epoch.layout, begin=epoch.position, **about)
    return [sums.forget(epoch.id), *sums.write(folded), *sums.write(link)], True


def _is_long(where: Where, epoch: LiveEpoch, rows: int, characters: int) -> bool:
    if rows > MOST_ROWS:
        return True
    return characters > SHORT and characters > TIMES_BASE * max(SHORT, live_epochs.base_size(where.store, epoch.id))


def end(where: Where, ended: Mapping[str, str]) -> None:
    """End epochs for these reasons, by id, and let tasks sum them up no longer. Raises StoreError and StagingFailed."""
    for epoch, reason in ended.items():
        live_epochs.end_epoch(where.store, epoch, reason)
        log.warning("%s: live summaries ended: %s", where.pipeline, reason, extra={"action": "live_ended", "epoch": epoch})
    if ended:
        publish(where.store, where.pipeline, folder_at(where.root))


def ended(pending: Pending, reason: str) -> Pending:
    """Return what a transaction does to the sums of epochs that end with it for a reason."""
    return Pending(ended={**{epoch.id: reason for epoch, _ in pending.links}, **pending.ended}, expected=pending.expected)


def moved(where: Where, table: str) -> dict[str, str]:
    """Return why the epochs of a table end, by id, that was renamed, or whose name another one has now. Raises StoreError."""
    return {epoch.id: f"{table} was renamed in the source, or another table was to its name" for epoch in _lasting(where, table)}


def ends_by(where: Where, table: str, changes: Sequence[TableNote]) -> dict[str, str]:
    """Return why statements on a table end its epochs, by id: those after which rows have other values without an event."""
    if not changes:
        return {}
    found: dict[str, str] = {}
    for epoch in (one for one in _lasting(where, table) if one.state != "wanted"):
        compared = _names(_plan(epoch)) | _filtered(epoch.where)
        for op in [op for note in changes if note.position > epoch.position for op in ops_of(note.body)]:
            named = [str(op[name]) for name in ("column", "from", "to") if name in op]
            if op["op"] == "swapped" or not named or compared & {name.lower() for name in named}:
                about = f"{op['op']} {' to '.join(named)}".strip()
                found[epoch.id] = f"a statement on the source changed the table: {about}"
    return found


def _names(plan: Plan) -> set[str]:
    """Return the compared columns' names on both sides, in small letters."""
    return {column.name.lower() for column in plan.columns} | {column.expression["target"].strip('`"[]').lower() for column in plan.columns}


def _filtered(where: str) -> set[str]:
    """Return the names of the columns that a filter reads, in small letters: they choose the rows, whether they are compared or not."""
    return {name.lower() for name in column_names(parse(where))} if where else set()
