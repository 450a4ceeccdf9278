"""AgileRL's configuration files: settings have its documentation's meanings, and all train."""

from __future__ import annotations

import functools
import json
import math
import operator
import sys
from pathlib import Path
from typing import Any

import pytest

from envlab.cli import main
from envlab.config import compose, load_yaml
from envlab.errors import ConfigurationError
from envlab.training.launch import train
from envlab_populations.agilerl.words import prepare
from envlab_populations.evolution.cfg import BoundsCfg, EvolutionCfg
from envlab_populations.population.member import Member
from tests.bait import BAIT, bait
from tests.populations.evolution.populations import nursery
from tests.refusals import check_refusals
from tests.trained import manifest_of, metrics_of, only_run

__all__ = ["bait"]

DQN = """
algorithm: {name: DQN, batch_size: 32, lr: 2e-3, learn_step: 4, gamma: 0.9, tau: 0.01, double: true}
environment: {name: CartPole-v1, num_envs: 8}
mutation:
  probabilities:
    {no_mut: 0.1, arch_mut: 0.3, new_layer: 0.5, params_mut: 0.2, act_mut: 0, rl_hp_mut: 0.4}
  rl_hp_selection:
    lr: {min: 1e-5, max: 1e-2}
    learn_step: {min: 1, max: 8, grow_factor: 1.5, shrink_factor: 0.75}
  mutation_sd: 0.3
  rand_seed: 7
network:
  latent_dim: 48
  encoder_config: {hidden_size: [40], activation: ELU, min_mlp_nodes: 24, max_mlp_nodes: 300}
  head_config: {hidden_size: [56], activation: ELU, max_hidden_layers: 2, layer_norm: true}
replay_buffer: {max_size: 5_000}
selection_strategy: {tournament_size: 3, elitism: false}
training: {max_steps: 2_000, target_score: 480, pop_size: 3, evo_steps: 512, eval_loop: 2,
  learning_delay: 120, eps_start: 1.0, eps_end: 0.1, eps_decay: 0.99}
"""
PPO = """
algorithm: {name: PPO, batch_size: 64, lr: 1e-3, learn_step: 256, gae_lambda: 0.9, clip_coef: 0.3,
  ent_coef: 0.02, vf_coef: 0.4, max_grad_norm: 0.7, update_epochs: 3, target_kl: 0.01}
environment: {name: CartPole-v1, num_envs: 4}
mutation:
  rl_hp_selection: {batch_size: {min: 16, max: 128}, learn_step: {min: 64, max: 512}}
network: {encoder_config: {hidden_size: [64]}, head_config: {hidden_size: [64]}}
training: {pop_size: 2, max_steps: 4096, evo_steps: 1024}
"""
OLDER = """
INIT_HP: {ENV_NAME: LunarLanderContinuous-v2, ALGO: TD3, NUM_ENVS: 4, BATCH_SIZE: 64, LR: 0.001,
  O_U_NOISE: true, EXPL_NOISE: 0.2, THETA: 0.15, DT: 0.01, POLICY_FREQ: 3, LEARN_STEP: 2,
  MAX_STEPS: 1_000, MEMORY_SIZE: 3_000, POP_SIZE: 2, TOURN_SIZE: 2, EVO_STEPS: 500, WANDB: true}
MUTATION_PARAMS: {NO_MUT: 0.5, RL_HP_SELECTION: [lr], MUT_SD: 0.2, MIN_LR: 0.0002, MAX_LR: 0.02,
  MIN_BATCH_SIZE: 8, MAX_BATCH_SIZE: 512}
NET_CONFIG: {arch: mlp, hidden_size: [48, 32], mlp_activation: Tanh}
"""

SEVERAL = """
algorithm: {name: MADDPG, batch_size: 16, lr_actor: 2e-4, lr_critic: 2e-3, learn_step: 16}
environment: {name: tests.populations.evolution.meeting, num_envs: 4}
network: {latent_dim: 32, encoder_config: {hidden_size: [32]}, head_config: {hidden_size: [32]}}
training: {pop_size: 2, max_steps: 4096, evo_steps: 100}
"""


@pytest.fixture
def written(tmp_path: Path):
    """Return a function that writes a file, and returns the flag that names it."""

    def write(text: str) -> str:
        (tmp_path / "file.yaml").write_text(text)
        return f"--agilerl={tmp_path / 'file.yaml'}"

    return write


