"""An iteration of FastSAC: steps of all environments, and updates after each of them."""

from __future__ import annotations

import contextlib
import copy
import logging
import math
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import nn

from envlab.distributed.context import DistributedContext
from envlab.distributed.ddp import PolicyDDP, settle_buckets
from envlab.envs import BatchedEnv
from envlab.envs.mirror import Mirror
from envlab.errors import CheckpointError
from envlab.fast_sac.cfg import FastSacCfg
from envlab.fast_sac.checks import action_range, check_supported
from envlab.fast_sac.collection import (
    Collector,
    ExplorationNoise,
    ObsScaler,
    RewardScaler,
    Rollout,
    Transitions,
    smoothed,
)
from envlab.fast_sac.networks import Actor, Critics, GaussianActor
from envlab.fast_sac.objective import (
    RecordedSteps,
    critic_loss,
    policy_loss,
    target_values,
    temperature_loss,
)
from envlab.fast_sac.replay import Batch, Replay, check_mirror, mirrored
from envlab.learner import Iteration, Learner, OnStep
from envlab.precision import compute_in, settle_precision
from envlab.sim.recording import NewGraphs, cuda_graphs, records_updates
from envlab.state import State
from envlab.training.overlap import Overlap, StepLog, check_overlap
from envlab.training.plan import RunPlan

logger = logging.getLogger(__name__)

LOSSES = ("critic", "return_min", "return_max")
"""Names of the losses of each update."""
POLICY_LOSSES = ("policy", "entropy", "temperature")
"""Further names, of updates of the policy; td3 has only the first."""
BETAS = (0.9, 0.95)
"""Betas of AdamW, as in FastSAC: past gradients are forgotten sooner."""


