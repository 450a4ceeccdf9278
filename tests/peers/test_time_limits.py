"""Returns of each library at a time limit, by hand-computed numbers.

Three environments make three steps, of reward 1 each, with discount and lambda 0.5. After the
second step, the first continues, the second terminates, and a time limit ends the third. Critics
have known values: without memory, the value of a state is its observation.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

from envlab.config import merge
from envlab.distributed.context import DistributedContext
from envlab.envs.batched_env import Step
from envlab.rl_games.cfg import MLP, RlGamesCfg
from envlab.rl_games.learner import RlGamesLearner
from envlab.rsl_rl.cfg import RslRlCfg
from envlab.rsl_rl.collection import collect
from envlab.rsl_rl.learner import RslRlLearner
from envlab.skrl.agents import agent_class
from envlab.skrl.cfg import SkrlCfg
from envlab.skrl.library import ON_POLICY
from envlab.skrl.torch.learner import make_learner
from envlab.skrl.torch.ranks import pooled_advantages
from envlab_navigation.ddppo.build import model_of, pipeline_of
from envlab_navigation.ddppo.cfg import DdppoCfg
from envlab_navigation.ddppo.learner import DdppoLearner
from envlab_navigation.ddppo.preemption import Preemption
from envlab_populations.hogwild.agents import _session_class  # private: a class by algorithm
from envlab_populations.hogwild.cfg import HogwildCfg
from tests.populations.evolution.populations import nursery
from tests.scripted import GOES_ON, TERMINATED, TIME_LIMIT, ScriptedEnv

ENDS = [[GOES_ON] * 3, [GOES_ON, TERMINATED, TIME_LIMIT], [GOES_ON] * 3]
VALUES = (2.0, 4.0, 8.0, 16.0)
"""Of the states, by steps; that of the state in which a next episode begins is 100."""
GOING_ON = [3.3125, 5.25, 9.0]
"""Advantages 1 + 0.5 * 16 - 8 = 1, 1 + 0.5 * 8 - 4 + 0.25 * 1 = 1.25, 1 + 0.5 * 4 - 2 + 0.25 * 1.25
= 1.3125; and returns are these plus the values."""
ENDED = [2.25, 1.0, 9.0]
"""Advantages 1 - 4 = -3 and 1 + 0.5 * 4 - 2 + 0.25 * -3 = 0.25; then 1 + 0.5 * 16 - 100 = -91."""
BOOTSTRAPPED = [3.25, 5.0, 9.0]
"""Advantages 1 + 0.5 * 8 - 4 = 1, from the final state's value, and 1 + 0.5 * 4 - 2 + 0.25 * 1."""

# A memory of one number, which a state's observation 20 moves by half its way to tanh(20) = 1, and
# 0, of the state in which a next episode begins, to 0. The value of a state is the memory after it:
# 0.5, 0.75, 0.875, 0.9375; and 0, 0.5 where an episode ended.
MEMORY = (20.0,)
REMEMBERED_GOING_ON = [1.583984375, 1.5859375, 1.46875]
"""Advantages 1 + 0.5 * 0.9375 - 0.875 = 0.59375, 1 + 0.5 * 0.875 - 0.75 + 0.25 * 0.59375 =
0.8359375, 1 + 0.5 * 0.75 - 0.5 + 0.25 * 0.8359375 = 1.083984375."""
REMEMBERED_ENDED = [1.4375, 1.0, 1.25]
"""Advantages 1 - 0.75 = 0.25, 0.875 + 0.25 * 0.25 = 0.9375; then 1 + 0.5 * 0.5 - 0 = 1.25."""
REMEMBERED_BOOTSTRAPPED = [1.546875, 1.4375, 1.25]
"""Advantages 1 + 0.5 * 0.875 - 0.75 = 0.6875, 0.875 + 0.25 * 0.6875 = 1.046875."""


def env(*, recurrent: bool = False) -> ScriptedEnv:
    observed, begun = (MEMORY, 0.0) if recurrent else (VALUES, 100.0)
    return ScriptedEnv(observed, ENDS, begun=begun)


