"""Tell Python's and packages' versions of a host, and a port.

argv[1]: the port, empty: any; the others: packages.
"""

import importlib.metadata
import json
import os
import platform
import socket
import sys


def port(wanted: str) -> dict[str, object]:
    """Return a port that nobody listens at, or what is wrong with the wanted one."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", int(wanted or 0)))
            probe.listen(1)
        except OSError as problem:
            return {"port": None, "port_problem": problem.strerror}
        return {"port": probe.getsockname()[1]}


def versions(names: list[str]) -> dict[str, str]:
    """Return the version of each package that is installed."""
    found = {}
    for name in names:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


facts = {
    "python": platform.python_version(),
    "packages": versions(sys.argv[2:]),
    "hostname": socket.gethostname(),
    "cpus": len(os.sched_getaffinity(0)),
    **port(sys.argv[1]),
}
print("facts=" + json.dumps(facts))
