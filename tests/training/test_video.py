"""Videos: contents, times and refusals. Pictures are rendered in separate processes.

(MuJoCo chooses its OpenGL when it is imported, which has long happened in this process.)
"""

from __future__ import annotations

import os
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest

from envlab.distributed.context import DistributedContext
from envlab.errors import ConfigurationError
from envlab.libraries import get_library
from envlab.sim import opengl
from envlab.training import video
from envlab.training.arguments import play_parser, train_parser
from envlab.training.flags import Flags
from envlab.training.video import VideoRecorder, check_recording, start_recording
from tests.disk import no_file_beyond


class FakeEnv:
    """Renders pictures that count upwards."""

    step_dt = 1.0 / 60.0
    context = DistributedContext()

    def __init__(self) -> None:
        self.num_rendered = 0

    def render(self) -> np.ndarray:
        self.num_rendered += 1
        return np.full((32, 48, 3), self.num_rendered % 256, dtype=np.uint8)


@pytest.fixture(scope="module")
def av():
    return pytest.importorskip("av", reason="needs av: pip install -e '.[video]'")


@pytest.fixture(scope="module")
def opengl_environ() -> dict[str, str]:
    """The environment of a process that can render."""
    wanted = os.environ.get("MUJOCO_GL")
    for name in (wanted,) if wanted else opengl.BACKENDS:
        if opengl.try_opengl(name) is None:
            return {**os.environ, "MUJOCO_GL": name, "OMP_NUM_THREADS": "1"}
    pytest.skip(f"no OpenGL renders here. {opengl.INSTALL_HINT}.")


def frames_of(av, path: Path) -> list:
    with av.open(str(path)) as container:
        return list(container.decode(video=0))


def record(recorder: VideoRecorder, num_steps: int) -> None:
    for _ in range(num_steps):
        recorder.after_step()


def test_clips_start_at_each_interval_and_have_the_given_length(av, tmp_path: Path) -> None:
    clips = {  # length, interval, steps: frames of each clip
        (4, 10, 25): {"step_0.mp4": 4, "step_10.mp4": 4, "step_20.mp4": 4},
        (4, None, 25): {"step_0.mp4": 4},  # as play
        (5, 3, 12): {"step_0.mp4": 5, "step_6.mp4": 5},  # a clip is not cut by the next
        (200, None, 7): {"step_0.mp4": 7},  # of a run that was interrupted
    }
    for number, ((length, interval, steps), expected) in enumerate(clips.items()):
        env = FakeEnv()
        recorder = VideoRecorder(env, tmp_path / str(number), length=length, interval=interval)
        record(recorder, steps)
        recorder.close()
        recorder.close()
        found = {path.name: len(frames_of(av, path)) for path in recorder.paths}
        assert found == expected, (length, interval)
        # Pictures are costly: none is taken between clips.
        assert env.num_rendered == sum(expected.values())


def test_a_disk_that_is_full_or_takes_no_clip_does_not_end_the_run(
    av, tmp_path: Path, caplog
) -> None:
    nowhere = Path("/sys/clips")  # a folder that cannot be made
    for folder in (tmp_path, nowhere):
        recorder = VideoRecorder(FakeEnv(), folder, length=4, interval=10)
        with no_file_beyond(10):
            record(recorder, 10)
        record(recorder, 10)
        recorder.close()
    assert f"The video {tmp_path / 'step_0.mp4'} is broken off (File too large" in caplog.text
    assert len(frames_of(av, tmp_path / "step_10.mp4")) == 4
    assert f"The video {nowhere}/step_0.mp4 is broken off (" in caplog.text
    assert "Check that it can be written to again." in caplog.text


def test_frames_are_the_pictures_in_their_order_and_in_real_time(av, tmp_path: Path) -> None:
    recorder = VideoRecorder(FakeEnv(), tmp_path, length=200)
    record(recorder, 150)
    killed = tmp_path / "as_left_by_a_kill.mp4"
    killed.write_bytes((tmp_path / "step_0.mp4").read_bytes())
    record(recorder, 50)
    with av.open(str(recorder.paths[0])) as container:
        assert container.streams.video[0].average_rate == Fraction(60)
        frames = list(container.decode(video=0))
    assert [frame.time for frame in frames] == pytest.approx([step / 60.0 for step in range(200)])
    grey = [frame.to_ndarray(format="rgb24").mean() for frame in frames]
    assert grey == pytest.approx(np.arange(1, 201), abs=3.0)  # H.264 loses a little
    assert 150 - 60 <= len(frames_of(av, killed)) <= 150  # at most the last second is lost


def test_defaults_are_those_of_isaac_lab(tmp_path: Path) -> None:
    for parser_of, interval in ((train_parser, 2000), (play_parser, None)):
        flags, _ = parser_of(get_library("rsl_rl")).parse_with_overrides(["--task=T", "--video"])
        recorder = start_recording(flags, FakeEnv(), tmp_path)
        assert (recorder.length, recorder.interval) == (200, interval)


