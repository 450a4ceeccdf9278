"""The pages, and the check of visitors."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from starlette.requests import Request
from starlette.responses import (
    FileResponse,
    HTMLResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
)
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.templating import Jinja2Templates

from envlab.errors import EnvlabError
from envlab.foreign import printable
from envlab.run.commands import short
from envlab.run.manifest import finite
from envlab_web.address import FORBIDDEN, REFUSAL, Address
from envlab_web.dashboard import control, details
from envlab_web.dashboard.catalogue import Catalogue, Listed
from envlab_web.dashboard.curves import X_NAMES, curves, differences

HERE = Path(__file__).parent
MOST_RUNS = 100
"""Most runs on one page."""
HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-cache",
}
TOKEN_HEADER = "x-envlab-token"


class _Doorkeeper(BaseHTTPMiddleware):
    """Admits visitors with the token: in the address, which sets a cookie, or in that cookie.

    A form of another site could carry the cookie, so requests that change anything must show the
    token itself, in a header that no other site can send.
    """

    def __init__(self, app: Any, address: Address) -> None:
        super().__init__(app)
        self._address = address

    async def dispatch(self, request: Request, call_next: RequestResponseEndpoint) -> Response:
        cookie = f"envlab_{self._address.port}"
        in_address = request.query_params.get("token")
        if request.method == "POST":
            is_admitted = self._address.admits(request.headers.get(TOKEN_HEADER))
        else:
            is_admitted = self._address.admits(
                request.cookies.get(cookie) if in_address is None else in_address
            )
        response: Response
        if not is_admitted:
            response = PlainTextResponse(REFUSAL, FORBIDDEN)
        elif in_address is not None:  # so that it does not stay in the browser's history
            rest = [pair for pair in request.query_params.multi_items() if pair[0] != "token"]
            path = request.url.path + (f"?{urlencode(rest)}" if rest else "")
            response = RedirectResponse(path if path[:2] != "//" else "/", 303)
            response.set_cookie(cookie, self._address.token, httponly=True, samesite="lax")
        else:
            response = await call_next(request)
        response.headers.update(HEADERS)
        return response


class Dashboard:
    """Handlers of the routes. Starlette calls each in its own thread."""

    def __init__(self, catalogue: Catalogue, address: Address, *, allow_control: bool) -> None:
        """Prepare the handlers."""
        self._catalogue, self._address, self._allow_control = catalogue, address, allow_control
        self._templates = Jinja2Templates(HERE / "templates")
        self._templates.env.filters |= {"seconds": duration}

    def list_page(self, request: Request) -> Response:
        """Return the page with the table."""
        return self._page(request, "list.html", root=short(self._catalogue.root))

    def list_rows(self, request: Request) -> Response:
        """Return the table's rows as JSON."""
        rows = [
            asdict(run.row)
            | {"name": run.name, "written_at": max(run.writes.values(), default=None)}
            | {"trouble": run.trouble() or run.problem}
            for run in self._catalogue.runs().values()
        ]
        for row in rows:  # these would differ at each request
            del row["age_s"], row["directory"]
        return _json(request, {"rows": rows})

    def runs_page(self, request: Request) -> Response:
        """Return the page of a run, or of several side by side."""
        runs = self._chosen(request)
        differing, lacking = differences(runs)
        return self._page(request, "runs.html", runs=runs, differing=differing, lacking=lacking)

    def run_details(self, request: Request) -> Response:
        """Return the part of a run's page that changes while it is open."""
        (run,) = self._chosen(request)[:1]
        state, sentence = details.audit(run.manifest)
        return self._page(
            request,
            "details.html",
            run=run,
            row=run.row,
            directory=short(run.directory),
            audit_state=state,
            audit=sentence,
            changes=details.changes(run.manifest),
            ranks=run.ranks(),
            checkpoints=details.checkpoints(run),
            videos=details.videos(run),
            logs=details.logs(run),
        )

    def run_curves(self, request: Request) -> Response:
        """Return a metric's curves as JSON."""
        metric = request.query_params.get("metric", "mean_return")
        is_grouped = request.query_params.get("group", "1") == "1"
        x_name = request.query_params.get("x", X_NAMES[0])
        if x_name not in X_NAMES:
            raise HTTPException(400, f"x is {x_name!r}, but must be {' or '.join(X_NAMES)}.")
        lines = curves(self._chosen(request), metric, x_name, is_grouped=is_grouped)
        return _json(request, lines)

    def run_video(self, request: Request) -> Response:
        """Return one of a run's videos."""
        (run,) = self._chosen(request)[:1]
        path = details.video(run, request.query_params.get("name", ""))
        return FileResponse(path, media_type=details.VIDEO_TYPES[path.suffix])

    def act(self, request: Request) -> Response:
        """Stop or resume a run."""
        if not self._allow_control:
            raise HTTPException(FORBIDDEN, "Start the dashboard with --allow-control to do this.")
        actions: dict[str, Callable[[Listed], str]]
        actions = {"stop": control.stop, "resume": control.resume}
        (run,) = self._chosen(request)[:1]
        return PlainTextResponse(actions[request.path_params["action"]](run))

    def _chosen(self, request: Request) -> list[Listed]:
        names = list(dict.fromkeys(request.query_params.getlist("run")))
        if not 1 <= len(names) <= MOST_RUNS:
            raise HTTPException(
                400, f"{len(names)} runs are chosen; a page shows 1 to {MOST_RUNS}. Go to the list."
            )
        return [self._catalogue.run(name) for name in names]

    def _page(self, request: Request, template: str, status: int = 200, **values: Any) -> Response:
        token = self._address.token if self._allow_control else ""
        text = self._templates.get_template(template).render(**values, token=token, request=request)
        # A run's texts, such as paths in another encoding, may have what UTF-8 does not.
        return HTMLResponse(text.encode(errors="backslashreplace"), status)

    def say(self, request: Request, error: Exception) -> Response:
        """Return an error as one sentence; unexpected ones also go to the terminal."""
        status, sentence = 404, str(error)
        if isinstance(error, HTTPException):
            status, sentence = error.status_code, error.detail
        elif not isinstance(error, EnvlabError):
            status = 500
            sentence = "The dashboard failed here; its terminal says why. Other pages work."
        if request.url.path.startswith(("/api/", "/control/")):
            return PlainTextResponse(printable(sentence), status)
        return self._page(request, "error.html", status, sentence=sentence)


