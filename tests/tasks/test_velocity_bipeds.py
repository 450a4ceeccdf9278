"""H1 and G1 on flat and rough ground: Isaac Lab 2.3's numbers, Unitree's robots, and the scan."""

from __future__ import annotations

import math

import mujoco
import pytest
import torch

from envlab import registry
from envlab.distributed.context import DistributedContext
from envlab.envs import VectorEnv
from envlab.envs.entities import resolve_entity
from envlab.envs.scene import load_model

FLAT_G1, ROUGH_G1 = "Isaac-Velocity-Flat-G1-v0", "Isaac-Velocity-Rough-G1-v0"
ROUGH_H1 = "Isaac-Velocity-Rough-H1-v0"
FINGERS = ("zero", "one", "two", "three", "four", "five", "six")

# Isaac Lab 2.3.2.post1, isaaclab_tasks/manager_based/locomotion/velocity: velocity_env_cfg.py, then
# config/h1/rough_env_cfg.py and config/g1/{rough,flat}_env_cfg.py. Terms of weight 0 are kept.
WEIGHTS = {
    ROUGH_H1: {
        "termination_penalty": -200.0,
        "track_lin_vel_xy_exp": 1.0,
        "track_ang_vel_z_exp": 1.0,
        "ang_vel_xy_l2": -0.05,
        "dof_torques_l2": 0.0,
        "dof_acc_l2": -1.25e-7,
        "action_rate_l2": -0.005,
        "feet_air_time": 0.25,
        "flat_orientation_l2": -1.0,
        "dof_pos_limits": -1.0,
        "feet_slide": -0.25,
        "joint_deviation_hip": -0.2,
        "joint_deviation_arms": -0.2,
        "joint_deviation_torso": -0.1,
    },
    ROUGH_G1: {
        "termination_penalty": -200.0,
        "track_lin_vel_xy_exp": 1.0,
        "track_ang_vel_z_exp": 2.0,
        "lin_vel_z_l2": 0.0,
        "ang_vel_xy_l2": -0.05,
        "dof_torques_l2": -1.5e-7,
        "dof_acc_l2": -1.25e-7,
        "action_rate_l2": -0.005,
        "feet_air_time": 0.25,
        "flat_orientation_l2": -1.0,
        "dof_pos_limits": -1.0,
        "feet_slide": -0.1,
        "joint_deviation_hip": -0.1,
        "joint_deviation_arms": -0.1,
        "joint_deviation_fingers": -0.05,
        "joint_deviation_torso": -0.1,
    },
}
WEIGHTS[FLAT_G1] = WEIGHTS[ROUGH_G1] | {
    "track_ang_vel_z_exp": 1.0,
    "lin_vel_z_l2": -0.2,
    "dof_torques_l2": -2.0e-6,
    "dof_acc_l2": -1.0e-7,
    "feet_air_time": 0.75,
}
# Observations and actions; 37 joints as in G1_MINIMAL_CFG: 12 + 3 * 37, and 187 of the scan.
SIZES = {ROUGH_H1: (256, 19), FLAT_G1: (123, 37), ROUGH_G1: (310, 37)}
# lin_vel_x, lin_vel_y and heading of the command: to train, and to play.
AHEAD, STRAIGHT = (
    ((0.0, 1.0), (0.0, 0.0), (-math.pi, math.pi)),
    ((1.0, 1.0), (0.0, 0.0), (0.0, 0.0)),
)
SIDEWAYS = ((0.0, 1.0), (-0.5, 0.5), (-math.pi, math.pi))
COMMANDS = {ROUGH_H1: (AHEAD, STRAIGHT), FLAT_G1: (SIDEWAYS, SIDEWAYS), ROUGH_G1: (AHEAD, STRAIGHT)}
# config/{h1,g1}/agents/rsl_rl_ppo_cfg.py: iterations, layers, entropy; skrl_*_cfg.yaml: discount.
AGENTS = {
    ROUGH_H1: (3000, [512, 256, 128], 0.01, 0.995),
    FLAT_G1: (1500, [256, 128, 128], 0.008, 0.99),
    ROUGH_G1: (3000, [512, 256, 128], 0.008, 0.99),
}


