"""DQN, DDPG, TD3 and SAC learn the same from a batch as Stable-Baselines3's.

Its own ``train`` runs on our networks: gradients and target networks equal ours. Its actions lie
in -1 to 1, like those of its replay memory.
"""

from __future__ import annotations

import copy
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn
from torch.nn import functional

pytest.importorskip("stable_baselines3", reason="needs stable-baselines3: pip install -e '.[test]'")

import stable_baselines3 as sb3
from stable_baselines3.common.distributions import SquashedDiagGaussianDistribution
from stable_baselines3.common.logger import configure
from stable_baselines3.common.type_aliases import ReplayBufferSamples
from torch.optim import SGD, Optimizer

from envlab.config import merge
from envlab.distributed.context import DistributedContext
from envlab.fast_sac.cfg import FastSacCfg
from envlab.fast_sac.learner import FastSacLearner
from envlab.fast_sac.replay import Batch
from envlab.skrl.library import load_skrl
from tests.peers.test_exploration import SCALE
from tests.peers.test_exploration import agent_of as exploring_agent
from tests.scripted import ScriptedEnv

load_skrl()

from skrl.resources.noises.torch import GaussianNoise  # noqa: E402

BATCH = 32
torch.manual_seed(5)
OBS, NEXT_OBS = torch.randn(2, BATCH, 3)
ACTIONS = 2.0 * torch.rand(BATCH, 2) - 1.0
CHOICES = torch.randint(4, (BATCH, 1))
REWARDS = torch.randn(BATCH, 1)
TERMINATED = torch.rand(BATCH, 1) < 0.3
NOISE = torch.randn(BATCH, 2)
"""Standard normal, wherever an algorithm draws some; 2.5 of smoothing's deviations are clipped."""
TOLERANCE = {"rtol": 1e-3, "atol": 5e-6}


class Still(gymnasium.Env):
    """The environment that Stable-Baselines3 needs; no step is made."""

    observation_space = spaces.Box(-np.inf, np.inf, (3,), np.float32)

    def __init__(self, actions: spaces.Space) -> None:
        self.action_space = actions


