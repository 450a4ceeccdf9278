"""Advantages, PPO and A2C are those of other libraries on one batch, gradients included."""

from __future__ import annotations

import functools
import itertools
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from rl_games.common.a2c_common import A2CBase
from rsl_rl.algorithms import PPO as RslRlPPO
from torch import nn

pytest.importorskip("stable_baselines3", reason="needs stable-baselines3: pip install -e '.[test]'")

import stable_baselines3 as sb3
from gymnasium import spaces
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.logger import configure
from stable_baselines3.common.type_aliases import RolloutBufferSamples
from tensordict import TensorDict

from envlab.config import merge
from envlab.distributed.context import DistributedContext
from envlab.rsl_rl.cfg import RslRlCfg
from envlab.rsl_rl.collection import collect
from envlab.rsl_rl.learner import RslRlLearner
from envlab.skrl.agents import agent_class
from envlab.skrl.torch.ranks import pooled_advantages
from envlab_navigation.ddppo.distributions import Gaussian
from envlab_navigation.ddppo.losses import PPO
from envlab_navigation.ddppo.storage import Batch, Output, Rollouts
from tests.peers.test_exploration import SCALE, agent_of
from tests.peers.test_off_policy import Keeping, Still, assert_equal, optimizers
from tests.scripted import GOES_ON, TERMINATED, TIME_LIMIT, ScriptedEnv

GAMMA, LAMBDA, STEPS = 0.9, 0.8, 4
TOLERANCE = {"rtol": 1e-4, "atol": 1e-6}


class Steps:
    """Four steps, with terminations and time limits in every position: 81 environments."""

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(2)
        happens = itertools.product((GOES_ON, TERMINATED, TIME_LIMIT), repeat=STEPS)
        ends = torch.tensor(list(happens)).T
        self.terminated, self.truncated = ends == TERMINATED, ends == TIME_LIMIT
        self.ended = self.terminated | self.truncated
        self.values, final = torch.randn(2, *ends.shape, generator=generator)
        self.last_values = torch.randn(ends.shape[1], generator=generator)
        self.rewards = torch.randn(ends.shape, generator=generator)
        self.rewards += GAMMA * final * self.truncated  # as all do who bootstrap

    def rsl_rl(self) -> torch.Tensor:
        shaped = {name: getattr(self, name).unsqueeze(2) for name in ("values", "rewards", "ended")}
        storage = SimpleNamespace(
            num_transitions_per_env=STEPS,
            returns=torch.zeros_like(shaped["values"]),
            dones=shaped.pop("ended"),
            **shaped,
        )

        class Critic:
            reset = staticmethod(lambda **_: None)
            get_hidden_state = staticmethod(lambda: None)

            def __call__(critic, obs: Any) -> torch.Tensor:
                return self.last_values.unsqueeze(1)

        settings = {"gamma": GAMMA, "lam": LAMBDA, "normalize_advantage_per_mini_batch": True}
        peer = SimpleNamespace(storage=storage, critic=Critic(), **settings)
        RslRlPPO.compute_returns(peer, None)
        return storage.returns[..., 0]

    def rl_games(self) -> torch.Tensor:
        peer = SimpleNamespace(horizon_length=STEPS, gamma=GAMMA, tau=LAMBDA)
        values, rewards = self.values.unsqueeze(2), self.rewards.unsqueeze(2)
        before = torch.cat([torch.zeros(1, self.ended.shape[1]), self.ended[:-1].float()])
        advantages = A2CBase.discount_values(
            peer, self.ended[-1].float(), self.last_values.unsqueeze(1), before, values, rewards
        )
        return (advantages + values)[..., 0]

    def stable_baselines3(self) -> torch.Tensor:
        num_envs = self.ended.shape[1]
        space = spaces.Box(-1.0, 1.0, (1,), np.float32)
        buffer = RolloutBuffer(STEPS, space, space, "cpu", LAMBDA, GAMMA, num_envs)
        buffer.reset()
        buffer.rewards, buffer.values = self.rewards.numpy(), self.values.numpy()
        buffer.episode_starts[1:] = self.ended[:-1].numpy()
        buffer.compute_returns_and_advantage(self.last_values, self.ended[-1].numpy())
        return torch.from_numpy(buffer.returns)

    def ddppo(self) -> torch.Tensor:
        rollouts = Rollouts(STEPS)
        rollouts.begin(torch.zeros(self.ended.shape[1], 1))
        for step in range(STEPS):
            names = ("rewards", "values", "ended")
            rollouts.add({}, **{name: getattr(self, name)[step] for name in names})
        return rollouts.finish(self.last_values, GAMMA, LAMBDA) + self.values

    def skrl(self, *, bootstraps: bool, jax: bool = False) -> torch.Tensor:
        names = ("rewards", "values", "terminated", "truncated", "last_values")
        given = {name: getattr(self, name).unsqueeze(-1) for name in names}
        settings = {"discount_factor": GAMMA, "lambda_coefficient": LAMBDA}
        context = DistributedContext.single("cpu")
        if jax:
            from envlab.skrl.jax.arrays import to_jax, to_torch
            from envlab.skrl.jax.ranks import compute_advantages

            given = {name: to_jax(values) for name, values in given.items()}
            returns, _ = compute_advantages(
                context, time_limit_bootstrap=bootstraps, **given, **settings
            )
            return to_torch(returns)[..., 0]
        pooled = {"compute_gae": functools.partial(pooled_advantages, context=context)}
        own = agent_class("ppo", "torch", pooled).update.__globals__["compute_gae"]
        return own(time_limit_bootstrap=bootstraps, **given, **settings)[0][..., 0]


