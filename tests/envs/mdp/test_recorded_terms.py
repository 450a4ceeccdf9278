"""Terms that are recorded as a GPU's graphs have the values that they have without."""

from __future__ import annotations

from pathlib import Path

from envlab.envs import ManagerEnv, SceneCfg, SceneEntityCfg, mdp
from envlab.envs.terms import at_reset, observation, reward, termination
from tests.envs.hopper import bodies, make_env
from tests.envs.mdp.test_model_sensors import model_with_sensors
from tests.envs.promises import assert_keeps_promises
from tests.envs.sliders import group, terms

FIELDS = ("sensordata", "qfrc_actuator", "xpos", "xquat")
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
