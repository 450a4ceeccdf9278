"""The YAM arm has mjlab's figures, and its tasks step, see and earn as mjlab's."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import torch

from envlab.envs import mdp
from envlab.errors import ConfigurationError
from tests.tasks.making import make, put

LIFT, SEGMENTED = "Mjlab-Lift-Cube-Yam", "Mjlab-Multi-Cube-Seg-Yam"
RECORDED = json.loads(Path(__file__).with_name("lift_yam.json").read_text())
"""Steps and an image of mjlab's own environments."""
JOINTS = {
    # Of mjlab's compiled robot: range in rad or m, armature, stiffness, damping, effort limit.
    "joint1": ([-2.61799, 3.05433], 0.032, 19.4475423, 6.190345, 28.0),
    "joint2": ([0.0, 3.66519], 0.032, 43.8069892, 13.9441978, 28.0),
    "joint3": ([0.0, 3.66519], 0.032, 36.7564597, 11.6999445, 28.0),
    "joint4": ([-1.5708, 1.5708], 0.0018, 4.7617288, 1.5157054, 10.0),
    "joint5": ([-1.5708, 1.5708], 0.0018, 1.4411202, 0.4587228, 10.0),
    "joint6": ([-2.0944, 2.0944], 0.0018, 0.4528964, 0.1441614, 10.0),
    "left_finger": ([-0.00205, 0.037524], 2.60305495, 109.8141139, 69.9098362, 38.028169),
}
BODIES = {
    # Mass in kg, and the inertia's principal values in 1e-7 kg m^2.
    "link_1": (0.12415, [1807.51, 1455.32, 589.179]),
    "link_2": (1.24434, [121902.0, 121318.0, 6833.04]),
    "link_3": (0.853698, [69973.2, 69611.2, 7882.44]),
    "link_4": (0.463511, [7915.32, 7447.33, 2821.16]),
    "link_5": (0.350962, [1978.02, 1775.0, 1474.02]),
    "link_6": (0.367476, [2659.58, 2426.86, 2274.09]),
    "link_left_finger": (0.118, [1590.84, 1549.09, 463.655]),
    "lf_rot": (0.0397935, [239.1, 207.0, 57.0]),
    "lf_down": (0.0207757, [158.0, 131.0, 39.0]),
    "camera_d405": (0.02592, [55.99, 36.63, 36.63]),
}


@dataclass(kw_only=True)
class NoGoalCfg:
    lift_height: mdp.NullCommandCfg = field(default_factory=mdp.NullCommandCfg)


@pytest.fixture(scope="module")
def env():
    return make(LIFT, "env.observations.policy.enable_corruption=false", num_envs=2)


def test_the_arm_has_mjlabs_figures(env):
    model = env.sim.model
    for name, (bounds, armature, stiffness, damping, effort) in JOINTS.items():
        joint, motor = model.joint(name), model.actuator(name)
        assert joint.range.tolist() == bounds, name
        assert model.dof_armature[joint.dofadr[0]] == pytest.approx(armature), name
        assert motor.gainprm[0] == pytest.approx(stiffness), name
        assert motor.biasprm[:3].tolist() == pytest.approx([0.0, -stiffness, -damping]), name
        assert motor.forcerange.tolist() == pytest.approx([-effort, effort]), name
    for name, (mass, inertia) in BODIES.items():
        body = model.body(name)
        assert body.mass[0] == pytest.approx(mass, rel=1e-5), name
        found = sorted(body.inertia.tolist(), reverse=True)
        assert found == pytest.approx([1e-7 * value for value in inertia], rel=2e-2), name


def test_only_gripper_fingers_cube_and_ground_touch(env):
    model = env.sim.model
    touching = {
        model.body(model.geom_bodyid[geom]).name
        for geom in range(model.ngeom)
        if model.geom_contype[geom]
    }
    fingers = {f"{side}_{part}" for side in ("lf", "rf") for part in ("rot", "down")}
    assert touching == {"world", "cube/cube", "link_6"} | fingers