@pytest.mark.parametrize("peer", ["rsl_rl", "rl_games", "stable_baselines3"])
@pytest.mark.parametrize("own", ["ddppo", "skrl", "skrl_jax"])
def test_returns_are_those_of_three_libraries_wherever_episodes_end(own: str, peer: str):
    steps = Steps()
    wanted = getattr(steps, peer)()
    if own == "ddppo":
        torch.testing.assert_close(steps.ddppo(), wanted, **TOLERANCE)
        return
    if own == "skrl_jax":
        pytest.importorskip("flax", reason="needs flax: pip install -e '.[jax]'")
    for bootstraps in (True, False):  # the value was added to the rewards before, or was not
        found = steps.skrl(bootstraps=bootstraps, jax=own == "skrl_jax")
        torch.testing.assert_close(found, wanted, **TOLERANCE)


@pytest.mark.parametrize("is_clipped", [True, False])
def test_ppo_of_ddppo_learns_the_same_as_rsl_rls(is_clipped: bool):
    """From one rollout of rsl_rl, after its policy has moved on."""
    torch.manual_seed(0)
    space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
    env = ScriptedEnv(torch.randn(20).tolist(), num_envs=8, space=space, num_obs=3)
    network = {"hidden_dims": [16], "activation": "elu"}
    actor = {**network, "distribution_cfg": RslRlCfg().actor.distribution_cfg}
    algorithm = {
        **{"num_learning_epochs": 1, "num_mini_batches": 1, "optimizer": "sgd"},
        **{"learning_rate": 1e-9, "schedule": "fixed", "max_grad_norm": 1e9},
        **{"value_loss_coef": 0.7, "entropy_coef": 0.02, "use_clipped_value_loss": is_clipped},
    }
    values = {"num_steps_per_env": 16, "actor": actor, "critic": network, "algorithm": algorithm}
    cfg = merge(RslRlCfg(), values, "agent")
    learner = RslRlLearner(env, cfg, DistributedContext.single("cpu"))
    alg = learner.alg
    with torch.no_grad():
        collect(learner.env, alg, cfg, lambda *_: None)
        for parameter in (*alg.actor.parameters(), *alg.critic.parameters()):
            parameter += 0.2 * torch.randn_like(parameter)
    storage = alg.storage
    names = ("observations", "actions", "values", "returns", "advantages", "actions_log_prob")
    kept = {name: getattr(storage, name).clone() for name in names}
    parameters = [*alg.actor.parameters(), *alg.critic.parameters()]
    losses = alg.update()
    wanted = [parameter.grad.clone() for parameter in parameters]

    alg.optimizer.zero_grad()
    seen: TensorDict = kept["observations"]
    mean = alg.actor(seen.flatten(0, 1)).view(16, 8, 2)
    (std,) = [one for name, one in alg.actor.named_parameters() if "std" in name]
    values = alg.critic(seen.flatten(0, 1)).view(16, 8)
    output = Output(
        distribution=Gaussian(mean, std.log()), values=values, features=mean, beliefs=mean
    )
    flat = {name: kept[name][..., 0] for name in ("values", "returns", "advantages")}
    batch = Batch(
        obs={},
        **dict.fromkeys(("previous_actions", "actions"), kept["actions"]),
        starts=torch.zeros(16, 8, dtype=torch.bool),
        memory=torch.zeros(8, 0),
        log_probs=kept["actions_log_prob"][..., 0],
        raw_advantages=flat["returns"] - flat["values"],
        **flat,
    )
    settings = {"clip_param": 0.2, "entropy_coef": 0.02, "use_clipped_value_loss": is_clipped}
    own = PPO(value_loss_coef=2.0 * 0.7, **settings)  # it halves the squared error, as AllenAct
    loss, measured = own.loss(0, batch, output)
    loss.backward()
    assert float(measured["surrogate"]) == pytest.approx(losses["surrogate"], rel=1e-4)
    assert 2.0 * float(measured["value"]) == pytest.approx(losses["value"], rel=1e-4)
    assert float(measured["entropy"]) == pytest.approx(losses["entropy"], rel=1e-5)
    assert float(measured["clip_fraction"]) > 0.1
    assert_equal([parameter.grad for parameter in parameters], wanted)


