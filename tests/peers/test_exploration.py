"""Every algorithm of every library explores while it trains, and not while it is evaluated."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from envlab.config import merge
from envlab.distributed.context import DistributedContext
from envlab.fast_sac.cfg import FastSacCfg
from envlab.libraries import get_library, libraries
from envlab.registry import get_task, load_env_cfg
from envlab.rl_games.cfg import RlGamesCfg
from envlab.rsl_rl.cfg import RslRlCfg
from envlab.run.checkpoints import of_leader
from envlab.skrl.cfg import SkrlCfg
from envlab.skrl.library import ALGORITHMS
from envlab.training.arguments import train_parser
from envlab.training.plan import Start
from envlab_navigation.ddppo.cfg import DdppoCfg
from envlab_populations.evolution import cfg as evolution
from envlab_populations.hogwild import cfg as hogwild
from tests.scripted import ScriptedEnv
from tests.small_runs import env_of

NUM_ENVS = 64
SCALE = 2.0
"""Half the range of the actions."""
WHEN = {"timestep": 500, "timesteps": 1000}
"""After all random steps, and where a schedule is half through."""
ON_JAX = ("ppo", "a2c", "sac", "td3", "ddpg", "dqn", "ddqn", "ippo", "mappo")
TRAINED = [
    ("rsl_rl", "ppo"),
    ("fast_sac", "soft"),
    *(("rl_games", name) for name in ("a2c_continuous", "a2c_discrete", "sac")),
    *(("skrl", name) for name in ALGORITHMS),
    *(("skrl_jax", name) for name in ON_JAX),
    ("ddppo", "ppo"),
    *(("hogwild", name) for name in hogwild.ALGORITHMS),
    *(("evolution", name) for name in evolution.ALGORITHMS),
]


def agent_cfg(library: str, algorithm: str) -> Any:
    """Return the settings of a run without a task's own."""
    flags = SimpleNamespace(algorithm=algorithm)
    if library == "rsl_rl":
        return RslRlCfg()
    if library == "rl_games":
        network = RlGamesCfg().params.network | {"space": {"discrete": None}}
        words = {
            "a2c_continuous": {},
            "a2c_discrete": {"model": {"name": "discrete_a2c"}, "network": network},
            "sac": SAC,
        }
        given: dict[str, Any] = {"algo": {"name": algorithm}, "env": {"clip_actions": SCALE}}
        given["config"] = {"minibatch_size": 16 * NUM_ENVS, "replay_buffer_size": 100}
        return RlGamesCfg().with_task_values({"params": given | words[algorithm]})
    if library == "fast_sac":
        return FastSacCfg()
    if library == "ddppo":
        model = {"memory": "none", "sees_last_action": False}  # else actions differ for a reason
        return merge(DdppoCfg(), {"model": model}, "agent")
    if library.startswith("skrl"):
        framework = "jax" if library == "skrl_jax" else "torch"
        given = AMP if algorithm == "amp" else {}
        return SkrlCfg.of(algorithm, framework).with_task_values(given).resolved()
    cfg = (hogwild if library == "hogwild" else evolution).default_cfg(flags)
    return cfg.resolved() if library == "hogwild" else cfg.with_task_values({})


MLP = {"units": [8], "activation": "relu", "initializer": {"name": "default"}}
SAC = {
    "model": {"name": "soft_actor_critic"},
    "network": {
        **{"name": "soft_actor_critic", "separate": True, "space": {"continuous": {}}},
        **{"mlp": MLP, "log_std_bounds": [-5, 2]},
    },
}


AMP = {
    "agent": {"class": "AMP", "rollouts": 8, "learning_epochs": 2, "amp_batch_size": 32},
    "motion_dataset": {"class": "RandomMemory", "memory_size": 64},
    "reply_buffer": {"class": "RandomMemory", "memory_size": 128},
}


