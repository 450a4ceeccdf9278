"""Training and play warn of actions at a bound of the agent's, and name the setting."""

from __future__ import annotations

import contextlib
from pathlib import Path

import numpy as np
import pytest
import torch

from envlab.cli import main
from envlab.distributed.context import DistributedContext
from envlab.envs import action_use
from envlab.training.preparation import make_env
from tests.trained import bound_of, session_of

FLAGS = ["--headless", "--device=cpu", "--num_envs=8", "env.scene.num_envs=8"]
CARTPOLE = "--task=Isaac-Cartpole-v0"
G1 = "--task=Mjlab-Velocity-Flat-Unitree-G1"
CHOICES = "--task=Isaac-Cartpole-Showcase-Box-Discrete-Direct-v0"
HALFCHEETAH = "--task=gym:HalfCheetah-v5"


def warnings_of(output: str) -> list[str]:
    return [line for line in output.splitlines() if "of the actions lie within" in line]


@pytest.mark.parametrize(("limit", "told"), [(0.1, 1), (50.0, 0)])
def test_training_warns_once(
    limit: float,
    told: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
):
    monkeypatch.setattr(action_use, "WINDOW", 16)
    words = [*FLAGS, CARTPOLE, "--max_iterations=8", f"agent.clip_actions={limit}"]
    with contextlib.chdir(tmp_path):
        assert main(["train", "rsl_rl", *words]) == 0
    found = warnings_of(capfd.readouterr().err)
    assert len(found) == told
    for line in found:
        assert "their bound (agent.clip_actions=0.1), most often those of slider_to_cart" in line
        assert line.endswith("train with agent.clip_actions=0.2.")


@pytest.mark.parametrize(("limit", "told"), [(0.001, 1), (50.0, 0)])
def test_play_says_it_too(
    limit: float,
    told: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
):
    monkeypatch.chdir(tmp_path)
    words = [*FLAGS, CARTPOLE, "--checkpoint=pretrained", "--no_export"]
    assert main(["play", "rsl_rl", *words, f"agent.clip_actions={limit}"]) == 0
    assert len(warnings_of(capfd.readouterr().err)) == told


@pytest.mark.parametrize(
    ("library", "words", "half_width", "setting", "frees"),
    [
        ("fast_sac", [CARTPOLE], 1.0, "agent.action_limit=1", "agent.action_limit=2"),
        (
            *("fast_sac", [G1, "agent.action_limit=2"], 2.0, "agent.action_limit=2"),
            "agent.action_limit=4 or agent.joint_limits=true",
        ),
        (
            *("fast_sac", [G1, "agent.joint_limits=true"], None, "agent.joint_limits=true"),
            "agent.joint_limits=false and a wider agent.action_limit",
        ),
        (
            *("rsl_rl", [CARTPOLE, "agent.clip_actions=3"], 3.0, "agent.clip_actions=3"),
            "agent.clip_actions=6",
        ),
        (
            *("rl_games", [CARTPOLE], 1.0, "agent.params.env.clip_actions=1"),
            "agent.params.env.clip_actions=2",
        ),
        ("skrl", [CARTPOLE, "--algorithm=sac"], 1.0, "-1 to 1 for SAC", "--algorithm=ppo"),
        ("skrl", [CARTPOLE, "--algorithm=td3"], 1.0, "-1 to 1 for TD3", "--algorithm=ppo"),
    ],
)
def test_each_library_names_the_setting_of_its_bound(
    library: str, words: list[str], half_width: float | None, setting: str, frees: str
):
    bound = bound_of(library, *words)
    assert bound is not None
    assert half_width is None or np.all(bound.half_width == half_width)
    assert bound.setting == setting
    assert bound.frees.startswith(frees)


@pytest.mark.parametrize(
    ("library", "words"),
    [
        ("rsl_rl", [CARTPOLE]),
        ("skrl", [CARTPOLE]),
        ("skrl", [CHOICES, "--algorithm=dqn"]),
        ("rl_games", [CHOICES]),
        ("fast_sac", [HALFCHEETAH]),  # whose own bounds are -1 and 1
    ],
)
def test_without_a_bound_of_the_agent_nothing_is_counted(library: str, words: list[str]):
    assert bound_of(library, *words) is None


def test_agents_moved_as_one_are_counted():
    words = ["--task=Isaac-Cart-Double-Pendulum-Direct-v0", "agent.clip_actions=0.5"]
    session = session_of("rsl_rl", [*FLAGS, *words])
    env = make_env(session, DistributedContext.single("cpu"))
    for _ in range(action_use.STRIDE):
        env.step(torch.full((8, 2), 0.5))
    assert env.action_use._counts.tolist() == [8, 8]
    env.close()
