"""Envlab-Velocity-Flat-ActuatorNet-Unitree-Go2-v0: Go2 whose actuators are a network.

Everything else is that of Isaac-Velocity-Flat-Unitree-Go2-v0. The network was trained from a
recording of that task's DC motor, as docs/actuators.md shows, so that both can be compared; its
form and its limits are those of Isaac Lab 2.3.2's Go1.
"""

from __future__ import annotations

from dataclasses import dataclass

from envlab.envs import SceneCfg, default
from envlab.envs.actuators import ActuatorNetMLPCfg
from envlab_tasks.locomotion.velocity.go2.base_env_cfg import MODEL
from envlab_tasks.locomotion.velocity.go2.flat_env_cfg import Go2FlatEnvCfg

LEGS = ActuatorNetMLPCfg(
    joint_names_expr=[".*_joint"],
    network_file="envlab_assets:actuators/go2_mlp.pt",
    saturation_effort=23.5,
    velocity_limit=30.0,
    effort_limit=23.5,
)


@dataclass(kw_only=True)
class Go2FlatActuatorNetEnvCfg(Go2FlatEnvCfg):
    """Go2 on a plane, with a network of errors and velocities."""

    scene: SceneCfg = default(SceneCfg(num_envs=4096, model=MODEL, actuators={"legs": LEGS}))
