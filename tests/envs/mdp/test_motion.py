"""A robot follows clips: its references, and the starts of episodes."""

from __future__ import annotations

import functools
import math
from dataclasses import replace

import mujoco
import numpy as np
import pytest
import torch

from envlab.envs import ManagerEnv, SceneCfg, mdp
from envlab.envs.math import quat_mul
from envlab.envs.scene import build_model
from envlab.envs.terms import at_reset, termination
from envlab.errors import ConfigurationError
from envlab.motion import MotionClip, clip_of_states, write_clip
from envlab.sim import host
from envlab.sim.simulation import SimulationCfg
from tests.envs.refusals import assert_refused
from tests.envs.sliders import make_cfg, rank, terms

MODEL = "envlab_assets:robots/go2.xml"
BODIES = ["base", "FL_foot", "FR_foot", "RL_foot", "RR_foot"]
DT = 0.02


@functools.cache
def build() -> mujoco.MjModel:
    return build_model(SceneCfg(model=MODEL), SimulationCfg(dt=0.005))


def states(num_frames: int = 101) -> np.ndarray:
    """Return ``qpos`` of a Go2 that glides and turns at 0.5 m/s and rad/s and moves its legs."""
    time = np.arange(num_frames) * DT
    qpos = np.repeat(build().key("home").qpos[None], num_frames, axis=0)
    qpos[:, 0] = 0.5 * time
    qpos[:, 3], qpos[:, 6] = np.cos(0.25 * time), np.sin(0.25 * time)
    qpos[:, 7:] += 0.1 * np.sin(4.0 * time)[:, None]
    return qpos


@pytest.fixture(scope="module")
def clip() -> MotionClip:
    return clip_of_states("gliding", build(), states(), 1.0 / DT)