class MotionEnv:
    """Cartpole whose motion to imitate is to stand still."""

    def __init__(self) -> None:
        self._env = env_of(num_envs=16, seed=3)
        self.amp_observation_space = spaces.Box(-np.inf, np.inf, (4,))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._env, name)

    def step(self, actions: torch.Tensor) -> tuple[Any, ...]:
        obs, reward, terminated, truncated, info = self._env.step(actions)
        return obs, reward, terminated, truncated, {**info, "amp_obs": obs["policy"].clone()}

    def collect_reference_motions(self, num_samples: int) -> torch.Tensor:
        return 0.01 * torch.randn(num_samples, 4)


def environment(library: str, algorithm: str) -> Any:
    """Return environments that are all in one state, of a kind that the algorithm takes."""
    if algorithm in ("ippo", "mappo"):
        return env_of("Isaac-Cart-Double-Pendulum-Direct-v0", NUM_ENVS)
    if algorithm == "amp":
        return MotionEnv()
    if algorithm in ("maddpg", "matd3"):
        crew = {"environment": "tests.populations.evolution.meeting"}
        task = get_task("gym:envlab_populations.crew:PettingZoo-v0")
        cfg = merge(load_env_cfg(task), {"kwargs": crew, "seed": 1}, "env")
        return task.make(cfg, num_envs=NUM_ENVS, context=DistributedContext.single("cpu"), seed=1)
    is_choice = algorithm in ("dqn", "ddqn", "cem", "a2c_discrete")
    space = spaces.Discrete(4) if is_choice else spaces.Box(-SCALE, SCALE, (2,), np.float32)
    return ScriptedEnv(num_envs=NUM_ENVS, space=space, num_obs=3)


def made(
    library: str, algorithm: str, env: Any = None
) -> tuple[Any, Callable[[], Any], Callable[[], Any]]:
    """Return a learner, and functions that act in the current state in training and evaluation."""
    torch.manual_seed(0)
    env, context = env or environment(library, algorithm), DistributedContext.single("cpu")
    found = get_library("skrl" if library == "skrl_jax" else library)
    plan = SimpleNamespace(
        agent_cfg=agent_cfg(library, algorithm),
        flags=train_parser(found).parse_args(["--task=Isaac-Cartpole-v0", "--device=cpu"]),
        task=SimpleNamespace(make=lambda *_, **__: env),
        env_cfg=env.cfg,
        start=Start(),
        learning_context=lambda context: context,
    )
    learner = found.load("build")(plan, env, context)
    values = of_leader({"model": learner.model_state(), "ranks": []})
    player = found.load("player")(plan, env, context, values)
    learner.start(10)
    acts = {
        "rsl_rl": lambda: learner.alg.act(learner.env.get_observations()),
        "rl_games": lambda: (
            learner.agent.act(env.obs_buf["policy"], (2,), sample=True)
            if algorithm == "sac"
            else learner.agent.get_action_values(learner.agent.obs)["actions"]
        ),
        # private: in training it acts within a step that also learns
        "ddppo": lambda: learner._step(learner.model.prepare(env.obs_buf))[0].distribution.sample(),
        "fast_sac": lambda: learner.actor(learner.scalers["obs"](env.obs_buf["policy"]))[0],
        "evolution": lambda: learner.members[0].learner.agent.act(
            env.obs_buf["policy"], None, **WHEN
        )[0],
    }
    act = acts.get(library, lambda: learner.agent.act(*learner.env.observe(), **WHEN)[0])
    seen = env.obs_buf
    if algorithm in ("ippo", "mappo"):  # a player sees all agents as one
        seen = {"policy": torch.cat([seen[name] for name in env.possible_agents], dim=1)}
    return learner, act, lambda: player.act(seen)


def plain(actions: Any) -> np.ndarray:
    """Return actions of any kind, all agents' together."""
    parts = actions.values() if isinstance(actions, dict) else [actions]
    return np.concatenate([np.asarray(part) for part in parts], axis=-1)


def test_no_library_is_left_out():
    clones = {"bc"}  # which does not explore
    assert {name.removesuffix("_jax") for name, _ in TRAINED} == set(libraries()) - clones


BY_LIBRARY: list[Any] = [
    (library, [name for owner, name in TRAINED if owner == library])
    for library in dict.fromkeys(library for library, _ in TRAINED if library != "skrl_jax")
]
BY_LIBRARY.append(pytest.param("skrl_jax", ON_JAX, marks=pytest.mark.long))


