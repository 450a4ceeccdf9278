"""A script for Isaac Lab: plays a manager-based task, and writes what its managers computed.

Observations have no noise. The ground is a plane, since terrains differ in random numbers.
"""

from __future__ import annotations

import argparse

from isaaclab.app import AppLauncher

parser = argparse.ArgumentParser()
parser.add_argument("--task")
parser.add_argument("--num_envs", type=int, default=1024)
parser.add_argument("--num_steps", type=int, default=4)
parser.add_argument("--out")
AppLauncher.add_app_launcher_args(parser)
flags = parser.parse_args()
app = AppLauncher(flags).app

import gymnasium  # noqa: E402
import isaaclab_tasks  # noqa: E402, F401
import torch  # noqa: E402
from isaaclab_tasks.utils import parse_env_cfg  # noqa: E402

cfg = parse_env_cfg(flags.task, device=flags.device, num_envs=flags.num_envs)
cfg.seed = 1
cfg.scene.env_spacing = 0.0
terrain = getattr(cfg.scene, "terrain", None)
if terrain is not None:
    terrain.terrain_type, terrain.terrain_generator = "plane", None
    if hasattr(cfg.curriculum, "terrain_levels"):
        cfg.curriculum.terrain_levels = None
for group in vars(cfg.observations).values():
    if hasattr(group, "enable_corruption"):
        group.enable_corruption = False
env = gymnasium.make(flags.task, cfg=cfg).unwrapped
env.reset()
env.step(torch.zeros(env.action_manager.action.shape))
env.reset()  # the first reset takes joints' limits of velocities as 0, until a step is made
robot = env.scene["robot"]
generator = torch.Generator().manual_seed(7)


def drawn(shape: torch.Size, size: float) -> torch.Tensor:
    """Return numbers between ``-size`` and ``size``."""
    return size * (2.0 * torch.rand(shape, generator=generator) - 1.0)


def commands() -> dict[str, dict[str, torch.Tensor]]:
    """Return the tensors of all command terms, which are not drawn again from now on."""
    found = {}
    for name in env.command_manager.active_terms:
        term = env.command_manager.get_term(name)
        values = vars(term).items()
        tensors = {key: value for key, value in values if isinstance(value, torch.Tensor)}
        found[name] = {key: value.clone() for key, value in tensors.items()}
        found[name]["command"] = term.command.clone()
        term.time_left[:] = 1e9
    return found


def observed(groups: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return each term's part of the observations."""
    found = {}
    for group, names in env.observation_manager.active_terms.items():
        shapes = env.observation_manager.group_obs_term_dim[group]
        parts = groups[group].split([shape[0] for shape in shapes], dim=1)
        found |= {f"{group}.{name}": part for name, part in zip(names, parts, strict=True)}
    return found


first = {"state": env.scene.get_state(is_relative=True), "commands": commands()}
limits = robot.data.soft_joint_pos_limits
position = robot.data.joint_pos + drawn(robot.data.joint_pos.shape, 0.05)
robot.write_joint_state_to_sim(
    position.clamp(limits[..., 0], limits[..., 1]), drawn(position.shape, 0.2)
)
if not robot.is_fixed_base:
    robot.write_root_velocity_to_sim(drawn(torch.Size([flags.num_envs, 6]), 0.2))
start = {"state": env.scene.get_state(is_relative=True), "commands": commands()}
steps = []
for _ in range(flags.num_steps):
    actions = drawn(env.action_manager.action.shape, 1.0)
    groups, _, terminated, truncated, _ = env.step(actions)
    rewards = env.reward_manager
    # private: Isaac Lab gives no term's value otherwise
    values = rewards._step_reward.clone().unbind(1)
    steps.append(
        {
            "actions": actions,
            "state": env.scene.get_state(is_relative=True),
            "commands": commands(),
            "observations": observed(groups),
            "rewards": dict(zip(rewards.active_terms, values, strict=True)),
            "ended": terminated | truncated,
        }
    )
things = {**env.scene.articulations, **env.scene.rigid_objects}
for thing in things.values():  # anywhere, as terminations look at
    if hasattr(thing, "joint_names"):
        shape = thing.data.joint_pos.shape
        thing.write_joint_state_to_sim(drawn(shape, 4.0), drawn(shape, 4.0))
    if not getattr(thing, "is_fixed_base", False):
        place = thing.data.root_pos_w + drawn(torch.Size([flags.num_envs, 3]), 1.0)
        turn = torch.randn(flags.num_envs, 4, generator=generator)
        turn /= turn.norm(dim=1, keepdim=True)
        thing.write_root_pose_to_sim(torch.cat((place, turn), dim=1))
env.termination_manager.compute()
names = env.termination_manager.active_terms
anywhere = {
    "state": env.scene.get_state(is_relative=True),
    "ends": {name: env.termination_manager.get_term(name).clone() for name in names},
}
acted = []
for name in env.action_manager.active_terms:
    term = env.action_manager.get_term(name)
    # private: nor an action term's joints
    joints = getattr(term, "_joint_names", [])
    acted += joints if len(joints) == term.action_dim else [name]
seen = {
    "first": first,
    "start": start,
    "steps": steps,
    "anywhere": anywhere,
    "joints": {name: thing.joint_names for name, thing in env.scene.articulations.items()},
    "acted": acted,
    "durations": (env.max_episode_length, env.step_dt, env.physics_dt),
    "mass": robot.root_physx_view.get_masses().sum(dim=1),
}
torch.save(seen, flags.out)
env.close()