class Policy(nn.Module):
    """Our policy and value, as Stable-Baselines3's."""

    def __init__(self, policy: Any, value: Any) -> None:
        super().__init__()
        self.policy, self.value = policy, value
        self.optimizer = Keeping(self.parameters())  # of a network that plays both roles, once

    def set_training_mode(self, mode: bool) -> None:
        self.train(mode)

    def evaluate_actions(self, obs: torch.Tensor, actions: torch.Tensor) -> tuple[Any, ...]:
        mean, outputs = self.policy.compute({"observations": obs}, "policy")
        distribution = torch.distributions.Normal(mean, outputs["log_std"].exp())
        values = self.value.act({"observations": obs}, role="value")[0]
        density, entropy = distribution.log_prob(actions), distribution.entropy()
        return values, density.sum(1), entropy.sum(1)


def rolled_out(agent: Any) -> dict[str, torch.Tensor]:
    """Return the memory after a rollout of random transitions, before the agent learns from it."""
    agent.enable_training_mode(True)
    num_envs, steps = agent.memory.num_envs, agent.cfg.rollouts
    obs = torch.randn(num_envs, 3)
    for timestep in range(steps):
        when = {"timestep": timestep, "timesteps": 1000}
        with torch.no_grad():
            actions, _ = agent.act(obs, None, **when)
        happens = torch.randint(10, (num_envs, 1))
        following = torch.randn(num_envs, 3)
        agent.record_transition(
            observations=obs,
            states=None,
            actions=actions,
            rewards=torch.randn(num_envs, 1),
            next_observations=following,
            next_states=None,
            terminated=happens == 1,
            truncated=happens == 2,
            infos={},
            **when,
        )
        obs = following
    names = ("observations", "actions", "rewards", "values", "log_prob", "terminated", "truncated")
    return {name: agent.memory.get_tensor_by_name(name).clone() for name in names}


ON_POLICY = [
    *(("ppo", library) for library in ("skrl", "hogwild", "evolution")),
    *(("a2c", library) for library in ("skrl", "hogwild")),
]


@pytest.mark.parametrize(("algorithm", "library"), ON_POLICY)
def test_ppo_and_a2c_learn_as_stable_baselines3s(algorithm: str, library: str):
    """From random transitions, with advantages by its own buffer; PPO after its policy moved on."""
    agent = agent_of(library, algorithm)
    settings = {"mini_batches": 1, "learning_epochs": 1, "grad_norm_clip": 0.0}
    settings |= {"entropy_loss_scale": 0.01, "value_clip": 0.2}
    for name, value in settings.items():
        if hasattr(agent.cfg, name):
            setattr(agent.cfg, name, value)
    kept = rolled_out(agent)
    ended = (kept["terminated"] | kept["truncated"]).squeeze(2)
    steps, num_envs = ended.shape
    if algorithm == "ppo":
        with torch.no_grad():
            for parameter in (*agent.policy.parameters(), *agent.value.parameters()):
                parameter += 0.1 * torch.randn_like(parameter)
    with torch.no_grad():  # private: it is asked when the agent learns
        last = {"observations": agent._current_next_observations}
        last_values = agent.value.act(last, role="value")[0]

    box = spaces.Box(-SCALE, SCALE, (2,), np.float32)
    shape = (steps, Still.observation_space, box, "cpu")
    buffer = RolloutBuffer(*shape, agent.cfg.gae_lambda, 0.99, num_envs)
    buffer.reset()
    buffer.rewards, buffer.values = (kept[key][..., 0].numpy() for key in ("rewards", "values"))
    buffer.episode_starts[1:] = ended[:-1].numpy()
    buffer.compute_returns_and_advantage(last_values, ended[-1].numpy())
    kind = sb3.PPO if algorithm == "ppo" else sb3.A2C
    clips = {"clip_range": agent.cfg.ratio_clip, "clip_range_vf": 0.2} if kind is sb3.PPO else {}
    if kind is sb3.PPO:
        clips |= {"n_epochs": 1, "batch_size": 64}
    given = {"learning_rate": 0.0, "normalize_advantage": True, "ent_coef": 0.01}
    given |= {"vf_coef": getattr(agent.cfg, "value_loss_scale", 1.0), "max_grad_norm": 1e9}
    model = kind("MlpPolicy", Still(box), device="cpu", **given, **clips)
    flat = [kept[key].flatten(0, 1) for key in ("observations", "actions")]
    flat += [kept[key].flatten() for key in ("values", "log_prob")]
    flat += [torch.from_numpy(one).flatten() for one in (buffer.advantages, buffer.returns)]
    buffer.get = lambda batch_size: iter([RolloutBufferSamples(*flat)])
    model.rollout_buffer, model.policy = buffer, Policy(agent.policy, agent.value)
    model._current_progress_remaining = 1.0  # private: which its learn() sets
    model.set_logger(configure(None, []))
    model.train()

    found: list[torch.Tensor] = []

    def keep(optimizer: Any, *_: Any) -> None:
        found.extend(one.grad.clone() for one in optimizer.param_groups[0]["params"])

    (optimizer,) = optimizers(agent).values()
    optimizer.register_step_pre_hook(keep)
    agent.update(timestep=0, timesteps=1000)
    assert_equal(found, model.policy.optimizer.kept)