def cfg_of(task_id: str):
    return registry.load_env_cfg(registry.get_task(task_id))


def play_cfg_of(task_id: str):
    return cfg_of(task_id.replace("-v0", "-Play-v0"))


def make(task_id: str, num_envs: int = 2) -> VectorEnv:
    context = DistributedContext(num_threads=1)
    task = registry.get_task(task_id)
    return task.make(cfg_of(task_id), context=context, num_envs=num_envs, seed=0)


def command_of(cfg) -> tuple:
    ranges = cfg.commands.base_velocity.ranges
    assert ranges.ang_vel_z == (-1.0, 1.0)
    return ranges.lin_vel_x, ranges.lin_vel_y, ranges.heading


@pytest.fixture(scope="module")
def rough_h1() -> VectorEnv:
    return make(ROUGH_H1, num_envs=20)  # one per column: all kinds of ground


# The reference tables -----------------------------------------------------------------------------


@pytest.mark.parametrize("task_id", WEIGHTS)
def test_rewards_have_isaac_labs_weights(task_id):
    terms = {name: term for name, term in vars(cfg_of(task_id).rewards).items() if term is not None}
    assert {name: term.weight for name, term in terms.items()} == WEIGHTS[task_id]
    assert terms["feet_air_time"].params["threshold"] == 0.4


def test_g1s_penalties_are_about_isaac_labs_joints():
    for task_id, torques in (
        (ROUGH_G1, "hip_pitch hip_roll hip_yaw knee ankle_pitch ankle_roll"),
        (FLAT_G1, "hip_pitch hip_roll hip_yaw knee"),
    ):
        cfg = cfg_of(task_id)
        model = load_model(cfg.scene.model)
        selected = {
            name: resolve_entity(term.params["asset_cfg"], model, torch.device("cpu")).joint_names
            for name, term in vars(cfg.rewards).items()
            if name.startswith(("dof", "joint"))
        }
        assert selected["dof_torques_l2"] == both(torques)
        assert selected["dof_acc_l2"] == both("hip_pitch hip_roll hip_yaw knee")
        assert selected["dof_pos_limits"] == both("ankle_pitch ankle_roll")
        assert selected["joint_deviation_hip"] == both("hip_roll hip_yaw")
        arm = "shoulder_pitch shoulder_roll shoulder_yaw elbow_pitch elbow_roll"
        assert selected["joint_deviation_arms"] == both(arm)
        assert selected["joint_deviation_fingers"] == both(" ".join(FINGERS))
        assert selected["joint_deviation_torso"] == ["torso_joint"]


def both(parts: str) -> list[str]:
    """Return the joints of the left side, then of the right."""
    return [f"{side}_{part}_joint" for side in ("left", "right") for part in parts.split()]


@pytest.mark.parametrize("task_id", WEIGHTS)
def test_commands_events_and_ends_are_isaac_labs(task_id):
    cfg = cfg_of(task_id)
    assert (cfg.sim.dt, cfg.decimation, cfg.episode_length_s) == (0.005, 4, 20.0)
    assert command_of(cfg) == COMMANDS[task_id][0]
    assert cfg.actions.joint_pos.scale == 0.5
    assert cfg.events.add_base_mass is cfg.events.base_com is cfg.events.push_robot is None
    assert cfg.events.reset_robot_joints.params["position_range"] == (1.0, 1.0)
    assert set(cfg.events.reset_base.params["velocity_range"].values()) == {(0.0, 0.0)}
    assert cfg.terminations.base_contact.params["sensor_cfg"].body_names == "torso_link"


@pytest.mark.parametrize("task_id", WEIGHTS)
def test_play_is_isaac_labs(task_id):
    cfg, rough = play_cfg_of(task_id), "Rough" in task_id
    assert (cfg.scene.num_envs, cfg.episode_length_s) == (50, 40.0 if rough else 20.0)
    assert command_of(cfg) == COMMANDS[task_id][1]
    assert cfg.observations.policy.enable_corruption is False
    assert cfg.events.push_robot is cfg.events.base_external_force_torque is None
    assert {name: t.weight for name, t in vars(cfg.rewards).items() if t} == WEIGHTS[task_id]
    if rough:
        generator = cfg.scene.terrain.terrain_generator
        assert (generator.num_rows, generator.num_cols, generator.curriculum) == (5, 5, False)
        assert cfg.scene.terrain.max_init_terrain_level is cfg.curriculum is None


