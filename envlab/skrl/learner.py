"""skrl's iteration, statistics and memories, the same for PyTorch and JAX and on every rank."""

from __future__ import annotations

import abc
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from gymnasium.spaces import Box

from envlab.learner import Curve, Iteration, IterationRecord, Learner, OnStep
from envlab.skrl.cfg import SkrlCfg
from envlab.skrl.env import SkrlEnv, Spaces
from envlab.skrl.library import OFF_POLICY
from envlab.state import Ring, Share, State, dealt_steps


def dealt_memory(
    saved: Sequence[Mapping[str, Any]], share: Share, memory_size: int
) -> dict[str, Any]:
    """Return a share of the memories that several processes saved.

    A memory whose rows are not those of environments, such as AMP's of observations to tell apart,
    is that of the process that had the share's first environment.

    Args:
        saved: ``index``, ``filled``, and ``tensors`` by name, ``(num_steps, num_envs, dim)``; of a
            memory that is not full, rows from ``index`` on do not count.
        share: The process's environments.
        memory_size: Most steps that its memory holds; the newest are kept.
    """
    if any(tensor.shape[1] != share.num_envs_before for tensor in saved[0]["tensors"].values()):
        return dict(saved[0])
    num_steps = [
        next((len(tensor) for tensor in each["tensors"].values()), 0)
        if each["filled"]
        else each["index"]
        for each in saved
    ]
    tensors, kept = {}, 0
    for name in saved[0]["tensors"]:
        rings = [
            Ring(each["tensors"][name][:held], held + each["index"] if each["filled"] else held)
            for each, held in zip(saved, num_steps, strict=True)
        ]
        tensors[name] = dealt_steps(rings, share, memory_size)
        kept = len(tensors[name])
    return {"index": kept % memory_size, "filled": kept == memory_size, "tensors": tensors}


UNEQUAL = ("Stats / ", "Learning / ", "Reward / ", "Episode / ")
"""Tags that are not averaged over ranks: times, and envlab's own measurements."""
DEVIATION = "Policy / Standard deviation"


class SkrlLearner(Learner):
    """Trains skrl's agents; a subclass handles its framework's state.

    Attributes:
        agent: skrl's agent, or several agents as one.
        env: The environments as skrl sees them.
        cfg: The configuration, resolved.
    """

    STATE = State(parts=("memories",))

    def __init__(self, agent: Any, env: SkrlEnv, cfg: SkrlCfg) -> None:
        """Prepare the agent for training, without files written by skrl."""
        self.agent, self.env, self.cfg = agent, env, cfg
        agent.init(trainer_cfg=None)
        # Some algorithms keep their losses only if they write files, at multiples of this number.
        # So it is a number that is never reached.
        agent.write_interval = sys.maxsize
        self._steps = int(cfg.num_steps_per_env or 0)
        self._total = 0
        self._tracked: dict[str, float] = {}

    def start(self, total: int) -> None:
        """See :class:`Learner`."""
        self._total = total
        self.agent.enable_training_mode(True)

    def iterate(self, number: int, on_step: OnStep) -> Iteration:
        """See :class:`Learner`; timesteps count from the start of the first run."""
        begin, learn_s = time.perf_counter(), 0.0
        observations, states = self.env.observe()
        for timestep in range((number - 1) * self._steps, number * self._steps):
            when = {"timestep": timestep, "timesteps": self._total * self._steps}
            self.agent.pre_interaction(**when)
            observations, states = self._interact(observations, states, when, on_step)
            before = time.perf_counter()
            self.agent.post_interaction(**when)
            learn_s += time.perf_counter() - before
        collect_s = time.perf_counter() - begin - learn_s
        self._tracked = summaries(self.agent, self.env.spaces)
        return Iteration(
            frames=self._steps * self.env.env.num_envs,
            collect_s=collect_s,
            learn_s=learn_s,
            learning_rate=self.learning_rate(),
            losses={
                tag: value for tag, value in self._tracked.items() if not tag.startswith(UNEQUAL)
            },
        )

    def curves(self, record: IterationRecord) -> list[Curve]:
        """Return skrl's own curves, over all ranks if that makes a difference."""
        if not self._is_written(record.iteration):
            return []
        own = {tag: value for tag, value in self._tracked.items() if tag.startswith(UNEQUAL[:2])}
        scalars: dict[str, float | None] = {
            "Reward / Total reward (mean)": record.mean_return,
            "Episode / Total timesteps (mean)": record.mean_episode_length,
            "Learning / Learning rate": record.learning_rate,
            **own,
            **record.losses,
            "Stats / Interaction time (ms)": 1000.0 * record.collect_s / self._steps,
        }
        return [Curve(record.iteration * self._steps, scalars)]

    @abc.abstractmethod
    def learning_rate(self) -> float:
        """Return the (policy's) learning rate; the first agent's if there are several."""

    def _interact(
        self, observations: Any, states: Any, when: Mapping[str, int], on_step: OnStep
    ) -> tuple[Any, Any]:
        """Act, step and record; return the observations and states for the next action."""
        with torch.no_grad():
            actions, _ = self.agent.act(observations, states, **when)
            step = self.env.advance(actions)
            on_step(step.returns, step.ended, step.info)
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
        return step.observations, step.states

    @property
    def memories(self) -> dict[str, Any]:
        """The memories that are not overwritten in each iteration."""
        names = ("motion_dataset", "reply_buffer") if self.cfg.algorithm == "amp" else ()
        found = {name: getattr(self.agent, name) for name in names}
        return {"memory": self.agent.memory} if self.cfg.algorithm in OFF_POLICY else found

    def _is_written(self, number: int) -> bool:
        """Return whether ``experiment.write_interval`` requests curves after this iteration."""
        interval = self.cfg.agent["experiment"].write_interval
        if interval == "auto":
            return True
        if interval <= 0:
            return False
        return number * self._steps // interval > (number - 1) * self._steps // interval


def summaries(agent: Any, spaces: Mapping[str, Spaces]) -> dict[str, float]:
    """Return what skrl would write by tag, and clear it, as skrl would then.

    The standard deviation of discrete actions is omitted: it does not exist, and is NaN.
    """
    tracking: dict[str, list[float]] = agent.tracking_data
    has_deviation = all(isinstance(each.action_space, Box) for each in spaces.values())
    found = {
        tag: _summary(tag, values)
        for tag, values in tracking.items()
        if has_deviation or not tag.startswith(DEVIATION)
    }
    tracking.clear()
    return found


def _summary(tag: str, values: list[float]) -> float:
    """Return the value that skrl would write for ``values`` since its last write."""
    if tag.endswith("(min)"):
        return float(min(values))
    return float(max(values)) if tag.endswith("(max)") else float(statistics.fmean(values))
