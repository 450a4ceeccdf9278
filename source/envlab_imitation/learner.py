"""An iteration of behaviour cloning: gradient steps, and now and then a rollout."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Mapping
from typing import Any

import torch
from gymnasium import spaces
from torch import nn

from envlab.distributed.context import DistributedContext
from envlab.distributed.ddp import PolicyDDP, settle_buckets
from envlab.envs import BatchedEnv
from envlab.errors import CheckpointError, ConfigurationError
from envlab.learner import Iteration, IterationRecord, Learner, OnStep
from envlab.training.metrics import EpisodeTracker
from envlab.training.plan import RunPlan
from envlab_imitation.cfg import BcCfg
from envlab_imitation.demonstrations import Demonstrations, read_demonstrations
from envlab_imitation.policy import Policy

logger = logging.getLogger(f"envlab.{__name__}")


class BcLearner(Learner):
    """See :class:`envlab.learner.Learner`.

    Attributes:
        demonstrations: This rank's.
        bare_policy: The policy.
        policy: The same, in ``DistributedDataParallel`` if there are several ranks.
        num_updates: Gradient steps so far, which say which batch is the next.
    """

    def __init__(
        self,
        env: BatchedEnv,
        cfg: BcCfg,
        demonstrations: Demonstrations,
        context: DistributedContext,
    ) -> None:
        self.env, self.cfg, self._context = env, cfg, context
        self.demonstrations = demonstrations
        self.bare_policy = make_policy(env, cfg, context)
        self.bare_policy.normalise_by(demonstrations.obs, demonstrations.actions, context)
        self.policy: nn.Module = self.bare_policy
        if context.is_distributed:
            self.policy = PolicyDDP(self.bare_policy)
            settle_buckets(self.policy)
        self._optimizer = torch.optim.AdamW(
            self.bare_policy.parameters(), cfg.learning_rate, weight_decay=cfg.weight_decay
        )
        self.tracker = EpisodeTracker(env.num_envs, env.device)
        self.num_updates, self._num_updates_in_all = 0, 1

    def start(self, total: int) -> None:
        self._num_updates_in_all = total * self.cfg.gradient_steps

    def iterate(self, number: int, on_step: OnStep) -> Iteration:
        start = time.perf_counter()
        losses = torch.stack([self.update() for _ in range(self.cfg.gradient_steps)])
        loss = float(losses.mean())  # waits for the device
        learned = time.perf_counter()
        details: dict[str, Any] = {}
        num_steps = 0
        interval = self.cfg.rollout_interval
        if interval and (number % interval == 0 or self.num_updates >= self._num_updates_in_all):
            num_steps, details = self._roll_out(on_step)
        return Iteration(
            frames=num_steps * self.env.num_envs,
            collect_s=time.perf_counter() - learned,
            learn_s=learned - start,
            learning_rate=self._optimizer.param_groups[0]["lr"],
            losses={"nll": loss},
            details=details,
        )

    def update(self) -> torch.Tensor:
        """Take a gradient step; return this rank's part of the loss, 0-d."""
        cfg, world_size = self.cfg, self._context.world_size
        rows = self.demonstrations.batch(cfg.seed, self.num_updates, cfg.batch_size)
        rows = rows.to(self._context.device)
        obs = {group: values[rows] for group, values in self.demonstrations.obs.items()}
        densities = self.policy(obs, self.demonstrations.actions[rows])
        # Ranks have different numbers of a batch's steps, and the mean is taken over ranks.
        size = min(cfg.batch_size, self.demonstrations.num_steps)
        loss: torch.Tensor = densities.sum() * (world_size / size)
        self._optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.bare_policy.parameters(), cfg.max_grad_norm)
        share = min(1.0, self.num_updates / self._num_updates_in_all)
        for group in self._optimizer.param_groups:
            group["lr"] = cfg.learning_rate * 0.5 * (1.0 + math.cos(math.pi * share))
        self._optimizer.step()
        self.num_updates += 1
        return loss.detach()

    @torch.no_grad()
    def _roll_out(self, on_step: OnStep) -> tuple[int, dict[str, Any]]:
        """Play an episode in each environment; return the number of steps, and the success."""
        env = self.env
        obs, _ = env.reset()
        self.tracker.forget()
        is_first = torch.ones(env.num_envs, dtype=torch.bool, device=env.device)
        success = torch.zeros(2, device=env.device)  # sum, episodes
        for _ in range(env.max_episode_length):  # as many on all ranks
            obs, rewards, terminated, truncated, info = env.step(
                best_actions(self.bare_policy, obs, self._context)
            )
            ended = terminated | truncated
            on_step(rewards, ended, info)
            if "success" in info:
                first = ended & is_first
                success += torch.stack(((info["success"] * first).sum(), first.sum()))
            is_first &= ~ended
        total, count = self._context.sum(success.cpu()).tolist()
        return env.max_episode_length, {"success": total / count} if count else {}

    def progress(self, record: IterationRecord) -> str:
        text = f"loss {record.losses['nll']:.2f}"
        return f"{text}, success {record.details['success']:.2f}" if record.details else text

    def merit(self, record: IterationRecord) -> float | None:
        if self.env.success is None:
            return record.mean_return
        return record.details.get("success")  # None without a rollout

    def model_state(self) -> dict[str, Any]:
        return {
            "policy": self.bare_policy.state_dict(),
            "optimizer": self._optimizer.state_dict(),
            "num_updates": self.num_updates,
            "demonstrations": self.demonstrations.digest,
        }

    def load_models(self, values: Mapping[str, Any]) -> None:
        state = values["model"]
        load_policy(self.bare_policy, state)
        try:
            self._optimizer.load_state_dict(state["optimizer"])
        except (LookupError, ValueError, TypeError) as error:
            raise CheckpointError(f"The checkpoint's optimizer does not fit ({error}).") from error
        self.num_updates = int(state["num_updates"])
        if state["demonstrations"] != self.demonstrations.digest and self._context.is_main:
            logger.warning(
                "%s does not hold the demonstrations that the run has learned from so far. From "
                "here on it learns from these.",
                self.cfg.dataset,
            )


