"""A switch with a delay and a rate, in user space: ``wire.py DELAY_S RATE NAME=ADDRESS...``.

Linux delays packets by ``tc netem``, a kernel module that small kernels lack. This does the same
with TUN devices, which every kernel has: each is a node's interface, and its other side is here. A
packet that a node sends is written to the device with its destination's address after DELAY_S; a
node sends at most RATE bytes a second (or ``inf``), and its packets queue up. The TCP above
it (windows, acknowledgements, slow start) is the kernel's own. See :mod:`tests.nodes`.
"""

from __future__ import annotations

import contextlib
import fcntl
import heapq
import itertools
import os
import select
import socket
import struct
import sys
import time

TUNSETIFF = 0x400454CA
IFF_TUN, IFF_NO_PI = 0x0001, 0x1000


def open_device(name: str) -> int:
    """Make a TUN device and return the file its packets are read from and written to."""
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH14x", name.encode(), IFF_TUN | IFF_NO_PI))
    return device


def forward(devices: dict[bytes, int], delay_s: float, rate: float) -> None:
    """Pass packets between devices, by the 4-byte address of each, until standard input ends."""
    waiting: list[tuple[float, int, int, bytes]] = []  # a heap, by the time of arrival
    is_sent_at = dict.fromkeys(devices.values(), 0.0)
    count = itertools.count()
    control = sys.stdin.fileno()
    while True:
        left = max(0.0, waiting[0][0] - time.monotonic()) if waiting else None
        ready, _, _ = select.select([control, *devices.values()], (), (), left)
        now = time.monotonic()
        if control in ready:
            return
        for device in ready:
            for packet in _packets(device):
                target = devices.get(packet[16:20])  # the destination in an IPv4 header
                if target is not None:
                    is_sent_at[device] = max(now, is_sent_at[device]) + len(packet) / rate
                    arrival = is_sent_at[device] + delay_s
                    heapq.heappush(waiting, (arrival, next(count), target, packet))
        while waiting and waiting[0][0] <= now:
            *_, target, packet = heapq.heappop(waiting)
            os.write(target, packet)


def _packets(device: int, at_most: int = 64) -> list[bytes]:
    found = []
    for _ in range(at_most):
        try:
            found.append(os.read(device, 65536))
        except BlockingIOError:
            break
    return found


def main(delay_s: float, rate: float, *nodes: str) -> None:
    names = dict(node.split("=") for node in nodes)
    devices = {socket.inet_aton(address): open_device(name) for name, address in names.items()}
    # Run first when packets arrive: they should wait for the requested delay and no longer.
    with contextlib.suppress(PermissionError):  # containers often may not; delays are longer then
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    print("ready", flush=True)
    forward(devices, delay_s, rate)


if __name__ == "__main__":
    main(float(sys.argv[1]), float(sys.argv[2]), *sys.argv[3:])
