"""``envlab motion``: clips in numbers, converted, recorded from a policy, and followed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from envlab.cli import main
from envlab.envs import ManagerEnv
from envlab.motion import fit_clip, read_clip, write_clip
from envlab.registry import get_task, load_env_cfg
from envlab.tools import motion as motion_tool
from envlab.tools.deploy import Player
from envlab.tools.motion import follow
from envlab.training import viewing
from tests.launcher import ROOT

TASK = "Mjlab-Tracking-Flat-Unitree-G1"
SQUAT = "envlab_assets:motions/g1_squat.npz"
ROBOT = "envlab_assets:robots/g1_29.xml"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of one iteration."""
    folder = tmp_path_factory.mktemp("run")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        words = [f"--task={TASK}", "--headless", "--device=cpu", "--num_envs=4"]
        assert main(["train", "rsl_rl", *words, "--max_iterations=1"]) == 0
    return folder


def test_info_describes_a_clip_and_refuses_another_robot(capsys):
    assert main(["motion", "info", SQUAT, "--robot", ROBOT]) == 0
    output = capsys.readouterr().out
    assert "201 frames at 50 per second: 4.00 s" in output
    assert "29 joints: left_hip_pitch_joint" in output
    assert "30 of its bodies are in it" in output
    assert main(["motion", "info", SQUAT, "--robot", "envlab_assets:robots/go2.xml"]) == 2
    assert "lacks joints of the robot" in capsys.readouterr().err


def test_shipped_clips_step_on_the_ground_and_do_not_slide():
    for name in ["squat", "wave", "turn", "walk"]:
        clip = read_clip(f"envlab_assets:motions/g1_{name}.npz")
        model = build(TASK).sim.model
        of = [clip.body_names.index(f"{side}_ankle_roll_link") for side in ("left", "right")]
        height = clip.body_pos_w[:, of, 2]
        speed = np.linalg.norm(clip.body_lin_vel_w[:, of, :2], axis=2)
        standing = height < height.min() + 0.0005
        assert np.abs(height[standing] - 0.036).max() < 0.005
        assert standing.any(axis=1).all()
        assert standing.all(axis=0).tolist() == [name in ("squat", "wave")] * 2
        assert np.quantile(speed[standing], 0.99) < 0.05
        low, high = model.jnt_range[1:].T
        assert ((clip.joint_pos >= low) & (clip.joint_pos <= high)).all()


def test_convert_makes_body_states_of_a_csv(tmp_path, capsys):
    clip = read_clip(SQUAT)
    root = np.hstack([clip.body_pos_w[:, 0], clip.body_quat_w[:, 0][:, [1, 2, 3, 0]]])
    np.savetxt(tmp_path / "squat.csv", np.hstack([root, clip.joint_pos])[::2], delimiter=",")
    words = [str(tmp_path / "squat.csv"), "--fps", "25", "--output", str(tmp_path / "again.npz")]
    assert main(["motion", "convert", *words]) == 0
    again = read_clip(tmp_path / "again.npz")
    assert again.num_frames == 201
    assert again.body_names == clip.body_names
    assert np.abs(again.body_pos_w - clip.body_pos_w).max() < 1e-3
    assert np.abs(again.body_lin_vel_w - clip.body_lin_vel_w).max() < 0.05


PLAY = ["rsl_rl", f"--task={TASK}", "--checkpoint=latest", "--device=cpu"]


def test_a_policys_play_becomes_a_clip(run, monkeypatch, tmp_path):
    monkeypatch.chdir(run)
    output = tmp_path / "play.npz"
    assert main(["motion", "record", *PLAY, "--seconds=0.2", f"--output={output}"]) == 0
    clip = read_clip(output)
    assert clip.num_frames == 11
    assert fit_clip(clip, build(TASK).sim.model).joint_names == read_clip(SQUAT).joint_names


