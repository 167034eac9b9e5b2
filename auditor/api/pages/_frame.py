"""The frame that every page stands in: templates, the words and numbers in them, and the theme."""

from __future__ import annotations

import datetime as dt
import hashlib
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from fastapi import Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from jinja2 import ChoiceLoader, Environment, PackageLoader, PrefixLoader
from markupsafe import Markup

from auditor import __version__
from auditor.api.pages._visitor import Visitor, visitor_or_none
from auditor.api.pages._words import KINDS, METHODS, WORDS
from auditor.report import html, plain
from auditor.report.heat import SAYS
from auditor.report.templates import environment

STATIC = Path(__file__).parent.parent / "static"
FILES = {
    "html": ("text/html", "html"), "markdown": ("text/markdown", "md"), "json": ("application/json", "json"), "text": ("text/plain", "txt"),
}  # fmt: skip
THEME = "auditor_theme"
THEMES = ("light", "dark")


def page(request: Request, template: str, *, status: int = 200, visitor: Visitor | None = None, **values: Any) -> HTMLResponse:
    """A page, or of one that htmx asked for a part, that part: nothing a cache may keep."""
    seen = visitor or visitor_or_none(request)
    theme = request.cookies.get(THEME, "")
    path = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    body = (
        _environment()
        .get_template(template)
        .render(
            visitor=seen,
            theme=theme if theme in THEMES else "",
            here=path if request.method == "GET" else "/",
            section=request.url.path.split("/")[1],
            now=now(),
            version=__version__,
            **values,
        )
    )
    return HTMLResponse(body, status, headers={"Cache-Control": "no-store", "Vary": "HX-Request, Cookie"})


def file(body: str, name: str, format: str) -> Response:
    """A report as a file to be kept, in one of the formats of reports."""
    type_, ending = FILES[format]
    headers = {"Content-Disposition": f'attachment; filename="{name}.{ending}"', "Cache-Control": "no-store"}
    return Response(body.encode("utf-8", "replace"), media_type=f"{type_}; charset=utf-8", headers=headers)


def back_to(path: str) -> RedirectResponse:
    """After a form was taken: look at this."""
    return RedirectResponse(path, 303)


def now() -> dt.datetime:
    """This moment, in UTC."""
    return dt.datetime.now(dt.UTC)


def local(path: str) -> str:
    """The path if it leads to a page of ours, else the first page."""
    return path if path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable() else "/"


def url(*parts: str) -> str:
    """A path of ours; what the parts hold cannot lead elsewhere."""
    return "/" + "/".join(quote(part, safe="") for part in parts)


@cache
def _environment() -> Environment:
    # What a run looks like is said once, by the report: its macros and its filters are used here.
    reports = environment()
    mine = PackageLoader("auditor.api.pages")
    made = reports.overlay(loader=ChoiceLoader([mine, PrefixLoader({"report": PackageLoader("auditor", "report")})]))
    made.filters = reports.filters | {"when": _when, "since": _since, "ahead": _ahead, "share": _share, "lines": _lines}
    made.globals = {
        **reports.globals, "words": WORDS, "kinds": KINDS, "methods": METHODS, "says": SAYS, "url": url, "static": static,
        "means": plain.MEANS,
    }  # fmt: skip
    return made


@cache
def static(name: str) -> str:
    """Where a file of ours is fetched; it changes when the file does, so that a browser may keep it."""
    return f"/static/{name}?{hashlib.sha256(asset(name)).hexdigest()[:12]}"


def asset(name: str) -> bytes:
    """A file of ours; the report's style is one of them."""
    if name == "report.css":
        return (Path(html.__file__).parent / "style.css").read_bytes()
    return (STATIC / name).read_bytes()


def _when(at: dt.datetime | None) -> Markup:
    """A moment in UTC, to the minute, with its seconds on hover."""
    if at is None:
        return Markup("")
    return Markup('<time datetime="{}" title="{}">{:%Y-%m-%d %H:%M} UTC</time>').format(at.isoformat(), plain.moment(at), at)


def _since(at: dt.datetime | None) -> str:
    """How long ago that was."""
    return "" if at is None else f"{plain.ago((now() - at).total_seconds())} ago"


def _ahead(at: dt.datetime | None) -> str:
    """In how long that is."""
    left = (at - now()).total_seconds() if at else 0.0
    return "now" if left <= 0 else f"in {plain.ago(left)}"


def _lines(text: str) -> Markup:
    """A text of many lines as it is, each of them made visible."""
    return Markup("\n").join(plain.visible(line.replace("\t", "    ")) for line in text.splitlines())


def _share(part: float, whole: float) -> str:
    return plain.percent(min(1.0, part / whole)) if whole else ""
