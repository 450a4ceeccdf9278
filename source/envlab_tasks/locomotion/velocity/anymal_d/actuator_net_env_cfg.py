"""Envlab-Velocity-Flat-ActuatorNet-Anymal-D-v0: ANYmal D whose actuators are an LSTM network.

Everything else is that of Isaac-Velocity-Flat-Anymal-D-v0. Isaac Lab 2.3.2 trains ANYmal D with a
network of real drives, which is not copied here: this network was trained from a recording of that
task's DC motor, as docs/actuators.md shows. Its form and its limits are Isaac Lab's.
"""

from __future__ import annotations

from dataclasses import dataclass

from envlab.envs import SceneCfg, default
from envlab.envs.actuators import ActuatorNetLSTMCfg
from envlab_tasks.locomotion.velocity.anymal_d.base_env_cfg import MODEL
from envlab_tasks.locomotion.velocity.anymal_d.flat_env_cfg import AnymalDFlatEnvCfg

LEGS = ActuatorNetLSTMCfg(
    joint_names_expr=[".*HAA", ".*HFE", ".*KFE"],
    network_file="envlab_assets:actuators/anymal_d_lstm.pt",
    saturation_effort=120.0,
    velocity_limit=7.5,
    effort_limit=80.0,
)


@dataclass(kw_only=True)
class AnymalDFlatActuatorNetEnvCfg(AnymalDFlatEnvCfg):
    """ANYmal D on a plane, with a recurrent network."""

    scene: SceneCfg = default(SceneCfg(num_envs=4096, model=MODEL, actuators={"legs": LEGS}))