@pytest.mark.parametrize("task_id", [ROUGH_H1, ROUGH_G1])
def test_rough_ground_is_isaac_labs_for_large_robots(task_id):
    generator = cfg_of(task_id).scene.terrain.terrain_generator
    assert (generator.num_rows, generator.num_cols, generator.curriculum) == (10, 20, True)
    assert generator.sub_terrains["boxes"].grid_height_range == (0.05, 0.2)
    noise = generator.sub_terrains["random_rough"]
    assert (noise.noise_range, noise.noise_step) == ((0.02, 0.10), 0.02)


@pytest.mark.parametrize("task_id", WEIGHTS)
def test_ppo_settings_are_isaac_labs(task_id):
    iterations, layers, entropy, discount = AGENTS[task_id]
    task = registry.get_task(task_id)
    values = registry.load_agent_values(task, "rsl_rl")
    assert (values["num_steps_per_env"], values["max_iterations"]) == (24, iterations)
    assert values["actor"]["hidden_dims"] == values["critic"]["hidden_dims"] == layers
    assert (values["algorithm"]["entropy_coef"], values["algorithm"]["gamma"]) == (entropy, 0.99)
    skrl = registry.load_agent_values(task, "skrl")
    assert skrl["trainer"]["timesteps"] == 24 * iterations
    assert (skrl["agent"]["entropy_loss_scale"], skrl["agent"]["discount_factor"]) == (
        entropy,
        discount,
    )
    assert skrl["models"]["policy"]["network"][0]["layers"] == layers


# The robot ----------------------------------------------------------------------------------------


def test_g1_has_unitrees_figures_and_isaac_labs_gains():
    model = load_model(cfg_of(FLAT_G1).scene.model)
    assert model.body("pelvis").subtreemass[0] == pytest.approx(32.239, abs=1e-3)
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, model.key("home").id)
    assert data.qpos[:7].tolist() == [0.0, 0.0, 0.74, 1.0, 0.0, 0.0, 0.0]
    mujoco.mj_forward(model, data)
    soles = [data.geom(f"{side}_foot_{end}_in").xpos[2] for side in ("left", "right")
             for end in ("heel", "toe")]  # fmt: skip
    assert soles == pytest.approx([0.033] * 4, abs=2e-3)  # its soles are level, and above ground
    # unitree.py: G1_CFG. Stiffness, damping, effort limit and armature of each kind of joint.
    expected = {
        "left_hip_yaw_joint": (150.0, 5.0, 300.0, 0.01),
        "right_knee_joint": (200.0, 5.0, 300.0, 0.01),
        "torso_joint": (200.0, 5.0, 300.0, 0.01),
        "left_ankle_roll_joint": (20.0, 2.0, 20.0, 0.01),
        "right_elbow_roll_joint": (40.0, 10.0, 300.0, 0.01),
        "left_six_joint": (40.0, 10.0, 300.0, 0.001),
    }
    for name, (stiffness, damping, effort, armature) in expected.items():
        actuator = model.actuator(name)
        assert (actuator.gainprm[0], -actuator.biasprm[2]) == (stiffness, damping)
        assert actuator.forcerange.tolist() == [-effort, effort]
        assert model.dof_armature[model.joint(name).dofadr[0]] == armature
    default = {
        **dict.fromkeys(both("hip_pitch"), -0.2),
        **dict.fromkeys(both("knee"), 0.42),
        **dict.fromkeys(both("ankle_pitch"), -0.23),
        **dict.fromkeys(both("shoulder_pitch"), 0.35),
        **dict.fromkeys(both("elbow_pitch"), 0.87),
    }
    for part, angle in (("shoulder_roll", 0.16), ("one", 1.0), ("two", 0.52)):
        default |= dict(zip(both(part), (angle, -angle), strict=True))
    names = [model.joint(joint).name for joint in range(1, model.njnt)]
    home = dict(zip(names, model.key("home").qpos[7:].tolist(), strict=True))
    assert {name: angle for name, angle in home.items() if angle} == default


