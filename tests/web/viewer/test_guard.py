from __future__ import annotations

import gc
import logging
import time
import urllib.error
import urllib.request
from collections.abc import Iterator

import msgspec
import pytest
import viser
from websockets.exceptions import InvalidStatus
from websockets.sync.client import ClientConnection, connect

from envlab_web.address import Address, take_address
from envlab_web.viewer.gamepad import Gamepad
from envlab_web.viewer.guard import serve_viser


@pytest.fixture(scope="module")
def gamepad() -> Gamepad:
    return Gamepad()


@pytest.fixture(scope="module")
def served(gamepad: Gamepad) -> Iterator[Address]:
    address = take_address(0)
    server = serve_viser(address, "test", gamepad)
    # private: a message names a control by this key, which viser draws
    server.gui._gui_input_handle_from_uuid["here"] = server.gui.add_number("another", 1.0)
    yield address
    server.stop()


def ask(url: str, **headers: str) -> tuple[int, str, str]:
    """Return status, cookie and body."""
    request = urllib.request.Request(url, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            cookie = answer.headers.get("Set-Cookie", "").partition(";")[0]
            return answer.status, cookie, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, "", error.read().decode()


def opened(address: Address, headers: dict[str, str]) -> ClientConnection:
    """Return an open WebSocket."""
    # private: viser exports no name of its protocol
    protocol = viser.infra._infra.Subprotocol(f"viser-v{viser.__version__}")
    url = f"ws://127.0.0.1:{address.port}"
    return connect(url, additional_headers=headers, subprotocols=[protocol], proxy=None)


def shake_hands(address: Address, **headers: str) -> int:
    """Return the status of a WebSocket's opening."""
    try:
        opened(address, headers).close()
    except InvalidStatus as refused:
        return refused.response.status_code
    return 101


def test_a_page_is_only_for_those_who_have_the_token(served):
    root = f"http://127.0.0.1:{served.port}/"
    for url in (root, f"{root}?token=wrong", f"{root}index.html", f"{root}?token="):
        status, cookie, body = ask(url)
        assert (status, cookie) == (403, "")
        assert body.startswith("The token in this address is missing or wrong")
    status, cookie, body = ask(served.url)
    assert (status, "<html" in body) == (200, True)
    assert ask(root, Cookie=cookie)[0] == 200
    assert ask(root, Cookie=cookie, Origin="http://[")[0] == 403
    assert ask(f"{root}{'a' * 7000}", Cookie=cookie)[0] == 404
    assert ask(root, Cookie=cookie.replace(served.token, "x" * len(served.token)))[0] == 403


def test_a_web_socket_is_only_for_the_page_itself(served):
    cookie = ask(served.url)[1]
    assert shake_hands(served) == 403
    assert shake_hands(served, Cookie="envlab_viewer=x") == 403
    own = f"http://127.0.0.1:{served.port}"
    assert shake_hands(served, Cookie=cookie, Origin=own) == 101
    # Browsers also send the cookie along for pages of other ports of this machine.
    assert shake_hands(served, Cookie=cookie, Origin="http://127.0.0.1:1") == 403


def test_a_gamepad_is_read_from_the_page_itself(served, gamepad):
    root, cookie = f"http://127.0.0.1:{served.port}/", ask(served.url)[1]
    assert ask(root, **{Gamepad.header: "0,-1,0.5,0"})[0] == 403
    assert (
        ask(root, Cookie=cookie, Origin="http://127.0.0.1:1", **{Gamepad.header: "0,-1,0.5,0"})[0]
        == 403
    )
    for axes in ("nan,0", "0,1e9", "0;1", ""):
        assert ask(root, Cookie=cookie, **{Gamepad.header: axes})[0] == 200
    assert gamepad.take() is None
    assert ask(root, Cookie=cookie, **{Gamepad.header: "0,-1,0.5,0"})[0] == 200
    assert gamepad.take() == [1.0, 0.0, -0.5, 0.0]
    assert gamepad.take() is None


UPDATE = {"type": "GuiUpdateMessage", "uuid": "here"}


def test_a_message_that_cannot_be_read_leaves_the_terminal_alone(served, capfd, caplog):
    wrong = [[1], {"no": "type"}, {"type": "Nonsense"}, {"type": "GuiUpdateMessage"}]
    wrong += [UPDATE | {"updates": {"value": "no number"}}, UPDATE | {"updates": {"nonsense": 1}}]
    for message in ["a text", b"", b"\xff\xff", *map(msgspec.msgpack.encode, wrong)]:
        headers = {"Cookie": ask(served.url)[1], "Origin": f"http://127.0.0.1:{served.port}"}
        with opened(served, headers) as connection:
            connection.send(message)
            time.sleep(0.2)
        assert ask(served.url)[0] == 200
        assert shake_hands(served, **headers) == 101
    gc.collect()  # asyncio tells of a failed task when it is collected
    time.sleep(0.1)
    assert capfd.readouterr().err == ""
    assert not [record for record in caplog.records if record.levelno > logging.DEBUG]
