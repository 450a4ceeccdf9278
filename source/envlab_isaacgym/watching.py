"""``--viz web`` for scripts: adapts a world of Isaac Gym's to envlab's viewers.

The page shows what :meth:`Gym.simulate` steps, on rank 0, beginning with the first step. The
visitor may pause the script, run it in real time, push, and end it, as closing Isaac Gym's window
did; the script is not aware of any of it.
"""

from __future__ import annotations

from typing import Any

import torch

from envlab.distributed.ranks import launched_rank
from envlab.errors import ConfigurationError
from envlab.training.viewing import Viewer, viewer_class
from envlab_isaacgym.world import Sim

KINDS = ("web",)
"""Values of ``--viz``: MuJoCo's own window was not tried with scripts."""
APART_M = 0.5
"""Distance from which two environments' first actors count as already lying apart."""


class Watched:
    """A world with the interface that viewers use of environments."""

    resets = False
    """Whether a visitor may reset them: a script resets them itself."""

    def __init__(self, world: Sim) -> None:
        self._world = world
        self.device = world.physics.device
        self.num_envs, self.step_dt = len(world.envs), world.params.dt
        roots = world.physics.roots.view(self.num_envs, -1, world.physics.roots.shape[-1])
        apart = roots[:, 0, :3] - roots[:1, 0, :3]
        is_apart = bool(world.terrains) or float(apart.abs().max()) > APART_M
        self.env_origins = apart if is_apart else torch.zeros_like(apart)
        if is_apart and not bool(apart.any()):
            self.env_origins = torch.ones_like(apart)  # on one terrain, though at the same place

    @property
    def sim(self) -> Any:
        """The simulation, which is replaced if the script changes fixed properties."""
        return self._world.physics.flushed()

    @property
    def common_step_counter(self) -> int:
        """Steps so far."""
        return self._world.frame

    def add_markers(self, scene: Any) -> None:
        """Add nothing: a script's drawings in its window are not shown."""


class Watching:
    """The wish to watch, and the viewer of the stepped world.

    Attributes:
        port: The wanted port; None: watching is off.
    """

    def __init__(self) -> None:
        self.port: int | None = None
        self._title = ""
        self._viewer: Viewer | None = None
        self._shown: tuple[Any, ...] = ()

    def want(self, kind: str, port: int, title: str) -> None:
        """Show the next world that is stepped.

        Raises:
            ConfigurationError: If it cannot be shown here.
        """
        if kind not in KINDS:
            raise ConfigurationError(
                f"--viz is {kind!r}, but scripts can be watched by {' or '.join(KINDS)} alone."
            )
        if launched_rank() != 0:
            return
        problem = viewer_class(kind).find_problem()
        if problem is not None:
            raise ConfigurationError(problem)
        self.port, self._title = port, title

    def after_step(self, world: Sim) -> None:
        """Show a world after its step; end the script if the visitor has ended it.

        Raises:
            SystemExit: If so, as in scripts whose window was closed.
        """
        assert self.port is not None
        model = world.physics.flushed().model
        shown = world, model.nq, model.nbody, model.ngeom
        if self._viewer is None or shown != self._shown:
            self.close()
            make = viewer_class(KINDS[0])
            self._viewer = make(Watched(world), title=self._title, port=self.port, is_played=True)
            self._shown = shown
        self._viewer.after_step()
        if not self._viewer.is_open:
            self.close()
            self.port = None
            raise SystemExit(0)

    def close(self) -> None:
        """End the page."""
        if self._viewer is not None:
            self._viewer.close()
        self._viewer = None


watching = Watching()
"""The one of this process."""
