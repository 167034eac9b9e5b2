"""Evidence: its canonical form, the key of an installation, and whether files of it are whole and follow each other unbroken.

The canonical form is that of RFC 8785 (JSON Canonicalization Scheme) for JSON without fractions: keys in the order of their UTF-16 code
units, no white space, UTF-8. What is signed (Ed25519, RFC 8032) is the canonical form of a link; digests are SHA-256 of canonical forms.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NoReturn

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from pydantic import ValidationError

from auditor.errors import ConfigError, EvidenceBroken
from auditor.model.evidence import EVIDENCE_FORMAT, EvidenceEntry, EvidenceFile, EvidenceLink

MAX_FILE = 64 * 1024 * 1024
"""Bytes of a file beyond which it is refused unread; one with the 100,000 differences that it may list has about 20 MB."""

MAX_KEY_FILE = 64 * 1024
"""Bytes of a file with a key beyond which it is refused."""

GREATEST_NUMBER = 2**53
"""Whole numbers up to this one are the same in every JSON library (RFC 7493); greater ones are written as texts."""

ROW_KEY_BYTES = 32
"""Length of the key of a run's keyed digests."""


# the canonical form


def to_plain(value: Any) -> Any:
    """Return a value as evidence may hold it: fractions and great numbers as texts, and texts without lone surrogates."""
    match value:
        case None | bool():
            return value
        case int():
            return int(value) if abs(value) <= GREATEST_NUMBER else str(int(value))
        case float():
            return repr(value)
        case Mapping():
            return {str(to_plain(str(name))): to_plain(item) for name, item in value.items()}
        case list() | tuple():
            return [to_plain(item) for item in value]
    return str(value).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def canonical_json(value: Any) -> bytes:
    """Return the canonical form of a plain value."""
    return json.dumps(_in_order(value), ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def _in_order(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _in_order(value[name]) for name in sorted(value, key=lambda name: name.encode("utf-16-be"))}
    return [_in_order(item) for item in value] if isinstance(value, list) else value


def digest_of(value: Any) -> str:
    """Return the SHA-256 of a plain value's canonical form, in hexadecimal."""
    return hashlib.sha256(canonical_json(value)).hexdigest()


def keyed_digest(row_key: bytes, label: str, content: bytes) -> str:
    """Return the HMAC-SHA-256 of a content, in hexadecimal; ``label`` says what it is of, so that no two kinds have the same."""
    return hmac.new(row_key, label.encode() + b"\0" + content, hashlib.sha256).hexdigest()


def write_file(entries: Sequence[Mapping[str, Any]]) -> bytes:
    """Return a file with these links, as plain values: the only bytes that say so."""
    document = {"format": EVIDENCE_FORMAT, "links": list(entries)}
    return json.dumps(_in_order(document), ensure_ascii=False, indent=2, allow_nan=False).encode() + b"\n"


# the key of an installation


@dataclass(frozen=True, slots=True)
class SigningKey:
    """The private key of an installation."""

    private: Ed25519PrivateKey

    @property
    def public(self) -> str:
        """Return the public key in hexadecimal."""
        return self.private.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw).hex()

    @property
    def public_pem(self) -> str:
        """Return the public key as PEM, as others are given it."""
        form = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        return self.private.public_key().public_bytes(*form).decode()

    def sign(self, link: Mapping[str, Any]) -> str:
        """Return the signature of a link, in hexadecimal."""
        return self.private.sign(canonical_json(link)).hex()


def create_key(path: Path) -> SigningKey:
    """Make a key, and write it to a new file that its owner alone can read (PEM, PKCS #8). Raises ConfigError if there is such a file."""
    key = Ed25519PrivateKey.generate()
    form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    try:
        with os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
            file.write(key.private_bytes(*form))
    except FileExistsError:
        raise ConfigError(
            f"evidence: key: {path} is there already, and links may be signed with it; name another file for a new key"
        ) from None
    except OSError as error:
        raise ConfigError(f"evidence: key: {path} cannot be written: {error.strerror}") from None
    return SigningKey(key)


