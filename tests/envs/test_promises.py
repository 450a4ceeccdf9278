"""Tasks that use each added sensor, and terms of each kind, keep the promises of every task."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from envlab import registry
from envlab.envs import ManagerEnv, ManagerEnvCfg, SceneCfg, SceneEntityCfg, SimulationCfg, mdp
from envlab.envs.contact_match import ContactMatch
from envlab.envs.contact_sensor import ContactSensorCfg
from envlab.envs.frame_transformer import FrameCfg, FrameTransformerCfg
from envlab.envs.inertial_sensors import ImuCfg, JointWrenchCfg
from envlab.envs.managers import CurriculumTermCfg
from envlab.envs.mujoco_sensor import MujocoSensorCfg
from envlab.envs.ray_patterns import PinholeCameraPatternCfg
from envlab.envs.ray_sensor import RayCasterCameraCfg, RayCastSensorCfg, TerrainHeightSensorCfg
from envlab.envs.terms import at_reset, observation, reward, termination
from envlab.tools.terms import find_terms
from tests.envs import sliders
from tests.envs.hopper import MODEL, bodies, make_env
from tests.envs.mdp.test_sensors import model_with_sensors
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
            imu=ImuCfg(body_name="arm", update_period=0.06),
            wrench=JointWrenchCfg(body_names="arm", update_period=0.04),
            turning=MujocoSensorCfg(type="framelinvel", xbody="arm", reference="block"),
            frames=FrameTransformerCfg(
                body_name="block", target_frames=[FrameCfg(body_name="arm")]
            ),
            rays=RayCastSensorCfg(
                body_names="block|arm",
                pattern_cfg=lidar,
                ray_alignment="yaw",
                normals=True,
                update_period=0.06,
            ),
            scanner=mdp.RayCasterCfg(entity="block", update_period=0.04),
            ground=TerrainHeightSensorCfg(body_names="block|arm", ray_alignment="yaw"),
            eye=RayCasterCameraCfg(
                body_names="arm",
                pattern_cfg=PinholeCameraPatternCfg(width=4, height=3),
                data_types=["distance_to_camera", "normals"],
                update_period=0.04,
            ),
        ),
        observations=terms(
            policy=group(
                touch=observation(mdp.contact_data, sensor_cfg=named("touch")),
                corners=observation(mdp.contact_data, sensor_cfg=named("corners"), field="pos"),
                ang_vel=observation(mdp.imu_ang_vel),
                acc=observation(mdp.imu_lin_acc),
                gravity=observation(mdp.imu_projected_gravity),
                turned=observation(mdp.imu_orientation),
                wrench=observation(mdp.body_incoming_wrench, asset_cfg=named("wrench")),
                turning=observation(mdp.sensor, asset_cfg=named("turning")),
                pos=observation(mdp.frame_positions, sensor_cfg=named("frames")),
                quat=observation(mdp.frame_orientations, sensor_cfg=named("frames")),
                rays=observation(mdp.ray_distances, sensor_cfg=named("rays")),
                scan=observation(mdp.height_scan, sensor_cfg=named("scanner")),
                below=observation(mdp.height_scan, sensor_cfg=named("ground"), clip=(-1.0, 1.0)),
            ),
            image=group(image=observation(mdp.image, sensor_cfg=named("eye"))),
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


FIELDS = ("sensordata", "qfrc_actuator", "xpos", "xquat", "cvel", "xipos", "subtree_com")
BLOCK = SceneEntityCfg("block")


def hopper(folder: Path) -> ManagerEnv:
    touching = {"threshold": 0.5, "sensor_cfg": bodies("block")}
    never = {"velocity_limit": 1e3}
    return make_env(
        8,
        sim={"data_fields": FIELDS},
        scene=SceneCfg(num_envs=8, model=str(model_with_sensors(folder))),
        episode_length_s=0.08,
        observations=terms(
            policy=group(
                **{f.__name__: observation(f) for f in (mdp.joint_effort, mdp.body_pose_w)},
                left=observation(mdp.remaining_time_s),
                gravity=observation(mdp.body_projected_gravity_b),
                up=observation(mdp.projected_gravity_from_sensor, sensor_name="up"),
                up_axis=observation(mdp.builtin_sensor, sensor_name="up"),
                time=observation(mdp.current_time_s),
                sliding=observation(mdp.sliding_speeds, asset_cfg=BLOCK),
            )
        ),
        rewards=terms(
            ended=reward(mdp.is_terminated_term, 1.0),
            height=reward(mdp.base_height_l2, 1.0, target_height=0.5, asset_cfg=BLOCK),
            acceleration=reward(mdp.body_lin_acc_l2, 1.0),
            speed=reward(mdp.joint_vel_limits, 1.0, soft_ratio=0.1, velocity_limit=1.0),
            effort=reward(mdp.applied_torque_limits, 1.0),
            power=reward(mdp.electrical_power_cost, 1.0),
            posture=reward(mdp.posture, 1.0, std={".*": 0.5}),
            force=reward(mdp.contact_forces, 1.0, **touching),
            touches=reward(mdp.desired_contacts, 1.0, **touching),
        ),
        terminations=terms(
            time_out=termination(mdp.time_out, time_out=True),
            angle=termination(mdp.joint_pos_out_of_limit, soft_limit_factor=0.2),
            speed=termination(mdp.joint_vel_out_of_limit, **never),
            given=termination(mdp.joint_vel_out_of_manual_limit, max_velocity=1e3),
            effort=termination(mdp.joint_effort_out_of_limit),
            nan=termination(mdp.nan_detection),
        ),
        events=terms(
            scene=at_reset(mdp.reset_scene_to_default),
            root=at_reset(
                mdp.reset_root_state_with_random_orientation,
                pose_range={"z": (0.1, 0.5)},
                velocity_range={"x": (-1.0, 1.0)},
                asset_cfg=BLOCK,
            ),
        ),
    )


def test_terms_keep_the_promises_of_every_task(tmp_path: Path):
    assert_keeps_promises(hopper(tmp_path).cfg)


def switched(kind: Any, joint: str) -> Any:
    ends = {"open_command_expr": {joint: 0.4}, "close_command_expr": {joint: -0.2}}
    return kind(joint_names=joint, **ends)


@pytest.mark.parametrize("is_switch", [True, False])
def test_actions_and_commands_keep_the_promises_of_every_task(is_switch: bool):
    drive = mdp.JointVelocityActionCfg(joint_names="drive", scale=0.5)
    if is_switch:
        drive = switched(mdp.BinaryJointVelocityActionCfg, "drive")
    goal = mdp.UniformCommandCfg(
        resampling_time_range=(0.05, 0.2), ranges=[(-1.0, 1.0), (0.0, 1.0), (0.0, 1.0)]
    )
    cfg = sliders.make_cfg(
        8,
        actions=terms(
            servo=switched(mdp.AbsBinaryJointPositionActionCfg, "servo"),
            drive=drive,
            push=mdp.JointEffortActionCfg(joint_names="push"),
        ),
        commands=terms(goal=goal, none=mdp.NullCommandCfg()),
        rewards=terms(
            change=reward(mdp.action_acc_l2, 0.1),
            mean=reward(mdp.mean_action_acc, 0.1),
            still=reward(
                mdp.stand_still_joint_deviation_l1,
                1.0,
                command_name="goal",
                command_threshold=0.5,
            ),
        ),
        terminations=terms(
            time_out=termination(mdp.time_out, time_out=True),
            due=termination(mdp.command_resample, command_name="goal", num_resamples=2),
        ),
    )
    assert_keeps_promises(cfg)


def test_a_termination_that_changes_keeps_the_promises_of_every_task():
    """Its bound narrows after steps have been recorded, in the sixth."""
    stages = [{"step": 9, "params": {"bounds": (-0.6, 0.6)}}]
    params = {"termination_name": "out", "stages": stages}
    bounds = {"bounds": (-1.0, 1.0), "asset_cfg": sliders.joint("push")}
    cfg = sliders.make_cfg(
        8,
        terminations=terms(
            time_out=termination(mdp.time_out, time_out=True),
            out=termination(mdp.joint_pos_out_of_manual_limit, **bounds),
        ),
        curriculum=terms(narrow=CurriculumTermCfg(func=mdp.termination_curriculum, params=params)),
    )
    assert_keeps_promises(cfg, but="of one seed")


ELSEWHERE = {
    "bad_anchor_pos": "as bad_anchor_pos_z_only, which tasks have",
    "bad_motion_body_pos": "as bad_motion_body_pos_z_only, which tasks have",
    "ground_normal": "in upright, which Go1 on rough ground has",
    "modify_env_param": "recorded again at each change: tests/envs/managers/test_curriculum.py",
    "root_rotation_w": "a matrix, for terms of one's own",
    "segmentation_mask": "with a camera that is drawn between graphs: tests/envs/test_camera.py",
}
"""Words that no task of these tests has, with the reason."""


@pytest.mark.slow
def test_every_word_is_tried_with_a_gpus_graphs():
    """By a registered task, whose promises tests/tasks checks, or by a test of promises."""
    used: set[str] = set()
    for task in registry.list_tasks():
        used |= names_in(registry.load_env_cfg(task))
    modules = [path.read_text() for path in Path("tests/envs").rglob("test_*.py")]
    tested = " ".join(text for text in modules if "assert_keeps_promises" in text)
    used |= set(re.findall(r"mdp\.(\w+)", tested))
    words = {term.name.removeprefix("mdp.") for term in find_terms() if "mdp." in term.name}
    # Those of dr are one family, which tests/envs/mdp/test_model_field.py tries.
    left = {word for word in words - used if not word.startswith("dr.")}
    assert left == set(ELSEWHERE)


def names_in(value: Any) -> set[str]:
    """Return the names of the functions and classes that a configuration has."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        found = {type(value).__name__}
        return found.union(*(names_in(getattr(value, one.name)) for one in fields(value)))
    if isinstance(value, dict):
        return set().union(*map(names_in, value.values()))
    if isinstance(value, list | tuple):
        return set().union(*map(names_in, value))
    return {value.__name__} if hasattr(value, "__name__") else set()
