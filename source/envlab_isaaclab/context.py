"""``isaaclab.sim.simulation_context``: a simulation of envlab's in place of Kit's and PhysX's."""

from __future__ import annotations

import builtins
import contextlib
import enum
from collections.abc import Iterator
from typing import Any, ClassVar

from envlab.errors import ConfigurationError
from envlab_isaaclab import stage, views
from envlab_isaaclab.app import resolve_device
from envlab_isaaclab.kit import SETTINGS, TIMELINE, TimelineEventType
from envlab_isaaclab.world import World

__all__ = ["SimulationContext", "build_simulation_context"]


class SimulationContext:
    """Starts a world of what was spawned, and steps it; there is one at a time."""

    class RenderMode(enum.IntEnum):
        """How pictures are made: not at all."""

        NO_GUI_OR_RENDERING = -1
        NO_RENDERING = 0
        PARTIAL_RENDERING = 1
        FULL_RENDERING = 2

    _instance: ClassVar[SimulationContext | None] = None
    backend = "torch"
    render_mode = RenderMode.NO_GUI_OR_RENDERING

    def __init__(self, cfg: Any = None) -> None:
        if cfg is None:
            from isaaclab.sim import SimulationCfg

            cfg = SimulationCfg()
        SimulationContext._instance = self
        self.cfg = cfg
        self._device = resolve_device(str(cfg.device))
        cfg.device = str(self._device)  # configurations may name a GPU that this machine lacks
        self.stage = stage.current()
        self.stage.define("/physicsScene").apis.add("PhysxSceneAPI")
        self._world: World | None = None
        builtins.ISAACLAB_CALLBACK_EXCEPTION = None  # type: ignore[attr-defined]

    @classmethod
    def instance(cls) -> SimulationContext | None:
        """Return the current simulation; None if there is none."""
        return cls._instance

    @property
    def device(self) -> str:
        """Device of tensors."""
        return str(self._device)

    @property
    def physics_sim_view(self) -> views.SimulationView:
        """The view of the running simulation."""
        return views.simulation_view()

    @property
    def world(self) -> World:
        """The running simulation."""
        return views.simulation_view().world

    def reset(self, soft: bool = False) -> None:
        """Start the simulation: all that was spawned becomes one model."""
        if self._world is None:
            self._world = World(self.stage, self.cfg, self._device)
            views.show(self._world)
            TIMELINE.tell(TimelineEventType.PLAY)
            self._raise()

    def _raise(self) -> None:
        error = builtins.ISAACLAB_CALLBACK_EXCEPTION  # type: ignore[attr-defined]
        if error is not None:
            builtins.ISAACLAB_CALLBACK_EXCEPTION = None  # type: ignore[attr-defined]
            raise error

    def step(self, render: bool = True) -> None:
        """Run one physics step."""
        self.world.step()

    def forward(self) -> None:
        """Do nothing: poses follow states when they are read."""

    def render(self, mode: Any = None) -> None:
        """Do nothing: there is no window."""

    def get_physics_dt(self) -> float:
        """Return the time of a physics step, in s."""
        return float(self.cfg.dt)

    def get_rendering_dt(self) -> float:
        """Return the time between pictures, in s."""
        return float(self.cfg.dt * self.cfg.render_interval)

    def get_initial_stage(self) -> stage.Stage:
        """Return the stage."""
        return self.stage

    def get_version(self) -> tuple[int, int, int]:
        """Return the release of Isaac Sim whose behaviour is that of what is here."""
        return 5, 1, 0

    def has_gui(self) -> bool:
        """Return False."""
        return False

    has_rtx_sensors = is_fabric_enabled = is_stopped = has_gui

    def is_playing(self) -> bool:
        """Return whether the simulation was started."""
        return self._world is not None

    def get_setting(self, name: str) -> Any:
        """Return a setting of Kit's."""
        return SETTINGS.get(name)

    def set_setting(self, name: str, value: Any) -> None:
        """Change a setting of Kit's."""
        SETTINGS.set(name, value)

    def set_render_mode(self, mode: Any) -> None:
        """Do nothing: there is no window."""

    def set_camera_view(self, *arguments: Any, **keywords: Any) -> None:
        """Do nothing: there is no window."""

    def play(self) -> None:
        """Start the simulation."""
        self.reset()

    def stop(self) -> None:
        """Do nothing: a script that steps no more has stopped."""

    pause = clear = clear_all_callbacks = stop

    def add_physics_callback(self, name: str, function: Any) -> None:
        """Refuse callbacks.

        Raises:
            ConfigurationError: Always.
        """
        raise ConfigurationError(
            f"A script adds the physics callback {name!r}, but steps are not Kit's here. Call the "
            "function after sim.step()."
        )

    @classmethod
    def clear_instance(cls) -> None:
        """End the simulation, and begin an empty stage."""
        found = cls._instance
        if found is not None:
            TIMELINE.tell(TimelineEventType.STOP)
            if found._world is not None:
                found._world.close()
            views.show(None)
            stage.renew()
            cls._instance = None


@contextlib.contextmanager
def build_simulation_context(
    sim_cfg: Any = None, device: str = "cpu", dt: float = 0.01, **keywords: Any
) -> Iterator[SimulationContext]:
    """Make a context for some lines of a script."""
    from isaaclab.sim import SimulationCfg

    context = SimulationContext(sim_cfg or SimulationCfg(device=device, dt=dt))
    try:
        yield context
    finally:
        context.clear_instance()
