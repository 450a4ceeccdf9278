"""A script for Isaac Lab: an arm from a file, a cube and an IMU; prints where they come to rest."""

from __future__ import annotations

import argparse
import json

from isaaclab.app import AppLauncher

parser = argparse.ArgumentParser()
parser.add_argument("--file")
AppLauncher.add_app_launcher_args(parser)
flags = parser.parse_args()
app = AppLauncher(flags).app

import isaaclab.sim as sim_utils  # noqa: E402
import torch  # noqa: E402
from isaaclab.actuators import ImplicitActuatorCfg  # noqa: E402
from isaaclab.assets import ArticulationCfg, AssetBaseCfg, RigidObjectCfg  # noqa: E402
from isaaclab.scene import InteractiveScene, InteractiveSceneCfg  # noqa: E402
from isaaclab.sensors import ImuCfg  # noqa: E402
from isaaclab.utils import configclass  # noqa: E402

Drive = sim_utils.UrdfConverterCfg.JointDriveCfg
GAINS = Drive.PDGainsCfg(stiffness=0.0, damping=0.0)  # the actuators' are used
if flags.file.endswith(".urdf"):
    arm = sim_utils.UrdfFileCfg(
        asset_path=flags.file, fix_base=True, joint_drive=Drive(gains=GAINS)
    )
else:
    arm = sim_utils.MjcfFileCfg(asset_path=flags.file, fix_base=True, import_sites=False)


@configclass
class SceneCfg(InteractiveSceneCfg):
    ground = AssetBaseCfg(prim_path="/World/ground", spawn=sim_utils.GroundPlaneCfg())
    robot = ArticulationCfg(
        prim_path="{ENV_REGEX_NS}/Robot",
        spawn=arm,
        init_state=ArticulationCfg.InitialStateCfg(pos=(0.0, 0.0, 1.0)),
        actuators={
            "all": ImplicitActuatorCfg(joint_names_expr=[".*"], stiffness=20.0, damping=2.0)
        },
    )
    cube = RigidObjectCfg(
        prim_path="{ENV_REGEX_NS}/Cube",
        spawn=sim_utils.CuboidCfg(
            size=(0.2, 0.2, 0.2),
            rigid_props=sim_utils.RigidBodyPropertiesCfg(),
            mass_props=sim_utils.MassPropertiesCfg(mass=1.0),
            collision_props=sim_utils.CollisionPropertiesCfg(),
        ),
        init_state=RigidObjectCfg.InitialStateCfg(pos=(1.0, 0.0, 0.5)),
    )
    imu = ImuCfg(prim_path="{ENV_REGEX_NS}/Robot/upper")


sim = sim_utils.SimulationContext(sim_utils.SimulationCfg(dt=0.005, device="cpu"))
scene = InteractiveScene(SceneCfg(num_envs=2, env_spacing=3.0))
sim.reset()
robot = scene["robot"]
robot.set_joint_position_target(torch.full((2, 1), 0.5))
for _ in range(400):
    scene.write_data_to_sim()
    sim.step(render=False)
    scene.update(0.005)
found = {
    "angles": robot.data.joint_pos.flatten().tolist(),
    "heights": scene["cube"].data.root_pos_w[:, 2].tolist(),
    "up": scene["imu"].data.lin_acc_b.tolist(),
}
print("SEEN", json.dumps(found))
