"""The application: which address shows which page."""

from __future__ import annotations

import gzip
import sys
import traceback
from collections.abc import Callable
from functools import lru_cache, partial

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from oscope.model.errors import OscopeError, UsageError
from oscope.report.view import fleets
from oscope.report.view.pages import Pages, static_files
from oscope.storage.store import Store

KEPT_S = 3600
"""How long a browser keeps a style or script."""
REPORT_POLICY = "frame-ancestors 'none'"
"""Of the report, which has its scripts, and the policy that names them, inside it."""

RunPage = Callable[[Store, str, Request], Response]


def application(pages: Pages) -> Starlette:
    """Return the application, without its guard."""

    def of_run(show: RunPage) -> Callable[[Request], Response]:
        """Return a handler that opens the store and finds the run that the address names."""

        def handle(request: Request) -> Response:
            given = request.path_params["run"]
            with pages.open() as store:
                found = store.resolve(given)
                if found != given:
                    return RedirectResponse(f"/runs/{found}", 303)
                return show(store, found, request)

        return handle

    def live(request: Request) -> Response:
        query = request.query_params
        run = pages.live.get(request.path_params["run"])
        return JSONResponse(run.state(_whole(query.get("known")), query.get("show")))

    def report(store: Store, run: str, _: Request) -> Response:
        text = pages.whole_report(store, run)
        return HTMLResponse(text, headers={"Content-Security-Policy": REPORT_POLICY})

    def experiment(store: Store, run: str, request: Request) -> Response:
        return HTMLResponse(pages.experiment(store, run, request.path_params["name"]))

    def fleet(request: Request) -> Response:
        given = request.path_params["fleet"]
        with pages.open() as store:
            found = store.fleet(given).id
            if found != given:
                return RedirectResponse(f"/fleets/{found}", 303)
            return HTMLResponse(fleets.show(pages, store, found, request.query_params))

    def fleet_report(request: Request) -> Response:
        with pages.open() as store:
            text = fleets.whole_report(pages, store, request.path_params["fleet"])
        return HTMLResponse(text, headers={"Content-Security-Policy": REPORT_POLICY})

    routes = [
        Route("/", lambda request: HTMLResponse(pages.runs(request.query_params))),
        Route("/newest", lambda _: JSONResponse({"run": pages.newest()})),
        Route("/compare", lambda request: HTMLResponse(pages.compare(request.query_params))),
        Route("/history", lambda request: HTMLResponse(pages.history(request.query_params))),
        Route("/runs/{run}", of_run(lambda store, run, _: HTMLResponse(pages.run(store, run)))),
        Route("/runs/{run}/live", live),
        Route("/runs/{run}/report", of_run(report)),
        Route("/runs/{run}/experiments/{name}", of_run(experiment)),
        Route("/fleets", lambda _: HTMLResponse(fleets.show_all(pages))),
        Route("/fleets/{fleet}", fleet),
        Route("/fleets/{fleet}/report", fleet_report),
        Route("/static/{name}", _static),
    ]

    handlers: dict[int | type[Exception], Callable[[Request, Exception], Response]]
    failed = partial(_failed, pages)
    handlers = {HTTPException: failed, OscopeError: failed, Exception: failed}
    return Starlette(routes=routes, exception_handlers=handlers)


def _failed(pages: Pages, _: Request, error: Exception) -> Response:
    """Show an error as a page: what, where, remedy."""
    if isinstance(error, HTTPException):
        return HTMLResponse(pages.message("There is no such page", ""), error.status_code)
    if isinstance(error, OscopeError):
        code = 404 if isinstance(error, UsageError) else 503
        return HTMLResponse(pages.message(error.message, error.remedy or ""), code)
    traceback.print_exception(error, file=sys.stderr)
    text = f"{type(error).__name__}: {error}"
    return HTMLResponse(pages.message(text, "this is a bug in Oscope; the terminal has its trace"), 500)


def _whole(text: str | None) -> int:
    return int(text) if text is not None and text.isascii() and text.isdecimal() else -1


def _static(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in static_files():
        raise HTTPException(404)
    content, kind = _compressed(name)
    headers = {"Content-Encoding": "gzip", "Cache-Control": f"private, max-age={KEPT_S}"}
    return Response(content, media_type=kind, headers=headers)


@lru_cache(maxsize=16)
def _compressed(name: str) -> tuple[bytes, str]:
    """Return a file that pages load, compressed, and its type."""
    path, kind = static_files()[name]
    return gzip.compress(path.read_bytes(), 6, mtime=0), kind