@pytest.fixture(scope="module")
def file(clip: MotionClip, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("clips") / "gliding.npz"
    write_clip(clip, path)
    return str(path)


def robots(num_envs: int, context=None, episode_s: float = 1.0, **fields) -> ManagerEnv:
    sim = {"dt": 0.005, "data_fields": ("xpos", "xquat", "cvel", "subtree_com")}
    actions = terms(joint_pos=mdp.JointPositionActionCfg(joint_names=[".*"], scale=0.25))
    cfg = make_cfg(num_envs, sim=sim, actions=actions, **fields)
    cfg.decimation, cfg.episode_length_s = 4, episode_s
    cfg.scene = SceneCfg(num_envs=num_envs, model=MODEL)
    return ManagerEnv(cfg, context=context or rank(0, 1), seed=0)


def make(file: str | list[str], num_envs: int = 4, episode_s: float = 1.0, **command) -> ManagerEnv:
    values = {
        **{"motion_file": file, "anchor_body_name": "base", "body_names": BODIES},
        **{"joint_position_range": (0.0, 0.0), "sampling_mode": "start"},
    }
    motion = mdp.MotionCommandCfg(**(values | command))
    return robots(num_envs, episode_s=episode_s, commands=terms(motion=motion))


def show(env: ManagerEnv, frame: int, x: float = 0.0, yaw: float = 0.0) -> mdp.MotionCommand:
    """Put the robots into a frame of the clip, moved by ``x`` and turned by ``yaw``."""
    qpos = torch.as_tensor(states()[frame], dtype=torch.float32).repeat(env.num_envs, 1)
    qvel = torch.zeros(env.num_envs, 18)
    motion = env.command_manager.get_term("motion")
    motion.frames.fill_(frame)
    qvel[:, :6] = torch.tensor([0.5, 0.0, 0.0, 0.0, 0.0, 0.5])
    qvel[:, 6:] = motion.joint_vel
    turned = torch.as_tensor([math.cos(0.5 * yaw), 0.0, 0.0, math.sin(0.5 * yaw)])
    qpos[:, 3:7] = quat_mul(turned, qpos[:, 3:7])
    qpos[:, 0] += x
    env.sim.reset(torch.ones(env.num_envs, dtype=torch.bool), qpos, qvel)
    return motion


TERMS = [
    f"motion_{what}_error_exp"
    for what in (
        *("global_anchor_position", "global_anchor_orientation", "relative_body_position"),
        *("relative_body_orientation", "global_body_linear_velocity"),
        "global_body_angular_velocity",
    )
]


def rewards(env: ManagerEnv) -> list[list[float]]:
    return [getattr(mdp, name)(env, "motion", std=0.3).tolist() for name in TERMS]


def test_playing_back_a_clip_earns_all_there_is(file):
    env = make(file)
    for frame in (1, 37, 99):
        show(env, frame)
        assert rewards(env) == [pytest.approx([1.0] * 4, abs=2e-5)] * len(TERMS)


def test_a_robot_elsewhere_loses_reward_by_its_distance(file):
    env = make(file)
    show(env, 50, x=0.1, yaw=0.2)
    position, *found, linear, _ = (values[0] for values in rewards(env))
    assert position == pytest.approx(math.exp(-(0.1**2) / 0.3**2), abs=1e-5)
    # Bodies are compared as seen from the anchor, which both have moved with.
    assert found == pytest.approx([math.exp(-(0.2**2) / 0.3**2), 1.0, 1.0], abs=1e-4)
    # The feet's velocities are turned with the base: by less than 0.2 rad of some 0.5 m/s.
    assert 0.7 < linear < 1.0


def test_the_reference_stays_on_its_height_and_upright(file):
    env = make(file)
    motion = show(env, 50)
    qpos = env.sim.data.qpos.clone()
    qpos[:, 2] += 0.3
    env.sim.reset(torch.ones(4, dtype=torch.bool), qpos, env.sim.data.qvel.clone())
    above = motion.robot_body_pos_w - motion.body_pos_relative_w
    assert above[..., 2].flatten().tolist() == pytest.approx([0.3] * 20, abs=1e-4)
    assert above[..., :2].abs().max() < 1e-4
    assert mdp.bad_anchor_pos_z_only(env, "motion", threshold=0.25).all()
    assert mdp.bad_motion_body_pos_z_only(env, "motion", 0.25, body_names=["FL_foot"]).all()
    assert not mdp.bad_anchor_pos_z_only(env, "motion", threshold=0.35).any()
    qpos[:, 0] += 0.4  # 0.5 m away
    env.sim.reset(torch.ones(4, dtype=torch.bool), qpos, env.sim.data.qvel.clone())
    assert mdp.bad_anchor_pos(env, "motion", threshold=0.49).all()
    assert not mdp.bad_anchor_pos(env, "motion", threshold=0.51).any()


def test_a_robot_on_its_side_leans_otherwise(file):
    env = make(file)
    show(env, 0)
    qpos = env.sim.data.qpos.clone()
    qpos[:, 3:7] = torch.tensor([math.sqrt(0.5), math.sqrt(0.5), 0.0, 0.0])
    env.sim.reset(torch.ones(4, dtype=torch.bool), qpos)
    # Gravity's vertical component in the body is -1 upright, and 0 on the side.
    assert mdp.bad_anchor_ori(env, "motion", threshold=0.99).all()
    assert not mdp.bad_anchor_ori(env, "motion", threshold=1.01).any()


def test_observations_of_the_anchor(file):
    env = make(file)
    show(env, 0, x=0.2, yaw=math.pi / 2)
    # The robot looks along y, 0.2 m before the reference in x: it sees it to its left.
    pos = mdp.motion_anchor_pos_b(env, "motion")[0]
    assert pos.tolist() == pytest.approx([0.0, 0.2, 0.0], abs=1e-5)
    ori = mdp.motion_anchor_ori_b(env, "motion")[0]  # a rotation by -90 degrees, two columns
    assert ori.tolist() == pytest.approx([0.0, 1.0, -1.0, 0.0, 0.0, 0.0], abs=1e-5)
    bodies = mdp.robot_body_pos_b(env, "motion")
    assert bodies.shape == (4, 15)
    assert bodies[0, :3].abs().max() < 1e-6
    assert mdp.robot_body_ori_b(env, "motion").shape == (4, 30)


def test_episodes_start_in_the_clip_and_follow_it(file, clip):
    env = make(file, sampling_mode="uniform")
    motion = env.command_manager.get_term("motion")
    frames = motion.frames - 1  # that of the state
    expected = torch.as_tensor(clip.joint_pos, dtype=torch.float32)[frames]
    low_high = torch.stack(motion.limits)
    assert torch.equal(env.sim.data.qpos[:, 7:], expected.clamp(*low_high))
    before = motion.frames.clone()
    env.step(torch.zeros(4, 12))
    over = before + 1 >= 101  # the clip's number of frames
    assert torch.equal(motion.frames[~over], before[~over] + 1)
    assert torch.equal(motion.command[:, :12], motion.joint_pos)


def test_after_a_clip_the_robot_is_put_into_another_frame(file):
    env = make(file, episode_s=60.0)
    motion = env.command_manager.get_term("motion")
    motion.frames.fill_(100)
    obs = env.step(torch.zeros(4, 12))
    assert (motion.frames == 1).all()
    assert env.sim.data.qpos[:, 0].abs().max() < 1e-6  # where the clip begins
    assert not obs[2].any()


def test_ends_of_clips_and_of_episodes_in_one_step_on_a_gpus_branches(file, monkeypatch):
    found = []
    for kinds in ({"cpu"}, set()):
        monkeypatch.setattr(host, "HOST", kinds)
        motion = mdp.MotionCommandCfg(
            motion_file=file,
            anchor_body_name="base",
            body_names=BODIES,
            sampling_mode="uniform",
            pose_range={"yaw": (-1.0, 1.0)},
        )
        limit = termination(mdp.time_out, time_out=True)
        env = robots(
            4, episode_s=60.0, commands=terms(motion=motion), terminations=terms(limit=limit)
        )
        motion = env.command_manager.get_term("motion")
        motion.move(torch.tensor([100, 40, 100, 40]))
        env.episode_length_buf.copy_(torch.tensor([9, 9, 2999, 2999]))
        _, _, _, truncated, _ = env.step(torch.zeros(4, 12))
        assert truncated.tolist() == [False, False, True, True]
        assert env.episode_length_buf.tolist() == [10, 10, 0, 0]
        states = (env.sim.data.qpos, env.sim.data.qvel, motion.frames, motion.command)
        found.append([values.clone() for values in states])
        assert motion.frames[1] == 41
    for on_cpu, on_gpu in zip(*found, strict=True):
        assert torch.equal(on_cpu, on_gpu)


def test_offsets_are_drawn_and_limits_kept(file):
    ranges = {"z": (0.1, 0.1), "yaw": (0.5, 0.5)}
    env = make(
        file, pose_range=ranges, velocity_range={"x": (1.0, 1.0)}, joint_position_range=(5.0, 5.0)
    )
    motion = env.command_manager.get_term("motion")
    placed = [states()[0, 2] + 0.1, math.cos(0.25)]
    assert env.sim.data.qpos[0, 2:4].tolist() == pytest.approx(placed, abs=1e-6)
    assert env.sim.data.qvel[0, 0].item() == pytest.approx(0.5 + 1.0, abs=1e-2)
    assert torch.allclose(env.sim.data.qpos[0, 7:], motion.limits[1])


def test_failures_draw_their_part_of_the_clip_more_often(file):
    env = make(file, num_envs=2000, sampling_mode="adaptive", adaptive_alpha=0.5)
    motion = env.command_manager.get_term("motion")
    assert motion.bins.num == 3  # 101 frames of 20 ms
    env.termination_manager.terminated = torch.ones(2000, dtype=torch.bool)
    motion.frames.fill_(100)
    motion.count_failures(torch.ones(2000, dtype=torch.bool))
    motion.average_failures()
    # 2,000 failures, of which half count, against 0.1 spread over three bins.
    assert motion.bin_failed_count.tolist() == pytest.approx([0.0, 0.0, 1000.0])
    shares = motion.bins.shares(motion.bin_failed_count, "adaptive")
    small = 0.1 / 3
    assert shares.tolist() == pytest.approx([small / 1000.1, small / 1000.1, 1.0], rel=1e-4)
    env.reset()
    assert (motion.frames > 66).float().mean() > 0.99


def test_the_kernel_reaches_back_from_a_failure(file):
    env = make(file, sampling_mode="adaptive", adaptive_kernel_size=2, adaptive_lambda=0.5)
    bins = env.command_manager.get_term("motion").bins
    shares = bins.shares(torch.tensor([0.0, 0.0, 3.0]), "adaptive")
    # A bin has 2/3 of its own failures and 1/3 of the next bin's; the last has both from itself.
    raw = np.array([0.0, 1.0, 3.0]) + 0.1 / 3
    assert shares.tolist() == pytest.approx((raw / raw.sum()).tolist(), rel=1e-6)


def test_clips_are_drawn_by_length_and_weight(file, tmp_path):
    write_clip(clip_of_states("half", build(), states(51), 1.0 / DT), tmp_path / "half.npz")
    files = [file, str(tmp_path / "half.npz")]
    env = make(files, num_envs=6000, sampling_mode="uniform", motion_weights=[1.0, 4.0])
    motion = env.command_manager.get_term("motion")
    in_second = (motion.frames >= 101).float().mean().item()
    assert in_second == pytest.approx(4 * 51 / (4 * 51 + 101), abs=0.02)
    assert motion.frames.max() < 152
    with pytest.raises(ConfigurationError, match="must have 2 values"):
        make(files, motion_weights=[1.0])


def test_a_clip_of_another_rate_is_resampled(clip, tmp_path, caplog):
    write_clip(replace(clip, fps=25.0), tmp_path / "slow.npz")
    env = make(str(tmp_path / "slow.npz"))
    assert env.command_manager.get_term("motion").clips[0].num_frames == 201
    assert "resampled to 50" in caplog.text


def test_settings_that_make_no_command(file):
    table = {
        "has no motion_file": {"motion_file": ""},
        "There is no motion": {"motion_file": file + "x"},
        "asks for the body 'torso'": {"anchor_body_name": "torso"},
        "asks for the body 'FL_hand'": {"body_names": ["base", "FL_hand"]},
        "must be one of body_names": {"body_names": ["FL_foot"]},
        "followed to its end": {"resampling_time_range": (0.5, 1.0)},
        r"must be in \(0, 1\]": {"adaptive_alpha": 0.0},
        "adaptive_kernel_size": {"adaptive_kernel_size": 0},
        "adaptive_uniform_ratio": {"adaptive_uniform_ratio": 0.0},
        "pose_range has the key 'w'": {"pose_range": {"w": (0.0, 1.0)}},
    }
    env = make(file)
    assert_refused(
        {words: lambda one=one: make(**({"file": file} | one)) for words, one in table.items()}
        | {
            "does not compare": (
                lambda: mdp.bad_motion_body_pos(env, "motion", 0.1, body_names=["FL_calf"])
            ),
            r"a share of 1\.5, but it must be from 0 to 1": lambda: gliding(file, 1.5, 2),
        }
    )
    assert gliding("missing.npz", 0.0, 2).num_envs == 2  # the clip is not read


def test_failures_of_all_processes_count(file, monkeypatch):
    env = make(file, sampling_mode="adaptive", adaptive_alpha=0.5)
    motion = env.command_manager.get_term("motion")
    # Another process has as many failures in the first bin as this one in the last.
    others = torch.tensor([4.0, 0.0, 0.0])
    monkeypatch.setattr(type(env.context), "sum", lambda _, values: values + others)
    env.termination_manager.terminated = torch.ones(4, dtype=torch.bool)
    motion.frames.fill_(100)
    motion.count_failures(torch.ones(4, dtype=torch.bool))
    motion.average_failures()
    assert motion.bin_failed_count.tolist() == [2.0, 0.0, 2.0]


def test_a_reset_turns_the_angular_velocity_into_the_robots_frame(file):
    env = make(file, pose_range={"roll": (1.0, 1.0)}, velocity_range={"yaw": (2.0, 2.0)})
    # The clip turns at 0.5 rad/s about the vertical, which a robot rolled by 1 rad has in y and z.
    turning = env.sim.data.qvel[0, 3:6]
    expected = [0.0, 2.5 * math.sin(1.0), 2.5 * math.cos(1.0)]
    assert turning.tolist() == pytest.approx(expected, abs=1e-2)


def test_the_reference_is_a_ghost_without_shapes_that_only_collide(file):
    env = make(file)
    show(env, 30)
    model = env.sim.model
    scene = mujoco.MjvScene(model, maxgeom=500)
    env.command_manager.get_term("motion").add_markers(scene)
    assert scene.ngeom == int(((model.geom_bodyid > 0) & (model.geom_group < 3)).sum()) > 0
    colours = {tuple(scene.geoms[i].rgba.round(2).tolist()) for i in range(scene.ngeom)}
    assert len(colours) == 1


def gliding(file: str, share: float, num_envs: int = 256, context=None) -> ManagerEnv:
    """Return robots without a motion command, of which a share begins in the clip."""
    start = at_reset(mdp.reset_to_motion_frame, motion_file=file, share=share)
    env = robots(num_envs, context, events=terms(start=start))
    env.reset()
    return env


def test_a_share_of_episodes_begins_in_all_frames_of_a_clip_in_any_direction(file: str):
    env = gliding(file, 0.5)
    qpos, qvel = env.sim.data.qpos, env.sim.data.qvel
    moves = qvel[:, :2].norm(dim=1) > 0.1
    assert 0.4 < moves.float().mean() < 0.6
    assert torch.equal(qpos[~moves], env.default_qpos[:1].expand(int((~moves).sum()), -1))
    own = torch.as_tensor(states(), dtype=torch.float32)
    error = (qpos[moves, None, 7:] - own[:, 7:]).abs().amax(dim=2)
    assert error.min(dim=1).values.max() < 1e-5
    frames = error.argmin(dim=1)
    assert len(frames.unique()) > 50
    heading = 2.0 * torch.atan2(qpos[moves, 6], qpos[moves, 3])
    turned = heading - 0.5 * DT * frames  # by as much as the frame's 0.5 m/s, which were along x
    ahead = 0.5 * torch.stack((turned.cos(), turned.sin()), dim=1)
    assert torch.allclose(qvel[moves, :2], ahead, atol=0.01)
    assert turned.cos().std() > 0.5
    assert torch.allclose(qvel[moves, 5], torch.tensor(0.5), atol=0.05)
    assert (qpos[:, :2] == 0.0).all()


def test_starts_in_a_clip_are_an_environments_own(file: str):
    whole = gliding(file, 0.5, 8).sim.data.qpos
    parts = [gliding(file, 0.5, 4, rank(number, 2)).sim.data.qpos for number in range(2)]
    assert torch.equal(whole, torch.cat(parts))
