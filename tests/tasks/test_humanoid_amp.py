"""AMP's humanoid: its observation by hand, the discriminator's input, and its clips."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest
import torch

from envlab.envs.scene import load_model
from envlab.errors import ConfigurationError
from envlab.motion import fit_clip, read_clip
from envlab_tasks.tracking.humanoid_amp.humanoid_amp_env import observation
from tests.tasks import making
from tests.tasks.making import about_x, put

make = partial(making.make, "Isaac-Humanoid-AMP-Walk-Direct-v0", num_envs=4)


@pytest.fixture(scope="module")
def clip():
    model = load_model("envlab_assets:robots/humanoid_28.xml")
    return fit_clip(read_clip("envlab_assets:motions/humanoid_28_walk.npz"), model)


def test_an_observation_by_hand():
    turn = torch.tensor([[math.sqrt(0.5), 0.0, 0.0, math.sqrt(0.5)]])  # x to y
    keys = torch.tensor([[[1.0, 2.0, 3.0], [0.0, 0.0, 0.0]]])
    joints = torch.tensor([[0.1, 0.2]]), torch.tensor([[3.0, 4.0]])
    velocities = torch.tensor([[0.7, 0.8, 0.9]]), torch.tensor([[-1.0, -2.0, -3.0]])
    row = observation(*joints, torch.tensor([[5.0, 6.0, 1.5]]), turn, *velocities, keys)
    expected = [0.1, 0.2, 3.0, 4.0, 1.5, *(0.0, 1.0, 0.0), *(0.0, 0.0, 1.0)]
    expected += [0.7, 0.8, 0.9, -1.0, -2.0, -3.0, *(-4.0, -4.0, 1.5), *(-5.0, -6.0, -1.5)]
    assert row[0].tolist() == pytest.approx(expected, abs=1e-6)


def test_a_robot_that_starts_in_the_clip_observes_the_clip_15_cm_higher(clip):
    env = make(reset_strategy="random-start")
    obs = env.obs_buf["policy"][0]
    torso, feet = clip.body_names.index("torso"), clip.body_names.index("left_foot")
    assert obs[:28].tolist() == pytest.approx(clip.joint_pos[0].tolist(), abs=1e-5)
    assert obs[28:56].tolist() == pytest.approx(clip.joint_vel[0].tolist(), abs=1e-4)
    assert float(obs[56]) == pytest.approx(clip.body_pos_w[0, torso, 2] + 0.15, abs=1e-5)
    moving = [*clip.body_lin_vel_w[0, torso], *clip.body_ang_vel_w[0, torso]]
    assert obs[63:69].tolist() == pytest.approx(moving, abs=1e-3)
    offset = clip.body_pos_w[0, feet] - clip.body_pos_w[0, torso]
    assert obs[78:].tolist() == pytest.approx(offset.tolist(), abs=1e-5)


def test_the_discriminator_sees_the_last_two_observations_and_the_clip_at_a_start():
    env = make()
    start = env.obs_buf["policy"].clone()
    action = torch.zeros(4, 28)
    first = env.step(action)[0]["policy"].clone()
    *_, info = env.step(action)
    second = env.obs_buf["policy"]
    assert torch.equal(info["amp_obs"], torch.cat((second, first), dim=1))
    assert not torch.equal(first, start)
    # In an episode's first step, the older observation is that of the start.
    env.reset(seed=0)
    assert torch.equal(env.obs_buf["policy"], start)
    *_, info = env.step(action)
    assert torch.equal(info["amp_obs"], torch.cat((first, start), dim=1))


def test_the_discriminator_sees_the_last_state_of_an_episode():
    env = make(episode_length_s=4 / 30.0)
    for _ in range(3):
        obs, _, terminated, truncated, info = env.step(torch.zeros(4, 28))
    assert (terminated | truncated).all()
    assert torch.equal(info["amp_obs"][:, :81], info["final_obs"]["policy"])
    assert not torch.equal(info["amp_obs"][:, :81], obs["policy"])


def test_reference_motions_are_pairs_of_frames_a_frame_apart(clip):
    env = make()
    times = torch.tensor([0.0, 1.0, 1.0 + 0.5 / 60.0])
    pairs = env.reference_history(times)
    assert pairs.shape == (3, 2, 81)
    assert pairs[1, 0, :28].tolist() == pytest.approx(clip.joint_pos[60].tolist(), abs=1e-5)
    assert pairs[1, 1, :28].tolist() == pytest.approx(clip.joint_pos[59].tolist(), abs=1e-5)
    between = 0.5 * (clip.joint_pos[60] + clip.joint_pos[61])
    assert pairs[2, 0, :28].tolist() == pytest.approx(between.tolist(), abs=1e-4)
    assert torch.equal(pairs[0, 0], pairs[0, 1])  # before the first frame there is none
    torch.manual_seed(1)
    drawn = env.collect_reference_motions(500)
    assert drawn.shape == (500, env.amp_observation_space.shape[0])
    torch.manual_seed(1)
    assert torch.equal(env.collect_reference_motions(500), drawn)
    heights, torso = drawn[:, 56], clip.body_names.index("torso")
    span = np.ptp(clip.body_pos_w[:, torso, 2])
    assert float(heights.max() - heights.min()) == pytest.approx(span, rel=0.05)


def test_a_fall_ends_an_episode_only_if_it_is_to():
    for ends in (True, False):
        env = make(early_termination=ends)
        qpos = env.default_qpos.repeat(4, 1)
        qpos[:, 2], qpos[:, 3:7] = 0.2, torch.tensor(about_x(0.5 * math.pi))
        put(env, qpos)
        assert bool(env.step(torch.zeros(4, 28))[2].all()) == ends


def test_a_clip_of_another_robot_is_refused():
    with pytest.raises(ConfigurationError, match="left_hip_pitch_joint"):
        make(motion_file="envlab_assets:motions/g1_squat.npz")
