"""Report a host's versions of Python and packages, and a free port.

argv[1]: the port, empty: any; the rest: packages.
"""

import importlib.metadata
import json
import os
import platform
import socket
import sys


def port(wanted: str) -> dict[str, object]:
    """Return a port without a listener, or the problem with the wanted one."""
    dual = socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if dual else socket.AF_INET
    try:
        with socket.create_server(
            ("", int(wanted or 0)), family=family, dualstack_ipv6=dual
        ) as probe:
            return {"port": probe.getsockname()[1]}
    except OSError as problem:
        return {"port": None, "problem": os.strerror(problem.errno or 0)}


def versions(names: list[str]) -> dict[str, str]:
    """Return the version of each installed package."""
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
    **port(sys.argv[1]),
}
print("facts=" + json.dumps(facts))
