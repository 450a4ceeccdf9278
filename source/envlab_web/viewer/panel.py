"""The page's controls: inputs of the visitor, and texts and curves."""

from __future__ import annotations

import functools
import html
import math
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import viser
from viser import uplot

from envlab_web.viewer.handset import AXES, TAPS
from envlab_web.viewer.messages import Frame, Stage, Wishes

SPEEDS = {"1/8": 0.125, "1/4": 0.25, "1/2": 0.5, "1": 1.0, "2": 2.0, "max": math.inf}
PUSHES = 0.1, 5.0
"""Bounds of a push, in m/s."""
CURVE_FRAMES = 300
"""Number of frames in the curves."""
CURVE_EVERY = 10
"""Frames between two drawings of the curves."""
VIEW_WIDTH = 256
"""Pixels of a camera's image in the panel."""
HAND_BUTTONS = {
    "Begin (B)": "num_begun",
    "Keep (Enter)": "num_kept",
    "Discard (Backspace)": "num_discarded",
    "Open or close (K)": "num_grips",
}
"""Buttons for what keys do, with the counters of ``Wishes``."""
COLOURS = (
    *("#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9", "#8c6d31", "#7f7f7f"),
    *("#332288", "#117733", "#882255", "#999933", "#aa4499", "#44aa99", "#661100", "#000000"),
)
"""Okabe and Ito's, with a brown and a grey, then Tol's muted ones, for tasks of many rewards."""


