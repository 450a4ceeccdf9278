"""Training and play warn of actions at a bound of the agent's, and name the setting."""

from __future__ import annotations

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


def test_training_warns_once(tmp_path: Path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(action_use, "WINDOW", 16)
    words = [*FLAGS, CARTPOLE, "--max_iterations=8"]
    assert main(["train", "rsl_rl", *words, "agent.clip_actions=0.1"]) == 0
    output = capfd.readouterr().err
    assert "Terms of the task:" in output
    assert "0  alive        1.0" in output
    (line,) = warnings_of(output)
    assert "their bound (agent.clip_actions=0.1), most often those of slider_to_cart" in line
    assert line.endswith("train with agent.clip_actions=0.2.")
    assert main(["train", "rsl_rl", *words, "agent.clip_actions=50"]) == 0
    assert not warnings_of(capfd.readouterr().err)


def test_play_says_it_too(tmp_path: Path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    words = [*FLAGS, CARTPOLE, "--checkpoint=pretrained", "--no_export"]
    for limit, told in ((0.001, 1), (50.0, 0)):
        assert main(["play", "rsl_rl", *words, f"agent.clip_actions={limit}"]) == 0
        assert len(warnings_of(capfd.readouterr().err)) == told, limit


def test_each_library_names_the_setting_of_its_bound():
    for line, half_width, setting, frees in (
        (f"fast_sac {CARTPOLE}", 1.0, "agent.action_limit=1", "agent.action_limit=2"),
        (
            *(f"fast_sac {G1} agent.action_limit=2", 2.0, "agent.action_limit=2"),
            "agent.action_limit=4 or agent.joint_limits=true",
        ),
        (
            *(f"fast_sac {G1} agent.joint_limits=true", None, "agent.joint_limits=true"),
            "agent.joint_limits=false and a wider agent.action_limit",
        ),
        *(
            (
                f"{library} {CARTPOLE} {name}={width}",
                width,
                f"{name}={width}",
                f"{name}={2 * width}",
            )
            for library, name, width in (
                ("rsl_rl", "agent.clip_actions", 3),
                ("rl_games", "agent.params.env.clip_actions", 1),
            )
        ),
        (f"skrl {CARTPOLE} --algorithm=sac", 1.0, "-1 to 1 for SAC", "--algorithm=ppo"),
        (f"skrl {CARTPOLE} --algorithm=td3", 1.0, "-1 to 1 for TD3", "--algorithm=ppo"),
    ):
        library, *words = line.split()
        bound = bound_of(library, *words)
        assert bound is not None, (library, words)
        assert half_width is None or np.all(bound.half_width == half_width), (library, words)
        assert bound.setting == setting
        assert bound.frees.startswith(frees)


def test_without_a_bound_of_the_agent_nothing_is_counted():
    for library, words in (
        ("rsl_rl", [CARTPOLE]),
        ("skrl", [CARTPOLE]),
        ("skrl", [CHOICES, "--algorithm=dqn"]),
        ("rl_games", [CHOICES]),
        ("fast_sac", [HALFCHEETAH]),  # whose own bounds are -1 and 1
    ):
        assert bound_of(library, *words) is None, (library, words)


def test_agents_moved_as_one_are_counted(caplog: pytest.LogCaptureFixture):
    words = ["--task=Isaac-Cart-Double-Pendulum-Direct-v0", "agent.clip_actions=0.5"]
    env = make_env(session_of("rsl_rl", [*FLAGS, *words]), DistributedContext.single("cpu"))
    for _ in range(action_use.STRIDE):
        env.step(torch.full((8, 2), 0.5))
    env.action_use.report()
    (line,) = warnings_of(caplog.text)
    assert "100 % of the actions lie within" in line
    env.close()
