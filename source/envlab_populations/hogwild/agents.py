"""skrl's agents as a session trains them; their updates are skrl's own."""

from __future__ import annotations

import functools
import sys
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import torch
from gymnasium import spaces
from torch.nn import functional

from envlab.distributed.context import DistributedContext
from envlab.envs.action_use import ActionBound
from envlab.errors import ConfigurationError
from envlab.precision import compute_in, settle_precision
from envlab.skrl.agents import agent_class, make_agent
from envlab.skrl.cfg import SkrlCfg
from envlab.skrl.checks import check_supported, unit_bound
from envlab.skrl.env import SkrlVectorEnv
from envlab.skrl.library import library_errors
from envlab.skrl.torch.memory import QuickMemory
from envlab.skrl.torch.ranks import PooledScaler, join_ranks, pooled_advantages
from envlab_populations.hogwild.baseline import uniform_actions
from envlab_populations.hogwild.cfg import (
    CROSSQ,
    DISCRETE,
    DISCRETE_CROSSQ,
    DISCRETE_SAC,
    RANDOM,
    REINFORCE,
    SARSA,
    HogwildCfg,
)
from envlab_populations.hogwild.crossq import crossq_class, discrete_crossq_class
from envlab_populations.hogwild.discrete_sac import discrete_sac_class
from envlab_populations.hogwild.episodes import EpisodeMemory, with_episodes
from envlab_populations.hogwild.imitation import with_imitation
from envlab_populations.hogwild.networks import make_networks
from envlab_populations.hogwild.prioritized import PrioritizedMemory
from envlab_populations.hogwild.reinforce import reinforce_class
from envlab_populations.hogwild.returns import n_step_advantages
from envlab_populations.hogwild.rewards import RewardNormaliser
from envlab_populations.hogwild.sarsa import sarsa_class
from envlab_populations.hogwild.sharing import (
    make_optimizer,
    optimizers,
    parameters_of,
    replace_optimizer,
)
from envlab_populations.hogwild.value_clip import clipped_losses, with_old_values
from envlab_populations.noise import scale_noise

CONTINUOUS = ("sac", "td3", "ddpg", CROSSQ)
NORMALISER = "reward_normaliser"
TRACKED_UPDATES = 8
"""An off-policy agent records the losses of one in this many updates."""


def action_bound(cfg: HogwildCfg, env: Any) -> ActionBound | None:
    """Return the bound of actions that need one."""
    return unit_bound(cfg.algorithm) if cfg.algorithm in CONTINUOUS else None


