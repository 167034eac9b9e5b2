"""Rendering of pages: templates, their filters, static files and the colour scheme; and the page About."""

from __future__ import annotations

import datetime as dt
import hashlib
from functools import cache
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Depends, Form, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from jinja2 import ChoiceLoader, Environment, PackageLoader
from markupsafe import Markup

from auditor import __version__
from auditor.api.authentication import Visitor, current_visitor
from auditor.api.middleware import REVALIDATED
from auditor.api.pages._labels import DIFFERENCE_KINDS, EXACT_METHOD, GLOSSARY, METHODS
from auditor.errors import Unauthorised
from auditor.quantities import format_duration, format_size
from auditor.report import formatting, html
from auditor.report.heatmap import SHAPE_LABELS

router = APIRouter()

STATIC = Path(__file__).parent.parent / "static"
FORMATS = {
    "html": ("text/html", "html"),
    "markdown": ("text/markdown", "md"),
    "json": ("application/json", "json"),
    "text": ("text/plain", "txt"),
}
THEME_COOKIE = "auditor_theme"
THEMES = ("light", "dark")


def render_page(
    request: Request, template: str, *, status: int = 200, visitor: Visitor | None = None, revalidated: bool = False, **values: Any
) -> HTMLResponse:
    """Render a template as a page that caches may not store; one that shows no values of rows may be kept and ``revalidated``."""
    reader = visitor or visitor_or_none(request)
    theme = request.cookies.get(THEME_COOKIE, "")
    path = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    body = (
        _environment()
        .get_template(template)
        .render(
            visitor=reader,
            theme=theme if theme in THEMES else "",
            here=path if request.method == "GET" else "/",
            section=request.url.path.split("/")[1],
            now=now(),
            has_pipelines=bool(request.app.state.app_state.configured.pipelines),
            has_segments=bool(request.app.state.app_state.configured.segments),
            version=__version__,
            **values,
        )
    )
    return HTMLResponse(body, status, headers={"Cache-Control": REVALIDATED if revalidated else "no-store", "Vary": "HX-Request, Cookie"})


def file_response(body: str, name: str, format: str) -> Response:
    """Return a report as a download, in one of FORMATS."""
    type_, ending = FORMATS[format]
    headers = {"Content-Disposition": f'attachment; filename="{name}.{ending}"', "Cache-Control": "no-store"}
    return Response(body.encode("utf-8", "replace"), media_type=f"{type_}; charset=utf-8", headers=headers)


def redirect(path: str) -> RedirectResponse:
    """Redirect to a page after a form was processed."""
    return RedirectResponse(path, 303)


def now() -> dt.datetime:
    """Return the current time in UTC."""
    return dt.datetime.now(dt.UTC)


def local_path(path: str) -> str:
    """Return the path if it leads to a page of this service, else /."""
    return path if path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable() else "/"


def url(*parts: str) -> str:
    """Return a path of this service. The parts are quoted, so that they cannot lead elsewhere."""
    return "/" + "/".join(quote(part, safe="") for part in parts)


@cache
def _environment() -> Environment:
    # Pages use the macros and filters of reports, so that both show runs alike.
    reports = html.environment()
    own = PackageLoader("auditor.api.pages")
    pages = reports.overlay(loader=ChoiceLoader([own, html.loader()]))
    pages.filters = reports.filters | {
        "when": _timestamp,
        "since": _ago,
        "ago": lambda at: _relative(at, _ago(at)),
        "coming": lambda at: _relative(at, _until(at)),
        "ahead": _until,
        "share": _share,
        "lines": _lines,
        "size": format_size,
    }
    pages.globals = {
        **reports.globals,
        "words": formatting.EXPLANATIONS | GLOSSARY,
        "kinds": DIFFERENCE_KINDS,
        "methods": METHODS,
        "says": SHAPE_LABELS,
        "url": url,
        "static": static_url,
        "means": formatting.EXPLANATIONS,
    }
    return pages


