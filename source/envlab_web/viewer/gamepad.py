"""A gamepad at the visitor's computer, which viser does not support.

A script in the page reads it through the browser's Gamepad API, and sends its sticks'
positions, when they change, in the header of a separate request.
"""

from __future__ import annotations

import math

ORDER = (1, 0, 2, 3)
"""Axes of the API's standard mapping for commands forward, left, turning left, and up."""
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
    """The sticks of the gamepad that was moved last, of any visitor."""

    header = "X-Gamepad-Axes"
    """Pages of other addresses cannot send this header, though they can load any path as a
    picture."""
    script = SCRIPT

    def __init__(self) -> None:
        self._pushes: list[float] | None = None

    def read(self, header: str) -> None:
        """Store the axes of a request; anything but a list of numbers from -1 to 1 is ignored."""
        try:
            axes = [float(word) for word in header.split(",")]
        except ValueError:
            return
        if all(math.isfinite(axis) and abs(axis) <= 1.0 for axis in axes):
            # The axes point to the right and backward.
            self._pushes = [-axes[axis] for axis in ORDER if axis < len(axes)]

    def take(self) -> list[float] | None:
        """Return deflections of a command's elements, -1 to 1, once after each change."""
        pushes, self._pushes = self._pushes, None
        return pushes
