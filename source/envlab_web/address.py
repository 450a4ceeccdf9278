"""A page's address: a port of this machine alone, and a token that it must hold."""

from __future__ import annotations

import errno
import secrets
import socket
from dataclasses import dataclass, field

from envlab.errors import ConfigurationError

LOOPBACK = "127.0.0.1"
REFUSAL = (
    "The token in this address is missing or wrong: open the whole address that the command "
    "printed in its terminal."
)
"""The answer to a visitor without the token, with :data:`FORBIDDEN`."""
FORBIDDEN = 403
NUM_PORTS = 100
"""Number of ports to try, one after the other."""


@dataclass(frozen=True, kw_only=True)
class Address:
    """A port that is listened on, and the token that a visitor must present."""

    listener: socket.socket
    """A socket that listens on the loopback, for the server to take over."""
    note: str = ""
    """Message to the user on the choice of the port; empty if it is the wanted one."""
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    """The token, drawn by each server: 192 bits."""

    @property
    def port(self) -> int:
        """The chosen port."""
        return int(self.listener.getsockname()[1])

    @property
    def url(self) -> str:
        """The URL to open in a browser; other people must not see it."""
        return f"http://{LOOPBACK}:{self.port}/?token={self.token}"

    def admits(self, token: str | None) -> bool:
        """Return whether a visitor's token is the right one, in constant time."""
        return secrets.compare_digest((token or "").encode(errors="replace"), self.token.encode())

    def lines(self, title: str) -> str:
        """Return the text for the terminal: the address, and how to reach it from elsewhere."""
        tunnel = f"ssh -N -L {self.port}:{LOOPBACK}:{self.port} {socket.gethostname()}"
        words = [self.note, f"{title}: {self.url}", f"From another machine, first: {tunnel}"]
        return "\n".join(filter(None, words))


def take_address(port: int) -> Address:
    """Listen on a port of the loopback, or on the next free one.

    Args:
        port: The wanted port; 0 for any.

    Raises:
        ConfigurationError: If there is no such port, or none of the next ones is free.
    """
    if not 0 <= port < 2**16:
        raise ConfigurationError(f"--port is {port}, but ports are numbers from 0 to 65535.")
    ports = range(port, min(port + NUM_PORTS, 2**16))
    for candidate in ports:
        try:
            listener = socket.create_server((LOOPBACK, candidate))
        except OSError as error:
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise
        else:
            note = f"Port {port} cannot be used; taking {candidate}." if candidate != port else ""
            return Address(listener=listener, note=note)
    raise ConfigurationError(
        f"None of the ports {port} to {ports[-1]} can be used. Give another one with --port."
    )
