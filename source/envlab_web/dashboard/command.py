"""``envlab dashboard``: serve the run directories below a folder to this machine's browser."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Sequence
from pathlib import Path

from envlab.arguments import ArgumentParser
from envlab.errors import RunDirectoryError
from envlab.run.compare.statistics import require
from envlab.run.manifest import LOG_ROOT
from envlab_web.address import take_address

PORT = 8600


def main(arguments: Sequence[str]) -> int:
    """Serve until interrupted, and return 0.

    Raises:
        EnvlabError: If there is no such folder or port, or a package is missing.
    """
    parser = ArgumentParser(prog="envlab dashboard", description="Look at runs in the browser.")
    parser.add_argument(
        "folder",
        nargs="?",
        default=LOG_ROOT,
        metavar="LOGS",
        help=f"where to look, at any depth (default: {LOG_ROOT})",
    )
    parser.add_argument(
        "--port",
        type=int,
        default=PORT,
        metavar="N",
        help=f"of this machine, or the next free one (default: {PORT})",
    )
    parser.add_argument(
        "--allow-control",
        "--allow_control",
        action="store_true",
        help="show buttons that stop and resume runs",
    )
    flags = parser.parse_args(list(arguments))
    folder = Path(flags.folder)
    if not folder.is_dir():
        raise RunDirectoryError(
            f"There is no folder {flags.folder!r}. Give one that contains runs; training makes "
            f"{LOG_ROOT!r} where it is started."
        )
    for module in ("starlette", "jinja2"):
        require(module, "envlab dashboard", "web")
    uvicorn = require("uvicorn", "envlab dashboard", "web")
    from envlab_web.dashboard.server import make_app

    logging.basicConfig(level=logging.INFO, format="%(message)s")
    address = take_address(flags.port)
    app = make_app(folder, address, allow_control=flags.allow_control)
    print(address.lines("Dashboard"), "Ctrl+C ends it; runs continue.", sep="\n", flush=True)
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
    with contextlib.suppress(KeyboardInterrupt):  # uvicorn raises it again after shutdown
        server.run(sockets=[address.listener])
    return 0
