"""Every library refuses numbers that make no sense, and accepts unusual ones that do."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from envlab.config import read_yaml, write_yaml
from envlab.libraries import libraries
from envlab.registry import list_tasks
from tests.trained import SMALL, session_of, train_in

CARTPOLE = "--task=Isaac-Cartpole-v0"
CONFIG = "agent.params.config"


UNUSUAL = {
    "rsl_rl": [
        # An episode of one step, no discount, Monte-Carlo returns.
        *("env.decimation=1", "env.episode_length_s=${env.sim.dt}"),
        *("agent.algorithm.gamma=0", "agent.algorithm.lam=1"),
        "agent.actor.hidden_dims=[-1,32]",  # -1: as wide as the input
        *("agent.keep_checkpoints=0", "agent.save_interval_minutes=0"),
        *("agent.algorithm.max_grad_norm=inf", "agent.clip_actions=null"),
    ],
    "rl_games": [
        *("agent.params.env.clip_actions=inf", f"{CONFIG}.score_to_win=-100"),
        *(f"{CONFIG}.truncate_grads=false", f"{CONFIG}.grad_norm=0"),
        *(f"{CONFIG}.critic_grad_clip=0", f"{CONFIG}.entropy_coef=0"),
    ],
    "skrl": [
        # It turns these off by 0 or less.
        *("agent.agent.value_clip=-1", "agent.agent.grad_norm_clip=0"),
        *("agent.agent.kl_threshold=0", "agent.agent.entropy_loss_scale=0"),
        *("agent.max_iterations=null", "agent.agent.experiment.write_interval=auto"),
    ],
}


def test_unusual_values_with_a_meaning_are_accepted():
    for library, arguments in UNUSUAL.items():
        session_of(library, [CARTPOLE, *arguments])


def test_files_are_judged_like_overrides(trained: Path, tmp_path: Path, capsys):
    run = shutil.copytree(trained, tmp_path / "run")
    params = run / "params" / "agent.yaml"
    cfg = session_of("rsl_rl", [CARTPOLE]).agent_cfg
    cfg = read_yaml(params, cfg, root="agent")
    cfg.algorithm.lam = -1.0
    write_yaml(params, cfg)
    assert train_in(tmp_path, *SMALL, f"--config={run}") == 2
    assert "agent.algorithm.lam is -1.0, but must be from 0 to 1" in capsys.readouterr().err


@pytest.mark.parametrize("step", [12, pytest.param(1, marks=pytest.mark.long)])
def test_every_shipped_configuration_is_within_all_ranges(step: int):
    """Those of each twelfth task are looked at by day."""
    names = sorted(libraries(), key=len, reverse=True)
    for name in names:
        session_of(name, ["--task=gym:Pendulum-v1"])  # the library's own defaults
    for task in list_tasks()[::step]:
        for key in task.libraries:
            name = next(name for name in names if key.startswith(name))
            session_of(name, [f"--task={task.id}", f"--agent={key}_cfg_entry_point"])