class FastSacLearner(Learner):
    """See :class:`envlab.learner.Learner`.

    Attributes:
        actor: The policy, in ``DistributedDataParallel`` if there are several ranks.
        critics: The critics and the temperature, in the same way.
        bare_actor: The policy without ``DistributedDataParallel``.
        bare_critics: The critics without ``DistributedDataParallel``.
        target: The critics that change slowly.
        collector: Takes the steps.
        replay: This rank's replay memory.
        scalers: Scalers of observations by name, pooled over ranks.
        reward_scaler: The scaler of rewards, also pooled over ranks.
        optimizers: The optimizers of the ``actor`` and the ``critic``.
        half_width: Half the width of the actions' range, ``(num_actions,)``.
        middle: The middle of the range.
    """

    STATE = State(per_env=("_returns", "collector.noise.deviations"), parts=("_overlap", "replay"))

    def __init__(
        self,
        env: BatchedEnv,
        cfg: FastSacCfg,
        context: DistributedContext,
        *,
        num_sharing: int | None = None,
    ) -> None:
        """Build networks, optimizers and replay memory.

        Args:
            env: The environments.
            cfg: The agent's configuration.
            context: The process's context.
            num_sharing: Number of processes that share a batch; None: those of the context.

        Raises:
            ConfigurationError: If the configuration cannot train on these environments.
        """
        check_supported(cfg, env)
        if cfg.overlap:
            check_overlap(env)
        self.env, self.cfg, self._context = env, cfg, context
        self._is_sac = cfg.algorithm.name == "sac"
        self._groups = {"obs": "policy"}
        if "critic" in env.obs_buf:
            self._groups["critic_obs"] = "critic"
        sizes = {name: env.obs_buf[group].shape[1] for name, group in self._groups.items()}
        self.half_width, self.middle = action_range(env, cfg)
        self.mirror = Mirror(env) if cfg.algorithm.symmetry else None
        if self.mirror is not None:
            check_mirror(self.mirror, self.half_width, self.middle)
        self._build_networks(sizes)
        self._build_collection(sizes, num_sharing or context.world_size)
        self.num_updates = 0
        self._has_warned = False
        self._losses: list[tuple[bool, torch.Tensor]] = []
        """Of each update: whether it also was of the policy, and its losses."""
        self.recorded: RecordedSteps | None = None
        """Takes gradient steps instead, if they are recorded."""
        if records_updates(cfg.graph, context.device, self._obstacle(), is_main=context.is_main):
            self.record(is_required=cfg.graph == "on")

    def _build_networks(self, sizes: Mapping[str, int]) -> None:
        """Build what learns: networks, scalers and optimizers, from sizes of observations."""
        cfg, context = self.cfg, self._context
        algorithm, device = cfg.algorithm, context.device
        num_actions = len(self.half_width)
        kind = GaussianActor if self._is_sac else Actor
        actor = kind(sizes["obs"], num_actions, cfg.actor).to(device)
        num_critic_obs = sizes.get("critic_obs", sizes["obs"])
        critics = Critics(num_critic_obs, num_actions, cfg.critic, algorithm.init_temperature)
        critics = critics.to(device)
        critics.log_temperature.requires_grad_(self._is_sac)  # else there is no entropy
        dtype = settle_precision(cfg.precision, context)
        for network in (actor, critics):
            compute_in(network, dtype)
        self.target = copy.deepcopy(critics).requires_grad_(False)
        self.scalers = {name: ObsScaler(size, context).to(device) for name, size in sizes.items()}
        self.reward_scaler = RewardScaler(algorithm.gamma, cfg.critic.v_max, context)
        self.reward_scaler.to(device)
        self.bare_actor, self.bare_critics = actor, critics
        self.actor: nn.Module = actor
        self.critics: nn.Module = critics
        if context.is_distributed:
            self.actor, self.critics = PolicyDDP(actor), PolicyDDP(critics)
            for ddp in (self.actor, self.critics):
                settle_buckets(ddp)
            self.target.load_state_dict(critics.state_dict())  # DDP sent rank 0's to all
        self.optimizers = {"actor": self._optimizer(actor), "critic": self._optimizer(critics)}
        self._target_entropy = num_actions * (
            math.log(algorithm.target_std) + 0.5 * math.log(2.0 * math.pi * math.e)
        )

    def _build_collection(self, sizes: Mapping[str, int], num_sharing: int) -> None:
        """Build what takes steps and what keeps them."""
        env, cfg, context = self.env, self.cfg, self._context
        algorithm, device = cfg.algorithm, context.device
        self._overlap: Overlap[Rollout] | None = None
        policy, generator = (self.bare_actor, self.scalers["obs"]), None
        if cfg.overlap:
            self._overlap = Overlap(
                self._collect_ahead,
                lambda: self.collector.follow(*policy),
                lambda state: Rollout.of(state, context),
                Rollout,
                context,
            )
            generator = self._overlap.generator
        is_td3 = not self._is_sac
        self.collector = Collector(
            env,
            self._groups,
            (self.half_width, self.middle),
            copy.deepcopy(policy) if cfg.overlap else policy,
            ExplorationNoise(algorithm, env.num_envs, device, generator) if is_td3 else None,
            generator,
        )
        self.replay = Replay(
            cfg.replay.size,
            env.num_envs,
            sizes,
            num_actions=len(self.half_width),
            gamma=algorithm.gamma,
            n_step=algorithm.n_step,
            device=device,
            num_sharing=context.local_world_size if device.type == "cpu" else 1,
            is_saved=cfg.replay.is_saved,
        )
        self._batch_size = cfg.batch_of(num_sharing)
        self._first_update = cfg.first_update(env.num_envs, num_sharing)
        self._returns = torch.zeros(env.num_envs, device=device)

    def _obstacle(self) -> str | None:
        """Return why gradient steps cannot be recorded, as a part of a sentence."""
        if self._context.is_distributed:
            return "DistributedDataParallel keeps to the stream on which it was made"
        return "agent.overlap uses the GPU at the same time" if self.cfg.overlap else None

    def record(self, new_graphs: NewGraphs = cuda_graphs, *, is_required: bool = False) -> None:
        """Take gradient steps and act by graphs from now on."""
        optimizers = tuple(self.optimizers.values())
        self.recorded = RecordedSteps(
            self.gradient_step, optimizers, new_graphs, is_required=is_required
        )
        self.collector.record(new_graphs, is_required=is_required)

    def _optimizer(self, network: nn.Module) -> torch.optim.Optimizer:
        rate, decay = self.cfg.algorithm.learning_rate, self.cfg.algorithm.weight_decay
        decayed = [parameter for parameter in network.parameters() if parameter.dim() > 0]
        alone = [
            parameter for parameter in network.parameters() if parameter.dim() == 0
        ]  # the temperature
        groups = [{"params": decayed}]
        if alone:
            groups.append({"params": alone, "weight_decay": 0.0})  # type: ignore[dict-item]
        return torch.optim.AdamW(groups, lr=rate, weight_decay=decay, betas=BETAS, fused=True)

    def iterate(self, number: int, on_step: OnStep) -> Iteration:
        start, learn_s = time.perf_counter(), 0.0
        seen: list[dict[str, torch.Tensor]] = []
        returns: list[torch.Tensor] = []
        with self._steps(on_step) as steps:
            for taken in steps:
                self.replay.add(*taken)
                seen.append(taken.before)
                ended = taken.terminated | taken.truncated
                returns.append(self.reward_scaler.returns(self._returns, taken.rewards, ended))
                if self.replay.num_added >= self._first_update:
                    learning = time.perf_counter()
                    self.learn()
                    learn_s += time.perf_counter() - learning
            losses = self.take_losses()
            self.warn_beyond_v_max(losses)
            for name in self._groups:
                samples = torch.cat([obs[name] for obs in seen])
                self.scalers[name].add(samples)
            self.reward_scaler.add(torch.stack(returns))
        return Iteration(
            frames=self.cfg.num_steps_per_env * self.env.num_envs,
            collect_s=time.perf_counter() - start - learn_s,
            learn_s=learn_s,
            learning_rate=self.optimizers["actor"].param_groups[0]["lr"],
            losses=losses,
        )

    @contextlib.contextmanager
    def _steps(self, on_step: OnStep) -> Iterator[Iterable[Transitions]]:
        """Provide the steps of an iteration: taken one by one, or collected ahead."""
        if self._overlap is None:
            yield (self.collector.step(on_step) for _ in range(self.cfg.num_steps_per_env))
            return
        with self._overlap.rollout() as rollout:
            rollout.log.tell(on_step)
            yield rollout.steps

    def _collect_ahead(self) -> Rollout:
        log = StepLog(self._context)
        steps = [self.collector.step(log) for _ in range(self.cfg.num_steps_per_env)]
        return Rollout(steps, log)

    def learn(self) -> None:
        """Update the networks; transitions for all updates are drawn and scaled together."""
        algorithm, size = self.cfg.algorithm, self._batch_size
        batch = self.replay.sample(algorithm.updates_per_step * size)
        if self.mirror is not None:
            batch = mirrored(batch, self.mirror, self._groups)
        batch = self.scaled(batch)
        for number in range(algorithm.updates_per_step):
            rows = slice(number * size, (number + 1) * size)
            self.update(Batch(*(values[rows] for values in batch)))

    def scaled(self, batch: Batch) -> Batch:
        """Return a batch as the networks see it."""
        obs_scaler = self.scalers["obs"]
        obs, next_obs = obs_scaler(batch.obs), obs_scaler(batch.next_obs)
        critic_obs, next_critic_obs = obs, next_obs
        if "critic_obs" in self._groups:
            critic_scaler = self.scalers["critic_obs"]
            critic_obs = critic_scaler(batch.critic_obs)
            next_critic_obs = critic_scaler(batch.next_critic_obs)
        return batch._replace(
            obs=obs,
            critic_obs=critic_obs,
            rewards=batch.rewards * self.reward_scaler.factor,
            next_obs=next_obs,
            next_critic_obs=next_critic_obs,
        )

    def update(self, batch: Batch) -> None:
        """Take a gradient step of critics and temperature, and sometimes of the policy."""
        with_policy = self.num_updates % self.cfg.algorithm.policy_frequency == 0
        step = self.gradient_step if self.recorded is None else self.recorded
        self._losses.append((with_policy, step(batch, with_policy)))
        self.num_updates += 1

    def gradient_step(self, batch: Batch, with_policy: bool) -> torch.Tensor:
        """Take a step without a read on the host; return its losses, those of :data:`LOSSES`."""
        algorithm = self.cfg.algorithm
        is_least = algorithm.q_reduction == "min"
        with torch.no_grad():
            actions, log_probs = self.bare_actor(batch.next_obs)
            if not self._is_sac:
                actions = smoothed(actions, algorithm)
            temperature = self.bare_critics.log_temperature.exp()
            rewards = batch.rewards - batch.discounts * temperature * log_probs
            target, returns = target_values(
                self.target,
                rewards,
                batch.discounts,
                batch.next_critic_obs,
                actions,
                is_least=is_least,
            )
        judged, log_temperature = self.critics(batch.critic_obs, batch.actions)
        loss = judging = critic_loss(judged, target)
        if self._is_sac:
            loss = loss + temperature_loss(log_temperature, log_probs, self._target_entropy)
        self.optimizers["critic"].zero_grad()
        loss.backward()
        self.optimizers["critic"].step()
        losses = [judging, returns.amin(), returns.amax()]
        if with_policy:
            losses += self._update_policy(batch, temperature, is_least)
        with torch.no_grad():
            torch._foreach_lerp_(
                list(self.target.parameters()), list(self.bare_critics.parameters()), algorithm.tau
            )
        return torch.stack(losses).detach()

    def _update_policy(
        self, batch: Batch, temperature: torch.Tensor, is_least: bool
    ) -> list[torch.Tensor]:
        actions, log_probs = self.actor(batch.obs)
        self.bare_critics.requires_grad_(False)  # their gradients would be discarded
        loss = policy_loss(
            self.bare_critics, batch.critic_obs, actions, log_probs, temperature, is_least=is_least
        )
        self.optimizers["actor"].zero_grad()
        loss.backward()
        self.bare_critics.requires_grad_(True)
        self.optimizers["actor"].step()
        return [loss, -log_probs.mean(), temperature] if self._is_sac else [loss]

    def take_losses(self) -> dict[str, float]:
        """Return the iteration's mean losses; the device is read only once."""
        taken, self._losses = self._losses, []
        if not taken:
            return {}
        num_critic, names = len(LOSSES), list(LOSSES)
        parts = [torch.stack([losses[:num_critic] for _, losses in taken]).mean(dim=0)]
        if of_policy := [losses[num_critic:] for with_policy, losses in taken if with_policy]:
            names += POLICY_LOSSES if self._is_sac else POLICY_LOSSES[:1]
            parts.append(torch.stack(of_policy).mean(dim=0))
        return dict(zip(names, self.readings.read(torch.cat(parts)), strict=True))

    def warn_beyond_v_max(self, losses: Mapping[str, float]) -> None:
        """Warn once if returns leave the range of the critics' distributions."""
        v_max = self.cfg.critic.v_max
        low, high = losses.get("return_min", 0.0), losses.get("return_max", 0.0)
        if self._has_warned or not self.cfg.critic.distributional or max(-low, high) <= v_max:
            return
        self._has_warned = True
        if self._context.is_main:
            logger.warning(
                "Returns reach from %.1f to %.1f, in units of the running returns' spread, but "
                "agent.critic.v_max is %.1f: values beyond it are clipped. Set it to %.0f.",
                *(low, high, v_max, math.ceil(1.2 * max(-low, high))),
            )

    def model_state(self) -> dict[str, Any]:
        return {
            "actor": self.bare_actor.state_dict(),
            "critics": self.bare_critics.state_dict(),
            "target": self.target.state_dict(),
            "scalers": {name: one.state_dict() for name, one in self.all_scalers().items()},
            "actor_optimizer": self.optimizers["actor"].state_dict(),
            "critic_optimizer": self.optimizers["critic"].state_dict(),
            "num_updates": self.num_updates,
        }

    def all_optimizers(self) -> list[torch.optim.Optimizer]:
        return list(self.optimizers.values())

    def load_models(self, values: Mapping[str, Any]) -> None:
        state = values["model"]
        try:
            for network, name in (
                (self.bare_actor, "actor"),
                (self.bare_critics, "critics"),
                (self.target, "target"),
            ):
                # Policies of 0.1.0 that ship hold the atoms, which the configuration gives.
                weights = {key: value for key, value in state[name].items() if key != "atoms"}
                network.load_state_dict(weights)
            for name, scaler in self.all_scalers().items():
                scaler.load_state_dict(_scaler_state(state["scalers"][name]))
            self.optimizers["actor"].load_state_dict(state["actor_optimizer"])
            self.optimizers["critic"].load_state_dict(state["critic_optimizer"])
        except (LookupError, RuntimeError, TypeError, ValueError) as error:
            reason = str(error).splitlines()[-1].strip()
            raise CheckpointError(
                f"The checkpoint does not fit the configured networks ({reason}). Use the run's "
                "own configuration: leave out overrides of agent.actor and agent.critic."
            ) from error
        self.num_updates = int(state["num_updates"])
        for optimizer in self.optimizers.values():
            for group in optimizer.param_groups:
                group["capturable"] = False  # that of a GPU's checkpoint
        if self.recorded is not None:
            self.recorded.forget()

    def all_scalers(self) -> dict[str, nn.Module]:
        """Return the normalisers of observations and rewards by name."""
        return {**self.scalers, "reward": self.reward_scaler}

    def on_restore(self) -> None:
        """Warn where a checkpoint had no replay memory."""
        if not self.replay.num_added and self._context.is_main:
            logger.warning(
                "The checkpoint holds no replay memory (agent.replay.is_saved=false): it is filled "
                "again, so the run will not end like an uninterrupted one."
            )


def _scaler_state(saved: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return a scaler's state; version 0.1.0 kept the sum of squared distances from the mean."""
    state = dict(saved)
    if "squares" in state:
        squares, count = state.pop("squares"), state["count"]
        state["running_mean"] = state.pop("mean")
        state["running_var"] = torch.where(count > 0, squares / count.clamp(min=1.0), 1.0)
    return state


def build(plan: RunPlan, env: BatchedEnv, context: DistributedContext) -> FastSacLearner:
    """Return the learner of a settled plan."""
    cfg: FastSacCfg = plan.agent_cfg
    learning = plan.learning_context(context)
    learner = FastSacLearner(env, cfg, learning, num_sharing=context.world_size)
    if cfg.init_at_random_ep_len and env.max_episode_length:
        stream = env.random.stream("initial_episode_length")
        env.episode_length_buf = stream.integers(0, env.max_episode_length)
    return learner
