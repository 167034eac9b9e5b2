"""Errors of pyiceberg, and of what its catalogues and file systems are made of, as those of ``dialects.errors``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dialects import errors
from dialects.duckdb.session import first_line


@contextmanager
def translated(name: str, secret: str = "") -> Iterator[None]:
    """Raise errors of ``dialects.errors`` in place of others; ``secret`` is left out of their messages."""
    try:
        yield
    except errors.AuditorError:
        raise
    except Exception as error:
        found = _translate(error)
        if found is None:
            raise
        text = first_line(error) if str(error).strip() else type(error).__name__
        raise found(f"{name}: {text.replace(secret, '***') if secret else text}") from error


def _translate(error: Exception) -> type[errors.AuditorError] | None:
    """Return the class of the error that stands for this one; None for one that is a fault of the program."""
    from pydantic import ValidationError as Invalid
    from pyiceberg import exceptions as known
    from requests import RequestException

    missing = (known.NoSuchTableError, known.NoSuchNamespaceError, known.NoSuchIdentifierError, FileNotFoundError)
    conflicts = (
        known.CommitFailedException,
        known.TableAlreadyExistsError,
        known.NamespaceAlreadyExistsError,
        known.WaitingForLockException,
    )
    unknown = (known.CommitStateUnknownException, known.ServerError, known.ServiceUnavailableError, known.TooManyRequestsError)
    denied = (known.UnauthorizedError, known.ForbiddenError, known.AuthorizationExpiredError, known.OAuthError, known.SignError)
    refused = (
        known.ValidationError, known.ValidationException, known.RESTError, known.ResolveError, known.NoSuchPropertyException,
        known.DynamoDbError, Invalid, NotImplementedError, ValueError, TypeError,
    )  # fmt: skip
    by_class: tuple[tuple[tuple[type[Exception], ...], type[errors.AuditorError]], ...] = (
        (missing, errors.NoSuchObject),
        (conflicts, errors.SerializationConflict),
        (unknown, errors.Unreachable),
        (denied, errors.AccessDenied),
        ((known.NotInstalledError, ModuleNotFoundError), errors.DriverMissing),
        ((RequestException, OSError), errors.Unreachable),
        (refused, errors.StatementRefused),
    )
    if any(base.__module__ == "sqlalchemy.exc" for base in type(error).__mro__):  # which is imported by the catalogue alone
        is_locked, is_down = "locked" in str(error), type(error).__name__ in ("OperationalError", "InterfaceError")
        return errors.SerializationConflict if is_locked else errors.Unreachable if is_down else errors.StatementRefused
    return next((wanted for classes, wanted in by_class if isinstance(error, classes)), None)