def load_key(path: Path) -> SigningKey:
    """Return the key in a file. Raises ConfigError if it cannot be read, others may read it, or it is none."""
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
        data = _read_bounded(path, MAX_KEY_FILE)
    except FileNotFoundError:
        raise ConfigError(f"evidence: key: there is no file {path}; make a key with: auditor evidence --new-key") from None
    except OSError as error:
        raise ConfigError(f"evidence: key: {path} cannot be read: {error.strerror}") from None
    if mode & 0o027:  # a group may read it: secrets that are mounted into a container are given to a group
        raise ConfigError(f"evidence: key: others may read or change {path} (mode {mode:04o}); run: chmod 600 {path}")
    try:
        key = serialization.load_pem_private_key(data or b"", None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise ConfigError(f"evidence: key: {path} holds no private key of Ed25519 without a passphrase; use one that auditor evidence made")
    return SigningKey(key)


def read_public_key(text: str) -> str:
    """Return a public key in hexadecimal, from a file (PEM, or hexadecimal) or from the text itself. Raises ConfigError."""
    if _is_digest(text):
        return text
    try:
        data = _read_bounded(Path(text), MAX_KEY_FILE)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a path"
        raise ConfigError(f"--key: {text!r} is neither a public key of 64 hexadecimal digits nor a file with one: {reason}") from None
    if data is not None and _is_digest(digest := data.decode("ascii", "replace").strip()):
        return digest
    try:
        key = serialization.load_pem_public_key(data or b"")
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise ConfigError(f"--key: {text!r} holds no public key of Ed25519; ask for the output of: auditor evidence --public-key")
    return key.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw).hex()


def _is_digest(text: str) -> bool:
    return len(text) == 64 and set(text) <= set("0123456789abcdef")


def _read_bounded(path: Path, most: int) -> bytes | None:
    """Return a file's bytes; None if it has more than ``most``. Raises OSError."""
    with path.open("rb") as file:
        data = file.read(most + 1)
    return None if len(data) > most else data


def is_signed(link: Mapping[str, Any], signature: str, key: str) -> bool:
    """Return whether a link is signed with the private half of a public key."""
    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(key)).verify(bytes.fromhex(signature), canonical_json(link))
    except (InvalidSignature, ValueError):
        return False
    return True


