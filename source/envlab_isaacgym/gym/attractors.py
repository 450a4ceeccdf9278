"""Methods on attractors, which pin points of bodies to points of the world."""

from __future__ import annotations

import copy

from envlab.errors import ConfigurationError
from envlab_isaacgym.enums import AXIS_ALL, AXIS_TRANSLATION
from envlab_isaacgym.parameters import AttractorProperties, tell_ignored
from envlab_isaacgym.values import Transform
from envlab_isaacgym.world import Env


class Attractors:
    """See :class:`envlab_isaacgym.gymapi.Gym`."""

    def create_rigid_body_attractor(self, env: Env, properties: AttractorProperties, /) -> int:
        """Pin a body; return the attractor's index in the environment.

        Raises:
            ConfigurationError: If the simulation is running.
            NotImplementedError: If it holds neither the axes of translation nor all.
        """
        if properties.axes not in (AXIS_TRANSLATION, AXIS_ALL):
            raise NotImplementedError(
                f"Gym.create_rigid_body_attractor: axes are {properties.axes}, but only "
                "AXIS_TRANSLATION and AXIS_ALL can be held."
            )
        if env.sim.physics is not None:
            raise ConfigurationError(
                "create_rigid_body_attractor was called after a tensor was acquired or a step was "
                "made. Create all attractors before."
            )
        tell_ignored(properties)
        env.attractors.append(copy.deepcopy(properties))
        return len(env.attractors) - 1

    def get_attractor_properties(self, env: Env, attractor: int, /) -> AttractorProperties:
        return copy.deepcopy(env.attractors[attractor])

    def set_attractor_properties(
        self, env: Env, attractor: int, properties: AttractorProperties, /
    ) -> None:
        """Set its target; the axes that it holds stay unchanged."""
        tell_ignored(properties)
        self.set_attractor_target(env, attractor, properties.target)

    def set_attractor_target(self, env: Env, attractor: int, target: Transform, /) -> None:
        env.attractors[attractor].target = copy.deepcopy(target)
        if env.sim.physics is not None:
            env.sim.physics.renew()
