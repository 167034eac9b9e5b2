"""The texts of a configuration that nothing may show."""

from __future__ import annotations

from urllib.parse import parse_qs, unquote, urlsplit

from auditor.config._settings import Settings

SECRET_OPTIONS = ("token", "password", "sslpassword", "secret_access_key", "session_token", "client_secret", "web_identity_token")
"""Options of URLs that are secrets."""


def find_secrets(settings: Settings) -> list[str]:
    """Return the texts of a configuration that logs must not show: passwords, keys, and the URLs of notification
    channels."""
    urls = [connection.url for connection in settings.connections.values()] + ([settings.store.url] if settings.store else [])
    urls += [connection.write.url for connection in settings.connections.values() if connection.write]
    urls += [pipeline.tracker.url for pipeline in settings.pipelines.values() if pipeline.tracker]
    secrets = [channel.url for channel in settings.notify.channels.values()] + [settings.keep.journal_key or ""]
    urls += [pipeline.master for pipeline in settings.pipelines.values()]
    for url in urls:
        try:
            password, options = urlsplit(url).password or "", parse_qs(urlsplit(url).query)
            tokens = [value for name in SECRET_OPTIONS for value in options.get(name, [])]
        except ValueError:  # not a URL: hide all of it
            password, tokens = url, []
        secrets += [password, unquote(password), *tokens]
    return [secret for secret in secrets if secret]
