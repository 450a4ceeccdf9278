"""skrl's interaction loop and its numbers, the same for PyTorch and JAX and on every rank.

It stands in for skrl's trainer, which resets the environments at the start, counts timesteps from 0
after a resume, and hands agents the observation after a reset as the one after the step.
"""

from __future__ import annotations

import abc
import contextlib
import statistics
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from envlab.errors import ConfigurationError
from envlab.rl.command.session import Session
from envlab.rl.learner import Curve, Iteration, IterationRecord, Learner, OnStep
from envlab.rl.skrl.cfg import SkrlCfg

UNEQUAL = ("Stats / ", "Learning / ", "Reward / ", "Episode / ")
"""Tags that are not averaged over ranks: times, and what envlab measures itself."""


@dataclass(kw_only=True)
class Transition:
    """A step of this rank's environments.

    The first group is in the arrays of the framework, or by agent where there are several; the
    second is for :meth:`Training.add_step`.
    """

    rewards: Any
    """``(num_envs, 1)``; the agent may write into it."""
    terminated: Any
    """``(num_envs, 1)``."""
    truncated: Any
    """``(num_envs, 1)``."""
    final_observations: Any
    """Observations after the step and before a reset, ``(num_envs, dim)``."""
    final_states: Any
    """What a critic sees of the same, or None."""
    observations: Any
    """Observations to act on next: of the new episode where one ended."""
    states: Any
    """What a critic sees of the same, or None."""

    returns: torch.Tensor
    """What an episode's return sums up, ``(num_envs,)``; over agents where there are several."""
    ended: torch.Tensor
    """Whether an episode ended, bool ``(num_envs,)``."""
    info: Mapping[str, Any]
    """What the environment returned."""


class SkrlEnv(Protocol):
    """What the loop needs of an environment, beside what skrl's agents do."""

    def observe(self) -> tuple[Any, Any]:
        """Return the current observations and states, without a reset."""

    def advance(self, actions: Any) -> Transition:
        """Make a step."""


class SkrlLearner(Learner):
    """skrl's interaction with the environments; a subclass knows its framework's state.

    Attributes:
        agent: skrl's agent, or its agents as one where there are several.
        env: The environments as skrl sees them.
        cfg: The configuration, resolved.
    """

    def __init__(self, agent: Any, env: SkrlEnv, cfg: SkrlCfg) -> None:
        """Prepare the agent for training; it writes no file of its own."""
        self.agent, self.env, self.cfg = agent, env, cfg
        agent.init(trainer_cfg=None)
        self._steps = int(cfg.num_steps_per_env or 0)
        self._timesteps = 0
        self._seen: tuple[Any, Any] | None = None
        self._tracked: dict[str, float] = {}

    def start(self, total: int) -> None:
        self._timesteps = total * self._steps
        self.agent.enable_training_mode(True)
        self._seen = self.env.observe()

    def iterate(self, number: int, on_step: OnStep) -> Iteration:
        assert self._seen is not None
        start, learn_s, frames = time.perf_counter(), 0.0, 0
        for timestep in range((number - 1) * self._steps, number * self._steps):
            when = {"timestep": timestep, "timesteps": self._timesteps}
            self.agent.pre_interaction(**when)
            step = self._interact(*self._seen, when)
            self._seen = step.observations, step.states
            frames += len(step.ended)
            on_step(step.returns, step.ended, step.info)
            before = time.perf_counter()
            with self._tracking():
                self.agent.post_interaction(**when)
            learn_s += time.perf_counter() - before
        tracked = {tag: _summary(tag, values) for tag, values in self.agent.tracking_data.items()}
        self.agent.tracking_data.clear()  # skrl keeps it for ever where nothing is written
        self._tracked = tracked
        return Iteration(
            frames=frames,
            collect_s=time.perf_counter() - start - learn_s,
            learn_s=learn_s,
            learning_rate=self.learning_rate(),
            losses={tag: tracked[tag] for tag in tracked if not tag.startswith(UNEQUAL)},
        )

    @abc.abstractmethod
    def learning_rate(self) -> float:
        """Return the (policy's) learning rate."""

    def _interact(self, observations: Any, states: Any, when: Mapping[str, int]) -> Transition:
        """Act, step and record."""
        with torch.no_grad():
            actions, _ = self.agent.act(observations, states, **when)
            step = self.env.advance(actions)
            self.agent.record_transition(
                observations=observations,
                states=states,
                actions=actions,
                rewards=step.rewards,
                next_observations=step.final_observations,
                next_states=step.final_states,
                terminated=step.terminated,
                truncated=step.truncated,
                infos=step.info,
                **when,
            )
        return step

    @contextlib.contextmanager
    def _tracking(self) -> Iterator[None]:
        """Let the agent keep its losses, which some algorithms do only where they are written.

        The same number makes every recorded step wait for the device, so it is 0 there; and files
        are written at its multiples, so it is one that is never reached.
        """
        self.agent.write_interval = sys.maxsize
        try:
            yield
        finally:
            self.agent.write_interval = 0

    def curves(self, record: IterationRecord) -> list[Curve]:
        """Return skrl's own curves, over timesteps, where ``experiment.write_interval`` is due."""
        if not self._is_written(record.iteration):
            return []
        return [Curve(record.iteration * self._steps, self._scalars(record, self._tracked))]

    def _is_written(self, number: int) -> bool:
        """Return whether ``experiment.write_interval`` asks for curves after this iteration."""
        interval = self.cfg.agent["experiment"].write_interval
        if interval == "auto":
            return True
        if interval <= 0:
            return False
        return number * self._steps // interval > (number - 1) * self._steps // interval

    def _scalars(
        self, record: IterationRecord, tracked: Mapping[str, float]
    ) -> dict[str, float | None]:
        """Return skrl's own curves, over all ranks where that makes a difference."""
        steps = max(self._steps, 1)
        return {
            "Reward / Total reward (mean)": record.mean_return,
            "Episode / Total timesteps (mean)": record.mean_episode_length,
            "Learning / Learning rate": record.learning_rate,
            **{tag: value for tag, value in tracked.items() if tag.startswith(UNEQUAL[:2])},
            **record.losses,
            "Stats / Interaction time (ms)": 1000.0 * record.collect_s / steps,
        }


def check_algorithm(session: Session, ml_framework: str) -> SkrlCfg:
    """Return a session's configuration, resolved, if its flags and this framework agree with it.

    Raises:
        ConfigurationError: If they do not.
    """
    cfg: SkrlCfg = session.agent_cfg
    asked = getattr(session.flags, "algorithm", None)
    if asked not in (None, cfg.algorithm):
        raise ConfigurationError(
            f"--algorithm is {asked}, but the agent's configuration is of {cfg.algorithm}. Leave "
            "one of them out."
        )
    if cfg.ml_framework != ml_framework:
        raise ConfigurationError(
            f"The agent's configuration is for {cfg.ml_framework}, but {ml_framework} was asked "
            f"for. Give --ml_framework {cfg.ml_framework}."
        )
    return cfg.resolved()


def _summary(tag: str, values: list[float]) -> float:
    """Return what skrl would write of the values since it last wrote."""
    if tag.endswith("(min)"):
        return float(min(values))
    return float(max(values)) if tag.endswith("(max)") else float(statistics.fmean(values))
