"""How long things last in the auditor: timeouts, leases, waits before retries and reconnects, and polling intervals.

They are fields of one object, of which tests set some for a block. Those of sessions are in `dialects/durations.py`. What a user sets, such
as the `statement_timeout` of a connection or how long parts are kept, is in `auditor/config/`.
"""

from __future__ import annotations

from dataclasses import dataclass

from dialects.durations import Current


@dataclass(frozen=True, kw_only=True, slots=True)
class Durations:
    """What is waited for, in seconds, by subject."""

    # a run
    chunk_aim: float = 5.0
    """That a chunk's statement should take."""
    run_heartbeat: float = 1.0
    """Between two heartbeats of a running run."""
    run_unsaved: float = 1.0
    """From the start of a run, for which its plan and its chunks stay in memory: one that is done sooner is stored whole, at its end."""
    costs_shared: float = 5.0
    """Between two exchanges with the store of what runs cost, by which they share the budgets of a day."""
    heartbeat_poll: float = 0.5
    """Between two looks at the target's heartbeat table."""
    store_pruning: float = 60.0
    """Between two prunings of a store by one process."""

    # a drill
    drill_arrival: float = 120.0
    """For which a drill waits until a pipeline has carried its table."""
    drill_poll: float = 0.5
    """Between two looks whether it has."""

    # connections: waits before retries, cancellation, load, slots, snapshots
    connection_retry_waits: tuple[float, ...] = (0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0)
    """Before each retry of a transient error, and each attempt to open a lost connection again; after the last the error is final."""
    connecting_poll: float = 0.1
    """Between two checks, while a server is asked for a connection, whether the run was stopped."""
    kept_session: float = 5.0
    """Of idleness after which a session is not used again by the next audit that is planned."""
    cancel_again: float = 0.5
    """After which a statement that still runs is cancelled again."""
    signal_poll: float = 0.5
    """After which a wait is begun again, so that Python runs the handlers of signals meanwhile."""
    load_probe: float = 1.0
    """For which one probe of a server's load is valid."""
    load_probe_limit: float = 10.0
    """That a load probe's statement, and its wait for a lock, may take."""
    load_probe_stale: float = 30.0
    """After which a hung load probe is abandoned and another one starts in a new session."""
    limiter_poll: float = 0.1
    """Between two checks of a waiting thread whether it was stopped, and whether what it waits for has come."""
    slot_poll: float = 0.25
    """Between two checks whether a statement's slot is free."""
    slot_lease: float = 30.0
    """After which the slot of a process that stopped renewing it is free again."""
    slot_waiter: float = 3.0
    """After which a waiting holder that did not ask again loses its place."""
    snapshot_in_pause: float = 600.0
    """Of a pause, and of idleness in it, after which a snapshot is given up: a busy source keeps the old versions of so many minutes
    until then, and a short pause does not cost the snapshot."""

    # topics
    topics_report: float = 2.0
    """Between two reports to the store of up to where a target's topics have messages."""

    # the store
    store_lock: float = 20
    """For a lock of another process."""
    store_answer: float = 60
    """For a server's answer, after which its connection fails; must be longer than any statement, and than ``store_lock``."""
    store_busy: float = 0.02
    """Between attempts to set a busy SQLite file's journal mode."""
    run_lease: float = 120.0
    """Without a heartbeat after which a run's process on another host is considered dead."""
    patch_lease: float = 600.0
    """For which a patch, or a bootstrap, of a process that cannot be looked at is silent before its process counts as dead."""

    # the service: workers, ticker, notices
    worker_poll: float = 0.5
    """Between a worker's checks for pending runs."""
    worker_retry: float = 2.0
    """Before an operation on a failed store is retried."""
    requeue: float = 10.0
    """Between two checks for runs whose process has died."""
    stop_margin: float = 5.0
    """Of the shutdown time, at most half of it, reserved for stopping runs that have not ended by themselves."""
    ticker_poll: float = 1.0
    """Between two checks for due audits."""
    send_limit: float = 30.0
    """After which sending to a channel times out."""
    notify_batch: float = 60.0
    """For which the message about a run waits for those about others, to be sent with them."""
    notices_poll: float = 15.0
    """Between two looks at all pipelines."""
    notices_end: float = 1.0
    """For the end of the thread that looks at pipelines."""
    stream_arrival: float = 600.0
    """For rows that were sent through the stream, or by a team's own path."""
    path_poll: float = 2.0
    """Between two looks at rows that were handed to a team's own path."""
    certified_child: float = 300.0
    """After which a process that should have been killed is given up."""

    # processes of pipelines
    pipeline_first_retry: float = 0.5
    """Before what failed is tried again the first time; each wait is twice the one before."""
    pipeline_longest_retry: float = 60.0
    """Before what failed is tried again, at most."""
    staged_poll: float = 0.5
    """Between two looks at the store for what another process staged."""
    pipeline_lease: float = 30.0
    """After which another process may read the source, or go on with refreshes, if this one no longer extends its lease."""
    command_lease: float = 600.0
    """After which a pipeline may run again if a command that kept it from running, as a reset or a failover does, was killed."""
    pipeline_steady: float = 60.0
    """After which a process counts as one that runs well: the next one starts after the shortest wait again."""
    pipeline_fresh: float = 30.0
    """For which a look of the pipeline's own process counts as present; without one, no process runs."""
    process_poll: float = 0.2
    """Between two looks at a process."""
    watch_poll: float = 2.0
    """Between two looks of a running pipeline at itself."""
    watch_end: float = 5.0
    """For the end of a look at the source."""
    transaction_open: float = 60.0
    """For which a transaction of a topic stands open before it is reported that it hides what follows."""
    batch_poll: float = 0.2
    """Between two looks for events of the source where the last one found none."""
    longest_rest: float = 1.2
    """Of a pipeline between two batches of few events, at most."""
    batch_end: float = 30.0
    """For the end of a batch under way when the pipeline is stopped; it is not listed then, and staged again."""
    run_poll: float = 0.5
    """Between two looks of a running pipeline at its driver of batches, and at the store."""
    retention_poll: float = 60.0
    """Between two looks for parts that may be deleted; how long parts are kept is a setting: ``keep: parts``."""
    part_reader: float = 300.0
    """For readers of staged events that were copied into another file, before the file is deleted in which they were."""
    spark_answer: float = 60.0
    """For a Spark Connect server to say that a session is alive."""
    spark_release: float = 5.0
    """For it to release one."""
    spread_poll: float = 0.2
    """Between two looks at whether a copy by executors was stopped."""

    # the binary log
    log_first_reconnect: float = 0.1
    """Before the binary log's connection is opened again the first time; each wait is twice the one before."""
    log_longest_reconnect: float = 5.0
    """Before the binary log's connection is opened again, at most."""
    log_heartbeat: float = 5.0
    """Of silence after which the server sends a heartbeat."""
    log_silence: float = 15.0
    """Of silence after which a connection counts as lost: three heartbeats."""
    log_reader: float = 3600
    """That the server waits for a reader that does not read, as while a batch is under way; its default is a minute."""
    source_absence: float = 20.0
    """For a source that went away while its log is read again."""
    log_proof: float = 30.0
    """For a row that ``pipeline check`` wrote to come through the log."""
    log_proof_poll: float = 0.2
    """Between two looks for it."""
    chunk_lock_aim: float = 0.25
    """For which a refreshed chunk's rows should be locked: its rows are so many as took about this long before."""
    chunk_lock_limit: float = 0.9
    """After which a refreshed chunk's statement is cancelled, so that its rows are locked for less than a second."""

    # merges, and holds of a target's table
    file_wait: float = 2.0
    """For a target's file that another process has open, before the loader does what else is due and waits for it again."""
    file_patience: float = 10.0
    """For which another process may have a target's file open before that is reported."""
    target_fresh: float = 60.0
    """After which a target's table is looked at again."""
    target_note: float = 5.0
    """Between two notes in the target of the place up to which it holds every table, at least."""
    hold_limit: float = 60.0
    """After which a hold ends by itself."""
    hold_answer: float = 20.0
    """For the loader, which may have to end a merge before it holds a table."""
    hold_reach: float = 30.0
    """For the stream to reach a place, and for the loader to merge up to it."""
    hold_file: float = 15.0
    """For the target's file, if another process has it open while an audit wants a table to be merged; must be shorter than
    ``hold_answer`` and ``hold_reach``."""
    size_poll: float = 5.0
    """Between two looks at how much is staged, where so much lets a merge begin."""
    hold_poll: float = 0.02
    """Between two looks at the store while an audit holds a table: each of them is time for which the target stands still."""

    trace_pause: float = 2.0
    """Before the source is asked again whether it really has a row that its log does not tell."""

    # copying a table again
    swap_lock: float = 2.0
    """For the lock of an exchange of tables; sessions that ask for the table meanwhile wait as long."""
    swap_pauses: tuple[float, ...] = (0.5, 1.0, 2.0, 4.0, 8.0)
    """Between two attempts at an exchange that did not get its lock."""
    bootstrap_stop_poll: float = 0.2
    """Between two looks at whether a bootstrap was stopped."""

    # the API and its pages
    request_head: float = 10.0
    """For the head of a request, from the connection or from the first byte of a later request."""
    request_body: float = 60.0
    """For the body of a request."""
    shutdown_requests: int = 2
    """Of the shutdown time for open requests; hanging requests must not use up the time that runs need."""
    exit_margin: float = 1.0
    """Of the shutdown time reserved for the exit of the interpreter."""
    connection_errors: float = 60.0
    """Within which errors of connections of one kind are logged once."""
    event_poll: float = 0.5
    """Between two reads of a run whose events are streamed."""
    event_keepalive: float = 15.0
    """Without an event after which a comment is sent, so that proxies do not close the connection."""
    event_stream: float = 900.0
    """After which a stream of events ends. Browsers reconnect by themselves."""
    patch_page: float = 600.0
    """After its end that a patch's page waits for the run that looks again."""

    # the command line and the client
    follow_poll: float = 0.5
    """Between two looks at a run that is followed."""
    client_poll: float = 1.0
    """Between two requests of the client while it waits for a run, and before a stream of events is opened again."""
    client_outage: float = 300.0
    """For which `Client.wait` and `Client.follow` retry while requests fail with errors that may pass; so does ``auditor wait``."""
    verification_poll: float = 2.0
    """Between two looks of ``auditor wait`` at how far its audits have verified."""

    # the demonstration
    demo_server: float = 60.0
    """In which a server must answer; a container's image may take longer to download before."""
    demo_writing: float = 12.0
    """During which the writer writes at least; it continues until each target holds something."""
    demo_pause: float = 0.2
    """Between the writer's transactions."""
    demo_progress: float = 4.0
    """Between two lines about the progress."""
    demo_pipeline: float = 600.0
    """After which a pipeline that has not caught up counts as failed: a busy machine needs minutes for what takes seconds."""


durations = Current(Durations())
"""Call it for the durations that hold now."""
