"""The humanoid of adversarial motion priors (Peng et al. 2021, arXiv 2104.02180), Isaac Lab's.

The discriminator compares ``info["amp_obs"]``, the last two observations of each robot, the newest
first, with the clip. skrl's AMP calls :meth:`HumanoidAmpEnv.collect_reference_motions` for the
clip's.
"""

from __future__ import annotations

import gymnasium
import numpy as np
import torch

from envlab.envs import DirectEnv, SceneEntityCfg
from envlab.envs.batched_env import Step
from envlab.envs.entities import resolve_entity
from envlab.envs.masks import assign
from envlab.envs.math import matrix_from_quat, quat_apply_inverse
from envlab.envs.mdp.events import joint_limits
from envlab.motion import fit_clip, read_clip
from envlab.state import State
from envlab_tasks.tracking.humanoid_amp.humanoid_amp_env_cfg import HumanoidAmpEnvCfg
from envlab_tasks.tracking.humanoid_amp.motion_frames import Frames, MotionFrames

KEY_BODIES = ("right_hand", "left_hand", "right_foot", "left_foot")
LIFT_M = 0.15
"""Height added to a robot that starts in the clip, so that it does not start in the ground.
"""


class HumanoidAmpEnv(DirectEnv):
    """See :class:`HumanoidAmpEnvCfg`.

    Attributes:
        amp_observation_space: Flat space of the discriminator's observations.
    """

    STATE = State(per_env=("_history",))
    cfg: HumanoidAmpEnvCfg

    def _setup(self) -> None:
        cfg, model = self.cfg, self.sim.model
        self._robot = robot = resolve_entity(SceneEntityCfg("robot"), model, self.device)
        low, high = joint_limits(self, robot)
        self._centre, self._range = 0.5 * (low + high), high - low
        clip = fit_clip(read_clip(cfg.motion_file), model)
        self._motion = MotionFrames(clip, self.device)
        self._root_in_clip = self._motion.body(model.body(robot.root_body).name)
        self._reference_in_clip = self._motion.body(cfg.reference_body)
        in_clip = [self._motion.body(name) for name in KEY_BODIES]
        self._keys_in_clip = torch.tensor(in_clip, device=self.device)
        self._reference = model.body(cfg.reference_body).id
        keys = [model.body(name).id for name in KEY_BODIES]
        self._keys = torch.tensor(keys, device=self.device)
        self._velocities = [
            slice(start, start + 3)
            for name in ("lin", "ang")
            for start in [int(model.sensor(f"{cfg.reference_body}_{name}_vel").adr[0])]
        ]
        num, size = cfg.num_amp_observations, cfg.amp_observation_space
        self._history = torch.zeros(self.num_envs, num, size, device=self.device)
        self._amp_obs = torch.zeros(self.num_envs, num * size, device=self.device)
        self._begins = torch.zeros(self.num_envs, dtype=torch.bool, device=self.device)
        self.amp_observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (num * size,))

    def collect_reference_motions(self, num_samples: int) -> torch.Tensor:
        """Return the clip's observations at random times, ``(num_samples, 162)``.

        Times are drawn from torch's own generator, which a checkpoint holds for each process.
        """
        times = torch.rand(num_samples, device=self.device) * self._motion.duration
        return self.reference_history(times).flatten(1)

    def reference_history(self, times: torch.Tensor) -> torch.Tensor:
        """Return the clip's observations at times and the frames before, ``(n, 2, 81)``."""
        num = self.cfg.num_amp_observations
        earlier = self._motion.dt * torch.arange(num, device=self.device)
        obs = self._observation_of(self._motion.at((times.unsqueeze(1) - earlier).flatten()))
        return obs.view(len(times), num, -1)

    def _observation_of(self, frames: Frames) -> torch.Tensor:
        """Return the observation of states of the clip, ``(n, 81)``."""
        body = self._reference_in_clip
        return observation(
            frames.joint_pos,
            frames.joint_vel,
            frames.body_pos[:, body],
            frames.body_quat[:, body],
            frames.body_lin_vel[:, body],
            frames.body_ang_vel[:, body],
            frames.body_pos.index_select(1, self._keys_in_clip),
        )

    def _pre_physics_step(self, actions: torch.Tensor) -> None:
        self._targets = self._centre + self._range * actions

    def _apply_action(self) -> None:
        self.sim.ctrl[:, self._robot.actuator_ids] = self._targets

    def _get_observations(self) -> dict[str, torch.Tensor]:
        data = self.sim.data
        linear, angular = self._velocities
        obs = observation(
            data.qpos[:, self._robot.qpos_ids],
            data.qvel[:, self._robot.qvel_ids],
            data.xpos[:, self._reference],
            data.xquat[:, self._reference],
            data.sensordata[:, linear],
            data.sensordata[:, angular],
            data.xpos.index_select(1, self._keys),
        )
        return {"policy": obs}

    def _get_dones(self) -> tuple[torch.Tensor, torch.Tensor]:
        self._remember(torch.ones_like(self._begins))
        self._amp_obs.copy_(self._history.flatten(1))
        height = self.sim.data.xpos[:, self._reference, 2]
        fallen = (height < self.cfg.termination_height) & self.cfg.early_termination
        # Isaac Lab's direct tasks count the step to come, so that an episode has 299 steps of 300.
        return fallen, self.episode_length_buf >= self.max_episode_length - 1

    def _get_rewards(self) -> torch.Tensor:
        return torch.ones(self.num_envs, device=self.device)

    def _reset_envs(
        self, mask: torch.Tensor, count: torch.Tensor | int
    ) -> dict[str, torch.Tensor | float]:
        self._begins |= mask
        times = self.random.stream("motion").uniform(0.0, self._motion.duration, 1, mask)[:, 0]
        if self.cfg.reset_strategy != "random":
            times = torch.zeros_like(times)
        assign(self._history, mask, self.reference_history(times))
        if self.cfg.reset_strategy != "default":
            self._start_in(self._motion.at(times))
        return {}

    def _start_in(self, frames: Frames) -> None:
        """Stage states of the clip; rows that are not reset are not read."""
        robot, root = self._robot, self._root_in_clip
        quat = frames.body_quat[:, root]
        self.reset_qpos[:, robot.root_pos] = frames.body_pos[:, root] + self.env_origins
        self.reset_qpos[:, robot.root_pos.start + 2] += LIFT_M
        self.reset_qpos[:, robot.root_quat] = quat
        self.reset_qpos[:, robot.qpos_ids] = frames.joint_pos
        self.reset_qvel[:, robot.root_lin_vel] = frames.body_lin_vel[:, root]
        self.reset_qvel[:, robot.root_ang_vel] = quat_apply_inverse(
            quat, frames.body_ang_vel[:, root]
        )
        self.reset_qvel[:, robot.qvel_ids] = frames.joint_vel

    def _observe(self) -> None:
        super()._observe()
        self._remember(self._begins)  # in front of the clip's observations at their start
        self._begins.zero_()

    def _remember(self, rows: torch.Tensor) -> None:
        """Put the current observations in front of the history of the robots of a mask."""
        obs = torch.nan_to_num(self._get_observations()["policy"], posinf=0.0, neginf=0.0)
        newer = torch.cat((obs.unsqueeze(1), self._history[:, :-1]), dim=1)
        torch.where(rows.view(-1, 1, 1), newer, self._history, out=self._history)

    def _transition(self) -> Step:
        obs, reward, terminated, truncated, info = super()._transition()
        info["amp_obs"] = self._amp_obs.clone()
        return obs, reward, terminated, truncated, info


def observation(
    joint_pos: torch.Tensor,
    joint_vel: torch.Tensor,
    position: torch.Tensor,
    quat: torch.Tensor,
    lin_vel: torch.Tensor,
    ang_vel: torch.Tensor,
    key_positions: torch.Tensor,
) -> torch.Tensor:
    """Return Isaac Lab's observation of a state, ``(n, 81)`` with 28 joints and 4 key bodies.

    Args:
        joint_pos: In rad, ``(n, num_joints)``.
        joint_vel: In rad/s.
        position: Of the reference body, in m, of which the height is observed, ``(n, 3)``.
        quat: Its orientation, of which the images of x and z are observed.
        lin_vel: Its velocity in the world, in m/s.
        ang_vel: Its angular velocity in the world, in rad/s.
        key_positions: Of hands and feet, in m, ``(n, 4, 3)``, observed from the reference body
            along the world's axes.
    """
    keys = (key_positions - position.unsqueeze(1)).flatten(1)
    matrix = matrix_from_quat(quat)
    turned = (matrix[..., 0], matrix[..., 2])
    return torch.cat(
        (joint_pos, joint_vel, position[:, 2:], *turned, lin_vel, ang_vel, keys), dim=1
    )
