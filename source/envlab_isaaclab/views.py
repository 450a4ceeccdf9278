"""PhysX's tensor views on a :class:`~envlab_isaaclab.world.World`: what Isaac Lab's assets read.

Properties are given as on PhysX, on the CPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from envlab.errors import ConfigurationError
from envlab_isaaclab.articulation_view import ArticulationView
from envlab_isaaclab.body_views import RigidBodyView
from envlab_isaaclab.contact_view import RigidContactView
from envlab_isaaclab.stage import in_first, pattern_of
from envlab_isaaclab.things import Robot
from envlab_isaaclab.world import World


class SimulationView:
    """Makes views of a world."""

    def __init__(self, world: World) -> None:
        self.world, self.device = world, world.device
        self._gravity = tuple(float(value) for value in world.model.opt.gravity)

    def create_articulation_view(self, pattern: str) -> ArticulationView:
        """Return a view of the robot at a path.

        Raises:
            ConfigurationError: If there is none.
        """
        found = self.world.thing_at(in_first(pattern))
        if found is None or not isinstance(found[1].thing, Robot):
            raise ConfigurationError(f"There is no robot at {pattern}.")
        return ArticulationView(self.world, found[0], found[1].thing)

    def create_rigid_body_view(self, pattern: str | Sequence[str]) -> RigidBodyView:
        """Return a view of bodies whose paths match one of some patterns.

        Raises:
            ConfigurationError: If none does.
        """
        return RigidBodyView(self.world, self._bodies(pattern))

    def create_rigid_contact_view(
        self,
        pattern: str | Sequence[str],
        filter_patterns: Sequence[str] = (),
        max_contact_data_count: int = 0,
    ) -> RigidContactView:
        """Return a view of contacts of bodies whose paths match."""
        return RigidContactView(self.world, self._bodies(pattern), filter_patterns)

    def get_gravity(self) -> tuple[float, ...]:
        """Return gravity in m/s²."""
        return self._gravity

    def set_gravity(self, gravity: Sequence[float]) -> None:
        """Change gravity in all environments."""
        self._gravity = tuple(float(value) for value in gravity)
        world = self.world
        world.set_gravity(self._gravity)

    def update_articulations_kinematic(self) -> None:
        """Do nothing: poses follow states when they are read."""

    def set_subspace_roots(self, path: str) -> None:
        """Do nothing: environments are simulated apart."""

    def check(self) -> bool:
        """Return True."""
        return True

    def _bodies(self, pattern: str | Sequence[str]) -> list[str]:
        patterns = [pattern] if isinstance(pattern, str) else list(pattern)
        names: list[str] = []
        order = {name: number for number, name in enumerate(self._in_order())}
        for one in patterns:
            found = [name for name in order if pattern_of(one).fullmatch(name)]
            names += [name for name in sorted(found, key=order.__getitem__) if name not in names]
        if not names:
            raise ConfigurationError(f"There is no rigid body at {', '.join(patterns)}.")
        return names

    def _in_order(self) -> list[str]:
        """Return bodies by thing, and those of robots in PhysX's order."""
        names = []
        for path, spawned in self.world.stage.spawned.items():
            if isinstance(spawned.thing, Robot):
                names += [f"{path}/{link}" for link in spawned.thing.links()]
            elif self.world.spec.body(path) is not None:
                names.append(path)
        return names


_view: SimulationView | None = None


def simulation_view() -> SimulationView:
    """Return the view of the running simulation.

    Raises:
        ConfigurationError: If none runs.
    """
    if _view is None:
        raise ConfigurationError("No simulation runs yet; SimulationContext.reset() starts it.")
    return _view


def show(world: World | None) -> None:
    """Make a world the running simulation; None: end it."""
    global _view
    _view = None if world is None else SimulationView(world)


def create_simulation_view(*arguments: Any, **keywords: Any) -> SimulationView:
    """Return the view of the running simulation, as PhysX's function of that name."""
    return simulation_view()
