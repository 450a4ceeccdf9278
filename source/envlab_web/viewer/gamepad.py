"""A gamepad at the visitor's computer, of which viser tells nothing.

A script in the page reads it through the browser's Gamepad API, and sends the positions of its
sticks, when they change, in the header of a request of its own.
"""

from __future__ import annotations

import math

HEADER = "X-Gamepad-Axes"
"""Pages of other addresses may not send one, while they may load any path as a picture."""
ORDER = (1, 0, 2, 3)
"""Axes of the API's standard mapping that push a command forward, left, to turn left, and up."""
SCRIPT = b"""<script>
let sent = "", isSending = false;
setInterval(async () => {
  const gamepad = navigator.getGamepads().find((one) => one);
  if (!gamepad || isSending) return;
  const axes = gamepad.axes.map((x) => Math.abs(x) < 0.1 ? 0 : Number(x.toFixed(2))).join();
  if (axes === sent || (!sent && !/[1-9]/.test(axes))) return;
  isSending = true;  // one after the other, so that the last one counts
  try { await fetch("/", {headers: {"X-Gamepad-Axes": axes}}); sent = axes; }
  finally { isSending = false; }
}, 50);
</script>
"""


class Gamepad:
    """The sticks of the gamepad that was moved last, whoever's it is."""

    def __init__(self) -> None:
        self._pushes: list[float] | None = None

    def read(self, header: str) -> None:
        """Take the axes of a request; what is no list of numbers from -1 to 1 is ignored."""
        try:
            axes = [float(word) for word in header.split(",")]
        except ValueError:
            return
        if all(math.isfinite(axis) and abs(axis) <= 1.0 for axis in axes):
            # The axes point to the right and backward.
            self._pushes = [-axes[axis] for axis in ORDER if axis < len(axes)]

    def take(self) -> list[float] | None:
        """Return how far the elements of a command are pushed, -1 to 1, once after each change."""
        pushes, self._pushes = self._pushes, None
        return pushes