def expected(*, bootstraps: bool, recurrent: bool = False) -> torch.Tensor:
    """Return the returns of three steps, ``(3, num_envs)``."""
    if recurrent:
        last = REMEMBERED_BOOTSTRAPPED if bootstraps else REMEMBERED_ENDED
        rows = [REMEMBERED_GOING_ON, REMEMBERED_ENDED, last]
    else:
        rows = [GOING_ON, ENDED, BOOTSTRAPPED if bootstraps else ENDED]
    return torch.tensor(rows).T


@torch.no_grad()
def pass_through(critic: nn.Module) -> None:
    """Have layers of one unit pass on their input; a GRU of one moves half the way to it."""
    for name, values in critic.named_parameters():
        values.zero_()
        if any(part in name for part in ("bias", "weight_hh", "memory.hidden")):
            continue
        is_gru = "weight_ih" in name or "memory.input" in name
        (values[-1:] if is_gru else values).fill_(1.0)


@pytest.mark.parametrize("recurrent", [False, True])
def test_rsl_rl_bootstraps_from_the_final_state(recurrent: bool):
    critic = {"hidden_dims": [1], "activation": "elu"}
    if recurrent:
        critic |= {"class_name": "RNNModel", "rnn_type": "gru", "rnn_hidden_dim": 1}
        critic |= {"rnn_num_layers": 1}
    actor = {**critic, "distribution_cfg": RslRlCfg().actor.distribution_cfg}
    values = {"num_steps_per_env": 3, "critic": critic, "actor": actor}
    values |= {"algorithm": {"gamma": 0.5, "lam": 0.5}}
    cfg = merge(RslRlCfg(), values, "agent")
    learner = RslRlLearner(env(recurrent=recurrent), cfg, DistributedContext.single("cpu"))
    alg = learner.alg
    pass_through(alg.critic)
    with torch.no_grad():
        collect(learner.env, alg, cfg, lambda *_: None)
        wanted = expected(bootstraps=True, recurrent=recurrent)
        torch.testing.assert_close(alg.storage.returns[..., 0], wanted)
        alg.storage.clear()
        collect(learner.env, alg, cfg, lambda *_: None)  # begins where the memory was left
    first = alg.storage.values[0, 0, 0]
    assert float(first) == pytest.approx(0.9375 if recurrent else 16.0)


@pytest.mark.parametrize("bootstraps", [True, False])
@pytest.mark.parametrize("memory", [None, "shared", "central"])
def test_rl_games_bootstraps_from_the_final_state_by_value_bootstrap(
    memory: str | None, bootstraps: bool
):
    network: dict[str, Any] = {"mlp": {**MLP, "units": [1]}}
    if memory is not None:
        network["rnn"] = {"name": "gru", "units": 1, "layers": 1}
    config: dict[str, Any] = {"horizon_length": 3, "seq_length": 3, "minibatch_size": 9}
    config |= {"gamma": 0.5, "tau": 0.5, "value_bootstrap": bootstraps}
    params: dict[str, Any] = {"network": RlGamesCfg().params.network | network}
    if memory == "central":
        central = {"name": "actor_critic", "central_value": True, **network}
        sizes = {"minibatch_size": 9, "normalize_input": False}
        config["central_value_config"] = {"network": central, **sizes}
        params["env"] = {"obs_groups": {"obs": ["policy"], "states": ["policy"]}}
    cfg = RlGamesCfg().with_task_values({"params": {**params, "config": config}})
    is_recurrent = memory is not None
    context = DistributedContext.single("cpu")
    learner = RlGamesLearner(env(recurrent=is_recurrent), cfg, context, grad_sync="ddp")
    agent = learner.agent
    pass_through(agent.central_value_net.model if memory == "central" else agent.model)
    learner.start(1)
    play = agent.play_steps_rnn if is_recurrent else agent.play_steps
    with torch.no_grad():
        returns = play()["returns"].view(3, 3).T  # of the first environment first
        wanted = expected(bootstraps=bootstraps, recurrent=is_recurrent)
        torch.testing.assert_close(returns, wanted)
        play()  # begins where the memory was left
    first = agent.experience_buffer.tensor_dict["values"][0, 0, 0]
    assert float(first) == pytest.approx(0.9375 if is_recurrent else 16.0)


