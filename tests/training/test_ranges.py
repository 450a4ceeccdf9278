"""Every library refuses numbers that make no sense, and accepts unusual ones that do."""

from __future__ import annotations

from pathlib import Path

import pytest

from envlab.config import read_yaml, write_yaml
from envlab.errors import ConfigurationError
from envlab.libraries import libraries
from envlab.registry import list_tasks
from tests.trained import SMALL, session_of, train_in

CARTPOLE = "--task=Isaac-Cartpole-v0"
CONFIG = "agent.params.config"


@pytest.mark.parametrize(
    ("library", "argument", "sentence"),
    [
        (
            "rsl_rl",
            "agent.algorithm.clip_param=-0.2",
            "clip_param is -0.2, but must be greater",
        ),
        ("rsl_rl", "agent.algorithm.gamma=1.5", "gamma is 1.5, but must be from 0 to 1"),
        ("rsl_rl", "agent.algorithm.learning_rate=0", "learning_rate is 0.0, but must be greater"),
        (
            "rsl_rl",
            "agent.algorithm.entropy_coef=-0.01",
            "entropy_coef is -0.01, but must be",
        ),
        (
            "rsl_rl",
            "agent.actor.hidden_dims=[32,0]",
            "hidden_dims.1 is 0, but must be",
        ),
        ("rsl_rl", "agent.actor.distribution_cfg.init_std=0", "init_std is 0.0"),
        ("rsl_rl", "agent.save_interval=0", "agent.save_interval is 0"),
        (
            "rsl_rl",
            "agent.keep_checkpoints=-1",
            "keep_checkpoints is -1, but must be",
        ),
        ("rsl_rl", "agent.max_iterations=0", "agent.max_iterations is 0"),
        ("rl_games", f"{CONFIG}.tau=-0.1", "tau is -0.1, but must be from 0 to 1"),
        ("rl_games", f"{CONFIG}.e_clip=0", "e_clip is 0.0, but must be greater than 0"),
        ("rl_games", f"{CONFIG}.horizon_length=0", f"{CONFIG}.horizon_length is 0"),
        ("rl_games", "agent.params.network.mlp.units=[32,-32]", "mlp.units.1 is -32"),
        ("rl_games", f"{CONFIG}.max_epochs=-1", f"{CONFIG}.max_epochs is -1"),
        (
            "skrl",
            "agent.agent.discount_factor=2.0",
            "discount_factor is 2.0, but must be from",
        ),
        ("skrl", "agent.agent.learning_rate=-1e-3", "learning_rate is -0.001"),
        ("skrl", "agent.agent.ratio_clip=0.0", "ratio_clip is 0.0, but must be greater than 0"),
        ("skrl", "agent.agent.rollouts=0", "agent.agent.rollouts is 0"),
        ("skrl", "agent.trainer.timesteps=0", "agent.trainer.timesteps is 0"),
        ("skrl", "agent.agent.entropy_loss_scale=-0.1", "entropy_loss_scale is -0.1"),
        ("rsl_rl", "env.decimation=0", "env.decimation is 0, but must be greater than 0"),
        (
            "rsl_rl",
            "env.sim.dt=-0.01",
            "dt is -0.01, but must be greater than 0 and finite",
        ),
        (
            "rsl_rl",
            "env.nan_guard.max_bad_share=5",
            "max_bad_share is 5.0, but must be from",
        ),
        (
            "rsl_rl",
            "env.episode_length_s=0.001",
            "an environment step .* takes 0.0166667 s, and an episode must last for at least one",
        ),
    ],
)
def test_nonsense_is_named_with_its_range(library: str, argument: str, sentence: str):
    with pytest.raises(ConfigurationError, match=sentence):
        session_of(library, [CARTPOLE, argument])


@pytest.mark.parametrize(
    ("library", "arguments"),
    [
        # An episode of one step, no discount, Monte-Carlo returns.
        ("rsl_rl", ["env.decimation=1", "env.episode_length_s=${env.sim.dt}"]),
        ("rsl_rl", ["agent.algorithm.gamma=0", "agent.algorithm.lam=1"]),
        ("rsl_rl", ["agent.actor.hidden_dims=[-1,32]"]),  # -1: as wide as the input
        ("rsl_rl", ["agent.keep_checkpoints=0", "agent.save_interval_minutes=0"]),
        ("rsl_rl", ["agent.algorithm.max_grad_norm=inf", "agent.clip_actions=null"]),
        ("rl_games", ["agent.params.env.clip_actions=inf", f"{CONFIG}.score_to_win=-100"]),
        ("rl_games", [f"{CONFIG}.truncate_grads=false", f"{CONFIG}.grad_norm=0"]),
        ("rl_games", [f"{CONFIG}.critic_grad_clip=0", f"{CONFIG}.entropy_coef=0"]),
        # skrl turns these off by 0 or less.
        ("skrl", ["agent.agent.value_clip=-1", "agent.agent.grad_norm_clip=0"]),
        ("skrl", ["agent.agent.kl_threshold=0", "agent.agent.entropy_loss_scale=0"]),
        ("skrl", ["agent.max_iterations=null", "agent.agent.experiment.write_interval=auto"]),
    ],
)
def test_unusual_values_with_a_meaning_are_accepted(library: str, arguments: list[str]):
    session_of(library, [CARTPOLE, *arguments])


def test_files_are_judged_like_overrides(tmp_path: Path, capsys):
    assert train_in(tmp_path, *SMALL, "--max_iterations=1") == 0
    (run,) = (tmp_path / "logs/rsl_rl").glob("*/*")
    params = run / "params" / "agent.yaml"
    cfg = session_of("rsl_rl", [CARTPOLE]).agent_cfg
    cfg = read_yaml(params, cfg, root="agent")
    cfg.algorithm.lam = -1.0
    write_yaml(params, cfg)
    capsys.readouterr()
    assert train_in(tmp_path, *SMALL, f"--config={run}") == 2
    assert "agent.algorithm.lam is -1.0, but must be from 0 to 1" in capsys.readouterr().err


def test_every_shipped_configuration_is_within_all_ranges():
    names = sorted(libraries(), key=len, reverse=True)
    for name in names:
        session_of(name, ["--task=gym:Pendulum-v1"])  # the library's own defaults
    for task in list_tasks():
        for key in task.libraries:
            name = next(name for name in names if key.startswith(name))
            session_of(name, [f"--task={task.id}", f"--agent={key}_cfg_entry_point"])