def test_evaluate_measures_a_policy(run, monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(run)
    words = [*PLAY, "--num_envs=4", "--output", str(tmp_path / "it.json")]
    assert main(["motion", "evaluate", *words]) == 0
    values = json.loads((tmp_path / "it.json").read_text())
    assert values["num_trials"] == 4
    assert values["success_rate"] == 0.0  # no robot stands after one iteration
    assert 0.0 < values["r_mpkpe"] < values["mpkpe"] < 1.0
    assert "success_rate: 0.0000" in capsys.readouterr().out


def build(task_id: str) -> ManagerEnv:
    task = get_task(task_id)
    cfg = load_env_cfg(task)
    cfg.commands.motion.sampling_mode = "start"
    cfg.events.push_robot = None
    cfg.scene.num_envs = 2
    return task.make(cfg, seed=0)


def test_playing_a_clip_back_has_no_errors(monkeypatch):
    env = build(f"{TASK}-Play")
    motion = env.command_manager.get_term("motion")

    class Puppeteer:
        """Puts the robots where the motion is, in place of physics."""

        def act(self, obs: object) -> torch.Tensor:
            return torch.zeros(2, 29)

    def move() -> None:
        frames = motion.frames.clone()
        motion.show(int(frames[0]))
        motion.move(frames)

    monkeypatch.setattr(env.sim, "step", move)
    opened = type("Opened", (), {"env": env, "player": Puppeteer()})()
    result = follow(opened)
    assert result.pop("num_trials") == 2
    assert result.pop("success_rate") == 1.0
    assert len(result) == 5
    assert max(result.values()) < 1e-3


def test_view_shows_frame_after_frame(monkeypatch):
    seen = []

    class Visitor:
        """Watches a clip for two rounds."""

        def __init__(self, env: ManagerEnv) -> None:
            self._env = env

        @property
        def is_open(self) -> bool:
            return len(seen) < 402

        def after_step(self) -> None:
            seen.append(self._env.sim.data.qpos[0, 7:].clone())

        def wants_reset(self) -> bool:
            return False

        def close(self) -> None:
            """Nothing is open."""

    monkeypatch.setattr(viewing, "named_plugins", lambda group: {"web": "of_a_guest:Viewer"})
    monkeypatch.setattr(motion_tool, "start_viewing", lambda flags, env, **_: Visitor(env))
    monkeypatch.setattr(motion_tool, "check_viewing", lambda *_: None)
    assert main(["motion", "view", SQUAT]) == 0
    expected = torch.as_tensor(read_clip(SQUAT).joint_pos, dtype=torch.float32)
    assert torch.allclose(torch.stack(seen), expected.repeat(2, 1), atol=1e-6)


@pytest.fixture(scope="module")
def exported(run: Path) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(run)
        assert main(["export", *PLAY]) == 0
    return next(run.glob("logs/rsl_rl/g1_tracking/*/exported"))


def test_the_bare_player_has_the_observations_of_the_environment(exported, tmp_path):
    # The squat begins after 20 frames; before it, even a constant observation would pass.
    squat = read_clip(SQUAT)
    arrays = {name: one for name, one in vars(squat).items() if isinstance(one, np.ndarray)}
    moving = replace(squat, **{name: values[40:] for name, values in arrays.items()})
    # Above the ground: of soles that just touch it, rounding would decide which have a contact.
    moving.body_pos_w[..., 2] += 0.005
    write_clip(moving, tmp_path / "moving.npz")
    task = get_task(f"{TASK}-Play")
    cfg = load_env_cfg(task)
    cfg.commands.motion.motion_file = str(tmp_path / "moving.npz")
    cfg.commands.motion.joint_position_range = (0.0, 0.0)
    cfg.events.base_com = cfg.events.encoder_bias = cfg.events.foot_friction = None
    cfg.scene.num_envs = 1
    env = task.make(cfg, seed=0)
    player = Player(exported, motion=tmp_path / "moving.npz")
    rng = np.random.default_rng(0)
    for _ in range(20):
        expected = env.obs_buf["policy"][0].numpy()
        assert player.observe() == pytest.approx(expected, abs=2e-3)
        action = 0.2 * rng.standard_normal(29).astype(np.float32)
        player.step(action)
        env.step(torch.as_tensor(action).unsqueeze(0))


def test_a_policy_names_its_tracked_bodies_as_mjlabs_do(exported):
    onnx = pytest.importorskip("onnx", reason="needs onnx: pip install -e '.[export]'")
    network = onnx.load(str(exported / "policy.onnx"))
    facts = {entry.key: entry.value for entry in network.metadata_props}
    assert facts["anchor_body_name"] == "torso_link"
    assert facts["body_names"].split(",")[:2] == ["pelvis", "left_hip_roll_link"]
    assert facts["command_names"] == "motion"
    assert read_clip(exported / "motion.npz").num_frames == 201


def test_deploy_follows_another_clip_and_refuses_invalid_ones(exported, tmp_path, capsys):
    wave = "source/envlab_assets/motions/g1_wave.npz"
    assert main(["deploy", str(exported), "--seconds=0.1", "--motion", str(ROOT / wave)]) == 0
    assert "from where the motion has it" in capsys.readouterr().out
    assert Player(exported, motion=ROOT / wave).motion.joint_pos.shape == (251, 29)
    (tmp_path / "none.npz").write_text("nothing")
    slow = str(tmp_path / "slow.npz")
    assert main(["motion", "convert", SQUAT, "--output", slow, "--output_fps=25"]) == 0
    with np.load(ROOT / wave) as file:
        unnamed = {name: file[name] for name in file.files if not name.endswith("names")}
    unnamed["joint_pos"] = unnamed["joint_pos"][:, ::-1]
    np.savez(tmp_path / "other.npz", **unnamed)
    for path, sentence in (
        (tmp_path / "none.npz", "cannot be read"),
        (slow, "has 25 frames"),
        (tmp_path / "other.npz", "names no joints, and has them in another order than MuJoCo"),
    ):
        assert main(["deploy", str(exported), "--motion", str(path)]) == 2
        assert sentence in capsys.readouterr().err