@pytest.fixture
def composed(written):
    """Return a function that reads a file, into all words, flags, and the agent's settings."""

    def compose_file(text: str, algorithm: str, *given: str) -> tuple[list[str], list[str], Any]:
        words = prepare("train", [written(text), *given])
        flags = [word for word in words if word.startswith("--")]
        overrides = [word for word in words if not word.startswith(("--", "env."))]
        agent = compose({"agent": EvolutionCfg.of(algorithm)}, overrides)["agent"]
        agent.resolved()
        return words, flags, agent

    return compose_file


def test_a_manifest_means_the_same_as_in_agilerl(composed):
    words, flags, cfg = composed(DQN, "ddqn")
    assert flags[:2] == ["--task=gym:CartPole-v1", "--algorithm=ddqn"]
    assert "--max_frames=6000" in flags  # max_steps count those of each of the three members
    assert "env.scene.num_envs=24" in words
    assert cfg.seed == 7
    assert (cfg.population.size, cfg.population.tournament_size) == (3, 3)
    assert not cfg.population.elitism
    assert cfg.population.target_fitness == 480
    assert cfg.population.eval_episodes == 16  # two loops over eight environments
    assert cfg.num_steps_per_env * cfg.population.generation_iterations == 512 / 8
    agent = cfg.agent
    assert (agent["learning_rate"], agent["discount_factor"], agent["polyak"]) == (2e-3, 0.9, 0.01)
    assert (agent["batch_size"], agent["loss"], agent["grad_norm_clip"]) == (32, "mse", 0)
    assert agent["gradient_steps"] == 2  # 8 steps at once, and one gradient step for every 4
    assert agent["learning_starts"] == 5  # 120 steps of 24 environments
    assert agent["exploration_scheduler"] == "max(0.1, 1 * 0.99 ** timestep)"
    assert cfg.memory["memory_size"] == 5000
    odds = cfg.mutations
    assert (odds.no_mutation, odds.architecture, odds.new_layer_prob) == (0.1, 0.3, 0.5)
    assert (odds.parameters, odds.activation, odds.rl_hp, odds.mutation_sd) == (0.2, 0, 0.4, 0.3)
    assert odds.mutate_elite
    assert set(odds.rl_hp_selection) == {"lr", "gradient_steps"}
    assert odds.rl_hp_selection["lr"] == BoundsCfg(min=1e-5, max=1e-2)
    steps = odds.rl_hp_selection["gradient_steps"]
    wanted = {"min": 1, "max": 8, "shrink": 1 / 1.5, "grow": 1 / 0.75}
    assert vars(steps) == pytest.approx(wanted)
    network = cfg.network
    assert network.hidden_dims == [40, 48, 56]  # encoder, latent space and head
    assert network.activation == "elu"
    assert (network.min_layers, network.max_layers) == (3, 6)
    assert (network.min_units, network.max_units) == (16, 500)


def test_layers_are_normalised_and_begin_orthogonal_as_in_agilerl(composed):
    plain = DQN.replace(", layer_norm: true", "").replace(
        "activation: ELU,", "activation: ELU, layer_norm: false, init_layers: false,"
    )
    files = ((DQN, "ddqn", True), (plain, "ddqn", False), (OLDER, "td3", False))
    for text, algorithm, is_so in files:
        network = composed(text, algorithm)[2].network
        assert (network.layer_norm, network.orthogonal) == (is_so, is_so)


def test_ppos_batches_are_parts_of_its_rollout(composed, capsys):
    _, flags, cfg = composed(PPO, "ppo")
    agent = cfg.agent
    assert "--algorithm=ppo" in flags
    assert (agent["rollouts"], agent["mini_batches"], agent["learning_epochs"]) == (64, 4, 3)
    assert (agent["ratio_clip"], agent["value_clip"], agent["gae_lambda"]) == (0.3, 0.3, 0.9)
    assert (agent["entropy_loss_scale"], agent["value_loss_scale"]) == (0.02, 0.4)
    assert agent["grad_norm_clip"] == 0.7
    assert agent["observation_preprocessor"] is None
    assert cfg.population.generation_iterations == 4
    assert set(cfg.mutations.rl_hp_selection) == {"mini_batches"}
    bounds = cfg.mutations.rl_hp_selection["mini_batches"]
    assert (bounds.min, bounds.max) == (2, 16)
    output = capsys.readouterr().err
    assert "algorithm.target_kl has no effect: a member makes all of its epochs" in output
    assert "rl_hp_selection.learn_step does not evolve: rollouts are equally long" in output


