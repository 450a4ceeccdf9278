"""A task that uses each sensor which a configuration adds keeps the promises of every task."""

from __future__ import annotations

from envlab.envs import ManagerEnvCfg, SceneCfg, SceneEntityCfg, SimulationCfg, mdp
from envlab.envs.contact_match import ContactMatch
from envlab.envs.contact_sensor import ContactSensorCfg
from envlab.envs.frame_transformer import FrameCfg, FrameTransformerCfg
from envlab.envs.inertial_sensors import ImuCfg, JointWrenchCfg
from envlab.envs.mujoco_sensor import MujocoSensorCfg
from envlab.envs.ray_sensor import RayCastSensorCfg
from envlab.envs.terms import observation, reward, termination
from tests.envs.hopper import MODEL
from tests.envs.promises import assert_keeps_promises
from tests.envs.sliders import group, terms


def make_cfg() -> ManagerEnvCfg:
    block = ContactMatch(pattern="block")
    lidar = mdp.LidarPatternCfg(channels=2, horizontal_res=90.0)
    named = SceneEntityCfg
    return ManagerEnvCfg(
        episode_length_s=0.2,
        sim=SimulationCfg(dt=0.01),
        decimation=2,
        scene=SceneCfg(num_envs=8, model=MODEL),
        actions=terms(arm=mdp.JointPositionActionCfg(joint_names="arm")),
        sensors=terms(
            touch=ContactSensorCfg(primary=block, secondary=ContactMatch(pattern="world")),
            corners=ContactSensorCfg(
                primary=block, fields=("pos", "dist"), reduce="maxforce", num_slots=4
            ),
            imu=ImuCfg(body_name="arm"),
            wrench=JointWrenchCfg(body_names="arm"),
            turning=MujocoSensorCfg(type="framelinvel", xbody="arm", reference="block"),
            frames=FrameTransformerCfg(
                body_name="block", target_frames=[FrameCfg(body_name="arm")]
            ),
            rays=RayCastSensorCfg(
                body_names="block|arm", pattern_cfg=lidar, ray_alignment="yaw", normals=True
            ),
        ),
        observations=terms(
            policy=group(
                touch=observation(mdp.contact_data, sensor_cfg=named("touch")),
                corners=observation(mdp.contact_data, sensor_cfg=named("corners"), field="pos"),
                ang_vel=observation(mdp.imu_ang_vel),
                acc=observation(mdp.imu_lin_acc),
                gravity=observation(mdp.imu_projected_gravity),
                wrench=observation(mdp.body_incoming_wrench, asset_cfg=named("wrench")),
                turning=observation(mdp.sensor, asset_cfg=named("turning")),
                pos=observation(mdp.frame_positions, sensor_cfg=named("frames")),
                quat=observation(mdp.frame_orientations, sensor_cfg=named("frames")),
                rays=observation(mdp.ray_distances, sensor_cfg=named("rays")),
            )
        ),
        rewards=terms(
            touch=reward(mdp.undesired_contacts, 1.0, sensor_cfg=named("touch"), threshold=1.0)
        ),
        terminations=terms(
            time_out=termination(mdp.time_out, time_out=True),
            crash=termination(mdp.illegal_contact, sensor_cfg=named("touch"), threshold=200.0),
        ),
    )


def test_each_sensor_keeps_the_promises_of_every_task():
    assert_keeps_promises(make_cfg())
