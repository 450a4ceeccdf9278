"""AI2-THOR's scenes, with a recorded controller in place of ai2thor's own, which needs Unity.

tests/navigation/recorded has the modules of ai2thor that envlab imports.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from envlab.config import merge
from envlab.distributed.context import DistributedContext
from envlab.errors import ConfigurationError, SimulationError
from envlab.registry import get_task, load_env_cfg
from envlab_navigation.furniture import TARGETS
from envlab_navigation.metrics import ENDS
from envlab_navigation.thor import scenes_of
from tests.refusals import check_refusals

MOVE, LEFT, RIGHT, UP, DOWN, END = range(6)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Folder in which the recorded controller logs its calls, in workers too."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent / "recorded"))
    monkeypatch.setenv("RECORDED_THOR", str(tmp_path))
    yield tmp_path
    for name in [name for name in sys.modules if name.partition(".")[0] == "ai2thor"]:
        del sys.modules[name]


def make(num_envs: int = 2, task: str = "Nav-ObjectNav-RGB-v0", **fields):
    """Return an environment of a registered task in AI2-THOR."""
    small = {"backend": "ai2thor", "targets": ["Mug"], "camera": {"width": 8, "height": 6}}
    cfg = merge(load_env_cfg(get_task(task)), small | fields, "env")
    context = DistributedContext.single("cpu")
    return get_task(task).make(cfg, context=context, num_envs=num_envs, seed=3)


def act(env, action: int):
    return env.step(torch.full((env.num_envs, 1), action))


@pytest.mark.timeout(120)
def test_two_controllers_play_an_episode_in_workers(folder):
    env = make(2, images=["rgb", "depth"], thor={"num_workers": 2})
    try:
        assert env.obs_buf["rgb"].shape == (2, 6, 8, 3)
        assert env.obs_buf["rgb"].dtype == torch.uint8
        assert env.obs_buf["depth"].shape == (2, 6, 8, 1)
        names = env.policy_names()
        assert env.obs_buf["policy"][:, names.index("goal_is_Mug")].tolist() == [1.0, 1.0]
        obs, *_ = act(env, DOWN)
        assert obs["policy"][:, -1].tolist() == pytest.approx([-(3**-0.5)] * 2)
        *_, terminated, _, info = act(env, END)
        assert terminated.all()
        episodes = info["episodes"]
        assert episodes["goal"].tolist() == [TARGETS.index("Mug")] * 2
        assert episodes["steps"].tolist() == [2.0, 2.0]
        near = episodes["start_distance"] == 0
        assert torch.equal(episodes["success"].bool(), near)
        ends = ["success" if one else "failed_end" for one in near]
        assert [ENDS[end] for end in episodes["end"]] == ends
    finally:
        env.close()
    log = (folder / "log.txt").read_text().split("\n")
    starts = [line.split() for line in log if line.startswith("start")]
    assert len({words[-1] for words in starts}) == 2  # processes
    assert {words[2] for words in starts} == {"63.5"}  # 79 degrees from left to right, at 8 by 6
    assert {words[3] for words in starts} == {"locobot"}
    assert log.count("stop") == 2


def test_rewards_and_measures_follow_the_way(folder):
    env = make(1, images=["rgb"], thor={"num_workers": 0}, start_range_m=[0.5, 3.0])
    total, steps = 0.0, [MOVE, LEFT, MOVE, MOVE, RIGHT, RIGHT, MOVE]
    for action in steps:
        _, reward, *_ = act(env, action)
        total += float(reward)
    _, reward, *_, info = act(env, END)
    env.close()
    row = {name: float(values[0]) for name, values in info["episodes"].items()}
    # Ways are straight here, so each step's progress is the decrease of the distance.
    gained = row["start_distance"] - row["distance_to_goal"]
    assert total == pytest.approx(gained - 0.01 * len(steps), abs=0.02)
    assert float(reward) == pytest.approx(9.99 if row["success"] else -0.01)
    assert row["path_length"] == pytest.approx(0.25 * (4 - row["collisions"]), abs=1e-4)
    ratio = row["start_distance"] / max(row["start_distance"], row["path_length"])
    assert row["spl"] == pytest.approx(row["success"] * ratio)


@pytest.mark.parametrize("name", ["hang", "crash"])
def test_a_lost_controller_is_started_again_and_its_episode_truncated(folder, name):
    env = make(1, thor={"num_workers": 0})
    try:
        (folder / "lost").write_text(name)
        _, reward, terminated, truncated, info = act(env, LEFT)
        assert (terminated.tolist(), truncated.tolist()) == ([False], [True])
        assert reward.tolist() == [0.0]
        assert ENDS[info["episodes"]["end"][0]] == "non_finite"
        *_, truncated, _ = act(env, LEFT)
        assert not truncated.any()
    finally:
        env.close()
    assert (folder / "log.txt").read_text().count("start") == 2


def test_a_controller_that_is_always_lost_ends_the_run(folder):
    env = make(1, thor={"num_workers": 0})
    try:
        (folder / "lost").write_text("always")
        for _ in range(3):
            act(env, LEFT)
        with pytest.raises(SimulationError, match=r"lost 4 times in a row \(TimeoutError: lost"):
            act(env, LEFT)
    finally:
        env.close()


def test_scenes_are_those_of_the_challenge_and_the_documentation():
    assert scenes_of("RoboTHOR", "val")[:2] == ["FloorPlan_Val1_1", "FloorPlan_Val1_2"]
    assert len(scenes_of("RoboTHOR", "train")) == 60
    assert scenes_of("iTHOR", "test")[4:6] == ["FloorPlan30", "FloorPlan226"]
    with pytest.raises(ConfigurationError, match="no public scenes of the split 'test'"):
        scenes_of("RoboTHOR", "test")


def test_settings_that_it_cannot_offer_are_refused(folder):
    check_refusals(
        lambda fields: make(1, thor={"num_workers": 0}, **fields),
        [
            ({"goal": "point"}, "cannot have env.goal=point"),
            ({"images": ["labels"]}, "cannot have env.images="),
            ({"gps_compass": True}, "cannot have env.gps_compass=true"),
            ({"augmentation": {"mirror": 0.5}}, r"cannot have env\.augmentation"),
            ({"look_deg": 15.0}, r"cannot have env\.look_deg=15"),
            ({"start_range_m": [50.0, 60.0]}, "No scene of FloorPlan_Train1_1.* at 50 to 60 m"),
            ({"targets": ["Vase"]}, "m from one of Vase"),
        ],
    )


def test_without_the_package_a_sentence_names_it():
    with pytest.raises(ConfigurationError, match=r"'ai2thor', which is not .*'\.\[ai2thor\]'"):
        make(1, thor={"num_workers": 0})
