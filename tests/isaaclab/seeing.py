"""A script for Isaac Lab: cameras that look at a box; prints what they see as JSON.

In each environment a red box of 1 m, on the ground's class, lies ahead of a camera that is fixed
5 m from its face; another camera is on a body that moves, and looks down.
"""

from __future__ import annotations

import argparse
import json

from isaaclab.app import AppLauncher

parser = argparse.ArgumentParser()
parser.add_argument("--data_type", default="rgb")
parser.add_argument("--lens", default="pinhole")
AppLauncher.add_app_launcher_args(parser)
flags = parser.parse_args()
app = AppLauncher(flags).app

import isaaclab.sim as sim_utils  # noqa: E402
import torch  # noqa: E402
from isaaclab.assets import AssetBaseCfg, RigidObjectCfg  # noqa: E402
from isaaclab.scene import InteractiveScene, InteractiveSceneCfg  # noqa: E402
from isaaclab.sensors import CameraCfg, TiledCameraCfg  # noqa: E402
from isaaclab.utils import configclass  # noqa: E402

from envlab.errors import ConfigurationError  # noqa: E402

PINHOLE = sim_utils.PinholeCameraCfg(
    focal_length=20.0, horizontal_aperture=20.0, clipping_range=(0.1, 20.0)
)
if flags.lens != "pinhole":
    PINHOLE = sim_utils.FisheyeCameraCfg(projection_type=flags.lens)
BODY = {
    "rigid_props": sim_utils.RigidBodyPropertiesCfg(disable_gravity=True),
    "mass_props": sim_utils.MassPropertiesCfg(mass=1.0),
    "collision_props": sim_utils.CollisionPropertiesCfg(),
}


@configclass
class SceneCfg(InteractiveSceneCfg):
    light = AssetBaseCfg(
        prim_path="/World/light", spawn=sim_utils.DomeLightCfg(color=(0.0, 0.0, 1.0))
    )
    box = RigidObjectCfg(
        prim_path="{ENV_REGEX_NS}/Box",
        spawn=sim_utils.CuboidCfg(size=(1.0, 1.0, 1.0), semantic_tags=[("class", "box")], **BODY),
        init_state=RigidObjectCfg.InitialStateCfg(pos=(5.5, 0.0, 0.0)),
    )
    drone = RigidObjectCfg(
        prim_path="{ENV_REGEX_NS}/Drone",
        spawn=sim_utils.SphereCfg(radius=0.05, **BODY),
        init_state=RigidObjectCfg.InitialStateCfg(pos=(5.5, 0.0, 3.0)),
    )
    ahead = TiledCameraCfg(
        prim_path="{ENV_REGEX_NS}/ahead",
        data_types=[
            *(flags.data_type, "depth", "distance_to_camera", "semantic_segmentation", "normals"),
        ],
        spawn=PINHOLE,
        width=21,
        height=21,
        semantic_segmentation_mapping={"class:box": (1, 2, 3, 255)},
    )
    down = CameraCfg(
        prim_path="{ENV_REGEX_NS}/Drone/down",
        offset=CameraCfg.OffsetCfg(pos=(0.0, 0.0, -0.1), rot=(0.0, 1.0, 0.0, 0.0)),  # ROS
        data_types=["distance_to_image_plane", "semantic_segmentation"],
        colorize_semantic_segmentation=False,
        spawn=PINHOLE,
        width=5,
        height=5,
        update_latest_camera_pose=True,
    )


sim = sim_utils.SimulationContext(sim_utils.SimulationCfg(dt=0.005, device="cpu"))
cfg = SceneCfg(num_envs=2, env_spacing=40.0)
cfg.ahead.offset = TiledCameraCfg.OffsetCfg(convention="world")
scene = InteractiveScene(cfg)
sim.reset()
scene.update(0.005)
ahead, down, drone = scene["ahead"], scene["down"], scene["drone"]
seen = {name: picture.clone() for name, picture in ahead.data.output.items()}
middle, corner = (slice(None), 10, 10), (slice(None), 0, 0)
found = {
    "colour": seen["rgb"][middle].tolist(),
    "sky": seen["rgb"][corner].tolist(),
    "depth": seen["depth"][middle].flatten().tolist(),
    "beside": seen["depth"][:, 10, 10 + 2].flatten().tolist(),
    "beside_by_ray": seen["distance_to_camera"][:, 10, 10 + 2].flatten().tolist(),
    "nothing": seen["depth"][corner].isinf().flatten().tolist(),
    "classes": [seen["semantic_segmentation"][one].tolist() for one in (middle, corner)],
    "normal": seen["normals"][middle].tolist(),
    "focal_length": ahead.data.intrinsic_matrices[:, 0, 0].tolist(),
    "below": down.data.output["distance_to_image_plane"][:, 2, 2].flatten().tolist(),
}
numbers = down.data.output["semantic_segmentation"]
labels = down.data.info[0]["semantic_segmentation"]["idToLabels"]
found["labels_below"] = [labels[str(int(numbers[0, at, at, 0]))] for at in (2, 0)]
pose = drone.data.root_pose_w.clone()
pose[1, 2] += 2.0  # in environment 1 alone
drone.write_root_pose_to_sim(pose)
scene.update(0.005)
found["below_later"] = down.data.output["distance_to_image_plane"][:, 2, 2].flatten().tolist()
found["camera_height"] = down.data.pos_w[:, 2].tolist()
place = scene.env_origins + torch.tensor([1.0, 0.0, 0.0])
ahead.set_world_poses(place[1:], torch.tensor([[1.0, 0.0, 0.0, 0.0]]), [1], convention="world")
scene.update(0.005)
found["depth_after_a_move"] = ahead.data.output["depth"][middle].flatten().tolist()
try:
    ahead.set_intrinsic_matrices(ahead.data.intrinsic_matrices)
except ConfigurationError as error:
    found["refused"] = str(error)
print("SEEN", json.dumps(found))