@cache
def static_url(name: str) -> str:
    """Return the URL of a static file. It contains a hash of the content, so that browsers may cache the file."""
    return f"/static/{name}?{hashlib.sha256(read_asset(name)).hexdigest()[:12]}"


def read_asset(name: str) -> bytes:
    """Return a static file; report.css is the style sheet of reports."""
    if name == "report.css":
        return (Path(html.__file__).parent / "style.css").read_bytes()
    return (STATIC / name).read_bytes()


def _timestamp(at: dt.datetime | None) -> Markup:
    """Return a time in UTC to the minute, with the seconds as a tooltip."""
    if at is None:
        return Markup("")
    return Markup('<time datetime="{}" title="{}">{:%Y-%m-%d %H:%M} UTC</time>').format(at.isoformat(), formatting.moment(at), at)


def _relative(at: dt.datetime, text: str) -> Markup:
    """Return how far away a time is, with the time as a tooltip."""
    return Markup('<time datetime="{}" title="{}">{}</time>').format(at.isoformat(timespec="seconds"), formatting.moment(at), text)


def _ago(at: dt.datetime | None) -> str:
    """Return how long ago a time was."""
    return "" if at is None else f"{format_duration((now() - at).total_seconds())} ago"


def _until(at: dt.datetime | None) -> str:
    """Return the time left until ``at``."""
    left = (at - now()).total_seconds() if at else 0.0
    return "now" if left <= 0 else f"in {format_duration(left)}"


def _lines(text: str) -> Markup:
    """Return text with its lines unchanged, except that invisible characters are shown."""
    return Markup("\n").join(formatting.visible(line.replace("\t", "    ")) for line in text.splitlines())


def _share(part: float, whole: float) -> str:
    return formatting.percent(min(1.0, part / whole)) if whole else ""


def visitor_or_none(request: Request) -> Visitor | None:
    """Return the caller, or None without a valid token or session."""
    try:
        return current_visitor(request)
    except Unauthorised:
        request.scope["auditor.visitor"] = None
        return None


OptionalVisitor = Annotated[Visitor | None, Depends(visitor_or_none)]


@router.get("/about")
def about_page(request: Request, visitor: OptionalVisitor) -> HTMLResponse:
    """Explain the terms and the method."""
    return render_page(request, "about.html", visitor=visitor, exact=EXACT_METHOD)


YEAR = 365 * 86400
"""Seconds that a browser may cache a static file."""

ASSET_TYPES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml", "txt": "text/plain"}
ASSETS = (
    "report.css",
    "pages.css",
    "pages.js",
    "icon.svg",
    "vendor/htmx.min.js",
    "vendor/htmx.LICENSE.txt",
    "vendor/uplot.min.js",
    "vendor/uplot.min.css",
    "vendor/uplot.LICENSE.txt",
)


@router.post("/theme")
def set_theme(
    request: Request, visitor: OptionalVisitor, theme: Annotated[str, Form()] = "", back: Annotated[str, Form()] = "/"
) -> RedirectResponse:
    """Set the colour scheme: light, dark, or that of the system."""
    answer = redirect(local_path(back))
    if theme in THEMES:
        answer.set_cookie(THEME_COOKIE, theme, max_age=YEAR, samesite="lax", httponly=True, secure=request.url.scheme == "https")
    else:
        answer.delete_cookie(THEME_COOKIE)
    return answer


@router.get("/static/{name:path}")
def serve_asset(name: str) -> Response:
    """Return a static file. Its URL changes with its content, so it may be cached permanently."""
    if name not in ASSETS:
        return Response("there is no such file", 404, media_type="text/plain")
    kind = ASSET_TYPES[name.rpartition(".")[2]]
    return Response(read_asset(name), media_type=kind, headers={"Cache-Control": f"public, max-age={YEAR}, immutable"})
