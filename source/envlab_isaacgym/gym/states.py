"""Methods on states, targets and forces of one environment, actor, body or degree of freedom.

They are slow, as Isaac Gym's own are: loops over environments should use tensors.
"""

from __future__ import annotations

import mujoco
import numpy as np
import torch

from envlab_isaacgym.enums import STATE_ALL, STATE_POS, STATE_VEL, CoordinateSpace, DofDriveMode
from envlab_isaacgym.gym.worlds import physics_of
from envlab_isaacgym.readings import DOF_FORCE
from envlab_isaacgym.rotations import rotate
from envlab_isaacgym.scene import CONTACT
from envlab_isaacgym.values import DofFrame, DofState, Quat, RigidBodyState, Transform, Vec3
from envlab_isaacgym.world import Env, Sim

_POS, _VEL = DofDriveMode.DOF_MODE_POS, DofDriveMode.DOF_MODE_VEL
_EFFORT = DofDriveMode.DOF_MODE_EFFORT


def is_running(env: Env) -> bool:
    """Return whether a step or a value was requested, so that states may have changed."""
    return env.sim.physics is not None and env.sim.physics.simulation is not None


def _records(rows: torch.Tensor, dtype: np.dtype) -> np.ndarray:
    """Return rows of numbers as an array of records."""
    return np.ascontiguousarray(rows.detach().cpu().numpy()).view(dtype).reshape(len(rows))


def _numbers(values: np.ndarray) -> torch.Tensor:
    """Return records or numbers as float32 numbers."""
    array = np.ascontiguousarray(values)
    numbers = array.view(np.float32) if array.dtype.names else array.astype(np.float32)
    return torch.from_numpy(numbers.reshape(-1).copy())