def skrl_cfg(algorithm: str, bootstraps: bool, ml_framework: str = "torch") -> SkrlCfg:
    """Return a configuration whose value network has layers of one unit."""
    cfg = SkrlCfg.of(algorithm, ml_framework)
    cfg.models["value"]["network"][0]["layers"] = [1]
    settings = {"rollouts": 3, "mini_batches": 1, "discount_factor": 0.5, "gae_lambda": 0.5}
    settings |= {"time_limit_bootstrap": bootstraps}
    return merge(cfg, {"agent": settings, "models": {"separate": True}}, "agent").resolved()


@pytest.mark.parametrize("algorithm", ["ppo", "a2c", "rpo", "trpo"])
def test_skrl_bootstraps_from_the_final_state_by_time_limit_bootstrap(algorithm: str):
    for bootstraps in (True, False):
        cfg = skrl_cfg(algorithm, bootstraps)
        learner = make_learner(env(), cfg, DistributedContext.single("cpu"))
        pass_through(learner.agent.value)
        learner.start(1)
        learner.iterate(1, lambda *_: None)
        returns = learner.agent.memory.get_tensor_by_name("returns")[..., 0]
        torch.testing.assert_close(returns, expected(bootstraps=bootstraps))


def test_all_agents_based_on_skrls_end_their_advantages_at_a_time_limit():
    """Also members and sessions; skrl adds the final state's value to the reward itself."""
    context = DistributedContext.single("cpu")
    pooled = {"compute_gae": functools.partial(pooled_advantages, context=context)}
    classes = [agent_class(name, "torch", pooled) for name in ON_POLICY if name != "cem"]
    # private: the classes of members and sessions, by their algorithms.
    classes.append(nursery("ppo")._agent_class("ppo"))
    for algorithm in ("ppo", "a2c"):
        classes.append(_session_class(HogwildCfg(algorithm=algorithm), context, None))
    ends = torch.tensor(ENDS).unsqueeze(2)
    values = torch.tensor(VALUES[:3]).repeat(3, 1).T.clone()
    values[2, 1:] = 100.0
    for kind in classes:
        for bootstraps in (True, False):
            rewards = torch.ones(3, 3, 1)
            rewards[1, 2] += 0.5 * VALUES[2] * bootstraps
            returns, _ = kind.update.__globals__["compute_gae"](
                rewards=rewards,
                terminated=ends == TERMINATED,
                truncated=ends == TIME_LIMIT,
                values=values.unsqueeze(2),
                last_values=torch.full((3, 1), VALUES[3]),
                discount_factor=0.5,
                lambda_coefficient=0.5,
                time_limit_bootstrap=bootstraps,
            )
            torch.testing.assert_close(returns[..., 0], expected(bootstraps=bootstraps))


STYLE_OF_ONE = 1.0 / math.log(2.0)
"""The scale with which AMP's reward for style, -log(1 - 0.5) where the discriminator says 0, is 1.
"""


class ScriptedMotions(ScriptedEnv):
    """With the clip and the observations of motion that AMP needs."""

    amp_observation_space = spaces.Box(-np.inf, np.inf, (1,))

    def step(self, actions: torch.Tensor | np.ndarray) -> Step:
        obs, reward, terminated, truncated, info = super().step(actions)
        return obs, reward, terminated, truncated, info | {"amp_obs": obs["policy"].clone()}

    def collect_reference_motions(self, num_samples: int) -> torch.Tensor:
        return torch.zeros(num_samples, 1)


def returns_of_amp(
    made: ScriptedMotions, scales: tuple[float, float], **settings: Any
) -> torch.Tensor:
    """Return AMP's returns of a rollout, whose value of a state is the observation."""
    cfg = SkrlCfg.of("amp")
    cfg.models["value"]["network"][0]["layers"] = [1]
    task, style = scales
    agent = {"rollouts": 3, "mini_batches": 1, "discount_factor": 0.5, "gae_lambda": 0.5}
    agent |= {"task_reward_scale": task, "style_reward_scale": style, "amp_batch_size": 9}
    cfg = merge(cfg, {"agent": agent | settings}, "agent").resolved()
    learner = make_learner(made, cfg, DistributedContext.single("cpu"))
    pass_through(learner.agent.value)
    for values in learner.agent.discriminator.parameters():
        values.data.zero_()
    learner.start(1)
    learner.iterate(1, lambda *_: None)
    return learner.agent.memory.get_tensor_by_name("returns")[..., 0]


