"""Keyboard and gamepad at the visitor's computer that move a hand, which viser does not support.

A script in the page listens to the keys, and reads a gamepad through the browser's Gamepad API. It
sends the keys held now, and those pressed since its last message, in the header of a separate
request. Keys, sticks and pads are those of Isaac Lab's keyboard and gamepad where it has them.
"""

from __future__ import annotations

import itertools
import json
import math
import time
from collections.abc import Sequence
from typing import Any

AXES = tuple(map(tuple, ("WS", "AD", "QE", "ZX", "TG", "CV", "UJ", "YH")))
"""Keys that push each axis up and down."""
TAPS = {"K": "num_grips", "B": "num_begun", "ENTER": "num_kept", "BACKSPACE": "num_discarded"}
"""What keys ask for, as counters of ``Wishes``."""
SAME = {"R": "BACKSPACE", "PAD0": "B", "PAD1": "BACKSPACE", "PAD2": "K", "PAD3": "ENTER"}
"""Others that do the same: Isaac Lab's key of a reset, and a gamepad's A, B, X and Y."""
PAD_AXES = ((1, -1), (0, -1), (3, -1), (15, 14), (12, 13), (2, -1))
"""For each axis a stick's and its sign, or from 12 on the buttons of the cross, up and down."""
CROSS = 12
HELD_S = 1.5
"""Age of a message from which its keys count as released: the page was closed."""
SCRIPT = """<script>
const keys = KEYS, held = new Set();
let taps = [], sent = "", sentAt = 0, isSending = false, wasPressed = {};
const isText = (one) => one?.matches?.("input:not([type=checkbox]), textarea");
addEventListener("keydown", (event) => {
  const key = event.key.toUpperCase();
  if (!keys.includes(key) || event.ctrlKey || event.metaKey || event.altKey) return;
  if (isText(event.target)) return;
  event.preventDefault();
  event.stopImmediatePropagation();  // viser would move the camera
  if (event.repeat) return;
  held.add(key);
  taps.push(key);
}, true);
addEventListener("keyup", (event) => held.delete(event.key.toUpperCase()), true);
addEventListener("blur", () => held.clear());
setInterval(async () => {
  const gamepad = navigator.getGamepads().find((one) => one);
  const axes = (gamepad?.axes ?? []).slice(0, 4)
    .map((x) => Math.abs(x) < 0.1 ? 0 : Number(x.toFixed(2)));
  const pressed = (gamepad?.buttons ?? []).slice(0, 16).map((one) => one.pressed ? 1 : 0);
  for (const button of [0, 1, 2, 3]) {
    if (pressed[button] && !wasPressed[button]) taps.push("PAD" + button);
    wasPressed[button] = pressed[button];
  }
  if (isSending) return;
  const state = {held: [...held], axes, cross: pressed.slice(12)};
  const text = JSON.stringify(state), isIdle = !/[1-9"]/.test(JSON.stringify(Object.values(state)));
  if (text === sent && !taps.length && (isIdle || Date.now() - sentAt < 300)) return;
  isSending = true;  // one after the other, so that the last one counts
  const told = taps;
  taps = [];
  try {
    await fetch("/", {headers: {"X-Handset": JSON.stringify({...state, taps: told})}});
    sent = text; sentAt = Date.now();
  } catch { taps = told.concat(taps); }
  finally { isSending = false; }
}, 30);
</script>
"""


class Handset:
    """The keys that any visitor holds, and those pressed last."""

    header = "X-Handset"

    def __init__(self, num_axes: int) -> None:
        self._num_axes = num_axes
        self._pushes, self._read_at = [0.0] * num_axes, -math.inf
        self._taps: list[str] = []
        keys = [*itertools.chain(*AXES[:num_axes]), *TAPS, *SAME]
        self.script = SCRIPT.replace("KEYS", json.dumps(keys)).encode()

    def read(self, header: str) -> None:
        """Store a message; anything but what the script sends is ignored."""
        try:
            message = json.loads(header)
            held, axes, cross, taps = (message[key] for key in ("held", "axes", "cross", "taps"))
            pushes = [self._push(axis, held, axes, cross) for axis in range(self._num_axes)]
            asked = [TAPS[SAME.get(tap, tap)] for tap in taps if SAME.get(tap, tap) in TAPS]
        except (ValueError, TypeError, LookupError, RecursionError):
            return
        if all(map(math.isfinite, pushes)):
            self._pushes = [min(max(push, -1.0), 1.0) for push in pushes]
            self._read_at = time.monotonic()
            self._taps += asked[:10]

    def pushes(self) -> tuple[float, ...]:
        """Return how far each axis is pushed, -1 to 1."""
        is_held = time.monotonic() - self._read_at < HELD_S
        return tuple(self._pushes) if is_held else (0.0,) * self._num_axes

    def take_taps(self) -> list[str]:
        """Return the requests since the last call, as counters of ``Wishes``."""
        taps, self._taps = self._taps, []
        return taps

    def _push(self, axis: int, held: Any, axes: Sequence[Any], cross: Sequence[Any]) -> float:
        up, down = AXES[axis]
        push = float(up in held) - float(down in held)
        if axis < len(PAD_AXES):
            first, second = PAD_AXES[axis]
            if first >= CROSS:
                pair = (first - CROSS, second - CROSS)
                up_, down_ = (float(cross[i]) if i < len(cross) else 0.0 for i in pair)
                push += up_ - down_
            elif first < len(axes):
                push += second * float(axes[first])
        return push