def test_a_file_of_the_older_layout_means_the_same(composed, capsys):
    _, flags, cfg = composed(OLDER, "td3")
    agent, noise = cfg.agent, cfg.agent["exploration_noise_kwargs"]
    assert flags[:2] == ["--task=gym:LunarLanderContinuous-v3", "--algorithm=td3"]
    assert "--max_frames=2000" in flags
    assert (agent["policy_delay"], agent["gradient_steps"], agent["learning_rate"]) == (3, 2, 1e-3)
    assert agent["exploration_noise"] == "OrnsteinUhlenbeckNoise"
    # x += theta (0 - x) dt + sigma sqrt(dt) N
    assert (noise["theta"], noise["sigma"]) == pytest.approx((0.0015, 0.02))
    assert cfg.network.hidden_dims == [48, 32]
    assert cfg.network.activation == "tanh"
    assert set(cfg.mutations.rl_hp_selection) == {"lr"}
    output = capsys.readouterr().err
    assert "-v2 no longer exists; LunarLanderContinuous-v3 takes its place" in output
    assert "run.WANDB has no effect: add --logger=wandb" in output


def test_critics_learn_at_a_rate_of_their_own(composed):
    text = OLDER.replace("LR: 0.001", "LR_ACTOR: 0.001, LR_CRITIC: 0.004")
    agent = composed(text, "td3")[2].agent
    assert (agent["learning_rate"], agent["critic_learning_rate"]) == (0.001, 0.004)
    rates = {"learning_rate": 0.001, "critic_learning_rate": 0.004}
    for algorithm in ("ddpg", "td3", "sac"):
        member = Member.first(nursery(algorithm, values={"agent": rates}), 0)
        optimizers = {
            name.removesuffix("_optimizer"): module.param_groups[0]["lr"]
            for name, module in member.learner.agent.checkpoint_modules.items()
            if name.endswith("_optimizer")
        }
        expected = {"policy": 0.001, "critic": 0.004, "entropy": 0.001}
        assert optimizers == {name: expected[name] for name in optimizers}
        assert {"policy", "critic"} <= set(optimizers)


def test_a_dqn_that_learns_rarely_skips_steps(composed):
    text = DQN.replace("learn_step: 4", "learn_step: 32").replace("max: 8,", "max: 64,")
    cfg = composed(text, "ddqn")[2]
    assert (cfg.agent["update_interval"], cfg.agent["gradient_steps"]) == (4, 1)
    bounds = cfg.mutations.rl_hp_selection["learn_step"]
    assert (bounds.min, bounds.max, bounds.grow) == (1, 8, 1.5)


def test_words_next_to_the_file_win(composed):
    given = ["--population_size=2", "--num_envs=8", "--max_frames=99", "--algorithm=dqn"]
    words, flags, cfg = composed(DQN, "dqn", *given, "agent.agent.polyak=0.5")
    assert words[-1] == "agent.agent.polyak=0.5"
    assert cfg.agent["polyak"] == 0.5
    assert [flag for flag in flags if flag.startswith(("--max", "--alg"))] == given[2:]
    assert not any(word.startswith("env.scene.num_envs") for word in words)
    assert cfg.population.eval_episodes == 8  # two loops over the four environments of a member
    assert cfg.agent["gradient_steps"] == 1


def test_files_that_cannot_run_are_one_sentence(written, tmp_path):
    check_refusals(
        lambda old, new: prepare("train", [written(DQN.replace(old, new))]),
        [
            ("DQN", "RainbowDQN", "The nearest that does is double DQN: add --algorithm=ddqn"),
            ("DQN", "IPPO", "of several agents, MADDPG and MATD3 do"),
            ("DQN", "GRPO", "which tunes language models"),
            ("DQN", "DQM", "be one of DQN, DDPG, TD3, PPO, MADDPG, MATD3. Did you mean DQN"),
            ("name: DQN", "name: PPO, recurrent: true", "no recurrent networks"),
            ("batch_size: 32", "batch_size: many", "algorithm.batch_size in .* is 'many', but mus"),
            ("hidden_size: [40]", "hidden_size: wide", "must be a list of whole numbers"),
            ("min: 1e-5, max", "max", "rl_hp_selection.lr in .* must have min and max"),
            ("name: CartPole-v1", "entrypoint: my.py:Env", "Register the environment with Gymnas"),
            ("algorithm:", "algorithms:", "neither INIT_HP nor a section algorithm, but algorith"),
            ("algorithm: {name: DQN", "algorithm: DQN #", "algorithm in .* is 'DQN', but must be"),
            ("training: {", "training: 5\nx: {", "training in .* must be a dictionary"),
        ],
    )
    with pytest.raises(ConfigurationError, match=r"is a folder.*file\.yaml"):
        prepare("train", [f"--agilerl={tmp_path}"])
    flag = written(DQN)  # of which playing takes task and algorithm alone
    assert prepare("play", [flag]) == ["--task=gym:CartPole-v1", "--algorithm=ddqn", flag]