class States:
    """See :class:`envlab_isaacgym.gymapi.Gym`."""

    # Degrees of freedom

    def get_actor_dof_states(self, env: Env, actor: int, flags: int) -> np.ndarray:
        """Return an array of ``DofState.dtype``."""
        if not is_running(env):
            return env.actors[actor].dof_states.copy()
        physics = physics_of(env.sim)
        physics.refresh_dofs()
        first = env.first_dof(actor)
        rows = physics.dofs.view(physics.num_envs, -1, 2)[env.index]
        count = len(env.actors[actor].asset.dof_names)
        return _records(rows[first : first + count], DofState.dtype).copy()

    def set_actor_dof_states(self, env: Env, actor: int, states: np.ndarray, flags: int, /) -> bool:
        """Set positions (``STATE_POS``), velocities (``STATE_VEL``) or both (``STATE_ALL``)."""
        current = self.get_actor_dof_states(env, actor, STATE_ALL)
        for flag, name in ((STATE_POS, "pos"), (STATE_VEL, "vel")):
            if flags & flag:
                current[name] = states[name]
        if not is_running(env):
            env.actors[actor].dof_states = current
            if env.sim.physics is not None:
                env.sim.physics.show_first_states()
            return True
        physics = physics_of(env.sim)
        dofs = physics.dofs.clone().view(physics.num_envs, -1, 2)
        first = env.first_dof(actor)
        dofs[env.index, first : first + len(current)] = _numbers(current).view(-1, 2).to(dofs)
        physics.set_dofs(dofs, self._actor_id(env, actor))
        return True

    def get_dof_frame(self, env: Env, dof: int, /) -> DofFrame:
        """Return the position and axis of a degree of freedom's joint in the environment."""
        physics = physics_of(env.sim)
        data = physics.flushed().data_of(env.index)
        joint = physics.scene.dof_joints[dof]
        return DofFrame(Vec3(*data.xanchor[joint]), Vec3(*data.xaxis[joint]))

    def get_actor_dof_frames(self, env: Env, actor: int, /) -> np.ndarray:
        """Return an array of ``DofFrame.dtype``."""
        first, count = env.first_dof(actor), len(env.actors[actor].asset.dof_names)
        frames = [self.get_dof_frame(env, dof) for dof in range(first, first + count)]
        rows = [[*np.asarray(frame.origin), *np.asarray(frame.axis)] for frame in frames]
        return _records(torch.tensor(rows).float().view(-1, 6), DofFrame.dtype)

    def get_vec_actor_dof_states(self, envs: list[Env], actor: int, flags: int) -> np.ndarray:
        """Return states of an actor in several environments, one row each."""
        return np.stack([self.get_actor_dof_states(env, actor, flags) for env in envs])

    def get_dof_position(self, env: Env, dof: int, /) -> float:
        actor, index = env.actor_of_dof(dof)
        return float(self.get_actor_dof_states(env, actor, STATE_POS)["pos"][index])

    def get_dof_velocity(self, env: Env, dof: int, /) -> float:
        actor, index = env.actor_of_dof(dof)
        return float(self.get_actor_dof_states(env, actor, STATE_VEL)["vel"][index])

    def get_actor_dof_forces(self, env: Env, actor: int, /) -> np.ndarray:
        physics = physics_of(env.sim)
        physics.want(DOF_FORCE)
        physics.refresh_dof_forces()
        first = env.first_dof(actor)
        row = physics.dof_forces.view(physics.num_envs, -1)[env.index]
        count = len(env.actors[actor].asset.dof_names)
        return row[first : first + count].cpu().numpy().copy()

    # Targets and efforts

    def get_actor_dof_position_targets(self, env: Env, actor: int) -> np.ndarray:
        return self._targets(env, actor, _POS)

    def get_actor_dof_velocity_targets(self, env: Env, actor: int) -> np.ndarray:
        return self._targets(env, actor, _VEL)

    def set_actor_dof_position_targets(self, env: Env, actor: int, targets: np.ndarray) -> bool:
        return self._set_controls(env, actor, targets, _POS)

    def set_actor_dof_velocity_targets(self, env: Env, actor: int, targets: np.ndarray) -> bool:
        return self._set_controls(env, actor, targets, _VEL)

    def apply_actor_dof_efforts(self, env: Env, actor: int, efforts: np.ndarray, /) -> bool:
        """Apply efforts for one step."""
        return self._set_controls(env, actor, efforts, _EFFORT)

    def apply_dof_effort(self, env: Env, dof: int, effort: float, /) -> None:
        self._set_control(env, dof, effort, _EFFORT)

    def set_dof_target_position(self, env: Env, dof: int, target: float, /) -> None:
        self._set_control(env, dof, target, _POS)

    def set_dof_target_velocity(self, env: Env, dof: int, target: float, /) -> None:
        self._set_control(env, dof, target, _VEL)

    def get_dof_target_position(self, env: Env, dof: int, /) -> float:
        actor, index = env.actor_of_dof(dof)
        return float(self._targets(env, actor, _POS)[index])

    def get_dof_target_velocity(self, env: Env, dof: int, /) -> float:
        actor, index = env.actor_of_dof(dof)
        return float(self._targets(env, actor, _VEL)[index])

    def _targets(self, env: Env, actor: int, mode: DofDriveMode) -> np.ndarray:
        """Return targets; 0 for degrees of freedom in another mode."""
        physics = physics_of(env.sim)
        first, count = env.first_dof(actor), len(env.actors[actor].asset.dof_names)
        row = physics.controls()[env.index, first : first + count].cpu().numpy().copy()
        row[env.actors[actor].dof_properties["driveMode"] != mode] = 0.0
        return row

    def _set_controls(self, env: Env, actor: int, values: np.ndarray, mode: DofDriveMode) -> bool:
        physics = physics_of(env.sim)
        all_values = physics.controls().clone()
        first, count = env.first_dof(actor), len(env.actors[actor].asset.dof_names)
        all_values[env.index, first : first + count] = _numbers(values).to(all_values)
        physics.set_controls(all_values, self._actor_id(env, actor), mode)
        return True

    def _set_control(self, env: Env, dof: int, value: float, mode: DofDriveMode) -> None:
        actor, index = env.actor_of_dof(dof)
        first, count = env.first_dof(actor), len(env.actors[actor].asset.dof_names)
        controls = physics_of(env.sim).controls()[env.index, first : first + count]
        row = controls.cpu().numpy().copy()
        row[index] = value
        self._set_controls(env, actor, row, mode)

    def _actor_id(self, env: Env, actor: int) -> torch.Tensor:
        before = sum(len(other.actors) for other in env.sim.envs[: env.index])
        return torch.tensor([before + actor])

    # Bodies

    def get_rigid_transform(self, env: Env, body: int, /) -> Transform:
        """Return a body's pose; before the first step, its actor's initial one."""
        return pose_of(env, body)

    def get_rigid_linear_velocity(self, env: Env, body: int, /) -> Vec3:
        return Vec3(*_body_rows(env)[body, 7:10].tolist())

    def get_rigid_angular_velocity(self, env: Env, body: int, /) -> Vec3:
        return Vec3(*_body_rows(env)[body, 10:].tolist())

    def get_vec_rigid_transform(self, envs: list[Env], bodies: int | list[int], /) -> np.ndarray:
        return self._rows(envs, bodies, slice(0, 7), Transform.dtype)

    def get_vec_rigid_linear_velocity(
        self, envs: list[Env], bodies: int | list[int], /
    ) -> np.ndarray:
        return self._rows(envs, bodies, slice(7, 10), Vec3.dtype)

    def get_vec_rigid_angular_velocity(
        self, envs: list[Env], bodies: int | list[int], /
    ) -> np.ndarray:
        return self._rows(envs, bodies, slice(10, 13), Vec3.dtype)

    def get_actor_rigid_body_states(self, env: Env, actor: int, flags: int, /) -> np.ndarray:
        """Return an array of ``RigidBodyState.dtype``."""
        first = env.first_body(actor)
        count = len(env.actors[actor].asset.body_names)
        return _records(_body_rows(env)[first : first + count], RigidBodyState.dtype)

    def get_env_rigid_body_states(self, env: Env, flags: int, /) -> np.ndarray:
        return _records(_body_rows(env), RigidBodyState.dtype)

    def get_sim_rigid_body_states(self, sim: Sim, flags: int, /) -> np.ndarray:
        physics = physics_of(sim)
        physics.refresh_bodies()
        return _records(physics.bodies, RigidBodyState.dtype).copy()

    def get_env_rigid_contact_forces(self, env: Env, /) -> np.ndarray:
        """Return net contact forces on an environment's bodies, an array of ``Vec3.dtype``."""
        physics = physics_of(env.sim)
        physics.want(CONTACT)
        physics.refresh_contacts()
        rows = physics.contacts.view(physics.num_envs, -1, 3)[env.index]
        return _records(rows, Vec3.dtype).copy()

    def get_rigid_contact_forces(self, sim: Sim, /) -> np.ndarray:
        return np.concatenate([self.get_env_rigid_contact_forces(env) for env in sim.envs])

    def get_vec_env_rigid_contact_forces(self, envs: list[Env], /) -> np.ndarray:
        return np.stack([self.get_env_rigid_contact_forces(env) for env in envs])

    def apply_body_forces(
        self,
        env: Env,
        rigidHandle: int,
        force: Vec3 | None = None,
        torque: Vec3 | None = None,
        space: CoordinateSpace = CoordinateSpace.ENV_SPACE,
    ) -> None:
        """Apply a force at a body's centre of mass, and a torque, for one step."""
        physics = physics_of(env.sim)
        wrench = torch.zeros(2, physics.num_envs, physics.num_bodies, 3, device=physics.device)
        for row, vector in zip(wrench, (force, torque), strict=True):
            if vector is not None:
                row[env.index, rigidHandle] = torch.tensor([vector.x, vector.y, vector.z])
        if space == CoordinateSpace.LOCAL_SPACE:
            wrench = rotate(physics.body_quats(), wrench)
        physics.push(wrench[0], wrench[1])

    def apply_body_force_at_pos(
        self,
        env: Env,
        rigidHandle: int,
        force: Vec3,
        pos: Vec3 | None = None,
        space: CoordinateSpace = CoordinateSpace.ENV_SPACE,
    ) -> None:
        """Apply a force at a point, for one step."""
        centre = physics_of(env.sim).body_centres()[env.index, rigidHandle].tolist()
        point = pos or Vec3()
        if space == CoordinateSpace.LOCAL_SPACE:
            pose = pose_of(env, rigidHandle)
            point, force = pose.transform_point(point), pose.transform_vector(force)
        torque = (point - Vec3(*centre)).cross(force)
        self.apply_body_forces(env, rigidHandle, force, torque, CoordinateSpace.ENV_SPACE)

    def _rows(
        self, envs: list[Env], bodies: int | list[int], columns: slice, dtype: np.dtype
    ) -> np.ndarray:
        chosen = [bodies] * len(envs) if isinstance(bodies, int) else bodies
        rows = [
            _body_rows(env)[body, columns].cpu() for env, body in zip(envs, chosen, strict=True)
        ]
        return _records(torch.stack(rows), dtype)


def _body_rows(env: Env) -> torch.Tensor:
    physics = physics_of(env.sim)
    physics.refresh_bodies()
    return physics.bodies.view(physics.num_envs, -1, 13)[env.index].clone()


def pose_of(env: Env, body: int) -> Transform:
    """Return a body's pose; before the first step, its actor's initial one."""
    if not is_running(env):
        return _first_pose(env, body)
    return Transform.from_buffer(_body_rows(env)[body, :7].tolist())


def _first_pose(env: Env, body: int) -> Transform:
    """Return a body's pose while its actor is in its initial state."""
    number, index = env.actor_of_body(body)
    actor = env.actors[number]
    model, data = actor.asset.model, mujoco.MjData(actor.asset.model)
    joints = [model.joint(name).qposadr[0] for name in actor.asset.dof_names]
    data.qpos[joints] = actor.dof_states["pos"]
    mujoco.mj_kinematics(model, data)
    root, found = (
        Transform(Vec3(*data.xpos[one]), Quat(*data.xquat[one][[1, 2, 3, 0]]))
        for one in (1, index + 1)
    )
    return actor.pose * (root.inverse() * found)
