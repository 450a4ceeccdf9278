"""A script for Isaac Lab: makes a task, writes states, steps, and prints what it saw as JSON."""

from __future__ import annotations

import argparse
import json

from isaaclab.app import AppLauncher

parser = argparse.ArgumentParser()
parser.add_argument("--task")
parser.add_argument("--num_steps", type=int, default=3)
AppLauncher.add_app_launcher_args(parser)
flags = parser.parse_args()
app = AppLauncher(flags).app

import gymnasium  # noqa: E402
import isaaclab_tasks  # noqa: E402, F401
import torch  # noqa: E402
from isaaclab_tasks.utils import parse_env_cfg  # noqa: E402

cfg = parse_env_cfg(flags.task, device=flags.device, num_envs=3)
cfg.seed = 1
env = gymnasium.make(flags.task, cfg=cfg)
env.reset()
scene = env.unwrapped.scene
robot = scene["robot"] if "robot" in scene.articulations else env.unwrapped.cartpole
count = robot.num_joints
pos = 0.01 * torch.arange(3 * count).view(3, count).float() + robot.data.default_joint_pos
vel = 0.1 * torch.arange(3 * count).view(3, count).float()
robot.write_joint_state_to_sim(pos, vel)
seen = []
for _ in range(flags.num_steps):
    actions = torch.full(env.action_space.shape, 0.5)
    obs, reward, terminated, *_ = env.step(actions)
    seen.append({"obs": obs["policy"].tolist(), "reward": reward.tolist()})
root = robot.data.root_pos_w - scene.env_origins
print(
    "SEEN",
    json.dumps(
        {
            "start": [pos.tolist(), vel.tolist()],
            "steps": seen,
            "joints": robot.joint_names,
            "bodies": robot.body_names,
            "mass": robot.root_physx_view.get_masses()[0].sum().item(),
            "root": root.tolist(),
            "ended": bool(terminated.any()),
        }
    ),
)
env.close()