def make_session_agent(
    env: Any, cfg: HogwildCfg, context: DistributedContext
) -> tuple[Any, SkrlVectorEnv, SkrlCfg]:
    """Return an agent, its environments as it sees them, and its configuration in skrl's terms.

    Raises:
        ConfigurationError: If the algorithm does not suit the task, or skrl refuses a setting.
    """
    if context.is_distributed:
        raise ConfigurationError(
            f"hogwild was started on {context.world_size} processes of torch.distributed.run, but "
            "starts its sessions itself. Leave --distributed out, and set meta.max_session in a "
            "spec: envlab lab run SPEC NAME train."
        )
    join_ranks(context)
    wrapper = SkrlVectorEnv(env, bounded=cfg.algorithm in CONTINUOUS)
    actions = wrapper.spaces["agent"].action_space
    if not isinstance(actions, spaces.Box | spaces.Discrete):
        raise ConfigurationError(
            f"The task's actions are {type(actions).__name__}, but sessions train on Box and "
            "Discrete only. Train it with skrl's ppo: envlab train skrl."
        )
    if cfg.algorithm in DISCRETE and isinstance(actions, spaces.Discrete):
        cfg = replace(cfg, algorithm=DISCRETE[cfg.algorithm])
    skrl_cfg = cfg.for_skrl(env.num_envs)
    if isinstance(actions, spaces.Discrete) and "policy" in skrl_cfg.models:
        skrl_cfg.models["policy"]["class"] = "CategoricalMixin"
    for role, model in skrl_cfg.models.items():
        if role != "separate":
            model["network"] = []  # not skrl's networks: make_networks checks what they see
    check_supported(skrl_cfg, wrapper, context)
    dtype = settle_precision(cfg.precision, context)
    with library_errors():
        models = make_networks(cfg, wrapper.spaces["agent"], env.device, context)
        for model in models.values():
            compute_in(model, dtype)
        agent = make_agent(
            _session_class(cfg, context, env),
            {"agent": models},
            wrapper,
            skrl_cfg,
            device=env.device,
            memory_class=_memory_class(cfg, env),
            scaler_class=PooledScaler.of(context),
        )
    if cfg.algorithm in ("ddpg", "td3"):
        scale_noise(agent, models["policy"].half_width)
    if cfg.algorithm == RANDOM:
        del agent.checkpoint_modules["optimizer"]
        return agent, wrapper, skrl_cfg
    if cfg.algorithm == SARSA:
        agent.loss = functional.smooth_l1_loss if cfg.loss == "huber" else functional.mse_loss
    if cfg.normalize_rewards or cfg.reward_bounds:
        agent.reward_normaliser = RewardNormaliser(
            env.num_envs,
            agent.cfg.discount_factor,
            cfg.reward_bounds,
            normalises=cfg.normalize_rewards,
        ).to(env.device)
        agent.checkpoint_modules[NORMALISER] = agent.reward_normaliser
    for name, optimizer in list(optimizers(agent)):
        lr = optimizer.param_groups[0]["lr"]
        parameters: Any = parameters_of(optimizer)
        if cfg.critic_learning_rate:
            parameters = [
                {"params": models["policy"].parameters()},
                {"params": models["value"].parameters(), "lr": cfg.critic_learning_rate},
            ]
        own = make_optimizer(cfg.optimizer, parameters, lr, **cfg.optimizer_settings)
        replace_optimizer(agent, name, own)
    return agent, wrapper, skrl_cfg


def _memory_class(cfg: HogwildCfg, env: Any) -> Any:
    if cfg.num_episodes:
        return EpisodeMemory
    replay = cfg.replay
    how = {"use_cer": replay.use_cer, "has_bytes": getattr(env, "has_bytes", False)}
    if replay.alpha > 0.0:
        how |= {"alpha": replay.alpha, "epsilon": replay.epsilon}
        return functools.partial(PrioritizedMemory, **how)
    return functools.partial(QuickMemory, **how)


def _session_class(cfg: HogwildCfg, context: DistributedContext, env: Any) -> Any:
    """Return skrl's class of an algorithm, which learns every ``update_interval`` steps.

    ``update`` uses the name ``F`` for the loss of values alone.
    """
    advantages: Any = functools.partial(pooled_advantages, context=context)
    if cfg.num_step_returns:
        advantages = n_step_advantages(cfg.num_step_returns)
    replacements: dict[str, Any] = {"compute_gae": advantages}
    memories: list[Any] = []
    if cfg.loss == "huber" or cfg.replay.alpha > 0.0 or cfg.value_loss_scale != 1.0:
        replacements["F"] = functools.partial(_losses, cfg, memories)
    agents: list[Any] = []
    if cfg.clip_value_loss:
        replacements["F"] = clipped_losses(agents)
    stock = agent_class(cfg.skrl_algorithm, "torch", replacements)
    if cfg.clip_value_loss:
        stock = with_old_values(stock, agents)
    if cfg.algorithm == RANDOM:
        return _at_random(stock, uniform_actions(env))
    if cfg.algorithm == REINFORCE:
        stock = reinforce_class(stock)
    if cfg.algorithm == DISCRETE_SAC:
        stock = discrete_sac_class(stock, cfg)
    if cfg.algorithm == CROSSQ:
        stock = crossq_class(stock, cfg)
    if cfg.algorithm == DISCRETE_CROSSQ:
        stock = discrete_crossq_class(stock, cfg)
    if cfg.imitation.num_batches:
        stock = with_imitation(stock, cfg.imitation)
    if cfg.num_episodes:
        stock = with_episodes(stock, cfg.num_episodes)
    if cfg.action_policy == "boltzmann":
        stock = _with_boltzmann(stock)
    if cfg.replay.alpha > 0.0 and cfg.algorithm != DISCRETE_SAC:
        stock = _with_memory(stock, memories)
    if cfg.normalize_rewards or cfg.reward_bounds:
        stock = _with_normaliser(stock)
    if cfg.algorithm == SARSA:
        stock = sarsa_class(stock, cfg.num_steps_per_env)
    if not cfg.is_off_policy:
        return stock

    class WithInterval(stock):  # type: ignore[valid-type, misc]
        def post_interaction(self, *, timestep: int, timesteps: int) -> None:
            updates, rest = divmod(timestep + 1, cfg.update_interval)
            if rest == 0:
                self.write_interval = 0 if updates % TRACKED_UPDATES else sys.maxsize
                super().post_interaction(timestep=timestep, timesteps=timesteps)

    return WithInterval


