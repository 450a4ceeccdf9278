"""Check that nodes reach the rendezvous: argv: address, port, others to wait for (0: connect)."""

import contextlib
import os
import socket
import sys
import time

address, port, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
end = time.monotonic() + 12.0


def listen() -> None:
    """Wait until that many others have connected and left, by IPv4 or IPv6."""
    dual = socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if dual else socket.AF_INET
    try:
        listener = socket.create_server(
            ("", port), family=family, backlog=count, dualstack_ipv6=dual
        )
    except OSError as problem:
        sys.exit(
            f"port {port}, for the rendezvous, is in use there "
            f"({os.strerror(problem.errno or 0)}): name another by --distributed_ip_and_port."
        )
    with listener:
        for _ in range(count):
            listener.settimeout(max(0.1, end - time.monotonic()))
            try:
                connection = listener.accept()[0]
            except TimeoutError:
                return
            # A connection that stays open or breaks off has also succeeded.
            with connection, contextlib.suppress(OSError):
                connection.settimeout(1.0)
                connection.recv(1)


def connect() -> OSError | None:
    """Return the remaining problem, None on success; print this node's address."""
    problem: OSError | None = None
    while time.monotonic() < end - 2.0:
        try:
            with socket.create_connection((address, port), timeout=2.0) as connection:
                print("local=" + connection.getsockname()[0])
                return None
        except OSError as error:
            problem = error
            time.sleep(0.1)
    return problem


if count:
    listen()
    print("local=" + address)
else:
    left = connect()
    if left is not None:
        sys.exit(
            f"cannot reach the rendezvous at {address}:{port} ({left}): let firewalls pass TCP "
            "between the hosts, or name an address of the first host that the others reach by "
            "--distributed_ip_and_port."
        )