class Keeping(SGD):
    """Keeps the gradients of its last step; later losses add to those of the parameters."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters, lr=0.0)
        self.kept: list[torch.Tensor] = []

    def step(self, closure: Any = None) -> None:
        self.kept = [one.grad.clone() for one in self.param_groups[0]["params"]]


class Actor(nn.Module):
    """One of our policies, as theirs: it acts in -1 to 1."""

    def __init__(self, policy: Any) -> None:
        super().__init__()
        self.policy = policy
        self.optimizer = Keeping(policy.parameters())

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        return self.policy.act({"observations": obs})[0] / SCALE

    def action_log_prob(self, obs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        mean, log_std = self.policy.gaussian({"observations": obs})
        log_std = log_std.clamp(-5.0, 2.0)
        drawn = mean + NOISE * log_std.exp()
        distribution = SquashedDiagGaussianDistribution(2).proba_distribution(mean, log_std)
        squashed = drawn.tanh()
        return squashed, distribution.log_prob(squashed, drawn)


class Critics(nn.Module):
    """Our critics, as theirs."""

    def __init__(self, *critics: Any) -> None:
        super().__init__()
        self.critics = nn.ModuleList(critics)
        self.optimizer = Keeping(self.parameters())

    def forward(self, obs: torch.Tensor, actions: torch.Tensor) -> tuple[torch.Tensor, ...]:
        inputs = {"observations": obs, "taken_actions": actions * SCALE}
        return tuple(critic.act(inputs)[0] for critic in self.critics)

    def q1_forward(self, obs: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        return self(obs, actions)[0]


class QNetwork(nn.Module):
    def __init__(self, network: Any) -> None:
        super().__init__()
        self.network = network
        self.optimizer = Keeping(network.parameters())

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        return self.network.act({"observations": obs})[0]

    def set_training_mode(self, mode: bool) -> None:
        self.train(mode)


def agent_of(library: str, algorithm: str) -> Any:
    """Return an agent whose targets differ from its networks, and whose optimizers do not step."""
    agent = exploring_agent(library, algorithm)
    batch = [OBS, None, SCALE * ACTIONS, REWARDS, NEXT_OBS, None, TERMINATED]
    if algorithm in ("dqn", "ddqn"):
        batch[2] = CHOICES
    agent.memory.sample = lambda *_, **__: [batch]
    with torch.no_grad():
        for name, model in agent.models.items():
            if name.startswith("target_"):
                for values in model.parameters():
                    values += 0.1 * torch.randn_like(values)
    for optimizer in optimizers(agent).values():
        for group in optimizer.param_groups:
            group["lr"] = 0.0
    agent._update_counter = 1  # private: the next is one of TD3's policy
    agent.cfg.gradient_steps = 1  # not one for each member
    return agent


def optimizers(agent: Any) -> dict[str, Optimizer]:
    return {name: one for name, one in vars(agent).items() if isinstance(one, Optimizer)}


def gradients_of(agent: Any) -> dict[str, list[torch.Tensor]]:
    """Have an agent learn once; return the gradients that its optimizers were given."""
    found: dict[str, list[torch.Tensor]] = {}

    def keep(optimizer: Optimizer, *_: Any) -> None:
        name = next(name for name, one in optimizers(agent).items() if one is optimizer)
        parameters = optimizer.param_groups[0]["params"]
        found[name] = [parameter.grad.clone() for parameter in parameters]

    for optimizer in optimizers(agent).values():
        optimizer.register_step_pre_hook(keep)
    agent.update(timestep=2000, timesteps=10_000)
    return found


def theirs(kind: Any, actions: spaces.Space, gamma: float, **settings: Any) -> Any:
    """Return an agent of Stable-Baselines3 on our batch."""
    settings |= {"learning_rate": 0.0, "gamma": gamma, "buffer_size": 1, "device": "cpu"}
    model = kind("MlpPolicy", Still(actions), **settings)
    taken = CHOICES if isinstance(actions, spaces.Discrete) else ACTIONS
    samples = ReplayBufferSamples(OBS, taken, NEXT_OBS, TERMINATED.float(), REWARDS)
    model.replay_buffer.sample = lambda *_, **__: samples
    model.set_logger(configure(None, []))
    return model


def assert_equal(ours: list[torch.Tensor], wanted: list[torch.Tensor]) -> None:
    assert len(ours) == len(wanted) > 0
    assert any(float(gradient.abs().max()) > 1e-4 for gradient in wanted)
    for gradient, peer in zip(ours, wanted, strict=True):
        torch.testing.assert_close(gradient, peer, **TOLERANCE)


def assert_followed(agent: Any, *names: str, before: dict[str, Any], tau: float) -> None:
    for name in names:
        for own, old, learned in zip(
            agent.models[f"target_{name}"].parameters(),
            before[f"target_{name}"].parameters(),
            agent.models[name].parameters(),
            strict=True,
        ):
            torch.testing.assert_close(own, (1.0 - tau) * old + tau * learned, **TOLERANCE)


BOX = spaces.Box(-SCALE, SCALE, (2,), np.float32)


@pytest.mark.parametrize("library", ["skrl", "hogwild", "evolution"])
@pytest.mark.parametrize("algorithm", ["td3", "ddpg"])
def test_td3_and_ddpg_learn_as_theirs(
    library: str, algorithm: str, monkeypatch: pytest.MonkeyPatch
):
    normal = lambda noise, size: NOISE * noise.distribution.scale  # noqa: E731
    monkeypatch.setattr(GaussianNoise, "sample", normal)
    monkeypatch.setattr(torch.Tensor, "normal_", lambda own, _, std: own.copy_(NOISE * std))
    agent = agent_of(library, algorithm)
    critics = ["critic_1", "critic_2"] if algorithm == "td3" else ["critic"]
    before = copy.deepcopy(agent.models)
    own = gradients_of(agent)

    settings = {"tau": agent.cfg.polyak}
    if algorithm == "td3" and library == "skrl":  # noise in the units of the actions
        settings |= {"target_policy_noise": 0.2 / SCALE, "target_noise_clip": 0.5 / SCALE}
    model = theirs(
        sb3.TD3 if algorithm == "td3" else sb3.DDPG, BOX, agent.cfg.discount_factor, **settings
    )
    model.actor, model.actor_target = Actor(before["policy"]), Actor(before["target_policy"])
    model.critic = Critics(*(before[name] for name in critics))
    model.critic_target = Critics(*(before[f"target_{name}"] for name in critics))
    model._n_updates = 1  # private: so that their next update is one of the policy, too
    old = copy.deepcopy(before)
    model.train(gradient_steps=1)
    assert_equal(own["critic_optimizer"], model.critic.optimizer.kept)
    assert_equal(own["policy_optimizer"], model.actor.optimizer.kept)
    assert_followed(agent, "policy", *critics, before=old, tau=agent.cfg.polyak)


@pytest.mark.parametrize("library", ["skrl", "hogwild", "evolution"])
def test_sac_learns_as_theirs(library: str, monkeypatch: pytest.MonkeyPatch):
    agent = agent_of(library, "sac")
    with torch.no_grad():
        agent.log_entropy_coefficient.fill_(-1.0)
    # private: of skrl's agent, which has no other face for its coefficient.
    agent._entropy_coefficient = agent.log_entropy_coefficient.detach().exp()
    before = copy.deepcopy(agent.models)
    monkeypatch.setattr(torch, "randn_like", lambda like: NOISE)
    own = gradients_of(agent)

    model = theirs(sb3.SAC, BOX, agent.cfg.discount_factor, tau=agent.cfg.polyak)
    assert model.target_entropy == agent._target_entropy == -2.0  # private: skrl's
    model.actor = Actor(before["policy"])
    model.critic = Critics(before["critic_1"], before["critic_2"])
    model.critic_target = Critics(before["target_critic_1"], before["target_critic_2"])
    with torch.no_grad():
        model.log_ent_coef.fill_(-1.0)
    old = copy.deepcopy(before)
    model.train(gradient_steps=1)
    torch.testing.assert_close(own["entropy_optimizer"], [model.log_ent_coef.grad], **TOLERANCE)
    assert_equal(own["critic_optimizer"], model.critic.optimizer.kept)
    assert_equal(own["policy_optimizer"], model.actor.optimizer.kept)
    assert_followed(agent, "critic_1", "critic_2", before=old, tau=agent.cfg.polyak)


@pytest.mark.parametrize("library", ["skrl", "hogwild", "evolution"])
@pytest.mark.parametrize("algorithm", ["dqn", "ddqn"])
def test_dqn_learns_as_theirs_and_double_dqn_by_its_papers_target(library: str, algorithm: str):
    """Their loss is Huber's, clipped to a norm of 10, as evolution's; skrl's is the square."""
    agent = agent_of(library, algorithm)
    before = copy.deepcopy(agent.models)
    old = copy.deepcopy(before)
    own = gradients_of(agent)
    interval = agent.cfg.target_update_interval
    network, target = QNetwork(before["q_network"]), QNetwork(before["target_q_network"])
    loss = functional.smooth_l1_loss if library == "evolution" else functional.mse_loss
    if algorithm == "ddqn":  # van Hasselt et al. 2016: one network chooses, the other one judges
        with torch.no_grad():
            best = network(NEXT_OBS).argmax(1, keepdim=True)
            judged = target(NEXT_OBS).gather(1, best)
            wanted = REWARDS + agent.cfg.discount_factor * ~TERMINATED * judged
        loss(network(OBS).gather(1, CHOICES), wanted).backward()
        network.optimizer.step()
    else:
        norm = 10.0 if library == "evolution" else 1e9
        gamma = agent.cfg.discount_factor
        model = theirs(sb3.DQN, spaces.Discrete(4), gamma, max_grad_norm=norm)
        model.policy, model.q_net, model.q_net_target = network, network, target
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(functional, "smooth_l1_loss", loss)
            model.train(gradient_steps=1)
    assert_equal(own["optimizer"], network.optimizer.kept)
    follows = agent.cfg.polyak if 2 % interval == 0 else 0.0
    assert_followed(agent, "q_network", before=old, tau=follows)


