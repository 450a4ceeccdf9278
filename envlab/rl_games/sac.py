"""rl_games' soft actor-critic, on one process: the library has no distribution for it."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import torch
from rl_games.algos_torch.sac_agent import SACAgent
from rl_games.common.tr_helpers import DefaultRewardsShaper

from envlab.distributed.context import DistributedContext
from envlab.envs import BatchedEnv
from envlab.learner import Curve, Iteration, IterationRecord, Learner, OnStep
from envlab.precision import compute_in, settle_precision
from envlab.rl_games.cfg import RlGamesCfg
from envlab.rl_games.checks import check_vectors, fitting_checkpoint, supported_configuration
from envlab.rl_games.env import RlGamesVecEnv, library_curves, make_agent
from envlab.state import State

OPTIMIZERS = ("actor_optimizer", "critic_optimizer", "log_alpha_optimizer")
MEMORY = ("obses", "next_obses", "actions", "rewards", "dones")
"""Tensors of the replay memory, with a row for each transition."""


class SavedMemory:
    """The filled part of the library's replay memory, as checkpoints hold it."""

    def __init__(self, memory: Any) -> None:
        self._memory = memory

    def state(self) -> dict[str, Any]:
        """Return it on the CPU."""
        memory = self._memory
        size = memory.capacity if memory.full else memory.idx
        rows = {name: getattr(memory, name)[:size].cpu().clone() for name in MEMORY}
        return {"position": memory.idx, "full": memory.full, **rows}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restore what :meth:`state` returned."""
        memory = self._memory
        memory.idx, memory.full = state["position"], state["full"]
        for name in MEMORY:
            getattr(memory, name)[: len(state[name])] = state[name].to(memory.device)


class SacLearner(Learner):
    """rl_games' SAC: its networks, updates and replay memory, in a rollout of our own.

    For an episode ended by a time limit, the library's rollout stores the state before the last
    step as the next one; this one stores the final observation.

    Attributes:
        agent: The library's agent.
        env: The environment as the agent sees it.
        memory: What a checkpoint holds of its replay memory.
    """

    STATE = State(parts=("memory",))

    def __init__(self, env: BatchedEnv, cfg: RlGamesCfg, context: DistributedContext) -> None:
        """Build networks, optimizers and the replay memory.

        Raises:
            ConfigurationError: If rl_games refuses the configuration.
        """
        self.env = RlGamesVecEnv(env, cfg.params.env, has_central_value=False)
        check_vectors(self.env.pack.spaces["obs"])
        with supported_configuration():
            self._shape_rewards = DefaultRewardsShaper(**cfg.params.config.reward_shaper)
            self.agent: Any = make_agent(
                lambda params: SACAgent("run", params), self.env, cfg, context
            )
        compute_in(self.agent.model, settle_precision(cfg.precision, context))
        self.memory = SavedMemory(self.agent.replay_buffer)
        self._step_s = 0.0

    def iterate(self, number: int, on_step: OnStep) -> Iteration:
        agent, self.env.on_step = self.agent, on_step
        agent.epoch_num = number
        losses: dict[str, list[torch.Tensor]] = defaultdict(list)
        start, self._step_s, learn_s = time.perf_counter(), 0.0, 0.0
        obs = self.env.observations()["obs"]
        for _ in range(agent.num_steps_per_episode):
            obs = self._step(obs, explores=number < agent.num_warmup_steps)
            if number >= agent.num_warmup_steps:
                before_updates = time.perf_counter()
                agent.set_train()
                for _ in range(agent.num_updates_per_step):
                    self._update(losses)
                learn_s += time.perf_counter() - before_updates
        agent.frame += agent.num_frames_per_epoch
        return Iteration(
            frames=agent.num_frames_per_epoch,
            collect_s=time.perf_counter() - start - learn_s,
            learn_s=learn_s,
            learning_rate=agent.actor_optimizer.param_groups[0]["lr"],
            losses={
                name: float(torch.stack(values).detach().mean()) for name, values in losses.items()
            },
        )

    def curves(self, record: IterationRecord) -> list[Curve]:
        return library_curves(record, self._step_s, {})

    def model_state(self) -> dict[str, Any]:
        agent = self.agent
        return {
            "networks": agent.model.state_dict(),
            "log_alpha": agent.log_alpha.detach(),
            **{name: getattr(agent, name).state_dict() for name in OPTIMIZERS},
            "updates": agent.update_counter,
            "epoch": agent.epoch_num,
            "frame": agent.frame,
        }

    def all_optimizers(self) -> list[torch.optim.Optimizer]:
        return [getattr(self.agent, name) for name in OPTIMIZERS]

    def load_models(self, values: Mapping[str, Any]) -> None:
        agent, state = self.agent, values["model"]
        with fitting_checkpoint():
            agent.model.load_state_dict(state["networks"])
            for name in OPTIMIZERS:
                getattr(agent, name).load_state_dict(state[name])
        with torch.no_grad():
            agent.log_alpha.copy_(state["log_alpha"])
        agent.update_counter, agent.epoch_num = state["updates"], state["epoch"]
        agent.frame = state["frame"]

    @torch.no_grad()
    def _step(self, obs: torch.Tensor, *, explores: bool) -> torch.Tensor:
        """Step the environments once, store the transition, and return the observations."""
        agent = self.agent
        agent.set_eval()
        shape = agent.env_info["action_space"].shape
        if explores:
            actions = torch.rand((len(obs), *shape), device=obs.device)
            actions = agent.action_low + (agent.action_high - agent.action_low) * actions
        else:
            actions = agent.act(obs.float(), shape, sample=True)
        before_step = time.perf_counter()
        packed, rewards, ended, infos = self.env.step(actions)
        self._step_s += time.perf_counter() - before_step
        next_obs, time_outs = packed["obs"], infos["time_outs"].unsqueeze(1)
        remembered, has_failed = next_obs, ended.unsqueeze(1)
        if "final_obs" in infos:
            remembered = torch.where(time_outs, infos["final_obs"]["obs"], next_obs)
        if agent.value_bootstrap:
            has_failed = has_failed & ~time_outs
        rewards = self._shape_rewards(rewards).unsqueeze(1)
        agent.replay_buffer.add(obs, actions, rewards, remembered, has_failed)
        return next_obs

    def _update(self, losses: dict[str, list[torch.Tensor]]) -> None:
        """Learn from a batch of the replay memory, and record the losses of updated parts."""
        agent = self.agent
        (actor, entropy, alpha, temperature), first, second = agent.update(agent.epoch_num)
        # Only every policy_frequency-th update is for the actor, whose loss is 0 otherwise.
        if agent.update_counter % agent.policy_frequency == 0:
            losses["a_loss"].append(actor)
            losses["entropy"].append(entropy)
            if temperature is not None:  # the temperature may be fixed
                losses["alpha_loss"].append(temperature)
        losses["alpha"].append(alpha)
        losses["c1_loss"].append(first)
        losses["c2_loss"].append(second)