def test_a_step_from_a_state_of_mjlabs_leads_where_it_does_and_earns_the_same(env):
    # Recorded by mjlab itself. Its rewards read positions of sites from before the last physics
    # step, 5 ms earlier.
    for step in RECORDED["steps"]:
        qpos, goal = torch.tensor(step["qpos"]), torch.tensor(step["goal"])
        qpos[:, 8:11] += env.env_origins
        env.reset()
        command = env.command_manager.get_term("lift_height")
        put(env, qpos, step["qvel"])
        env.step(torch.tensor(step["previous_action"]))
        command.command.copy_(goal + env.env_origins)
        put(env, qpos, step["qvel"])
        obs, *_ = env.step(torch.tensor(step["action"]))
        found = env.sim.data.qpos.clone()
        found[:, 8:11] -= env.env_origins
        assert found.flatten().tolist() == pytest.approx(
            torch.tensor(step["next_qpos"]).flatten().tolist(), abs=1e-5
        )
        for group in ("policy", "critic"):
            assert obs[group].flatten().tolist() == pytest.approx(
                torch.tensor(step["critic"]).flatten().tolist(), abs=1e-4
            )
        rewards = dict(
            zip(env.reward_manager.active_terms, env.reward_manager.step_values, strict=True)
        )
        for name, expected in step["rewards"].items():
            found = (rewards[name] / env.step_dt).tolist()
            assert found == pytest.approx(expected, abs=0.02), name


def test_a_new_place_puts_the_cube_elsewhere_and_leaves_the_arm():
    env = make(LIFT, num_envs=4)
    command = env.command_manager.get_term("lift_height")
    for _ in range(10):
        env.step(torch.full((4, 7), 0.3))
    assert ((command.time_left > 7.7) & (command.time_left < 11.9)).all()
    before, place = env.sim.data.qpos.clone(), command.command.clone()
    command.time_left[1] = 0.0
    env.sim.ctrl.copy_(before[:, :7])
    obs, *_ = env.step(torch.full((4, 7), 0.3))
    moved = (command.command != place).any(dim=1)
    assert moved.tolist() == [False, True, False, False]
    cube = env.sim.data.qpos[1, 8:11] - env.env_origins[1]
    assert 0.2 <= cube[0] <= 0.4
    assert abs(cube[1]) <= 0.2
    assert 0.02 <= cube[2] <= 0.05
    assert (env.sim.data.qpos[1, 8:11] - before[1, 8:11]).norm() > 1e-3
    assert (env.sim.data.qpos[1, :8] - before[1, :8]).abs().max() < 0.1
    assert env.sim.data.qvel[1, 8:].abs().max() == 0.0
    assert env.sim.data.qvel[1, :8].abs().max() > 0.0
    # The observation is that of the cube's new place.
    way = command.command - command.object_pos()
    assert obs["critic"][:, 19:22].flatten().tolist() == pytest.approx(way.flatten().tolist())


def test_a_cube_at_its_place_is_a_success_until_a_new_place():
    env = make(LIFT, num_envs=2)
    command = env.command_manager.get_term("lift_height")
    qpos = env.sim.data.qpos.clone()
    qpos[0, 8:11] = command.command[0] + torch.tensor([0.0, 0.03, 0.0])
    put(env, qpos)
    *_, info = env.step(torch.zeros(2, 7))
    assert info["success"].tolist() == [True, False]
    assert command.metrics["episode_success"].tolist() == [1.0, 0.0]
    assert command.metrics["position_error"][0] == pytest.approx(0.03, abs=5e-3)
    for _ in range(30):
        env.step(torch.zeros(2, 7))  # the cube falls
    assert command.metrics["at_goal"].tolist() == [0.0, 0.0]
    assert command.metrics["episode_success"].tolist() == [1.0, 0.0]
    command.time_left.zero_()
    env.step(torch.zeros(2, 7))
    assert command.metrics["episode_success"].tolist() == [0.0, 0.0]


def test_a_gripper_that_hits_the_ground_ends_the_episode_and_a_touched_cube_does_not():
    env = make(LIFT, num_envs=2)
    down = env.sim.data.qpos.clone()
    down[0, 1:4] = torch.tensor([1.9, 0.9, -0.9])
    put(env, down)
    ended = torch.zeros(2, dtype=torch.bool)
    reach = torch.zeros(2, 7)
    reach[0, 1] = 8.0  # forwards and down
    for _ in range(40):
        _, _, terminated, _, _ = env.step(reach)
        ended |= terminated
    assert ended.tolist() == [True, False]