def test_skrls_amp_always_bootstraps_from_the_final_state():
    """However the reward of 1 is made up of the task's and the discriminator's."""
    for scales in ((1.0, 0.0), (0.0, STYLE_OF_ONE), (0.5, STYLE_OF_ONE / 2)):
        for bootstraps in (True, False):
            made = ScriptedMotions(VALUES, ENDS, begun=100.0)
            returns = returns_of_amp(made, scales, time_limit_bootstrap=bootstraps)
            torch.testing.assert_close(returns, expected(bootstraps=True))


def test_skrls_amp_returns_100_where_a_state_of_value_100_ends_by_time():
    """1 + 0.99 * 100 = 100, as in skrl 1.4.3, and not 1, as for an end by failure."""
    ends = [[GOES_ON, TERMINATED, TIME_LIMIT]] + [[GOES_ON] * 3] * 2
    made = ScriptedMotions((100.0,) * 4, ends, begun=100.0)
    returns = returns_of_amp(made, (0.0, STYLE_OF_ONE), discount_factor=0.99, gae_lambda=0.0)
    torch.testing.assert_close(returns[0], torch.tensor([100.0, 1.0, 100.0]))


@pytest.mark.long
@pytest.mark.parametrize(("algorithm", "bootstraps"), [("a2c", True), ("ppo", False)])
def test_skrl_on_jax_bootstraps_as_on_torch(algorithm: str, bootstraps: bool):
    pytest.importorskip("flax", reason="needs flax: pip install -e '.[jax]'")
    import jax

    from envlab.skrl.jax import learner as on_jax

    cfg = skrl_cfg(algorithm, bootstraps, "jax")
    learner = on_jax.make_learner(env(), cfg, DistributedContext.single("cpu"))
    critic = learner.agent.value
    passing = jax.tree_util.tree_map_with_path(
        lambda path, leaf: leaf * 0.0 + float("kernel" in str(path)), critic.state_dict.params
    )
    critic.state_dict = critic.state_dict.replace(params=passing)
    learner.start(1)
    learner.iterate(1, lambda *_: None)
    returns = torch.from_dlpack(learner.agent.memory.tensors["returns"])[..., 0]
    torch.testing.assert_close(returns, expected(bootstraps=bootstraps))
    names = [name for name in on_jax.ALGORITHMS if name in ON_POLICY]
    found = [agent_class(name, "jax", {"_compute_gae": lambda _: "own"}) for name in names]
    assert {kind.update.__globals__["_compute_gae"] for kind in found} == {"own"}


@pytest.mark.parametrize("recurrent", [False, True])
def test_ddppo_bootstraps_from_the_final_state(recurrent: bool):
    model = {"vector_dims": [1], "hidden_dim": 1, "memory": "gru" if recurrent else "none"}
    model |= {"sees_last_action": False, "obs_normalization": False}
    algorithm = {"gamma": 0.5, "lam": 0.5}
    values = {"num_steps_per_env": 3, "model": model, "algorithm": algorithm}
    cfg, context = merge(DdppoCfg(), values, "agent"), DistributedContext.single("cpu")
    made = env(recurrent=recurrent)
    parts = {"model": model_of(cfg, made, context), "pipeline": pipeline_of(cfg)}
    learner = DdppoLearner(made, cfg, context, **parts, preemption=Preemption(context))
    pass_through(learner.model)
    stage = learner.pipeline.stage
    # private: returns are seen before the learner learns from them, and forgets them.
    learner._collect(stage, 1, lambda *_: None)
    returns = learner._rollouts._finished["returns"]  # private: learning forgets them
    torch.testing.assert_close(returns, expected(bootstraps=True, recurrent=recurrent))
    # private: begins where the memory was left
    learner._collect(stage, 2, lambda *_: None)
    first = learner._rollouts["values"][0, 0]  # private: as above
    assert float(first) == pytest.approx(0.9375 if recurrent else 16.0)