@pytest.mark.parametrize(("library", "algorithms"), BY_LIBRARY)
def test_actions_vary_in_training_and_not_in_evaluation(library: str, algorithms: list[str]):
    if library == "skrl_jax":
        pytest.importorskip("flax", reason="needs flax: pip install -e '.[jax]'")
    for algorithm in algorithms:
        with contextlib.closing(environment(library, algorithm)) as env, torch.no_grad():
            _, act, evaluate = made(library, algorithm, env)
            first, second = plain(act()).copy(), plain(act()).copy()
            assert not np.array_equal(first, second), algorithm
            np.testing.assert_array_equal(plain(evaluate()), plain(evaluate()), algorithm)


def agent_of(library: str, algorithm: str) -> Any:
    if library == "skrl_jax":
        pytest.importorskip("flax", reason="needs flax: pip install -e '.[jax]'")
    learner, _, _ = made(library, algorithm)
    return learner.members[0].learner.agent if library == "evolution" else learner.agent


def all_of(*algorithms: str) -> list[tuple[str, str]]:
    """Return who trains by these; of skrl on JAX, which is as on PyTorch, TD3 alone."""
    apart = [("skrl_jax", name) for name in ON_JAX if name != "td3"]
    return [pair for pair in TRAINED if pair[1] in algorithms and pair not in apart]


@pytest.mark.parametrize(("library", "algorithm"), all_of("ddpg", "td3"))
def test_ddpg_and_td3_have_the_noise_of_their_papers(library: str, algorithm: str):
    """Of shares of half the range of the actions; skrl's own is in the units of the actions."""
    agent = agent_of(library, algorithm)
    unit = 1.0 if library.startswith("skrl") else SCALE
    # private: skrl's agents keep their noises to themselves
    noise = np.asarray(agent._exploration_noise.sample((20_000, 2)))
    assert noise.std(axis=0) == pytest.approx([0.1 * unit] * 2, rel=0.03)
    if algorithm == "td3":
        clip = agent.cfg.smooth_regularization_clip
        # private: as above
        smoothing = agent._smooth_regularization_noise.sample((20_000, 2))
        smoothing = np.asarray(smoothing).clip(-clip, clip)
        assert smoothing.std(axis=0) == pytest.approx([0.2 * unit] * 2, rel=0.03)
        assert float(abs(smoothing).max()) == pytest.approx(0.5 * unit)
        assert agent.cfg.policy_delay == 2


def test_dqn_begins_with_random_choices_and_ends_with_few():
    for library, algorithm in all_of("dqn", "ddqn"):
        epsilon = agent_of(library, algorithm).cfg.exploration_scheduler
        values = [epsilon(timestep, 10_000) for timestep in range(0, 10_001, 1000)]
        assert values == sorted(values, reverse=True)
        assert values[0] == 1.0
        assert 0.0 < values[-1] <= 0.05
        assert values == [epsilon(timestep, 1000) for timestep in range(0, 1001, 100)]  # a share
        assert 0.4 < epsilon(500, 10_000) < 1.0  # not at once, either


def test_sac_tunes_its_entropy_to_minus_the_number_of_actions():
    for library, algorithm in all_of("sac"):
        agent = agent_of(library, algorithm)
        if library == "rl_games":
            assert agent.learnable_temperature
            assert agent.log_alpha.requires_grad
            assert agent.target_entropy == -2.0
        else:
            assert agent.cfg.learn_entropy
            assert agent._target_entropy == -2.0  # private: skrl has no other face for it


def test_fast_sac_tunes_its_entropy_to_that_of_a_small_deviation():
    """Of 0.15 for each of two actions: ln(0.15) + 0.5 ln(2 pi e) = -0.478182."""
    learner, _, _ = made("fast_sac", "soft")
    assert learner.critics.log_temperature.requires_grad
    # private: a temperature that follows it would take long to arrive.
    assert learner._target_entropy == pytest.approx(2 * -0.478182, abs=1e-5)