def make_app(root: Path, address: Address, *, allow_control: bool = False) -> Starlette:
    """Return the dashboard as an ASGI application.

    Args:
        root: The folder whose runs are shown.
        address: Its address, with the token.
        allow_control: Whether runs may be stopped and resumed.
    """
    pages = Dashboard(Catalogue(root), address, allow_control=allow_control)
    return Starlette(
        routes=[
            Route("/", pages.list_page),
            Route("/runs", pages.runs_page),
            Route("/video", pages.run_video),
            Route("/api/list", pages.list_rows),
            Route("/api/details", pages.run_details),
            Route("/api/curves", pages.run_curves),
            Route("/control/{action:str}", pages.act, methods=["POST"]),
            Mount("/static", StaticFiles(directory=HERE / "static")),
        ],
        middleware=[Middleware(_Doorkeeper, address=address)],
        exception_handlers={EnvlabError: pages.say, HTTPException: pages.say, Exception: pages.say},
    )


def _json(request: Request, values: Any) -> Response:
    """Return values as JSON, or an answer that they are unchanged."""
    body = json.dumps(finite(values), separators=(",", ":")).encode()
    tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers={"ETag": tag})
    return Response(body, media_type="application/json", headers={"ETag": tag})


def duration(seconds: float | None) -> str:
    """Return a time in a readable unit."""
    if seconds is None:
        return "-"
    units: Sequence[tuple[str, float]] = (("d", 86400.0), ("h", 3600.0), ("min", 60.0))
    for unit, size in units:
        if seconds >= 2.0 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(0.0, seconds):.0f} s"