def test_fingertips_slip_differently_and_the_cube_does_not():
    env = make(LIFT, num_envs=4)
    friction = env.sim.params.geom_friction
    tips = [
        geom
        for geom in range(env.sim.model.ngeom)
        if env.sim.model.geom(geom).name.endswith(("f_down6_collision", "f_down11_collision"))
    ]
    sliding, spinning, rolling = friction[:, tips].unbind(2)
    assert ((sliding >= 0.3) & (sliding <= 1.5)).all()
    assert ((spinning >= 1e-4) & (spinning <= 2e-2)).all()
    assert ((rolling >= 1e-5) & (rolling <= 5e-3)).all()
    assert sliding.unique().numel() == sliding.numel()  # each tip, each environment
    cube = env.sim.model.geom_bodyid.tolist().index(env.sim.model.body("cube/cube").id)
    assert (friction[:, cube] == torch.tensor([1.0, 5e-3, 1e-4])).all()


def test_a_term_of_another_command_says_so():
    with pytest.raises(ConfigurationError, match="is a NullCommandCfg, but must be a LiftingC"):
        make(LIFT, commands=NoGoalCfg())


def test_the_wrist_camera_sees_what_mjlabs_does():
    env = make(SEGMENTED, num_envs=2)
    recorded = RECORDED["image"]
    qpos = torch.tensor(recorded["qpos"])
    for cube in range(3):
        qpos[:, 8 + 7 * cube : 11 + 7 * cube] += env.env_origins
    put(env, qpos)
    env.command_manager.get_term("lift_height").selection.copy_(torch.tensor(recorded["selection"]))
    env.sensor_manager.update(env.step_dt)
    depth, mask = env._get_observations()["camera"].unbind(3)
    assert (depth - 1e-4 * torch.tensor(recorded["depth_of_10000"])).abs().max() < 1e-4
    rows = [["".join(".#"[int(one)] for one in row) for row in image] for image in mask]
    assert rows == recorded["mask"]


def test_the_mask_is_that_of_the_chosen_cube_whose_place_the_rewards_are_about():
    env = make(SEGMENTED, num_envs=2)
    command = env.command_manager.get_term("lift_height")
    many = make(SEGMENTED, num_envs=32).command_manager.get_term("lift_height")
    assert set(many.selection.tolist()) == {0, 1, 2}
    whole = torch.zeros(2, 32, 32)
    for selection in range(3):
        command.selection.fill_(selection)
        mask = env._get_observations()["camera"][..., 1]
        own = env.scene[f"cube_{selection}"].data.root_pos_w
        assert torch.equal(command.object_pos(), own)
        assert ((mask == 0.0) | (mask == 1.0)).all()
        whole += mask
    assert whole.max() == 1.0  # no pixel belongs to two cubes


def test_colours_of_the_cube_differ_between_environments_and_images_show_them():
    env = make("Mjlab-Lift-Cube-Yam-Rgb", num_envs=8)
    cube = env.scene["cube"].parts.geom_ids
    colours = env.sim.params.geom_rgba[:, cube, :3].flatten(1)
    assert len(colours.unique(dim=0)) == 8
    images = env.obs_buf["camera"]
    assert images.shape == (8, 32, 32, 3)
    assert images.min() >= 0.0
    assert images.max() <= 1.0
    assert len(images.flatten(1).unique(dim=0)) == 8


def test_who_sees_does_not_know_where_the_cube_is():
    env = make("Mjlab-Lift-Cube-Yam-Depth", "env.observations.policy.enable_corruption=false")
    qpos = env.sim.data.qpos.clone()
    policy, critic = (env._get_observations()[name].clone() for name in ("policy", "critic"))
    qpos[:, 8] += 0.05
    put(env, qpos)
    assert torch.equal(env._get_observations()["policy"], policy)
    assert not torch.equal(env._get_observations()["critic"], critic)
    # The way to the place in the grasp point's frame has the length that it has in the world.
    grasp = env.scene["robot"].find(site_names="grasp_site").site_ids
    way = env.command_manager.get_command("lift_height") - env.sim.data.site_xpos[:, grasp].squeeze(
        1
    )
    assert policy[:, -3:].norm(dim=1).tolist() == pytest.approx(way.norm(dim=1).tolist(), rel=1e-5)
