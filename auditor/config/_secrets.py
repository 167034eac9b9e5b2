"""The texts of a configuration that nothing may show."""

from __future__ import annotations

from urllib.parse import unquote, urlsplit

from auditor.config._settings import Settings


def find_secrets(settings: Settings) -> list[str]:
    """Return the texts of a configuration that logs must not show: passwords, keys, and the URLs of notification
    channels."""
    urls = [one.url for one in settings.connections.values()] + ([settings.store.url] if settings.store else [])
    urls += [one.write.url for one in settings.connections.values() if one.write]
    found = [one.url for one in settings.notify.channels.values()] + [settings.keep.journal_key or ""]
    for url in urls:
        try:
            password = urlsplit(url).password or ""
        except ValueError:  # not a URL: hide all of it
            password = url
        found += [password, unquote(password)]
    return [one for one in found if one]
