"""The commands evidence and verify."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from auditor.cli._output import console, current_user, load_settings, print_json, settings_and_store, write_private
from auditor.errors import ConfigError, EvidenceBroken, NoEvidence
from auditor.history import evidence as checks
from auditor.report import evidence as texts


def evidence(options: argparse.Namespace) -> int:
    """Write the evidence of a run, or make, show or erase keys. Raises EvidenceBroken if the stored run or its chain was changed."""
    from auditor.service import evidence as use

    if options.new_key or options.public_key:
        configured = load_settings(options)
        key = use.make_key(configured) if options.new_key else use.get_key(configured)
        if options.new_key and not options.quiet:
            print(f"auditor: wrote {use.configured(configured).key}; keep a copy of it where the store is not", file=sys.stderr)
        print(key.public_pem, end="")
        if not options.quiet:
            print(f"auditor: in hexadecimal: {key.public}", file=sys.stderr)
        return 0
    if not options.run:
        raise ConfigError("name a run or an audit, or give --new-key or --public-key")
    return _of_run(options)


def _of_run(options: argparse.Namespace) -> int:
    from auditor.service import evidence as use

    with settings_and_store(options) as (configured, store):
        link = use.find_link(configured, store, options.run)
        if options.erase_row_keys:
            erased = use.erase_row_keys(store, link.audit, None if options.run == link.audit else link.run, by=current_user())
            print(f"the keys of {erased:,} {'run' if erased == 1 else 'runs'} were erased; digests in their evidence say nothing any more")
            return 0
        if options.row_key:
            if link.row_key is None:
                raise NoEvidence(f"the key of run {link.run[:12]} was erased, or the run is no longer stored")
            print(link.row_key.hex())
            return 0
        data = use.evidence_file(store, link, whole_chain=options.chain)
        problems = use.find_problems(configured, store, link.audit, None if options.chain or options.run == link.audit else link)
    if options.output:
        write_private(Path(options.output), data)
        if not options.quiet:
            print(f"auditor: wrote {options.output}: link {link.number} of the chain, sha256:{link.digest}", file=sys.stderr)
    elif sys.stdout.isatty():
        sys.stdout.write(data.decode())  # which makes names visible
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    if problems:
        raise EvidenceBroken("\n".join(problems))
    return 0


def verify(options: argparse.Namespace) -> int:
    """Say whether files of evidence are whole, and whether their links follow each other; without a configuration or a database."""
    keys = frozenset(checks.read_public_key(text) for text in options.key)
    verified = checks.verify_files(options.files, keys, options.head)
    if options.format == "json":
        print_json(texts.verified_shape(verified, is_pinned=bool(keys)))
    else:
        for line in texts.verified_lines(verified, is_pinned=bool(keys)):
            console().print(line, soft_wrap=True, markup=False, highlight=False)
    return 0 if verified.is_whole else EvidenceBroken.exit_code