def test_a_file_of_several_agents_makes_a_crew(composed, capsys):
    agent = composed(SEVERAL, "maddpg", "--trust=tests")[2].agent
    assert "agents act by numbers" in capsys.readouterr().err
    assert (agent["learning_rate"], agent["critic_learning_rate"]) == (0.0002, 0.002)
    assert agent["exploration_noise"] == "OrnsteinUhlenbeckNoise"


def test_a_file_trains(written, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = ["--headless", "--device=cpu", "--max_frames=1200", "--lr_scaling=linear"]
    assert train("evolution", [written(DQN), *words, "agent.population.target_fitness=1"]) == 0
    run = only_run(tmp_path)
    assert load_yaml(run / "params/agent.yaml")["network"]["hidden_dims"] == [40, 48, 56]
    assert "3 members with 8 environments each" in capsys.readouterr().err
    assert len(json.loads((run / "lineage.json").read_text())[0]["members"]) == 3


@pytest.mark.parametrize(
    ("algorithm", "name", "task"),
    [
        ("DQN", f"{BAIT}:Bait-v0", f"gym:{BAIT}:Bait-v0"),
        ("MADDPG", BAIT, "gym:envlab_populations.crew:PettingZoo-v0"),
    ],
)
def test_a_files_environment_imports_a_strangers_module_only_if_it_is_trusted(
    algorithm: str, name: str, task: str, written, bait: None, capsys
):
    file = DQN.replace("name: DQN", f"name: {algorithm}").replace("CartPole-v1", name)
    flag = written(file.replace(", double: true", ""))
    for command in ("train", "config", "play", "export"):
        assert main([command, "evolution", flag, "--headless", "--device=cpu"]) == 2
        said = capsys.readouterr().err
        assert f"names code of {BAIT}, which no task or library here comes from" in said
        assert BAIT not in sys.modules
    assert f"--task={task}" in prepare("play", [flag, f"--trust={BAIT}"])
    # What the command line names may be imported.
    assert prepare("play", [flag, f"--task=gym:{BAIT}:Bait-v0"])


FILES = Path(__file__).parent / "peer_files"
KINDS: dict[str, tuple[str, int, int, dict[str, Any]]] = {
    "dqn_of_0_1": ("gym:CartPole-v1", 240, 2, {"agent.class": "DDQN"}),
    "dqn_multi_frequency": (
        *("gym:Acrobot-v1", 480, 2),
        {"agent.class": "DDQN", "population.size": 4},
    ),
    "ddpg_simba": (
        *("gym:HalfCheetah-v4", 100, 2),
        {"agent.exploration_noise": "GaussianNoise", "population.size": 1},
    ),
    "td3_of_2_0": (
        *("gym:LunarLanderContinuous-v3", 300, 3),
        {"agent.class": "TD3", "agent.policy_delay": 3, "network.hidden_dims": [20, 24, 16]},
    ),
    "ppo_continuous": (
        *("gym:InvertedPendulum-v4", 320, 2),
        {"agent.class": "PPO", "agent.rollouts": 20, "network.activation": "tanh"},
    ),
    "matd3": (
        *("gym:envlab_populations.crew:PettingZoo-v0", 200, 2),
        {"agent.class": "MATD3", "agent.policy_delay": 2},
    ),
}
"""By file: the task, frames of all members, generations, and a value in ``params/agent.yaml``."""


@pytest.mark.long
@pytest.mark.parametrize("name", KINDS)
def test_a_file_trains_as_it_says(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    if name == "matd3":
        pytest.importorskip("mpe2", reason="needs mpe2: pip install -e '.[pettingzoo]'")
    task, frames, generations, honoured = KINDS[name]
    monkeypatch.chdir(tmp_path)
    words = [f"--agilerl={FILES / name}.yaml", "--headless", "--device=cpu"]
    assert train("evolution", words) == 0
    run = only_run(tmp_path)
    last, manifest = metrics_of(run)[-1], manifest_of(run)
    assert (manifest["status"], last["frames"]) == ("finished", frames)
    assert manifest["task"] == task
    losses = [value for tag, value in last["losses"].items() if tag.startswith("Loss")]
    assert losses
    assert all(value is not None and math.isfinite(value) for value in losses)
    values = load_yaml(run / "params/agent.yaml")
    for path, expected in honoured.items():
        assert functools.reduce(operator.getitem, path.split("."), values) == expected
    assert len(json.loads((run / "lineage.json").read_text())) == generations