def _losses(cfg: HogwildCfg, memories: list[Any], stock: Any) -> Any:
    """Return torch's functions with the wanted loss, which reports errors to a memory."""
    loss = stock.smooth_l1_loss if cfg.loss == "huber" else stock.mse_loss

    seen: list[torch.Tensor] = []
    num_critics = 2 if cfg.algorithm == "sac" else 1

    def telling(values: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        seen.append(values.detach())
        if len(seen) == num_critics:  # for two critics SLM-Lab takes the error of the smaller value
            for memory in memories:
                memory.learn(targets - functools.reduce(torch.minimum, seen))
            seen.clear()
        result: torch.Tensor = loss(values, targets) * cfg.value_loss_scale
        return result

    return SimpleNamespace(mse_loss=telling)


def _with_memory(stock: Any, memories: list[Any]) -> Any:
    class WithMemory(stock):  # type: ignore[misc]
        def __init__(self, **values: Any) -> None:
            super().__init__(**values)
            memories.append(self.memory)

    return WithMemory


def _with_boltzmann(stock: Any) -> Any:
    class WithBoltzmann(stock):  # type: ignore[misc]
        def act(
            self, observations: Any, states: Any, *, timestep: int, timesteps: int
        ) -> tuple[torch.Tensor, dict[str, Any]]:
            inputs = {
                "observations": self._observation_preprocessor(observations),
                "states": self._state_preprocessor(states),
            }
            values, outputs = self.q_network.act(inputs, role="q_network")
            temperature = self.cfg.exploration_scheduler(timestep, timesteps)
            self.track_data("Exploration / Temperature", temperature)
            return torch.multinomial((values / temperature).softmax(dim=1), 1), outputs

    return WithBoltzmann


def _at_random(stock: Any, act: Any) -> Any:
    class AtRandom(stock):  # type: ignore[misc]
        def act(self, observations: Any, states: Any, **_: Any) -> tuple[Any, dict[str, Any]]:
            return act(observations), {}

        def record_transition(self, **_: Any) -> None:
            """Keep no transition: this agent does not learn."""

        def post_interaction(self, **_: Any) -> None:
            """Do not learn."""

    return AtRandom


def _with_normaliser(stock: Any) -> Any:
    class WithNormaliser(stock):  # type: ignore[misc]
        def record_transition(
            self, *, rewards: Any, terminated: Any, truncated: Any, **rest: Any
        ) -> None:
            rewards = self.reward_normaliser(rewards, terminated, truncated)
            super().record_transition(
                rewards=rewards, terminated=terminated, truncated=truncated, **rest
            )

    return WithNormaliser
