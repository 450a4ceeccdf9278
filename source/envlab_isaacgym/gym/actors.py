"""Methods on actors: counts, names, indices, handles and properties."""

from __future__ import annotations

import copy

import mujoco
import numpy as np

from envlab_isaacgym.assets import Asset
from envlab_isaacgym.enums import INVALID_HANDLE, IndexDomain
from envlab_isaacgym.gym.assets import find, numbered, shape_indices
from envlab_isaacgym.parameters import (
    ActuatorProperties,
    IndexRange,
    RigidBodyProperties,
    RigidShapeProperties,
    TendonProperties,
    tell_ignored,
)
from envlab_isaacgym.values import to_float
from envlab_isaacgym.world import Actor, Env


def _in_domain(env: Env, index: int, first: int, domain: IndexDomain, counted: str) -> int:
    """Return the index of an actor's part in the environment or in the simulation."""
    if index == INVALID_HANDLE or domain == IndexDomain.DOMAIN_ACTOR:
        return index
    if domain == IndexDomain.DOMAIN_ENV:
        return first + index
    before = sum(getattr(other, counted) for other in env.sim.envs[: env.index])
    return before + first + index


class Actors:
    """See :class:`envlab_isaacgym.gymapi.Gym`."""

    def get_actor_count(self, env: Env, /) -> int:
        return len(env.actors)

    def get_actor_handle(self, env: Env, index: int, /) -> int:
        return index if 0 <= index < len(env.actors) else INVALID_HANDLE

    def get_actor_index(self, env: Env, actor: int, domain: IndexDomain, /) -> int:
        """Return an actor's index in its environment, or in the simulation."""
        if domain != IndexDomain.DOMAIN_SIM:
            return actor
        return sum(len(other.actors) for other in env.sim.envs[: env.index]) + actor

    def get_actor_name(self, env: Env, actor: int, /) -> str:
        return env.actors[actor].name

    def get_actor_asset(self, env: Env, actor: int, /) -> Asset:
        return env.actors[actor].asset

    def get_actor_scale(self, env: Env, actor: int, /) -> float:
        return env.actors[actor].scale

    def set_actor_scale(self, env: Env, actor: int, scale: float, /) -> bool:
        """Set the size of an actor that is one body of boxes, spheres and the like.

        Its mass grows with its volume.

        Raises:
            NotImplementedError: If it has joints or meshes.
        """
        target = env.actors[actor]
        model = target.asset.model
        if model.nbody > 2 or (model.geom_type == mujoco.mjtGeom.mjGEOM_MESH).any():
            raise NotImplementedError(
                f"Gym.set_actor_scale: {target.asset.name} has joints or meshes; only primitive "
                "shapes of one body can be scaled. See docs/isaacgym.md."
            )
        factor = to_float(scale)
        if target.scale != factor:
            target.scale = factor
            _renew(env)
        return True

    def get_actor_soft_body_count(self, env: Env, actor: int, /) -> int:
        return 0

    def find_actor_handle(self, env: Env, name: str, /) -> int:
        return find([actor.name for actor in env.actors], name)

    def find_actor_index(self, env: Env, name: str, domain: IndexDomain, /) -> int:
        found = self.find_actor_handle(env, name)
        return found if found == INVALID_HANDLE else self.get_actor_index(env, found, domain)

    def get_env_rigid_body_count(self, env: Env, /) -> int:
        return env.num_bodies

    def get_env_dof_count(self, env: Env, /) -> int:
        return env.num_dofs

    def get_env_joint_count(self, env: Env, /) -> int:
        return env.num_joints

    # Bodies

    def get_actor_rigid_body_count(self, env: Env, actor: int, /) -> int:
        return len(env.actors[actor].asset.body_names)

    def get_actor_rigid_body_names(self, env: Env, actor: int, /) -> list[str]:
        return list(env.actors[actor].asset.body_names)

    def get_actor_rigid_body_dict(self, env: Env, actor: int, /) -> dict[str, int]:
        return numbered(env.actors[actor].asset.body_names)

    def get_actor_rigid_body_index(
        self, env: Env, actor: int, index: int, domain: IndexDomain, /
    ) -> int:
        return _in_domain(env, index, env.first_body(actor), domain, "num_bodies")

    def find_actor_rigid_body_index(
        self, env: Env, actor: int, name: str, domain: IndexDomain, /
    ) -> int:
        index = find(env.actors[actor].asset.body_names, name)
        return self.get_actor_rigid_body_index(env, actor, index, domain)

    def get_actor_rigid_body_handle(self, env: Env, actor: int, index: int, /) -> int:
        return env.first_body(actor) + index

    def find_actor_rigid_body_handle(self, env: Env, actor: int, name: str, /) -> int:
        return self.find_actor_rigid_body_index(env, actor, name, IndexDomain.DOMAIN_ENV)

    def get_actor_root_rigid_body_handle(self, env: Env, actor: int, /) -> int:
        return env.first_body(actor)

    def get_rigid_handle(self, env: Env, actor: str, body: str, /) -> int:
        found = self.find_actor_handle(env, actor)
        if found == INVALID_HANDLE:
            return found
        return self.find_actor_rigid_body_handle(env, found, body)

    def get_rigid_name(self, env: Env, body: int, /) -> str:
        actor, index = env.actor_of_body(body)
        return env.actors[actor].asset.body_names[index]

    def get_actor_rigid_body_properties(self, env: Env, actor: int, /) -> list[RigidBodyProperties]:
        return copy.deepcopy(env.actors[actor].bodies)

    def set_actor_rigid_body_properties(
        self,
        env: Env,
        actorHandle: int,
        props: list[RigidBodyProperties],
        recomputeInertia: bool = False,
    ) -> bool:
        """Set masses and centres of mass; inertias always scale with the masses."""
        actor = env.actors[actorHandle]
        return _set(env, actor, "bodies", actor.asset.bodies, props)

    def get_actor_rigid_shape_count(self, env: Env, actor: int, /) -> int:
        return len(env.actors[actor].shapes)

    def get_actor_rigid_shape_properties(
        self, env: Env, actor: int, /
    ) -> list[RigidShapeProperties]:
        return copy.deepcopy(env.actors[actor].shapes)

    def set_actor_rigid_shape_properties(
        self, env: Env, actor: int, props: list[RigidShapeProperties], /
    ) -> bool:
        return _set(env, env.actors[actor], "shapes", env.actors[actor].asset.shapes, props)

    def get_actor_rigid_body_shape_indices(self, env: Env, actor: int, /) -> list[IndexRange]:
        return shape_indices(env.actors[actor].asset)

    def get_rigid_body_segmentation_id(self, env: Env, actor: int, body: int, /) -> int:
        return env.actors[actor].segmentation_of(body)

    def set_rigid_body_segmentation_id(
        self, env: Env, actor: int, body: int, segmentation_id: int, /
    ) -> None:
        env.actors[actor].segmentation_ids[body] = segmentation_id

    # Degrees of freedom

    def get_actor_dof_count(self, env: Env, actor: int, /) -> int:
        return len(env.actors[actor].asset.dof_names)

    def get_actor_dof_names(self, env: Env, actor: int, /) -> list[str]:
        return list(env.actors[actor].asset.dof_names)

    def get_actor_dof_dict(self, env: Env, actor: int, /) -> dict[str, int]:
        return numbered(env.actors[actor].asset.dof_names)

    def get_actor_dof_index(self, env: Env, actor: int, index: int, domain: IndexDomain, /) -> int:
        return _in_domain(env, index, env.first_dof(actor), domain, "num_dofs")

    def find_actor_dof_index(self, env: Env, actor: int, name: str, domain: IndexDomain, /) -> int:
        index = find(env.actors[actor].asset.dof_names, name)
        return self.get_actor_dof_index(env, actor, index, domain)

    def get_actor_dof_handle(self, env: Env, actor: int, index: int, /) -> int:
        return env.first_dof(actor) + index

    def find_actor_dof_handle(self, env: Env, actor: int, name: str, /) -> int:
        return self.find_actor_dof_index(env, actor, name, IndexDomain.DOMAIN_ENV)

    def get_actor_dof_properties(self, env: Env, actor: int) -> np.ndarray:
        """Return an array of :data:`envlab_isaacgym.parameters.DOF_PROPERTIES`."""
        return env.actors[actor].dof_properties.copy()

    def set_actor_dof_properties(self, env: Env, actor: int, props: np.ndarray, /) -> bool:
        """Set limits, drives and losses; only modes must be equal in all environments."""
        target = env.actors[actor]
        if not np.array_equal(target.dof_properties, props):
            target.dof_properties = np.array(props, dtype=target.dof_properties.dtype)
            _renew(env)
        return True

    # Joints

    def get_actor_joint_count(self, env: Env, actor: int, /) -> int:
        return len(env.actors[actor].asset.joint_names)

    def get_actor_joint_names(self, env: Env, actor: int, /) -> list[str]:
        return list(env.actors[actor].asset.joint_names)

    def get_actor_joint_dict(self, env: Env, actor: int, /) -> dict[str, int]:
        return numbered(env.actors[actor].asset.joint_names)

    def get_actor_joint_index(
        self, env: Env, actor: int, index: int, domain: IndexDomain, /
    ) -> int:
        return _in_domain(env, index, env.first_joint(actor), domain, "num_joints")

    def find_actor_joint_index(
        self, env: Env, actor: int, name: str, domain: IndexDomain, /
    ) -> int:
        index = find(env.actors[actor].asset.joint_names, name)
        return self.get_actor_joint_index(env, actor, index, domain)

    def get_actor_joint_handle(self, env: Env, actor: int, index: int, /) -> int:
        return env.first_joint(actor) + index

    def find_actor_joint_handle(self, env: Env, actor: int, name: str, /) -> int:
        return self.find_actor_joint_index(env, actor, name, IndexDomain.DOMAIN_ENV)

    def get_joint_handle(self, env: Env, actor: str, joint: str, /) -> int:
        found = self.find_actor_handle(env, actor)
        if found == INVALID_HANDLE:
            return found
        return self.find_actor_joint_handle(env, found, joint)

    def get_joint_name(self, env: Env, joint: int, /) -> str:
        names = [name for actor in env.actors for name in actor.asset.joint_names]
        return names[joint]

    # Actuators, tendons, sensors

    def get_actor_actuator_count(self, env: Env, actor: int, /) -> int:
        return len(env.actors[actor].asset.actuators)

    def get_actor_actuator_name(self, env: Env, actor: int, index: int, /) -> str:
        return env.actors[actor].asset.actuators[index].name

    def get_actor_actuator_joint_name(self, env: Env, actor: int, index: int, /) -> str:
        return env.actors[actor].asset.actuators[index].joint

    def get_actor_actuator_properties(self, env: Env, actor: int, /) -> list[ActuatorProperties]:
        return [copy.copy(actuator.properties) for actuator in env.actors[actor].asset.actuators]

    def find_actor_actuator_index(self, env: Env, actor: int, name: str, /) -> int:
        return find([actuator.name for actuator in env.actors[actor].asset.actuators], name)

    def get_actor_tendon_count(self, env: Env, actor: int, /) -> int:
        return int(env.actors[actor].asset.model.ntendon)

    def get_actor_tendon_name(self, env: Env, actor: int, index: int, /) -> str:
        return str(env.actors[actor].asset.model.tendon(index).name)

    def find_actor_tendon_index(self, env: Env, actor: int, name: str, /) -> int:
        model = env.actors[actor].asset.model
        return find([model.tendon(index).name for index in range(model.ntendon)], name)

    def get_actor_tendon_properties(self, env: Env, actor: int, /) -> list[TendonProperties]:
        """Return stiffness and damping of each tendon."""
        return copy.deepcopy(env.actors[actor].tendons)

    def set_actor_tendon_properties(
        self, env: Env, actor: int, props: list[TendonProperties], /
    ) -> bool:
        """Set stiffness and damping; MuJoCo's limits have no separate stiffness."""
        for one in props:
            tell_ignored(one)
        target = env.actors[actor]
        return _set(env, target, "tendons", target.asset.tendon_properties(), props)

    def get_actor_force_sensor_count(self, env: Env, actor: int, /) -> int:
        return len(env.actors[actor].asset.force_sensors)

    def enable_actor_dof_force_sensors(self, env: Env, actor: int, /) -> bool:
        env.actors[actor].has_dof_force_sensors = True
        return True


def _set(env: Env, actor: Actor, name: str, usual: list, given: list) -> bool:
    """Give an actor its own properties, unless they are unchanged."""
    if getattr(actor, name) == given:
        return True
    setattr(actor, name, usual if given == usual else copy.deepcopy(given))
    _renew(env)
    return True


def _renew(env: Env) -> None:
    if env.sim.physics is not None:
        env.sim.physics.renew()
