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

TRAIN, PLAY = train_parser(get_library("rsl_rl")), play_parser(get_library("rsl_rl"))
ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "scripts" / "reinforcement_learning" / "rsl_rl"


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
        if opengl._try_opengl(name) is None:
            return {**os.environ, "MUJOCO_GL": name, "OMP_NUM_THREADS": "1"}
    pytest.skip(f"no OpenGL renders here. {opengl.INSTALL_HINT}.")


def frames_of(av, path: Path) -> list:
    with av.open(str(path)) as container:
        return list(container.decode(video=0))


def record(recorder: VideoRecorder, num_steps: int) -> None:
    for _ in range(num_steps):
        recorder.after_step()


def test_clips_start_at_each_interval_and_have_the_given_length(av, tmp_path: Path) -> None:
    env = FakeEnv()
    recorder = VideoRecorder(env, tmp_path, length=4, interval=10)
    record(recorder, 25)
    recorder.close()
    assert {path.name: len(frames_of(av, path)) for path in recorder.paths} == {
        "step_0.mp4": 4,
        "step_10.mp4": 4,
        "step_20.mp4": 4,
    }
    assert env.num_rendered == 12  # pictures are costly: none is taken between clips


def test_play_records_one_clip(av, tmp_path: Path) -> None:
    recorder = VideoRecorder(FakeEnv(), tmp_path, length=4, interval=None)
    record(recorder, 25)
    recorder.close()
    assert [path.name for path in tmp_path.iterdir()] == ["step_0.mp4"]


def test_a_clip_longer_than_the_interval_is_not_cut(av, tmp_path: Path) -> None:
    recorder = VideoRecorder(FakeEnv(), tmp_path, length=5, interval=3)
    record(recorder, 12)
    recorder.close()
    assert {path.name: len(frames_of(av, path)) for path in recorder.paths} == {
        "step_0.mp4": 5,
        "step_6.mp4": 5,
    }


def test_close_keeps_the_frames_of_an_interrupted_run(av, tmp_path: Path) -> None:
    recorder = VideoRecorder(FakeEnv(), tmp_path, length=200)
    record(recorder, 7)
    recorder.close()
    recorder.close()
    assert len(frames_of(av, tmp_path / "step_0.mp4")) == 7


def test_a_full_disk_ends_a_clip_but_not_the_run(av, tmp_path: Path, caplog) -> None:
    recorder = VideoRecorder(FakeEnv(), tmp_path, length=4, interval=10)
    with no_file_beyond(10):
        record(recorder, 10)
    record(recorder, 10)
    recorder.close()
    assert f"The video {tmp_path / 'step_0.mp4'} is broken off (File too large" in caplog.text
    assert len(frames_of(av, tmp_path / "step_10.mp4")) == 4


def test_a_folder_that_takes_no_clip_does_not_end_the_run(av, caplog) -> None:
    folder = Path("/sys/clips")  # where nobody can make one
    recorder = VideoRecorder(FakeEnv(), folder, length=4, interval=10)
    record(recorder, 10)
    recorder.close()
    assert "The video /sys/clips/step_0.mp4 is broken off (" in caplog.text
    assert "See that it can be written to again." in caplog.text


def test_a_killed_process_loses_at_most_the_last_second(av, tmp_path: Path) -> None:
    recorder = VideoRecorder(FakeEnv(), tmp_path, length=1000)
    record(recorder, 150)
    copy = tmp_path / "as_left_by_a_kill.mp4"
    copy.write_bytes((tmp_path / "step_0.mp4").read_bytes())
    recorder.close()
    assert 150 - 60 <= len(frames_of(av, copy)) <= 150


def test_videos_play_in_real_time(av, tmp_path: Path) -> None:
    recorder = VideoRecorder(FakeEnv(), tmp_path, length=60)
    record(recorder, 60)
    with av.open(str(tmp_path / "step_0.mp4")) as container:
        assert container.streams.video[0].average_rate == Fraction(60)
        times = [frame.time for frame in container.decode(video=0)]
    assert times == pytest.approx([step / 60.0 for step in range(60)])


def test_frames_are_the_pictures_in_their_order(av, tmp_path: Path) -> None:
    recorder = VideoRecorder(FakeEnv(), tmp_path, length=200)
    record(recorder, 200)
    grey = [frame.to_ndarray(format="rgb24").mean() for frame in frames_of(av, recorder.paths[0])]
    assert grey == pytest.approx(np.arange(1, 201), abs=3.0)  # H.264 loses a little


@pytest.mark.parametrize("parser", [TRAIN, PLAY])
def test_a_length_without_video_is_refused(parser) -> None:
    with pytest.raises(ConfigurationError, match="--video_length has no effect without --video"):
        parser.parse_with_overrides(["--task=T", "--video_length=5"])