def test_left_and_right_of_g1_are_alike():
    model = load_model(cfg_of(FLAT_G1).scene.model)
    left = [b for b in range(model.nbody) if model.body(b).name.startswith("left_")]
    assert len(left) == 18
    for body in left:
        other = model.body(model.body(body).name.replace("left", "right"))
        assert model.body(body).mass == other.mass
        assert model.body(body).pos.tolist() == pytest.approx([1, -1, 1] * other.pos)
        assert model.body(body).ipos.tolist() == pytest.approx([1, -1, 1] * other.ipos)
        moments = [inertia(model, i) for i in (body, other.id)]
        assert moments[0].flatten().tolist() == pytest.approx(
            (MIRROR @ moments[1] @ MIRROR).flatten().tolist(), abs=1e-9
        )


MIRROR = torch.diag(torch.tensor([1.0, -1.0, 1.0], dtype=torch.float64)).numpy()


def inertia(model: mujoco.MjModel, body: int):
    """Return a body's moments of inertia about its centre of mass, in the body's frame."""
    turn = torch.zeros(9, dtype=torch.float64).numpy()
    mujoco.mju_quat2Mat(turn, model.body_iquat[body])
    turn = turn.reshape(3, 3)
    return turn * model.body_inertia[body] @ turn.T


def test_g1_lands_on_its_feet_and_falls_without_a_policy():
    env = make(FLAT_G1)
    for _ in range(12):
        env.step(torch.zeros_like(env.actions))
    feet = env.sensor_manager.get_term("contact_forces")
    touching = [n for n, c in zip(feet.body_names, feet.in_contact[0], strict=True) if c]
    assert touching == ["left_ankle_roll_link", "right_ankle_roll_link"]
    ended = torch.zeros(2, dtype=torch.bool)
    for _ in range(120):
        _, reward, terminated, *_ = env.step(torch.zeros_like(env.actions))
        assert (reward[terminated] < -3.9).all()  # -200 per second, for 0.02 s
        ended |= terminated
    assert ended.all()


# Rough ground -------------------------------------------------------------------------------------


@pytest.mark.parametrize("task_id", SIZES)
def test_observations_and_actions_have_isaac_labs_sizes(task_id, rough_h1):
    env = rough_h1 if task_id == ROUGH_H1 else make(task_id)
    assert env.single_observation_space["policy"].shape == SIZES[task_id][:1]
    assert env.single_action_space.shape == SIZES[task_id][1:]


def test_bipeds_stand_on_every_kind_of_ground(rough_h1):
    env = rough_h1
    for _ in range(20):
        _, _, terminated, _, _ = env.step(torch.zeros(20, 19))
        assert not terminated.any()
    base = env.sim.data.qpos[:, :3]
    above = base[:, 2] - env.terrain.heights_at(base[:, 0], base[:, 1])
    assert above.min() > 0.8
    assert above.max() < 1.1


def test_scan_turns_with_the_torso_and_not_with_the_pelvis(rough_h1):
    env = rough_h1
    qpos = env.default_qpos.repeat(20, 1)
    qpos[:, :3] += env.env_origins
    qpos[:, 0] += 3.2  # over the edge of the tile's platform
    torso = int(env.sim.model.joint("torso").qposadr[0])
    everyone = torch.ones(20, dtype=torch.bool)

    def scan() -> torch.Tensor:
        env.sim.reset(everyone, qpos)
        return env._get_observations()["policy"][:, 69:]

    straight = scan()
    assert straight.abs().amax(dim=1).min() > 0.0
    qpos[:, torso] = 0.5  # rad
    turned = scan()
    half = torch.tensor(0.25)
    qpos[:, 3:7] = torch.stack((half.cos(), half * 0.0, half * 0.0, -half.sin()))  # yaw -0.5 rad
    back = scan()
    assert torch.allclose(back, straight, atol=1e-4)
    assert ((turned - straight).abs().amax(dim=1) > 0.01).sum() > 10
