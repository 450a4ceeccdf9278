"""play.py on briefly trained policies of rl_games, and networks that are not plain."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest
import torch

from envlab.cli import play
from tests.rl_games.worker import CARTPOLE, SMALL
from tests.small_runs import train_in
from tests.trained import check_exported, checkpoint_of, only_run

OBS = 4.0 * torch.randn(50, 4, generator=torch.Generator().manual_seed(1))


def train_and_play(folder: Path, *arguments: str) -> tuple[Path, str]:
    """Return the run directory and play.py's output."""
    assert train_in("rl_games", folder, *arguments, "--max_iterations=2") == 0
    flags = [arguments[0], "--device=cpu", "--num_envs=4", "--num_episodes=6"]
    with contextlib.chdir(folder), contextlib.redirect_stdout(io.StringIO()) as output:
        assert play("rl_games", flags) == 0
    return only_run(folder), output.getvalue()


def hidden_of(state: dict[str, torch.Tensor], obs: torch.Tensor) -> torch.Tensor:
    """Return the last hidden layer for observations, computed by hand from a checkpoint."""
    variance = state["running_mean_std.running_var"].float()
    mean = state["running_mean_std.running_mean"].float()
    hidden = ((obs.clamp(-5.0, 5.0) - mean) / (variance + 1e-5).sqrt()).clamp(-5.0, 5.0)
    for layer in (0, 2):
        name = f"a2c_network.actor_mlp.{layer}"
        hidden = hidden @ state[f"{name}.weight"].T + state[f"{name}.bias"]
        hidden = torch.nn.functional.elu(hidden)
    return hidden


def test_exported_policies_act_like_the_trained_one(tmp_path: Path):
    """Normaliser, both bounds and scaling are inside."""
    space = "agent.params.network.space.continuous"
    large = [f"{space}.mu_init.name=const_initializer", f"+{space}.mu_init.val=0.5"]
    bound = "agent.params.env.clip_actions=0.05"
    run, text = train_and_play(tmp_path, *CARTPOLE, *large, bound)
    assert "model_2.pt: iteration 2, 1,024 frames" in text
    assert re.search(r"^Mean return -?\d+\.\d+ \(std \d+\.\d+\) over 8 episodes$", text, re.M)
    state = checkpoint_of(run, 2)["model"]["networks"]
    mean = hidden_of(state, OBS) @ state["a2c_network.mu.weight"].T + state["a2c_network.mu.bias"]
    expected = mean.clamp(-1.0, 1.0) * 0.05
    assert 0 < int((expected.abs() == 0.05).sum()) < len(OBS)
    files = sorted(path.name for path in (run / "exported").glob("policy.*"))
    assert files == ["policy.onnx", "policy.pt"]
    check_exported(run, OBS, expected)


def test_exported_choices_are_the_most_likely_ones(tmp_path: Path):
    task = "--task=Isaac-Cartpole-Showcase-Box-Discrete-Direct-v0"
    run, _ = train_and_play(tmp_path, task, *SMALL)
    state = checkpoint_of(run, 2)["model"]["networks"]
    weight, bias = state["a2c_network.logits.weight"], state["a2c_network.logits.bias"]
    expected = (hidden_of(state, OBS) @ weight.T + bias).argmax(dim=1)
    assert len(expected.unique()) > 1
    check_exported(run, OBS, expected)


@pytest.mark.parametrize(
    "words",
    [
        [
            *(*CARTPOLE, "agent.params.network.separate=true"),
            *("agent.params.network.mlp.d2rl=true", "agent.params.model.name=continuous_a2c_tanh"),
            *("agent.params.config.clip_actions=false", "agent.params.env.clip_observations=inf"),
        ],
        pytest.param(
            ["--task=Isaac-Cartpole-Showcase-Box-MultiDiscrete-Direct-v0", *SMALL],
            marks=pytest.mark.long,
        ),
    ],
    ids=["networks", "choices"],
)
def test_other_networks_are_exported_too(tmp_path: Path, capsys, words: list[str]):
    """The export is checked against the policy as it is written."""
    run, _ = train_and_play(tmp_path, *words)
    assert (run / "exported/policy.onnx").is_file()
    capsys.readouterr()
    with contextlib.chdir(tmp_path):
        flags = ["--device=cpu", "--num_envs=2", "agent.params.network.mlp.units=[8]"]
        assert play("rl_games", [words[0], *flags]) == 2
    error = capsys.readouterr().err
    assert "\nerror: The checkpoint does not fit the configured networks" in error
    assert error.count("\n") == 2  # after what the run changed of its task