def test_only_rank_0_records(tmp_path: Path) -> None:
    env = SimpleNamespace(context=DistributedContext(rank=1, world_size=2))
    assert start_recording(Flags(video=True), env, tmp_path / "videos") is None
    assert not (tmp_path / "videos").exists()


def test_without_a_renderer_or_an_encoder_the_error_names_what_to_install(av, monkeypatch) -> None:
    env = FakeEnv()
    env.render = mock.Mock(side_effect=RuntimeError("no display"))
    with pytest.raises(ConfigurationError, match=r"no display.*libegl1.*libosmesa6.*MUJOCO_GL"):
        check_recording(Flags(video=True), env)
    monkeypatch.setattr(video.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigurationError, match=r"pip install -c constraints.txt -e '.\[video\]'"):
        check_recording(Flags(video=True), env)


def test_opengl_is_the_users_or_the_first_that_works(monkeypatch) -> None:
    for given, working, chosen in (
        (None, {"egl", "osmesa"}, "egl"),
        (None, {"osmesa"}, "osmesa"),
        (None, set(), "disable"),
        ("osmesa", {"egl", "osmesa"}, "osmesa"),
        ("osmesa", {"egl"}, "disable"),
    ):
        answers = {name: None if name in working else "broken" for name in opengl.BACKENDS}
        monkeypatch.setattr(opengl, "try_opengl", answers.__getitem__)
        monkeypatch.setenv("MUJOCO_GL", given or "")
        opengl.choose_opengl()
        assert os.environ["MUJOCO_GL"] == chosen, (given, working)
        assert ("broken" in opengl.opengl_problems()) == (chosen != (given or "egl"))


def test_an_opengl_that_fails_says_why() -> None:
    assert "invalid value for environment variable MUJOCO_GL" in opengl.try_opengl("nonsense")


PICTURES = """
import envlab, numpy as np, torch

def make():
    more = {"render_mode": "rgb_array", "device": "cpu"}
    return envlab.make("Isaac-Cartpole-v0", num_envs=2, seed=7, **more).unwrapped

def orange(env):  # columns of the picture in which the pole is
    picture = env.render().astype(int)
    assert picture.shape == (360, 640, 3)
    red, green, blue = np.moveaxis(picture, 2, 0)
    return np.flatnonzero(((red - blue > 60) & (green - blue > 20)).any(axis=0))

seen, unseen = make(), make()
# Tilted outwards at either end of the rail, upright in the middle, and hanging.
for position, angle in ((-2.99, -1.57), (2.99, 1.57), (0.0, 0.0), (1.0, 3.1)):
    qpos = torch.tensor([[position, angle]]).repeat(2, 1)
    seen.sim.reset(torch.ones(2, dtype=torch.bool), qpos)
    columns = orange(seen)
    assert len(columns) > 2, (position, angle)
    tip = position + 0.97 * np.sin(angle)
    assert 2 < columns.min() and columns.max() < 637, (columns.min(), columns.max())
    assert abs(columns.mean() - (320 + 77 * (position + tip) / 2)) < 25, (position, angle)

seen.reset(seed=7), unseen.reset(seed=7)
for _ in range(20):
    a, b = seen.step(torch.ones(2, 1))[0]["policy"], unseen.step(torch.ones(2, 1))[0]["policy"]
    seen.render()
    assert torch.equal(a, b)
seen.close(), unseen.close()
"""


@pytest.mark.long
def test_pictures_show_the_robot_and_change_nothing(opengl_environ: dict[str, str]) -> None:
    """Also without a display and without a setting."""
    unset = {"MUJOCO_GL", "DISPLAY", "WAYLAND_DISPLAY"}
    environ = {name: value for name, value in opengl_environ.items() if name not in unset}
    done = subprocess.run([sys.executable, "-c", PICTURES], env=environ, timeout=120)
    assert done.returncode == 0


@pytest.mark.long
def test_train_and_play_write_videos(av, opengl_environ: dict[str, str], tmp_path: Path) -> None:
    code = """
import sys
from envlab.cli import main
words = ["rsl_rl", "--task=Isaac-Cartpole-v0", "--video"]
train = ["--num_envs=8", "--max_iterations=2", "--video_length=5", "--video_interval=20"]
play = ["--num_envs=2", "--num_episodes=2", "--video_length=10", "--no_export"]
sys.exit(main(["train", *words, *train]) or main(["play", *words, *play]))
"""
    environ = {name: value for name, value in opengl_environ.items() if name != "MUJOCO_GL"}
    subprocess.run([sys.executable, "-c", code], env=environ, cwd=tmp_path, check=True, timeout=200)
    (videos,) = tmp_path.glob("logs/rsl_rl/cartpole/*/videos")
    found = {f"{path.parent.name}/{path.name}": path for path in videos.rglob("*.mp4")}
    lengths = {name: len(frames_of(av, path)) for name, path in found.items()}
    # Two iterations of 16 steps.
    assert lengths == {"train/step_0.mp4": 5, "train/step_20.mp4": 5, "play/step_0.mp4": 10}
