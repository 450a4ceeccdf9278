"""viser's server behind a token: it has none, and would choose its own port.

A visitor opens ``http://127.0.0.1:PORT/?token=...``, and gets a cookie for the page's other
requests, including its WebSocket. Requests without either are refused.
"""

from __future__ import annotations

import asyncio
import http
import logging
from collections.abc import Callable
from http.cookies import CookieError, SimpleCookie
from typing import Any
from unittest import mock
from urllib.parse import parse_qs

import viser
from websockets.asyncio import server as websockets_server
from websockets.datastructures import Headers
from websockets.http11 import Request, Response

from envlab_web.address import FORBIDDEN, REFUSAL, Address
from envlab_web.viewer.gamepad import Gamepad
from envlab_web.viewer.handset import Handset

logger = logging.getLogger(__name__)
_REQUESTS = logging.getLogger(f"{__name__}.requests")
_REQUESTS.setLevel(logging.CRITICAL)  # of websockets; what it can't read ends a connection, no more

Handler = Callable[[Any, Request], Response | None]
"""Websockets' handler of HTTP requests; None lets a WebSocket open."""


def serve_viser(address: Address, title: str, devices: Gamepad | Handset) -> viser.ViserServer:
    """Return viser's server, on the port and behind the token of ``address``.

    Args:
        address: The port and the token.
        title: Title of the page.
        devices: Devices at the visitor's computer, which a script in the page reads.
    """
    serve = websockets_server.serve

    def guarded_serve(
        handler: Any, host: str, port: int, *, process_request: Any, **options: Any
    ) -> Any:
        check = _checked(address, devices, process_request)
        asyncio.get_running_loop().set_exception_handler(_ignore)
        options |= {"sock": address.listener, "process_request": check, "logger": _REQUESTS}
        return serve(handler, **options)

    # viser 1.1.1 has no option for the socket or for checks of requests. It calls this by its
    # full name, once, before its constructor returns.
    with mock.patch.object(websockets_server, "serve", guarded_serve):
        return viser.ViserServer(host="127.0.0.1", port=address.port, label=title, verbose=False)


def _ignore(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Ignore a message that viser cannot handle: the terminal is the training's."""
    logger.debug("A message is ignored: %s", context["message"], exc_info=context.get("exception"))


def _checked(address: Address, devices: Gamepad | Handset, process_request: Handler) -> Handler:
    """Return viser's handler of requests, for those with the token."""
    # Cookies are shared by all ports of a host, so each viewer needs a different name.
    name = f"envlab_viewer_{address.port}"

    def check(connection: Any, request: Request) -> Response | None:
        tokens = parse_qs(request.path.partition("?")[2]).get("token", [None])
        is_told = address.admits(tokens[0])
        if not (is_told or address.admits(_cookie(request, name))) or _is_foreign(request):
            return _answer(FORBIDDEN, f"{REFUSAL}\n")
        if devices.header in request.headers:
            devices.read(request.headers[devices.header])
            return _answer(http.HTTPStatus.OK, "")
        is_page = request.path.partition("?")[0] == "/"
        if is_page:
            request.headers.pop("Accept-Encoding", None)  # its body will be extended
        try:
            response = process_request(connection, request)
        except OSError:  # no name of a file can be as long
            return _answer(http.HTTPStatus.NOT_FOUND, "There is no such page.\n")
        if response is not None:
            if is_page:
                response.body += devices.script
                del response.headers["Content-Length"]
                response.headers["Content-Length"] = str(len(response.body))
            response.headers["Referrer-Policy"] = "no-referrer"
            if is_told:
                value = f"{name}={address.token}; Path=/; HttpOnly; SameSite=Strict"
                response.headers["Set-Cookie"] = value
        return response

    return check


def _answer(status: int, text: str) -> Response:
    """Return a response in plain text."""
    body = text.encode()
    headers = Headers(
        **{"Content-Type": "text/plain; charset=utf-8", "Content-Length": str(len(body))}
    )
    return Response(status, http.HTTPStatus(status).phrase, headers, body)


def _cookie(request: Request, name: str) -> str | None:
    """Return the value of a cookie, if there is one."""
    jar: SimpleCookie = SimpleCookie()
    try:
        for header in request.headers.get_all("Cookie"):
            jar.load(header)
    except CookieError:
        return None
    return jar[name].value if name in jar else None


def _is_foreign(request: Request) -> bool:
    """Return whether the request comes from another site's page, which has the cookie as well."""
    origin = request.headers.get("Origin")
    return origin not in (None, f"http://{request.headers.get('Host')}")