class FastActor(Actor):
    """FastSAC's policy, as theirs."""

    def action_log_prob(self, obs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        features = self.policy.body(obs)
        mean, log_std = self.policy.mean(features), self.policy.deviation(features).tanh()
        log_std = -5.0 + 2.5 * (log_std + 1.0)
        drawn = mean + NOISE * log_std.exp()
        distribution = SquashedDiagGaussianDistribution(2).proba_distribution(mean, log_std)
        return drawn.tanh(), distribution.log_prob(drawn.tanh(), drawn)


class FastCritics(Critics):
    """FastSAC's two critics in one, as theirs."""

    def forward(self, obs: torch.Tensor, actions: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(self.critics[0].judge(obs, actions).unbind())


def test_fast_sac_of_scalar_critics_learns_as_their_sac(monkeypatch: pytest.MonkeyPatch):
    """Except the temperature, which it learns from the next states."""
    torch.manual_seed(0)
    env = ScriptedEnv(num_envs=4, space=BOX, num_obs=3)
    algorithm = {"q_reduction": "min", "batch_size": BATCH, "tau": 0.1}
    changes = {"critic": {"distributional": False}, "algorithm": algorithm}
    cfg = merge(FastSacCfg(), changes, "agent")
    learner = FastSacLearner(env, cfg, DistributedContext.single("cpu"))
    with torch.no_grad():
        for values in learner.target.parameters():
            values += 0.1 * torch.randn_like(values)
    found: list[list[torch.Tensor]] = []
    # private: gradients are what the optimizers are given
    for optimizer in learner.optimizers.values():
        for group in optimizer.param_groups:
            group["lr"] = 0.0
        optimizer.register_step_pre_hook(
            lambda one, *_: found.append([p.grad.clone() for p in one.param_groups[0]["params"]])
        )
    nets = {"actor": learner.bare_actor, "critics": learner.bare_critics, "target": learner.target}
    before, old = copy.deepcopy(nets), copy.deepcopy(nets)
    monkeypatch.setattr(torch, "randn_like", lambda like: NOISE)
    discounts = 0.99 * ~TERMINATED[:, 0]
    learner.update(Batch(OBS, OBS, ACTIONS, REWARDS[:, 0], discounts, NEXT_OBS, NEXT_OBS))

    model = theirs(sb3.SAC, BOX, 0.99)
    model.actor, model.critic = FastActor(before["actor"]), FastCritics(before["critics"])
    model.critic_target = FastCritics(before["target"])
    model.critic.optimizer = Keeping([p for p in before["critics"].parameters() if p.dim() > 0])
    with torch.no_grad():
        model.log_ent_coef.copy_(before["critics"].log_temperature)
    model.train(gradient_steps=1)
    assert_equal(found[0], model.critic.optimizer.kept)
    assert_equal(found[1], model.actor.optimizer.kept)
    for own, was, learned in zip(
        *(one.parameters() for one in (learner.target, old["target"], learner.bare_critics)),
        strict=True,
    ):
        torch.testing.assert_close(own, 0.9 * was + 0.1 * learned, **TOLERANCE)