class Panel:
    """The controls, made once for all visitors."""

    def __init__(self, server: viser.ViserServer, stage: Stage) -> None:
        self._gui, self._stage = server.gui, stage
        self._counts = {"num_steps": 0, "num_pushes": 0, "num_resets": 0}
        self._counts |= dict.fromkeys(TAPS.values(), 0)
        self.pushes: tuple[float, ...] = ()
        """How far each axis of the hand is pushed, -1 to 1."""
        self._is_paused = self._is_over = False
        self._history: deque[tuple[float, ...]] = deque(maxlen=CURVE_FRAMES)
        self._plot: viser.GuiUplotHandle | None = None
        self._views: dict[str, viser.GuiImageHandle] = {}
        self._num_frames = 0
        self._status = self._gui.add_html("")  # viser recompiles Markdown at each change
        self._tell("")
        if stage.axes:
            self._add_hand()
        if stage.is_played:
            self._add_clock()
        self.environment = self._gui.add_slider(
            "Environment",
            min=0,
            max=max(1, stage.num_envs - 1),
            step=1,
            initial_value=0,
            disabled=stage.num_envs == 1,
            hint="The environment that the camera follows",
        )
        self.alone = self._gui.add_checkbox("Hide the others", False, disabled=stage.num_envs == 1)
        self.follows = self._gui.add_checkbox("Camera follows", True)
        self.forces = self._gui.add_checkbox("Contact forces", False)
        self.shadows = self._gui.add_checkbox("Shadows", False, hint="Slow where a CPU draws")
        self.push: viser.GuiInputHandle[float] | None = None
        self.commands: dict[str, tuple[Any, list[Any]]] = {}
        if stage.is_played:
            self._add_steering()

    def wishes(self) -> Wishes:
        """Return the visitor's current wishes, within the bounds that the page has for them."""
        first, followed = self.chosen()
        return Wishes(
            first=first,
            followed=followed,
            is_paused=self._is_paused,
            is_over=self._is_over,
            pushes=self.pushes,
            speed=SPEEDS.get(self.speed.value, 1.0) if self._stage.is_played else 1.0,
            push=_between(self.push.value, *PUSHES) if self.push is not None else 0.0,
            commands={
                name: tuple(
                    _between(slider.value, *ends)
                    for slider, ends in zip(
                        sliders, self._stage.commands[name].values(), strict=True
                    )
                )
                for name, (is_held, sliders) in self.commands.items()
                if is_held.value
            },
            **self._counts,
        )

    def count(self, name: str) -> None:
        """Ask once more for what a counter of ``Wishes`` counts."""
        self._counts[name] += 1

    def steer(self, pushes: Sequence[float]) -> None:
        """Set the sliders of the first command by a gamepad's sticks."""
        for is_held, sliders in list(self.commands.values())[:1]:
            is_held.value = True
            for slider, push in zip(sliders, pushes, strict=False):
                end = slider.max if push > 0.0 else slider.min
                rest = _rest(slider.min, slider.max)
                slider.value = rest + abs(push) * (end - rest)

    def chosen(self) -> tuple[int, int]:
        """Return the first shown environment, and the index of the followed one among the shown."""
        chosen = int(_between(self.environment.value, 0, self._stage.num_envs - 1))
        first = min(
            chosen - chosen % self._stage.num_shown, self._stage.num_envs - self._stage.num_shown
        )
        return first, chosen - first

    def show(self, frame: Frame) -> None:
        """Show the run's progress, and draw the rewards."""
        if self._plot is None and frame.rewards:
            self._add_plot(list(frame.rewards))
        time_s = frame.time_s
        if not self._history or self._history[-1][0] < time_s:
            self._history.append((time_s, *frame.rewards.values()))
        if self._num_frames % CURVE_EVERY == 0:
            held = " · paused" if self._is_paused else ""
            told = f"{frame.label} · " if frame.label else ""
            self._tell(f"{told}{frame.time_s:.1f} s{held}")
            if self._plot is not None:
                self._plot.data = tuple(np.array(self._history, dtype=np.float64).T.copy())
        self._num_frames += 1
        self._show_views(frame.views)

    def forget(self) -> None:
        """Restart the curves, because another environment is followed."""
        self._history.clear()

    def _show_views(self, views: Mapping[str, np.ndarray]) -> None:
        """Show what cameras see above the controls, each enlarged to about the panel's width."""
        for name, image in views.items():
            factor = max(1, VIEW_WIDTH // image.shape[1])
            shown = image.repeat(factor, axis=0).repeat(factor, axis=1)
            if name in self._views:
                self._views[name].image = shown
            else:
                self._views[name] = self._gui.add_image(
                    shown, label=name, format="png", order=self._status.order + 0.5
                )

    def _tell(self, words: str) -> None:
        title, told = html.escape(self._stage.title), html.escape(words)
        style = "padding: 0.4em 0.8em; font-size: 0.875em"
        self._status.content = f'<div style="{style}"><b>{title}</b><br>{told}</div>'

    def _add_clock(self) -> None:
        pause = self._gui.add_button("Pause", icon=viser.Icon.PLAYER_PAUSE)
        step = self._gui.add_button("Single step", icon=viser.Icon.PLAYER_TRACK_NEXT, disabled=True)
        self.speed = self._gui.add_dropdown(
            "Speed", tuple(SPEEDS), initial_value="max" if self._stage.is_script else "1"
        )

        @pause.on_click
        def _(_: object) -> None:
            self._is_paused = not self._is_paused
            pause.label = "Resume" if self._is_paused else "Pause"
            pause.icon = viser.Icon.PLAYER_PLAY if self._is_paused else viser.Icon.PLAYER_PAUSE
            step.disabled = not self._is_paused

        step.on_click(lambda _: self.count("num_steps"))

    def _add_steering(self) -> None:
        for name, bounds in self._stage.commands.items():
            with self._gui.add_folder(f"Command: {name}"):
                is_held = self._gui.add_checkbox("Command by hand", False)
                sliders = [self._add_slider(words, *ends) for words, ends in bounds.items()]
            self.commands[name] = is_held, sliders
        if not self._stage.axes:
            self._add_disturbances()
        end = self._gui.add_button("End", color="gray", hint="Ends the command in the terminal")
        end.on_click(lambda _: setattr(self, "_is_over", True))

    def _add_hand(self) -> None:
        """Add buttons for an episode by hand, and say which keys do what."""
        with self._gui.add_folder("By hand"):
            for label, name in HAND_BUTTONS.items():
                if name != "num_grips" or self._stage.has_gripper:
                    button = self._gui.add_button(label)
                    button.on_click(functools.partial(self._on_hand, name))
            rows = "".join(
                f"<tr><td>{html.escape(axis)}</td><td><kbd>{up}</kbd> <kbd>{down}</kbd></td></tr>"
                for axis, (up, down) in zip(self._stage.axes, AXES, strict=False)
            )
            style = "margin: 0.4em 0.8em; font-size: 0.875em; border-spacing: 0.8em 0.1em"
            self._gui.add_html(f'<table style="{style}">{rows}</table>')

    def _on_hand(self, name: str, _: object) -> None:
        self.count(name)

    def _add_disturbances(self) -> None:
        with self._gui.add_folder("Disturb"):
            self.push = self._gui.add_slider(
                "Push (m/s)", min=PUSHES[0], max=PUSHES[1], step=0.1, initial_value=1.0
            )
            push = self._gui.add_button("Push all that are shown")
            push.on_click(lambda _: self.count("num_pushes"))
            if not self._stage.is_script:
                reset = self._gui.add_button("Reset all")
                reset.on_click(lambda _: self.count("num_resets"))

    def _add_slider(self, words: str, low: float, high: float) -> Any:
        is_fixed = low >= high
        return self._gui.add_slider(
            words,
            min=low,
            max=low + 1e-3 if is_fixed else high,
            step=1e-3 if is_fixed else (high - low) / 100.0,
            initial_value=low if is_fixed else _rest(low, high),
            disabled=is_fixed,
        )

    def _add_plot(self, names: list[str]) -> None:
        curves = (
            uplot.Series(
                label=name.replace("_", " "),
                stroke=COLOURS[index % len(COLOURS)],
                width=3 if index == 0 else 1,
                dash=(6, 4) if index >= len(COLOURS) else (),
            )
            for index, name in enumerate(names)
        )
        with self._gui.add_folder("Reward per second"):
            self._plot = self._gui.add_uplot(
                data=tuple(np.zeros((1 + len(names), 1))),
                series=(uplot.Series(label="s"), *curves),
                scales={"x": uplot.Scale(time=False)},
                # Live, it would list the axis as "s: --" and a dash for each reward.
                legend=uplot.Legend(show=True, live=False),
                aspect=1.4,
            )


def _between(value: float, low: float, high: float) -> float:
    """Return a number within bounds, which a message by hand need not keep; ``low`` for a NaN."""
    return low if math.isnan(value) else min(max(float(value), low), high)


def _rest(low: float, high: float) -> float:
    """Return the default of a command: zero, or the middle of the range."""
    return 0.0 if low <= 0.0 <= high else 0.5 * (low + high)