# verification


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFound:
    """What a file is: how it is not whole (empty if it is), and the links in it."""

    file: str
    broken: str
    links: tuple[EvidenceEntry, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainFound:
    """What the links of one audit in all whole files are: from which number to which, and where they do not follow each other."""

    audit: str
    first: int
    last: int
    head: str
    """The digest of the last one."""
    keys: tuple[str, ...]
    """The public keys that they are signed by."""
    broken: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """What files of evidence are, each on its own and together."""

    files: tuple[FileFound, ...]
    chains: tuple[ChainFound, ...]
    unseen: tuple[str, ...]
    """The heads that were given, and that no link in a whole file has."""

    @property
    def is_whole(self) -> bool:
        """Return whether nothing is broken."""
        return not (self.unseen or any(item.broken for item in self.files) or any(item.broken for item in self.chains))


def verify_files(paths: Iterable[str], keys: frozenset[str] = frozenset(), heads: Sequence[str] = ()) -> Verified:
    """Say whether files are whole, whether their links follow each other, and whether ``heads`` (digests) are among them.

    With ``keys``, public keys in hexadecimal, a link that another key signed is broken. Nothing of a file is believed before its bytes are
    found to be those that its content has.
    """
    files = tuple(_verify_file(path, keys) for path in paths)
    by_audit: dict[str, list[tuple[str, EvidenceEntry]]] = {}
    for file in files:
        for entry in file.links:
            by_audit.setdefault(entry.link.audit, []).append((file.file, entry))
    digests = {link_digest(entry.link) for file in files for entry in file.links}
    chains = tuple(_verify_chain(audit, entries) for audit, entries in sorted(by_audit.items()))
    return Verified(files=files, chains=chains, unseen=tuple(head for head in heads if head.removeprefix("sha256:") not in digests))


def link_digest(link: EvidenceLink) -> str:
    """Return the digest by which the next link names this one, and by which heads are published."""
    return digest_of(link.model_dump())


def _verify_file(path: str, keys: frozenset[str]) -> FileFound:
    try:
        data = _read_bounded(Path(path), MAX_FILE)
    except (OSError, ValueError) as error:
        return FileFound(file=path, broken=f"it cannot be read: {getattr(error, 'strerror', None) or 'not a path'}")
    if data is None:
        return FileFound(file=path, broken=f"it has more than {MAX_FILE // 1024 // 1024} MiB, which no evidence has")
    try:
        links = verify_bytes(data, keys)
    except EvidenceBroken as error:
        return FileFound(file=path, broken=str(error))
    return FileFound(file=path, broken="", links=links)


def verify_bytes(data: bytes, keys: frozenset[str] = frozenset()) -> tuple[EvidenceEntry, ...]:
    """Return the links of a file that is whole. Raises EvidenceBroken, which says how it is not."""
    raw, content = _parse(data)
    for value, entry in zip(raw["links"], content.links, strict=True):
        _verify_entry(value, entry, keys)
    for previous, other in pairwise(content.links):
        if previous.link.audit == other.link.audit and previous.link.number >= other.link.number:
            raise EvidenceBroken(f"its links are not in order: {_name(other.link)} follows link {previous.link.number}")
    if write_file(raw["links"]) != data:
        raise EvidenceBroken("it was changed since it was written, although in nothing that it says; keep the file as it was written")
    return content.links


def _parse(data: bytes) -> tuple[Any, EvidenceFile]:
    try:
        raw = json.loads(data.decode(), object_pairs_hook=_unique, parse_float=_refuse, parse_constant=_refuse)
        if isinstance(raw, dict) and str(raw.get("format")).startswith("auditor evidence ") and raw["format"] != EVIDENCE_FORMAT:
            raise EvidenceBroken(f"it is written as {str(raw['format'])[:40]!r}, which this version of the auditor does not read")
        return raw, EvidenceFile.model_validate_json(data)
    except ValidationError as error:
        where = ".".join(str(part)[:40] for part in error.errors()[0]["loc"][:6])
        raise EvidenceBroken(f"it is not evidence as the auditor writes it: {where or 'the whole'}: {error.errors()[0]['msg']}") from None
    except (ValueError, RecursionError) as error:
        reason = str(error) if isinstance(error, _NotCanonical | json.JSONDecodeError) else type(error).__name__
        raise EvidenceBroken(f"it is not evidence as the auditor writes it: {reason}") from None


class _NotCanonical(ValueError):
    """What a parser of JSON accepts, and evidence does not hold."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise _NotCanonical("a name occurs twice in an object")
    return members


def _refuse(_: str) -> NoReturn:
    raise _NotCanonical("it holds a number that is not whole")


def _verify_entry(raw: Any, entry: EvidenceEntry, keys: frozenset[str]) -> None:
    name = _name(entry.link)
    if not is_signed(raw["link"], entry.signature, entry.link.key):
        raise EvidenceBroken(f"{name} was changed: its signature is not that of its key")
    if keys and entry.link.key not in keys:
        raise EvidenceBroken(f"{name} is signed by the key {entry.link.key}, which is none of those that you trust")
    if raw["payload"] is not None and digest_of(raw["payload"]) != entry.link.payload:
        raise EvidenceBroken(f"{name}: what its run found was changed: it has another digest than the link says")
    if (entry.link.number == 1) != (entry.link.previous is None):
        raise EvidenceBroken(f"{name} names {'a' if entry.link.previous else 'no'} link before it")


def _name(link: EvidenceLink) -> str:
    return f"link {link.number} of {link.audit} (run {link.run[:12]})"


def _verify_chain(audit: str, entries: Sequence[tuple[str, EvidenceEntry]]) -> ChainFound:
    """Say whether the links of an audit follow each other, from the first of them to the last."""
    by_number: dict[int, dict[str, str]] = {}
    links: dict[int, EvidenceLink] = {}
    for file, entry in entries:
        by_number.setdefault(entry.link.number, {}).setdefault(link_digest(entry.link), file)
        links.setdefault(entry.link.number, entry.link)
    numbers = sorted(links)
    broken = [
        f"the chain branches: link {number} is another one in {' than in '.join(files_by_digest.values())}"
        for number, files_by_digest in sorted(by_number.items())
        if len(files_by_digest) > 1
    ]
    for before, number in pairwise(numbers):
        if number != before + 1:
            missing = f"link {before + 1} is" if number == before + 2 else f"links {before + 1} to {number - 1} are"
            broken.append(f"{missing} missing, so nothing shows that link {number} follows link {before}")
        elif links[number].previous not in by_number[before]:
            broken.append(f"link {number} does not follow link {before}: it names another one before it")
    keys = tuple(dict.fromkeys(links[number].key for number in numbers))
    head = link_digest(links[numbers[-1]])
    return ChainFound(audit=audit, first=numbers[0], last=numbers[-1], head=head, keys=keys, broken=tuple(broken))