def make_policy(env: BatchedEnv, cfg: BcCfg, context: DistributedContext) -> Policy:
    """Return a new policy for a task.

    Raises:
        ConfigurationError: If there is none for its actions or observations.
    """
    if not isinstance(env.single_action_space, spaces.Box):
        raise ConfigurationError(
            f"The task's actions are choices ({env.single_action_space}), but bc clones real "
            "numbers only. Train it with another library."
        )
    missing = [group for group in cfg.obs_groups if group not in env.obs_buf]
    if missing or not cfg.obs_groups:
        raise ConfigurationError(
            f"agent.obs_groups is {cfg.obs_groups}, but the task observes "
            f"{', '.join(env.obs_buf)}. Name one or several of these."
        )
    obs = {group: env.obs_buf[group] for group in cfg.obs_groups}
    return Policy(obs, env.actions.shape[1], cfg.policy).to(context.device)


def load_policy(policy: Policy, state: Mapping[str, Any]) -> None:
    """Load a checkpoint's policy.

    Raises:
        CheckpointError: If it does not fit.
    """
    try:
        policy.load_state_dict(state["policy"])
    except (LookupError, RuntimeError, TypeError, AttributeError) as error:
        reason = str(error).splitlines()[-1].strip()
        raise CheckpointError(
            f"The checkpoint does not fit the configured network ({reason}). Use the run's own "
            "configuration: leave out overrides of agent.policy and agent.obs_groups."
        ) from error


def best_actions(
    policy: Policy, obs: Mapping[str, torch.Tensor], context: DistributedContext
) -> torch.Tensor:
    """Return the best actions for an environment's observations."""
    groups = (*policy.vectors, *policy.images)
    return policy.best({group: obs[group].to(context.device) for group in groups})


def build(plan: RunPlan, env: BatchedEnv, context: DistributedContext) -> BcLearner:
    """Return the learner of a settled plan."""
    cfg: BcCfg = plan.agent_cfg
    if cfg.rollout_interval and not env.max_episode_length:
        raise ConfigurationError(
            "Episodes of the task have no time limit, so that a rollout would not end. Add "
            "agent.rollout_interval=0."
        )
    make_policy(env, cfg, DistributedContext.single("cpu"))  # which checks the groups
    return BcLearner(env, cfg, read_demonstrations(cfg, plan.task, env, context), context)
