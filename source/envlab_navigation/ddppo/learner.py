"""An iteration of DD-PPO: a rollout, which ends early if other ranks wait, and an update."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn, optim

from envlab.distributed.context import DistributedContext
from envlab.distributed.statistics import pooled_moments
from envlab.envs import BatchedEnv
from envlab.errors import CheckpointError
from envlab.learner import Curve, Iteration, IterationRecord, Learner, OnStep
from envlab.state import State
from envlab_navigation.ddppo.cfg import DdppoCfg
from envlab_navigation.ddppo.model import RecurrentActorCritic
from envlab_navigation.ddppo.objective import Gradients, Objective
from envlab_navigation.ddppo.pipeline import PipelineStage, TrainingPipeline
from envlab_navigation.ddppo.preemption import Preemption
from envlab_navigation.ddppo.storage import Observations, Rollouts
from envlab_navigation.ddppo.teacher import Teacher

logger = logging.getLogger(f"envlab.{__name__}")


class DdppoLearner(Learner):
    """A recurrent agent on this rank's environments.

    Attributes:
        model: The agent's network.
        pipeline: The stages of the training.
    """

    STATE = State(per_env=("_memory", "_last_actions", "_starts"), parts=("_teacher",))

    def __init__(
        self,
        env: BatchedEnv,
        cfg: DdppoCfg,
        context: DistributedContext,
        *,
        model: RecurrentActorCritic,
        pipeline: TrainingPipeline,
        preemption: Preemption,
        teacher: Teacher | None = None,
    ) -> None:
        """Build the optimizer and the storage.

        Args:
            env: The environments.
            cfg: The agent's configuration.
            context: The process's context.
            model: The agent's network; see :class:`RecurrentActorCritic`.
            pipeline: The stages to learn by.
            preemption: Decides when rollouts end early.
            teacher: Asks the expert, if a stage needs one.
        """
        self._env, self._cfg, self._context = env, cfg, context
        self.model = model.to(context.device)
        self.pipeline = pipeline
        self._preemption, self._teacher = preemption, teacher
        self.steps_alike = preemption.is_off
        self._gradients = Gradients(Objective(model, pipeline.losses).to(context.device), context)
        self._optimizer: optim.Optimizer = pipeline.optimizer_builder(
            params=self._gradients.parameters
        )
        self._base_rates = [group["lr"] for group in self._optimizer.param_groups]
        self._total = 0
        longest = max(stage.num_steps or 0 for stage in pipeline.pipeline_stages)
        self._rollouts = Rollouts(longest)
        self._memory, self._last_actions, self._starts = self.model.beginning(
            env.num_envs, context.device
        )

    def start(self, total: int) -> None:
        self._total = total

    def iterate(self, number: int, on_step: OnStep) -> Iteration:
        stage = self.pipeline.stage
        assert stage is not None
        start = time.perf_counter()
        self._collect(stage, number, on_step)
        collected = time.perf_counter()
        rank_steps = self._context.gather(self._rollouts.step)
        share = self._rollouts.step * len(rank_steps) / sum(rank_steps)
        self._normalise_advantages(stage)
        rate = self._set_learning_rate(number)
        losses = self._update(stage, share)
        if self.model.normaliser is not None:
            self.model.normaliser.add(self._rollouts["obs/vector"])
        told = {
            "rank_steps": rank_steps,
            "num_steps": stage.num_steps,
            "stage": self.pipeline.stage_number,
            "teacher_forcing": stage.teacher_forcing_share(self.pipeline.stage_steps),
        }
        self.pipeline.advance(sum(rank_steps) * self._env.num_envs)
        return Iteration(
            frames=self._rollouts.step * self._env.num_envs,
            collect_s=collected - start,
            learn_s=time.perf_counter() - collected,
            learning_rate=rate,
            losses=losses,
            details=told,
        )

    @torch.no_grad()
    def _collect(self, stage: PipelineStage, number: int, on_step: OnStep) -> None:
        """Fill the storage with steps of all environments, until others wait for this rank."""
        env, model, gamma = self._env, self.model, stage.gamma
        assert stage.num_steps is not None
        assert gamma is not None
        forcing = stage.teacher_forcing_share(self.pipeline.stage_steps)
        self._rollouts.begin(self._memory)
        self._preemption.start(number, stage.num_steps)
        obs = model.prepare(self._on_device(env.obs_buf))
        for step in range(stage.num_steps):
            output, self._memory = self._step(obs)
            actions = output.distribution.sample()
            advice: dict[str, torch.Tensor] = {}
            if stage.needs_expert and self._teacher is not None:
                advice["expert_actions"] = self._teacher.advise().to(actions.device)
                actions[0] = self._teacher.mix(actions[0], advice["expert_actions"], forcing)
            new_obs, rewards, terminated, truncated, info = env.step(self._for_env(actions[0]))
            ended = terminated | truncated
            on_step(rewards, ended, info)
            before = {"previous_actions": self._last_actions, "starts": self._starts}
            self._last_actions, self._starts = actions[0], ended.to(self._context.device)
            rewards = self._with_time_limits(rewards, truncated, info, gamma)
            self._rollouts.add(
                obs,
                **before,
                **advice,
                actions=actions[0],
                log_probs=output.distribution.log_prob(actions)[0],
                values=output.values[0],
                rewards=rewards,
                ended=self._starts,
            )
            obs = model.prepare(self._on_device(new_obs))
            if self._preemption.should_stop(step):
                break
        self._preemption.finish()
        output, _ = self._step(obs)
        self._rollouts.finish(output.values[0], gamma, stage.gae_lambda if stage.use_gae else None)

    def _step(self, obs: Observations) -> tuple[Any, torch.Tensor]:
        """Return the model's output for one step, ``(1, num_envs, ...)``, and its new memory."""
        obs = {name: values.unsqueeze(0) for name, values in obs.items()}
        last_actions, starts = self._last_actions.unsqueeze(0), self._starts.unsqueeze(0)
        return self.model(obs, last_actions, starts, self._memory)  # type: ignore[no-any-return]

    def _with_time_limits(
        self,
        rewards: torch.Tensor,
        truncated: torch.Tensor,
        info: Mapping[str, Any],
        gamma: float,
    ) -> torch.Tensor:
        """Return rewards plus the expected returns of episodes that a time limit ended."""
        rewards = rewards.to(self._context.device)
        rows = truncated.nonzero()[:, 0]
        if not len(rows):
            return rewards
        final = {name: values[rows] for name, values in info["final_obs"].items()}
        obs = self.model.prepare(self._on_device(final))
        rows = rows.to(self._context.device)
        output, _ = self.model(
            {name: values.unsqueeze(0) for name, values in obs.items()},
            self._last_actions[rows].unsqueeze(0),
            torch.zeros(1, len(rows), dtype=torch.bool, device=rows.device),
            self._memory[rows],
        )
        return rewards.index_add(0, rows, gamma * output.values[0])

    def _normalise_advantages(self, stage: PipelineStage) -> None:
        mean, std = pooled_moments(self._rollouts.raw_advantages, self._context)
        self._rollouts.normalise(mean, std)

    def _set_learning_rate(self, number: int) -> float:
        """Set the optimizer's learning rates for this iteration; return the first."""
        factor = self.pipeline.learning_rate_factor()
        if self._cfg.algorithm.schedule == "linear":
            done = (number - 1) / self._total
            if self.frame_budget is not None:
                done = min(self.pipeline.total_steps / self.frame_budget, 1.0)
            factor *= 1.0 - done
        for group, rate in zip(self._optimizer.param_groups, self._base_rates, strict=True):
            group["lr"] = rate * factor
        return float(self._optimizer.param_groups[0]["lr"])

    def _update(self, stage: PipelineStage, share: float) -> dict[str, float]:
        """Learn from the rollout; return the losses' measures, averaged over the updates.

        They are weighted by this rank's share: the mean over ranks is the mean over samples.
        """
        sums: dict[str, list[torch.Tensor]] = {}
        for component in stage.components:
            for _ in range(component.update_repeats or 1):
                for batch in self._rollouts.minibatches(component.num_mini_batch or 1):
                    measured = self._gradients.compute(
                        batch,
                        self.pipeline.stage_steps,
                        component.losses,
                        stage=(self.pipeline.stage_number, component.uuid),
                        share=share,
                    )
                    norm = nn.utils.clip_grad_norm_(
                        self._gradients.parameters, component.max_grad_norm or float("inf")
                    )
                    self._optimizer.step()
                    for name, value in measured.items():
                        sums.setdefault(name, []).append(value * share)
                    sums.setdefault("grad_norm", []).append(norm)
        return {name: float(torch.stack(values).mean()) for name, values in sums.items()}

    def _on_device(self, obs: Observations) -> Observations:
        return {name: values.to(self._context.device) for name, values in obs.items()}

    def _for_env(self, actions: torch.Tensor) -> torch.Tensor:
        return for_env(actions, self._cfg, self._env)

    def curves(self, record: IterationRecord) -> list[Curve]:
        """Return losses over frames, and the share of steps that was collected."""
        scalars = {f"Loss/{name}": loss for name, loss in record.losses.items()}
        scalars["Perf/collected_share"] = _collected_share(record)
        scalars["Pipeline/stage"] = record.details["stage"] + 1
        scalars["Pipeline/teacher_forcing"] = record.details["teacher_forcing"]
        scalars["Perf/collection_time"] = record.collect_s
        scalars["Perf/learning_time"] = record.learn_s
        return [Curve(record.frames, scalars)]

    def progress(self, record: IterationRecord) -> str:
        """Return stage, learning rate, and the share of steps that was cut off."""
        told = f"learning rate {record.learning_rate:.2g}"
        stages = len(self.pipeline.pipeline_stages)
        if stages > 1:
            told = f"stage {record.details['stage'] + 1} of {stages}, {told}"
        success = record.episode.get("Episode_Info/success")
        if success is not None:
            told = f"success {success:.2f}, {told}"
        if not self.steps_alike:
            told += f", preempted {1.0 - _collected_share(record):.0%}"
        return told

    def is_save_due(self, record: IterationRecord) -> bool:
        """Return whether a stage or its interval in steps has ended."""
        number = record.details["stage"]
        interval = self.pipeline.pipeline_stages[number].save_interval or 0
        before = record.frames - sum(record.details["rank_steps"]) * self._env.num_envs
        has_passed = interval > 0 and record.frames // interval > before // interval
        return has_passed or self.pipeline.stage_number != number

    def is_finished(self, record: IterationRecord) -> bool:
        """Return whether all stages are done; if a criterion ends one early, record that.

        A criterion judges only rollouts of its stage.
        """
        stage = (
            self.pipeline.stage if self.pipeline.stage_number == record.details["stage"] else None
        )
        if stage is not None and stage.early_stopping_criterion is not None:
            metrics = {"mean_return": record.mean_return, **record.losses, **record.episode}
            # Rank 0 asks, because the criterion is user code and may read the clock.
            is_enough = self._context.is_main and stage.early_stopping_criterion(
                stage_steps=self.pipeline.stage_steps,
                total_steps=self.pipeline.total_steps,
                training_metrics=metrics,
            )
            if self._context.broadcast(bool(is_enough)):
                logger.info("Stage %d ends early.", self.pipeline.stage_number + 1)
                self.pipeline.end_stage()
        return self.pipeline.is_finished

    def model_state(self) -> dict[str, Any]:
        return {
            "model": self.model.state_dict(),
            "losses": self._gradients.objective.losses.state_dict(),
            "optimizer": self._optimizer.state_dict(),
            "pipeline": self.pipeline.state(),
        }

    def load_models(self, values: Mapping[str, Any]) -> None:
        state = values["model"]
        try:
            self.model.load_state_dict(state["model"])
            self._gradients.objective.losses.load_state_dict(state["losses"])
            self._optimizer.load_state_dict(state["optimizer"])
        except (KeyError, RuntimeError, ValueError) as error:
            reason = str(error).splitlines()[-1].strip()
            raise CheckpointError(
                f"The checkpoint does not fit the configured network ({reason}). Use the run's "
                "own configuration: leave out overrides of agent.model."
            ) from error
        self.pipeline.set_state(state["pipeline"])
        if self.pipeline.is_finished:
            raise CheckpointError(
                "The checkpoint is of a run whose stages are all done, so it cannot be resumed. "
                "Play it, or give the experiment more steps (max_stage_steps)."
            )


def _collected_share(record: IterationRecord) -> float:
    """Return the share of planned steps that ranks collected before they were stopped."""
    steps = record.details["rank_steps"]
    return float(sum(steps) / (len(steps) * record.details["num_steps"]))


def for_env(actions: torch.Tensor, cfg: DdppoCfg, env: BatchedEnv) -> torch.Tensor:
    """Return actions ``(num_envs, num_actions)`` in an environment's form."""
    if cfg.clip_actions is not None and actions.is_floating_point():
        actions = actions.clamp(-cfg.clip_actions, cfg.clip_actions)
    return actions.to(env.device)