@pytest.mark.parametrize("flag", ["video_length", "video_interval"])
@pytest.mark.parametrize("value", [0, -1])
def test_values_that_record_nothing_are_refused(flag: str, value: int) -> None:
    with pytest.raises(ConfigurationError, match=f"--{flag} is {value}, but must be greater"):
        TRAIN.parse_with_overrides(["--task=T", "--video", f"--{flag}={value}"])


def test_defaults_are_those_of_isaac_lab(tmp_path: Path) -> None:
    flags, _ = TRAIN.parse_with_overrides(["--task=T", "--video"])
    recorder = start_recording(flags, FakeEnv(), tmp_path)
    assert (recorder._length, recorder._interval) == (200, 2000)
    flags, _ = PLAY.parse_with_overrides(["--task=T", "--video"])
    recorder = start_recording(flags, FakeEnv(), tmp_path)
    assert (recorder._length, recorder._interval) == (200, None)


def test_only_rank_0_records(tmp_path: Path) -> None:
    env = SimpleNamespace(context=DistributedContext(rank=1, world_size=2))
    flags = Flags(video=True)
    assert start_recording(flags, env, tmp_path / "videos") is None
    assert not (tmp_path / "videos").exists()


def test_without_an_encoder_the_error_names_the_package_to_install(monkeypatch) -> None:
    monkeypatch.setattr(video.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigurationError, match=r"pip install -c constraints.txt -e '.\[video\]'"):
        check_recording(Flags(video=True), FakeEnv())


def test_without_a_renderer_the_error_names_the_package_to_install(av) -> None:
    def fail() -> None:
        raise RuntimeError("no display")

    env = FakeEnv()
    env.render = fail
    with pytest.raises(ConfigurationError, match=r"no display.*libegl1.*libosmesa6.*MUJOCO_GL"):
        check_recording(Flags(video=True), env)


@pytest.mark.parametrize(
    ("given", "working", "chosen"),
    [
        (None, {"egl", "osmesa"}, "egl"),
        (None, {"osmesa"}, "osmesa"),
        (None, set(), "disable"),
        ("osmesa", {"egl", "osmesa"}, "osmesa"),
        ("osmesa", {"egl"}, "disable"),
    ],
)
def test_opengl_is_the_users_or_the_first_that_works(
    monkeypatch, given: str | None, working: set[str], chosen: str
) -> None:
    monkeypatch.setattr(opengl, "_problems", {})
    monkeypatch.setattr(opengl, "_try_opengl", lambda name: None if name in working else "broken")
    monkeypatch.setenv("MUJOCO_GL", given or "")
    opengl.choose_opengl()
    assert os.environ["MUJOCO_GL"] == chosen
    assert ("broken" in opengl.opengl_problems()) == (chosen != (given or "egl"))


def test_an_opengl_that_fails_says_why() -> None:
    assert "invalid value for environment variable MUJOCO_GL" in opengl._try_opengl("nonsense")


PICTURES = """
import numpy as np, torch
from envlab.registry import get_task, load_env_cfg

def make():
    cfg = load_env_cfg(get_task("Isaac-Cartpole-v0"))
    return get_task("Isaac-Cartpole-v0").make(cfg, num_envs=2, seed=7, render_mode="rgb_array")

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


def test_without_a_display_a_picture_needs_no_setting(opengl_environ: dict[str, str]) -> None:
    code = """
import envlab
env = envlab.make("Isaac-Cartpole-v0", num_envs=2, render_mode="rgb_array", device="cpu")
assert env.render().shape == (360, 640, 3)
"""
    unset = {"MUJOCO_GL", "DISPLAY", "WAYLAND_DISPLAY"}
    environ = {name: value for name, value in opengl_environ.items() if name not in unset}
    done = subprocess.run([sys.executable, "-c", code], env=environ, timeout=120)
    assert done.returncode == 0


def test_pictures_show_the_robot_and_change_nothing(opengl_environ: dict[str, str]) -> None:
    done = subprocess.run([sys.executable, "-c", PICTURES], env=opengl_environ, timeout=120)
    assert done.returncode == 0


@pytest.mark.slow
def test_train_and_play_write_videos(av, opengl_environ: dict[str, str], tmp_path: Path) -> None:
    environ = {name: value for name, value in opengl_environ.items() if name != "MUJOCO_GL"}

    def run(script: str, *arguments: str) -> None:
        command = [sys.executable, str(SCRIPTS / script), "--task=Isaac-Cartpole-v0", "--video"]
        subprocess.run([*command, *arguments], env=environ, cwd=tmp_path, check=True, timeout=200)

    run("train.py", "--num_envs=8", "--max_iterations=2", "--video_length=5", "--video_interval=20")
    run("play.py", "--num_envs=2", "--num_episodes=2", "--video_length=10", "--no_export")
    (videos,) = tmp_path.glob("logs/rsl_rl/cartpole/*/videos")
    found = {
        str(path.relative_to(videos)): len(frames_of(av, path)) for path in videos.rglob("*.mp4")
    }
    # Two iterations of 16 steps.
    assert found == {"train/step_0.mp4": 5, "train/step_20.mp4": 5, "play/step_0.mp4": 10}
