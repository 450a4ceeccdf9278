"""A task ``...-Play-v0`` plays runs of ``...-v0`` in its own environment."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from envlab.config import merge, write_yaml
from envlab.errors import ConfigurationError
from envlab.libraries import get_library
from envlab.registry import get_task, load_agent_values, load_env_cfg
from envlab.rsl_rl.cfg import RslRlCfg
from envlab.training.arguments import play_parser
from envlab.training.deployment import NotDeployable
from envlab.training.flags import Flags
from envlab.training.plan import plan_run
from envlab.training.play import export_opened, open_policy

TRAINED, PLAYED = "Isaac-Velocity-Flat-H1-v0", "Isaac-Velocity-Flat-H1-Play-v0"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run directory with 7 steps per iteration and episodes of 3 s."""
    task = get_task(TRAINED)
    agent_cfg = RslRlCfg().with_task_values(load_agent_values(task, "rsl_rl"))
    (tmp_path / "params").mkdir()
    write_yaml(tmp_path / "params" / "agent.yaml", merge(agent_cfg, {"num_steps_per_env": 7}, ""))
    env_cfg = merge(load_env_cfg(task), {"episode_length_s": 3.0}, "env")
    write_yaml(tmp_path / "params" / "env.yaml", env_cfg)
    (tmp_path / "run.json").write_text(json.dumps({"task": TRAINED}))
    return tmp_path


def plan_of(task: str, run: Path):
    flags = Flags(task=task)
    return plan_run(flags, [], get_library("rsl_rl"), run)


def test_the_task_itself_takes_all_of_a_run_and_its_play_task_the_agent_alone(run):
    for task, length_s, num_envs, is_noisy in (
        (TRAINED, 3.0, 4096, True),
        (PLAYED, 20.0, 50, False),
    ):
        plan = plan_of(task, run)
        assert plan.agent_cfg.num_steps_per_env == 7
        assert (plan.env_cfg.episode_length_s, plan.env_cfg.scene.num_envs) == (length_s, num_envs)
        assert plan.env_cfg.observations.policy.enable_corruption is is_noisy


def test_another_task_takes_nothing(run):
    with pytest.raises(ConfigurationError, match=f"is of the task '{TRAINED}'"):
        plan_of("Isaac-Velocity-Flat-Unitree-Go2-Play-v0", run)


def test_a_shipped_policy_plays_the_task_as_it_is_unless_it_is_to_play_as_trained(run):
    library = get_library("rsl_rl")
    lengths = {}
    for words in ("pretrained", "pretrained --as_trained", "latest"):
        line = f"--task={TRAINED} --checkpoint={words}".split()
        plan = plan_run(*play_parser(library).parse_with_overrides(line), library, run)
        assert plan.agent_cfg.num_steps_per_env == 7
        lengths[words] = plan.env_cfg.episode_length_s
    assert lengths == {"pretrained": 20.0, "pretrained --as_trained": 3.0, "latest": 3.0}


def test_play_says_where_a_policy_was_trained_in_a_changed_task(caplog):
    library, task = get_library("fast_sac"), "Mjlab-Velocity-Flat-Unitree-G1"
    for flag, weight, sentence in [
        ([], 2.0, f"plays {task} unchanged, but was trained in an"),
        (["--as_trained"], 4.0, f"differs from {task}, so its returns are"),
    ]:
        words = [f"--task={task}", "--checkpoint=pretrained", "--device=cpu", *flag]
        with caplog.at_level("INFO", logger="envlab"):
            opened = open_policy(library, *play_parser(library).parse_with_overrides(words), 1)
        opened.env.close()
        assert opened.plan.env_cfg.rewards.track_linear_velocity.weight == weight
        (told,) = [one.getMessage() for one in caplog.records if sentence in one.getMessage()]
        assert "env.rewards.track_linear_velocity.weight=4.0 (2.0)" in told


def test_an_export_that_cannot_reorder_joints_is_not_left_in_our_order(tmp_path: Path):
    plan = SimpleNamespace(task=get_task(TRAINED), library=get_library("rsl_rl"))
    for names, message in (
        ([], "none was written"),
        (["policy.pt", "policy.onnx"], "is not manager-based"),
    ):
        files = [tmp_path / name for name in names]
        for file in files:
            file.touch()
        player = SimpleNamespace(export=lambda _, files=files: files)
        opened: Any = SimpleNamespace(plan=plan, env=None, player=player, directory=tmp_path)
        with pytest.raises(NotDeployable, match=message):
            export_opened(opened, tmp_path, "isaaclab")
        assert not list(tmp_path.iterdir())


def test_no_episode_that_is_played_was_trained_in():
    """The shipped policy was trained with seed 42, as is the environment to compare with."""
    library = get_library("rsl_rl")
    task = "Isaac-Cartpole-v0"
    words = [f"--task={task}", "--checkpoint=pretrained", "--device=cpu", "--num_envs=64"]
    states = []
    for seed in ([], ["--seed=42"], ["--seed=7"]):
        flags, overrides = play_parser(library).parse_with_overrides([*words, *seed])
        opened = open_policy(library, flags, overrides, 64)
        assert opened.plan.agent_cfg.seed == (7 if "--seed=7" in seed else 42)
        states.append(opened.env.reset()[0]["policy"].clone())
        opened.env.close()
    trained_in = get_task(task).make(load_env_cfg(get_task(task)), num_envs=64, seed=42)
    trained = trained_in.reset()[0]["policy"]
    assert torch.equal(states[0], states[1])
    for first, second in itertools.combinations([trained, states[1], states[2]], 2):
        assert not (first[:, None] == second[None]).all(dim=2).any()
